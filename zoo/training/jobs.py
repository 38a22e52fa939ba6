"""Many training runs at once, each in a process of its own, on this machine or on a cluster (zoo.training.ray_cluster).

A job is the command `rnnzoo train NAME --out FOLDER`, so what holds of one run holds of each: it can be killed at any moment,
and the same command continues it. The job's output goes to train.log in its folder, and its progress is read from there, on
whatever machine it runs. If one job fails, the others go on; SIGINT and SIGTERM stop all of them after they have saved.

Nothing here imports torch.
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
from typing import Literal, NamedTuple, Protocol

from ..checkpoints import configs, results, tensors
from ..errors import CheckpointError
from ..registry import Entry
from ..registry.schema import Recipe
from ..utils.files import interruptions

LOG = "train.log"
POLL_SECONDS = 0.5
INTERRUPTED = 130
"""Exit code of a job that was interrupted and saved."""
Phase = Literal["waiting", "running", "done", "skipped", "failed", "stopped"]


@dataclass(frozen=True)
class TrainingJob:
    """The command `rnnzoo ARGUMENTS`, which trains the model `name` into `folder`, an absolute path."""

    name: str
    folder: Path
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    """Variables to set besides those of the process that starts it."""
    host: str = socket.gethostname()
    """Machine on which the job was requested."""

    @property
    def log(self) -> Path:
        return self.folder / LOG


@dataclass(frozen=True)
class JobState:
    """How far a job is, its exit code if it has ended, and the last line of its log or why it failed."""

    phase: Phase = "waiting"
    exit_code: int | None = None
    text: str = ""


class Ended(NamedTuple):
    """A job that ended; a negative exit code is the signal that killed it. The reason is empty if it is unknown."""

    job: TrainingJob
    exit_code: int
    reason: str


class Workers(Protocol):
    """What runs jobs: at most `slots` at a time; None means that it keeps a queue of its own."""

    slots: int | None

    def start(self, job: TrainingJob) -> None:
        """Start a job, or queue it. Raises OSError if it cannot be started."""

    def ended(self) -> Sequence[Ended]:
        """The jobs that ended since the last call."""

    def stop(self) -> None:
        """Ask every job to save and stop; a second call asks it to stop at once."""


class LocalProcesses:
    """Workers on this machine."""

    def __init__(self, slots: int):
        self.slots: int | None = slots
        self.running: list[tuple[TrainingJob, subprocess.Popen[bytes]]] = []

    def start(self, job: TrainingJob) -> None:
        command = [sys.executable, "-m", "rnnzoo_cli", *job.arguments]
        with job.log.open("ab") as log:
            log.write(f"$ {shlex.join(['rnnzoo', *job.arguments])}\n".encode())
            log.flush()
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **job.environment},
                start_new_session=True,  # else it gets the terminal's Ctrl-C besides ours, and two stop it at once
                preexec_fn=_prepare_signals,
            )  # fmt: skip
        self.running.append((job, process))

    def ended(self) -> Sequence[Ended]:
        ended = [Ended(job, _exit_code(process), "") for job, process in self.running if process.poll() is not None]
        self.running = [(job, process) for job, process in self.running if process.returncode is None]
        return ended

    def stop(self) -> None:
        for _, process in self.running:
            process.send_signal(signal.SIGINT)


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _prepare_signals() -> None:
    """In the child process: accept SIGINT, which Ray's workers block, and get one from the kernel when the parent dies.

    Otherwise the child could outlive its parent, and two processes would train in one folder.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def run(
    jobs: Sequence[TrainingJob], workers: Workers, report: Callable[[dict[str, JobState]], None] = lambda states: None
) -> dict[str, JobState]:
    """Run all jobs and return how each ended, by name; `report` gets the states of all of them twice a second.

    An interruption is passed on to every running job, and no other job is started.
    """
    states, start_sizes = {job.name: JobState() for job in jobs}, dict[str, int]()
    waiting, running = deque(jobs), dict[str, TrainingJob]()
    with interruptions() as interrupted:
        interruptions_passed_on = 0
        while waiting or running:
            while waiting and len(running) < (workers.slots or len(jobs)):
                job = waiting.popleft()
                try:
                    job.folder.mkdir(parents=True, exist_ok=True)
                    job.log.touch()
                    start_sizes[job.name] = job.log.stat().st_size
                    workers.start(job)
                except OSError as error:
                    states[job.name] = JobState("failed", 1, str(error))
                    continue
                running[job.name] = job
            time.sleep(POLL_SECONDS)
            for name, job in running.items():
                if job.log.stat().st_size > start_sizes[name]:  # only then it is running, and not in a cluster's queue
                    states[name] = JobState("running", text=last_line(job))
            for job, exit_code, reason in workers.ended():
                del running[job.name]
                killed = f"killed by signal {-exit_code}; the same command continues the run" if exit_code < 0 else ""
                states[job.name] = JobState(_phase(exit_code), exit_code, reason or killed or last_line(job))
            if interrupted() > interruptions_passed_on:
                interruptions_passed_on = interrupted()
                workers.stop()
                for job in waiting:
                    states[job.name] = replace(states[job.name], phase="stopped")
                waiting.clear()
            report(states)
    return states


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that has ended; SIGINT before Python handles it counts as any other interruption."""
    return INTERRUPTED if process.returncode == -signal.SIGINT else process.returncode


def _phase(exit_code: int) -> Phase:
    return "done" if exit_code == 0 else "stopped" if exit_code == INTERRUPTED else "failed"


def last_line(job: TrainingJob) -> str:
    """The last line of a job's log, without the prefix that names the command."""
    with job.log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        lines = file.read().decode(errors="replace").splitlines()
    line = next((line for line in reversed(lines) if line.strip()), "")
    return "" if line.startswith("$ ") else line.removeprefix(f"train {job.name}: ").removeprefix("rnnzoo: ")


def stored_training(folder: Path) -> results.Training | None:
    """How far the run in `folder` is, from its results; None if there are none or they cannot be read."""
    try:
        return results.read(folder).training
    except CheckpointError:
        return None


def is_finished(entry: Entry, recipe: Recipe, folder: Path) -> bool:
    """True if `folder` holds this model, trained by this recipe to its last epoch, and its weights."""
    training = stored_training(folder)
    if training is None or not training.finished or not (folder / tensors.FILE).is_file():
        return False
    try:
        return configs.read(folder / configs.FILE) == entry.config and training.recipe.settings == recipe.settings
    except CheckpointError:
        return False
