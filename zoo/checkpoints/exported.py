"""cards/exports.json: what was measured of exported files, on whole test sets. `python -m benchmarks.exports` writes it.

Nothing here imports torch.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ..errors import RegistryError, faults
from ..registry.metrics import METRICS, Metric
from ..registry.schema import Key, Seq, Spec, Text
from ..utils import files, paths

FILE = ("cards", "exports.json")


class Row(Spec):
    """One model as one kind of file, in its own runtime, beside the network in torch."""

    model: Key
    format: Key
    quantize: Literal["int8"] | None = None
    graphs: Seq[Text]
    """The graphs that the format holds of the model; `bytes` is the size of the first."""
    bytes: int
    n: Annotated[int, Field(ge=1)]
    """Examples of the test set."""
    difference: float
    """The largest difference of a logit from torch's in float32."""
    different: int
    """Examples, or steps of examples, of which the largest logit is another."""
    metric: Metric
    value: float
    step_us: float | None = None
    """Microseconds a step of one sequence; None if there is no graph of a step."""
    sequence_ms: float | None = None
    """Milliseconds for one sequence as long as the task's."""
    cpu: Text
    threads: int
    date: Text

    def text(self) -> str:
        """The row in words."""
        value = METRICS[self.metric].text(self.value)
        return f"{self.bytes:,} bytes, difference {self.difference:.1e}, {self.different} of {self.n:,} differ, {value}"


_ROWS = TypeAdapter(list[Row])


def read() -> list[Row]:
    """Return the rows, in the order of models, formats and rounding; none if there is no file. Raises RegistryError."""
    path = paths.path(*FILE)
    try:
        return _ROWS.validate_json(path.read_bytes()) if path.exists() else []
    except ValidationError as error:
        raise RegistryError(f"{path}: {faults(error)}. A program writes this file; restore it from git.") from error


def record(row: Row) -> None:
    """Put a row in the place of an older one of the same model, format and rounding. Raises RequestError and OSError."""
    path = paths.writable(*FILE)
    with files.exclusive_lock(path.parent):
        others = [r for r in read() if _key(r) != _key(row)]
        write(sorted([*others, row], key=_key))


def write(rows: Sequence[Row]) -> None:
    """Replace the file."""
    content = [row.model_dump(mode="json", exclude_none=True) for row in rows]
    files.atomic_write(paths.path(*FILE), (json.dumps(content, indent=1) + "\n").encode())


def _key(row: Row) -> tuple[str, str, str]:
    return row.model, row.format, row.quantize or ""
