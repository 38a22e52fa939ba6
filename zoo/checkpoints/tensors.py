"""Reads safetensors files: the header and a check for finite values without torch, whole files with torch. Writes them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import CheckpointError
from ..utils import files
from .strict_json import refuse_repeats

if TYPE_CHECKING:
    from torch import Tensor

FILE = "model.safetensors"
MAX_HEADER_BYTES = 10_000_000
NUMPY_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
"""The name in numpy of each floating-point dtype of safetensors; numpy has no BF16."""
DTYPES = {*NUMPY_FLOATS, "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"}
"""The dtypes that a checkpoint may have, as safetensors spells them."""


class Stored(NamedTuple):
    """The dtype and the shape of one tensor in a file."""

    dtype: str
    """One of DTYPES."""
    shape: tuple[int, ...]


def header(path: Path) -> dict[str, Stored]:
    """Return the dtypes and shapes of a safetensors file's tensors, by name. Reads only the header of the file.

    Raises CheckpointError if the file is missing or is not a safetensors file but, for example, a pickle, an error page, a
    Git LFS pointer or a damaged file.
    """
    from safetensors import safe_open

    with _reading(path):
        _check_names(path)
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, no mapping
            tensors = {name: Stored(each.get_dtype(), tuple(each.get_shape())) for name, each in slices.items()}
        if unknown := sorted({tensor.dtype for tensor in tensors.values()} - DTYPES):
            raise ValueError(f"unknown dtype {unknown[0]}")
        return tensors


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn the errors of a block that reads a safetensors file into CheckpointError."""
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path}: not a valid safetensors file ({error}).") from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error}).") from error


def _check_names(path: Path) -> None:
    """Raise ValueError if a key occurs twice in a header: safetensors would silently take the last of two equal names.

    Also bounds the header's size before anything is parsed.
    """
    with files.open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_HEADER_BYTES):
            raise ValueError("the length of its header is invalid")
        refuse_repeats(file.read(length))


def not_finite(path: Path) -> list[str]:
    """Return the names of the tensors that have NaN or infinite values. Raises the errors of `header`."""
    import numpy
    from safetensors import deserialize

    header(path)

    def is_finite(dtype: str, content: bytes) -> bool:
        if dtype == "BF16":  # the upper half of a float32
            return bool(numpy.isfinite((numpy.frombuffer(content, "<u2").astype("<u4") << 16).view("<f4")).all())
        return dtype not in NUMPY_FLOATS or bool(numpy.isfinite(numpy.frombuffer(content, NUMPY_FLOATS[dtype])).all())

    tensors = deserialize(path.read_bytes())
    return sorted(name for name, tensor in tensors if not is_finite(tensor["dtype"], tensor["data"]))


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """Return the tensors of a safetensors file by name, on the CPU. Raises the errors of `header`."""
    from safetensors.torch import load_file

    header(path)
    with _reading(path):
        return load_file(path)


def widened(tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Return copies of the tensors in which those of float16 are float32, the dtype of a network's parameters."""
    import torch

    return {name: t.float() if t.dtype == torch.float16 else t.clone() for name, t in tensors.items()}


def rounded(path: Path) -> bytes:
    """Return a safetensors file's content with its float32 tensors rounded to float16.

    Raises CheckpointError for a value beyond the range of float16 (65,504), and the errors of `header`.
    """
    import torch

    halves = {name: t.half() if t.dtype == torch.float32 else t for name, t in read_tensors(path).items()}
    if problems := differences(halves, halves, finite=True):
        raise CheckpointError(f"{path} cannot be rounded to float16: {problems}.")
    return content(halves)


def write_tensors(path: Path, tensors: "dict[str, Tensor]") -> None:
    """Write a safetensors file, replacing `path` atomically. Same tensors, same bytes."""
    files.atomic_write(path, content(tensors))


def as_stored(tensors: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Return contiguous copies on the CPU, one for each name even of tied weights, in float32 if they are of a float dtype."""
    import torch

    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in copies.items()}


def content(tensors: "dict[str, Tensor]") -> bytes:
    """Return the content of a safetensors file. It has one metadata key only: safetensors writes several in no fixed order."""
    from safetensors.torch import save

    return save(tensors, metadata={"format": "pt"})


def differences(expected: "Mapping[str, Tensor]", tensors: "Mapping[str, Tensor]", finite: bool = False) -> str:
    """Return a text that lists where `tensors` differ from `expected` in names, shapes or dtypes; "" if nowhere.

    finite: also report NaN and infinite values. The text lists at most five differences.
    """
    problems = [f"{name} is missing" for name in expected if name not in tensors]
    problems += [f"{name} does not belong to this architecture" for name in tensors if name not in expected]
    for name in expected.keys() & tensors.keys():
        wanted, tensor = expected[name], tensors[name]
        if (tensor.shape, tensor.dtype) != (wanted.shape, wanted.dtype):
            problems.append(
                f"{name} is {tensor.dtype} {tuple(tensor.shape)} instead of {wanted.dtype} {tuple(wanted.shape)}"
            )
        elif finite and not tensor.isfinite().all():
            problems.append(f"{name} has values that are infinite or NaN")
    more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
    return "; ".join(sorted(problems)[:5]) + more
