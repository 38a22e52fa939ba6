"""The pointwise part of cells with one gate in Triton, as in triton_pointwise.py: UGRNN (and GILR) and LiGRU, JANET, ATR, MGU."""

# mypy: ignore-errors
# Triton compiles the functions below; their annotations are its own.

import triton
import triton.language as tl

from .triton_math import Pointwise, relu, relu_gradient, sigmoid, tanh


@triton.jit
def _ugrnn_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    g, n = sigmoid(a[0]), tanh(a[1])
    return (n + g * (old[0] - n),), (g, n)


@triton.jit
def _ugrnn_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    k, n = kept
    return (g[0] * (old - n) * k * (1.0 - k), g[0] * (1.0 - k) * (1.0 - n * n)), (g[0] * k,)


@triton.jit
def _ligru_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    g, n = sigmoid(a[0]), relu(a[1])
    return (n + g * (old[0] - n),), (g, n)


@triton.jit
def _ligru_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    k, n = kept
    return (g[0] * (old - n) * k * (1.0 - k), relu_gradient(n, g[0] * (1.0 - k))), (g[0] * k,)


@triton.jit
def _janet_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    f, j, n = sigmoid(a[0]), sigmoid(option - a[0]), tanh(a[1])
    return (f * old[0] + j * n,), (f, j, n)


@triton.jit
def _janet_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    f, j, n = kept
    da = g[0] * (old * f * (1.0 - f) - n * j * (1.0 - j))
    return (da, g[0] * j * (1.0 - n * n)), (g[0] * f,)


@triton.jit
def _atr_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    i, f = sigmoid(a[0] + a[1]), sigmoid(a[0] - a[1])
    return (i * a[0] + f * old[0],), (i, f, a[0])


@triton.jit
def _atr_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    i, f, x = kept
    di, df = g[0] * x * i * (1.0 - i), g[0] * old * f * (1.0 - f)
    return (di + df + g[0] * i, di - df), (g[0] * f,)


@triton.jit
def _mgu_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    f = sigmoid(a[0])
    if phase == 0:
        return (f * old[0],), (f, f * old[0])
    else:
        n = tanh(a[1])
        return (old[0] + f * (n - old[0]),), (n,)


@triton.jit
def _mgu_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    f, _, n = kept
    if phase == 1:
        return (g[0] * f * (1.0 - n * n),), (tl.zeros_like(new),)
    else:
        da = (g[0] * old + top[0] * (n - old)) * f * (1.0 - f)
        return (da,), (g[0] * f + top[0] * (1.0 - f),)


GATED = {
    "ugrnn": Pointwise(_ugrnn_forward, _ugrnn_backward, 2),
    "ligru": Pointwise(_ligru_forward, _ligru_backward, 2),
    "janet": Pointwise(_janet_forward, _janet_backward, 3),
    "atr": Pointwise(_atr_forward, _atr_backward, 3),
    "mgu": Pointwise(_mgu_forward, _mgu_backward, 3, operand=1),
}
