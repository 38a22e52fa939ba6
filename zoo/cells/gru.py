"""The gated recurrent unit (Cho et al. 2014; Chung et al. 2014)."""

import torch
from torch import Tensor

from .base import LastApart, State
from .projections import ProjectionFactory


class GRU(LastApart):
    """h_t = (1 - z) h_{t-1} + z tanh(W_h x_t + U_h (r h_{t-1}) + b_h), gates r and z. "Gating revisited", eq. 25-27.

    z weighs the new state, as in that paper. In torch.nn.GRU it weighs the old state, which is the same cell with the signs
    of z's weights turned. `reset` says where r acts: "before" the recurrent product, as in the papers, or "after" it,
    r (U_h h_{t-1} + b'), as in torch.nn.GRU and cuDNN.
    """

    inputs = ("r", "z", "h")
    memory_gates = {"z": -1}

    def __init__(self, projection: ProjectionFactory, reset: str = "before"):
        super().__init__(projection)
        self.before = {"before": True, "after": False}[reset]
        self.gates = projection(2)
        self.candidate = projection(bias=not self.before)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (gates, new), (h,) = x, state
        r, z = self.split(torch.sigmoid(self.gates(h, gates)), 2)
        new = self.candidate(r * h, new) if self.before else torch.addcmul(new, r, self.candidate(h))
        return (torch.lerp(h, torch.tanh(new), z),)
