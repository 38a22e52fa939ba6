"""The pointwise part of cells that are steps of a differential equation in Triton, as triton_pointwise.py describes it."""

# mypy: ignore-errors
# Triton compiles the functions below; their annotations are its own.

import triton
import triton.language as tl

from .triton_math import Pointwise, sigmoid, tanh


@triton.jit
def _lipschitz_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    n = tanh(a[0])
    return (old[0] + option * (a[1] + n),), (n,)


@triton.jit
def _lipschitz_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    n, drift = kept[0], option * g[0]
    return (drift * (1.0 - n * n), drift), (g[0],)


@triton.jit
def _lem_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    if phase == 0:
        s, n = sigmoid(a[0]), tanh(a[2])
        z = old[1] + option * s * (n - old[1])
        return (z, z), (s, n, old[1], z)
    else:
        r, n = sigmoid(a[1]), tanh(a[3])
        return (old[0] + option * r * (n - old[0]), now[1]), (r, n)


@triton.jit
def _lem_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    s, z_candidate, z, _, r, n = kept
    gy = option * top[0]
    if phase == 1:
        return (gy * r * (1.0 - n * n),), (tl.zeros_like(new), g[1])
    else:
        gz = option * (g[0] + g[1])
        ds, dr = gz * (z_candidate - z) * s * (1.0 - s), gy * (n - old) * r * (1.0 - r)
        return (ds, dr, gz * s * (1.0 - z_candidate * z_candidate)), (top[0] - gy * r, g[0] + g[1] - gz * s)


@triton.jit
def _cfc_backbone(a):
    u = tanh(0.666 * a[0])
    return (1.7159 * u,), (u, 1.7159 * u)


@triton.jit
def _cfc_heads(a, option: tl.constexpr):
    return tanh(a[1]), tanh(a[2]), sigmoid(option * a[3] + a[4])


@triton.jit
def _cfc_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    if phase == 0:
        return _cfc_backbone(a)
    else:
        g, h, s = _cfc_heads(a, option)
        return (g + s * (h - g),), (g, h, s)


@triton.jit
def _cfc_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    u, _, k, h, s = kept
    if phase == 1:
        ds = g[0] * (h - k) * s * (1.0 - s)
        da = (g[0] * (1.0 - s) * (1.0 - k * k), g[0] * s * (1.0 - h * h), option * ds, ds)
        return da, (tl.zeros_like(new),)
    else:
        return (g[0] * (1.7159 * 0.666) * (1.0 - u * u),), (tl.zeros_like(new),)


@triton.jit
def _no_gate_cfc_forward(phase: tl.constexpr, a, old, now, option: tl.constexpr):
    if phase == 0:
        return _cfc_backbone(a)
    else:
        g, h, s = _cfc_heads(a, option)
        return (g + s * h,), (g, h, s)


@triton.jit
def _no_gate_cfc_backward(phase: tl.constexpr, g, top, old, new, kept, option: tl.constexpr):
    u, _, k, h, s = kept
    if phase == 1:
        ds = g[0] * h * s * (1.0 - s)
        return (g[0] * (1.0 - k * k), g[0] * s * (1.0 - h * h), option * ds, ds), (tl.zeros_like(new),)
    else:
        return (g[0] * (1.7159 * 0.666) * (1.0 - u * u),), (tl.zeros_like(new),)


CONTINUOUS = {
    "lipschitz": Pointwise(_lipschitz_forward, _lipschitz_backward, 1),
    "lem": Pointwise(_lem_forward, _lem_backward, 6, operand=3),
    "cfc": Pointwise(_cfc_forward, _cfc_backward, 5, operand=1),
    "no-gate-cfc": Pointwise(_no_gate_cfc_forward, _no_gate_cfc_backward, 5, operand=1),
}
