"""Reads the recorded test figure of a registered model from the end of its results.json, without pydantic.

Lists of many models stay fast because the history of training, most of results.json, is skipped: the evaluations stand
after it.
"""

import json

from ..utils import paths

_EVALUATIONS = b'\n "evaluations": '
"""The bytes with which `results.write` begins the evaluations. They occur once: a deeper key has more spaces before it, and no
string has a line break."""


def test_figure(name: str) -> float | None:
    """Return the metric of model `name` on the test set; None if it was not measured.

    Raises CheckpointError if results.json is damaged.
    """
    try:
        content = paths.path("cards", name, "results.json").read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        return _strictly(name)
    try:
        evaluations = json.loads(b"{" + content[content.rindex(_EVALUATIONS) :])["evaluations"]
        figures = [float(row["value"]) for row in evaluations if row["split"] == "test"]
    except (ValueError, LookupError, TypeError):
        return _strictly(name)
    return figures[0] if figures else None


def _strictly(name: str) -> float | None:
    """Return what `test_figure` returns, read by `results`, which raises CheckpointError for a damaged file."""
    from . import results

    evaluation = results.for_model(name).measured()
    return evaluation.value if evaluation else None
