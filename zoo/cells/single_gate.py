"""Cells with one gate for keeping and writing, and no gate on the output."""

import torch
from torch import Tensor

from .base import Cell, State
from .projections import ProjectionFactory


class UGRNN(Cell):
    """h_t = g h_{t-1} + (1 - g) tanh(W_c x_t + U_c h_{t-1} + b_c), gate g (Collins, Sohl-Dickstein & Sussillo 2017).

    g is the sigmoid of another such sum: the GRU without its reset gate.
    """

    inputs = ("g", "c")
    memory_gates = {"g": +1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(2)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        g, c = self.split(self.recurrent(h, x[0]))
        return (torch.lerp(torch.tanh(c), h, torch.sigmoid(g)),)


class LiGRU(Cell):
    """h_t = z h_{t-1} + (1 - z) ReLU(W_h x_t + U_h h_{t-1} + b_h), gate z (Ravanelli, Brakel, Omologo & Bengio 2018).

    The paper batch-normalises W x_t over the sequences and steps of a batch. Here it has a bias instead, or layer
    normalisation if the specification asks for it.
    """

    inputs = ("z", "h")
    memory_gates = {"z": +1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(2)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        z, new = self.split(self.recurrent(h, x[0]))
        return (torch.lerp(torch.relu(new), h, torch.sigmoid(z)),)


class JANET(Cell):
    """h_t = sigmoid(s) h_{t-1} + (1 - sigmoid(s - beta)) tanh(W_c x_t + U_c h_{t-1} + b_c).

    s = W_f x_t + U_f h_{t-1} + b_f (van der Westhuizen & Lasenby 2018, who choose beta = 1). `lstm-f` is the same cell as
    "Gating revisited" prints it: without beta, and with a tanh around the new state.
    """

    inputs = ("f", "c")
    memory_gates = {"f": +1}

    def __init__(self, projection: ProjectionFactory, beta: float = 1.0):
        super().__init__(projection)
        self.recurrent = projection(2)
        self.beta = beta

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        s, c = self.split(self.recurrent(h, x[0]))
        return (torch.addcmul(torch.sigmoid(s) * h, torch.sigmoid(self.beta - s), torch.tanh(c)),)


class MinimalRNN(Cell):
    """h_t = u h_{t-1} + (1 - u) z, z = tanh(W x_t + b), u = sigmoid(U_h h_{t-1} + U_z z + b_u) (Chen 2017)."""

    inputs = ("z",)

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(bias=True)
        self.latent = projection()

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        z = torch.tanh(x)
        return z, self.latent(z)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (z, u), (h,) = x, state
        return (torch.lerp(z, h, torch.sigmoid(self.recurrent(h, u))),)


class ATR(Cell):
    """h_t = sigmoid(p + q) p + sigmoid(p - q) h_{t-1}, p = W x_t + b, q = U h_{t-1} (Zhang, Xiong, Su, Lin & Zhang 2018).

    Input gate and forget gate are twins: the sum and the difference of the same two products.
    """

    inputs = ("p",)

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection()

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (p,), (h,) = x, state
        q = self.recurrent(h)
        return (torch.addcmul(torch.sigmoid(p + q) * p, torch.sigmoid(p - q), h),)


class LightRU(Cell):
    """h_t = (1 - f) h_{t-1} + f tanh(W_h x_t + b_h), f = sigmoid(W_f x_t + U_f h_{t-1} + b_f) (Ye et al. 2024).

    The candidate sees the input alone. The paper calls the cell LRU; what it adds between the layers of a stack is not part of
    the cell here.
    """

    inputs = ("f", "h")
    memory_gates = {"f": -1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection()

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        f, h = self.split(x)
        return f, torch.tanh(h)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (f, new), (h,) = x, state
        return (torch.lerp(h, new, torch.sigmoid(self.recurrent(h, f))),)


class SGRN(Cell):
    """h_t = tanh((1 - f) a + f h_{t-1}), f = sigmoid(a + U h_{t-1}), a = W x_t + b (Zu & Wei 2020).

    Gate and candidate share one map of the input.
    """

    inputs = ("a",)

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection()

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (a,), (h,) = x, state
        return (torch.tanh(torch.lerp(a, h, torch.sigmoid(self.recurrent(h, a)))),)
