"""The fused scans on a GPU, for one layer or a stack of them, in Triton.

triton_kernels.py has the kernels, triton_layer.py one layer's buffers and launches, triton_stack.py the order in which the
layers of a stack run, graph.py the CUDA graphs that replay a run. This module decides which layers can run this way, and
connects the scans to autograd.
"""

from collections.abc import Sequence
from math import isqrt
from typing import Any

import torch
import triton
from torch import Tensor

from ...cells.base import State
from ..layer import Direction, Layer
from . import graph
from .lanes import Lanes
from .shared import PlannedLayer, check_formats, differentiable, formats, in_memory, planned
from .triton_kernels import INTERPRETED
from .triton_layer import MAX_MATRICES, MAX_PADDED_UNITS, matrices, padded
from .triton_stack import TritonScan

DTYPES = (torch.float32, torch.bfloat16)
"""The types of numbers that the scans in Triton take."""

MIN_CHUNK = 8
"""Minimum number of steps in a chunk."""


def supports(direction: Direction, x: Tensor) -> PlannedLayer | None:
    """Return the layer with its plan if `scan` can run the layer on x now, else None.

    `scan` can run a layer whose cell has a plan and that is dense and not too large, without zoneout, norms or hooks, in
    float32 or bfloat16, on an NVIDIA GPU from Ampere on, or on a CPU in Triton's interpreter.
    """
    layer, weight = planned(direction), direction.input.weight
    fits = (
        layer is not None
        and x.device == weight.device
        and runs_on(x.device)
        and _precision(x, weight) in DTYPES
        and padded(direction.units) <= MAX_PADDED_UNITS
        and matrices(layer) <= MAX_MATRICES
        and layer.is_dense_equations(x)
    )
    return layer if fits else None


def runs_on(device: torch.device) -> bool:
    """Return whether a kernel can run on a device: an NVIDIA GPU from Ampere on, or a CPU in Triton's interpreter."""
    if INTERPRETED:
        return device.type == "cpu"
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    return (
        version >= (3, 4)  # as in pyproject.toml; torch may bring an older compiler, which knows less of tuples
        and device.type == "cuda"
        and torch.version.hip is None
        and torch.cuda.get_device_capability(device) >= (8, 0)
    )


def _precision(x: Tensor, weight: Tensor) -> torch.dtype | None:
    """Return the dtype to compute in: autocast's, or the dtype of input and weights; None if the two differ."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype if x.dtype == weight.dtype else None


def stack_scan(layers: Sequence[Layer], x: Tensor) -> "StackScan | None":
    """Return a scan that runs `layers` together on inputs like x, or None if they cannot run together now.

    They can if there are at least two layers, all of one direction, and `scan` can run each of them.
    """
    if len(layers) < 2 or any(len(layer.directions) > 1 for layer in layers):
        return None
    planned_layers = [supports(layer.forward_direction, x) for layer in layers]
    stack = [layer for layer in planned_layers if layer is not None]
    return StackScan(stack, layers[0]) if len(stack) == len(layers) else None


def scan(
    layer: PlannedLayer, x: Tensor, state: State, lengths: Tensor | None = None, tbptt_steps: int | None = None
) -> tuple[Tensor, State]:
    """Return the outputs, (time, batch, units), and the final states. Arguments: see Direction.scan."""
    one = TritonScan([layer], x, _run_dtype(layer, x), lengths, tbptt_steps, chunk=len(x))
    outputs, (end,) = _run(one, None, x, [state])
    return outputs, end


class StackScan:
    """A scan of several layers together, cut into chunks of time. Its CUDA graphs are kept while the layer `owner` exists."""

    def __init__(self, stack: Sequence[PlannedLayer], owner: Layer):
        self.stack, self.owner = stack, owner

    def __call__(
        self,
        x: Tensor,  # (time, batch, features)
        state: Sequence[State],
        lengths: Tensor | None = None,  # (batch,)
        tbptt_steps: int | None = None,
        chunk: int | None = None,
    ) -> tuple[Tensor, tuple[State, ...]]:
        """Return the top layer's outputs, (time, batch, units), and all final states.

        tbptt_steps: gradients are cut every this many steps. chunk: the number of steps in a chunk; None to estimate the fastest.
        """
        if chunk is None:  # n chunks take n + depth - 1 of their times, and a launch takes as long as 5 steps
            chunk = max(MIN_CHUNK, isqrt(5 * len(x) // (len(self.stack) - 1)))
        run = TritonScan(self.stack, x, _run_dtype(self.stack[0], x), lengths, tbptt_steps, chunk)
        recordings = graph.recordings(self.owner) if graph.applies(run, x) else None
        return _run(run, recordings, x, state)


def _run_dtype(layer: PlannedLayer, x: Tensor) -> torch.dtype:
    return _precision(x, layer.direction.input.weight) or x.dtype


def _run(
    run: TritonScan, recordings: graph.Recordings | None, x: Tensor, state: Sequence[State]
) -> tuple[Tensor, tuple[State, ...]]:
    """Return the outputs and the final states of all layers, recorded by autograd if a gradient is needed.

    recordings: the CUDA graphs that may be replayed; None to launch the kernels instead.
    """
    inputs: list[Tensor | None] = [x, *(s for layer_state in state for s in layer_state)]
    inputs += [p for layer in run.stack for p in layer.operands]
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs):
        outputs, *final = _ScanFunction.apply(run, recordings, *inputs)
    else:
        (outputs, *final), _, recording = _forward(run, recordings, inputs, [False] * len(inputs))
        if recording is not None:
            recording.busy = False
    ends = iter(final)
    return outputs, tuple(tuple(next(ends) for _ in layer.direction.cell.states) for layer in run.stack)


def _forward(
    run: TritonScan, recordings: graph.Recordings | None, inputs: Sequence[Tensor | None], wanted: Sequence[bool]
) -> tuple[list[Tensor], list[Tensor], graph.Recording | None]:
    """Return outputs and final states, what to save for the backward pass, and the recording that was replayed, if any.

    recordings: as for `_run`. wanted: for each input, whether it gets a gradient.
    """
    with run.context():
        recording = None if recordings is None else recordings.take(run, inputs, wanted)
        if recording is not None:
            try:
                return recording.forward(inputs, run.lengths), [recording.lease()], recording
            except BaseException:
                recording.busy = False
                raise
        layers = run.layers(inputs, train=any(wanted))
        results = run.forward(layers, inputs, Lanes())
        return results, [saved for layer in layers for saved in (layer.y, layer.tape)], None


class _ScanFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, run: TritonScan, recordings: graph.Recordings | None, *inputs: Tensor | None
    ) -> tuple[Tensor, ...]:
        results, saved, ctx.recording = _forward(run, recordings, inputs, ctx.needs_input_grad[2:])
        ctx.run, ctx.saved_count, ctx.formats = run, len(saved), formats(inputs)
        # lengths are saved so that torch notices if somebody writes into them
        ctx.save_for_backward(run.lengths, *saved, *inputs)
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *output_gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        _, *tensors = ctx.saved_tensors  # read once: checkpointing gives them out once
        saved, inputs = tensors[: ctx.saved_count], tensors[ctx.saved_count :]
        check_formats(inputs, ctx.formats)
        run, wanted = ctx.run, ctx.needs_input_grad[2:]
        # torch's operations compute gradients of gradients, and many gradients at once
        if torch.is_grad_enabled() or not all(g is None or in_memory(g) for g in output_gradients):
            with torch.autocast(inputs[0].device.type, run.dtype, run.autocast):
                gradients = differentiable(run.stack, inputs, wanted, output_gradients, run.lengths, run.tbptt_steps)
            return None, None, *gradients
        with run.context():
            if ctx.recording is not None:
                gradients = ctx.recording.backward(output_gradients)
            else:
                gradients = run.backward(run.layers(inputs, saved=saved), output_gradients, wanted, Lanes())
            pairs = zip(gradients, inputs, strict=True)
            return None, None, *(g if g is None else g.to(t.dtype) for g, t in pairs)
