"""Pages of papers: every table next to our figures, charts of accuracy against depth, and the papers' claims."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from ... import registry
from ...utils.text import counted
from .. import comparison
from ..claims import depth
from ..comparison import Row
from ..pages import diagnostics
from . import charts, markup
from .analyses import Picture, pictures
from .charts import Series
from .facts import colour


@dataclass(frozen=True)
class TableOfPaper:
    """The figures of one task in one table of a paper, with our figures next to them."""

    title: str
    rows: Sequence[Row]
    depth: Sequence[Picture]
    """Charts of the metric against depth, one for each number of units that has some cell at three or more depths."""

    @property
    def id(self) -> str:
        return f"{self.rows[0].table}-{self.rows[0].task}".replace(" ", "-").replace(".", "-").lower()

    @property
    def measured(self) -> int:
        return sum(row.measured is not None for row in self.rows)


@dataclass(frozen=True)
class Claimed:
    """A paper's claims drawn from one analysis, which we reproduced."""

    title: str
    note: Markup
    """A note on how our setting differs from the paper's, and on the number of random networks."""
    pictures: Sequence[Picture]
    verdicts: Sequence[tuple[str, str, str]]


def tables(figures: Sequence[Row]) -> list[TableOfPaper]:
    """Return the tables of a paper, one for each table and task. figures: the paper's rows of `comparison.rows`."""
    found = []
    for (table, _, title), group in groupby(figures, key=lambda r: (r.table, r.task, r.task_title)):
        rows = list(group)
        widths = sorted({row.units for row in rows})
        charted = [_depth_figure([row for row in rows if row.units == units]) for units in widths]
        found.append(TableOfPaper(f"{table}: {title}", rows, [chart for chart in charted if chart]))
    return found


def _depth_figure(rows: Sequence[Row]) -> Picture | None:
    """Return a chart of the metric against depth; None unless some cell has three or more depths. rows: of equally many units.

    Curves of reported figures are dashed, those of measured ones solid.
    """
    by_kind: dict[str, set[int]] = {}
    for row in rows:
        by_kind.setdefault(row.kind, set()).add(row.layers)
    rows = [row for row in rows if len(by_kind[row.kind]) > 1]
    if not any(len(depths) > 2 for depths in by_kind.values()):
        return None
    depths = sorted({row.layers for row in rows})
    series: list[Series] = []
    for kind in dict.fromkeys(row.kind for row in rows):
        for field, dashed in (("reported", True), ("measured", False)):
            points = [
                (float(r.layers), r.measure.scale * v)
                for r in rows
                if r.kind == kind and (v := getattr(r, field)) is not None
            ]
            if points:
                series.append(Series(f"{kind}, {'reported' if dashed else 'ours'}", points, colour(kind), dashed))
    title = f"{rows[0].measure.axis}, {counted(rows[0].units, 'unit')} a layer"
    summary = f"{title} of {len(rows)} networks against depth: reported figures dashed, ours solid. The table has the numbers."
    chart = charts.lines(series, "layers", rows[0].measure.axis, summary=summary, ticks=list(map(float, depths)))
    return Picture(title, chart, charts.legend(series), Markup(""))


def claims(key: str, figures: Sequence[Row], link: markup.LinkMap) -> list[Claimed]:
    """Return the claims of a paper whose analyses are stored, and those that its figures can settle.

    key: of the paper. figures: its rows of `comparison.rows`. link: see markup.LinkMap.
    """
    found = [
        Claimed(
            f"Depth: {title}",
            markup.inline(f"{depth.rules()} {note}", "docs", link),
            (),
            depth.verdicts(depths),
        )
        for title, note, depths in (depth.by_task(figures) if key == depth.PAPER else ())
    ]
    for figure in diagnostics.FIGURES:
        results = diagnostics.study(figure.study)
        if figure.paper == key and results is not None:
            parts = {title: results[title] for title in figure.parts or results}
            shown = pictures(parts, figure.plot, figure.arrays)
            note = f"{figure.note}{diagnostics.random_networks(results)}"
            text = markup.inline(note, "/".join(diagnostics.FOLDER), link)
            found.append(Claimed(figure.title, text, shown, [claim.cells(results) for claim in figure.claims]))
    return found


def paper_keys() -> list[str]:
    """Return the keys of the papers that have a page: those that report a figure of a model or have a stored study."""
    known = registry.load_registry().papers
    studied = {
        figure.paper
        for figure in diagnostics.FIGURES
        if figure.paper in known and diagnostics.study(figure.study) is not None
    }
    return sorted({*comparison.reporting_papers(), *studied})
