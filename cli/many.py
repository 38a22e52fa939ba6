"""`rnnzoo train` with a pattern, --jobs, --seeds or --ray: trains many models, each in a process, here or on a Ray cluster."""

import os
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from zoo import registry
from zoo.errors import RequestError, TrainingError
from zoo.training import jobs
from zoo.utils import files

from .output import CONTINUES, board, columns, emit, say

OPTIONS = {"epochs": "--epochs", "batch_size": "--batch-size", "seed": "--seed"}


class Resources(NamedTuple):
    """Where the jobs run, how many run at once, and what each job gets. None means the default of the option."""

    jobs: int | None
    """Number of jobs that run at once."""
    threads: int | None
    """CPU threads per job."""
    ray: str | None
    """Address of a Ray cluster. None means this machine."""
    gpus: float
    """GPUs per job on the cluster."""


def parse_seeds(text: str) -> list[int]:
    """Return the seeds in a text such as "0-4" or "0,3,7-9", each once.

    Raises RequestError for other texts, for a range that runs backwards, and for more than 1,000 seeds.
    """
    seeds: list[int] = []
    for part in text.split(","):
        spelt = re.fullmatch(r"\s*(\d{1,18})(?:-(\d{1,18}))?\s*", part)
        if not spelt:
            raise RequestError(f"--seeds is {text!r}; give seeds such as 0-4 or 0,3,7.")
        first, last = int(spelt[1]), int(spelt[2] or spelt[1])
        if last < first:
            raise RequestError(f"--seeds is {text!r}, but {first}-{last} runs backwards; give {last}-{first}.")
        if len(seeds) + last - first >= 1000:
            raise RequestError(f"--seeds is {text!r}; give at most 1,000 seeds.")
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))


def train(
    pattern: str, out: Path, device: str | None, overrides: dict[str, Any], stop_after: int | None, resources: Resources,
    as_json: bool, seeds: Sequence[int] = (),
) -> None:  # fmt: skip
    """Train every matching model in out/NAME or, once for each of `seeds`, in out/NAME/seed-N. Finished runs are skipped.

    overrides: new values of the recipe's fields. stop_after: the epoch after which each run stops; None for no early stop.

    Raises RequestError, before any run, for what cannot be trained and for an `out` that cannot be a folder; OSError for one that
    cannot be written to; TrainingError at the end if a run failed.
    """
    names = registry.list_models(pattern)
    if not names:
        raise registry.unknown_model(pattern)
    if "RANK" in os.environ:
        raise RequestError(
            "A launcher such as `accelerate launch` can train only one model. Run the command without a launcher."
        )
    if resources.gpus and resources.ray is None:
        raise RequestError("--gpus-per-job needs --ray: without --ray, every job runs on the same --device.")
    if place := files.obstacle(out):
        raise RequestError(f"{place} is not a folder. Choose another folder for the runs.")
    files.check_writable(out)
    each_seed: list[dict[str, Any]] = [{"seed": seed} for seed in seeds] or [{}]
    at_once = min(resources.jobs or 1, len(names) * len(each_seed))
    threads = resources.threads or (1 if resources.ray else max(1, _cores() // at_once))
    environment = jobs.environment(threads)
    states: dict[str, jobs.JobState] = {}
    pending, runs = [], []
    for name, of_run in product(names, each_seed):
        entry, changes = registry.find(name), {**overrides, **of_run}
        run = f"{name}/seed-{of_run['seed']}" if of_run else name
        folder = (out / run).absolute()
        runs.append(run)
        if jobs.is_finished(entry, entry.recipe_with(changes), folder):
            states[run] = jobs.JobState("skipped", text="was finished")
            continue
        options = {"--device": device, "--stop-after": stop_after, **{OPTIONS[key]: v for key, v in changes.items()}}
        arguments = [word for option, value in options.items() if value is not None for word in (option, str(value))]
        command = ("train", name, "--out", str(folder), *arguments)
        pending.append(jobs.TrainingJob(run, folder, command, environment))
    if pending:
        workers = jobs.open_workers(resources.jobs, resources.ray, threads, resources.gpus)
        with board(f"train {pattern}") as show, workers as started:
            states |= jobs.run(
                pending, started, lambda at: show({k: (s.phase, s.text) for k, s in (states | at).items()})
            )
    _summarise({run: states[run] for run in runs}, out, as_json)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _summarise(states: dict[str, jobs.JobState], out: Path, as_json: bool) -> None:
    """Print one row per run. Raises KeyboardInterrupt if a run was stopped, else TrainingError if one failed.

    states: by the folder of a run, relative to `out`: what became of the run.
    """
    rows = []
    for name, state in states.items():
        training = jobs.stored_training(out / name)
        best = training.best if training else None
        rows.append({
            "name": name, "folder": str(out / name), "state": state.phase, "exit_code": state.exit_code,
            "epochs_done": training.epochs_done if training else 0,
            "epochs": training.recipe.epochs if training else None,
            "best_epoch": best.epoch if best else None,
            "validation_loss": best.validation_loss if best else None, "text": state.text,
        })  # fmt: skip
    table = [
        (
            r["name"], r["state"], f"{r['epochs_done']}/{r['epochs'] or '-'}", r["best_epoch"],
            None if r["validation_loss"] is None else f"{r['validation_loss']:.4f}",
            r["text"] if r["state"] == "failed" else "",
        )
        for r in rows
    ]  # fmt: skip
    emit(rows, as_json, columns(("MODEL", "STATE", "EPOCHS", "BEST", "VALIDATION LOSS", ""), table))
    if any(state.phase == "stopped" for state in states.values()):
        say(CONTINUES)
        raise KeyboardInterrupt
    if failed := [name for name, state in states.items() if state.phase == "failed"]:
        raise TrainingError(
            f"{len(failed)} of {len(states)} runs failed: {', '.join(failed)}. "
            f"The reasons are in {out}/NAME/{jobs.LOG}. The same command tries the failed runs again."
        )
