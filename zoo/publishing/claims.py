"""Tests of what the documents found on our numbers: each gives the numbers in words, and whether they say the same."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..checkpoints import results as recorded
from ..diagnostics.base import StoredResult

Results = Mapping[str, StoredResult]
"""The parts of a study by their headings."""
Verdict = tuple[str, bool | None]
"""Our numbers in words, and whether they say what the paper does; None where they cannot tell."""


@dataclass(frozen=True)
class Claim:
    """One finding of a document: its words, our numbers, and whether they say the same."""

    text: str
    check: Callable[[Results], Verdict]

    def cells(self, results: Results) -> tuple[str, str, str]:
        """A row of a table: what the paper found, what we did, and whether they agree."""
        numbers, same = self.check(results)
        return self.text, numbers, {True: "yes", False: "**no**", None: "cannot tell"}[same]


def _corner(results: Results, cell: str, loss: str) -> float:
    return float(results[cell].arrays["ratio"].at(loss=loss).values)


def ratio(cell: str, low: float, high: float) -> Callable[[Results], Verdict]:
    """Whether the ratio of the bottom left to the top right lies between, for both losses."""

    def check(results: Results) -> Verdict:
        pair = [_corner(results, cell, loss) for loss in ("last", "all")]
        return "bottom left over top right: {:.3g} (last), {:.3g} (all)".format(*pair), all(
            low < v < high for v in pair
        )

    return check


def lstm_through_time(results: Results) -> Verdict:
    """The LSTM's gradients at the far ends of time, in the top layer, and of depth, at the last step."""
    mean = results["lstm"].arrays["mean"].at(loss="last").values
    back, down = mean[-1, 0] / mean[-1, -1], mean[0, -1] / mean[-1, -1]
    return (
        f"top layer, step 1 over step 10: {back:.3g}; last step, layer 1 over layer 12: {down:.3g}",
        back > 100 * down,
    )


def mitigated(results: Results) -> Verdict:
    """Whether both of GRU and LSTM w/f lose less than the LSTM, by a factor of two at least."""
    values = {cell: _corner(results, cell, "last") for cell in ("lstm", "lstm-f", "gru")}
    text = ", ".join(f"{cell} {v:.3g}" for cell, v in values.items())
    return f"ratio: {text}", min(values["lstm-f"], values["gru"]) > 2 * values["lstm"]


def much_spread(results: Results) -> Verdict:
    """Whether both of GRU and LSTM w/f vary over runs one and a half times as much as STAR."""
    values = {c: float(results[c].arrays["spread"].values.max()) for c in ("lstm-f", "gru", "star")}
    text = ", ".join(f"{cell} {v:.2g}" for cell, v in values.items())
    return f"largest spread: {text}", min(values["lstm-f"], values["gru"]) > 1.5 * values["star"]


def singular(cell: str, expected: float) -> Callable[[Results], Verdict]:
    """Whether all singular values are the expected one, to 1e-6."""

    def check(results: Results) -> Verdict:
        v = results[cell].arrays["values"].values
        return f"{np.nanmin(v):.6g} to {np.nanmax(v):.6g}", bool(np.nanmax(np.abs(v - expected)) < 1e-6)

    return check


def first_norms(cell: str, low: float, high: float) -> Callable[[Results], Verdict]:
    """Whether the first update's norm of layer 1 over that of the last layer lies between."""

    def check(results: Results) -> Verdict:
        norm = results[cell].arrays["norm"].values[:, 0]
        return f"layer 1 over layer {len(norm)}: {norm[0] / norm[-1]:.3g}", bool(low < norm[0] / norm[-1] < high)

    return check


def between(results: Results) -> Verdict:
    """Whether STAR's ratio of layer 1 to the last lies between the LSTM's and the vRNN's."""
    norms = {c: r.arrays["norm"].values for c, r in results.items()}
    values = {c: n[0, 0] / n[-1, 0] for c, n in norms.items() if len(n) > 1}  # an RHN is one layer, of many transitions
    text = ", ".join(f"{c} {v:.3g}" for c, v in values.items())
    return f"layer 1 over the last: {text}", bool(values["lstm"] < values["star"] < values["rnn"])


def _drift(result: StoredResult) -> np.ndarray:
    """By how much each layer's log10 of the norm is larger in the last ten updates than in the first ten."""
    logs = np.log10(result.arrays["norm"].values)
    return logs[:, -10:].mean(1) - logs[:, :10].mean(1)


def explodes(cell: str) -> Callable[[Results], Verdict]:
    """Whether its norm is ten times as large in the last ten updates as in the first ten; if not, it may be later on."""

    def check(results: Results) -> Verdict:
        grown = 10 ** float(_drift(results[cell]).max())
        return f"last ten updates over first ten: {grown:.3g}", True if grown > 10 else None

    return check


def stable_norms(results: Results) -> Verdict:
    """Whether STAR's norms change least, as a factor, from the first ten updates to the last ten."""
    changes = {cell: float(np.abs(_drift(result)).mean()) for cell, result in results.items()}
    text = ", ".join(f"{c} {10**v:.3g}" for c, v in changes.items())
    return f"change of the norms, mean factor over the layers: {text}", min(changes, key=changes.__getitem__) == "star"


def early_loss(results: Results) -> Verdict:
    """Whether STAR's loss over the last ten updates is the lowest, once any network is a tenth below chance."""
    last = {c: float(r.arrays["loss"].values[-10:].mean()) for c, r in results.items()}
    text = ", ".join(f"{c} {v:.3g}" for c, v in last.items())
    learnt = min(last.values()) < 0.9 * np.log(10)
    best = min(last, key=last.__getitem__) == "star"
    return f"mean loss of the last ten updates: {text} (chance {np.log(10):.3g})", best if learnt else None


def close_to_zero(against: str) -> Callable[[Results], Verdict]:
    """Whether the means are within half a standard deviation of the same differences, after the first step."""

    def check(results: Results) -> Verdict:
        sizes, spreads = {}, {}
        for part, result in results.items():
            mean, variance = (result.arrays[k].at(against=against).values[:, 1:] for k in ("mean", "variance"))
            sizes[part], spreads[part] = float(np.nanmax(np.abs(mean))), float(np.nanmax(variance)) ** 0.5
        text = "; ".join(f"{part}: at most {sizes[part]:.2g}, sd {spreads[part]:.2g}" for part in sizes)
        return text, all(sizes[part] < 0.5 * spreads[part] for part in sizes)

    return check


def only(part: str, check: Callable[[Results], Verdict]) -> Callable[[Results], Verdict]:
    """A check on one part of a study."""
    return lambda results: check({part: results[part]})


def learnt(name: str, chance: float, check: Callable[[Results], Verdict]) -> Callable[[Results], Verdict]:
    """A check of a model, which cannot tell where its mean squared error is not a tenth below that of a constant."""

    def checked(results: Results) -> Verdict:
        (text, same), found = check(results), recorded.for_model(name).measured()
        if found is not None and found.value < 0.9 * chance:
            return text, same
        if found is None:
            return f"{text}; whether it has learnt is not measured", None
        return f"{text}; but it has not learnt: mean squared error {found.value:.3g}, of a constant {chance:.3g}", None

    return checked


def late_variance(results: Results) -> Verdict:
    """Whether the variance of RIN's moves in the last third of the steps is one and a half times that before."""
    v = results["rin-1x100-mnist-rows"].arrays["variance"].at(against="previous").values[0]
    third = len(v) // 3
    early, late = float(v[1:-third].mean()), float(v[-third:].mean())
    return f"RIN: {late:.3g} in the last third, {early:.3g} before", late > 1.5 * early


def _final(stored: StoredResult) -> float:
    return float(stored.arrays["indicator"].values[0, -1])


def larger(suffix: str, over: Sequence[str] = ("lstm", "gru")) -> Callable[[Results], Verdict]:
    """Whether the plain RNN's indicator at the last step is above the others'."""

    def check(results: Results) -> Verdict:
        values = {cell: _final(results[f"{cell}{suffix}"]) for cell in ("rnn", *over)}
        text = ", ".join(f"{cell} {v:.2f}" for cell, v in values.items())
        return f"log10 at the last step: {text}", values["rnn"] > max(values[cell] for cell in over)

    return check


def throughout(results: Results) -> Verdict:
    """At how many steps the RNN's indicator is the largest and the GRU's the smallest; both at more than 90 %?"""
    rows = {c: results[f"{c}, trained"].arrays["indicator"].values[0] for c in ("rnn", "lstm", "gru")}
    above = np.mean([rows["rnn"] > np.maximum(rows["lstm"], rows["gru"])])
    least = np.mean([rows["gru"] < np.minimum(rows["lstm"], rows["rnn"])])
    text = f"RNN largest at {100 * above:.0f} % of the steps, GRU smallest at {100 * least:.0f} %"
    return text, bool(above > 0.9 and least > 0.9)


def over_epochs(results: Results) -> Verdict:
    """Whether the RNN's median over the epochs is above the others', beside what the networks learned; of one that knows
    two classes apart no better than chance nobody can tell."""
    rows = {c: np.nanmedian(results[c].arrays["indicator"].values[0]) for c in ("rnn", "lstm", "gru")}
    text = ", ".join(f"{c} {v:.2f}" for c, v in rows.items())
    accuracies = {c: float(results[c].arrays["metric"].values[-1]) for c in rows}
    learned = ", ".join(f"{c} {v:.2f}" for c, v in accuracies.items())
    learnt = min(accuracies.values()) > 0.55
    above = bool(rows["rnn"] > max(rows["lstm"], rows["gru"]))
    return f"median log10 over the epochs: {text}; validation accuracy at the end: {learned}", above if learnt else None


def gates(other: str, below: bool) -> Callable[[Results], Verdict]:
    """Whether every norm of the other cell's is at most the RNN's, or not every one, input maps with input maps and
    recurrent ones with recurrent ones."""

    def check(results: Results) -> Verdict:
        norms = {cell: results[cell].arrays["norm"] for cell in ("rnn", other)}
        last = {
            c: dict(zip(map(str, n.axis("weights").ticks), n.values[0, :, -1], strict=True)) for c, n in norms.items()
        }
        text = "; ".join(f"{c}: " + ", ".join(f"{k} {v:.3g}" for k, v in f.items()) for c, f in last.items())
        rnn, found = last.values()
        at_most = all(v <= rnn["input" if k.startswith("input") else "recurrent"] for k, v in found.items())
        return text, at_most == below

    return check


def inputs(tag: str, check: Callable[[StoredResult], Verdict]) -> Callable[[Results], Verdict]:
    """A check on the features as they are, which decides, and beside it what comes out with standardised ones."""

    def both(results: Results) -> Verdict:
        (raw, same), (other, also) = (check(results[f"{tag}{kind}"]) for kind in ("", ", standardised"))
        return f"{raw}. Standardised: {other} ({'yes' if also else 'no'})", same

    return both


def lower_vanish(sigmoid: StoredResult) -> Verdict:
    """Whether layer 1 gets less than a tenth of the output layer's gradient, in the median epoch."""
    m = np.median(sigmoid.arrays["gradient"].values, axis=1)
    return "median |dy/dW|, layers 1 to 3 and output: " + ", ".join(f"{v:.2g}" for v in m), bool(m[0] < 0.1 * m[-1])


def little(sigmoid: StoredResult) -> Verdict:
    """Whether the first 60 epochs bring less than a quarter of what the loss gains at all."""
    loss, accuracy = (sigmoid.arrays[k].values for k in ("loss", "accuracy"))
    text = f"loss {loss[0]:.3f} to {loss[59]:.3f}, then {loss[-1]:.3f}; accuracy {accuracy[0]:.3f} to {accuracy[59]:.3f}, then {accuracy[-1]:.3f}"
    return text, bool(loss[0] - loss[59] < 0.25 * (loss[0] - loss.min()) + 0.02)


def saturated(sigmoid: StoredResult) -> Verdict:
    """Whether 30 % of the outputs of both layers 1 and 2 are within a tenth of 0 or 1, and more than of the third's."""
    last = sigmoid.arrays["last"]
    edges = np.array(last.axes[-1].ticks, dtype=float)
    ends = [float(row[(edges < 0.1) | (edges >= 0.9)].sum()) for row in last.values]
    text = "share of outputs below 0.1 or above 0.9, layers 1 to 3: " + ", ".join(f"{v:.2g}" for v in ends)
    return text, min(ends[:2]) > max(0.3, ends[-1])


def means(results: Results) -> Verdict:
    """Whether the mean outputs of layers 1 and 2 are of tens."""
    means = results["prelu-tuned"].arrays["means"].values
    return "means of layers 1 to 3: " + ", ".join(f"{v:.3g}" for v in means), bool(np.abs(means[:2]).min() > 10)


def significant(results: Results) -> Verdict:
    """Whether layer 1 of the PReLU network gets three times the gradient of the sigmoid network's."""
    values = {tag: np.median(results[tag].arrays["gradient"].values[0]) for tag in ("sigmoid", "prelu-tuned")}
    text = ", ".join(f"{tag} {v:.2g}" for tag, v in values.items())
    return f"layer 1, median: {text}", bool(values["prelu-tuned"] > 3 * values["sigmoid"])


def quick(prelu: StoredResult) -> Verdict:
    """Whether 20 epochs bring more than half of what the loss gains in 150."""
    loss = prelu.arrays["loss"].values
    done = (loss[0] - loss[19]) / (loss[0] - loss[-1])
    return f"loss {loss[0]:.3f}, {loss[19]:.3f} after 20 epochs, {loss[-1]:.3f} after 150", bool(done > 0.5)


def stable(prelu: StoredResult) -> Verdict:
    """Whether no layer's mean output changes by more than a quarter after epoch 20."""
    h = prelu.arrays["outputs"].values
    drift = np.abs(h[:, -1] / h[:, 19] - 1)
    return "change of mean |h| after epoch 20: " + ", ".join(f"{100 * v:.0f} %" for v in drift), bool(
        drift.max() < 0.25
    )


def better(higher: Sequence[str], lower: Sequence[str], least: float = 0.05) -> Callable[[Results], Verdict]:
    """Whether each model of the one kind was measured at more, by `least`, than every one of the other, on the test data."""

    def check(_: Results) -> Verdict:
        found = {name: recorded.for_model(name).measured() for name in (*higher, *lower)}
        values = {name: e.value for name, e in found.items() if e is not None}
        text = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        if len(values) < len(found):
            return f"not all are measured: {text}", None
        return f"test accuracy: {text}", min(values[n] for n in higher) > max(values[n] for n in lower) + least

    return check


def _lengths(stored: StoredResult) -> str:
    radius, norm, powers = (stored.arrays[name].values.flat for name in ("modulus", "norm", "powers"))
    return (
        f"spectral radius {radius[0]:.3g}, norm {norm[0]:.3g}: {powers[0]:.3g} times as long after a step, "
        f"{powers[-1]:.3g} times after {len(powers)}"
    )


def grows(part: str, up: bool) -> Callable[[Results], Verdict]:
    """Whether a random vector grows, or shrinks, at every one of the last ten products with the matrix."""

    def check(results: Results) -> Verdict:
        steps = np.diff(results[part].arrays["powers"].values[0, -10:])
        return _lengths(results[part]), bool((steps > 0 if up else steps < 0).all())

    return check


def bounded(results: Results) -> Verdict:
    """Whether below a norm of 1 every product is shorter than the one before it, by the norm at least; and where the norm
    of a trained network lies, whose errors may go either way."""
    found = results["norm 0.9"].arrays
    powers = np.concatenate([[1.0], found["powers"].values[0]])
    text = f"{_lengths(results['norm 0.9'])}; trained: {_lengths(results['trained'])}"
    return text, bool((powers[1:] <= float(found["norm"].values[0]) * powers[:-1]).all())
