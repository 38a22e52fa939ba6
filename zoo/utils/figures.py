"""The style of all figures, and saving them to the same bytes every time. Needs matplotlib (the extra `plots`)."""

from pathlib import Path
from typing import Any

from ..errors import MissingExtraError, RequestError
from .version import __version__

STYLE: dict[Any, Any] = {
    "font.size": 8, "axes.titlesize": 8, "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 1.2,
    "lines.markersize": 4.5, "legend.frameon": False, "svg.fonttype": "none", "svg.hashsalt": "rnnzoo",
}  # fmt: skip
"""matplotlib's rcParams for every figure."""


def save(figure: Any, path: Path, mark: str, dpi: int = 200) -> None:
    """Save a figure in the format of the path's suffix. The same figure gives the same bytes every day.

    mark: text to store in an SVG or PNG, by which a stale picture is recognised later. Raises what `picture_format` raises.
    """
    suffix = picture_format(path)
    metadata: dict[str, str | None] | None = None
    if suffix == "svg":
        metadata = {"Date": None, "Creator": None, "Identifier": mark}
    elif suffix == "png":
        metadata = {"Software": f"rnnzoo {__version__}", "Identifier": mark}
    figure.savefig(path, format=suffix, metadata=metadata, **({} if suffix == "svg" else {"dpi": dpi}))


def picture_format(path: Path) -> str:
    """Return the format of a picture by its suffix, such as "svg".

    Raises RequestError if matplotlib cannot write it, and MissingExtraError if matplotlib is not installed.
    """
    try:
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    suffix, known = path.suffix.removeprefix(".").lower(), matplotlib.figure.Figure().canvas.get_supported_filetypes()
    if suffix not in known:
        raise RequestError(f"{path} cannot be drawn: its ending must be one of {', '.join(sorted(known))}.")
    return suffix
