"""The C interface of native/scan.cpp: its structures, field by field, and the libraries built from it.

Installing the package builds three libraries, for three widths of vectors; the widest that this processor runs is loaded.
Without a compiler no library is built. Everything still works, but slower, and `rnnzoo doctor` reports it.
"""

import ctypes
import hashlib
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

LIBRARIES = {"AVX512": ("avx512", "avx2", "generic"), "AVX2": ("avx2", "generic")}
"""By torch's name of a processor's capability: the libraries that it runs, fastest first. "generic" runs everywhere."""

_int, pointer = ctypes.c_int64, ctypes.c_void_p
STATES = 4
"""Maximum number of states of a cell."""


class NativeProduct(ctypes.Structure):
    """The structure `Product` of native/job.h, field by field."""

    _fields_ = [(n, pointer) for n in ("weight", "bias", "weight_gradient", "bias_gradient")] + [
        (n, _int) for n in ("phase", "block", "blocks")
    ]


class NativeJob(ctypes.Structure):
    """The structure `Job` of native/job.h, field by field."""

    _fields_ = [
        ("cell", pointer),
        ("option", ctypes.c_double),
        *((n, _int) for n in ("steps", "batch", "inputs", "units", "input_blocks", "blocks", "phases", "products")),
        ("threads", _int),
        ("half", _int),
        ("x", pointer),
        ("x_step", _int),
        ("x_row", _int),
        ("rows", pointer),
        ("weight", pointer),
        ("bias", pointer),
        ("transposed", _int),
        ("product", ctypes.POINTER(NativeProduct)),
        ("vector", pointer),
        ("lengths", pointer),
        ("tbptt_steps", _int),
        ("start", pointer * STATES),
        ("y", pointer),
        ("end", pointer * STATES),
        ("tape", pointer),
        ("y_gradient", pointer),
        ("end_gradient", pointer * STATES),
        *((n, pointer) for n in ("x_gradient", "weight_gradient", "bias_gradient", "vector_gradient")),
        ("start_gradient", pointer * STATES),
    ]


class NativeStack(ctypes.Structure):
    """The structure `Stack` of native/scan.cpp, field by field."""

    _fields_ = [
        ("jobs", ctypes.POINTER(NativeJob)),
        ("layers", _int),
        ("mean", ctypes.c_float),
        ("std", ctypes.c_float),
        ("weight", pointer),
        ("bias", pointer),
        ("outputs", _int),
    ]


class NativeDiagonal(ctypes.Structure):
    """The structure `Diagonal` of native/diagonal.h, field by field."""

    _fields_ = [
        *((n, _int) for n in ("steps", "batch", "width", "complex", "threads")),
        ("a", pointer),
        *((n, _int) for n in ("a_step", "a_row")),
        *((n, pointer) for n in ("b", "start", "lengths")),
        ("tbptt_steps", _int),
        *((n, pointer) for n in ("c", "c_gradient", "a_gradient", "b_gradient", "start_gradient")),
    ]


class NativeOuter(ctypes.Structure):
    """The structure `Outer` of native/outer.h, field by field."""

    _fields_ = [
        *((n, _int) for n in ("steps", "rows", "keys", "values", "threads", "delta", "reads_old")),
        *((n, pointer) for n in ("q", "k", "a", "r", "p", "v", "start", "lengths")),
        ("tbptt_steps", _int),
        *((n, pointer) for n in ("o", "end", "kept", "o_gradient", "end_gradient")),
        *((f"{n}_gradient", pointer) for n in ("q", "k", "a", "r", "p", "v", "start")),
    ]


def libraries() -> dict[str, Path]:
    """Return the paths of the libraries that were built, by instruction set."""
    folder = Path(__file__).parent
    paths = ((kind, folder / f"scan_{kind}{end}") for kind in LIBRARIES["AVX512"] for end in EXTENSION_SUFFIXES)
    return {kind: path for kind, path in paths if path.exists()}


def candidates() -> tuple[str, ...]:
    """Return the kinds of libraries that this processor runs, the fastest first."""
    return LIBRARIES.get(torch.backends.cpu.get_cpu_capability(), ("generic",))


@cache
def library() -> ctypes.CDLL | None:
    """Return the fastest library that was built and that this processor runs, or None. Warns if a library does not load."""
    built = libraries()
    for kind in candidates():
        if kind in built:
            try:
                return open_library(built[kind])
            except OSError as error:
                warnings.warn(f"{error} The library is not used; see `rnnzoo doctor`.", RuntimeWarning, stacklevel=2)
    return None


def open_library(path: Path) -> ctypes.CDLL:
    """Return the library at `path`, loaded. Raises OSError if it does not load or was not built from the sources in native/."""
    try:
        lib = ctypes.CDLL(str(path))
        lib.rnnzoo_source.restype = ctypes.c_char_p
        if _digest() not in (None, lib.rnnzoo_source().decode()):
            raise OSError("the sources in native/ are not those that it was built from")
        lib.rnnzoo_cell.restype, lib.rnnzoo_cell.argtypes = pointer, [ctypes.c_char_p]
        lib.rnnzoo_lanes.restype = lib.rnnzoo_halves.restype = lib.rnnzoo_tape.restype = _int
        lib.rnnzoo_outer_stride.restype = _int
        lib.rnnzoo_tape.argtypes = [pointer, _int, _int]
        lib.rnnzoo_forward.argtypes = lib.rnnzoo_backward.argtypes = [ctypes.POINTER(NativeJob)]
        lib.rnnzoo_run.argtypes = [ctypes.POINTER(NativeStack), _int, _int, *[pointer] * 5]
        lib.rnnzoo_diagonal_forward.argtypes = lib.rnnzoo_diagonal_backward.argtypes = [ctypes.POINTER(NativeDiagonal)]
        diagonal = (lib.rnnzoo_diagonal_forward, lib.rnnzoo_diagonal_backward)
        lib.rnnzoo_outer_forward.argtypes = lib.rnnzoo_outer_backward.argtypes = [ctypes.POINTER(NativeOuter)]
        outer = (lib.rnnzoo_outer_forward, lib.rnnzoo_outer_backward)
        for function in (lib.rnnzoo_forward, lib.rnnzoo_backward, lib.rnnzoo_run, *diagonal, *outer):
            function.restype, function.errcheck = _int, _check_memory  # type: ignore[assignment]
    except (OSError, AttributeError) as error:  # for another machine, or of another version
        raise OSError(
            f"{path} cannot be loaded: {error}. It holds the C++ scans. To build it again, delete it and run "
            "`pip install -e .` in the repository, or `pip install --force-reinstall --no-deps rnnzoo`."
        ) from error
    return lib


@cache
def _digest() -> str | None:
    """Return the SHA-256 of the sources in native/, as setup.py computes it; None if the package has no sources."""
    folder = Path(__file__).parent / "native"
    sources = sorted([*folder.glob("*.cpp"), *folder.glob("*.h")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest() if sources else None


def _check_memory(succeeded: int, function: Any, arguments: tuple[Any, ...]) -> None:
    """Raise MemoryError if a function of the library returned 0, `succeeded`. ctypes calls this after the function."""
    if not succeeded:
        raise MemoryError("There is not enough memory for the C++ scan. Use smaller batches or shorter sequences.")


def address(tensor: Tensor | None) -> int | None:
    """Return the address of a tensor's first number; None, which is a null pointer in C, if `tensor` is None."""
    return None if tensor is None else tensor.data_ptr()


def addresses(states: Sequence[Tensor | None]) -> Any:
    """Return the addresses of up to STATES states as a C array."""
    return (pointer * STATES)(*map(address, states))
