"""The table of docs/export.md, which compares exported files with their networks.

Reads the measurements in cards/exports.json. Does not import torch.
"""

from ..checkpoints import exported as rows
from ..registry.metrics import METRICS
from ..utils.text import markdown
from .speed import significant


def section() -> str | None:
    """Return the generated part of docs/export.md, or None if nothing was measured."""
    measured = rows.read()
    if not measured:
        return None
    header = ("model", "format", "bytes", "µs a step", "ms a sequence", "difference", "other answers", "measured")
    table = markdown(header, [_cells(row) for row in measured])
    machines = "; ".join(sorted({f"{row.cpu}, {row.date}" for row in measured}))
    return f"{table}\n\n{machines}; `python -m benchmarks.exports`."


def _cells(row: rows.Row) -> tuple[str, ...]:
    """Return the row of one kind of file."""
    kind = f"{row.format}, {row.quantize}" if row.quantize else row.format
    times = ("-" if value is None else significant(value) for value in (row.step_us, row.sequence_ms))
    return (
        f"`{row.model}`", kind, f"{row.bytes:,}", *times, f"{row.difference:.0e}", row.answers or "-", METRICS[row.metric].text(row.value),
    )  # fmt: skip
