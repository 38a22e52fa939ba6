"""Checks of the papers' claims. Each takes the parts of a study, and returns our numbers and whether they agree.

The first sentence of a check's docstring is the question that it answers. Where a paper prints no number, the
thresholds are ours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checkpoints import results as recorded
from ..diagnostics.base import Result

Results = Mapping[str, Result]
"""The parts of a study by title."""
Verdict = tuple[str, bool | None]
"""Our numbers in words, and whether they agree with the paper; None if they cannot decide that."""


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, and the function of this module that checks it."""

    text: str
    check: Callable[..., Verdict]
    arguments: tuple[Any, ...] = ()
    """Arguments of the check after the results."""

    def cells(self, results: Results) -> tuple[str, str, str]:
        """Return a row of a table: the paper's claim, our numbers, and whether they agree."""
        numbers, agrees = self.check(results, *self.arguments)
        return self.text, numbers, {True: "yes", False: "**no**", None: "cannot tell"}[agrees]


def _text(values: Mapping[str, float], digits: str = ".3g") -> str:
    return ", ".join(f"{name} {value:{digits}}" for name, value in values.items())


def _corner(results: Results, cell: str, loss: str) -> float:
    return float(results[cell].ratio.at(loss=loss).values)


def ratio(results: Results, cell: str, low: float, high: float) -> Verdict:
    """Both losses: is layer 1's gradient at step 1, over the last layer's at the last step, within `low` and `high`?"""
    pair = [_corner(results, cell, loss) for loss in ("last", "all")]
    text = "bottom left over top right: {:.3g} (loss on the last output), {:.3g} (on all)".format(*pair)
    return text, all(low < v < high for v in pair)


def lstm_through_time(results: Results) -> Verdict:
    """LSTM: is the gradient at step 1 of the top layer over 100 times that of layer 1 at the last step?"""
    mean = results["lstm"].mean.at(loss="last").values
    back, down = mean[-1, 0] / mean[-1, -1], mean[0, -1] / mean[-1, -1]
    text = f"top layer, step 1 over step 10: {back:.3g}; last step, layer 1 over layer 12: {down:.3g}"
    return text, back > 100 * down


def mitigated(results: Results) -> Verdict:
    """Are the ratios of GRU and of LSTM w/f both over twice the LSTM's?"""
    values = {cell: _corner(results, cell, "last") for cell in ("lstm", "lstm-f", "gru")}
    return f"bottom left over top right: {_text(values)}", min(values["lstm-f"], values["gru"]) > 2 * values["lstm"]


def much_spread(results: Results) -> Verdict:
    """Are the largest spreads of GRU and of LSTM w/f both over one and a half times STAR's?"""
    values = {c: float(results[c].spread.values.max()) for c in ("lstm-f", "gru", "star")}
    return f"largest spread: {_text(values, '.2g')}", min(values["lstm-f"], values["gru"]) > 1.5 * values["star"]


def singular(results: Results, cell: str, expected: float) -> Verdict:
    """Are all singular values within 1e-6 of the expected one?"""
    v = results[cell].values.values
    return f"{np.nanmin(v):.6g} to {np.nanmax(v):.6g}", bool(np.nanmax(np.abs(v - expected)) < 1e-6)


def first_norms(results: Results, cell: str, low: float, high: float) -> Verdict:
    """First update: is the gradient norm of layer 1, divided by that of the last layer, between `low` and `high`?"""
    norm = results[cell].norm.values[:, 0]
    return f"layer 1 over layer {len(norm)}: {norm[0] / norm[-1]:.3g}", bool(low < norm[0] / norm[-1] < high)


def between(results: Results) -> Verdict:
    """First update: is STAR's norm of layer 1, divided by that of the last layer, between the LSTM's and the vRNN's?"""
    norms = {c: r.norm.values for c, r in results.items()}
    values = {c: n[0, 0] / n[-1, 0] for c, n in norms.items() if len(n) > 1}  # an RHN is one layer of many transitions
    return f"layer 1 over the last: {_text(values)}", bool(values["lstm"] < values["star"] < values["rnn"])


def _drift(result: Result) -> np.ndarray:
    """Return how much each layer's log10 norm grows from the first ten updates to the last ten, (layers,)."""
    logs = np.log10(result.norm.values)
    return logs[:, -10:].mean(1) - logs[:, :10].mean(1)


def explodes(results: Results, cell: str) -> Verdict:
    """Is a layer's norm over ten times larger in the last ten updates than in the first ten?

    Undecided if not, since the norm may explode later.
    """
    growth = 10 ** float(_drift(results[cell]).max())
    return f"last ten updates over first ten: {growth:.3g}", True if growth > 10 else None


def stable_norms(results: Results) -> Verdict:
    """Do STAR's norms change by the smallest factor from the first ten updates to the last ten?"""
    changes = {cell: 10 ** float(np.abs(_drift(result)).mean()) for cell, result in results.items()}
    text = f"change of the norms, mean factor over the layers: {_text(changes)}"
    return text, min(changes, key=changes.__getitem__) == "star"


def early_loss(results: Results) -> Verdict:
    """Is STAR's mean loss over the last ten updates the lowest? Undecided unless some loss is a tenth below chance."""
    last = {c: float(r.loss.values[-10:].mean()) for c, r in results.items()}
    best = min(last, key=last.__getitem__)
    text = f"mean loss of the last ten updates: {_text(last)} (chance {np.log(10):.3g})"
    return text, best == "star" if last[best] < 0.9 * np.log(10) else None


def close_to_zero(results: Results, against: str, parts: Sequence[str] = ()) -> Verdict:
    """After step 1: are the means of all differences below half of their standard deviations?

    parts: titles of the parts to look at; empty for all.
    """
    sizes, spreads = {}, {}
    for part in parts or results:
        mean, variance = (results[part].arrays[k].at(against=against).values[:, 1:] for k in ("mean", "variance"))
        sizes[part], spreads[part] = float(np.nanmax(np.abs(mean))), float(np.nanmax(variance)) ** 0.5
    text = "; ".join(f"{part}: mean at most {sizes[part]:.2g}, sd {spreads[part]:.2g}" for part in sizes)
    return text, all(sizes[part] < 0.5 * spreads[part] for part in sizes)


def learnt(results: Results, name: str, chance: float, check: Callable[..., Verdict], *arguments: Any) -> Verdict:
    """Does `check` hold? Undecided unless the recorded test error of the model `name` is a tenth below `chance`.

    chance: the mean squared error of a constant answer.
    """
    (text, agrees), evaluation = check(results, *arguments), recorded.for_model(name).measured()
    if evaluation is None:
        return f"{text}; whether the network has learnt was not measured", None
    if evaluation.value < 0.9 * chance:
        return text, agrees
    error = f"mean squared error {evaluation.value:.3g}, of a constant answer {chance:.3g}"
    return f"{text}; but the network has not learnt: {error}", None


def late_variance(results: Results) -> Verdict:
    """RIN: is the variance of h_t - h_(t-1) in the last third of the steps over one and a half times that before?"""
    v = results["rin-1x100-mnist-rows"].variance.at(against="previous").values[0]
    third = len(v) // 3
    early, late = float(v[1:-third].mean()), float(v[-third:].mean())
    return f"RIN: {late:.3g} in the last third, {early:.3g} before", late > 1.5 * early


def larger(results: Results, suffix: str) -> Verdict:
    """Is the plain RNN's indicator at the last step above the LSTM's and the GRU's?

    suffix: end of the titles of the parts to compare, after the cell.
    """
    values = {c: float(results[f"{c}{suffix}"].indicator.values[0, -1]) for c in ("rnn", "lstm", "gru")}
    return f"log10 at the last step: {_text(values, '.2f')}", values["rnn"] > max(values["lstm"], values["gru"])


def throughout(results: Results) -> Verdict:
    """Is the RNN's indicator the largest, and the GRU's the smallest, each at over 90 % of the steps?"""
    rnn, lstm, gru = (results[f"{c}, trained"].indicator.values[0] for c in ("rnn", "lstm", "gru"))
    above, least = np.mean(rnn > np.maximum(lstm, gru)), np.mean(gru < np.minimum(lstm, rnn))
    text = f"RNN largest at {100 * above:.0f} % of the steps, GRU smallest at {100 * least:.0f} %"
    return text, bool(above > 0.9 and least > 0.9)


def over_epochs(results: Results) -> Verdict:
    """Is the RNN's median over the epochs above the others'? Undecided if any accuracy is at most 0.55, near chance."""
    medians = {c: np.nanmedian(results[c].indicator.values[0]) for c in ("rnn", "lstm", "gru")}
    accuracies = {c: float(results[c].metric.values[-1]) for c in medians}
    above = bool(medians["rnn"] > max(medians["lstm"], medians["gru"]))
    text = f"median log10 over the epochs: {_text(medians, '.2f')}; validation accuracy at the end: "
    return text + _text(accuracies, ".2f"), above if min(accuracies.values()) > 0.55 else None


def gates(results: Results, other: str, below: bool) -> Verdict:
    """Is every norm of the cell `other` at most the RNN's norm of the same kind, input or recurrent weights?

    The claim holds if the answer is `below`.
    """
    norms = {cell: results[cell].norm for cell in ("rnn", other)}
    ticks = {c: map(str, norm.axis("weights").ticks) for c, norm in norms.items()}
    last = {c: dict(zip(ticks[c], norm.values[0, :, -1], strict=True)) for c, norm in norms.items()}
    rnn, gated = last.values()
    at_most = all(v <= rnn["input" if k.startswith("input") else "recurrent"] for k, v in gated.items())
    return "; ".join(f"{c}: {_text(weights)}" for c, weights in last.items()), at_most == below


def inputs(results: Results, tag: str, check: Callable[[Result], Verdict]) -> Verdict:
    """Does `check` hold on unscaled features? The text also has its result on standardised ones."""
    (raw, agrees), (other, other_agrees) = (check(results[f"{tag}{kind}"]) for kind in ("", ", standardised"))
    return f"{raw}. Standardised: {other} ({'yes' if other_agrees else 'no'})", agrees


def lower_vanish(sigmoid: Result) -> Verdict:
    """Median over the epochs: is layer 1's gradient less than a tenth of the output layer's?"""
    medians = np.median(sigmoid.gradient.values, axis=1)
    text = ", ".join(f"{v:.2g}" for v in medians)
    return f"median |dy/dW|, layers 1 to 3 and output: {text}", bool(medians[0] < 0.1 * medians[-1])


def little(sigmoid: Result) -> Verdict:
    """Do the first 60 epochs bring less than a quarter of the whole improvement of the loss (plus 0.02)?"""
    loss, accuracy = (sigmoid.arrays[k].values for k in ("loss", "accuracy"))
    curves = {"loss": loss, "accuracy": accuracy}
    text = "; ".join(f"{name} {v[0]:.3f} to {v[59]:.3f}, then {v[-1]:.3f}" for name, v in curves.items())
    return text, bool(loss[0] - loss[59] < 0.25 * (loss[0] - loss.min()) + 0.02)


def saturated(sigmoid: Result) -> Verdict:
    """Layers 1 and 2: are over 30 % of the outputs within a tenth of 0 or 1, and more than in layer 3?"""
    last = sigmoid.last
    edges = np.array(last.axes[-1].ticks, dtype=float)
    ends = [float(row[(edges < 0.1) | (edges >= 0.9)].sum()) for row in last.values]
    text = "share of outputs below 0.1 or above 0.9, layers 1 to 3: " + ", ".join(f"{v:.2g}" for v in ends)
    return text, min(ends[:2]) > max(0.3, ends[-1])


def means(results: Results) -> Verdict:
    """Are the mean outputs of layers 1 and 2 both over 10 in size?"""
    values = results["prelu-tuned"].means.values
    return "means of layers 1 to 3: " + ", ".join(f"{v:.3g}" for v in values), bool(np.abs(values[:2]).min() > 10)


def significant(results: Results) -> Verdict:
    """Is the gradient of the PReLU network's layer 1 over three times that of the sigmoid network's?"""
    values = {tag: np.median(results[tag].gradient.values[0]) for tag in ("sigmoid", "prelu-tuned")}
    return f"layer 1, median: {_text(values, '.2g')}", bool(values["prelu-tuned"] > 3 * values["sigmoid"])


def quick(prelu: Result) -> Verdict:
    """Do 20 epochs bring more than half of the improvement of the loss over all 150?"""
    loss = prelu.loss.values
    share = (loss[0] - loss[19]) / (loss[0] - loss[-1])
    return f"loss {loss[0]:.3f}, {loss[19]:.3f} after 20 epochs, {loss[-1]:.3f} after 150", bool(share > 0.5)


def stable(prelu: Result) -> Verdict:
    """Does every layer's mean |output| change by less than a quarter after epoch 20?"""
    h = prelu.outputs.values
    drift = np.abs(h[:, -1] / h[:, 19] - 1)
    text = "change of mean |h| after epoch 20: " + ", ".join(f"{100 * v:.0f} %" for v in drift)
    return text, bool(drift.max() < 0.25)


def better(_: Results, higher: Sequence[str], lower: Sequence[str], margin: float = 0.05) -> Verdict:
    """Recorded test accuracy: is every model of `higher` more than `margin` above every model of `lower`?"""
    evaluations = {name: recorded.for_model(name).measured() for name in (*higher, *lower)}
    values = {name: e.value for name, e in evaluations.items() if e is not None}
    if len(values) < len(evaluations):
        return f"test accuracy, not measured for all: {_text(values, '.3f')}", None
    agrees = min(values[n] for n in higher) > max(values[n] for n in lower) + margin
    return f"test accuracy: {_text(values, '.3f')}", agrees


def _lengths(stored: Result) -> str:
    radius, norm, powers = (stored.arrays[name].values.flat for name in ("modulus", "norm", "powers"))
    return (
        f"spectral radius {radius[0]:.3g}, norm {norm[0]:.3g}: length multiplied by {powers[0]:.3g} after one step and "
        f"by {powers[-1]:.3g} after {len(powers)}"
    )


def grows(results: Results, part: str, up: bool) -> Verdict:
    """Does a random vector grow at each of the last ten products with the matrix? With up=False: does it shrink?"""
    steps = np.diff(results[part].powers.values[0, -10:])
    return _lengths(results[part]), bool((steps > 0 if up else steps < 0).all())


def bounded(results: Results) -> Verdict:
    """Norm 0.9: does every product shrink a vector at least by the norm?

    The text also has a trained network's norm, which is above 1, so that its errors may grow or shrink.
    """
    part = results["norm 0.9"]
    powers = np.concatenate([[1.0], part.powers.values[0]])
    text = f"{_lengths(part)}; trained: {_lengths(results['trained'])}"
    return text, bool((powers[1:] <= float(part.norm.values[0]) * powers[:-1]).all())
