"""Parses the name of a checkpoint: a model of the registry, a folder, or hf://org/name[@revision].

Only `Reference.parse` decides which of the three a text names. Nothing here imports torch or the Hub's client.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from .. import registry
from ..errors import RequestError
from ..registry.schema import PACKAGE_NAMESPACE, base
from ..utils.arguments import path_of, text_of

SCHEME = "hf://"
"""The beginning of the address of a repository on the Hub."""
REPO = re.compile(base.REPO)
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./+-]{0,199}")


def address(name: str) -> str:
    """Return by what everybody can load a model of the registry: its name, or hf://... in a zoo with a namespace of its own."""
    namespace = registry.load_registry().namespace
    return name if namespace in (None, PACKAGE_NAMESPACE) else f"{SCHEME}{namespace}/{name}"


@dataclass(frozen=True)
class Reference:
    """A parsed name of a checkpoint. Exactly one of `model`, `folder` and `repo` is set."""

    text: str
    """The name as the user wrote it."""
    model: str | None = None
    """A model of the registry."""
    folder: Path | None = None
    """An existing folder with a checkpoint."""
    repo: str | None = None
    """org/name of a repository on the Hub."""
    revision: str | None = None
    """A branch, tag or commit of the Hub. None means the pinned commit of a model, or the main branch of a repository."""

    @classmethod
    def parse(
        cls, text: str | os.PathLike[str], revision: str | None = None, *, bare_repo: bool = False
    ) -> "Reference":
        """Return the reference to the checkpoint that `text` names.

        A registered name is a model, even if a folder has that name. bare_repo: org/name without hf:// is a repository too,
        unless there is such a folder.

        Raises UnknownNameError for a word that names no model, and RequestError for a missing folder, a file, a malformed
        address or revision, two different revisions, or a revision of a folder.
        """
        text = path_of("The name of a checkpoint", text)
        if revision is not None:
            check_revision(revision)
        if text.startswith(SCHEME):
            return cls._repository(text, text.removeprefix(SCHEME), revision)
        if text in registry.models():
            return cls(text, model=text, revision=revision)
        if os.path.isdir(text):
            if revision is not None:
                raise RequestError(f"{text} is a folder, which has no revisions. Leave out the revision.")
            return cls(text, folder=Path(text))
        if bare_repo and REPO.fullmatch(text):
            return cls._repository(text, text, revision)
        if os.path.isfile(text):
            raise RequestError(f"{text} is a file. Give the folder that holds the checkpoint's files.")
        if os.sep in text:
            hint = (
                f" For the repository on the Hub, write {SCHEME}{text}" if REPO.fullmatch(text) else " Check the path."
            )
            raise RequestError(f"There is no folder {text!r}.{hint}")
        raise registry.unknown_model(text)

    @classmethod
    def to_folder(cls, folder: Path) -> "Reference":
        """Return the reference to the checkpoint in `folder`, even if a model of the registry has the folder's name."""
        return cls(str(folder), folder=folder)

    @classmethod
    def _repository(cls, text: str, address: str, revision: str | None) -> "Reference":
        """Return the reference for `address`, which is org/name[@revision]. text: as the user wrote it."""
        repo, at, own_revision = address.partition("@")
        check_repo(repo)
        if not at:
            return cls(text, repo=repo, revision=revision)
        if revision not in (None, check_revision(own_revision)):
            raise RequestError(f"{text} and the revision {revision} contradict each other. Give only one revision.")
        return cls(text, repo=repo, revision=own_revision)


def can_exist(repo: str) -> bool:
    """Return whether `repo` is a valid org/name."""
    return REPO.fullmatch(repo) is not None and not ("--" in repo or ".." in repo or repo.endswith((".git", ".")))


def check_repo(repo: str) -> str:
    """Return `repo`. Raises RequestError unless it is a valid org/name, which is also safe as a path below a folder."""
    if not can_exist(text_of("The name of a repository", repo)):
        raise RequestError(f"{repo[:120]!r} is not the name of a repository. Such a name has the form org/name.")
    return repo


def check_revision(revision: str) -> str:
    """Return `revision`. Raises RequestError unless it is a valid branch, tag or commit.

    A valid revision is also safe as a path below a folder.
    """
    if (
        not REVISION.fullmatch(text_of("A revision", revision))
        or ".." in revision
        or "//" in revision
        or revision.endswith(("/", ".lock"))
    ):
        raise RequestError(f"{revision[:120]!r} is not a revision. Give a branch, a tag or a commit.")
    return revision
