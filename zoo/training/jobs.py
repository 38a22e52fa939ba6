"""Runs many training runs at once, each in its own process, on this machine or on a Ray cluster (the extra `ray`).

A job is the command `rnnzoo train NAME --out FOLDER`; if a job is killed, the same command continues its run. The output
of a job goes to train.log in its folder, and its progress is read from that file. If one job fails, the others continue.
SIGINT and SIGTERM stop all jobs, after each has saved its state.

Ray repeats a task whose process or machine is lost, and the repeated job continues the run. Therefore the folders must be
on a disk that all machines share, and every machine needs the same version of rnnzoo. Nothing here imports torch.
"""

import ctypes
import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from ..checkpoints import configs, results, tensors
from ..errors import CheckpointError, MissingExtraError, RequestError, TrainingError, first_line
from ..registry import Entry
from ..registry.schema import Recipe
from ..utils.files import exclusive_lock, interruptions

LOG = "train.log"
POLL_SECONDS = 0.5
INTERRUPTED = 130  # exit code of a job that was interrupted and saved its state
RETRIES = 5  # by Ray, of a job whose process or machine is lost
SAVE_SECONDS = 600.0  # within which a job that was asked to stop ends its step, validates and saves
INHERITED_VARIABLES = ("RNNZOO_ROOT", "RNNZOO_DATA")
"""Environment variables that every job gets, as absolute paths."""
Phase = Literal["waiting", "running", "done", "skipped", "failed", "stopped"]


@dataclass(frozen=True)
class TrainingJob:
    """The command `rnnzoo ARGUMENTS`, which trains the run `name` in `folder`, an absolute path.

    environment: variables to set in addition to those of the process that starts the job.
    module: the program that Python runs, if it is not rnnzoo's own.
    host: the machine on which the job was requested.
    """

    name: str
    folder: Path
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    module: str = "rnnzoo_cli"
    host: str = socket.gethostname()

    @property
    def log(self) -> Path:
        return self.folder / LOG


@dataclass(frozen=True)
class JobState:
    """The phase of a job, its exit code if it has ended, and `text`: the last line of its log, or why it failed."""

    phase: Phase = "waiting"
    exit_code: int | None = None
    text: str = ""


class Workers(Protocol):
    """Runs jobs, at most `slots` at a time; None for as many as there are resources for."""

    slots: int | None

    def start(self, job: TrainingJob) -> None:
        """Start one job. Raises OSError if it cannot be started."""

    def ended(self) -> Sequence[tuple[TrainingJob, int, str]]:
        """Return (job, exit code, reason) of each job that ended since the last call.

        A negative exit code is that of the signal that killed the job; the reason is "" if it is unknown.
        """

    def stop(self) -> None:
        """Ask every running job to save its state and stop; a second call asks every job to stop at once."""


class LocalProcesses:
    """Runs jobs on this machine, as Workers."""

    def __init__(self, slots: int | None):
        self.slots = slots
        self.running: list[tuple[TrainingJob, subprocess.Popen[bytes]]] = []

    def start(self, job: TrainingJob) -> None:
        with job.log.open("ab") as log:
            program = ("rnnzoo",) if job.module == "rnnzoo_cli" else ("python", "-m", job.module)
            log.write(f"$ {shlex.join([*program, *job.arguments])}\n".encode())
            log.flush()
            # without -P, a random.py in this folder would be imported
            isolated = ("-P",) if job.module == "rnnzoo_cli" else ()
            process = subprocess.Popen(
                [sys.executable, *isolated, "-m", job.module, *job.arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **job.environment}, preexec_fn=_prepare_signals,
                start_new_session=True,  # else the job would get Ctrl-C twice, from the terminal and from `stop`
            )  # fmt: skip
        self.running.append((job, process))

    def ended(self) -> Sequence[tuple[TrainingJob, int, str]]:
        ended = [(job, code) for job, process in self.running if (code := process.poll()) is not None]
        self.running = [(job, process) for job, process in self.running if process.returncode is None]
        # SIGINT kills a process that is still starting Python; this counts as an interruption, too
        return [(job, INTERRUPTED if code == -signal.SIGINT else code, "") for job, code in ended]

    def stop(self) -> None:
        for _, process in self.running:
            process.send_signal(signal.SIGINT)


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _prepare_signals() -> None:
    """In the child process: unblock SIGINT, which Ray's workers block, and have Linux send SIGINT when the parent dies.

    Otherwise the child could outlive its parent, and two processes would train in one folder.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


class KilledError(Exception):
    """A signal killed the process of a job, for instance because memory ran out. Ray repeats a task that raises this error."""


class RayTasks:
    """Runs jobs as tasks of a Ray cluster, as Workers. With slots=None, Ray queues the jobs."""

    def __init__(self, ray: Any, slots: int | None, threads: int, gpus: float):
        self.ray, self.slots = ray, slots
        self.running: dict[Any, TrainingJob] = {}
        resources = {"num_cpus": threads, "num_gpus": gpus}
        self.task = ray.remote(**resources, max_retries=RETRIES, retry_exceptions=[KilledError])(_run_task)

    def start(self, job: TrainingJob) -> None:
        self.running[self.task.remote(job)] = job

    def ended(self) -> Sequence[tuple[TrainingJob, int, str]]:
        tasks, _ = self.ray.wait(list(self.running), num_returns=len(self.running), timeout=0)
        return [(self.running.pop(task), *self._exit_code_and_reason(task)) for task in tasks]

    def _exit_code_and_reason(self, task: Any) -> tuple[int, str]:
        try:
            return self.ray.get(task)
        except self.ray.exceptions.TaskCancelledError:
            return INTERRUPTED, ""
        except self.ray.exceptions.RayError as error:
            return 1, first_line(getattr(error, "cause", None) or error)

    def stop(self) -> None:
        for task in self.running:
            self.ray.cancel(task)


def _run_task(job: TrainingJob) -> tuple[int, str]:
    """Run one job on the machine that Ray chose, and return (exit code, text), with the text of JobState.

    If Ray cancels the task, the job saves its state before this function returns. An earlier try whose worker died may still be
    saving its state on this machine; the job waits for it. Raises KilledError if a signal killed the job, so that Ray tries
    again; TrainingError if this machine does not have the job's folder; StorageError if another process keeps it.
    """
    if not job.log.exists():
        raise TrainingError(
            f"{job.folder} is on {job.host} but not on {socket.gethostname()}. Choose an --out that all machines share."
        )
    with exclusive_lock(job.folder, seconds=SAVE_SECONDS):
        pass
    state = run([job], LocalProcesses(1))[job.name]
    code = INTERRUPTED if state.exit_code is None else state.exit_code
    if code < 0:
        raise KilledError(
            f"{job.name} was killed by signal {-code} in the last of {RETRIES + 1} tries. Its log is {job.log}. The same "
            "command continues the run."
        )
    return code, state.text


@contextmanager
def ray_tasks(address: str, slots: int | None, threads: int, gpus: float) -> Iterator[RayTasks]:
    """Connect to a Ray cluster and yield a RayTasks for it.

    address: `auto`, `HOST:PORT`, `ray://HOST:PORT`, or `local` for a cluster on this machine that ends with the block.
    slots: the number of jobs at a time; None lets Ray run as many jobs as fit the cluster.
    threads, gpus: the number of CPUs and GPUs that each job reserves.

    Raises MissingExtraError if ray is not installed, and TrainingError if no cluster answers at `address`.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray") from error
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options |= {"include_dashboard": False, "num_cpus": slots and slots * threads}
    try:
        ray.init(address, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise TrainingError(
            f"No Ray cluster answers at {address!r} ({first_line(error)}). Check --ray, or start one with --ray local."
        ) from error
    try:
        with redirect_stdout(sys.stderr):  # Ray prints its retries to stdout, which is for data
            yield RayTasks(ray, slots, threads, gpus)
    finally:
        ray.shutdown()


def environment(threads: int) -> dict[str, str]:
    """Return the environment variables of a job with that many CPU threads, which a machine of a cluster may not have."""
    paths = {name: os.path.abspath(os.environ[name]) for name in INHERITED_VARIABLES if os.environ.get(name)}
    return {**paths, "OMP_NUM_THREADS": str(threads)}


def open_workers(slots: int | None, ray: str | None, threads: int, gpus: float) -> AbstractContextManager[Workers]:
    """Return LocalProcesses or, if `ray` is the address of a cluster, RayTasks, for a `with` block. See `ray_tasks`.

    slots: the number of jobs at a time; None means one here, and as many as fit the cluster on Ray. Raises RequestError if it is
    below 1, and for an empty address.
    """
    if ray == "":
        raise RequestError("The address of the Ray cluster is empty; give HOST:PORT, `auto`, or `local` to start one.")
    if slots is not None and slots < 1:
        raise RequestError(f"At least one job must run at a time; got {slots}.")
    return nullcontext(LocalProcesses(slots or 1)) if ray is None else ray_tasks(ray, slots, threads, gpus)


@contextmanager
def _stopped_by_errors(workers: Workers) -> Iterator[None]:
    """Ask the running jobs to stop if the block raises an error, such as of a report that cannot be printed."""
    try:
        yield
    except BaseException:
        workers.stop()
        raise


def run(
    jobs: Sequence[TrainingJob], workers: Workers,
    report: Callable[[dict[str, JobState]], None] = lambda states: None,
) -> dict[str, JobState]:  # fmt: skip
    """Run all jobs, and return the last state of each job by name.

    report: called with the states of all jobs twice a second. Each interruption is passed on to every running job. After the
    first interruption, no further job is started. If `report` raises an error, the running jobs are asked to stop.
    """
    states, start_sizes = {job.name: JobState() for job in jobs}, dict[str, int]()
    waiting, running, stops = deque(jobs), dict[str, TrainingJob](), 0
    with interruptions() as interrupted, _stopped_by_errors(workers):
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
                else:
                    running[job.name] = job
            time.sleep(POLL_SECONDS)
            for name, job in running.items():
                with suppress(OSError):  # a disk that does not answer now must not end the other jobs
                    if job.log.stat().st_size > start_sizes[name]:  # until then the job is in a cluster's queue
                        states[name] = JobState("running", text=last_line(job))
            for job, code, reason in workers.ended():
                del running[job.name]
                if code < 0:
                    reason = reason or f"killed by signal {-code}; the same command continues the run"
                phase: Phase = "done" if code == 0 else "stopped" if code == INTERRUPTED else "failed"
                states[job.name] = JobState(phase, code, reason or last_line(job))
            if (received := interrupted()) > stops:
                for _ in range(received - stops):
                    workers.stop()
                stops = received
                states |= {job.name: replace(states[job.name], phase="stopped") for job in waiting}
                waiting.clear()
            report(states)
    return states


def last_line(job: TrainingJob) -> str:
    """Return the last line of a job's log but advice, without the prefix `train NAME: ` or `rnnzoo: `.

    It is "" if the job has written none or the log cannot be read.
    """
    try:
        with job.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    line = next((line for line in reversed(lines) if line.strip() and not line.startswith("Next: ")), "")
    return "" if line.startswith("$ ") else re.sub(r"^(train \S+|rnnzoo): ", "", line)


def stored_training(folder: Path) -> results.Training | None:
    """Return the training that results.json in `folder` describes, or None if the file is missing or damaged."""
    try:
        return results.read(folder).training
    except CheckpointError:
        return None


def is_finished(entry: Entry, recipe: Recipe, folder: Path) -> bool:
    """Return whether `folder` has weights of the model `entry` whose training by `recipe`, on the same data, has finished."""
    training = stored_training(folder)
    if training is None or not training.finished or not (folder / tensors.FILE).is_file():
        return False
    try:
        same = configs.read(folder / configs.FILE) == entry.config and training.recipe.settings == recipe.settings
        return same and _has_same_data(entry, folder)
    except (CheckpointError, TrainingError):
        return False


def _has_same_data(entry: Entry, folder: Path) -> bool:
    """Return whether the data of the run in `folder` have the digests that are locked now, as far as their files are locked.

    True if the run's state was removed.
    """
    from . import state  # which imports torch

    if not (folder / state.FILE).exists():
        return True
    stored = state.State.read(folder / state.FILE).identity
    digests = {**stored.get("data", {}), **stored.get(state.VALIDATION, {})}
    return all(digests.get(file, digest) == digest for file, digest in entry.dataset.sha256.items())
