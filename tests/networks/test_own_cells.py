"""Cells of a user's own that build on the package's: every scan computes what their steps compute."""

from dataclasses import replace

import pytest
import torch
from helpers import needs_scan
from torch import Tensor, nn
from torch.nn import functional as F

from zoo import build, check_cell
from zoo.cells import CELLS
from zoo.cells.base import Cell, State
from zoo.cells.complex import LRU
from zoo.cells.linear import LinearRecurrence, MinGRU
from zoo.cells.matrix import GLA, MatrixRecurrence
from zoo.cells.projections import Projection, ProjectionFactory
from zoo.cells.structured import S4D
from zoo.errors import CellError, RequestError
from zoo.networks.kernels import diagonal
from zoo.networks.recurrent import RecurrentNetwork


class OneDecay(LinearRecurrence):
    """One gate for all units."""

    inputs = ("h",)

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        a = torch.sigmoid(x.mean(self.axis, keepdim=True))
        return a, (1 - a) * x


class OneInput(LinearRecurrence):
    """One input for all units."""

    inputs = ("a",)

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        a, b = self.coefficients(x)
        return b, a

    def joined(
        self, x: Tensor, state: State, lengths: Tensor | None, tbptt_steps: int | None
    ) -> tuple[Tensor, State, State]:
        return x, state, ()

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        return torch.sigmoid(x), x.mean(self.axis, keepdim=True)


class SharedHeads(MatrixRecurrence):
    """Heads that share keys, or values."""

    inputs = ("q", "k", "v")
    keys, values = 2, 1

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        q, k, v = (self.by_head(part) for part in self.split(x))
        heads = self.axis - 1
        k = k.mean(heads, keepdim=True) if self.keys == 1 else k
        v = v.mean(heads, keepdim=True) if self.values == 1 else v
        return q, k, v, torch.full_like(q, 0.9)


class SharedKeys(SharedHeads):
    keys, values = 1, 2


class ReadS4D(S4D):
    def read(self, c: Tensor, *rest: Tensor) -> Tensor:
        return F.gelu(super().read(c, *rest))


class GatedS4D(S4D):
    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        a, b, *rest = super().coefficients(x)
        return a, torch.tanh(b), *rest


class GatedLRU(LRU):
    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        a, b, *rest = super().coefficients(x)
        return a, torch.tanh(b), *rest


class SquashedMinGRU(MinGRU):
    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = super().step(x, state)
        return (torch.tanh(h),)


class ShiftedMinGRU(MinGRU):
    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        b, a = super().prepare(x)
        return b + 0.5, a


class CappedGLA(GLA):
    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        o, S = super().step(x, state)
        return o, S.clamp(-0.1, 0.1)


class Normalised(Cell):
    """A cell that holds a module of torch's."""

    inputs = ("h",)

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent, self.norm = projection(), nn.LayerNorm(projection.units)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.ones_(self.norm.weight)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        return (torch.tanh(self.norm(self.recurrent(state[0], x[0]))),)


BASES: dict[type[Cell], str] = {
    OneDecay: "gilr", OneInput: "gilr", SharedHeads: "deltanet", SharedKeys: "deltanet", GatedLRU: "lru", ReadS4D: "s4d",
    GatedS4D: "s4d", SquashedMinGRU: "mingru", ShiftedMinGRU: "mingru", CappedGLA: "gla", Normalised: "rnn",
}  # fmt: skip
"""By cell: the one of the package that it is like."""
REWRITTEN = (SquashedMinGRU, ShiftedMinGRU, CappedGLA, Normalised)
"""Cells whose steps are not those that the scan of their base computes."""
each_own = pytest.mark.parametrize("cell", BASES, ids=lambda cls: cls.__name__)


@pytest.fixture(autouse=True)
def _rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls, base in BASES.items():
        row = replace(CELLS[base], path=f"{__name__}:{cls.__name__}")
        if cls is Normalised:
            row = replace(row, options={}, without={"kernel": "the norm is of a vector"})
        monkeypatch.setitem(CELLS, cls.__name__.lower(), row)


@each_own
def test_all_checks_hold(cell: type[Cell]) -> None:
    assert check_cell(cell.__name__.lower(), {"heads": 2} if issubclass(cell, SharedHeads) else None)


@needs_scan
@each_own
def test_a_cell_has_the_scan_that_computes_its_steps(cell: type[Cell]) -> None:
    network = build(f"{cell.__name__.lower()}-1x8", inputs=3, outputs=2, device="cpu")
    network.backend = "fused"
    x = torch.randn(2, 5, 3)
    if cell in REWRITTEN:
        with pytest.raises(RequestError, match="No fused or linear scan can run"):
            network(x)
    else:
        network(x)


def test_check_cell_compares_the_scan_with_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagonal, "rewritten", lambda *_, **__: False)
    with pytest.raises(CellError, match="fails a check: the fast scan of this machine gives what the step gives"):
        check_cell("squashedmingru")


class Scaled(nn.Module):
    """An adapter around a projection."""

    def __init__(self, base: nn.Module, units: int):
        super().__init__()
        self.base, self.gain = base, nn.Parameter(torch.linspace(0.5, 1.5, units))

    def forward(self, s: Tensor, plus: Tensor) -> Tensor:
        return self.base(s) * self.gain + plus


@pytest.mark.parametrize("cell", ["rnn", "cfn", "lem"])
@pytest.mark.parametrize("batch", [2, 3])  # one of them is the number of layers
def test_an_adapter_around_a_projection_is_scanned_by_the_plain_scan(cell: str, batch: int) -> None:
    network = build(f"{cell}-2x8", inputs=3, outputs=2, device="cpu", dtype="float64")
    assert isinstance(network, RecurrentNetwork)
    for layer in network.layers:
        inner = layer.forward_direction.cell
        name, projection = next((n, m) for n, m in inner.named_children() if isinstance(m, Projection))
        setattr(inner, name, Scaled(projection, projection.weight.shape[0]))
    x = torch.randn(batch, 5, 3, dtype=torch.float64)
    found = network(x)
    network.backend = "plain"
    torch.testing.assert_close(found, network(x))
