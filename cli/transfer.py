"""`rnnzoo pull`, `push`, `verify` and `login-status`: checkpoints between this machine and the Hub."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo import registry
from zoo.checkpoints import hub
from zoo.checkpoints.hub import browse
from zoo.checkpoints.hub.upload import PushOptions
from zoo.checkpoints.reference import SCHEME, Reference
from zoo.errors import CheckpointError, RequestError, UnknownNameError, ZooError
from zoo.publishing import pushing, verification

from .catalogue import Timeout, complete, is_pattern
from .output import AsJson, columns, emit, progress, say

Names = Annotated[
    list[str], typer.Argument(help="Names of models, or patterns such as 'star-*'.", autocompletion=complete)
]
NamesOrAddresses = Annotated[
    list[str],
    typer.Argument(
        help="Names, patterns such as 'star-*', or hf://org/name, optionally followed by @revision.",
        autocompletion=complete,
    ),
]


def pull(
    names: NamesOrAddresses,
    revision: Annotated[
        str | None, typer.Option(help="Hub revision instead of the pinned one (no pin vouches for it).")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Fetch it from the Hub, whatever is here; replace other files.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option(help="Also copy the files to this folder; of several, to DIR/NAME.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Make no request; as HF_HUB_OFFLINE=1.")] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Make sure models' weights are on this machine, verified, and print where."""
    wanted, many = expand(names, pretrained=True), len(names) > 1 or is_pattern(names[0])
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    ask = hub.PullOptions(force=force, offline=offline, timeout=timeout, log=say)
    for name in wanted:
        target = to and (to / name.removeprefix(SCHEME).replace("/", "--") if many else to)
        try:
            with progress(f"pull {name}") as bar:

                def report(file: str, done: int, size: int) -> None:
                    bar(done, size, file)

                found = hub.pull(Reference.parse(name, revision), replace(ask, report=report), to=target)
        except ZooError as error:
            if not many:
                raise
            failed.append(name)
            say(f"rnnzoo: {error}")
            continue
        rows.append({
            "name": name, "repo": found.repo, "revision": found.revision, "verified": found.verified,
            "downloaded": list(found.downloaded), "files": {key: str(path) for key, path in found.files.items()},
        })  # fmt: skip
    text = "\n".join(path for row in rows for path in row["files"].values())
    emit(rows if many else rows[0], as_json, text)
    if failed:
        raise CheckpointError(f"{len(failed)} of {len(wanted)} could not be pulled: {', '.join(failed)}.")


def expand(names: Sequence[str], pretrained: bool | None = None) -> list[str]:
    """The models that names and patterns mean, each once; UnknownNameError for a pattern without a match."""
    found: dict[str, None] = {}
    for name in names:
        matches = registry.list_models(name, pretrained=pretrained) if is_pattern(name) else [name]
        if not is_pattern(name) and not name.startswith(SCHEME):
            registry.find(name)
        if not matches and pretrained and registry.list_models(name):
            raise RequestError(
                f"None of the models that {name!r} means has weights. `rnnzoo list --pretrained` shows those that do."
            )
        if not matches:
            raise UnknownNameError(
                "model", name, registry.models(), "`rnnzoo list --pretrained` shows those with weights."
            )
        found |= dict.fromkeys(matches)
    return list(found)


def push(
    names: Names,
    namespace: Annotated[
        str | None, typer.Option(help="User or organisation to push to (default: the pinned repository's).")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="If the repository has to be made.")] = False,
    revision: Annotated[str | None, typer.Option(help="A branch, made if need be, instead of main.")] = None,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Propose it as a pull request.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, send nothing.")] = False,
    tag: Annotated[str | None, typer.Option(help="Tag the commit; a tag that exists is never moved.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Push though the remote has commits that the pin does not know of.")
    ] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Push models to the Hub, each in one commit, and pin the commits in registry.yaml for review (for maintainers)."""
    way = PushOptions(namespace, private, revision, create_pr, dry_run, tag, force, timeout, say)
    rows = pushing.push(expand(names, pretrained=True), way)
    for row in rows:
        if row.pinned:
            say(f"{row.name}: registry.yaml pins {row.repo}@{row.commit} now; review and commit that.")
    did = {(True, True): "would push", (True, False): "pushed", (False, True): "unchanged", (False, False): "unchanged"}
    table = [(r.name, did[r.created, dry_run], r.pull_request or r.url, r.commit, len(r.files)) for r in rows]
    data = [{**asdict(row), "dry_run": dry_run} for row in rows]
    emit(data, as_json, columns(("NAME", "", "WHERE", "COMMIT", "FILES"), table))


def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names, or patterns such as 'star-*'.", autocompletion=complete)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every model with weights.")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="Measure the recorded figures again.")] = False,
    remote: Annotated[bool, typer.Option("--remote", help="Ask the Hub about the pinned commits, too.")] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Check that checkpoints are what they are said to be; exit code 1 on any drift."""
    if bool(names) == every:
        raise RequestError("Name the models to verify, or give --all.")
    chosen = expand(names or ["*"], pretrained=True)
    if bare := [name for name in chosen if registry.find(name).weights is None]:
        raise CheckpointError(
            f"These have no weights to verify: {', '.join(bare)}. To train one: rnnzoo train {bare[0]}"
        )
    rows = []
    for name in chosen:
        with progress(f"verify {name}") as bar:
            rows.append(verification.verify(
                name, metrics=metrics, remote=remote, timeout=timeout, log=say,
                report=lambda done, n: bar(done, n, f"{done}/{n}"),
            ))  # fmt: skip
    table = [(r.name, check.what, "ok" if check.ok else "FAILED", check.text) for r in rows for check in r.checks]
    emit([{**asdict(row), "ok": row.ok} for row in rows], as_json, columns(("NAME", "CHECK", "", "FOUND"), table))
    if drifted := [row.name for row in rows if not row.ok]:
        raise CheckpointError(f"{len(drifted)} of {len(rows)} are not what they are said to be: {', '.join(drifted)}.")


def login_status(timeout: Timeout = None, as_json: AsJson = False) -> None:
    """Say as whom, and where, a push would be made; never the token. Exit code 1 if it could not be."""
    who = browse.login(timeout)
    rows = [("endpoint", who.endpoint), ("name", who.name), ("organisations", ", ".join(who.orgs)), ("role", who.role)]
    emit({**asdict(who), "may_write": who.may_write}, as_json, columns(("", ""), rows).lstrip("\n"))
    if not who.may_write:
        say("This token can only read, so nothing can be pushed with it.")
        raise typer.Exit(1)
