"""No command, but the text and the JSON data of `rnnzoo show` for a registered model, a folder, or a repository on the Hub."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import registry
from zoo.checkpoints import configs, results
from zoo.checkpoints.references import Reference
from zoo.publishing import cards
from zoo.publishing.training_text import recipe_text
from zoo.registry.metrics import METRICS
from zoo.registry.schema import Config
from zoo.utils.text import counted

from .output import columns, dumped

if TYPE_CHECKING:
    from zoo.checkpoints.hub.browse import Description as Repository

Description = tuple[dict[str, Any], str]
"""(data, text): the data for --json, and the text to print without it."""


def describe(reference: Reference, timeout: float | None) -> Description:
    """Return (data, text) about the checkpoint that `reference` names: the data for --json, and the text to print otherwise.

    timeout: total seconds to wait for the Hub.
    """
    if reference.repo is not None:
        from zoo.checkpoints.hub import browse

        return _repository(reference.text, browse.describe(reference.repo, reference.revision, timeout))
    if reference.folder is not None:
        return _folder(reference.text, reference.folder)
    return _model(reference.text)


def _model(name: str) -> Description:
    entry, recorded, counts = registry.find(name), results.for_model(name), cards.counts(name)
    data: dict[str, Any] = {
        "name": name,
        **entry.config.model_dump(mode="json", include={"architecture", "interface"}),
        "task": {"name": entry.model.task, **entry.task.model_dump(mode="json")},
        "recipe": {"name": entry.model.recipe, **entry.recipe.model_dump(mode="json")},
        "parameters": counts.parameters,
        "multiply_adds": counts.multiply_adds,
        "reported": dumped(entry.model.reported),
        "measured": dumped(recorded.evaluations),
        "weights": entry.weights.model_dump(mode="json") if entry.weights else None,
    }
    return data, cards.summary(entry, recorded, counts)


def _repository(address: str, description: "Repository") -> Description:
    remote = description.remote
    rows: list[tuple[str, object]] = [
        ("commit", remote.revision),
        ("modified", remote.modified),
        ("private", {True: "yes", False: "no", None: None}[remote.private]),
        *_facts(description.config, description.evaluations),
        ("tags", ", ".join(remote.tags) or None),
    ]
    rows += [("file", file if size is None else f"{file}, {size:,} bytes") for file, size in description.files.items()]
    checkpoint = _checkpoint_data(description.config, description.evaluations)
    return {"name": address, **asdict(remote), **checkpoint, "files": description.files}, columns((address, ""), rows)


def _folder(name: str, folder: Path) -> Description:
    config = configs.read(folder / configs.FILE)
    recorded, _ = results.read_current(folder)
    rows = _facts(config, recorded.evaluations)
    if training := recorded.training:
        rows.append(("recipe", f"{training.recipe_name}: {recipe_text(training.recipe)}"))
        rows.append(("done", training.progress))
    training_data = training.model_dump(mode="json") if training else None
    data = {"name": name, **_checkpoint_data(config, recorded.evaluations), "training": training_data}
    return data, columns((name, ""), rows)


def _facts(config: Config, evaluations: Sequence[results.Evaluation]) -> list[tuple[str, object]]:
    interface = config.interface
    outputs = f"{interface.readout}, {counted(interface.outputs, 'output')}" if interface.outputs else "no head"
    return [
        ("model", config.name),
        *cards.architecture(config.architecture, interface, outputs),
        *([("classes", ", ".join(interface.classes))] if interface.classes else []),
        ("task", config.task),
        *(
            ("measured", f"{METRICS[e.metric].text(e.value)} on {counted(e.n, f'{e.split} example')}")
            for e in evaluations
        ),
    ]


def _checkpoint_data(config: Config, evaluations: Sequence[results.Evaluation]) -> dict[str, Any]:
    return {"config": config.model_dump(mode="json"), "measured": dumped(evaluations)}
