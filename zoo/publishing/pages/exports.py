"""The tables of docs/export.md, which compare exported files with their networks.

Reads the measurements in cards/exports.json and benchmarks/export_steps.json. Does not import torch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ... import registry
from ...checkpoints import exported, results
from ...exports.formats import FORMATS, graphs_of
from ...registry.metrics import METRICS
from ...utils.text import markdown, significant
from .speed import measurements, provenance

Measured = Mapping[tuple[str, str], exported.Row]
"""By (model, format): the measurement of the model's file in that format, with float32 weights."""


def section() -> str | None:
    """Return the generated part of docs/export.md, or None if nothing was measured."""
    measured = exported.read()
    if not measured:
        return None
    header = (
        "model",
        "format",
        "bytes",
        "µs per step",
        "ms per sequence",
        "difference",
        "changed predictions",
        "measured",
    )
    timed = [row for row in measured if row.quantize or row.sequence_ms is not None]
    parts = [markdown(header, [_cells(row) for row in timed]), _machines(timed)]
    if (steps := measurements("export_steps")) is not None:
        parts += [*_steps(steps), provenance("export_steps", steps)]
    return "\n\n".join([*parts, *_equality([row for row in measured if row.quantize is None])])


def _machines(measured: Sequence[exported.Row]) -> str:
    machines = "; ".join(sorted({f"{row.cpu}, {row.date}" for row in measured}))
    return f"{machines}; `python -m benchmarks.exports`."


def _cells(row: exported.Row) -> tuple[str, ...]:
    """Return the cells of a line of the table. row: the measurement of one exported file."""
    kind = f"{row.format}, {row.quantize}" if row.quantize else row.format
    times = ("-" if value is None else significant(value) for value in (row.step_us, row.sequence_ms))
    return (
        f"`{row.model}`", kind, f"{row.bytes:,}", *times, f"{row.difference:.0e}", row.answers or "-",
        METRICS[row.metric].text(row.value) + (f", {part}" if (part := _part(row)) else ""),
    )  # fmt: skip


def _steps(data: dict[str, Any]) -> list[str]:
    """Return [introduction, table]: times of one step of the first network in `data`, from benchmarks/export_steps.json."""
    network = data["rows"][0]["network"]
    table = [
        (
            row["pass"], significant(1e6 * row["seconds"]), significant(1e3 * 784 * row["seconds"]),
            *("-" if row.get(key) is None else f"{row[key]:,}" for key in ("bytes", "compiled")),
        )
        for row in data["rows"] if row["network"] == network
    ]  # fmt: skip
    text = (
        f"Steps of one stream of `{network}`, logits after each, in one run. C by hand is a loop over transposed weights, "
        "`benchmarks/star_step.c`, compiled with the same flags (`-O3 -march=native`) and its logits compared with the "
        "network's; `-ffast-math` lets gcc compute several exponentials at once, as the exported header does by itself."
    )
    return [text, markdown(("one step of", "µs per step", "ms of 784 steps", "bytes", "compiled"), table)]


def _equality(measured: Sequence[exported.Row]) -> list[str]:
    """Return [text, table] of the largest difference of a logit from torch's in float32: models (rows) by formats (columns)."""
    by_model = {(row.model, row.format): row for row in measured}
    formats = [format for format in FORMATS if any(row.format == format for row in measured)]
    models = registry.list_models(pretrained=True)
    table = [
        (f"`{name}`", *_test_set(name), *(_difference(name, each, by_model) for each in formats)) for name in models
    ]
    text = (
        "The largest difference of a logit from torch's in float32, on the whole test set or, for slow runtimes, on as many of its "
        "first examples as the cell says. All predictions and results equal torch's, unless the cell says how many predictions differ. "
        "`-`: the format cannot hold the model; empty: not measured."
    )
    return [text, *_rounding(measured), markdown(("model", "examples", "measured", *formats), table)]


def _rounding(measured: Sequence[exported.Row]) -> list[str]:
    """Return [text] about the models of which a file differs by more than exported.BOUND; [] if there are none."""
    far = [row for row in measured if row.difference > exported.BOUND]
    if not far:
        return []
    own: dict[str, float] = {}
    for row in far:
        assert row.rounding is not None  # see exported.Row
        own[row.model] = max(row.rounding, own.get(row.model, 0.0))
    models = ", ".join(f"`{name}` {value:.1e}" for name, value in own.items())
    return [
        f"{len(far)} of {len(measured)} files differ by more than {exported.BOUND:.0e} on the test set. They passed the check of `rnnzoo export`, "
        "which is on short random input, against float64 and relative to the largest logit. Their networks add up rounding errors over "
        f"hundreds of steps. Torch's own logits in float32 differ from those in float64, at most by: {models}."
    ]


def _test_set(name: str) -> tuple[str, str]:
    """Return (size of a model's test set, the figure measured on it in torch), as text."""
    recorded = results.for_model(name).measured()
    return ("", "") if recorded is None else (f"{recorded.n:,}", METRICS[recorded.metric].text(recorded.value))


def _part(row: exported.Row) -> str:
    """Return the number of examples that a file was compared on, as text; "" if it was compared on the whole test set."""
    recorded = results.for_model(row.model).measured()
    return f"{row.n:,} examples" if recorded is not None and row.n < recorded.n else ""


def _difference(name: str, format: str, measured: Measured) -> str:
    """Return the largest difference between the logits of an exported float32 model and torch's, as text.

    name: of the model. If some predictions differ, the text has their number; if the file was compared on a part of the test set, it
    has the number of examples. It is "" for a file that was not measured, and "-" if the format cannot hold the model.
    """
    row = measured.get((name, format))
    if row is not None:
        part = f", {_part(row)}" if _part(row) else ""
        answers = f", {row.answers} differ" if row.answers and row.different else ""
        return f"{row.difference:.0e}{part}{answers}"
    config = registry.find(name).config
    return "" if graphs_of(config, format) else "-"
