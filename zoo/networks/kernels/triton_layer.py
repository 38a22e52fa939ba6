"""One layer of a fused scan on a GPU: its buffers, and the launches that fill the buffers chunk by chunk.

torch computes the products over many steps (the input projection, the gradients of weights), triton_kernels.py the scans.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from .shared import PlannedLayer
from .triton_kernels import scan_backward, scan_forward
from .triton_pointwise import CELLS

ROWS = 16
"""Number of sequences in one program: the fewest that the matrix units take, because the latency of a step dominates."""

MAX_PADDED_UNITS = 128
"""Maximum number of units after padding. The tiles of wider layers do not fit the registers."""

MAX_MATRICES = 16
"""Maximum number of recurrent matrices in a layer. Their products are unrolled, and more would take minutes to compile."""

SHARED = 227 * 1024
"""Shared memory of a program on an H100 or H200, in bytes; other GPUs report their own."""

EXACT = "tf32x3" if triton.__version__.startswith("3.9.") else "ieee"
"""The precision of products of small float32 matrices if TF32 is not allowed; see `multiplication`.

Triton 3.9 aborts the process when it compiles exact products of an LSTM for an H100.
"""


def padded(units: int) -> int:
    """Return `units` rounded up to a power of two of at least 16, as tl.dot needs it."""
    return max(16, triton.next_power_of_2(units))


def matrices(layer: PlannedLayer) -> int:
    """Return the number of recurrent matrices, each (units, units), in a layer."""
    return sum(product.projection.weight.shape[0] // layer.direction.units for product in layer.plan.products)


def multiplication(dtype: torch.dtype, pad: int, count: int) -> str:
    """Return tl.dot's input_precision for products with `count` matrices of (pad, pad).

    The result is "tf32" if torch allows TF32 or the matrices are not float32; else EXACT, as a rule "ieee", exact float32, for at
    most 12 matrices of at most 64 x 64; else "tf32x3", three products of TF32, which lose about two of float32's 24 bits. "ieee"
    does not use the matrix units, so for larger or more matrices the compiler would run out of registers or time.
    """
    matmul = torch.backends.cuda.matmul
    allowed = matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32
    if dtype != torch.float32 or allowed:
        return "tf32"
    return EXACT if pad <= 64 and count <= 12 else "tf32x3"


def resident(size: int, precision: str, device: torch.device) -> bool:
    """Return whether matrices of `size` bytes fit in the shared memory of a program; else every step reads them from the cache.

    precision: what `multiplication` returned.
    """
    shared = SHARED
    if device.type == "cuda":
        shared = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 99 * 1024)
    exchanged = 32 * 1024  # between threads, in a step
    return size * (2.2 if precision == "tf32x3" else 1) + exchanged <= shared


class TritonLayer:
    """One layer of one scan: its buffers and its launches.

    x: (time, batch, features), contiguous, in the precision of the scan. operands: the matrix and bias of the input
    projection, of each product of the plan, and of its vector if it has one. saved: what the forward pass left for the
    backward pass: y, (1 + time, batch, units), which begins with the initial state, and the tape, (time, batch, tape blocks
    * units); None in a forward pass. train: whether to write a tape.
    """

    def __init__(
        self, planned: PlannedLayer, x: Tensor, operands: Sequence[Tensor | None], lengths: Tensor | None,
        tbptt_steps: int | None, saved: Sequence[Tensor] | None, train: bool,
    ):  # fmt: skip
        direction, plan = planned.direction, planned.plan
        self.plan, self.cell, self.x, self.tbptt_steps = plan, CELLS[plan.name], x, tbptt_steps
        self.operands = [w if w is None else w.detach() for w in operands]
        self.lengths = lengths
        (steps, self.batch, self.features), self.units = x.shape, direction.units
        self.inputs, self.states = len(direction.cell.inputs), len(direction.cell.states)
        self.state_types = [
            torch.float32 if name in direction.cell.float32_states else x.dtype for name in direction.cell.states
        ]
        self.one_feature = self.features == 1
        self.tape_blocks = self.cell.tape_blocks(plan.phases)
        if saved is None:
            tape = x.new_empty(steps, self.batch, self.tape_blocks * self.units if train else 0)
            saved = x.new_empty(steps + 1, self.batch, self.units), tape
        self.y, self.tape = saved
        self.carry = x.new_empty(self.batch, self.states * self.units, dtype=torch.float32)

        # every block of pre-activations that has a recurrent matrix: its place among them, and its phase
        blocks = [
            (product.block + i, product.phase)
            for product in plan.products
            for i in range(product.projection.weight.shape[0] // self.units)
        ]
        phases, places = dict(blocks), {block: place for place, (block, _) in enumerate(blocks)}
        block_phases = [phases.get(block, 0) for block in range(plan.blocks)]
        pad, count = padded(self.units), len(blocks)
        self.weight = x.new_empty(count, pad, pad)
        self.bias = x.new_empty(plan.blocks, pad, dtype=torch.float32)
        precision = multiplication(x.dtype, pad, count)
        self.constants: dict[str, Any] = {
            "OPTION": plan.option, "STATES": self.states,
            "FIRST": (*(block_phases.index(phase) for phase in range(plan.phases)), plan.blocks),
            "WEIGHT": tuple(places.get(block, -1) for block in range(plan.blocks)),
            "PRECISION": precision, "RESIDENT": count if resident(self.weight.nbytes, precision, x.device) else 0,
            "UNITS": self.units, "PAD": pad, "ROWS": ROWS,
            "num_warps": min(8, pad // (16 if x.dtype == torch.bfloat16 else 8)), "num_stages": 1,
        }  # fmt: skip

    @property
    def output(self) -> Tensor:
        """The outputs of the layer, (time, batch, units)."""
        return self.y[1:]

    def pack(self) -> None:
        """Copy matrices and biases into zero-padded buffers, of the shapes that `scan_forward` takes."""
        input_weight, input_bias, *recurrent = self.operands
        assert input_weight is not None
        self.input = input_weight.to(self.x.dtype).contiguous()
        biases = [(0, input_bias)]
        self.weight.zero_(), self.bias.zero_()
        place = 0
        for product, weight, bias in zip(self.plan.products, recurrent[::2], recurrent[1::2], strict=False):
            matrices = weight.view(-1, self.units, self.units)  # type: ignore[union-attr]
            self.weight[place : place + len(matrices), : self.units, : self.units] = matrices
            place += len(matrices)
            biases.append((product.block, bias))
        if self.plan.vector is not None:  # the pre-activations of the last block, which has no other terms
            biases.append((self.plan.blocks - 1, recurrent[-2]))
        for block, bias in biases:
            if bias is not None:
                rows = bias.view(-1, self.units)
                self.bias[block : block + len(rows), : self.units] += rows

    def start_forward(self, state: Sequence[Tensor]) -> None:
        """Begin a forward pass from the initial state."""
        self.pack()
        self.y[0] = state[0]
        rounded = [s.to(dtype).float() for s, dtype in zip(state, self.state_types, strict=True)]
        torch.cat(rounded, 1, out=self.carry)
        self.projected: Tensor | None = None

    def forward(self, begin: int, end: int) -> None:
        """Run the steps from `begin` to `end`. The steps before `begin` must have run."""
        x = self.x[begin:end]
        if not self.one_feature:
            flat, weight = x.flatten(0, 1), self.input.t()
            if self.projected is None:  # the first chunk is the longest
                self.projected = flat.new_empty(len(flat), weight.shape[1])
            x = torch.mm(flat, weight, out=self.projected[: len(flat)])
        scan_forward[(triton.cdiv(self.batch, ROWS),)](
            x, self.input, self.weight, self.bias, self.lengths, self.carry, self.y[begin:], self.tape[begin:],
            begin, end - begin, self.batch, CELL=self.cell.forward, INPUTS=self.inputs,
            TAPE=self.tape_blocks if self.tape.numel() else 0, ONE_FEATURE=self.one_feature, **self.constants,
        )  # fmt: skip

    def carried(self) -> list[Tensor]:
        """Return the states after the last step that ran; in a backward pass, the gradients of the states before that step."""
        parts = self.carry.view(self.batch, self.states, self.units).unbind(1)
        return [
            part.to(dtype, copy=True, memory_format=torch.contiguous_format)
            for part, dtype in zip(parts, self.state_types, strict=True)
        ]

    def start_backward(self, state_gradients: Sequence[Tensor | None], want_x: bool) -> None:
        """Begin a backward pass from the gradients of the final states. want_x: True to compute the gradient of x, too."""
        self.pack()
        parts = self.carry.view(self.batch, self.states, self.units).unbind(1)
        for part, g in zip(parts, state_gradients, strict=True):
            if g is None:
                part.zero_()
            else:
                part.copy_(g)
        self.gradient = self.x.new_empty(*self.x.shape[:2], self.plan.blocks * self.units)
        self.x_gradient = torch.empty_like(self.x) if want_x else None

    def backward(self, y_gradient: Tensor | None, begin: int, end: int) -> None:
        """Run the steps back from `end` to `begin`. y_gradient: (time, batch, units), contiguous, or None for zero."""
        scan_backward[(triton.cdiv(self.batch, ROWS),)](
            self.weight, self.lengths, self.y[begin:], self.tape[begin:],
            None if y_gradient is None else y_gradient[begin:], self.carry, self.gradient[begin:],
            begin, end - begin, self.batch, self.tbptt_steps, CELL=self.cell.backward, TAPE=self.tape_blocks,
            TAPE_PER_PHASE=self.cell.tape_per_phase, **self.constants,
        )  # fmt: skip
        if self.x_gradient is not None:
            by_inputs = self.gradient[begin:end].flatten(0, 1)[:, : self.inputs * self.units]
            torch.mm(by_inputs, self.input, out=self.x_gradient[begin:end].flatten(0, 1))

    def weight_gradients(self) -> list[Tensor | None]:
        """Return the gradients of the operands, in their order, after `backward` has run through all steps."""
        flat = self.gradient.flatten(0, 1)
        by_bias = flat.sum(0, dtype=torch.float32)
        by_inputs = slice(self.inputs * self.units)
        gradients: list[Tensor | None] = [flat[:, by_inputs].t() @ self.x.flatten(0, 1), by_bias[by_inputs]]
        for product, weight, bias in zip(self.plan.products, self.operands[2::2], self.operands[3::2], strict=False):
            rows = slice(product.block * self.units, product.block * self.units + len(weight))  # type: ignore[arg-type]
            by_product = flat[:, rows].t() @ self._projected_states(product.phase)
            gradients += [by_product, None if bias is None else by_bias[rows]]
        if self.plan.vector is not None:
            gradients += [by_bias[-self.units :], None]
        return gradients

    def _projected_states(self, phase: int) -> Tensor:
        """Return what the products of a phase multiply with their matrices, at all steps: (time * batch, units)."""
        if phase == 0:
            return self.y[:-1].flatten(0, 1)
        block = self.cell.operand + (self.cell.tape * phase if self.cell.tape_per_phase else 0)
        return self.tape.flatten(0, 1)[:, block * self.units : (block + 1) * self.units]
