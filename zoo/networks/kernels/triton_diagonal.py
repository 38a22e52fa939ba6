"""The recurrence c_t = a_t c_{t-1} + b_t on a GPU, in Triton: what diagonal.py runs there.

Two steps in a row are one step, c -> a' (a c + b) + b', so one associative scan computes the states of a chunk of time, and
only the last state is carried to the next chunk. The backward pass is the same recurrence from the last step to the first:
the gradient by c_t is what is given for c_t, plus conj(a_{t+1}) times the gradient by c_{t+1}.

A program takes a tile of lanes through all steps; a lane is one entry of the state of one sequence. Tiles are float32,
(steps, lanes), and come in tuples: of the real part, or of the real and the imaginary part.
"""

# mypy: ignore-errors
# Triton compiles the functions below; their annotations are its own.

import torch
import triton
import triton.language as tl
from torch import Tensor

from .triton_kernels import _cleared, _count, _where
from .triton_scan import DTYPES, runs_on

CHUNK = 64
"""Number of steps in a tile, a power of two."""

LANES = 32
"""Number of lanes in a tile, a power of two. 32 floats are the 128 bytes that a GPU reads at once."""

WARPS = 8
"""Warps of a program. A thread then has 8 numbers of a tile; with twice as many, complex tiles do not fit its registers."""


@triton.jit
def _plus(x, y):
    tiles = ()
    for i in tl.static_range(len(x)):
        tiles = tiles + (x[i] + y[i],)
    return tiles


@triton.jit
def _times(x, y):
    if len(x) == 1:
        return (x[0] * y[0],)
    else:
        return (x[0] * y[0] - x[1] * y[1], x[1] * y[0] + x[0] * y[1])


@triton.jit
def _conjugate(x):
    if len(x) == 1:
        return (x[0],)
    else:
        return (x[0], -x[1])


@triton.jit
def _or_one(condition, x):
    """Return x where `condition` is True, else 1."""
    if len(x) == 1:
        return (tl.where(condition, x[0], 1.0),)
    else:
        return (tl.where(condition, x[0], 1.0), tl.where(condition, x[1], 0.0))


@triton.jit
def _sum(x):
    """Return the sums over the steps of a tile, tiles of one step."""
    tiles = ()
    for i in tl.static_range(len(x)):
        tiles = tiles + (tl.sum(x[i], 0, keep_dims=True),)
    return tiles


@triton.jit
def _read(pointer, place, mask, units, PARTS: tl.constexpr):
    """Return the numbers at `place` and, if there are two parts, those `units` further on; 0 where `mask` is False."""
    tiles = ()
    for i in tl.static_range(PARTS):
        tiles = tiles + (tl.load(pointer + place + i * units, mask=mask, other=0.0),)
    return tiles


@triton.jit
def _write(pointer, place, mask, units, x):
    for i in tl.static_range(len(x)):
        tl.store(pointer + place + i * units, x[i], mask=mask)


@triton.jit
def _compose(a, b, next_a, next_b):
    """Return a and b of the step that two steps in a row are."""
    return _times((next_a,), (a,)) + _plus(_times((next_a,), (b,)), (next_b,))


@triton.jit
def _compose_complex(a_re, a_im, b_re, b_im, next_re, next_im, plus_re, plus_im):
    """Return a and b of the step that two steps in a row are."""
    a = _times((next_re, next_im), (a_re, a_im))
    return a + _plus(_times((next_re, next_im), (b_re, b_im)), (plus_re, plus_im))


@triton.jit
def _states(a, b):
    """Return the states after every step of a tile that starts from a state of 0."""
    if len(a) == 1:
        composed = tl.associative_scan((a[0], b[0]), 0, _compose)
        return (composed[1],)
    else:
        composed = tl.associative_scan((a[0], a[1], b[0], b[1]), 0, _compose_complex)
        return (composed[2], composed[3])


@triton.jit(do_not_specialize=["steps", "batch", "units", "tbptt_steps"])
def recurrence(
    a,  # (steps, batch, PARTS * units), or (PARTS * units) if CONSTANT
    b,  # (steps, batch, PARTS * units); backward, the gradients given for c
    start,  # (batch, PARTS * units)
    lengths,  # (batch), or None
    c,  # (steps, batch, PARTS * units): written; backward, read
    a_gradient,  # backward: as a, or (batch, PARTS * units) if CONSTANT, for the caller to sum; written
    b_gradient,  # backward: (steps, batch, PARTS * units), written
    start_gradient,  # backward: (batch, PARTS * units), written
    steps,
    batch,
    units,
    tbptt_steps,  # backward: the steps after which gradients are cut, or None
    PARTS: tl.constexpr,  # 2 if the numbers are complex, else 1
    CONSTANT: tl.constexpr,
    BACKWARD: tl.constexpr,
    CHUNK: tl.constexpr,
    LANES: tl.constexpr,
):
    """Run all steps for a tile of lanes; write the states or, BACKWARD, the gradients."""
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)[None, :]
    inside = lane < batch * units
    row, unit = lane // units, lane % units
    place = row * (PARTS * units) + unit
    start_state = _read(start, place, inside, units, PARTS)
    state = start_state
    if BACKWARD:
        state = _cleared(lane < 0, start_state)
    a_sum = state
    end = 0 * lane + steps
    if lengths is not None:
        end = tl.minimum(tl.load(lengths + row, mask=inside, other=0), end)
    step = tl.arange(0, CHUNK)[:, None]
    if CONSTANT:
        constant = _read(a, unit, inside, units, PARTS)
    for chunk in range(_count((steps + CHUNK - 1) // CHUNK)):
        t = chunk * CHUNK + step
        valid = inside & (t < steps)
        source = t  # the step whose a and lengths lead to the state of this one
        if BACKWARD:
            t = steps - 1 - t
            source = t + 1
        at = t.to(tl.int64) * (batch * PARTS * units) + place

        # beyond the last step and a sequence's end the state stays: a is 1, b is 0
        running = valid & (source < end)
        if CONSTANT:
            a_now = constant
        else:
            a_now = _read(a, at + (source - t) * (batch * PARTS * units), running, units, PARTS)
        a_now = _or_one(running, a_now)
        if BACKWARD:
            a_now = _conjugate(a_now)
            if tbptt_steps is not None:
                a_now = _cleared((source % tbptt_steps != 0) | (source < 1), a_now)
            b_now = _read(b, at, valid, units, PARTS)
        else:
            b_now = _read(b, at, running, units, PARTS)

        b_now = _where(step == 0, _plus(b_now, _times(a_now, state)), b_now)
        c_now = _states(a_now, b_now)
        state = _sum(_cleared(step == CHUNK - 1, c_now))

        if BACKWARD:
            c_now = _cleared(t < end, c_now)  # the end of a sequence passes it on, but reads neither a nor b
            old = _read(c, at - batch * PARTS * units, valid & (t > 0), units, PARTS)
            by_a = _times(_conjugate(_where(t > 0, old, start_state)), c_now)
            _write(b_gradient, at, valid, units, c_now)
            if CONSTANT:
                a_sum = _plus(a_sum, _sum(_cleared(valid, by_a)))
            else:
                _write(a_gradient, at, valid, units, by_a)
        else:
            _write(c, at, valid, units, c_now)
    if BACKWARD:
        if CONSTANT:
            _write(a_gradient, place, inside, units, a_sum)
        else:
            constant = _read(a, place, inside, units, PARTS)
        state = _times(_conjugate(_or_one(end > 0, constant)), state)
        _write(start_gradient, place, inside, units, state)


def supports(weight: Tensor) -> bool:
    """Return whether the recurrence of a layer with this weight can run: float32 or bfloat16, on a device for Triton."""
    return weight.dtype in DTYPES and runs_on(weight.device)


def forward(
    a: Tensor, b: Tensor, start: Tensor, lengths: Tensor | None, tbptt_steps: int | None, complex_state: bool
) -> Tensor:
    """Return c. Arguments: see diagonal.Recurrence; contiguous."""
    c = torch.empty_like(b)
    _launch(a, b, start, lengths, c, None, None, None, tbptt_steps, complex_state)
    return c


def backward(
    c_gradient: Tensor, a: Tensor, c: Tensor, start: Tensor, lengths: Tensor | None, tbptt_steps: int | None,
    complex_state: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients by a, b and start from that by c. Arguments: as of `forward`."""
    constant = a.dim() == 1
    gradients = torch.empty_like(start if constant else a), torch.empty_like(c), torch.empty_like(start)
    _launch(a, c_gradient, start, lengths, c, *gradients, tbptt_steps, complex_state)
    by_a, *others = gradients
    return by_a.sum(0) if constant else by_a, *others


def _launch(a, b, start, lengths, c, a_gradient, b_gradient, start_gradient, tbptt_steps, complex_state) -> None:
    """Run the kernel, backward if gradients are given to write to."""
    (steps, batch, width), parts = b.shape, 2 if complex_state else 1
    units = width // parts
    with torch.cuda.device_of(b):
        recurrence[(triton.cdiv(batch * units, LANES),)](
            a, b, start, lengths, c, a_gradient, b_gradient, start_gradient, steps, batch, units, tbptt_steps,
            PARTS=parts, CONSTANT=a.dim() == 1, BACKWARD=b_gradient is not None, CHUNK=CHUNK, LANES=LANES,
            num_warps=WARPS, num_stages=1,
        )  # fmt: skip
