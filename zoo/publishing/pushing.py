"""Checkpoints to the Hub: who may write is asked first, then one commit of a list of files, on the commit we know.

What is sent was held against its pin, so the pin needs only the new commit afterwards, and a server cannot change it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .. import registry
from ..checkpoints.hub import settings
from ..checkpoints.hub.browse import identity
from ..checkpoints.hub.client import Connection
from ..checkpoints.hub.errors import changed
from ..checkpoints.hub.upload import MAIN, PushOptions, State, holds, look, send
from ..checkpoints.reference import check_repo
from ..errors import AccessError, ChangedError, HubError, ZooError
from ..registry import lock
from ..registry.schema import Weights
from ..utils import paths
from ..utils.version import __version__
from .package import Package, pack


@dataclass(frozen=True)
class Pushed:
    """What a push did, or would do."""

    name: str
    repo: str
    url: str
    commit: str | None
    """That has these files now; none of a dry run that would make one."""
    created: bool
    """Whether a commit was made, or would be; not if the remote had the same bytes."""
    files: tuple[str, ...]
    pull_request: str | None = None
    pinned: bool = False
    """Whether registry.yaml was changed to the commit."""


def push(names: Sequence[str], way: PushOptions | None = None) -> list[Pushed]:
    """Push registered models, each to its own repository, in one commit each; nothing is sent if any of them cannot be.

    A remote that has the same bytes gets no commit. Afterwards registry.yaml pins the commit, for review, unless it is a
    pull request. Raises UnknownNameError, CheckpointError for what must not be pushed, AccessError, ChangedError if the
    remote has commits that the pin does not know of, and the other kinds of HubError. If the Hub fails on the way, or the
    user does not wait, `way.say` is told what has been pushed.
    """
    way = way or PushOptions()
    packages = [pack(registry.find(name)) for name in names]
    with Connection(settings.current(way.timeout), way.log) as hub:
        who = identity(hub)
        if not who.may_write:
            raise AccessError(f"The token of {who.name} can only read. Make one with write access: hf auth login.")
        targets = [(package, _repo(package, way)) for package in packages]
        states = [look(hub, repo, way, who) for _, repo in targets]
        same = [_same(hub, p, repo, state, way) for (p, repo), state in zip(targets, states, strict=True)]
        done: list[Pushed] = []
        try:
            for (package, repo), state, there in zip(targets, states, same, strict=True):
                done.append(_push(hub, package, repo, state, there, way))
        except (ZooError, KeyboardInterrupt):
            for row in done if not way.dry_run else ():
                if row.created:
                    pinned = ", which registry.yaml pins now" if row.pinned else ""
                    way.log(f"{row.name} was pushed: {row.pull_request or row.url}, commit {row.commit}{pinned}.")
            raise
        return done


def _repo(package: Package, way: PushOptions) -> str:
    pinned = package.pin.repo
    return check_repo(f"{way.namespace}/{package.entry.name}" if way.namespace else pinned)


def _same(hub: Connection, package: Package, repo: str, state: State, way: PushOptions) -> bool:
    """Whether the remote has these files already. Raises ChangedError if it has what a push must not replace."""
    pin, files = package.pin, package.files
    same = state.head is not None and holds(hub, repo, state.head, files)
    if way.tag and state.tagged is not None and not (same and state.tagged == state.head):
        raise ChangedError(f"{repo}: tag {way.tag} is at commit {state.tagged} already, and tags stay. Choose another.")
    if same or way.force or state.head is None or repo != pin.repo or way.branch != MAIN or way.create_pr:
        return same
    known = pin.revision or pin.replaces
    if known is None and hub.listing(repo, list(files), state.head):
        raise changed(f"{repo}: commit {state.head} has files of these names, and the registry pins no commit")
    if known not in (None, state.head):
        raise changed(f"{repo}: commit {state.head} is not the pinned {known}")
    return same


def _push(hub: Connection, package: Package, repo: str, state: State, same: bool, way: PushOptions) -> Pushed:
    name, pin, files = package.entry.name, package.pin, package.files
    url = f"{hub.endpoint}/{repo}"
    if way.dry_run:
        return Pushed(name, repo, url, state.head if same else None, not same, tuple(files))
    commit, created, pull_request = state.head, False, None
    if not same:
        commit, created, pull_request = send(hub, repo, files, state, way, f"{name}, by rnnzoo {__version__}")
        if created and not holds(hub, repo, commit, files, sizes_only=True):
            raise HubError(
                f"{repo}: the files of commit {commit} are not those that were sent. Do not trust that server."
            )
    if way.tag and state.tagged is None:
        tag = way.tag
        hub.call(f"{repo}: tag {tag}", lambda: hub.api.create_tag(repo, tag=tag, revision=commit))
    pinned = pull_request is None and _pin(name, Weights(repo=repo, revision=commit, files=pin.files), way)
    return Pushed(name, repo, url, commit, created, tuple(files), pull_request, pinned)


def _pin(name: str, weights: Weights, way: PushOptions) -> bool:
    """Write a pin to registry.yaml; where that cannot be, say what it would be."""
    try:
        if not paths.PACKAGED:
            return lock.pin(name, weights)
        why = "this is an installed package"
    except OSError as error:
        why = error.strerror or str(error)
    way.log(f"{name}: registry.yaml is as it was ({why}). Its pin is now {weights.repo}, revision {weights.revision}.")
    return False
