"""Describes recipes and training runs as text: settings, course of a run, differences from a paper's recipe."""

from typing import Any

from .. import registry
from ..checkpoints.results import Results, Training, collapsed
from ..registry import Entry
from ..registry.metrics import METRICS
from ..registry.schema import Augmentation, Recipe, Schedule, Stage
from ..utils.text import counted, markdown


def recipe_text(recipe: Recipe) -> str:
    """Return the settings of a recipe in one line of text."""
    clip = f", gradient norm clipped at {recipe.max_grad_norm:g}" if recipe.max_grad_norm else ""
    mixed = "" if recipe.precision == "no" else f", mixed precision ({recipe.precision})"
    later = f"; {_later_stages(recipe)}" if len(recipe.timeline) > 1 else ""
    patience = (
        f"; ends after {counted(recipe.patience, 'epoch')} without a lower validation loss" if recipe.patience else ""
    )
    rule = recipe.collapse
    collapse = f"; ends after epoch {rule.epochs} if no validation loss is below {rule.loss:g}" if rule else ""
    optimizer = recipe.optimizer
    if optimizer.penalty is not None:
        return f"ridge regression of the head, penalty {optimizer.penalty:g}, batch size {recipe.batch_size}{_augmentation(recipe)}"
    decay = f", weight decay {optimizer.weight_decay:g}" if optimizer.weight_decay else ""
    recurrence = f", {optimizer.recurrence_factor:g} times that for recurrences" if optimizer.recurrence_factor else ""
    return (
        f"{optimizer.name}, {_rate(optimizer.lr, recipe.schedule)}{recurrence}{decay}, "
        f"batch size {recipe.batch_size}, {counted(recipe.epochs, 'epoch')}{clip}{mixed}{_average(recipe)}{_augmentation(recipe)}{later}{patience}{collapse}"
    )


def _rate(lr: float, schedule: Schedule) -> str:
    """Return a learning rate and its schedule, such as "learning rate 0.002 (cosine over 14 epochs, 300 steps of warm-up)"."""
    length = f" over {counted(schedule.epochs, 'epoch')}" if schedule.epochs else ""
    warmup = f", {counted(schedule.warmup, 'step')} of warm-up" if schedule.warmup else ""
    return f"learning rate {lr:g} ({schedule.name}{length}{warmup})"


def _later_stages(recipe: Recipe) -> str:
    """Return a text about the later stages of `recipe`: those after the first that begin before its last epoch.

    A stage is a range of epochs with its settings, such as the learning rate.
    """
    texts = []
    for stage, _ in recipe.timeline[1:]:
        texts.append(
            f"after epoch {stage.start_epoch}, {_rate(stage.lr, stage.schedule)}{_average(stage)}{_augmentation(stage)}"
        )
    return "; ".join(texts)


def _average(settings: Stage | Recipe) -> str:
    return f", weights averaged with decay {settings.weight_average:g}" if settings.weight_average else ""


def _augmentation(settings: Augmentation) -> str:
    affine, elastic = settings.affine, settings.elastic
    amounts = {
        "rotated by up to": affine and affine.degrees and f"{affine.degrees:g}°",
        "scaled by up to": affine and affine.scale and f"{100 * affine.scale:g} %",
        "sheared by up to": affine and affine.shear and f"{affine.shear:g}°",
        "warped elastically with": elastic and f"α = {elastic.alpha:g} px and σ = {elastic.sigma:g} px",
        "shifted by up to": settings.shift and f"{settings.shift} px",
    }
    changes = [f"{change} {amount}" for change, amount in amounts.items() if amount]
    return f", images {', '.join(changes)}" if changes else ""


def training_text(entry: Entry, results: Results) -> str:
    """Return a text about the training run in `results`, with a table of its differences from the paper's recipe.

    If there was no run, the text only describes the recipe.
    """
    training = results.training
    if training is None:
        return f"No checkpoint has been trained yet. The recipe is `{entry.model.recipe}`: {recipe_text(entry.recipe)}."
    text = _run_text(training)
    name, base = base_recipe(entry, training)
    if base is not None and base.unspecified:
        text += (
            f" The paper does not specify {' or '.join(f'the {each}' for each in base.unspecified).replace('_', ' ')}."
        )
    if base is not None and (rows := _differences(base, training.recipe)):
        whose, column = ("the paper's recipe,", "paper") if base.paper else ("the recipe", "recipe")
        deviation = entry.with_reasons(training.recipe).deviation
        reason = f" {deviation}" if deviation else ""
        text += f"\n\nIt differs from {whose} `{name}`.{reason}\n\n{markdown(('', column, 'this run'), rows)}"
    return text


def _run_text(training: Training) -> str:
    """Return a text with a run's recipe, the epochs that it trained, and its best and its first epoch."""
    recipe = training.recipe
    text = (
        f"Recipe `{training.recipe_name}`, seed {recipe.seed}: {recipe_text(recipe)}. "
        f"Trained for {training.progress}{_duration(training)} on {training.device}: "
        f"`{training.command}`."
    )
    if best := training.best:
        metric, first = METRICS[training.metric], training.history[0]
        threads = "" if training.threads is None else f" and `OMP_NUM_THREADS={training.threads}`"
        text += (
            f" The figures are those of the weights after epoch {best.epoch}, which had the lowest validation loss "
            f"({metric.with_loss(best.validation_loss, best.validation_metric)})."
            f"{' They are published rounded to float16.' if training.rounded_sha256 else ''}"
            f" To check a run with `--stop-after 1`{threads}: after the first epoch, "
            f"the training loss was {metric.with_loss(first.train_loss, first.train_metric)}; "
            f"the validation loss was {metric.with_loss(first.validation_loss, first.validation_metric)}."
        )
        if recipe.precision != "no":
            text += f" Training and validation ran in {recipe.precision}; the measured figures are in float32."
    if training.diverged:
        text += (
            f" The run diverged: it ended in {training.divergence}, when the loss or a gradient became infinite or NaN."
        )
    if collapsed(training.history, recipe):
        text += f" The run collapsed: it ended after epoch {training.epochs_done}, because it was still at chance."
    return text


def base_recipe(entry: Entry, training: Training) -> tuple[str, Recipe | None]:
    """Return (name, recipe) of the recipe in the registry that the recipe of a training run is based on.

    If it is based on no other, these are the name of the run's recipe and the registry's recipe of that name. The recipe is
    None if the registry has none of that name.
    """
    name = entry.with_reasons(training.recipe).based_on or training.recipe_name
    return name, registry.load_registry().recipes.get(name)


def _duration(training: Training) -> str:
    """Return " in " and the time that a run took, such as " in 1.5 h"; "" if its history has no times."""
    seconds = training.history[-1].seconds if training.history else 0.0
    scale, unit = next((s, u) for s, u in ((3600, "h"), (60, "min"), (1, "s")) if seconds >= 2 * s or s == 1)
    return f" in {seconds / scale:.{int(unit == 'h')}f} {unit}" if seconds >= 1 else ""


def _differences(base: Recipe, actual: Recipe) -> list[tuple[str, str, str]]:
    """Return (setting, value in `base`, value in `actual`) for each setting in which the recipes differ."""
    theirs, ours = ({**_flatten(r.settings), "later stages": _later_stages(r) or None} for r in (base, actual))
    rows = []
    for name in theirs | ours:
        values = ["-" if value is None else str(value) for value in (theirs.get(name), ours.get(name))]
        if values[0] != values[1] and name not in ("seed", "stages"):
            their_value = "not given" if name.split()[0] in base.unspecified else values[0]
            rows.append((name.replace("_", " "), their_value, values[1]))
    return rows


def _flatten(settings: dict[str, Any]) -> dict[str, Any]:
    """Return nested settings as one dictionary, keys joined by spaces."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        nested = {f"{key} {k}": v for k, v in _flatten(value).items()} if isinstance(value, dict) else {key: value}
        flat |= nested
    return flat
