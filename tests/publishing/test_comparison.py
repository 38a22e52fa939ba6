"""Reported figures beside measured ones: rows, table, plot and pages."""

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rnnzoo_cli.many import parse_seeds

from zoo import build, registry
from zoo.checkpoints import results
from zoo.errors import RequestError, UnknownNameError
from zoo.networks import loading
from zoo.publishing import cards, comparison, generated, plots
from zoo.publishing.comparison import Row
from zoo.publishing.means import means
from zoo.publishing.pages import measured as measured_page
from zoo.publishing.pages import models as models_page
from zoo.publishing.pages import papers as papers_page
from zoo.publishing.starters import STARTERS
from zoo.registry.schema import Recipe
from zoo.training.evaluation import evaluate
from zoo.utils import paths

Zoo = Callable[..., Path]
Run = Callable[..., tuple[int, str, str]]
ROW = Row("star-4x8-t", "star", 4, 8, "pmnist", "permuted pixel-by-pixel MNIST", "mnist", "accuracy")


def _measured(name: str) -> str:
    """The recorded accuracy in percent."""
    evaluation = results.for_model(name).measured()
    assert evaluation is not None
    return f"{100 * evaluation.value:.2f}"


def test_every_reported_figure_is_a_row_and_every_measured_model_is_in_one() -> None:
    rows = comparison.rows()
    expected = sorted((name, f.table, f.value) for name, m in registry.models().items() for f in m.reported)
    found = [r for r in rows if r.reported is not None]
    assert sorted((r.model, r.table, r.reported) for r in found) == expected
    measured = {name for name in registry.models() if results.for_model(name).measured()}
    assert measured >= set(registry.list_models(pretrained=True))
    assert {r.model for r in rows if r.measured is not None} == measured
    lost = {name for name in registry.models() if results.for_model(name).unmeasurable}
    assert {r.model for r in rows if r.has_run} == measured | lost
    assert {r.model for r in rows if r.paper is None} == {
        n for n in measured | lost if not registry.models()[n].reported
    }


def test_a_measured_row_has_its_evaluation_and_training() -> None:
    (row,) = comparison.rows("star-16x64-pmnist")
    recorded = results.for_model("star-16x64-pmnist")
    evaluation, training = recorded.measured(), recorded.training
    assert evaluation is not None
    assert training is not None
    assert (row.paper, row.table, row.reported) == ("star", "Table 1", 0.924)
    assert (row.measured, row.split, row.n, row.seed) == (evaluation.value, "test", 10_000, training.recipe.seed)
    assert (row.recipe, row.epochs_done, row.epochs) == (
        training.recipe_name,
        training.epochs_done,
        training.recipe.epochs,
    )
    assert row.difference == pytest.approx(evaluation.value - 0.924)
    assert row.difference_text == f"{100 * evaluation.value - 92.4:+.2f}"


def test_filters() -> None:
    assert {r.paper for r in comparison.rows(paper="rin")} == {"rin"}
    kinds = {r.kind.split(".")[0] for r in comparison.rows(cell="star")}  # of all tags
    assert kinds == {"blockstar", "convstar", "star"}
    assert {r.task for r in comparison.rows("*", task="smnist")} == {"smnist"}
    assert len(comparison.rows(measured=True)) == sum(r.has_run for r in comparison.rows()) < len(comparison.rows())
    assert comparison.rows("nothing-*") == []
    with pytest.raises(UnknownNameError, match=r"No paper is called 'strar'\. Did you mean star"):
        comparison.rows(paper="strar")


def test_a_figure_on_a_stand_in_has_no_difference() -> None:
    row = replace(ROW, reported=0.5, measured=0.75)
    assert row.difference == 0.25
    other = replace(row, stand_in="20BN-Jester")
    assert other.difference is None
    assert other.measured_text == "75.00 % (on a stand-in for 20BN-Jester)"


def test_a_figure_of_the_training_set_is_compared_with_one_of_the_training_set() -> None:
    name = "rnn-1x50-toxic-short"
    evaluation = results.for_model("rnn-1x128-mnist-rows").measured()
    assert evaluation is not None
    for split, expected in (("train", evaluation.value), ("test", None)):
        found = results.Results(evaluations=(evaluation.model_copy(update={"split": split}),))
        (row,) = comparison.rows(name, results_of=lambda _, found=found: [found])  # type: ignore[misc]
        assert (row.table, row.reported, row.measured) == ("section 4.2.1", 0.9812, expected)


def test_means_over_tasks_of_one_dataset() -> None:
    rows = [
        replace(ROW, task=f"t{n}", table="T", reported=r, measured=m)
        for n, (r, m) in enumerate([(0.2, 0.5), (0.3, None), (0.7, 0.75)])
    ]
    (mean,) = means([*rows, replace(ROW, table="other", reported=0.1), replace(ROW, table="T", kind="rnn")])
    assert (mean.table, mean.kind, mean.tasks, mean.measured_tasks) == ("T", "star-4x8", 3, 2)
    assert (mean.reported, mean.measured, mean.reported_there) == (pytest.approx(0.4), 0.625, pytest.approx(0.45))
    assert means([replace(r, measured=None) for r in rows])[0].measured is None
    assert means([*rows[:2], replace(rows[2], dataset="other")]) == []
    assert mean.over_seeds == ()
    assert mean.measured_text == "62.50 %"
    several = [
        replace(r, measured=sum(v) / len(v), values=v, seeds=s, runs=len(v))
        for r, v, s in zip(rows, [(0.5, 0.6, 0.9), (0.3, 0.1), (0.7, 0.8)], [(0, 1, 2), (1, 0), (0, 1)], strict=True)
    ]
    assert means(several)[0].over_seeds == pytest.approx((1.3 / 3, 1.7 / 3))  # seed 2 is of one task
    assert means(several)[0].measured_text == "50.00 % ± 9.43 % (2 seeds)"
    assert means([*several[:2], replace(several[2], seeds=(0,))])[0].over_seeds == ()  # whose is 0.8?
    found = {(m.table, m.kind): round(100 * m.reported, 2) for m in means(comparison.rows(paper="rin"))}
    assert found["Table 3", "rin-1x100"] == 52.55
    assert len(found) == 5


def test_a_metric_where_lower_is_better(tmp_path: Path) -> None:
    row = replace(ROW, metric="mse", reported=0.167, measured=0.0015, n=1, split="test")
    assert (row.reported_text, row.measured_text, row.difference_text) == ("0.167", "0.0015", "-0.166")
    assert "mean squared error (lower is better)" in drawn([row, replace(row, layers=8)], tmp_path / "x.svg")


def test_a_gain_is_positive_where_ours_is_better() -> None:
    better = replace(ROW, metric="nll", reported=3.25, measured=3.0)
    assert (better.difference, better.gain, replace(better, measured=3.5).gain) == (-0.25, 0.25, -0.25)
    accuracy = replace(ROW, reported=0.5, measured=0.75)
    assert (accuracy.gain, replace(accuracy, measured=None).gain) == (25.0, None)


def test_compare_prints_a_table(run: Run) -> None:
    code, out, err = run("compare", "star-*", "--task", "pmnist", "--paper", "star")
    assert (code, err) == (0, "")
    header, first, *_ = out.splitlines()
    assert header.split() == ["MODEL", "FIGURE", "REPORTED", "MEASURED", "DIFFERENCE", "N", "TRAINED", "BY", "SEED"]
    assert first.split()[:7] == [
        "star-16x64-pmnist",
        "star,",
        "Table",
        "1",
        "92.4",
        "%",
        _measured("star-16x64-pmnist"),
    ]
    assert "10,000" in first


def test_compare_as_json(run: Run) -> None:
    code, out, _ = run("compare", "--measured", "--json")
    rows = json.loads(out)
    assert code == 0
    found = {name: results.for_model(name) for name in registry.models()}
    assert {row["model"] for row in rows} == {n for n, each in found.items() if each.measured() or each.unmeasurable}
    assert set(rows[0]) == {*Row.__dataclass_fields__, "difference", "seed", "span", "std"}
    assert run("compare", "nothing-*", "--json")[:2] == (0, "[]\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--paper", "strar"], "No paper is called 'strar'. Did you mean star"),
        (["--task", "mnits"], "No task is called"),
        (["nothing-*", "--plot", "a.svg"], "nothing to plot"),
        (["--plot", "a.gif"], "a.gif cannot be drawn: its ending must be one of svg, png, pdf."),
        (["--plot", "a"], "its ending must be"),
    ],
)
def test_wrong_comparisons_exit_with_2(
    run: Run, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run("compare", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert os.listdir(tmp_path) == []


def test_compare_with_own_runs(run: Run, small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    name = "rnn-1x8-mnist-rows"
    run("train", name, "--out", str(tmp_path / "runs" / name), "--device", "cpu", "--epochs", "1")
    run("eval", str(tmp_path / "runs" / name), "--record", "--device", "cpu")
    (tmp_path / "empty").mkdir()
    for folder, said in (("nowhere", "There is no folder"), ("empty", "There is no results.json below")):
        code, out, err = run("compare", "--runs", str(tmp_path / folder))
        assert (code, out, said in err) == (2, "", True)
    code, out, _ = run("compare", "--runs", str(tmp_path / "runs"), "--measured", "--json")
    (row,) = json.loads(out)
    assert (code, row["model"], row["n"], row["epochs_done"], row["epochs"]) == (0, name, 10_000, 1, 1)
    assert run("compare", "--measured", "--json")[1] == "[]\n"


def test_several_seeds_are_one_row_with_mean_and_spread(run: Run, small_zoo: Zoo, tmp_path: Path) -> None:
    """Runs are found by what they say, whatever their folders are called."""
    small_zoo()
    name, out = "rnn-1x8-mnist-rows", tmp_path / "runs"
    options = ("--seeds", "3,5", "--jobs", "2", "--device", "cpu", "--epochs", "1")
    arguments = ["train", name, *options, "--out", str(out)]
    code, text, _ = run(*arguments, "--json")
    assert (code, [row["state"] for row in json.loads(text)]) == (0, ["done"] * 2)
    assert [row["name"] for row in json.loads(text)] == [f"{name}/seed-{seed}" for seed in (3, 5)]
    assert [row["state"] for row in json.loads(run(*arguments, "--json")[1])] == ["skipped"] * 2
    assert f"no run in {out} that fits has a recorded figure" in run("compare", "--runs", str(out), "--measured")[2]
    (out / name / "seed-3").rename(out / "of another name")
    for folder in ("of another name", f"{name}/seed-5"):
        run("eval", str(out / folder), "--record", "--device", "cpu")
    values = [e.value for path in out.rglob("results.json") if (e := results.parse(path).measured())]
    (row,) = json.loads(run("compare", "--runs", str(out), "--measured", "--json")[1])
    assert (row["runs"], sorted(row["seeds"]), row["seed"]) == (2, [3, 5], None)
    assert (row["measured"], row["std"]) == (
        pytest.approx(statistics.mean(values)),
        pytest.approx(statistics.stdev(values)),
    )
    assert " ± " in run("compare", "--runs", str(out), "--measured")[1]


@pytest.mark.parametrize(
    ("seeds", "advice"),
    [
        *((text, "such as 0-4 or 0,3,7") for text in ("", "a", "1,,2", "-1", "1.5")),
        ("1,4-2", "4-2 runs backwards; give 2-4"), ("0-1000000000", "at most 1,000 seeds"),
    ],
)  # fmt: skip
def test_seeds_that_are_none_are_refused(run: Run, small_zoo: Zoo, tmp_path: Path, seeds: str, advice: str) -> None:
    small_zoo()
    code, _, err = run("train", "rnn-1x8-mnist-rows", f"--seeds={seeds}", "--out", str(tmp_path / "runs"))
    assert code == 2
    assert advice in err
    assert run("train", "rnn-1x8-mnist-rows", "--seeds", "1", "--seed", "1")[0] == 2


def test_a_range_has_at_most_a_thousand_seeds() -> None:
    assert len(parse_seeds("1-1000")) == 1000
    with pytest.raises(RequestError, match="at most 1,000 seeds"):
        parse_seeds("0-1000")
    with pytest.raises(RequestError, match="at most 1,000 seeds"):
        parse_seeds("0-999,5000")


def drawn(rows: list[Row], path: Path) -> str:
    from zoo.publishing import plots

    plots.against_depth(rows, path)
    return " ".join(re.sub("<[^>]*>", " ", path.read_text()).split())  # the text, without its line breaks


def test_the_plot_shows_both_figures_and_the_setting(tmp_path: Path) -> None:
    rows = [
        replace(ROW, model=f"{kind}-{n}", kind=kind, layers=n, paper="star", table="Table 3", reported=0.9 - n / 100)
        for kind in ("lstm", "star") for n in (1, 2, 4)
    ]  # fmt: skip
    before = drawn(rows, tmp_path / "a.svg")
    assert "stroke-dasharray" in (tmp_path / "a.svg").read_text()
    assert "Reported: Table 3 of Turkoglu et al. 2019. None of these models is measured." in before
    known = {"measured": 0.8, "split": "test", "n": 10_000, "recipe": "r", "epochs_done": 2, "epochs": 3}
    known |= {"runs": 1, "seeds": (1,)}
    after = drawn([rows[0], *(replace(r, **known) for r in rows[1:])], tmp_path / "b.svg")
    for text in ("accuracy, %", "depth, layers", "lstm", "reported", "measured", "10,000 test examples", "8 units"):
        assert text in after
    assert "(r, 2 of 3 epochs, seed 1)" in after
    several = [replace(r, **known | {"runs": 3, "seeds": (1, 2, 5), "values": (0.1, 0.7, 0.9)}) for r in rows]
    text = drawn(several, tmp_path / "g.svg")
    assert "mean of 3 runs (error bars: lowest to highest)" in text
    assert plots._error(several[0]) == [[pytest.approx(70)], [pytest.approx(10)]]  # below and above 80 %
    assert "seed 1, 2, 5" in text
    assert "on a stand-in for x" in drawn([replace(r, **known, stand_in="x") for r in rows], tmp_path / "c.svg")
    assert drawn(rows, tmp_path / "d.svg") == before
    assert (tmp_path / "d.svg").read_bytes() == (tmp_path / "a.svg").read_bytes()
    single = [*rows, replace(ROW, kind="gru", units=77, paper="star", table="Table 1", reported=0.5)]
    text = drawn(single, tmp_path / "e.svg")  # models of one depth stand beside the curves, as bars
    assert "gru 4x77" in text
    assert "77 units" not in text
    assert "gru 4x77" in drawn(single[-1:], tmp_path / "f.svg")
    many = [replace(single[-1], table=f"Table {i}") for i in range(5)]
    assert "gru" not in drawn([*rows, *many], tmp_path / "h.svg")


def test_runs_of_which_some_collapsed_are_points_beside_the_curve() -> None:
    known = {"split": "test", "n": 10, "recipe": "r", "runs": 3}
    rows = [replace(ROW, layers=n, measured=0.9, values=(0.9,), **known) for n in (1, 2, 4)]
    rows[1] = replace(rows[1], values=(0.1, 0.9, 0.8), measured=0.6, collapsed=1)
    (axis,) = plots._draw(rows).axes
    drawn_lines = [(line.get_xdata(), line.get_ydata()) for line in axis.lines if len(line.get_xdata())]
    assert [(list(x), [round(float(value)) for value in y]) for x, y in drawn_lines] == [
        ([1, 4], [90, 90]), ([2, 2, 2], [10, 80, 90]), ([2], [10]),
    ]  # fmt: skip
    assert "points without a line: runs of which some collapsed" in plots._caption(rows)
    (axis,) = plots._draw(rows[1:2]).axes  # a model of one depth has a bar, unless some of its runs collapsed
    assert [[round(float(value)) for value in line.get_xdata()] for line in axis.lines][:2] == [[10, 80, 90], [10]]
    assert not axis.patches
    (axis,) = plots._draw([replace(rows[0], diverged_runs=1), rows[2]]).axes  # two runs, of which one has no figure
    marks = [(line.get_xdata().tolist(), line.get_ydata().tolist()) for line in axis.lines if line.get_marker() == "x"]
    assert marks == [([1], [0.0]), ([], [])]  # on the axis, not on the other run; and in the legend
    other = [rows[0], replace(rows[1], values=(0.1, 0.9, 0.7)), rows[2]]
    assert comparison.digest(other) != comparison.digest(rows)  # else the picture would not be drawn again
    first = replace(rows[0], epochs=5, epochs_done=2, diverged=3, seeds=(4, 5, 6), trained_seed=4)
    assert first.training_text == "r, seed 4: 2 of 5 epochs; diverged"
    assert comparison.shorter([replace(first, paper_epochs=9), replace(first, diverged=None, paper_epochs=9)]) == [
        replace(first, diverged=None, paper_epochs=9)
    ]
    recipes = [replace(row, recipe=f"r{i}", epochs=i) for i, row in enumerate([*rows, rows[0]])]
    assert "(recipes r0, r1, r2, r3; `rnnzoo compare` prints epochs and seeds)" in plots._caption(recipes)


def test_the_scale_of_percent_ends_above_the_best_figure_and_spreads_the_high_ones() -> None:
    for best, top in ((0.5, 50), (0.71, 80), (0.991, 100), (1.0, 100)):
        figures = {1: 0.0, 2: best - 0.1, 4: best}
        (axis,) = plots._draw([replace(ROW, layers=n, reported=y) for n, y in figures.items()]).axes
        assert [tick for tick in axis.get_yticks() if tick <= axis.get_ylim()[1]][-1] == top
        heights = [
            axis.transAxes.inverted().transform(axis.transData.transform((1, 100 * y)))[1] for y in figures.values()
        ]
        assert 0 < heights[0] < heights[1] < heights[2] < 1
        assert heights[2] - heights[1] > 0.1 * (1 + (best > 0.9))  # more than the tenth that a linear axis would give


def test_no_panel_is_empty() -> None:

    from zoo.publishing import plots

    panels = [replace(ROW, task=f"t{i}", layers=layers, reported=0.5) for i in range(3) for layers in (1, 2)]
    assert len(plots._draw(panels).axes) == 3
    assert len(plots._draw(panels[:4]).axes) == 2


@pytest.mark.parametrize("ending", ["png", "pdf", "SVG"])
def test_the_ending_decides_the_format(ending: str, tmp_path: Path) -> None:
    from zoo.publishing import plots

    path = tmp_path / "folder" / f"plot.{ending}"
    plots.against_depth([replace(ROW, reported=0.5)], path)
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "SVG": b"<?xml"}[ending]
    assert path.read_bytes().startswith(start)
    with pytest.raises(RequestError, match="nothing to plot"):
        plots.against_depth([], path)


def test_without_matplotlib_the_error_names_the_extra(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("matplotlib", "matplotlib.figure"):  # an earlier test may have imported the submodule
        monkeypatch.setitem(sys.modules, name, None)
    code, _, err = run("compare", "--plot", str(tmp_path / "a.svg"))
    assert code == 2
    assert "pip install 'rnnzoo[plots]'" in err


def test_the_pages_hold_every_figure_and_link_what_was_measured() -> None:
    for paper in comparison.reporting_papers():
        page = papers_page.page(paper, comparison.rows(paper=paper))
        figures = [f for m in registry.models().values() for f in m.reported if f.paper == paper]
        assert page.count("\n| `") + page.count("\n| [`") == len(figures)
        assert (f"({paper}.svg)" in page) == any(row.measured is not None for row in comparison.rows(paper=paper))
        assert f"docs/{paper}.md" in (paths.path("README.md")).read_text()
    assert (
        f"[`star-16x64-pmnist`](../cards/star-16x64-pmnist/README.md) | 92.4 % | {_measured('star-16x64-pmnist')} % | "
        in (papers_page.page("star", comparison.rows(paper="star")))
    )


def test_every_task_family_with_weights_has_a_starter() -> None:
    families = {registry.find(name).task.family for name in registry.list_models(pretrained=True)}
    assert {registry.find(name).task.family for name in STARTERS} == families
    rows = [(registry.find(name), results.for_model(name), cards.counts(name)) for name in STARTERS]
    table = models_page.starters(rows, "")
    assert table.count("\n| [`") == len(STARTERS) <= len(families) + 1
    first = "| [`star-16x64-pmnist`](cards/star-16x64-pmnist/README.md) | permuted pixel-by-pixel MNIST | 191,242 | "
    assert f"{first}{_measured('star-16x64-pmnist')} % | 92.4 % |" in table
    assert "| mean squared error 0.00" in table
    assert "(../cards/star-16x64-pmnist/README.md)" in models_page.table(rows, "../")


def test_marked_parts_are_filled_and_the_text_around_them_is_kept() -> None:
    text = "a\n<!-- generated: models -->\nold\n<!-- end of generated -->\nb\n"
    asked = []
    parts = {"models": lambda: "new", "speed": lambda: asked.append("speed")}  # there is no mark of speed
    assert generated._filled(text, parts) == text.replace("old", "new")
    assert generated._filled(text, {"models": lambda: None}) == text
    assert asked == []
    unclosed = "<!-- generated: models -->\n<!-- generated: speed -->\n<!-- end of generated -->\n"
    with pytest.raises(ValueError, match="models --> is not followed by"):
        generated._filled(unclosed, {"models": lambda: "new"})


def test_a_plot_of_other_figures_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    assert generated.stale_drawings() == {}
    rows = comparison.rows(paper="star")
    changed = [replace(rows[0], measured=0.5), *rows[1:]]
    assert comparison.digest(changed) != comparison.digest(rows)
    monkeypatch.setattr(comparison, "rows", lambda **_: changed)
    assert len(generated.stale_drawings()) == len(comparison.reporting_papers()) + 1  # the plot of figures in no paper


def test_compare_never_imports_torch() -> None:
    code = """
import sys
sys.argv = ["rnnzoo", "compare"]
from rnnzoo_cli.main import main
try:
    main()
except SystemExit as stopped:
    assert not stopped.code
assert not {"torch", "matplotlib", "numpy"} & set(sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_the_difference_is_measured_less_reported(run: Run) -> None:
    (row,) = json.loads(run("compare", "star-16x64-pmnist", "--json")[1])
    assert row["difference"] == row["measured"] - row["reported"] != 0


def test_figures_of_other_weights_are_left_out(run: Run, small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    name = "rnn-1x8-mnist-rows"
    folder = tmp_path / name
    loading.save(build(name, device="cpu"), folder)
    results.write(folder, results.Results().record(evaluate(folder, device="cpu", limit=5)))
    for seed, n in ((0, 1), (1, 0)):
        loading.save(build(name, device="cpu", seed=seed), folder)
        assert len(comparison.rows(measured=True, results_of=comparison.in_folder(tmp_path))) == n
        assert len(json.loads(run("show", str(folder), "--json")[1])["measured"]) == n


def test_the_other_seeds_on_a_card_count(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    name = "rnn-1x8-mnist-rows"
    loading.save(build(name, device="cpu"), tmp_path)
    figure = evaluate(tmp_path, device="cpu", limit=5).model_copy(update={"value": 0.5, "seed": 0})
    others = tuple(figure.model_copy(update={"value": value, "seed": seed}) for seed, value in ((1, 0.7), (2, 0.9)))
    recorded = results.Results(evaluations=(figure,), other_seeds=others)
    (row,) = comparison.rows(measured=True, results_of=lambda _: [recorded])
    assert (row.measured, row.std, row.runs, row.seeds) == (pytest.approx(0.7), pytest.approx(0.2), 3, (0, 1, 2))
    assert row.span == (pytest.approx(0.5), pytest.approx(0.9))
    assert row.measured_text == "70.00 % ± 20.00 % (3 runs)"
    failed = recorded.model_copy(update={"collapsed_seeds": (1,), "diverged_seeds": (3, 4)})
    (row,) = comparison.rows(measured=True, results_of=lambda _: [failed])
    assert row.measured_text == "70.00 % ± 20.00 % (3 runs, 1 collapsed, 2 diverged)"
    alone = failed.model_copy(update={"other_seeds": (), "collapsed_seeds": ()})
    (row,) = comparison.rows(measured=True, results_of=lambda _: [alone])
    assert row.measured_text == "50.00 % (1 run, 2 diverged)"


def test_a_collapsed_run_is_marked_in_table_and_plot(tmp_path: Path) -> None:
    row = Row("rnn-1x8-t", "rnn", 1, 8, "t", "a task", "data", "accuracy", measured=0.1, n=5, runs=1, split="test")
    rows = [row, replace(row, layers=2), replace(row, layers=4)]
    assert "collapsed" not in measured_page.page(rows) + drawn(rows, tmp_path / "plain.svg")
    rows[2] = replace(rows[2], collapsed=1, recipe="brief", epochs_done=2, epochs=5)
    assert measured_page.page(rows).count(") collapsed") == 1
    assert "2 of 5 epochs; collapsed" in measured_page.page(rows)
    assert "collapsed" in drawn(rows, tmp_path / "marked.svg")


def test_a_run_that_diverged_has_a_row_and_a_mark() -> None:
    row = Row("rnn-1x8-t", "rnn", 1, 8, "t", "a task", "data", "accuracy", measured=0.1, n=5, runs=1, split="test")
    lost = replace(row, layers=8, measured=None, runs=0, diverged=1, diverged_step=1145, seeds=(3,))
    assert (lost.measured_text, lost.seed) == ("diverged in step 1,145 (epoch 1)", 3)
    assert replace(lost, diverged_runs=2).measured_text == "diverged in step 1,145 (epoch 1); 2 more diverged"
    for metric, corner in (("accuracy", min), ("mse", max)):  # the mark is where the worst figures are
        panel = [replace(each, metric=metric) for each in (row, replace(row, layers=2), lost)]
        figure = plots._draw(panel)
        figure.draw_without_rendering()
        (axis,) = figure.axes
        (mark,) = [line for line in axis.lines if line.get_marker() == "x" and len(line.get_xydata())]
        (place,) = mark.get_transform().transform(mark.get_xydata())
        assert tuple(axis.transData.inverted().transform(place)) == pytest.approx((8, corner(axis.get_ylim())))
    bars = plots._draw([row, replace(lost, kind="star", layers=1, units=4)])
    assert any(line.get_marker() == "x" and len(line.get_xydata()) for line in bars.axes[0].lines)


def test_what_diverged_counts_beside_what_was_measured() -> None:
    name = "rhn-12x128-pmnist"
    lost, measured = results.for_model(name), results.for_model("rhn-2x128-pmnist")
    assert lost.unmeasurable
    assert lost.training is not None
    again = of_recipe(lost, lost.training.recipe, seed=1)
    (row,) = comparison.rows(
        name, results_of=lambda _: [lost, of_recipe(measured, lost.training.recipe, seed=1, model=name)]
    )
    assert (row.runs, row.diverged_runs, row.diverged) == (1, 1, None)
    (row,) = comparison.rows(name, results_of=lambda _: [lost, again.model_copy(update={"diverged_seeds": (4,)})])
    assert (row.measured, row.diverged_runs, row.seeds) == (None, 2, (0,))


def of_recipe(run: results.Results, recipe: Recipe, **training: Any) -> results.Results:
    """Return a copy of a run by another recipe. training: other fields of its training, or a seed."""
    seed = training.pop("seed")
    assert run.training is not None
    changed = run.training.model_copy(update={"recipe": recipe.model_copy(update={"seed": seed}), **training})
    return run.model_copy(update={"training": changed, "other_seeds": ()})


def test_a_mean_is_over_the_finished_runs_of_one_recipe_one_for_each_seed() -> None:
    name = "gru-1x160-jsb"
    run = results.for_model(name)
    assert run.training is not None
    recipe, found = run.training.recipe, run.measured()
    assert found is not None

    def trained(recipe: Recipe, seed: int, value: float, **fields: Any) -> results.Results:
        figure = found.model_copy(update={"value": value, "seed": seed})
        return of_recipe(run.model_copy(update={"evaluations": (figure,)}), recipe, seed=seed, **fields)

    def values(*runs: results.Results) -> list[tuple[tuple[float, ...], int]]:
        rows = comparison.rows(name, results_of=lambda _: runs)
        return sorted({(row.values, row.diverged_runs) for row in rows})

    first, second = trained(recipe, 0, 0.1), trained(recipe, 1, 0.2)
    shorter = recipe.model_copy(update={"epochs": 1})
    assert values(first, second) == [((0.1, 0.2), 0)]
    assert values(trained(shorter, 0, 0.3), first, second) == [((0.1, 0.2), 0), ((0.3,), 0)]
    assert values(first, trained(recipe, 1, 0.3, epochs_done=1, history=())) == [((0.1,), 0)]
    assert values(*(trained(recipe, n, 0.1 * n, epochs_done=1, history=()) for n in (1, 2))) == [((0.1, 0.2), 0)]
    assert values(trained(recipe, 0, 0.3, epochs_done=1, history=()), first) == [((0.1,), 0)]
    assert values(first, trained(recipe, 1, 0.3, diverged=2)) == [((0.1,), 1)]
    assert values(trained(recipe, 1, 0.3, diverged=2)) == [((0.3,), 0)]


def test_a_mean_of_runs_of_which_one_collapsed_has_no_difference() -> None:
    row = replace(ROW, reported=0.5, measured=0.75, runs=3, values=(0.1, 0.9, 0.8))
    assert (row.difference, replace(row, collapsed=3).difference) == (0.25, 0.25)
    assert replace(row, collapsed=1).difference is None


def test_a_run_that_converged_is_not_shorter_than_the_papers() -> None:
    row = replace(ROW, measured=0.5, epochs_done=3, epochs=5, paper_epochs=5)
    assert comparison.shorter([row, replace(row, converged=True), replace(row, measured=None)]) == [row]
    assert comparison.shorter([replace(row, epochs_done=5), replace(row, paper_epochs=None)]) == []


def test_a_card_has_no_mean_of_a_run_that_collapsed_and_one_that_did_not() -> None:
    name = "lstm-2x128-smnist"
    (row, *_) = comparison.rows(name)
    card = cards.compose(registry.find(name), results.for_model(name), cards.counts(name))
    assert row.mixed
    assert f"| measured, test, 2 seeds | {row.mean_text} |" in card
    assert "mean of 2 seeds" not in card


def test_a_card_names_the_command_for_its_kind_of_data() -> None:
    families = {entry.family for entry in registry.load_registry().all_tasks.values()}
    assert cards.NEXT.keys() <= families
    for name, command in (("star-2x96-jsb", "generate"), ("mingru-3x96-fsdd", "listen")):
        assert f"\nrnnzoo {command} {name} " in cards.render(registry.find(name))
    assert "rnnzoo listen" not in cards.render(registry.find("star-1x128-pmnist"))


def test_a_page_counts_models_that_diverged() -> None:
    lost = replace(ROW, model="a", diverged=1, diverged_step=2, seeds=(0,))
    rows = [replace(ROW, model="b", measured=0.5, values=(0.5,), runs=1), lost, replace(ROW, model="c", reported=0.1)]
    assert papers_page._extent(rows) == "2 of 3 models (1 of them diverged)"
    assert papers_page._extent(rows[:1]) == "1 of 1 model"


def test_runs_of_different_lengths_say_so() -> None:
    row = replace(
        ROW, recipe="quick", measured=0.5, runs=2, values=(0.4, 0.6), epochs_done=4, epochs=4, epochs_of_each=(4, 2)
    )
    assert row.training_text == "quick, 2 to 4 of 4 epochs"
    assert replace(row, epochs_of_each=(4, 4)).training_text == "quick, 4 of 4 epochs"
