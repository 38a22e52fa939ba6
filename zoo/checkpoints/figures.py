"""Reads the recorded test figures of a registered model from its results.json, without pydantic.

Lists of many models stay fast because the history of training, most of results.json, is skipped where nothing in it matters: the
evaluations stand after it.
"""

import json
from collections.abc import Sequence
from typing import TypeVar

from ..utils import paths

T = TypeVar("T")

_EVALUATIONS = b'\n "evaluations": '
"""The bytes with which `results.write` begins the evaluations. They occur once: a deeper key has more spaces before it, and no
string has a line break."""


def test_figures(name: str) -> tuple[float, ...]:
    """Return the metric of model `name` on the test set, of each of its runs by one recipe (`Results.over_seeds`); () if it was
    not measured.

    The first is that of the published weights, if there are any. Raises CheckpointError if results.json is damaged.
    """
    try:
        content = paths.path("cards", name, "results.json").read_bytes()
    except FileNotFoundError:
        return ()
    except OSError:
        return _strictly(name)
    try:
        found = json.loads(b"{" + content[content.rindex(_EVALUATIONS) :])
        first = [float(row["value"]) for row in found["evaluations"] if row["split"] == "test"][:1]
        others = [float(row["value"]) for row in found.get("other_seeds", ()) if row["split"] == "test"]
        lost = bool(first and others) and json.loads(content)["training"]["diverged"] is not None
    except (ValueError, LookupError, TypeError):
        return _strictly(name)
    return tuple(others if lost else [*first, *others]) if first else ()


def shown(runs: Sequence[T], weights: bool) -> Sequence[T]:
    """Return those of a model's runs whose mean is shown: the first, which has the weights if there are any; else all."""
    return runs[:1] if weights else runs


def _strictly(name: str) -> tuple[float, ...]:
    """Return what `test_figures` returns, read by `results`, which raises CheckpointError for a damaged file."""
    from . import results

    return tuple(evaluation.value for evaluation in results.for_model(name).over_seeds())
