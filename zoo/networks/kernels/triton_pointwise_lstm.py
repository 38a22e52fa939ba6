"""The pointwise part of relatives of the LSTM in Triton, as triton_pointwise.py describes it."""

# mypy: ignore-errors
# Triton compiles the functions below; their annotations are its own.

import triton
import triton.language as tl

from .triton_math import Pointwise, sigmoid, tanh


@triton.jit
def lstm_step(i, f, z, o, c_old):
    """Return the new states and the tape of an LSTM, whose pre-activations are i, f, z and o."""
    i, f, z, o = sigmoid(i), sigmoid(f), tanh(z), sigmoid(o)
    c = f * c_old + i * z
    return (o * tanh(c), c), (i, f, z, o, c_old)


@triton.jit
def lstm_gradients(g, i, f, z, o, c):
    """Return the gradients of the pre-activations and that of the old c. i, f, ...: the tape."""
    t = tanh(f * c + i * z)
    gc = g[1] + g[0] * o * (1.0 - t * t)
    da = (gc * z * i * (1.0 - i), gc * c * f * (1.0 - f), gc * i * (1.0 - z * z), g[0] * t * o * (1.0 - o))
    return da, gc * f


@triton.jit
def _lstm_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    return lstm_step(a[0], a[1], a[2], a[3], old[1])


@triton.jit
def _lstm_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    i, f, z, o, c = kept
    da, gc = lstm_gradients(g, i, f, z, o, c)
    return da, (tl.zeros_like(new), gc)


@triton.jit
def _multiplicative_lstm_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    if phase == 0:
        m = a[4] * a[5]
        return (m, old[1]), (a[4], a[5], m)
    else:
        return lstm_step(a[0] + a[6], a[1] + a[7], a[2] + a[8], a[3] + a[9], old[1])


@triton.jit
def _multiplicative_lstm_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    x, u, _, i, f, z, o, c = kept
    da, gc = lstm_gradients(top, i, f, z, o, c)
    if phase == 1:
        return da, (tl.zeros_like(new), gc)
    else:
        return da + (g[0] * u, g[0] * x), (tl.zeros_like(new), gc)


@triton.jit
def _ran_step(a, c_old):
    i, f = sigmoid(a[0]), sigmoid(a[1])
    return f * c_old + i * a[2], (i, f, a[2], c_old)


@triton.jit
def _ran_gradients(gc, kept):
    i, f, x, c = kept
    return (gc * x * i * (1.0 - i), gc * c * f * (1.0 - f), gc * i), (tl.zeros_like(c), gc * f)


@triton.jit
def _ran_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    c, kept = _ran_step(a, old[1])
    return (tanh(c), c), kept


@triton.jit
def _ran_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    return _ran_gradients(g[1] + g[0] * (1.0 - new * new), kept)


@triton.jit
def _identity_ran_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    c, kept = _ran_step(a, old[1])
    return (c, c), kept


@triton.jit
def _identity_ran_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    return _ran_gradients(g[1] + g[0], kept)


@triton.jit
def _original_step(a, c_old, option: tl.constexpr, inner: tl.constexpr):
    i, z, o = sigmoid(a[0]), tanh(inner * a[1]), sigmoid(a[2])
    c = c_old + i * option * z
    return (o * tanh(inner * c), c), (i, z, o, c_old)


@triton.jit
def _original_gradients(g, kept, option: tl.constexpr, inner: tl.constexpr):
    i, z, o, c = kept
    t = tanh(inner * (c + i * option * z))
    gc = g[1] + g[0] * o * inner * (1.0 - t * t)
    da = (gc * option * z * i * (1.0 - i), gc * option * i * inner * (1.0 - z * z), g[0] * t * o * (1.0 - o))
    return da, (tl.zeros_like(c), gc)


@triton.jit
def _original_lstm_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    return _original_step(a, old[1], option, 1.0)


@triton.jit
def _original_lstm_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    return _original_gradients(g, kept, option, 1.0)


@triton.jit
def _logistic_original_lstm_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    return _original_step(a, old[1], option, 0.5)


@triton.jit
def _logistic_original_lstm_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    return _original_gradients(g, kept, option, 0.5)


LSTMS = {
    "lstm": Pointwise(_lstm_forward, _lstm_backward, 5),
    "lstm-multiplicative": Pointwise(_multiplicative_lstm_forward, _multiplicative_lstm_backward, 8, operand=2),
    "lstm-original": Pointwise(_original_lstm_forward, _original_lstm_backward, 4),
    "logistic-lstm-original": Pointwise(_logistic_original_lstm_forward, _logistic_original_lstm_backward, 4),
    "ran": Pointwise(_ran_forward, _ran_backward, 4),
    "identity-ran": Pointwise(_identity_ran_forward, _identity_ran_backward, 4),
}
