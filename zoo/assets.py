"""Where the files that travel with rnnzoo are: registry.yaml and cards/, in a wheel or beside a checkout's zoo/."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
ROOT = _PACKAGE / "assets" if (_PACKAGE / "assets").is_dir() else _PACKAGE.parent
"""A wheel carries copies in zoo/assets (see setup.py); an editable install and a checkout use the repository's own."""


def path(*parts: str) -> Path:
    """The file or folder `parts` of the repository root, such as path("cards", "star-16x64-pmnist")."""
    return ROOT.joinpath(*parts)
