"""What is claimed of depth, checked on runs made up so that each claim holds, and so that it does not."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from zoo.publishing import depth_page
from zoo.publishing.claims import Verdict
from zoo.publishing.depth_page import Runs


def runs(*accuracies: float, diverged: int = 0) -> Runs:
    return Runs(accuracies, diverged)


GOOD, FAIR, BAD = runs(0.9, 0.88), runs(0.7, 0.72), runs(0.1, 0.6)
STAR, LSTM = {1: FAIR, 12: GOOD}, {1: GOOD, 12: BAD}


@pytest.mark.parametrize(
    ("check", "depths", "arguments", "agrees"),
    [
        (depth_page.only_one_trains, {"star": STAR, "lstm": LSTM}, ("star", 12), True),
        (depth_page.only_one_trains, {"star": STAR, "lstm": STAR}, ("star", 12), False),
        (depth_page.only_one_trains, {"star": STAR, "lstm": {1: GOOD}}, ("star", 12), None),
        (depth_page.gains, {"star": STAR}, ("star",), True),
        (depth_page.gains, {"lstm": LSTM}, ("lstm",), False),
        (depth_page.gains, {"lstm": LSTM}, ("lstm", False), True),
        (depth_page.riskier, {"lstm": LSTM}, ("lstm",), True),
        (depth_page.riskier, {"lstm": {1: BAD, 12: GOOD}}, ("lstm",), False),
        (depth_page.riskier, {"rhn": {1: GOOD, 12: runs(diverged=2)}}, ("rhn",), True),
        (depth_page.most_robust, {"star": STAR, "lstm": LSTM}, ("star",), True),
        (depth_page.most_robust, {"star": STAR, "lstm": STAR}, ("star",), False),
        (depth_page.most_robust, {"star": LSTM, "lstm": LSTM}, ("star",), False),
        (depth_page.trains_deep, {"star": STAR}, ("star",), True),
        (depth_page.trains_deep, {"star": {1: GOOD, 12: runs(0.9, 0.8)}}, ("star",), False),
        (depth_page.trains_deep, {"star": {1: GOOD, 12: runs(0.9, diverged=1)}}, ("star",), False),
        (depth_page.comparable, {"star": STAR, "lstm": LSTM}, ("star", "lstm"), True),
        (depth_page.comparable, {"star": {1: FAIR}, "lstm": LSTM}, ("star", "lstm"), False),
        (depth_page.often_fails, {"lstm": LSTM}, ("lstm", 2, 12), True),
        (depth_page.often_fails, {"lstm": LSTM}, ("lstm", 1, 8), False),
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


def test_the_page_has_every_stored_run() -> None:
    stored, page = depth_page.stored(), depth_page.page()
    assert set(stored) == {"rnn", "lstm", "lstm-f", "rhn", "star"}
    assert all(list(layers) == [1, 2, 4, 8, 12, 16] for layers in stored.values())
    assert all(each.count == 3 for layers in stored.values() for each in layers.values())
    assert page.count("](../cards/") == 30
    checks = {claim.check for claim in depth_page.CLAIMS}
    public = {
        f
        for n, f in inspect.getmembers(depth_page, inspect.isfunction)
        if inspect.signature(f).return_annotation == Verdict
    }
    assert checks == public
