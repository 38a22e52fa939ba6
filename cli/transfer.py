"""`rnnzoo pull`, `push`, `verify` and `whoami`: checkpoints between this machine and the Hub."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo import registry
from zoo.errors import CheckpointError, RequestError, UnknownNameError, ZooError

from .arguments import AsJson, Names, NamesOrAddresses, Timeout, complete_name, is_pattern
from .output import columns, emit, progress, say


def pull(
    names: NamesOrAddresses,
    revision: Annotated[
        str | None,
        typer.Option(help="Branch, tag or commit on the Hub instead of the pinned commit. Nothing vouches for it."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Download even if the files are here; overwrite files in the --to folder.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option(help="Also copy the files to this folder, or to DIR/NAME for several models.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Make no request, as with HF_HUB_OFFLINE=1.")] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Download models' weights unless they are here, verify them, and print their paths."""
    from zoo.checkpoints import hub
    from zoo.checkpoints.reference import SCHEME, Reference

    models, several = expand(names, pretrained=True), len(names) > 1 or is_pattern(names[0])
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    options = hub.PullOptions(force=force, offline=offline, timeout=timeout, log=say)
    for name in models:
        folder = to and (to / name.removeprefix(SCHEME).replace("/", "--") if several else to)
        try:
            with progress(f"pull {name}") as bar:

                def report(file: str, done: int, size: int) -> None:
                    bar(done, size, file)

                pulled = hub.pull(Reference.parse(name, revision), replace(options, report=report), to=folder)
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
    text = "\n".join(path for row in rows for path in row["files"].values())
    emit(rows if several else rows[0], as_json, text)
    if failed:
        raise CheckpointError(f"{len(failed)} of {len(models)} could not be pulled: {', '.join(failed)}.")


def expand(names: Sequence[str], pretrained: bool | None = None) -> list[str]:
    """Expand names and patterns to the names of models, each once; folders and addresses stay as they are.

    pretrained: whether patterns match only models with weights. Raises UnknownNameError for an unknown name and for a
    pattern without a match, RequestError for a pattern that only matches models without weights, and what
    Reference.parse raises.
    """
    from zoo.checkpoints.reference import Reference

    models: dict[str, None] = {}
    for name in names:
        matches = _matches(name, pretrained) if is_pattern(name) else [Reference.parse(name).text]
        models |= dict.fromkeys(matches)
    return list(models)


def _matches(pattern: str, pretrained: bool | None) -> list[str]:
    if matches := registry.list_models(pattern, pretrained=pretrained):
        return matches
    if pretrained and registry.list_models(pattern):
        raise RequestError(
            f"No model that matches {pattern!r} has weights. `rnnzoo list --pretrained` shows those that do."
        )
    raise UnknownNameError(
        "model", pattern, registry.models(), "`rnnzoo list --pretrained` shows the models with weights."
    )


def push(
    names: Names,
    namespace: Annotated[
        str | None, typer.Option(help="User or organisation to push to (default: that of the pinned repository).")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch to push to instead of main; created if it does not exist.")
    ] = None,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Open a pull request.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, send nothing.")] = False,
    tag: Annotated[str | None, typer.Option(help="Tag the commit. An existing tag is never moved.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Push on top of commits on the Hub that the pin does not know of.")
    ] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Push models to the Hub, one commit each, and pin the commits in cards/lock.json (for maintainers)."""
    from zoo.checkpoints.hub.upload import PushOptions
    from zoo.publishing import pushing

    options = PushOptions(namespace, private, revision, create_pr, dry_run, tag, force, timeout, say)
    rows = pushing.push(expand(names, pretrained=True), options)
    for row in rows:
        if row.pinned:
            say(f"{row.name}: cards/lock.json now pins {row.repo}@{row.commit}; review and commit it.")
    outcome = {True: "would push" if dry_run else "pushed", False: "unchanged"}
    table = [(r.name, outcome[r.created], r.pull_request or r.url, r.commit, len(r.files)) for r in rows]
    data = [{**asdict(row), "dry_run": dry_run} for row in rows]
    emit(data, as_json, columns(("NAME", "", "WHERE", "COMMIT", "FILES"), table))


def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Models' names, or patterns such as 'star-*'.", autocompletion=complete_name),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Verify every model with weights.")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="Measure the recorded figures again.")] = False,
    remote: Annotated[bool, typer.Option("--remote", help="Compare the pinned commits on the Hub, too.")] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Check that checkpoints match their pins, the registry and the recorded outputs; exit code 1 if any does not."""
    from zoo.publishing import verification

    if bool(names) == every:
        raise RequestError("Name the models to verify, or give --all.")
    models = expand(names or ["*"], pretrained=True)
    if without := [name for name in models if registry.find(name).weights is None]:
        raise CheckpointError(
            f"These have no weights to verify: {', '.join(without)}. To train one: rnnzoo train {without[0]}"
        )
    rows = []
    for name in models:
        with progress(f"verify {name}") as bar:
            rows.append(verification.verify(
                name, metrics=metrics, remote=remote, timeout=timeout, log=say,
                report=lambda done, n: bar(done, n, f"{done}/{n}"),
            ))  # fmt: skip
    table = [(r.name, check.what, "ok" if check.ok else "FAILED", check.text) for r in rows for check in r.checks]
    emit([{**asdict(row), "ok": row.ok} for row in rows], as_json, columns(("NAME", "CHECK", "", "FOUND"), table))
    if failed := [row.name for row in rows if not row.ok]:
        raise CheckpointError(f"{len(failed)} of {len(rows)} failed verification: {', '.join(failed)}.")


def whoami(timeout: Timeout = None, as_json: AsJson = False) -> None:
    """Show which account and Hub a push would use, never the token; exit code 1 if the token cannot write."""
    from zoo.checkpoints.hub import browse

    who = browse.login(timeout)
    rows = [("endpoint", who.endpoint), ("name", who.name), ("organisations", ", ".join(who.orgs)), ("role", who.role)]
    emit({**asdict(who), "may_write": who.may_write}, as_json, columns(("", ""), rows).lstrip("\n"))
    if not who.may_write:
        say("This token can only read, so it cannot push. Make one with write access: hf auth login")
        raise typer.Exit(1)
