"""Writes docs/depth.md: accuracy against depth over several seeds, a paper's claims on depth, and runs that were trained again.

Does not import torch.

Turkoglu et al. 2019 train each cell on sequences of 784 steps. Here sequences have 196 steps, so that every run can be
trained on a CPU.
"""

from collections.abc import Sequence
from pathlib import Path

from ... import registry
from ...registry.metrics import METRICS
from ...utils import paths
from ...utils.text import markdown
from ..claims import depth
from ..comparison import Row, rows
from . import card_link, speed

PAGE, PICTURE = ("docs", "depth.md"), ("docs", "depth.svg")
STUDY, TASK = "star-mnist-196", "pmnist-196"


def pages() -> dict[Path, str]:
    """Return the text of the page, by path; nothing in a zoo without the study."""
    return {paths.path(*PAGE): page()} if measured() else {}


def plots() -> dict[Path, Sequence[Row]]:
    """Return {path: rows} of the page's plot; nothing in a zoo without the study."""
    return {paths.path(*PICTURE): measured()} if measured() else {}


def measured() -> list[Row]:
    """Return the measured figures of the networks that the page compares."""
    return [row for row in rows(task=TASK, measured=True) if row.recipe == STUDY]


def page() -> str:
    """Return the text of docs/depth.md."""
    study = registry.load_registry().studies[STUDY]
    recipe, (grid,) = study.recipes[STUDY], study.grids.values()
    depths = depth.runs_by_depth(name for name, model in registry.models().items() if model.recipe == STUDY)
    layers = sorted({n for of_cell in depths.values() for n in of_cell})
    by_place = {(row.kind, row.layers): row for row in measured()}
    table = [
        (str(n), *(_figure(by_place[cell, n]) if depths[cell][n].count else "-" for cell in depths)) for n in layers
    ]
    runs = sum(each.count for of_cell in depths.values() for each in of_cell.values())
    return "\n\n".join(
        [
            "# Depth and seeds",
            f"{runs} training runs of networks of {grid.units[0]} units on MNIST's images of 14 x 14 pixels in a fixed random "
            "order (`pmnist-196`): means and standard deviations of the test accuracy over the seeds. Turkoglu et al. 2019 "
            f"have 128 units, all 784 pixels and 100 epochs: [their figures next to ours](star.md). {recipe.deviation} "
            f"{grid.notes}",
            "![accuracy against depth](depth.svg)",
            markdown(("layers", *depths), table),
            "`rnnzoo train star-16x32-pmnist-196 --seeds 0-2` trains one of these networks again, and `rnnzoo compare '*-pmnist-196' --measured` "
            "prints these rows.",
            "## What the paper claims",
            depth.rules(),
            depth.table(depths),
            *_repeated(),
        ]
    ) + "\n"  # fmt: skip


def _repeated() -> list[str]:
    """Return the section on runs that were trained again, from benchmarks/repeated.json; nothing without the file."""
    data = speed.measurements("repeated")
    if data is None:
        return []
    table = []
    for row in data["rows"]:
        measure = METRICS[row["metric"]]
        epochs = (row["recorded"], row["repeated"])
        texts = (measure.with_loss(epoch["validation_loss"], epoch["validation_metric"]) for epoch in epochs)
        link = card_link(row["model"])
        table.append((link, str(row["seed"]), *texts, "collapsed" if row["collapsed"] else "trained"))
    return [
        "## Runs that were trained again",
        "One processor and one version of rnnzoo and torch repeat a run to the bit. Others round sums differently. Below, the losses of "
        "STAR differ in the seventh digit then, and an RNN at chance stays there; but at the edge of what a deep network can learn, a "
        "rounding decides: from the same weights and the same order of examples, an LSTM that collapsed in the recorded run learns in "
        "another. The table has the first epoch of recorded runs, which older versions trained, and of the same runs by the "
        "present one; the losses are those of the validation.",
        markdown(("network", "seed", "recorded", "again", "the recorded run"), table),
        speed.provenance("repeated", data),
    ]


def _figure(row: Row) -> str:
    return card_link(row.model, row.measured_text or "-")
