"""`rnnzoo cache`: what the client's cache holds of ours, and being rid of it."""

from typing import Annotated

import typer

from zoo.checkpoints.hub import cache

from .catalogue import complete
from .output import AsJson, columns, emit

app = typer.Typer(help="What of ours is in the Hub client's cache.", no_args_is_help=True)
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the cached repositories, their size, and what downloads that died have left."""
    found = cache.contents()
    rows = [
        {
            "repo": c.repo, "revisions": list(c.revisions), "pinned": c.pinned, "bytes": c.bytes,
            "partial": [str(path) for path in c.partial], "partial_bytes": c.partial_bytes,
            "unused": [str(path) for path in c.unused],
        }
        for c in found
    ]  # fmt: skip
    table = [
        (
            c.repo, ", ".join(r[:8] for r in c.revisions) or None, "pinned" if c.pinned else None, size(c.bytes),
            f"{len(c.partial)}, {size(c.partial_bytes)}" if c.partial else None,
        )
        for c in found
    ]  # fmt: skip
    emit(rows, as_json, columns(("REPOSITORY", "COMMITS", "", "SIZE", "PARTIAL FILES"), table))


@app.command("gc")
def collect(
    older_than: Annotated[
        float, typer.Option(min=0.0, help="Hours since something was written to it.")
    ] = cache.OLD_HOURS,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove what downloads that died have left, and blobs that no revision uses."""
    _emit(cache.collect(older_than, dry_run), dry_run, as_json)


@app.command("rm")
def remove(
    names: Annotated[list[str], typer.Argument(help="Names, or hf://org/name.", autocompletion=complete)],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove models from the cache, all their revisions."""
    _emit(cache.remove(names, dry_run), dry_run, as_json)


def _emit(freed: cache.Freed, dry_run: bool, as_json: bool) -> None:
    data = {"removed": [str(path) for path in freed.paths], "bytes": freed.bytes, "dry_run": dry_run}
    did = "Would free" if dry_run else "Freed"
    emit(data, as_json, "\n".join([*map(str, freed.paths), f"{did} {size(freed.bytes)}."]))


def size(count: int) -> str:
    """Bytes for people: 1.5 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"
