"""Writes every file, and every part of a page, that is generated from the registry and the recorded results.

Run it with `python -m zoo.publishing.generated`. With --check, it writes nothing, names the files that are out of date,
and exits with 1 if there are any. In pages that people write, the generated parts stand between
`<!-- generated: NAME -->` and `<!-- end of generated -->`.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .. import registry
from ..checkpoints import configs, results
from ..diagnostics import drawing
from ..errors import RequestError, ZooError
from ..networks import sizes
from ..registry import catalogue, lock
from ..utils import files, paths
from . import cards, cell_facts, comparison, lattices, plots
from .pages import (
    api,
    depth,
    diagnostics,
    equations,
    exports,
    leaderboard,
    literature,
    measured,
    models,
    papers,
    speed,
    tasks,
)
from .starters import PICTURE

TEMPLATES = ("README.md", "docs/cells.md", "docs/export.md", "docs/models.md", "docs/speed.md")
"""Pages that people write, with generated parts."""
MARK, END = "<!-- generated: {} -->", "<!-- end of generated -->"


def tables() -> dict[str, Any]:
    """Return the tables of cards/lock.json that follow from the registry: the counts, and the index of models."""
    return {"counts": {name: sizes.counts(name) for name in registry.models()}, "index": catalogue.build_index()}


def outputs(counts: Mapping[str, lock.Counts]) -> dict[Path, str]:
    """Return {path: content} of every generated text file but cards/lock.json, of which `counts` is a table."""
    rows = [(registry.find(name), results.for_model(name), count) for name, count in counts.items()]
    texts: dict[Path, str] = {}
    for entry, recorded, count in rows:
        if entry.weights or recorded.evaluations or recorded.unmeasurable:
            card = cards.compose(entry, recorded, count, lattices.section(entry.name))
            texts[paths.path("cards", entry.name, configs.CARD)] = card
    return texts | (_documents(rows) if paths.is_checkout() else {})


def _documents(rows: Sequence[models.ModelRow]) -> dict[Path, str]:
    """Return {path: content} of README.md and of the pages of docs/."""
    texts = literature.pages(rows)
    for written in (api, depth, diagnostics, leaderboard, measured, papers, tasks):
        texts |= written.pages()
    pretrained = [row for row in rows if row[0].weights]
    for name in TEMPLATES:
        path = paths.path(name)
        if path.exists():
            root = "../" * name.count("/")
            parts: dict[str, Callable[[], str | None]] = {
                "starters": partial(models.starters, pretrained, root),
                "models": partial(models.table, pretrained, root),
                "papers": partial(papers.links, root),
                "speed": partial(speed.section, root),
                "exports": exports.section,
                "properties": cell_facts.meanings,
                "cells": cell_facts.table,
                "equations": equations.section,
            }
            texts[path] = _filled(path.read_text(encoding="utf-8"), parts)
    return texts


def _filled(text: str, parts: Mapping[str, Callable[[], str | None]]) -> str:
    """Return `text` with the content of each part whose mark `<!-- generated: NAME -->` it has between this mark and END.

    parts: {NAME: function that returns the content, or None to change nothing}.
    """
    for name, section in parts.items():
        if MARK.format(name) in text and (content := section()) is not None:
            text = _replaced(text, MARK.format(name), content)
    return text


def _replaced(text: str, mark: str, content: str) -> str:
    """Return `text`, which has the mark, with `content` between it and END. Raises RequestError if END does not follow."""
    before, _, rest = text.partition(mark)
    old, found_end, after = rest.partition(END)
    if not found_end or re.search(MARK.format(r"\w+"), old):
        raise RequestError(
            f"{mark} is not followed by {END}, so the text after it would be lost. Add {END} after the part."
        )
    return f"{before}{mark}\n{content}\n{END}{after}"


def drawings() -> dict[Path, Sequence[comparison.Row]]:
    """Return {path: rows} of every comparison plot; empty outside the repository."""
    return {**depth.plots(), **measured.plots(), **papers.plots()} if paths.is_checkout() else {}


def stale_drawings() -> dict[Path, Sequence[comparison.Row]]:
    """Return {path: rows} of every comparison plot that is missing or out of date.

    A plot is out of date if its file lacks the digest of its rows. Nothing else in the file is compared, because the
    other bytes depend on matplotlib's version.
    """
    return {
        path: rows
        for path, rows in drawings().items()
        if not path.exists() or comparison.digest(rows) not in path.read_text(encoding="utf-8")
    }


def stale_pictures() -> dict[Path, tuple[drawing.TitledResults, str]]:
    """Return {path: (results to draw, key of drawing.PLOTS)} of every analysis picture that is missing or out of date.

    Pages and cards have such pictures. A picture is out of date if its file lacks the digest of its content.
    """
    pictures = diagnostics.pictures() if paths.is_checkout() else {}
    for name in registry.list_models(pretrained=True):
        if content := lattices.picture(name):
            pictures[paths.path("cards", name, PICTURE)] = content, "maps"
    return {path: picture for path, picture in pictures.items() if drawing.is_stale(path, picture[0])}


def stale() -> list[Path]:
    """Return the paths of the generated files that are missing or out of date."""
    derived, locked = tables(), lock.load_lock()
    lock_file = paths.path(*lock.FILE)
    dumped = lock.dump(locked.model_copy(update=derived))
    texts = [] if lock_file.exists() and lock_file.read_bytes() == dumped else [lock_file]
    for path, text in outputs(derived["counts"]).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            texts.append(path)
    return [*texts, *stale_drawings(), *stale_pictures()]


def main() -> int:
    """Run the program and return its exit code."""
    if "--check" in sys.argv[1:]:
        stale_paths = stale()
        for path in stale_paths:
            print(f"{path} is stale. Run: make generated", file=sys.stderr)
        return 1 if stale_paths else 0
    derived = tables()
    lock.update(lambda locked: locked.model_copy(update=derived))  # another program may pin a model meanwhile
    for path, text in outputs(derived["counts"]).items():
        files.atomic_write(path, text.encode())
    for path, rows in stale_drawings().items():
        plots.against_depth(rows, path)
    for path, (content, kind) in stale_pictures().items():
        drawing.draw(content, kind, path)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ZooError as error:  # such as the faults of a registry
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
