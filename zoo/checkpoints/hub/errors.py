"""What went wrong between us and the Hub, in plain words: exceptions of the client and of its HTTP library in, ours out."""

import errno
import socket
from collections.abc import Iterator

from ...errors import (
    AccessError,
    ChangedError,
    HubError,
    MissingError,
    NetworkError,
    StorageError,
    ZooError,
    first_line,
)
from ...utils.redaction import redact
from . import client_internals

CLIENT_ERRORS = (OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, AssertionError)
"""What the client raises for a bad answer, besides the errors of its HTTP library: its parsers trust the server."""
BUSY = (408, 429, 500, 502, 503, 504)


def explain(error: BaseException, subject: str, endpoint: str) -> tuple[ZooError, bool]:
    """Our error for one of the client's, and whether trying again may help. subject: what it was about."""
    chain = list(_chain(error))
    for found in chain:
        if isinstance(found, ZooError):  # raised by one of our hooks, wrapped by the client
            return found, False
    for found in chain:
        if (answer := getattr(found, "response", None)) is not None:
            return _refusal({cls.__name__ for cls in type(found).__mro__}, answer, subject, endpoint)
    names = {cls.__name__ for found in chain for cls in type(found).__mro__}
    if "OfflineModeIsEnabled" in names:
        return NetworkError(f"{subject}: not in the cache, and HF_HUB_OFFLINE is set. Unset it and try again."), False
    if "LocalTokenNotFoundError" in names:
        text = "There is no token to push with. Make one with write access: hf auth login, or set HF_TOKEN."
        return AccessError(text), False
    if "TimeoutException" in names:
        return NetworkError(f"{subject}: {endpoint} does not answer in time. Check the network."), True
    if "ConnectError" in names or "ProxyError" in names:
        # a name that is unknown, after all the tries of the client, will not be known in a moment
        unknown = any(isinstance(found.__context__, socket.gaierror) for found in chain)
        return NetworkError(f"{subject}: {endpoint} cannot be reached. Check the network and HF_ENDPOINT."), not unknown
    if "TransportError" in names:
        return NetworkError(f"{subject}: the connection broke off ({_line(chain[-1])})."), True
    for found in chain:
        if isinstance(found, OSError) and found.errno is not None:
            return storage(found), False
    if "FileMetadataError" in names:
        return HubError(
            f"{subject}: {endpoint} does not answer as a Hub does. Check HF_ENDPOINT and the network."
        ), False
    if client_internals.BROKEN_DOWNLOAD in str(error):
        return NetworkError(f"{subject}: came incomplete ({_line(error).partition(': ')[2]})."), True
    return HubError(f"{subject}: {endpoint} gave an answer that makes no sense ({_line(chain[-1])})."), False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, outermost first."""
    found: BaseException | None = error
    for _ in range(10):
        if found is None:
            return
        yield found
        found = found.__cause__


def _refusal(kinds: set[str], answer: object, subject: str, endpoint: str) -> tuple[ZooError, bool]:
    """What an answer of an error status means."""
    status = getattr(answer, "status_code", 0)
    said = _said(answer)
    what = f"{subject}: "
    if "GatedRepoError" in kinds:
        return AccessError(f"{what}gated. Ask for access on {endpoint}, then log in (hf auth login)."), False
    if "RevisionNotFoundError" in kinds:
        return MissingError(f"{what}there is no such revision on {endpoint}."), False
    if "EntryNotFoundError" in kinds:
        return MissingError(f"{what}the repository has no such file at this revision.", exit_code=1), False
    if "RepositoryNotFoundError" in kinds:
        hint = (
            "It does not exist, or is private and your token (none, perhaps) may not see it; see rnnzoo login-status."
        )
        return MissingError(f"{what}no such repository on {endpoint}. {hint}"), False
    if status == 401:
        return AccessError(
            f"{what}the Hub does not accept your token. Make a new one: hf auth login, or HF_TOKEN."
        ), False
    if status == 403:
        return AccessError(f"{what}your token may not do that{said}. rnnzoo login-status says who you are."), False
    if status == 404:
        return MissingError(f"{what}not found on {endpoint}{said}."), False
    if status == 409:
        return ChangedError(
            f"{what}is there already, or somebody else is changing it{said}. Look at it, then try again."
        ), False
    if status == 412:
        return changed(subject), False
    if status in BUSY:
        return NetworkError(f"{what}{endpoint} fails ({status}{said})."), True
    return HubError(f"{what}{endpoint} refuses ({status}{said})."), False


def _said(answer: object) -> str:
    text = getattr(answer, "headers", {}).get("X-Error-Message") or ""
    return f": {redact(text)[:200].splitlines()[0].rstrip('.')}" if text.strip() else ""


def _line(error: BaseException) -> str:
    """The first line of an error's text, short, without secrets."""
    return redact(first_line(error))[:200].rstrip(".")


def changed(subject: str) -> ChangedError:
    """The remote repository has a commit that we do not know of."""
    return ChangedError(f"{subject}: the remote has changed. Look at it, then pull, or push again with --force.")


WHY = {
    errno.ENOSPC: "no space is left",
    errno.EDQUOT: "your quota is used up",
    errno.EROFS: "it is read-only",
    errno.EACCES: "you may not write there",
    errno.EPERM: "you may not write there",
    errno.ENOTDIR: "a file is where a folder should be",
    errno.EEXIST: "a file is where a folder should be",
}


def storage(error: OSError, remedy: str = "Make room, or set HF_HOME to a folder that can be written.") -> StorageError:
    """A file that cannot be written, usually in the client's cache."""
    from huggingface_hub import constants

    why = WHY.get(error.errno or 0, error.strerror or str(error))
    where = error.filename or constants.HF_HUB_CACHE
    return StorageError(f"{where}: {why}. {remedy}")
