"""The fused scan of one layer on a CPU, float32: native/scan.cpp, compiled when the package is installed.

Three libraries are built from it, for three widths of vectors, and the widest that this processor runs is loaded. Where
none was built (no compiler) everything works without, slower; `rnnzoo doctor` says so.
"""

import ctypes
import platform
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..cells.base import State
from ..recurrence import Direction, Rows, Steps
from .plans import Plan, plan
from .shared import PADDING, altered, differentiable, in_memory, maps, only_equations, parameters, watched

LIBRARIES = {"AVX512": ("avx512", "avx2", "generic"), "AVX2": ("avx2", "generic")}
"""What a processor runs, by torch's name for it, fastest first; "generic" runs everywhere."""

_int, _pointer = ctypes.c_int64, ctypes.c_void_p


class _Product(ctypes.Structure):
    _fields_ = [(n, _pointer) for n in ("weight", "bias", "weight_gradient", "bias_gradient")] + [
        (n, _int) for n in ("phase", "block", "blocks")
    ]


class _Job(ctypes.Structure):
    """Job of native/scan.cpp, field by field."""

    _fields_ = [
        ("cell", ctypes.c_char_p),
        ("option", ctypes.c_double),
        *((n, _int) for n in ("steps", "batch", "inputs", "units", "input_blocks", "blocks", "phases", "products")),
        ("threads", _int),
        ("x", _pointer),
        ("x_step", _int),
        ("x_row", _int),
        ("rows", _pointer),
        ("weight", _pointer),
        ("bias", _pointer),
        ("product", ctypes.POINTER(_Product)),
        ("lengths", _pointer),
        ("truncate", _int),
        ("start", _pointer * 2),
        ("y", _pointer),
        ("end", _pointer * 2),
        ("tape", _pointer),
        ("y_gradient", _pointer),
        ("end_gradient", _pointer * 2),
        *((n, _pointer) for n in ("x_gradient", "weight_gradient", "bias_gradient")),
        ("start_gradient", _pointer * 2),
    ]


class _Head(ctypes.Structure):
    """Head of native/scan.cpp, field by field."""

    _fields_ = [("weight", _pointer), ("bias", _pointer), ("outputs", _int)]


def libraries() -> dict[str, Path]:
    """The libraries that were built, by instruction set."""
    folder = Path(__file__).parent
    found = ((kind, folder / f"scan_{kind}{end}") for kind in LIBRARIES["AVX512"] for end in EXTENSION_SUFFIXES)
    return {kind: path for kind, path in found if path.exists()}


@cache
def library() -> ctypes.CDLL | None:
    """The fastest library that is there and that this processor runs."""
    built = libraries()
    for kind in LIBRARIES.get(torch.backends.cpu.get_cpu_capability(), ("generic",)):
        if kind in built:
            return open_library(built[kind])
    return None


def open_library(path: Path) -> ctypes.CDLL:
    """Load a library; raises OSError if that cannot be done."""
    lib = ctypes.CDLL(str(path))
    lib.rnnzoo_tape.restype = ctypes.c_int64
    lib.rnnzoo_tape.argtypes = [ctypes.c_char_p, _int, _int]
    lib.rnnzoo_forward.argtypes = lib.rnnzoo_backward.argtypes = [ctypes.POINTER(_Job)]
    lib.rnnzoo_step.argtypes = [ctypes.POINTER(_Job), _int, _pointer, *[ctypes.c_float] * 2, *[_pointer] * 5]
    lib.rnnzoo_forward.restype = lib.rnnzoo_backward.restype = lib.rnnzoo_step.restype = None
    return lib


def _plan(direction: Direction) -> Plan:
    """The plan of a layer that is known to have one."""
    made = plan(direction.cell)
    assert made is not None
    return made


def supports(direction: Direction, x: Steps) -> bool:
    """Whether `scan` can run this layer on x now: a cell with a plan, dense, float32, on a CPU, its equations and no more."""
    made = plan(direction.cell)
    if made is None or library() is None or torch.is_autocast_enabled("cpu"):
        return False
    if isinstance(x, Rows):
        return _looks_up(x) and _takes(direction, made, x.embedding.weight)
    return _takes(direction, made, x)


def _looks_up(x: Rows) -> bool:
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
        and _is_float(x)
        and all(_is_float(p) for p in parameters(direction, made) if p is not None)
        and len(first.weight) == len(direction.cell.inputs) * units
        and all(
            q.map.weight.shape[1:] == (units,)
            and len(q.map.weight) in range(units, (made.blocks - q.block) * units + 1, units)
            for q in made.products
        )
        and all(m.bias is None or m.bias.shape == m.weight.shape[:1] for m in maps(direction, made))
    )


def _is_float(tensor: Tensor) -> bool:
    return in_memory(tensor) and tensor.dtype == torch.float32 and tensor.device.type == "cpu"


def scan(
    direction: Direction, x: Steps, state: State, lengths: Tensor | None = None, truncate: int | None = None
) -> tuple[Tensor, State]:
    """Outputs, (time, batch, units), and final states; arguments as Direction.scan's."""
    made = _plan(direction)
    tokens, x = (x.tokens, x.embedding.weight) if isinstance(x, Rows) else (None, x)
    run = _Run(direction, made, lengths, truncate, tokens)
    if x.shape[-1] != direction.input.weight.shape[1]:  # torch says what is wrong
        vectors = x if tokens is None else nn.functional.embedding(tokens, x)
        return direction.scan(vectors, state, lengths, truncate)  # type: ignore[return-value]
    inputs = [x, *direction.cell.matched(state, x.dtype), *parameters(direction, made)]
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


class _Run:
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
        lib = library()
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
        job.y, job.tape, job.end = _address(y), _address(tape), _pair(end)
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
                found[i] = torch.empty(tensor.shape, dtype=tensor.dtype)
        if wanted[0] and self.tokens is not None:
            found[0] = y.new_empty(*self.tokens.shape, job.inputs)
        given = [g if g is None else _packed(g) for g in given]
        job.y, job.tape = _address(y), _address(tape)
        job.y_gradient, job.end_gradient = _address(given[0]), _pair(given[1:])
        job.x_gradient, job.start_gradient = _address(found[0]), _pair(found[1:first])
        job.weight_gradient, job.bias_gradient = _address(found[first]), _address(found[first + 1])
        for i in range(job.products):
            job.product[i].weight_gradient = _address(found[first + 2 + 2 * i])
            job.product[i].bias_gradient = _address(found[first + 3 + 2 * i])
        self.library.rnnzoo_backward(ctypes.byref(job))
        if found[0] is not None and self.tokens is not None:
            found[0] = torch.ops.aten.embedding_dense_backward(found[0], self.tokens, len(held[0]), PADDING, False)
        return [f if want else None for f, want in zip(found, wanted, strict=True)]

    def job(self, inputs: Sequence[Tensor | None]) -> tuple[_Job, list[Tensor]]:
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
        products = (_Product * len(self.plan.products))()
        for i, product in enumerate(self.plan.products):
            w = others[2 * i]
            assert w is not None
            products[i] = _Product(
                _address(w), _address(others[2 * i + 1]), None, None, product.phase, product.block, w.shape[0] // units
            )
        job = _Job(
            cell=self.plan.name.encode(), option=self.plan.option,
            steps=steps, batch=batch, inputs=x.shape[-1], units=units,
            input_blocks=len(self.direction.cell.inputs), blocks=self.plan.blocks, phases=self.plan.phases,
            products=len(products), threads=torch.get_num_threads(),
            x=_address(x), x_step=x.stride(0), x_row=x.stride(-2), rows=_address(self.tokens), weight=_address(weight), bias=_address(bias),
            product=products, lengths=_address(self.lengths), truncate=self.truncate or 0, start=_pair(start),
        )  # fmt: skip
        return job, [t for t in held if t is not None]


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: _Run, *inputs: Tensor | None) -> tuple[Tensor, ...]:
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
        # gradients of gradients, or many at once, are left to torch's operations
        if torch.is_grad_enabled() or not all(g is None or in_memory(g) for g in given):
            return None, *differentiable([run.direction], inputs, wanted, given, run.lengths, run.truncate, run.tokens)
        return None, *run.backward(inputs, y, tape, wanted, given)


def _packed(tensor: Tensor) -> Tensor:
    """A tensor as it lies in memory: its numbers one after the other, with their signs."""
    return tensor.detach().resolve_neg().contiguous()


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _pair(tensors: Sequence[Tensor | None]) -> Any:
    return (_pointer * 2)(*map(_address, tensors))


class Stepper:
    """One time step of a whole stack, for streaming. Its jobs are made once, so that a call costs a few microseconds.

    Threads may share it: nothing that a step depends on changes from step to step, but which states were made last.
    """

    def __init__(self, stack: nn.ModuleList, head: nn.Linear | None, x: Tensor):
        """For layers of one direction, the head that reads them, if it is to, and inputs like x, (batch, features)."""
        self.stack, self.head, self.key = stack, head, _key(x)
        directions: list[Direction] = [layer.ahead for layer in stack]  # type: ignore[misc]
        plans = [_plan(d) for d in directions]
        used: list[nn.Module] = [m for d, made in zip(directions, plans, strict=True) for m in maps(d, made)]
        self.hooks = [hooks for m in used for hooks in (m._forward_pre_hooks, m._forward_hooks)]
        used += [] if head is None else [head]
        places: list[tuple[dict[str, Any], str]] = [(m._modules, name) for m in stack.modules() for name in m._modules]
        places += [(d.__dict__, "zoneout") for d in directions]
        places += [(vars(d.cell), n) for d in directions for n, v in vars(d.cell).items() if _is_option(v)]
        self.parts = (*zip(*places, strict=True), [own[name] for own, name in places])
        values = [(m._parameters, name) for m in used for name, p in m._parameters.items() if p is not None]
        self.weights = tuple(zip(*values, strict=True))
        self.addresses = self._addresses()
        self.states = len(directions[0].cell.states)
        self.shape = (self.states * len(directions), x.shape[0], directions[0].units)
        self.jobs, self.held = (_Job * len(directions))(), []
        h = x
        for i, (direction, made) in enumerate(zip(directions, plans, strict=True)):
            start = direction.initial_state(h)
            inputs = [h.unsqueeze(0), *start, *parameters(direction, made)]
            self.jobs[i], held = _Run(direction, made, None, None).job(inputs)
            self.jobs[i].threads = 1
            self.held.append(held)
            h = start[0]
        self.reader = None if head is None else _Head(_address(head.weight), _address(head.bias), len(head.weight))
        lib = library()
        assert lib is not None
        self.run = lib.rnnzoo_step
        self.depth = len(directions)
        self.latest: tuple[tuple[State, ...] | None, Tensor] = (None, x)
        """The states made last, and the memory that they lie in."""

    def _addresses(self) -> list[int]:
        return list(map(Tensor.data_ptr, map(dict.__getitem__, *self.weights)))

    def fits(self, stack: nn.ModuleList, head: nn.Linear | None, x: Tensor) -> bool:
        """Whether the jobs are still those of such an input, of these modules and of their parameters."""
        try:
            addresses = self._addresses()
        except (KeyError, TypeError):  # a parameter that is none any more
            return False
        return (
            stack is self.stack
            and head is self.head
            and self.key == _key(x)
            and list(map(dict.get, *self.parts[:2])) == self.parts[2]
            and not any(self.hooks)
            and self.addresses == addresses
        )

    def continues(self, x: Tensor, state: object) -> bool:
        """Whether the state is the very one made last, and x a next input to it, by its shape and type."""
        return state is self.latest[0] and x.shape == self.key[0] and x.dtype == self.key[1]

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and pickled as None: it knows addresses in this process, of one network."""
        return type(None), ()

    def step(
        self, x: Tensor, mean: float, std: float, state: Sequence[State]
    ) -> tuple[Tensor | None, tuple[State, ...]]:
        """The head's outputs and the new states of all layers after (x - mean) / std; x: (batch, features), contiguous
        as are the states."""
        new, logits, reader = x.new_empty(self.shape), None, None
        if self.reader is not None:
            logits, reader = x.new_empty(x.shape[0], self.reader.outputs), ctypes.byref(self.reader)
        latest, block = self.latest
        before, old = None, None
        if state is latest:
            before = block.data_ptr()
        else:
            old = (_pointer * self.shape[0])(*[s.data_ptr() for own in state for s in own])
        out = _address(logits)
        self.run(self.jobs, self.depth, x.data_ptr(), mean, std, before, old, new.data_ptr(), reader, out)
        states = tuple(zip(*[iter(new.unbind(0))] * self.states, strict=True))
        self.latest = states, new
        return logits, states


def _key(x: Tensor) -> tuple[object, ...]:
    return x.shape, x.dtype, x.device, torch.is_autocast_enabled("cpu")


def _is_option(value: object) -> bool:
    """Whether an attribute of a cell decides what it computes."""
    return isinstance(value, float) or callable(value)


def _streams(stack: nn.ModuleList, head: nn.Linear | None, x: Tensor) -> bool:
    """Whether a Stepper can run these layers and their head on x."""
    ways: list[Direction] = [layer.ahead for layer in stack]  # type: ignore[misc]
    if not all(supports(way, x) for way in ways):
        return False
    widths = [x.shape[1], *(way.units for way in ways)]
    reads = [way.input.weight for way in ways] + ([] if head is None else [head.weight])
    used = [p for way in ways for p in parameters(way, _plan(way))] + ([] if head is None else [head.weight, head.bias])
    return (
        all(p is None or _lies_flat(p) for p in used)
        and all(weight.shape[1] == width for weight, width in zip(reads, widths, strict=False))
        and (head is None or head.bias.shape == head.weight.shape[:1])
    )


def _lies_flat(tensor: Tensor) -> bool:
    return _is_float(tensor) and tensor.is_contiguous() and not tensor.is_neg()


def stepper(
    known: Stepper | None, stack: nn.ModuleList, head: nn.Module | None, x: Tensor, state: Sequence[State]
) -> Stepper | None:
    """The stepper of a stack of layers, made anew where the known one does not fit; None where there can be none.

    It computes the head too, where that is a torch.nn.Linear and nothing else.
    """
    if torch.is_grad_enabled() or not in_memory(x) or watched():
        return None
    ours = known is not None and state is known.latest[0]  # made by the step before, as in any stream
    if not ours and not all(_lies_flat(s) for own in state for s in own):
        return None
    reader = head if type(head) is nn.Linear and head.bias is not None and not altered(head) else None
    if known is None or not known.fits(stack, reader, x):
        if not _streams(stack, reader, x):
            return None
        known = Stepper(stack, reader, x)
    return known
