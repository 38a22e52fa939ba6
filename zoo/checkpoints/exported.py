"""Reads and writes cards/exports.json, the measurements of exported files on whole test sets.

`python -m benchmarks.exports` makes the measurements. Nothing here imports torch.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from ..registry.metrics import METRICS, Metric
from ..registry.schema import Key, Seq, Spec, Text
from ..registry.schema.base import Finite
from .tables import Table

BOUND = 1e-4
"""The largest difference of a logit that is accepted without an explanation."""


class Row(Spec):
    """The measurements of a model in one export format, run in that format's runtime and compared with torch."""

    model: Key
    format: Key
    quantize: Literal["int8"] | None = None
    graphs: Seq[Text]
    """The graphs that were exported, of "sequence" and "step"; `bytes` is the size of the first graph's file."""
    bytes: int
    n: Annotated[int, Field(ge=1)]
    """Number of examples: the whole test set, or its first ones."""
    difference: Finite
    """Largest absolute difference between a logit and the same logit computed by torch in float32."""
    rounding: Finite | None = None
    """Largest absolute difference between torch's own logits in float32 and in float64, where `difference` exceeds BOUND. No
    file in float32 can be expected to come nearer to torch than torch comes to the exact values."""
    different: int
    """Number of predictions (one per example or per time step) whose largest logit differs from torch's."""
    metric: Metric
    value: float
    step_us: float | None = None
    """Microseconds per step of one sequence; None without a step graph."""
    sequence_ms: float | None = None
    """Milliseconds for one sequence of the task's length."""
    cpu: Text
    threads: int
    date: Text

    def _problems(self) -> Iterator[str]:
        if self.quantize is None and self.difference > BOUND and self.rounding is None:
            yield f"a difference of more than {BOUND:.0e} needs 'rounding'"

    @property
    def answers(self) -> str | None:
        """How many predictions differ, such as "2 of 10,000"; None if the outputs are not classes."""
        return f"{self.different:,} of {self.n:,}" if self.metric == "accuracy" else None

    def text(self) -> str:
        """Return size, largest difference, number of different predictions and metric as one line."""
        differ = "" if self.answers is None else f"{self.answers} differ, "
        value = METRICS[self.metric].text(self.value)
        return f"{self.bytes:,} bytes, difference {self.difference:.1e}, {differ}{value}"


def _key(row: Row) -> tuple[str, str, str]:
    return row.model, row.format, row.quantize or ""


_TABLE = Table(("cards", "exports.json"), TypeAdapter(list[Row]), _key)
read, record = _TABLE.read, _TABLE.record
