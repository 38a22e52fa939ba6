"""The intersection RNN, +RNN (Collins, Sohl-Dickstein & Sussillo 2017): one path along time, one up the layers."""

import torch
from torch import Tensor

from .base import LastApart, State
from .projections import ProjectionFactory


class Intersection(LastApart):
    """y_t = g_y x_t + (1 - g_y) ReLU(a_y); h_t = g_h h_{t-1} + (1 - g_h) tanh(a_h); y is the output and h the state.

    Each a is W x_t + U h_{t-1} + b, and each gate g the sigmoid of another such sum. Here g_y lets a projection of x_t
    through; the paper's x_t itself needs an input as wide as the layer.
    """

    inputs = ("y", "h", "gy", "gh", "x")
    states = ("y", "h")
    memory_gates = {"gh": +1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(4)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (four, through), (_, h) = x, state
        y, new, g_y, g_h = self.split(self.recurrent(h, four), 4)
        y = torch.lerp(torch.relu(y), through, torch.sigmoid(g_y))
        return y, torch.lerp(torch.tanh(new), h, torch.sigmoid(g_h))
