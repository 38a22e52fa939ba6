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
from .shared import PADDING, differentiable, hooked, maps, only_equations, parameters

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

    _fields_ = [("weight", _pointer), ("bias", _pointer), ("outputs", _int), ("logits", _pointer)]


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
    lib.rnnzoo_step.argtypes = [ctypes.POINTER(_Job), _int, _pointer, *[ctypes.c_float] * 2, *[_pointer] * 4]
    lib.rnnzoo_forward.restype = lib.rnnzoo_backward.restype = lib.rnnzoo_step.restype = None
    return lib


def looks_up(x: Rows) -> bool:
    """Whether `scan` can look these vectors up in the table itself: it is an embedding as Network makes it, and no more."""
    layer = x.embedding
    plain = layer.max_norm is None and not (layer.scale_grad_by_freq or layer.sparse) and layer.padding_idx == PADDING
    return type(layer) is nn.Embedding and plain and not hooked(layer) and type(x.tokens) is Tensor


def supports(direction: Direction, x: Steps) -> bool:
    """Whether `scan` can run this layer on x now: a cell with a plan, dense, float32, on a CPU, its equations and no more."""
    made = plan(direction.cell)
    return (
        made is not None
        and library() is not None
        and x.device.type == direction.input.weight.device.type == "cpu"
        and x.dtype == direction.input.weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and only_equations(direction, made, x)
    )


def scan(
    direction: Direction, x: Steps, state: State, lengths: Tensor | None = None, truncate: int | None = None
) -> tuple[Tensor, State]:
    """Outputs, (time, batch, units), and final states; arguments as Direction.scan's."""
    made = plan(direction.cell)
    assert made is not None
    tokens, x = (x.tokens, x.embedding.weight) if isinstance(x, Rows) else (None, x)
    run = _Run(direction, made, lengths, truncate, tokens)
    inputs = [x, *state, *parameters(direction, made)]
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
        given = [g if g is None else g.contiguous() for g in given]
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
        held = [t if t is None else t.detach() for t in inputs]
        x = held[0]
        assert x is not None
        if x.shape[-1] > 1 and x.stride(-1) != 1:
            held[0] = x = x.contiguous()
        steps, batch = x.shape[:2] if self.tokens is None else self.tokens.shape
        held[1:] = [t if t is None else t.contiguous() for t in held[1:]]
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
        ctx.save_for_backward(outputs[0], tape, *inputs)
        ctx.set_materialize_grads(False)
        return outputs

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        y, tape, *inputs = ctx.saved_tensors
        run, wanted = ctx.run, ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():  # gradients of gradients are asked for, which the plain scan's operations have
            return None, *differentiable([run.direction], inputs, wanted, given, run.lengths, run.truncate, run.tokens)
        return None, *run.backward(inputs, y, tape, wanted, given)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _pair(tensors: Sequence[Tensor | None]) -> Any:
    return (_pointer * 2)(*map(_address, tensors))


class Stepper:
    """One time step of a whole stack, for streaming. Its jobs are made once, so that a call costs a few microseconds."""

    def __init__(self, stack: nn.ModuleList, head: nn.Linear | None, x: Tensor):
        """For layers of one direction, the head that reads them, if it is to, and inputs like x, (batch, features)."""
        self.stack, self.head, self.key = stack, head, _key(x)
        directions: list[Direction] = [layer.ahead for layer in stack]  # type: ignore[misc]
        plans = [plan(d.cell) for d in directions]
        used: list[nn.Module] = [m for d, made in zip(directions, plans, strict=True) if made for m in maps(d, made)]
        self.hooks = [hooks for m in used for hooks in (m._forward_pre_hooks, m._forward_hooks)]
        used += [] if head is None else [head]
        places = [(m._modules, name) for m in stack.modules() for name in m._modules]
        self.parts = (*zip(*places, strict=True), [own[name] for own, name in places])
        values = [(m._parameters, name) for m in used for name, p in m._parameters.items() if p is not None]
        self.weights = tuple(zip(*values, strict=True))
        self.addresses = self._addresses()
        self.states = len(directions[0].cell.states)
        self.shape = (self.states * len(directions), x.shape[0], directions[0].units)
        self.jobs, self.held = (_Job * len(directions))(), []
        h = x
        for i, (direction, made) in enumerate(zip(directions, plans, strict=True)):
            assert made is not None
            start = direction.initial_state(h)
            inputs = [h.unsqueeze(0), *start, *parameters(direction, made)]
            self.jobs[i], held = _Run(direction, made, None, None).job(inputs)
            self.jobs[i].threads = 1
            self.held.append(held)
            h = start[0]
        self.reader: _Head | None = None
        if head is not None:
            self.reader = _Head(_address(head.weight), _address(head.bias), head.out_features, None)
        lib = library()
        assert lib is not None
        self.run = lib.rnnzoo_step
        self.depth, self.block = len(directions), x
        self.latest: tuple[State, ...] | None = None  # the states made last, which lie in `block`

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
        return state is self.latest and x.shape == self.key[0] and x.dtype == self.key[1]

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
            logits = x.new_empty(x.shape[0], self.reader.outputs)
            self.reader.logits, reader = logits.data_ptr(), ctypes.byref(self.reader)
        before, old = None, None
        if state is self.latest:
            before = self.block.data_ptr()
        else:
            old = (_pointer * self.shape[0])(*[s.data_ptr() for own in state for s in own])
        self.run(self.jobs, self.depth, x.data_ptr(), mean, std, before, old, new.data_ptr(), reader)
        self.block, self.latest = new, tuple(zip(*[iter(new.unbind(0))] * self.states, strict=True))
        return logits, self.latest


def _key(x: Tensor) -> tuple[object, ...]:
    return x.shape, x.dtype, x.device, torch.is_autocast_enabled("cpu")


def stepper(
    known: Stepper | None, stack: nn.ModuleList, head: nn.Module | None, x: Tensor, state: Sequence[State]
) -> Stepper | None:
    """The stepper of a stack of layers, made anew where the known one does not fit; None where there can be none.

    It computes the head too, where that is a torch.nn.Linear and nothing else.
    """
    if torch.is_grad_enabled() or torch.jit.is_tracing() or not x.is_contiguous():  # type: ignore[attr-defined]
        return None
    ours = known is not None and state is known.latest  # made by the step before, as in any stream
    if not ours and not all(s.is_contiguous() and s.dtype == x.dtype for own in state for s in own):
        return None
    reader = head if type(head) is nn.Linear and head.bias is not None and not hooked(head) else None
    if known is None or not known.fits(stack, reader, x):
        if not all(supports(layer.ahead, x) for layer in stack):  # type: ignore[arg-type]
            return None
        known = Stepper(stack, reader, x)
    return known
