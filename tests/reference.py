"""The cells' equations a second time, as the papers print them: one gate a line, one time step after another, float64.

Nothing here comes from zoo. `weights` are the parameters of one direction of one layer under their names in a state
dict; gates are stacked along the first dimension. Channels are the second dimension of x and of every state, so that
(batch, channels) is dense and (batch, channels, height, width) convolutional. Sources: S0 is Turkoglu et al., "Gating
revisited"; S1 is Hu et al., "Overcoming the vanishing gradient problem in plain recurrent networks"; S4 is a lecture on
gated recurrent networks.
"""

from collections.abc import Callable

import torch
from torch import Tensor, sigmoid, tanh
from torch.nn.functional import conv2d

Weights = dict[str, Tensor]
State = tuple[Tensor, ...]


def linear(weight: Tensor, s: Tensor) -> Tensor:
    """W s, or W * s (S0 A.5) with zeros around the image, which keeps its size."""
    return s @ weight.T if weight.dim() == 2 else conv2d(s, weight, padding=weight.shape[-1] // 2)


def channels(vector: Tensor, s: Tensor) -> Tensor:
    """A value a channel in a shape that broadcasts over s."""
    return vector.reshape(-1, *[1] * (s.dim() - 2))


def inputs(w: Weights, x: Tensor, gates: int) -> list[Tensor]:
    """W_x x + b of every gate."""
    pairs = zip(w["input.weight"].chunk(gates), w["input.bias"].chunk(gates), strict=True)
    return [linear(weight, x) + channels(bias, x) for weight, bias in pairs]


def relu(a: Tensor) -> Tensor:
    return torch.where(a > 0, a, torch.zeros_like(a))


def rnn(w: Weights, x: Tensor, state: State, activation: str = "tanh") -> State:
    """S0 eq. 5: h = tanh(W_x x + W_h h + b)."""
    (h,), (a,) = state, inputs(w, x, 1)
    phi = {"tanh": tanh, "relu": relu}[activation]
    return (phi(a + linear(w["cell.recurrent.weight"], h)),)


def irnn(w: Weights, x: Tensor, state: State) -> State:
    """S0 eq. 5 with the rectifier (Le et al. 2015); only its start value, the identity, sets it apart."""
    return rnn(w, x, state, activation="relu")


def lstm(w: Weights, x: Tensor, state: State) -> State:
    """S0 eq. 16-21."""
    (h, c), (xi, xf, xz, xo) = state, inputs(w, x, 4)
    W_hi, W_hf, W_hz, W_ho = w["cell.recurrent.weight"].chunk(4)
    i = sigmoid(xi + linear(W_hi, h))
    f = sigmoid(xf + linear(W_hf, h))
    o = sigmoid(xo + linear(W_ho, h))
    z = tanh(xz + linear(W_hz, h))
    c = f * c + i * z
    return o * tanh(c), c


def lstm_f(w: Weights, x: Tensor, state: State) -> State:
    """S0 eq. 22-24."""
    (h,), (xf, xz) = state, inputs(w, x, 2)
    W_hf, W_hz = w["cell.recurrent.weight"].chunk(2)
    f = sigmoid(xf + linear(W_hf, h))
    z = tanh(xz + linear(W_hz, h))
    return (tanh(f * h + (1 - f) * z),)


def lstm_peephole(w: Weights, x: Tensor, state: State, peephole: str = "full") -> State:
    """S4: i and f also see c_{t-1}, o sees c_t. "diagonal" is Gers & Schmidhuber's: each unit sees its own c only."""
    (h, c), (xi, xf, xz, xo) = state, inputs(w, x, 4)
    W_hi, W_hf, W_hz, W_ho = w["cell.recurrent.weight"].chunk(4)
    W_ci, W_cf = w["cell.old.weight"].chunk(2)
    W_co = w["cell.new.weight"]
    look = linear if peephole == "full" else lambda weight, c: channels(weight, c) * c
    i = sigmoid(xi + linear(W_hi, h) + look(W_ci, c))
    f = sigmoid(xf + linear(W_hf, h) + look(W_cf, c))
    z = tanh(xz + linear(W_hz, h))
    c = f * c + i * z
    o = sigmoid(xo + linear(W_ho, h) + look(W_co, c))
    return o * tanh(c), c


def lstm_coupled(w: Weights, x: Tensor, state: State) -> State:
    """S4: S0 eq. 16-21 with i = 1 - f."""
    (h, c), (xf, xz, xo) = state, inputs(w, x, 3)
    W_hf, W_hz, W_ho = w["cell.recurrent.weight"].chunk(3)
    f = sigmoid(xf + linear(W_hf, h))
    z = tanh(xz + linear(W_hz, h))
    o = sigmoid(xo + linear(W_ho, h))
    c = f * c + (1 - f) * z
    return o * tanh(c), c


def gru(w: Weights, x: Tensor, state: State, reset: str = "before") -> State:
    """S0 eq. 25-27. "after" resets the recurrent product and its own bias instead, as cuDNN does."""
    (h,), (xr, xz, xh) = state, inputs(w, x, 3)
    W_hr, W_hz = w["cell.gates.weight"].chunk(2)
    W_hh = w["cell.candidate.weight"]
    r = sigmoid(xr + linear(W_hr, h))
    z = sigmoid(xz + linear(W_hz, h))
    if reset == "before":
        candidate = tanh(xh + linear(W_hh, r * h))
    else:
        candidate = tanh(xh + r * (linear(W_hh, h) + channels(w["cell.candidate.bias"], h)))
    return ((1 - z) * h + z * candidate,)


def rhn(w: Weights, x: Tensor, state: State, depth: int = 1) -> State:
    """Zilly et al. 2017 in the symbols of S1 eq. 14, s = H T + s C, `depth` times; only the first sees x."""
    (s,) = state
    for micro in range(depth):
        W_H, W_T, W_C = w[f"cell.recurrent.{micro}.weight"].chunk(3)
        if micro == 0:
            H, T, C = inputs(w, x, 3)
        else:
            H, T, C = (channels(b, s) for b in w[f"cell.recurrent.{micro}.bias"].chunk(3))
        H = tanh(H + linear(W_H, s))
        T = sigmoid(T + linear(W_T, s))
        C = sigmoid(C + linear(W_C, s))
        s = H * T + s * C
    return (s,)


def star(w: Weights, x: Tensor, state: State, shift: float = 0.0) -> State:
    """S0 eq. 10-12. The authors' code adds `shift` = 1 to the gate that weighs z, and only there."""
    (h,), (xz, xk) = state, inputs(w, x, 2)
    z = tanh(xz)
    a = xk + linear(w["cell.recurrent.weight"], h)
    return (tanh((1 - sigmoid(a)) * h + sigmoid(a + shift) * z),)


def rin(w: Weights, x: Tensor, state: State) -> State:
    """S1 eq. 12: ReLU(W x + U h + h + b)."""
    (h,), (a,) = state, inputs(w, x, 1)
    return (relu(a + linear(w["cell.recurrent.weight"], h) + h),)


def rin_dt(w: Weights, x: Tensor, state: State) -> State:
    """S1 eq. 26-27: the transition of eq. 12, and a second one that sees only its result."""
    (hat,) = rin(w, x, state)
    return (relu(linear(w["cell.transition.weight"], hat) + hat + channels(w["cell.transition.bias"], hat)),)


REFERENCES: dict[str, Callable[..., State]] = {
    "rnn": rnn,
    "lstm": lstm,
    "lstm-f": lstm_f,
    "lstm-peephole": lstm_peephole,
    "lstm-coupled": lstm_coupled,
    "gru": gru,
    "rhn": rhn,
    "star": star,
    "irnn": irnn,
    "rin": rin,
    "rin-dt": rin_dt,
}


# the gates in the order in which input.bias stacks them
GATES = {
    "rnn": "h",
    "lstm": "ifzo",
    "lstm-f": "fz",
    "lstm-peephole": "ifzo",
    "lstm-coupled": "fzo",
    "gru": "rzh",
    "rhn": "htc",
    "star": "zk",
    "irnn": "h",
    "rin": "h",
    "rin-dt": "h",
}

# the gate on the old state and the sign of a bias that keeps it; then that on the new one
KEEPS: dict[str, dict[str, int]] = {
    "lstm": {"f": +1, "i": -1},
    "lstm-peephole": {"f": +1, "i": -1},
    "lstm-f": {"f": +1},
    "lstm-coupled": {"f": +1},
    "gru": {"z": -1},
    "rhn": {"c": +1, "t": -1},
    "star": {"k": -1},
}


def run(cell: str, weights: Weights, x: Tensor, state: State, **options: object) -> tuple[Tensor, State]:
    """One layer over x: (batch, time, channels, ...) from `state`: every step's output, and the final state."""
    outputs = []
    for t in range(x.shape[1]):
        state = REFERENCES[cell](weights, x[:, t], state, **options)
        outputs.append(state[0])
    return torch.stack(outputs, 1), state
