"""Checks of the papers' claims: each on numbers that agree with the claim, and on numbers that do not."""

import inspect
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from zoo.checkpoints.results import Evaluation, Results
from zoo.diagnostics.base import Array, Axis, Result
from zoo.publishing.claims import checks, matrix

Ticks = Sequence[str | int | float]


def array(values: object, **axes: Ticks) -> Array:
    """An array; axes without names are numbered."""
    numbers = np.asarray(values, dtype=float)
    named = [Axis(name, tuple(ticks)) for name, ticks in axes.items()]
    rest = [Axis.counted(f"axis {i}", n) for i, n in enumerate(numbers.shape[len(named) :])]
    return Array(numbers, (*named, *rest))


def part(**arrays: Array) -> Result:
    return Result({}, arrays, ())


LOSSES = ("last", "all")


def ratios(**cells: float) -> dict[str, Result]:
    return {c.replace("_", "-"): part(ratio=array([v, v], loss=LOSSES)) for c, v in cells.items()}


def spreads(**cells: float) -> dict[str, Result]:
    return {c.replace("_", "-"): part(spread=array([[0.1, v]])) for c, v in cells.items()}


def norms(**cells: Sequence[Sequence[float]]) -> dict[str, Result]:
    """By layer: the norm in the first half of thirty updates, and in the second."""
    values = {c: [[a] * 15 + [b] * 15 for a, b in layers] for c, layers in cells.items()}
    return {c: part(norm=array(v)) for c, v in values.items()}


def losses(**cells: float) -> dict[str, Result]:
    return {c: part(loss=array([2.3] * 10 + [v] * 10)) for c, v in cells.items()}


def errors(mean: float, variance: float) -> dict[str, Result]:
    pair = {"mean": mean, "variance": variance}
    return {"a": part(**{k: array(np.full((1, 1, 4), v), against=("last",)) for k, v in pair.items()})}


def indicators(suffix: str = "", **cells: float) -> dict[str, Result]:
    return {
        f"{c}{suffix}": part(indicator=array(np.full((1, 5), v)), metric=array(np.full(5, 0.8)))
        for c, v in cells.items()
    }


def gates(**cells: dict[str, float]) -> dict[str, Result]:
    return {
        c: part(norm=array(np.array(list(w.values()))[None, :, None], layer=(1,), weights=tuple(w)))
        for c, w in cells.items()
    }


RNN = {"input": 1.0, "recurrent": 2.0}


def curve(first: float, at: int, middle: float, last: float) -> list[float]:
    """A line from first to `middle` at step `at`, and one to last."""
    return [*np.linspace(first, middle, at + 1), *np.linspace(middle, last, 150 - at)[1:]]


def histograms(*edges: float) -> Result:
    """By layer: the share of outputs near 0 and 1."""
    rows = [[e / 2, (1 - e) / 2, (1 - e) / 2, e / 2] for e in edges]
    return part(last=array(rows, layer=range(1, len(rows) + 1), bin=(0.0, 0.3, 0.6, 0.95)))


def late(variance: float) -> dict[str, Result]:
    moves = [[[1.0] * 9 + [variance] * 4]]
    return {"rin-1x100-mnist-rows": part(variance=array(moves, against=("previous",)))}


def spectrum(radius: float, ratio: float) -> Result:
    return part(powers=array([ratio ** np.arange(20)]), modulus=array([radius, 0.5]))


def powers(growth: float) -> Result:
    return part(powers=array([growth ** np.arange(1, 21)]), norm=array([0.9]), modulus=array([growth]))


def both(tag: str, stored: Result, other: Result) -> dict[str, Result]:
    return {tag: stored, f"{tag}, standardised": other}


def lattice(back: float, down: float) -> dict[str, Result]:
    """Gradients of two layers at two steps, relative to the top right one."""
    return {"lstm": part(mean=array([[[0.1, down], [back, 1.0]]], loss=("last",)))}


def checked(check: Callable[..., checks.Verdict], *arguments: object) -> Callable[..., checks.Verdict]:
    return lambda results: check(results, *arguments)


VANISHING, STEADY = part(gradient=array([[0.01] * 3, [1.0] * 3])), part(gradient=array([[0.5] * 3, [1.0] * 3]))
CASES = {
    "ratio": (checked(checks.ratio, "star", 0.2, 5), ratios(star=1.0), ratios(star=6.0)),
    "lstm_through_time": (checks.lstm_through_time, lattice(0.9, 1e-4), lattice(0.9, 0.5)),
    "mitigated": (checks.mitigated, ratios(lstm=0.1, lstm_f=0.3, gru=0.4), ratios(lstm=0.1, lstm_f=0.3, gru=0.15)),
    "much_spread": (checks.much_spread, spreads(lstm_f=2, gru=2, star=1), spreads(lstm_f=2, gru=1.2, star=1)),
    "singular": (
        checked(checks.singular, "star", 0.5),
        {"star": part(values=array([0.5, np.nan]))}, {"star": part(values=array([0.5, 0.51]))}
    ),
    "first_norms": (checked(checks.first_norms, "rnn", 1, 9), norms(rnn=[(2, 0), (1, 0)]), norms(rnn=[(1, 9), (2, 1)])),
    "between": (
        checks.between,
        norms(rnn=[(9, 1), (1, 1)], star=[(1, 1), (1, 1)], lstm=[(0.1, 1), (1, 1)]),
        norms(rnn=[(9, 1), (1, 1)], star=[(0.01, 1), (1, 1)], lstm=[(0.1, 1), (1, 1)]),
    ),
    "stable_norms": (checks.stable_norms, norms(star=[(1, 1.1)], rnn=[(1, 0.1)]), norms(star=[(1, 2)], rnn=[(1, 0.9)])),
    "early_loss": (checks.early_loss, losses(star=1.0, rnn=2.3), losses(star=2.3, rnn=1.0)),
    "close_to_zero": (checked(checks.close_to_zero, "last"), errors(0.4, 1.0), errors(0.6, 1.0)),
    "parts": (
        checked(checks.close_to_zero, "last", ("a",)), {**errors(0.4, 1.0), "b": part()}, {**errors(0.6, 1.0), "b": part()}
    ),
    "late_variance": (checks.late_variance, late(2), late(1.2)),
    "larger": (
        checked(checks.larger, ", x"),
        indicators(", x", rnn=3, lstm=2, gru=1), indicators(", x", rnn=2, lstm=3, gru=1),
    ),
    "throughout": (
        checks.throughout,
        indicators(", trained", rnn=3, lstm=2, gru=1), indicators(", trained", rnn=3, lstm=1, gru=2),
    ),
    "over_epochs": (checks.over_epochs, indicators(rnn=3, lstm=2, gru=1), indicators(rnn=2, lstm=3, gru=1)),
    "gates": (
        checked(checks.gates, "gru", True),
        gates(rnn=RNN, gru={"input z": 0.5, "recurrent z": 1.5}), gates(rnn=RNN, gru={"input z": 1.5, "recurrent z": 0.1}),
    ),
    "inputs": (
        checked(checks.inputs, "sigmoid", checks.lower_vanish),
        both("sigmoid", VANISHING, STEADY), both("sigmoid", STEADY, VANISHING)
    ),
    "lower_vanish": (checks.lower_vanish, VANISHING, STEADY),
    "little": (
        checks.little,
        part(loss=array(curve(0.7, 59, 0.69, 0.4)), accuracy=array([0.6] * 150)),
        part(loss=array(curve(0.7, 59, 0.45, 0.4)), accuracy=array([0.6] * 150)),
    ),
    "saturated": (checks.saturated, histograms(0.6, 0.4, 0.1), histograms(0.6, 0.2, 0.1)),
    "means": (
        checks.means, {"prelu-tuned": part(means=array([-33, 17, -4]))}, {"prelu-tuned": part(means=array([-33, 7, -40]))}
    ),
    "significant": (
        checks.significant, {"sigmoid": VANISHING, "prelu-tuned": STEADY}, {"sigmoid": STEADY, "prelu-tuned": STEADY}
    ),
    "quick": (checks.quick, part(loss=array(curve(0.7, 19, 0.5, 0.4))), part(loss=array(curve(0.7, 19, 0.6, 0.4)))),
    "stable": (checks.stable, part(outputs=array([curve(1, 19, 2, 2.2)])), part(outputs=array([curve(1, 19, 2, 3)]))),
    "grows": (checked(matrix.grows, "p", True), {"p": powers(1.1)}, {"p": powers(0.9)}),
    "never_grows": (checked(matrix.never_grows, "p"), {"p": spectrum(0.9, 0.9)}, {"p": spectrum(1.01, 0.9)}),
    "outlives": (
        checked(matrix.outlives, "near", "far"),
        {"near": spectrum(0.999, 0.999), "far": spectrum(0.8, 0.8)}, {"near": spectrum(0.9, 0.9), "far": spectrum(0.85, 0.85)},
    ),
    "bounded": (
        matrix.bounded, {"norm 0.9": powers(0.8), "trained": powers(1.0)}, {"norm 0.9": powers(0.95), "trained": powers(1.0)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_claim_is_told_from_its_opposite(name: str) -> None:
    check, agrees, differs = CASES[name]
    for results, expected in ((agrees, True), (differs, False)):
        text, same = check(results)
        assert same == expected
        assert text


def test_a_length_that_grows_once_has_grown() -> None:
    assert matrix.never_grows({"p": spectrum(0.9, 1.02)}, "p")[1] is False


def test_a_bound_holds_from_the_first_product_on() -> None:
    late = part(powers=array([0.95 * 0.8 ** np.arange(20)]), norm=array([0.9]), modulus=array([0.8]))
    assert matrix.bounded({"norm 0.9": late, "trained": powers(1.0)})[1] is False


def test_numbers_that_cannot_decide_a_claim() -> None:
    assert checks.explodes(norms(rhn=[(1, 20)]), "rhn")[1] is True
    assert checks.explodes(norms(rhn=[(1, 2)]), "rhn")[1] is None
    assert checks.early_loss(losses(star=2.29, rnn=2.3))[1] is None
    chance = indicators(rnn=3, lstm=2, gru=1) | {"rnn": part(indicator=array([[3.0]]), metric=array([0.5]))}
    assert checks.over_epochs(chance)[1] is None
    assert checks.Claim("It grows", checks.explodes, ("rhn",)).cells(norms(rhn=[(1, 2)]))[2] == "cannot tell"


@pytest.mark.parametrize("order", [("rnn", "star", "lstm"), ("star", "lstm", "rnn"), ("lstm", "rnn", "star")])
def test_what_overflows_or_vanishes_decides_in_any_order(order: Sequence[str]) -> None:
    infinite, none = float("nan"), float("nan")  # as JSON's null is read
    assert checks.explodes(norms(rhn=[(1, infinite)]), "rhn")[1] is True
    changes = {"rnn": [(1, infinite)], "star": [(1, 1.1)], "lstm": [(0, 0)]}
    assert checks.stable_norms(norms(**{c: changes[c] for c in order if c != "lstm"}))[1] is True
    assert checks.stable_norms(norms(**{c: changes[c] for c in order}))[1] is False  # 0 and 0: no change at all
    vanished = {"rnn": -9.0, "lstm": none, "gru": none}
    assert checks.larger(indicators(**{c: vanished.get(c, 0.0) for c in ("rnn", "lstm", "gru")}), "")[1] is True
    zeros = indicators(rnn=3, lstm=2, gru=1)
    zeros["rnn"] = part(indicator=array([[none, none, none, none, 3.0]]), metric=array(np.full(5, 0.8)))
    assert checks.over_epochs(zeros)[1] is False


def test_the_steps_that_a_claim_is_about_decide() -> None:
    def steps(**cells: Sequence[float]) -> dict[str, Result]:
        return {c: part(indicator=array([v]), metric=array([0.2, 0.2, 0.2, 0.8])) for c, v in cells.items()}

    last = steps(rnn=[0, 0, 0, 9], lstm=[5, 5, 5, 1], gru=[4, 4, 4, 2])
    assert checks.larger(last, "")[1] is True
    assert checks.throughout({f"{c}, trained": r for c, r in last.items()})[1] is False
    most = steps(rnn=[9, 9, 9, 0], lstm=[5, 5, 5, 1], gru=[4, 4, 4, 0.5])
    assert (
        checks.throughout({f"{c}, trained": r for c, r in most.items()})[1] is False
    )  # 90 % of the steps are not 75 %
    assert checks.over_epochs(most)[1] is True  # the accuracy of the last epoch is above chance
    one = {"star": part(ratio=array([0.5, 50.0], loss=LOSSES))}
    assert checks.ratio(one, "star", 0.2, 5)[1] is False
    updates = {"rnn": part(norm=array([[2.0] + [50.0] * 29, [1.0] * 30]))}
    assert checks.first_norms(updates, "rnn", 1, 9)[1] is True
    first_step = {k: array([[[9.0, 0.1, 0.1]]], against=("last",)) for k in ("mean", "variance")}
    assert checks.close_to_zero({"a": part(**first_step)}, "last")[1] is True  # 9 beside the root of 9 would be far
    late = {c: part(norm=array([[[v, 1.0]]], layer=(1,), weights=("input",))) for c, v in (("rnn", 0.0), ("gru", 9.0))}
    assert checks.gates(late, "gru", below=True)[1] is True


def test_claims_in_the_opposite_direction() -> None:
    assert matrix.grows({"p": powers(0.9)}, "p", up=False)[1]
    assert not matrix.grows({"p": powers(1.1)}, "p", up=False)[1]
    above, below = ({"rnn": RNN, "lstm": {"input i": v, "recurrent i": 0.1}} for v in (3.0, 0.3))
    assert checks.gates(gates(**above), "lstm", below=False)[1]
    assert not checks.gates(gates(**below), "lstm", below=False)[1]


def test_accuracies_are_compared_seed_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(value: float, seed: int) -> Evaluation:
        return Evaluation(
            model="lstm", task="mnist-rows", dataset="mnist", split="test", metric="accuracy", value=value, loss=1.0, n=9,
            seed=seed, dataset_sha256={}, checkpoint_sha256="0" * 64, versions={}, device="cpu", date="2026-01-01", seconds=1.0, command="x",
        )  # fmt: skip

    runs = {"high": (0.9, 0.8, 0.7), "low": (0.5, 0.6, 0.68), "none": ()}
    recorded = {name: [run(value, seed) for seed, value in enumerate(values)] for name, values in runs.items()}
    monkeypatch.setattr(
        checks,
        "for_model",
        lambda name: Results(evaluations=recorded[name][:1], other_seeds=recorded[name][1:]),
    )
    text = "test accuracy: high 80.00 % ± 10.00 %, low 59.33 % ± 9.02 %; so in 2 of 3 seeds"
    assert checks.better({}, ["high"], ["low"]) == (text, None)  # the third difference is within the margin
    assert checks.better({}, ["high"], ["low"], margin=0.0)[1] is True
    assert checks.better({}, ["low"], ["high"])[1] is False
    assert checks.better({}, ["high"], ["none"])[1] is None


def test_a_network_that_has_not_learnt_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    check = checks.close_to_zero, "last", ("a",)
    found = {**errors(0.4, 1.0), "b": part()}
    assert checks.learnt(found, "rin-1x100-adding-200", 1 / 6, *check) == checks.close_to_zero(found, "last", ("a",))
    text, same = checks.learnt(found, "lstm-1x100-adding-200", 1 / 6, *check)
    assert "0.166, of a constant prediction 0.167" in text
    assert same is None
    monkeypatch.setattr(checks, "for_model", lambda name: Results())
    text, same = checks.learnt(found, "rin-1x100-adding-200", 1 / 6, *check)
    assert "not measured" in text
    assert same is None


def test_every_check_has_a_case() -> None:
    public = {
        n
        for module in (checks, matrix)
        for n, f in inspect.getmembers(module, inspect.isfunction)
        if not n.startswith("_") and f.__module__ == module.__name__
    }
    assert public == {*CASES.keys() - {"parts"}, "explodes", "better", "learnt", "as_text"}
