"""What Turkoglu et al. 2019 claim of depth, checked on recorded training runs. Does not import torch.

Section 4.1 and Fig. 4 of the paper. The paper averages over the runs that succeeded; here failed runs count.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from .. import registry
from ..checkpoints import results
from ..utils.text import capitalised, markdown
from .claims import Claim, Verdict
from .comparison import Row

PAPER, TABLE, TASKS = "star", "Table 3", ("pmnist", "smnist")
"""The paper, its table of accuracies at each depth, and its tasks that we have."""
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


def recorded(names: Iterable[str]) -> Depths:
    """Return {cell: {number of layers: the recorded runs}} of models that differ in cell and depth; not of those without runs."""
    depths: dict[str, dict[int, Runs]] = {}
    for name in names:
        model, found = registry.models()[name], results.for_model(name)
        runs = Runs([e.value for e in found.over_seeds()], len(found.diverged_seeds) + found.unmeasurable)
        if runs.count:
            depths.setdefault(model.cell, {})[model.layers] = runs
    return {cell: dict(sorted(layers.items())) for cell, layers in depths.items()}


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


def _complete(depths: Depths, cells: Iterable[str], chosen: Callable[[int], bool] = lambda n: True) -> bool:
    """Return whether each of `cells` has runs at every depth that some cell has and for which `chosen(depth)` is True."""
    known = {n for of_cell in depths.values() for n in of_cell if chosen(n)}
    return all(known <= set(depths[cell]) for cell in cells)


def only_one_trains(depths: Depths, cell: str, layers: int) -> Verdict:
    """Return whether `cell` with `layers` layers has a mean accuracy that exceeds every other cell's by more than CLOSE."""
    runs = {name: of_cell[layers] for name, of_cell in depths.items() if layers in of_cell}
    text = ", ".join(
        _percent({name: each.mean}) if each.accuracies else f"{name} diverged" for name, each in runs.items()
    )
    if len(runs) < len(depths):
        return f"not measured for all{': ' if runs else ''}{text}", None
    return f"mean accuracy: {text}", runs[cell].mean > max(
        each.mean for name, each in runs.items() if name != cell
    ) + CLOSE


def gains(depths: Depths, cell: str, does: bool = True) -> Verdict:
    """Return whether the mean accuracy of `cell` at its best depth exceeds that of its single layer by more than CLOSE.

    does: False to return the opposite.
    """
    means = {n: runs.mean for n, runs in depths[cell].items()}
    best = max(means, key=means.__getitem__)
    text = f"{cell}: {_percent({'1 layer': means[1], f'the best depth, {best},': means[best]})}"
    gained = means[best] > means[1] + CLOSE
    return text, gained == does if gained or _complete(depths, [cell]) else None


def riskier(depths: Depths, *cells: str) -> Verdict:
    """Return whether a larger share of the runs of `cells`, taken together, failed at 12 or more layers than at 4 or fewer."""
    deep, shallow = (_failures(depths, cells, chosen) for chosen in (lambda n: n >= 12, lambda n: n <= 4))
    shares = [sum(f for f, _ in each.values()) / max(1, sum(n for _, n in each.values())) for each in (deep, shallow)]
    text = f"failed runs, 12 and 16 layers: {_counted(deep)}; 1 to 4 layers: {_counted(shallow)}"
    return text, shares[0] > shares[1] if _complete(depths, cells) else None


def most_robust(depths: Depths, cell: str) -> Verdict:
    """Return whether no run of `cell` failed, and at least one run of every other cell failed."""
    failures = _failures(depths, list(depths), lambda n: True)
    agrees = not failures[cell][0] and all(failed for name, (failed, _) in failures.items() if name != cell)
    return f"failed runs: {_counted(failures)}", agrees if failures[cell][0] or _complete(depths, depths) else None


def trains_deep(depths: Depths, cell: str) -> Verdict:
    """Return whether every run of `cell` at its greatest depth is as accurate, within CLOSE, as the mean at its best depth."""
    best, deepest = max(runs.mean for runs in depths[cell].values()), max(depths[cell])
    accuracies = depths[cell][deepest].accuracies
    text = f"{deepest} layers: {', '.join(f'{100 * a:.1f}' for a in accuracies)} %; mean of the best depth: {100 * best:.1f} %"
    trained = not depths[cell][deepest].diverged and min(accuracies) > best - CLOSE
    return text, trained if _complete(depths, [cell]) else None


def comparable(depths: Depths, cell: str, other: str) -> Verdict:
    """Return whether `cell` and `other` differ by less than CLOSE in mean accuracy, each at its best depth."""
    best = {name: max(runs.mean for runs in depths[name].values()) for name in (cell, other)}
    return f"the best depth: {_percent(best)}", abs(best[cell] - best[other]) < CLOSE


def often_fails(depths: Depths, cell: str, least: int, most: int) -> Verdict:
    """Return whether at least one run of `cell` failed at a depth of `least` to `most` layers."""
    failures = _failures(depths, [cell], lambda n: least <= n <= most)
    known = failures[cell][0] or _complete(depths, [cell], lambda n: least <= n <= most)
    return f"failed runs, {least} to {most} layers: {_counted(failures)}", failures[cell][0] > 0 if known else None


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


def rules() -> str:
    """Return the sentences that say what the claims' words mean here."""
    return (
        "Section 4.1 and Fig. 4 of Turkoglu et al. 2019. A run fails here if it diverges or its accuracy stays below "
        f"{100 * FAILED:.0f} %; the paper does not say what it counts as a failure. Accuracies within {100 * CLOSE:.0f} "
        "points count as equal."
    )


def table(depths: Depths) -> str:
    """Return a table of the claims, with our numbers and whether they agree."""
    return markdown(("the paper found", "here", "agrees"), verdicts(depths))


def verdicts(depths: Depths) -> list[tuple[str, str, str]]:
    """Return the cells of that table."""
    return [claim.cells(depths) for claim in CLAIMS]


def by_task(rows: Iterable[Row]) -> list[tuple[str, str, Depths]]:
    """Return (title, note, runs) for each of TASKS. note: which networks of TABLE have no run, or "".

    rows: of the paper's tables, as in zoo.publishing.comparison.
    """
    found = []
    tables = [row for row in rows if row.table == TABLE and row.task in TASKS]
    for (_, title), group in groupby(tables, key=lambda row: (row.task, row.task_title)):
        of_task = list(group)
        missing = ", ".join(f"`{row.model}`" for row in of_task if not row.has_run)
        note = f"Not trained yet: {missing}." if missing else ""
        found.append((title, note, recorded(row.model for row in of_task)))
    return found


def section(rows: Iterable[Row]) -> str:
    """Return the section of docs/star.md about the claims. rows: as for `by_task`."""
    parts = [
        "## What the paper claims of depth",
        f"{rules()} Here they are checked on the networks of {TABLE} below; [at a quarter of the steps](depth.md), on three runs "
        "of every network.",
    ]
    for title, note, depths in by_task(rows):
        parts += filter(None, [f"### {capitalised(title)}", note, table(depths)])
    return "\n\n".join(parts)
