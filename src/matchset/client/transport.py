"""Transport: how does a request reach a server, and what does its error mean here?"""

from __future__ import annotations

import json
import math
import os
import random
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader, LocationParseError, MaxRetryError
from urllib3.util import Retry, Timeout, Url, parse_url

from matchset.client.bounded import (
    MAX_BYTES,
    ResponseTooLargeError,
    limit_time,
    make_pool,
    seconds_left,
)
from matchset.errors import FilterError, ServerError

# Overloaded, restarting, or behind a proxy that could not reach it. The same request twice is the
# same as once, so all may be repeated.
_RETRIED = (429, 502, 503, 504)
_FIRST_WAIT = 0.1  # seconds before the second attempt, doubled before each later one
_JITTER = (0.75, 1.25)  # random factor of a wait, so that clients do not come back together
_RETRY_AFTER_JITTER = (1.0, 1.25)  # the same, for the wait that a server asks for
_MAX_WAIT = 10.0  # seconds, even if a server asks for more
# Errors in what the caller asked for: an unknown product is one, a wrong path is not.
_CALLER_ERRORS = range(400, 500)
_NOT_CALLER_ERRORS = (
    "unauthorized",
    "reload_forbidden",
    "not_found",
    "bad_host",
    "method_not_allowed",
)


class PatientRetry(Retry):
    """Retries after random waits that grow, or after the wait that the server asks for."""

    def get_backoff_time(self) -> float:
        """Seconds before the next attempt; urllib3 would make the second one at once."""
        doubled: float = _FIRST_WAIT * 2 ** (len(self.history) - 1)
        wait = min(doubled, _MAX_WAIT) * random.uniform(*_JITTER)  # noqa: S311
        return min(wait, seconds_left())

    def is_exhausted(self) -> bool:
        """Whether there is neither an attempt nor time left."""
        return seconds_left() == 0 or super().is_exhausted()

    def get_retry_after(self, response: urllib3.BaseHTTPResponse) -> float | None:
        """Seconds that the server asks to wait, with some jitter: it asks every caller the same."""
        try:
            seconds = super().get_retry_after(response)
        except (InvalidHeader, ValueError):
            return None
        if seconds is None:
            return None
        wait = min(seconds, _MAX_WAIT) * random.uniform(*_RETRY_AFTER_JITTER)  # noqa: S311
        return min(wait, seconds_left())


class Transport:
    """Requests to one server over connections that are kept open.

    Threads may share it. A forked process may go on using it, over connections of its own.
    """

    def __init__(
        self, url: str, *, api_key: str | None, timeout: float, retries: int, connections: int
    ) -> None:
        self.url = _check_url(url)
        if not (timeout > 0 and math.isfinite(timeout)):
            raise ValueError(f"timeout must be positive and finite; got {timeout}")
        for name, value, least in (("retries", retries, 0), ("connections", connections, 1)):
            if value < least:
                raise ValueError(f"{name} must be at least {least}; got {value}")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {_check_key(api_key)}"
        self._seconds = timeout
        self._make_pool = partial(
            make_pool,
            maxsize=connections,
            headers=headers,
            timeout=Timeout(connect=timeout, read=timeout),
            retries=PatientRetry(
                total=retries,
                redirect=0,  # the key is only for this server
                status_forcelist=_RETRIED,
                allowed_methods=None,
                raise_on_status=False,
                raise_on_redirect=False,
            ),
        )
        self._pools = {os.getpid(): self._make_pool()}

    def get(self, path: str) -> dict[str, Any]:
        """The response to a GET."""
        return self._call("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a POST of JSON."""
        return self._call("POST", path, body)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    @property
    def _pool(self) -> urllib3.PoolManager:
        """The pool of this process: on its parent's connections it could read others' responses."""
        pool = self._pools.get(os.getpid())
        if pool is None:
            pool = self._pools.setdefault(os.getpid(), self._make_pool())
        return pool

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else encode(body)
        try:
            with limit_time(self._seconds):
                # Encoded responses are not asked for: a small one could be large decoded.
                # Redirects: before 2.5 urllib3 follows them unless told so here.
                response = self._pool.request(
                    method, self.url + path, body=data, decode_content=False, redirect=False
                )
        except ResponseTooLargeError:
            rule = f"a response must have at most {MAX_BYTES:,} bytes; got more"
            raise ServerError(rule, url=self.url) from None
        except MaxRetryError as error:
            raise ServerError(f"no answer: {_reason(error)}", url=self.url) from error
        except HTTPError as error:
            raise ServerError(f"no answer: {error}", url=self.url) from error
        content = _decode(response.data)
        if response.status == 200 and content is not None:
            return content
        raise _to_error(self.url, response.status, content, body or {})


def encode(value: object) -> bytes:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _decode(data: bytes) -> dict[str, Any] | None:
    """A JSON object, or None if it is not one."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _to_error(
    url: str, status: int, content: Mapping[str, Any] | None, body: Mapping[str, Any]
) -> Exception:
    """What a local matcher would raise, or else a ServerError."""
    error = (content or {}).get("error")
    if not isinstance(error, dict) or not {"code", "message"} <= error.keys():
        rule = f"a matchset server must answer with JSON; got status {status}"
        return ServerError(rule, url=url, status=status)
    code, message = str(error["code"]), str(error["message"])
    if code == "bad_filter" and isinstance(error.get("position"), int):
        rule = str(error.get("rule", message))
        return FilterError(rule, str(body.get("where", "")), error["position"])
    if status in _CALLER_ERRORS and status != 429 and code not in _NOT_CALLER_ERRORS:
        return ValueError(message)
    return ServerError(message, url=url, status=status, code=code)


def _reason(error: MaxRetryError) -> str:
    """Why the last attempt failed, without the names of urllib3's objects and numbers of errors."""
    text = re.sub(r"^(<.*?>|\w+\(.*?\)): |\[Errno -?\d+\] ", "", str(error.reason or error))
    return text.replace("Failed to establish a new connection: ", "")


def _check_url(url: str) -> str:
    """A server's address, checked, without a trailing slash."""
    if not isinstance(url, str):
        raise TypeError(f"url must be str; got {type(url).__name__}")
    try:
        parsed = parse_url(url)
    except LocationParseError:
        parsed = Url()
    is_plain = url.isprintable() and " " not in url  # older versions of urllib3 take any host
    if not is_plain or parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(
            f"url must be a server's address, such as http://127.0.0.1:8080; got {url!r}"
        )
    if parsed.auth or parsed.query or parsed.fragment:
        raise ValueError(f"url must have no user, query or fragment; got one of {parsed.host}")
    return url.rstrip("/")


def _check_key(key: str) -> str:
    """A key that fits into a header; errors never show it."""
    if not isinstance(key, str):
        raise TypeError(f"api_key must be str; got {type(key).__name__}")
    if not key or not all("!" <= character <= "~" for character in key):
        raise ValueError("api_key must be printable ASCII without spaces; got other characters")
    return key
