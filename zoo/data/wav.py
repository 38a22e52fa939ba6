"""Reads WAV files of mono audio, whole or as they arrive: the samples, or why there are none. Python's module wave knows no floats."""

import io
import struct
from collections.abc import Iterator

import torch
from torch import Tensor

from ..utils.text import counted

INTEGERS, FLOATS, EXTENSIBLE = 1, 3, 0xFFFE
"""Codes of encodings. An extensible file has the code of its encoding 24 bytes after the beginning of its format."""
FORMAT = 26
"""The number of bytes of a file's format that are read: up to the code of the encoding of an extensible file."""
ENDLESS = 0x7FFF0000
"""A program that writes to a pipe does not know the size of the audio. Most give 0 or at least this; then it ends with the file."""
PART = 800
"""At most so many samples are read together."""


class WavError(Exception):
    """The message says what the file is instead of a readable one, as the end of a sentence that begins with "the file".

    convertible: whether another program may read the audio of the file.
    """

    def __init__(self, message: str, convertible: bool = True):
        super().__init__(message)
        self.convertible = convertible


def read(content: bytes, rate: int) -> Tensor:
    """Return all samples of a WAV file with this content, (samples,). See `parts`."""
    return torch.cat(list(parts(io.BytesIO(content), rate)))


def parts(file: io.BufferedIOBase, rate: int) -> Iterator[Tensor]:
    """Yield the samples of an open WAV file as soon as they can be read, each time (samples,) with at most PART samples.

    The samples are int16, or float32 as stored. rate: samples per second. Raises WavError unless the file is mono, of this rate,
    of 16-bit integers or 32-bit floats; and, after the last samples, unless it has all of the audio that its header promises.
    """
    start = file.read(12)
    if not start:
        raise WavError("is empty", convertible=False)
    if start[:4] != b"RIFF" or start[8:] != b"WAVE":
        raise WavError("is not a WAV file")
    form, size = _header(file)
    if len(form) < 16:
        raise WavError("is a WAV file without a format before its audio", convertible=False)
    encoding, channels, found, _, _, bits = struct.unpack_from("<HHIIHH", form)
    if encoding == EXTENSIBLE and len(form) >= FORMAT:
        (encoding,) = struct.unpack_from("<H", form, FORMAT - 2)
    if encoding not in (INTEGERS, FLOATS):
        raise WavError(f"has another encoding than integers and floats (its code is {encoding})")
    if (channels, found, encoding, bits) not in ((1, rate, INTEGERS, 16), (1, rate, FLOATS, 32)):
        raise WavError(
            f"has {channels} channel{'' if channels == 1 else 's'} at {found:,} Hz, of {bits}-bit "
            f"{'floats' if encoding == FLOATS else 'integers'}"
        )
    yield from _audio(file, size, torch.int16 if encoding == INTEGERS else torch.float32)


def _header(file: io.BufferedIOBase) -> tuple[bytes, int]:
    """Read up to the audio. Return the first FORMAT bytes of the format, b"" if there is none, and the size of the audio in bytes."""
    form = b""
    while len(chunk := file.read(8)) == 8:
        name, size = struct.unpack("<4sI", chunk)
        if name == b"data":
            return form, size
        first = file.read(min(size, FORMAT))
        if name == b"fmt ":
            form = form or first
        left = size + size % 2 - len(first)
        while left > 0 and (skipped := file.read(min(left, 2**16))):
            left -= len(skipped)
    raise WavError("is a WAV file that ends before its audio", convertible=False)


def _audio(file: io.BufferedIOBase, size: int, dtype: torch.dtype) -> Iterator[Tensor]:
    """Yield the samples of audio of `size` bytes by the header, as `parts` does. A last sample of too few bytes is left out."""
    arrived, data = 0, b""  # data: the bytes of which the next samples are made
    endless = size == 0 or size >= ENDLESS
    while read := file.read1(PART * dtype.itemsize if endless else min(PART * dtype.itemsize, size - arrived)):
        arrived += len(read)
        data += read
        whole = len(data) // dtype.itemsize * dtype.itemsize
        if whole:
            yield torch.frombuffer(bytearray(data[:whole]), dtype=dtype)
        data = data[whole:]
    if arrived < size and not endless:
        raise WavError(f"has {counted(arrived, 'byte')} of audio, but its header promises {size:,}", convertible=False)
    if arrived < dtype.itemsize:
        raise WavError("has no audio", convertible=False)
