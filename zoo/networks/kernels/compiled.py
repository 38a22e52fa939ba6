"""The fused scan of one layer on a CPU, float32, by the compiled code of native/scan.cpp.

Under torch.autocast to bfloat16 it rounds the operands of matrix products to bfloat16 and nothing else. That is faster on
processors with instructions for such products (AVX-512 BF16, AMX).
"""

import ctypes
import platform
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ...cells.base import State, matched
from ...checkpoints.tokenizer import PADDING
from ..layer import Direction, LayerInput, LazyEmbedding
from . import interface
from .interface import address, addresses
from .shared import PlannedLayer, check_formats, contiguous, customised, differentiable, formats, in_memory, planned


def supports(direction: Direction, x: LayerInput) -> PlannedLayer | None:
    """Return the layer with its plan if `scan` can run the layer on x now, else None.

    `scan` can run a layer whose cell has a plan and that is dense, float32, on a CPU, without zoneout, norms or
    hooks.
    """
    layer = planned(direction)
    if layer is None or interface.library() is None:
        return None
    if torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") != torch.bfloat16:
        return None
    if isinstance(x, LazyEmbedding):
        return layer if _is_plain_lookup(x) and _fits_interface(layer, x.embedding.weight) else None
    return layer if _fits_interface(layer, x) else None


def _is_plain_lookup(x: LazyEmbedding) -> bool:
    """Return whether the compiled code may read vectors from the embedding's weight: the embedding is as Network builds it."""
    embedding = x.embedding
    return (
        type(embedding) is nn.Embedding
        and embedding.max_norm is None
        and not (embedding.scale_grad_by_freq or embedding.sparse)
        and embedding.padding_idx == PADDING
        and in_memory(x.tokens)
        and x.tokens.device == embedding.weight.device
        and not customised(embedding)
    )


def _fits_interface(layer: PlannedLayer, x: Tensor) -> bool:
    """Return whether native/scan.cpp takes this layer's and x's types and shapes. x: the input, or the embedding's weight."""
    direction, units, blocks = layer.direction, layer.direction.units, layer.plan.blocks
    return (
        layer.is_dense_equations(x)
        and (is_float(x) or _is_autocast(x))
        and all(is_float(p) for p in layer.parameters if p is not None)
        and len(direction.input.weight) == len(direction.cell.inputs) * units
        and all(
            (product.projection.weight.shape[1:] == (units,) or product.projection.parametrization is not None)
            and len(product.projection.weight) in range(units, (blocks - product.block) * units + 1, units)
            for product in layer.plan.products
        )
        and (layer.plan.vector is None or layer.plan.vector.weight.shape == (units,))
        and all(m.bias is None or m.bias.shape == m.weight.shape[:1] for m in layer.projections)
    )


def is_float(tensor: Tensor) -> bool:
    """Return whether a tensor is float32 with storage on the CPU, so that the compiled code can read it."""
    return in_memory(tensor) and tensor.dtype is torch.float32 and tensor.is_cpu


def _is_autocast(x: Tensor) -> bool:
    """Return whether x is on the CPU and has the dtype of the active torch.autocast."""
    lowered = torch.is_autocast_enabled("cpu") and x.dtype == torch.get_autocast_dtype("cpu")
    return lowered and x.device.type == "cpu"


def scan(
    layer: PlannedLayer, x: LayerInput, state: State, lengths: Tensor | None = None, tbptt_steps: int | None = None
) -> tuple[Tensor, State]:
    """Return the outputs, (time, batch, units), and the final states. Arguments: see Direction.scan."""
    direction = layer.direction
    tokens, x = (x.tokens, x.embedding.weight) if isinstance(x, LazyEmbedding) else (None, x)
    if x.shape[-1] != direction.input.weight.shape[1]:  # the plain scan raises torch's error
        vectors = x if tokens is None else nn.functional.embedding(tokens, x)
        return direction.scan(vectors, state, lengths, tbptt_steps)  # type: ignore[return-value]
    x = x.float()  # a layer below, or a convolution in front, may have put out autocast's type
    compiled_scan = CompiledScan(layer, lengths, tbptt_steps, tokens)
    inputs = [x, *matched(direction.cell, state, x.dtype), *layer.operands]
    if torch.is_grad_enabled() and any(t.requires_grad for t in inputs if t is not None):
        outputs, *final = _ScanFunction.apply(compiled_scan, *inputs)
    else:
        outputs, *final = compiled_scan.forward(inputs, None)
    return outputs, tuple(final)


@cache
def keep_memory() -> None:
    """Make glibc keep freed memory for the next training step; elsewhere do nothing.

    By default, glibc returns large blocks to the system, which clears their pages again at every allocation.
    """
    if platform.libc_ver()[0] == "glibc":
        trim_threshold, mmap_max = -1, -4  # of malloc.h
        libc = ctypes.CDLL(None)
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, 2**31 - 1)


class CompiledScan:
    """One scan of one layer. Its `inputs` are x, the initial states and the operands of the layer.

    tokens: (time, batch), indices of the rows of x, (rows, features), that the layer reads; None if x is the input itself,
    (time, batch, features).
    """

    def __init__(
        self, layer: PlannedLayer, lengths: Tensor | None, tbptt_steps: int | None, tokens: Tensor | None = None
    ):
        self.layer, self.tbptt_steps = layer, tbptt_steps
        self.lengths = None if lengths is None else lengths.long().contiguous()
        self.tokens = None if tokens is None else tokens.long().contiguous()
        self.states = len(layer.direction.cell.states)
        self.half = torch.is_autocast_enabled("cpu")
        lib = interface.library()
        assert lib is not None
        self.library, self.cell = lib, lib.rnnzoo_cell(layer.plan.name.encode())
        if self.cell is None:
            raise NotImplementedError(f"native/scan.cpp has no row {layer.plan.name!r} in CELLS, which plans.py names.")

    def new_tape(self, x: Tensor) -> Tensor:
        """Return an empty tape, (time, batch, floats of a step): memory for values that the backward pass needs."""
        keep_memory()
        plan = self.layer.plan
        floats = self.library.rnnzoo_tape(self.cell, plan.phases, self.layer.direction.units)
        steps = x if self.tokens is None else self.tokens
        return x.new_empty(*steps.shape[:2], floats)

    def forward(self, inputs: Sequence[Tensor | None], tape: Tensor | None) -> tuple[Tensor, ...]:
        """Return the outputs and the final states, and write the tape if it is not None."""
        job, held = self.job(inputs)
        y = held[0].new_empty(job.steps, job.batch, job.units)
        end = tuple(y.new_empty(y.shape[1:]) for _ in range(self.states))
        job.y, job.tape, job.end = address(y), address(tape), addresses(end)
        self.library.rnnzoo_forward(ctypes.byref(job))
        return y, *end

    def backward(
        self, inputs: Sequence[Tensor | None], y: Tensor, tape: Tensor, wanted: Sequence[bool],
        output_gradients: Sequence[Tensor | None],
    ) -> list[Tensor | None]:  # fmt: skip
        """Return the gradients with respect to the inputs that are `wanted`, in order; None for the others.

        y, tape: the outputs and the tape of `forward`. output_gradients: the gradients of its outputs and final states.
        """
        job, held = self.job(inputs)
        first = 1 + self.states  # input weight; then input bias, and weight and bias of every product
        gradients: list[Tensor | None] = [None] * len(inputs)
        train = any(wanted[first:])  # the gradients of all weights come together
        for i, tensor in enumerate(inputs):
            if tensor is not None and (train if i >= first else wanted[i]):
                gradients[i] = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        if wanted[0] and self.tokens is not None:
            gradients[0] = y.new_empty(*self.tokens.shape, job.inputs)
        output_gradients = [g if g is None else contiguous(g) for g in output_gradients]
        job.y, job.tape = address(y), address(tape)
        job.y_gradient, job.end_gradient = address(output_gradients[0]), addresses(output_gradients[1:])
        job.x_gradient, job.start_gradient = address(gradients[0]), addresses(gradients[1:first])
        job.weight_gradient, job.bias_gradient = address(gradients[first]), address(gradients[first + 1])
        for i in range(job.products):
            job.product[i].weight_gradient = address(gradients[first + 2 + 2 * i])
            job.product[i].bias_gradient = address(gradients[first + 3 + 2 * i])
        if self.layer.plan.vector is not None:
            job.vector_gradient = address(gradients[-2])
        self.library.rnnzoo_backward(ctypes.byref(job))
        if gradients[0] is not None and self.tokens is not None:
            table = held[0]
            gradients[0] = torch.ops.aten.embedding_dense_backward(
                gradients[0], self.tokens, len(table), PADDING, False
            )
        return [g if want else None for g, want in zip(gradients, wanted, strict=True)]

    def job(self, inputs: Sequence[Tensor | None]) -> tuple[interface.NativeJob, list[Tensor]]:
        """Return the C structure Job without the addresses of outputs, and the tensors whose addresses it has."""
        x, *rest = inputs
        assert x is not None
        x = x.detach().resolve_neg()
        if x.shape[-1] > 1 and x.stride(-1) != 1:
            x = x.contiguous()
        operands = [t if t is None else contiguous(t) for t in rest]
        start, (weight, bias, *recurrent) = operands[: self.states], operands[self.states :]
        steps, batch = x.shape[:2] if self.tokens is None else self.tokens.shape
        plan, direction = self.layer.plan, self.layer.direction
        products = (interface.NativeProduct * len(plan.products))()
        for i, product in enumerate(plan.products):
            matrix = recurrent[2 * i]
            assert matrix is not None
            products[i] = interface.NativeProduct(
                weight=address(matrix), bias=address(recurrent[2 * i + 1]),
                phase=product.phase, block=product.block, blocks=matrix.shape[0] // direction.units,
            )  # fmt: skip
        job = interface.NativeJob(
            cell=self.cell, option=plan.option, steps=steps, batch=batch, inputs=x.shape[-1],
            units=direction.units, input_blocks=len(direction.cell.inputs), blocks=plan.blocks, phases=plan.phases,
            products=len(products), threads=torch.get_num_threads(), half=self.half, x=address(x), x_step=x.stride(0),
            x_row=x.stride(-2), rows=address(self.tokens), weight=address(weight), bias=address(bias),
            product=products, vector=None if plan.vector is None else address(recurrent[-2]), lengths=address(self.lengths), tbptt_steps=self.tbptt_steps or 0, start=addresses(start),
        )  # fmt: skip
        return job, [x, *(t for t in operands if t is not None)]


class _ScanFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compiled_scan: CompiledScan, *inputs: Tensor | None) -> tuple[Tensor, ...]:
        assert inputs[0] is not None
        tape = compiled_scan.new_tape(inputs[0])
        outputs = compiled_scan.forward(inputs, tape)
        ctx.scan, ctx.formats = compiled_scan, formats(inputs)
        # tokens and lengths are saved so that torch notices if somebody writes into them
        ctx.save_for_backward(compiled_scan.tokens, compiled_scan.lengths, outputs[0], tape, *inputs)
        ctx.set_materialize_grads(False)
        return outputs

    @staticmethod
    def backward(ctx: Any, *output_gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        _, _, y, tape, *inputs = ctx.saved_tensors
        check_formats(inputs, ctx.formats)
        scan, wanted = ctx.scan, ctx.needs_input_grad[1:]
        # torch's operations compute gradients of gradients, and many gradients at once, in the precision of the states
        if torch.is_grad_enabled() or not all(g is None or in_memory(g) for g in output_gradients):
            with torch.autocast("cpu", enabled=False):
                return None, *differentiable(
                    [scan.layer], inputs, wanted, output_gradients, scan.lengths, scan.tbptt_steps, scan.tokens
                )
        return None, *scan.backward(inputs, y.contiguous(), _aligned(tape), wanted, output_gradients)


def _aligned(tape: Tensor) -> Tensor:
    """Return the tape; a copy if it is not contiguous or not aligned, since hooks of saved tensors may have replaced it."""
    fits = tape.is_contiguous() and tape.data_ptr() % 64 == 0
    return tape if fits else tape.clone(memory_format=torch.contiguous_format)
