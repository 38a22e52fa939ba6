"""Every file, or part of one, that is generated from the registry and the recorded results.

`python -m zoo.publishing.generated` writes them; with --check it only says which are stale, and exits with 1 if any is.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import registry
from ..checkpoints import results
from ..diagnostics import drawing
from ..networks import builder
from ..registry import catalogue, lock
from ..utils import files, paths
from . import analysis_pages as studies
from . import cards, comparison, lattices, pages, plots

MODELS, PAPERS, SPEED = (f"<!-- generated: {what} -->" for what in ("models", "papers", "speed"))
END = "<!-- end of generated -->"

PLOTS = {
    "stacks": "Seconds of a forward pass and a training step, by contender",
    "scaling": "Seconds against steps, batch, layers and units, one varied at a time; the grey line is linear cost",
}
"""What `python -m benchmarks.plot` draws to docs/, by the program that measured it, and what it shows in words."""


def outputs() -> dict[Path, str]:
    """Path to content of everything generated."""
    table = {name: builder.counts(name) for name in registry.models()}
    locked = lock.dump(lock.load_lock().model_copy(update={"counts": table, "index": catalogue.build_index()}))
    generated = {paths.path(*lock.FILE): locked.decode()}
    trained = []
    for name in registry.models():
        row = (registry.find(name), results.for_model(name), table[name])
        if row[0].weights or row[1].evaluations:
            generated[paths.path("cards", name, "README.md")] = cards.card(*row, lattices.section(name))
        if row[0].weights:
            trained.append(row)
    readme = paths.path("README.md")
    if readme.exists():
        text = readme.read_text(encoding="utf-8")
        text = _between(text, MODELS, cards.models_table(trained))
        if (speed := _measured("stacks")) is not None:
            parts = [cards.speed_table(speed)]
            for program, alt in PLOTS.items():
                if (data := _measured(program)) is not None:
                    parts.append(f"![{alt}](docs/{program}.svg)\n\n{cards.measured_by(program, data)}")
            text = _between(text, SPEED, "\n\n".join(parts))
        documents = {paper: comparison.rows(paper=paper) for paper in comparison.documents()}
        text = _between(text, PAPERS, pages.papers_list(documents))
        for paper, rows in documents.items():
            generated[paths.path("docs", f"{paper}.md")] = pages.comparison_page(paper, rows)
        own = [row for row in comparison.rows(measured=True) if row.paper is None]
        generated[paths.path(pages.MEASURED)] = pages.measured_page(own)
        generated[paths.path(pages.TASKS)] = pages.tasks_page()
        generated[readme] = text
        generated |= studies.pages()
    return generated


def _measured(program: str) -> Any:
    """What a program of benchmarks/ has stored, if it is here."""
    path = paths.path("benchmarks", f"{program}.json")
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def drawings() -> dict[Path, Sequence[comparison.Row]]:
    """Path to what it shows of every generated plot. The bytes depend on matplotlib's version, so a plot is stale only
    when the mark in it is not that of the rows."""
    if not paths.path("README.md").exists():
        return {}
    return {paths.path("docs", f"{p}.svg"): comparison.rows(paper=p) for p in comparison.documents()}


def stale_drawings() -> dict[Path, Sequence[comparison.Row]]:
    """The plots that do not show what they should."""
    return {
        path: rows
        for path, rows in drawings().items()
        if not path.exists() or comparison.digest(rows) not in path.read_text(encoding="utf-8")
    }


def stale_pictures() -> dict[Path, tuple[drawing.TitledResults, str]]:
    """The pictures of analyses, of the pages and of the cards, that do not show what they should."""
    wanted = studies.pictures() if paths.path("README.md").exists() else {}
    for name in registry.list_models(pretrained=True):
        if shown := lattices.shown(name):
            wanted[paths.path("cards", name, lattices.PICTURE)] = shown, "maps"
    return {
        path: (shown, how)
        for path, (shown, how) in wanted.items()
        if not path.exists() or drawing.digest(shown).encode() not in path.read_bytes()
    }


def _between(text: str, mark: str, content: str) -> str:
    """`text` with `content` between the mark and the end of what it generates."""
    before, found, rest = text.partition(mark)
    _, ended, after = rest.partition(END)
    if found and not ended:
        raise ValueError(f"{mark} is not followed by {END}, and what comes after it would be lost.")
    return f"{before}{mark}\n{content}\n{END}{after}" if found else text


def stale() -> list[Path]:
    """The generated files that are not what they should be."""
    texts = [path for path, text in outputs().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return [*texts, *stale_drawings(), *stale_pictures()]


def main() -> int:
    """The program; returns its exit code."""
    if "--check" in sys.argv[1:]:
        found = stale()
        for path in found:
            print(f"{path} is stale; run: make generated", file=sys.stderr)
        return 1 if found else 0
    for path, text in outputs().items():
        files.atomic_write(path, text.encode())
    for path, rows in stale_drawings().items():
        plots.against_depth(rows, path)
    for path, (shown, how) in stale_pictures().items():
        drawing.draw(shown, how, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
