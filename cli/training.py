"""`rnnzoo train` and `eval`: train a model, and measure it on its dataset."""

import os
import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from zoo import registry
from zoo.errors import RequestError
from zoo.registry.metrics import METRICS, TARGETS
from zoo.utils.arguments import is_pattern
from zoo.utils.text import ahead_text

from .arguments import MAX_THREADS, Address, AsJson, Device, model_argument, number
from .output import CONTINUES, columns, dumped, emit, progress, say


class SplitChoice(StrEnum):
    """The splits of a dataset."""

    train = "train"
    validation = "validation"
    test = "test"


def evaluate(
    name: Address,
    split: Annotated[SplitChoice, Option(help="The split to evaluate on.")] = SplitChoice.test,
    limit: Annotated[int | None, number("Evaluate only the first N examples.")] = None,
    batch_size: Annotated[int | None, number("Examples per batch (default: 500).")] = None,
    device: Device = None,
    runtime: Annotated[
        str | None,
        Option(help="Evaluate an exported file in its own runtime: pt2, onnx, openvino, executorch, c, wasm."),
    ] = None,
    quantize: Annotated[str | None, Option(help="int8: evaluate with 8-bit weights.")] = None,
    record: Annotated[bool, Option("--record", help="Store the result with the checkpoint.")] = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a checkpoint on its dataset, and show the paper's result."""
    from zoo.checkpoints.references import Reference
    from zoo.publishing import cards
    from zoo.training import evaluation
    from zoo.utils import paths

    reference = Reference.parse(name)
    if record and limit is not None:
        raise RequestError("Only whole splits are recorded: leave out --limit or --record.")
    if record and reference.repo is not None:
        raise RequestError(
            f"{name} has no folder to record a result in: leave out --record, or copy it: rnnzoo pull {name} --to FOLDER"
        )
    if record and reference.model is not None:
        paths.writable()
    if record:
        evaluation.check_recordable(name)  # before the work
    if runtime is None:
        _say_if_slow(device)
    with progress(f"eval {name}") as bar:
        result = evaluation.evaluate(
            name, split=split.value, limit=limit, batch_size=batch_size or evaluation.BATCH_SIZE, device=device, runtime=runtime,
            quantize=quantize, report=bar,
        )  # fmt: skip
    # A user's own weights have no recorded seed, and are not compared with a paper's figure.
    comparable = reference.model is not None or result.seed is not None
    reported = registry.models()[result.model].reported if comparable and result.model in registry.models() else ()
    papers = registry.load_registry().papers
    where = f"{runtime or 'torch'}{f', {quantize}' if quantize else ''}, " if runtime or quantize else ""
    details = f"n = {result.n:,}, {where}{result.device}, {result.seconds:g} s"
    metric = METRICS[result.metric]
    rows = [(f"measured, {result.split}", metric.text(result.value), details)]
    rows += [(ahead_text(horizon), metric.text(value), "") for horizon, value in result.by_horizon.items()]
    rows += [("reported", figure.text, cards.source(figure, papers[figure.paper])) for figure in reported]
    data = {**result.model_dump(mode="json"), "reported": dumped(reported)}
    emit(data, as_json, columns((name, result.metric.upper(), ""), rows))
    if record:
        say(f"Recorded in {evaluation.record(name, result)}")
        if reference.model is not None:
            from zoo.publishing import release

            say(f"Wrote {release.write_card(reference.model)}")


def train(
    name: Annotated[str, model_argument("A model's name, or a pattern such as 'star-*'.")],
    out: Annotated[Path | None, Option(help="Folder of the run (default: runs/NAME); several use OUT/NAME.")] = None,
    device: Device = None,
    epochs: Annotated[int | None, number("Epochs to train (default: the recipe's).")] = None,
    batch_size: Annotated[int | None, number("Examples per batch (default: the recipe's).")] = None,
    seed: Annotated[int | None, number("Seed of the run (default: the recipe's).", 0)] = None,
    seeds: Annotated[str | None, Option(help="Train once for each seed, such as 0-4, into OUT/NAME/seed-N.")] = None,
    stop_after: Annotated[int | None, number("Stop after epoch N. Run again without this option to continue.")] = None,
    jobs: Annotated[int | None, number("Models of a pattern to train at once (default: 1; with --ray, all).")] = None,
    threads_per_job: Annotated[
        int | None, number("CPU threads per model (default: an equal share; --ray: 1).", 1, MAX_THREADS)
    ] = None,
    ray: Annotated[str | None, Option(help="Ray cluster: its address, `auto`, or `local` to start one.")] = None,
    gpus_per_job: Annotated[float, number("GPUs per model with --ray; 0.5 shares one between two.", 0)] = 0.0,
    diagnose: Annotated[str, Option(help="Diagnostics of each epoch to record, comma-separated: noh, gradients.")] = "",
    as_json: AsJson = False,
) -> None:
    """Train a model by its recipe, or continue an interrupted run. A pattern trains every model that matches.

    To train one model in several processes or on several machines:

    accelerate launch OPTIONS -m rnnzoo_cli train NAME
    """
    replacements = {"epochs": epochs, "batch_size": batch_size, "seed": seed}
    overrides: dict[str, Any] = {key: value for key, value in replacements.items() if value is not None}
    diagnostic_names = [part.strip() for part in diagnose.split(",") if part.strip()]
    if seeds is not None and seed is not None:
        raise RequestError("--seed and --seeds exclude each other: leave one of them out.")
    if jobs or ray is not None or seeds is not None or is_pattern(name):
        from . import many

        if diagnostic_names:
            raise RequestError("--diagnose works with one run only: leave out --diagnose.")
        resources = many.Resources(jobs, threads_per_job, ray, gpus_per_job)
        chosen = () if seeds is None else many.parse_seeds(seeds)
        many.train(name, out or Path("runs"), device, overrides, stop_after, resources, as_json, chosen)
        return
    if threads_per_job or gpus_per_job:
        raise RequestError(
            "--threads-per-job and --gpus-per-job need several models, --jobs, --seeds or --ray. Leave them out."
        )
    entry, folder = registry.find(name), out or Path("runs") / name  # find raises before torch is imported
    _train_one(entry, folder, device, overrides, stop_after, diagnostic_names, as_json)


def _train_one(
    entry: "registry.Entry", folder: Path, device: str | None, overrides: dict[str, Any], stop_after: int | None,
    diagnostic_names: Sequence[str], as_json: bool,
) -> None:  # fmt: skip
    """Train one model in this process in `folder`, and print its progress and the result.

    overrides: new values of the recipe's fields. stop_after: the epoch after which to stop; None for no early stop.
    diagnostic_names: the diagnostics to record after every epoch.
    """
    from zoo import diagnostics
    from zoo.training import Progress, trainer

    _say_if_slow(device)
    recorders = {analysis: diagnostics.recorder(analysis) for analysis in diagnostic_names}
    measure = TARGETS[entry.task.target]
    with progress(f"train {entry.name}") as bar:

        def report(at: Progress) -> None:
            rate = f"{at.rate:.1f} steps/s, {at.remaining / 60:.0f} min left"
            bar(
                at.step, at.steps, f"epoch {at.epoch}/{at.epochs}  loss {measure.with_loss(at.loss, at.metric)}  {rate}"
            )
            if row := at.finished:
                trained = measure.with_loss(row.train_loss, row.train_metric)
                validated = measure.with_loss(row.validation_loss, row.validation_metric)
                say(f"epoch {at.epoch}/{at.epochs}: train loss {trained}; validation loss {validated}; {rate}")

        try:
            training = trainer.train(
                entry, folder, device=device, overrides=overrides, report=report, stop_after=stop_after,
                recorders=recorders,
            )  # fmt: skip
        except KeyboardInterrupt:
            say(CONTINUES)
            raise
    if training.best is not None and os.environ.get("RANK", "0") == "0":
        best = (
            f"the best by validation loss is epoch {training.best.epoch}, "
            f"validation {measure.text(training.best.validation_metric)}"
        )
        bare = [str(row.epoch) for row in training.history if not recorders.keys() <= row.diagnostics.keys()]
        if bare:
            epochs = f"Epoch {bare[0]} was" if len(bare) == 1 else f"Epochs {', '.join(bare[:-1])} and {bare[-1]} were"
            say(f"{epochs} trained before, without --diagnose {','.join(diagnostic_names)}.")
        summary = f"{folder}: {training.progress}, {training.ending}{best}"
        emit({"folder": str(folder), **training.model_dump(mode="json")}, as_json, summary)
        say(f"Next: rnnzoo eval {shlex.quote(str(folder))} --record")


def _say_if_slow(device: str | None) -> None:
    """Print a message if `device` is a CPU and no C++ scan was built. Raises RequestError for an unknown device."""
    from zoo.networks.base import resolve_device
    from zoo.networks.kernels import interface

    if resolve_device(device).type == "cpu" and interface.library() is None:
        say("The C++ scans are missing, so a CPU is several times slower. `rnnzoo doctor` says how to build them.")
