"""Writes the generated pages and tables of docs/ and README about models and their figures. Does not import torch."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from ..checkpoints.results import Results
from ..registry import Entry, load_registry
from ..registry.lock import Counts
from ..registry.metrics import METRICS
from ..utils.text import capitalised, counted, markdown
from .cards import value_text
from .comparison import Row, shorter
from .means import Mean, means
from .starters import STARTERS
from .tasks_page import test_data

MEASURED, DEPTHS = ("docs", "measured.md"), ("docs", "measured.svg")

ModelRow = tuple[Entry, Results, Counts]
"""A model with its recorded results and its numbers of parameters and multiply-adds."""


def models_table(rows: Sequence[ModelRow], root: str) -> str:
    """Return the Markdown table of `rows`. root: path from the page's folder to the repository's root, for links."""
    header = ("model", "task", "parameters", "measured", "examples", "reported")
    return markdown(header, [_model_cells(row, root) for row in rows])


def starters_table(rows: Sequence[ModelRow], root: str) -> str:
    """Return the Markdown table of the models in STARTERS that are among `rows`. root: as in `models_table`."""
    by_name = {row[0].name: row for row in rows}
    header, table = ("model", "task", "parameters", "measured", "in the paper", "test data"), []
    for row in (by_name[name] for name in STARTERS if name in by_name):
        model, task, size, figure, _, paper = _model_cells(row, root)
        table.append((model, task, size, figure, paper, test_data(row[0].task, row[0].dataset)))
    return markdown(header, table)


def _model_cells(row: ModelRow, root: str) -> tuple[str, ...]:
    entry, recorded, count = row
    evaluation = recorded.measured()
    figure, examples = (value_text(evaluation), f"{evaluation.n:,}") if evaluation else ("-", "-")
    if evaluation and evaluation.metric != "accuracy":
        figure = f"{METRICS[evaluation.metric].title} {figure}"
    link = f"[`{entry.name}`]({root}cards/{entry.name}/README.md)"
    return link, entry.task.title, f"{count.parameters:,}", figure, examples, entry.model.reported_text or "-"


def papers_list(by_paper: Mapping[str, Sequence[Row]], root: str) -> str:
    """Return a Markdown list of links to the papers' comparison pages. root: as in `models_table`."""
    papers = load_registry().papers
    return "\n".join(
        f'- [{papers[key].citation}, "{papers[key].title}"]({root}docs/{key}.md): results for {_extent(rows)}'
        for key, rows in by_paper.items()
    )


def _extent(rows: Sequence[Row]) -> str:
    """Return how many of the models have a run, such as "3 of 5 models"."""
    models, measured = {row.model for row in rows}, {row.model for row in rows if row.has_run}
    return f"{len(measured)} of {counted(len(models), 'model')}"


def comparison_page(key: str, rows: Sequence[Row], claims: str = "", analysed: bool = False) -> str:
    """Return the text of docs/KEY.md for the paper `key`: each of its tables with our figures, and a plot of both.

    claims: a section about what the paper claims; "" for none. analysed: whether docs/diagnostics/KEY.md exists. The plot is left
    out if nothing was measured.
    """
    paper, tasks = load_registry().papers[key], load_registry().all_tasks
    measured = any(r.measured is not None for r in rows)
    parts = [
        f"# {paper.title}",
        f"{paper.authors}. {paper.year}. {paper.link}".rstrip(),
        f"The paper's results next to ours, for {_extent(rows)}. Each is from one training run unless its row lists several "
        "seeds. We measure the weights of the epoch with the lowest validation loss, which may be an early epoch. The difference "
        f"is our figure minus the paper's, in percentage points for accuracies. {_short_runs(rows)}"
        f"A model's card lists every difference from the paper's training. `rnnzoo compare --paper {key}` prints these rows.",
        *([f"[The paper's analyses, reproduced](diagnostics/{key}.md)."] if analysed else []),
        *([f"![{rows[0].measure.title} against depth]({key}.svg)"] if measured else []),
        *filter(None, [claims]),
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
        ]
    if averages := means(rows):
        parts.append(f"## Means over tasks\n\n{_means_table(averages)}")
    return "\n\n".join(parts) + "\n"


def _short_runs(rows: Sequence[Row]) -> str:
    """Return a sentence about how many of the measured figures come from short runs, with a space; "" if there are none."""
    short, measured = len(shorter(rows)), sum(row.measured is not None for row in rows)
    share = f"All {measured}" if short == measured else f"{short} of the {measured}"
    text = f"{share} measured figures come from runs shorter than the papers' recipes; longer runs may do better. "
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


def _comparison_table(rows: Sequence[Row]) -> str:
    header = ("model", f"reported {rows[0].measure.title}", "measured", "difference", "n", "trained by", "seed")
    table = []
    for r in rows:
        link = f"`{r.model}`" if not r.has_run else f"[`{r.model}`](../cards/{r.model}/README.md)"
        n = None if r.n is None else f"{r.n:,}"
        cells = (r.reported_text, r.measured_text, r.difference_text, n, r.training_text, r.seed_text)
        table.append((link, *(cell or "-" for cell in cells)))
    return markdown(header, table)


def measured_page(rows: Sequence[Row]) -> str:
    """Return the text of docs/measured.md, with a table for each task.

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
    recipe = "" if listed and len(recipes) > 1 else f"; recipe {' or '.join(recipes)}"
    return (
        f"## {capitalised(row.task_title)} (`{row.task}`), {row.units} units\n\n"
        f"{capitalised(row.measure.title)} on {row.n:,} examples{recipe}.{stand_in}"
    )


def _link(row: Row) -> str:
    return f"[{row.mean_text}](../cards/{row.model}/README.md){' collapsed' if row.collapsed and not row.spread_text else ''}"


def _by_depth(rows: Sequence[Row], depths: Sequence[int]) -> str:
    kinds = list(dict.fromkeys(r.kind for r in rows))
    cells = {(r.kind, r.layers): _link(r) for r in rows}
    return markdown(("layers", *kinds), [(str(d), *(cells.get((kind, d), "-") for kind in kinds)) for d in depths])


def _listed(rows: Sequence[Row]) -> str:
    several = len(_recipes(rows)) > 1
    header = ("model", rows[0].measure.title, *(["trained by"] if several else []))
    return markdown(header, [(f"`{r.model}`", _link(r), *([r.training_text or "-"] if several else [])) for r in rows])
