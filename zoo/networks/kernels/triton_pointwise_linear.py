"""The pointwise part of the cells that are linear in their state, as triton_pointwise.py describes it. They have no products."""

# mypy: ignore-errors
# Triton compiles the functions below; their annotations are its own.

import triton
import triton.language as tl

from .triton_math import Pointwise, sigmoid, tanh


@triton.jit
def positive(x):
    return tl.where(x < 0, sigmoid(x), x + 0.5)


@triton.jit
def positive_gradient(y, g):
    return tl.where(y < 0.5, g * y * (1.0 - y), g)


@triton.jit
def _mingru_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    z = sigmoid(a[0])
    return ((1.0 - z) * old[0] + z * a[1],), (z, a[1])


@triton.jit
def _mingru_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    z, n = kept
    return (g[0] * (n - old) * z * (1.0 - z), g[0] * z), (g[0] * (1.0 - z),)


@triton.jit
def _positive_mingru_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    return _mingru_forward(phase, (a[0], positive(a[1])), old, now, option)


@triton.jit
def _positive_mingru_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    da, g = _mingru_backward(phase, g, top, old, new, kept, option)
    return (da[0], positive_gradient(kept[1], da[1])), g


@triton.jit
def _minlstm_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    tiny, k = (a[0] < -60.0) & (a[1] < -60.0), sigmoid(a[0] - a[1])  # as in native/linear.h
    f, i = tl.where(tiny, 1e-20 * k, sigmoid(a[0])), tl.where(tiny, 1e-20 * (1.0 - k), sigmoid(a[1]))
    return ((f * old[0] + i * a[2]) / (f + i),), (f, i, a[2])


@triton.jit
def _minlstm_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    f, i, n = kept
    k = f / (f + i)
    by_ratio = g[0] * (old - n) * k * (1.0 - k)
    return (by_ratio * (1.0 - f), -by_ratio * (1.0 - i), g[0] * (1.0 - k)), (g[0] * k,)


@triton.jit
def _positive_minlstm_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    return _minlstm_forward(phase, (a[0], a[1], positive(a[2])), old, now, option)


@triton.jit
def _positive_minlstm_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    da, g = _minlstm_backward(phase, g, top, old, new, kept, option)
    return (da[0], da[1], positive_gradient(kept[2], da[2])), g


LEAST_REST = tl.constexpr(1e-12)  # of 1 - a^2: the slope of its root at 0 is infinite


@triton.jit
def _rg_lru_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    r, i, x = sigmoid(a[0]), sigmoid(a[1]), a[2]
    log_a = r * a[3]
    decay = tl.exp(log_a)
    rest = -tanh(log_a) * (1.0 + decay * decay)  # 1 - decay^2 without cancellation
    s = tl.sqrt(tl.where(rest < LEAST_REST, LEAST_REST, rest))
    return (decay * old[0] + s * i * x,), (r, i, x, a[3])


@triton.jit
def _rg_lru_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    r, i, x, v = kept
    decay = tl.exp(r * v)
    rest = -tanh(r * v) * (1.0 + decay * decay)
    s = tl.sqrt(tl.where(rest < LEAST_REST, LEAST_REST, rest))
    slope = tl.where(rest < LEAST_REST, 0.0, decay * decay / s)
    by_log_a = g[0] * (decay * old - slope * i * x)
    da = (by_log_a * v * r * (1.0 - r), g[0] * s * x * i * (1.0 - i), g[0] * s * i, by_log_a * r)
    return da, (g[0] * decay,)


@triton.jit
def _qrnn_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    z, f, o = tanh(a[0]), sigmoid(a[1]), sigmoid(a[2])
    c = z + f * (old[1] - z)
    return (o * c, c), (z, f, o, old[1])


@triton.jit
def _qrnn_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    z, f, o, c = kept
    gc = g[1] + g[0] * o
    by_o = g[0] * (z + f * (c - z)) * o * (1.0 - o)
    return (gc * (1.0 - f) * (1.0 - z * z), gc * (c - z) * f * (1.0 - f), by_o), (tl.zeros_like(new), gc * f)


@triton.jit
def _sru_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    f, r = sigmoid(a[1]), sigmoid(a[2])
    c = f * old[1] + (1.0 - f) * a[0]
    return (r * c + (1.0 - r) * a[3], c), (a[0], f, r, a[3], old[1])


@triton.jit
def _tanh_sru_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    f, r = sigmoid(a[1]), sigmoid(a[2])
    c = f * old[1] + (1.0 - f) * a[0]
    return (r * tanh(c) + (1.0 - r) * a[3], c), (a[0], f, r, a[3], old[1])


@triton.jit
def _sru_gradients(g, y, slope, kept):
    x, f, r, s, c = kept
    gc = g[1] + g[0] * r * slope
    da = (gc * (1.0 - f), gc * (c - x) * f * (1.0 - f), g[0] * (y - s) * r * (1.0 - r), g[0] * (1.0 - r))
    return da, (tl.zeros_like(c), gc * f)


@triton.jit
def _sru_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    y = kept[0] + kept[1] * (kept[4] - kept[0])
    return _sru_gradients(g, y, tl.zeros_like(y) + 1.0, kept)


@triton.jit
def _tanh_sru_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    y = tanh(kept[0] + kept[1] * (kept[4] - kept[0]))
    return _sru_gradients(g, y, 1.0 - y * y, kept)


LINEAR = {
    "mingru": Pointwise(_mingru_forward, _mingru_backward, 2),
    "positive-mingru": Pointwise(_positive_mingru_forward, _positive_mingru_backward, 2),
    "minlstm": Pointwise(_minlstm_forward, _minlstm_backward, 3),
    "positive-minlstm": Pointwise(_positive_minlstm_forward, _positive_minlstm_backward, 3),
    "rg-lru": Pointwise(_rg_lru_forward, _rg_lru_backward, 4),
    "qrnn": Pointwise(_qrnn_forward, _qrnn_backward, 4),
    "sru": Pointwise(_sru_forward, _sru_backward, 5),
    "tanh-sru": Pointwise(_tanh_sru_forward, _tanh_sru_backward, 5),
}
"""The pointwise part of each cell, by the name in its Plan."""
