"""The contract of a cell, and the recurrent maps a cell is made of.

A cell is its equations. It names the input maps it wants, the states it carries, and computes one `step`. The layer
owns the input maps (weights and biases) and applies them to all time steps at once; the cell owns only recurrent maps,
which it gets from `Maps`, so the same cell is dense or convolutional, and none of its lines know which.

Shapes inside a cell: the channels lie along `self.axis`, counted from the end (-1 dense, -3 convolutional); everything
in front of it is batch, whatever its rank. That is what lets one `step` run a single layer or a whole stack at once.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = tuple[Tensor, ...]
Form = Callable[[Tensor], Tensor]
"""Makes the matrix of a map out of its weight, so that whatever the weight is, the matrix has some property."""


def along(vector: Tensor, axis: int) -> Tensor:
    """A (channels,) vector, shaped to meet a state; a leading layer dimension stays in front."""
    return vector.unsqueeze(-2) if axis == -1 else vector[..., None, None]


def formed(form: Form, weight: Tensor) -> Tensor:
    """What a form makes, in the precision of the weight also under autocast: roundings would cost it its property."""
    device = weight.device.type
    known = torch.amp.is_autocast_available(device)  # not "meta"
    lowered = known and torch.is_autocast_enabled(device)
    with torch.autocast(device, enabled=False) if lowered else nullcontext():
        return form(weight)


class Map(nn.Module):
    """A linear map W s (+ b), dense or convolutional, added to `plus`: the one building block of a recurrence.

    `norm` is layer normalisation of W s, before the bias (Ba et al. 2016, eq. 20). With a `form`, W is what that makes of
    the weight. For one sequence the layer sets `mask`, which drops the same entries of s at every step (Gal & Ghahramani
    2016), and holds W as it is made at the start.
    """

    weight: Tensor
    mask: Tensor | None = None
    made: Tensor | None = None

    def __init__(
        self, weight: tuple[int, ...], bias: bool = False, norm: nn.Module | None = None, form: Form | None = None
    ):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(weight))
        self.bias = nn.Parameter(torch.empty(weight[0])) if bias else None
        self.norm, self.form = norm, form

    @property
    def matrix(self) -> Tensor:
        """W."""
        if self.made is not None:
            return self.made
        return self.weight if self.form is None else formed(self.form, self.weight)

    @property
    def cost(self) -> int:
        """Multiply-adds of one product, at one position of an image."""
        return self.matrix.numel()

    def hold(self, mask: Tensor | None = None) -> None:
        self.made, self.mask = self.matrix if self.form else None, mask

    def release(self) -> None:
        self.made = self.mask = None

    def forward(self, s: Tensor, plus: Tensor | None = None) -> Tensor:
        if self.mask is not None:
            s = s * self.mask
        if self.bias is not None:
            bias = self.along_channels(self.bias)
            plus = bias if plus is None else bias + plus
        if self.norm is None:
            return self.product(s, plus)
        product = self.product(s, None)
        return add(self.normalised(product, self.norm).to(product.dtype), plus)

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        """W s, plus what is to be added."""
        raise NotImplementedError

    def along_channels(self, vector: Tensor) -> Tensor:
        """A (channels,) vector, shaped to be added to a product."""
        return along(vector, -1)

    def normalised(self, product: Tensor, norm: nn.Module) -> Tensor:
        return norm(product)


class Dense(Map):
    """W: (out, in). A leading layer dimension on W and b maps a stack of layers, s: (layers, batch, in), at once."""

    def extra_repr(self) -> str:
        return str(tuple(self.weight.shape))

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        weight = self.matrix.mT
        if plus is None:
            return s @ weight
        if s.dim() == 2:
            return torch.addmm(plus, s, weight)
        if weight.dim() == 3:
            return torch.baddbmm(plus, s, weight)
        return add(s @ weight, plus)


class Conv(Map):
    """W: (out, in, k, k), same padding; s: (..., in, height, width)."""

    extra_repr = Dense.extra_repr

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        # conv2d knows one batch dimension, as does its norm
        product = F.conv2d(s.flatten(0, -4), self.matrix, padding="same").unflatten(0, s.shape[:-3])
        return add(product, plus)

    def along_channels(self, vector: Tensor) -> Tensor:
        return along(vector, -3)

    def normalised(self, product: Tensor, norm: nn.Module) -> Tensor:
        return norm(product.flatten(0, -4)).unflatten(0, product.shape[:-3])


class Diagonal(Map):
    """One weight a channel and gate: w * s for each of `gates` gates, laid out as a full map's gates are."""

    def __init__(self, channels: int, gates: int, axis: int):
        super().__init__((gates * channels,))
        self.gates, self.axis = gates, axis

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        product = torch.cat([s] * self.gates, self.axis) * self.along_channels(self.weight).to(s.dtype)
        return add(product, plus)

    def along_channels(self, vector: Tensor) -> Tensor:
        return along(vector, self.axis)


def add(product: Tensor, plus: Tensor | None) -> Tensor:
    """Their sum in the product's precision, which autocast may have lowered."""
    return product if plus is None else product + plus.to(product.dtype)


class Maps(Protocol):
    """Makes the recurrent maps of one cell: `maps(4)` sends units to 4 x units channels. See recurrence.MapFactory."""

    axis: int
    units: int

    def __call__(self, gates: int = 1, *, bias: bool = False, form: Form | None = None) -> Map: ...

    def diagonal(self, gates: int = 1) -> Map: ...

    def scalars(self, count: int, *, bias: bool = False) -> Map: ...


class Cell(nn.Module):
    """Base of all cells. A subclass sets the class variables, makes its maps in __init__, and computes `step`."""

    inputs: ClassVar[tuple[str, ...]]
    """Names of the input maps, in the order in which the projection (batch, len(inputs) * units) holds them."""

    states: tuple[str, ...] = ("h",)
    """Names of the carried states, each (batch, channels); the first is the output."""

    counting: ClassVar[tuple[str, ...]] = ()
    """States that count time steps, in single precision at least: bfloat16 cannot count beyond 256."""

    keeps: ClassVar[dict[str, int]] = {}
    """Gates that decide what is remembered: +1 if a positive bias keeps the old state, -1 if a negative one does.

    The first is the gate that multiplies the old state; a second weighs the new one.
    """

    def __init__(self, maps: Maps):
        super().__init__()
        self.axis = maps.axis

    @classmethod
    def channels(cls, state: str, units: int) -> int:
        """How many channels the state of that name has: one a unit, unless a cell says otherwise."""
        return units

    def matched(self, state: State, dtype: torch.dtype) -> State:
        """The states in the precision of a step, which autocast may have lowered; those that count keep theirs."""
        return tuple(s if name in self.counting else s.to(dtype) for name, s in zip(self.states, state, strict=True))

    def start(self, generator: torch.Generator, steps: int) -> None:
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
