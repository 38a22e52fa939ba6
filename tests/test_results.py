"""Figures kept without weights, and the page of those that no document reports."""

import json

from zoo import assets, cards, comparison, hub, pages, registry, results
from zoo.comparison import Row

NAME = "rnn-1x8-mnist-rows"


def evaluation(weights):
    """A figure of these weights, as `rnnzoo eval --record` writes it."""
    return results.Evaluation(
        model=NAME, task="mnist-rows", dataset="mnist", split="test", metric="accuracy", value=0.25, loss=2.0, n=8,
        dataset_sha256={}, checkpoint_sha256=weights, versions={}, device="cpu", date="2026-01-01", seconds=1.0,
        command="rnnzoo eval",
    )  # fmt: skip


def test_a_figure_is_kept_without_its_weights(small_zoo, run, tmp_path):
    small_zoo()
    folder = str(tmp_path / "run")
    assert run("train", NAME, "--out", folder, "--epochs", "1", "--device", "cpu")[0] == 0
    code, _, err = run("adopt", folder, "--results")
    assert code == 1
    assert "no figure of these weights. First: rnnzoo eval" in err
    weights = hub.sha256(tmp_path / "run" / "model.safetensors")
    results.write(tmp_path / "run", results.read(tmp_path / "run").record(evaluation(weights)))
    code, out, err = run("adopt", folder, "--results", "--json")
    assert code == 0
    assert "Kept without weights" in err
    home = assets.path("cards", NAME)
    assert json.loads(out) == {"name": NAME, "folder": str(home)}
    assert [path.name for path in home.iterdir()] == ["results.json"]
    (row,) = json.loads(run("list", NAME, "--json")[1])
    assert row["measured"] == 0.25
    assert registry.list_models(trained=True) == []
    card = cards.of(registry.find(NAME))
    assert f"Only the figures are kept, not the weights: `rnnzoo train {NAME}`" in card
    assert "measured, test" in card
    assert [r.model for r in comparison.rows(measured=True)] == [NAME]


def test_figures_of_a_model_with_weights_are_kept_with_them(run, tmp_path):
    for part in assets.path("cards", "rnn-1x128-mnist-rows").iterdir():
        (tmp_path / part.name).write_bytes(part.read_bytes())
    code, _, err = run("adopt", str(tmp_path), "--results")
    assert code == 2
    assert "has published weights" in err


def row(kind, layers, **changes):
    known = {
        "model": f"{kind}-{layers}x4-t", "kind": kind, "layers": layers, "units": 4, "task": "t", "task_title": "a task", "dataset": "d",
        "metric": "accuracy", "measured": 0.5, "split": "test", "n": 1000, "recipe": "r", "epochs_done": 1, "epochs": 2,
    }  # fmt: skip
    return Row(**known | changes)


def test_the_page_sets_cells_against_depths():
    rows = [row("star", 1, measured=0.75), row("rnn", 2), row("star", 2), row("rnn", 1, task="u", stand_in="others")]
    page = pages.measured_page(rows)
    assert "| layers | star | rnn |" in page
    assert "| 1 | [75.00 %](../cards/star-1x4-t/README.md) | - |" in page
    assert "| 2 | [50.00 %](../cards/star-2x4-t/README.md) | [50.00 %](../cards/rnn-2x4-t/README.md) |" in page
    assert (
        "## A task (`u`), 4 units\n\nAccuracy on 1,000 examples; recipe r, 1 of 2 epochs. They stand in for others"
        in page
    )
    assert "| `rnn-1x4-t` | [50.00 %](../cards/rnn-1x4-t/README.md) |" in page
    assert page.count("They stand in for") == 1
