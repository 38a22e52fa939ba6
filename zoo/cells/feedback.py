"""The gated feedback RNN (Chung, Gulcehre, Cho & Bengio 2015): every layer sees the last states of all layers."""

import torch
from torch import Tensor, nn

from .base import Cell, State
from .projections import ProjectionFactory


class GatedFeedback(Cell):
    """h^j_t = tanh(W^j h^{j-1}_t + b + sum_i g^{ij} U^{ij} h^i_{t-1}), layers j = 1..depth, h^0 = x; h^depth is the output.

    g^{ij} = sigmoid(w^{ij} h^{j-1}_t + u^{ij} h*_{t-1}) is one number, where h* are the states of all layers. The depth
    is the specification's number of layers. The first layer's gates see x_t through a projection to `units` channels, which
    costs no generality while there are at least as many units as layers.
    """

    inputs = ("h", "g")

    def __init__(self, projection: ProjectionFactory, depth: int = 1):
        super().__init__(projection)
        self.depth = depth
        self.states = tuple(f"h{layer}" for layer in range(depth, 0, -1))
        self.recurrent = nn.ModuleList(projection(depth) for _ in range(depth))  # U of one i, all j
        self.past = nn.ModuleList(
            projection.scalars(depth * depth) for _ in range(depth)
        )  # u of one layer's part of h*
        self.present = nn.ModuleList(projection.scalars(depth) for _ in range(depth))  # w of one j
        self.up = nn.ModuleList(projection(bias=True) for _ in range(depth - 1))  # W of j = 2..depth

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        below, seen = self.split(x)
        return below, self.present[0](seen)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (below, present), old = x, state[::-1]
        moved = [self.split(u(h), self.depth) for u, h in zip(self.recurrent, old, strict=True)]
        past = self.split(sum(u(h) for u, h in zip(self.past, old, strict=True)), self.depth)
        new: list[Tensor] = []
        for j in range(self.depth):
            gates = self.split(torch.sigmoid(present + past[j]), self.depth)
            seen = torch.tanh(below + sum(g * u[j] for g, u in zip(gates, moved, strict=True)))
            new.insert(0, seen)
            if j + 1 < self.depth:
                below, present = self.up[j](seen), self.present[j + 1](seen)
        return tuple(new)
