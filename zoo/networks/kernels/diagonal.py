"""The scan of all cells that are linear in their state, on a CPU and on a GPU.

The cell computes the coefficients of all time steps at once, and its outputs from the states of all steps at once. Both
happen in torch, so a layer may be convolutional or normalised. In between, c_t = a_t c_{t-1} + b_t is computed by compiled
code on a CPU (compiled_diagonal.py) and in Triton on a GPU (triton_diagonal.py), in float32, also under torch.autocast.
"""

from typing import Any, cast

import torch
from torch import Tensor

from ...cells.base import State, matched
from ...cells.linear import LinearRecurrence, System, next_state, times
from ...utils.shapes import unsqueeze_to
from ..layer import Direction, LayerInput, LazyEmbedding
from . import chunks
from .devices import RECURRENCES, device_module
from .shared import apart, check_formats, contiguous, customised, formats, in_memory, rewritten, takes_recurrence


def supports(direction: Direction, x: LayerInput) -> bool:
    """Return whether `scan` can run this layer on x now.

    It can if the code for the device of x is there and takes the dtype of the weights, which is float32 on a CPU, float32 or
    bfloat16 on a GPU, and if nothing is added to the cell's recurrence.
    """
    cell = direction.cell
    known = isinstance(cell, LinearRecurrence) and not rewritten(cell, ("prepare", "step"), by="joined")
    return known and takes_recurrence(direction, x, RECURRENCES)


def scan(
    direction: Direction, x: LayerInput, state: State, lengths: Tensor | None = None, tbptt_steps: int | None = None
) -> tuple[Tensor, State]:
    """Return the outputs, (time, batch, units, ...), and final states. Arguments: see Direction.scan."""
    cell = cast(LinearRecurrence, direction.cell)
    vectors = x.vectors() if isinstance(x, LazyEmbedding) else x
    with direction.hold_projections(vectors[0]):
        projected, state, computed = cell.joined(direction.input(vectors), state, lengths, tbptt_steps)
        if projected.dim() == 3 and (system := _system(cell)) is not None:
            with torch.autocast(projected.device.type, enabled=False):
                outputs, last = chunks.scan(system, projected, state[-1], lengths, tbptt_steps)
            outputs, c = outputs.to(projected.dtype), last[None]
        else:
            outputs, c = _all_states(cell, projected, state, lengths, tbptt_steps)
    low = direction.input.weight.dtype != torch.float32  # then all but the states that stay in float32 are rounded
    if low:
        outputs = outputs.to(projected.dtype)
    if lengths is not None and len(state) > 1:
        outputs = kept_outputs(outputs, state[0], lengths, tbptt_steps)
    final = (*(steps[-1].clone() for steps in (outputs, c)[: len(state)]), *computed)  # else it would keep all steps
    return outputs, matched(cell, final, projected.dtype) if low else final


def _system(cell: LinearRecurrence) -> System | None:
    """Return the cell's equations as a System, unless its class redefines what `system` states."""
    return None if rewritten(cell, ("coefficients", "read"), by="system") else cell.system()


def _all_states(
    cell: LinearRecurrence, projected: Tensor, state: State, lengths: Tensor | None, tbptt_steps: int | None
) -> tuple[Tensor, Tensor]:
    """Return the outputs, (time, batch, units, ...), and the last of the cell's states at all steps. Arguments: see `scan`."""
    a, b, *rest = cell.coefficients(projected)
    shape = state[-1].shape[1:]
    every = (*b.shape[:2], *shape)  # what the cell may leave to broadcasting
    a = a.expand(every).flatten(2) if a.dim() == b.dim() else a.expand(1, *shape).flatten()
    b, start = b.expand(every).flatten(2).float(), state[-1].float().flatten(1)
    c = Recurrence.apply(a.float(), b, start, lengths, tbptt_steps, cell.complex_state)
    c = c.unflatten(2, shape)
    return cell.read(c, *rest) if len(state) > 1 else c, c


def scan_last(
    direction: Direction, x: LayerInput, state: State, lengths: Tensor | None, tbptt_steps: int | None
) -> tuple[Tensor, State]:
    """Return the outputs of the last step alone, (1, batch, units, ...), and the final states. Arguments: see `scan`."""
    cell = cast(LinearRecurrence, direction.cell)
    if not _has_closed_form(direction, x) or lengths is not None or tbptt_steps is not None:
        outputs, final = scan(direction, x, state, lengths, tbptt_steps)
        if lengths is None:
            return outputs[-1:], final
        # read at each sequence's own end, not in the final state: gradients are cut between the two
        ends = lengths.clamp(1, len(outputs)) - 1
        return outputs[ends, torch.arange(len(ends), device=ends.device)][None], final
    assert isinstance(x, Tensor)
    with direction.hold_projections(x[0]), torch.autocast(x.device.type, enabled=False):
        c = _closed_form(direction, cell, x.float(), state[-1].float())
        _, _, *rest = cell.coefficients(direction.input(x[-1].float()))
        h = cell.read(c, *rest)
    return h[None], (h.clone(), c)


FEW_INPUTS = 4
"""Largest number of inputs for which the closed form, one product of (batch * inputs, time) by (time, states), is used. With
more inputs, a scan is cheaper."""


def _has_closed_form(direction: Direction, x: LayerInput) -> bool:
    cell = cast(LinearRecurrence, direction.cell)
    return (
        isinstance(x, Tensor)
        and cell.time_invariant
        and not rewritten(cell, ("coefficients",), by="time_invariant")
        and cell.complex_state
        and x.dim() == 3
        and x.shape[2] <= FEW_INPUTS
        and direction.input.norm is None
        and direction.input.weight.dtype == torch.float32
        and not customised(direction.input)
    )


def _closed_form(direction: Direction, cell: LinearRecurrence, x: Tensor, start: Tensor) -> Tensor:
    """Return c_T = a^T c_0 + sum over t of a^(T - t) b_t, (batch, 2 n): n real, then n imaginary parts of the state.

    x: (time, batch, inputs); b_t is an affine function of x_t, and a is constant. start: c_0, (batch, 2 n).
    """
    steps, _, inputs = x.shape
    a, b, *_ = cell.coefficients(
        direction.input(torch.cat([x.new_zeros(1, inputs), torch.eye(inputs, device=x.device, dtype=x.dtype)]))
    )
    constant, matrix = b[0], b[1:] - b[0]  # (2 n,), (inputs, 2 n)
    re, im = a.double().flatten().chunk(2)
    re = torch.where((re == 0) & (im == 0), 1e-150, re)  # a power of 0 by its logarithm would be NaN
    exponents = torch.arange(steps, -1, -1, dtype=torch.float64, device=x.device)[:, None]
    size, angle = torch.exp(exponents * (re.square() + im.square()).log() / 2), exponents * torch.atan2(im, re)
    powers = torch.cat([size * angle.cos(), size * angle.sin()], 1).float()  # (time + 1, 2 n), a^T first
    sums = x.permute(1, 2, 0) @ powers[1:]  # (batch, inputs, 2 n)
    weighted = times(sums, matrix).sum(1)
    return times(powers[0], start) + weighted + times(powers[1:].sum(0), constant)


def kept_outputs(outputs: Tensor, start: Tensor, lengths: Tensor, tbptt_steps: int | None) -> Tensor:
    """Return `outputs`, (time, batch, ...), with each sequence's last output repeated beyond its end. tbptt_steps: see `scan`.

    start: (batch, ...), what is repeated for a sequence that ends before the first of these steps.
    """
    time = torch.arange(len(outputs), device=lengths.device)[:, None]
    last = (lengths.clamp(min=0) - 1).minimum(time)  # (time, batch)
    kept = torch.cat([outputs, start[None].to(outputs.dtype)])[last, torch.arange(len(lengths), device=lengths.device)]
    if tbptt_steps is None:
        return kept
    cut = (time // tbptt_steps * tbptt_steps > last) & (time >= tbptt_steps)  # between the last step and this one
    return torch.where(unsqueeze_to(cut, outputs.dim()), kept.detach(), kept)


class Recurrence(torch.autograd.Function):
    """c_t = a_t c_{t-1} + b_t for all t, real or complex, in float32.

    a: (time, batch, width), or (width,) if it is the same at every step. b and c: (time, batch, width). start: c_0, (batch,
    width). lengths: (batch,); a sequence that has ended keeps its state. tbptt_steps: gradients are cut every this many steps.
    complex_state: True if the width holds real parts, then as many imaginary ones.
    """

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        start: Tensor,
        lengths: Tensor | None,
        tbptt_steps: int | None,
        complex_state: bool,
    ) -> Tensor:
        lengths = None if lengths is None else lengths.long().contiguous()
        ctx.recurrences = device_module(RECURRENCES, b.device)
        ctx.tbptt_steps, ctx.complex_state, ctx.formats = tbptt_steps, complex_state, formats((a, b, start))
        c = ctx.recurrences.forward(
            contiguous(a), contiguous(b), contiguous(start), lengths, tbptt_steps, complex_state
        )
        ctx.save_for_backward(a, b, start, lengths, c)
        return c

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        a, b, start, lengths, c = ctx.saved_tensors
        check_formats((a, b, start), ctx.formats)
        if torch.is_grad_enabled() or not in_memory(gradients[0]):  # gradients of gradients, or many at once
            return *_differentiable(ctx, a, b, start, lengths, gradients[0]), None, None, None
        operands = contiguous(gradients[0]), contiguous(a), contiguous(c), contiguous(start)
        return *ctx.recurrences.backward(*operands, lengths, ctx.tbptt_steps, ctx.complex_state), None, None, None


def _differentiable(
    ctx: Any, a: Tensor, b: Tensor, start: Tensor, lengths: Tensor | None, c_gradient: Tensor
) -> tuple[Tensor, ...]:
    """Return the gradients with respect to a, b and start, by a plain loop that autograd can differentiate again."""
    differentiate_again = torch.is_grad_enabled()
    with torch.enable_grad():
        a, b, start = inputs = apart(a, b, start)
        states, old = [], start
        for t in range(len(b)):
            if ctx.tbptt_steps and t and t % ctx.tbptt_steps == 0:
                old = old.detach()
            new = next_state(a if a.dim() == 1 else a[t], b[t], old, ctx.complex_state)
            old = new if lengths is None else torch.where((t < lengths)[:, None], new, old)
            states.append(old)
        return torch.autograd.grad(torch.stack(states), inputs, c_gradient, create_graph=differentiate_again)
