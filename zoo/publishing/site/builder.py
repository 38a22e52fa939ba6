"""Writes the site: which pages there are, what each is made of, and the files that visitors may download."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import MissingExtraError, RequestError
from ...utils import files
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
    out: Path, *, live: bool | Collection[str] = True, onnx: bool = False,
    report: Callable[[int, int, str | None], None] | None = None,
) -> Built:  # fmt: skip
    """Write the site of the zoo in use to a folder, and remove what an earlier build wrote there and this one does not.

    Pages of speech have recordings of the test set if their data is at hand ($RNNZOO_DATA).

    live: compile the models that run in a page, or those of these names, which needs clang, wasm-ld and node; the pages of
    others, or of all if a program is missing, have no part that runs.
    onnx: also export every network with weights as ONNX, for visitors to download; this takes seconds for each.
    report: is told the models compiled so far, how many there are, and the present one's name.

    Raises MissingExtraError without the extra `site`, RequestError for a folder that has other files, and CheckpointError for a
    file to download that differs from its pin. With onnx, it raises what `zoo.export` raises.
    """
    check_extra()
    earlier = _earlier(out)
    from . import pages
    from .live import Compiler
    from .templating import Site

    compiler = Compiler(out, report, None if live is True else live) if live else None
    site = Site()
    pages.add_all(site, compiler, onnx)
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
    """Write the files that differ, and remove files that only an earlier build has.

    Until all is done, the manifest lists the files of the earlier build too, so that the next build can finish a broken one.
    """
    _list(out, earlier | contents.keys())
    for path, content in sorted(contents.items()):
        target = out / path
        if not target.exists() or target.read_bytes() != content:
            files.atomic_write(target, content)
    for path in earlier - contents.keys():
        inside = (out / path).resolve()
        if inside.is_relative_to(out.resolve()):
            inside.unlink(missing_ok=True)
            if inside.parent != out.resolve() and inside.parent.is_dir() and not any(inside.parent.iterdir()):
                inside.parent.rmdir()
    _list(out, contents.keys())


def _list(out: Path, paths: Collection[str]) -> None:
    """Write the manifest: the paths of all files of the site but its own."""
    manifest = json.dumps({"rnnzoo": __version__, "files": sorted(paths)}, indent=0).encode()
    files.atomic_write(out / MANIFEST, manifest)
