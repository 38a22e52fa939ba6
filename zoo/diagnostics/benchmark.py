"""Networks side by side in one run: rnnzoo's, the peers' of the same depth and width, and the matrix products alone.

Every contender has a process of its own, because rnnzoo turns on flush-to-zero for the process it builds a network in
and the peers do not; they are measured with it ("flushed") or as they come. The processes take turns, one at a time, so
that whatever else the machine does falls on all of them. A time is the median over the rounds after one warm-up; memory
is the peak of the process, or on a GPU of its allocations, less what it had before the first pass.
"""

import importlib
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..cells.projections import Dense
from ..errors import BenchmarkError, MissingExtraError, RequestError, UnknownNameError, first_line
from ..networks import builder
from ..networks.layer import Direction
from ..registry.schema import Architecture, Config, Interface
from ..utils import provenance
from ..utils.signals import handled

FORWARD, TRAINING, STREAMING = PASSES = ("forward", "forward + backward", "streamed step")
"""What is timed: inference on a batch, a training step without its optimizer, and one step of one stream."""

STREAM = 1000
"""Time steps that streaming is timed over."""

PEERS = {"torch": "torch.nn", "torchrecurrent": "torchrecurrent"}
"""Module of each library to compare with."""

TORCH = {"rnn": "RNN", "irnn": "RNN", "gru": "GRU"}
"""torch.nn's namesake of a cell; for every other cell its LSTM of the same depth and width stands in."""

TORCHRECURRENT = {
    "star": "STAR", "lstm-f": "JANET", "lstm-peephole": "PeepholeLSTM", "indrnn": "IndRNN",
    "antisymmetric": "AntisymmetricRNN", "antisymmetric-gated": "GatedAntisymmetricRNN", "lstm-residual": "ResLSTM",
}  # fmt: skip
"""torchrecurrent's class of a cell."""


@dataclass(frozen=True)
class Work:
    """What all contenders of a run do. threads: of a CPU."""

    steps: int
    batch: int
    threads: int
    device: str = "cpu"


@dataclass(frozen=True)
class Contender:
    """A network of rnnzoo, a peer's counterpart of it (`library` of PEERS), or its matrix products ("products")."""

    library: str
    config: Config
    backend: str = "auto"
    """Network.backend; rnnzoo only."""
    flushed: bool = True
    """Whether denormal numbers count as zero, on a CPU."""
    precision: Literal["no", "bf16"] = "no"
    """As a recipe's: "bf16" computes under autocast."""

    @property
    def name(self) -> str:
        cell = self.config.architecture.cell
        if self.library == "products":
            return f"matrix products of {cell}"
        reduced = ", bfloat16" if self.precision == "bf16" else ""
        if self.library == "rnnzoo":
            return f"rnnzoo {cell}" + (", plain" if self.backend == "plain" else "") + reduced
        return f"{PEERS[self.library]}.{counterpart(self)}" + (", flushed" if self.flushed else "") + reduced


@dataclass(frozen=True)
class Measured:
    """Median seconds of every pass, and peak memory in bytes; None where a contender has no such thing."""

    contender: Contender
    work: Work
    seconds: dict[str, float | None]
    memory: int | None

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        who, spec = self.contender, self.contender.config.architecture
        return {
            "contender": who.name, "library": who.library, "cell": spec.cell, "layers": spec.layers, "units": spec.units,
            "steps": self.work.steps, "batch": self.work.batch, "backend": who.backend, "flushed": who.flushed,
            "precision": who.precision, "seconds": self.seconds, "peak_memory_bytes": self.memory,
        }  # fmt: skip


def stack(cell: str, layers: int, units: int, steps: int) -> Config:
    """A stack that reads one feature a time step and classifies by its last output."""
    architecture = Architecture(cell=cell, layers=layers, units=units)
    interface = Interface(input=(1,), steps=steps, outputs=10, readout="last")
    return Config(name=f"{cell}-{layers}x{units}", task="none", architecture=architecture, interface=interface)


def ours(config: Config) -> list[Contender]:
    """rnnzoo's network with the fastest scan, and with the plain one."""
    return [Contender("rnnzoo", config), Contender("rnnzoo", config, "plain")]


def products(config: Config) -> list[Contender]:
    """The matrix products of a dense network alone: what no implementation by torch.mm can be faster than."""
    return [] if config.architecture.kernel else [Contender("products", config)]


def peers(config: Config, against: Sequence[str] | None = None, flushed: Sequence[bool] = (True,)) -> list[Contender]:
    """The counterparts of a network in other libraries, for each value of `flushed`.

    against: libraries of PEERS (default: those that are installed and have one). Raises UnknownNameError, or
    MissingExtraError or RequestError where a library that was asked for is not there or has no counterpart.
    """
    found = []
    for library in PEERS if against is None else against:
        if library not in PEERS:
            raise UnknownNameError("peer", library, PEERS, f"There is {' and '.join(PEERS)}.")
        own = [Contender(library, config, flushed=flush) for flush in flushed]
        if counterpart(own[0]) is None:
            if against is not None:
                raise RequestError(f"{library} has no counterpart of {config.name}; leave it out of --against.")
        elif not installed(library):
            if against is not None:
                raise MissingExtraError(library, "bench")
        else:
            found += own
    return found


def halves(contenders: Sequence[Contender]) -> list[Contender]:
    """The same networks under autocast, in bfloat16."""
    return [replace(contender, precision="bf16") for contender in contenders]


def refusal(peer: Contender, device: str = "cpu") -> str | None:
    """Why torch cannot run a peer here, if it cannot: in bfloat16 its LSTM needs instructions that not every processor has."""
    passes = _passes(peer, Work(steps=2, batch=1, threads=1, device=device))
    try:
        passes[FORWARD]()
        passes[TRAINING]()
    except RuntimeError as error:
        return first_line(error)
    return None


def absent(config: Config) -> list[str]:
    """The libraries that have a counterpart of a network and are not installed."""
    return [name for name in PEERS if counterpart(Contender(name, config)) and not installed(name)]


def installed(library: str) -> bool:
    """Whether a peer can be imported."""
    return find_spec(library) is not None


def counterpart(contender: Contender) -> str | None:
    """A peer's class for a network: its own namesake of the cell, or for torch the LSTM; None if it has none."""
    spec = contender.config.architecture
    if spec.kernel is not None or spec.bidirectional not in (None, "concat"):
        return None
    if contender.library == "torch":
        return TORCH.get(spec.cell, "LSTM")
    full = spec.cell == "lstm-peephole" and spec.options.get("peephole") != "diagonal"  # the peer's is diagonal
    return None if spec.bidirectional or full else TORCHRECURRENT.get(spec.cell)


def machine(work: Work, contenders: Sequence[Contender]) -> dict[str, Any]:
    """Where and with what a run was measured."""
    others = sorted({c.library for c in contenders} - {"rnnzoo", "torch", "products"})
    return {
        "cpu": provenance.processor(), "cores": os.cpu_count(), "threads": work.threads,
        "device": provenance.device_name(torch.device(work.device)), **provenance.versions(),
        **{library: _version(library) for library in others}, "date": provenance.today(),
    }  # fmt: skip


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:  # a checkout on the path
        return "unknown"


Report = Callable[[int, int, str], None]
"""Told the passes done, all of them, and the contender whose turn it is."""


def measure(contenders: Sequence[Contender], work: Work, rounds: int, report: Report | None = None) -> list[Measured]:
    """Every pass of every contender, a warm-up and `rounds` times over. Raises BenchmarkError if one fails."""
    streams = not any(c.config.architecture.bidirectional for c in contenders)
    passes = PASSES if streams else PASSES[:2]
    turns = [(what, i) for _ in range(rounds + 1) for what in passes for i in range(len(contenders))]
    taken: list[dict[str, list[float]]] = [{what: [] for what in PASSES} for _ in contenders]
    memory: list[int | None] = [None] * len(contenders)
    workers: list[_Worker] = []
    try:
        workers += (_Worker(contender, work) for contender in contenders)
        for worker in workers:
            worker.ask("")  # all are ready before any is timed
        for done, (what, i) in enumerate(turns):
            if report is not None:
                report(done, len(turns), f"{contenders[i].name}: {what}")
            seconds, memory[i] = workers[i].ask(what)
            if seconds is not None and done >= len(turns) // (rounds + 1):
                taken[i][what].append(seconds)
    finally:
        for worker in workers:
            worker.stop()
    medians = [{what: statistics.median(s) if s else None for what, s in own.items()} for own in taken]
    return [Measured(c, work, s, m) for c, s, m in zip(contenders, medians, memory, strict=True)]


class _Worker:
    """A contender's process."""

    def __init__(self, contender: Contender, work: Work):
        self.name = contender.name
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(contender, work, theirs), daemon=True)
        with handled(signal.SIG_IGN, signal.SIGINT):  # it inherits that an interruption is for its parent to handle
            self.process.start()
        theirs.close()  # so that its death ends the pipe

    def ask(self, what: str) -> tuple[float | None, int | None]:
        """Seconds and peak memory of one pass."""
        try:
            with suppress(OSError):  # it is gone, and what it said before may still be there
                self.pipe.send(what)
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


def _serve(contender: Contender, work: Work, pipe: Connection) -> None:
    """Build a contender, then do every pass asked for and answer with its seconds and the peak memory."""
    try:
        # threads inherit flush-to-zero when they start: first the settings, then the first work
        torch.set_num_threads(work.threads)
        torch.set_flush_denormal(contender.flushed)
        torch.manual_seed(0)
        device = torch.device(work.device)
        passes = _products(contender, work) if contender.library == "products" else _passes(contender, work)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        before = _peak_memory(device)
        while True:
            what = pipe.recv()
            seconds = _timed(passes[what], device) if what in passes else None
            after = _peak_memory(device) if contender.library != "products" else None
            pipe.send((seconds, None if before is None or after is None else after - before))
    except EOFError:
        return  # nobody asks any more
    except Exception as error:  # other people's code: whatever it is, the parent reports it
        pipe.send(f"{type(error).__name__}: {first_line(error)}")


def _timed(run: Callable[[], int], device: torch.device) -> float:
    """Seconds that `run` takes, divided by how many times it says it did its work."""
    _synchronize(device)
    began = time.perf_counter()
    times = run()
    _synchronize(device)
    return (time.perf_counter() - began) / times


def _synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _peak_memory(device: torch.device) -> int | None:
    """Peak bytes of this process, resident or allocated on a GPU, where the system tells."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    status = Path("/proc/self/status")
    if device.type != "cpu" or not status.exists():
        return None
    return next(int(ln.split()[1]) * 1024 for ln in status.read_text().splitlines() if ln.startswith("VmHWM"))


def _passes(contender: Contender, work: Work) -> dict[str, Callable[[], int]]:
    """The passes of a network; each returns how many times it did its work."""
    network: Any
    if contender.library == "rnnzoo":
        network = builder.build(contender.config, device=work.device, allow_large=True)
        network.backend = contender.backend
    else:
        network = _Peer(contender).to(work.device)
    x = torch.rand(work.batch, work.steps, *contender.config.interface.input).to(work.device)
    stream = [x[:1, t % work.steps].contiguous() for t in range(STREAM)]
    reduced = torch.autocast(x.device.type, torch.bfloat16, enabled=contender.precision == "bf16")

    def forward() -> int:
        with torch.no_grad(), reduced:
            network.eval()(x)
        return 1

    def training() -> int:
        network.train().zero_grad()
        with reduced:
            y = network(x)
        y.float().logsumexp(-1).mean().backward()
        return 1

    def streaming() -> int:
        network.eval()
        state = None
        with torch.no_grad(), reduced:
            for part in stream:
                _, state = network.step(part, state)
        return len(stream)

    return {FORWARD: forward, TRAINING: training, STREAMING: streaming}


class _Peer(nn.Module):
    """Another library's stack, with the same head as rnnzoo's network."""

    def __init__(self, contender: Contender):
        super().__init__()
        spec, self.interface = contender.config.architecture, contender.config.interface
        options: dict[str, Any] = {"batch_first": True, "dropout": spec.dropout if spec.layers > 1 else 0.0}
        if (name := counterpart(contender)) == "RNN":
            options["nonlinearity"] = "relu" if spec.cell == "irnn" else spec.options.get("activation", "tanh")
        options |= {"bidirectional": True} if spec.bidirectional else {}
        make = getattr(importlib.import_module(PEERS[contender.library]), str(name))
        self.stack = make(self.interface.input[0], spec.units, spec.layers, **options)
        self.head = nn.Linear(spec.units * (2 if spec.bidirectional else 1), self.interface.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, time, features) to logits."""
        outputs: Tensor = self.stack(x)[0]
        ways = zip(outputs.chunk(1 + getattr(self.stack, "bidirectional", False), -1), (-1, 0), strict=False)
        ends = (way[:, end] for way, end in ways)
        reads = {"last": lambda: torch.cat(list(ends), -1), "mean": lambda: outputs.mean(1), "every": lambda: outputs}
        return self.head(reads[self.interface.readout]())

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One time step, x: (batch, features)."""
        outputs, state = self.stack(x[:, None], state)
        return self.head(outputs[:, -1]), state


def _products(contender: Contender, work: Work) -> dict[str, Callable[[], int]]:
    """Every product of the forward pass by torch.mm: an input map's once for all steps, a recurrent map's once a step.

    The backward pass has twice as many, so forward and backward are three times the same.
    """
    network = builder.build(contender.config, device="meta", allow_large=True)

    @cache  # shared by all maps of a shape: where numbers come from and go to is not what is measured
    def buffer(role: str, rows: int, columns: int) -> Tensor:
        return torch.rand(rows, columns, device=work.device)

    jobs = []
    for way in (m for m in network.modules() if isinstance(m, Direction)):
        for m in (m for m in way.modules() if isinstance(m, Dense)):
            outputs, inputs = m.matrix.shape
            rows, times = (work.steps * work.batch, 1) if m is way.input else (work.batch, work.steps)
            weight = torch.rand(inputs, outputs, device=work.device)
            jobs.append((times, buffer("in", rows, inputs), weight, buffer("out", rows, outputs)))

    def run(repeats: int) -> int:
        for _ in range(repeats):
            for times, a, weight, out in jobs:
                for _ in range(times):
                    torch.mm(a, weight, out=out)
        return 1

    return {FORWARD: lambda: run(1), TRAINING: lambda: run(3)}
