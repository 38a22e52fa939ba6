"""The pages in docs/: what papers report beside what was measured, and what was measured alone; no torch."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from ..registry import load_registry
from ..registry.schema import Dataset
from ..utils.markdown import markdown
from .cards import citation, link
from .comparison import Mean, Row, means

MEASURED, TASKS = "docs/measured.md", "docs/tasks.md"


def tasks_page() -> str:
    """docs/tasks.md: every task, what goes in and comes out, and where its data come from."""
    known = load_registry()
    rows = [
        (
            f"`{name}`",
            task.title,
            task.example_text,
            task.output_text,
            f"{data.title}{f', standing in for {data.proxy_for}' if data.proxy_for else ''}",
            data.license,
            "not read: reported figures only" if task.absent else _origin(data),
        )
        for name, task in known.all_tasks.items()
        for data in [known.datasets[task.dataset]]
    ]
    header = ("task", "what is asked", "input", "output", "data", "licence", "where from")
    return (
        "# Tasks\n\nA task is what follows the units in a model's name, before a tag. Data that are not generated lie in a "
        "folder of `$RNNZOO_DATA`, which is `~/.cache/rnnzoo` if it is not set, and must be the files whose sha256 "
        "`registry.yaml` has, if it has any. MNIST's test images come with the package.\n\n"
        f"{markdown(header, rows)}\n"
    )


def _origin(data: Dataset) -> str:
    """How one comes by a dataset."""
    if data.folder is None:
        return "generated"
    if data.hub_files:
        return f"`{data.folder}`, or the Hub's `{data.hub}`"
    source = "made of what is at" if data.derived else "from"
    return f"`{data.folder}`, put there by hand{f'; {source} {data.url}' if data.url else ''}"


def papers_list(pages: Mapping[str, Sequence[Row]]) -> str:
    """The README's links to the pages of `comparison_page`, by paper."""
    papers = load_registry().papers
    return "\n".join(
        f'- [{citation(papers[key])}, "{papers[key].title}"](docs/{key}.md): {_extent(rows)}'
        for key, rows in pages.items()
    )


def _extent(rows: Sequence[Row]) -> str:
    models, done = ({row.model for row in some} for some in (rows, [r for r in rows if r.measured is not None]))
    return f"{len(done)} of {len(models)} models measured"


def comparison_page(key: str, rows: Sequence[Row]) -> str:
    """docs/KEY.md: every table of a paper, what it reports against what we measured, and the plot of it."""
    paper = load_registry().papers[key]
    short = sum(
        r.measured is not None and not r.converged and (r.epochs_done or 0) < (r.paper_epochs or 0) for r in rows
    )
    shorter = f"{short} of the measured figures are of runs shorter than the recipes they follow, which may have gained by more. "
    parts = [
        f"# {paper.title}",
        f"{paper.authors}. {paper.year}. {link(paper)}".rstrip(),
        f"What the paper reports against what was measured here: {_extent(rows)} so far, each in one run, of the weights "
        f"with the lowest validation loss, which may be those of an early epoch. The difference is measured less reported, "
        f"for accuracies in percentage points. {shorter if short else ''}"
        f"The card of a model lists all that differs. `rnnzoo compare --paper {key}` prints the rows.",
        f"![{rows[0].unit.title} against depth]({key}.svg)",
    ]
    for (table, _, title), some in groupby(rows, key=lambda r: (r.table, r.task, r.task_title)):
        found = list(some)
        collapsed = "\n\nWhere the paper prints 0, it does not say why." if any(r.reported == 0 for r in found) else ""
        parts.append(f"## {table}: {title}\n\n{_comparison_table(found)}{collapsed}")
    if averages := means(rows):
        parts.append(f"## Means over tasks\n\n{_means_table(averages)}")
    return "\n\n".join(parts) + "\n"


def _means_table(rows: Sequence[Mean]) -> str:
    header = (
        "table",
        "architecture",
        "tasks",
        "mean reported",
        "measured tasks",
        "mean reported of these",
        "mean measured",
    )
    texts = [
        (str(r.table), r.kind, str(r.tasks), r.unit.text(r.reported), str(r.done),
         *("-" if value is None else r.unit.text(value) for value in (r.expected, r.measured))) for r in rows
    ]  # fmt: skip
    return markdown(header, texts)


def _comparison_table(rows: Sequence[Row]) -> str:
    return markdown(
        ("model", f"reported {rows[0].unit.title}", "measured", "difference", "n", "trained by", "seed"),
        [
            (
                f"`{r.model}`" if r.measured is None else f"[`{r.model}`](../cards/{r.model}/README.md)",
                *(cell or "-" for cell in (r.reported_text, r.measured_text, r.difference_text)),
                "-" if r.n is None else f"{r.n:,}",
                r.training_text or "-",
                "-" if r.seed is None else str(r.seed),
            )
            for r in rows
        ],
    )


def measured_page(rows: Sequence[Row]) -> str:
    """docs/measured.md: a table for each task, of rows with a measured figure and no reported one; cells against depths where there are several depths."""
    parts = [
        "# Measured here",
        "Models of which no paper reports a figure on the same data, each trained in one run and measured on the whole "
        "test set; what differs by little differs by chance. `rnnzoo compare --measured` prints these too, `rnnzoo show` "
        "the recipe of each.",
    ]
    for _, some in groupby(sorted(rows, key=_section), key=_section):
        found = list(some)
        depths = sorted({r.layers for r in found})
        parts += [_heading(found), _by_depth(found, depths) if len(depths) > 1 else _listed(found)]
    return "\n\n".join(parts) + "\n"


def _section(row: Row) -> tuple[str, int]:
    return row.task, row.units


def _recipes(rows: Sequence[Row]) -> list[str]:
    """What they were trained by, each once."""
    return list(dict.fromkeys(row.training_text or "-" for row in rows))


def _heading(rows: Sequence[Row]) -> str:
    row, recipes = rows[0], _recipes(rows)
    stand_in = f" They stand in for {row.stand_in}, and figures on the two do not compare." if row.stand_in else ""
    return (
        f"## {row.task_title[0].upper()}{row.task_title[1:]} (`{row.task}`), {row.units} units\n\n"
        f"{row.unit.title.capitalize()} on {row.n:,} examples; recipe {' or '.join(recipes)}.{stand_in}"
    )


def _link(row: Row) -> str:
    return f"[{row.unit.text(row.measured or 0.0)}](../cards/{row.model}/README.md)"


def _by_depth(rows: Sequence[Row], depths: Sequence[int]) -> str:
    kinds = list(dict.fromkeys(r.kind for r in rows))
    at = {(r.kind, r.layers): _link(r) for r in rows}
    return markdown(("layers", *kinds), [(str(d), *(at.get((kind, d), "-") for kind in kinds)) for d in depths])


def _listed(rows: Sequence[Row]) -> str:
    own = len(_recipes(rows)) > 1
    header = ("model", rows[0].unit.title, *(["trained by"] if own else []))
    return markdown(header, [(f"`{r.model}`", _link(r), *([r.training_text or "-"] if own else [])) for r in rows])
