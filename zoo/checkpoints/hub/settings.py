"""Which Hub, how patiently, and what must never be shown: read from the environment and checked at every use."""

import ipaddress
import os
import re
import sys
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...errors import RequestError
from ...registry.schema import base

PUBLIC = "https://huggingface.co"
TIMEOUT = 60.0
"""Seconds to go on trying while the Hub does not answer or fails."""
SECRET = re.compile(r"hf_[A-Za-z0-9]{12,}")
"""What a token of the Hub looks like."""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
REPO = re.compile(base.REPO)
REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./+-]{0,199}")
COMMIT = re.compile(base.COMMIT)
SCHEME = "hf://"


@dataclass(frozen=True)
class Settings:
    """What a conversation with the Hub goes by. The token is not here: the client reads it when it sends it."""

    endpoint: str
    timeout: float = TIMEOUT


def current(timeout: float | None = None) -> Settings:
    """The settings of the environment; RequestError for an endpoint that is not encrypted and not this machine."""
    return Settings(_endpoint(), TIMEOUT if timeout is None else timeout)


def _endpoint() -> str:
    """HF_ENDPOINT, or the public Hub."""
    given = os.environ.get("HF_ENDPOINT", "").rstrip("/") or PUBLIC
    try:
        url = urlsplit(given)
        host, _ = url.hostname, url.port
    except ValueError:
        host = None
    if host is None or url.scheme not in ("http", "https") or url.query or url.fragment:
        raise RequestError("HF_ENDPOINT is not the address of a Hub. It looks like https://huggingface.co.")
    if url.username is not None or url.password is not None:
        raise RequestError("HF_ENDPOINT has a name or password in it. Leave it out; a token goes into HF_TOKEN.")
    if url.scheme == "http" and not loopback(host):
        raise RequestError(f"HF_ENDPOINT is {given}, which is not encrypted. Use https://{host}.")
    return given


def loopback(host: str) -> bool:
    """Whether a host is this machine, where plain http shows nothing to anybody."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def offline() -> bool:
    """Whether HF_HUB_OFFLINE (or the client's own setting) forbids requests."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def redact(text: str) -> str:
    """`text` without anything that is, or looks like, a token, and without what would steer a terminal."""
    for secret in _secrets():
        text = text.replace(secret, "***")
    text = SECRET.sub("***", text)
    return CONTROL.sub("?", text)


def has_secret(text: str) -> bool:
    """Whether a token, or what looks like one, is in `text`."""
    return SECRET.search(text) is not None or any(secret in text for secret in _secrets())


def _secrets() -> list[str]:
    """The tokens that a request could carry: of the environment, and of the file that `hf auth login` writes, which
    nobody has read before the client was imported."""
    client = sys.modules.get("huggingface_hub")
    found = [os.environ.get("HF_TOKEN"), os.environ.get("HUGGING_FACE_HUB_TOKEN"), client and client.get_token()]
    return [token.strip() for token in found if token and len(token.strip()) >= 4]


def check_repo(repo: str) -> str:
    """`repo`, if it can be the name of a repository: org/name."""
    if not REPO.fullmatch(repo) or "--" in repo or ".." in repo or repo.endswith((".git", ".")):
        raise RequestError(f"{repo[:120]!r} is not the name of a repository, which looks like org/name.")
    return repo


def check_revision(revision: str) -> str:
    """`revision`, if it can be the name of a branch, a tag or a commit and no path leads out of a folder by it."""
    if not REVISION.fullmatch(revision) or ".." in revision or "//" in revision or revision.endswith(("/", ".lock")):
        raise RequestError(f"{revision[:120]!r} is not a revision: a branch, a tag or a commit.")
    return revision


def address(text: str) -> tuple[str, str | None] | None:
    """Repository and revision of hf://org/name[@revision]; None of anything that does not begin so."""
    if not text.startswith(SCHEME):
        return None
    repo, at, revision = text.removeprefix(SCHEME).partition("@")
    return check_repo(repo), check_revision(revision) if at else None
