"""Recurrent highway networks (Zilly, Srivastava, Koutnik & Schmidhuber 2017)."""

import torch
from torch import Tensor, nn

from .base import Cell, State
from .projections import ProjectionFactory


class RHN(Cell):
    """s_l = tanh(H_l) sigmoid(T_l) + s_{l-1} sigmoid(C_l) for l = 1..depth within one time step; h_t = s_depth.

    A depth of 1 has the form of the two gates in Hu et al. 2018, eq. 14. Each of H, T and C is a projection of s_{l-1} with a
    bias; those of the first micro-layer also see the input. Transform gate T and carry gate C are separate, as the parameter
    counts of "Gating revisited", Table 2, imply. The depth is the specification's number of layers: a 4-layer RHN is one
    recurrent layer of depth 4.
    """

    inputs = ("h", "t", "c")
    memory_gates = {"c": +1, "t": -1}

    def __init__(self, projection: ProjectionFactory, depth: int = 1):
        super().__init__(projection)
        self.recurrent = nn.ModuleList(projection(3, bias=layer > 0) for layer in range(depth))

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (s,) = state
        plus: Tensor | None = x[0]
        for micro in self.recurrent:
            h, t, c = self.split(micro(s, plus))
            s = torch.addcmul(s * torch.sigmoid(c), torch.tanh(h), torch.sigmoid(t))
            plus = None
        return (s,)
