"""The leaderboard: one protocol for every cell, its rows, and how they are shown."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import leaderboard as program
from zoo.checkpoints import leaderboard
from zoo.checkpoints import protocol as protocols
from zoo.checkpoints.protocol import Budget, Protocol
from zoo.errors import RegistryError, RequestError, TrainingError
from zoo.networks.builder import build
from zoo.networks.recurrent import RecurrentNetwork
from zoo.publishing.pages import leaderboard as leaderboard_page
from zoo.registry.schema import Schedule
from zoo.training import evaluation
from zoo.utils import paths

Run = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parent.parent.parent


def small(**changes: object) -> Protocol:
    budget = Budget(batch_size=20, epochs=1)
    fields = {"parameters": 600, "tolerance": 0.1, "layers": 1, "rates": [0.01, 3e37], "seeds": [0, 1]}
    return Protocol(
        **{**fields, "schedule": Schedule(), "max_grad_norm": 1.0, "tasks": {"mnist-rows": budget}, **changes}
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("task", protocols.read().tasks)
def test_every_ranked_cell_has_the_protocols_parameters(task: str) -> None:
    protocol = protocols.read()
    for cell in program.ranked_cells():
        entry = program.entry_of(protocol, cell, task)
        assert abs(program.parameters(entry.config) - protocol.parameters) <= protocol.tolerance * protocol.parameters
        layers = protocol.layers_on(task)
        assert entry.model.name.startswith(f"{cell}-{layers}x{entry.model.units}-{task}.")


@pytest.mark.parametrize(("text", "words"), [("layer: 1\n", "parameters: is missing"), ("a: [1\n", r":\d+:\d+: ")])
def test_a_faulty_protocol_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    (tmp_path / "protocol.yaml").write_text(text)
    monkeypatch.setattr(protocols, "FILE", tmp_path / "protocol.yaml")
    with pytest.raises(RegistryError, match=rf"protocol\.yaml.*{words}"):
        protocols.read()


def test_units_that_fit_nearly_and_not_at_all() -> None:
    protocol = small(parameters=100, tolerance=0.05)
    assert program.units_for(protocol, lambda units: 10 * units) == 10
    assert program.units_for(protocol, lambda units: 33 * units) == 3
    with pytest.raises(RequestError, match="132 parameters with 2 units are not within"):
        program.units_for(protocol, lambda units: 66 * units)


def test_a_row_is_measured_and_goes_on_where_it_was(
    small_zoo: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo()
    row = program.measure(small(), "gru", "mnist-rows", tmp_path / "runs")
    assert (row.rate, list(row.rates), row.rates["3e+37"]) == (0.01, ["0.01", "3e+37"], None)
    assert len(row.values) == 2
    assert row.updates == 8
    assert row.step_us is not None
    assert row.step_us > 0
    monkeypatch.setattr(program, "train", None)  # all is done
    again = program.measure(small(), "gru", "mnist-rows", tmp_path / "runs")
    assert again.model_dump(exclude={"step_us"}) == row.model_dump(exclude={"step_us"})


def test_the_first_row_of_a_zoo_makes_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = leaderboard.read()[0]
    monkeypatch.setattr(paths, "ROOT", tmp_path / "new")
    leaderboard.record(row)
    assert leaderboard.read() == [row]


def test_the_rate_with_the_lowest_loss_of_any_epoch_is_measured_on_the_test_data(
    small_zoo: Callable[..., Path], tmp_path: Path
) -> None:
    small_zoo()
    budget = Budget(batch_size=20, epochs=2)
    protocol = small(rates=[1e-6, 0.01], seeds=[0], tasks={"mnist-rows": budget})
    row = program.measure(protocol, "gru", "mnist-rows", tmp_path)
    folder = tmp_path / "mnist-rows" / "gru" / "rate-0.01" / "seed-0"
    assert (row.rate, row.updates) == (0.01, 2 * 8)
    assert row.values == (evaluation.evaluate(folder, split="test", device="cpu").value,)
    content = json.loads((folder / "results.json").read_text())
    first, last = content["training"]["history"]
    last["validation_loss"] = 9.0
    (folder / "results.json").write_text(json.dumps(content))
    assert program.measure(protocol, "gru", "mnist-rows", tmp_path).rates["0.01"] == first["validation_loss"]


def test_a_run_of_another_protocol_is_refused(small_zoo: Callable[..., Path], tmp_path: Path) -> None:
    small_zoo()
    program.measure(small(rates=[0.01], seeds=[0]), "gru", "mnist-rows", tmp_path / "runs")
    for changed in ({"parameters": 700}, {"max_grad_norm": 2.0}):
        with pytest.raises(RequestError, match="holds a run of another protocol"):
            program.measure(small(rates=[0.01], seeds=[0], **changed), "gru", "mnist-rows", tmp_path / "runs")


def test_a_seed_whose_states_overflow_on_the_test_data_diverged(
    small_zoo: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo()
    finite = evaluation.measure

    def overflowing(network: RecurrentNetwork, *rest: object) -> object:
        return replace(finite(network, *rest), loss=math.inf)

    monkeypatch.setattr(evaluation, "measure", overflowing)
    row = program.measure(small(rates=[0.01]), "gru", "mnist-rows", tmp_path / "runs")
    assert (row.rate, row.values, row.diverged, row.text) == (0.01, (), (0, 1), "diverged")


def test_the_units_are_a_multiple_of_an_option_that_divides_them() -> None:
    protocol = small(parameters=5000, options={"clockwork": {"modules": 8}})
    entry = program.entry_of(protocol, "clockwork", "mnist-rows")
    assert (entry.model.units % 8, entry.model.options) == (0, {"modules": 8})
    assert "lstm-mass" not in program.ranked_cells()


def test_a_cell_that_diverges_is_a_row(small_zoo: Callable[..., Path], tmp_path: Path) -> None:
    small_zoo()
    row = program.measure(small(rates=[3e37]), "rnn", "mnist-rows", tmp_path / "runs")
    assert (row.rate, row.values, row.text) == (None, (), "diverged")


def test_cells_are_measured_at_once_each_in_a_process(
    small_zoo: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_zoo()
    runs = tmp_path / "runs"
    command = [
        "leaderboard",
        *["--task", "mnist-rows", "--task", "parity", "--cell", "no-cell", "no-cell", "--jobs", "2", "--runs"],
        str(runs),
    ]
    monkeypatch.setattr("sys.argv", command)
    reason = "No ranked cell is called 'no-cell'"
    with pytest.raises(TrainingError, match=f"\nmnist-rows/no-cell: {reason}.*\nparity/no-cell: {reason}"):
        program.main()
    for task in ("mnist-rows", "parity"):
        log = (runs / task / "no-cell" / "train.log").read_text()
        command, fault, *_ = log.splitlines()
        assert log.count(command) == 1  # the cell was asked for twice
        assert command == f"$ python -m benchmarks.leaderboard --task {task} --cell no-cell --runs {runs}"
        assert fault.startswith(f"{task}, no-cell: No ranked cell is called 'no-cell'")
    assert "parity/no-cell: failed" in capsys.readouterr().err


@pytest.mark.parametrize("count", [0, -1])
def test_no_jobs_at_a_time_are_refused(small_zoo: Callable[..., Path], tmp_path: Path, count: int) -> None:
    small_zoo()
    with pytest.raises(RequestError, match=f"At least one job must run at a time; got {count}"):
        program.at_once([("mnist-rows", "star")], tmp_path, count, None)


def test_an_interruption_ends_the_program_with_its_code() -> None:
    ends = "import benchmarks.leaderboard as m, runpy, sys; sys.argv = ['leaderboard', '--cell', 'star'];" + (
        "import zoo.checkpoints.protocol as p; p.read = lambda: (_ for _ in ()).throw(KeyboardInterrupt);"
        "runpy.run_module('benchmarks.leaderboard', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", ends], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.endswith("Interrupted. The same command continues the training.\n")
    assert "Traceback" not in done.stderr


def test_a_cell_that_another_process_measured_is_not_measured_again(small_zoo: Callable[..., Path]) -> None:
    small_zoo()
    pairs = program.unmeasured(small(), (), ())
    first, second, third = program.ranked_cells()[:3]
    assert next(pairs) == ("mnist-rows", first)
    leaderboard.record(
        leaderboard.Row(
            cell=second, task="mnist-rows", units=8, parameters=600, rates={}, metric="accuracy", updates=8, cpu="cpu",
            date="2026-01-01", command="c",
        )
    )  # fmt: skip
    assert next(pairs) == ("mnist-rows", third)
    assert list(program.unmeasured(small(), ["parity"], [second])) == [("parity", second)]


def test_rows_are_ranked_stored_and_shown(small_zoo: Callable[..., Path], run: Run) -> None:
    small_zoo()
    assert run("leaderboard")[:2] == (0, run("leaderboard")[1])
    assert "No cell has been measured yet" in run("leaderboard")[2]
    fields = {
        "task": "mnist-rows", "units": 8, "parameters": 600, "rates": {"0.01": 0.5}, "rate": 0.01, "metric": "accuracy",
        "updates": 8, "cpu": "cpu", "date": "2026-01-01", "command": "c",
    }  # fmt: skip
    leaderboard.record(leaderboard.Row(cell="rnn", values=(0.5, 0.7), **fields))
    leaderboard.record(leaderboard.Row(cell="gru", values=(0.9,), diverged=(1,), **fields))
    leaderboard.record(leaderboard.Row(cell="lstm", **{**fields, "rate": None}))
    assert [row.cell for row in leaderboard.read()] == ["gru", "rnn", "lstm"]
    assert [row.text for row in leaderboard.read()] == [
        "90.00 % (1 diverged)", "60.00 % ± 14.14 %", "diverged"
    ]  # fmt: skip
    leaderboard.record(leaderboard.Row(cell="rnn", **{**fields, "task": "parity"}))
    assert [row.cell for row in leaderboard.read()] == ["gru", "rnn", "lstm", "rnn"]
    shown = json.loads(run("leaderboard", "--task", "mnist-rows", "--json")[1])
    assert [row["cell"] for row in shown] == ["gru", "rnn", "lstm"]
    assert [(row["mean"], row["at_chance"]) for row in shown] == [(0.9, False), (0.6, False), (None, False)]
    leaderboard.record(leaderboard.Row(cell="star", values=(0.1,), **fields))
    assert "10.00 %, no better than chance" in run("leaderboard", "--cell", "star")[1]
    assert json.loads(run("leaderboard", "--cell", "star", "--json")[1])[0]["at_chance"]
    shown = json.loads(run("leaderboard", "--cell", "rnn", "--json")[1])
    assert [(row["task"], row["place"], row["cell"]) for row in shown] == [
        ("mnist-rows", 2, "rnn"),
        ("parity", 1, "rnn"),
    ]
    assert run("leaderboard", "--cell", "gru")[1].splitlines()[1].split()[:3] == ["mnist-rows", "1", "gru"]
    first = json.loads(run("leaderboard", "--top", "1", "--json")[1])
    assert [(row["task"], row["cell"]) for row in first] == [("mnist-rows", "gru"), ("parity", "rnn")]
    assert "lstm is not among places 1 to 1." in run("leaderboard", "--cell", "lstm", "--top", "1")[2]
    unmeasured = run("leaderboard", "--task", "parity", "--cell", "lstm", "--top", "1")[2]
    assert "lstm has not been measured on parity yet." in unmeasured
    assert run("leaderboard", "--top", "0")[0] == 2
    assert run("leaderboard", "--cell", "mgu")[0] == 2
    code, _, err = run("leaderboard", "--task", "mnist-row")
    assert (code, "Did you mean mnist-rows?" in err) == (2, True)
    paths.path("cards", "leaderboard.json").write_text("[{}]")
    with pytest.raises(RegistryError, match="A program writes this file"):
        leaderboard.read()


@pytest.mark.parametrize("cell", program.ranked_cells())
def test_the_page_names_the_cells_that_are_linear_maps(cell: str) -> None:
    network = build(f"{cell}-1x8", inputs=4, outputs=3, device="cpu", dtype=torch.float64, seed=1).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for p in network.parameters():  # biases of zero would hide what a cell does
        p += 0.1 * torch.randn(p.shape, generator=generator, dtype=p.dtype)
    a, b = torch.randn(2, 2, 12, 4, generator=generator, dtype=torch.float64)
    zero, one, two, both = (network.encode(x)[0] for x in (torch.zeros_like(a), a, b, a + b))
    is_linear = torch.allclose(both, one + two - zero, rtol=1e-9, atol=1e-9)
    assert is_linear == (cell in ("lru", "s4d", "s5"))
    assert not is_linear or f"`{cell}`" in leaderboard_page.page().partition("are linear maps of the sequence")[0]


def test_equal_figures_and_all_at_chance_share_a_place() -> None:
    fields = {
        "task": "parity", "units": 8, "parameters": 600, "rates": {}, "metric": "accuracy", "updates": 8, "cpu": "cpu",
        "date": "2026-01-01", "command": "c",
    }  # fmt: skip
    figures = ([0.9, 1.0], [1.0, 0.9], [0.52], [0.514], [0.4], [])
    rows = [leaderboard.Row(cell=f"cell-{i}", values=values, **fields) for i, values in enumerate(figures)]
    assert leaderboard.places(rows) == [1, 1, 3, 4, 4, 6]
    assert [row.at_chance for row in rows] == [False, False, False, True, True, False]
    assert [row.figure for row in rows[2:]] == [
        "52.00 %", "51.40 %, no better than chance", "40.00 %, no better than chance", "diverged"
    ]  # fmt: skip
    shared = [tuple(right / 300 for right in (293 - n, 293, 293 + n)) for n in range(7)]  # 879 of 900 right answers
    same = [rows[0].model_copy(update={"values": values}) for values in shared]
    assert len({row.mean for row in same}) > 1  # in the last digit
    assert leaderboard.places(same) == [1] * 7
    losses = [row.model_copy(update={"task": "mackey-glass", "metric": "nrmse"}) for row in rows]  # of unknown chance
    assert leaderboard.places(losses) == [4, 4, 3, 2, 1, 6]
    assert not any(row.at_chance for row in losses)
    figures = ([0.18, 0.14], [0.1], [0.165], [0.2], [])
    errors = [rows[0].model_copy(update={"task": "adding-200", "metric": "mse", "values": v}) for v in figures]
    assert [row.at_chance for row in errors] == [False, False, True, True, False]
    assert leaderboard.places(errors) == [2, 1, 3, 3, 5]
    for task, metric, guess in (("shakespeare", "cross_entropy", 3.347), ("jsb", "nll", 11.09)):
        found = [
            rows[0].model_copy(update={"task": task, "metric": metric, "values": [f * guess]}) for f in (0.9, 1, 9)
        ]
        assert leaderboard.places(found) == [1, 2, 2]
    assert leaderboard.places([]) == []


def test_a_cells_page_says_how_it_stands() -> None:
    best, *_, last = [row.cell for row in leaderboard.read() if row.task == "mnist-rows"]
    of_rows = [
        [text for text in leaderboard.standing(cell) if " parameters on row-by-row MNIST: " in text]
        for cell in (best, last, leaderboard.YARDSTICK)
    ]
    (first,), (worst,), (yardstick,) = of_rows
    assert first.startswith("Rank 1 of ")
    count = first.split(" of ")[1].split()[0]
    assert worst.startswith(f"Rank {count} of {count} cells")
    assert "(lstm: 9" in first
    assert "(lstm:" not in yardstick
    assert leaderboard.standing("mlstm") == []


def test_the_page_ranks_every_row() -> None:
    text = leaderboard_page.page()
    rows = leaderboard.read()
    assert rows
    by_task = {task: [row for row in rows if row.task == task] for task in dict.fromkeys(row.task for row in rows)}
    most = int(leaderboard_page.MOST * len({row.cell for row in rows}))
    for fewest in (leaderboard_page.FEWEST, most):
        over_tasks = leaderboard_page.over_tasks(leaderboard_page.comparable(by_task, fewest))
        assert over_tasks is not None
        assert over_tasks in text
        text = text.replace(over_tasks, "")
    assert text.count("\n| ") == len(rows) + 2 * len(by_task)
    assert all(f"| `{row.cell}` | {row.units:,} |" in text for row in rows)


def test_places_over_tasks_count_the_cells_that_all_tasks_have() -> None:
    row = next(row for row in leaderboard.read() if row.metric == "mse")
    ranked = {
        task: [
            row.model_copy(update={"task": task, "cell": cell, "values": (float(place),)})
            for place, cell in enumerate(cells.split())
        ]
        for task, cells in (("a", "lem gru star"), ("b", "star rnn gru"))
    }
    assert leaderboard_page.over_tasks(ranked) == (
        "| cell | mean rank | `a` | `b` |\n| --- | --- | --- | --- |\n| `gru` | 1.5 | 1 | 2 |\n| `star` | 1.5 | 2 | 1 |"
    )
    assert leaderboard_page.over_tasks({"a": ranked["a"]}) is None
    little = {**ranked, "c": ranked["a"][:1]}  # its one cell would leave nothing to compare
    assert leaderboard_page.comparable(little, 2) == ranked
    assert leaderboard_page.comparable(little, 4) == {}
    assert leaderboard_page.over_tasks({}) is None


def test_a_standing_at_chance_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    row = leaderboard.Row(
        task="parity", cell="lstm", units=8, parameters=600, rates={}, metric="accuracy", updates=8, cpu="cpu", values=(0.5,),
        step_us=3.0, date="2026-01-01", command="c",
    )  # fmt: skip
    rows = [row, row.model_copy(update={"cell": "gru", "values": (1.0,)})]
    monkeypatch.setattr(leaderboard, "read", lambda: rows)
    (sentence,) = leaderboard.standing("lstm")
    assert sentence.endswith("50.00 %, no better than chance, and 3.00 µs per streamed step.")
    assert "chance" not in leaderboard.standing("gru")[0].partition("(lstm")[0]
    untimed = row.model_copy(update={"step_us": None})
    assert leaderboard._reached(untimed) == "50.00 %, no better than chance"
    monkeypatch.setattr(leaderboard, "read", lambda: [*rows, row.model_copy(update={"task": "copying"})])
    assert "one thread. Not measured yet: `gru`." in leaderboard_page.page()


def test_runs_that_were_paused_do_not_count_for_the_seconds() -> None:
    assert program.undisturbed([[10.0, 20.0], [10.0, 21.0], [12.0, 500.0]]) == 20.5
    assert program.undisturbed([[30.0, 40.0], [10.0, 45.0]]) is None
    assert program.undisturbed([[30.0, 35.0], [31.0]]) == 33.0  # a slow first epoch of every run; one diverged
