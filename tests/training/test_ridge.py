"""Ridge regression: the head that minimises squared errors, a run that resumes exactly, and what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import normal

import zoo
from zoo import registry
from zoo.checkpoints import results
from zoo.checkpoints.tensors import FILE as WEIGHTS
from zoo.checkpoints.tensors import read_tensors
from zoo.data import task_data
from zoo.data.base import IGNORED
from zoo.errors import TrainingError
from zoo.networks import loading
from zoo.registry.schema import Optimizer, Recipe
from zoo.training import Progress
from zoo.training.ridge import RidgeUpdater
from zoo.training.step import make_optimizer
from zoo.training.trainer import train

NAME = "esn-1x8-mnist-rows"
Zoo = Callable[..., Path]
RIDGE = {"epochs": 1, "optimizer": {"name": "ridge", "penalty": 0.5}, "max_grad_norm": None, "schedule": {}}


def make(small_zoo: Zoo, **changes: Any) -> None:
    small_zoo({**RIDGE, **changes}, cell="esn", options={"leak": 0.5})


@pytest.mark.parametrize("batch_size", [20, 31, 1000], ids="{} examples a batch".format)
def test_a_run_by_ridge_regression_minimises_the_penalised_squared_error(
    small_zoo: Zoo, tmp_path: Path, batch_size: int
) -> None:
    make(small_zoo, batch_size=batch_size)  # a last incomplete batch counts
    entry = registry.find(NAME)
    training = train(entry, tmp_path / "run", device="cpu")
    (row,) = training.history
    network = loading.load(tmp_path / "run", device="cpu")
    start = zoo.build(entry, device="cpu", seed=entry.recipe.seed)
    before, after = start.state_dict(), network.state_dict()
    assert {k for k in before if not torch.equal(before[k], after[k])} == {"head.weight", "head.bias"}

    data = task_data(entry.task, entry.dataset).split("train")
    x, y, lengths = data.batch(torch.arange(len(data)))
    with torch.no_grad():
        states = start.eval().pooled(x, lengths).double()
    wanted = torch.nn.functional.one_hot(y, 10).double()
    mean, centre = states.mean(0), wanted.mean(0)
    # the minimum over the bias lies at the means
    centred = states - mean
    best = torch.linalg.lstsq(
        torch.cat([centred, 0.5**0.5 * torch.eye(8, dtype=torch.float64)]),
        torch.cat([wanted - centre, torch.zeros(8, 10, dtype=torch.float64)]),
    ).solution
    torch.testing.assert_close(after["head.weight"].double(), best.T, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(after["head.bias"].double(), centre - mean @ best, rtol=1e-4, atol=1e-5)
    correct = ((states @ best + centre - mean @ best).argmax(1) == y).double().mean().item()
    assert row.train_metric == pytest.approx(correct, abs=0.01)
    assert row.train_metric > 0.2
    assert results.read(tmp_path / "run").training == training


def test_an_interrupted_run_goes_on_to_the_same_head(small_zoo: Zoo, tmp_path: Path) -> None:
    make(small_zoo)
    entry = registry.find(NAME)
    train(entry, tmp_path / "whole", device="cpu")

    def interrupt(progress: Progress) -> None:
        if progress.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(entry, tmp_path / "parts", device="cpu", report=interrupt, save_seconds=0.0)
    train(entry, tmp_path / "parts", device="cpu")
    whole, parts = (read_tensors(tmp_path / name / WEIGHTS) for name in ("whole", "parts"))
    assert all(torch.equal(whole[key], parts[key]) for key in whole)


def test_values_of_every_step_are_fitted_and_missing_ones_left_out() -> None:
    net = zoo.build("esn-1x6", inputs=2, outputs=2, device="cpu")
    interface = net.config.interface.model_copy(update={"readout": "every"})
    net = zoo.build(net.config.model_copy(update={"interface": interface}), device="cpu", dtype=torch.float64)
    updater, x, lengths = RidgeUpdater(net, 1e-9, "value"), normal(5, 7, 2), torch.tensor([7, 3, 5, 7, 1])
    with torch.no_grad():
        y = net.pooled(x, lengths) @ normal(6, 2, seed=4) + 3.0
    missing = torch.arange(7) >= lengths[:, None]
    updater.update(x, torch.where(missing[..., None], torch.nan, y), lengths)
    xx, xy = updater.optimizer.state[0].values()
    assert xx[-1, -1] == lengths.sum()
    solution = torch.linalg.lstsq(xx, xy).solution
    torch.testing.assert_close(solution[:-1], normal(6, 2, seed=4), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(solution[-1], torch.full((2,), 3.0, dtype=torch.float64), rtol=1e-6, atol=1e-6)


def test_ridge_regression_refuses_targets_of_which_a_part_is_missing() -> None:
    net, x = zoo.build("esn-1x3", inputs=1, outputs=2, device="cpu"), torch.ones(2, 3, 1)
    updater = RidgeUpdater(net, 1.0, "value")
    updater.update(x, torch.tensor([[1.0, 2.0], [torch.nan, torch.nan]]))
    with pytest.raises(TrainingError, match=r"missing \(NaN\) in a part of the outputs alone"):
        updater.update(x, torch.tensor([[1.0, 2.0], [torch.nan, 1.0]]))


@pytest.mark.parametrize(("target", "processes", "message"), [
    ("binary", 1, "fits classes and values"), ("forecast", 1, "not the target 'forecast'"), ("class", 2, "runs in one process, not in 2"),
])  # fmt: skip
def test_what_ridge_regression_refuses(target: Any, processes: int, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        RidgeUpdater(zoo.build("esn-1x3", inputs=1, outputs=2, device="cpu"), 1.0, target, processes)


def test_ridge_regression_does_not_read_a_stream() -> None:
    net = zoo.build("esn-1x3", inputs=1, outputs=2, device="cpu")
    with pytest.raises(TrainingError, match="not one long text"):
        RidgeUpdater(net, 1.0, "class").update(
            torch.zeros(2, 3, 1), torch.zeros(2, dtype=torch.long), state=net.initial_state(2)
        )


def test_ridge_is_no_optimizer_of_gradients() -> None:
    with pytest.raises(TrainingError, match="takes no gradient steps"):
        make_optimizer(Optimizer(name="ridge", penalty=1.0), zoo.build("esn-1x3", inputs=1, outputs=2, device="cpu"))


@pytest.mark.parametrize(("changes", "message"), [
    ({"optimizer": {"name": "ridge"}}, "ridge needs one"),
    ({"optimizer": {"name": "adam", "lr": 0.1, "penalty": 1.0}}, "'penalty' belongs to ridge"),
    ({"optimizer": {"name": "adam"}}, "adam needs a learning rate"),
    ({"epochs": 2}, "ridge computes the head once"),
    ({"max_grad_norm": 1.0}, "ridge computes the head once"),
    ({"weight_average": 0.9}, "ridge computes the head once"),
])  # fmt: skip
def test_recipes_that_contradict_themselves_are_refused(changes: dict[str, Any], message: str) -> None:
    recipe = {"batch_size": 4, **RIDGE, **changes}
    with pytest.raises(ValueError, match=message):
        Recipe.model_validate(recipe)


def test_classes_of_every_step_are_fitted_and_missing_ones_left_out() -> None:
    net = zoo.build("esn-1x6", inputs=2, outputs=3, device="cpu")
    interface = net.config.interface.model_copy(update={"readout": "every"})
    net = zoo.build(net.config.model_copy(update={"interface": interface}), device="cpu", dtype=torch.float64)
    updater, x, lengths = RidgeUpdater(net, 1e-9, "token"), normal(4, 5, 2), torch.tensor([5, 2, 4, 1])
    y = torch.randint(3, (4, 5), generator=torch.Generator().manual_seed(0))
    updater.update(x, torch.where(torch.arange(5) < lengths[:, None], y, IGNORED), lengths)
    xx, xy = updater.optimizer.state[0].values()
    counted = y[torch.arange(5) < lengths[:, None]].bincount(minlength=3)
    assert xx[-1, -1] == lengths.sum()
    assert xy[-1].tolist() == counted.tolist()
    updater.reset_optimizer()
    updater.update(x, y.byte(), lengths)  # unsigned classes, of which none is missing
    assert updater.optimizer.state[0]["xx"][-1, -1] == y.numel()


def test_the_features_are_those_without_dropout_and_a_new_epoch_begins_from_nothing() -> None:
    net = zoo.build("esn-2x6", inputs=2, outputs=3, device="cpu")
    net.dropout.p = 0.5
    updater, x, y = RidgeUpdater(net.train(), 1.0, "class"), normal(4, 5, 2).float(), torch.tensor([0, 1, 2, 0])
    with torch.no_grad():
        features = net.eval().pooled(x).double()
    updater.update(x, y)
    torch.testing.assert_close(updater.optimizer.state[0]["xx"][:-1, :-1], features.T @ features)
    net.train()
    updater.reset_optimizer()
    assert not updater.optimizer.state[0]["xx"].any()
    updater.update(x, y)
    torch.testing.assert_close(updater.optimizer.state[0]["xx"][:-1, :-1], features.T @ features)
    assert net.training
