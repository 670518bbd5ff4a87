"""Transport: how does a request reach a server, and what does its error mean here?"""

from __future__ import annotations

import json
import math
import os
import random
import re
import time
from collections.abc import Mapping
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.util import Timeout, Url, parse_url

from matchset.errors import FilterError, ServerError

MAX_BYTES = 256_000_000  # of a response; a server's own limit is 64 MB
_CHUNK = 1 << 20  # bytes of a response between two looks at the clock
# Overloaded, restarting, or behind a proxy that could not reach it. The same request twice is the
# same as once, so all may be repeated.
_RETRIED = (429, 502, 503, 504)
_FIRST_WAIT = 0.1  # seconds before the second attempt, doubled before each later one
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
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {_check_key(api_key)}"
        self._seconds, self._retries, self._n_connections = timeout, retries, connections
        self._pools: dict[int, urllib3.PoolManager] = {}

    def get(self, path: str) -> dict[str, Any]:
        """Return the response to a GET."""
        return self._call("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a POST of JSON."""
        return self._call("POST", path, body)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    @property
    def _pool(self) -> urllib3.PoolManager:
        """The pool of this process: on its parent's connections it could read others' responses."""
        pool = self._pools.get(os.getpid())
        if pool is None:
            pool = urllib3.PoolManager(maxsize=self._n_connections, headers=self._headers)
            pool = self._pools.setdefault(os.getpid(), pool)
        return pool

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a response, after as many attempts as help; all have one deadline.

        urllib3's own retries know of no deadline.
        """
        data = None if body is None else encode(body)
        deadline = time.monotonic() + self._seconds
        for attempt in range(self._retries + 1):
            wait, fault = _FIRST_WAIT * 2**attempt, None
            try:
                status, headers, content = self._send(method, path, data, deadline)
            except ServerError:
                raise
            except (HTTPError, OSError) as error:
                fault = error
            else:
                if status not in _RETRIED:
                    break
                wait = _read_wait(headers.get("Retry-After"), wait)
            wait = min(wait, _MAX_WAIT) * random.uniform(1.0, 1.25)  # noqa: S311  # not together
            if attempt < self._retries and time.monotonic() + wait < deadline:
                time.sleep(wait)
            elif fault is None:
                break
            else:
                raise ServerError(f"no answer: {_reason(fault)}", url=self.url) from fault
        answer = _decode(content)
        if status == 200 and answer is not None:
            return answer
        raise _to_error(self.url, status, answer, body or {})

    def _send(
        self, method: str, path: str, data: bytes | None, deadline: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request once, and read its response as it comes."""
        seconds = max(deadline - time.monotonic(), 0.001)
        # Encoded responses are not asked for: a small one could be large decoded.
        response = self._pool.request(
            method,
            self.url + path,
            body=data,
            preload_content=False,
            decode_content=False,
            redirect=False,  # the key is only for this server
            retries=False,
            timeout=Timeout(total=seconds),
        )
        try:
            content = self._read(response, deadline)
        except BaseException:
            response.close()  # the rest may be on its way: nobody may use the connection
            raise
        response.release_conn()
        return response.status, response.headers, content

    def _read(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        parts: list[bytes] = []
        n_bytes = 0
        while part := response.read1(_CHUNK):
            parts.append(part)
            n_bytes += len(part)
            if n_bytes > MAX_BYTES:
                rule = f"a response must have at most {MAX_BYTES:,} bytes; got more"
                raise ServerError(rule, url=self.url)
            if time.monotonic() > deadline:
                raise TimeoutError("timed out")
        return b"".join(parts)


def _read_wait(asked: str | None, otherwise: float) -> float:
    """Return the seconds that a server asks to wait."""
    return min(float(asked), _MAX_WAIT) if asked and re.fullmatch(r"\d{1,9}", asked) else otherwise


def encode(value: object) -> bytes:
    """Return compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _decode(data: bytes) -> dict[str, Any] | None:
    """Return a JSON object, or None if it is not one."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _to_error(
    url: str, status: int, content: Mapping[str, Any] | None, body: Mapping[str, Any]
) -> Exception:
    """Return what a local matcher would raise, or else a ServerError."""
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


def _reason(error: Exception) -> str:
    """Return why an attempt failed, without the names of urllib3's objects and error numbers."""
    text = re.sub(r"^(<.*?>|\w+\(.*?\)): |\[Errno -?\d+\] ", "", str(error))
    return text.replace("Failed to establish a new connection: ", "")


def _check_url(url: str) -> str:
    """Return a server's address, checked, without a trailing slash."""
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
    """Return a key that fits into a header; errors never show it."""
    if not isinstance(key, str):
        raise TypeError(f"api_key must be str; got {type(key).__name__}")
    if not key or not all("!" <= character <= "~" for character in key):
        raise ValueError("api_key must be printable ASCII without spaces; got other characters")
    return key
