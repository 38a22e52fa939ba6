"""Let the contenders take turns, and report their median times, memory and the machine."""

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from ...utils import provenance
from .contenders import Contender, Workload
from .passes import PASSES, STREAMING
from .workers import Worker

Report = Callable[[int, int, str], None]
"""Called before every pass with the passes done, their total, and the contender and pass that come next."""


@dataclass(frozen=True)
class Measurement:
    """Median seconds of every pass and peak memory in bytes; None where a contender has no such pass or figure."""

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
    """Run every pass of every contender in a warm-up and `rounds` rounds. Raise BenchmarkError if one fails.

    A run with a bidirectional contender leaves out streaming.
    """
    streams = not any(contender.config.architecture.bidirectional for contender in contenders)
    passes = [name for name in PASSES if streams or name != STREAMING]
    turns = [(name, i) for _ in range(rounds + 1) for name in passes for i in range(len(contenders))]
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


def machine(work: Workload, contenders: Sequence[Contender]) -> dict[str, Any]:
    """Describe the processor, the device, and the versions of the libraries that were measured."""
    libraries = sorted({contender.library for contender in contenders} - {"rnnzoo", "torch", "products"})
    return {
        "cpu": provenance.processor(), "cores": os.cpu_count(), "threads": work.threads,
        "device": provenance.device_name(torch.device(work.device)), **provenance.versions(),
        **{library: _version(library) for library in libraries}, "date": provenance.today(),
    }  # fmt: skip


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:  # imported from a checkout
        return "unknown"
