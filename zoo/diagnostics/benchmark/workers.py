"""One process for each contender, which runs a pass when asked and answers with its seconds and peak memory."""

import multiprocessing
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from ...errors import BenchmarkError, first_line
from ...utils.files import handled
from .contenders import Contender, Workload
from .passes import passes

Answer = tuple[float | None, int | None]
"""Seconds of a pass, None for one that the contender does not have; peak memory in bytes, None if it is not known."""


class Worker:
    """The process of one contender."""

    def __init__(self, contender: Contender, work: Workload):
        self.name = contender.name
        context = multiprocessing.get_context("spawn")
        self.pipe, child_pipe = context.Pipe()
        self.process = context.Process(target=serve, args=(contender, work, child_pipe), daemon=True)
        with handled(signal.SIG_IGN, signal.SIGINT):  # inherited: the parent handles an interruption
            self.process.start()
        child_pipe.close()  # only the child has it open now, so its death ends the pipe

    def ask(self, name: str) -> Answer:
        """Run the pass `name`. Raise BenchmarkError if the contender fails or its process dies."""
        try:
            with suppress(OSError):  # a dead process may have left its last answer in the pipe
                self.pipe.send(name)
            answer = self.pipe.recv()
        except (EOFError, OSError) as error:
            self.process.join()
            code = self.process.exitcode
            raise BenchmarkError(f"{self.name} died with exit code {code}; was there enough memory?") from error
        if isinstance(answer, str):
            raise BenchmarkError(f"{self.name} failed: {answer}")
        return answer

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def serve(contender: Contender, work: Workload, pipe: Connection) -> None:
    """Build a contender, then answer every request for a pass with an Answer, or with a text if it fails."""
    try:
        # threads inherit flush-to-zero when they start, so the settings come before the first work
        torch.set_num_threads(work.threads)
        torch.set_flush_denormal(contender.flushed)
        torch.manual_seed(0)
        device = torch.device(work.device)
        functions = passes(contender, work)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        memory_before = peak_memory(device)
        while True:
            name = pipe.recv()
            seconds = timed(functions[name], device) if name in functions else None
            memory = peak_memory(device) if contender.library != "products" else None
            pipe.send((seconds, None if memory_before is None or memory is None else memory - memory_before))
    except EOFError:
        return  # the parent has closed the pipe
    except Exception as error:  # other libraries raise what they like, and the parent reports it
        pipe.send(f"{type(error).__name__}: {first_line(error)}")


def timed(function: Callable[[], int], device: torch.device) -> float:
    """Return the seconds that a pass takes, divided by how many times it repeats its work."""
    _synchronize(device)
    start = time.perf_counter()
    repeats = function()
    _synchronize(device)
    return (time.perf_counter() - start) / repeats


def _synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def peak_memory(device: torch.device) -> int | None:
    """Return the peak bytes of this process, resident or allocated on a GPU, or None if the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = Path("/proc/self/status")
    if device.type != "cpu" or not status.exists():
        return None
    return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
