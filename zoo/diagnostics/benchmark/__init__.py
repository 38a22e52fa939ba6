"""Compares the speed of rnnzoo's networks, of other libraries' networks of the same size, and of matrix products alone.

Every contender (a network to time) runs in its own process, because rnnzoo flushes denormal numbers to zero in the process
that builds a network, and other libraries do not. Their networks are measured with that setting ("flushed") or without it.
The processes take turns, one pass at a time, so that other load on the machine affects all of them alike. A time is the
median over the rounds after one warm-up. Memory is the peak of the process, or on a GPU of its allocations, minus the peak
before the first pass.
"""

import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from ...errors import BenchmarkError, first_line
from ...utils import provenance
from ...utils.files import handled
from .contenders import (
    PEERS,
    TORCHRECURRENT,
    Contender,
    Workload,
    counterpart,
    in_bfloat16,
    installed,
    missing_peers,
    ours,
    peers,
    products,
    stack,
)
from .passes import FORWARD, PASSES, STREAMING, TRAINING, failure, passes_of

__all__ = [
    "FORWARD", "PASSES", "PEERS", "STREAMING", "TORCHRECURRENT", "TRAINING", "Contender", "Measurement", "Workload",
    "counterpart", "failure", "in_bfloat16", "installed", "machine", "measure", "missing_peers", "ours", "peers",
    "products", "stack",
]  # fmt: skip

Report = Callable[[int, int, str], None]
"""A function (passes done, all passes, "CONTENDER: PASS" that is next), called before every pass."""


@dataclass(frozen=True)
class Measurement:
    """The result of timing one contender.

    seconds: by name of the pass, the median; None if the contender lacks the pass. memory: peak in bytes; None if unknown.
    """

    contender: Contender
    work: Workload
    seconds: dict[str, float | None]
    memory: int | None

    def to_json(self) -> dict[str, Any]:
        contender, spec = self.contender, self.contender.config.architecture
        return {
            "contender": contender.name, "library": contender.library, "cell": spec.cell, "layers": spec.layers,
            "units": spec.units, "steps": self.work.steps, "batch": self.work.batch, "backend": contender.backend,
            "flushed": contender.flushed, "precision": contender.precision, "seconds": self.seconds,
            "peak_memory_bytes": self.memory,
        }  # fmt: skip


def measure(
    contenders: Sequence[Contender], work: Workload, rounds: int, report: Report | None = None
) -> list[Measurement]:
    """Run every pass of every contender in a warm-up and `rounds` rounds, and return a measurement for each contender.

    If a contender is bidirectional, the streaming pass is left out for all. Raises BenchmarkError if a contender fails.
    """
    streams = not any(contender.config.architecture.bidirectional for contender in contenders)
    names = [name for name in PASSES if streams or name != STREAMING]
    turns = [(name, i) for _ in range(rounds + 1) for name in names for i in range(len(contenders))]
    warm_up = len(turns) // (rounds + 1)
    seconds: list[dict[str, list[float]]] = [{name: [] for name in PASSES} for _ in contenders]
    memory: list[int | None] = [None] * len(contenders)
    workers: list[Worker] = []
    try:
        workers += (Worker(contender, work) for contender in contenders)
        for worker in workers:
            worker.ask("")  # returns when it is ready, so that none is timed while another is being built
        for done, (name, i) in enumerate(turns):
            if report is not None:
                report(done, len(turns), f"{contenders[i].name}: {name}")
            taken, memory[i] = workers[i].ask(name)
            if taken is not None and done >= warm_up:
                seconds[i][name].append(taken)
    finally:
        for worker in workers:
            worker.stop()
    medians = [{name: statistics.median(t) if t else None for name, t in times.items()} for times in seconds]
    return [Measurement(c, work, s, m) for c, s, m in zip(contenders, medians, memory, strict=True)]


def machine(threads: int, device: str = "cpu", contenders: Sequence[Contender] = ()) -> dict[str, Any]:
    """Return a description of a measurement by name: processor, threads, device, versions of the libraries, date."""
    libraries = sorted({contender.library for contender in contenders} - {"rnnzoo", "torch", "products"})
    return {
        "cpu": provenance.processor(), "cores": os.cpu_count(), "threads": threads,
        "device": provenance.device_name(torch.device(device)), **provenance.versions(),
        **{library: _version(library) for library in libraries}, "date": provenance.today(),
    }  # fmt: skip


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:  # imported from a checkout
        return "unknown"


class Worker:
    """The process of one contender. It runs a pass for each call of `ask`."""

    def __init__(self, contender: Contender, work: Workload):
        self.name = contender.name
        context = multiprocessing.get_context("spawn")
        self.pipe, child_pipe = context.Pipe()
        self.process = context.Process(target=serve, args=(contender, work, child_pipe), daemon=True)
        with handled(signal.SIG_IGN, signal.SIGINT):  # inherited: the parent handles an interruption
            self.process.start()
        child_pipe.close()  # only the child has it open now, so its death ends the pipe

    def ask(self, name: str) -> tuple[float | None, int | None]:
        """Run the pass `name`; "" waits until the contender is built. Return (seconds, peak memory in bytes).

        Seconds are None if the contender has no such pass, memory is None if it is unknown. Raises BenchmarkError if the
        contender fails or its process dies.
        """
        place = f"in the pass {name!r}" if name else "while it was built"
        try:
            with suppress(OSError):  # a dead process may have left its last answer in the pipe
                self.pipe.send(name)
            answer = self.pipe.recv()
        except (EOFError, OSError) as error:
            self.process.join()
            code = self.process.exitcode
            raise BenchmarkError(
                f"Timing {self.name} failed {place}: its process died with exit code {code}"
                f"{', perhaps for lack of memory' if code == -signal.SIGKILL else ''}. Try a smaller batch or fewer steps."
            ) from error
        if isinstance(answer, str):
            raise BenchmarkError(
                f"Timing {self.name} failed {place}: {answer}. Leave this network out, or change its sizes or the device."
            )
        return answer

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def serve(contender: Contender, work: Workload, pipe: Connection) -> None:
    """Build a contender; then read names of passes from `pipe`, run each, and send (seconds, memory), or an error's text."""
    try:
        # threads inherit flush-to-zero when they start, so the settings come before the first work
        torch.set_num_threads(work.threads)
        torch.set_flush_denormal(contender.flushed)
        torch.manual_seed(0)
        device = torch.device(work.device)
        functions = passes_of(contender, work)
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
    """Return the seconds that one call of `function` takes, divided by the number of repetitions that it returns."""
    _synchronize(device)
    start = time.perf_counter()
    repeats = function()
    _synchronize(device)
    return (time.perf_counter() - start) / repeats


def _synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def peak_memory(device: torch.device) -> int | None:
    """Return the peak memory of this process in bytes: allocated on a GPU, else resident. None if it is unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = Path("/proc/self/status")
    if device.type != "cpu" or not status.exists():
        return None
    lines = status.read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), None)
