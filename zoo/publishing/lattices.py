"""The gradient lattice on a published checkpoint's card: stored numbers, from which the picture and the text are made.

torch is imported only to compute one.
"""

import json
from functools import cache
from pathlib import Path

from ..cells import FEEDFORWARD
from ..diagnostics.base import Result, read_results
from ..diagnostics.drawing import TitledResults
from ..registry import Entry
from ..utils import files, paths

FILE, PICTURE = "lattice.json", "lattice.png"
RUNS, STEPS = 100, 28
"""Random networks and time steps of a card's lattice; a task with fewer steps has fewer."""


def write(entry: Entry, folder: Path) -> None:
    """Compute the lattice of an entry's architecture into `folder`.

    Writes nothing for a feed-forward or a bidirectional network, which has no lattice.
    """
    from ..diagnostics.lattice import lattice

    if entry.model.cell in FEEDFORWARD or entry.model.bidirectional:
        return
    result = lattice(entry.config, runs=RUNS, steps=min(STEPS, entry.task.steps))
    files.atomic_write(folder / FILE, (json.dumps(result.to_json(), separators=(",", ":")) + "\n").encode())


def stored(name: str) -> Result | None:
    """The lattice on the card of a registered model; None if it has none."""
    path = paths.path("cards", name, FILE)
    return _read(path) if path.exists() else None


@cache
def _read(path: Path) -> Result:
    return read_results(path)[""]


def picture(name: str) -> TitledResults | None:
    """What the picture on a card shows: the means over networks, for both losses; None without a lattice."""
    lattice = stored(name)
    return None if lattice is None else [(name, lattice.only("mean"))]


def section(name: str) -> str:
    """The section of a card about the gradients of its architecture; "" without a lattice."""
    lattice = stored(name)
    if lattice is None:
        return ""
    runs, steps, weights = (lattice.setting[key] for key in ("runs", "steps", "weights"))
    return (
        f"## Gradients at initialisation\n\n![Gradient norm at every layer and step]({PICTURE})\n\n{' '.join(lattice.lines)}"
        f"\n\nMeasured on {runs} random networks of this architecture (weights: {weights}) over {steps} steps of random input, "
        "not on the published weights (Turkoglu et al. 2019, section 3.1): "
        f"`rnnzoo inspect {name} --runs {runs} --steps {steps}`."
    )
