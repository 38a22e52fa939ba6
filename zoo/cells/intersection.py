"""The intersection RNN, +RNN (Collins, Sohl-Dickstein & Sussillo 2017): one path along time, one up the layers."""

import torch
from torch import Tensor

from .base import Cell, State
from .projections import ProjectionFactory


class Intersection(Cell):
    """y_t = g_y x_t + (1 - g_y) ReLU(W_y x_t + U_y h_{t-1} + b_y); h_t = g_h h_{t-1} + (1 - g_h) tanh(W_h x_t + ...).

    Both gates are g = sigmoid(W x_t + U h_{t-1} + b). y is the output and h the state. The x_t that g_y lets through is
    a map of x_t here, since the paper's, x_t itself, needs an input as wide as the layer.
    """

    inputs = ("y", "h", "gy", "gh", "x")
    states = ("y", "h")
    memory_gates = {"gh": +1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(4)

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        *four, through = self.split(x)
        return torch.cat(four, self.axis), through

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (four, through), (_, h) = x, state
        y, new, g_y, g_h = self.split(self.recurrent(h, four), 4)
        y = torch.lerp(torch.relu(y), through, torch.sigmoid(g_y))
        return y, torch.lerp(torch.tanh(new), h, torch.sigmoid(g_h))
