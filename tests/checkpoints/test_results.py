"""Figures kept without weights, and the page of those that no document reports."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from helpers import flip

from zoo import load, registry
from zoo.checkpoints import configs, results, tensors
from zoo.errors import CheckpointError
from zoo.publishing import cards, comparison, generated
from zoo.publishing.comparison import Row
from zoo.publishing.pages import measured as measured_page
from zoo.registry import lock
from zoo.registry.schema import Pin
from zoo.training import trainer
from zoo.utils import paths
from zoo.utils.files import sha256

NAME = "rnn-1x8-mnist-rows"
HISTORIES = {
    name: found.history for name in registry.models() if (found := results.for_model(name).training) and found.history
}


def evaluation(weights):
    """A figure of these weights, as `rnnzoo eval --record` writes it."""
    return results.Evaluation(
        model=NAME, task="mnist-rows", dataset="mnist", split="test", metric="accuracy", value=0.25, loss=2.0, n=8,
        dataset_sha256={}, checkpoint_sha256=weights, versions={}, device="cpu", date="2026-01-01", seconds=1.0,
        command="rnnzoo eval",
    )  # fmt: skip


def test_a_figure_is_kept_without_its_weights(small_zoo, run, tmp_path):
    small_zoo({"epochs": 1})
    folder = str(tmp_path / "run")
    assert run("train", NAME, "--out", folder, "--device", "cpu")[0] == 0
    code, _, err = run("release", folder, "--results")
    assert code == 1
    assert "the weights were not measured. Run first: rnnzoo eval" in err
    weights = sha256(tmp_path / "run" / "model.safetensors")
    results.write(tmp_path / "run", results.read(tmp_path / "run").record(evaluation(weights)))
    code, out, err = run("release", folder, "--results", "--json")
    assert code == 0
    assert err.splitlines()[-1] == "Recorded the figures only. Next: commit it"
    home = paths.path("cards", NAME)
    assert json.loads(out) == {"name": NAME, "folder": str(home)}
    assert sorted(path.name for path in home.iterdir()) == ["README.md", "results.json"]
    (row,) = json.loads(run("list", NAME, "--json")[1])
    assert row["measured"] == 0.25
    assert registry.list_models(pretrained=True) == []
    card = cards.render(registry.find(NAME))
    assert f"Only the figures are published, not the weights: `rnnzoo train {NAME}`" in card
    assert "measured, test" in card
    assert [r.model for r in comparison.rows(measured=True)] == [NAME]


def test_a_run_that_diverged_in_its_first_epoch_is_recorded_without_a_figure(small_zoo, run, tmp_path):
    small_zoo({"optimizer": {"name": "sgd", "lr": 1e30}, "max_grad_norm": None}, cell="irnn")
    name, folder = NAME.replace("rnn", "irnn"), str(tmp_path / "run")
    assert run("train", name, "--out", folder, "--device", "cpu")[0] == 1
    step = results.read(tmp_path / "run").training.diverged_step
    code, _, err = run("release", folder)
    assert (code, "the run diverged. To record that: rnnzoo release" in err) == (1, True)
    assert not paths.path("cards", name).exists()
    code, _, err = run("release", folder, "--results")
    assert (code, "eval" in err) == (0, False)
    assert run("release", folder, "--results")[0] == 0  # again, nothing is replaced
    assert "none: the run diverged" in run("show", name)[1]
    (row,) = comparison.rows(measured=True)
    assert row.measured_text == f"diverged in step {step} (epoch 1)"
    assert (row.measured, row.seed_text, row.training_text) == (None, "0", "small, 0 of 3 epochs; diverged")
    assert measured_page._unreported() == []
    card = cards.render(registry.find(name))
    assert f"it ended in step {step} (epoch 1), when the loss or a gradient became infinite or NaN." in card
    assert "- The run diverged before there were weights to measure." in card
    assert f"| measured | diverged in step {step} (epoch 1) |" in card
    assert "Only the figures are published" not in card
    found = results.read(tmp_path / "run")
    other = found.training.model_copy(
        update={"diverged_step": step + 1, "recipe": found.training.recipe.model_copy(update={"seed": 1})}
    )
    results.write(tmp_path / "run", found.model_copy(update={"training": other}))
    code, _, err = run("release", folder, "--results")
    assert (code, f"has a released run already (seed 0, 0 of 3 epochs, diverged in step {step} (epoch 1))" in err) == (
        2,
        True,
    )
    smaller = other.model_copy(update={"parameters": 5})
    results.write(tmp_path / "run", found.model_copy(update={"training": smaller}))
    code, _, err = run("release", folder, "--results", "--force")
    assert (code, "the run's network has 5 parameters, but" in err) == (1, True)


def test_a_lost_run_beside_measured_ones_is_recorded_by_their_release(small_zoo, run, tmp_path):
    small_zoo({"epochs": 1})
    for seed in (0, 1):
        folder = tmp_path / f"seed-{seed}"
        assert run("train", NAME, "--out", str(folder), "--device", "cpu", "--seed", str(seed))[0] == 0
        found = results.read(folder)
        if seed:
            found = found.record(evaluation(sha256(folder / "model.safetensors")))
        else:
            lost = {"history": (), "epochs_done": 0, "checkpoint_sha256": None, "diverged": 1, "diverged_step": 1}
            found = results.Results(training=found.training.model_copy(update=lost))
            (folder / "model.safetensors").unlink()
        results.write(folder, found)
    code, _, err = run("release", str(tmp_path / "seed-0"), "--results")
    assert (code, "runs of other seeds next to it were measured. Release the folder of one of them" in err) == (1, True)
    assert run("release", str(tmp_path / "seed-1"), "--results")[0] == 0
    assert results.for_model(NAME).diverged_seeds == (0,)
    card = cards.render(registry.find(NAME))
    assert "The run with seed 0 diverged." in card
    assert "variation over seeds" not in card


def test_the_mean_is_the_same_whichever_seed_was_released(small_zoo):
    small_zoo({"epochs": 3})
    of = [
        evaluation("a" * 64).model_copy(update={"value": value, "seed": seed})
        for seed, value in enumerate((0.2, 0.4, 0.6))
    ]
    entry, recipe = registry.find(NAME), registry.find(NAME).recipe
    training = results.Training(
        model=NAME, recipe_name="small", recipe=recipe, epochs_done=1, parameters=1, device="cpu", versions={}, command="c",
        processes=1,
    )  # fmt: skip
    epoch = results.Epoch(
        epoch=1, lr=1, train_loss=1, train_metric=0, validation_loss=1, validation_metric=0, gradient_norm=1, seconds=1
    )
    training = training.model_copy(update={"history": (epoch,)})
    lost = training.model_copy(update={"diverged": 2})
    first = results.Results(training=lost, evaluations=(of[0],), other_seeds=(of[1], of[2]))
    other = results.Results(training=training, evaluations=(of[1],), other_seeds=(of[2],), diverged_seeds=(0,))
    for released in (first, other):
        (row,) = comparison.rows(NAME, results_of=lambda name, released=released: [released])
        assert (row.measured, row.runs, row.diverged_runs) == (pytest.approx(0.5), 2, 1)
    (alone,) = comparison.rows(NAME, results_of=lambda name: [results.Results(training=lost, evaluations=(of[0],))])
    assert (alone.measured, alone.runs, alone.diverged_runs) == (0.2, 1, 0)
    assert "mean of 2 seeds" in cards._over_seeds(entry, first)[0]


def test_weights_are_released_rounded_to_float16(small_zoo, run, tmp_path):
    small_zoo({"epochs": 1})
    folder, home = tmp_path / "run", paths.path("cards", NAME)
    assert run("train", NAME, "--out", str(folder), "--device", "cpu")[0] == 0
    assert run("eval", str(folder), "--record", "--device", "cpu")[0] == 0
    trained, weights = load(folder, device="cpu"), "model.safetensors"
    assert results.read(folder).measured() is not None
    code, _, err = run("release", str(folder), "--half")
    assert (code, f"Next: rnnzoo eval {NAME} --record" in err) == (0, True)
    assert {stored.dtype for stored in tensors.header(home / weights).values()} == {"F16"}
    released, found = load(NAME, device="cpu"), results.for_model(NAME)
    for name, tensor in trained.state_dict().items():
        assert released.state_dict()[name].dtype == torch.float32
        assert torch.equal(released.state_dict()[name], tensor.half().float())
    assert (found.measured(), found.training.rounded_sha256) == (None, sha256(home / weights))
    assert run("eval", NAME, "--record", "--device", "cpu")[0] == 0  # the figure of the rounded weights
    assert results.for_model(NAME).measured().checkpoint_sha256 == sha256(home / weights)
    assert run("card", NAME, "--write")[0] == 0
    assert "They are published rounded to float16." in (home / "README.md").read_text()
    assert run("verify", NAME)[0] == 0
    before = (home / weights).read_bytes()
    assert run("release", str(home), "--half")[0] == 0  # in place, and already rounded
    assert (home / weights).read_bytes() == before
    assert results.for_model(NAME).measured() is not None


def test_a_release_in_float16_refuses_what_float16_cannot_hold(small_zoo, run, tmp_path):
    small_zoo({"epochs": 1})
    assert run("train", NAME, "--out", str(tmp_path), "--device", "cpu")[0] == 0
    network = load(tmp_path, device="cpu")
    with torch.no_grad():
        network.head.bias[0] = 1e5
    network.save_pretrained(tmp_path)
    found = results.read(tmp_path)
    training = found.training.model_copy(update={"checkpoint_sha256": sha256(tmp_path / "model.safetensors")})
    results.write(tmp_path, found.model_copy(update={"training": training}))
    code, _, err = run("release", str(tmp_path), "--half")
    assert (code, "cannot be rounded to float16: head.bias has values that are infinite or NaN" in err) == (1, True)
    assert not (paths.path("cards", NAME) / "model.safetensors").exists()
    code, _, err = run("release", str(tmp_path), "--half", "--results")
    assert (code, "there are none to round: leave out --half" in err) == (2, True)


def test_what_is_no_history_is_a_damaged_file(tmp_path):
    training = results.for_model("rnn-1x128-mnist-rows").training.model_dump(mode="json")
    (tmp_path / results.FILE).write_text(json.dumps({"training": {**training, "history": [None]}}))
    with pytest.raises(CheckpointError, match="history"):
        results.read(tmp_path)


def test_cards_say_what_the_run_was_and_not_what_the_recipe_is_now():
    name = "star-16x64-pmnist"
    entry, found = registry.find(name), results.for_model(name)
    departs = "It differs from the paper's recipe, `star-mnist`."
    assert f"{departs} {entry.recipe.deviation}" in cards.render(entry)  # today's words of the same recipe
    other = found.training.recipe.model_copy(update={"epochs": 10, "deviation": "Once."})
    training = found.training.model_copy(update={"recipe": other, "epochs_done": 10})
    kept, count = found.model_copy(update={"training": training}), cards.counts(name)
    text = cards.compose(replace(entry, weights=None), kept, count)
    assert f"{departs} Once." in text
    assert "| later stages" not in text  # it did not come to its second stage
    assert "Only the figures are published, not the weights.\n" in text
    assert f"```console\nrnnzoo train {name}\n```" in text
    assert "trained by" in cards.summary(entry, kept, count)
    assert "trained by" not in cards.summary(entry, found, count)
    assert "It differs from the recipe `mnist-rows`." in cards.render(registry.find("rnn-1x128-mnist-rows.omega"))


def test_a_release_needs_a_writable_zoo_and_weights_that_a_run_trained(small_zoo, run, tmp_path, monkeypatch):
    small_zoo({"epochs": 1})
    folder = tmp_path / "run"
    assert run("train", NAME, "--out", str(folder), "--device", "cpu")[0] == 0
    for flags in ((), ("--results",)):
        with monkeypatch.context() as patch:
            patch.setattr(paths, "PACKAGED", True)
            code, _, err = run("release", str(folder), *flags)
        assert (code, "is an installed package" in err) == (2, True)
    (folder / results.FILE).rename(folder / "kept")
    code, _, err = run("release", str(folder))
    assert (code, "results.json is missing or does not describe how the weights were trained" in err) == (1, True)
    (folder / "kept").rename(folder / results.FILE)
    flip(folder / "model.safetensors")
    code, _, err = run("release", str(folder))
    assert (code, "results.json does not describe the weights" in err) == (1, True)
    (folder / "model.safetensors").unlink()
    code, _, err = run("release", str(folder), "--results")
    assert (code, "no model.safetensors" in err) == (1, True)


def test_a_generated_part_without_its_end_takes_nothing_with_it():
    assert generated._replaced(f"a\nM\nold\n{generated.END}\nb", "M", "new") == f"a\nM\nnew\n{generated.END}\nb"
    with pytest.raises(ValueError, match="would be lost"):
        generated._replaced("a\nM\nold\nb", "M", "new")


def test_figures_of_a_model_with_weights_are_kept_with_them(run, tmp_path):
    for part in paths.path("cards", "rnn-1x128-mnist-rows").iterdir():
        (tmp_path / part.name).write_bytes(part.read_bytes())
    code, _, err = run("release", str(tmp_path), "--results")
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
    page = measured_page.page(rows)
    assert "| layers | star | rnn |" in page
    assert "| 1 | [75.00 %](../cards/star-1x4-t/README.md) | - |" in page
    assert "| 2 | [50.00 %](../cards/star-2x4-t/README.md) | [50.00 %](../cards/rnn-2x4-t/README.md) |" in page
    assert (
        "## A task (`u`), 4 units\n\nAccuracy on 1,000 examples; recipe r, 1 of 2 epochs. The data stand in for others"
        in page
    )
    assert "| `rnn-1x4-t` | [50.00 %](../cards/rnn-1x4-t/README.md) |" in page
    assert page.count("The data stand in for") == 1


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", [name for name, (first, *_) in HISTORIES.items() if first.seconds < 5])
def test_the_first_epoch_again(name, tmp_path, monkeypatch):
    entry, overrides = registry.find(name), results.for_model(name).training.overrides
    build = trainer.build

    def first_epoch(seed=None):
        def nudged(*args, **options):
            network, generator = build(*args, **options), torch.Generator().manual_seed(seed)
            for weight in network.parameters():
                signs = torch.randint(0, 2, weight.shape, generator=generator) * 2 - 1
                weight.data *= 1 + signs * torch.finfo(weight.dtype).eps
            return network

        monkeypatch.setattr(trainer, "build", build if seed is None else nudged)
        found = trainer.train(entry, tmp_path / str(seed), device="cpu", overrides=overrides, stop_after=1)
        return found.history[0].model_dump(exclude={"seconds", "diagnostics"})

    recorded, again = HISTORIES[name][0].model_dump(exclude={"seconds", "diagnostics"}), first_epoch()
    if again != pytest.approx(recorded, rel=1e-4):
        # another processor rounds sums otherwise: the difference may be as large as weights nudged by one rounding make it
        nudged = [again, *map(first_epoch, range(4))]
        for key, value in recorded.items():
            low, high = (limit(epoch[key] for epoch in nudged) for limit in (min, max))
            assert value == pytest.approx((low + high) / 2, rel=1e-4, abs=1.5 * (high - low)), (key, nudged)


def test_a_figure_replaces_only_its_own():
    test = results.for_model("rnn-1x128-mnist-rows").measured()
    other = test.model_copy(update={"split": "validation"})
    kept = results.Results().record(test).record(other).record(test.model_copy(update={"value": 0.5}))
    assert [(e.split, e.value) for e in kept.evaluations] == [("validation", test.value), ("test", 0.5)]


def test_pictures_can_be_stale_too(monkeypatch):
    monkeypatch.setattr(generated, "outputs", lambda counts: {})
    monkeypatch.setattr(generated, "stale_drawings", dict)
    monkeypatch.setattr(generated, "stale_pictures", lambda: {"a.png": ()})
    assert generated.stale() == ["a.png"]


def test_pins_that_are_made_while_files_are_generated_stay(tmp_path, monkeypatch):
    file = {"sha256": "a" * 64, "size": 1}
    pin = Pin(repo="o/n", files={tensors.FILE: file, configs.FILE: file})
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["generated"])
    monkeypatch.setattr(generated, "tables", lambda: lock.pin("first", pin) and {"counts": {}})
    monkeypatch.setattr(generated, "outputs", lambda counts: lock.pin("second", pin) and {})
    for name in ("stale_drawings", "stale_pictures"):
        monkeypatch.setattr(generated, name, dict)
    lock.load_lock()
    assert generated.main() == 0
    assert lock.read(paths.path(*lock.FILE)).weights.keys() == {"first", "second"}
    registry.clear_caches()


def test_figures_of_other_weights_are_left_out_in_every_runtime():
    full = evaluation("a" * 64)
    elsewhere = results.RuntimeEvaluation(**full.model_dump(), runtime="onnx")
    found = results.Results().record(full).record(elsewhere)
    assert found.of_weights("a" * 64) == found
    assert found.of_weights("b" * 64) == results.Results()


def test_a_name_that_occurs_twice_is_refused(tmp_path):
    """A reader would drop one of the two values without a word."""
    (tmp_path / results.FILE).write_text('{"collapsed_seeds": [1], "collapsed_seeds": []}')
    with pytest.raises(CheckpointError, match=r"not a valid results\.json: 'collapsed_seeds' occurs twice"):
        results.parse(tmp_path / results.FILE)
