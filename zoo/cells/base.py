"""The base class of cells.

A cell is its equations. It names its input projections and the states it carries, and computes one `step`. The layer owns
the input projections (weights and biases) and applies them to all time steps at once. The cell owns only recurrent
projections, which it makes with a `ProjectionFactory`, so that the same cell is dense or convolutional and no line of it
knows which, and perhaps vectors of parameters. These meet x through `at_every_step(vector, x, self.axis)` in `prepare`,
which brings them to the shape and dtype of x, because layers may be stacked in front and autocast may lower x's precision.
`set_initial_values` sets them: what __init__ gave them is lost, since networks are built without memory.

Shapes inside a cell: the channels lie along `self.axis`, counted from the end (-1 dense, -3 convolutional); everything in
front of them is batch, whatever its rank. So one `step` runs a single layer or a whole stack at once.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from .constants import Key
from .projections import Projection, ProjectionFactory

State = tuple[Tensor, ...]


class Cell(nn.Module):
    """Base of all cells. A subclass sets the class variables, makes its projections in __init__, and computes `step`."""

    inputs: ClassVar[tuple[str, ...]]
    """Names of the input projections, in the order of their blocks in the projected input."""
    states: tuple[str, ...] = ("h",)
    """Names of the states carried from step to step, each (batch, channels); the first is the output."""
    float32_states: ClassVar[tuple[str, ...]] = ()  # kept in float32 at least: bfloat16 cannot count steps beyond 256
    memory_gates: ClassVar[dict[str, int]] = {}
    """Input projections of the gates that decide what is remembered: +1 if a positive bias keeps the old state, -1 if a
    negative bias does. The first gate multiplies the old state; a second one weighs the new state."""
    uses_time_gaps: ClassVar[bool] = False  # `prepare` takes a second argument, dt, (..., 1): the time since the last
    constants: tuple[Key, ...] = ()  # the arguments, but the device, of each call of constants.constant in `step`
    frozen: ClassVar[bool] = False  # a layer's parameters keep their initial values; no optimizer sees them

    def __init_subclass__(cls) -> None:
        if strays := cls.memory_gates.keys() - getattr(cls, "inputs", ()):
            raise TypeError(f"{cls.__name__}.memory_gates names {', '.join(strays)}, which its inputs lack.")

    def __init__(self, projection: ProjectionFactory):
        super().__init__()
        self.axis = projection.axis

    @classmethod
    def channels(cls, state: str, units: int, **options: Any) -> int:
        """Return how many channels a state has: one for each unit, unless a cell overrides this. options: the cell's."""
        return units

    @classmethod
    def input_channels(cls, units: int, **options: Any) -> tuple[int, ...]:
        """Return how many channels each of `inputs` has, by default one for each unit. options: the cell's."""
        return (units,) * len(cls.inputs)

    @classmethod
    def input_projection(cls, projection: ProjectionFactory, width: int, **options: Any) -> Projection:
        """Return the map from the layer's input, of `width` channels, to the channels of all `inputs`. options: the cell's."""
        outputs = sum(cls.input_channels(projection.units, **options))
        return projection.between(width, outputs, bias=True, norm=projection.layer_norm)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        """Set the parameters whose initial values are the cell's, not those of a specification's Init.

        steps: the length of the task's sequences. Projections' weights are set by then, and other parameters are zero. They
        may have leading dimensions, because many cells are drawn at once, so every value must be drawn separately.
        """

    def split(self, x: Tensor, parts: int | None = None) -> tuple[Tensor, ...]:
        """Cut x, (..., parts * units), into `parts` tensors along the channels, by default one for each of `inputs`."""
        return x.chunk(parts or len(self.inputs), self.axis)

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors of a step that depend on the input alone; they are computed for all time steps at once.

        x: the projected input, (..., channels of all inputs). `step` receives the returned tensors one time step at a time.
        """
        return (x,)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        """Return the new state after one time step. x: what `prepare` returned for this step; state: the old state."""
        raise NotImplementedError


def matched(cell: Cell, state: State, dtype: torch.dtype) -> State:
    """Return the cell's states cast to `dtype`, the dtype of the step's prepared input, which autocast may have lowered.

    The states named in `cell.float32_states` are cast to float32 at least.
    """
    wide = torch.promote_types(dtype, torch.float32)
    pairs = zip(cell.states, state, strict=True)
    return tuple(s.to(wide if name in cell.float32_states else dtype) for name, s in pairs)


class LastApart(Cell):
    """Base of cells whose `prepare` returns the last input projection separately, after all others as one tensor."""

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        channels = x.shape[self.axis]
        last = channels // len(self.inputs)
        return x.split([channels - last, last], self.axis)


class RawInputCell(Cell):
    """Base of cells that read the unprojected input of the layer. `inputs`, its number of channels, is one more option."""

    def project(self, x: Tensor, dt: Tensor | None, projection: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        """Return the tensors of a step that depend on the input alone, instead of `prepare`.

        x: the layer's input, (..., inputs), of any steps. dt: (..., 1), or None. projection: the layer's input projection.
        """
        raise NotImplementedError
