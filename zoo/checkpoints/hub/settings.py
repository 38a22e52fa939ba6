"""Which Hub, how patiently, and what must never be shown: read from the environment and checked at every use."""

import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...errors import RequestError
from ...registry.schema import base
from ...utils.redaction import has_secret as has_secret
from ...utils.redaction import redact as redact

PUBLIC = "https://huggingface.co"
TIMEOUT = 60.0
"""Seconds to go on trying while the Hub does not answer or fails."""
COMMIT = re.compile(base.COMMIT)


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
