"""The contract of a cell, and the recurrent maps a cell is made of.

A cell is its equations. It names the input maps it wants, the states it carries, and computes one `step`. The layer
owns the input maps (weights and biases) and applies them to all time steps at once; the cell owns only recurrent projections,
which it makes by `ProjectionFactory`, so the same cell is dense or convolutional, and none of its lines know which.

Shapes inside a cell: the channels lie along `self.axis`, counted from the end (-1 dense, -3 convolutional); everything
in front of it is batch, whatever its rank. That is what lets one `step` run a single layer or a whole stack at once.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from .projections import ProjectionFactory

State = tuple[Tensor, ...]


class Cell(nn.Module):
    """Base of all cells. A subclass sets the class variables, makes its maps in __init__, and computes `step`."""

    inputs: ClassVar[tuple[str, ...]]
    """Names of the input projections, in the order in which the projection (batch, len(inputs) * units) holds them."""

    states: tuple[str, ...] = ("h",)
    """Names of the carried states, each (batch, channels); the first is the output."""

    float32_states: ClassVar[tuple[str, ...]] = ()
    """States that count time steps, in single precision at least: bfloat16 cannot count beyond 256."""

    memory_gates: ClassVar[dict[str, int]] = {}
    """Gates that decide what is remembered: +1 if a positive bias keeps the old state, -1 if a negative one does.

    The first is the gate that multiplies the old state; a second weighs the new one.
    """

    def __init__(self, projection: ProjectionFactory):
        super().__init__()
        self.axis = projection.axis

    @classmethod
    def channels(cls, state: str, units: int) -> int:
        """How many channels the state of that name has: one a unit, unless a cell says otherwise."""
        return units

    def matched(self, state: State, dtype: torch.dtype) -> State:
        """The states in the precision of a step, which autocast may have lowered; those that count keep theirs."""
        return tuple(
            s if name in self.float32_states else s.to(dtype) for name, s in zip(self.states, state, strict=True)
        )

    def reset_parameters(self, generator: torch.Generator, steps: int) -> None:
        """Set what does not start as a specification's Init says; `steps` is the length of the task's sequences.

        The weights of the maps are set when this is called, and the parameters that belong to no map are zero. Parameters
        may have leading dimensions, of many cells drawn at once, so values must be drawn entry by entry.
        """

    def split(self, x: Tensor, parts: int | None = None) -> tuple[Tensor, ...]:
        """Cut (..., parts * units) into `parts` equal pieces along the channels; by default one for each input map."""
        return x.chunk(parts or len(self.inputs), self.axis)

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        """What of `step` depends on the input alone, so that it can be computed for all time steps at once.

        x: (..., len(inputs) * units), the projected input; the returned tensors are passed to `step` one time step each.
        """
        return (x,)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        """One time step: prepared inputs and the old state to the new state."""
        raise NotImplementedError
