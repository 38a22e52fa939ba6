"""The contract of a cell, and the recurrent maps a cell is made of.

A cell is its equations. It names the input maps it wants, the states it carries, and computes one `step`. The layer
owns the input maps (weights and biases) and applies them to all time steps at once; the cell owns only recurrent maps,
which it gets from `Maps`, so the same cell is dense or convolutional, and none of its lines know which.

Shapes inside a cell: the channels lie along `self.axis`, counted from the end (-1 dense, -3 convolutional); everything
in front of it is batch, whatever its rank. That is what lets one `step` run a single layer or a whole stack at once.
"""

from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = tuple[Tensor, ...]


class Map(nn.Module):
    """A linear map W s (+ b), dense or convolutional, added to `plus`: the one building block of a recurrence.

    `mask`, set by the layer for the length of one sequence, drops the same entries of s at every step (Gal &
    Ghahramani 2016). `norm` is layer normalisation of W s, before the bias (Ba et al. 2016, eq. 20).
    """

    weight: Tensor
    mask: Tensor | None = None

    def __init__(self, weight: tuple[int, ...], bias: bool = False, norm: nn.Module | None = None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(weight))
        self.bias = nn.Parameter(torch.empty(weight[0])) if bias else None
        self.norm = norm

    def forward(self, s: Tensor, plus: Tensor | None = None) -> Tensor:
        if self.mask is not None:
            s = s * self.mask
        if self.bias is not None:
            bias = self.along_channels(self.bias)
            plus = bias if plus is None else bias + plus
        if self.norm is None:
            return self.product(s, plus)
        product = self.product(s, None)
        return _sum(self.normalised(product, self.norm).to(product.dtype), plus)

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        """W s, plus what is to be added."""
        raise NotImplementedError

    def along_channels(self, vector: Tensor) -> Tensor:
        """A (channels,) vector, shaped to be added to a product; a leading layer dimension stays in front."""
        return vector.unsqueeze(-2)

    def normalised(self, product: Tensor, norm: nn.Module) -> Tensor:
        return norm(product)


class Dense(Map):
    """W: (out, in). A leading layer dimension on W and b maps a stack of layers, s: (layers, batch, in), at once."""

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        weight = self.weight.mT
        if plus is None:
            return s @ weight
        if s.dim() == 2:
            return torch.addmm(plus, s, weight)
        if weight.dim() == 3:
            return torch.baddbmm(plus, s, weight)
        return _sum(s @ weight, plus)


class Conv(Map):
    """W: (out, in, k, k), same padding; s: (..., in, height, width)."""

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        # conv2d knows one batch dimension, as does its norm
        product = F.conv2d(s.flatten(0, -4), self.weight, padding="same").unflatten(0, s.shape[:-3])
        return _sum(product, plus)

    def along_channels(self, vector: Tensor) -> Tensor:
        return vector[..., None, None]

    def normalised(self, product: Tensor, norm: nn.Module) -> Tensor:
        return norm(product.flatten(0, -4)).unflatten(0, product.shape[:-3])


class Diagonal(Map):
    """One weight a channel and gate: w * s for each of `gates` gates, laid out as a full map's gates are."""

    def __init__(self, channels: int, gates: int, axis: int):
        super().__init__((gates * channels,))
        self.gates, self.axis = gates, axis

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        product = torch.cat([s] * self.gates, self.axis) * self.along_channels(self.weight).to(s.dtype)
        return _sum(product, plus)

    def along_channels(self, vector: Tensor) -> Tensor:
        return vector.unsqueeze(-2) if self.axis == -1 else vector[..., None, None]


def _sum(product: Tensor, plus: Tensor | None) -> Tensor:
    """Both added in the product's precision, which autocast may have lowered."""
    return product if plus is None else product + plus.to(product.dtype)


class Maps(Protocol):
    """Makes the recurrent maps of one cell: `maps(4)` sends units to 4 x units channels. See recurrence.MapFactory."""

    axis: int

    def __call__(self, gates: int = 1, *, bias: bool = False) -> Map: ...

    def diagonal(self, gates: int = 1) -> Map: ...


class Cell(nn.Module):
    """Base of all cells. A subclass sets the class variables, makes its maps in __init__, and computes `step`."""

    inputs: ClassVar[tuple[str, ...]]
    """Names of the input maps, in the order in which the projection (batch, len(inputs) * units) holds them."""

    states: ClassVar[tuple[str, ...]] = ("h",)
    """Names of the carried states, each (batch, units); the first is the output."""

    keeps: ClassVar[dict[str, int]] = {}
    """Gates that decide what is remembered: +1 if a positive bias keeps the old state, -1 if a negative one does.

    The first is the gate that multiplies the old state; a second weighs the new one.
    """

    def __init__(self, maps: Maps):
        super().__init__()
        self.axis = maps.axis

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
