"""How figures look and how they are saved, byte for byte the same every time. Needs matplotlib (the extra `plots`)."""

from pathlib import Path
from typing import Any

from ..errors import MissingExtraError, RequestError
from .version import __version__

STYLE: dict[Any, Any] = {
    "font.size": 8, "axes.titlesize": 8, "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 1.2,
    "lines.markersize": 4.5, "legend.frameon": False, "svg.fonttype": "none", "svg.hashsalt": "rnnzoo",
}  # fmt: skip
"""How everything is drawn, analyses and benchmarks too."""


def save(figure: Any, path: Path, mark: str, dpi: int = 200) -> None:
    """Write a figure, an SVG or PNG with a mark that tells a stale one and otherwise to the same bytes every time."""
    kind = drawable(path)
    marks: dict[str, dict[str, str | None]] = {
        "svg": {"Date": None, "Creator": None}, "png": {"Software": f"rnnzoo {__version__}"}
    }  # fmt: skip
    metadata = {**marks[kind], "Identifier": mark} if kind in marks else None
    figure.savefig(path, format=kind, metadata=metadata, **({} if kind == "svg" else {"dpi": dpi}))


def drawable(path: Path) -> str:
    """The format of a picture at `path`, "svg" say; RequestError if matplotlib has none such, and MissingExtraError."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    kind, known = path.suffix.removeprefix(".").lower(), matplotlib.figure.Figure().canvas.get_supported_filetypes()
    if kind not in known:
        raise RequestError(f"{path} cannot be drawn: its ending must be one of {', '.join(sorted(known))}.")
    return kind
