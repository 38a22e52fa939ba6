"""Reads and writes cards/exports.json, the measurements of exported files on whole test sets.

`python -m benchmarks.exports` makes the measurements. Nothing here imports torch.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from ..registry.metrics import METRICS, Metric
from ..registry.schema import Key, Seq, Spec, Text
from .tables import Table


class Row(Spec):
    """The measurements of a model in one export format, run in that format's runtime and compared with torch."""

    model: Key
    format: Key
    quantize: Literal["int8"] | None = None
    graphs: Seq[Text]
    """The model's graphs in this format; `bytes` is the size of the first graph's file."""
    bytes: int
    n: Annotated[int, Field(ge=1)]
    """Number of examples in the test set."""
    difference: float
    """The largest difference between a logit and torch's in float32."""
    different: int
    """Number of examples, or of their time steps, whose largest logit belongs to another output than in torch."""
    metric: Metric
    value: float
    step_us: float | None = None
    """Microseconds a step of one sequence; None if there is no graph of a step."""
    sequence_ms: float | None = None
    """Milliseconds for one sequence as long as the task's."""
    cpu: Text
    threads: int
    date: Text

    @property
    def answers(self) -> str | None:
        """How many answers differ, such as "2 of 10,000"; None where the outputs are no classes to choose from."""
        return f"{self.different:,} of {self.n:,}" if self.metric == "accuracy" else None

    def text(self) -> str:
        """Return the row in words."""
        differ = "" if self.answers is None else f"{self.answers} differ, "
        value = METRICS[self.metric].text(self.value)
        return f"{self.bytes:,} bytes, difference {self.difference:.1e}, {differ}{value}"


def _key(row: Row) -> tuple[str, str, str]:
    return row.model, row.format, row.quantize or ""


_TABLE = Table(("cards", "exports.json"), TypeAdapter(list[Row]), _key)
read, record, write = _TABLE.read, _TABLE.record, _TABLE.write
