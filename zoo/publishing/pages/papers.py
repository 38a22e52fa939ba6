"""The page of each paper, docs/PAPER.md: its tables with our figures next to its own. Does not import torch."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from ...registry import load_registry
from ...utils import paths
from ...utils.text import counted, markdown
from .. import comparison
from ..claims import depth
from ..comparison import Row, shorter
from ..means import Mean, means
from . import card_link, diagnostics


def pages() -> dict[Path, str]:
    """Return the text of the page of every paper that reports figures of registered models, by path."""
    return {paths.path("docs", f"{paper}.md"): page(paper, rows) for paper, rows in _by_paper().items()}


def plots() -> dict[Path, Sequence[Row]]:
    """Return {path: rows} of the plot of every paper with a measured figure."""
    by_paper = _by_paper().items()
    return {paths.path("docs", f"{paper}.svg"): rows for paper, rows in by_paper if _is_measured(rows)}


def links(root: str) -> str:
    """Return a Markdown list of links to the pages. root: path from the list's folder to the repository's root."""
    papers = load_registry().papers
    return "\n".join(
        f'- [{papers[key].citation}, "{papers[key].title}"]({root}docs/{key}.md): results for {_extent(rows)}'
        for key, rows in _by_paper().items()
    )


def _by_paper() -> dict[str, list[Row]]:
    return {paper: comparison.rows(paper=paper) for paper in comparison.reporting_papers()}


def _is_measured(rows: Sequence[Row]) -> bool:
    return any(row.measured is not None for row in rows)


def _extent(rows: Sequence[Row]) -> str:
    """Return how many of the models have a run, such as "3 of 5 models (1 of them diverged)"."""
    models, run = {row.model for row in rows}, {row.model for row in rows if row.has_run}
    lost = {row.model for row in rows if row.lost}
    return f"{len(run)} of {counted(len(models), 'model')}" + (f" ({len(lost)} of them diverged)" if lost else "")


def page(key: str, rows: Sequence[Row]) -> str:
    """Return the text of docs/KEY.md for the paper `key`, whose tables have the figures `rows`.

    The page has what the paper claims, if there are checks of it, a plot, if anything was measured, and each table.
    """
    paper, tasks = load_registry().papers[key], load_registry().all_tasks
    parts = [
        f"# {paper.title}",
        f"{paper.authors}. {paper.year}. {paper.link}".rstrip(),
        f"The paper's results next to ours, for {_extent(rows)}. Each is from one training run unless its row lists several "
        "seeds. We measure the weights of the epoch with the lowest validation loss, which may be an early epoch. The difference "
        f"is our figure minus the paper's, in percentage points for accuracies. {_short_runs(rows)}"
        f"A model's card lists every difference from the paper's training. `rnnzoo compare --paper {key}` prints these rows.",
        *([f"[The paper's analyses, reproduced](diagnostics/{key}.md)."] if key in diagnostics.papers() else []),
        *([f"![{rows[0].measure.title}, reported and measured]({key}.svg)"] if _is_measured(rows) else []),
        *filter(None, [depth.section(rows) if key == depth.PAPER else ""]),
    ]
    for (table, _, title), group in groupby(rows, key=lambda r: (r.table, r.task, r.task_title)):
        table_rows = list(group)
        zero = any(r.reported == 0 for r in table_rows)
        note = " The paper does not explain its figures of 0." if zero else ""
        absent = tasks[table_rows[0].task].absent
        extent = "The paper's data are not available" if absent else f"Results for {_extent(table_rows)}"
        parts += [
            f"## {table}: {title}",
            f"{extent}.{note}",
            _comparison_table(table_rows),
            *filter(None, ["\n".join(_notes(table_rows))]),
        ]
    if averages := means(rows):
        parts.append(f"## Means over tasks\n\n{_means_table(averages)}")
    return "\n\n".join(parts) + "\n"


def _short_runs(rows: Sequence[Row]) -> str:
    """Return a sentence about how many of the measured models had short runs, with a space; "" if there are none."""
    short, measured = ({row.model for row in found if row.measured is not None} for found in (shorter(rows), rows))
    share = f"Of the measured models, {len(short)} of {len(measured)} trained for fewer epochs than in the paper"
    text = f"{share}; longer runs may do better. "
    return text if short else ""


def _means_table(rows: Sequence[Mean]) -> str:
    header = (
        "table", "architecture", "tasks", "mean reported", "measured tasks", "mean reported on these", "mean measured",
    )  # fmt: skip
    cells = [
        (str(r.table), r.kind, str(r.tasks), r.measure.text(r.reported), str(r.measured_tasks),
         "-" if r.reported_there is None else r.measure.text(r.reported_there), r.measured_text or "-") for r in rows
    ]  # fmt: skip
    return markdown(header, cells)


def _notes(rows: Sequence[Row]) -> list[str]:
    """Return the registry's notes on how models that have a run differ from the paper's, as lines of a Markdown list."""
    models, names = load_registry().models, dict.fromkeys(row.model for row in rows if row.has_run)
    by_note: dict[str, list[str]] = {}
    for name in names:
        if note := models[name].notes:
            by_note.setdefault(note, []).append(f"`{name}`")
    return [f"- {', '.join(noted)}: {note}" for note, noted in by_note.items()]


def _comparison_table(rows: Sequence[Row]) -> str:
    header = ("model", f"reported {rows[0].measure.title}", "measured", "difference", "n", "trained by", "seed")
    table = []
    for r in rows:
        link = f"`{r.model}`" if not r.has_run else card_link(r.model)
        n = None if r.n is None else f"{r.n:,}"
        cells = (r.reported_text, r.measured_text, r.difference_text, n, r.training_text, r.seed_text)
        table.append((link, *(cell or "-" for cell in cells)))
    return markdown(header, table)
