"""The pointwise part of cells with gates and one state in Triton, as triton_pointwise.py describes it."""

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


@triton.jit
def _mgu1_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    f = sigmoid(a[1])
    if phase == 0:
        return (f * old[0],), (f, f * old[0])
    else:
        n = tanh(a[0] + a[2])
        return (old[0] + f * (n - old[0]),), (n,)


@triton.jit
def _mgu1_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    f, _, n = kept
    dn = top[0] * f * (1.0 - n * n)
    if phase == 1:
        return (dn,), (tl.zeros_like(new),)
    else:
        df = (g[0] * old + top[0] * (n - old)) * f * (1.0 - f)
        return (dn, df), (g[0] * f + top[0] * (1.0 - f),)


@triton.jit
def _minimalrnn_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    if phase == 0:
        z = tanh(a[0])
        return (z,), (z,)
    else:
        u = sigmoid(a[1] + a[2])
        return (now[0] + u * (old[0] - now[0]),), (u,)


@triton.jit
def _minimalrnn_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    z, u = kept
    du = top[0] * (old - z) * u * (1.0 - u)
    if phase == 1:
        return (du,), (g[0] * (1.0 - u),)
    else:
        return (g[0] * (1.0 - z * z), du), (top[0] * u,)


@triton.jit
def _lightru_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    f, n = sigmoid(a[0]), tanh(a[1])
    return (old[0] + f * (n - old[0]),), (f, n)


@triton.jit
def _lightru_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    f, n = kept
    return (g[0] * (n - old) * f * (1.0 - f), g[0] * f * (1.0 - n * n)), (g[0] * (1.0 - f),)


@triton.jit
def _sgrn_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    f = sigmoid(a[0] + a[1])
    return (tanh(a[0] + f * (old[0] - a[0])),), (f, a[0])


@triton.jit
def _sgrn_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    f, x = kept
    g = g[0] * (1.0 - new * new)
    df = g * (old - x) * f * (1.0 - f)
    return (g * (1.0 - f) + df, df), (g * f,)


@triton.jit
def _mut1_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    if phase == 0:
        r = sigmoid(a[1])
        return (r * old[0],), (r, r * old[0])
    else:
        z, t = sigmoid(a[0]), tanh(a[2])
        n = tanh(t + a[3])
        return (old[0] + z * (n - old[0]),), (z, t, n)


@triton.jit
def _mut1_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    r, _, z, t, n = kept
    dn = top[0] * z * (1.0 - n * n)
    if phase == 1:
        return (dn,), (tl.zeros_like(new),)
    else:
        dz, dr = top[0] * (n - old) * z * (1.0 - z), g[0] * old * r * (1.0 - r)
        return (dz, dr, dn * (1.0 - t * t)), (g[0] * r + top[0] * (1.0 - z),)


@triton.jit
def _miru1_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    if phase == 0:
        r = sigmoid(a[0])
        return (r * old[0],), (r, r * old[0])
    else:
        n = tanh(a[1])
        return (n + option * (old[0] - n),), (n,)


@triton.jit
def _miru1_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    r, _, n = kept
    if phase == 1:
        return (g[0] * (1.0 - option) * (1.0 - n * n),), (tl.zeros_like(new),)
    else:
        return (g[0] * old * r * (1.0 - r),), (g[0] * r + top[0] * option,)


@triton.jit
def _cut_off(y):
    return 1.0 - relu(1.0 - relu(y))


@triton.jit
def _sgu_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    if phase == 0:
        return (a[1] * old[0],), (a[1], a[1] * old[0])
    else:
        y, t = 0.2 * a[0] + 0.5, tanh(a[2])
        q = t * old[0]
        n = tl.where(q > 0, q, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(q)))
        return (old[0] + _cut_off(y) * (n - old[0]),), (y, t, n)


@triton.jit
def _sgu_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    x, _, y, t, n = kept
    dq = top[0] * _cut_off(y) * sigmoid(t * old)
    if phase == 1:
        return (dq * old * (1.0 - t * t),), (tl.zeros_like(new),)
    else:
        dz = relu_gradient(y, relu_gradient(1.0 - y, 0.2 * top[0] * (n - old)))
        return (dz, g[0] * old), (g[0] * x + top[0] * (1.0 - _cut_off(y)) + dq * t,)


@triton.jit
def _nbrc_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    t, c = tanh(a[0]), sigmoid(a[1])
    n = tanh(a[2] + (1.0 + t) * old[0])
    return (n + c * (old[0] - n),), (t, c, n)


@triton.jit
def _nbrc_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    t, c, n = kept
    dn = g[0] * (1.0 - c) * (1.0 - n * n)
    return (dn * old * (1.0 - t * t), g[0] * (old - n) * c * (1.0 - c), dn), (g[0] * c + dn * (1.0 + t),)


@triton.jit
def _cfn_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    theta, eta, n, t = sigmoid(a[0]), sigmoid(a[1]), tanh(a[2]), tanh(old[0])
    return (theta * t + eta * n,), (theta, eta, n, t)


@triton.jit
def _cfn_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    theta, eta, n, t = kept
    da = g[0] * t * theta * (1.0 - theta), g[0] * n * eta * (1.0 - eta), g[0] * eta * (1.0 - n * n)
    return da, (g[0] * theta * (1.0 - t * t),)


GATED = {
    "ugrnn": Pointwise(_ugrnn_forward, _ugrnn_backward, 2),
    "ligru": Pointwise(_ligru_forward, _ligru_backward, 2),
    "janet": Pointwise(_janet_forward, _janet_backward, 3),
    "atr": Pointwise(_atr_forward, _atr_backward, 3),
    "mgu": Pointwise(_mgu_forward, _mgu_backward, 3, operand=1),
    "mgu1": Pointwise(_mgu1_forward, _mgu1_backward, 3, operand=1),
    "minimalrnn": Pointwise(_minimalrnn_forward, _minimalrnn_backward, 2),
    "lightru": Pointwise(_lightru_forward, _lightru_backward, 2),
    "sgrn": Pointwise(_sgrn_forward, _sgrn_backward, 2),
    "mut1": Pointwise(_mut1_forward, _mut1_backward, 5, operand=1),
    "miru1": Pointwise(_miru1_forward, _miru1_backward, 3, operand=1),
    "sgu": Pointwise(_sgu_forward, _sgu_backward, 5, operand=1),
    "nbrc": Pointwise(_nbrc_forward, _nbrc_backward, 3),
    "cfn": Pointwise(_cfn_forward, _cfn_backward, 4),
}
