"""`rnnzoo compare`: reported figures beside measured ones. It does not import torch."""

from pathlib import Path
from typing import Annotated

import typer

from .arguments import AsJson, CellOption, Pattern, TaskOption
from .output import columns, emit, say


def compare(
    pattern: Pattern = "*",
    task: TaskOption = None,
    cell: CellOption = None,
    paper: Annotated[str | None, typer.Option(help="Only figures of this paper (a key of registry.yaml).")] = None,
    measured: Annotated[
        bool, typer.Option("--measured/--all", help="Only measured models, or every model with a figure.")
    ] = False,
    runs: Annotated[
        Path | None, typer.Option(help="Use the results of the runs in this folder, not the published ones.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the figures against depth to this file (.svg, .png, .pdf).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the figures that papers report with the measured ones."""
    from dataclasses import asdict

    from zoo.checkpoints import results
    from zoo.publishing import comparison

    source = results.for_model if runs is None else comparison.in_folder(runs)
    rows = comparison.rows(pattern, task=task, cell=cell, paper=paper, measured=measured, results_of=source)
    if plot is not None:
        from zoo.publishing import plots

        plots.against_depth(rows, plot)
        say(f"Wrote {plot}")
    if not rows:
        say("Nothing to compare: no model that matches has a reported or measured figure.")
    header = ("MODEL", "FIGURE", "REPORTED", "MEASURED", "DIFFERENCE", "N", "TRAINED BY", "SEED")
    table = [
        (
            r.model, r.paper and f"{r.paper}, {r.table}", r.reported_text, r.measured_text, r.difference_text,
            r.n and f"{r.n:,}", r.training_text, r.seed,
        )
        for r in rows
    ]  # fmt: skip
    emit([{**asdict(r), "difference": r.difference} for r in rows], as_json, columns(header, table))
