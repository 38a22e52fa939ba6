"""What the compiled scan leaves to the plain scan: hooks, other methods, transforms, parameters that do not fit."""

from collections.abc import Callable
from functools import partial
from types import MethodType

import pytest
import torch
from helpers import CASES, needs_scan, network, normal, same
from scans import check_both_scans, small
from torch import Tensor, nn
from torch.nn.utils import prune

from zoo.cells import projections
from zoo.cells.base import Cell
from zoo.errors import RequestError
from zoo.networks.kernels import interface
from zoo.networks.network import Network

pytestmark = needs_scan


def test_an_input_map_without_a_bias() -> None:
    net, x = small("lstm", layers=2).eval(), normal(3, 4, 2, dtype=torch.float32)
    net.layers[0].forward_direction.input.bias = None

    def slopes(net: Network) -> list[Tensor]:
        net.zero_grad()
        outputs = net(x)
        outputs.sum().backward()
        return [outputs.detach(), *(p.grad for p in net.parameters() if p.grad is not None)]

    check_both_scans(net, slopes)
    with torch.no_grad():
        check_both_scans(net, lambda net: net.step(x[:, 0])[0])


def test_hooks_of_every_module_see_the_maps() -> None:
    net, x = small("star", layers=2).eval(), normal(3, 4, 2, dtype=torch.float32)
    net.backend, projection = "auto", net.layers[1].forward_direction.cell.recurrent
    seen: list[nn.Module] = []
    with torch.no_grad():
        net.step(x[:, 0])
        for run in (lambda: net(x), lambda: net.step(x[:, 0])):
            seen.clear()
            handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(module))
            try:
                run()
            finally:
                handle.remove()
            assert projection in seen


def refuses(net: Network, call: object) -> None:
    """With "auto" the plain scan runs; with "fused" there is an error."""
    net.backend = "fused"
    with pytest.raises(RequestError, match="No fused or linear scan"):
        call()  # type: ignore[operator]
    net.backend = "auto"
    call()  # type: ignore[operator]


@pytest.mark.parametrize(
    "spec",
    [{"layer_norm": True}, {"zoneout": 0.5}, {"recurrent_dropout": 0.5, "train": True}, {"kernel": 3, "inputs": (2, 3, 3)}],
    ids=lambda spec: next(iter(spec)),
)  # fmt: skip
def test_it_leaves_what_is_more_than_the_equations_to_the_plain_scan(spec: dict[str, object]) -> None:
    net = small("star", layers=1, **spec)
    x = normal(3, 6, *net.interface.input, dtype=torch.float32)
    refuses(net, lambda: net(x))


class Twice(projections.Dense):
    """A map of one's own, as what adapts a trained network puts in the place of its maps."""

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        return 2 * super().product(s, plus)


@pytest.mark.parametrize("change", ["norm", "class", "diagonal", "forward", "product", "step", "direction"])
def test_a_map_of_ones_own_is_left_to_the_plain_scan(change: str) -> None:
    net, x = small("star", layers=1, layer_norm=change == "norm"), normal(3, 6, 2, dtype=torch.float32)
    direction = net.layers[0].forward_direction
    match change:
        case "norm":  # that of the recurrent map stays
            direction.input.norm = None
        case "class":
            direction.cell.recurrent.__class__ = Twice
        case "diagonal":
            direction.cell.recurrent = projections.Diagonal(3, 1, -1, parametrization=torch.tanh)
        case "forward":
            direction.cell.recurrent.forward = lambda s, plus=None: 2 * s + plus  # type: ignore[method-assign]
        case "product":
            direction.cell.recurrent.product = lambda s, plus: 2 * s + plus  # type: ignore[method-assign]
        case "step":
            direction.cell.step = lambda x, state: (2 * x[0][..., :3],)  # type: ignore[method-assign]
        case "direction":
            direction.step = lambda x, state: (2 * x[0][..., :3],)  # type: ignore[method-assign]
    refuses(net, lambda: net(x))


@pytest.mark.parametrize("case", CASES)
def test_a_method_set_on_a_cell_is_called(case: str) -> None:
    # whatever the plain scan calls, a faster one calls, or leaves to it
    net, x = network(case, dtype=torch.float32).eval(), normal(3, 4, 2, dtype=torch.float32)
    cell = net.layers[0].forward_direction.cell
    names = {name for owner in type(cell).__mro__ if issubclass(owner, Cell) for name in vars(owner)}
    methods = {name: method for name in names if isinstance(method := getattr(cell, name), MethodType)}
    called = dict.fromkeys(methods, 0)

    def recorded(name: str, *given: object, **options: object) -> object:
        called[name] += 1
        return methods[name](*given, **options)

    def calls(name: str, run: Callable[[], object], backend: str) -> bool:
        net.backend, before = backend, called[name]
        with torch.no_grad():
            run()
        return called[name] > before

    for name in methods:
        setattr(cell, name, partial(recorded, name))
        for run in (lambda: net(x), lambda: net.step(x[:, 0])):
            assert calls(name, run, "auto") or not calls(name, run, "plain")
        delattr(cell, name)
    assert called["step"]


@pytest.mark.parametrize("case", ["rnn activation=tanh", "mingru candidate=linear", "minlstm candidate=positive"])
def test_a_function_set_on_a_cell_is_called(case: str) -> None:
    net, x = network(case, layers=2, dtype=torch.float32).eval(), normal(3, 4, 2, dtype=torch.float32)
    with torch.no_grad():
        before = net(x), net.step(x[:, 0])[0]
        for layer in net.layers:
            name = "activation" if case.startswith("rnn") else "candidate"
            setattr(layer.forward_direction.cell, name, torch.sin)
        for run, old in zip((lambda: net(x), lambda: net.step(x[:, 0])[0]), before, strict=True):
            net.backend = "auto"
            fast = run()
            net.backend = "plain"
            same(fast, run(), 1e-6)
            assert (fast - old).abs().max() > 1e-3


def test_a_cell_of_ones_own_is_not_taken_for_its_parent() -> None:
    net = small("star", layers=1)
    cell = net.layers[0].forward_direction.cell
    cell.__class__ = type("Mine", (type(cell),), {"step": lambda self, x, state: (2 * x[0],)})
    x = normal(3, 6, 2, dtype=torch.float32)
    refuses(net, lambda: net(x))
    same(net.encode(x)[0], 2 * torch.tanh(net.layers[0].forward_direction.input(x)[..., :3]), 1e-6)


def test_without_a_library_everything_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "library", lambda: None)
    net, x = small("star", layers=1), normal(3, 6, 2, dtype=torch.float32)
    refuses(net, lambda: net(x))


def test_autocast_pruning_and_function_transforms_are_respected() -> None:
    net, x = small("lstm", layers=1), normal(3, 6, 2, dtype=torch.float32)
    with torch.autocast("cpu", torch.float16):
        refuses(net, lambda: net(x))
    net.backend = "plain"
    each = torch.func.vmap(lambda one: net(one[None])[0])(x)
    net.backend = "auto"
    same(torch.func.vmap(lambda one: net(one[None])[0])(x), each, 1e-6)
    assert torch.isfinite(torch.func.jacrev(lambda one: net(one))(x)).all()
    prune.random_unstructured(net.layers[0].forward_direction.cell.recurrent, "weight", amount=0.5)
    refuses(net, lambda: net(x))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_a_trace_records_the_operations_of_the_plain_scan() -> None:
    net, x = small("star", layers=1).eval(), normal(3, 6, 2, dtype=torch.float32)
    net.backend = "auto"
    traced = torch.jit.trace(net, x)
    same(traced(2 * x), net(2 * x), 1e-5)


def test_parameters_may_be_replaced_for_one_call() -> None:
    net, x = small("star", layers=1), normal(3, 6, 2, dtype=torch.float32)
    doubled = {name: 2 * p.detach() for name, p in net.named_parameters()}
    actual = torch.func.functional_call(net, doubled, (x,))
    net.load_state_dict(doubled)
    same(actual, net(x), 1e-6)


@torch.no_grad()
def test_parameters_that_are_not_what_they_were() -> None:
    x = normal(3, 4, 2, dtype=torch.float32)
    for spoil in (
        lambda net: net.layers[0].forward_direction.cell.half(),
        lambda net: setattr(net.layers[0].forward_direction.input, "bias", nn.Parameter(torch.zeros(2))),
        lambda net: setattr(net.layers[1].forward_direction.input, "weight", nn.Parameter(torch.zeros(6, 2))),
        lambda net: setattr(net.layers[1].forward_direction.cell.recurrent, "weight", nn.Parameter(torch.zeros(9, 3))),
        lambda net: setattr(net.head, "weight", nn.Parameter(torch.zeros(2, 3))),
    ):
        net = small("star", layers=2, units=3).eval()
        spoil(net)
        for compute in (lambda net: net(x), lambda net: net.step(x[:, 0])[0]):
            check_both_scans(net, compute, fails=True)


def test_hooks_on_the_backward_pass_of_a_map() -> None:
    net, x = small("star"), normal(3, 4, 2, dtype=torch.float32).requires_grad_()
    seen = []
    net.layers[0].forward_direction.input.register_full_backward_pre_hook(lambda module, slopes: seen.append(slopes))
    net.backend = "auto"
    net(x).sum().backward()
    assert len(seen) == 1
