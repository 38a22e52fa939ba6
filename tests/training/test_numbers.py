"""That a number is of what it says: the rows of a history and a recorded figure, against what is computed by hand."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from helpers import network, normal
from small import TRAIN, VALIDATION
from torch import Tensor

from zoo import examples, load, registry
from zoo.checkpoints.tensors import FILE as WEIGHTS
from zoo.checkpoints.tensors import read_tensors
from zoo.data import mnist, task_data
from zoo.data.base import IGNORED, Split, SplitName
from zoo.diagnostics import recorder
from zoo.errors import DataError, RequestError
from zoo.networks import loading
from zoo.networks.builder import build
from zoo.registry.schema import Optimizer
from zoo.training import Progress
from zoo.training.evaluation import evaluate, measure, score
from zoo.training.state import FILE as STATE
from zoo.training.state import write_with_digest
from zoo.training.step import Updater
from zoo.training.trainer import TrainingRun, train

NAME, DEEPER = "rnn-1x8-mnist-rows", "rnn-2x8-mnist-rows"
Zoo = Callable[..., Path]
Run = Callable[..., tuple[int, str, str]]

WHOLE = {"optimizer": {"name": "sgd", "lr": 1.0}, "batch_size": TRAIN, "epochs": 1, "max_grad_norm": None}
"""A recipe whose epoch is one step down the gradient of all training examples."""


def gradient(tbptt_steps: int | None = None) -> dict[str, Tensor]:
    """Of the loss over all training examples, where training starts from."""
    entry = registry.find(NAME)
    net = build(entry.config, device="cpu", seed=0).train()
    net.tbptt_steps = tbptt_steps
    x, y, _ = task_data(entry.task, entry.dataset).split("train").batch(torch.arange(TRAIN))
    names, values = zip(*net.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(torch.nn.functional.cross_entropy(net(x), y), values), strict=True))


@pytest.fixture
def training_batches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], int]]:
    """The examples of every batch that is trained on, and the seed of what is drawn for it."""
    seen: list[tuple[list[int], int]] = []
    batch = Split.batch

    def noted(self: Split, indices: Tensor, *given: Any) -> Any:
        if len(self) == TRAIN:
            seen.append((indices.tolist(), torch.initial_seed()))
        return batch(self, indices, *given)

    monkeypatch.setattr(Split, "batch", noted)
    return seen


# what is trained on, and how


def test_an_epoch_sees_every_example_once_in_an_order_of_its_own(
    small_zoo: Zoo, tmp_path: Path, training_batches: list[tuple[list[int], int]]
) -> None:
    small_zoo({"epochs": 2, "batch_size": 20})
    train(registry.find(NAME), tmp_path / "run", device="cpu")
    orders = [[i for batch, _ in epoch for i in batch] for epoch in (training_batches[:8], training_batches[8:])]
    assert [sorted(order) for order in orders] == [list(range(TRAIN))] * 2
    assert orders[0] != orders[1]
    assert list(range(TRAIN)) not in orders
    assert len({seed for _, seed in training_batches}) == 16  # of dropout and of augmentation


def test_a_seed_decides_the_start_the_order_and_what_is_drawn(
    small_zoo: Zoo, tmp_path: Path, training_batches: list[tuple[list[int], int]]
) -> None:
    small_zoo({"epochs": 1, "batch_size": 20})
    begun = []
    for seed in (0, 1):
        run = TrainingRun(registry.find(NAME), tmp_path / str(seed), {"seed": seed}, "cpu", {})
        begun.append(torch.cat([p.flatten() for p in run.network.parameters()]))
        train(registry.find(NAME), tmp_path / str(seed), device="cpu", overrides={"seed": seed})
    (orders, drawn), (others, other_drawn) = (zip(*training_batches[half : half + 8], strict=True) for half in (0, 8))
    assert not torch.equal(*begun)
    assert orders != others
    assert not set(drawn) & set(other_drawn)


def test_a_last_incomplete_batch_is_left_out(
    small_zoo: Zoo, tmp_path: Path, training_batches: list[tuple[list[int], int]]
) -> None:
    small_zoo({"epochs": 2, "batch_size": TRAIN // 2 - 1})
    train(registry.find(NAME), tmp_path / "run", device="cpu")
    assert [len(batch) for batch, _ in training_batches] == [TRAIN // 2 - 1] * 4


def test_dropout_acts_in_training_and_rests_in_validation(small_zoo: Zoo, tmp_path: Path) -> None:
    losses = set()
    for dropout in (0.5, 0.0):
        small_zoo({"epochs": 1}, dropout=dropout, layers=2)
        folder = tmp_path / f"dropout {dropout}"
        (row,) = train(registry.find(DEEPER), folder, device="cpu").history
        measured = evaluate(folder, split="validation", device="cpu")
        assert (row.validation_loss, row.validation_metric) == (measured.loss, measured.value)
        losses.add(row.train_loss)
    assert len(losses) == 2


def test_a_recipe_truncates(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo(WHOLE | {"tbptt_steps": 5})
    train(registry.find(NAME), tmp_path / "run", device="cpu")
    found = read_tensors(tmp_path / "run" / WEIGHTS)
    begun = build(registry.find(NAME).config, device="cpu", seed=0).state_dict()
    for name, slope in gradient(tbptt_steps=5).items():
        torch.testing.assert_close(found[name], begun[name] - slope, rtol=1e-5, atol=1e-6)
    assert any(not torch.allclose(slope, gradient()[name]) for name, slope in gradient(tbptt_steps=5).items())


def smaller(whole: Split) -> dict[str, Any]:
    return {"raw": whole.raw[:-1], "targets": whole.targets[:-1]}


@pytest.mark.parametrize(("part", "change", "words"), [
    ("train", smaller, "other data"), ("train", lambda whole: {"digests": {"x": "0" * 64}}, "other data"),
    ("validation", smaller, r"other validation data \(examples"),
], ids=["another size", "the same size", "validation"])  # fmt: skip
def test_other_data_do_not_continue_a_run(
    small_zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, change: Callable[[Split], dict[str, Any]],
    words: str,
) -> None:  # fmt: skip
    small_zoo({"epochs": 2})
    train(registry.find(NAME), tmp_path, device="cpu", stop_after=1)
    split = mnist.MNIST.split

    def changed(self: mnist.MNIST, name: SplitName) -> Split:
        whole = split(self, name)
        return replace(whole, **change(whole)) if name == part else whole

    monkeypatch.setattr(mnist.MNIST, "split", changed)
    with pytest.raises(RequestError, match=words):
        train(registry.find(NAME), tmp_path, device="cpu")


def test_the_validation_figures_are_what_eval_measures_of_the_validation_split(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    (row,) = train(registry.find(NAME), tmp_path, device="cpu").history
    measured = evaluate(tmp_path, split="validation", device="cpu")
    assert measured.n == VALIDATION
    assert (measured.loss, measured.value) == (row.validation_loss, row.validation_metric)


def test_the_training_figures_are_means_over_their_own_epoch(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo(WHOLE | {"epochs": 2})
    train(registry.find(NAME), tmp_path, device="cpu", stop_after=1)
    before = evaluate(tmp_path, split="train", device="cpu")
    row = train(registry.find(NAME), tmp_path, device="cpu").history[1]
    assert (row.train_loss, row.train_metric) == pytest.approx((before.loss, before.value), rel=1e-5)


def test_the_gradient_norm_is_the_mean_of_its_epoch_before_clipping(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo(WHOLE | {"optimizer": {"name": "sgd", "lr": 1e-9}, "epochs": 2, "max_grad_norm": 1e-3})
    found = train(registry.find(NAME), tmp_path, device="cpu")
    norm = torch.cat([slope.flatten() for slope in gradient().values()]).norm().item()
    assert [row.gradient_norm for row in found.history] == pytest.approx([norm, norm], rel=1e-4)


def test_the_gradient_norm_is_a_mean_over_the_steps(
    small_zoo: Zoo, tmp_path: Path, training_batches: list[tuple[list[int], int]]
) -> None:
    small_zoo(WHOLE | {"optimizer": {"name": "sgd", "lr": 1e-30}, "batch_size": 40})
    entry = registry.find(NAME)
    (row,) = train(entry, tmp_path, device="cpu").history
    net, data = build(entry.config, device="cpu", seed=0), task_data(entry.task, entry.dataset).split("train")
    norms = []
    for batch, _ in list(training_batches):
        x, y, _ = data.batch(torch.tensor(batch))
        slopes = torch.autograd.grad(torch.nn.functional.cross_entropy(net(x), y), list(net.parameters()))
        norms.append(torch.cat([slope.flatten() for slope in slopes]).norm().item())
    assert row.gradient_norm == pytest.approx(fmean(norms), rel=1e-4)


def test_of_equal_epochs_the_first_is_kept(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 2, "optimizer": {"name": "sgd", "lr": 1e-30}})
    written: list[int] = []

    def report(at: Progress) -> None:
        if at.finished:
            written.append((tmp_path / WEIGHTS).stat().st_mtime_ns)

    found = train(registry.find(NAME), tmp_path, device="cpu", report=report)
    assert found.history[0].validation_loss == found.history[1].validation_loss
    assert found.best is not None
    assert found.best.epoch == 1
    assert written[0] == written[1]


def test_the_seconds_of_a_run_that_goes_on_are_those_of_all_its_parts(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 2})
    train(registry.find(NAME), tmp_path, device="cpu", stop_after=1)
    tensors = read_tensors(tmp_path / STATE)
    facts = json.loads(bytes(tensors["facts"].tolist())) | {"seconds": 1000.0}
    tensors["facts"] = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
    write_with_digest(tmp_path / STATE, tensors)
    assert train(registry.find(NAME), tmp_path, device="cpu").history[-1].seconds >= 1000


def test_diagnostics_are_of_the_first_validation_examples(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    entry = registry.find(NAME)
    (row,) = train(entry, tmp_path, device="cpu", recorders={"gradients": recorder("gradients")}).history
    first = task_data(entry.task, entry.dataset).split("validation").batch(torch.arange(VALIDATION))
    expected = recorder("gradients")(loading.load(tmp_path, device="cpu"), *first, "class")
    assert row.diagnostics["gradients"] == pytest.approx(expected, rel=1e-5)


def test_a_diagnostic_that_is_infinite_or_nan_does_not_end_the_run(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    values = [1.0, math.inf, math.nan]
    (row,) = train(registry.find(NAME), tmp_path, device="cpu", recorders={"odd": lambda *_: values}).history
    assert row.diagnostics["odd"] == (1.0, None, None)


# figures


def test_a_figure_is_of_the_split_that_was_asked_for_and_has_the_digests_of_its_files(
    small_zoo: Zoo, run: Run, tmp_path: Path
) -> None:
    small_zoo()
    entry = registry.find(NAME)
    net = build(NAME, device="cpu")
    loading.save(net, tmp_path)
    for split, n in (("train", TRAIN), ("validation", VALIDATION)):
        code, out, _ = run("eval", str(tmp_path), "--split", split, "--device", "cpu", "--json")
        found, data = json.loads(out), task_data(entry.task, entry.dataset).split(split)
        assert (code, found["split"], found["n"]) == (0, split, n)
        x, y, _ = data.batch(torch.arange(n))
        assert found["loss"] == pytest.approx(torch.nn.functional.cross_entropy(net.eval()(x), y).item(), rel=1e-5)
        assert found["dataset_sha256"] == data.digests != {}
    test = evaluate(tmp_path, limit=5, device="cpu")
    assert test.dataset_sha256 == task_data(entry.task, entry.dataset).split("test").digests != data.digests


def test_no_unsigned_class_is_missing() -> None:
    loss, _, count = score("class", torch.zeros(3, 160), torch.tensor([1, 2, IGNORED % 256], dtype=torch.uint8))
    assert (float(count), float(loss)) == (3.0, pytest.approx(3 * math.log(160)))


def test_a_batch_without_targets_changes_nothing() -> None:
    net = network(readout="every")
    before = {name: value.clone() for name, value in net.state_dict().items()}
    updater = Updater(net, Optimizer(name="sgd", lr=1.0), "class")
    update = updater.update(normal(3, 6, 2), torch.full((3, 6), IGNORED))
    assert (float(update.loss), float(update.targets), float(update.gradient_norm)) == (0.0, 0.0, 0.0)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_the_first_batches_of_an_epoch_may_have_no_target(
    small_zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo({"epochs": 1, "batch_size": 20})
    batch = Split.batch
    served = 0

    def without_first(self: Split, *given: Any) -> Any:
        nonlocal served
        served += 1
        x, y, lengths = batch(self, *given)
        return x, torch.full_like(y, IGNORED) if served <= 2 else y, lengths

    monkeypatch.setattr(Split, "batch", without_first)
    training = train(registry.find(NAME), tmp_path / "run", device="cpu")
    assert math.isfinite(training.history[0].train_loss)


def test_without_validation_examples_there_is_no_validation_split(small_zoo: Zoo) -> None:
    small_zoo({})
    entry = registry.find(NAME)
    data = task_data(entry.task, entry.dataset.model_copy(update={"validation": None}))
    assert len(data.split("train")) == TRAIN + VALIDATION
    with pytest.raises(DataError, match="has no examples in its validation split"):
        data.split("validation")


def test_examples_without_any_target_cannot_be_measured() -> None:
    split = Split(normal(3, 6, 2), torch.full((3, 6), IGNORED), {})
    with pytest.raises(DataError, match="None of these 3 examples has a target"):
        measure(network(readout="every"), split, "class", 2)


def test_the_last_report_is_of_every_example() -> None:
    seen: list[tuple[int, int]] = []
    measure(
        load("mlp-3x8-circles.prelu", device="cpu"), examples("circles"), "class", 3, 8, lambda *at: seen.append(at)
    )
    assert seen == [(3, 8), (6, 8), (8, 8)]
