"""Pages of papers: every table beside our figures, the depth figures, and what the papers claim."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from ... import registry
from .. import analysis_pages, comparison
from ..comparison import Row
from . import charts, markup
from .analyses import Picture, pictures
from .charts import Series
from .facts import colour


@dataclass(frozen=True)
class TableOfPaper:
    """One table of a paper on one task, with ours beside it."""

    title: str
    rows: Sequence[Row]
    depth: Picture | None
    """The figure against depth; None if the table has networks of one depth only."""

    @property
    def id(self) -> str:
        return f"{self.rows[0].table}-{self.rows[0].task}".replace(" ", "-").replace(".", "-").lower()

    @property
    def measured(self) -> int:
        return sum(row.measured is not None for row in self.rows)


@dataclass(frozen=True)
class Claimed:
    """A figure of a paper that is a claim, computed again."""

    title: str
    note: Markup
    """Our setting, where it differs from the paper's, and the number of random networks."""
    pictures: Sequence[Picture]
    verdicts: Sequence[tuple[str, str, str]]


def tables(figures: Sequence[Row]) -> list[TableOfPaper]:
    """Return the tables of a paper from its rows of `comparison.rows`, each task by itself."""
    found = []
    for (table, _, title), group in groupby(figures, key=lambda r: (r.table, r.task, r.task_title)):
        rows = list(group)
        found.append(TableOfPaper(f"{table}: {title}", rows, _depth_figure(rows)))
    return found


def _depth_figure(rows: Sequence[Row]) -> Picture | None:
    """Return the metric against depth, reported figures dashed and measured ones solid."""
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
                (float(r.layers), r.unit.scale * v)
                for r in rows
                if r.kind == kind and (v := getattr(r, field)) is not None
            ]
            if points:
                series.append(Series(f"{kind}, {'reported' if dashed else 'ours'}", points, colour(kind), dashed))
    title = rows[0].unit.axis
    summary = f"{title} of {len(rows)} networks against depth: reported figures dashed, ours solid. The table has the numbers."
    chart = charts.lines(series, "layers", title, summary=summary, ticks=list(map(float, depths)))
    return Picture(title, chart, charts.legend(series), Markup(""))


def claims(key: str, link: markup.LinkMap) -> list[Claimed]:
    """Return the claims of a paper whose analyses are stored. link: turns a path in the repository into an address."""
    found = []
    for figure in analysis_pages.FIGURES:
        results = analysis_pages.study(figure.study)
        if figure.paper == key and results is not None:
            parts = {title: results[title] for title in figure.parts or results}
            shown = pictures(parts, figure.plot, figure.arrays)
            note = f"{figure.note}{analysis_pages.random_networks(results)}"
            text = markup.inline(note, "/".join(analysis_pages.FOLDER), link)
            found.append(Claimed(figure.title, text, shown, [claim.cells(results) for claim in figure.claims]))
    return found


def paper_keys() -> list[str]:
    """Return the papers that have a page: those that report a figure of a model, and those with a stored study."""
    known = registry.load_registry().papers
    studied = {
        figure.paper
        for figure in analysis_pages.FIGURES
        if figure.paper in known and analysis_pages.study(figure.study) is not None
    }
    return sorted({*comparison.documents(), *studied})
