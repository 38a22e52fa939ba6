"""Many runs at once, each a process of its own, here or on a cluster (zoo.training.ray_cluster). No torch.

The unit of work is `rnnzoo train NAME --out FOLDER`, so what holds of one run holds of each: killed at any moment, it goes
on where it stopped. What a run says is in train.log in its folder, and there its progress is read, on whatever machine it
runs. The failure of one does not stop the others; SIGINT and SIGTERM stop all of them, after they saved.
"""

import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from ..checkpoints import configs, results, tensors
from ..errors import CheckpointError
from ..registry import Entry
from ..registry.schema import Recipe
from ..utils.signals import interruptions

LOG = "train.log"
POLL_SECONDS = 0.5
INTERRUPTED = 130
Phase = Literal["waiting", "running", "done", "skipped", "failed", "stopped"]


@dataclass(frozen=True)
class Job:
    """One run: `rnnzoo ARGUMENTS` in this environment, which writes to `folder`, an absolute path."""

    name: str
    folder: Path
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    host: str = socket.gethostname()
    """Where it was asked for."""

    @property
    def log(self) -> Path:
        return self.folder / LOG


@dataclass(frozen=True)
class State:
    """Where a run is, its exit code once it has one, and the last thing it said."""

    phase: Phase = "waiting"
    code: int | None = None
    text: str = ""


class Workers(Protocol):
    """What runs jobs: at most `slots` at a time, none if it keeps a queue itself."""

    slots: int | None

    def start(self, job: Job) -> None:
        """Begin a job, or queue it."""

    def ended(self) -> Sequence[tuple[Job, int, str]]:
        """The jobs that ended since the last call, their exit codes (negative: killed by a signal), and why if known."""

    def stop(self) -> None:
        """Ask every job to save and stop; asked again, to stop at once."""


class Processes:
    """Workers on this machine."""

    def __init__(self, slots: int):
        self.slots: int | None = slots
        self.running: list[tuple[Job, subprocess.Popen[bytes]]] = []

    def start(self, job: Job) -> None:
        command = [sys.executable, "-m", "rnnzoo_cli", *job.arguments]
        with job.log.open("ab") as log:
            log.write(f"$ {shlex.join(['rnnzoo', *job.arguments])}\n".encode())
            log.flush()
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **job.environment},
                start_new_session=True,  # the terminal's Ctrl-C would reach it besides ours, and two stop it at once
                preexec_fn=_interruptible,
            )  # fmt: skip
        self.running.append((job, process))

    def ended(self) -> Sequence[tuple[Job, int, str]]:
        over = [(job, _code(process), "") for job, process in self.running if process.poll() is not None]
        self.running = [(job, process) for job, process in self.running if process.returncode is None]
        return over

    def stop(self) -> None:
        for _, process in self.running:
            process.send_signal(signal.SIGINT)


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _interruptible() -> None:
    """In the child: let it have SIGINT, which Ray's workers block, and have the kernel send it that when its parent dies,
    lest two processes train in one folder."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def run(
    jobs: Sequence[Job], workers: Workers, report: Callable[[dict[str, State]], None] = lambda states: None
) -> dict[str, State]:
    """Run all jobs and return how each ended; `report` is called twice a second with where each is.

    An interruption is passed on to every run, and those that have not begun do not begin.
    """
    states, sizes = {job.name: State() for job in jobs}, {}
    waiting, going = deque(jobs), dict[str, Job]()
    with interruptions() as asked:
        told = 0
        while waiting or going:
            while waiting and len(going) < (workers.slots or len(jobs)):
                job = waiting.popleft()
                try:
                    job.folder.mkdir(parents=True, exist_ok=True)
                    job.log.touch()
                    sizes[job.name] = job.log.stat().st_size
                    workers.start(job)
                except OSError as error:
                    states[job.name] = State("failed", 1, str(error))
                    continue
                going[job.name] = job
            time.sleep(POLL_SECONDS)
            for name, job in going.items():
                if job.log.stat().st_size > sizes[name]:
                    states[name] = State("running", text=last_words(job))
            for job, code, why in workers.ended():
                del going[job.name]
                killed = f"killed by signal {-code}; the same command goes on from there" if code < 0 else ""
                states[job.name] = State(_phase(code), code, why or killed or last_words(job))
            if asked() > told:
                told = asked()
                workers.stop()
                for job in waiting:
                    states[job.name] = replace(states[job.name], phase="stopped")
                waiting.clear()
            report(states)
    return states


def _code(process: subprocess.Popen[bytes]) -> int:
    """Of a process that has ended; an interruption before Python could see to it is one like any other."""
    return INTERRUPTED if process.returncode == -signal.SIGINT else process.returncode


def _phase(code: int) -> Phase:
    return "done" if code == 0 else "stopped" if code == INTERRUPTED else "failed"


def last_words(job: Job) -> str:
    """The last line of a run's log, without its title."""
    with job.log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        lines = file.read().decode(errors="replace").splitlines()
    line = next((line for line in reversed(lines) if line.strip()), "")
    return "" if line.startswith("$ ") else line.removeprefix(f"train {job.name}: ").removeprefix("rnnzoo: ")


def training(folder: Path) -> results.Training | None:
    """How far the run in `folder` is; none if there is none, or its results cannot be read."""
    try:
        return results.read(folder).training
    except CheckpointError:
        return None


def finished(entry: Entry, recipe: Recipe, folder: Path) -> bool:
    """Whether `folder` holds this very run, done to its last epoch, and its weights."""
    found = training(folder)
    if found is None or not found.finished or not (folder / tensors.FILE).is_file():
        return False
    try:
        return configs.read(folder / configs.FILE) == entry.config and found.recipe.settings == recipe.settings
    except CheckpointError:
        return False
