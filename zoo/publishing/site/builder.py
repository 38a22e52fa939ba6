"""Writes the site: which pages there are, what each is made of, and the files that visitors may download."""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import MissingExtraError, RequestError
from ...utils.version import __version__

MANIFEST = "site.json"
"""The list of the files that the last build wrote, by which the next one removes what is no longer there."""


@dataclass(frozen=True)
class Built:
    """What was written."""

    folder: Path
    pages: int
    files: int
    bytes: int
    live: tuple[str, ...]
    """Models that run in the browser."""
    not_live: str | None
    """Why none does, in words."""


def build(
    out: Path, *, live: bool | Collection[str] = True, report: Callable[[int, int, str | None], None] | None = None
) -> Built:
    """Write the site of the zoo in use to a folder, and remove what an earlier build wrote there and this one does not.

    live: compile the models that run in a page, or those of these names, which needs clang, wasm-ld and node; the pages of
    others, or of all if a program is missing, have no part that runs.
    report: is told the models compiled so far, how many there are, and the present one's name.

    Raises MissingExtraError without the extra `site`, and RequestError for a folder that has other files.
    """
    check_extra()
    earlier = _earlier(out)
    from . import pages
    from .live import Compiler
    from .templating import Site

    compiler = Compiler(out, report, None if live is True else live) if live else None
    site = Site()
    pages.add_all(site, compiler)
    _write(out, site.files, earlier)
    count = sum(path.endswith(".html") for path in site.files)
    size = sum(map(len, site.files.values()))
    return Built(
        out,
        count,
        len(site.files),
        size,
        compiler.names if compiler else (),
        compiler.problem if compiler else "it was not asked for",
    )


def check_extra() -> None:
    """Raise MissingExtraError if a package of the extra `site` is missing."""
    from importlib.util import find_spec

    for package, distribution in (("jinja2", "Jinja2"), ("markdown_it", "markdown-it-py"), ("pygments", "Pygments")):
        if find_spec(package) is None:
            raise MissingExtraError(distribution, "site")


def _earlier(out: Path) -> set[str]:
    """Return the files of an earlier build. Raises RequestError if the folder has other content, and for a file."""
    if not out.exists():
        return set()
    if not out.is_dir():
        raise RequestError(f"{out} is a file; --out names a folder.")
    manifest = out / MANIFEST
    if manifest.exists():
        try:
            return set(json.loads(manifest.read_bytes())["files"])
        except (ValueError, LookupError, TypeError) as error:
            raise RequestError(f"{manifest} is damaged. Remove {out}, or choose another folder.") from error
    if any(out.iterdir()):
        raise RequestError(f"{out} has files that no build of the site wrote. Choose an empty folder.")
    return set()


def _write(out: Path, contents: Mapping[str, bytes], earlier: set[str]) -> None:
    """Write what differs and remove what is gone. The manifest comes first, so that a broken build can be repeated."""
    out.mkdir(parents=True, exist_ok=True)
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(contents.items())}
    manifest = json.dumps({"rnnzoo": __version__, "files": digests}, indent=0).encode()
    for path, content in ((MANIFEST, manifest), *sorted(contents.items())):
        target = out / path
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    for path in earlier - contents.keys():
        inside = (out / path).resolve()
        if inside.is_relative_to(out.resolve()):
            inside.unlink(missing_ok=True)
            if inside.parent != out.resolve() and inside.parent.is_dir() and not any(inside.parent.iterdir()):
                inside.parent.rmdir()
