"""The scan of a state that is a matrix on a CPU, by the compiled code of native/outer.h: what outer.py runs there."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from . import interface
from .compiled import keep_memory
from .compiled_diagonal import loaded, supports
from .interface import address

__all__ = ["backward", "forward", "supports"]

OPERANDS = ("q", "k", "v", "a", "r", "p")


def forward(
    operands: Sequence[Tensor], start: Tensor, lengths: Tensor | None, reads_old: bool, keep: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return o, the final states, and what `backward` needs of the states; None unless `keep`.

    Arguments: see outer.Recurrence; all contiguous.
    """
    keep_memory()
    library, job = loaded(), _job(operands, start, lengths, None, reads_old)
    o, end, kept = torch.empty_like(operands[2]), torch.empty_like(start), None
    if keep:
        kept = start.new_empty(-(-job.steps // library.rnnzoo_outer_stride()), *start.shape)
    job.o, job.end, job.kept = address(o), address(end), address(kept)
    library.rnnzoo_outer_forward(ctypes.byref(job))
    return o, end, kept


def backward(
    o_gradient: Tensor, end_gradient: Tensor, operands: Sequence[Tensor], start: Tensor, kept: Tensor, lengths: Tensor | None,
    tbptt_steps: int | None, reads_old: bool,
) -> tuple[list[Tensor], Tensor]:  # fmt: skip
    """Return the gradients by the operands, in their order, and that by start. kept: what `forward` returned."""
    job = _job(operands, start, lengths, tbptt_steps, reads_old)
    gradients, start_gradient = [torch.empty_like(operand) for operand in operands], torch.empty_like(start)
    job.o_gradient, job.end_gradient, job.kept = address(o_gradient), address(end_gradient), address(kept)
    job.start_gradient = address(start_gradient)
    for name, gradient in zip(OPERANDS, gradients, strict=False):
        setattr(job, f"{name}_gradient", address(gradient))
    loaded().rnnzoo_outer_backward(ctypes.byref(job))
    return gradients, start_gradient


def _job(
    operands: Sequence[Tensor], start: Tensor, lengths: Tensor | None, tbptt_steps: int | None, reads_old: bool
) -> interface.NativeOuter:
    """Return the C structure Outer without its results. It holds addresses: the caller keeps the tensors."""
    rows, keys, values = start.shape
    return interface.NativeOuter(
        steps=len(operands[0]), rows=rows, keys=keys, values=values, threads=torch.get_num_threads(),
        delta=len(operands) > 4, reads_old=reads_old, start=address(start), lengths=address(lengths),
        tbptt_steps=tbptt_steps or 0, **{name: address(operand) for name, operand in zip(OPERANDS, operands, strict=False)},
    )  # fmt: skip
