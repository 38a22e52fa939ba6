"""`rnnzoo push`, `verify`, `card`, `release` and `init`: the commands for publishing models."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from zoo import registry
from zoo.errors import CheckpointError, RequestError
from zoo.utils.arguments import is_pattern
from zoo.utils.text import counted

from .arguments import AsJson, DryRun, Name, Names, Timeout, expand, model_argument
from .output import ask, columns, emit, progress, say


def push(
    names: Names,
    namespace: Annotated[str | None, Option(help="User or organisation (default: the pinned repository's).")] = None,
    private: Annotated[bool, Option("--private", help="Make a new repository private.")] = False,
    revision: Annotated[str | None, Option(help="Branch to push to; created if missing (default: main).")] = None,
    create_pr: Annotated[bool, Option("--create-pr", help="Open a pull request.")] = False,
    dry_run: DryRun = False,
    tag: Annotated[str | None, Option(help="Tag the commit. An existing tag is never moved.")] = None,
    force: Annotated[bool, Option("--force", help="Push even if the Hub has commits newer than the pin.")] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Push models to the Hub, one commit each, and pin the commits in cards/lock.json (for maintainers)."""
    from zoo.checkpoints.hub.upload import PushOptions
    from zoo.publishing import pushing

    options = PushOptions(
        namespace=namespace, private=private, revision=revision, create_pr=create_pr, dry_run=dry_run, tag=tag, force=force,
        timeout=timeout, log=say,
    )  # fmt: skip
    rows = pushing.push(expand(names), options)
    for row in rows:
        if row.pinned:
            say(f"{row.name}: cards/lock.json now pins {row.repo}@{row.commit}; review and commit it.")
    outcome = {True: "would push" if dry_run else "pushed", False: "unchanged"}
    table = [(r.name, outcome[r.created], r.pull_request or r.url, r.commit, len(r.files)) for r in rows]
    data = [{**asdict(row), "dry_run": dry_run} for row in rows]
    emit(data, as_json, columns(("NAME", "", "WHERE", "COMMIT", "FILES"), table))


def verify(
    names: Annotated[list[str] | None, model_argument("Models' names, or patterns such as 'star-*'.")] = None,
    every: Annotated[bool, Option("--all", help="Verify every model with weights.")] = False,
    metrics: Annotated[bool, Option("--metrics", help="Measure the recorded figures again.")] = False,
    remote: Annotated[bool, Option("--remote", help="Compare the files on the Hub with the pins, too.")] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Check that checkpoints match their pins, the registry and the recorded outputs; exit code 1 if any does not."""
    from zoo.publishing import verification

    if bool(names) == every:
        raise RequestError("Give either the names of models to verify or --all.")
    from zoo.checkpoints.references import Reference

    for name in names or ():
        if not is_pattern(name) and Reference.parse(name).model is None:
            raise RequestError(
                f"{name} is not a model of the registry, so there are no pins to verify it by. `rnnzoo show` reads its files, "
                "and `rnnzoo eval` measures it."
            )
    models = expand(names or ["*"])
    if without := [name for name in models if registry.find(name).weights is None]:
        raise CheckpointError(
            f"These models have no weights to verify: {', '.join(without)}. To train one: rnnzoo train {without[0]}"
        )
    rows = []
    for name in models:
        with progress(f"verify {name}") as bar:
            rows.append(verification.verify(name, metrics=metrics, remote=remote, timeout=timeout, log=say, report=bar))
    table = [(r.name, check.what, "ok" if check.ok else "FAILED", check.text) for r in rows for check in r.checks]
    emit([{**asdict(row), "ok": row.ok} for row in rows], as_json, columns(("NAME", "CHECK", "", "FOUND"), table))
    if failed := [row.name for row in rows if not row.ok]:
        raise CheckpointError(
            f"{len(failed)} of {len(rows)} models failed verification: {', '.join(failed)}. See the rows with FAILED."
        )


def card(
    name: Name,
    write: Annotated[bool, Option("--write", help="Also write the card to cards/NAME/README.md.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a model's card: Markdown generated from the registry and the recorded results."""
    from zoo.publishing import cards

    text = cards.render(registry.find(name))
    if write:
        from zoo.publishing import release

        say(f"Wrote {release.write_card(name)}")
    emit({"name": name, "card": text}, as_json, text.rstrip("\n"))


def release(
    target: Annotated[str, Argument(metavar="FOLDER|DATASET", help="Folder of a run, or a dataset of the registry.")],
    results_only: Annotated[bool, Option("--results", help="Release only the results, not the weights.")] = False,
    half: Annotated[
        bool, Option("--half", help="Round the weights to float16: half the size, slightly different results.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace a released run by this run without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Publish a trained checkpoint, with its card, in cards/NAME and pin it in cards/lock.json; or pin a dataset's files.

    For maintainers, and for a zoo of your own. Write ./NAME for a folder that has the name of a dataset.
    """
    from zoo.checkpoints import results
    from zoo.publishing import release
    from zoo.utils import paths

    if target in registry.load_registry().datasets:
        given = {"--results": results_only, "--half": half, "--force": force}
        if unused := [option for option, value in given.items() if value]:
            raise RequestError(
                f"{target} is a dataset, but {unused[0]} is for the folder of a run: leave out {unused[0]}."
            )
        digests = release.lock_dataset(target)
        lines = "\n".join(f"{sha256}  {file}" for file, sha256 in digests.items())
        emit({"dataset": target, "sha256": digests}, as_json, lines)
        say(f"Pinned {counted(len(digests), 'file')} of {target} in cards/lock.json; review and commit it.")
        if not digests:
            say(
                "No task of this dataset reads a file by zoo.data.originals.read_verified, so there is nothing to verify later."
            )
        return
    if results_only and half:
        raise RequestError("--results releases no weights, so there are none to round: leave out --half.")
    folder = Path(target)
    if (loss := release.replaced(folder, results_only)) and not force and not ask(f"{loss} Replace it?"):
        raise RequestError(f"{loss} Nothing was changed. To replace the released run: --force")
    name = release.release_results(folder) if results_only else release.release(folder, half)
    home = str(paths.path("cards", name))
    emit({"name": name, "folder": home}, as_json, home)
    training = results.for_model(name).training
    if training is not None and not (training.finished or training.diverged):
        say(f"The run has {training.progress}. The command that trained it, without --stop-after, finishes it.")
    steps = [] if results_only or results.for_model(name).measured() else [f"rnnzoo eval {name} --record"]
    steps += ["make generated"] if paths.is_checkout() else []
    steps += [] if results_only else [f"rnnzoo verify {name}"]
    say(
        f"{'Recorded the figures only' if results_only else 'Pinned in cards/lock.json'}. Next: {', then '.join(steps) or 'commit it'}"
    )


def init(
    folder: Annotated[Path, Argument(help="Folder of the new zoo.")] = Path("."),
    task: Annotated[
        str | None,
        Option(help="Begin with this task of the zoo in use, such as mnist-rows, and a model's recipe for it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Begin a zoo of your own: write a registry with a task, a recipe and models that train in a minute.

    The folder may have other files; one with a registry is refused.
    """
    from zoo.publishing import new_zoo

    paths, model = new_zoo.create(folder, task)
    emit({"folder": str(folder), "files": list(map(str, paths))}, as_json, "\n".join(map(str, paths)))
    say(f"Next: export RNNZOO_ROOT={shlex.quote(str(folder.absolute()))}, then rnnzoo train {model}")
