"""`rnnzoo cache`: rnnzoo's models in the cache of the Hub's client."""

from typing import TYPE_CHECKING, Annotated

import typer

from .arguments import AsJson, complete_name
from .output import columns, emit

if TYPE_CHECKING:
    from zoo.checkpoints.hub import cache

app = typer.Typer(help="List and clean rnnzoo's models in the Hub cache.", no_args_is_help=True, add_completion=False)
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the cached repositories, their sizes, and partial files of interrupted downloads."""
    from zoo.checkpoints.hub import cache

    repositories = cache.contents()
    rows = [
        {
            "repo": c.repo, "revisions": list(c.revisions), "pinned": c.pinned, "bytes": c.bytes,
            "partial": [str(path) for path in c.partial], "partial_bytes": c.partial_bytes,
            "unused": [str(path) for path in c.unused],
        }
        for c in repositories
    ]  # fmt: skip
    table = [
        (
            c.repo, ", ".join(r[:8] for r in c.revisions) or None, "pinned" if c.pinned else None, size_text(c.bytes),
            f"{len(c.partial)}, {size_text(c.partial_bytes)}" if c.partial else None,
        )
        for c in repositories
    ]  # fmt: skip
    emit(rows, as_json, columns(("REPOSITORY", "COMMITS", "", "SIZE", "PARTIAL FILES"), table))


@app.command("gc", hidden=True)  # the former name
@app.command("prune")
def prune(
    older_than: Annotated[
        float, typer.Option(min=0.0, metavar="HOURS", help="Keep files that were written to within this many hours.")
    ] = 1.0,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove partial files of interrupted downloads, and files that no cached commit uses."""
    from zoo.checkpoints.hub import cache

    _emit_freed(cache.prune(older_than, dry_run), dry_run, as_json)


@app.command("rm")
def remove(
    names: Annotated[list[str], typer.Argument(help="Models' names, or hf://org/name.", autocompletion=complete_name)],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove models from the cache, with all their commits."""
    from zoo.checkpoints.hub import cache

    _emit_freed(cache.remove(names, dry_run), dry_run, as_json)


def _emit_freed(freed: "cache.Freed", dry_run: bool, as_json: bool) -> None:
    data = {"removed": [str(path) for path in freed.paths], "bytes": freed.bytes, "dry_run": dry_run}
    verb = "Would free" if dry_run else "Freed"
    emit(data, as_json, "\n".join([*map(str, freed.paths), f"{verb} {size_text(freed.bytes)}."]))


def size_text(count: int) -> str:
    """Return a number of bytes for people: 1.5 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"
