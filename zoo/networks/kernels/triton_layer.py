"""One layer of a fused scan on a GPU: its buffers, and the launches that fill them chunk by chunk.

Products over many steps (the input map, the gradients of weights) are left to torch, the scans to triton_kernels.py.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from ..layer import Direction
from .plans import Plan
from .triton_cells import CELLS
from .triton_kernels import scan_backward, scan_forward

ROWS = 16
"""Sequences of one program: the least that the matrix units take, as a step's latency is what costs."""

WIDEST = 128
"""Padded units; the tiles of wider layers do not fit the registers."""

MOST = 16
"""Recurrent matrices of a layer: their products are written out one by one, and more take minutes to compile."""

SHARED = 227 * 1024
"""Shared memory of a program on an H100 or H200, in bytes; other GPUs say their own."""

EXACT = "ieee"
"""How small matrices of float32 are multiplied where TF32 is not allowed; see multiplication."""


def padded(units: int) -> int:
    """Units rounded up to a power of two that tl.dot takes."""
    return max(16, triton.next_power_of_2(units))


def matrices(made: Plan, units: int) -> int:
    """How many recurrent matrices, (units, units), a layer has."""
    return sum(p.map.weight.shape[0] // units for p in made.products)


def multiplication(dtype: torch.dtype, pad: int, count: int) -> str:
    """tl.dot's input_precision: TF32 where torch is allowed it, else float32 itself, or three products of TF32.

    Three products lose about two bits of float32's 24. Float32 itself does without the matrix units, and where matrices
    are large or many the compiler runs out of registers, or of time.
    """
    matmul = torch.backends.cuda.matmul
    allowed = matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32
    if dtype != torch.float32 or allowed:
        return "tf32"
    return EXACT if pad <= 64 and count <= 12 else "tf32x3"


def resident(size: int, precision: str, device: torch.device) -> bool:
    """Whether matrices of `size` bytes stay on the chip; else every step reads them again, from the cache."""
    shared = SHARED
    if device.type == "cuda":
        shared = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 99 * 1024)
    passed_around = 32 * 1024  # between threads, in a step
    return size * (2.2 if precision == "tf32x3" else 1) + passed_around <= shared


class Job:
    """One layer of one run.

    x: (time, batch, features), contiguous, in the precision of the run; weights: those of the input map and of the
    plan's products, each with its bias. `kept` is what the backward pass needs of the forward pass: y, which starts
    with the initial state, and the tape.
    """

    def __init__(
        self, direction: Direction, made: Plan, x: Tensor, weights: Sequence[Tensor | None],
        lengths: Tensor | None, truncate: int | None, kept: Sequence[Tensor] | None, train: bool,
    ):  # fmt: skip
        self.made, self.cell, self.x, self.truncate = made, CELLS[made.name], x, truncate
        self.weights = [w if w is None else w.detach() for w in weights]
        (steps, batch, self.features), self.units = x.shape, direction.units
        self.inputs, self.states = len(direction.cell.inputs), len(direction.cell.states)
        self.one_feature, self.batch, pad = self.features == 1, batch, padded(self.units)
        of = [(p.block + i, p.phase) for p in made.products for i in range(p.map.weight.shape[0] // self.units)]
        phase, place = dict(of), {block: i for i, (block, _) in enumerate(of)}
        self.tape_blocks = self.cell.tape * (made.phases if self.cell.tape_per_phase else 1)
        if kept is None:
            tape = x.new_empty(steps, batch, self.tape_blocks * self.units if train else 0)
            kept = x.new_empty(steps + 1, batch, self.units), tape
        self.y, self.tape = kept
        self.carry = x.new_empty(batch, self.states * self.units, dtype=torch.float32)
        self.weight = x.new_empty(len(place), pad, pad)
        self.bias = x.new_empty(made.blocks, pad, dtype=torch.float32)
        self.lengths = x if lengths is None else lengths  # any pointer does for what is not read
        precision = multiplication(x.dtype, pad, len(place))
        self.constants: dict[str, Any] = {
            "OPTION": made.option, "STATES": self.states, "PHASES": made.phases, "MATRICES": len(place),
            "PHASE": tuple(phase.get(b, 0) for b in range(made.blocks)),
            "WEIGHT": tuple(place.get(b, -1) for b in range(made.blocks)),
            "LENGTHS": lengths is not None, "PRECISION": precision,
            "RESIDENT": resident(self.weight.nbytes, precision, x.device),
            "UNITS": self.units, "PAD": pad, "ROWS": ROWS,
            "num_warps": min(8, pad // (16 if x.dtype == torch.bfloat16 else 8)), "num_stages": 1,
        }  # fmt: skip

    @property
    def output(self) -> Tensor:
        """(time, batch, units)."""
        return self.y[1:]

    def pack(self) -> None:
        """Lay out the weights as the kernels want them."""
        weight, input_bias, *products = self.weights
        assert weight is not None
        self.input = weight.to(self.x.dtype).contiguous()
        biases = [(0, input_bias)]
        self.weight.zero_(), self.bias.zero_()
        place = 0
        for product, weight, bias in zip(self.made.products, products[::2], products[1::2], strict=True):
            matrices = weight.view(-1, self.units, self.units)  # type: ignore[union-attr]
            self.weight[place : place + len(matrices), : self.units, : self.units] = matrices
            place += len(matrices)
            biases.append((product.block, bias))
        for block, bias in biases:
            if bias is not None:
                rows = bias.view(-1, self.units)
                self.bias[block : block + len(rows), : self.units] += rows

    def start(self, state: Sequence[Tensor]) -> None:
        """Begin a forward pass."""
        self.pack()
        self.y[0] = state[0]
        torch.cat([s.to(self.x.dtype).float() for s in state], 1, out=self.carry)
        self.projected: Tensor | None = None

    def forward(self, begin: int, end: int) -> None:
        """Steps begin to end, the ones before them done."""
        given = self.x[begin:end]
        if not self.one_feature:
            flat, weight = given.flatten(0, 1), self.input.t()
            if self.projected is None:  # the first chunk is the longest
                self.projected = flat.new_empty(len(flat), weight.shape[1])
            given = torch.mm(flat, weight, out=self.projected[: len(flat)])
        scan_forward[(triton.cdiv(self.batch, ROWS),)](
            given, self.input, self.weight, self.bias, self.carry, self.lengths, self.y[begin:], self.tape[begin:],
            begin, end - begin, self.batch, CELL=self.cell.forward, INPUTS=self.inputs,
            TAPE=self.tape_blocks if self.tape.numel() else 0, ONE_FEATURE=self.one_feature, **self.constants,
        )  # fmt: skip

    def carried(self) -> list[Tensor]:
        """The states after the steps that are done (before them, in a backward pass), or their gradients."""
        parts = self.carry.view(self.batch, self.states, self.units).unbind(1)
        return [part.to(self.x.dtype, copy=True, memory_format=torch.contiguous_format) for part in parts]

    def turn(self, gradients: Sequence[Tensor | None], want_x: bool) -> None:
        """Begin a backward pass from gradients of the final states."""
        self.pack()
        for part, g in zip(self.carry.view(self.batch, self.states, self.units).unbind(1), gradients, strict=True):
            if g is None:
                part.zero_()
            else:
                part.copy_(g)
        self.gradient = self.x.new_empty(*self.x.shape[:2], self.made.blocks * self.units)
        self.x_gradient = torch.empty_like(self.x) if want_x else None

    def backward(self, y_gradient: Tensor | None, begin: int, end: int) -> None:
        """Steps end to begin; y_gradient: (time, batch, units), contiguous, or None for zero."""
        scan_backward[(triton.cdiv(self.batch, ROWS),)](
            self.weight, self.carry, self.lengths, self.y[begin:], self.tape[begin:],
            self.y if y_gradient is None else y_gradient[begin:], self.gradient[begin:],
            begin, end - begin, self.batch, self.truncate or 0, CELL=self.cell.backward, TAPE=self.tape_blocks,
            FIRST=tuple(self.constants["PHASE"].index(phase) for phase in range(self.made.phases)),
            TAPE_PER_PHASE=self.cell.tape_per_phase, TRUNCATE=bool(self.truncate), Y_GRADIENT=y_gradient is not None,
            **self.constants,
        )  # fmt: skip
        if self.x_gradient is not None:
            made = self.gradient[begin:end].flatten(0, 1)[:, : self.inputs * self.units]
            torch.mm(made, self.input, out=self.x_gradient[begin:end].flatten(0, 1))

    def weight_gradients(self) -> list[Tensor | None]:
        """Gradients of the weights and biases, when all steps are done."""
        flat = self.gradient.flatten(0, 1)
        biases = flat.sum(0, dtype=torch.float32)
        made = self.inputs * self.units
        found: list[Tensor | None] = [flat[:, :made].t() @ self.x.flatten(0, 1), biases[:made]]
        for product, weight, bias in zip(self.made.products, self.weights[2::2], self.weights[3::2], strict=True):
            rows = slice(product.block * self.units, product.block * self.units + len(weight))  # type: ignore[arg-type]
            found += [flat[:, rows].t() @ self._operand(product.phase), None if bias is None else biases[rows]]
        return found

    def _operand(self, phase: int) -> Tensor:
        """What the products of a phase mapped, (time * batch, units)."""
        if phase == 0:
            return self.y[:-1].flatten(0, 1)
        block = self.cell.operand + (self.cell.tape * phase if self.cell.tape_per_phase else 0)
        return self.tape.flatten(0, 1)[:, block * self.units : (block + 1) * self.units]
