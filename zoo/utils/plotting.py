"""The style of all figures, and saving figures reproducibly. Needs matplotlib (the extra `plots`)."""

import io
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import MissingExtraError, RequestError
from . import files
from .version import __version__

FORMATS = ("svg", "png", "pdf")
"""Suffixes of the files that `save` writes."""
STYLE: dict[Any, Any] = {  # matplotlib's rcParams for every figure
    "font.size": 8, "axes.titlesize": 8, "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 1.2,
    "lines.markersize": 4.5, "legend.frameon": False, "svg.fonttype": "none", "svg.hashsalt": "rnnzoo",
}  # fmt: skip


def add_caption(figure: Any, text: str) -> None:
    """Write `text` below a figure, wrapped to the figure's width. `save` makes room for it, so no legend overlaps it."""
    lines = [textwrap.fill(line, int(19 * figure.get_figwidth())) for line in text.splitlines()]
    figure.supxlabel("\n".join(lines), y=-0.1 / figure.get_figheight(), va="top", fontsize=6.5, color="0.3")


def save(figure: Any, path: Path, mark: str, dpi: int = 200) -> None:
    """Save a figure in the format of the path's suffix, creating the folder. The same figure gives the same bytes on every day.

    mark: text stored in the metadata of an SVG or PNG, which a later run reads to see whether the picture is outdated. Raises
    what `picture_format` raises, and OSError; a picture that was there then stays.
    """
    suffix = picture_format(path)
    metadata = {
        "svg": {"Date": None, "Creator": None, "Identifier": mark},
        "png": {"Software": f"rnnzoo {__version__}", "Identifier": mark},
    }.get(suffix)
    resolution = {} if suffix == "svg" else {"dpi": dpi}
    content = io.BytesIO()
    figure.savefig(content, format=suffix, metadata=metadata, bbox_inches="tight", **resolution)
    files.atomic_write(path, content.getvalue())


def picture_format(path: Path) -> str:
    """Return the picture format that the path's suffix names, such as "svg", after a look at the place of the picture.

    Raises RequestError for another suffix than those of FORMATS, MissingExtraError if matplotlib is not installed, and what
    `files.check_target` raises.
    """
    if find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", "plots")
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise RequestError(f"{path} cannot be drawn: its ending must be one of {', '.join(FORMATS)}.")
    files.check_target(path)
    return suffix
