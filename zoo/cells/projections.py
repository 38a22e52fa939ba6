"""Projections: the linear maps that a cell is made of, dense or convolutional, and the factory a layer hands its cell."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..utils.torch_internals import children, forward_hooks

Parametrization = Callable[[Tensor], Tensor]
"""Maps a projection's weight to its matrix W, so that W has some property, such as being orthogonal, whatever the weight is."""


def along(vector: Tensor, axis: int) -> Tensor:
    """Return a (channels,) vector reshaped to broadcast with a state whose channels lie along `axis`, -1 or -3.

    A vector for each of several layers, (layers, channels), keeps its first dimension.
    """
    return vector.unsqueeze(-2) if axis == -1 else vector[..., None, None]


def at_every_step(vector: Tensor, x: Tensor, axis: int) -> Tensor:
    """Expand a (channels,) vector, without a copy, to the steps, sequences and dtype of x, whose channels lie along `axis`."""
    shape = list(x.shape)
    shape[axis] = vector.shape[-1]
    return along(vector, axis).to(x.dtype).expand(shape)


def at_least_float32(x: Tensor) -> Tensor:
    """Return real numbers in float32, or as they are if they have that precision or more."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def parametrized(parametrization: Parametrization, weight: Tensor) -> Tensor:
    """Return parametrization(weight) in the weight's dtype, also under autocast, whose rounding would break its property."""
    device = weight.device.type
    autocasts = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)  # "meta" has none
    with torch.autocast(device, enabled=False) if autocasts else nullcontext():
        return parametrization(weight)


class Projection(nn.Module):
    """A linear map W s + b, dense or convolutional, added to `plus`: the one building block of a recurrence.

    norm: layer normalisation of W s, before the bias (Ba et al. 2016, eq. 20). parametrization: the function from weight
    to W. Within a sequence, W and the dropout `mask` of s are fixed (Gal & Ghahramani 2016).
    """

    mask: Tensor | None = None
    held_matrix: Tensor | None = None

    def __init__(
        self, weight: tuple[int, ...], bias: bool = False, norm: nn.Module | None = None,
        parametrization: Parametrization | None = None,
    ):  # fmt: skip
        super().__init__()
        self.weight = nn.Parameter(torch.empty(weight))
        self.bias = nn.Parameter(torch.empty(weight[0])) if bias else None
        self.norm, self.parametrization = norm, parametrization

    @property
    def matrix(self) -> Tensor:  # W
        if self.held_matrix is not None:
            return self.held_matrix
        return parametrized(self.parametrization, self.weight) if self.parametrization else self.weight

    @property
    def cost(self) -> int:  # multiply-adds of one product; of a convolution, at one position of an image
        return self.matrix.numel()

    @property
    def channels(self) -> int:  # of s
        return self.matrix.shape[1]

    def hold(self, mask: Tensor | None = None) -> None:
        computed = self.parametrization or "parametrizations" in children(self)  # our own, or those of torch
        held = computed and not forward_hooks(self)[0]  # that of prune sets the weight
        if held or mask is not None:  # torch.export forbids an assignment that changes nothing
            self.held_matrix, self.mask = self.matrix if held else None, mask

    def release(self) -> None:
        if self.held_matrix is not None or self.mask is not None:
            self.held_matrix = self.mask = None

    def forward(self, s: Tensor, plus: Tensor | None = None) -> Tensor:
        if self.mask is not None:
            s = s * self.mask.to(s.dtype)
        if self.bias is not None:
            plus = add(self.along_channels(self.bias), plus)
        product = self.product(s, plus if self.norm is None else None)
        return product if self.norm is None else add(self.normalised(product, self.norm).to(product.dtype), plus)

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        raise NotImplementedError  # W s + plus

    def along_channels(self, vector: Tensor) -> Tensor:
        return along(vector, -1)

    def normalised(self, product: Tensor, norm: nn.Module) -> Tensor:
        return norm(product)


class Dense(Projection):
    """W: (out, in). With a leading layer dimension on W and b it projects a whole stack at once, s: (layers, batch, in)."""

    def extra_repr(self) -> str:
        return str(tuple(self.weight.shape))

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        weight = self.matrix.transpose(-1, -2)  # not .mT: dynamo takes each access to it for an input of the loop
        if plus is None:
            return s @ weight
        if s.dim() == 2:
            return torch.addmm(plus, s, weight)
        if weight.dim() == 3:
            return torch.baddbmm(plus, s, weight)
        return add(s @ weight, plus)


class Conv(Projection):
    """W: (out, in, k, k), same padding; s: (..., in, height, width)."""

    extra_repr = Dense.extra_repr

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        # conv2d takes one batch dimension, and so does the norm
        product = F.conv2d(s.flatten(0, -4), self.matrix, padding="same").unflatten(0, s.shape[:-3])
        return add(product, plus)

    def along_channels(self, vector: Tensor) -> Tensor:
        return along(vector, -3)

    def normalised(self, product: Tensor, norm: nn.Module) -> Tensor:
        return norm(product.flatten(0, -4)).unflatten(0, product.shape[:-3])


class Diagonal(Projection):
    """An elementwise product w * s, computed for each of `gates` gates and concatenated along the channels.

    channels: the channels of s. axis: that of the channels. The weight is (gates * channels,).
    """

    def __init__(self, channels: int, gates: int, axis: int, parametrization: Parametrization | None = None):
        super().__init__((gates * channels,), parametrization=parametrization)
        self.gates, self.axis = gates, axis

    @property
    def channels(self) -> int:
        return len(self.weight) // self.gates

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        product = torch.cat([s] * self.gates, self.axis) * self.along_channels(self.matrix).to(s.dtype)
        return add(product, plus)

    def along_channels(self, vector: Tensor) -> Tensor:
        return along(vector, self.axis)


def add(product: Tensor, plus: Tensor | None) -> Tensor:
    """Return product + plus in the product's precision, which autocast may have lowered."""
    return product if plus is None else product + plus.to(product.dtype)


class ProjectionFactory:
    """Makes a cell's recurrent projections, dense or convolutional, with the layer's normalisation.

    A cell receives it as `projection`: `projection(4)` is a projection from units to 4 * units channels.
    """

    def __init__(self, units: int, kernel: int | None, layer_norm: bool):
        self.units, self.kernel, self.layer_norm = units, kernel, layer_norm
        self.axis = -1 if kernel is None else -3

    def __call__(
        self, gates: int = 1, *, bias: bool = False, parametrization: Parametrization | None = None
    ) -> Projection:
        return self.between(
            self.units, gates * self.units, bias=bias, norm=self.layer_norm, parametrization=parametrization
        )

    def between(
        self, inputs: int, outputs: int, *, bias: bool, norm: bool, parametrization: Parametrization | None = None
    ) -> Projection:
        """Return a projection from `inputs` channels to `outputs` channels. norm: whether W s is layer-normalised."""
        if self.kernel is None:
            return Dense((outputs, inputs), bias, nn.LayerNorm(outputs) if norm else None, parametrization)
        shape = (outputs, inputs, self.kernel, self.kernel)
        return Conv(shape, bias, nn.GroupNorm(1, outputs) if norm else None, parametrization)

    def scalars(self, count: int, *, bias: bool = False) -> Projection:
        """Return a projection from units to `count` channels, without layer normalisation, such as a gate for all units."""
        return self.between(self.units, count, bias=bias, norm=False)

    def diagonal(self, gates: int = 1, parametrization: Parametrization | None = None) -> Diagonal:
        """Return a projection with one weight for each unit and gate, as an elementwise product."""
        return Diagonal(self.units, gates, self.axis, parametrization)
