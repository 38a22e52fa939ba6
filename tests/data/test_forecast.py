"""Forecasts: the series obey their equations, each target is the value so many steps ahead, errors are rooted."""

import math

import pytest
import torch
from torch import nn

from zoo import load, registry
from zoo.checkpoints.results import Results
from zoo.data import forecast, task_data
from zoo.data.base import Split
from zoo.errors import DataError, RegistryError
from zoo.publishing import cards
from zoo.registry.metrics import TARGETS
from zoo.registry.schema import Task
from zoo.training.evaluation import evaluate, measure
from zoo.training.trainer import train

TASKS = ("lorenz", "mackey-glass")


def split(task: str, name: str = "test", **changes: object) -> Split:
    known = registry.load_registry()
    return task_data(known.all_tasks[task], known.datasets["chaos"].model_copy(update=changes)).split(name)


class Repeated(nn.Module):
    """Answers the last value of a window at every horizon."""

    device, dtype = torch.device("cpu"), torch.float32

    def forward(self, x, lengths=None):
        return x[:, -1].expand(-1, 4)


@pytest.mark.parametrize("task", TASKS)
def test_a_target_is_the_value_so_many_steps_after_the_window(task: str) -> None:
    found, horizons = split(task), registry.load_registry().all_tasks[task].horizons
    series = torch.cat([found.raw[:, 0], found.raw[-1, 1:]])
    x, y, lengths = found.batch(torch.tensor([0, 17, 3999 - max(horizons)]))
    assert (x.shape, y.shape, lengths) == ((3, 100, 1), (3, 4), None)
    for row, target, first in zip(x, y, (0, 17, 3999 - max(horizons)), strict=True):
        assert torch.equal(row[:, 0], series[first : first + 100])
        assert target.tolist() == [series[first + 99 + h] for h in horizons]


@pytest.mark.parametrize("task", TASKS)
def test_a_training_series_has_the_stated_mean_and_deviation(task: str) -> None:
    values = split(task, "train").raw[:, 0]
    assert (float(values.mean()), float(values.std())) == pytest.approx((0, 1), abs=3e-3)


def test_lorenz_flows_as_its_equations_say() -> None:
    """An integrator of order 4 with a tenth of the step agrees until chaos parts the two."""
    import numpy

    random = numpy.random.RandomState(5)
    state = (numpy.random.RandomState(5).random_sample(3) - 0.5) * 20 + [0, 0, 25]
    samples = forecast.lorenz(random, 100)

    def flow(s):
        return numpy.array([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])

    for sample in samples:
        for _ in range(20):
            a = flow(state)
            b = flow(state + 0.0005 * a)
            c = flow(state + 0.0005 * b)
            state = state + 0.001 / 6 * (a + 2 * b + 2 * c + flow(state + 0.001 * c))
        assert sample == pytest.approx(state[0], abs=2e-3)


def test_mackey_glass_flows_as_its_equation_says() -> None:
    """Euler's method with a fiftieth of the step agrees to its error over two delays."""
    import numpy

    samples = forecast.mackey_glass(numpy.random.RandomState(5), 34)
    x, h = 0.5 + numpy.random.RandomState(5).random_sample(), 0.002
    past = [x] * 8501
    for sample in samples:
        for _ in range(500):
            delayed = past[-8501]
            past.append(past[-1] + h * (0.2 * delayed / (1 + delayed**10) - 0.1 * past[-1]))
        assert sample == pytest.approx(past[-1], abs=2e-3)


@pytest.mark.parametrize("task", TASKS)
def test_repeating_the_last_value_has_the_stated_errors(task: str) -> None:
    declared = registry.load_registry().all_tasks[task]
    found, test = measure(Repeated(), split(task), "forecast", 500), split(task)
    errors = (test.targets - test.raw[:, -1:]).double().square().mean(0)
    assert found.by_output == pytest.approx(errors.sqrt().tolist())
    assert [f"{value:.3g}" for value in found.by_output] == [f"{value:.3g}" for value in declared.persistence]
    assert found.metric == pytest.approx(math.sqrt(found.loss)) == pytest.approx(errors.mean().sqrt().item())


def test_splits_differ_and_other_numbers_are_refused() -> None:
    assert not torch.equal(split("lorenz").raw[:9], split("lorenz", "validation").raw[:9])
    with pytest.raises(DataError, match="lorenz-test: the numbers that numpy generated do not match the locked sha256"):
        split("lorenz", test=100)


@pytest.mark.parametrize(
    "changes", [{"horizons": [1, 2]}, {"horizons": []}, {"target": "value"}, {"persistence": [1.0]}]
)
def test_horizons_belong_to_forecasts(changes: dict[str, object]) -> None:
    fields = registry.load_registry().all_tasks["lorenz"].model_dump() | changes
    with pytest.raises((RegistryError, ValueError), match="horizons"):
        Task.model_validate(fields)


@pytest.fixture
def trained(small_zoo, tmp_path):
    """A run of a small network on little data, its training and its evaluation."""
    small_zoo({"epochs": 2}, cell="rnn", task="lorenz")
    known = registry.load_registry()
    sizes = {"train": 300, "validation": 100, "test": 100}
    digests = {}
    import hashlib

    for seed, (name, n) in enumerate(sizes.items()):
        digests[f"lorenz-{name}"] = hashlib.sha256(forecast.series("lorenz", seed, n + 149).tobytes()).hexdigest()
    known.datasets["chaos"] = known.datasets["chaos"].model_copy(update={**sizes, "sha256": digests})
    run = tmp_path / "run"
    return run, train(registry.find("rnn-1x8-lorenz"), run, device="cpu"), evaluate(run, device="cpu")


def test_training_shows_the_root_of_its_loss_and_a_card_every_horizon(trained) -> None:
    _, training, evaluation = trained
    assert training.metric == evaluation.metric == "nrmse"
    for row in training.history:
        assert row.train_metric == pytest.approx(math.sqrt(row.train_loss))
        assert row.validation_metric == pytest.approx(math.sqrt(row.validation_loss))
    assert list(evaluation.by_horizon) == ["1", "5", "25", "50"]
    squares = [value**2 for value in evaluation.by_horizon.values()]
    assert evaluation.value == pytest.approx(math.sqrt(sum(squares) / 4))
    assert Results.model_validate_json(Results(evaluations=(evaluation,)).model_dump_json()).evaluations == (
        evaluation,
    )
    text = cards.compose(
        registry.find("rnn-1x8-lorenz"), Results(training=training, evaluations=(evaluation,)),
        cards.Counts(parameters=1, multiply_adds=1),
    )  # fmt: skip
    assert f"| measured, test, 25 steps ahead | {evaluation.by_horizon['25']:.3g} |" in text
    assert TARGETS["forecast"].with_loss(0.25, 0.5) == "0.2500, normalised RMSE 0.5"


def test_a_network_of_values_predicts_from_a_table(trained, run, tmp_path) -> None:
    (tmp_path / "window.csv").write_text("\n".join(map(str, range(9))))
    code, out, _ = run("predict", str(trained[0]), str(tmp_path / "window.csv"))
    rows = [line.split() for line in out.splitlines()[1:]]
    values = load(trained[0], device="cpu")(torch.arange(9.0)[None, :, None])[0].tolist()
    assert (code, [int(ahead) for ahead, _ in rows]) == (0, [1, 5, 25, 50])
    assert [float(value) for _, value in rows] == pytest.approx(values, rel=1e-4)


def test_examples_without_a_target_at_some_horizon_cannot_be_measured() -> None:
    targets = torch.randn(3, 4)
    targets[:, 2] = math.nan
    network = load("gru-2x64-lorenz", device="cpu")
    with pytest.raises(DataError, match="None of these 3 examples has a target at every horizon"):
        measure(network, Split(torch.randn(3, 9, 1), targets, {}), "forecast", 2)
