"""The scan in Triton that linear cells share against the plain scan: in Triton's interpreter on a CPU and, when asked, on a GPU.

The interpreter composes the steps one by one, so sizes are tiny, and so is a tile. See test_triton.py for how to run on a GPU.
"""

import os

import pytest
import torch
from helpers import normal
from scans import LINEAR, check_both_scans, close, results, scan_problem, small
from torch import Tensor

from zoo.cells.linear import next_state
from zoo.networks import kernels
from zoo.networks.network import Network

os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton", reason="the extra `gpu` is not installed")

from zoo.networks.kernels import diagonal, triton_diagonal

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")  # numpy's

TILE = {"cpu": (4, 8), "cuda": (16, 32)}
"""Steps and lanes of a tile; on a GPU also fewer steps than usual, so that a sequence has several chunks."""


@pytest.fixture(autouse=True)
def tile(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in zip(("CHUNK", "LANES"), TILE[device], strict=True):
        monkeypatch.setattr(triton_diagonal, name, size)


def problem(case: str, device: str, **shape: object) -> tuple[Network, list[object]]:
    """Return what `scan_problem` does, larger on a GPU."""
    if device == "cuda":
        shape |= {name: 9 * shape[name] for name in ("units", "steps", "batch") if shape[name] != 1}
    net, (x, state, ends) = scan_problem(case, {"layers": 1, **shape})
    state = tuple(tuple(s.detach().to(device) for s in layer) for layer in state)
    return net.to(device), [x.to(device), state, ends if ends is None else ends.to(device)]


def agree(net: Network, arguments: list[object]) -> None:
    fused = results(net, *arguments)
    net.backend = "plain"
    close(fused, results(net, *arguments))


@pytest.mark.parametrize("case", LINEAR)
def test_every_linear_cell_equals_the_plain_scan(case: str, device: str, shared: list[str]) -> None:
    agree(*problem(case, device, units=2, steps=5, batch=2, tbptt_steps=3, lengths=True))
    assert len(shared) == 1


SHAPES: dict[str, dict[str, object]] = {
    "one step of one": {"units": 1, "steps": 1, "batch": 1},
    "whole tiles": {"units": 4, "steps": 4, "batch": 2},
    "both ways, lengths": {"units": 2, "steps": 3, "batch": 2, "bidirectional": "sum", "lengths": True},
    "two layers, normalised": {"units": 2, "steps": 2, "batch": 2, "layers": 2, "layer_norm": True},
    "images": {"units": 1, "steps": 2, "batch": 1, "kernel": 3},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("case", ["trnn", "hgrn"])
def test_shapes(case: str, shape: dict[str, object], device: str) -> None:
    agree(*problem(case, device, **shape))


def plain_recurrence(
    a: Tensor, b: Tensor, start: Tensor, lengths: Tensor, tbptt_steps: int | None, complex_state: bool
) -> Tensor:
    """Return what diagonal.Recurrence computes, step by step."""
    states, old = [], start
    for t, b_t in enumerate(b):
        old = old.detach() if tbptt_steps and t and t % tbptt_steps == 0 else old
        new = next_state(a if a.dim() == 1 else a[t], b_t, old, complex_state)
        old = torch.where((t < lengths)[:, None], new, old)
        states.append(old)
    return torch.stack(states)


@pytest.mark.parametrize("tbptt_steps", [None, 1, 3])
@pytest.mark.parametrize("complex_state", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("constant", [False, True], ids=["one a a step", "one a"])
def test_lengths_from_zero_to_more_than_there_are(
    constant: bool, complex_state: bool, tbptt_steps: int | None, device: str
) -> None:
    lengths = torch.tensor([0, 2, 9], device=device)
    shapes = [(2,) if constant else (5, 3, 2), (5, 3, 2), (3, 2)]
    tensors = [normal(*shape, seed=i, dtype=torch.float32).to(device) for i, shape in enumerate(shapes)]

    def values(recurrence) -> list[Tensor]:  # type: ignore[no-untyped-def]
        leaves = [t.clone().requires_grad_() for t in tensors]
        c = recurrence(*leaves, lengths, tbptt_steps, complex_state)
        return [c, *torch.autograd.grad((c * c.detach().cos()).sum(), leaves)]

    close(values(diagonal.Recurrence.apply), values(plain_recurrence))


def test_what_lies_beyond_the_end_is_not_read(device: str) -> None:
    a, b = (normal(5, 2, 2, seed=i, dtype=torch.float32).to(device) for i in range(2))
    start, lengths = normal(2, 2, dtype=torch.float32).to(device), torch.tensor([2, 5], device=device)
    a[2:, 0] = b[2:, 0] = float("nan")
    leaves = [t.requires_grad_() for t in (a, b, start)]
    c = diagonal.Recurrence.apply(a, b, start, lengths, None, False)
    assert all(t.isfinite().all() for t in (c, *torch.autograd.grad(c.sum(), leaves)))


def test_gradients_of_gradients(device: str) -> None:
    net, (x, state, ends) = problem("hgrn", device, units=1, steps=3, batch=2, tbptt_steps=2, lengths=True)

    def second(net: Network) -> list[Tensor]:
        weights = list(net.layers.parameters())
        outputs, _ = net.encode(x, state, lengths=ends)
        actual = torch.autograd.grad(outputs.square().sum(), weights, create_graph=True)
        return list(torch.autograd.grad(sum(g.square().sum() for g in actual), weights, allow_unused=True))

    check_both_scans(net, second)


def test_the_last_step_alone(device: str) -> None:
    net, (x, _, _) = problem(LINEAR[2], device, units=2, steps=5, batch=2, readout="last")
    with torch.no_grad():
        fused = net(x)
        net.backend = "plain"
        close(fused, net(x))


@pytest.mark.parametrize("case", [LINEAR[2], "trnn", "tlstm"])
def test_bfloat16(case: str, device: str) -> None:
    net, (x, state, _) = problem(case, device, units=2, steps=3, batch=2)
    exact = results(net, x, state, None)
    close(results(net.bfloat16(), x.bfloat16(), state, None), exact, 0.05)
    outputs, final = net.encode(x.bfloat16())
    net.backend = "plain"
    expected, expected_final = net.encode(x.bfloat16())
    assert [t.dtype for t in (outputs, *final[0])] == [t.dtype for t in (expected, *expected_final[0])]


def scan_of(case: str, **spec: object) -> object:
    net = small(case, layers=1, inputs=(2,), **spec)
    return kernels.layer_scan(net.layers, normal(3, 1, 2, dtype=torch.float32))


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_who_takes_it(device: str) -> None:
    assert scan_of("trnn", units=4) is diagonal.scan
    assert scan_of("gilr", units=129) is diagonal.scan  # too wide for the scan of its own
    assert scan_of("gilr", units=4, layer_norm=True) is diagonal.scan
    assert scan_of("gilr", units=4) not in (None, diagonal.scan)
    assert scan_of("lstm-peephole peephole=full", units=4) is None
