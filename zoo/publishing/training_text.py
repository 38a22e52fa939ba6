"""Recipes and training runs in words: the settings, what a run did, and where it departs from a paper's recipe."""

from typing import Any

from .. import registry
from ..checkpoints.results import Results, Training
from ..registry import Entry
from ..registry.metrics import METRICS
from ..registry.schema import Augmentation, Recipe, Stage
from ..utils.text import markdown


def recipe_text(recipe: Recipe) -> str:
    """A recipe in one line."""
    clip = f", gradient norm clipped at {recipe.max_grad_norm:g}" if recipe.max_grad_norm else ""
    mixed = "" if recipe.precision == "no" else f", mixed precision ({recipe.precision})"
    later = f"; {_later_stages(recipe)}" if len(recipe.timeline) > 1 else ""
    return (
        f"{recipe.optimizer.name}, learning rate {recipe.optimizer.lr:g} ({recipe.schedule.name}), "
        f"batch size {recipe.batch_size}, {recipe.epochs} epochs{clip}{mixed}{_augmentation(recipe)}{later}"
    )


def _later_stages(recipe: Recipe) -> str:
    """The stages after the first that begin before the recipe's last epoch."""
    return "; ".join(
        f"after epoch {stage.start_epoch}, learning rate {stage.lr:g} "
        f"({stage.schedule.name}{_warmup(stage)}){_augmentation(stage)}"
        for stage, _ in recipe.timeline[1:]
    )


def _warmup(stage: Stage) -> str:
    return f", {stage.schedule.warmup} steps of warm-up" if stage.schedule.warmup else ""


def _augmentation(settings: Augmentation) -> str:
    affine = settings.affine
    amounts = {
        "rotated": affine and affine.degrees and f"{affine.degrees:g}°",
        "scaled": affine and affine.scale and f"{100 * affine.scale:g} %",
        "sheared": affine and affine.shear and f"{affine.shear:g}°",
        "shifted": settings.shift and f"{settings.shift} px",
    }
    changes = [f"{verb} by up to {amount}" for verb, amount in amounts.items() if amount]
    return f", images {', '.join(changes)}" if changes else ""


def training_text(entry: Entry, results: Results) -> str:
    """The run that trained a checkpoint, and a table of its departures from the recipe it is based on."""
    training = results.training
    if training is None:
        return f"No checkpoint has been trained yet. The recipe is `{entry.model.recipe}`: {recipe_text(entry.recipe)}."
    text = _run_text(training)
    name, base = base_recipe(entry, training)
    if base is not None and base.unspecified:
        text += f" The paper does not specify {' and '.join(base.unspecified).replace('_', ' ')}."
    if base is not None and (rows := _departures(base, training.recipe)):
        whose, column = ("the paper's recipe,", "paper") if base.paper else ("the recipe", "recipe")
        deviation = entry.with_reasons(training.recipe).deviation
        reason = f" {deviation}" if deviation else ""
        text += f"\n\nIt departs from {whose} `{name}`.{reason}\n\n{markdown(('', column, 'this checkpoint'), rows)}"
    return text


def _run_text(training: Training) -> str:
    """The recipe of a run, how far it went, and its best and its first epoch."""
    recipe = training.recipe
    text = (
        f"Recipe `{training.recipe_name}`, seed {recipe.seed}: {recipe_text(recipe)}. "
        f"Trained for {training.epochs_done} of {recipe.epochs} epochs{_duration(training)} on {training.device}: "
        f"`{training.command}`."
    )
    if best := training.best:
        metric, first = METRICS[training.metric], training.history[0]
        threads = "" if training.threads is None else f" and `OMP_NUM_THREADS={training.threads}`"
        text += (
            f" The weights are those of epoch {best.epoch}, which had the lowest validation loss "
            f"({best.validation_loss:.4g}, {metric.title} {metric.text(best.validation_metric)})."
            f" The first epoch, to compare with a run with `--stop-after 1`{threads}: "
            f"training loss {first.train_loss:.4f}, {metric.title} {metric.text(first.train_metric)}; "
            f"validation loss {first.validation_loss:.4f}, {metric.title} {metric.text(first.validation_metric)}."
        )
        if recipe.precision != "no":
            text += f" Training and validation ran in {recipe.precision}; the measured figures are in float32."
    if training.diverged:
        text += f" The run ended in epoch {training.diverged}, when the loss or a gradient became infinite or NaN."
    return text


def base_recipe(entry: Entry, training: Training) -> tuple[str, Recipe | None]:
    """Name of the recipe that a run's recipe is based on, or else of its own, and that recipe as the registry has it now."""
    name = entry.with_reasons(training.recipe).based_on or training.recipe_name
    return name, registry.load_registry().recipes.get(name)


def _duration(training: Training) -> str:
    """` in` and the time that a run took; "" if its history does not say."""
    seconds = training.history[-1].seconds if training.history else 0.0
    scale, unit = next((s, u) for s, u in ((3600, "h"), (60, "min"), (1, "s")) if seconds >= 2 * s or s == 1)
    return f" in {seconds / scale:.{int(unit == 'h')}f} {unit}" if seconds >= 1 else ""


def _departures(base: Recipe, actual: Recipe) -> list[tuple[str, str, str]]:
    """Setting, value in `base` and value in `actual` of every difference that affects the epochs of each."""
    theirs, ours = (
        {**_flatten(recipe.settings), "later stages": _later_stages(recipe) or None} for recipe in (base, actual)
    )
    names = [name for name in theirs | ours if name not in ("seed", "stages") and theirs.get(name) != ours.get(name)]
    return [
        (
            name.replace("_", " "),
            "not given" if name.split()[0] in base.unspecified else _text(theirs.get(name)),
            _text(ours.get(name)),
        )
        for name in names
    ]


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


def _flatten(settings: dict[str, Any]) -> dict[str, Any]:
    """Nested settings as one table, keys joined by spaces."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        nested = {f"{key} {k}": v for k, v in _flatten(value).items()} if isinstance(value, dict) else {key: value}
        flat |= nested
    return flat
