"""The scan of all cells whose state is a matrix, a sum of outer products of keys and values.

The cell computes the coefficients of all time steps at once, and its outputs from what it reads of the states. Both happen in
torch. In between, S_t = diag(a_t) S_{t-1} + k_t v_t^T (+ p_t (r_t^T S_{t-1}) by the delta rule) and o = S^T q are computed by
compiled code on a CPU (compiled_outer.py), in float32, also under torch.autocast. No state but the last leaves the code.
"""

from typing import Any, cast

import torch
from torch import Tensor

from ...cells.base import State, matched
from ...cells.matrix import MatrixRecurrence, product, recalled
from ..layer import Direction, LayerInput, LazyEmbedding
from .devices import OUTER, device_module
from .diagonal import kept_outputs
from .shared import apart, check_formats, contiguous, formats, in_memory, rewritten, takes_recurrence


def supports(direction: Direction, x: LayerInput) -> bool:
    """Return whether `scan` can run this layer on x now.

    It can if the code for the device of x is there and takes the dtype of the weights, which is float32, and if the layer is
    dense and nothing is added to the cell's recurrence.
    """
    cell = direction.cell
    known = isinstance(cell, MatrixRecurrence) and not rewritten(cell, ("carry", "step"), by="scanned")
    return known and cell.axis == -1 and takes_recurrence(direction, x, OUTER)


def scan(
    direction: Direction, x: LayerInput, state: State, lengths: Tensor | None = None, tbptt_steps: int | None = None
) -> tuple[Tensor, State]:
    """Return the outputs, (time, batch, units), and final states. Arguments: see Direction.scan."""
    cell = cast(MatrixRecurrence, direction.cell)
    vectors = x.vectors() if isinstance(x, LazyEmbedding) else x
    with direction.hold_projections(vectors[0]):
        prepared = cell.prepare(direction.input(vectors))
        dtype = prepared[0].dtype  # that of a step
        state = matched(cell, state, dtype)
        (q, k, v, a, *rest), computed = cell.scanned(prepared, state, lengths, tbptt_steps)
        k, v = (t.expand(*t.shape[:2], cell.heads, -1) for t in (k, v))
        operands, rest = (q, k, v, a, *rest[: 2 * cell.delta]), rest[2 * cell.delta :]
        rows = [_rows(t, like=v if t is v else k) for t in operands]
        start = state[1].float().reshape(rows[0].shape[1], k.shape[-1], v.shape[-1])
        ends = None if lengths is None else lengths.repeat_interleave(cell.heads)
        o, end = Recurrence.apply(start, ends, tbptt_steps, cell.reads_old, *rows)
        outputs = cell.read(o.reshape(v.shape), *rest).flatten(-2).to(dtype)
        taken = torch.full((v.shape[1],), len(v), device=v.device) if lengths is None else lengths.clamp(0, len(v))
        S = cell.finished(end.reshape(*v.shape[1:3], *end.shape[1:]), taken)
    if lengths is not None:
        outputs = kept_outputs(outputs, state[0], lengths, tbptt_steps)
    return outputs, matched(cell, (outputs[-1].clone(), S.flatten(1), *computed), dtype)


def _rows(x: Tensor, like: Tensor) -> Tensor:
    """Return x, (time, batch, heads, n), or with 1 for heads or n, as (time, batch * heads, n). like: of the full shape."""
    return x.float().expand(*x.shape[:2], *like.shape[2:]).flatten(1, 2)


class Recurrence(torch.autograd.Function):
    """S_t = diag(a_t) S_{t-1} + k_t v_t^T, with r and p also + p_t (r_t^T S_{t-1}), and o_t = S_t^T q_t, in float32.

    Returns o, (time, rows, values), and the final states, (rows, keys, values). start: as these. lengths: (rows,); a row that
    has ended keeps its state, and its o is 0. tbptt_steps: gradients are cut every this many steps. reads_old: o_t is read
    from S_{t-1}. operands: q, k, v, a, and r and p if any: v like o, the others (time, rows, keys).
    """

    @staticmethod
    def forward(
        ctx: Any, start: Tensor, lengths: Tensor | None, tbptt_steps: int | None, reads_old: bool, *operands: Tensor
    ) -> tuple[Tensor, Tensor]:
        lengths = None if lengths is None else lengths.long().contiguous()
        ctx.recurrences = device_module(OUTER, start.device)
        ctx.tbptt_steps, ctx.reads_old, ctx.formats = tbptt_steps, reads_old, formats((start, *operands))
        o, end, kept = ctx.recurrences.forward(
            [contiguous(t) for t in operands], contiguous(start), lengths, reads_old, any(ctx.needs_input_grad)
        )
        ctx.save_for_backward(start, lengths, kept, *operands)
        return o, end

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        start, lengths, kept, *operands = ctx.saved_tensors
        check_formats((start, *operands), ctx.formats)
        if torch.is_grad_enabled() or not all(map(in_memory, gradients)):  # gradients of gradients, or many at once
            by_start, *by_operands = _differentiable(ctx, start, operands, lengths, gradients)
        else:
            by_operands, by_start = ctx.recurrences.backward(
                *map(contiguous, gradients), [contiguous(t) for t in operands], contiguous(start), kept, lengths,
                ctx.tbptt_steps, ctx.reads_old,
            )  # fmt: skip
        return by_start, None, None, None, *by_operands


def _differentiable(
    ctx: Any, start: Tensor, operands: list[Tensor], lengths: Tensor | None, gradients: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Return the gradients by start and the operands, by a plain loop that autograd can differentiate again."""
    differentiate_again = torch.is_grad_enabled()
    with torch.enable_grad():
        start, *operands = inputs = apart(start, *operands)
        outputs, old = [], start
        for t, (q, k, v, a, *delta) in enumerate(zip(*operands, strict=True)):
            if ctx.tbptt_steps and t and t % ctx.tbptt_steps == 0:
                old = old.detach()
            new = a.unsqueeze(-1) * old + product(k, v)
            if delta:
                r, p = delta
                new = new + product(p, recalled(r, old))
            o = recalled(q, old if ctx.reads_old else new)
            if lengths is not None:
                running = (t < lengths)[:, None]
                o, new = torch.where(running, o, 0.0), torch.where(running[..., None], new, old)
            outputs.append(o)
            old = new
        return torch.autograd.grad(
            [torch.stack(outputs), old], inputs, gradients, create_graph=differentiate_again, allow_unused=True,
            materialize_grads=True,
        )  # fmt: skip
