"""Checks of the papers' claims. Each check takes the results of a study, by title, and returns a Verdict.

A check's docstring says when the verdict is True. Where a paper prints no number, we chose the threshold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...checkpoints.results import for_model
from ...diagnostics.base import Result
from ...registry.metrics import METRICS

Results = Mapping[str, Result]
"""By title: the results that a study stores (see zoo.publishing.studies)."""
Verdict = tuple[str, bool | None]
"""(Text with our numbers, True if they agree with the paper). None in place of True or False: the numbers cannot decide."""


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, and the function that checks it."""

    text: str
    check: Callable[..., Verdict]
    arguments: tuple[Any, ...] = ()
    """Arguments that `check` takes after the results."""

    def cells(self, results: Mapping[str, Any]) -> tuple[str, str, str]:
        """Return the cells of a table's row: the paper's claim, our numbers, and "yes", "**no**" or "cannot tell"."""
        numbers, agrees = self.check(results, *self.arguments)
        return self.text, numbers, {True: "yes", False: "**no**", None: "cannot tell"}[agrees]


def as_text(values: Mapping[str, float], digits: str = ".3g") -> str:
    """Return numbers by name as text, such as "lstm 0.0334, star 0.277"."""
    return ", ".join(f"{name} {value:{digits}}" for name, value in values.items())


def _corner(results: Results, cell: str, loss: str) -> float:
    return float(results[cell].ratio.at(loss=loss).values)


def ratio(results: Results, cell: str, low: float, high: float) -> Verdict:
    """Return whether a ratio of gradient norms in untrained networks lies between `low` and `high` for both losses.

    The ratio is the mean norm of layer 1 at step 1, divided by that of the last layer at the last step. One loss is on the
    last output, the other on all outputs. results: {cell: its result of the analysis `lattice`}.
    """
    pair = [_corner(results, cell, loss) for loss in ("last", "all")]
    text = "bottom left over top right: {:.3g} (loss on the last output), {:.3g} (on all)".format(*pair)
    return text, all(low < v < high for v in pair)


def lstm_through_time(results: Results) -> Verdict:
    """Return whether the LSTM's gradient norm in the top layer at step 1 is over 100 times that in layer 1 at the last step."""
    mean = results["lstm"].mean.at(loss="last").values
    back, down = mean[-1, 0] / mean[-1, -1], mean[0, -1] / mean[-1, -1]
    text = f"top layer, step 1 over step 10: {back:.3g}; last step, layer 1 over layer 12: {down:.3g}"
    return text, back > 100 * down


def mitigated(results: Results) -> Verdict:
    """Return whether both the GRU and the LSTM with only a forget gate have over twice the LSTM's ratio (see `ratio`)."""
    values = {cell: _corner(results, cell, "last") for cell in ("lstm", "lstm-f", "gru")}
    return f"bottom left over top right: {as_text(values)}", min(values["lstm-f"], values["gru"]) > 2 * values["lstm"]


def much_spread(results: Results) -> Verdict:
    """Return whether the GRU and the LSTM with only a forget gate both have over one and a half times STAR's largest spread.

    The spread is the standard deviation of a gradient norm over random networks, divided by its mean. The largest is taken
    over all layers, steps and losses.
    """
    values = {c: float(results[c].spread.values.max()) for c in ("lstm-f", "gru", "star")}
    return f"largest spread: {as_text(values, '.2g')}", min(values["lstm-f"], values["gru"]) > 1.5 * values["star"]


def singular(results: Results, cell: str, expected: float) -> Verdict:
    """Return whether all singular values of the two Jacobians of `cell` at x = h = 0 are within 1e-6 of `expected`."""
    v = results[cell].values.values
    return f"{np.nanmin(v):.6g} to {np.nanmax(v):.6g}", bool(np.nanmax(np.abs(v - expected)) < 1e-6)


def first_norms(results: Results, cell: str, low: float, high: float) -> Verdict:
    """Return whether a ratio of gradient norms of `cell` in the first update lies between `low` and `high`.

    The ratio is the norm of layer 1 divided by that of the last layer.
    """
    norm = results[cell].norm.values[:, 0]
    ratio = norm[0] / norm[-1]
    return f"layer 1 over layer {len(norm)}, in the first update: {ratio:.3g}", bool(low < ratio < high)


def between(results: Results) -> Verdict:
    """Return whether STAR's ratio (see `first_norms`) lies between the LSTM's and the plain RNN's."""
    norms = {c: r.norm.values for c, r in results.items()}
    values = {c: n[0, 0] / n[-1, 0] for c, n in norms.items() if len(n) > 1}  # an RHN is one layer of many transitions
    lies_between = bool(values["lstm"] < values["star"] < values["rnn"])
    return f"layer 1 over the last, in the first update: {as_text(values)}", lies_between


def _drift(result: Result) -> np.ndarray:
    """Return the mean log10 of each layer's gradient norm in the last ten updates minus that in the first ten, (layers,).

    A norm that is NaN in the file was infinite. A norm that is 0 or infinite in both has not changed.
    """
    norms = np.nan_to_num(result.norm.values, nan=np.inf, posinf=np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(norms)
        drift = logs[:, -10:].mean(1) - logs[:, :10].mean(1)
    return np.nan_to_num(drift, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _indicator(result: Result) -> np.ndarray:
    """Return the Noh indicators of a result's first row. One that is NaN in the file was -inf: every derivative was 0."""
    return np.nan_to_num(result.indicator.values[0], nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def explodes(results: Results, cell: str) -> Verdict:
    """Return whether some layer's gradient norm in `cell` grows more than tenfold from the first ten updates to the last ten.

    Norms are averaged geometrically over ten updates. If no norm grows so much, the verdict is None, because a norm may
    explode later.
    """
    growth = 10 ** float(_drift(results[cell]).max())
    return f"last ten updates over first ten: {growth:.3g}", True if growth > 10 else None


def stable_norms(results: Results) -> Verdict:
    """Return whether STAR's gradient norms change less than every other cell's from the first ten updates to the last ten.

    The change is the factor by which a norm grows or shrinks, as a geometric mean over the layers.
    """
    changes = {cell: 10 ** float(np.abs(_drift(result)).mean()) for cell, result in results.items()}
    steadiest = min(changes, key=changes.__getitem__)
    return f"change of the norms, mean factor over the layers: {as_text(changes)}", steadiest == "star"


def early_loss(results: Results) -> Verdict:
    """Return whether STAR has the lowest mean loss over the last ten updates.

    The verdict is None unless the lowest loss is below nine tenths of ln 10, the loss of guessing one of ten classes.
    """
    last = {c: float(r.loss.values[-10:].mean()) for c, r in results.items()}
    best = min(last, key=last.__getitem__)
    text = f"mean loss of the last ten updates: {as_text(last)} (chance {np.log(10):.3g})"
    return text, best == "star" if last[best] < 0.9 * np.log(10) else None


def close_to_zero(results: Results, against: str, parts: Sequence[str] = ()) -> Verdict:
    """Return whether the largest |mean| of a difference of outputs is below half the largest standard deviation.

    Both are the largest over layers and steps, without step 1. against: the difference: "last" for h_t - h_T, "previous" for
    h_t - h_{t-1}. parts: titles of the results to check, each by itself; empty for all.
    """
    sizes, spreads = {}, {}
    for part in parts or results:
        mean, variance = (results[part].arrays[k].at(against=against).values[:, 1:] for k in ("mean", "variance"))
        sizes[part], spreads[part] = float(np.nanmax(np.abs(mean))), float(np.nanmax(variance)) ** 0.5
    text = "; ".join(f"{part}: after step 1, mean at most {sizes[part]:.2g}, sd {spreads[part]:.2g}" for part in sizes)
    return text, all(sizes[part] < 0.5 * spreads[part] for part in sizes)


def learnt(results: Results, name: str, chance: float, check: Callable[..., Verdict], *arguments: Any) -> Verdict:
    """Return the verdict of `check`, but with None (cannot tell) for its truth unless the model `name` has learnt its task.

    The model has learnt if its recorded test error is below nine tenths of `chance`, the mean squared error of a constant
    answer. arguments: those that `check` takes after `results`.
    """
    (text, agrees), evaluation = check(results, *arguments), for_model(name).measured()
    if evaluation is None:
        return f"{text}; whether the network has learnt was not measured", None
    if evaluation.value < 0.9 * chance:
        return text, agrees
    error = f"mean squared error {evaluation.value:.3g}, of a constant prediction {chance:.3g}"
    return f"{text}; but the network has not learnt: {error}", None


def late_variance(results: Results) -> Verdict:
    """Return whether RIN's variance of h_t - h_(t-1) is over 1.5 times as large in the last third of the steps as earlier."""
    v = results["rin-1x100-mnist-rows"].variance.at(against="previous").values[0]
    third = len(v) // 3
    early, late = float(v[1:-third].mean()), float(v[-third:].mean())
    return f"RIN: {late:.3g} in the last third, {early:.3g} before", late > 1.5 * early


def larger(results: Results, suffix: str) -> Verdict:
    """Return whether the plain RNN's Noh indicator (see zoo.diagnostics.noh) at the last step exceeds the LSTM's and the GRU's.

    suffix: the text that follows the cell's name in the titles of the three results to compare.
    """
    values = {c: float(_indicator(results[f"{c}{suffix}"])[-1]) for c in ("rnn", "lstm", "gru")}
    return f"log10 at the last step: {as_text(values, '.2f')}", values["rnn"] > max(values["lstm"], values["gru"])


def throughout(results: Results) -> Verdict:
    """Return whether, trained, the plain RNN's Noh indicator is the largest, and the GRU's the smallest.

    Each must be so at over 90 % of the steps at which the indicator was computed.
    """
    rnn, lstm, gru = (_indicator(results[f"{c}, trained"]) for c in ("rnn", "lstm", "gru"))
    above, least = np.mean(rnn > np.maximum(lstm, gru)), np.mean(gru < np.minimum(lstm, rnn))
    text = f"RNN largest at {100 * above:.0f} % of the steps, GRU smallest at {100 * least:.0f} %"
    return text, bool(above > 0.9 and least > 0.9)


def over_epochs(results: Results) -> Verdict:
    """Return whether the plain RNN's Noh indicator, as a median over the epochs, is above the LSTM's and the GRU's.

    The verdict is None if a network's validation accuracy after the last epoch is at most 0.55, which is near chance.
    """
    medians = {c: float(np.median(_indicator(results[c]))) for c in ("rnn", "lstm", "gru")}
    accuracies = {c: float(results[c].metric.values[-1]) for c in medians}
    above = bool(medians["rnn"] > max(medians["lstm"], medians["gru"]))
    text = f"median log10 over the epochs: {as_text(medians, '.2f')}; validation accuracy at the end: "
    return text + as_text(accuracies, ".2f"), above if min(accuracies.values()) > 0.55 else None


def gates(results: Results, other: str, below: bool) -> Verdict:
    """Return whether every gradient norm of the cell `other` is at most the plain RNN's; with below=False, the opposite.

    There is a norm for each gate's input weights and each gate's recurrent weights (see zoo.diagnostics.noh.gates), here of
    layer 1 at the last step. A norm of input weights is compared with that of the RNN's input weights, a norm of recurrent
    weights with that of its recurrent weights.
    """
    norms = {cell: results[cell].norm for cell in ("rnn", other)}
    ticks = {c: map(str, norm.axis("weights").ticks) for c, norm in norms.items()}
    last = {c: dict(zip(ticks[c], norm.values[0, :, -1], strict=True)) for c, norm in norms.items()}
    rnn, gated = last.values()
    at_most = all(v <= rnn["input" if k.startswith("input") else "recurrent"] for k, v in gated.items())
    return "; ".join(f"{c}: {as_text(weights)}" for c, weights in last.items()), at_most == below


def inputs(results: Results, tag: str, check: Callable[[Result], Verdict]) -> Verdict:
    """Return whether `check` holds for the result titled `tag`, of a network that was trained on unscaled features.

    The verdict's text also says whether `check` holds for the same network trained on standardised features.
    """
    (raw, agrees), (other, other_agrees) = (check(results[f"{tag}{kind}"]) for kind in ("", ", standardised"))
    return f"{raw}. Standardised: {other} ({'yes' if other_agrees else 'no'})", agrees


def lower_vanish(sigmoid: Result) -> Verdict:
    """Return whether layer 1's mean |dy/dW|, as a median over the epochs, is less than a tenth of the output layer's.

    sigmoid: the result of the analysis `feedforward` for the network of sigmoids.
    """
    medians = np.median(sigmoid.gradient.values, axis=1)
    text = ", ".join(f"{v:.2g}" for v in medians)
    return f"median |dy/dW|, layers 1 to 3 and output: {text}", bool(medians[0] < 0.1 * medians[-1])


def little(sigmoid: Result) -> Verdict:
    """Return whether the sigmoid network's loss falls in 60 epochs by less than 0.02 plus a quarter of its greatest fall."""
    curves = {name: sigmoid.arrays[name].values for name in ("loss", "accuracy")}
    text = "; ".join(f"{name} {v[0]:.3f} to {v[59]:.3f}, then {v[-1]:.3f}" for name, v in curves.items())
    loss = curves["loss"]
    return text, bool(loss[0] - loss[59] < 0.25 * (loss[0] - loss.min()) + 0.02)


def saturated(sigmoid: Result) -> Verdict:
    """Return whether over 30 % of the outputs of layer 1, and of layer 2, are within 0.1 of 0 or 1, and fewer of layer 3."""
    edges = np.array(sigmoid.last.axes[-1].ticks, dtype=float)
    ends = [float(row[(edges < 0.1) | (edges >= 0.9)].sum()) for row in sigmoid.last.values]
    text = "share of outputs below 0.1 or above 0.9, layers 1 to 3: " + ", ".join(f"{v:.2g}" for v in ends)
    return text, min(ends[:2]) > max(0.3, ends[-1])


def means(results: Results) -> Verdict:
    """Return whether the mean outputs of layers 1 and 2 of the PReLU network both exceed 10 in absolute value."""
    values = results["prelu-tuned"].means.values
    return "means of layers 1 to 3: " + ", ".join(f"{v:.3g}" for v in values), bool(np.abs(values[:2]).min() > 10)


def significant(results: Results) -> Verdict:
    """Return whether layer 1's median |dy/dW| over the epochs is over three times larger with PReLUs than with sigmoids."""
    values = {tag: np.median(results[tag].gradient.values[0]) for tag in ("sigmoid", "prelu-tuned")}
    return f"layer 1, median: {as_text(values, '.2g')}", bool(values["prelu-tuned"] > 3 * values["sigmoid"])


def quick(prelu: Result) -> Verdict:
    """Return whether the PReLU network's loss falls in the first 20 epochs by more than half of its fall in all 150."""
    loss = prelu.loss.values
    share = (loss[0] - loss[19]) / (loss[0] - loss[-1])
    return f"loss {loss[0]:.3f}, {loss[19]:.3f} after 20 epochs, {loss[-1]:.3f} after 150", bool(share > 0.5)


def stable(prelu: Result) -> Verdict:
    """Return whether, in the PReLU network, every layer's mean |output| changes by less than a quarter after epoch 20."""
    h = prelu.outputs.values
    drift = np.abs(h[:, -1] / h[:, 19] - 1)
    text = "change of mean |h| after epoch 20: " + ", ".join(f"{100 * v:.0f} %" for v in drift)
    return text, bool(drift.max() < 0.25)


def better(_: Results, higher: Sequence[str], lower: Sequence[str], margin: float = 0.05) -> Verdict:
    """Return whether, in each seed, the test accuracy of every model in `higher` exceeds that of every model in `lower`.

    margin: by how much, as a fraction. None: it does so in some seeds only, or no seed was measured for all models.
    """
    runs = {name: {e.seed: e.value for e in for_model(name).over_seeds()} for name in (*higher, *lower)}
    text = METRICS["accuracy"].mean_text
    measured = ", ".join(f"{name} {text([*by_seed.values()])}" for name, by_seed in runs.items() if by_seed)
    seeds = set.intersection(*map(set, runs.values()))
    if not seeds:
        return f"test accuracy, not measured for all: {measured}", None
    times = sum(min(runs[n][s] for n in higher) > max(runs[n][s] for n in lower) + margin for s in seeds)
    return f"test accuracy: {measured}; so in {times} of {len(seeds)} seeds", {len(seeds): True, 0: False}.get(times)
