"""Run exported headers and WebAssembly modules from Python: compiled by `cc` through ctypes, and by node."""

import ctypes
import struct
import subprocess
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from ...errors import ExportError
from ...networks.network import Network, mask
from ...networks.recurrent import RecurrentNetwork
from ..base import check_takes_gaps
from ..graphs import takes_gaps
from .building import compile_library


class StepRuntime(ABC):
    """Runs the step function of an exported C file, one time step at a time.

    The state is one tensor, (batch, n), with the n numbers of all states of a sequence.
    """

    def __init__(self, network: RecurrentNetwork):
        self.interface, self.outputs, self.takes_gaps = network.interface, network.output_size, takes_gaps(network)
        self.states = sum(state.numel() for states in network.initial_state(1) for state in states)
        self.dtype = torch.float32 if network.embedding is None else torch.int32

    @abstractmethod
    def run(
        self,
        x: Tensor,  # (time, ...), one sequence
        state: Tensor,  # (numbers,), changed in place
        every: bool,
        dt: Tensor | None = None,  # (time,), float32
    ) -> Tensor:
        """Take steps: return the logits after each, (time, outputs), or with every=False after the last, (1, outputs)."""

    def sequence(
        self, x: Tensor, lengths: Tensor | None = None, state: Sequence[Tensor] | None = None, dt: Tensor | None = None
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the logits of `Network.forward` and the state at each sequence's end."""
        check_takes_gaps(self.takes_gaps, dt)
        batch, steps = x.shape[:2]
        new_state = torch.zeros(batch, self.states) if state is None else state[0].clone()
        every = self.interface.readout == "every"
        logits = torch.zeros(batch, steps if every else 1, self.outputs)
        ends = [steps] * batch if lengths is None else lengths.tolist()
        for row, (sequence, end) in enumerate(zip(x.to(self.dtype), ends, strict=True)):
            gaps = None if dt is None else dt[row, :end].float().contiguous()
            logits[row, : end if every else 1] = self.run(sequence[:end].contiguous(), new_state[row], every, gaps)
        return (mask(logits, lengths) if every else logits[:, 0]), (new_state,)

    def step(
        self, x: Tensor, state: Sequence[Tensor] | None = None, dt: Tensor | None = None
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the logits after one step, and the new state."""
        logits, new_state = self.sequence(x[:, None], None, state, None if dt is None else dt[:, None])
        return logits.reshape(len(x), -1), new_state


class CRuntime(StepRuntime):
    """Runs a header, compiled by `cc` for this machine. Raises ExportError if cc fails."""

    def __init__(self, path: Path, network: Network, kind: str = "step"):
        recurrent = cast(RecurrentNetwork, network)
        super().__init__(recurrent)
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "model.so"
            compile_library(path, library, recurrent)
            self.library = ctypes.CDLL(str(library))

    def run(self, x: Tensor, state: Tensor, every: bool, dt: Tensor | None = None) -> Tensor:
        logits = torch.empty(len(x) if every else 1, self.outputs)
        addresses = (None if tensor is None else tensor.data_ptr() for tensor in (state, dt, x, logits))
        self.library.run(*map(ctypes.c_void_p, addresses), len(x), int(every))
        return logits


class Node:
    """A process of node that runs WebAssembly modules, one at a time."""

    def __init__(self) -> None:
        with as_file(files(__package__) / "native" / "run.mjs") as script:
            self.process = subprocess.Popen(["node", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            weakref.finalize(self, _end, self.process)
            self.loaded = b""

    def ask(self, module: bytes, request: bytes, size: int) -> bytes:
        """Return the answer, `size` bytes, to a request, which native/run.mjs describes, about a module."""
        if module is not self.loaded:
            self._exchange(struct.pack("<5i", -len(module), 0, 0, 0, 0) + module, 4)
            self.loaded = module
        return self._exchange(request, size)

    def _exchange(self, request: bytes, size: int) -> bytes:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(request)
            self.process.stdin.flush()
            answer = self.process.stdout.read(size)
        except BrokenPipeError:
            answer = b""
        if len(answer) < size:
            raise ExportError(f"node ended with exit code {self.process.wait()}")
        return answer


class WasmRuntime(StepRuntime):
    """Runs a WebAssembly module by `node`: in a process of its own, or in one that several runtimes share."""

    def __init__(self, path: Path, network: Network, kind: str = "step", node: Node | None = None):
        super().__init__(cast(RecurrentNetwork, network))
        self.module, self.node = path.read_bytes(), node or Node()

    def run(self, x: Tensor, state: Tensor, every: bool, dt: Tensor | None = None) -> Tensor:
        outputs = (len(x) if every else 1) * self.outputs
        gaps = torch.zeros(0) if dt is None else dt
        header = struct.pack("<5i", len(x), every, state.numel(), x.numel(), gaps.numel())
        request = header + b"".join(part.numpy().tobytes() for part in (state, x, gaps))
        answer = self.node.ask(self.module, request, 4 * (state.numel() + outputs))
        numbers = torch.frombuffer(bytearray(answer), dtype=torch.float32)
        state.copy_(numbers[: state.numel()])
        return numbers[state.numel() :].reshape(-1, self.outputs)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the standard input of a process, which ends it, and wait for its end."""
    process.communicate()
