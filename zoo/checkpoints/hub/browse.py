"""Looks at the Hub without changing it: the owner of the token, the models of a namespace, the files of a repository."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import registry
from ...errors import MissingError
from ...registry.schema import Config
from ...utils.text import one_line
from .. import configs, results, tensors
from ..references import can_exist
from .client import MAIN, Connection
from .digests import damage
from .settings import COMMIT


@dataclass(frozen=True)
class Identity:
    """The owner of the token that a push would use."""

    endpoint: str
    name: str
    orgs: tuple[str, ...]
    role: str | None
    """The role of the token: read, write or fineGrained; None if the Hub does not say."""

    @property
    def may_write(self) -> bool:
        """False if the role rules out writing. For other roles the Hub decides for each repository."""
        return self.role != "read"


def identity(connection: Connection) -> Identity:
    """Return the owner of the token. Raises AccessError if there is no token (without a request) or the Hub rejects it."""
    return connection.call("login", lambda: _identity(connection.endpoint, connection.api.whoami()))


def _identity(endpoint: str, answer: dict[str, Any]) -> Identity:
    token = (answer.get("auth") or {}).get("accessToken") or {}
    orgs = tuple(one_line(o["name"]) for o in answer.get("orgs") or () if "name" in o)
    return Identity(endpoint, one_line(answer.get("name", "?")), orgs, token.get("role"))


def login(timeout: float | None = None) -> Identity:
    """Return the owner of the token that a push would use. Raises the errors of `identity`, and NetworkError."""
    with Connection(timeout) as connection:
        return identity(connection)


@dataclass(frozen=True)
class Remote:
    """What the Hub says about a model, unverified."""

    repo: str
    revision: str | None
    """Commit of the main branch."""
    private: bool | None
    modified: str | None
    """Date of the last change, ISO 8601."""
    task: str | None
    tags: tuple[str, ...]


def catalogue(namespace: str, timeout: float | None = None) -> list[Remote]:
    """Return the models of this library in a namespace of the Hub, sorted by name. Raises HubError.

    Models whose names are not valid org/name addresses are left out.
    """
    with Connection(timeout) as connection:
        list_models = connection.api.list_models
        pinned = registry.load_lock().commits

        def ours() -> list[Remote]:
            models = list_models(author=namespace, full=True, cardData=True)
            found = [info for info in models if info.id in pinned or _names_this_library(info)]
            return [_remote(info) for info in found if can_exist(info.id)]

        return sorted(connection.call(f"models of {namespace}", ours), key=lambda remote: remote.repo)


def _names_this_library(info: Any) -> bool:
    """Return whether a repository's card or tags name this library."""
    card = getattr(info, "card_data", None)
    libraries = (getattr(info, "library_name", None), getattr(card, "library_name", None))
    return "rnnzoo" in (*libraries, *(getattr(info, "tags", None) or ()))


def _remote(info: Any) -> Remote:
    sha, private, modified, task, tags = (
        getattr(info, name, None) for name in ("sha", "private", "last_modified", "pipeline_tag", "tags")
    )
    words = tuple(map(one_line, tags or ()))
    if not (sha is None or COMMIT.fullmatch(sha)) or not (private is None or isinstance(private, bool)):
        raise TypeError(f"{one_line(info.id)} has an invalid commit or visibility")
    return Remote(one_line(info.id), sha, private, modified and modified.isoformat(), task and one_line(task), words)


@dataclass(frozen=True)
class Description:
    """A repository on the Hub: what the Hub says about it, and its config.json and results.json, read strictly.

    Evaluations of other weights than those of the repository are left out.
    """

    remote: Remote
    files: dict[str, int | None]
    """Size of each file by name, in bytes."""
    config: Config
    evaluations: tuple[results.Evaluation, ...]


def describe(repo: str, revision: str | None, timeout: float | None = None) -> Description:
    """Return a description of a repository, without downloading the weights. revision: default main.

    Raises HubError for failures of the Hub, and CheckpointError for an invalid config.json or results.json.
    """
    with Connection(timeout) as connection:
        subject, model_info = repo if revision is None else f"{repo}@{revision}", connection.api.model_info

        def look() -> tuple[Remote, dict[str, int | None], str | None]:
            info = model_info(repo, revision=revision, files_metadata=True)
            siblings = {one_line(file.rfilename): file for file in info.siblings or ()}
            stored = getattr(siblings.get(tensors.FILE), "lfs", None)
            return _remote(info), {name: file.size for name, file in siblings.items()}, stored and stored.sha256

        remote, files, weights_sha256 = connection.call(subject, look)
        commit = remote.revision or connection.commit(repo, revision or MAIN)

        def download(name: str) -> Path:
            path = connection.download(repo, name, commit, limit=configs.MAX_BYTES)
            if damage(path):  # in the cache
                path = connection.download(repo, name, commit, limit=configs.MAX_BYTES, force=True)
            return path

        config = configs.read(download(configs.FILE))
        try:
            evaluations = results.parse(download(results.FILE)).of_weights(weights_sha256).evaluations
        except MissingError:
            evaluations = ()
    return Description(remote, files, config, evaluations)
