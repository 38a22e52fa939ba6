"""Which Hub to use and how long to try, read from the environment at every use."""

import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...errors import RequestError
from ...registry.schema import base

PUBLIC = "https://huggingface.co"
TIMEOUT = 60.0
"""Seconds to keep trying while the Hub fails or does not answer."""
COMMIT = re.compile(base.COMMIT)


@dataclass(frozen=True)
class Settings:
    """Which Hub to use and how long to try. The token is not kept here: the client reads it when it sends a request."""

    endpoint: str
    timeout: float = TIMEOUT
    """Seconds to keep trying."""


def current(timeout: float | None = None) -> Settings:
    """Return the settings of the environment. Raises RequestError for an HF_ENDPOINT that is neither encrypted nor local."""
    return Settings(_endpoint(), TIMEOUT if timeout is None else timeout)


def _endpoint() -> str:
    """HF_ENDPOINT, checked, or the public Hub."""
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or PUBLIC
    try:
        url = urlsplit(endpoint)
        host, _ = url.hostname, url.port  # an invalid port raises ValueError
    except ValueError:
        host = None
    if host is None or url.scheme not in ("http", "https") or url.query or url.fragment:
        raise RequestError("HF_ENDPOINT is not the address of a Hub. It looks like https://huggingface.co.")
    if url.username is not None or url.password is not None:
        raise RequestError("HF_ENDPOINT has a name or password in it. Leave it out; a token goes into HF_TOKEN.")
    if url.scheme == "http" and not loopback(host):
        raise RequestError(f"HF_ENDPOINT is {endpoint}, which is not encrypted. Use https://{host}.")
    return endpoint


def loopback(host: str) -> bool:
    """Return whether a host is this machine, where unencrypted traffic is safe."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def offline() -> bool:
    """Return whether HF_HUB_OFFLINE forbids requests."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)
