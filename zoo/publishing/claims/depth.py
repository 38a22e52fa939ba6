"""What Turkoglu et al. 2019 claim of depth, checked on recorded training runs. Does not import torch.

Section 4.1 and Fig. 4 of the paper. The paper averages over the runs that succeeded; here the mean is over all runs that did
not diverge, and the text says how many diverged.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ... import registry
from ...checkpoints import results
from ...utils.text import capitalised, markdown
from ..comparison import Row
from .checks import Claim, Verdict

PAPER, TABLE, TASKS = "star", "Table 3", ("pmnist", "smnist")
"""The paper, its table of accuracies at each depth, and its tasks that we have."""
CELLS, LAYERS = {"rnn", "lstm", "lstm-f", "rhn", "star"}, {1, 2, 4, 8, 12, 16}
"""The cells and numbers of layers of that table. Another zoo may have only some of them, which decide no claim."""
DEEP, SHALLOW = (12, 16), (1, 2, 4)
FAILED = 0.5
"""A run failed if it diverged or if its test accuracy is below this. Guessing gives 0.1, a single STAR layer 0.6."""
CLOSE = 0.03
"""Accuracies that differ by less than this count as equal. Most standard deviations over three seeds of docs/depth.md are
smaller."""


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
        """The mean accuracy of the runs that did not diverge; 0 if all did."""
        return statistics.fmean(self.accuracies) if self.accuracies else 0.0

    @property
    def text(self) -> str:
        """The mean, and how many runs diverged, such as "42.45 % (2 of 3 diverged)"."""
        if not self.accuracies:
            return "diverged" if self.diverged else "not trained"
        lost = f" ({self.diverged} of {self.count} diverged)" if self.diverged else ""
        return f"{100 * self.mean:.2f} %{lost}"


Depths = Mapping[str, Mapping[int, Runs]]
"""Runs by cell, then by number of layers; `Runs` of 0 runs for a network that is not trained."""


def runs_by_depth(names: Iterable[str]) -> Depths:
    """Return {cell: {number of layers: the recorded runs}} of models that differ in cell and depth."""
    depths: dict[str, dict[int, Runs]] = {}
    for name in names:
        model, found = registry.models()[name], results.for_model(name)
        lost = found.training is not None and found.training.diverged is not None
        accuracies = [e.value for e in found.over_seeds() if not (lost and e is found.measured())]
        depths.setdefault(model.cell, {})[model.layers] = Runs(accuracies, len(found.diverged_seeds) + lost)
    return {cell: dict(sorted(layers.items())) for cell, layers in depths.items()}


def _texts(runs: Mapping[str, Runs]) -> str:
    return ", ".join(f"{name} {each.text}" for name, each in runs.items())


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
    """Return whether each of `cells` has runs at every depth in layers for which `chosen(depth)` is True."""
    return all(runs.count for cell in cells for n, runs in depths[cell].items() if chosen(n))


def _best(depths: Depths, cell: str) -> int:
    """Return the number of layers of `cell` with the highest mean accuracy."""
    return max(depths[cell], key=lambda n: depths[cell][n].mean)


# A verdict is None where runs are missing that could change it.


def only_one_trains(depths: Depths, cell: str, layers: int) -> Verdict:
    """Return whether `cell` with `layers` layers has a mean accuracy that exceeds every other cell's by more than CLOSE."""
    runs = {name: of_cell[layers] for name, of_cell in depths.items()}
    others = [each.mean for name, each in runs.items() if name != cell]
    agrees = runs[cell].mean > max(others) + CLOSE
    decided = runs[cell].count and (not agrees or all(each.count for each in runs.values()))
    return f"mean accuracy: {_texts(runs)}", agrees if decided else None


def gains(depths: Depths, cell: str, does: bool = True) -> Verdict:
    """Return whether the mean accuracy of `cell` at its best depth exceeds that of its single layer by more than CLOSE.

    A smaller gain decides nothing: it may be of the seeds. Nor does a cell that fails at every depth. does: False to return the
    opposite.
    """
    best, single = _best(depths, cell), depths[cell][1]
    gain = depths[cell][best].mean - single.mean
    gained = gain > CLOSE
    learnt = depths[cell][best].mean >= FAILED
    decided = learnt and single.count and (gained or (gain == 0 and _complete(depths, [cell])))
    text = f"{cell}: {_texts({'1 layer': single, f'the best depth, {best},': depths[cell][best]})}"
    return text, gained == does if decided else None


def riskier(depths: Depths, *cells: str) -> Verdict:
    """Return whether a larger share of the runs of `cells`, taken together, failed at 12 and 16 layers than at 1 to 4."""
    deep, shallow = (_failures(depths, cells, chosen.__contains__) for chosen in (DEEP, SHALLOW))
    shares = [sum(f for f, _ in each.values()) / max(1, sum(n for _, n in each.values())) for each in (deep, shallow)]
    text = f"failed runs, 12 and 16 layers: {_counted(deep)}; 1 to 4 layers: {_counted(shallow)}"
    return text, shares[0] > shares[1] if _complete(depths, cells, (*DEEP, *SHALLOW).__contains__) else None


def most_robust(depths: Depths, cell: str) -> Verdict:
    """Return whether no run of `cell` failed, and at least one run of every other cell failed."""
    failures = _failures(depths, list(depths), lambda n: True)
    agrees = not failures[cell][0] and all(failed for name, (failed, _) in failures.items() if name != cell)
    refuted = failures[cell][0] or any(
        not failures[name][0] and _complete(depths, [name]) for name in depths if name != cell
    )
    decided = refuted or (agrees and _complete(depths, [cell]))
    return f"failed runs: {_counted(failures)}", agrees if decided else None


def trains_deep(depths: Depths, cell: str, layers: int) -> Verdict:
    """Return whether every run of `cell` with `layers` layers is as accurate, within CLOSE, as the mean at its best depth."""
    best, deep = depths[cell][_best(depths, cell)].mean, depths[cell][layers]
    each = [f"{100 * accuracy:.2f} %" for accuracy in deep.accuracies] + ["diverged"] * deep.diverged
    trained = not deep.diverged and min(deep.accuracies, default=0.0) > best - CLOSE
    decided = deep.count and (not trained or _complete(depths, [cell]))
    text = f"{layers} layers: {', '.join(each) or 'not trained'}; mean of the best depth: {100 * best:.2f} %"
    return text, trained if decided else None


def comparable(depths: Depths, cell: str, other: str) -> Verdict:
    """Return whether `cell` and `other` differ by less than CLOSE in mean accuracy, each at its best depth."""
    best = {name: depths[name][_best(depths, name)] for name in (cell, other)}
    agrees = abs(best[cell].mean - best[other].mean) < CLOSE
    return f"the best depth: {_texts(best)}", agrees if _complete(depths, best) else None


def often_fails(depths: Depths, cell: str, least: int, most: int) -> Verdict:
    """Return whether at least one run of `cell` failed at a depth of `least` to `most` layers."""
    failures = _failures(depths, [cell], lambda n: least <= n <= most)
    decided = failures[cell][0] or _complete(depths, [cell], lambda n: least <= n <= most)
    return f"failed runs, {least} to {most} layers: {_counted(failures)}", failures[cell][0] > 0 if decided else None


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
    Claim("STAR can be trained up to a depth of 20 layers (here 16)", trains_deep, ("star", 16)),
    Claim("STAR's performance is comparable to that of a successfully trained LSTM", comparable, ("star", "lstm")),
)
"""The claims, in the order in which the paper's section makes them."""


def rules() -> str:
    """Return the sentences that say what the claims' words mean here."""
    return (
        "Section 4.1 and Fig. 4 of Turkoglu et al. 2019. A run fails here if it diverges or its test accuracy is below "
        f"{100 * FAILED:.0f} %; the paper does not say what it counts as a failure. Accuracies within {100 * CLOSE:.0f} "
        'points count as equal. "Often fails" agrees if at least one run failed, and "more robust" if no run of STAR and at least '
        'one run of every other cell did; neither is a test of significance. "The only unit" agrees if the mean accuracy of STAR '
        f"is more than {100 * CLOSE:.0f} points above that of every other cell. Depth benefits a cell if its best depth is more than "
        f"{100 * CLOSE:.0f} points above one layer, and does not if one layer is the best. A smaller gain may come from the seeds, and "
        "a cell that fails at every depth shows neither; "
        'then, and where a missing run could change the answer, the table says "cannot tell". Whether a run fails can be a matter of '
        "rounding: [runs that were trained again](depth.md#runs-that-were-trained-again)."
    )


def table(depths: Depths) -> str:
    """Return a table of the claims, with our numbers and whether they agree."""
    return markdown(("the paper found", "here", "agrees"), verdicts(depths))


def verdicts(depths: Depths) -> list[tuple[str, str, str]]:
    """Return the cells of that table."""
    return [claim.cells(depths) for claim in CLAIMS]


def by_task(rows: Iterable[Row]) -> list[tuple[str, str, Depths]]:
    """Return (title, note, runs) for each of TASKS that has all networks. note: which networks of TABLE have no run, or "".

    rows: of the paper's tables, as in zoo.publishing.comparison.
    """
    found = []
    tables = [row for row in rows if row.table == TABLE and row.task in TASKS]
    for (_, title), group in groupby(tables, key=lambda row: (row.task, row.task_title)):
        of_task = list(group)
        missing = ", ".join(f"`{row.model}`" for row in of_task if not row.has_run)
        note = f"Not trained yet: {missing}." if missing else ""
        depths = runs_by_depth(row.model for row in of_task)
        if depths.keys() == CELLS and all(of_cell.keys() == LAYERS for of_cell in depths.values()):
            found.append((title, note, depths))
    return found


def section(rows: Iterable[Row]) -> str:
    """Return the section of docs/star.md about the claims. rows: as for `by_task`."""
    parts = [
        "## What the paper claims about depth",
        f"{rules()} Here they are checked on the networks of {TABLE} below, mostly one run each, by recipes that differ between "
        "networks; [another page](depth.md) checks them on three runs of every network by one recipe, at a quarter of the steps.",
    ]
    for title, note, depths in by_task(rows):
        parts += filter(None, [f"### {capitalised(title)}", note, table(depths)])
    return "\n\n".join(parts)
