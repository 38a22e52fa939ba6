"""Training: it learns, it resumes to the same result, it stops cleanly, its parts compute what they say."""

import errno
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from zoo import registry
from zoo.checkpoints import results
from zoo.checkpoints.configs import FILE as CONFIG
from zoo.checkpoints.tensors import FILE as WEIGHTS
from zoo.checkpoints.tensors import read_tensors, write_tensors
from zoo.data import mnist, task_data
from zoo.data.base import Split
from zoo.diagnostics import recorder
from zoo.errors import CheckpointError, RequestError, StorageError, TrainingError
from zoo.networks import loading
from zoo.networks.builder import build
from zoo.publishing import release
from zoo.publishing.training_text import recipe_text
from zoo.registry.schema import Augmentation, Config, Optimizer, Recipe, Schedule
from zoo.registry.schema.recipes import Collapse
from zoo.training import Progress, evaluation, state
from zoo.training.evaluation import check_recordable, evaluate, record
from zoo.training.regularisers import gradient_flow_penalty
from zoo.training.state import FILE as STATE
from zoo.training.state import State
from zoo.training.step import Updater, make_optimizer, schedule
from zoo.training.trainer import train
from zoo.utils import files
from zoo.utils.files import sha256

NAME = "rnn-1x8-mnist-rows"
Zoo = Callable[..., Path]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / WEIGHTS)


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def history(folder: Path) -> list[dict[str, Any]]:
    """The rows of the history without what depends on the clock."""
    training = results.read(folder).training
    assert training is not None
    return [row.model_dump(exclude={"seconds", "diagnostics"}) for row in training.history]


def test_a_run_learns_and_writes_everything(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 12, "optimizer": {"name": "adam", "lr": 0.02}})
    seen: list[Progress] = []
    found = train(registry.find(NAME), tmp_path / "run", device="cpu:0", report=seen.append)
    assert found.history[-1].train_metric > 0.4 > found.history[0].train_metric
    assert found.epochs_done == 12
    assert results.read(tmp_path / "run").training == found
    assert [p.step for p in seen] == list(range(1, 12 * 8 + 1))
    assert sum(p.finished is not None for p in seen) == 12
    assert seen[-1].remaining == 0
    assert (found.processes, found.threads) == (1, torch.get_num_threads())
    assert found.device == f"cpu ({torch.backends.cpu.get_cpu_capability()})"  # "cpu (AVX512)"
    assert found.parameters == 28 * 8 + 8 * 8 + 8 + 8 * 10 + 10
    network = loading.load(tmp_path / "run", device="cpu")
    assert network.config == registry.find(NAME).config


def test_the_kept_weights_are_those_of_the_best_epoch(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 60, "optimizer": {"name": "adam", "lr": 0.03}})  # long enough to overfit
    kept: dict[int, dict[str, torch.Tensor]] = {}

    def keep(at: Progress) -> None:
        if at.finished:
            kept[at.epoch] = weights(tmp_path / "run")

    found = train(registry.find(NAME), tmp_path / "run", device="cpu", report=keep)
    assert found.best is not None
    assert found.best.epoch < 60
    assert equal(kept[found.best.epoch], weights(tmp_path / "run"))


@pytest.mark.parametrize(
    ("recipe", "model"),
    [
        ({}, {"dropout": 0.3, "layers": 2, "recurrent_dropout": 0.2, "zoneout": 0.1}),
        ({"optimizer": {"name": "rmsprop", "lr": 0.001, "momentum": 0.5}}, {}),
        ({"optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9}, "schedule": {"name": "one-cycle"}}, {}),
        ({"tbptt_steps": 7, "precision": "bf16"}, {"cell": "lstm"}),
        ({"weight_average": 0.9}, {"cell": "lru"}),
        ({"stages": [{"start_epoch": 1, "lr": 0.01, "weight_average": 0.7}]}, {}),
        ({"optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0.1, "recurrence_factor": 0.1}}, {"cell": "lru"}),
        (
            {
                "stages": [
                    {
                        "start_epoch": 1,
                        "lr": 0.01,
                        "schedule": {"name": "cosine"},
                        "affine": {"degrees": 20},
                        "elastic": {"alpha": 34, "sigma": 4},
                        "shift": 2,
                    }
                ]
            },
            {},
        ),
    ],
)
def test_a_run_that_is_stopped_anywhere_goes_on_as_if_it_had_not_been(
    small_zoo: Zoo, tmp_path: Path, recipe: dict[str, Any], model: dict[str, Any]
) -> None:
    small_zoo(recipe, **model)
    name = next(name for name in registry.models() if name.endswith("mnist-rows") and "x8" in name)
    train(registry.find(name), tmp_path / "whole", device="cpu")

    class Stopped(Exception):
        pass

    for stop in (3, 8, 13, 21):  # within an epoch, at the end of one, and twice more

        def report(at: Progress, stop: int = stop) -> None:
            if at.step == stop + 1:  # the step after the last one that was saved
                raise Stopped

        with pytest.raises(Stopped):
            train(registry.find(name), tmp_path / "parts", device="cpu", report=report, save_seconds=0)
    train(registry.find(name), tmp_path / "parts", device="cpu")
    assert equal(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    assert history(tmp_path / "whole") == history(tmp_path / "parts")


def test_the_average_of_the_weights_is_validated_and_kept(
    small_zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo({"epochs": 1, "weight_average": 0.75})
    entry, update = registry.find(NAME), Updater.update
    steps: list[dict[str, torch.Tensor]] = []

    def watched(self: Updater, *given: Any, **options: Any) -> Any:
        found = update(self, *given, **options)
        steps.append({name: value.double().clone() for name, value in self.network.state_dict().items()})
        return found

    monkeypatch.setattr(Updater, "update", watched)
    train(entry, tmp_path / "run", device="cpu")
    average = steps[0]
    for network in steps[1:]:
        average = {name: 0.75 * value + 0.25 * network[name] for name, value in average.items()}
    assert len(steps) == 8
    for name, value in weights(tmp_path / "run").items():
        torch.testing.assert_close(value.double(), average[name], rtol=1e-5, atol=1e-7)
    assert not equal(weights(tmp_path / "run"), {name: value.float() for name, value in steps[-1].items()})
    (row,) = history(tmp_path / "run")
    assert evaluate(tmp_path / "run", split="validation", device="cpu").loss == pytest.approx(row["validation_loss"])
    assert "clipped at 1, weights averaged with decay 0.75" in recipe_text(entry.recipe)


def test_weights_that_another_program_replaced_are_not_the_runs(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 2})
    entry = registry.find(NAME)
    train(entry, tmp_path / "run", device="cpu")
    loading.save(build(entry, device="cpu", seed=99), tmp_path / "run")
    with pytest.raises(TrainingError, match="is not the file that this run wrote, its best weights"):
        train(entry, tmp_path / "run", device="cpu")


def test_results_without_a_state_are_not_overwritten(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 2})
    entry = registry.find(NAME)
    train(entry, tmp_path / "run", device="cpu")
    for file in (tmp_path / "run").iterdir():
        if file.name != results.FILE:
            file.unlink()
    before = (tmp_path / "run" / results.FILE).read_bytes()
    with pytest.raises(TrainingError, match="has the results of a run, but no state of it"):
        train(entry, tmp_path / "run", device="cpu")
    assert (tmp_path / "run" / results.FILE).read_bytes() == before


def test_a_run_is_of_the_threads_that_it_began_with(small_zoo: Zoo, tmp_path: Path) -> None:
    """They are what the first row of its history takes to come out again."""
    small_zoo({"epochs": 2})
    before = torch.get_num_threads()
    try:
        for threads in (2, 1):
            torch.set_num_threads(threads)
            train(registry.find(NAME), tmp_path / "run", device="cpu", stop_after=1 if threads == 2 else None)
            found = results.read(tmp_path / "run").training
            assert found is not None
            assert found.threads == 2
    finally:
        torch.set_num_threads(before)


SCRIPT = """
import sys
from pathlib import Path
from zoo import registry
from zoo.training.trainer import train
train(registry.find(sys.argv[1]), Path(sys.argv[2]), device="cpu", save_seconds=0)
"""


def test_sigkill_loses_nothing(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 40})
    train(registry.find(NAME), tmp_path / "whole", device="cpu")
    out = tmp_path / "killed"
    steps = set()
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, NAME, str(out)])
        before = (out / STATE).stat().st_mtime_ns if (out / STATE).exists() else 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if (out / STATE).exists() and (out / STATE).stat().st_mtime_ns != before:
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        facts = json.loads(bytes(read_tensors(out / STATE)["facts"].tolist()))
        steps.add(facts["step"])
    assert max(steps) < 320  # it was killed before it was done
    train(registry.find(NAME), out, device="cpu")
    assert equal(weights(tmp_path / "whole"), weights(out))
    assert history(tmp_path / "whole") == history(out)


def test_a_run_that_is_killed_between_its_first_results_and_their_state_goes_on(
    small_zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo({"epochs": 3})
    entry, out, write, states = registry.find(NAME), tmp_path / "killed", State.write, []
    train(entry, tmp_path / "whole", device="cpu")

    def full(self: State, path: Path) -> None:
        states.append(self.step)
        if len(states) == 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(State, "write", full)
        with pytest.raises(OSError, match="No space left"):
            train(entry, out, device="cpu")
    assert len(history(out)) == 1
    with pytest.raises(RequestError, match="was started with"):
        train(entry, out, device="cpu", overrides={"seed": 1})
    train(entry, out, device="cpu")
    assert equal(weights(tmp_path / "whole"), weights(out))
    assert history(tmp_path / "whole") == history(out)


def test_an_interruption_in_the_last_step_before_patience_ends_changes_nothing(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 9, "patience": 1, "optimizer": {"name": "sgd", "lr": 1e-30}})

    def report(at: Progress) -> None:
        if at.step == 2 * at.steps // 9 - 1:  # the second epoch is no better than the first
            os.kill(os.getpid(), signal.SIGINT)

    training = train(registry.find(NAME), tmp_path / "run", device="cpu", report=report)
    assert (training.finished, training.epochs_done) == (True, 2)


def test_an_interruption_saves_first(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()

    def report(at: Progress) -> None:
        if at.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(registry.find(NAME), tmp_path / "run", device="cpu", report=report)
    facts = json.loads(bytes(read_tensors(tmp_path / "run" / STATE)["facts"].tolist()))
    assert facts["step"] == 6  # the step that follows finds the note, and all processes stop after it
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interruption_in_the_last_step_changes_nothing(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()

    def report(at: Progress) -> None:
        if at.step == at.steps - 1:
            os.kill(os.getpid(), signal.SIGINT)

    training = train(registry.find(NAME), tmp_path / "run", device="cpu", report=report)
    assert training.finished


def test_a_finished_run_is_left_alone(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    train(registry.find(NAME), tmp_path / "run", device="cpu")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    train(registry.find(NAME), tmp_path / "run", device="cpu")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}


def test_another_recipe_does_not_continue_a_run(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    train(registry.find(NAME), tmp_path / "run", device="cpu", overrides={"epochs": 1})
    with pytest.raises(RequestError, match=r"another recipe \("):
        train(registry.find(NAME), tmp_path / "run", device="cpu", overrides={"epochs": 2})


def test_a_state_from_before_an_option_existed_continues(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    run = tmp_path / "run"
    train(registry.find(NAME), run, device="cpu", overrides={"epochs": 1})
    tensors = read_tensors(run / STATE)
    facts = json.loads(bytes(tensors["facts"].tolist()))
    del facts["identity"]["config"]["architecture"]["dropout"], facts["identity"]["recipe"]["gradient_flow_penalty"]
    del facts["identity"]["number of processes"]

    def write() -> None:
        tensors["facts"] = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
        state.write_with_digest(run / STATE, tensors)

    write()
    train(registry.find(NAME), run, device="cpu", overrides={"epochs": 1})
    facts["identity"]["config"]["architecture"]["an option of a later version"] = 1
    write()
    with pytest.raises(RequestError, match="another config"):
        train(registry.find(NAME), run, device="cpu", overrides={"epochs": 1})
    del facts["identity"]["config"]["architecture"]["an option of a later version"], facts["identity"]["data"]
    write()
    with pytest.raises(RequestError, match="other data"):
        train(registry.find(NAME), run, device="cpu", overrides={"epochs": 1})


def test_the_same_seed_gives_the_same_run_and_another_does_not(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(registry.find(NAME), tmp_path / folder, device="cpu", overrides={"seed": seed})
    assert equal(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert not equal(weights(tmp_path / "a"), weights(tmp_path / "c"))


def test_a_diverged_run_says_so_and_keeps_what_was_good(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"optimizer": {"name": "sgd", "lr": 1e30}, "epochs": 30}, cell="irnn")
    name = "irnn-1x8-mnist-rows"
    with pytest.raises(TrainingError, match=r"diverged in step \d+ \(epoch \d+\)") as raised:
        train(registry.find(name), tmp_path / "run", device="cpu", save_seconds=0)
    found = results.read(tmp_path / "run").training
    assert found is not None
    assert found.diverged == found.epochs_done + 1
    assert f"in {found.divergence}: " in str(raised.value)
    assert found.divergence == f"step {found.diverged_step} (epoch {found.diverged})"
    state = read_tensors(tmp_path / "run" / STATE)
    assert all(tensor.isfinite().all() for key, tensor in state.items() if key.startswith("network."))


def test_that_a_run_diverged_is_told_until_it_goes_further(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 2})
    entry, out = registry.find(NAME), tmp_path / "run"
    found = train(entry, out, device="cpu", stop_after=1)
    results.write(out, results.Results(training=found.model_copy(update={"diverged": 2})))
    for epoch, diverged in ((1, 2), (2, None)):
        again = train(entry, out, device="cpu", stop_after=epoch)
        assert again.diverged == diverged
        assert results.read(out).training == again or epoch == 1  # nothing was written: nothing was done


def test_a_batch_larger_than_the_data_is_refused(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"batch_size": 161})
    with pytest.raises(RequestError, match="larger than the 160"):
        train(registry.find(NAME), tmp_path / "run", device="cpu")


def test_the_gradient_flow_penalty_is_added_to_the_loss(small_zoo: Zoo, tmp_path: Path) -> None:
    given = {
        "optimizer": {"name": "sgd", "lr": 1.0},
        "batch_size": 160,
        "epochs": 1,
        "max_grad_norm": None,
        "gradient_flow_penalty": 0.5,
    }
    small_zoo(given)
    entry = registry.find(NAME)
    train(entry, tmp_path / "run", device="cpu")
    net = build(entry.config, device="cpu", seed=0).train()
    x, y, lengths = task_data(entry.task, entry.dataset).split("train").batch(torch.arange(160), torch.device("cpu"))
    loss = torch.nn.functional.cross_entropy(net(x), y) + 0.5 * gradient_flow_penalty(net, x, y, lengths)
    slopes = torch.autograd.grad(loss, list(net.parameters()))
    found = weights(tmp_path / "run")
    for (name, p), slope in zip(net.named_parameters(), slopes, strict=True):
        torch.testing.assert_close(found[name], (p - slope).detach(), rtol=1e-5, atol=1e-6)


def test_clipping_bounds_the_step(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"optimizer": {"name": "sgd", "lr": 1.0}, "max_grad_norm": 1e-3, "epochs": 1, "batch_size": 160})
    train(registry.find(NAME), tmp_path / "run", device="cpu")
    start = build(registry.find(NAME).config, device="cpu", seed=0).state_dict()
    moved = torch.cat([(start[key] - tensor).flatten() for key, tensor in weights(tmp_path / "run").items()])
    assert moved.norm().item() == pytest.approx(1e-3, rel=1e-2)


def test_two_processes_compute_what_one_does(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    train(registry.find(NAME), tmp_path / "one", device="cpu")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m", "rnnzoo_cli"]
    command = [*launch, "train", NAME, "--out", str(tmp_path / "two"), "--device", "cpu", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["processes"] == 2  # and only one of them prints
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    for key in one:
        torch.testing.assert_close(one[key], two[key], rtol=1e-4, atol=1e-5)
    for a, b in zip(history(tmp_path / "one"), history(tmp_path / "two"), strict=True):
        assert a == pytest.approx(b, rel=1e-4)


def test_unequal_shares_are_refused(small_zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_zoo({"batch_size": 15})
    from accelerate import Accelerator

    monkeypatch.setattr(Accelerator, "num_processes", 2)
    with pytest.raises(TrainingError, match="cannot be divided equally among 2 processes"):
        train(registry.find(NAME), tmp_path / "run", device="cpu")


def test_later_stages(small_zoo: Zoo, tmp_path: Path) -> None:
    first = {"name": "cosine", "epochs": 4}
    then = {"start_epoch": 2, "lr": 0.02, "schedule": {"name": "polynomial", "power": 1.0}, "shift": 2}
    last = {"start_epoch": 4, "lr": 0.03, "schedule": {"name": "polynomial", "power": 1.0}}
    small_zoo({"epochs": 5, "schedule": first, "stages": [then, last]})
    entry, rates = registry.find(NAME), []
    train(entry, tmp_path / "whole", device="cpu", report=lambda at: rates.append(at.finished))
    rates = [row.lr / 0.01 for row in rates if row is not None]
    # seven steps of an epoch come before its last
    cosine = [(1 + math.cos(math.pi * (epoch * 8 + 7) / 32)) / 2 for epoch in range(2)]
    assert rates == pytest.approx([*cosine, 2 * (1 - 7 / 16), 2 * (1 - 15 / 16), 3 * (1 - 7 / 8)])
    # stopping after some epochs, or going on, changes nothing
    left: list[Progress] = []
    for epoch, done in ((1, 1), (3, 3), (2, 3), (None, 5)):
        train(entry, tmp_path / "stopped", device="cpu", stop_after=epoch, report=left.append)
        assert left[-1].remaining == 0
        assert history(tmp_path / "stopped") == history(tmp_path / "whole")[:done]
    for epoch in (0, -1):
        with pytest.raises(RequestError, match="must be at least 1"):
            train(entry, tmp_path / "stopped", device="cpu", stop_after=epoch)
    # a run of the first epochs alone is the same run
    for epochs in (1, 2, 3, 4):
        train(entry, tmp_path / f"{epochs}", device="cpu", overrides={"epochs": epochs})
        assert history(tmp_path / f"{epochs}") == history(tmp_path / "whole")[:epochs]

    # what comes after does not depend on the optimizer's state before, and it sees other images
    for folder, shift in (("forgets", 2), ("unmoved", None)):
        small_zoo({"epochs": 5, "schedule": first, "stages": [{**then, "shift": shift}, last]})
        shutil.copytree(tmp_path / "2", tmp_path / folder)
        tensors = read_tensors(tmp_path / folder / STATE)
        tensors = {k: -t if k.endswith("exp_avg") else t for k, t in tensors.items()}
        recipe = registry.find(NAME).recipe.settings
        facts = json.loads(bytes(tensors["facts"].tolist()))
        facts["identity"]["recipe"] = recipe
        tensors["facts"] = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
        state.write_with_digest(tmp_path / folder / STATE, tensors)
        train(registry.find(NAME), tmp_path / folder, device="cpu")
    assert history(tmp_path / "forgets") == history(tmp_path / "whole")
    assert history(tmp_path / "unmoved") != history(tmp_path / "whole")


def test_a_run_goes_on_with_as_many_processes(small_zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they draw depends on it."""
    small_zoo({"epochs": 1})
    train(registry.find(NAME), tmp_path / "run", device="cpu")
    from accelerate import Accelerator

    monkeypatch.setattr(Accelerator, "num_processes", 2)
    with pytest.raises(RequestError, match="another number of processes"):
        train(registry.find(NAME), tmp_path / "run", device="cpu")


def test_patience_counts_from_the_last_stage() -> None:
    recipe = Recipe.model_validate({
        "optimizer": {"name": "adam", "lr": 0.1}, "batch_size": 1, "epochs": 20, "patience": 2, "stages": [{"start_epoch": 3, "lr": 0.1}],
    })  # fmt: skip

    def ends(recipe: Recipe, *losses: float) -> bool:
        return results.converged([_row(i + 1, loss) for i, loss in enumerate(losses)], recipe)

    assert not ends(recipe, 0.1, 0.2, 0.3)
    assert not ends(recipe, 0.1, 0.2, 0.3, 0.9, 0.9)
    assert ends(recipe, 0.1, 0.2, 0.3, 0.9, 0.9, 0.95)
    short = recipe.model_copy(update={"epochs": 3})
    assert ends(short, 0.1, 0.2, 0.3)


def _row(epoch: int, validation_loss: float) -> results.Epoch:
    return results.Epoch(
        epoch=epoch, lr=0.1, train_loss=1.0, train_metric=0.5, validation_loss=validation_loss, validation_metric=0.5,
        gradient_norm=1.0, seconds=1.0,
    )  # fmt: skip


def test_a_run_that_ends_early_says_why() -> None:
    training = results.for_model("star-16x64-pmnist").training
    assert training is not None

    def ending(*losses: float, **fields: Any) -> str:
        recipe = training.recipe.model_copy(update={"epochs": 4, **fields})
        rows = tuple(_row(i + 1, loss) for i, loss in enumerate(losses))
        return training.model_copy(update={"recipe": recipe, "history": rows, "epochs_done": len(rows)}).ending

    assert ending(2.0, 2.0) == ""
    assert "not fallen for 1 epoch," in ending(2.0, 2.0, patience=1)
    assert ending(2.0, 1.0, patience=1) == ending(4.0, 3.0, 2.0, 2.0, patience=1) == ""
    rule = Collapse(epochs=2, loss=1.5)
    assert "not left chance," in ending(2.0, 2.0, collapse=rule)
    assert ending(2.0, 1.0, collapse=rule) == ""


def test_a_run_collapses_if_no_epoch_left_chance() -> None:
    recipe = Recipe.model_validate({
        "optimizer": {"name": "adam", "lr": 0.1}, "batch_size": 1, "epochs": 20, "collapse": {"epochs": 2, "loss": 2.28},
    })  # fmt: skip

    def collapsed(*losses: float) -> bool:
        return results.collapsed([_row(i + 1, loss) for i, loss in enumerate(losses)], recipe)

    assert not collapsed()
    assert not collapsed(2.31)
    assert collapsed(2.31, 2.28)
    assert not collapsed(2.31, 2.27)
    assert not collapsed(2.2, 2.31, 2.31)
    assert not results.collapsed([_row(1, 9.0)] * 9, recipe.model_copy(update={"collapse": None}))


def test_a_collapsed_run_ends_and_says_so(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 5, "collapse": {"epochs": 2, "loss": 1e-6}})
    done = train(registry.find(NAME), tmp_path / "run", device="cpu")
    assert (done.epochs_done, done.finished) == (2, True)
    assert results.collapsed(done.history, done.recipe)
    assert train(registry.find(NAME), tmp_path / "run", device="cpu").epochs_done == 2  # it does not go on


def test_only_images_are_augmented() -> None:
    numbers = Split(torch.zeros(3, 4), torch.zeros(3), {}, lambda raw: raw)
    with pytest.raises(RequestError, match="are not images, so they cannot be augmented"):
        numbers.batch(torch.arange(2), torch.device("cpu"), Augmentation(shift=1))


def test_a_recipe_that_augments_what_are_no_images_ends_before_it_begins(
    small_zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo({"epochs": 3, "stages": [{"start_epoch": 2, "lr": 0.1, "shift": 1}]})
    split = mnist.MNIST.split
    monkeypatch.setattr(mnist.MNIST, "split", lambda self, name: replace(split(self, name), image=None))
    with pytest.raises(RequestError, match="its recipe augments images"):
        train(registry.find(NAME), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_schedules() -> None:
    total = 100
    run = [schedule(Schedule(name="cosine", warmup=10, final_factor=0.1), step, total) for step in range(total)]
    assert run[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert run[10] == 1.0
    assert run[55] == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 2)) / 2)
    assert run[-1] == pytest.approx(0.1, abs=0.01)
    assert {schedule(Schedule(), step, total) for step in range(total)} == {1.0}
    squared = Schedule(name="polynomial", power=2.0)
    assert [schedule(squared, step, total) for step in (0, 50, 99)] == pytest.approx([1.0, 0.25, 1e-4])
    cycle = [schedule(Schedule(name="one-cycle"), step, total) for step in range(total)]
    assert max(cycle) == cycle[29] == cycle[30] == 1.0
    assert cycle[0] < 0.01
    assert cycle[-1] < 0.01
    later = [schedule(Schedule(name="one-cycle", warmup=50), step, total) for step in range(total)]
    assert later[24] == pytest.approx(0.5)
    assert max(later) == later[49] == 1.0


@pytest.mark.parametrize(
    ("spec", "expected", "settings"),
    [
        (
            Optimizer(name="adam", lr=0.1, betas=(0.8, 0.9), weight_decay=0.02),
            torch.optim.Adam,
            {"betas": (0.8, 0.9)},
        ),
        (
            Optimizer(name="adamw", lr=0.1, betas=(0.8, 0.9), weight_decay=0.02),
            torch.optim.AdamW,
            {"betas": (0.8, 0.9)},
        ),
        (
            Optimizer(name="rmsprop", lr=0.1, alpha=0.8, momentum=0.2, weight_decay=0.03),
            torch.optim.RMSprop,
            {"alpha": 0.8, "momentum": 0.2},
        ),
        (Optimizer(name="sgd", lr=0.1, momentum=0.9, weight_decay=0.01), torch.optim.SGD, {"momentum": 0.9}),
    ],
)
def test_optimizers(spec: Optimizer, expected: type, settings: dict[str, Any]) -> None:
    optimizer = make_optimizer(spec, build("rnn-1x128-smnist", device="meta"))
    assert type(optimizer) is expected
    group = optimizer.param_groups[0]
    assert {key: group[key] for key in settings} == settings
    assert group["weight_decay"] == spec.weight_decay


def test_a_recurrence_has_a_rate_of_its_own_and_no_weight_decay() -> None:
    spec = Optimizer(name="adamw", lr=0.1, weight_decay=0.5, recurrence_factor=0.25)
    network = build("lru-1x4", inputs=2, outputs=3)
    updater = Updater(network, spec, "class")
    others, recurrence = updater.optimizer.param_groups
    cell = network.layers[0].forward_direction.cell
    assert {id(p) for p in recurrence["params"]} == {id(cell.decay), id(cell.phase)}
    assert len(others["params"]) == len(list(network.parameters())) - 2
    assert (others["lr"], recurrence["lr"], recurrence["weight_decay"]) == (0.1, 0.025, 0.0)
    updater.lr = 0.04
    assert (updater.lr, recurrence["lr"]) == (0.04, 0.01)
    before = [p.detach().clone() for p in (cell.decay, network.head.weight)]
    updater.update(torch.randn(5, 4, 2), torch.arange(5) % 3)
    for parameter, old, rate in zip((cell.decay, network.head.weight), before, (0.01, 0.04), strict=True):
        moved = (parameter - old * (1 if parameter is cell.decay else 1 - 0.04 * 0.5)).abs()
        assert torch.allclose(moved, torch.full_like(moved, rate), rtol=1e-3)  # the first step of Adam is its rate


def test_a_precision_the_device_lacks_is_refused(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"precision": "fp16"})
    with pytest.raises(TrainingError, match="Precision 'fp16' is not available on cpu"):
        train(registry.find(NAME), tmp_path / "run", device="cpu")


def test_mixed_precision_is_really_on(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    for folder, given in (("full", "no"), ("mixed", "bf16")):
        train(registry.find(NAME), tmp_path / folder, device="cpu", overrides={"precision": given})
    full, mixed = weights(tmp_path / "full"), weights(tmp_path / "mixed")
    assert not equal(full, mixed)
    for key in full:
        torch.testing.assert_close(mixed[key], full[key], rtol=0.1, atol=0.05)


def test_a_run_killed_before_its_last_state_loses_no_history(
    small_zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo()
    train(registry.find(NAME), tmp_path / "whole", device="cpu")
    out = tmp_path / "killed"

    def killed(path: Path, tensors: dict[str, torch.Tensor]) -> None:
        if path.name == STATE and "3" in str(len(history(out))):
            raise KeyboardInterrupt
        write_tensors(path, tensors)

    with monkeypatch.context() as patched:
        patched.setattr(state, "write_tensors", killed)
        with pytest.raises(KeyboardInterrupt):
            train(registry.find(NAME), out, device="cpu")
    train(registry.find(NAME), out, device="cpu")
    assert history(out) == history(tmp_path / "whole")
    assert equal(weights(out), weights(tmp_path / "whole"))


def test_going_on_drops_measurements_of_the_old_weights(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    out = tmp_path / "run"

    def measure_then_stop(at: Progress) -> None:
        if at.step == 9:
            results.write(out, results.read(out).record(evaluate(out, device="cpu")))
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(registry.find(NAME), out, device="cpu", report=measure_then_stop)
    assert results.read(out).measured() is not None
    train(registry.find(NAME), out, device="cpu")
    assert results.read(out).measured() is None


def test_a_file_is_no_folder_for_a_run(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    (tmp_path / "run").write_text("mine")
    for out in (tmp_path / "run", tmp_path / "run" / "deeper"):
        with pytest.raises(RequestError, match=r"is not a folder\. Choose another folder for the run"):
            train(registry.find(NAME), out, device="cpu")
    assert (tmp_path / "run").read_text() == "mine"


def test_an_impossible_override_is_a_wrong_request(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    with pytest.raises(RequestError, match="batch_size: must be at most"):
        train(registry.find(NAME), tmp_path / "run", overrides={"batch_size": 20_000})


def test_a_validation_loss_that_is_not_finite_is_a_diverged_run(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"optimizer": {"name": "sgd", "lr": 1e30}, "batch_size": 160, "max_grad_norm": None}, cell="irnn")
    saying = r"in step 1 \(epoch 1\): the validation loss is infinite or NaN\. The last good state is in \S+run\. Try"
    with pytest.raises(TrainingError, match=saying):
        train(registry.find("irnn-1x8-mnist-rows"), tmp_path / "run", device="cpu")
    found = results.read(tmp_path / "run").training
    assert found is not None
    assert (found.diverged, found.epochs_done) == (1, 0)


def test_a_damaged_state_says_what_to_do(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / STATE).write_bytes(b"nothing")
    with pytest.raises(TrainingError, match=r"not a valid safetensors file.*Remove .*run to begin the run again"):
        train(registry.find(NAME), tmp_path / "run", device="cpu")


def test_a_flipped_bit_and_an_edited_step_of_a_state_are_refused(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 2})
    entry, out = registry.find(NAME), tmp_path / "run"
    train(entry, out, device="cpu", stop_after=1)
    whole = read_tensors(out / STATE)
    facts = json.loads(bytes(whole["facts"].tolist())) | {"step": 1}
    edited = {**whole, "facts": torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)}
    content = bytearray((out / STATE).read_bytes())
    content[-100] ^= 1
    for damage in (lambda: write_tensors(out / STATE, edited), lambda: (out / STATE).write_bytes(content)):
        damage()
        with pytest.raises(TrainingError, match="does not have the stored digest"):
            train(entry, out, device="cpu")
    write_tensors(out / STATE, whole)
    assert train(entry, out, device="cpu").finished


def test_a_figure_of_other_weights_than_the_trainings_is_not_recorded(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    train(registry.find(NAME), tmp_path, device="cpu")
    weights = read_tensors(tmp_path / "model.safetensors")
    write_tensors(tmp_path / "model.safetensors", {**weights, "head.bias": weights["head.bias"] + 1})
    figure = evaluate(str(tmp_path), device="cpu", split="validation")
    with pytest.raises(CheckpointError, match="describes the training of other weights"):
        record(str(tmp_path), figure)
    assert results.read(tmp_path).evaluations == ()


def test_what_is_no_state_of_a_run_says_what_to_do(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    entry, out = registry.find(NAME), tmp_path / "run"
    train(entry, out, device="cpu")
    whole = read_tensors(out / STATE)
    facts = json.loads(bytes(whole["facts"].tolist()))
    facts["history"][0]["a field of a later version"] = 1
    later = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
    listed = torch.frombuffer(bytearray(b"[]"), dtype=torch.uint8)
    renamed = {key.replace("head.", "neck."): value for key, value in whole.items()}
    for tensors in ({"facts": whole["facts"]}, {"sums": whole["sums"]}, {**whole, "facts": later}, {**whole, "facts": listed}, renamed):  # fmt: skip
        state.write_with_digest(out / STATE, tensors)
        with pytest.raises(TrainingError, match=r"is not the state of a run\. Remove .*run to begin the run again"):
            train(entry, out, device="cpu")


def test_a_run_that_lost_a_file_does_no_work_in_vain(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    entry, out = registry.find(NAME), tmp_path / "run"
    out.mkdir()
    (out / results.FILE).write_text("{")
    with pytest.raises(TrainingError, match=r"results\.json.*Remove the file to continue the run"):
        train(entry, out, device="cpu")
    (out / results.FILE).unlink()
    train(entry, out, device="cpu")
    (out / WEIGHTS).unlink()
    with pytest.raises(TrainingError, match=r"lacks \S+, the best weights"):
        train(entry, out, device="cpu")


def test_results_that_were_removed_are_written_again(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    before = train(registry.find(NAME), tmp_path, device="cpu")
    (tmp_path / results.FILE).unlink()
    again = train(registry.find(NAME), tmp_path, device="cpu")
    assert results.read(tmp_path).training == again
    assert again == before.model_copy(update={"threads": None})


def test_a_run_that_moved_says_where_it_was(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 4})
    entry = registry.find(NAME)
    began = train(entry, tmp_path, device="cpu", stop_after=1)
    elsewhere = began.model_copy(update={"device": "NVIDIA H200"})
    results.write(tmp_path, results.Results(training=elsewhere))
    for epoch in (2, 3):
        assert train(entry, tmp_path, device="cpu", stop_after=epoch).device == f"NVIDIA H200, then {began.device}"


def test_weights_of_unknown_origin_are_not_trained_over(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    entry = registry.find(NAME)
    before = train(entry, tmp_path, device="cpu")
    (tmp_path / STATE).unlink()
    with pytest.raises(TrainingError, match=r"has model\.safetensors, but no state to continue from"):
        train(entry, tmp_path, device="cpu", overrides={"seed": 5})
    assert results.read(tmp_path).training == before
    assert before.checkpoint_sha256 == sha256(tmp_path / WEIGHTS)


def test_the_config_of_another_program_is_not_overwritten(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    (tmp_path / "config.json").write_text("mine")
    with pytest.raises(TrainingError, match=r"has config\.json, but no state to continue from"):
        train(registry.find(NAME), tmp_path, device="cpu")
    assert (tmp_path / "config.json").read_text() == "mine"


@pytest.mark.parametrize("damage", [None, b"[]", b"\x00"])
def test_a_lost_config_of_a_finished_run_is_written_again(small_zoo: Zoo, tmp_path: Path, damage: bytes | None) -> None:
    small_zoo({"epochs": 1})
    train(registry.find(NAME), tmp_path, device="cpu")
    config = (tmp_path / "config.json").read_bytes()
    (tmp_path / "config.json").unlink()
    if damage is not None:
        (tmp_path / "config.json").write_bytes(damage)
    train(registry.find(NAME), tmp_path, device="cpu")
    assert (tmp_path / "config.json").read_bytes() == config


def test_weights_are_nobodys_while_the_run_that_is_there_made_none(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    entry = registry.find(NAME)
    train(entry, tmp_path / "other", device="cpu")

    def stop(at: Progress) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(entry, tmp_path / "run", device="cpu", overrides={"seed": 5}, report=stop)
    for name in (WEIGHTS, CONFIG):
        shutil.copy(tmp_path / "other" / name, tmp_path / "run" / name)
    assert evaluate(tmp_path / "run", device="cpu").seed is None
    with pytest.raises(CheckpointError, match="does not describe the weights"):
        release.release(tmp_path / "run")
    whole = train(entry, tmp_path / "run", device="cpu", overrides={"seed": 5})
    assert evaluate(tmp_path / "run", device="cpu").seed == 5
    assert whole.checkpoint_sha256 != sha256(tmp_path / "other" / WEIGHTS)


def test_a_run_that_made_no_step_binds_nobody(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo(
        {"epochs": 1, "optimizer": {"name": "sgd", "lr": 1e30}, "batch_size": 160, "max_grad_norm": None}, cell="irnn"
    )
    entry, other = registry.find("irnn-1x8-mnist-rows"), {"optimizer": {"name": "adam", "lr": 0.01}}
    with pytest.raises(TrainingError, match="diverged in step 1"):
        train(entry, tmp_path, device="cpu")
    assert (tmp_path / STATE).exists()
    found = train(entry, tmp_path, device="cpu", overrides=other)
    assert (found.diverged, found.epochs_done, found.overrides) == (None, 1, other)


def test_one_process_trains_in_a_folder(small_zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fcntl")
    measured = results.for_model("rnn-1x128-mnist-rows").measured()
    assert measured is not None
    small_zoo({"epochs": 1})
    refused = []

    def second(at: Progress) -> None:
        if at.step == 2:
            live = tmp_path / f".{STATE}.1.partial"
            live.touch()
            for other in (
                lambda: train(registry.find(NAME), tmp_path, device="cpu"),
                lambda: record(tmp_path, measured),
            ):
                with pytest.raises(StorageError, match="Another process is at work in"):
                    other()
            refused.append(live.exists())

    monkeypatch.setattr(evaluation, "RECORDING_SECONDS", 0.1)
    train(registry.find(NAME), tmp_path, device="cpu", report=second)
    assert refused == [True]
    with files.exclusive_lock(tmp_path), pytest.raises(StorageError, match="Another process is at work in"):
        release.release(tmp_path)
    with files.exclusive_lock(tmp_path), pytest.raises(StorageError, match="Another process is at work in"):
        check_recordable(tmp_path)
    check_recordable(tmp_path)
    train(registry.find(NAME), tmp_path, device="cpu")  # the lock is gone, and so is what was left by a killed process
    assert not list(tmp_path.glob(".*.partial"))


def test_a_figure_is_recorded_only_beside_its_own_weights(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    train(registry.find(NAME), tmp_path, device="cpu")
    found = evaluate(tmp_path, device="cpu")
    assert record(tmp_path, found) == tmp_path / results.FILE
    assert results.read(tmp_path).measured() == found
    with pytest.raises(CheckpointError, match="changed after they were evaluated, so the result was not recorded"):
        record(tmp_path, found.model_copy(update={"checkpoint_sha256": "0" * 64}))
    assert results.read(tmp_path).measured() == found


@pytest.mark.parametrize(("fields", "name", "analysis", "words"), [
    ({"bidirectional": "concat"}, "birnn-1x8-mnist-rows", "noh", "is bidirectional"),
    ({"cell": "mlp", "task": "circles"}, "mlp-1x8-circles", "gradients", "does not read one sequence"),
])  # fmt: skip
def test_what_cannot_be_recorded_is_refused_before_anything_is_trained(
    small_zoo: Zoo, tmp_path: Path, fields: dict[str, Any], name: str, analysis: str, words: str
) -> None:
    small_zoo(**fields)
    with pytest.raises(RequestError, match=words):
        train(registry.find(name), tmp_path / "run", device="cpu", recorders={analysis: recorder(analysis)})
    assert not (tmp_path / "run").exists()


def test_weights_that_are_replaced_while_they_are_read_are_not_measured(
    small_zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo({"epochs": 1})
    train(registry.find(NAME), tmp_path / "run", device="cpu")
    assemble = loading.assemble

    def slowly(*given: Any, **options: Any) -> Any:
        network = assemble(*given, **options)
        loading.save(build(network.config, device="cpu", seed=9), tmp_path / "run")
        return network

    monkeypatch.setattr(loading, "assemble", slowly)
    with pytest.raises(CheckpointError, match="was replaced while rnnzoo read it"):
        evaluate(tmp_path / "run", device="cpu")


def test_a_checkpoint_with_another_head_does_not_fit_the_task(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    network = build(NAME, device="cpu")
    network.reset_head(3)
    loading.save(network, tmp_path / "three")
    with pytest.raises(RequestError, match="does not fit mnist-rows, which has steps of 28 and 10 outputs"):
        evaluate(tmp_path / "three", device="cpu")
    network.reset_head(10)
    loading.save(network, tmp_path / "ten")
    assert evaluate(tmp_path / "ten", limit=3, device="cpu").n == 3
    network.reset_head([f"class {i}" for i in range(10)])
    loading.save(network, tmp_path / "named")
    with pytest.raises(
        RequestError, match=r"does not fit mnist-rows: its classes are \('class 0', .* those of the task are "
    ):
        evaluate(tmp_path / "named", device="cpu")
    every = json.loads((tmp_path / "three" / "config.json").read_text())
    every["interface"] |= {"outputs": 10, "readout": "every"}
    loading.save(build(Config.model_validate(every), device="cpu"), tmp_path / "every")
    with pytest.raises(RequestError, match=r"does not fit mnist-rows, .* readout last"):
        evaluate(tmp_path / "every", device="cpu")


def test_a_difference_of_many_settings_is_not_listed() -> None:
    before, now = {"x": 1, "y": 2}, {"x": 1, "y": 3}
    assert state.difference("recipe", {"recipe": now}, {"recipe": before}) == "another recipe (y 2 instead of 3)"
    many = {f"setting {i}": i for i in range(30)}
    assert state.difference("recipe", {"recipe": many}, {"recipe": {}}) == "another recipe"


def test_states_of_many_layers_come_back_in_their_order(tmp_path: Path) -> None:
    carried = [torch.full((1, 2), float(i)) for i in range(12)]
    written = state.State(
        identity={}, step=1, seconds=0.5, sums=torch.zeros(4, dtype=torch.float64), history=[], weights_sha256=None,
        scaler=None, network={}, optimizer={}, carried=carried,
    )  # fmt: skip
    written.write(tmp_path / state.FILE)
    carried = state.State.read(tmp_path / state.FILE).carried
    assert [int(each[0, 0]) for each in carried] == list(range(12))
    # a product of numbers at another address may round differently, and the run would not continue exactly
    assert [each.data_ptr() % 64 for each in carried] == [0] * 12
