"""Variants of the LSTM: the original without a forget gate, and later ones with other inputs, gates or memory."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .base import Cell, LastApart, State
from .constants import constant
from .lstm import LSTM, PeepholeLSTM
from .projections import ProjectionFactory


def logistic(x: Tensor) -> Tensor:
    """Return 2 sigmoid(x) - 1 = tanh(x / 2)."""
    return torch.tanh(x / 2)


class OriginalLSTM(Cell):
    """c_t = c_{t-1} + i z; h_t = o tanh(c_t): the LSTM without a forget gate (Hochreiter & Schmidhuber 1997).

    i, o and z are as in the LSTM. With `squashing` "logistic", as in the paper, z = 4 sigmoid(a) - 2 and h_t = o (2
    sigmoid(c_t) - 1); with "tanh", as in later code, both are the tanh.
    """

    inputs = ("i", "z", "o")
    states = ("h", "c")

    def __init__(self, projection: ProjectionFactory, squashing: str = "tanh"):
        super().__init__(projection)
        self.recurrent = projection(3)
        functions: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
            "tanh": (torch.tanh, 1.0), "logistic": (logistic, 2.0)
        }  # fmt: skip
        self.squash, self.scale = functions[squashing]

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        h, c = state
        i, z, o = self.split(self.recurrent(h, x[0]))
        c = torch.addcmul(c, torch.sigmoid(i), self.scale * self.squash(z))
        return torch.sigmoid(o) * self.squash(c), c


class MultiplicativeLSTM(LastApart, LSTM):
    """An LSTM that sees m_t = (W_m x_t + b_m) (U_m h_{t-1}) in the place of h_{t-1} (Krause, Lu, Murray & Renals 2017).

    m has no b_m in the paper. The LSTM is that of the authors' later code; their first code has h_t = tanh(o c_t), and a new
    value without a tanh.
    """

    inputs = ("i", "f", "z", "o", "m")

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.multiplied = projection()

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (gates, m), (h, c) = x, state
        return self.updated(self.recurrent(m * self.multiplied(h), gates), c)


class ControllerLSTM(Cell):
    """An LSTM whose gates see v_t = m tanh(c_t) in the place of h_t = o tanh(c_t) (Ben-Ari & Shwartz-Ziv 2017).

    The gate m makes the control vector v, which returns to the gates; the output h is free to predict.
    """

    inputs = ("f", "i", "o", "m", "z")
    states = ("h", "v", "c")
    memory_gates = {"f": +1, "i": -1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(5)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        _, v, c = state
        f, i, o, m, z = self.split(self.recurrent(v, x[0]))
        c = torch.addcmul(torch.sigmoid(f) * c, torch.sigmoid(i), torch.tanh(z))
        shown = torch.tanh(c)
        return torch.sigmoid(o) * shown, torch.sigmoid(m) * shown, c


class WorkingMemoryLSTM(PeepholeLSTM):
    """A full peephole LSTM whose gates see tanh(V c), so that a large memory cannot hold them (Landi et al. 2021).

    i and f see tanh(V c_{t-1}), o sees tanh(V c_t).
    """

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection, peephole="full")

    def gated(self, x: Tensor, state: State) -> State:
        h, c = state
        i, f, z, o = self.split(self.recurrent(h, x), 4)
        peep_i, peep_f = self.split(torch.tanh(self.old(c)), 2)
        i, f = torch.sigmoid(i + peep_i), torch.sigmoid(f + peep_f)
        c = torch.addcmul(f * c, i, torch.tanh(z))
        return torch.sigmoid(o + torch.tanh(self.new(c))), c


class MogrifierLSTM(LSTM):
    """An LSTM whose input and state scale each other in `rounds` before it sees them (Melis, Kocisky & Blunsom 2020).

    In odd rounds x becomes 2 sigmoid(Q h) x, in even ones h becomes 2 sigmoid(R x) h; each round has its own matrix. Here
    the x of the paper is a projection of x_t to as many channels as units.
    """

    inputs = ("x",)
    memory_gates = {}

    def __init__(self, projection: ProjectionFactory, rounds: int = 5):
        super().__init__(projection)
        self.gates = projection(4, bias=True)
        self.rounds = nn.ModuleList(projection() for _ in range(rounds))

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (seen,), (h, c) = x, state
        for turn, matrix in enumerate(self.rounds):
            if turn % 2 == 0:
                seen = 2 * torch.sigmoid(matrix(h)) * seen
            else:
                h = 2 * torch.sigmoid(matrix(seen)) * h
        return self.updated(self.recurrent(h, self.gates(seen)), c)


def upper_ones(size: int) -> list[list[float]]:
    """Return the matrix U for which x U is the cumulative sum of a row x."""
    return [[float(i <= j) for j in range(size)] for i in range(size)]


class OrderedLSTM(LSTM):
    """An LSTM whose units are ordered by how long they remember, ON-LSTM (Shen, Tan, Sordoni & Courville 2019).

    Master gates F = cumsum(softmax(a_F)) and I = 1 - cumsum(softmax(a_I)) along the units, each a = W x_t + U h_{t-1} + b.
    c_t = (f w + F - w) c_{t-1} + (i w + I - w) z, w = F I. One entry of a master gate serves `chunk` neighbouring units.
    """

    inputs = ("i", "f", "z", "o", "I", "F")

    def __init__(self, projection: ProjectionFactory, chunk: int = 1):
        super().__init__(projection)
        self.chunk, self.sizes = chunk, self.input_channels(projection.units, chunk=chunk)
        self.constants = ((upper_ones, projection.units // chunk),)
        self.recurrent = projection.between(projection.units, sum(self.sizes), bias=False, norm=projection.layer_norm)

    @classmethod
    def input_channels(cls, units: int, *, chunk: int = 1, **options: Any) -> tuple[int, ...]:
        masters = units // chunk
        return *(units,) * 4, masters, masters

    def cumulative(self, a: Tensor) -> Tensor:
        """Return cumsum(softmax(a)) along the channels, each entry `chunk` times."""
        e = torch.exp(a - a.amax(self.axis, keepdim=True))
        upto = constant(upper_ones, a.shape[self.axis], device=a.device).to(e.dtype)
        sums = (e.movedim(self.axis, -1) @ upto).movedim(-1, self.axis)
        return (sums / e.sum(self.axis, keepdim=True)).repeat_interleave(self.chunk, self.axis).to(a.dtype)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        h, c = state
        a = self.recurrent(h, x[0])
        i, f, z, o, master_i, master_f = a.split(self.sizes, self.axis)
        master_i, master_f = 1 - self.cumulative(master_i), self.cumulative(master_f)
        both = master_f * master_i
        f = torch.sigmoid(f) * both + (master_f - both)
        i = torch.sigmoid(i) * both + (master_i - both)
        c = torch.addcmul(f * c, i, torch.tanh(z))
        return torch.sigmoid(o) * torch.tanh(c), c


class NAS(Cell):
    """The cell that a search by reinforcement learning built for language (Zoph & Le 2017), as TensorFlow Addons has it.

    With x_k the k-th of eight input projections, m_k that of U h_{t-1} and a_k = x_k + m_k: c_t = tanh(tanh(sigmoid(a_0)
    ReLU(a_1)) + c_{t-1}) tanh(sigmoid(a_2) + ReLU(x_3 m_3)); h_t = tanh(c_t tanh(tanh(tanh(a_4) sigmoid(a_5)) +
    sigmoid(tanh(a_6) + sigmoid(a_7)))).
    """

    inputs = ("0", "1", "2", "3", "4", "5", "6", "7")
    states = ("h", "c")

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(8)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        h, c = state
        moved = self.recurrent(h)
        a, product = self.split(x[0] + moved), self.split(x[0])[3] * self.split(moved)[3]
        c = torch.tanh(torch.tanh(torch.sigmoid(a[0]) * torch.relu(a[1])) + c)
        c = c * torch.tanh(torch.sigmoid(a[2]) + torch.relu(product))
        left = torch.tanh(torch.tanh(a[4]) * torch.sigmoid(a[5]))
        right = torch.sigmoid(torch.tanh(a[6]) + torch.sigmoid(a[7]))
        return torch.tanh(c * torch.tanh(left + right)), c
