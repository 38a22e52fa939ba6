"""What is claimed of depth, checked on runs made up so that each claim holds, and so that it does not."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from zoo.checkpoints import results
from zoo.publishing import comparison
from zoo.publishing.claims import depth as depth_claims
from zoo.publishing.claims.checks import Verdict
from zoo.publishing.claims.depth import Runs
from zoo.publishing.pages import depth as depth_page
from zoo.publishing.pages import papers, speed


def runs(*accuracies: float, diverged: int = 0) -> Runs:
    return Runs(accuracies, diverged)


GOOD, FAIR, BAD, NONE, LOST = runs(0.9, 0.88), runs(0.7, 0.72), runs(0.1, 0.6), runs(), runs(diverged=2)
STAR, LSTM = {1: FAIR, 12: GOOD}, {1: GOOD, 12: BAD}


@pytest.mark.parametrize(
    ("check", "depths", "arguments", "agrees"),
    [
        (depth_claims.only_one_trains, {"star": STAR, "lstm": LSTM}, ("star", 12), True),
        (depth_claims.only_one_trains, {"star": STAR, "lstm": STAR}, ("star", 12), False),
        (depth_claims.only_one_trains, {"star": STAR, "rhn": {1: GOOD, 12: LOST}}, ("star", 12), True),
        (depth_claims.gains, {"star": STAR}, ("star",), True),
        (depth_claims.gains, {"star": {1: runs(0.96), 4: runs(0.98)}}, ("star",), None),  # too little to tell
        (depth_claims.gains, {"star": {1: runs(0.96), 4: runs(0.98)}}, ("star", False), None),
        (depth_claims.gains, {"lstm": LSTM}, ("lstm",), False),
        (depth_claims.gains, {"rnn": {1: runs(0.12), 4: runs(0.1)}}, ("rnn", False), None),  # at chance at every depth
        (depth_claims.gains, {"lstm": LSTM}, ("lstm", False), True),
        (depth_claims.riskier, {"lstm": LSTM}, ("lstm",), True),
        (depth_claims.riskier, {"lstm": {1: BAD, 12: GOOD}}, ("lstm",), False),
        (depth_claims.riskier, {"rhn": {1: GOOD, 12: LOST}}, ("rhn",), True),
        (depth_claims.most_robust, {"star": STAR, "lstm": LSTM}, ("star",), True),
        (depth_claims.most_robust, {"star": STAR, "lstm": STAR}, ("star",), False),
        (depth_claims.most_robust, {"star": LSTM, "lstm": LSTM}, ("star",), False),
        (depth_claims.trains_deep, {"star": STAR}, ("star", 12), True),
        (depth_claims.trains_deep, {"star": {1: GOOD, 12: runs(0.9, 0.8)}}, ("star", 12), False),
        (depth_claims.trains_deep, {"star": {1: GOOD, 12: runs(0.9, diverged=1)}}, ("star", 12), False),
        (depth_claims.trains_deep, {"star": {1: GOOD, 12: LOST}}, ("star", 12), False),
        (depth_claims.comparable, {"star": STAR, "lstm": LSTM}, ("star", "lstm"), True),
        (depth_claims.comparable, {"star": {1: FAIR}, "lstm": LSTM}, ("star", "lstm"), False),
        (depth_claims.often_fails, {"lstm": LSTM}, ("lstm", 2, 12), True),
        (depth_claims.often_fails, {"lstm": LSTM}, ("lstm", 1, 8), False),
        # some networks are not trained: what is known decides, or the verdict is open
        (depth_claims.only_one_trains, {"star": STAR, "lstm": {1: GOOD, 12: NONE}}, ("star", 12), None),
        (depth_claims.only_one_trains, {"star": {12: NONE}, "lstm": STAR}, ("star", 12), None),
        (depth_claims.only_one_trains, {"star": STAR, "lstm": STAR, "rnn": {12: NONE}}, ("star", 12), False),
        (depth_claims.gains, {"lstm": {1: GOOD, 2: GOOD, 12: NONE}}, ("lstm",), None),
        (depth_claims.gains, {"lstm": {1: NONE, 2: GOOD}}, ("lstm",), None),
        (depth_claims.gains, {"lstm": {1: FAIR, 2: GOOD, 12: NONE}}, ("lstm",), True),
        (depth_claims.riskier, {"lstm": {1: GOOD, 12: BAD, 16: NONE}}, ("lstm",), None),
        (depth_claims.riskier, {"lstm": {1: GOOD, 8: NONE, 12: BAD}}, ("lstm",), True),
        (depth_claims.most_robust, {"star": STAR, "lstm": {1: GOOD, 12: NONE}}, ("star",), None),
        (depth_claims.most_robust, {"star": STAR, "lstm": {1: BAD, 12: NONE}}, ("star",), True),
        (depth_claims.most_robust, {"star": {1: FAIR, 12: NONE}, "lstm": LSTM}, ("star",), None),
        (depth_claims.most_robust, {"star": {1: BAD, 12: NONE}, "lstm": LSTM}, ("star",), False),
        (depth_claims.most_robust, {"star": {1: FAIR, 12: NONE}, "lstm": STAR}, ("star",), False),
        (depth_claims.trains_deep, {"star": {1: FAIR, 12: NONE}}, ("star", 12), None),
        (depth_claims.trains_deep, {"star": {1: FAIR, 8: NONE, 12: GOOD}}, ("star", 12), None),
        (depth_claims.trains_deep, {"star": {1: GOOD, 8: NONE, 12: BAD}}, ("star", 12), False),
        (depth_claims.comparable, {"star": {1: FAIR, 12: NONE}, "lstm": STAR}, ("star", "lstm"), None),
        (depth_claims.often_fails, {"lstm": {1: GOOD, 8: NONE}}, ("lstm", 1, 12), None),
        (depth_claims.often_fails, {"lstm": {1: BAD, 8: NONE}}, ("lstm", 1, 12), True),
    ],
)  # fmt: skip
def test_a_claim_and_its_opposite(
    check: Callable[..., Any], depths: Any, arguments: tuple[Any, ...], agrees: bool | None
) -> None:
    assert check(depths, *arguments)[1] is agrees


def test_a_run_that_diverged_has_no_accuracy_but_counts() -> None:
    mixed = runs(0.9, 0.2, diverged=1)
    assert (mixed.count, mixed.failed, mixed.mean) == (3, 2, pytest.approx(0.55))
    assert runs(diverged=2).mean == 0
    depths = {"star": STAR, "rhn": {12: LOST}, "rnn": {12: NONE}, "lstm": {12: mixed}}
    text, _ = depth_claims.only_one_trains(depths, "star", 12)
    assert text == "mean accuracy: star 89.00 %, rhn diverged, rnn not trained, lstm 55.00 % (1 of 3 diverged)"
    assert depth_claims.trains_deep({"star": {12: mixed}}, "star", 12)[0].startswith(
        "12 layers: 90.00 %, 20.00 %, diverged; "
    )


def test_the_page_has_every_stored_run() -> None:
    page = depth_page.page()
    stored = depth_claims.runs_by_depth(row.model for row in depth_page.measured())
    assert set(stored) == {"rnn", "lstm", "lstm-f", "rhn", "star"}
    assert all(list(layers) == [1, 2, 4, 8, 12, 16] for layers in stored.values())
    assert all(each.count == 3 for layers in stored.values() for each in layers.values())
    assert page.partition("## Runs that were")[0].count("](../cards/") == 30
    checks = {claim.check for claim in depth_claims.CLAIMS}
    public = {
        f
        for n, f in inspect.getmembers(depth_claims, inspect.isfunction)
        if inspect.signature(f).return_annotation == Verdict
    }
    assert checks == public


def test_the_comparison_has_the_claims_and_names_what_is_not_trained() -> None:
    rows = comparison.rows(paper="star")
    section = depth_claims.section(rows)
    waiting = [r.model for r in rows if r.table == "Table 3" and r.task in depth_claims.TASKS and not r.has_run]
    assert re.findall(r"`(\S+-\dx\d+-\S+|\S+-\d\dx\d+-\S+)`", section) == waiting
    assert section.count("\n| ") == 2 * (len(depth_claims.CLAIMS) + 2)
    assert section in papers.page("star", rows)
    assert depth_claims.by_task([row for row in rows if row.kind != "rhn"]) == []  # as another zoo may have it
    assert "What the paper claims" not in papers.page("rin", comparison.rows(paper="rin"))


def test_claims_of_only_one_fail_if_another_is_close() -> None:
    close = {"star": {12: runs(0.90)}, "lstm": {12: runs(0.88)}}
    assert depth_claims.only_one_trains(close, "star", 12)[1] is False


def test_the_figure_of_a_run_that_diverged_later_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "rnn-1x128-mnist-rows"
    found = results.for_model(name)
    assert found.training is not None
    before = depth_claims.runs_by_depth([name])["rnn"][1]
    diverged = found.training.model_copy(update={"diverged": 3})
    monkeypatch.setattr(results, "for_model", lambda name: found.model_copy(update={"training": diverged}))
    after = depth_claims.runs_by_depth([name])["rnn"][1]
    assert (after.accuracies, after.diverged) == (before.accuracies[1:], before.diverged + 1)
    assert after.count == before.count


def test_runs_that_were_trained_again_are_on_the_page_that_the_rules_name() -> None:
    page, data = depth_page.page(), speed.measurements("repeated")
    (anchor,) = re.findall(r"\(depth\.md#([a-z-]+)\)", depth_claims.rules())
    headings = [line.removeprefix("## ").lower().replace(" ", "-") for line in page.splitlines() if line[:3] == "## "]
    assert anchor == headings[-1]
    for row in data["rows"]:
        history = results.for_model(row["model"]).training.history
        assert {name: getattr(history[0], name) for name in row["recorded"]} == row["recorded"]
        assert f"[`{row['model']}`]" in page
