"""All pages of the site: models, cells, leaderboard, papers, a page on gradients, speed, published results, documents."""

import base64
import inspect
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from ... import registry
from ...cells import CELLS, ROWS, cell_class
from ...checkpoints.leaderboard import ranked
from ...diagnostics.base import Result
from ...errors import DataError
from ...utils.text import counted, significant
from .. import cell_facts, comparison, lattices
from ..pages import diagnostics, speed
from . import analyses, charts, documents, facts, leaderboard, literature, markup, mathml, model_page, papers
from .charts import Point
from .facts import ModelFacts
from .step_drawing import step_drawing
from .templating import STATIC, Site

if TYPE_CHECKING:
    from .live import Compiler, LiveModel

LATTICE_STUDIES = ("star-lattice", "lru-lattice")
"""Studies of random networks whose lattices the page on gradients shows, besides those of the cards."""


def add_all(site: Site, compiler: "Compiler | None", onnx: bool = False) -> None:
    """Add every page to the site.

    compiler: None for pages in which no model runs. onnx: True to offer ONNX files on the pages of models.
    """
    figures = comparison.rows()
    models = facts.every_model(figures)
    live = compiler.compile(models) if compiler else {}
    gradients = stored_lattices()
    library = documents.read()
    link = library.link("../")
    conditions = {
        "leaderboard.html": bool(ranked()), "papers/index.html": bool(papers.paper_keys()), "why.html": bool(gradients), "speed.html": speed.measurements("stacks") is not None,
        "literature.html": bool(registry.load_registry().literature), "docs/index.html": bool(library.titles),
    }  # fmt: skip
    site.documents = library.titles
    site.optional_pages = {page for page, wanted in conditions.items() if wanted}
    recordings = _assets(site, live)
    _models(site, models, live)
    model_page.add(site, models, live, link, recordings, onnx)
    _cells(site, models)
    leaderboard.add(site)
    _papers(site, link, figures)
    _speed(site)
    _why(site, gradients)
    literature.add(site, models)
    documents.add(site, library)


def _assets(site: Site, live: "Mapping[str, LiveModel]") -> list[str]:
    """Add styles and scripts to the site. Return the spoken words of the recordings on pages of speech networks."""
    kinds = {model.kind for model in live.values()}
    wanted = {"site", "table", "leaderboard", "why", *(("live", "widgets") if live else ()), *kinds}
    for path in sorted(STATIC.iterdir()):
        if path.suffix in (".css", ".js") and path.stem in wanted:
            site.files[f"assets/{path.name}"] = path.read_bytes()
    if "digit" in kinds:
        site.files["assets/digits.js"] = _digits()
    spoken = _recordings() if "speech" in kinds else {}
    if spoken:
        site.files["assets/recordings.js"] = f"zoo.recordings={json.dumps(list(spoken.values()))};\n".encode()
    return list(spoken)


def _recordings() -> dict[str, str]:
    """Return {digit: test recording of median length, int16 in base64} for four digits; empty if the data are missing."""
    from ...data import task_data
    from ...data.speech import FSDD

    data = task_data(registry.load_registry().all_tasks["fsdd"])
    assert isinstance(data, FSDD)
    try:
        samples, digits = data.recordings("test")
    except DataError:
        return {}
    typical = {}
    for digit in ("1", "3", "6", "7"):
        said = [each for each, label in zip(samples, digits.tolist(), strict=True) if str(label) == digit]
        typical[digit] = base64.b64encode(
            sorted(said, key=len)[len(said) // 2].numpy().astype("<i2").tobytes()
        ).decode()
    return typical


def _digits() -> bytes:
    """Return a JavaScript file with the permutation of permuted MNIST and the first two test images of every digit."""
    from ...data import mnist
    from ...data.originals import unpacked

    images, labels = (unpacked(mnist.PACKAGED / f"t10k-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
    chosen = sorted(
        place for digit in range(10) for place in [i for i, label in enumerate(labels[8:]) if label == digit][:2]
    )
    pixels = [base64.b64encode(images[16 + 784 * i : 16 + 784 * (i + 1)]).decode() for i in chosen]
    digits = [{"label": labels[8 + i], "pixels": text} for i, text in zip(chosen, pixels, strict=True)]
    data = (json.dumps(each, separators=(",", ":")) for each in (mnist.permutation().tolist(), digits))
    return "zoo.permutation={};\nzoo.digits={};\n".format(*data).encode()


def _models(site: Site, models: Sequence[ModelFacts], live: "Mapping[str, LiveModel]") -> None:
    """Add the page of all models, index.html."""
    scored = [m for m in models if m.measured and m.is_accuracy]

    def points(kind: str, value: Any) -> Markup | None:
        chosen = [(m, x) for m in scored if (x := value(m)) is not None]
        if len(chosen) < 2:
            return None
        marks = [
            Point(
                m.name,
                x,
                m.quality or 0.0,
                m.colour,
                m.href,
                f"{m.measured_text}, {x:,.3g} {kind}",
                m.entry.weights is not None,
            )
            for m, x in chosen
        ]
        words = f"Accuracy of {len(marks)} networks against {kind}. Every point is in the table of models."
        return charts.scatter(marks, kind, "accuracy, %", log=True, summary=words)

    cells = {m.entry.model.cell: m.colour for m in sorted(models, key=lambda m: m.entry.model.cell)}
    headline = next((m for m in models if m.name in live and live[m.name].kind == "digit"), None)
    colours = {m.entry.model.cell: m.colour for m in sorted(scored, key=lambda m: m.entry.model.cell)}
    site.page(
        "index.html", "index.html", models=models, cells=cells, tasks=sorted({m.entry.model.task for m in models}), sizes=facts.SIZES, live=live,
        headline=headline, presets=facts.presets(models), by_size=points("parameters", lambda m: float(m.count.parameters)),
        by_step=points("microseconds per step", lambda m: m.step_us), colours=colours,
        trained=sum(m.entry.weights is not None for m in models), measured=sum(m.measured is not None for m in models),
        cell_count=len(CELLS), paper_count=len(comparison.reporting_papers()),
    )  # fmt: skip


def _cells(site: Site, models: Sequence[ModelFacts]) -> None:
    """Add a page for each cell, and a page that lists the cells."""
    known = registry.load_registry().papers
    users: dict[str, list[ModelFacts]] = {name: [] for name in ROWS}
    for model in models:
        users[model.entry.model.cell].append(model)
    site.page(
        "cells/index.html",
        "cells.html",
        cells=[(name, row, known.get(row.paper), users[name]) for name, row in ROWS.items()],
    )
    known_cells = {cell.cell: cell for cell in cell_facts.every_cell()}
    for name, row in ROWS.items():
        text = inspect.getdoc(cell_class(name)) if name in CELLS else None
        site.page(
            f"cells/{name}.html", "cell.html", name=name, row=row, paper=known.get(row.paper), users=users[name],
            equations=[mathml.mathml(e) for e in mathml.equations(text or "")], prose=mathml.prose(text or ""),
            pictures=_gradients_of(name), facts=known_cells.get(name),
            colour=facts.colour(name), drawing=step_drawing(name) if name in CELLS else None,
        )  # fmt: skip


def _gradients_of(cell: str) -> list[analyses.Picture]:
    """Return charts of the gradients in a cell's random networks, from a stored study."""
    for study in LATTICE_STUDIES:
        results = diagnostics.study(study) or {}
        if cell in results:
            return analyses.lattice(results[cell].arrays["mean"], "")
    return []


def _papers(site: Site, link: markup.LinkMap, figures: Sequence[comparison.Row]) -> None:
    """Add a page for each paper, and a page that lists the papers. link: see markup.LinkMap."""
    known, rows = registry.load_registry().papers, []
    for key in papers.paper_keys():
        of_paper = [row for row in figures if row.paper == key]
        tables, claims = papers.tables(of_paper), papers.claims(key, of_paper, link)
        verdicts = [verdict for claim in claims for *_, verdict in claim.verdicts]
        measured = [row for table in tables for row in table.rows if row.measured is not None]
        rows.append((key, known[key], tables, verdicts))
        site.page(
            f"papers/{key}.html",
            "paper.html",
            paper=known[key],
            tables=tables,
            claims=claims,
            verdicts=verdicts,
            measured=len(measured),
            shorter=len(comparison.shorter(measured)),
        )
    if rows:
        site.page("papers/index.html", "papers.html", papers=rows)


def _speed(site: Site) -> None:
    """Add the page on speed: the benchmarks' tables, and the time of one step of each exported model."""
    parts = [*_stack_charts(), *_step_charts("streams", "One step of a stream, in Python")]
    parts += _step_charts("export_steps", "One step of a stream outside Python")
    if parts:
        site.page("speed.html", "speed.html", parts=parts)


def _stack_charts() -> Iterator[tuple[str, Markup, Markup]]:
    """Yield (title, chart, table) for each size of stack that the benchmark `stacks` measured."""
    if (data := speed.measurements("stacks")) is None:
        return
    for (layers, units), group in groupby(data["contenders"], key=lambda row: (row["layers"], row["units"])):
        rows = [row for row in group if row["seconds"]["forward"] is not None]
        bars = []
        for row in rows:
            seconds, is_reference = row["seconds"]["forward"], row["library"] != "rnnzoo"
            text, colour = f"{significant(seconds)} s", facts.colour(row["cell"])
            bars.append((row["contender"], seconds, text, colour, is_reference))
        title = f"A forward pass of {counted(layers, 'layer')} of {counted(units, 'unit')}"
        chart = charts.bars(bars, max(bar[1] for bar in bars), summary=f"{title}, seconds by contender")
        header, cells = speed.speed_rows(rows)
        table = charts.table(("contender", *header), cells)
        yield title, chart, table + _note(speed.provenance("stacks", data))


def _step_charts(program: str, title: str) -> Iterator[tuple[str, Markup, Markup]]:
    """Yield (title, chart, table) for each network whose steps a benchmark measured. program: the benchmark's name."""
    if (data := speed.measurements(program)) is None:
        return
    by_network = sorted(data["rows"], key=lambda row: row["network"])
    for network, group in groupby(by_network, key=lambda row: row["network"]):
        bars, cells = [], []
        for row in sorted(group, key=lambda row: row["seconds"]):
            name, seconds, text = _plain(row["pass"]), row["seconds"], significant(1e6 * row["seconds"])
            is_reference = "by hand" in name or (program == "streams" and name == row["pass"])  # ours have backticks
            bars.append((name, seconds, f"{text} µs", facts.colour(network), is_reference))
            cells.append((name, text))
        chart = charts.bars(bars, max(bar[1] for bar in bars), summary=f"{title}, {network}")
        table = charts.table(("pass", "µs per step"), cells)
        yield f"{title}: {network}", chart, table + _note(speed.provenance(program, data))


def _note(text: str) -> Markup:
    return Markup('<p class="note">{}</p>').format(_plain(text))


def _plain(text: str) -> str:
    """Return a text without backticks, which the names of rnnzoo's passes contain."""
    return text.replace("`", "")


def stored_lattices() -> list[dict[str, Any]]:
    """Return the stored gradient norms of random networks as JSON data, sorted by cell, depth, number of steps and name.

    The name is that of a model of the registry, or of a network of a study: its cell, layers and units.
    """
    stored: list[tuple[str, Result]] = []
    for study in LATTICE_STUDIES:
        stored += (diagnostics.study(study) or {}).items()
    for name in registry.list_models():
        if (kept := lattices.stored(name)) is not None:
            stored.append((name, kept))
    entries, models = [], registry.models()
    for title, result in stored:
        mean, of = result.arrays["mean"], str(result.setting.get("of", title))
        cell = models[title].cell if title in models else title.partition(",")[0]
        name = title if title in models else of.removesuffix(", untrained")
        values, shades = {}, {}
        for loss in mean.axis("loss").ticks:
            norms = mean.at(loss=loss).values
            values[str(loss)] = [[_short(v) for v in row] for row in norms]
            shades[str(loss)] = [_letters(charts.shade(float(v), float(norms[-1, -1])) for v in row) for row in norms]
        entries.append({
            "cell": cell, "name": name, "layers": len(mean.axis("layer").ticks), "steps": len(mean.axis("step").ticks),
            "of": of, "runs": result.setting.get("runs"), "lines": list(result.lines), "values": values, "shades": shades,
        })  # fmt: skip
    return sorted(entries, key=itemgetter("cell", "layers", "steps", "name"))


def _letters(shades: Iterable[int]) -> str:
    """Return shades, from -LEVELS to LEVELS, as capital letters in the order of the alphabet: one byte each in the page."""
    return "".join(chr(ord("A") + charts.LEVELS + shade) for shade in shades)


def _short(value: float) -> float | None:
    """Return a number with three digits; None, which JSON knows, for a gradient that overflowed."""
    return float(f"{value:.3g}") if math.isfinite(value) else None


def _why(site: Site, stored: Sequence[dict[str, Any]]) -> None:
    """Add the interactive page on gradients, by cell, number of layers and number of steps. stored: the lattices."""
    if not stored:
        return
    of_paper = diagnostics.study(LATTICE_STUDIES[0]) or {}
    first = [
        (cell, picture)
        for cell, result in of_paper.items()
        for picture in analyses.lattice(result.arrays["mean"], "")[:1]
    ]
    drawn = [{key: value for key, value in entry.items() if key != "lines"} for entry in stored]
    # .25 for 0.25, as a script may write it
    lattices_text = re.sub(r"(?<=[\[,])0(?=\.\d)", "", json.dumps(drawn, separators=(",", ":")))
    site.files["assets/lattices.js"] = f"zoo.levels={charts.LEVELS};\nzoo.lattices={lattices_text};\n".encode()
    site.page("why.html", "why.html", rows=stored, first=first, cells=sorted({entry["cell"] for entry in stored}))
