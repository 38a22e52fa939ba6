"""Enforces the time limit of a connection, which `budget` counts and whose default is in `settings`, on every request.

Also checks the size of every response, the hosts that may get the token, and the headers from which the client makes paths.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from ...errors import CheckpointError, HubError, NetworkError
from ...utils.text import one_line, redact
from . import client_internals
from .budget import Budget, Failures
from .errors import BUSY, context_has
from .settings import COMMIT, is_loopback, origin

T = TypeVar("T")

REQUEST_SECONDS = 30.0
"""Time limit of a request for which the client sets none."""
RETRIED = (409, *BUSY)
"""Status codes after which the client may try again. The client does so after 409 when it creates a repository."""
MAX_FAILURES = 20
"""Number of consecutive failures after which the guard gives up."""
MAX_REFUSED = 3
"""Number of consecutive refused connections after which the guard gives up."""
MAX_REQUESTS = 100
"""Maximum number of GET requests in one call. The limit ends a listing whose pages never end."""
MAX_ANSWER = 2**25
"""Maximum number of bytes in an answer that is not a file."""
MAX_REFUSAL = 2**16
"""Maximum number of bytes that are read from the body of a failed request."""
ETAG_CHARACTERS = set("0123456789abcdefABCDEF")


class GaveUp(RuntimeError):
    """Stops the client's retries of a request: no time is left, or too many tries failed. The last failure is the cause."""


class Guard:
    """Checks the requests and responses of one connection to a Hub, and raises a ZooError if it must stop.

    timeout: seconds that all calls of the connection may take (see Budget). hint: what to do when the time is up.
    """

    def __init__(self, endpoint: str, timeout: float, hint: str):
        self.endpoint, self.hint = endpoint, hint
        self.budget, self.failures = Budget(timeout), Failures()
        self.expected: tuple[str, int] | None = None
        self.fetching, self.requests, self.received = False, 0, 0

    @contextmanager
    def expecting(self, subject: str, size: int | None) -> Iterator[None]:
        """Treat responses within the block as the download of a file, which must have `size` bytes; None allows any size.

        subject: the repository and the file, as they stand at the beginning of an error's message.
        """
        self.expected, self.fetching = None if size is None else (subject, size), True
        try:
            yield
        finally:
            self.expected, self.fetching = None, False

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Count the requests of a call from zero, and its time against the limit."""
        self.requests = 0
        with self.budget.running():
            yield

    def check_request(self, request: Any) -> None:
        """Check a request before it is sent: remove the token if it goes to another origin than the Hub, and limit its time.

        Raises NetworkError for an unencrypted address, or if no time is left; HubError for more than MAX_REQUESTS requests.
        """
        url = request.url
        if origin(str(url)) != origin(self.endpoint):
            request.headers.pop("authorization", None)
            both_local = urlsplit(self.endpoint).scheme == "http" and is_loopback(url.host)
            if url.scheme != "https" and not both_local:
                raise NetworkError(
                    f"{self.endpoint} redirects to {url.host} without encryption, so the request was not sent. Check "
                    "HF_ENDPOINT and your proxy."
                )
        if url.scheme == "http" and "authorization" in request.headers and (proxy := _remote_proxy(url.host)):
            raise NetworkError(f"The token would pass through the proxy {proxy} unencrypted. Set NO_PROXY={url.host}.")
        request.headers["accept-encoding"] = "identity"  # an answer of 1 MB could unpack to gigabytes
        self.requests += request.method == "GET"
        if self.requests > MAX_REQUESTS:
            raise HubError(
                f"{self.endpoint} sent more than {MAX_REQUESTS} pages for one list, so rnnzoo gave up. Check HF_ENDPOINT."
            )
        seconds_left = self._seconds_left()
        limits = request.extensions.get("timeout") or {}
        request.extensions["timeout"] = {
            kind: min(limits.get(kind) or REQUEST_SECONDS, seconds_left)
            for kind in ("connect", "read", "write", "pool")
        }
        self.received = 0
        self.failures.begin_request()

    def _seconds_left(self) -> float:
        """Return the seconds left, which are positive. Raises NetworkError if there are none."""
        if (seconds := self.budget.left()) > 0:
            return seconds
        spent = f"{self.budget.spent():.0f} s"
        did = (
            f"sends too slowly: {self.received:,} bytes in {spent}"
            if self.received
            else f"does not answer in time ({spent})"
        )
        raise NetworkError(f"{self.endpoint} {did}. {self.hint}")

    def limit(self, operate: Callable[[float], T], timeout: float | None, sent: int = 0) -> T:
        """Return operate(seconds), where `operate` connects, reads or sends once, and may take that many seconds.

        timeout: the client's limit for the operation in seconds. sent: the number of bytes that it sends. Raises NetworkError
        if no time is left.
        """
        seconds = min(timeout or REQUEST_SECONDS, self._seconds_left())
        with self.budget.transferring() if sent else nullcontext() as transfer:
            result = operate(seconds)
            if transfer is not None:
                transfer.bytes = sent
        self.received += len(result) if isinstance(result, bytes) else 0
        return result

    def check_failure(self, error: Exception) -> None:
        """Raise NetworkError if no time is left, or GaveUp if the request that failed with `error` must not be sent again."""
        self._seconds_left()
        self.failures.add(context_has(ConnectionRefusedError, error))
        no_time = self.failures.next_wait > self.budget.left()
        if no_time or self.failures.refused >= MAX_REFUSED or self.failures.number > MAX_FAILURES:
            raise GaveUp(str(error)) from error

    def check_response(self, response: Any) -> None:
        """Check a response before the client sees it.

        Raises NetworkError for too many failures or a long requested wait, CheckpointError for a file's headers that are
        malformed or contradict its pin, and HubError for a compressed answer. Reading the response's body raises HubError if
        the body is too long, and NetworkError if it comes too slowly.
        """
        if location := response.headers.get("location"):
            self._check_location(location)
        self._bound_body(response)
        if response.status_code in RETRIED:
            self._check_retry(response)
        # after a redirect within the Hub the client asks again, and only the next response describes the file
        if response.request.method != "HEAD" or response.status_code >= 400 or self._redirects_within_hub(response):
            return
        self._check_file_headers(response.headers, is_redirect=response.is_redirect)

    def _check_location(self, location: str) -> None:
        """Raise HubError for a redirect to an invalid web address. (The client would try again.)"""
        try:
            given, parts = urlsplit(location), urlsplit(urljoin(self.endpoint, location))
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            valid &= bool(given.hostname) or not given.scheme
        except ValueError:
            valid = False
        if not valid:
            raise HubError(
                f"{self.endpoint} redirects to {one_line(redact(location))[:100]}, which is not a web address, so the answer "
                "was refused. Check HF_ENDPOINT and your proxy."
            )

    def _check_retry(self, response: Any) -> None:
        """Raise NetworkError if the client must not wait and try again after this failure."""
        self.failures.add()
        status, wait, left = response.status_code, _requested_wait(response.headers), self.budget.left()
        if self.failures.number > MAX_FAILURES:
            raise NetworkError(
                f"{self.endpoint} has failed {self.failures.number} times in a row, so rnnzoo gave up. {self.hint}"
            )
        if wait > left:
            raise NetworkError(
                f"{self.endpoint} is busy ({status}) and asks to wait {wait:,} s, longer than the timeout. {self.hint}"
            )
        if status != 409 and self.failures.next_wait > left:
            raise NetworkError(
                f"{self.endpoint} fails ({status}). Gave up after {self.budget.spent():.0f} s. {self.hint}"
            )

    def _bound_body(self, response: Any) -> None:
        """Limit the size and the time of a response's body. Raises HubError if the body is compressed."""
        refused = response.status_code >= 400
        succeeded = response.status_code not in RETRIED and not response.is_redirect
        file = self.fetching and not refused
        if not refused and response.headers.get("content-encoding", "identity") != "identity":
            raise HubError(
                f"{self.endpoint} sent a compressed answer, which rnnzoo does not accept. Check HF_ENDPOINT and your proxy."
            )

        def bounded(parts: Iterator[bytes]) -> Iterator[bytes]:
            done = 0
            with self.budget.transferring() if file else nullcontext() as transfer:
                try:
                    for part in parts:
                        done += len(part)
                        if transfer is not None:
                            transfer.advance(len(part))
                        elif refused and done > MAX_REFUSAL:
                            return
                        elif not refused and done > MAX_ANSWER:
                            raise HubError(
                                f"{self.endpoint} sent an answer of more than {MAX_ANSWER:,} bytes, so the answer was refused. "
                                "Check HF_ENDPOINT."
                            )
                        yield part
                    if succeeded:
                        self.failures.clear()
                except client_internals.transport_errors() as error:
                    self.check_failure(error)
                    raise

        client_internals.wrap_body(response, bounded)

    def _redirects_within_hub(self, response: Any) -> bool:
        if not response.has_redirect_location:
            return False
        return origin(urljoin(str(response.request.url), response.headers["location"])) == origin(self.endpoint)

    def _check_file_headers(self, headers: Any, is_redirect: bool) -> None:
        """Raise CheckpointError for a commit or ETag that is not hexadecimal, or a size other than the pinned one.

        The client uses commit and ETag as names of files and folders, and checks only one of them.
        """
        commit = headers.get("x-repo-commit")
        if commit is None:  # the client refuses that itself
            return
        etag = (headers.get("x-linked-etag") or headers.get("etag") or "").removeprefix("W/").strip('"')
        is_etag = 8 <= len(etag) <= 128 and set(etag) <= ETAG_CHARACTERS
        if not COMMIT.fullmatch(commit) or not is_etag:
            raise CheckpointError(
                f"{self.endpoint} sent a commit or an ETag that is not hexadecimal, so the answer was refused. Check "
                "HF_ENDPOINT."
            )
        size = headers.get("x-linked-size") or (None if is_redirect else headers.get("content-length"))
        subject, expected = self.expected or ("", None)
        if expected is not None and size is not None and size.isdigit() and int(size) != expected:
            raise CheckpointError(
                f"{subject} has {int(size):,} bytes on the Hub instead of the pinned {expected:,}, so it was not downloaded."
            )


def _remote_proxy(host: str) -> str | None:
    """Return the host of the proxy that unencrypted requests to `host` pass through, unless it is this machine."""
    proxies = getproxies()
    address = proxies.get("http") or proxies.get("all")
    if not address or proxy_bypass(host):
        return None
    proxy = urlsplit(address if "//" in address else f"//{address}").hostname or address
    return None if is_loopback(proxy) else proxy


def _requested_wait(headers: Any) -> int:
    """Return the seconds that the headers Retry-After or RateLimit make the client wait; 0 if neither is there."""
    ratelimit = re.findall(r"r\s*=\s*0\s*;\s*t\s*=\s*(\d+)", headers.get("ratelimit", ""))
    numbers = [headers.get("retry-after", ""), *ratelimit]
    return max((int(number) for number in numbers if number.isdigit()), default=0)
