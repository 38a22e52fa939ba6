"""Writes docs/measured.md: the figures of models for which no paper reports one. Does not import torch."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from ...utils import paths
from ...utils.text import capitalised, markdown
from .. import comparison
from ..comparison import Row
from . import card_link

PAGE, PICTURE = ("docs", "measured.md"), ("docs", "measured.svg")


def pages() -> dict[Path, str]:
    """Return the text of docs/measured.md, by path."""
    return {paths.path(*PAGE): page(_unreported())}


def plots() -> dict[Path, Sequence[Row]]:
    """Return {path: rows} of the page's plot."""
    return {paths.path(*PICTURE): at_depths(_unreported())}


def _unreported() -> list[Row]:
    """Return the rows of the models with a measured figure and no reported one."""
    return [row for row in comparison.rows() if row.paper is None and row.measured is not None]


def page(rows: Sequence[Row]) -> str:
    """Return the text of the page, with a table for each task.

    rows: models with a measured figure and no reported one. If a task has networks of several depths, its table has a row
    for each depth and a column for each cell.
    """
    parts = [
        "# Measured here",
        "No paper reports a figure for these models on the same data. Each model was measured on the whole test set. A figure "
        "without a deviation comes from one training run, so small differences may be chance. `rnnzoo compare --measured` "
        "prints these rows too, and `rnnzoo show` prints the recipe of each model.",
    ]
    if at_depths(rows):
        parts.append("![figures against depth](measured.svg)")
    for section in _sections(rows):
        depths = sorted({r.layers for r in section})
        listed = len(depths) == 1
        parts += [_heading(section, listed), _listed(section) if listed else _by_depth(section, depths)]
    return "\n\n".join(parts) + "\n"


def at_depths(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of each task and number of units for which some cell was measured at three or more depths."""
    return [r for section in _sections(rows) if len({r.layers for r in section}) > 2 for r in section]


def _sections(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows grouped by task and number of units: a list for each group."""
    return [list(group) for _, group in groupby(sorted(rows, key=_task_and_units), key=_task_and_units)]


def _task_and_units(row: Row) -> tuple[str, int]:
    return row.task, row.units


def _recipes(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.training_text or "-" for row in rows))


def _heading(rows: Sequence[Row], listed: bool) -> str:
    """Return the heading and the first lines of a section. listed: True if its table names the recipes, if there are several."""
    row, recipes, stand_in = rows[0], _recipes(rows), ""
    if row.stand_in:
        stand_in = f" The data stand in for {row.stand_in}, so figures on the two are not comparable."
    several = [f"{recipe} ({_trained_by(recipe, rows)})" for recipe in recipes]
    recipe = f"; recipe {recipes[0]}" if len(recipes) == 1 else "" if listed else f"; recipes {'; '.join(several)}"
    return (
        f"## {capitalised(row.task_title)} (`{row.task}`), {row.units} units\n\n"
        f"{capitalised(row.measure.title)} on {row.n:,} examples{recipe}.{stand_in}"
    )


def _trained_by(recipe: str, rows: Sequence[Row]) -> str:
    """Return which networks of a section a recipe trained, as text: cells, or models of cells that other recipes trained too."""
    own, other = ([row for row in rows if (row.training_text == recipe) is its] for its in (True, False))
    shared = {row.kind for row in other}
    names = (f"`{row.model}`" if row.kind in shared else f"`{row.kind}`" for row in own)
    return ", ".join(dict.fromkeys(names))


def _link(row: Row) -> str:
    return card_link(row.model, row.mean_text) + (" collapsed" if row.collapsed and not row.spread_text else "")


def _by_depth(rows: Sequence[Row], depths: Sequence[int]) -> str:
    kinds = list(dict.fromkeys(r.kind for r in rows))
    cells = {(r.kind, r.layers): _link(r) for r in rows}
    return markdown(("layers", *kinds), [(str(d), *(cells.get((kind, d), "-") for kind in kinds)) for d in depths])


def _listed(rows: Sequence[Row]) -> str:
    several = len(_recipes(rows)) > 1
    header = ("model", rows[0].measure.title, *(["trained by"] if several else []))
    return markdown(header, [(f"`{r.model}`", _link(r), *([r.training_text or "-"] if several else [])) for r in rows])
