"""Settings of the Hub, read from the environment at each use. The client itself reads the token when it sends a request."""

import ipaddress
import os
import re
from urllib.parse import urlsplit

from ...errors import RequestError
from ...registry.schema import base

PUBLIC = "https://huggingface.co"
TIMEOUT = 60.0
"""Seconds that all requests for one model may take, besides the time of files that keep coming."""
COMMIT = re.compile(base.COMMIT)


def endpoint() -> str:
    """Return the Hub's address: HF_ENDPOINT or, by default, the public Hub.

    Raises RequestError for an invalid address, and for one that is neither encrypted nor local.
    """
    address = os.environ.get("HF_ENDPOINT", "").rstrip("/") or PUBLIC
    try:
        url = urlsplit(address)
        host, _ = url.hostname, url.port  # an invalid port raises ValueError
    except ValueError:
        host = None
    if host is None or url.scheme not in ("http", "https") or url.query or url.fragment:
        raise RequestError("HF_ENDPOINT is not the address of a Hub. Give an address such as https://huggingface.co.")
    if url.username is not None or url.password is not None:
        raise RequestError("HF_ENDPOINT contains a user name or password. Leave it out; a token goes into HF_TOKEN.")
    if url.scheme == "http" and not is_loopback(host):
        raise RequestError(f"HF_ENDPOINT is {address}, which is not encrypted. Use https://{host}.")
    return address


def is_loopback(host: str) -> bool:
    """Return whether `host` is this machine, where unencrypted traffic is safe."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Return the scheme, host and port of a URL. A missing port becomes the scheme's default."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def offline() -> bool:
    """Return whether HF_HUB_OFFLINE forbids requests."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)
