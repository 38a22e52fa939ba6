"""The cells' equations a second time, as the papers print them: one gate a line, one time step after another, float64.

Nothing here comes from zoo. `weights` are the parameters of one direction of one layer under their names in a state
dict; gates are stacked along the first dimension. Channels are the second dimension of x and of every state, so that
(batch, channels) is dense and (batch, channels, height, width) convolutional. Sources: S0 is Turkoglu et al., "Gating
revisited"; S1 is Hu et al., "Overcoming the vanishing gradient problem in plain recurrent networks"; S4 is a lecture on
gated recurrent networks. The other papers are named where their equations stand; a matrix that a paper writes as a product
is multiplied out here.
"""

import math
import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, sigmoid, tanh
from torch.nn.functional import conv2d, conv_transpose2d

Weights = dict[str, Tensor]
State = tuple[Tensor, ...]


def linear(weight: Tensor, s: Tensor) -> Tensor:
    """W s, or W * s (S0 A.5) with zeros around the image, which keeps its size."""
    return s @ weight.T if weight.dim() == 2 else conv2d(s, weight, padding=weight.shape[-1] // 2)


def channels(vector: Tensor, s: Tensor) -> Tensor:
    """Return (channels,) reshaped to broadcast over s."""
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
    """S0 eq. 5 with the ReLU (Le et al. 2015); only its initial value, the identity, sets it apart."""
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


def lstm_residual(w: Weights, x: Tensor, state: State) -> State:
    """Kim et al. 2017: gates that look at the cell state unit by unit, and h = o (W_p tanh(c) + W_h x)."""
    (h, c), (xi, xf, xz, xo, xs) = state, inputs(w, x, 5)
    W_hi, W_hf, W_hz, W_ho = w["cell.recurrent.weight"].chunk(4)
    w_ci, w_cf = w["cell.old.weight"].chunk(2)
    i = sigmoid(xi + linear(W_hi, h) + channels(w_ci, c) * c)
    f = sigmoid(xf + linear(W_hf, h) + channels(w_cf, c) * c)
    c = f * c + i * tanh(xz + linear(W_hz, h))
    o = sigmoid(xo + linear(W_ho, h) + channels(w["cell.new.weight"], c) * c)
    return o * (linear(w["cell.projection.weight"], tanh(c)) + xs), c


def lstm_phased(w: Weights, x: Tensor, state: State, ratio: float = 0.05, leak: float = 0.001) -> State:
    """Neil et al. 2016: a peephole LSTM, and k = 1 in the middle of the open part of a period."""
    h, c, t = state
    h_new, c_new = lstm_peephole(w, x, (h, c), peephole="diagonal")
    tau = channels(torch.exp(w["cell.log_period"]), h)
    since = t - channels(w["cell.shift"], h)
    phi = since / tau - torch.floor(since / tau)
    k = torch.where(phi < ratio / 2, 2 * phi / ratio, torch.where(phi < ratio, 2 - 2 * phi / ratio, leak * phi))
    return k * h_new + (1 - k) * h, k * c_new + (1 - k) * c, t + 1


class StraightThrough(torch.autograd.Function):
    """1 above one half and 0 below, with the derivative of the identity (Campos et al. 2018)."""

    @staticmethod
    def forward(_, p: Tensor) -> Tensor:
        return torch.where(p > 0.5, 1.0, 0.0).to(p.dtype)

    @staticmethod
    def backward(_, gradient: Tensor) -> Tensor:
        return gradient


def skipping(cell: Callable[..., State], w: Weights, x: Tensor, state: State) -> State:
    """Campos et al. 2018: the last state is 1 minus the paper's update probability."""
    *old, debt = state
    p = 1 - debt
    u = StraightThrough.apply(p)
    s = [u * new + (1 - u) * past for new, past in zip(cell(w, x, tuple(old)), old, strict=True)]
    bias = channels(w["cell.importance.bias"], p)
    delta = sigmoid(linear(w["cell.importance.weight"], s[-1]) + bias)
    p = u * delta + (1 - u) * (p + torch.where(delta < 1 - p, delta, 1 - p))
    return *s, 1 - p


def gru_skip(w: Weights, x: Tensor, state: State) -> State:
    return skipping(gru, w, x, state)


def lstm_skip(w: Weights, x: Tensor, state: State) -> State:
    return skipping(lstm, w, x, state)


def indrnn(w: Weights, x: Tensor, state: State, activation: str = "relu") -> State:
    """Li et al. 2018: a product of each unit's state with its own weight."""
    (h,), (a,) = state, inputs(w, x, 1)
    phi = {"tanh": tanh, "relu": relu}[activation]
    return (phi(a + channels(w["cell.recurrent.weight"], h) * h),)


def intersection(w: Weights, x: Tensor, state: State) -> State:
    """Collins et al. 2017, +RNN; what is passed up is a map of x."""
    (_, h), (xy, xh, xgy, xgh, through) = state, inputs(w, x, 5)
    U_y, U_h, U_gy, U_gh = w["cell.recurrent.weight"].chunk(4)
    y_in = relu(xy + linear(U_y, h))
    h_in = tanh(xh + linear(U_h, h))
    g_y = sigmoid(xgy + linear(U_gy, h))
    g_h = sigmoid(xgh + linear(U_gh, h))
    return g_y * through + (1 - g_y) * y_in, g_h * h + (1 - g_h) * h_in


def gf_rnn(w: Weights, x: Tensor, state: State, depth: int = 1) -> State:
    """Chung et al. 2015: g_ij weighs what layer j takes from layer i's past."""
    xh, xg = inputs(w, x, 2)
    past = state[::-1]
    new: list[Tensor] = []
    for j in range(depth):
        total = (
            xh if j == 0 else linear(w[f"cell.up.{j - 1}.weight"], new[-1]) + channels(w[f"cell.up.{j - 1}.bias"], x)
        )
        for i in range(depth):
            gate = linear(w[f"cell.present.{j}.weight"][i : i + 1], xg if j == 0 else new[-1])
            for k in range(depth):
                row = j * depth + i
                gate = gate + linear(w[f"cell.past.{k}.weight"][row : row + 1], past[k])
            total = total + sigmoid(gate) * linear(w[f"cell.recurrent.{i}.weight"].chunk(depth)[j], past[i])
        new.append(tanh(total))
    return tuple(new[::-1])


def antisymmetric(w: Weights, x: Tensor, state: State, epsilon: float = 0.1, gamma: float = 0.01) -> State:
    """Chang et al. 2019: h + eps tanh((W - W^T - gamma I) h + V x + b)."""
    (h,), (a,) = state, inputs(w, x, 1)
    return (h + epsilon * tanh(a + difference(w["cell.recurrent.weight"], h) - gamma * h),)


def antisymmetric_gated(w: Weights, x: Tensor, state: State, epsilon: float = 0.1, gamma: float = 0.01) -> State:
    """Chang et al. 2019: the same with a gate that shares the recurrent matrix."""
    (h,), (xz, xh) = state, inputs(w, x, 2)
    moved = difference(w["cell.recurrent.weight"], h) - gamma * h
    return (h + epsilon * sigmoid(moved + xz) * tanh(moved + xh),)


def difference(W: Tensor, s: Tensor) -> Tensor:
    """(W - W^T) s; the transpose of a convolution is the transposed convolution."""
    if W.dim() == 2:
        return s @ W.T - s @ W
    return linear(W, s) - conv_transpose2d(s, W, padding=W.shape[-1] // 2)


def modrelu(z: Tensor, b: Tensor) -> Tensor:
    """Arjovsky et al. 2016, of complex or real z, with the constant that their code adds under the root."""
    length = torch.sqrt((z * z.conj()).real + 1e-5)
    return torch.where(length + b > 0, z * (length + b) / length, torch.zeros_like(z))


def complex_rnn(w: Weights, W: Tensor, x: Tensor, state: State) -> State:
    """modReLU(W z + V x + b) of complex numbers whose imaginary parts are the second half of the channels."""
    z = torch.complex(*state[0].chunk(2, 1)) @ W.T + torch.complex(*inputs(w, x, 2))
    z = modrelu(z, w["cell.threshold"])
    return (torch.cat([z.real, z.imag], 1),)


def phases(angles: Tensor) -> Tensor:
    return torch.complex(torch.cos(angles), torch.sin(angles))


def urnn(w: Weights, x: Tensor, state: State) -> State:
    """Arjovsky et al. 2016: W = D3 R2 F^-1 D2 Pi R1 F D1, multiplied out."""
    d1, d2, d3, *reflections = w["cell.recurrent.weight"]
    n = len(d1)
    eye = torch.eye(n, dtype=torch.complex128)
    index = torch.arange(n, dtype=torch.float64)
    fourier = phases(-2 * math.pi / n * index[:, None] * index)
    inverse = fourier.conj() / n
    draw = random.Random(0)
    order = [k for _, k in sorted((draw.random(), k) for k in range(n))]

    def reflection(v: Tensor) -> Tensor:
        return eye - 2 * torch.outer(v, v.conj()) / (v * v.conj()).sum()

    R1, R2 = (reflection(torch.complex(*reflections[i : i + 2])) for i in (0, 2))
    D1, D2, D3 = (torch.diag(phases(d)) for d in (d1, d2, d3))
    return complex_rnn(w, D3 @ R2 @ inverse @ D2 @ eye[order] @ R1 @ fourier @ D1, x, state)


def urnn_full(w: Weights, x: Tensor, state: State) -> State:
    """Any unitary W: here the exponential of the skew-Hermitian matrix of n^2 real numbers."""
    X = w["cell.recurrent.weight"]
    return complex_rnn(w, torch.matrix_exp(torch.complex((X - X.T) / 2, (X + X.T) / 2)), x, state)


def rotation(n: int, pairs: Sequence[tuple[int, int]], angles: Tensor, turns: Tensor | None = None) -> Tensor:
    """Jing et al. 2017: for each pair (i, j), R_ii = e^{i phi} cos, R_ij = - e^{i phi} sin, R_ji = sin, R_jj = cos."""
    W = torch.eye(n, dtype=angles.dtype if turns is None else torch.complex128)
    for p, (i, j) in enumerate(pairs):
        R = torch.eye(n, dtype=W.dtype)
        turn = 1 if turns is None else phases(turns[p])
        R[i, i], R[i, j], R[j, i], R[j, j] = (
            turn * torch.cos(angles[p]), -turn * torch.sin(angles[p]), torch.sin(angles[p]), torch.cos(angles[p]),
        )  # fmt: skip
        W = R @ W
    return W


def neighbours(n: int, layer: int) -> list[tuple[int, int]]:
    """(0, 1), (2, 3), ... in even layers, (1, 2), (3, 4), ... around the ring in odd ones."""
    return [((2 * p + layer % 2) % n, (2 * p + 1 + layer % 2) % n) for p in range(n // 2)]


def eunn(w: Weights, x: Tensor, state: State, capacity: int = 2) -> State:
    """Jing et al. 2017: W = D F ... F, the first F nearest to the state."""
    D = w["cell.recurrent.phases"]
    angles, turns = w["cell.recurrent.weight"].chunk(2)
    W = torch.eye(len(D), dtype=torch.complex128)
    for layer in range(capacity):
        W = rotation(len(D), neighbours(len(D), layer), angles[layer], turns[layer]) @ W
    return complex_rnn(w, torch.diag(phases(D)) @ W, x, state)


def goru(w: Weights, x: Tensor, state: State, capacity: int = 2) -> State:
    """Jing et al. 2019: h = z h + (1 - z) modReLU(W x + r (U h) + b), U a product of rotations."""
    (h,), (xr, xz, xh) = state, inputs(w, x, 3)
    W_r, W_z = w["cell.gates.weight"].chunk(2)
    n = h.shape[1]
    U = torch.eye(n, dtype=h.dtype)
    for layer in range(capacity):
        U = rotation(n, neighbours(n, layer), w["cell.rotation.weight"][layer]) @ U
    r = sigmoid(xr + linear(W_r, h))
    z = sigmoid(xz + linear(W_z, h))
    return (z * h + (1 - z) * modrelu(xh + r * linear(U, h), w["cell.threshold"]),)


def rnn_soft_orthogonal(w: Weights, x: Tensor, state: State, activation: str = "tanh", margin: float = 0.1) -> State:
    """Vorontsov et al. 2017: W = U S V^T, singular values 2 m (sigmoid(p) - 0.5) + 1; p stands on the weight's diagonal."""
    X = w["cell.recurrent.weight"]
    U = torch.matrix_exp(torch.tril(X, -1) - torch.tril(X, -1).T)
    V = torch.matrix_exp(torch.triu(X, 1) - torch.triu(X, 1).T)
    S = torch.diag(2 * margin * (sigmoid(torch.diagonal(X)) - 0.5) + 1)
    return rnn({**w, "cell.recurrent.weight": U @ S @ V.T}, x, state, activation)


def positive(a: Tensor) -> Tensor:
    """Feng et al. 2024, g of the log-space form."""
    return torch.where(a >= 0, a + 0.5, sigmoid(a))


def mingru(w: Weights, x: Tensor, state: State, candidate: str = "linear") -> State:
    """Feng et al. 2024, minGRU."""
    (h,), (xz, xh) = state, inputs(w, x, 2)
    z = sigmoid(xz)
    return ((1 - z) * h + z * (xh if candidate == "linear" else positive(xh)),)


def minlstm(w: Weights, x: Tensor, state: State, candidate: str = "linear") -> State:
    """Feng et al. 2024, minLSTM."""
    (h,), (xf, xi, xh) = state, inputs(w, x, 3)
    f, i = sigmoid(xf), sigmoid(xi)
    return (f / (f + i) * h + i / (f + i) * (xh if candidate == "linear" else positive(xh)),)


def gilr(w: Weights, x: Tensor, state: State) -> State:
    """Martin & Cundy 2018."""
    (h,), (xg, xi) = state, inputs(w, x, 2)
    g = sigmoid(xg)
    return (g * h + (1 - g) * tanh(xi),)


def qrnn(w: Weights, x: Tensor, state: State) -> State:
    """Bradbury et al. 2017, fo-pooling."""
    (_, c), (xz, xf, xo) = state, inputs(w, x, 3)
    f = sigmoid(xf)
    c = f * c + (1 - f) * tanh(xz)
    return sigmoid(xo) * c, c


def sru(w: Weights, x: Tensor, state: State, activation: str = "identity") -> State:
    """Lei et al. 2018 with v_f = v_r = 0."""
    (_, c), (xx, xf, xr, xs) = state, inputs(w, x, 4)
    f, r = sigmoid(xf), sigmoid(xr)
    c = f * c + (1 - f) * xx
    return r * (tanh(c) if activation == "tanh" else c) + (1 - r) * xs, c


def rg_lru(w: Weights, x: Tensor, state: State) -> State:
    """De et al. 2024, eq. 1-4: a = sigmoid(Lambda), a_t = a^(c r_t) with c = 8."""
    (h,), (xr, xi, xx) = state, inputs(w, x, 3)
    a = channels(sigmoid(w["cell.decay.weight"]), h) ** (8 * sigmoid(xr))
    return (a * h + torch.sqrt(1 - a * a) * (sigmoid(xi) * xx),)


def lru(
    w: Weights, x: Tensor, state: State, expand: int = 1, normalisation: str = "tied", **initial_values: object
) -> State:
    """Orvieto et al. 2023, eq. 7, in complex numbers, with gamma learned, as there, or sqrt(1 - |lambda|^2).

    C = C_1 - i C_2 in the columns of the output weight; the state is z / gamma.
    """
    (_, c), blocks = state, inputs(w, x, 2 * expand + 1)
    xr, xi, xd = torch.cat(blocks[:expand], 1), torch.cat(blocks[expand:-1], 1), blocks[-1]
    nu, theta = w["cell.decay"].exp(), w["cell.phase"].exp()
    lam = torch.exp(torch.complex(-nu, theta))
    gamma = w["cell.log_gain"].exp() if normalisation == "learned" else torch.sqrt(1 - lam.abs() ** 2)
    scale = channels(gamma, x)
    z = torch.complex(*c.chunk(2, 1)) * scale
    z = channels(lam, x) * z + scale * torch.complex(xr, xi)
    C_1, C_2 = w["cell.output.weight"].chunk(2, 1)
    return linear(C_1, z.real) + linear(C_2, z.imag) + xd, torch.cat([z.real / scale, z.imag / scale], 1)


def hgrn(w: Weights, x: Tensor, state: State) -> State:
    """Qin et al. 2023, in complex numbers, with the lower bound sigmoid(bound)."""
    (_, h), (mu, re, im, g_re, g_im) = state, inputs(w, x, 5)
    gamma = channels(sigmoid(w["cell.bound"]), x)
    theta = channels(w["cell.theta"], x)
    lam = gamma + (1 - gamma) * sigmoid(mu)
    c = torch.complex(re * sigmoid(re), im * sigmoid(im))
    h = lam * torch.exp(1j * theta) * torch.complex(*h.chunk(2, 1)) + (1 - lam) * c
    W_re, W_im = w["cell.output.weight"].chunk(2, 1)
    o = linear(W_re, sigmoid(g_re) * h.real) + linear(W_im, sigmoid(g_im) * h.imag)
    return o, torch.cat([h.real, h.imag], 1)


def discretised(A: Tensor, delta: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """Gu et al. 2022, of complex A: A bar and B bar with B = 1."""
    if method == "zoh":
        A_bar = torch.exp(delta * A)
        return A_bar, (A_bar - 1) / A
    return (1 + delta * A / 2) / (1 - delta * A / 2), delta / (1 - delta * A / 2)


def s4d(
    w: Weights, x: Tensor, state: State, states: int = 32, spectrum: str = "", discretization: str = "zoh"
) -> State:
    """Gu et al. 2022, one unit after another; `spectrum` is an initial value only."""
    (_, c), (u,) = state, inputs(w, x, 1)
    A = torch.complex(-w["cell.log_decay"].exp(), w["cell.frequency"])
    C = torch.complex(*w["cell.output"].chunk(2))
    outputs, old, new = [], torch.complex(*c.chunk(2, 1)), []
    for unit in range(u.shape[1]):
        part = slice(unit * states, (unit + 1) * states)
        A_bar, B_bar = discretised(A[part], w["cell.log_step"][unit].exp(), discretization)
        new.append(channels(A_bar, u) * old[:, part] + channels(B_bar, u) * u[:, unit : unit + 1])
        outputs.append(2 * (channels(C[part], u) * new[-1]).sum(1).real + w["cell.skip"][unit] * u[:, unit])
    z = torch.cat(new, 1)
    return torch.stack(outputs, 1), torch.cat([z.real, z.imag], 1)


def s5(w: Weights, x: Tensor, state: State, states: int = 32, blocks: int = 1, discretization: str = "zoh") -> State:
    """Smith et al. 2023, with both of each pair of conjugates; `blocks` is an initial value only."""
    (_, c) = state
    weights, biases = (
        w[f"input.{kind}"].split([states, states, len(w["cell.output.weight"])]) for kind in ("weight", "bias")
    )
    re, im, d = (linear(weight, x) + channels(bias, x) for weight, bias in zip(weights, biases, strict=True))
    A = torch.complex(-w["cell.log_decay"].exp(), w["cell.frequency"])
    A_bar, B_bar = discretised(A, w["cell.log_step"].exp(), discretization)
    z = channels(A_bar, x) * torch.complex(*c.chunk(2, 1)) + channels(B_bar, x) * torch.complex(re, im)
    C_1, C_2 = w["cell.output.weight"].chunk(2, 1)  # C = C_1 - i C_2
    y = 2 * (linear(C_1, z.real) + linear(C_2, z.imag))
    return y + d, torch.cat([z.real, z.imag], 1)


def slstm(w: Weights, x: Tensor, state: State, heads: int = 1, forget: str = "sigmoid") -> State:
    """Beck et al. 2024, eq. 8-17, with c and n as they are, and m for their scale. R has a block for each head."""
    (h, c, n, m), xs = state, inputs(w, x, 4)
    i, f, z, o = (
        a + torch.cat([linear(R, s) for R, s in zip(gate.chunk(heads), h.chunk(heads, 1), strict=True)], 1)
        for a, gate in zip(xs, w["cell.recurrent.weight"].chunk(4), strict=True)
    )
    c, n = c * torch.exp(m), n * torch.exp(m)
    log_f = torch.log(sigmoid(f)) if forget == "sigmoid" else f
    m = torch.where(n == 0, i, torch.maximum(log_f + m, i))
    i, f = torch.exp(i), torch.exp(log_f)
    c = f * c + i * tanh(z)
    n = f * n + i
    return sigmoid(o) * c / n, c * torch.exp(-m), n * torch.exp(-m), m


# Matrix states: every position of an image and every head on its own, as (batch, ..., heads, n)


def parts(w: Weights, x: Tensor, *sizes: int) -> list[Tensor]:
    """W_x x + b, cut into channels of these sizes and a rest, each with the channels last."""
    y = linear(w["input.weight"], x) + channels(w["input.bias"], x)
    return list(y.movedim(1, -1).split([*sizes, y.shape[1] - sum(sizes)], -1))


def per_head(x: Tensor, heads: int) -> Tensor:
    return x.reshape(*x.shape[:-1], heads, -1)


def matrices(state: Tensor, heads: int, keys: int) -> Tensor:
    """S as (batch, ..., heads, keys, values)."""
    state = state.movedim(1, -1)
    return state.reshape(*state.shape[:-1], heads, keys, -1)


def emitted(o: Tensor, S: Tensor) -> State:
    """Outputs and states with the channels second."""
    return o.flatten(-2).movedim(-1, 1), S.flatten(-3).movedim(-1, 1)


def times(q: Tensor, S: Tensor) -> Tensor:
    """q^T S."""
    return torch.einsum("...k,...kv->...v", q, S)


def outer(k: Tensor, v: Tensor) -> Tensor:
    """k v^T."""
    return torch.einsum("...k,...v->...kv", k, v)


def softplus(x: Tensor) -> Tensor:
    return torch.log(1 + torch.exp(x))


def silu(x: Tensor) -> Tensor:
    return x * sigmoid(x)


def unit(x: Tensor) -> Tensor:
    """x / |x|, with the 1e-6 under the root that the authors' code has."""
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def low_rank(weight: Tensor, x: Tensor) -> Tensor:
    """W x of x with the channels last."""
    return linear(weight, x.movedim(-1, 1)).movedim(1, -1)


def mlstm(w: Weights, x: Tensor, state: State, heads: int = 1, forget: str = "sigmoid") -> State:
    """Beck et al. 2024, eq. 19-27, with C and n as they are, and m for their scale."""
    h, C, m = state
    units = h.shape[1]
    q, k, v, i, f, o = parts(w, x, units, units, units, heads, heads)
    q, k, v, o = (per_head(part, heads) for part in (q, k, v, o))
    m = m.movedim(1, -1)
    S = matrices(C, heads, units // heads) * torch.exp(m)[..., None, None]
    C, n = S[..., :-1], S[..., -1]
    k = k / math.sqrt(units // heads)
    log_f = torch.log(sigmoid(f)) if forget == "sigmoid" else f
    m = torch.where(log_f + m > i, log_f + m, i)
    C = torch.exp(log_f)[..., None, None] * C + torch.exp(i)[..., None, None] * outer(k, v)
    n = torch.exp(log_f)[..., None] * n + torch.exp(i)[..., None] * k
    size = torch.clamp((n * q).sum(-1, keepdim=True).abs(), min=1)
    S = torch.cat([C, n[..., None]], -1) * torch.exp(-m)[..., None, None]
    return *emitted(sigmoid(o) * times(q, C) / size, S), m.movedim(-1, 1)


def retention(w: Weights, x: Tensor, state: State, heads: int = 1) -> State:
    """Sun et al. 2023, eq. 6, in complex numbers; the state is a vector of keys turned by exp(i theta) at every step."""
    units = state[0].shape[1]
    q, k, v = (per_head(part, heads) for part in parts(w, x, units, units))
    keys = units // heads
    S, half = matrices(state[1], heads, keys), keys // 2
    k = k / math.sqrt(keys)
    gamma = 1 - 2.0 ** (-5 - torch.arange(heads, dtype=x.dtype)).reshape(heads, 1, 1)
    theta = torch.tensor([10000.0 ** (-j / half) for j in range(half)], dtype=x.dtype).reshape(half, 1)
    turned = torch.exp(-1j * theta) * torch.complex(S[..., :half, :], S[..., half : 2 * half, :])
    S = gamma * torch.cat([turned.real, turned.imag, S[..., 2 * half :, :]], -2) + outer(k, v)
    return emitted(times(q, S), S)


def gla(w: Weights, x: Tensor, state: State, heads: int = 1, rank: int = 16) -> State:
    """Yang et al. 2024 (gated linear attention), eq. 3 and section 4.4."""
    units = state[0].shape[1]
    q, k, v, a = parts(w, x, units, units, units)
    alpha = sigmoid(low_rank(w["cell.gate.weight"], a) + w["cell.gate.bias"]) ** (1 / 16)
    q, k, v, alpha = (per_head(part, heads) for part in (q, k, v, alpha))
    S = alpha[..., None] * matrices(state[1], heads, units // heads) + outer(k, v)
    return emitted(times(q, S), S)


def deltanet(w: Weights, x: Tensor, state: State, heads: int = 1, gated: bool = False) -> State:
    """Yang et al. 2024 (DeltaNet), and Yang et al. 2025; here S has keys by values."""
    units = state[0].shape[1]
    q, k, v, beta, *alpha = parts(w, x, units, units, units, *[heads] * gated)
    q, k, v = (per_head(part, heads) for part in (q, k, v))
    q, k, v, beta = unit(silu(q)), unit(silu(k)), silu(v), sigmoid(beta)[..., None, None]
    S = matrices(state[1], heads, units // heads)
    if gated:
        rate = torch.exp(w["cell.log_rate"]) * softplus(alpha[0] + w["cell.step_offset"])
        S = torch.exp(-rate)[..., None, None] * S
    erase = torch.eye(units // heads, dtype=x.dtype) - beta * outer(k, k)
    S = erase @ S + beta * outer(k, v)
    return emitted(times(q, S), S)


def gated_deltanet(w: Weights, x: Tensor, state: State, heads: int = 1) -> State:
    """Yang et al. 2025."""
    return deltanet(w, x, state, heads, gated=True)


def mamba2(w: Weights, x: Tensor, state: State, heads: int = 1, states: int = 64) -> State:
    """Dao & Gu 2024, of one group: all heads share B and C."""
    units = state[0].shape[1]
    v, B, C, dt = parts(w, x, units, states, states)
    v, dt = per_head(v, heads), softplus(dt + w["cell.step_offset"])[..., None, None]
    A = -torch.exp(w["cell.log_rate"]).reshape(heads, 1, 1)
    B, C = (part.unsqueeze(-2).expand(*part.shape[:-1], heads, states) for part in (B, C))
    S = torch.exp(dt * A) * matrices(state[1], heads, states) + dt * outer(B, v)
    return emitted(times(C, S) + w["cell.skip"].reshape(heads, 1) * v, S)


def rwkv6(w: Weights, x: Tensor, state: State, heads: int = 1, rank: int = 64) -> State:
    """Peng et al. 2024."""
    units = state[0].shape[1]
    r, k, v, d = parts(w, x, units, units, units)
    decay = torch.exp(-torch.exp(w["cell.decay"] + low_rank(w["cell.low_rank.weight"], tanh(d))))
    r, k, v, decay, u = (per_head(part, heads) for part in (r, k, v, decay, w["cell.bonus"]))
    S = matrices(state[1], heads, units // heads)
    o = times(r, S + u[..., None] * outer(k, v))
    return emitted(o, decay[..., None] * S + outer(k, v))


def rwkv7(w: Weights, x: Tensor, state: State, heads: int = 1, rank: int = 64) -> State:
    """Peng et al. 2025, eq. 6, 7, 12, 15 and 17; here S has keys by values."""
    units = state[0].shape[1]
    r, k, v, d, a = parts(w, x, units, units, units, rank)
    decay = torch.exp(-math.exp(-0.5) * sigmoid(w["cell.decay"] + low_rank(w["cell.w.weight"], tanh(d))))
    a = sigmoid(w["cell.rate"] + low_rank(w["cell.a.weight"], a))
    replacement = k * (1 - w["cell.alpha"] + a * w["cell.alpha"])
    r, v, decay, a, replacement, kappa, rho = (
        per_head(part, heads) for part in (r, v, decay, a, replacement, k * w["cell.xi"], w["cell.rho"])
    )
    kappa = unit(kappa)
    transition = torch.diag_embed(decay) - outer(a * kappa, kappa)
    S = transition @ matrices(state[1], heads, units // heads) + outer(replacement, v)
    return emitted(times(r, S) + (r * rho * replacement).sum(-1, keepdim=True) * v, S)


def mgu_step(f: Tensor, xh: Tensor, w: Weights, h: Tensor) -> State:
    """Zhou et al. 2016, from a gate f that has been computed."""
    new = tanh(xh + linear(w["cell.candidate.weight"], f * h))
    return ((1 - f) * h + f * new,)


def mgu(w: Weights, x: Tensor, state: State) -> State:
    """Zhou et al. 2016: one gate resets and updates."""
    (h,), (xf, xh) = state, inputs(w, x, 2)
    return mgu_step(sigmoid(xf + linear(w["cell.gate.weight"], h)), xh, w, h)


def mgu1(w: Weights, x: Tensor, state: State) -> State:
    """Heck & Salem 2017: the gate of U h + b."""
    (h,), (xh,) = state, inputs(w, x, 1)
    return mgu_step(sigmoid(linear(w["cell.gate.weight"], h) + channels(w["cell.gate.bias"], h)), xh, w, h)


def mgu2(w: Weights, x: Tensor, state: State) -> State:
    """Heck & Salem 2017: the gate of U h."""
    (h,), (xh,) = state, inputs(w, x, 1)
    return mgu_step(sigmoid(linear(w["cell.gate.weight"], h)), xh, w, h)


def mgu3(w: Weights, x: Tensor, state: State) -> State:
    """Heck & Salem 2017: the gate of b."""
    (h,), (xh,) = state, inputs(w, x, 1)
    return mgu_step(sigmoid(channels(w["cell.gate"], h)), xh, w, h)


def ugrnn(w: Weights, x: Tensor, state: State) -> State:
    """Collins et al. 2017, UGRNN: g keeps."""
    (h,), (xg, xc) = state, inputs(w, x, 2)
    U_g, U_c = w["cell.recurrent.weight"].chunk(2)
    g = sigmoid(xg + linear(U_g, h))
    return (g * h + (1 - g) * tanh(xc + linear(U_c, h)),)


def ligru(w: Weights, x: Tensor, state: State) -> State:
    """Ravanelli et al. 2018, without batch norm: z keeps, and the candidate is rectified."""
    (h,), (xz, xh) = state, inputs(w, x, 2)
    U_z, U_h = w["cell.recurrent.weight"].chunk(2)
    z = sigmoid(xz + linear(U_z, h))
    return (z * h + (1 - z) * relu(xh + linear(U_h, h)),)


def janet(w: Weights, x: Tensor, state: State, beta: float = 1.0) -> State:
    """van der Westhuizen & Lasenby 2018: c = sigmoid(s) c + (1 - sigmoid(s - beta)) c~, h = c."""
    (h,), (xs, xc) = state, inputs(w, x, 2)
    U_s, U_c = w["cell.recurrent.weight"].chunk(2)
    s = xs + linear(U_s, h)
    return (sigmoid(s) * h + (1 - sigmoid(s - beta)) * tanh(xc + linear(U_c, h)),)


def minimalrnn(w: Weights, x: Tensor, state: State) -> State:
    """Chen 2017: the gate sees the latent z, not x."""
    (h,), (xz,) = state, inputs(w, x, 1)
    z = tanh(xz)
    bias = channels(w["cell.recurrent.bias"], h)
    u = sigmoid(linear(w["cell.recurrent.weight"], h) + linear(w["cell.latent.weight"], z) + bias)
    return (u * h + (1 - u) * z,)


def atr(w: Weights, x: Tensor, state: State) -> State:
    """Zhang et al. 2018: i of the sum and f of the difference."""
    (h,), (p,) = state, inputs(w, x, 1)
    q = linear(w["cell.recurrent.weight"], h)
    i = sigmoid(p + q)
    f = sigmoid(p - q)
    return (i * p + f * h,)


def ran(w: Weights, x: Tensor, state: State, activation: str = "tanh") -> State:
    """Lee et al. 2017: the content is a linear map of x."""
    (h, c), (xi, xf, content) = state, inputs(w, x, 3)
    U_i, U_f = w["cell.recurrent.weight"].chunk(2)
    i = sigmoid(xi + linear(U_i, h))
    f = sigmoid(xf + linear(U_f, h))
    c = i * content + f * c
    return {"tanh": tanh(c), "identity": c}[activation], c


def cfn(w: Weights, x: Tensor, state: State) -> State:
    """Laurent & von Brecht 2017: theta tanh(h) + eta tanh(W x)."""
    (h,), (xt, xe, xh) = state, inputs(w, x, 3)
    U_t, U_e = w["cell.recurrent.weight"].chunk(2)
    theta = sigmoid(xt + linear(U_t, h))
    eta = sigmoid(xe + linear(U_e, h))
    return (theta * tanh(h) + eta * tanh(xh),)


def scrn(w: Weights, x: Tensor, state: State, alpha: float = 0.95) -> State:
    """Mikolov et al. 2015: slow context units s and fast hidden units h, read together."""
    h, s = state[0].chunk(2, 1)
    A_x, B_x = inputs(w, x, 2)
    s = (1 - alpha) * B_x + alpha * s
    h = sigmoid(linear(w["cell.context.weight"], s) + A_x + linear(w["cell.recurrent.weight"], h))
    return (torch.cat([h, s], 1),)


def bistable(a: Tensor, c: Tensor, xh: Tensor, h: Tensor) -> State:
    """Vecoven et al. 2021, from the sums inside a and c."""
    a, c = 1 + tanh(a), sigmoid(c)
    return (c * h + (1 - c) * tanh(xh + a * h),)


def brc(w: Weights, x: Tensor, state: State) -> State:
    """Vecoven et al. 2021: w_a * h and w_c * h."""
    (h,), (xa, xc, xh) = state, inputs(w, x, 3)
    w_a, w_c = (channels(v, h) for v in w["cell.recurrent.weight"].chunk(2))
    return bistable(xa + w_a * h, xc + w_c * h, xh, h)


def nbrc(w: Weights, x: Tensor, state: State) -> State:
    """Vecoven et al. 2021: W_a h and W_c h."""
    (h,), (xa, xc, xh) = state, inputs(w, x, 3)
    W_a, W_c = w["cell.recurrent.weight"].chunk(2)
    return bistable(xa + linear(W_a, h), xc + linear(W_c, h), xh, h)


def factored(w: Weights, h: Tensor) -> Tensor:
    """U h, or U_1 U_2 h."""
    return linear(w["cell.recurrent.weight"], linear(w["cell.down.weight"], h) if "cell.down.weight" in w else h)


def fastrnn(w: Weights, x: Tensor, state: State, recurrent_rank: int = 0) -> State:
    """Kusupati et al. 2018: alpha and beta are one number each."""
    (h,), (a,) = state, inputs(w, x, 1)
    return (sigmoid(w["cell.alpha"]) * tanh(a + factored(w, h)) + sigmoid(w["cell.beta"]) * h,)


def fastgrnn(w: Weights, x: Tensor, state: State, recurrent_rank: int = 0) -> State:
    """Kusupati et al. 2018: gate and candidate differ in their biases only."""
    (h,), (a,) = state, inputs(w, x, 1)
    pre = a + factored(w, h)
    z = sigmoid(pre)
    candidate = tanh(pre + channels(w["cell.offset"], h))
    return ((sigmoid(w["cell.zeta"]) * (1 - z) + sigmoid(w["cell.nu"])) * candidate + z * h,)


def cornn(w: Weights, x: Tensor, state: State, dt: float = 0.042, gamma: float = 2.7, epsilon: float = 4.7) -> State:
    """Rusch & Mishra 2021, coRNN, with n bar = n - 1."""
    (y, z), (u,) = state, inputs(w, x, 1)
    force = tanh(linear(w["cell.recurrent.weight"], y) + linear(w["cell.speed.weight"], z) + u)
    z = z + dt * force - dt * gamma * y - dt * epsilon * z
    return y + dt * z, z


def unicornn(w: Weights, x: Tensor, state: State, dt: float = 0.19, alpha: float = 30.65) -> State:
    """Rusch & Mishra 2021, UnICORNN: a symplectic Euler step."""
    (y, z), (u,) = state, inputs(w, x, 1)
    scale = sigmoid(channels(w["cell.scale"], y))
    z = z - dt * scale * (tanh(channels(w["cell.recurrent.weight"], y) * y + u) + alpha * y)
    return y + dt * scale * z, z


def lem(w: Weights, x: Tensor, state: State, dt: float = 1.0) -> State:
    """Rusch et al. 2022: z with its own time steps, then y, which sees the new z."""
    (y, z), (x1, x2, xz, xy) = state, inputs(w, x, 4)
    W_1, W_2, W_z = w["cell.recurrent.weight"].chunk(3)
    step = dt * sigmoid(x1 + linear(W_1, y))
    step_bar = dt * sigmoid(x2 + linear(W_2, y))
    z = (1 - step) * z + step * tanh(xz + linear(W_z, y))
    y = (1 - step_bar) * y + step_bar * tanh(xy + linear(w["cell.output.weight"], z))
    return y, z


def lipschitz(
    w: Weights, x: Tensor, state: State, epsilon: float = 0.03, beta: float = 0.75, gamma: float = 0.001
) -> State:
    """Erichson et al. 2021: both matrices are (1 - beta) (M + M^T) + beta (M - M^T) - gamma I."""
    (h,), (a,) = state, inputs(w, x, 1)

    def product(M: Tensor) -> Tensor:
        symmetric = 2 * linear(M, h) - difference(M, h)
        return (1 - beta) * symmetric + beta * difference(M, h) - gamma * h

    return (h + epsilon * product(w["cell.drift.weight"]) + epsilon * tanh(product(w["cell.recurrent.weight"]) + a),)


def exprnn(w: Weights, x: Tensor, state: State) -> State:
    """Lezcano-Casado & Martinez-Rubio 2019: modReLU(exp(A) h + T x), A from the upper triangle."""
    (h,), (a,) = state, inputs(w, x, 1)
    above = torch.triu(w["cell.rotation.weight"], 1)
    return (modrelu(h @ torch.matrix_exp(above - above.T).T + a, w["cell.threshold"]),)


def mut1(w: Weights, x: Tensor, state: State) -> State:
    """Jozefowicz et al. 2015, MUT1: the update gate sees x alone, and x passes a tanh of its own."""
    (h,), (xz, xr, xh) = state, inputs(w, x, 3)
    z = sigmoid(xz)
    r = sigmoid(xr + linear(w["cell.reset.weight"], h))
    bias = channels(w["cell.candidate.bias"], h)
    return (tanh(linear(w["cell.candidate.weight"], r * h) + tanh(xh) + bias) * z + h * (1 - z),)


def mut3(w: Weights, x: Tensor, state: State) -> State:
    """Jozefowicz et al. 2015, MUT3: the update gate sees tanh(h)."""
    (h,), (xr, xz, xh) = state, inputs(w, x, 3)
    z = sigmoid(xz + linear(w["cell.update.weight"], tanh(h)))
    r = sigmoid(xr + linear(w["cell.gates.weight"], h))
    return (tanh(linear(w["cell.candidate.weight"], r * h) + xh) * z + h * (1 - z),)


def lstm_original(w: Weights, x: Tensor, state: State, squashing: str = "tanh") -> State:
    """Hochreiter & Schmidhuber 1997: no forget gate; there g = 4 sigmoid - 2 and h = 2 sigmoid - 1."""
    (h, c), (xi, xz, xo) = state, inputs(w, x, 3)
    U_i, U_z, U_o = w["cell.recurrent.weight"].chunk(3)
    i = sigmoid(xi + linear(U_i, h))
    o = sigmoid(xo + linear(U_o, h))
    z = xz + linear(U_z, h)
    if squashing == "tanh":
        c = c + i * tanh(z)
        return o * tanh(c), c
    c = c + i * (4 * sigmoid(z) - 2)
    return o * (2 * sigmoid(c) - 1), c


def lstm_multiplicative(w: Weights, x: Tensor, state: State) -> State:
    """Krause et al. 2017: the gates see m, a product of x and h."""
    (h, c), (xi, xf, xz, xo, xm) = state, inputs(w, x, 5)
    W_i, W_f, W_z, W_o = w["cell.recurrent.weight"].chunk(4)
    m = xm * linear(w["cell.multiplied.weight"], h)
    i = sigmoid(xi + linear(W_i, m))
    f = sigmoid(xf + linear(W_f, m))
    o = sigmoid(xo + linear(W_o, m))
    c = f * c + i * tanh(xz + linear(W_z, m))
    return o * tanh(c), c


def lstm_working(w: Weights, x: Tensor, state: State) -> State:
    """Landi et al. 2021: gates that see tanh(V c)."""
    (h, c), (xi, xf, xz, xo) = state, inputs(w, x, 4)
    W_i, W_f, W_z, W_o = w["cell.recurrent.weight"].chunk(4)
    V_i, V_f = w["cell.old.weight"].chunk(2)
    i = sigmoid(xi + linear(W_i, h) + tanh(linear(V_i, c)))
    f = sigmoid(xf + linear(W_f, h) + tanh(linear(V_f, c)))
    c = f * c + i * tanh(xz + linear(W_z, h))
    o = sigmoid(xo + linear(W_o, h) + tanh(linear(w["cell.new.weight"], c)))
    return o * tanh(c), c


def lstm_mogrifier(w: Weights, x: Tensor, state: State, rounds: int = 5) -> State:
    """Melis et al. 2020: x in odd rounds, h in even ones, then an LSTM."""
    (h, c), (v,) = state, inputs(w, x, 1)
    for i in range(1, rounds + 1):
        M = w[f"cell.rounds.{i - 1}.weight"]
        if i % 2:
            v = 2 * sigmoid(linear(M, h)) * v
        else:
            h = 2 * sigmoid(linear(M, v)) * h
    quads = (w["cell.gates.weight"].chunk(4), w["cell.recurrent.weight"].chunk(4), w["cell.gates.bias"].chunk(4))
    i, f, z, o = (linear(W, v) + linear(U, h) + channels(b, h) for W, U, b in zip(*quads, strict=True))
    c = sigmoid(f) * c + sigmoid(i) * tanh(z)
    return sigmoid(o) * tanh(c), c


def lstm_ordered(w: Weights, x: Tensor, state: State, chunk: int = 1) -> State:
    """Shen et al. 2019: master gates that rise along the units, each entry for `chunk` of them."""
    h, c = state
    n = h.shape[1]
    sizes = [n] * 4 + [n // chunk] * 2
    parts = zip(
        *(w[name].split(sizes) for name in ("input.weight", "input.bias", "cell.recurrent.weight")), strict=True
    )
    i, f, z, o, mi, mf = (linear(W, x) + channels(b, x) + linear(U, h) for W, b, U in parts)

    def cumax(a: Tensor) -> Tensor:
        p = torch.exp(a) / torch.exp(a).sum(1, keepdim=True)
        return torch.stack([p[:, : k // chunk + 1].sum(1) for k in range(n)], 1)

    master_f, master_i = cumax(mf), 1 - cumax(mi)
    overlap = master_f * master_i
    f = sigmoid(f) * overlap + (master_f - overlap)
    i = sigmoid(i) * overlap + (master_i - overlap)
    c = f * c + i * tanh(z)
    return sigmoid(o) * tanh(c), c


def nas(w: Weights, x: Tensor, state: State) -> State:
    """Zoph & Le 2017 in the layers of the tree that TensorFlow Addons computes."""
    (h, c), xs = state, inputs(w, x, 8)
    ms = [linear(U, h) for U in w["cell.recurrent.weight"].chunk(8)]
    act = [sigmoid, relu, sigmoid, relu, tanh, sigmoid, tanh, sigmoid]
    one = [f(a * b if k == 3 else a + b) for k, (f, a, b) in enumerate(zip(act, xs, ms, strict=True))]
    two = [tanh(one[0] * one[1]), tanh(one[2] + one[3]), tanh(one[4] * one[5]), sigmoid(one[6] + one[7])]
    c = tanh(two[0] + c) * two[1]
    return tanh(c * tanh(two[2] + two[3])), c


def clockwork(w: Weights, x: Tensor, state: State, modules: int = 1) -> State:
    """Koutnik et al. 2014: module k runs where 2^k divides t and sees modules k, k + 1, ..."""
    (h, t), (a,) = state, inputs(w, x, 1)
    U, size = w["cell.recurrent.weight"], h.shape[1] // modules
    new = []
    for k in range(modules):
        rows = slice(k * size, (k + 1) * size)
        moved = tanh(a[:, rows] + linear(U[rows, k * size :], h[:, k * size :]))
        runs = (t / 2**k == torch.floor(t / 2**k)).expand(moved.shape)
        new.append(torch.where(runs, moved, h[:, rows]))
    return torch.cat(new, 1), (t + 1) % 2**modules


def lmu(w: Weights, x: Tensor, state: State, order: int = 32, theta: float = 784.0) -> State:
    """Voelker et al. 2019: eq. for A and B, discretised by a zero-order hold: A_d = e^A, B_d = A^-1 (e^A - 1) B."""
    h, m = state
    A = torch.zeros(order, order, dtype=torch.float64)
    B = torch.zeros(order, dtype=torch.float64)
    for i in range(order):
        B[i] = (2 * i + 1) * (-1) ** i / theta
        for j in range(order):
            A[i, j] = (2 * i + 1) / theta * (-1 if i < j else (-1) ** (i - j + 1))
    A_d = torch.matrix_exp(A)
    B_d = torch.linalg.solve(A, (A_d - torch.eye(order, dtype=torch.float64)) @ B)
    (u, xh) = linear(w["input.weight"][:1], x) + w["input.bias"][0], linear(w["input.weight"][1:], x)
    u = u + linear(w["cell.signal.weight"], h) + linear(w["cell.feedback.weight"], m)
    m = torch.einsum("ij,bj...->bi...", A_d, m) + channels(B_d, m) * u
    xh = xh + channels(w["input.bias"][1:], xh)
    return tanh(xh + linear(w["cell.recurrent.weight"], h) + linear(w["cell.memory.weight"], m)), m


def taugru(w: Weights, x: Tensor, state: State, delay: int = 1) -> State:
    """Erichson et al. 2022: a candidate of the present state and one of a past state, which a gate weighs."""
    (h, past), (xu, xg, xa, xz) = state, inputs(w, x, 4)
    U_u, U_g, U_a = w["cell.recurrent.weight"].chunk(3)
    ago = past.chunk(delay, 1)
    u = tanh(xu + linear(U_u, h))
    z = tanh(xz + linear(w["cell.delayed.weight"], ago[-1]))
    g = sigmoid(xg + linear(U_g, h))
    a = sigmoid(xa + linear(U_a, h))
    return (1 - g) * h + g * (u + a * z), torch.cat([h, *ago[:-1]], 1)


def lightru(w: Weights, x: Tensor, state: State) -> State:
    """Ye et al. 2024: the candidate is a function of the input alone."""
    (h,), (xf, xh) = state, inputs(w, x, 2)
    f = sigmoid(xf + linear(w["cell.recurrent.weight"], h))
    return ((1 - f) * h + f * tanh(xh),)


def sgrn(w: Weights, x: Tensor, state: State) -> State:
    """Zu & Wei 2020: f and i = 1 - f, both of the same map of the input, which is the candidate too."""
    (h,), (a,) = state, inputs(w, x, 1)
    f = sigmoid(a + linear(w["cell.recurrent.weight"], h))
    i = 1 - f
    return (tanh(i * a + f * h),)


def miru1(w: Weights, x: Tensor, state: State, update: float = 0.5) -> State:
    """Zyarah & Kudithipudi 2025, MiRU-1."""
    (h,), (xr, xh) = state, inputs(w, x, 2)
    r = sigmoid(xr + linear(w["cell.gate.weight"], h))
    candidate = tanh(xh + linear(w["cell.candidate.weight"], r * h))
    return (update * h + (1 - update) * candidate,)


def miru2(w: Weights, x: Tensor, state: State, update: float = 0.5, beta: float = 0.5) -> State:
    """Zyarah & Kudithipudi 2025, MiRU-2."""
    (h,), (xh,) = state, inputs(w, x, 1)
    candidate = tanh(xh + linear(w["cell.candidate.weight"], beta * h))
    return (update * h + (1 - update) * candidate,)


def lstm_controller(w: Weights, x: Tensor, state: State) -> State:
    """Ben-Ari & Shwartz-Ziv 2017: v, not h, is fed back."""
    (_, v, c), (xf, xi, xo, xm, xn) = state, inputs(w, x, 5)
    U_f, U_i, U_o, U_m, U_n = w["cell.recurrent.weight"].chunk(5)
    f = sigmoid(xf + linear(U_f, v))
    i = sigmoid(xi + linear(U_i, v))
    o = sigmoid(xo + linear(U_o, v))
    m = sigmoid(xm + linear(U_m, v))
    n = tanh(xn + linear(U_n, v))
    c = f * c + i * n
    return o * tanh(c), m * tanh(c), c


def lstm_mass(w: Weights, x: Tensor, state: State, mass: int = 1) -> State:
    """Hoedt et al. 2021: each unit of mass that enters, or is stored, is shared out among all units."""
    (_, c), units = state, state[1].shape[1]
    masses, rest = x[:, :mass], x[:, mass:]
    share = c / (c.abs().sum(1, keepdim=True) + 1e-5)
    a = rest @ w["input.weight"].T + w["input.bias"] + share @ w["cell.recurrent.weight"].T
    i, o = torch.exp(a[:, : units * mass]).reshape(-1, units, mass), a[:, units * mass : units * (mass + 1)]
    R, o = torch.exp(w["cell.redistribution.weight"]), sigmoid(o)
    m = sum(R[:, k] / R[:, k].sum() * c[:, k, None] for k in range(units))
    m = m + sum((i / i.sum(1, keepdim=True))[:, :, k] * masses[:, k, None] for k in range(mass))
    return o * m, (1 - o) * m


def esn(w: Weights, x: Tensor, state: State, leak: float = 1.0, radius: float = 0.9, density: float = 1.0) -> State:
    """Lukosevicius 2012; radius and density are initial values of U."""
    (h,), (a,) = state, inputs(w, x, 1)
    return ((1 - leak) * h + leak * tanh(a + linear(w["cell.recurrent.weight"], h)),)


def trnn(w: Weights, x: Tensor, state: State) -> State:
    """Balduzzi & Ghifary 2016, T-RNN."""
    (h,), (xf, z) = state, inputs(w, x, 2)
    f = sigmoid(xf)
    return (f * h + (1 - f) * z,)


def tgru(w: Weights, x: Tensor, state: State) -> State:
    """Balduzzi & Ghifary 2016, T-GRU: `past` is the map of the input before."""
    (h, past), (xz, xf, xo, *vs) = state, inputs(w, x, 6)
    pz, pf, po = past.chunk(3, 1)
    return sigmoid(xf + pf) * h + (xz + pz) * tanh(xo + po), torch.cat(vs, 1)


def tlstm(w: Weights, x: Tensor, state: State) -> State:
    """Balduzzi & Ghifary 2016, T-LSTM."""
    (_, c, past), (xz, xf, xo, *vs) = state, inputs(w, x, 6)
    pz, pf, po = past.chunk(3, 1)
    f = sigmoid(xf + pf)
    c = f * c + (1 - f) * (xz + pz)
    return c * tanh(xo + po), c, torch.cat(vs, 1)


def ltc(w: Weights, x: Tensor, state: State, dt: float = 1.0, unfolds: int = 6) -> State:
    """Hasani et al. 2021: the fused solver, h = (h + e f A) / (1 + e (1 / tau + f)), `unfolds` times."""
    (h,), (a,) = state, inputs(w, x, 1)
    rate = channels(torch.log(1 + torch.exp(w["cell.rate"])), h)
    A = channels(w["cell.reversal"], h)
    for _ in range(unfolds):
        f = sigmoid(a + linear(w["cell.recurrent.weight"], h))
        h = (h + dt / unfolds * f * A) / (1 + dt / unfolds * (rate + f))
    return (h,)


def cfc(w: Weights, x: Tensor, state: State, dt: float | Tensor = 1.0, mode: str = "default") -> State:
    """Hasani et al. 2022, in the three modes of ncps with one layer of backbone."""
    (h,), (a,) = state, inputs(w, x, 1)
    v = 1.7159 * tanh(0.666 * (a + linear(w["cell.recurrent.weight"], h)))
    if mode == "pure":
        ff1 = linear(w["cell.heads.weight"], v) + channels(w["cell.heads.bias"], v)
        A, w_tau = channels(w["cell.A"], v), channels(w["cell.w_tau"], v)
        return (-A * torch.exp(-dt * (torch.abs(w_tau) + torch.abs(ff1))) * ff1 + A,)
    heads = zip(w["cell.heads.weight"].chunk(4), w["cell.heads.bias"].chunk(4), strict=True)
    ff1, ff2, time_a, time_b = (linear(W, v) + channels(b, v) for W, b in heads)
    t = sigmoid(time_a * dt + time_b)
    if mode == "no_gate":
        return (tanh(ff1) + t * tanh(ff2),)
    return (tanh(ff1) * (1 - t) + t * tanh(ff2),)


def gru_d(w: Weights, x: Tensor, state: State, dt: float | Tensor = 1.0) -> State:
    """Che et al. 2018, with a mean of zero; NaN is missing."""
    h, last, since = state
    missing = torch.isnan(x)
    m = torch.where(missing, 0.0, 1.0).to(h)
    delta = since + dt
    gamma_x = torch.exp(-relu(channels(w["cell.rate"], x) * delta + channels(w["cell.offset"], x)))
    filled = torch.where(missing, gamma_x * last, x)
    h = torch.exp(-relu(linear(w["cell.decay.weight"], delta) + channels(w["cell.decay.bias"], h))) * h
    mr, mz, mh = inputs(w, m, 3)
    W_r, W_z, W_h = w["cell.values.weight"].chunk(3)
    U_r, U_z = w["cell.gates.weight"].chunk(2)
    r = sigmoid(linear(W_r, filled) + linear(U_r, h) + mr)
    z = sigmoid(linear(W_z, filled) + linear(U_z, h) + mz)
    new = tanh(linear(W_h, filled) + linear(w["cell.candidate.weight"], r * h) + mh)
    return (1 - z) * h + z * new, torch.where(missing, last, x), torch.where(missing, delta, 0.0)


def sgu(w: Weights, x: Tensor, state: State) -> State:
    """Gao & Glowacka 2016: the input multiplies h, which is mapped; a hard sigmoid weighs the softplus of that times h."""
    (h,), (xz, xg) = state, inputs(w, x, 2)
    g = tanh(linear(w["cell.recurrent.weight"], xg * h) + channels(w["cell.recurrent.bias"], h))
    if "cell.candidate.weight" in w:
        new = sigmoid(linear(w["cell.candidate.weight"], g * h))
    else:
        new = torch.log(1 + torch.exp(g * h))
    z = torch.clamp(0.2 * (xz + linear(w["cell.gate.weight"], h)) + 0.5, 0, 1)
    return ((1 - z) * h + z * new,)


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
    "antisymmetric": antisymmetric,
    "antisymmetric-gated": antisymmetric_gated,
    "eunn": eunn,
    "gf-rnn": gf_rnn,
    "goru": goru,
    "gru-skip": gru_skip,
    "indrnn": indrnn,
    "intersection": intersection,
    "lstm-phased": lstm_phased,
    "lstm-residual": lstm_residual,
    "lstm-skip": lstm_skip,
    "rnn-soft-orthogonal": rnn_soft_orthogonal,
    "urnn": urnn,
    "urnn-full": urnn_full,
    "gilr": gilr,
    "lru": lru,
    "mingru": mingru,
    "minlstm": minlstm,
    "qrnn": qrnn,
    "rg-lru": rg_lru,
    "sru": sru,
    "hgrn": hgrn,
    "s4d": s4d,
    "s5": s5,
    "slstm": slstm,
    "mlstm": mlstm,
    "retention": retention,
    "gla": gla,
    "deltanet": deltanet,
    "gated-deltanet": gated_deltanet,
    "mamba2": mamba2,
    "rwkv6": rwkv6,
    "rwkv7": rwkv7,
    "atr": atr,
    "brc": brc,
    "cfn": cfn,
    "cornn": cornn,
    "fastgrnn": fastgrnn,
    "fastrnn": fastrnn,
    "janet": janet,
    "lem": lem,
    "ligru": ligru,
    "lipschitz": lipschitz,
    "mgu": mgu,
    "mgu1": mgu1,
    "mgu2": mgu2,
    "mgu3": mgu3,
    "minimalrnn": minimalrnn,
    "nbrc": nbrc,
    "ran": ran,
    "scrn": scrn,
    "ugrnn": ugrnn,
    "unicornn": unicornn,
    "cfc": cfc,
    "ltc": ltc,
    "gru-d": gru_d,
    "clockwork": clockwork,
    "exprnn": exprnn,
    "lmu": lmu,
    "lstm-mogrifier": lstm_mogrifier,
    "lstm-multiplicative": lstm_multiplicative,
    "lstm-ordered": lstm_ordered,
    "lstm-original": lstm_original,
    "lstm-working": lstm_working,
    "mut1": mut1,
    "mut3": mut3,
    "nas": nas,
    "dsgu": sgu,
    "sgu": sgu,
    "taugru": taugru,
    "tgru": tgru,
    "tlstm": tlstm,
    "trnn": trnn,
    "lightru": lightru,
    "lstm-controller": lstm_controller,
    "lstm-mass": lstm_mass,
    "miru1": miru1,
    "miru2": miru2,
    "sgrn": sgrn,
    "esn": esn,
}


# the gates in the order in which input.bias stacks them
GATES: dict[str, Sequence[str]] = {
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
    "antisymmetric": "h",
    "antisymmetric-gated": "zh",
    "eunn": ("re", "im"),
    "gf-rnn": "hg",
    "goru": "rzh",
    "gru-skip": "rzh",
    "indrnn": "h",
    "intersection": ("y", "h", "gy", "gh", "x"),
    "lstm-phased": "ifzo",
    "lstm-residual": "ifzos",
    "lstm-skip": "ifzo",
    "rnn-soft-orthogonal": "h",
    "urnn": ("re", "im"),
    "urnn-full": ("re", "im"),
    "gilr": "gi",
    "lru": ("re", "im", "d"),
    "mingru": "zh",
    "minlstm": "fih",
    "qrnn": "zfo",
    "rg-lru": "rix",
    "sru": "xfrs",
    "hgrn": ("mu", "re", "im", "g_re", "g_im"),
    "s4d": "u",
    "s5": ("re", "im", "d"),
    "slstm": "ifzo",
    "mlstm": "qkvifo",
    "retention": "qkv",
    "gla": ("q", "k", "v", "alpha"),
    "deltanet": ("q", "k", "v", "beta"),
    "gated-deltanet": ("q", "k", "v", "beta", "alpha"),
    "mamba2": ("x", "B", "C", "dt"),
    "rwkv6": "rkvw",
    "rwkv7": "rkvwa",
    "atr": "p",
    "brc": "ach",
    "cfn": ("theta", "eta", "h"),
    "cornn": "z",
    "fastgrnn": "z",
    "fastrnn": "h",
    "janet": "fc",
    "lem": "srzy",
    "ligru": "zh",
    "lipschitz": "h",
    "mgu": "fh",
    "mgu1": "h",
    "mgu2": "h",
    "mgu3": "h",
    "minimalrnn": "z",
    "nbrc": "ach",
    "ran": "ifc",
    "scrn": "hs",
    "ugrnn": "gc",
    "unicornn": "z",
    "cfc": "v",
    "ltc": "f",
    "gru-d": "rzh",
    "clockwork": "h",
    "exprnn": "h",
    "lmu": "uh",
    "lstm-mogrifier": "x",
    "lstm-multiplicative": "ifzom",
    "lstm-ordered": "ifzoIF",
    "lstm-original": "izo",
    "lstm-working": "ifzo",
    "mut1": "zrh",
    "mut3": "rzh",
    "nas": "01234567",
    "dsgu": "zg",
    "sgu": "zg",
    "taugru": "ugaz",
    "tgru": ("z", "f", "o", "vz", "vf", "vo"),
    "tlstm": ("z", "f", "o", "vz", "vf", "vo"),
    "trnn": "fz",
    "lightru": "fh",
    "lstm-controller": "fiomz",
    "lstm-mass": "io",
    "miru1": "rh",
    "miru2": "h",
    "sgrn": "a",
    "esn": "h",
}

# the gate on the old state and the sign of a bias that keeps it; then that on the new one
MEMORY_GATES: dict[str, dict[str, int]] = {
    "lstm": {"f": +1, "i": -1},
    "lstm-peephole": {"f": +1, "i": -1},
    "lstm-f": {"f": +1},
    "lstm-coupled": {"f": +1},
    "gru": {"z": -1},
    "rhn": {"c": +1, "t": -1},
    "star": {"k": -1},
    "antisymmetric-gated": {"z": -1},
    "goru": {"z": +1},
    "gru-skip": {"z": -1},
    "intersection": {"gh": +1},
    "lstm-phased": {"f": +1, "i": -1},
    "lstm-residual": {"f": +1, "i": -1},
    "lstm-skip": {"f": +1, "i": -1},
    "gilr": {"g": +1},
    "mingru": {"z": -1},
    "minlstm": {"f": +1, "i": -1},
    "qrnn": {"f": +1},
    "sru": {"f": +1},
    "hgrn": {"mu": +1},
    "slstm": {"f": +1, "i": -1},
    "mlstm": {"f": +1, "i": -1},
    "brc": {"c": +1},
    "cfn": {"theta": +1, "eta": -1},
    "janet": {"f": +1},
    "lem": {"s": -1},
    "ligru": {"z": +1},
    "mgu": {"f": -1},
    "nbrc": {"c": +1},
    "ran": {"f": +1, "i": -1},
    "ugrnn": {"g": +1},
    "gru-d": {"z": -1},
    "lstm-multiplicative": {"f": +1, "i": -1},
    "lstm-ordered": {"f": +1, "i": -1},
    "lstm-working": {"f": +1, "i": -1},
    "mut1": {"z": -1},
    "mut3": {"z": -1},
    "dsgu": {"z": -1},
    "sgu": {"z": -1},
    "taugru": {"g": -1},
    "trnn": {"f": +1},
    "tgru": {"f": +1},
    "tlstm": {"f": +1},
    "lightru": {"f": -1},
    "lstm-controller": {"f": +1, "i": -1},
    "lstm-mass": {"o": -1},
}

# carried states, the output first, and how many channels each has by default
STATES: dict[str, Sequence[str | Callable[[int], int]]] = {
    "lstm": ("units", "units"),
    "lstm-peephole": ("units", "units"),
    "lstm-coupled": ("units", "units"),
    "lstm-residual": ("units", "units"),
    "lstm-phased": ("units", "units", "one"),
    "lstm-skip": ("units", "units", "one"),
    "gru-skip": ("units", "one"),
    "intersection": ("units", "units"),
    "eunn": ("complex",),
    "urnn": ("complex",),
    "urnn-full": ("complex",),
    "lru": ("units", "complex"),
    "qrnn": ("units", "units"),
    "sru": ("units", "units"),
    "hgrn": ("units", "complex"),
    "s4d": ("units", lambda units: 64 * units),
    "s5": ("units", lambda units: 64),
    "slstm": ("units",) * 4,
    "mlstm": ("units", lambda units: units * (units + 1), "one"),
    "mamba2": ("units", lambda units: 64 * units),
    "scrn": ("complex",),
    "clockwork": ("units", "one"),
    "lmu": ("units", lambda units: 32),
    "taugru": ("units", "units"),
    "gru-d": ("units", "inputs", "inputs"),
    "lstm-controller": ("units", "units", "units"),
    "lstm-mass": ("units", "units"),
    "tgru": ("units", lambda units: 3 * units),
    "tlstm": ("units", "units", lambda units: 3 * units),
    **dict.fromkeys(
        ("lstm-mogrifier", "lstm-multiplicative", "lstm-ordered", "lstm-original", "lstm-working"), ("units", "units")
    ),
    **dict.fromkeys(("cornn", "lem", "nas", "ran", "unicornn"), ("units", "units")),
    **dict.fromkeys(
        ("retention", "gla", "deltanet", "gated-deltanet", "rwkv6", "rwkv7"), ("units", lambda units: units * units)
    ),
}


def state_channels(cell: str, units: int, inputs: int = 0) -> list[int]:
    """The number of channels of each state of a cell with its default options, the output first."""
    sizes = {"units": units, "complex": 2 * units, "one": 1, "inputs": inputs}
    return [k(units) if callable(k) else sizes[k] for k in STATES.get(cell, ["units"])]


def run(cell: str, weights: Weights, x: Tensor, state: State, **options: object) -> tuple[Tensor, State]:
    """One layer over x: (batch, time, channels, ...) from `state`: every step's output, and the final state."""
    outputs = []
    for t in range(x.shape[1]):
        state = REFERENCES[cell](weights, x[:, t], state, **options)
        outputs.append(state[0])
    return torch.stack(outputs, 1), state
