"""Sends files to a repository in one commit. The Hub refuses it if the branch has moved since its commit was read."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...errors import AccessError, ChangedError, HubError, MissingError, NetworkError, RequestError
from ..references import check_repo, check_revision
from . import client_internals, settings
from .browse import Identity
from .client import LOG, MAIN, Connection, Log
from .digests import git_sha1

if TYPE_CHECKING:
    from huggingface_hub import RepoFile


@dataclass(frozen=True)
class PushOptions:
    """Options of a push. Raises RequestError for contradicting options, and for invalid names of branch, tag or namespace."""

    namespace: str | None = None
    """A user or organisation to push to, instead of the pinned repository's."""
    private: bool = False
    """Make a new repository private."""
    revision: str | None = None
    """A branch to push to instead of main, created if needed."""
    create_pr: bool = False
    dry_run: bool = False
    tag: str | None = None
    force: bool = False
    """Push even if the branch on the Hub has commits after the pinned one."""
    timeout: float | None = None
    log: Log = LOG

    def __post_init__(self) -> None:
        for name in (self.revision, self.tag):
            if name is not None:
                check_revision(name)
        if self.namespace is not None:
            check_repo(f"{self.namespace}/x")
        if self.create_pr and (self.revision not in (None, MAIN) or self.tag):
            raise RequestError(
                "--create-pr opens a pull request to main, without a tag: leave out --revision and --tag."
            )
        if self.tag is not None and (self.tag == self.branch or settings.COMMIT.fullmatch(self.tag)):
            raise RequestError(f"--tag is {self.tag}, the name of a branch or commit. Choose another, such as v1.0.")
        if settings.COMMIT.fullmatch(self.revision or ""):
            raise RequestError(f"--revision is the commit {self.revision}. Give a branch to push to.")

    @property
    def branch(self) -> str:
        return self.revision or MAIN


@dataclass(frozen=True)
class RemoteState:
    """A remote repository before a push."""

    exists: bool
    head: str | None
    """Commit of the branch to push to; None if there is no such branch."""
    tagged: str | None = None
    """Commit of the tag to set; None if there is no such tag."""


class Commit(NamedTuple):
    """The commit that `commit_files` made, or an existing commit that has the same files."""

    oid: str
    created: bool
    """False if the remote had the same content already."""
    pull_request: str | None
    """Address of the pull request; None if none was opened."""


def remote_state(connection: Connection, repo: str, options: PushOptions, user: Identity) -> RemoteState:
    """Return the state of a repository, without changing it. Raises AccessError unless `user` may write to or create it."""
    try:
        connection.call(repo, lambda: connection.api.auth_check(repo, write=True))
    except MissingError:
        namespace = repo.split("/")[0]
        if namespace not in (user.name, *user.orgs):
            raise AccessError(
                f"{repo}: {user.name} is not a member of {namespace}. To push to your own account: --namespace {user.name}"
            ) from None
        return RemoteState(False, None)
    tags = connection.call(repo, lambda: connection.api.list_repo_refs(repo)).tags if options.tag else []
    tagged = next((tag.target_commit for tag in tags if tag.name == options.tag), None)
    return RemoteState(True, branch_head(connection, repo, options.branch), tagged)


def branch_head(connection: Connection, repo: str, branch: str) -> str | None:
    """Return the commit that a branch is at; None if there is no such branch."""
    try:
        return connection.call(f"{repo}@{branch}", lambda: connection.api.model_info(repo, revision=branch)).sha
    except MissingError:
        return None


def commit_files(
    connection: Connection, repo: str, files: Mapping[str, bytes], state: RemoteState, options: PushOptions, message: str,
    deleted: Collection[str] = (),
) -> Commit:  # fmt: skip
    """Create the repository and the branch if needed, make one commit of `files`, and return the commit.

    deleted: names of files that the repository has and that the commit deletes.

    If the Hub's answer is lost, the commit is tried again on the same parent, so it is made only once. A pull request is not
    tried again, because it could be opened twice. Raises ChangedError if somebody else pushed after `state` was read, and
    HubError for other failures.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    api = connection.api
    if state.exists and options.private:
        options.log(f"{repo} exists already, so --private changes nothing.")
    if not state.exists:
        connection.call(repo, lambda: api.create_repo(repo, private=options.private, exist_ok=True))
    if state.head is None and options.branch != MAIN:
        subject = f"{repo}: branch {options.branch}"
        connection.call(subject, lambda: api.create_branch(repo, branch=options.branch, exist_ok=True))
    parent = state.head or branch_head(connection, repo, options.branch)

    def commit() -> Commit:
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            CommitOperationAdd(path_in_repo=name, path_or_fileobj=data) for name, data in files.items()
        ]
        operations += [CommitOperationDelete(path_in_repo=name) for name in deleted]
        info = api.create_commit(
            repo, operations, commit_message=message, revision=options.branch, parent_commit=parent,
            create_pr=options.create_pr,
        )  # fmt: skip
        if not settings.COMMIT.fullmatch(info.oid):
            raise HubError(
                f"{repo}: {connection.endpoint} answered with a commit that is not hexadecimal. Look on the Hub whether the "
                "push arrived."
            )
        return Commit(info.oid, info.oid != parent, info.pr_url)

    try:
        with client_internals.without_progress_bars():
            return connection.call(repo, commit, once=options.create_pr)
    except (ChangedError, NetworkError) as error:
        lost = isinstance(error, NetworkError)  # perhaps the commit was made, and only the answer was lost
        connection.renew()  # time to find out whether it was made
        if options.create_pr and lost:
            raise NetworkError(
                f"{error} The pull request may exist nevertheless: look on the Hub before you try again."
            ) from error
        head = branch_head(connection, repo, options.branch)
        if head is None or head == parent or not has_files(connection, repo, head, files):
            raise
        if deleted and connection.listing(repo, list(deleted), head):
            raise
        return Commit(head, created=lost, pull_request=None)


def has_files(
    connection: Connection, repo: str, commit: str, files: Mapping[str, bytes], sizes_only: bool = False
) -> bool:
    """Return whether a commit has these files, compared by size and digest.

    sizes_only: compare small files, for which the Hub has git's sha1, by size only.
    """

    def is_same(remote: "RepoFile | None", content: bytes) -> bool:
        if remote is None or remote.size != len(content):
            return False
        if remote.lfs is not None:
            return remote.lfs.sha256 == hashlib.sha256(content).hexdigest()
        return sizes_only or remote.blob_id == git_sha1(content)

    remote_files = connection.listing(repo, list(files), commit)
    return all(is_same(remote_files.get(name), content) for name, content in files.items())
