"""The gradient lattice of a published checkpoint's architecture, kept beside its card: numbers by a program, the picture and
the lines from them. No torch until something is computed."""

import json
from functools import cache
from pathlib import Path

from ..cells import FEEDFORWARD
from ..diagnostics.base import Stored
from ..diagnostics.drawing import Shown
from ..registry import Entry
from ..utils import files, paths

FILE, PICTURE = "lattice.json", "lattice.png"
RUNS, STEPS = 100, 28
"""Of a card's lattice; a task with fewer steps has fewer."""


def write(entry: Entry, folder: Path) -> None:
    """Compute the lattice of an entry's architecture into its card's folder, if it can have one."""
    from ..diagnostics.lattice import lattice

    if entry.model.cell in FEEDFORWARD or entry.model.bidirectional:
        return
    found = lattice(entry.config, runs=RUNS, steps=min(STEPS, entry.task.steps))
    files.atomic_write(folder / FILE, (json.dumps(found.data(), separators=(",", ":")) + "\n").encode())


def of(name: str) -> Stored | None:
    """The lattice kept in the card of a registered model, if there is one."""
    path = paths.path("cards", name, FILE)
    return _read(path) if path.exists() else None


@cache
def _read(path: Path) -> Stored:
    return Stored.of(json.loads(path.read_text(encoding="utf-8")))


def shown(name: str) -> Shown | None:
    """What the picture of a card shows: the means for both losses."""
    found = of(name)
    return None if found is None else [(name, found.only("mean"))]


def section(name: str) -> str:
    """What a card says about the gradients of its architecture, if that was computed."""
    lattice = of(name)
    return (
        ""
        if lattice is None
        else (
            f"## Gradients at initialisation\n\n![Gradient norm at every layer and step]({PICTURE})\n\n{' '.join(lattice.lines)}\n\n"
            f"Of {lattice.setting['runs']} random networks of this architecture (weights: {lattice.setting['weights']}), over "
            f"{lattice.setting['steps']} steps of random input, not of these weights (Turkoglu et al. 2019, section 3.1): "
            f"`rnnzoo inspect {name} --runs {lattice.setting['runs']} --steps {lattice.setting['steps']}`."
        )
    )
