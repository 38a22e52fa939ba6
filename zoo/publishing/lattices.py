"""The gradient lattice on a checkpoint's card: gradient norms by layer and time step, computed, drawn and described.

Only `write`, which computes a lattice, imports torch.
"""

import json
from functools import cache
from pathlib import Path

from ..cells import FEEDFORWARD
from ..diagnostics.base import Result, read_results
from ..diagnostics.drawing import TitledResults
from ..registry import Entry
from ..utils import files, paths
from ..utils.text import counted
from .starters import PICTURE

FILE = "lattice.json"
RUNS, STEPS = 100, 28
"""The number of random networks in a card's lattice, and the number of time steps (at most the number of the task's)."""


def write(entry: Entry, folder: Path) -> None:
    """Compute the lattice of an entry's architecture and write its numbers to the file FILE in `folder`.

    Write nothing for a network that has no lattice: a feed-forward or a bidirectional one, or one with residual blocks.
    """
    from ..diagnostics.lattice import lattice

    if entry.model.cell in FEEDFORWARD or entry.model.bidirectional or entry.model.block:
        return
    result = lattice(entry.config, runs=RUNS, steps=min(STEPS, entry.task.steps))
    files.atomic_write(folder / FILE, (json.dumps(result.to_json(), separators=(",", ":")) + "\n").encode())
    _read.cache_clear()


def stored(name: str) -> Result | None:
    """Return the gradient norms by layer and time step (the lattice) on a registered model's card, or None if it has none."""
    path = paths.path("cards", name, FILE)
    return _read(path)[""] if path.exists() else None


_read = cache(read_results)


def picture(name: str) -> TitledResults | None:
    """Return the content of a card's picture: the model's name, with the mean gradient norms for both losses.

    Return None if the card has no lattice.
    """
    lattice = stored(name)
    return None if lattice is None else [(name, lattice.only("mean"))]


def section(name: str) -> str:
    """Return the section about gradients of the model's card, or "" if the card has no lattice."""
    lattice = stored(name)
    if lattice is None:
        return ""
    runs, steps, weights = (lattice.setting[key] for key in ("runs", "steps", "weights"))
    return (
        f"## Gradients at initialisation\n\n![Gradient norm at every layer and step]({PICTURE})\n\n{' '.join(lattice.lines)}"
        f"\n\nMeasured on {counted(runs, 'random network')} of this architecture (weights: {weights}) over {counted(steps, 'step')} of random input, "
        "not on the published weights (Turkoglu et al. 2019, section 3.1): "
        f"`rnnzoo inspect {name} --runs {runs} --steps {steps}`."
    )
