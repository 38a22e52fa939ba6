"""The fused scans on a GPU, for one layer or a stack of them, in Triton: see triton_kernels.py.

A stack is cut into chunks of time, so that layer l can work on chunk c while layer l + 1 works on chunk c - 1: see
graph.py. Where nothing runs side by side, as on a CPU in Triton's interpreter, the same launches follow one another.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from math import isqrt
from typing import Any

import torch
import triton
from torch import Tensor

from ...cells.base import State
from ..layer import Direction, Layer
from . import graph
from .plans import Plan, plan, planned
from .shared import differentiable, in_memory, only_equations, operands
from .triton_cells import CELLS
from .triton_kernels import INTERPRETED
from .triton_layer import MOST, WIDEST, Job, matrices, multiplication, padded

LEAST = 8
"""Steps of a chunk."""


def supports(direction: Direction, x: Tensor) -> bool:
    """Whether `scan` can run this layer on x now: a cell with a plan, dense, its equations and no more, not too large.

    In float32 or bfloat16, on an NVIDIA GPU from Ampere on, or on a CPU in Triton's interpreter.
    """
    made, weight = plan(direction.cell), direction.input.weight
    return (
        made is not None
        and x.device == weight.device
        and (x.device.type == "cpu" if INTERPRETED else _capable(x.device))
        and _precision(x, weight) in (torch.float32, torch.bfloat16)
        and padded(direction.units) <= WIDEST
        and matrices(made, direction.units) <= MOST
        and only_equations(direction, made, x)
    )


def _capable(device: torch.device) -> bool:
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    return (
        version >= (3, 4)  # as in pyproject.toml: older compilers know less of tuples, and torch may bring one
        and device.type == "cuda"
        and torch.version.hip is None
        and torch.cuda.get_device_capability(device) >= (8, 0)
    )


def _precision(x: Tensor, weight: Tensor) -> torch.dtype | None:
    """What to compute in: autocast's choice, or what input and weights share."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype if x.dtype == weight.dtype else None


def supports_stack(layers: Sequence[Layer], x: Tensor) -> bool:
    """Whether `scan_stack` can run these layers on x now: several, of one direction, with nothing in between."""
    return len(layers) > 1 and all(
        len(layer.directions) == 1 and supports(layer.forward_direction, x) for layer in layers
    )


def scan(
    direction: Direction, x: Tensor, state: State, lengths: Tensor | None = None, truncate: int | None = None
) -> tuple[Tensor, State]:
    """Outputs, (time, batch, units), and final states; arguments as Direction.scan's."""
    outputs, (end,) = _scan(Run([direction], x, lengths, truncate, len(x)), None, x, [state])
    return outputs, end


def scan_stack(
    layers: Sequence[Layer], x: Tensor, state: Sequence[State],
    lengths: Tensor | None = None, truncate: int | None = None, chunk: int | None = None,
) -> tuple[Tensor, tuple[State, ...]]:  # fmt: skip
    """The top layer's outputs and all final states, in chunks of so many steps."""
    if chunk is None:  # a wavefront of n chunks takes as long as n + depth - 1 of them, and a launch as long as 5 steps
        chunk = max(LEAST, isqrt(5 * len(x) // (len(layers) - 1)))
    run = Run([layer.forward_direction for layer in layers], x, lengths, truncate, chunk)
    return _scan(run, graph.recordings(layers[0]) if graph.applies(run, x) else None, x, state)


def _scan(
    run: "Run", recordings: graph.Recordings | None, x: Tensor, state: Sequence[State]
) -> tuple[Tensor, tuple[State, ...]]:
    inputs: list[Tensor | None] = [x, *(s for own in state for s in own)]
    inputs += [p for direction, made in run.stack for p in operands(direction, made)]
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs):
        outputs, *final = _Scan.apply(run, recordings, *inputs)
    else:
        (outputs, *final), _, recording = _forward(run, recordings, inputs, [False] * len(inputs))
        if recording is not None:
            recording.busy = False
    ends = iter(final)
    return outputs, tuple(tuple(next(ends) for _ in direction.cell.states) for direction, _ in run.stack)


def _forward(
    run: "Run", recordings: graph.Recordings | None, inputs: Sequence[Tensor | None], wanted: Sequence[bool]
) -> tuple[list[Tensor], list[Tensor], graph.Recording | None]:
    """Outputs and final states, what to keep for the backward pass, and the recording that was played."""
    with run.context():
        recording = None if recordings is None else recordings.take(run, inputs, wanted)
        if recording is not None:
            return recording.forward(inputs, run.lengths), [recording.lease()], recording
        jobs = run.jobs(inputs, train=any(wanted))
        return run.forward(jobs, inputs, graph.Lanes()), [kept for job in jobs for kept in (job.y, job.tape)], None


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, run: "Run", recordings: graph.Recordings | None, *inputs: Tensor | None
    ) -> tuple[Tensor, ...]:
        outputs, kept, ctx.recording = _forward(run, recordings, inputs, ctx.needs_input_grad[2:])
        ctx.run, ctx.kept = run, len(kept)
        ctx.save_for_backward(run.lengths, *kept, *inputs)  # the first for torch to notice if somebody writes into it
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        _, *saved = ctx.saved_tensors  # once: checkpointing gives them out once
        kept, inputs = saved[: ctx.kept], saved[ctx.kept :]
        run, wanted = ctx.run, ctx.needs_input_grad[2:]
        # gradients of gradients, or many at once, are left to torch's operations
        if torch.is_grad_enabled() or not all(g is None or in_memory(g) for g in given):
            with torch.autocast(inputs[0].device.type, run.dtype, run.autocast):
                directions = [direction for direction, _ in run.stack]
                return None, None, *differentiable(directions, inputs, wanted, given, run.lengths, run.truncate)
        with run.context():
            if ctx.recording is not None:
                found = ctx.recording.backward(given)
            else:
                found = run.backward(run.jobs(inputs, kept=kept), given, wanted, graph.Lanes())
            pairs = zip(found, inputs, strict=True)
            return None, None, *(f if f is None else f.to(t.dtype) for f, t in pairs)


class Run:
    """One scan of a stack of layers. `inputs` are x, the initial states, and the parameters, layer after layer."""

    def __init__(
        self, directions: Sequence[Direction], x: Tensor, lengths: Tensor | None, truncate: int | None, chunk: int
    ):
        self.stack: list[tuple[Direction, Plan]] = [(d, planned(d.cell)) for d in directions]
        self.steps, self.chunk, self.device = len(x), chunk, x.device
        self.lengths, self.truncate = None if lengths is None else lengths.long().contiguous(), truncate
        self.autocast = torch.is_autocast_enabled(x.device.type)
        self.dtype = _precision(x, directions[0].input.weight) or x.dtype
        self.states = [len(d.cell.states) for d in directions]
        self.loose = 1 + sum(self.states)
        """How many of the inputs are other tensors at every call."""

    @property
    def key(self) -> tuple[object, ...]:
        """What a recording depends on, apart from its inputs."""
        own = [(made.name, made.option) for _, made in self.stack]
        return self.dtype, multiplication(self.dtype, 16, 1), self.truncate, self.chunk, self.lengths is None, *own

    def memory(self, x: Tensor) -> int:
        """About how many bytes a training step takes."""
        blocks = sum(
            d.units * (3 + m.blocks + CELLS[m.name].tape * (m.phases if CELLS[m.name].tape_per_phase else 1))
            for d, m in self.stack
        )
        return blocks * x.shape[0] * x.shape[1] * (4 if self.dtype == torch.float32 else 2)

    def context(self) -> ExitStack:
        """What launches run in: the inputs' device, no autocast, no autograd."""
        stack = ExitStack()
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast(self.device.type, enabled=False))
        if self.device.type == "cuda":
            stack.enter_context(torch.cuda.device(self.device))
        return stack

    def _chunks(self) -> list[tuple[int, int]]:
        return [(b, min(b + self.chunk, self.steps)) for b in range(0, self.steps, self.chunk)]

    def jobs(
        self, inputs: Sequence[Tensor | None], kept: Sequence[Tensor] | None = None, train: bool = True
    ) -> list[Job]:
        """The layers' jobs, each on the output of the one before; `kept` is what the forward pass has left."""
        x, weights, jobs = inputs[0], iter(inputs[self.loose :]), []
        assert x is not None
        x = x.detach().to(self.dtype).contiguous()
        for i, (direction, made) in enumerate(self.stack):
            own = [next(weights) for _ in range(2 + 2 * len(made.products))]
            left = None if kept is None else kept[2 * i : 2 * i + 2]
            jobs.append(Job(direction, made, x, own, self.lengths, self.truncate, left, train))
            x = jobs[-1].output
        return jobs

    def forward(self, jobs: Sequence[Job], inputs: Sequence[Tensor | None], lanes: graph.Lanes) -> list[Tensor]:
        """Outputs and final states."""
        states = iter(inputs[1 : self.loose])
        lanes.fork()
        for i, job in enumerate(jobs):
            with lanes.on(i):
                job.start([next(states) for _ in range(job.states)])  # type: ignore[misc]
        for begin, end in self._chunks():
            for i, job in enumerate(jobs):
                with lanes.on(i, after=i - 1):
                    job.forward(begin, end)
        lanes.join()
        return [jobs[-1].output, *(s for job in jobs for s in job.carried())]

    def backward(
        self, jobs: Sequence[Job], given: Sequence[Tensor | None], wanted: Sequence[bool], lanes: graph.Lanes
    ) -> list[Tensor | None]:
        """Gradients of the wanted inputs from those given of the outputs and final states."""
        from_above = None if given[0] is None else given[0].to(self.dtype).contiguous()
        of_ends = iter(given[1:])
        lanes.fork()
        for i, job in enumerate(jobs):
            with lanes.on(i):
                job.turn([next(of_ends) for _ in range(job.states)], want_x=i > 0 or wanted[0])
        for begin, end in reversed(self._chunks()):
            above = from_above
            for i, job in reversed(list(enumerate(jobs))):
                with lanes.on(i, after=i + 1):
                    job.backward(above, begin, end)
                above = job.x_gradient
        of_weights: list[Tensor | None] = []
        for i, job in enumerate(jobs):
            with lanes.on(i):
                of_weights += job.weight_gradients() if any(wanted[self.loose :]) else [None] * len(job.weights)
        lanes.join()
        found = [jobs[0].x_gradient, *(s for job in jobs for s in job.carried()), *of_weights]
        return [f if want else None for f, want in zip(found, wanted, strict=True)]
