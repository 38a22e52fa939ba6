"""docs/measured.md: what was measured here and no document reports of the same data, a table for each task; no torch."""

from collections.abc import Sequence
from itertools import groupby

from .cards import markdown
from .comparison import Row

PAGE = "docs/measured.md"


def measured_page(rows: Sequence[Row]) -> str:
    """The page, of rows with a measured figure and no reported one; cells against depths where there are several depths."""
    parts = [
        "# Measured here",
        "Models of which no document reports a figure on the same data, each trained in one run and measured on the whole "
        "test set; what differs by little differs by chance. `rnnzoo compare --measured` prints the same, `rnnzoo show` "
        "has the recipe of each.",
    ]
    for _, some in groupby(sorted(rows, key=_section), key=_section):
        found = list(some)
        depths = sorted({r.layers for r in found})
        parts += [_heading(found[0]), _by_depth(found, depths) if len(depths) > 1 else _listed(found)]
    return "\n\n".join(parts) + "\n"


def _section(row: Row) -> tuple[str, int, str]:
    return row.task, row.units, row.training_text or ""


def _heading(row: Row) -> str:
    stand_in = f" They stand in for {row.stand_in}, and figures on the two do not compare." if row.stand_in else ""
    return (
        f"## {row.task_title[0].upper()}{row.task_title[1:]} (`{row.task}`), {row.units} units\n\n"
        f"{row.unit.title.capitalize()} on {row.n:,} examples; recipe {row.training_text}.{stand_in}"
    )


def _link(row: Row) -> str:
    return f"[{row.unit.text(row.measured or 0.0)}](../cards/{row.model}/README.md)"


def _by_depth(rows: Sequence[Row], depths: Sequence[int]) -> str:
    kinds = list(dict.fromkeys(r.kind for r in rows))
    at = {(r.kind, r.layers): _link(r) for r in rows}
    return markdown(("layers", *kinds), [(str(d), *(at.get((kind, d), "-") for kind in kinds)) for d in depths])


def _listed(rows: Sequence[Row]) -> str:
    return markdown(("model", rows[0].unit.title), [(f"`{r.model}`", _link(r)) for r in rows])
