"""Holds the settings of the Hub, among them TIMEOUT, the default time limit, which `budget` counts and `guard` enforces.

The other settings are read from the environment at each use. The client reads the token when it sends a request.
"""

import ipaddress
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...errors import RequestError, first_line
from ...registry.schema import base
from ...utils import files

PUBLIC = "https://huggingface.co"
TIMEOUT = 60.0
"""Seconds that all requests for one model may take together. File transfers that advance do not count (see Budget)."""
NUMBERS = ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT")
"""Environment variables that the client reads, when it is imported, as whole numbers of seconds."""
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


def constants() -> Any:
    """Return the client's module of constants, which it reads from the environment when it is imported.

    Raises RequestError for variables that the client cannot read.
    """
    endpoint()
    for name in NUMBERS:
        value = os.environ.get(name, "").strip()
        if value and not re.fullmatch("[0-9]{1,9}", value):
            raise RequestError(
                f"{name} is {value[:50]!r}, which is not a whole number of seconds. Correct or unset it."
            )
    try:
        from huggingface_hub import constants
    except ValueError as error:
        names = ", ".join(sorted(name for name in os.environ if name.startswith("HF_"))) or "none is set"
        raise RequestError(
            f"An environment variable that begins with HF_ is invalid ({first_line(error)}). Correct or unset it. These "
            f"are set: {names}."
        ) from error
    return constants


def check_certificates() -> None:
    """Raise RequestError if SSL_CERT_FILE names a file that cannot be read. OpenSSL would ignore it silently."""
    if path := os.environ.get("SSL_CERT_FILE"):
        try:
            files.open_regular(Path(path)).close()
        except OSError as error:
            text = f"SSL_CERT_FILE is {path}, which cannot be read ({error.strerror}). Correct or unset it."
            raise RequestError(text) from error


def offline() -> bool:
    """Return whether HF_HUB_OFFLINE forbids requests."""
    return bool(constants().HF_HUB_OFFLINE)
