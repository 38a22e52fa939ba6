"""What a safetensors file says it holds, read without torch: its header, and whether every value is finite."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CheckpointError
from ..utils import files

if TYPE_CHECKING:
    from torch import Tensor

FILE = "model.safetensors"
MAX_HEADER_BYTES = 10_000_000
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


class Stored(NamedTuple):
    """One tensor of a file."""

    dtype: str
    """As safetensors spells it: F32, BF16, I64."""
    shape: tuple[int, ...]
    begin: int
    """Offset of its first byte in the file."""
    end: int


def header(path: Path) -> dict[str, Stored]:
    """The tensors of a safetensors file by name. Whatever is none (pickles, error pages, pointers, damaged files, equal
    names) is a CheckpointError; the offsets cover the file without gap or overlap."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, MAX_HEADER_BYTES):
                raise ValueError("its header is longer than it can be")
            entries = json.loads(file.read(length), object_pairs_hook=_unique)
        return _laid_out(entries, 8 + length, size)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not a valid safetensors file ({error}).") from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error}).") from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """safetensors takes the last of two equal names; nothing that we wrote has any."""
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a name occurs twice in its header")
    return dict(pairs)


def _laid_out(entries: Any, start: int, size: int) -> dict[str, Stored]:
    if not isinstance(entries, dict):
        raise ValueError("its header is not a table")
    found = {}
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"{name[:40]} is no tensor")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if dtype not in BYTES or not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
            raise ValueError(f"{name[:40]} has an odd dtype, shape or place")
        if offsets[1] - offsets[0] != math.prod(shape) * BYTES[dtype]:
            raise ValueError(f"{name[:40]} has another size than its shape")
        found[name] = Stored(dtype, tuple(shape), start + offsets[0], start + offsets[1])
    at = start
    for tensor in sorted(found.values(), key=lambda t: (t.begin, t.end)):
        if tensor.begin != at:
            raise ValueError("its tensors overlap or leave a gap")
        at = tensor.end
    if at != size:
        raise ValueError(f"it has {size:,} bytes instead of {at:,}")
    return found


def _counts(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and n >= 0 for n in numbers)


def not_finite(path: Path) -> list[str]:
    """Names of the tensors of a safetensors file that hold a NaN or an infinity. Raises what `header` raises."""
    import numpy

    odd, stored = [], header(path)
    with path.open("rb") as file:
        for name, tensor in stored.items():
            file.seek(tensor.begin)
            content = file.read(tensor.end - tensor.begin)
            if tensor.dtype == "BF16":  # the upper half of a float32
                values = (numpy.frombuffer(content, "<u2").astype("<u4") << 16).view("<f4")
            elif tensor.dtype in ("F64", "F32", "F16"):
                values = numpy.frombuffer(content, f"<f{BYTES[tensor.dtype]}")
            else:
                continue
            if not numpy.isfinite(values).all():
                odd.append(name)
    return odd


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """Return the tensors of a safetensors file by name, on the CPU.

    Raises CheckpointError for anything else, such as pickles, error pages and damaged files.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    header(path)
    try:
        return load_file(path)
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path}: not a valid safetensors file ({error}).") from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error}).") from error


def write_tensors(path: Path, tensors: "dict[str, Tensor]") -> None:
    """Write a safetensors file, replacing `path` atomically.

    The file has one metadata key only, because safetensors writes several in no fixed order: same tensors, same bytes.
    """
    from safetensors.torch import save

    files.atomic_write(path, save(tensors, metadata={"format": "pt"}))


def differences(expected: "Mapping[str, Tensor]", tensors: "Mapping[str, Tensor]", finite: bool = False) -> str:
    """Describe where `tensors` differ from `expected` in names, shapes or dtypes; "" if nowhere.

    finite: also report NaN and infinite values. The text lists at most five differences.
    """
    problems = [f"{name} is missing" for name in expected if name not in tensors]
    problems += [f"{name} is not of this architecture" for name in tensors if name not in expected]
    for name in expected.keys() & tensors.keys():
        wanted, tensor = expected[name], tensors[name]
        if (tensor.shape, tensor.dtype) != (wanted.shape, wanted.dtype):
            problems.append(
                f"{name} is {tensor.dtype} {tuple(tensor.shape)} instead of {wanted.dtype} {tuple(wanted.shape)}"
            )
        elif finite and not tensor.isfinite().all():
            problems.append(f"{name} has values that are not finite")
    more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
    return "; ".join(sorted(problems)[:5]) + more
