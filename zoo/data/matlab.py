"""Arrays in MATLAB's files of version 5: as much of the format as cell arrays of small whole numbers need.

MathWorks, MAT-File Format, chapter 1: a header of 128 bytes, then elements, each a tag (type and number of bytes) and its
content, padded to 8 bytes. A small element has its content inside the tag. A matrix is an element of elements: flags,
sizes, name, and then the numbers, column after column, or for a cell array one matrix for each cell.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy
from numpy.typing import NDArray

HEADER = 128
UINT8, MATRIX, COMPRESSED = 2, 14, 15
"""Types of elements."""
CELL = 1
"""MATLAB's number for the class of cell arrays, whose entries are matrices."""


def cell_arrays(content: bytes) -> dict[str, list[NDArray[Any]]]:
    """Return the variables of a .mat file by name: cell arrays of matrices whose numbers are stored as unsigned bytes.

    Raises ValueError if the file is damaged, or if a variable is of another kind.
    """
    if content[HEADER - 4 : HEADER] != b"\x00\x01IM":
        raise ValueError("not a MATLAB file of version 5, little-endian")
    try:
        variables = [_matrix(element) for element in _elements(content[HEADER:])]
        if any(kind != CELL for kind, *_ in variables):
            raise ValueError("a variable is not a cell array")
        return {name: [_numbers(cell) for cell in cells] for _, _, name, cells in variables}
    except (struct.error, zlib.error, RecursionError) as error:
        raise ValueError(f"the MATLAB file is damaged ({error})") from error


def _elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (type number, content) of each element in `content`. A compressed element yields the elements inside it."""
    at = 0
    while at < len(content):
        kind, size = struct.unpack_from("<II", content, at)
        at += 8
        if kind >> 16:  # a small element: its size is in the upper half of the type
            kind, size, begin, end = kind & 0xFFFF, kind >> 16, at - 4, at
        else:
            begin, end = at, at + size if kind == COMPRESSED else at + -(-size // 8) * 8
        part = content[begin : begin + size]
        if len(part) < size:
            raise ValueError("the MATLAB file is damaged (the file ends inside an element)")
        if kind == COMPRESSED:
            yield from _elements(zlib.decompress(part))
        else:
            yield kind, part
        at = end


def _matrix(element: tuple[int, bytes]) -> tuple[int, tuple[int, ...], str, list[tuple[int, bytes]]]:
    """Return (class number, shape, name, elements after the name) of a matrix.

    element: the (type number, content) of the matrix, like each of the elements returned. Raises ValueError if it is not a
    matrix.
    """
    kind, content = element
    parts = list(_elements(content)) if kind == MATRIX else []
    if len(parts) < 3 or not parts[0][1]:
        raise ValueError("an element is not a matrix")
    (_, flags), (_, sizes), (_, name), *rest = parts
    return flags[0], struct.unpack(f"<{len(sizes) // 4}i", sizes), name.decode("ascii", "replace"), rest


def _numbers(element: tuple[int, bytes]) -> NDArray[Any]:
    """Return the numbers of a matrix of unsigned bytes as uint8, in its shape. element: its (type number, content)."""
    _, sizes, _, parts = _matrix(element)
    if len(parts) != 1 or parts[0][0] != UINT8:
        raise ValueError("a cell is not a matrix of unsigned bytes")
    return numpy.frombuffer(parts[0][1], "uint8").reshape(sizes, order="F")
