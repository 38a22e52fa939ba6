"""One commit of a list of files to a repository: who may write is asked first, and the commit goes on the one we know."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ...errors import AccessError, ChangedError, HubError, MissingError, NetworkError, RequestError
from ..reference import check_repo, check_revision
from . import settings
from .browse import Identity
from .client import LOG, Connection, Log
from .digests import git_sha1, sha256_of

MAIN = "main"


@dataclass(frozen=True)
class PushOptions:
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
    log: Log = LOG

    def __post_init__(self) -> None:
        for name in (self.revision, self.tag):
            if name is not None:
                check_revision(name)
        if self.namespace is not None:
            check_repo(f"{self.namespace}/x")
        if self.create_pr and (self.revision not in (None, MAIN) or self.tag):
            raise RequestError("A pull request is to main, and has no tag yet: leave out --revision and --tag.")
        if settings.COMMIT.fullmatch(self.revision or ""):
            raise RequestError("--revision is a commit; what can be pushed to is a branch.")

    @property
    def branch(self) -> str:
        return self.revision or MAIN


@dataclass(frozen=True)
class State:
    """A remote repository as it was found."""

    exists: bool
    head: str | None
    """Commit of the branch, none if there is no branch."""
    tagged: str | None = None
    """Commit of the tag that is to be set."""


def look(hub: Connection, repo: str, way: PushOptions, who: Identity) -> State:
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


def send(
    hub: Connection, repo: str, files: Mapping[str, bytes], state: State, way: PushOptions, message: str
) -> tuple[str, bool, str | None]:
    """Make the repository and the branch if need be, and one commit; its name, whether it is new, and its pull request.

    An answer that is lost is looked for: the commit is tried again only on the same parent, so it is made once. One for a
    pull request has the same parent still, so it is not tried again.
    """
    from huggingface_hub import CommitOperationAdd

    if state.exists and way.private:
        way.log(f"{repo} exists: --private is for one that has to be made, and changes nothing.")
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
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

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
