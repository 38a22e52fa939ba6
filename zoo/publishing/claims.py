"""Checks of the papers' claims on our numbers: each returns the numbers in words, and whether they agree with the claim."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..checkpoints import results as recorded
from ..diagnostics.base import StoredResult

Results = Mapping[str, StoredResult]
"""The parts of a study by title."""
Verdict = tuple[str, bool | None]
"""Our numbers in words, and whether they agree with the paper; None if they cannot decide it."""


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, and the check of our numbers."""

    text: str
    check: Callable[[Results], Verdict]

    def cells(self, results: Results) -> tuple[str, str, str]:
        """A row of a table: the paper's claim, our numbers, and whether they agree."""
        numbers, agrees = self.check(results)
        return self.text, numbers, {True: "yes", False: "**no**", None: "cannot tell"}[agrees]


def _corner(results: Results, cell: str, loss: str) -> float:
    return float(results[cell].arrays["ratio"].at(loss=loss).values)


def ratio(cell: str, low: float, high: float) -> Callable[[Results], Verdict]:
    """Bottom left over top right, layer 1 at step 1 over the last at the last: between `low` and `high` for both losses?"""

    def check(results: Results) -> Verdict:
        pair = [_corner(results, cell, loss) for loss in ("last", "all")]
        return "bottom left over top right: {:.3g} (loss on the last output), {:.3g} (on all)".format(*pair), all(
            low < v < high for v in pair
        )

    return check


def lstm_through_time(results: Results) -> Verdict:
    """LSTM: is what remains through time, in the top layer, over 100 times what remains through depth, at the last step?"""
    mean = results["lstm"].arrays["mean"].at(loss="last").values
    back, down = mean[-1, 0] / mean[-1, -1], mean[0, -1] / mean[-1, -1]
    return (
        f"top layer, step 1 over step 10: {back:.3g}; last step, layer 1 over layer 12: {down:.3g}",
        back > 100 * down,
    )


def mitigated(results: Results) -> Verdict:
    """Are the ratios of GRU and of LSTM w/f both over twice the LSTM's?"""
    values = {cell: _corner(results, cell, "last") for cell in ("lstm", "lstm-f", "gru")}
    text = ", ".join(f"{cell} {v:.3g}" for cell, v in values.items())
    return f"bottom left over top right: {text}", min(values["lstm-f"], values["gru"]) > 2 * values["lstm"]


def much_spread(results: Results) -> Verdict:
    """Are the largest spreads of GRU and of LSTM w/f both over one and a half times STAR's?"""
    values = {c: float(results[c].arrays["spread"].values.max()) for c in ("lstm-f", "gru", "star")}
    text = ", ".join(f"{cell} {v:.2g}" for cell, v in values.items())
    return f"largest spread: {text}", min(values["lstm-f"], values["gru"]) > 1.5 * values["star"]


def singular(cell: str, expected: float) -> Callable[[Results], Verdict]:
    """Are all singular values within 1e-6 of the expected one?"""

    def check(results: Results) -> Verdict:
        v = results[cell].arrays["values"].values
        return f"{np.nanmin(v):.6g} to {np.nanmax(v):.6g}", bool(np.nanmax(np.abs(v - expected)) < 1e-6)

    return check


def first_norms(cell: str, low: float, high: float) -> Callable[[Results], Verdict]:
    """First update: is the norm of layer 1 over that of the last layer between `low` and `high`?"""

    def check(results: Results) -> Verdict:
        norm = results[cell].arrays["norm"].values[:, 0]
        return f"layer 1 over layer {len(norm)}: {norm[0] / norm[-1]:.3g}", bool(low < norm[0] / norm[-1] < high)

    return check


def between(results: Results) -> Verdict:
    """Is STAR's norm of layer 1 over that of the last layer between the LSTM's and the vRNN's?"""
    norms = {c: r.arrays["norm"].values for c, r in results.items()}
    values = {c: n[0, 0] / n[-1, 0] for c, n in norms.items() if len(n) > 1}  # an RHN is one layer of many transitions
    text = ", ".join(f"{c} {v:.3g}" for c, v in values.items())
    return f"layer 1 over the last: {text}", bool(values["lstm"] < values["star"] < values["rnn"])


def _drift(result: StoredResult) -> np.ndarray:
    """Growth of each layer's log10 norm from the first ten updates to the last ten."""
    logs = np.log10(result.arrays["norm"].values)
    return logs[:, -10:].mean(1) - logs[:, :10].mean(1)


def explodes(cell: str) -> Callable[[Results], Verdict]:
    """Is its norm over ten times larger in the last ten updates than in the first ten? If not, it may explode later."""

    def check(results: Results) -> Verdict:
        growth = 10 ** float(_drift(results[cell]).max())
        return f"last ten updates over first ten: {growth:.3g}", True if growth > 10 else None

    return check


def stable_norms(results: Results) -> Verdict:
    """Do STAR's norms change by the smallest factor from the first ten updates to the last ten?"""
    changes = {cell: float(np.abs(_drift(result)).mean()) for cell, result in results.items()}
    text = ", ".join(f"{c} {10**v:.3g}" for c, v in changes.items())
    return f"change of the norms, mean factor over the layers: {text}", min(changes, key=changes.__getitem__) == "star"


def early_loss(results: Results) -> Verdict:
    """Is STAR's loss over the last ten updates the lowest? Undecided until a network is a tenth below chance."""
    last = {c: float(r.arrays["loss"].values[-10:].mean()) for c, r in results.items()}
    text = ", ".join(f"{c} {v:.3g}" for c, v in last.items())
    decided = min(last.values()) < 0.9 * np.log(10)
    best = min(last, key=last.__getitem__) == "star"
    return f"mean loss of the last ten updates: {text} (chance {np.log(10):.3g})", best if decided else None


def close_to_zero(against: str) -> Callable[[Results], Verdict]:
    """After the first step: are the means of all differences below half of their standard deviations?"""

    def check(results: Results) -> Verdict:
        sizes, spreads = {}, {}
        for part, result in results.items():
            mean, variance = (result.arrays[k].at(against=against).values[:, 1:] for k in ("mean", "variance"))
            sizes[part], spreads[part] = float(np.nanmax(np.abs(mean))), float(np.nanmax(variance)) ** 0.5
        text = "; ".join(f"{part}: mean at most {sizes[part]:.2g}, sd {spreads[part]:.2g}" for part in sizes)
        return text, all(sizes[part] < 0.5 * spreads[part] for part in sizes)

    return check


def only(part: str, check: Callable[[Results], Verdict]) -> Callable[[Results], Verdict]:
    """The check applied to one part of a study."""
    return lambda results: check({part: results[part]})


def learnt(name: str, chance: float, check: Callable[[Results], Verdict]) -> Callable[[Results], Verdict]:
    """The check, undecided unless the model's mean squared error is a tenth below `chance`, that of a constant answer."""

    def checked(results: Results) -> Verdict:
        (text, agrees), evaluation = check(results), recorded.for_model(name).measured()
        if evaluation is None:
            return f"{text}; whether the network has learnt was not measured", None
        if evaluation.value < 0.9 * chance:
            return text, agrees
        error = f"mean squared error {evaluation.value:.3g}, of a constant answer {chance:.3g}"
        return f"{text}; but the network has not learnt: {error}", None

    return checked


def late_variance(results: Results) -> Verdict:
    """RIN: is the variance of h_t - h_(t-1) in the last third of the steps over one and a half times that before?"""
    v = results["rin-1x100-mnist-rows"].arrays["variance"].at(against="previous").values[0]
    third = len(v) // 3
    early, late = float(v[1:-third].mean()), float(v[-third:].mean())
    return f"RIN: {late:.3g} in the last third, {early:.3g} before", late > 1.5 * early


def _final(stored: StoredResult) -> float:
    return float(stored.arrays["indicator"].values[0, -1])


def larger(suffix: str, over: Sequence[str] = ("lstm", "gru")) -> Callable[[Results], Verdict]:
    """Is the plain RNN's indicator at the last step above the others'?"""

    def check(results: Results) -> Verdict:
        values = {cell: _final(results[f"{cell}{suffix}"]) for cell in ("rnn", *over)}
        text = ", ".join(f"{cell} {v:.2f}" for cell, v in values.items())
        return f"log10 at the last step: {text}", values["rnn"] > max(values[cell] for cell in over)

    return check


def throughout(results: Results) -> Verdict:
    """Is the RNN's indicator the largest, and the GRU's the smallest, each at over 90 % of the steps?"""
    rows = {c: results[f"{c}, trained"].arrays["indicator"].values[0] for c in ("rnn", "lstm", "gru")}
    above = np.mean([rows["rnn"] > np.maximum(rows["lstm"], rows["gru"])])
    least = np.mean([rows["gru"] < np.minimum(rows["lstm"], rows["rnn"])])
    text = f"RNN largest at {100 * above:.0f} % of the steps, GRU smallest at {100 * least:.0f} %"
    return text, bool(above > 0.9 and least > 0.9)


def over_epochs(results: Results) -> Verdict:
    """Is the RNN's median over the epochs above the others'? Undecided if a network's accuracy is at most 0.55, near chance."""
    medians = {c: np.nanmedian(results[c].arrays["indicator"].values[0]) for c in ("rnn", "lstm", "gru")}
    text = ", ".join(f"{c} {v:.2f}" for c, v in medians.items())
    accuracies = {c: float(results[c].arrays["metric"].values[-1]) for c in medians}
    accuracy_text = ", ".join(f"{c} {v:.2f}" for c, v in accuracies.items())
    above = bool(medians["rnn"] > max(medians["lstm"], medians["gru"]))
    decided = min(accuracies.values()) > 0.55
    numbers = f"median log10 over the epochs: {text}; validation accuracy at the end: {accuracy_text}"
    return numbers, above if decided else None


def gates(other: str, below: bool) -> Callable[[Results], Verdict]:
    """Is every norm of the other cell at most the RNN's, comparing input weights with input weights and recurrent weights
    with recurrent ones? The claim holds if the answer is `below`."""

    def check(results: Results) -> Verdict:
        norms = {cell: results[cell].arrays["norm"] for cell in ("rnn", other)}
        last = {
            c: dict(zip(map(str, n.axis("weights").ticks), n.values[0, :, -1], strict=True)) for c, n in norms.items()
        }
        text = "; ".join(f"{c}: " + ", ".join(f"{k} {v:.3g}" for k, v in f.items()) for c, f in last.items())
        rnn, gated = last.values()
        at_most = all(v <= rnn["input" if k.startswith("input") else "recurrent"] for k, v in gated.items())
        return text, at_most == below

    return check


def inputs(tag: str, check: Callable[[StoredResult], Verdict]) -> Callable[[Results], Verdict]:
    """The check on unscaled features, which decides, and in words also its result on standardised ones."""

    def both(results: Results) -> Verdict:
        (raw, agrees), (other, other_agrees) = (check(results[f"{tag}{kind}"]) for kind in ("", ", standardised"))
        return f"{raw}. Standardised: {other} ({'yes' if other_agrees else 'no'})", agrees

    return both


def lower_vanish(sigmoid: StoredResult) -> Verdict:
    """Median over the epochs: is layer 1's gradient less than a tenth of the output layer's?"""
    medians = np.median(sigmoid.arrays["gradient"].values, axis=1)
    text = ", ".join(f"{v:.2g}" for v in medians)
    return f"median |dy/dW|, layers 1 to 3 and output: {text}", bool(medians[0] < 0.1 * medians[-1])


def little(sigmoid: StoredResult) -> Verdict:
    """Do the first 60 epochs bring less than a quarter of the whole improvement of the loss (plus 0.02)?"""
    loss, accuracy = (sigmoid.arrays[k].values for k in ("loss", "accuracy"))
    text = f"loss {loss[0]:.3f} to {loss[59]:.3f}, then {loss[-1]:.3f}; accuracy {accuracy[0]:.3f} to {accuracy[59]:.3f}, then {accuracy[-1]:.3f}"
    return text, bool(loss[0] - loss[59] < 0.25 * (loss[0] - loss.min()) + 0.02)


def saturated(sigmoid: StoredResult) -> Verdict:
    """Layers 1 and 2: are over 30 % of the outputs within a tenth of 0 or 1, and more than in layer 3?"""
    last = sigmoid.arrays["last"]
    edges = np.array(last.axes[-1].ticks, dtype=float)
    ends = [float(row[(edges < 0.1) | (edges >= 0.9)].sum()) for row in last.values]
    text = "share of outputs below 0.1 or above 0.9, layers 1 to 3: " + ", ".join(f"{v:.2g}" for v in ends)
    return text, min(ends[:2]) > max(0.3, ends[-1])


def means(results: Results) -> Verdict:
    """Are the mean outputs of layers 1 and 2 both over 10 in size?"""
    values = results["prelu-tuned"].arrays["means"].values
    return "means of layers 1 to 3: " + ", ".join(f"{v:.3g}" for v in values), bool(np.abs(values[:2]).min() > 10)


def significant(results: Results) -> Verdict:
    """Is the gradient of the PReLU network's layer 1 over three times that of the sigmoid network's?"""
    values = {tag: np.median(results[tag].arrays["gradient"].values[0]) for tag in ("sigmoid", "prelu-tuned")}
    text = ", ".join(f"{tag} {v:.2g}" for tag, v in values.items())
    return f"layer 1, median: {text}", bool(values["prelu-tuned"] > 3 * values["sigmoid"])


def quick(prelu: StoredResult) -> Verdict:
    """Do 20 epochs bring more than half of the improvement of the loss over all 150?"""
    loss = prelu.arrays["loss"].values
    share = (loss[0] - loss[19]) / (loss[0] - loss[-1])
    return f"loss {loss[0]:.3f}, {loss[19]:.3f} after 20 epochs, {loss[-1]:.3f} after 150", bool(share > 0.5)


def stable(prelu: StoredResult) -> Verdict:
    """Does every layer's mean |output| change by less than a quarter after epoch 20?"""
    h = prelu.arrays["outputs"].values
    drift = np.abs(h[:, -1] / h[:, 19] - 1)
    return "change of mean |h| after epoch 20: " + ", ".join(f"{100 * v:.0f} %" for v in drift), bool(
        drift.max() < 0.25
    )


def better(higher: Sequence[str], lower: Sequence[str], margin: float = 0.05) -> Callable[[Results], Verdict]:
    """Test accuracy: is every model of `higher` more than `margin` above every model of `lower`?"""

    def check(_: Results) -> Verdict:
        evaluations = {name: recorded.for_model(name).measured() for name in (*higher, *lower)}
        values = {name: e.value for name, e in evaluations.items() if e is not None}
        text = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        if len(values) < len(evaluations):
            return f"test accuracy, not measured for all: {text}", None
        return f"test accuracy: {text}", min(values[n] for n in higher) > max(values[n] for n in lower) + margin

    return check


def _lengths(stored: StoredResult) -> str:
    radius, norm, powers = (stored.arrays[name].values.flat for name in ("modulus", "norm", "powers"))
    return (
        f"spectral radius {radius[0]:.3g}, norm {norm[0]:.3g}: length multiplied by {powers[0]:.3g} after one step and by "
        f"{powers[-1]:.3g} after {len(powers)}"
    )


def grows(part: str, up: bool) -> Callable[[Results], Verdict]:
    """Does a random vector grow (`up`) or shrink at each of the last ten products with the matrix?"""

    def check(results: Results) -> Verdict:
        steps = np.diff(results[part].arrays["powers"].values[0, -10:])
        return _lengths(results[part]), bool((steps > 0 if up else steps < 0).all())

    return check


def bounded(results: Results) -> Verdict:
    """Norm 0.9: does every product shrink a vector at least by the norm? In words also a trained network's norm, above 1,
    whose errors may grow or shrink."""
    arrays = results["norm 0.9"].arrays
    powers = np.concatenate([[1.0], arrays["powers"].values[0]])
    text = f"{_lengths(results['norm 0.9'])}; trained: {_lengths(results['trained'])}"
    return text, bool((powers[1:] <= float(arrays["norm"].values[0]) * powers[:-1]).all())
