"""Deep stacks on a GPU: each layer runs on its own stream, recorded once in CUDA graphs and then replayed.

A recording is the CUDA graphs of a forward and a backward pass, with memory of their own: inputs are copied into it, and
results are copied out of it. Weights are read in place, so that changes by an optimizer take effect; if a weight moves to
other memory, another recording is made.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

from ...utils import torch_internals
from .lanes import Lanes
from .triton_stack import TritonScan

Result = TypeVar("Result")

MAX_RECORDINGS = 4
"""Maximum number of recordings of one stack. Each input shape, training and inference, and each forward pass whose
backward pass is still to come needs another recording."""

MAX_MEMORY = 0.5
"""The largest share of a GPU's memory that one recording may take."""


class Recording:
    """A recorded scan of a stack. `busy` is True from a forward pass until autograd frees the tensors that it saved.

    key: what must be equal for a replay, see Recordings.take. wanted: for each input, whether it gets a gradient.
    """

    def __init__(self, run: TritonScan, key: object, inputs: Sequence[Tensor | None], wanted: Sequence[bool]):
        self.run, self.key, self.busy, self.wanted = run, key, False, wanted
        self.done: torch.cuda.Event | None = None
        detached = [t if t is None else t.detach() for t in inputs]
        changing, operands = detached[: run.weights_begin], detached[run.weights_begin :]
        self.own_inputs = [t.clone(memory_format=torch.contiguous_format) for t in changing if t is not None]
        self.inputs = [*self.own_inputs, *operands]
        run.lengths = None if run.lengths is None else run.lengths.clone()
        cuda = self.own_inputs[0].is_cuda
        lanes = Lanes([torch.cuda.Stream() for _ in run.stack] if cuda else ())

        def forward() -> list[Tensor]:
            self.layers = run.layers(self.inputs, train=any(wanted))
            return run.forward(self.layers, self.inputs, lanes)

        def backward() -> list[Tensor | None]:
            return run.backward(self.layers, self.own_gradients, wanted, lanes)

        if cuda:  # compile, and let the libraries take their memory, before anything is recorded
            warm_up = torch.cuda.Stream()
            warm_up.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(warm_up):
                self.own_gradients = [torch.zeros_like(t) for t in forward()]
                if any(wanted):
                    backward()
            torch.cuda.current_stream().wait_stream(warm_up)
            self.layers = []  # free their memory for the recording
        else:
            self.own_gradients = [torch.zeros_like(t) for t in forward()]
        self.play_forward = _recorded(forward, cuda)
        self.play_backward = _recorded(backward, cuda) if any(wanted) else None

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Within the block, queue work on the current stream after all earlier work that uses the recording's memory."""
        if self.done is not None:
            torch.cuda.current_stream().wait_event(self.done)
        try:
            yield
        finally:
            if self.own_inputs[0].is_cuda:
                self.done = torch.cuda.current_stream().record_event()

    def forward(self, inputs: Sequence[Tensor | None], lengths: Tensor | None) -> list[Tensor]:
        """Replay the forward pass, and return the outputs and the final states.

        inputs: tensors of the recorded shapes and types.
        """
        with self._in_turn():
            for own, new in zip(self.own_inputs, inputs, strict=False):
                own.copy_(new)  # type: ignore[arg-type]
            if self.run.lengths is not None and lengths is not None:
                self.run.lengths.copy_(lengths)
            return [t.clone() for t in self.play_forward()]

    def backward(self, output_gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Replay the backward pass, and return the gradients with respect to the wanted inputs of the last forward pass."""
        assert self.play_backward is not None
        with self._in_turn():
            for own, g in zip(self.own_gradients, output_gradients, strict=True):
                if g is None:
                    own.zero_()
                else:
                    own.copy_(g)
            return [t if t is None else t.clone() for t in self.play_backward()]

    def lease(self) -> Tensor:
        """Return a tensor that keeps the recording busy while it exists. Autograd frees it with its other saved tensors."""
        token = self.own_inputs[0].new_empty(0)
        weakref.finalize(token, setattr, self, "busy", False).atexit = False
        return token


def _recorded(work: Callable[[], Result], cuda: bool) -> Callable[[], Result]:
    """Return a function that repeats `work` on the same memory: the replay of a CUDA graph if `cuda`, else `work` itself."""
    if not cuda:
        return work
    recorded = torch.cuda.CUDAGraph()
    # other threads go on meanwhile, such as one that pins memory
    with torch.cuda.graph(recorded, capture_error_mode="thread_local"):
        result = work()

    def play() -> Result:
        recorded.replay()
        return result

    return play


class Recordings:
    """The recordings of one stack; the most recently used comes first."""

    def __init__(self) -> None:
        self.all: list[Recording] = []
        self._lock = threading.Lock()

    def take(self, run: TritonScan, inputs: Sequence[Tensor | None], wanted: Sequence[bool]) -> Recording | None:
        """Return an idle or a new recording for inputs like these, and mark it busy; None if MAX_RECORDINGS are busy.

        wanted: for each input, whether it gets a gradient.
        """
        changing, operands = inputs[: run.weights_begin], inputs[run.weights_begin :]
        key = (
            *run.key,
            *wanted,
            *(None if t is None else (t.shape, t.dtype) for t in changing),
            *(None if t is None else t.data_ptr() for t in operands),
        )
        with self._lock:  # two threads may run one network
            idle = [r for r in self.all if not r.busy]
            recording = next((r for r in idle if r.key == key), None)
            if recording is not None:
                self.all.remove(recording)
            else:
                if len(self.all) >= MAX_RECORDINGS:
                    if not idle:
                        return None
                    if idle[-1].done is not None:  # its memory may be in use on another stream
                        idle[-1].done.synchronize()
                    self.all.remove(idle[-1])
                del idle  # free the memory of the one removed
                recording = Recording(run, key, inputs, wanted)
            self.all.insert(0, recording)
            recording.busy = True
            return recording


_known: weakref.WeakKeyDictionary[nn.Module, Recordings] = weakref.WeakKeyDictionary()


def recordings(first_layer: nn.Module) -> Recordings:
    """Return the recordings of the stack that begins with this layer, at first none. They are freed with the layer."""
    return _known.setdefault(first_layer, Recordings())


def applies(run: TritonScan, x: Tensor) -> bool:
    """Return whether to record a scan: it runs a stack on a GPU, is not being recorded already, and fits the memory.

    Nothing is recorded while hooks of saved tensors are active (checkpointing, offloading), because they need autograd to
    save every tensor itself, nor for a layer with a parametrization, whose matrix has another address every time.
    """
    return (
        x.is_cuda
        and len(run.stack) > 1
        and not any(m.parametrization for layer in run.stack for m in layer.projections)
        and not torch.cuda.is_current_stream_capturing()
        and not torch_internals.saved_tensor_hooks_active()
        and run.memory(x) < MAX_MEMORY * torch.cuda.get_device_properties(x.device).total_memory
    )
