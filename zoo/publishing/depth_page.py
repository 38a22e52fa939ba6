"""Writes docs/depth.md: accuracy against depth over several seeds, and a paper's claims on depth. Does not import torch.

Turkoglu et al. 2019 train each cell on sequences of 784 steps and average over the runs that succeeded. Here sequences
have 196 steps, so that every run can be trained on a CPU, and failed runs count.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .. import registry
from ..checkpoints import results
from ..utils.text import markdown
from . import comparison
from .claims import Claim, Verdict

PAGE, PICTURE = ("docs", "depth.md"), ("docs", "depth.svg")
STUDY, TASK = "star-mnist-196", "pmnist-196"
FAILED = 0.5
"""A run failed if it diverged or if its test accuracy is below this. Guessing gives 0.1, a single STAR layer 0.6."""
CLOSE = 0.03
"""Accuracies that differ by less than this count as equal. Most standard deviations over seeds are smaller."""


@dataclass(frozen=True)
class Runs:
    """The training runs of one network from several seeds."""

    accuracies: Sequence[float]
    """Test accuracies of the runs that did not diverge."""
    diverged: int = 0

    @property
    def count(self) -> int:
        return len(self.accuracies) + self.diverged

    @property
    def failed(self) -> int:
        return self.diverged + sum(accuracy < FAILED for accuracy in self.accuracies)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies) if self.accuracies else 0.0


Depths = Mapping[str, Mapping[int, Runs]]
"""Runs by cell, then by number of layers."""


def stored() -> Depths:
    """Return {cell: {number of layers: its recorded runs}} for the networks that the page compares."""
    depths: dict[str, dict[int, Runs]] = {}
    for name, model in registry.models().items():
        if model.recipe == STUDY:
            recorded = results.for_model(name)
            if evaluations := recorded.over_seeds():
                runs = Runs([e.value for e in evaluations], len(recorded.diverged_seeds))
                depths.setdefault(model.cell, {})[model.layers] = runs
    return {cell: dict(sorted(layers.items())) for cell, layers in depths.items()}


def rows() -> list[comparison.Row]:
    """Return the measured figures of the networks that the page compares, as rows of zoo.publishing.comparison."""
    return [row for row in comparison.rows(task=TASK, measured=True) if row.recipe == STUDY]


def page() -> str:
    """Return the text of docs/depth.md."""
    study = registry.load_registry().studies[STUDY]
    recipe, (grid,) = study.recipes[STUDY], study.grids.values()
    depths = stored()
    layers = sorted({n for of_cell in depths.values() for n in of_cell})
    by_place = {(row.kind, row.layers): row for row in rows()}
    table = [(str(n), *(_figure(by_place[cell, n]) if n in depths[cell] else "-" for cell in depths)) for n in layers]
    runs = sum(each.count for of_cell in depths.values() for each in of_cell.values())
    claims = [claim.cells(depths) for claim in CLAIMS]
    return "\n\n".join(
        [
            "# Depth and seeds",
            f"{runs} training runs of networks of {grid.units[0]} units on MNIST's images of 14 x 14 pixels in a fixed random "
            "order (`pmnist-196`): means and standard deviations of the test accuracy over the seeds. Turkoglu et al. 2019 "
            f"have 128 units, all 784 pixels and 100 epochs: [their figures beside ours](star.md). {recipe.deviation} "
            f"{grid.notes}",
            "![accuracy against depth](depth.svg)",
            markdown(("layers", *depths), table),
            "`rnnzoo train star-16x32-pmnist-196 --seeds 0-2` trains one of these networks again, and `rnnzoo compare '*-196' --measured` "
            "prints these rows.",
            "## What the paper claims",
            "Section 4.1 and Fig. 4 of Turkoglu et al. 2019. A run fails here if it diverges or its accuracy stays below "
            f"{100 * FAILED:.0f} %; the paper does not say what it counts as a failure. Accuracies within {100 * CLOSE:.0f} "
            "points count as equal.",
            markdown(("the paper found", "here", "agrees"), claims),
        ]
    ) + "\n"  # fmt: skip


def _figure(row: comparison.Row) -> str:
    return f"[{row.unit.text(row.measured or 0.0)}{row.spread_text}](../cards/{row.model}/README.md)"


def _percent(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {100 * value:.1f} %" for name, value in values.items())


def _failures(depths: Depths, cells: Sequence[str], chosen: Callable[[int], bool]) -> dict[str, tuple[int, int]]:
    """Return {cell: (number of failed runs, number of runs)}, over the depths in layers for which `chosen(depth)` is True."""
    return {
        cell: (
            sum(runs.failed for n, runs in depths[cell].items() if chosen(n)),
            sum(runs.count for n, runs in depths[cell].items() if chosen(n)),
        )
        for cell in cells
    }


def _counted(failures: Mapping[str, tuple[int, int]]) -> str:
    return ", ".join(f"{cell} {failed} of {count}" for cell, (failed, count) in failures.items())


def only_one_trains(depths: Depths, cell: str, layers: int) -> Verdict:
    """Return whether `cell` with `layers` layers has a mean accuracy that exceeds every other cell's by more than CLOSE."""
    means = {name: of_cell[layers].mean for name, of_cell in depths.items() if layers in of_cell}
    others = [mean for name, mean in means.items() if name != cell]
    if len(means) < len(depths):
        return f"not measured for all: {_percent(means)}", None
    return f"mean accuracy: {_percent(means)}", means[cell] > max(others) + CLOSE


def gains(depths: Depths, cell: str, does: bool = True) -> Verdict:
    """Return whether the mean accuracy of `cell` at its best depth exceeds that of its single layer by more than CLOSE.

    does: False to return the opposite.
    """
    means = {n: runs.mean for n, runs in depths[cell].items()}
    best = max(means, key=means.__getitem__)
    text = f"{cell}: {_percent({'1 layer': means[1], f'the best depth, {best},': means[best]})}"
    return text, (means[best] > means[1] + CLOSE) == does


def riskier(depths: Depths, *cells: str) -> Verdict:
    """Return whether a larger share of the runs of `cells`, taken together, failed at 12 or more layers than at 4 or fewer."""
    deep, shallow = (_failures(depths, cells, chosen) for chosen in (lambda n: n >= 12, lambda n: n <= 4))
    shares = [sum(f for f, _ in each.values()) / max(1, sum(n for _, n in each.values())) for each in (deep, shallow)]
    return f"failed runs, 12 and 16 layers: {_counted(deep)}; 1 to 4 layers: {_counted(shallow)}", shares[0] > shares[1]


def most_robust(depths: Depths, cell: str) -> Verdict:
    """Return whether no run of `cell` failed, and at least one run of every other cell failed."""
    failures = _failures(depths, list(depths), lambda n: True)
    agrees = not failures[cell][0] and all(failed for name, (failed, _) in failures.items() if name != cell)
    return f"failed runs: {_counted(failures)}", agrees


def trains_deep(depths: Depths, cell: str) -> Verdict:
    """Return whether every run of `cell` at its greatest depth is as accurate, within CLOSE, as the mean at its best depth."""
    best, deepest = max(runs.mean for runs in depths[cell].values()), max(depths[cell])
    accuracies = depths[cell][deepest].accuracies
    text = f"{deepest} layers: {', '.join(f'{100 * a:.1f}' for a in accuracies)} %; mean of the best depth: {100 * best:.1f} %"
    return text, not depths[cell][deepest].diverged and min(accuracies) > best - CLOSE


def comparable(depths: Depths, cell: str, other: str) -> Verdict:
    """Return whether `cell` and `other` differ by less than CLOSE in mean accuracy, each at its best depth."""
    best = {name: max(runs.mean for runs in depths[name].values()) for name in (cell, other)}
    return f"the best depth: {_percent(best)}", abs(best[cell] - best[other]) < CLOSE


def often_fails(depths: Depths, cell: str, least: int, most: int) -> Verdict:
    """Return whether at least one run of `cell` failed at a depth of `least` to `most` layers."""
    failures = _failures(depths, [cell], lambda n: least <= n <= most)
    return f"failed runs, {least} to {most} layers: {_counted(failures)}", failures[cell][0] > 0


CLAIMS = (
    Claim("STAR is the only unit for which a 12-layer model can be trained", only_one_trains, ("star", 12)),
    Claim("stacking into deeper architectures does benefit RNNs: STAR", gains, ("star",)),
    Claim("the same: LSTM", gains, ("lstm",)),
    Claim("the same: LSTM w/f", gains, ("lstm-f",)),
    Claim("the same: RHN", gains, ("rhn",)),
    Claim("except for vRNN", gains, ("rnn", False)),
    Claim("depth increases the risk of a catastrophic training failure", riskier, ("lstm", "lstm-f", "rhn", "rnn")),
    Claim("LSTM training already often fails at 2 to 8 layers", often_fails, ("lstm", 2, 8)),
    Claim("STAR is significantly more robust in that respect", most_robust, ("star",)),
    Claim("STAR can be trained up to a depth of 20 layers (here 16)", trains_deep, ("star",)),
    Claim("STAR's performance is comparable to that of a successfully trained LSTM", comparable, ("star", "lstm")),
)
"""The claims, in the order in which the paper's section makes them."""
