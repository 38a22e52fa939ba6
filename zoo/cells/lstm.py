"""Long short-term memory (Hochreiter & Schmidhuber 1997) and its relatives. Gates lie in torch.nn.LSTM's order."""

from collections.abc import Callable

import torch
from torch import Tensor

from .base import Cell, Map, Maps, State


class LSTM(Cell):
    """i, f, o = sigmoid(...), z = tanh(...); c_t = f c_{t-1} + i z; h_t = o tanh(c_t). "Gating revisited", eq. 16-21."""

    inputs = ("i", "f", "z", "o")
    states = ("h", "c")
    keeps = {"f": +1, "i": -1}

    def __init__(self, maps: Maps):
        super().__init__(maps)
        self.recurrent = maps(4)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        h, c = state
        i, f, z, o = self.split(self.recurrent(h, x[0]))
        c = torch.addcmul(torch.sigmoid(f) * c, torch.sigmoid(i), torch.tanh(z))
        return torch.sigmoid(o) * torch.tanh(c), c


class ForgetLSTM(Cell):
    """LSTM with only the forget gate (van der Westhuizen & Lasenby 2018). "Gating revisited", eq. 22-24.

    f = sigmoid(W_f x + U_f h_{t-1} + b_f); z = tanh(W_z x + U_z h_{t-1} + b_z); h_t = tanh(f h_{t-1} + (1 - f) z).
    """

    inputs = ("f", "z")
    keeps = {"f": +1}

    def __init__(self, maps: Maps):
        super().__init__(maps)
        self.recurrent = maps(2)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        f, z = self.split(self.recurrent(h, x[0]))
        return (torch.tanh(torch.lerp(torch.tanh(z), h, torch.sigmoid(f))),)


class PeepholeLSTM(LSTM):
    """LSTM whose gates also see the cell state: i and f the old one, o the NEW one (Gers & Schmidhuber 2000).

    `peephole="full"` multiplies the state by whole matrices, the lecture's W [c, h, x]; "diagonal" by one weight a
    unit, as in the original paper.
    """

    def __init__(self, maps: Maps, peephole: str = "full"):
        super().__init__(maps)
        kinds: dict[str, Callable[[int], Map]] = {"full": maps, "diagonal": maps.diagonal}
        make = kinds[peephole]
        self.old = make(2)
        self.new = make(1)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        h, c = state
        i, f, z, o = self.split(self.recurrent(h, x[0]))
        i, f = self.split(torch.sigmoid(self.old(c, torch.cat([i, f], self.axis))), 2)
        c = torch.addcmul(f * c, i, torch.tanh(z))
        return torch.sigmoid(self.new(c, o)) * torch.tanh(c), c


class CoupledLSTM(Cell):
    """LSTM with i = 1 - f: what is forgotten is replaced. c_t = f c_{t-1} + (1 - f) z; h_t = o tanh(c_t)."""

    inputs = ("f", "z", "o")
    states = ("h", "c")
    keeps = {"f": +1}

    def __init__(self, maps: Maps):
        super().__init__(maps)
        self.recurrent = maps(3)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        h, c = state
        f, z, o = self.split(self.recurrent(h, x[0]))
        c = torch.lerp(torch.tanh(z), c, torch.sigmoid(f))
        return torch.sigmoid(o) * torch.tanh(c), c
