"""Looking at the Hub: who we are there, what it has, and what a repository says of itself. Nothing is changed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import registry
from ...errors import MissingError
from ...registry.schema import Config
from .. import configs, results
from . import settings
from .client import Connection

LIBRARY_NAME = "rnnzoo"


@dataclass(frozen=True)
class Identity:
    """Whose token it is that a push would use."""

    endpoint: str
    name: str
    orgs: tuple[str, ...]
    role: str | None
    """Of the token: read, write, fineGrained; none if the Hub does not say."""

    @property
    def may_write(self) -> bool:
        """As far as the role tells; the Hub decides for each repository."""
        return self.role != "read"


def identity(hub: Connection) -> Identity:
    """Whose token it is. AccessError if there is none, before any request, or if the Hub does not accept it."""
    said: dict[str, Any] = hub.call("login", hub.api.whoami)
    token = (said.get("auth") or {}).get("accessToken") or {}
    orgs = tuple(org["name"] for org in said.get("orgs") or () if isinstance(org, dict) and "name" in org)
    return Identity(hub.endpoint, str(said.get("name", "?")), orgs, token.get("role"))


def login(timeout: float | None = None) -> Identity:
    """Whose token a push would use now; raises AccessError and NetworkError."""
    with Connection(settings.current(timeout)) as hub:
        return identity(hub)


@dataclass(frozen=True)
class Remote:
    """A model on the Hub, as the Hub describes it; nothing of it is verified."""

    repo: str
    revision: str | None
    private: bool | None
    modified: str | None
    task: str | None
    tags: tuple[str, ...]


def catalogue(namespace: str, timeout: float | None = None) -> list[Remote]:
    """The models of a namespace on the Hub that are of this library, by name."""
    with Connection(settings.current(timeout)) as hub:
        found = hub.call(
            f"models of {namespace}", lambda: list(hub.api.list_models(author=namespace, full=True, cardData=True))
        )
    known = {pin.repo for pin in registry.load_lock().weights.values()}
    return sorted((_remote(info) for info in found if info.id in known or _ours(info)), key=lambda r: r.repo)


def _ours(info: Any) -> bool:
    card = getattr(info, "card_data", None)
    said = (getattr(info, "library_name", None), getattr(card, "library_name", None))
    return LIBRARY_NAME in (*said, *(getattr(info, "tags", None) or ()))


def _remote(info: Any) -> Remote:
    modified = getattr(info, "last_modified", None)
    return Remote(
        info.id, getattr(info, "sha", None), getattr(info, "private", None), modified and modified.isoformat(),
        getattr(info, "pipeline_tag", None), tuple(getattr(info, "tags", None) or ()),
    )  # fmt: skip


@dataclass(frozen=True)
class Description:
    """A repository on the Hub: what the Hub says, and its config.json and results.json, read strictly."""

    remote: Remote
    files: dict[str, int | None]
    """Sizes."""
    config: Config
    evaluations: tuple[results.Evaluation, ...]


def describe(repo: str, revision: str | None, timeout: float | None = None) -> Description:
    """What there is to know of a repository without its weights. Raises HubError, and CheckpointError for its files."""
    with Connection(settings.current(timeout)) as hub:
        subject = repo if revision is None else f"{repo}@{revision}"
        info = hub.call(subject, lambda: hub.api.model_info(repo, revision=revision, files_metadata=True))
        commit = info.sha or hub.commit(repo, revision or "main")

        def get(name: str) -> Path:
            return hub.download(repo, name, commit, limit=configs.MAX_BYTES)

        config = configs.read(get(configs.FILE))
        try:
            evaluations = results.parse(get(results.FILE)).evaluations
        except MissingError:
            evaluations = ()
    files = {sibling.rfilename: sibling.size for sibling in info.siblings or ()}
    return Description(_remote(info), files, config, evaluations)
