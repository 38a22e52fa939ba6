"""`rnnzoo eval` and `rnnzoo train`: the verbs that compute."""

import os
import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo import registry
from zoo.checkpoints.reference import SCHEME
from zoo.errors import RequestError
from zoo.publishing import cards
from zoo.registry.metrics import METRICS, TARGETS
from zoo.utils import paths

from . import many
from .catalogue import NameOrPath, NameOrPattern, is_pattern
from .output import AsJson, columns, emit, progress, say

Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps (default: the best there is).")]


class SplitChoice(StrEnum):
    train = "train"
    validation = "validation"
    test = "test"


def evaluate(
    name: NameOrPath,
    split: Annotated[SplitChoice, typer.Option(help="What to measure on.")] = SplitChoice.test,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many examples.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Examples at a time.")] = 500,
    device: Device = None,
    record: Annotated[bool, typer.Option("--record", help="Store the result beside the checkpoint.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint on real data, beside what the paper reports."""
    from zoo.training import evaluation

    if record and limit is not None:
        raise RequestError("Only whole splits are recorded: leave out --limit or --record.")
    if record and name.startswith(SCHEME):
        raise RequestError(f"{name} has no folder to record a result in: leave out --record.")
    if record and name in registry.models():
        paths.writable()
    with progress(f"eval {name}") as bar:
        found = evaluation.evaluate(
            name, split=split.value, limit=limit, batch_size=batch_size, device=device,
            report=lambda done, n: bar(done, n, f"{done}/{n}"),
        )  # fmt: skip
    published = name in registry.models() or found.seed is not None  # or made by its recipe
    reported = registry.models()[found.model].reported if published and found.model in registry.models() else ()
    papers = registry.load_registry().papers
    rows = [
        (
            f"measured, {found.split}",
            METRICS[found.metric].text(found.value),
            f"n = {found.n:,}, {found.device}, {found.seconds:g} s",
        )
    ]
    rows += [("reported", f"{figure.percent:g} %", cards.source(figure, papers[figure.paper])) for figure in reported]
    data = {**found.model_dump(mode="json"), "reported": [figure.model_dump(mode="json") for figure in reported]}
    emit(data, as_json, columns((name, found.metric.upper(), ""), rows))
    if record:
        say(f"Recorded in {evaluation.record(name, found)}")


def train(
    name: NameOrPattern,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the run (default: runs/NAME); of several, for DIR/NAME.")
    ] = None,
    device: Device = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Instead of the recipe's.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Instead of the recipe's.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Instead of the recipe's.")] = None,
    stop_after: Annotated[
        int | None, typer.Option(min=1, help="Stop after this epoch; without it, the same command goes on.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many models of a pattern at a time (default: 1; with --ray, all).")
    ] = None,
    threads_per_job: Annotated[
        int | None, typer.Option(min=1, help="Of the CPU (default: equal shares; with --ray, 1).")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster to train on, `auto`, or `local` to start one.")
    ] = None,
    gpus_per_job: Annotated[float, typer.Option(min=0.0, help="With --ray; a part of one is possible.")] = 0.0,
    diagnose: Annotated[
        str, typer.Option(help="Comma-separated: noh, gradients; recorded into the history after every epoch.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Train a model by its recipe, or continue where an interrupted run stopped; of a pattern, all that match.

    One model on several processes or machines: accelerate launch ITS-OPTIONS -m rnnzoo_cli train NAME
    """
    given = {"epochs": epochs, "batch_size": batch_size, "seed": seed}
    overrides: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    records = [part.strip() for part in diagnose.split(",") if part.strip()]
    if jobs or ray or is_pattern(name):
        if records:
            raise RequestError("--diagnose is for the training of one model.")
        where = many.Where(jobs, threads_per_job, ray, gpus_per_job)
        many.train(name, out or Path("runs"), device, overrides, stop_after, where, as_json)
        return
    if threads_per_job or gpus_per_job:
        raise RequestError("--threads-per-job and --gpus-per-job are for several models, or for --ray.")
    from zoo.training.trainer import Progress
    from zoo.training.trainer import train as run

    folder = out or Path("runs") / name
    entry = registry.find(name)
    text = TARGETS[entry.task.target].text
    with progress(f"train {name}") as bar:

        def report(at: Progress) -> None:
            rate = f"{at.rate:.1f} steps/s, {at.remaining / 60:.0f} min left"
            bar(at.step, at.steps, f"epoch {at.epoch}/{at.epochs}  loss {at.loss:.3f}  {text(at.metric)}  {rate}")
            if row := at.finished:
                say(f"epoch {at.epoch}/{at.epochs}: train loss {row.train_loss:.4f}, {text(row.train_metric)}; "
                    f"validation loss {row.validation_loss:.4f}, {text(row.validation_metric)}; {rate}")  # fmt: skip

        training = run(
            entry, folder, device=device, overrides=overrides, report=report, stop_after=stop_after, diagnose=records
        )
    if training.best is not None and os.environ.get("RANK", "0") == "0":
        best = f"the best is epoch {training.best.epoch}, validation {text(training.best.validation_metric)}"
        said = f"{folder}: {training.epochs_done} of {training.recipe.epochs} epochs, {best}"
        emit({"folder": str(folder), **training.model_dump(mode="json")}, as_json, said)
        say(f"Next: rnnzoo eval {shlex.quote(str(folder))}")
