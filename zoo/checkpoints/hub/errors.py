"""Translates errors of huggingface_hub and its HTTP library into those of zoo.errors."""

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
from ...utils.text import redact
from . import client_internals

CLIENT_ERRORS = (OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, AssertionError, ImportError)
"""Errors that the client, which trusts the server, raises for a bad response, besides those of its HTTP library."""
BUSY = (408, 429, 500, 502, 503, 504)
"""Status codes of failures that may be temporary."""
BAD_RANGE = 416
"""Status code of a download that cannot continue where it broke off. The next try begins with the first byte."""
REFUSALS: dict[str | int, tuple[type[HubError], str]] = {
    "GatedRepoError": (
        AccessError,
        "this repository is gated. Ask for access on {endpoint}, then log in (hf auth login).",
    ),
    "RevisionNotFoundError": (
        MissingError,
        "there is no such revision on {endpoint}. Check the branch, tag or commit.",
    ),
    "EntryNotFoundError": (MissingError, "the repository has no such file at this revision."),
    "RepositoryNotFoundError": (
        MissingError,
        "no such repository on {endpoint}. It does not exist, or it is private and your token, if any, may not see it; "
        "check with rnnzoo whoami.",
    ),
    401: (AccessError, "the Hub does not accept your token. Use a new token: hf auth login, or HF_TOKEN."),
    403: (AccessError, "your token lacks a permission for this request{said}. rnnzoo whoami shows the token's owner."),
    404: (MissingError, "not found on {endpoint}{said}. Check the name."),
    409: (ChangedError, "exists already, or somebody else is changing it{said}. Look at the Hub, then try again."),
    412: (ChangedError, "the remote has changed. Look at the Hub, then pull, or push again with --force."),
}
"""The class and the message of rnnzoo's error, by the name of the client's error or by status code. The first match counts.

{said} is a colon and the server's explanation, if the server gives one."""
STORAGE_REASONS = {
    errno.ENOSPC: "no space is left",
    errno.EDQUOT: "your quota is used up",
    errno.EROFS: "it is read-only",
    errno.EACCES: "you may not write there",
    errno.EPERM: "you may not write there",
    errno.ENOTDIR: "a file is where a folder should be",
    errno.EISDIR: "a folder is where a file should be",
    errno.EEXIST: "a file is where a folder should be",
}


def explain(error: BaseException, subject: str, endpoint: str) -> tuple[ZooError, bool]:
    """Return (error, may_pass): rnnzoo's error for an error of the client, and whether trying again may help.

    subject: what the request was about; the message begins with it. The client's error classes are recognised by their
    names, because the HTTP library differs between versions of the client and must not be imported early.
    """
    chain = list(_causes(error))
    for each in chain:
        if isinstance(each, ZooError):  # the client wraps what our guard raises
            return each, False
    for each in chain:
        if (response := getattr(each, "response", None)) is not None:
            return _refusal(_class_names([each]), response, subject, endpoint)
    names = _class_names(chain)
    if {"ImportError", "InvalidURL"} & names or ("proxy" in str(error).lower() and "ValueError" in names):
        text = f"The proxy set in the environment cannot be used ({_line(chain[-1])}). Check HTTPS_PROXY and ALL_PROXY."
        return NetworkError(text), False
    if "OfflineModeIsEnabled" in names:
        return NetworkError(f"{subject}: this needs the Hub, but HF_HUB_OFFLINE is set. Unset it and try again."), False
    if "LocalTokenNotFoundError" in names:
        text = "There is no token to push with. Use a token with write access: hf auth login, or set HF_TOKEN."
        return AccessError(text), False
    if "TimeoutException" in names:
        return NetworkError(f"{subject}: {endpoint} does not answer in time. Check the network."), True
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        reason = str(error).partition("verify failed: ")[2].partition(" (_ssl")[0] or "it cannot be verified"
        text = (
            f"{subject}: {endpoint} has a certificate that this machine does not trust ({reason}). If that server is yours, set "
            "SSL_CERT_FILE to the file of its certificate."
        )
        return NetworkError(text), False
    if "ConnectError" in names or "ProxyError" in names:
        # the client has tried these several times already
        unknown_host, refused = context_has(socket.gaierror, error), context_has(ConnectionRefusedError, error)
        reason = " (there is no such host)" if unknown_host else " (it refuses the connection)" if refused else ""
        text = f"{subject}: {endpoint} cannot be reached{reason}. Check the network and HF_ENDPOINT."
        return NetworkError(text), not (unknown_host or refused)
    if "TransportError" in names:
        return NetworkError(f"{subject}: the connection broke off ({_line(chain[-1])}). Check the network."), True
    for each in chain:
        if isinstance(each, OSError) and each.errno is not None:
            return storage_error(each), False
    if "FileMetadataError" in names:
        text = f"{subject}: {endpoint} does not answer like a Hub. Check HF_ENDPOINT and the network."
        return HubError(text), False
    if client_internals.BROKEN_DOWNLOAD in str(error):
        return NetworkError(f"{subject}: the download was incomplete ({_line(error).partition(': ')[2]})."), True
    return HubError(
        f"{subject}: {endpoint} gave an answer that rnnzoo cannot read ({_line(chain[-1])}). Check HF_ENDPOINT."
    ), False


def _refusal(names: set[str], response: object, subject: str, endpoint: str) -> tuple[ZooError, bool]:
    """Return (error, may_pass), as `explain` does, for a response with an error status.

    names: the names of the client's error class and of its base classes.
    """
    status, said = getattr(response, "status_code", 0), _server_message(response)
    if status == BAD_RANGE:
        return NetworkError(f"{subject}: {endpoint} cannot continue the download ({status})."), True
    if status == 401 and not names & set(map(str, REFUSALS)) and not _sent_token(response):
        return AccessError(f"{subject}: the Hub asks for a token. Log in: hf auth login, or set HF_TOKEN."), False
    if status in BUSY:
        return NetworkError(f"{subject}: {endpoint} fails ({status}{said})."), True
    for key, (kind, text) in REFUSALS.items():
        if key in names or key == status:
            problem = kind(f"{subject}: {text.format(endpoint=endpoint, said=said)}")
            if key == "EntryNotFoundError":
                problem.exit_code = 1
            return problem, False
    return HubError(f"{subject}: {endpoint} refuses the request ({status}{said})."), False


def _sent_token(response: object) -> bool:
    """Return whether the refused request had a token; True if that is unknown."""
    return "authorization" in getattr(getattr(response, "_request", None), "headers", {"authorization": ""})


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, outermost first; at most ten."""
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__


def context_has(kind: type[BaseException], error: BaseException) -> bool:
    """Return whether an error, or one of its causes, was raised while an error of class `kind` was handled."""
    return any(isinstance(each.__context__, kind) for each in _causes(error))


def _class_names(errors: list[BaseException]) -> set[str]:
    """Return the names of the classes of errors and of their bases."""
    return {cls.__name__ for error in errors for cls in type(error).__mro__}


def _server_message(response: object) -> str:
    """Return ": " and the Hub's explanation, shortened and redacted, from the header X-Error-Message; "" without the header."""
    text = getattr(response, "headers", {}).get("X-Error-Message") or ""
    return f": {redact(text)[:200].splitlines()[0].rstrip('.')}" if text.strip() else ""


def _line(error: BaseException) -> str:
    """Return the first line of an error's text, short and redacted."""
    return redact(first_line(error))[:200].rstrip(".")


def changed(subject: str) -> ChangedError:
    """Return the error for a repository on the Hub that has commits after the pinned one."""
    return ChangedError(f"{subject}: {REFUSALS[412][1]}")


def storage_error(
    error: OSError, remedy: str = "Make room, or set HF_HOME to a folder that can be written."
) -> StorageError:
    """Return the error for a file that cannot be written, usually in the client's cache."""
    from huggingface_hub import constants

    reason = STORAGE_REASONS.get(error.errno or 0, error.strerror or str(error))
    return StorageError(f"{error.filename or constants.HF_HUB_CACHE}: {reason}. {remedy}")
