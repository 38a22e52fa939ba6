"""Paths of registry.yaml, sources.yaml, cards/ and the datasets."""

import os
from pathlib import Path

from ..errors import RequestError

_PACKAGE = Path(__file__).resolve().parent.parent
_ASSETS = _PACKAGE / "assets"  # only in a wheel: copies of registry.yaml, sources.yaml and cards/ (see setup.py)

PACKAGED_ROOT = _ASSETS if _ASSETS.is_dir() else _PACKAGE.parent
"""Folder of the registry.yaml, sources.yaml and cards/ that come with the package."""
ROOT = Path(os.environ.get("RNNZOO_ROOT") or PACKAGED_ROOT).resolve()
"""Folder with registry.yaml and cards/: $RNNZOO_ROOT if it is set; else a wheel's assets, or else the repository."""
PACKAGED = ROOT == _ASSETS
"""True if ROOT belongs to an installed package, where nobody should write."""


def is_checkout() -> bool:
    """Return whether ROOT is the repository, which also has the files generated from registry.yaml."""
    return _PACKAGE.parent == ROOT


def path(*parts: str) -> Path:
    """Return a path below ROOT, such as path("cards", "star-16x64-pmnist")."""
    return ROOT.joinpath(*parts)


def writable(*parts: str) -> Path:
    """Return a path below ROOT for writing. Raises RequestError if ROOT is an installed package."""
    if PACKAGED:
        raise RequestError(
            f"{ROOT} is an installed package, which must not be written to. Use a checkout, or set RNNZOO_ROOT to a "
            "folder of your own."
        )
    return path(*parts)


def data() -> Path:
    """Return the folder that has a folder for each dataset: $RNNZOO_DATA, or ~/.cache/rnnzoo if that is not set."""
    return Path(os.environ.get("RNNZOO_DATA") or Path.home() / ".cache" / "rnnzoo")
