"""The adding problem is what its paper says, and a network of values is trained, chosen and measured by squared errors."""

import hashlib

import numpy
import pytest
import torch

from zoo import registry
from zoo.checkpoints import results
from zoo.data import task_data
from zoo.data.base import IGNORED
from zoo.errors import DataError, RequestError
from zoo.networks import loading
from zoo.networks.builder import build
from zoo.publishing import cards
from zoo.registry.metrics import METRICS, TARGETS
from zoo.training.evaluation import evaluate, measure, score
from zoo.training.trainer import train

NAME = "rin-1x8-adding-200"
SIZES = {"train": 300, "validation": 100, "test": 100}
CPU = torch.device("cpu")


def digest(n, steps, seed):
    """sha256 of n generated sequences, by the definition: numbers, then the two positions, each 4 bytes."""
    source = numpy.random.RandomState(seed + 10 * steps)
    numbers = source.random_sample(n * steps).astype("float32").reshape(n, steps)
    first = numpy.floor(source.random_sample(n) * steps)
    gap = numpy.floor(source.random_sample(n) * (steps - 1))
    rows = [[*row, a, (a + 1 + b) % steps] for row, a, b in zip(numbers, first, gap, strict=True)]
    return hashlib.sha256(numpy.array(rows, "<f4").tobytes()).hexdigest()


def small(**changes):
    """The dataset with fewer examples."""
    digests = {f"200-{name}": digest(n, 200, seed) for seed, (name, n) in enumerate(SIZES.items())}
    return registry.load_registry().datasets["adding"].model_copy(update={**SIZES, "sha256": digests} | changes)


def data(**changes):
    return task_data(registry.load_registry().all_tasks["adding-200"], small(**changes))


@pytest.fixture
def zoo(small_zoo, monkeypatch):
    """A zoo whose one model adds, on little data."""
    dataset = small()
    small_zoo({"epochs": 2}, cell="rin", task="adding-200")
    registry.load_registry().datasets["adding"] = dataset
    return monkeypatch


@pytest.mark.parametrize("name", SIZES)
def test_two_marks_and_their_sum(name):
    split = data().split(name)
    x, y, lengths = split.batch(torch.arange(len(split)), CPU)
    assert x.shape == (SIZES[name], 200, 2)
    assert y.shape == (SIZES[name], 1)
    assert lengths is None
    assert ((x[..., 0] >= 0) & (x[..., 0] < 1)).all()
    assert x[..., 1].unique().tolist() == [0, 1]
    assert (x[..., 1].sum(1) == 2).all()
    torch.testing.assert_close((x[..., 0] * x[..., 1]).sum(1, keepdim=True), y)


def test_the_marks_are_anywhere():
    split = data().split("train")
    marks = split.raw[:, -2:]
    assert 80 < marks.mean() < 120
    assert marks[:, 0].min() < 10
    assert marks[:, 1].max() > 190
    assert (marks[:, 0] > marks[:, 1]).float().mean() == pytest.approx(0.5, abs=0.15)


def test_splits_differ_and_other_values_than_pinned_are_refused():
    assert not torch.equal(data().split("test").raw[:50], data().split("validation").raw[:50])
    with pytest.raises(DataError, match="200-test: the numbers that numpy generated do not match the locked sha256"):
        data(sha256=dict.fromkeys(small().sha256, "0" * 64)).split("test")
    with pytest.raises(RequestError, match="no layout"):
        task_data(registry.load_registry().all_tasks["adding-200"].model_copy(update={"layout": "pixels"}), small())


@pytest.mark.parametrize("steps", [200, 300, 400])
def test_the_test_set_is_the_pinned_one_and_answering_one_gives_a_sixth(steps):
    task, dataset = registry.load_registry().all_tasks[f"adding-{steps}"], registry.load_registry().datasets["adding"]
    split = task_data(task, dataset).split("test")
    assert (len(split), dataset.train) == (10_000, 100_000)
    assert (split.targets - 1).square().mean() == pytest.approx(task.guess, abs=0.005)
    assert task.guess == pytest.approx(1 / 6, abs=1e-4)
    network = build(f"rin-1x100-adding-{steps}", device="cpu")
    torch.nn.init.zeros_(network.head.weight)
    torch.nn.init.ones_(network.head.bias)
    found = measure(network, split, "value", 50, limit=100)
    assert found.loss == found.metric == pytest.approx((split.targets[:100] - 1).square().mean().item(), rel=1e-5)


def test_scores_of_classes_and_of_values():
    logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 3.0], [1.0, 0.0]]])
    loss, correct, n = score("class", logits, torch.tensor([[0, 0], [1, IGNORED]]))
    assert (correct, n) == (2, 3)
    expected = sum(torch.log1p(torch.tensor(d).exp()) for d in (-2.0, 1.0, -3.0))
    torch.testing.assert_close(loss, expected)
    outputs = torch.tensor([[[1.0], [2.0]], [[3.0], [9.0]]], requires_grad=True)
    values = torch.tensor([[[1.5], [2.0]], [[1.0], [float("nan")]]])
    loss, error, n = score("value", outputs, values)
    assert (loss, error, n) == (4.25, 4.25, 3)
    loss.backward()
    assert outputs.grad.flatten().tolist() == [-1, 0, 4, 0]


def test_every_target_has_its_metric():
    assert {m.metric for m in TARGETS.values()} == set(METRICS)
    assert {t.target for t in registry.load_registry().all_tasks.values()} <= set(TARGETS)
    assert TARGETS["class"].text(0.98765) == "98.77 %"
    assert TARGETS["value"].text(0.000123456) == "0.000123"


@pytest.mark.usefixtures("zoo")
def test_training_and_measuring_by_squared_errors(tmp_path):
    found = train(registry.find(NAME), tmp_path / "run", device="cpu")
    assert found.metric == "mse"
    for row in found.history:
        assert row.train_loss == row.train_metric
        assert row.validation_loss == row.validation_metric
    network = loading.load(tmp_path / "run", device="cpu")
    split = data().split("test")
    x, y, _ = split.batch(torch.arange(100), CPU)
    with torch.no_grad():
        expected = (network(x) - y).square().mean().item()
    measured = evaluate(tmp_path / "run", device="cpu")
    assert (measured.metric, measured.n) == ("mse", 100)
    assert measured.value == measured.loss == pytest.approx(expected, rel=1e-5)
    results.write(tmp_path / "run", results.read(tmp_path / "run").record(measured))
    text = cards.compose(
        registry.find(NAME), results.read(tmp_path / "run"), cards.Counts(parameters=1, multiply_adds=1)
    )
    assert f"| measured, test | {measured.value:.3g} |" in text
    assert "mean squared error" in text
    assert "%" not in text


def test_the_tolerance_of_an_error_is_a_share_of_it():
    assert METRICS["mse"].tolerance(0.2) == pytest.approx(0.002)
