"""The studies of the papers, and the pages of docs/diagnostics that show them."""

from pathlib import Path

import pytest

from zoo import registry
from zoo.checkpoints import results
from zoo.errors import RequestError
from zoo.publishing import studies
from zoo.publishing.pages import diagnostics
from zoo.utils import paths


def test_stored_studies_are_of_the_weights_that_are_published() -> None:
    seen = set()
    for name in studies.STUDIES:
        for part in (diagnostics.study(name) or {}).values():
            if not str(part.setting.get("with", "")).startswith("trained"):
                continue
            entry = registry.find(part.setting["of"])
            training = results.for_model(entry.name).training
            pin = entry.weights and entry.weights.files["model.safetensors"].sha256
            digest = pin or (training and training.checkpoint_sha256)
            assert digest, entry.name
            assert part.setting["weights"] == digest[: studies.DIGITS], (name, entry.name)
            seen.add(entry.name)
    assert len(seen) > 8


def test_a_study_of_trained_networks_takes_no_others(tmp_path: Path) -> None:
    for runs in (None, tmp_path):
        with pytest.raises(RequestError, match="rnn-1x200-toxic-parts has no published weights"):
            next(studies.STUDIES["chen-dependency"](runs))


def test_the_readme_says_by_what_factors_gradients_shrink() -> None:
    study = diagnostics.study("star-lattice")
    assert study is not None
    means = [study[cell].mean.at(loss="last").values for cell in ("lstm", "star")]  # (layer, step)
    first, last = ([float(f"{mean[-1, -1] / mean[0, step]:.2g}") for mean in means] for step in (0, -1))
    text = " ".join(paths.path("README.md").read_text(encoding="utf-8").split())
    assert f"shrinks by a factor of {last[0] / 1e6:g} million in the LSTM and of {last[1]:,.0f} in STAR]" in text
    assert f"is {last[0] / 1e6:g} million times smaller at the lowest layer's last step" in text
    assert (
        f"in STAR, {last[1]:,.0f} times. At that layer's first step (bottom left) it is {first[0]:,.0f} and {first[1]} times"
        in text
    )


def test_pages_show_every_figure_and_verdict() -> None:
    shown = diagnostics.pages()
    assert {figure.paper for figure in diagnostics.FIGURES} <= set(registry.load_registry().papers)
    for figure in diagnostics.FIGURES:
        path = paths.path(*diagnostics.FOLDER, f"{figure.paper}.md")
        assert figure.title in shown[path], figure.study
        for claim in figure.claims:
            assert claim.text in shown[path]
    for text in shown.values():
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        assert {line.replace("\\|", "").count("|") for line in rows} == {4}  # three columns, whatever stands in them
    for path in diagnostics.pictures():
        assert path.stat().st_size < 150_000
