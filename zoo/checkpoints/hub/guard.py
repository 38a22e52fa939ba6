"""Checks every HTTP request and response: limits of time and size, where the token may go, headers that become paths."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from ...errors import CheckpointError, HubError, NetworkError
from . import client_internals
from .settings import COMMIT, is_loopback, origin

REQUEST_SECONDS = 30.0
"""Time limit of a request for which the client sets none."""
RETRIED = (408, 409, 429, 500, 502, 503, 504)
"""Status codes after which the client may try again. The client does so after 409 when it creates a repository."""
MAX_FAILURES = 20
"""Number of consecutive failures after which to give up."""
MAX_REQUESTS = 100
"""Maximum number of GET requests in one call. The limit ends a listing whose pages never end."""
MAX_ANSWER = 2**25
"""Maximum number of bytes in an answer that is not a file."""
MAX_REFUSAL = 2**16
"""Maximum number of bytes that are read from the body of a failed request."""
MIN_RATE = 1000
"""Minimum rate, in bytes a second, of a file that takes longer than the time limit."""
ETAG_CHARACTERS = set("0123456789abcdefABCDEF")


class Guard:
    """Checks the requests and responses of one connection to a Hub, and raises a ZooError if it must stop."""

    def __init__(self, endpoint: str, timeout: float):
        self.endpoint, self.timeout = endpoint, timeout
        self.clock = _Clock()
        self.expected: tuple[str, int] | None = None
        self.fetching, self.requests = False, 0

    @contextmanager
    def expecting(self, subject: str, size: int | None) -> Iterator[None]:
        """Expect the file `subject` as answer within the block, and refuse it if it has not `size` bytes; None for any size."""
        self.expected, self.fetching = None if size is None else (subject, size), True
        try:
            yield
        finally:
            self.expected, self.fetching = None, False

    def begin_call(self) -> None:
        """Begin to count the requests of a call, from zero."""
        self.requests = 0

    def check_request(self, request: Any) -> None:
        """Check a request before it is sent: take away the token if the request goes to another origin, and limit its time.

        Raises NetworkError for an unencrypted address, and if the Hub has failed for too long; HubError for too many
        requests.
        """
        url = request.url
        if origin(str(url)) != origin(self.endpoint):
            request.headers.pop("authorization", None)
            both_local = urlsplit(self.endpoint).scheme == "http" and is_loopback(url.host)
            if url.scheme != "https" and not both_local:
                raise NetworkError(
                    f"{self.endpoint} redirects to {url.host} without encryption, so the request was not sent."
                )
        if url.scheme == "http" and "authorization" in request.headers and (proxy := _remote_proxy(url.host)):
            raise NetworkError(f"The token would pass through the proxy {proxy} unencrypted. Set NO_PROXY={url.host}.")
        request.headers["accept-encoding"] = "identity"  # an answer of 1 MB could unpack to gigabytes
        self.requests += request.method == "GET"
        if self.requests > MAX_REQUESTS:
            raise HubError(f"{self.endpoint} has more than {MAX_REQUESTS} pages of answers, so rnnzoo gave up.")
        seconds_left = self.timeout - self.clock.failing_seconds()
        if seconds_left <= 0:
            raise NetworkError(
                f"{self.endpoint} has failed for {self.clock.failing_seconds():.0f} s; given up. Try later, or pull with a "
                "longer --timeout."
            )
        limits = request.extensions.get("timeout") or {}
        request.extensions["timeout"] = {
            kind: min(limits.get(kind) or REQUEST_SECONDS, seconds_left)
            for kind in ("connect", "read", "write", "pool")
        }
        self.clock.sent()

    def check_response(self, response: Any) -> None:
        """Check a response before the client sees it.

        Raises NetworkError for too many failures or a long requested wait, CheckpointError for a file's headers that are
        malformed or contradict its pin, and HubError for a compressed answer. Reading the response's body raises HubError if
        the body is too long, and NetworkError if it comes too slowly.
        """
        self._bound_body(response)
        failed = response.status_code in RETRIED
        self.clock.answered(failed)
        if self.clock.failures > MAX_FAILURES:
            raise NetworkError(f"{self.endpoint} has failed {self.clock.failures} times in a row; given up. Try later.")
        wait = _requested_wait(response.headers) if failed else 0
        if wait > self.timeout - self.clock.failing_seconds():
            raise NetworkError(
                f"{self.endpoint} is busy ({response.status_code}) and asks to wait {wait:,} s, longer than the timeout. "
                "Try later, or with a longer --timeout."
            )
        # after a redirect within the Hub the client asks again, and only the next response describes the file
        if response.request.method != "HEAD" or response.status_code >= 400 or self._redirects_within_hub(response):
            return
        self._check_file_headers(response.headers, is_redirect=response.is_redirect)

    def _bound_body(self, response: Any) -> None:
        """Bound the body of a response in size and time. Raises HubError if it is compressed."""
        refused, file, began = response.status_code >= 400, self.fetching, time.monotonic()
        if not refused and response.headers.get("content-encoding", "identity") != "identity":
            raise HubError(
                f"{self.endpoint} sent a compressed answer, which was not asked for, so the answer was refused."
            )

        def watch(done: int) -> bool:
            seconds = time.monotonic() - began
            if seconds > self.timeout and (not file or done < MIN_RATE * seconds):
                raise NetworkError(
                    f"{self.endpoint} sends too slowly: {done:,} bytes in {seconds:.0f} s. Try later, or with a longer --timeout."
                )
            if not refused and not file and done > MAX_ANSWER:
                raise HubError(
                    f"{self.endpoint} sent an answer of more than {MAX_ANSWER:,} bytes, so the answer was refused."
                )
            return not refused or done <= MAX_REFUSAL

        client_internals.watch_body(response, watch)

    def _redirects_within_hub(self, response: Any) -> bool:
        if not response.has_redirect_location:
            return False
        return origin(urljoin(str(response.request.url), response.headers["location"])) == origin(self.endpoint)

    def _check_file_headers(self, headers: Any, is_redirect: bool) -> None:
        """Raise CheckpointError for a commit or ETag that is not hexadecimal, or a size other than the pinned one.

        The client makes file names of commit and ETag, and checks only one of them.
        """
        commit = headers.get("x-repo-commit")
        if commit is None:  # the client refuses that itself
            return
        etag = (headers.get("x-linked-etag") or headers.get("etag") or "").removeprefix("W/").strip('"')
        is_etag = 8 <= len(etag) <= 128 and set(etag) <= ETAG_CHARACTERS
        if not COMMIT.fullmatch(commit) or not is_etag:
            raise CheckpointError(
                f"{self.endpoint} sent a commit or an ETag that is not hexadecimal, so the answer was refused."
            )
        size = headers.get("x-linked-size") or (None if is_redirect else headers.get("content-length"))
        subject, expected = self.expected or ("", None)
        if expected is not None and size is not None and size.isdigit() and int(size) != expected:
            raise CheckpointError(f"{subject} has {int(size):,} bytes on the Hub instead of the pinned {expected:,}.")


def _remote_proxy(host: str) -> str | None:
    """Return the host of the proxy that unencrypted requests to `host` pass through, unless it is this machine."""
    proxies = getproxies()
    address = proxies.get("http") or proxies.get("all")
    if not address or proxy_bypass(host):
        return None
    proxy = urlsplit(address if "//" in address else f"//{address}").hostname or address
    return None if is_loopback(proxy) else proxy


class _Clock(threading.local):
    """Counts how often, and for how many seconds, the requests of one thread have failed in a row. Its clock is time.monotonic."""

    failing_since: float | None = None
    unanswered_since: float | None = None
    """When the last request was sent, if it has no response yet."""
    failures = 0

    def sent(self) -> None:
        if self.unanswered_since is not None and self.failing_since is None:
            self.failing_since = self.unanswered_since  # the previous request had no response at all
        self.unanswered_since = time.monotonic()

    def answered(self, failed: bool) -> None:
        self.failing_since = (self.failing_since or self.unanswered_since) if failed else None
        self.failures = self.failures + 1 if failed else 0
        self.unanswered_since = None

    def broke_off(self) -> None:
        self.failing_since = self.failing_since or self.unanswered_since or time.monotonic()
        self.unanswered_since = None

    def failing_seconds(self) -> float:
        since = self.failing_since or self.unanswered_since
        return 0.0 if since is None else time.monotonic() - since


def _requested_wait(headers: Any) -> int:
    """Return the seconds to wait by Retry-After or RateLimit, which the client obeys; 0 if neither is there."""
    ratelimit = re.findall(r"r\s*=\s*0\s*;\s*t\s*=\s*(\d+)", headers.get("ratelimit", ""))
    numbers = [headers.get("retry-after", ""), *ratelimit]
    return max((int(number) for number in numbers if number.isdigit()), default=0)
