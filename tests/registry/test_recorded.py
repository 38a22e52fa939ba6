"""Results and weights in cards/: whole, of the pinned weights, and reproducible by what they say."""

from pathlib import Path

import pytest

from zoo import list_models, spec
from zoo.checkpoints import results
from zoo.publishing import cards

CARDS = Path(__file__).resolve().parents[2] / "cards"


def test_results_without_weights_are_whole() -> None:
    for name in list_models(pretrained=False):
        found = results.for_model(name)
        if found.training or found.evaluations:
            assert found.measured() is not None or found.unmeasurable, name
            assert found.training is not None, name
            assert found.training.parameters == cards.counts(name).parameters, name
            assert not (CARDS / name / "model.safetensors").exists(), name


def test_recorded_commands_name_no_folder_of_one_machine() -> None:
    recorded = [results.read(path.parent) for path in CARDS.glob("*/results.json")]
    commands = [c for found in recorded for c in ([found.training.command] if found.training else [])]
    commands += [e.command for found in recorded for e in found.evaluations]
    assert commands
    assert [c for c in commands if " /" in c] == []


def test_no_figure_cites_weights_that_nobody_has() -> None:
    bare = [path.parent for path in CARDS.glob("*/results.json") if not (path.parent / "model.safetensors").exists()]
    cited = {folder.name: [e.command.split() for e in results.read(folder).evaluations] for folder in bare}
    assert any(cited.values())
    assert [name for name, commands in cited.items() if any(name in command for command in commands)] == []


def test_no_network_depends_on_the_rounding_that_it_was_trained_with() -> None:
    """Measured in float32, none is far from what its validation in lower precision says."""
    seen = 0
    for path in CARDS.glob("*/results.json"):
        found = results.read(path.parent)
        training, measured = found.training, found.measured()
        if training and training.best and measured and training.recipe.precision != "no":
            assert measured.loss < 1.5 * training.best.validation_loss + 0.05, path.parent.name
            seen += 1
    assert seen > 10


@pytest.mark.parametrize("name", list_models(pretrained=True))
def test_recorded_results_are_of_the_pinned_weights(name: str) -> None:
    entry, found = spec(name), results.for_model(name)
    assert entry.weights is not None
    assert found.training is not None
    assert found.measured() is not None
    assert {e.checkpoint_sha256 for e in found.evaluations} == {entry.weights.files["model.safetensors"].sha256}
    assert found.training.parameters == cards.counts(name).parameters
