"""The jobs of zoo.training.jobs as tasks of a Ray cluster; the only module that imports ray (the extra `ray`).

A task whose process or machine is lost is tried again, and goes on from the state in its folder. So the folders must be
on a disk that all machines share, and every machine needs the same rnnzoo.
"""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from ..errors import MissingExtraError, TrainingError, first_line
from . import jobs

RETRIES = 5
LOCAL = "local"


class KilledError(Exception):
    """The process of a run was killed, by the kernel for want of memory, say; Ray tries again."""


@contextmanager
def workers(address: str, slots: int | None, threads: int, gpus: float) -> Iterator[jobs.Workers]:
    """The workers of a cluster: `auto`, `HOST:PORT`, `ray://HOST:PORT`, or `local`, one that is started for the purpose.

    slots: jobs at a time; none: what the cluster has room for. threads, gpus: CPUs and GPUs that each job reserves.
    Raises MissingExtraError, and TrainingError if no cluster answers.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray") from error
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet |= {"include_dashboard": False, "num_cpus": slots and slots * threads}
    try:
        ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise TrainingError(f"No Ray cluster answers at {address!r} ({first_line(error)}).") from error
    try:
        with redirect_stdout(sys.stderr):  # where Ray says that it tries something again, among what others read
            yield Tasks(ray, slots, threads, gpus)
    finally:
        ray.shutdown()


class Tasks:
    """Workers on a Ray cluster."""

    def __init__(self, ray: Any, slots: int | None, threads: int, gpus: float):
        self.ray, self.slots = ray, slots
        self.running: dict[Any, jobs.Job] = {}
        resources = {"num_cpus": threads, "num_gpus": gpus}
        self.task = ray.remote(**resources, max_retries=RETRIES, retry_exceptions=[KilledError])(_run)

    def start(self, job: jobs.Job) -> None:
        self.running[self.task.remote(job)] = job

    def ended(self) -> Sequence[tuple[jobs.Job, int, str]]:
        over, _ = self.ray.wait(list(self.running), num_returns=len(self.running), timeout=0)
        return [(self.running.pop(task), *self._result(task)) for task in over]

    def _result(self, task: Any) -> tuple[int, str]:
        try:
            return self.ray.get(task)
        except self.ray.exceptions.TaskCancelledError:
            return jobs.INTERRUPTED, ""
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            return 1, first_line(cause)

    def stop(self) -> None:
        for task in self.running:
            self.ray.cancel(task)


def _run(job: jobs.Job) -> tuple[int, str]:
    """One job, on the machine that Ray chose; cancelled, it is interrupted and waited for."""
    if not job.log.exists():
        raise TrainingError(
            f"{job.folder} of {job.host} is not on this machine. Choose an --out that all machines share."
        )
    state = jobs.run([job], jobs.Processes(1))[job.name]
    code = state.code if state.code is not None else jobs.INTERRUPTED
    if code < 0:
        raise KilledError(f"{state.text} ({RETRIES} retries)")
    return code, state.text
