"""Pushes checkpoints to the Hub.

A push compares the files with their pin (the digests in cards/lock.json), asks the Hub whether the user may write, and makes
one commit whose parent is the pinned commit. Afterwards it adds only the new commit to the pin, so that no server can change
the pinned digests.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from .. import registry
from ..checkpoints.hub.browse import identity
from ..checkpoints.hub.client import MAIN, Connection
from ..checkpoints.hub.errors import changed
from ..checkpoints.hub.upload import PushOptions, RemoteState, commit_files, has_files, remote_state
from ..checkpoints.references import check_repo
from ..errors import AccessError, ChangedError, HubError, ZooError
from ..exports.formats import FORMATS
from ..exports.writing import file_name
from ..registry import lock
from ..registry.schema import Pin
from ..utils import paths
from ..utils.version import __version__
from .package import Package, pack


@dataclass(frozen=True)
class Pushed:
    """The result of pushing one model or, with dry_run, what a push would do."""

    name: str
    repo: str
    url: str
    commit: str | None
    """The commit that has `files`; None if a push would make it, but this was a dry run."""
    created: bool
    """True if the push makes a commit; False if the repository already has the same files."""
    files: tuple[str, ...]
    pull_request: str | None = None
    pinned: bool = False
    """True if cards/lock.json was changed to pin `commit`."""


@dataclass(frozen=True)
class _Target:
    """A package, the repository to push it to, and that repository's present state."""

    package: Package
    repo: str
    state: RemoteState
    same: bool
    """True if the repository has the same bytes already."""


def push(names: Sequence[str], options: PushOptions | None = None) -> list[Pushed]:
    """Push registered models, each to its own repository in one commit, and return what was done for each.

    Nothing is sent unless all models can be pushed. A repository that already has the same files gets no commit.
    Afterwards cards/lock.json pins the commit, unless the push opened a pull request. If a push fails or is interrupted
    midway, `options.log` lists the models pushed so far.

    Raises UnknownNameError for a name that is not registered; CheckpointError for files that must not be pushed (see
    `pack`); AccessError if the user may not write; ChangedError if the repository has commits after the pinned one; and
    HubError for other failures of the Hub.
    """
    options = options or PushOptions()
    packages = [pack(registry.find(name)) for name in names]
    with Connection(options.timeout, options.log) as hub:
        user = identity(hub)
        if not user.may_write:
            raise AccessError(
                f"The token of {user.name} can only read. Make a token with write access and log in with it: hf auth login"
            )
        repos = [_repo(package, options) for package in packages]
        states, targets = [], []
        for repo in repos:
            hub.renew()
            states.append(remote_state(hub, repo, options, user))
        for package, repo, state in zip(packages, repos, states, strict=True):
            hub.renew()
            same = _has_same_files(hub, package, repo, state, options)
            targets.append(_Target(package, repo, state, same))
        pushed: list[Pushed] = []
        try:
            for target in targets:
                hub.renew()
                pushed.append(_push(hub, target, options))
        except (ZooError, KeyboardInterrupt):
            for row in pushed if not options.dry_run else ():
                if row.created:
                    pinned = ", which cards/lock.json pins now" if row.pinned else ""
                    options.log(f"{row.name} was pushed: {row.pull_request or row.url}, commit {row.commit}{pinned}.")
            raise
        return pushed


def _repo(package: Package, options: PushOptions) -> str:
    return check_repo(f"{options.namespace}/{package.entry.name}" if options.namespace else package.pin.repo)


def _has_same_files(hub: Connection, package: Package, repo: str, state: RemoteState, options: PushOptions) -> bool:
    """Return whether the last commit of the repository `repo`, in its present `state`, has the files of `package`.

    Raises ChangedError if the repository has a commit after the pinned one, or `options.tag` at another commit.
    """
    pin, files = package.pin, package.files
    same = state.head is not None and has_files(hub, repo, state.head, files)
    if options.tag and state.tagged is not None and not (same and state.tagged == state.head):
        raise ChangedError(
            f"{repo}: the tag {options.tag} exists at commit {state.tagged}, and rnnzoo never moves a tag. Choose another tag."
        )
    any_parent = options.force or options.branch != MAIN or options.create_pr
    if same or state.head is None or any_parent:
        return same
    parent = (pin.revision or pin.replaces) if repo == pin.repo else None
    if parent is None and hub.listing(repo, list(files), state.head):
        raise changed(f"{repo}: commit {state.head} has files of these names, and the registry pins no commit")
    if parent not in (None, state.head):
        raise changed(f"{repo}: commit {state.head} is not the pinned {parent}")
    return same


def _push(hub: Connection, target: _Target, options: PushOptions) -> Pushed:
    """Push one model, tag the commit and pin it; with `options.dry_run`, only return what a push would do."""
    package, repo, state = target.package, target.repo, target.state
    name, pin, files = package.entry.name, package.pin, package.files
    url = f"{hub.endpoint}/{repo}"
    if options.dry_run:
        return Pushed(name, repo, url, state.head if target.same else None, not target.same, tuple(files))
    commit, created, pull_request = state.head, False, None
    if not target.same:
        title = f"{name}, by rnnzoo {__version__}"
        stale = _stale_exports(hub, name, repo, state, files)
        commit, created, pull_request = commit_files(hub, repo, files, state, options, title, stale)
        if created and not has_files(hub, repo, commit, files, sizes_only=True):
            raise HubError(
                f"{repo}: the files of commit {commit} differ from those that were sent. Do not trust {hub.endpoint}."
            )
    if options.tag and state.tagged is None:
        tag = options.tag
        hub.call(f"{repo}: tag {tag}", lambda: hub.api.create_tag(repo, tag=tag, revision=commit))
        options.log(f"{name}: the tag {tag} is commit {commit}.")
    weights = Pin(repo=repo, revision=commit, files=pin.files, exports=pin.exports)
    pinned = pull_request is None and _pin(name, weights, options)
    return Pushed(name, repo, url, commit, created, tuple(files), pull_request, pinned)


def _stale_exports(
    hub: Connection, name: str, repo: str, state: RemoteState, files: Mapping[str, bytes]
) -> Collection[str]:
    """Return the names of exported files of the model in the repository that are not in `files`: they have other weights."""
    if state.head is None:
        return ()
    exports = {file_name(format, kind, name) for format, row in FORMATS.items() for kind in row.graphs}
    exports |= {f"{stem}.bin" for stem in (name, f"{name}.step")}  # of OpenVINO
    return hub.listing(repo, sorted(exports - files.keys()), state.head).keys()


def _pin(name: str, weights: Pin, options: PushOptions) -> bool:
    """Write `weights`, the new pin of the model `name`, to cards/lock.json.

    Returns True if the file was changed. If the file cannot be written, log the pin and return False.
    """
    try:
        if not paths.PACKAGED:
            return lock.pin(name, weights)
        reason = "this is an installed package"
    except OSError as error:
        reason = error.strerror or str(error)
    options.log(
        f"{name}: cards/lock.json was not changed ({reason}). It should pin {weights.repo}, revision {weights.revision}."
    )
    return False
