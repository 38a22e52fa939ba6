"""`rnnzoo pull`, `whoami`, and `cache` with its commands `list`, `prune` and `rm`: downloads, the account, and the Hub cache."""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option, Typer

from zoo.errors import CheckpointError, RequestError, ZooError
from zoo.utils.arguments import is_pattern
from zoo.utils.text import size_text

from .arguments import AsJson, DryRun, Timeout, expand, model_argument
from .output import columns, emit, progress, say

if TYPE_CHECKING:
    from zoo.checkpoints.hub import cache

app = Typer(help="List and clean rnnzoo's models in the Hub cache.", no_args_is_help=True, add_completion=False)


def pull(
    names: Annotated[list[str], model_argument("Models' names, patterns, hf://org/name or hf://org/name@revision.")],
    revision: Annotated[str | None, Option(help="Branch, tag or commit, unverified (default: the pinned one).")] = None,
    sha256: Annotated[str | None, Option(metavar="HEX", help="Refuse weights with a different SHA-256 digest.")] = None,
    force: Annotated[bool, Option("--force", help="Download again; overwrite files in the --to folder.")] = False,
    to: Annotated[Path | None, Option(help="Also copy the files to this folder; several models go to TO/NAME.")] = None,
    offline: Annotated[bool, Option("--offline", help="Make no request, as with HF_HUB_OFFLINE=1.")] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Download models' weights unless they are on this machine, verify them, and print the paths of the files."""
    from zoo.checkpoints import sources
    from zoo.checkpoints.references import SCHEME, Reference

    models, several = expand(names), len(names) > 1 or is_pattern(names[0])
    if sha256 is not None and (several or not re.fullmatch("[0-9a-fA-F]{64}", sha256)):
        raise RequestError(
            "--sha256 takes the SHA-256 digest of the weights, 64 hexadecimal digits, and works with one model only."
        )
    if offline and force and to is None:
        raise RequestError("--force downloads again, but --offline makes no request: leave one of them out.")
    digest = None if sha256 is None else sha256.lower()
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    options = sources.PullOptions(force=force, offline=offline, sha256=digest, timeout=timeout, log=say)
    for name in models:
        folder = to and (to / name.removeprefix(SCHEME).replace("/", "--") if several else to)
        try:
            with progress(f"pull {name}") as bar:
                reporting = replace(options, report=lambda file, done, size: bar(done, size, file))
                pulled = sources.pull(Reference.parse(name, revision), reporting, to=folder)
        except ZooError as error:
            if not several:
                raise
            failed.append(name)
            say(f"rnnzoo: {error}")
            continue
        rows.append({
            "name": name, "repo": pulled.repo, "revision": pulled.revision, "verified": pulled.verified,
            "downloaded": list(pulled.downloaded), "files": {key: str(path) for key, path in pulled.files.items()},
        })  # fmt: skip
    emit(rows if several else rows[0], as_json, "\n".join(path for row in rows for path in row["files"].values()))
    if failed:
        raise CheckpointError(
            f"{len(failed)} of {len(models)} models could not be pulled: {', '.join(failed)}. The reasons are above."
        )


def whoami(timeout: Timeout = None, as_json: AsJson = False) -> None:
    """Show the Hub and the account that a push would use, never the token; exit code 1 if the token cannot write."""
    from zoo.checkpoints.hub import browse

    who = browse.login(timeout)
    rows = [("endpoint", who.endpoint), ("name", who.name), ("organisations", ", ".join(who.orgs)), ("role", who.role)]
    emit({**asdict(who), "may_write": who.may_write}, as_json, columns(("", ""), rows).lstrip("\n"))
    if not who.may_write:
        say("This token can only read, so it cannot push. Use a token with write access: hf auth login")
        raise Exit(1)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the cached repositories, their sizes, and partial files of interrupted downloads."""
    from zoo.checkpoints.hub import cache

    repositories = cache.contents()
    rows = [
        {
            "repo": c.repo, "revisions": list(c.revisions), "pinned": c.pinned, "damaged": c.damaged, "bytes": c.bytes,
            "partial": [str(path) for path in c.partial], "partial_bytes": c.partial_bytes,
            "unused": [str(path) for path in c.unused],
        }
        for c in repositories
    ]  # fmt: skip
    table = [
        (
            c.repo, ", ".join(r[:8] for r in c.revisions) or None, "damaged" if c.damaged else "pinned" if c.pinned else None, size_text(c.bytes),
            f"{len(c.partial)}, {size_text(c.partial_bytes)}" if c.partial else None,
        )
        for c in repositories
    ]  # fmt: skip
    emit(rows, as_json, columns(("REPOSITORY", "COMMITS", "", "SIZE", "PARTIAL FILES"), table))


@app.command("gc", hidden=True)  # the former name
@app.command("prune")
def prune(
    older_than: Annotated[
        float, Option(min=0.0, metavar="HOURS", help="Keep files written in the last HOURS hours.")
    ] = 1.0,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove partial files of interrupted downloads, and files that no cached commit uses."""
    from zoo.checkpoints.hub import cache

    _emit_freed(cache.prune(older_than, dry_run), dry_run, as_json)


@app.command("rm")
def remove(
    names: Annotated[list[str], model_argument("Models' names, hf://org/name, org/name, or patterns of any of these.")],
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
