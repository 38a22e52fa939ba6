"""check_cell: cells of the package hold, and cells with one fault each are refused by the property that it breaks."""

import pytest
import torch
from torch import Tensor, nn

from zoo import build, check_cell
from zoo.cells import CELLS
from zoo.cells.base import Cell, State
from zoo.cells.projections import ProjectionFactory, at_every_step
from zoo.cells.rows import CellRow
from zoo.errors import CellError, RequestError, UnknownNameError
from zoo.networks.checking import CHECKS


class Sound(Cell):
    inputs = ("h",)

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent, self.rate = projection(), nn.Parameter(torch.empty(projection.units))

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.constant_(self.rate, 2.0)

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return x, at_every_step(self.rate, x, self.axis)

    def new(self, x: tuple[Tensor, ...], state: State) -> Tensor:
        return torch.tanh(self.recurrent(state[0], x[0])) * x[1]

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        return (self.new(x, state),)


class LostValue(Sound):
    set_initial_values = Cell.set_initial_values

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        nn.init.constant_(self.rate, 2.0)


class MixesSequences(Sound):
    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        new = self.new(x, state)
        return (new + new.mean(0, keepdim=True),)


class SeesOtherSteps(Sound):
    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return x - x.mean(0, keepdim=True), at_every_step(self.rate, x, self.axis)


class WrongGradient(Sound):
    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        new = self.new(x, state)
        return (new + new.detach(),)


class NoTuple(Sound):
    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        return self.new(x, state)  # type: ignore[return-value]


class MixesAPicture(Sound):
    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        new = self.new(x, state)
        return (new * torch.ones_like(new).cumsum(-1) if new.dim() > 3 else new,)


class TwoInputs(Sound):
    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (new,) = x
        return (new,)


class WithoutPrepare(Sound):
    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return (x,)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        return (self.new((x[0], self.rate), state),)


@pytest.fixture(autouse=True)
def _rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (Sound, *Sound.__subclasses__()):
        monkeypatch.setitem(CELLS, cls.__name__.lower(), CellRow(f"{__name__}:{cls.__name__}", "a cell", "elman"))


@pytest.mark.parametrize("cell", ["sound", "cfc", "esn", "gru-skip", "lru", "lstm", "mgu3", "mlstm", "rhn", "urnn"])
def test_a_sound_cell_holds(cell: str) -> None:
    held = check_cell(cell, smooth=cell != "gru-skip")
    left_out = (cell == "gru-skip") + ("kernel" in CELLS[cell].without)
    assert len(held) == len(CHECKS) - left_out
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in held)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(("cell", "words"), [
    ("lostvalue", "no initial value is set in __init__, where it is lost. rate would start at zero"),
    ("mixessequences", "steps one by one give what the whole sequence gives"),
    ("seesothersteps", "steps one by one give what the whole sequence gives"),
    ("wronggradient", "gradients are those of finite differences"),
    ("notuple", "steps one by one"),
    ("twoinputs", "steps one by one.*too many values to unpack"),
    ("mixesapicture", "a convolution by a kernel of one pixel"),
    ("withoutprepare", "steps one by one.*must reach `step` through `prepare`"),
])  # fmt: skip
def test_a_faulty_cell_fails_by_the_property_that_it_lacks(cell: str, words: str) -> None:
    with pytest.raises(CellError, match=f"The cell {cell} fails a check: {words}"):
        check_cell(cell)


def test_options_and_unknown_cells() -> None:
    assert len(check_cell("deltanet", {"heads": 3})) == len(CHECKS)
    with pytest.raises(UnknownNameError, match="No cell is called 'lstmm'"):
        check_cell("lstmm")


class Fixed(Sound):
    """A cell with a vector that is not trained."""

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.rate.requires_grad_(False)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.uniform_(self.rate, generator=generator)


class Buffered(Sound):
    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.register_buffer("mask", torch.ones(projection.units))


class Attribute(Sound):
    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.inner = nn.Module()
        self.inner.mask = torch.ones(projection.units)


def test_tensors_that_are_no_parameters_are_refused() -> None:
    assert len(check_cell("fixed")) == len(CHECKS)
    with pytest.raises(
        CellError, match="Buffered keeps a tensor that is no parameter, mask, whose values would be lost"
    ):
        check_cell("buffered")
    with pytest.raises(
        CellError, match=r"Attribute keeps a tensor that is no parameter, inner.mask, .*requires_grad=False"
    ):
        build("attribute-1x8", inputs=3, outputs=2)


class Unmakeable(Sound):
    def __init__(self, projection: ProjectionFactory):
        raise NameError("name 'projektion' is not defined")


def test_a_cell_that_cannot_be_made_and_options_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CELLS, "unmakeable", CellRow(f"{__name__}:Unmakeable", "a cell", "elman"))
    with pytest.raises(CellError, match=r"The cell unmakeable cannot be made. name 'projektion' is not defined$"):
        check_cell("unmakeable")
    with pytest.raises(RequestError, match=r"lstm cannot be checked: .*nope"):
        check_cell("lstm", {"nope": 1})
    with pytest.raises(RequestError, match="mlp is feed-forward"):
        check_cell("mlp")


def test_the_settings_of_torch_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with pytest.raises(CellError, match="lost"):
            check_cell("lostvalue")
        check_cell("fastrnn")
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
    assert not torch.utils.deterministic.fill_uninitialized_memory
