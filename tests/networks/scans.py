"""What the tests of fused scans share: small float32 networks, and comparisons with the plain scan."""

import contextlib
import json
from collections.abc import Callable, Iterator
from functools import lru_cache

import pytest
import torch
from helpers import CASES, flatten, gradients, network, normal, random_state, score
from torch import Tensor

from zoo.cells import cell_class
from zoo.cells.linear import LinearRecurrence
from zoo.cells.matrix import MatrixRecurrence
from zoo.networks.kernels import interface, plans
from zoo.networks.network import Network

BUILT = [kind for kind in interface.candidates() if kind in interface.libraries()]
each_instruction_set = pytest.mark.parametrize("instructions", BUILT, indirect=True)
"""As the topmost decorator it varies fastest, so that a cached result of the plain scan serves all instruction sets."""

PLANNED = [case for case in CASES if plans.plan(network(case).layers[0].forward_direction.cell) is not None]

LINEAR = [case for case, (cell, _) in CASES.items() if issubclass(cell_class(cell), LinearRecurrence)]

MATRIX = [case for case, (cell, _) in CASES.items() if issubclass(cell_class(cell), MatrixRecurrence)]


def small(case: str, **spec: object) -> Network:
    """Return a float32 network whose states stay of the order of one."""
    net = network(case, dtype=torch.float32, **spec)
    growing = ("rin", "antisymmetric", "original", "no_gate", "nbrc")  # from step to step, with their gradients
    most = 0.2 if any(name in case for name in growing) else 1.5
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(min(1.0, most / p.shape[-1] ** 0.5))
    net.backend = "fused"
    return net


def scan_problem(case: str, shape: dict[str, object]) -> tuple[Network, list[object]]:
    """Return a network of the shape and the arguments of `results` for it: an input, initial states and lengths.

    shape: the arguments of `small`, except that "inputs" (default: 2) is a number of features; "batch" and "steps"; and if
    wanted "lengths", True for random ones, and "tbptt_steps".
    """
    spec = {"layers": 2, "inputs": 2, **shape}
    many, lengths, tbptt_steps = spec.pop("batch"), spec.pop("lengths", False), spec.pop("tbptt_steps", None)
    image = (4, 3) if "kernel" in spec else ()
    net = small(case, **{**spec, "inputs": (spec["inputs"], *image)})
    net.tbptt_steps = tbptt_steps
    x = normal(many, spec["steps"], spec["inputs"], *image, dtype=torch.float32)
    ends = torch.randint(1, spec["steps"] + 1, (many,), generator=torch.Generator().manual_seed(3)) if lengths else None
    return net, [x, random_state(net, many) if not image else net.initial_state(many), ends]


def close(actual: object, expected: object, tolerance: float = 3e-5) -> None:
    """Check that tensors are equal to within `tolerance` of the largest entry of each."""
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
    """Return outputs, final states, and the gradients of everything, for one seed of torch's generator.

    bf16: the forward pass under autocast to bfloat16.
    """
    torch.default_generator.manual_seed(0)  # torch.manual_seed takes as long as a small network
    if torch.cuda.is_available():
        torch.cuda.manual_seed(0)
    x = x.detach().clone().requires_grad_()
    state = tuple(tuple(s.detach().to(x.dtype).requires_grad_() for s in part) for part in state)  # type: ignore
    with torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext():
        outputs, final = net.encode(x, state, lengths=lengths)
    of = {"x": x, **dict(net.named_parameters()), **{str(i): s for i, s in enumerate(flatten(state))}}
    return [outputs, final, gradients(score([outputs, *flatten(final)]), of)]


def distance(actual: object, expected: object) -> float:
    """Return the root mean square difference of two results, each tensor relative to its own root mean square."""
    pairs = zip(_tensors(actual), _tensors(expected), strict=True)
    parts = [(a - e).flatten() / (e.square().mean().sqrt() + 1e-9) for a, e in pairs]
    return torch.cat(parts).square().mean().sqrt().item()


@lru_cache(maxsize=1)
def _plain_results(case: str, shape: str) -> list[object]:
    net, arguments = scan_problem(case, json.loads(shape))
    net.backend = "plain"
    return results(net, *arguments)


def check_shared_scan(case: str, shape: dict[str, object], tolerance: float) -> None:
    """Check that a scan which linear cells share gives what the plain scan gives. Arguments: as of `scan_problem`."""
    net, arguments = scan_problem(case, shape)
    net.backend = "auto"
    close(results(net, *arguments), _plain_results(case, json.dumps(shape)), tolerance)


def check_threads(case: str, shape: dict[str, object], threads: int) -> None:
    """Check that a number of threads changes roundings only. case, shape: as of `scan_problem`."""
    net, arguments = scan_problem(case, shape)
    alone = results(net, *arguments)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        close(results(net, *arguments), alone)
    finally:
        torch.set_num_threads(before)


def check_gradients_of_gradients(case: str, shape: dict[str, object]) -> None:
    """Check that both scans agree on them. case, shape: as of `scan_problem`."""
    net, (x, state, ends) = scan_problem(case, shape)

    def slopes(net: Network) -> list[Tensor]:
        leaf = x.detach().clone().requires_grad_()
        outputs, _ = net.encode(leaf, state, lengths=ends)
        (slope,) = torch.autograd.grad(score([outputs]), leaf, create_graph=True)
        return list(gradients(slope.square().sum(), {"x": leaf, **dict(net.named_parameters())}).values())

    check_both_scans(net, slopes)


def check_both_scans(net: Network, compute: Callable[[Network], object], fails: bool = False) -> None:
    """Check that `compute` returns the same with the fused and the plain scan or, if it `fails`, raises the same error."""
    outcomes: list[object] = []
    for backend in ("auto", "plain"):
        net.backend = backend
        try:
            outcomes.append(compute(net))
        except RuntimeError as error:
            if not fails:
                raise
            outcomes.append(type(error))
    if fails:
        assert isinstance(outcomes[0], type)
        assert outcomes[0] is outcomes[1]
    else:
        close(*outcomes)
