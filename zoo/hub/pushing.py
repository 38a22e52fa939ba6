"""Checkpoints to the Hub: who may write is asked first, then one commit of a list of files, on the commit we know.

What is sent was held against its pin, so the pin needs only the new commit afterwards, and a server cannot change it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .. import __version__, assets, pins, registry
from ..errors import AccessError, ChangedError, HubError, MissingError, NetworkError, RequestError, ZooError
from ..specs import Weights
from . import settings
from .browsing import Identity, identity
from .digests import git_sha1, sha256_of
from .failures import changed
from .package import Package, pack
from .remote import SAY, Connection, Say

MAIN = "main"


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


@dataclass(frozen=True)
class Way:
    """How to push."""

    namespace: str | None = None
    """Instead of the pinned one."""
    private: bool = False
    """If the repository has to be made."""
    revision: str | None = None
    """A branch, made if need be, instead of main."""
    create_pr: bool = False
    dry_run: bool = False
    tag: str | None = None
    force: bool = False
    """Push though the remote has commits that the pin does not know of."""
    timeout: float | None = None
    say: Say = SAY

    def __post_init__(self) -> None:
        for name in (self.revision, self.tag):
            if name is not None:
                settings.check_revision(name)
        if self.namespace is not None:
            settings.check_repo(f"{self.namespace}/x")
        if self.create_pr and (self.revision not in (None, MAIN) or self.tag):
            raise RequestError("A pull request is to main, and has no tag yet: leave out --revision and --tag.")
        if settings.COMMIT.fullmatch(self.revision or ""):
            raise RequestError("--revision is a commit; what can be pushed to is a branch.")

    @property
    def branch(self) -> str:
        return self.revision or MAIN


def push(names: Sequence[str], way: Way | None = None) -> list[Pushed]:
    """Push registered models, each to its own repository, in one commit each; nothing is sent if any of them cannot be.

    A remote that has the same bytes gets no commit. Afterwards registry.yaml pins the commit, for review, unless it is a
    pull request. Raises UnknownNameError, CheckpointError for what must not be pushed, AccessError, ChangedError if the
    remote has commits that the pin does not know of, and the other kinds of HubError. If the Hub fails on the way, or the
    user does not wait, `way.say` is told what has been pushed.
    """
    way = way or Way()
    packages = [pack(registry.find(name)) for name in names]
    with Connection(settings.current(way.timeout), way.say) as hub:
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
                    way.say(f"{row.name} was pushed: {row.pull_request or row.url}, commit {row.commit}{pinned}.")
            raise
        return done


def _repo(package: Package, way: Way) -> str:
    pinned = package.pin.repo
    return settings.check_repo(f"{way.namespace}/{package.entry.name}" if way.namespace else pinned)


@dataclass(frozen=True)
class State:
    """A remote repository as it was found."""

    exists: bool
    head: str | None
    """Commit of the branch, none if there is no branch."""
    tagged: str | None = None
    """Commit of the tag that is to be set."""


def look(hub: Connection, repo: str, way: Way, who: Identity) -> State:
    """Whether this user may write to a repository, and where it is. Nothing is changed."""
    try:
        hub.call(repo, lambda: hub.api.auth_check(repo, write=True))
    except MissingError:
        if repo.split("/")[0] not in (who.name, *who.orgs):
            hint = f"--namespace {who.name} pushes to your own"
            raise AccessError(f"{repo}: {who.name} is not in {repo.split('/')[0]}; {hint}.") from None
        return State(False, None)
    tags = _tags(hub, repo) if way.tag else {}
    return State(True, tip(hub, repo, way.branch), tags.get(way.tag or ""))


def tip(hub: Connection, repo: str, branch: str) -> str | None:
    """The commit that a branch is at; None of one that there is not."""
    try:
        return hub.call(f"{repo}@{branch}", lambda: hub.api.model_info(repo, revision=branch)).sha
    except MissingError:
        return None


def _tags(hub: Connection, repo: str) -> dict[str, str]:
    return {tag.name: tag.target_commit for tag in hub.call(repo, lambda: hub.api.list_repo_refs(repo)).tags}


def _same(hub: Connection, package: Package, repo: str, state: State, way: Way) -> bool:
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


def _push(hub: Connection, package: Package, repo: str, state: State, same: bool, way: Way) -> Pushed:
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


def _pin(name: str, weights: Weights, way: Way) -> bool:
    """Write a pin to registry.yaml; where that cannot be, say what it would be."""
    try:
        if not assets.PACKAGED:
            return pins.write(name, weights)
        why = "this is an installed package"
    except OSError as error:
        why = error.strerror or str(error)
    way.say(f"{name}: registry.yaml is as it was ({why}). Its pin is now {weights.repo}, revision {weights.revision}.")
    return False


def send(
    hub: Connection, repo: str, files: Mapping[str, bytes], state: State, way: Way, message: str
) -> tuple[str, bool, str | None]:
    """Make the repository and the branch if need be, and one commit; its name, whether it is new, and its pull request.

    An answer that is lost is looked for: the commit is tried again only on the same parent, so it is made once. One for a
    pull request has the same parent still, so it is not tried again.
    """
    from huggingface_hub import CommitOperationAdd

    if state.exists and way.private:
        way.say(f"{repo} exists: --private is for one that has to be made, and changes nothing.")
    if not state.exists:
        hub.call(repo, lambda: hub.api.create_repo(repo, private=way.private, exist_ok=True))
    if state.head is None and way.branch != MAIN:
        hub.call(f"{repo}: branch {way.branch}", lambda: hub.api.create_branch(repo, branch=way.branch, exist_ok=True))
    head = state.head or tip(hub, repo, way.branch)

    def commit() -> tuple[str, bool, str | None]:
        operations = [CommitOperationAdd(path_in_repo=name, path_or_fileobj=data) for name, data in files.items()]
        made = hub.api.create_commit(
            repo, operations, commit_message=message, revision=way.branch, parent_commit=head, create_pr=way.create_pr
        )
        if not settings.COMMIT.fullmatch(made.oid):
            raise HubError(f"{repo}: {hub.endpoint} gives a commit that is not hexadecimal; refused.")
        return made.oid, made.oid != head, made.pr_url

    try:
        with _no_bars():
            return hub.call(repo, commit, once=way.create_pr)
    except (ChangedError, NetworkError) as error:  # somebody else was faster, or we were and did not hear of it
        if way.create_pr and isinstance(error, NetworkError):
            raise NetworkError(
                f"{error} The pull request may be there all the same: look before you try again."
            ) from error
        now = tip(hub, repo, way.branch)
        if now is not None and now != head and holds(hub, repo, now, files):
            return now, isinstance(error, NetworkError), None
        raise


@contextmanager
def _no_bars() -> Iterator[None]:
    """Without the bars of the client, which it draws whether or not anybody is there to see them."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def holds(hub: Connection, repo: str, commit: str, files: Mapping[str, bytes], sizes_only: bool = False) -> bool:
    """Whether a commit has these files, by size and digest; sizes_only: of small ones not the digest, which is git's."""
    there = hub.listing(repo, list(files), commit)
    for name, content in files.items():
        entry = there.get(name)
        if entry is None or entry.size != len(content):
            return False
        if entry.lfs is not None and entry.lfs.sha256 != sha256_of(content):
            return False
        if entry.lfs is None and not sizes_only and entry.blob_id != git_sha1(content):
            return False
    return True
