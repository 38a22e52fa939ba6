"""The fused scan of one layer on a CPU, float32, by the compiled code of native/scan.cpp.

Under torch.autocast to bfloat16 it rounds the operands of matrix products to that and nothing else, which a processor
with instructions for such products (AVX-512's pairs, AMX's tiles) repays.
"""

import ctypes
import platform
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ...cells.base import State
from ...checkpoints.tokenizer import PADDING
from ..layer import Direction, LayerInput, LazyEmbedding
from . import interface
from .interface import address, pair
from .plans import Plan, plan, planned
from .shared import altered, differentiable, in_memory, maps, only_equations, operands, parameters


def supports(direction: Direction, x: LayerInput) -> bool:
    """Whether `scan` can run this layer on x now: a cell with a plan, dense, float32, on a CPU, its equations and no more."""
    made = plan(direction.cell)
    if made is None or interface.library() is None:
        return False
    if torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") != torch.bfloat16:
        return False
    if isinstance(x, LazyEmbedding):
        return _looks_up(x) and _takes(direction, made, x.embedding.weight)
    return _takes(direction, made, x)


def _looks_up(x: LazyEmbedding) -> bool:
    """Whether vectors can be read straight from the table: it is an embedding as Network makes it, and no more."""
    layer = x.embedding
    plain = layer.max_norm is None and not (layer.scale_grad_by_freq or layer.sparse) and layer.padding_idx == PADDING
    there = in_memory(x.tokens) and x.tokens.device == layer.weight.device
    return type(layer) is nn.Embedding and plain and there and not altered(layer)


def _takes(direction: Direction, made: Plan, x: Tensor) -> bool:
    """Whether x, or the table that it is of, and the parameters are what native/scan.cpp takes them for."""
    units, first = direction.units, direction.input
    return (
        only_equations(direction, made, x)
        and is_float(x)
        and all(is_float(p) for p in parameters(direction, made) if p is not None)
        and len(first.weight) == len(direction.cell.inputs) * units
        and all(
            q.map.weight.shape[1:] == (units,)
            and len(q.map.weight) in range(units, (made.blocks - q.block) * units + 1, units)
            for q in made.products
        )
        and all(m.bias is None or m.bias.shape == m.weight.shape[:1] for m in maps(direction, made))
    )


def is_float(tensor: Tensor) -> bool:
    """Whether the compiled code can read a tensor's numbers."""
    return in_memory(tensor) and tensor.dtype == torch.float32 and tensor.device.type == "cpu"


def scan(
    direction: Direction, x: LayerInput, state: State, lengths: Tensor | None = None, truncate: int | None = None
) -> tuple[Tensor, State]:
    """Outputs, (time, batch, units), and final states; arguments as Direction.scan's."""
    made = planned(direction.cell)
    tokens, x = (x.tokens, x.embedding.weight) if isinstance(x, LazyEmbedding) else (None, x)
    if x.shape[-1] != direction.input.weight.shape[1]:  # torch says what is wrong
        vectors = x if tokens is None else nn.functional.embedding(tokens, x)
        return direction.scan(vectors, state, lengths, truncate)  # type: ignore[return-value]
    run = Run(direction, made, lengths, truncate, tokens)
    inputs = [x, *direction.cell.matched(state, x.dtype), *operands(direction, made)]
    if torch.is_grad_enabled() and any(t.requires_grad for t in inputs if t is not None):
        outputs, *final = _Scan.apply(run, *inputs)
    else:
        outputs, *final = run.forward(inputs, None)
    return outputs, tuple(final)


@cache
def _keep_memory() -> None:
    """Keep freed memory for the next training step instead of returning it to the system, page by page, every time.

    glibc maps large blocks afresh, and clearing their pages takes time that a training step should not need.
    """
    if platform.libc_ver()[0] == "glibc":
        trim_threshold, mmap_max = -1, -4  # of malloc.h
        libc = ctypes.CDLL(None)
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, 2**31 - 1)


class Run:
    """One scan of one layer. `inputs` are x, the initial states and the parameters.

    tokens: (time, batch), which rows of x the layer reads, x: (rows, features); None where it reads x itself.
    """

    def __init__(
        self, direction: Direction, made: Plan, lengths: Tensor | None, truncate: int | None,
        tokens: Tensor | None = None,
    ):  # fmt: skip
        self.direction, self.plan, self.truncate = direction, made, truncate
        self.lengths = None if lengths is None else lengths.long().contiguous()
        self.tokens = None if tokens is None else tokens.long().contiguous()
        self.states = len(direction.cell.states)
        self.half = torch.is_autocast_enabled("cpu")
        lib = interface.library()
        assert lib is not None
        self.library = lib

    def tape(self, x: Tensor) -> Tensor:
        """Memory for what the backward pass needs, a row for every step and sequence."""
        _keep_memory()
        floats = self.library.rnnzoo_tape(self.plan.name.encode(), self.plan.phases, self.direction.units)
        steps = x if self.tokens is None else self.tokens
        return x.new_empty(*steps.shape[:2], floats)

    def forward(self, inputs: Sequence[Tensor | None], tape: Tensor | None) -> tuple[Tensor, ...]:
        """Outputs and final states."""
        job, held = self.job(inputs)
        y = held[0].new_empty(job.steps, job.batch, job.units)
        end = tuple(y.new_empty(y.shape[1:]) for _ in range(self.states))
        job.y, job.tape, job.end = address(y), address(tape), pair(end)
        self.library.rnnzoo_forward(ctypes.byref(job))
        return y, *end

    def backward(
        self, inputs: Sequence[Tensor | None], y: Tensor, tape: Tensor, wanted: Sequence[bool],
        given: Sequence[Tensor | None],
    ) -> list[Tensor | None]:  # fmt: skip
        """Gradients of the `wanted` inputs from those given of the outputs and final states."""
        job, held = self.job(inputs)
        first = 1 + self.states
        found: list[Tensor | None] = [None] * len(inputs)
        train = any(wanted[first:])  # the gradients of the weights come all together
        for i, tensor in enumerate(inputs):
            if tensor is not None and (train if i >= first else wanted[i]):
                found[i] = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        if wanted[0] and self.tokens is not None:
            found[0] = y.new_empty(*self.tokens.shape, job.inputs)
        given = [g if g is None else _packed(g) for g in given]
        job.y, job.tape = address(y), address(tape)
        job.y_gradient, job.end_gradient = address(given[0]), pair(given[1:])
        job.x_gradient, job.start_gradient = address(found[0]), pair(found[1:first])
        job.weight_gradient, job.bias_gradient = address(found[first]), address(found[first + 1])
        for i in range(job.products):
            job.product[i].weight_gradient = address(found[first + 2 + 2 * i])
            job.product[i].bias_gradient = address(found[first + 3 + 2 * i])
        self.library.rnnzoo_backward(ctypes.byref(job))
        if found[0] is not None and self.tokens is not None:
            found[0] = torch.ops.aten.embedding_dense_backward(found[0], self.tokens, len(held[0]), PADDING, False)
        return [f if want else None for f, want in zip(found, wanted, strict=True)]

    def job(self, inputs: Sequence[Tensor | None]) -> tuple[interface.Job, list[Tensor]]:
        """A job with everything but its outputs, and the tensors that it points into."""
        x, *rest = inputs
        assert x is not None
        x = x.detach().resolve_neg()
        if x.shape[-1] > 1 and x.stride(-1) != 1:
            x = x.contiguous()
        held = [x, *(t if t is None else _packed(t) for t in rest)]
        steps, batch = x.shape[:2] if self.tokens is None else self.tokens.shape
        start, (weight, bias, *others) = held[1 : 1 + self.states], held[1 + self.states :]
        units = self.direction.units
        products = (interface.Product * len(self.plan.products))()
        for i, product in enumerate(self.plan.products):
            w = others[2 * i]
            assert w is not None
            products[i] = interface.Product(
                address(w), address(others[2 * i + 1]), None, None, product.phase, product.block, w.shape[0] // units
            )
        job = interface.Job(
            cell=self.plan.name.encode(), option=self.plan.option,
            steps=steps, batch=batch, inputs=x.shape[-1], units=units,
            input_blocks=len(self.direction.cell.inputs), blocks=self.plan.blocks, phases=self.plan.phases,
            products=len(products), threads=torch.get_num_threads(), half=self.half,
            x=address(x), x_step=x.stride(0), x_row=x.stride(-2), rows=address(self.tokens), weight=address(weight), bias=address(bias),
            product=products, lengths=address(self.lengths), truncate=self.truncate or 0, start=pair(start),
        )  # fmt: skip
        return job, [t for t in held if t is not None]


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, *inputs: Tensor | None) -> tuple[Tensor, ...]:
        assert inputs[0] is not None
        tape = run.tape(inputs[0])
        outputs = run.forward(inputs, tape)
        ctx.run = run
        # the first two only for torch to notice if somebody writes into them
        ctx.save_for_backward(run.tokens, run.lengths, outputs[0], tape, *inputs)
        ctx.set_materialize_grads(False)
        return outputs

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        _, _, y, tape, *inputs = ctx.saved_tensors
        run, wanted = ctx.run, ctx.needs_input_grad[1:]
        # gradients of gradients, or many at once, are left to torch's operations, in the precision that states have here
        if torch.is_grad_enabled() or not all(g is None or in_memory(g) for g in given):
            with torch.autocast("cpu", enabled=False):
                again = differentiable([run.direction], inputs, wanted, given, run.lengths, run.truncate, run.tokens)
            return None, *again
        return None, *run.backward(inputs, y.contiguous(), _aligned(tape), wanted, given)


def _aligned(tape: Tensor) -> Tensor:
    """A tape where vectors can be read from it: hooks of saved tensors may have brought it elsewhere."""
    fits = tape.is_contiguous() and tape.data_ptr() % 64 == 0
    return tape if fits else tape.clone(memory_format=torch.contiguous_format)


def _packed(tensor: Tensor) -> Tensor:
    """A tensor as it lies in memory: its numbers one after the other, with their signs."""
    return tensor.detach().resolve_neg().contiguous()
