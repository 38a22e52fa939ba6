"""Writes the site to a folder: its pages, its assets, and the files that visitors can download."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import MissingExtraError, RequestError
from ...utils import files
from ...utils.version import __version__

MANIFEST = "site.json"
"""A list of the files that a build wrote. The next build reads it and removes files that the site no longer has."""


@dataclass(frozen=True)
class Built:
    """The result of a build."""

    folder: Path
    pages: int
    files: int
    bytes: int
    live: tuple[str, ...]
    """Names of the models that run in the browser."""
    not_live: str | None
    """The reason if no model runs in the browser, else None."""


def build(
    out: Path, *, live: bool | Collection[str] = True, onnx: bool = False,
    report: Callable[[int, int, str | None], None] | None = None,
) -> Built:  # fmt: skip
    """Write the site of the zoo in use to a folder, and remove the files of an earlier build that this one does not write.

    Pages of speech have recordings of the test set if their data is at hand ($RNNZOO_DATA).

    live: True to compile all models that can run in a browser, or the names of some. This needs clang, wasm-ld and node;
    without them no model runs in its page.
    onnx: True to also export every network with weights as ONNX, for visitors to download. This takes seconds for each.
    report: called with the number of models compiled so far, the number of all, and the name of the present one.

    Raises MissingExtraError without the extra `site`, RequestError for a folder that has other files, CheckpointError if a
    file to download differs from its pin, OSError for a folder that cannot be written to, and with onnx the errors of
    `zoo.export`.
    """
    check_extra()
    earlier = _earlier(out)
    files.check_writable(out)
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
    """Return the paths that an earlier build wrote to `out`. Raises RequestError for other content, or a file in the way."""
    if place := files.obstacle(out):
        raise RequestError(f"{place} is not a folder, but --out must name one. Choose a new or empty folder.")
    if not out.exists():
        return set()
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
    """Write those files of `contents`, {path: content}, that differ from the files in `out`; remove the others of `earlier`.

    Until both are done, the manifest also lists the earlier build's files, so that the next build can remove them if this
    one is interrupted.
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
    """Write the manifest: `paths`, all files of the site except the manifest."""
    manifest = json.dumps({"rnnzoo": __version__, "files": sorted(paths)}, indent=0).encode()
    files.atomic_write(out / MANIFEST, manifest)
