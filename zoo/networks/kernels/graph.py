"""Deep stacks on a GPU: each layer on a stream of its own, all of it recorded once in CUDA graphs and then replayed.

A recording works on memory of its own: what comes in is copied there, what goes out is copied from there. The weights
stay where they are, so that an optimiser's changes are seen; where they move, another recording is made.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from .shared import maps

if TYPE_CHECKING:
    from .triton_scan import Run

Result = TypeVar("Result")

MOST = 4
"""Recordings kept for one stack: shapes, training or not, and forward passes that wait for their backward pass."""

SHARE = 0.5
"""Of a GPU's memory, the most that one recording may take."""


class Lanes:
    """Where the launches of each layer go: to streams of their own or, by default, all to the current one."""

    def __init__(self, streams: Sequence[torch.cuda.Stream] = ()):
        self.streams = streams

    @contextmanager
    def on(self, layer: int, after: int | None = None) -> Iterator[None]:
        """Launches of `layer`, which wait for what was launched before for the layer `after`."""
        if not self.streams:
            yield
            return
        if after is not None and 0 <= after < len(self.streams):
            self.streams[layer].wait_stream(self.streams[after])
        with torch.cuda.stream(self.streams[layer]):
            yield

    def fork(self) -> None:
        """Let every lane wait for the current stream."""
        for stream in self.streams:
            stream.wait_stream(torch.cuda.current_stream())

    def join(self) -> None:
        """Let the current stream wait for every lane."""
        for stream in self.streams:
            torch.cuda.current_stream().wait_stream(stream)


class Recording:
    """One run of a stack, recorded. It is `busy` from a forward pass until nothing can ask for its backward pass."""

    def __init__(self, run: "Run", key: object, inputs: Sequence[Tensor | None], wanted: Sequence[bool]):
        self.run, self.key, self.busy, self.wanted = run, key, False, wanted
        self.done: torch.cuda.Event | None = None
        held = [t if t is None else t.detach() for t in inputs]
        self.own = [t.clone(memory_format=torch.contiguous_format) for t in held[: run.loose] if t is not None]
        self.inputs = [*self.own, *held[run.loose :]]
        run.lengths = None if run.lengths is None else run.lengths.clone()
        cuda = self.own[0].is_cuda
        lanes = Lanes([torch.cuda.Stream() for _ in run.stack] if cuda else ())

        def forward() -> list[Tensor]:
            self.jobs = run.jobs(self.inputs, train=any(wanted))
            return run.forward(self.jobs, self.inputs, lanes)

        def backward() -> list[Tensor | None]:
            return run.backward(self.jobs, self.given, wanted, lanes)

        if cuda:  # compile, and let the libraries take their memory, before anything is recorded
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                self.given = [torch.zeros_like(t) for t in forward()]
                if any(wanted):
                    backward()
            torch.cuda.current_stream().wait_stream(aside)
            self.jobs = []  # their memory is needed again
        else:
            self.given = [torch.zeros_like(t) for t in forward()]
        self.play_forward = _recorded(forward, cuda)
        self.play_backward = _recorded(backward, cuda) if any(wanted) else None

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """What uses the same memory comes one after the other, on whatever streams."""
        if self.done is not None:
            torch.cuda.current_stream().wait_event(self.done)
        try:
            yield
        finally:
            if self.own[0].is_cuda:
                self.done = torch.cuda.current_stream().record_event()

    def forward(self, inputs: Sequence[Tensor | None], lengths: Tensor | None) -> list[Tensor]:
        """Outputs and final states for such inputs as it was made for."""
        with self._in_turn():
            for own, new in zip(self.own, inputs, strict=False):
                own.copy_(new)  # type: ignore[arg-type]
            if self.run.lengths is not None and lengths is not None:
                self.run.lengths.copy_(lengths)
            return [t.clone() for t in self.play_forward()]

    def backward(self, given: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Gradients of the wanted inputs, of the last forward pass."""
        assert self.play_backward is not None
        with self._in_turn():
            for own, g in zip(self.given, given, strict=True):
                if g is None:
                    own.zero_()
                else:
                    own.copy_(g)
            return [t if t is None else t.clone() for t in self.play_backward()]

    def lease(self) -> Tensor:
        """A tensor with whose end the recording is free: autograd drops it with the other tensors it has saved."""
        token = self.own[0].new_empty(0)
        weakref.finalize(token, setattr, self, "busy", False).atexit = False
        return token


def _recorded(work: Callable[[], Result], cuda: bool) -> Callable[[], Result]:
    """Something that does the work again, on the same memory."""
    if not cuda:
        return work
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded, capture_error_mode="thread_local"):  # others may go on, as one that pins memory
        result = work()

    def play() -> Result:
        recorded.replay()
        return result

    return play


class Recordings:
    """Those of one stack, the last used first."""

    def __init__(self) -> None:
        self.all: list[Recording] = []

    def take(self, run: "Run", inputs: Sequence[Tensor | None], wanted: Sequence[bool]) -> Recording | None:
        """A recording for such inputs that is not busy; None where it would be one too many."""
        key = (*run.key, *wanted, *(None if t is None else (t.shape, t.dtype) for t in inputs[: run.loose]))
        key += tuple(None if t is None else t.data_ptr() for t in inputs[run.loose :])
        idle = [r for r in self.all if not r.busy]
        found = next((r for r in idle if r.key == key), None)
        if found is None:
            if len(self.all) >= MOST and not idle:
                return None
            if len(self.all) >= MOST:
                if idle[-1].done is not None:  # its memory may be in use on another stream
                    idle[-1].done.synchronize()
                self.all.remove(idle[-1])
            del idle
            found = Recording(run, key, inputs, wanted)
        else:
            self.all.remove(found)
        self.all.insert(0, found)
        found.busy = True
        return found


_known: weakref.WeakKeyDictionary[nn.Module, Recordings] = weakref.WeakKeyDictionary()


def recordings(stack: nn.Module) -> Recordings:
    """The recordings of a stack, known by its first layer, with which they end."""
    return _known.setdefault(stack, Recordings())


def applies(run: "Run", x: Tensor) -> bool:
    """Whether to record: a stack on a GPU that is not being recorded already, whose memory suffices.

    What is saved for the backward pass must be autograd's to keep where hooks want it (checkpointing, offloading). A
    matrix that a form makes lies elsewhere every time.
    """
    return (
        x.is_cuda
        and len(run.stack) > 1
        and not any(m.parametrization for direction, made in run.stack for m in maps(direction, made))
        and not torch.cuda.is_current_stream_capturing()
        and torch._C._autograd._top_saved_tensors_default_hooks(True) is None
        and run.memory(x) < SHARE * torch.cuda.get_device_properties(x.device).total_memory
    )
