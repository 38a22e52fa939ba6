"""The pointwise part of each cell in Triton: what happens to a tile of sequences after the matrix products.

As in native/cells.h, a time step has one or more phases. Before each phase, the products of its operand have been added to
its pre-activations. The operand is the old h in the first phase, and the result of the previous phase in later phases.
Tiles are float32, (sequences, units), and come in tuples.

`forward(phase, a, old, now, option)` takes the pre-activations `a` up to this phase, the states `old` before the step, and
the states `now` after the previous phase. It returns the new states, and the tape: what `backward` needs of this phase.

`backward(phase, g, top, old, new, kept, option)` takes the gradients `g` of the states after this phase and `top` of the
states after the whole step, h before (`old`) and after (`new`) the step, and the tape `kept`. It returns the gradients of
the phase's pre-activations, and those of the states before the phase, except through the products.

Equations and gate order are those of zoo.cells. The derivative of tanh or sigmoid is written by its value.
"""

# mypy: ignore-errors
# Triton compiles the functions below; their annotations are its own.

import triton
import triton.language as tl

from .triton_math import Pointwise, relu, relu_gradient, sigmoid, tanh
from .triton_pointwise_continuous import CONTINUOUS
from .triton_pointwise_gated import GATED
from .triton_pointwise_linear import LINEAR
from .triton_pointwise_lstm import LSTMS


@triton.jit
def _tanh_rnn_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    return (tanh(a[0]),), ()


@triton.jit
def _tanh_rnn_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    return (g[0] * (1.0 - new * new),), (tl.zeros_like(new),)


@triton.jit
def _relu_rnn_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    return (relu(a[0]),), ()


@triton.jit
def _relu_rnn_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    return (relu_gradient(new, g[0]),), (tl.zeros_like(new),)


@triton.jit
def _rin_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    return (relu(a[0] + old[0]),), ()


@triton.jit
def _rin_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    da = relu_gradient(new, g[0])
    return (da,), (da,)


@triton.jit
def _rin_dt_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    h = relu(a[phase] + now[0])
    if phase == 0:
        return (h,), (h,)
    else:
        return (h,), ()


@triton.jit
def _rin_dt_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    if phase == 0:
        da = relu_gradient(kept[0], g[0])
    else:
        da = relu_gradient(new, g[0])
    return (da,), (da,)


@triton.jit
def _antisymmetric_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    n = tanh(a[0])
    return (old[0] + option * n,), (n,)


@triton.jit
def _antisymmetric_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    n = kept[0]
    return (option * g[0] * (1.0 - n * n),), (g[0],)


@triton.jit
def _gated_antisymmetric_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    z, n = sigmoid(a[0] + a[2]), tanh(a[1] + a[2])
    return (old[0] + option * z * n,), (z, n)


@triton.jit
def _gated_antisymmetric_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    z, n = kept
    da = option * g[0] * z
    dz, dn = da * n * (1.0 - z), da * (1.0 - n * n)
    return (dz, dn, dz + dn), (g[0],)


@triton.jit
def _star_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    z, k = tanh(a[0]), sigmoid(a[1])
    return (tanh(old[0] + k * (z - old[0])),), (z, k)


@triton.jit
def _star_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    z, k = kept
    g = g[0] * (1.0 - new * new)
    return (g * k * (1.0 - z * z), g * (z - old) * k * (1.0 - k)), (g * (1.0 - k),)


@triton.jit
def _shifted_star_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    z, k, j = tanh(a[0]), sigmoid(a[1]), sigmoid(a[1] + option)
    return (tanh((1.0 - k) * old[0] + j * z),), (z, k, j)


@triton.jit
def _shifted_star_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    z, k, j = kept
    g = g[0] * (1.0 - new * new)
    da = g * (z * j * (1.0 - j) - old * k * (1.0 - k))
    return (g * j * (1.0 - z * z), da), (g * (1.0 - k),)


@triton.jit
def _coupled_lstm_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    f, z, o = sigmoid(a[0]), tanh(a[1]), sigmoid(a[2])
    c = z + f * (old[1] - z)
    return (o * tanh(c), c), (f, z, o, old[1])


@triton.jit
def _coupled_lstm_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    f, z, o, c = kept
    t = tanh(z + f * (c - z))
    gc = g[1] + g[0] * o * (1.0 - t * t)
    da = (gc * (c - z) * f * (1.0 - f), gc * (1.0 - f) * (1.0 - z * z), g[0] * t * o * (1.0 - o))
    return da, (tl.zeros_like(new), gc * f)


@triton.jit
def _forget_lstm_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    f, z = sigmoid(a[0]), tanh(a[1])
    return (tanh(z + f * (old[0] - z)),), (f, z)


@triton.jit
def _forget_lstm_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    f, z = kept
    g = g[0] * (1.0 - new * new)
    return (g * (old - z) * f * (1.0 - f), g * (1.0 - f) * (1.0 - z * z)), (g * f,)


@triton.jit
def _gru_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    if phase == 0:
        r = sigmoid(a[0])
        return (r * old[0],), (r, r * old[0])
    else:
        z, n = sigmoid(a[1]), tanh(a[2])
        return (old[0] + z * (n - old[0]),), (z, n)


@triton.jit
def _gru_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    r, _, z, n = kept
    if phase == 1:
        return (g[0] * z * (1.0 - n * n),), (tl.zeros_like(new),)
    else:
        da = (g[0] * old * r * (1.0 - r), top[0] * (n - old) * z * (1.0 - z))
        return da, (g[0] * r + top[0] * (1.0 - z),)


@triton.jit
def _gru_after_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    r, z, u = sigmoid(a[0]), sigmoid(a[1]), a[3]
    n = tanh(a[2] + r * u)
    return (old[0] + z * (n - old[0]),), (r, z, n, u)


@triton.jit
def _gru_after_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    r, z, n, u = kept
    gn = g[0] * z * (1.0 - n * n)
    da = (gn * u * r * (1.0 - r), g[0] * (n - old) * z * (1.0 - z), gn, gn * r)
    return da, (g[0] * (1.0 - z),)


@triton.jit
def _rhn_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    h, t, c = tanh(a[3 * phase]), sigmoid(a[3 * phase + 1]), sigmoid(a[3 * phase + 2])
    return (h * t + now[0] * c,), (h, t, c, now[0])


@triton.jit
def _rhn_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    h, t, c, s = kept
    return (g[0] * t * (1.0 - h * h), g[0] * h * t * (1.0 - t), g[0] * s * c * (1.0 - c)), (g[0] * c,)


@triton.jit
def _slstm_step(a, log_f, old):
    m = tl.where((old[2] == 0.0) | (a[0] > log_f + old[3]), a[0], log_f + old[3])
    kept = tl.where(old[2] == 0.0, m, log_f + old[3])  # at first f, which multiplies zeros, must not overflow
    i, f, z, o = tl.exp(a[0] - m), tl.exp(kept - m), tanh(a[2]), sigmoid(a[3])
    c, n = f * old[1] + i * z, f * old[2] + i
    return (o * c / n, c, n, m), (i, f, z, o, a[1], old[1], old[2])


@triton.jit
def _slstm_gradients(g, kept, slope):
    i, f, z, o, _, c, n = kept
    norm = f * n + i
    mean, by_h = (f * c + i * z) / norm, g[0] * o / norm
    by_c, by_n = g[1] + by_h, g[2] - by_h * mean
    by_i, by_f = (by_c * z + by_n) * i, (by_c * c + by_n * n) * f
    by_m = g[3] - by_i - by_f
    from_i = tl.where(i == 1.0, tl.where((f == 1.0) & (n != 0.0), 0.5, 1.0), 0.0)
    by_i, by_f = by_i + from_i * by_m, by_f + (1.0 - from_i) * by_m
    da = (by_i, by_f * slope, by_c * i * (1.0 - z * z), g[0] * mean * o * (1.0 - o))
    return da, (tl.zeros_like(mean), by_c * f, by_n * f, by_f)


@triton.jit
def _slstm_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    log_f = tl.where(a[1] < 0, a[1], 0.0) - tl.log(1.0 + tl.exp(-tl.abs(a[1])))
    return _slstm_step(a, log_f, old)


@triton.jit
def _slstm_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    return _slstm_gradients(g, kept, sigmoid(-kept[4]))


@triton.jit
def _exp_slstm_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    return _slstm_step(a, a[1], old)


@triton.jit
def _exp_slstm_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    return _slstm_gradients(g, kept, 1.0)


CELLS = {
    "tanh-rnn": Pointwise(_tanh_rnn_forward, _tanh_rnn_backward, 0),
    "relu-rnn": Pointwise(_relu_rnn_forward, _relu_rnn_backward, 0),
    "rin": Pointwise(_rin_forward, _rin_backward, 0),
    "rin-dt": Pointwise(_rin_dt_forward, _rin_dt_backward, 1),
    "antisymmetric": Pointwise(_antisymmetric_forward, _antisymmetric_backward, 1),
    "antisymmetric-gated": Pointwise(_gated_antisymmetric_forward, _gated_antisymmetric_backward, 2),
    "star": Pointwise(_star_forward, _star_backward, 2),
    "shifted-star": Pointwise(_shifted_star_forward, _shifted_star_backward, 3),
    "lstm-coupled": Pointwise(_coupled_lstm_forward, _coupled_lstm_backward, 4),
    "lstm-f": Pointwise(_forget_lstm_forward, _forget_lstm_backward, 2),
    "gru": Pointwise(_gru_forward, _gru_backward, 4, operand=1),
    "gru-after": Pointwise(_gru_after_forward, _gru_after_backward, 4),
    "rhn": Pointwise(_rhn_forward, _rhn_backward, 4, operand=3, tape_per_phase=True),
    "slstm": Pointwise(_slstm_forward, _slstm_backward, 7),
    "exp-slstm": Pointwise(_exp_slstm_forward, _exp_slstm_backward, 7),
    **CONTINUOUS,
    **GATED,
    **LINEAR,
    **LSTMS,
}
"""The pointwise part of each cell, by the name in its Plan."""
