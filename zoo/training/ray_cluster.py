"""The jobs of zoo.training.jobs as tasks of a Ray cluster; the only module that imports ray (the extra `ray`).

Ray retries a task whose process or machine is lost, and the retry continues from the state in its folder. So the folders must
be on a disk that all machines share, and every machine needs the same version of rnnzoo.
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
    """The process of a job was killed, for instance by the kernel for lack of memory; Ray retries the task."""


@contextmanager
def workers(address: str, slots: int | None, threads: int, gpus: float) -> Iterator[jobs.Workers]:
    """The workers of a Ray cluster.

    address: `auto`, `HOST:PORT`, `ray://HOST:PORT`, or `local` for a cluster on this machine that ends with the block.
    slots: jobs at a time; None means as many as the cluster has room for.
    threads, gpus: CPUs and GPUs that each job reserves.

    Raises MissingExtraError without ray, and TrainingError if no cluster answers.
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
        with redirect_stdout(sys.stderr):  # Ray prints its retries to stdout, which is for data
            yield RayTasks(ray, slots, threads, gpus)
    finally:
        ray.shutdown()


class RayTasks:
    """Workers on a Ray cluster."""

    def __init__(self, ray: Any, slots: int | None, threads: int, gpus: float):
        self.ray, self.slots = ray, slots
        self.running: dict[Any, jobs.TrainingJob] = {}
        resources = {"num_cpus": threads, "num_gpus": gpus}
        self.task = ray.remote(**resources, max_retries=RETRIES, retry_exceptions=[KilledError])(_run)

    def start(self, job: jobs.TrainingJob) -> None:
        self.running[self.task.remote(job)] = job

    def ended(self) -> Sequence[jobs.Ended]:
        tasks, _ = self.ray.wait(list(self.running), num_returns=len(self.running), timeout=0)
        return [jobs.Ended(self.running.pop(task), *self._result(task)) for task in tasks]

    def _result(self, task: Any) -> tuple[int, str]:
        """Exit code and reason of a task that ended."""
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


def _run(job: jobs.TrainingJob) -> tuple[int, str]:
    """Run one job on the machine that Ray chose; return its exit code and last line.

    If Ray cancels the task, the job is interrupted and saves before this returns. Raises KilledError for a retry.
    """
    if not job.log.exists():
        raise TrainingError(
            f"{job.folder} of {job.host} is not on this machine. Choose an --out that all machines share."
        )
    state = jobs.run([job], jobs.LocalProcesses(1))[job.name]
    code = state.exit_code if state.exit_code is not None else jobs.INTERRUPTED
    if code < 0:
        raise KilledError(f"{state.text} ({RETRIES} retries)")
    return code, state.text
