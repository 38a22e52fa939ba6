"""Turns a user's file into the input of a network: an image, a recording, a text, or a table of numbers."""

import csv
import io
import math
import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..cells import CELLS, cell_class
from ..cells.missing import GRUD
from ..checkpoints.tokenizer import UNKNOWN, StreamTokenizer
from ..errors import MissingExtraError, RequestError, shown
from ..networks.network import Network
from ..networks.story_reader import StoryReader
from . import data_of
from .base import TaskData
from .generation import unknown_text
from .speech import FSDD

if TYPE_CHECKING:
    from PIL import Image

MAX_BYTES = 20_000_000
LARGEST = torch.finfo(torch.float32).max
IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"P5\n", b"P6\n")
"""The first bytes of image files. Those of WebP are RIFF, as of a WAV file, and WEBP follows after four more."""
MAX_SIDE = 20_000
"""The largest width and height of an image in pixels. Pillow limits their product."""


def read_example(network: Network, content: bytes) -> tuple[Tensor, Tensor | None]:
    """Return x and lengths of the example in a file with this content.

    x is (1, time, *input), tokens (1, time) or features (1, *input). lengths is None unless the example is a text.

    An image is resized and prepared like the images of the network's task; dark strokes on white are inverted to match
    MNIST, and what is transparent counts as white. A text goes through the network's tokenizer, its lines joined by spaces
    unless the network reads one long text, as a language model does; for a StoryReader, its last line is the question. A
    network of spoken digits reads a WAV file: mono, 8 kHz, 16-bit integers or 32-bit floats. Numbers are comma-separated,
    with a line for each time step. Raises RequestError for content that does not fit the network.
    """
    if network.interface.vocabulary is not None:
        return _tokens(network, content)
    data = data_of(network.config)
    if data is not None and (x := data.read_file(network.config.name, content)) is not None:
        return x, None
    if content.startswith(IMAGES) or (content.startswith(b"RIFF") and content[8:12] == b"WEBP"):
        return _image(network, data, content), None
    return _numbers(network, content, also_image=data is not None and data.image is not None), None


def _tokens(network: Network, content: bytes) -> tuple[Tensor, Tensor]:
    name = network.config.name
    if network.tokenizer is None:
        raise RequestError(
            f"{name} has no tokenizer, so it cannot read text. Call it in Python with tokens, an integer tensor "
            "(batch, time), or train it with rnnzoo train, which adds a tokenizer."
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(f"{name} reads text in UTF-8, but this file is not UTF-8. Convert the file.") from error
    lines = [line for line in text.splitlines() if line.strip()]
    if isinstance(network.tokenizer, StreamTokenizer) and text:  # ends of lines are tokens, but that of the file
        return _stream(network, network.tokenizer, text.replace("\r\n", "\n"))
    if not lines:
        raise RequestError(f"{name} reads text, but this file is empty.")
    if not isinstance(network, StoryReader):
        tokens, lengths = network.tokenizer(" ".join(lines))
        if (tokens == UNKNOWN).all():
            raise RequestError(f"{name} knows no word of this text. Give a text in the language of its task.")
        return tokens, lengths
    if len(lines) < 2:
        raise RequestError(f"{name} reads a story and, on the last line, a question, but this file has only one line.")
    return network.tokenizer.ask(" ".join(lines[:-1]), lines[-1])


def _stream(network: Network, tokenizer: StreamTokenizer, text: str) -> tuple[Tensor, Tensor]:
    """Return the tokens and the length of a text for a network that reads one long text, without the end of its last line.

    Raises RequestError for a part of the text that the vocabulary lacks, unless it has a token for unknown words.
    """
    text = text.removesuffix("\n") or text
    if tokenizer.unknown_token == UNKNOWN and (unknown := tokenizer.unknown(text)):
        raise unknown_text(network, unknown, "Change the text.")
    return tokenizer(text)


def listens(network: Network) -> bool:
    """Return True if a network reads speech: log-mel frames of spoken digits."""
    return isinstance(data_of(network.config), FSDD)


def _image(network: Network, data: TaskData | None, content: bytes) -> Tensor:
    if data is None or data.image is None:
        raise RequestError(
            f"{network.config.name} does not read images. Give it comma-separated numbers, a line for each time step."
        )
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("pillow", "data") from error
    height, width = data.image
    try:
        with warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning):
            warnings.simplefilter("ignore", UserWarning)  # Pillow's of what it makes of a damaged file
            opened = Image.open(io.BytesIO(content))
            if max(opened.size) > MAX_SIDE:
                raise ValueError(
                    f"it has {opened.width:,} x {opened.height:,} pixels, more than {MAX_SIDE:,} on one side"
                )
            picture = _grey(ImageOps.exif_transpose(opened)).resize((width, height))
    except UnidentifiedImageError as error:  # its message names a Python object
        raise RequestError("The image cannot be read: its format is unknown, or it is damaged.") from error
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise RequestError(f"The image cannot be read: {error}") from error
    if len(set(picture.tobytes())) == 1:
        raise RequestError("The image is of one colour only. Give an image with something drawn on it.")
    if sum(picture.tobytes()) > 128 * height * width:
        picture = ImageOps.invert(picture)
    return data.split("test").prepare(torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)[None])


def _grey(picture: "Image.Image") -> "Image.Image":
    """Return an image in grey, 8 bits a pixel. What is transparent becomes white."""
    from PIL import Image

    if picture.mode == "F":
        raise ValueError("its pixels are floating-point numbers, and their full scale is unknown")
    if picture.mode.startswith("I"):  # 16 bits a pixel, of which Pillow's convert to L would cut off the upper half
        return picture.convert("I").point(lambda value: value / 256).convert("L")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert("L")


def _numbers(network: Network, content: bytes, also_image: bool) -> Tensor:
    name, shape = network.config.name, network.interface.input
    if len(shape) != 1:
        raise RequestError(
            f"{name} reads {' x '.join(map(str, shape))} numbers at each step, which a table cannot hold. Call it in Python "
            f"with a tensor of the shape (batch, time, {', '.join(map(str, shape))})."
        )
    numbers = "one finite number" if shape == (1,) else f"{shape[0]} finite numbers, separated by commas,"
    cell = network.config.architecture.cell
    missing = cell in CELLS and issubclass(cell_class(cell), GRUD)
    numbers += " or nan where one is missing," * missing
    reads = f"{name} reads {'an image or ' * also_image}{numbers} on each line"
    rows = []
    try:
        table = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=None))
        for cells in table:
            if len(cells) < 2 and not "".join(cells).strip():
                continue
            rows.append(_finite([cell.strip() or "nan" for cell in cells] if missing else cells, missing))
            if len(rows[-1]) != shape[0]:
                raise RequestError(f"{reads}, but line {table.line_num} {_misfit(cells, shape[0], len(rows) == 1)}")
    except (UnicodeDecodeError, csv.Error) as error:
        raise RequestError(f"{reads}, but this file is not a table of numbers.") from error
    if not rows:
        raise RequestError(f"{reads}, but this file is empty.")
    if network.interface.readout != "none":
        return torch.tensor(rows, dtype=torch.float32)[None]
    if len(rows) > 1:
        raise RequestError(
            f"{name} reads one line of numbers, but this file has {len(rows)} lines. Give a file for each example."
        )
    return torch.tensor(rows, dtype=torch.float32)


def _misfit(cells: list[str], count: int, is_first: bool) -> str:
    """Return what is wrong with the line of `cells`, as the end of a sentence. It should have `count` numbers."""
    text = shown(",".join(cells))
    if len(cells) != count and (numbers := _finite(cells)):
        return f"has {len(numbers)}: {text}."
    is_heading = is_first and len(cells) == count and all(cell.strip() and not _finite([cell]) for cell in cells)
    return f"is {text}.{' Leave out the line of headings.' if is_heading else ''}"


def _finite(cells: list[str], missing: bool = False) -> list[float]:
    """Return the numbers in the cells of a line; none if one of them is no finite float32. missing: whether one may be NaN."""
    try:
        row = [float(cell) for cell in cells]
    except ValueError:
        return []
    if "_" in "".join(cells):  # Python's, but no table's
        return []
    return row if all(abs(number) <= LARGEST or (missing and math.isnan(number)) for number in row) else []
