"""The compiled scan of one layer: every plan, every instruction set that this processor runs, against the plain scan."""

import contextlib
import copy
import ctypes
import functools
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import CASES, flatten, gradients, network, normal, random_state, same, score, stepped
from torch import Tensor, nn
from torch.nn.utils import prune

from zoo.cells import projections
from zoo.errors import RequestError
from zoo.networks.kernels import compiled, interface, plans, streaming
from zoo.networks.network import Network
from zoo.networks.stack import NetworkState, Stack

BUILT = [
    kind for kind in interface.LIBRARIES.get(torch.backends.cpu.get_cpu_capability(), ("generic",))
    if kind in interface.libraries()
]  # fmt: skip
pytestmark = pytest.mark.skipif(not BUILT, reason="no compiler was there when rnnzoo was installed")

PLANNED = [case for case in CASES if plans.plan(network(case).layers[0].forward_direction.cell) is not None]
SHAPES: dict[str, dict[str, object]] = {
    "whole vectors": {"units": 64, "inputs": 1, "steps": 20, "batch": 7, "layers": 2},
    "a part of a vector": {"units": 5, "inputs": 3, "steps": 9, "batch": 2, "layers": 2},
    "several tiles and chunks": {"units": 17, "inputs": 18, "steps": 40, "batch": 53, "layers": 1},
    "batch 1": {"units": 33, "inputs": 2, "steps": 200, "batch": 1, "layers": 1},
    "few steps of one": {"units": 33, "inputs": 40, "steps": 12, "batch": 1, "layers": 1},
    "one step": {"units": 16, "inputs": 64, "steps": 1, "batch": 20, "layers": 3},
    "one step of one": {"units": 19, "inputs": 21, "steps": 1, "batch": 1, "layers": 2},
    "lengths": {"units": 6, "inputs": 2, "steps": 30, "batch": 27, "layers": 2, "lengths": True},
    "lengths, batch 1": {"units": 6, "inputs": 2, "steps": 9, "batch": 1, "layers": 2, "lengths": True},
    "truncated": {"units": 6, "inputs": 2, "steps": 30, "batch": 4, "layers": 2, "truncate": 7},
    "both ways": {"units": 6, "inputs": 2, "steps": 12, "batch": 4, "layers": 2, "bidirectional": "concat"},
    "both ways, lengths": {
        "units": 6, "inputs": 2, "steps": 12, "batch": 4, "layers": 2, "bidirectional": "sum", "lengths": True
    },
    "dropout": {"units": 6, "inputs": 2, "steps": 12, "batch": 4, "layers": 3, "dropout": 0.5, "train": True},
}  # fmt: skip


@pytest.fixture(params=BUILT)
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each library in turn."""
    lib = interface.open_library(interface.libraries()[request.param])
    monkeypatch.setattr(interface, "library", lambda: lib)
    return request.param


def small(case: str, **spec: object) -> Network:
    """A float32 network whose states stay of the order of one."""
    net = network(case, dtype=torch.float32, **spec)
    adds = "rin" in case or "antisymmetric" in case  # to the state, at every step
    most = 0.2 if adds else 1.5
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(min(1.0, most / p.shape[-1] ** 0.5))
    net.backend = "fused"
    return net


def given(case: str, shape: Mapping[str, object]) -> tuple[Network, Tensor, NetworkState, Tensor | None]:
    """A network of a shape, and an input, initial states and lengths for it."""
    spec: dict[str, Any] = dict(shape)
    many, lengths, tbptt_steps = spec.pop("batch"), spec.pop("lengths", False), spec.pop("truncate", None)
    net = small(case, **{**spec, "inputs": (spec["inputs"],)})
    net.tbptt_steps = tbptt_steps
    x = normal(many, spec["steps"], spec["inputs"], dtype=torch.float32)
    ends = torch.randint(1, spec["steps"] + 1, (many,), generator=torch.Generator().manual_seed(3)) if lengths else None
    return net, x, random_state(net, many), ends


def close(actual: object, expected: object, tolerance: float = 3e-5) -> None:
    """Equal to within `tolerance` of the largest entry of each tensor."""
    for a, e in zip(_tensors(actual), _tensors(expected), strict=True):
        scale = max(1.0, e.abs().max().item())
        torch.testing.assert_close(a.double(), e.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def _tensors(values: object) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))
    elif values is not None:
        for value in values:  # type: ignore[attr-defined]
            yield from _tensors(value)


def results(net: Network, x: Tensor, state: object, lengths: Tensor | None, bf16: bool = False) -> list[object]:
    """Outputs, final states, and the gradients of everything, for one seed of torch's generator.

    bf16: the forward pass under autocast to bfloat16.
    """
    torch.manual_seed(0)
    x = x.detach().clone().requires_grad_()
    state = tuple(tuple(s.detach().to(x.dtype).requires_grad_() for s in part) for part in state)  # type: ignore
    with torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext():
        outputs, final = net.encode(x, state, lengths)
    of = {"x": x, **dict(net.named_parameters()), **{str(i): s for i, s in enumerate(flatten(state))}}
    return [outputs, final, gradients(score([outputs, *flatten(final)]), of)]


def test_every_dense_cell_of_the_seed_papers_has_a_plan() -> None:
    cells = {CASES[case][0] for case in PLANNED}
    assert {"rnn", "irnn", "rin", "rin-dt", "lstm", "lstm-f", "lstm-coupled", "gru", "star", "rhn"} <= cells
    assert {"antisymmetric", "antisymmetric-gated", "rnn-soft-orthogonal"} <= cells


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("case", PLANNED)
def test_it_equals_the_plain_scan_in_double_precision(case: str, shape: dict[str, object], instructions: str) -> None:
    net, x, state, ends = given(case, shape)
    exact = copy.deepcopy(net).double()
    exact.backend = "plain"
    # torch has the fewer digits of an exponential's derivative the larger the gradient, so both have it in float32
    for m in exact.modules():
        if isinstance(m, projections.Projection) and m.parametrization:
            m.parametrization = lambda weight, form=m.parametrization: form(weight.float()).double()
    if shape.get("dropout"):  # the masks are drawn in the precision of the network
        exact = copy.deepcopy(net)
        exact.backend = "plain"
    close(results(net, x, state, ends), results(exact, x.to(exact.head.weight.dtype), state, ends))


class Halved(torch.autograd.Function):
    """x W^T, with the operands of this product and of its gradients' rounded to bfloat16."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return halved(x) @ halved(weight).mT

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return halved(g) @ halved(weight), halved(g.flatten(0, -2)).mT @ halved(x.flatten(0, -2))


def halved(x: Tensor) -> Tensor:
    return x.bfloat16().float()


@pytest.mark.parametrize(
    "shape", ["several tiles and chunks", "few steps of one", "one step", "lengths", "truncated", "both ways"]
)
@pytest.mark.parametrize("case", PLANNED)
def test_under_autocast_the_operands_of_products_and_nothing_else_are_bfloat16(
    case: str, shape: str, instructions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, x, state, ends = given(case, SHAPES[shape])
    full = results(net, x, state, ends)
    found = results(net, x, state, ends, bf16=True)
    net.backend = "plain"
    monkeypatch.setattr(
        projections.Dense, "product", lambda own, s, plus: Halved.apply(s, own.matrix) + (0 if plus is None else plus)
    )
    expected = results(net, x, state, ends)
    # numbers that differ in their last place may be rounded apart: never many of them
    assert distance(found, expected) < 0.1 * distance(full, expected)


def test_what_a_scan_keeps_of_autocast_is_that_of_its_forward_pass() -> None:
    net, x = small("lstm", layers=2), normal(3, 6, 2, dtype=torch.float32)
    autocast = functools.partial(torch.autocast, "cpu", torch.bfloat16)

    def slopes(forward: bool, backward: bool, again: bool = False) -> list[Tensor]:
        leaf = x.clone().requires_grad_()
        with autocast(enabled=forward):
            end = net.encode(leaf)[0].sum()
        with autocast(enabled=backward):
            return list(torch.autograd.grad(end, [leaf, *net.parameters()][:4], create_graph=again))

    for again in (False, True):
        for forward in (False, True):
            same(slopes(forward, False, again), slopes(forward, True, again), 0)
    assert distance(slopes(True, True), slopes(False, False)) > 1e-4
    with autocast(), autocast(enabled=False):
        inner = net.encode(x)
    same(inner, net.encode(x), 0)
    with autocast():
        whole = results(net, x, random_state(net, 3), None)
        net.checkpoint_every = 2
        close(results(net, x, random_state(net, 3), None), whole)


def distance(actual: object, expected: object) -> float:
    """The root of the mean square of what two results differ by, each tensor in units of its own."""
    pairs = zip(_tensors(actual), _tensors(expected), strict=True)
    parts = [(a - e).flatten() / (e.square().mean().sqrt() + 1e-9) for a, e in pairs]
    return torch.cat(parts).square().mean().sqrt().item()


@pytest.mark.parametrize("case", PLANNED)
def test_it_is_what_auto_takes(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = small(case, layers=2)
    net.backend = "auto"
    calls = []
    scan = compiled.scan
    monkeypatch.setattr(compiled, "scan", lambda *a: calls.append(a) or scan(*a))
    net(normal(3, 6, 2, dtype=torch.float32))
    assert len(calls) == len(net.layers)


@pytest.mark.parametrize("case", PLANNED)
def test_nan_passes_through_as_in_the_plain_scan(case: str, instructions: str) -> None:
    net = small(case, units=7, layers=2)
    x = normal(4, 6, 2, dtype=torch.float32)
    x[1, 3] = float("nan")
    state = random_state(net, 4)
    plain = copy.deepcopy(net)
    plain.backend = "plain"
    found, expected = results(net, x, state, None), results(plain, x, state, None)
    close(found[:2], expected[:2])
    assert torch.isnan(found[0][1, 3:]).all()
    assert torch.isfinite(found[0][1, :3]).all()
    assert torch.isfinite(found[0][[0, 2, 3]]).all()
    for name in found[2]:
        assert torch.equal(torch.isnan(found[2][name]), torch.isnan(expected[2][name])), name


VALUES = torch.cat([torch.linspace(-120, 120, 4001), torch.linspace(-1, 1, 2001), torch.logspace(-30, 2, 200)])


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_the_functions_of_a_gate_are_exact_to_a_few_units_in_the_last_place(name: str, instructions: str) -> None:
    """tanh(x) is an Elman network that only sees x; sigmoid(x) the transform gate of an RHN whose candidate is one."""
    net = network(
        {"tanh": "rnn activation=tanh", "sigmoid": "rhn"}[name], dtype=torch.float32, layers=1, units=1, inputs=(1,)
    )
    net.backend = "fused"
    layer = net.layers[0].forward_direction
    with torch.no_grad():
        layer.cell.recurrent[0].weight.zero_() if name == "sigmoid" else layer.cell.recurrent.weight.zero_()
        layer.input.weight.copy_(torch.tensor([[0.0], [1.0], [0.0]]) if name == "sigmoid" else torch.ones(1, 1))
        layer.input.bias.copy_(torch.tensor([30.0, 0.0, 0.0]) if name == "sigmoid" else torch.zeros(1))
    found = net.encode(VALUES.reshape(-1, 1, 1))[0].flatten().double()
    exact = getattr(torch, name)(VALUES.double())
    error = (found - exact).abs()
    assert (error <= 6e-7 * exact.abs() + 1e-37).all(), VALUES[error.argmax()]
    assert found.abs().max() <= 1


@pytest.mark.parametrize("case", PLANNED)
def test_infinite_inputs_saturate(case: str, instructions: str) -> None:
    net = small(case, units=7, layers=1)
    x = normal(9, 3, 2, dtype=torch.float32)
    x[0, 1, 0], x[1, 2, 1] = float("inf"), float("-inf")
    found = {}
    for net.backend in ("fused", "plain"):
        net.zero_grad()
        outputs, state = net.encode(x)
        score([outputs, *flatten(state)]).backward()
        found[net.backend] = outputs, state, {n: p.grad for n, p in net.layers.named_parameters()}
    close(found["fused"][:2], found["plain"][:2])
    for name, slope in found["plain"][2].items():
        finite = slope.isfinite()
        assert torch.equal(found["fused"][2][name].isfinite(), finite), name
        close(found["fused"][2][name].where(finite, 0), slope.where(finite, 0))


def test_the_number_of_threads_changes_nothing_but_rounding() -> None:
    net, x = small("lstm", units=40, layers=1), normal(31, 50, 2, dtype=torch.float32)
    state, threads, found = random_state(net, 31), torch.get_num_threads(), []
    try:
        for count in (1, 2, 3, 2):
            torch.set_num_threads(count)
            found.append(results(net, x, state, None))
    finally:
        torch.set_num_threads(threads)
    close(found[1:3], [found[0]] * 2)
    same(found[1], found[3], 0)


@pytest.mark.parametrize("case", PLANNED)
def test_gradients_of_gradients_are_those_of_the_plain_scan(case: str) -> None:
    net, x = small(case, layers=2), normal(3, 6, 2, dtype=torch.float32)
    found = {}
    for net.backend in ("fused", "plain"):
        leaf = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(score([net(leaf)]), leaf, create_graph=True)
        found[net.backend] = gradients(slope.square().sum(), {"x": leaf, **dict(net.named_parameters())})
    close(found["fused"], found["plain"])


@pytest.mark.parametrize("checkpoint_every", [None, 3])
def test_what_shares_weights_with_its_input_counts_them_once(checkpoint_every: int | None) -> None:
    """Where gradients can be differentiated again, and the state comes from the same weights."""
    net, x = small("star", layers=2), normal(3, 8, 2, dtype=torch.float32)

    def slopes(net: Network, again: bool) -> list[Tensor]:
        net.checkpoint_every = checkpoint_every
        _, state = net.encode(x[:, :4])
        outputs, _ = net.encode(x[:, 4:] * state[0][0].sum(), state)
        found = torch.autograd.grad(score([outputs]), list(net.layers.parameters()), create_graph=again)
        return [t.detach() for t in found]

    for again in (False, True):
        both(net, lambda net, again=again: slopes(net, again))


def test_a_gradient_that_never_arrives() -> None:
    net, x = small("star", layers=1), normal(3, 4, 2, dtype=torch.float32)
    net.tbptt_steps = 2

    def slopes(net: Network, frozen: bool) -> list[Tensor | None]:
        net.requires_grad_(not frozen)
        start = tuple(tuple(s.requires_grad_() for s in part) for part in net.initial_state(3))
        outputs, state = net.encode(x, start)
        _, state = net.encode(x, state)
        of = flatten(start) if frozen else list(net.layers.parameters())
        return list(torch.autograd.grad(score([outputs, *flatten(state)]), of, create_graph=True))

    for frozen in (False, True):
        both(net, lambda net, frozen=frozen: slopes(net, frozen))


def test_derivatives_are_of_the_mode_of_the_forward_pass() -> None:
    net, x = small("star", layers=1, recurrent_dropout=0.5), normal(3, 4, 2, dtype=torch.float32).requires_grad_()

    def slope(net: Network) -> Tensor:
        outputs = net.eval()(x)
        net.train()
        return torch.autograd.grad(outputs.sum(), x, create_graph=True)[0].detach()

    both(net, slope)


def test_a_default_device_is_for_new_tensors_only() -> None:
    net, x = small("lstm", layers=2), normal(3, 4, 2, dtype=torch.float32)

    def slopes(net: Network) -> list[Tensor]:
        net.zero_grad()
        loss = net(x).sum()
        with torch.device("meta"):
            loss.backward()
        return [p.grad for p in net.parameters() if p.grad is not None]

    both(net, slopes)


@pytest.mark.parametrize("case", ["lstm", "rhn"])
def test_hooks_of_saved_tensors_may_bring_them_elsewhere(case: str, instructions: str) -> None:
    net, x = small(case, units=20, layers=1), normal(3, 4, 2, dtype=torch.float32)

    def elsewhere(tensor: Tensor) -> Tensor:
        memory = tensor.new_empty(tensor.numel() + 1)
        return memory[1:].view(tensor.shape).copy_(tensor)

    def slopes(net: Network) -> list[Tensor]:
        net.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(elsewhere, lambda tensor: tensor):
            loss = net(x).sum()
        loss.backward()
        return [p.grad for p in net.parameters() if p.grad is not None]

    both(net, slopes)


def test_an_input_map_without_a_bias() -> None:
    net, x = small("lstm", layers=2).eval(), normal(3, 4, 2, dtype=torch.float32)
    net.layers[0].forward_direction.input.bias = None

    def slopes(net: Network) -> list[Tensor]:
        net.zero_grad()
        outputs = net(x)
        outputs.sum().backward()
        return [outputs.detach(), *(p.grad for p in net.parameters() if p.grad is not None)]

    both(net, slopes)
    with torch.no_grad():
        both(net, lambda net: net.step(x[:, 0])[0])


def test_hooks_of_every_module_see_the_maps() -> None:
    net, x = small("star", layers=2).eval(), normal(3, 4, 2, dtype=torch.float32)
    net.backend, map_ = "auto", net.layers[1].forward_direction.cell.recurrent
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
            assert map_ in seen


def test_a_stream_of_weights_that_are_no_parameters() -> None:
    net, x = small("star", layers=1).eval(), normal(3, 4, 2, dtype=torch.float32)
    map_ = net.layers[0].forward_direction.cell.recurrent
    weights = [map_.weight.detach(), 2 * map_.weight.detach()]
    state = tuple(tuple(s.float() for s in part) for part in random_state(net, 3))
    del map_.weight
    with torch.no_grad():
        net.backend = "auto"
        for map_.weight in weights:
            found = net.step(x[:, 0], state)[0]
        net.backend = "plain"
        close(found, net.step(x[:, 0], state)[0])


def test_a_library_of_other_sources_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = small("star", layers=1), normal(3, 4, 2, dtype=torch.float32)
    monkeypatch.setattr(interface, "_digest", lambda: "others")
    with pytest.raises(OSError, match="cannot be loaded: it was built from other sources"):
        interface.open_library(interface.libraries()[BUILT[0]])
    with pytest.warns(RuntimeWarning, match="is not used; see `rnnzoo doctor`"):
        assert interface.library.__wrapped__() is None
    monkeypatch.setattr(interface, "library", lambda: None)
    net.backend = "auto"
    assert net(x).isfinite().all()


SHORT = """
import resource, threading, torch
from helpers import network, normal
net, x = network("lstm", dtype=torch.float32, units=32, layers=1).eval(), normal(64, 20, 2, dtype=torch.float32)
net.backend = "fused"
torch.set_num_threads(1)
alone = net(x)
torch.set_num_threads(4)
torch.ones(10**6).add_(1)  # torch's own threads are there from now on
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 6 * 2**20,) * 2)  # too little for the stack of a thread
try:
    threading.Thread(target=print).start()
    raise SystemExit(77)
except RuntimeError:
    pass
torch.testing.assert_close(net(x), alone)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_where_the_system_has_no_more_threads_one_does_it_all() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT], cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=120
    )
    if done.returncode == 77:
        pytest.skip("there are threads left, of smaller stacks")
    assert done.returncode == 0, done.stderr


def test_short_memory_is_an_error_like_any_other(instructions: str) -> None:
    sizes = {"steps": 1, "batch": 1, "inputs": 1, "units": 2**50, "input_blocks": 2, "blocks": 2, "phases": 1}
    job = interface.NativeJob(cell=b"star", **sizes)
    with pytest.raises(MemoryError, match="not enough memory"):
        interface.library().rnnzoo_forward(ctypes.byref(job))


def test_frozen_weights_and_given_inputs_need_no_gradients() -> None:
    net, x = small("lstm", layers=2), normal(3, 6, 2, dtype=torch.float32)
    expected = results(net, x, random_state(net, 3), None)[2]
    net.layers.requires_grad_(False)
    leaf = x.clone().requires_grad_()
    state = tuple(tuple(s.detach().float() for s in part) for part in random_state(net, 3))
    outputs, final = net.encode(leaf, state)
    close(torch.autograd.grad(score([outputs, *flatten(final)]), leaf)[0], expected["x"])
    net.layers[1].requires_grad_(True)
    outputs, final = net.encode(x, state)
    weight = net.layers[1].forward_direction.cell.recurrent.weight
    close(
        torch.autograd.grad(score([outputs, *flatten(final)]), weight)[0],
        expected["layers.1.directions.0.cell.recurrent.weight"],
    )


def test_only_a_final_state_may_be_asked_for() -> None:
    net, x = small("lstm", layers=1), normal(3, 6, 2, dtype=torch.float32)
    found = {}
    for net.backend in ("fused", "plain"):
        cell = net.encode(x)[1][0][1]
        found[net.backend] = gradients(score([cell]), dict(net.named_parameters()))
    close(found["fused"], found["plain"])


def test_inputs_need_not_lie_together() -> None:
    net, x = small("gru reset=before", layers=1, inputs=(4,)), normal(6, 4, 3, dtype=torch.float32)
    for view in (
        x.transpose(1, 2),
        x.transpose(0, 2).contiguous().transpose(0, 2).transpose(1, 2),
        x[:, :, :1].expand(6, 4, 9).mT,
    ):
        found = net.encode(view)
        net.backend = "plain"
        close(found, net.encode(view))
        net.backend = "fused"


# Where it does not run


def refuses(net: Network, call: object) -> None:
    """With "auto" the plain scan runs; with "fused" there is an error."""
    net.backend = "fused"
    with pytest.raises(RequestError, match="No fused scan"):
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


@pytest.mark.parametrize("change", ["norm", "class", "forward", "product", "step", "way"])
def test_a_map_of_ones_own_is_left_to_the_plain_scan(change: str) -> None:
    net, x = small("star", layers=1, layer_norm=change == "norm"), normal(3, 6, 2, dtype=torch.float32)
    way = net.layers[0].forward_direction
    match change:
        case "norm":  # that of the recurrent map stays
            way.input.norm = None
        case "class":
            way.cell.recurrent.__class__ = Twice
        case "forward":
            way.cell.recurrent.forward = lambda s, plus=None: 2 * s + plus  # type: ignore[method-assign]
        case "product":
            way.cell.recurrent.product = lambda s, plus: 2 * s + plus  # type: ignore[method-assign]
        case "step":
            way.cell.step = lambda x, state: (2 * x[0][..., :3],)  # type: ignore[method-assign]
        case "way":
            way.step = lambda x, state: (2 * x[0][..., :3],)  # type: ignore[method-assign]
    refuses(net, lambda: net(x))


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
    found = torch.func.functional_call(net, doubled, (x,))
    net.load_state_dict(doubled)
    same(found, net(x), 1e-6)


# Streaming


@pytest.mark.parametrize("readout", ["last", "mean", "every"])
@pytest.mark.parametrize("case", PLANNED)
@torch.no_grad()
def test_steps_equal_the_sequence(case: str, readout: str, instructions: str) -> None:
    for many, units in ((1, 19), (40, 16)):
        net = small(case, units=units, layers=3, readout=readout, mean=0.5, std=2.0, standardize=many == 1).eval()
        x = normal(many, 5, 2, dtype=torch.float32)
        found = streaming.stepper(
            None, net.layers, None, x[:, 0].contiguous(), net.initial_state(many)[: len(net.layers)]
        )
        made = any(m.parametrization for m in net.modules() if isinstance(m, projections.Projection))
        assert (found is None) == made  # a matrix made of weights would have to be made anew whenever these change
        whole = net(x)
        found = stepped(net, x)
        close(found[-1], whole[:, -1] if readout == "every" else whole)


@torch.no_grad()
def test_a_stream_sees_every_change_of_the_network() -> None:
    net, x = small("star", layers=2).eval(), normal(1, 2, dtype=torch.float32)

    def check() -> None:
        found = net.step(x)
        net.backend = "plain"
        close(found, net.step(x))
        net.backend = "auto"

    check()
    weight = net.layers[0].forward_direction.cell.recurrent.weight
    weight.mul_(2)
    check()
    weight.data = weight.data * 2
    check()
    weight.data.neg_()
    check()
    net.layers[1].forward_direction.input.weight = nn.Parameter(normal(6, 3, dtype=torch.float32))
    check()
    net.layers[0] = copy.deepcopy(net.layers[0])
    net.layers[0].forward_direction.input.weight.neg_()
    check()
    net.head.bias.data = net.head.bias.data + 1
    check()
    net.head.register_forward_hook(lambda module, args, out: out * 2)
    check()
    net.reset_head(20)
    check()
    net.head = nn.Linear(net.head.in_features, 3, bias=False)
    check()
    nn.utils.parametrizations.weight_norm(net.head)
    check()
    net.layers[1].forward_direction.input.register_forward_hook(lambda module, args, out: out + 1)
    check()
    x = x.double()
    net.double()
    check()


@torch.no_grad()
def test_a_network_that_has_streamed_can_be_copied() -> None:
    net, x = small("lstm", layers=2).eval(), normal(1, 2, dtype=torch.float32)
    logits, state = net.step(x)
    twin = copy.deepcopy(net)
    del net
    same(twin.step(x)[0], logits, 1e-6)
    kept = [s.clone() for s in flatten(state)]
    twin.step(x, state)
    same(flatten(state), kept, 0)  # the old state is the caller's


@torch.no_grad()
def test_threads_may_share_a_network_that_streams() -> None:
    net = small("lstm", units=32, layers=4).eval()
    streams = [normal(1, 400, 2, seed=seed, dtype=torch.float32) for seed in range(3)]
    alone = [torch.stack(stepped(net, x)) for x in streams]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda x: torch.stack(stepped_in_a_thread(net, x)), streams))
    same(together, alone, 0)


def stepped_in_a_thread(net: Network, x: Tensor) -> list[Tensor]:
    with torch.no_grad():  # which is each thread's own
        return stepped(net, x)


@torch.no_grad()
def test_a_stream_takes_columns_of_a_batch() -> None:
    net, x = small("star", layers=2).eval(), normal(3, 4, 2, dtype=torch.float32)
    net.step(x[:, 1])
    assert net._stepper is not None
    close(net.step(x[:, 1])[0], net(x[:, 1:2]))


@pytest.mark.parametrize(
    "change",
    ["zoneout", "shift", "whole shift", "parametrised", "transposed", "head", "bias", "class", "norm", "forward", "product",
     "step", "prepare", "way", "head's forward"],
)  # fmt: skip
@torch.no_grad()
def test_a_stream_sees_more_changes(change: str) -> None:
    net, x = small("star", layers=2, units=3).eval(), normal(1, 2, dtype=torch.float32)
    way = net.layers[1].forward_direction
    if change == "whole shift":
        way.cell.shift = -1
    if change == "bias":
        way.input.bias = None
    if change == "parametrised":
        nn.utils.parametrizations.weight_norm(way.cell.recurrent)
    state = random_state(net, 1)
    state = tuple(tuple(s.float() for s in part) for part in state)
    before = net.step(x, state)[0]
    match change:
        case "zoneout":
            way.zoneout = 0.5
        case "shift":
            way.cell.shift = 1.0
        case "whole shift":
            way.cell.shift = 1
        case "bias":
            way.input.bias = nn.Parameter(torch.ones(6))
        case "class":
            way.cell.__class__ = type("Mine", (type(way.cell),), {"step": lambda self, x, state: (2 * x[0],)})
        case "norm":
            way.cell.recurrent.norm = nn.LayerNorm(3)
        case "forward":
            way.cell.recurrent.forward = lambda s, plus=None: 2 * s  # type: ignore[method-assign]
        case "product":
            way.cell.recurrent.product = lambda s, plus: 2 * s  # type: ignore[method-assign]
        case "step":
            way.cell.step = lambda x, state: (2 * x[0][..., :3],)  # type: ignore[method-assign]
        case "prepare":
            way.cell.prepare = lambda x, prepare=way.cell.prepare: prepare(2 * x)  # type: ignore[method-assign]
        case "way":
            way.step = lambda x, state: (2 * x[0][..., :3],)  # type: ignore[method-assign]
        case "head's forward":
            net.head.forward = lambda h: h[:, :1].repeat(1, 4)  # type: ignore[method-assign]
        case "parametrised":
            way.cell.recurrent.parametrizations.weight.original0.mul_(-3)
        case "transposed":
            way.cell.recurrent.weight = nn.Parameter(way.cell.recurrent.weight.t().clone().t())
            net.step(x, state)
            way.cell.recurrent.weight.mul_(-3)
        case "head":
            net.head.weight = nn.Parameter(normal(3, 4, dtype=torch.float32).t())
    after = net.step(x, state)[0]
    assert not torch.allclose(before, after)
    net.backend = "plain"
    close(after, net.step(x, state)[0])


@pytest.mark.parametrize("units", [2, 64])
@torch.no_grad()
def test_a_stream_of_layers_of_other_widths(units: int) -> None:
    net, x = small("star", layers=2, units=4).eval(), normal(1, 2, dtype=torch.float32)
    net.layers[1] = small("star", layers=1, units=units, inputs=(4,)).layers[0]
    net.head, state, net.backend = nn.Linear(units, 3), None, "auto"
    for _ in range(200):
        logits, state = net.step(x, state)
    net.backend = "plain"
    close(logits, net(x[:, None].expand(1, 200, 2)))
    assert [s.shape for s in flatten(state)] == [(1, 4), (1, units)]


@torch.no_grad()
def test_a_stream_that_other_layers_began_is_refused() -> None:
    net, x = small("star", layers=1, units=4).eval(), normal(1, 2, dtype=torch.float32)
    net.backend = "auto"
    state = net.step(x)[1]
    net.layers.append(small("star", layers=1, units=4, inputs=(4,)).layers[0])
    with pytest.raises(RequestError, match="The state is not one of"):
        net.step(x, state)
    state = net.step(x)[1]
    assert len(state) == 2
    wide, way = (
        small("star", layers=1, units=5, inputs=(4,)).layers[0].forward_direction,
        net.layers[1].forward_direction,
    )
    way.input, way.cell, way.units = wide.input, wide.cell, wide.units
    with pytest.raises(RequestError, match="The state is not one of"):
        net.step(x, state)


@torch.no_grad()
def test_a_state_is_of_the_layers_that_there_are() -> None:
    net, x = small("star", layers=1, units=4).eval(), normal(1, 6, 2, dtype=torch.float32)
    state = net.initial_state(1)
    net.encode(x, state)
    net.layers[0] = small("star", layers=1, units=64).layers[0]
    with pytest.raises(RequestError, match="The state is not one of"):
        net.encode(x, state)
    assert net.encode(x, net.initial_state(1))[0].shape == (1, 6, 64)


# What the compiled scan leaves to torch


def both(net: Network, compute: Callable[[Network], object], fails: bool = False) -> None:
    """`compute` gives the same of the network with either scan; or, if it `fails`, raises the same."""
    found: list[object] = []
    for backend in ("auto", "plain"):
        net.backend = backend
        try:
            found.append(compute(net))
        except RuntimeError as error:
            if not fails:
                raise
            found.append(type(error))
    if fails:
        assert isinstance(found[0], type)
        assert found[0] is found[1]
    else:
        close(*found)


def test_second_derivatives_are_of_the_weights_that_were_used() -> None:
    net, x = small("star", layers=2), normal(2, 4, 2, dtype=torch.float32).requires_grad_()
    other = {name: (2 * p.detach()).requires_grad_() for name, p in net.named_parameters()}

    def slopes(net: Network) -> list[Tensor]:
        loss = torch.func.functional_call(net, other, (x,)).square().sum()
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        return [slope.detach(), *torch.autograd.grad(slope.square().sum(), list(other.values()), allow_unused=True)]

    both(net, slopes)


def test_parametrised_weights_have_all_their_derivatives() -> None:
    net, x = small("star", layers=2), normal(2, 4, 2, dtype=torch.float32)
    map_ = nn.utils.parametrizations.weight_norm(net.layers[0].forward_direction.cell.recurrent)

    def slopes(net: Network) -> tuple[Tensor, ...]:
        of = map_.parametrizations.weight.original1
        (slope,) = torch.autograd.grad(net(x).square().sum(), of, create_graph=True)
        return slope.detach(), *torch.autograd.grad(slope.square().sum(), of)

    both(net, slopes)


def test_many_gradients_at_once() -> None:
    net, x = small("star", layers=2), normal(2, 4, 2, dtype=torch.float32)
    jacobian = functools.partial(torch.autograd.functional.jacobian, inputs=x, vectorize=True)
    both(net, lambda net: jacobian(net))
    net.backend = "auto"
    assert not jacobian(net).requires_grad
    state = net.initial_state(1)
    with torch.no_grad():
        net.step(x[:1, 0], state)
        both(net, lambda net: torch.vmap(lambda one: net.step(one, state)[0])(x[:, :1]))


def test_forward_mode_derivatives() -> None:
    net, x = small("star", layers=2).requires_grad_(False), normal(2, 4, 2, dtype=torch.float32)

    def slope(net: Network, run: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(at, torch.ones_like(at))
            tangent = torch.autograd.forward_ad.unpack_dual(run(dual)).tangent
        assert tangent is not None
        return tangent

    with torch.no_grad():
        both(net, lambda net: slope(net, net, x))
        net.step(x[:, 0])
        both(net, lambda net: slope(net, lambda x_t: net.step(x_t)[0], x[:, 0]))


@torch.no_grad()
def test_numbers_that_lie_in_memory_in_other_ways() -> None:
    net, x = small("lstm", layers=2, inputs=(1,)).eval(), normal(3, 4, 1, dtype=torch.float32)
    turned = torch.complex(x, x).conj().imag  # negated when it is read
    assert turned.is_neg()
    state = random_state(net, 3)
    both(net, lambda net: net(turned))
    both(net, lambda net: net.step(turned[:, 0])[0])
    for dtype in (torch.float64, torch.float16):
        own = tuple(tuple(s.to(dtype) for s in part) for part in state)
        both(net, lambda net, own=own: net.encode(x, own)[0])
        both(net, lambda net, own=own: net.step(x[:, 0], own)[0].float())


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
            both(net, compute, fails=True)


def test_a_state_on_another_device_is_refused() -> None:
    net, x = small("star").eval(), normal(3, 4, 2, dtype=torch.float32)
    state = tuple(tuple(s.to("meta") for s in part) for part in net.initial_state(3))
    for compute in (lambda: net.encode(x, state), lambda: net.step(x[:, 0], state)):
        with pytest.raises(RequestError, match="state is on meta, but small is on cpu"):
            compute()


def test_what_is_written_into_before_the_backward_pass_is_noticed() -> None:
    net, x = small("star"), normal(3, 4, 2, dtype=torch.float32)
    lengths = torch.tensor([2, 3, 4])
    loss = net(x, lengths).sum()
    lengths.fill_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_hooks_on_the_backward_pass_of_a_map() -> None:
    net, x = small("star"), normal(3, 4, 2, dtype=torch.float32).requires_grad_()
    seen = []
    net.layers[0].forward_direction.input.register_full_backward_pre_hook(lambda module, slopes: seen.append(slopes))
    net.backend = "auto"
    net(x).sum().backward()
    assert len(seen) == 1


# Recomputation


@pytest.mark.parametrize("spec", [{}, {"readout": "every", "dropout": 0.3, "train": True}], ids=str)
@pytest.mark.parametrize("backend", ["plain", "auto"])
@pytest.mark.parametrize("lengths", [None, [3, 7, 1]], ids=["whole", "lengths"])
def test_recomputed_gradients_are_the_same(spec: dict[str, object], backend: str, lengths: list[int] | None) -> None:
    net, x = small("lstm", layers=2, steps=7, **spec), normal(3, 7, 2, dtype=torch.float32)
    net.backend = backend
    ends = None if lengths is None else torch.tensor(lengths)
    run = functools.partial(results, net, x, random_state(net, 3), ends)
    if spec.get("dropout"):
        net.dropout.p = 0.0  # the masks of a part are drawn for the part
    expected = run()
    for net.checkpoint_every in (1, 3, 7, 20):
        close(run(), expected)
    net.tbptt_steps, net.checkpoint_every = 2, None
    expected = run()
    net.checkpoint_every = 4
    close(run(), expected)


def test_states_are_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = small("lstm", layers=2, steps=7), normal(3, 7, 2, dtype=torch.float32)
    lengths, scan = [], Stack._scan
    monkeypatch.setattr(Stack, "_scan", lambda *given: lengths.append(given[1].shape[1]) or scan(*given))
    net.checkpoint_every = 3
    loss = net(x).sum()
    assert lengths == [3, 3, 1]
    loss.backward()
    assert sorted(lengths[3:]) == [1, 3, 3]


@pytest.mark.parametrize(
    ("spec", "every", "tbptt_steps"),
    [({"bidirectional": "sum"}, 2, None), ({"recurrent_dropout": 0.1}, 2, None), ({}, 3, 2)],
    ids=["both ways", "recurrent dropout", "truncated elsewhere"],
)
def test_what_cannot_be_recomputed_is_refused(spec: dict[str, object], every: int, tbptt_steps: int | None) -> None:
    net = small("lstm", layers=1, **spec)
    net.checkpoint_every, net.tbptt_steps = every, tbptt_steps
    with pytest.raises(RequestError, match="cannot have checkpoint_every="):
        net(normal(3, 7, 2, dtype=torch.float32))
