"""Echo state networks: a random recurrence that stays as it is drawn, below a readout that is trained."""

import torch
from torch import Tensor

from .base import Cell, State
from .projections import ProjectionFactory


class ESN(Cell):
    """h_t = (1 - leak) h_{t-1} + leak tanh(W x_t + U h_{t-1} + b), W, U and b as they are drawn (Jaeger 2001).

    The leak is that of Lukosevicius 2012. U keeps a share `density` of its entries, and is scaled to the spectral `radius`,
    unless so few entries are left that its radius is zero. W is scaled by its initialiser, such as uniform-0.1, and b is
    zero. No optimizer changes them: a recipe with the optimizer "ridge" computes the head that reads the states.
    """

    inputs = ("h",)
    frozen = True

    def __init__(self, projection: ProjectionFactory, leak: float = 1.0, radius: float = 0.9, density: float = 1.0):
        super().__init__(projection)
        self.recurrent = projection()
        self.leak, self.radius, self.density = leak, radius, density

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        return (torch.lerp(h, torch.tanh(self.recurrent(h, x[0])), self.leak),)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        weight = self.recurrent.weight
        weight.mul_(torch.rand(weight.shape, generator=generator, dtype=torch.float32) < self.density)
        radius = torch.linalg.eigvals(weight.double()).abs().amax(-1)
        largest = weight.abs().amax((-2, -1))
        # the radius of a matrix without cycles is zero, whatever the scale
        scale = torch.where(radius > 1e-6 * largest, self.radius / radius, 1)
        weight.mul_(scale.to(weight.dtype)[..., None, None])
