"""docs/tasks.md: where test data are, the errors of forecasts at every horizon, and the stream of digits as measured."""

import pytest

from zoo import registry
from zoo.checkpoints.results import Evaluation, Results
from zoo.publishing.pages import tasks as tasks_page
from zoo.publishing.pages.speed import measurements


def rows(page: str, first: str) -> list[list[str]]:
    """The cells of the rows whose first cell begins with some text."""
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return [cells for cells in lines if cells[0].startswith(first)]


def test_every_task_says_where_its_test_data_are() -> None:
    page, tasks = tasks_page.page(), registry.load_registry().all_tasks
    of_tasks, of_data = page.split("## Data")
    said = {
        name: rows(of_data, rows(of_tasks, f"`{name}`")[0][-1])[0][-1]
        for name in tasks  # of the task's dataset
    }
    assert {name for name, text in said.items() if text == "in the package"} == {
        name for name, task in tasks.items() if task.family == "mnist"
    }
    assert {name for name, text in said.items() if text == "-"} == {name for name, task in tasks.items() if task.absent}
    assert {said[name] for name in ("copying", "lorenz", "circles")} == {"generated"}
    assert {said[name] for name in ("fsdd", "shakespeare", "japanese-vowels")} == {"not in the package"}


def test_every_task_says_how_many_examples_it_has() -> None:
    said = {cells[0].strip("`"): cells[4] for cells in rows(tasks_page.page().split("## Data")[0], "`")}
    assert said["smnist"] == "55,000 / 5,000 / 10,000"
    assert said["tum"] == "-"
    assert set(said) == set(registry.load_registry().all_tasks)


def test_a_forecast_stands_under_the_error_of_the_last_value(monkeypatch: pytest.MonkeyPatch) -> None:
    horizons = {"1": 0.01, "5": 0.02, "25": 0.3, "50": 0.4}
    measured = Results(evaluations=(Evaluation.model_construct(
        split="test", metric="nrmse", value=0.25, by_horizon=horizons
    ),))  # fmt: skip
    monkeypatch.setattr(
        tasks_page.results, "for_model", lambda name: measured if name == "gru-2x64-lorenz" else Results()
    )
    page = tasks_page.page()
    assert rows(page, "repeating the last value")[0][1:] == ["0.111", "0.53", "1.35", "1.38"]
    assert rows(page, "[`gru-2x64-lorenz`]")[0][1:] == ["0.01", "0.02", "0.3", "0.4"]
    assert rows(page, "[`lstm-2x64-lorenz`]") == []


def test_the_stream_of_digits_is_as_measured() -> None:
    page, data = tasks_page.page(), measurements("listening")
    assert data["machine"]["command"] in page
    for name in {row["network"] for row in data["rows"]}:
        shown = rows(page, f"[`{name}`]")
        measured = [row for row in data["rows"] if row["network"] == name]
        for cells, row in zip(shown[: len(measured)], measured, strict=True):
            assert cells[2] == f"{row['hits']} of 300"
            assert cells[6] == " and ".join(f"{1000 * row['latency'][key]:.3g} ms" for key in ("median", "p95"))
        hours = [list(map(str, row["quiet_hours"].values())) for row in measured if row["quiet_hours"]]
        assert [cells[2:] for cells in shown[len(measured) :]] == hours
    early = [row for row in data["rows"] if row["early"]]
    assert early
    assert all(row["latency"]["p95"] < 0.05 for row in early)
