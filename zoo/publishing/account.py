"""How weights came about, in words: a recipe, what was done of it, and where it departs from a paper's."""

from typing import Any

from .. import registry
from ..checkpoints.results import Results, Training
from ..registry import Entry
from ..registry.metrics import METRICS
from ..registry.schema import Augmentation, Recipe, Stage
from ..utils.markdown import markdown


def recipe_text(recipe: Recipe) -> str:
    """A recipe in one line."""
    clip = f", gradient norm clipped at {recipe.max_grad_norm:g}" if recipe.max_grad_norm else ""
    mixed = "" if recipe.precision == "no" else f", mixed precision ({recipe.precision})"
    then = f"; {_later(recipe)}" if len(recipe.timeline) > 1 else ""
    return (
        f"{recipe.optimizer.name}, learning rate {recipe.optimizer.lr:g} ({recipe.schedule.name}), "
        f"batch {recipe.batch_size}, {recipe.epochs} epochs{clip}{mixed}{_augmented(recipe)}{then}"
    )


def _later(recipe: Recipe) -> str:
    """The stages after the first, as far as the recipe comes."""
    return "; ".join(
        f"after {stage.start_epoch} of them learning rate {stage.lr:g} ({stage.schedule.name}{_warm(stage)}){_augmented(stage)}"
        for stage, _ in recipe.timeline[1:]
    )


def _warm(stage: Stage) -> str:
    return f", {stage.schedule.warmup} steps of warm-up" if stage.schedule.warmup else ""


def _augmented(by: Augmentation) -> str:
    affine = by.affine
    amounts = {
        "turned": affine and affine.degrees and f"{affine.degrees:g}°",
        "scaled": affine and affine.scale and f"{100 * affine.scale:g} %",
        "sheared": affine and affine.shear and f"{affine.shear:g}°",
        "moved": by.shift and f"{by.shift} px",
    }
    done = [f"{verb} by up to {amount}" for verb, amount in amounts.items() if amount]
    return f", images {', '.join(done)}" if done else ""


def training_text(entry: Entry, results: Results) -> str:
    """The run that made a checkpoint, and its recipe beside the one that it follows."""
    training = results.training
    if training is None:
        return f"No checkpoint has been trained yet. The recipe is `{entry.model.recipe}`: {recipe_text(entry.recipe)}."
    done = f"{training.epochs_done} of {training.recipe.epochs} epochs{_time(training)}, {training.device}"
    text = (
        f"Recipe `{training.recipe_name}`, seed {training.recipe.seed}: {recipe_text(training.recipe)}. Done: {done}, "
        f"`{training.command}`."
    )
    if best := training.best:
        metric, first = METRICS[training.metric], training.history[0]
        threads = "" if training.threads is None else f", with `OMP_NUM_THREADS={training.threads}`"
        text += (
            f" The weights are those of epoch {best.epoch}, which had the lowest validation loss "
            f"({best.validation_loss:.4g}, {metric.title} {metric.text(best.validation_metric)})."
            f" The first epoch, which `--stop-after 1` trains alone{threads}: loss {first.train_loss:.4f}, "
            f"{metric.title} {metric.text(first.train_metric)}; validation {first.validation_loss:.4f}, "
            f"{metric.text(first.validation_metric)}."
        )
        if training.recipe.precision != "no":
            text += f" Training and validation were in {training.recipe.precision}, what was measured is in float32."
    if training.diverged:
        text += f" The run ended in epoch {training.diverged}, when the loss or its gradient was no longer finite."
    origin, model = followed(entry, training)
    if model is not None and model.unspecified:
        text += f" The paper does not give {' and '.join(model.unspecified)}."
    if model is not None and (rows := _departures(model, training.recipe)):
        whose, column = ("the paper's recipe,", "paper") if model.paper else ("the recipe", "recipe")
        recipe = entry.worded(training.recipe)
        why = f" {recipe.deviation}" if recipe.deviation else ""
        text += f"\n\nIt departs from {whose} `{origin}`.{why}\n\n{markdown(('', column, 'this checkpoint'), rows)}"
    return text


def followed(entry: Entry, training: Training) -> tuple[str, Recipe | None]:
    """Name of the recipe that a run's departs from, or is, and what the registry says that this is today."""
    name = entry.worded(training.recipe).based_on or training.recipe_name
    return name, registry.load_registry().recipes.get(name)


def _time(training: Training) -> str:
    """How long the run took, where its history says so."""
    seconds = training.history[-1].seconds if training.history else 0.0
    scale, unit = next((s, u) for s, u in ((3600, "h"), (60, "min"), (1, "s")) if seconds >= 2 * s or s == 1)
    return f" in {seconds / scale:.{int(unit == 'h')}f} {unit}" if seconds >= 1 else ""


def _departures(paper: Recipe, own: Recipe) -> list[tuple[str, str, str]]:
    """The settings in which two recipes differ, as far as a run by each comes."""
    a, b = ({**_flat(recipe.settings), "later stages": _later(recipe) or None} for recipe in (paper, own))
    differ = [k for k in a | b if k not in ("seed", "stages") and a.get(k) != b.get(k)]
    said = [["-" if side.get(k) is None else str(side[k]) for k in differ] for side in (a, b)]
    return [
        (k, "not given" if k.split()[0] in paper.unspecified else theirs, ours)
        for k, theirs, ours in zip(differ, *said, strict=True)
    ]


def _flat(given: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in given.items():
        flat |= {f"{key} {k}": v for k, v in _flat(value).items()} if isinstance(value, dict) else {key: value}
    return flat
