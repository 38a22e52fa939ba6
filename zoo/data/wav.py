"""Reads WAV files of mono audio: the samples, or why there are none. Python's module wave knows no floats."""

import struct
from collections.abc import Iterator

import torch
from torch import Tensor

from ..utils.text import counted

INTEGERS, FLOATS, EXTENSIBLE = 1, 3, 0xFFFE
"""Codes of encodings. An extensible file has the code of its encoding 24 bytes after the beginning of its format."""
ENDLESS = 0x7FFF0000
"""A program that writes to a pipe does not know the size of the audio: it gives at least this, and the audio ends with the file."""


class WavError(Exception):
    """The message says what the file is instead of a readable one, as the end of a sentence that begins with "the file".

    convertible: whether another program may read the audio of the file.
    """

    def __init__(self, message: str, convertible: bool = True):
        super().__init__(message)
        self.convertible = convertible


def read(content: bytes, rate: int) -> Tensor:
    """Return the samples of a WAV file, (samples,): int16, or float32 as stored.

    rate: samples per second. Raises WavError unless the file is mono, of this rate, of 16-bit integers or 32-bit floats, and
    has all of the audio that its header promises.
    """
    if not content:
        raise WavError("is empty", convertible=False)
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise WavError("is not a WAV file")
    chunks: dict[bytes, tuple[int, bytes]] = {}
    for kind, size, data in _chunks(content):
        chunks.setdefault(kind, (size, data))
    _, form = chunks.get(b"fmt ", (0, b""))
    if len(form) < 16 or b"data" not in chunks:
        raise WavError("is a WAV file that ends before its audio", convertible=False)
    encoding, channels, found, _, _, bits = struct.unpack_from("<HHIIHH", form)
    if encoding == EXTENSIBLE and len(form) >= 26:
        (encoding,) = struct.unpack_from("<H", form, 24)
    if encoding not in (INTEGERS, FLOATS):
        raise WavError(f"has another encoding than integers and floats (its code is {encoding})")
    if (channels, found, encoding, bits) not in ((1, rate, INTEGERS, 16), (1, rate, FLOATS, 32)):
        raise WavError(
            f"has {channels} channel{'' if channels == 1 else 's'} at {found:,} Hz, of {bits}-bit "
            f"{'floats' if encoding == FLOATS else 'integers'}"
        )
    size, data = chunks[b"data"]
    if len(data) < size < ENDLESS:
        raise WavError(
            f"has {counted(len(data), 'byte')} of audio, but its header promises {size:,}", convertible=False
        )
    width = bits // 8
    if len(data) < width:
        raise WavError("has no audio", convertible=False)
    dtype = torch.int16 if encoding == INTEGERS else torch.float32
    return torch.frombuffer(bytearray(data[: len(data) // width * width]), dtype=dtype)


def _chunks(content: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield (name, size by the header, data) of each chunk of a RIFF file. The data of the last can be shorter."""
    at = 12
    while at + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, at)
        yield name, size, content[at + 8 : at + 8 + size]
        at += 8 + size + size % 2
