"""Networks of oscillators (Rusch & Mishra 2021): time steps of second-order differential equations. y is position, z speed."""

import torch
from torch import Tensor, nn

from .base import Cell, State
from .projections import ProjectionFactory, at_every_step


class CoRNN(Cell):
    """z_t = z_{t-1} + dt (tanh(W y_{t-1} + V z_{t-1} + W_x x_t + b) - gamma y_{t-1} - epsilon z_{t-1}).

    y_t = y_{t-1} + dt z_t is the output: coupled oscillators of frequency gamma, damped by epsilon. The damping acts on the
    old speed, as in the authors' code; the paper also allows the new one. Their settings for smnist are the defaults.
    """

    inputs = ("z",)
    states = ("y", "z")

    def __init__(self, projection: ProjectionFactory, dt: float = 0.042, gamma: float = 2.7, epsilon: float = 4.7):
        super().__init__(projection)
        self.recurrent = projection()
        self.speed = projection()
        self.dt, self.gamma, self.epsilon = dt, gamma, epsilon

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        y, z = state
        force = torch.tanh(self.recurrent(y, self.speed(z, x[0])))
        z = z + self.dt * (force - self.gamma * y - self.epsilon * z)
        return y + self.dt * z, z


class UnICORNN(Cell):
    """z_t = z_{t-1} - dt s (tanh(w y_{t-1} + W x_t + b) + alpha y_{t-1}); y_t = y_{t-1} + dt s z_t, s = sigmoid(c).

    Undamped oscillators, each with a weight w and a time scale s of its own; y is the output. A unit sees no other unit's
    past. w starts from U(0, 1) and c from U(-0.1, 0.1), as in the authors' code, whose settings for pmnist are the
    defaults.
    """

    inputs = ("z",)
    states = ("y", "z")

    def __init__(self, projection: ProjectionFactory, dt: float = 0.19, alpha: float = 30.65):
        super().__init__(projection)
        self.recurrent = projection.diagonal()
        self.scale = nn.Parameter(torch.empty(projection.units))
        self.dt, self.alpha = dt, alpha

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return x, at_every_step(self.dt * torch.sigmoid(self.scale), x, self.axis)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (u, dt), (y, z) = x, state
        z = z - dt * (torch.tanh(self.recurrent(y, u)) + self.alpha * y)
        return y + dt * z, z

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.uniform_(self.recurrent.weight, generator=generator)
        nn.init.uniform_(self.scale, -0.1, 0.1, generator=generator)
