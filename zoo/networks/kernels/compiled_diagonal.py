"""The recurrence c_t = a_t c_{t-1} + b_t on a CPU, by the compiled code of native/diagonal.h: what diagonal.py runs there."""

import ctypes

import torch
from torch import Tensor

from . import interface
from .compiled import keep_memory
from .interface import address


def supports(weight: Tensor) -> bool:
    """Return whether the recurrence of a layer with this weight can run: float32, on a CPU, with a library that was built."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and interface.library() is not None


def forward(
    a: Tensor, b: Tensor, start: Tensor, lengths: Tensor | None, tbptt_steps: int | None, complex_state: bool
) -> Tensor:
    """Return c. Arguments: see diagonal.Recurrence; contiguous."""
    keep_memory()
    c = torch.empty_like(b)
    job = _job(a, c, start, lengths, tbptt_steps, complex_state)
    job.b = address(b)
    loaded().rnnzoo_diagonal_forward(ctypes.byref(job))
    return c


def backward(
    c_gradient: Tensor, a: Tensor, c: Tensor, start: Tensor, lengths: Tensor | None, tbptt_steps: int | None,
    complex_state: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the gradients by a, b and start from that by c. Arguments: as of `forward`."""
    job, constant = _job(a, c, start, lengths, tbptt_steps, complex_state), a.dim() == 1
    a_gradient = a.new_zeros(job.threads, *a.shape) if constant else torch.empty_like(a)
    b_gradient, start_gradient = torch.empty_like(c), torch.empty_like(start)
    job.c_gradient, job.a_gradient = address(c_gradient), address(a_gradient)
    job.b_gradient, job.start_gradient = address(b_gradient), address(start_gradient)
    loaded().rnnzoo_diagonal_backward(ctypes.byref(job))
    return a_gradient.sum(0) if constant else a_gradient, b_gradient, start_gradient


def loaded() -> ctypes.CDLL:
    """Return the library, for a weight that it `supports`."""
    library = interface.library()
    assert library is not None
    return library


def _job(
    a: Tensor, c: Tensor, start: Tensor, lengths: Tensor | None, tbptt_steps: int | None, complex_state: bool
) -> interface.NativeDiagonal:
    """Return the C structure Diagonal without b and gradients. It holds addresses: the caller keeps the tensors."""
    (steps, batch, width), varies = c.shape, a.dim() == 3
    return interface.NativeDiagonal(
        steps=steps, batch=batch, width=width, complex=complex_state, threads=torch.get_num_threads(),
        a=address(a), a_step=batch * width * varies, a_row=width * varies, start=address(start),
        lengths=address(lengths), tbptt_steps=tbptt_steps or 0, c=address(c),
    )  # fmt: skip
