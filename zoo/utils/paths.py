"""Where registry.yaml and cards/ are, in a wheel, beside a checkout's zoo/ or in a folder of the user's own;
and where datasets are."""

import os
from pathlib import Path

from ..errors import RequestError

_PACKAGE = Path(__file__).resolve().parent.parent
_OWN = _PACKAGE / "assets" if (_PACKAGE / "assets").is_dir() else _PACKAGE.parent
ROOT = Path(os.environ.get("RNNZOO_ROOT") or _OWN)
"""A wheel carries copies in zoo/assets (see setup.py); an editable install and a checkout use the repository's own.
RNNZOO_ROOT names another folder with a registry.yaml and cards/, for a zoo of one's own."""

PACKAGED = ROOT == _PACKAGE / "assets"
"""Whether it is the copy in an installed package, which nobody should write to."""


def is_checkout() -> bool:
    """Whether it is the repository itself, with what is generated from it."""
    return _PACKAGE.parent == ROOT


def path(*parts: str) -> Path:
    """The file or folder `parts` of the repository root, such as path("cards", "star-16x64-pmnist")."""
    return ROOT.joinpath(*parts)


def writable(*parts: str) -> Path:
    """As `path`, for what is going to be written; RequestError where that is an installed package."""
    if PACKAGED:
        raise RequestError(
            f"{ROOT} is an installed package, which is not written to. Use a checkout, or a folder that RNNZOO_ROOT names."
        )
    return path(*parts)


def data() -> Path:
    """The folder that has the datasets' folders: $RNNZOO_DATA, where that is not set ~/.cache/rnnzoo."""
    return Path(os.environ.get("RNNZOO_DATA") or Path.home() / ".cache" / "rnnzoo")
