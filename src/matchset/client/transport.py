"""Transport: how does a request reach a server, and what does its refusal mean here?"""

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

from matchset.errors import FilterError, ServerError

# Overloaded, restarting, or behind a proxy that could not reach it. Every call may be asked again:
# none changes anything.
_AGAIN = (429, 502, 503, 504)
_FIRST_WAIT = 0.1  # seconds before the second attempt, doubled before each later one
_SPREAD = (0.75, 1.25)  # share of a wait, by chance, so that clients do not come back together
_LATER = (1.0, 1.25)  # share of the wait that a server asks for
_LONGEST_WAIT = 10.0  # seconds, whatever a server asks for
# Refusals of what the caller asked for; an unknown product is one too, where a wrong path is not.
_CALLERS_FAULT = range(400, 500)
_NOT_CALLERS = ("unauthorized", "reload_forbidden", "not_found", "bad_host", "method_not_allowed")

# How the server says what is wrong with a filter; another wording is a plain ValueError.
_BAD_FILTER = re.compile(r"where: (.*) \(at character (\d+)\)", re.DOTALL)


class PatientRetry(Retry):
    """Retries after waits that grow and vary, or as long as the server asks, up to a bound."""

    def get_backoff_time(self) -> float:
        """Seconds before the next attempt; before the second too, which urllib3 makes at once."""
        doubled: float = _FIRST_WAIT * 2 ** (len(self.history) - 1)
        return min(doubled, _LONGEST_WAIT) * random.uniform(*_SPREAD)  # noqa: S311

    def get_retry_after(self, response: urllib3.BaseHTTPResponse) -> float | None:
        """Seconds that the server asks to wait, and some by chance: it asks every caller alike."""
        try:
            asked = super().get_retry_after(response)
        except (InvalidHeader, ValueError):
            return None
        return None if asked is None else min(asked, _LONGEST_WAIT) * random.uniform(*_LATER)  # noqa: S311


class Transport:
    """Calls to one server over connections that are kept open.

    Threads may share it, and so may a process with those that it forks: each has its own.
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
        self._make_pool = partial(
            urllib3.PoolManager,
            maxsize=connections,
            headers=headers,
            timeout=Timeout(connect=timeout, read=timeout),
            retries=PatientRetry(
                total=retries,
                redirect=0,  # the key is for this server alone
                status_forcelist=_AGAIN,
                allowed_methods=None,
                raise_on_status=False,
                raise_on_redirect=False,
            ),
        )
        self._pools = {os.getpid(): self._make_pool()}

    def get(self, path: str) -> dict[str, Any]:
        """The answer to a GET."""
        return self._call("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a POST of JSON."""
        return self._call("POST", path, body)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    @property
    def _pool(self) -> urllib3.PoolManager:
        """Of this process: over a connection of its parent it could read another's answer."""
        pool = self._pools.get(os.getpid())
        if pool is None:
            pool = self._pools.setdefault(os.getpid(), self._make_pool())
        return pool

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        data = None if body is None else encode(body)
        try:
            response = self._pool.request(method, self.url + path, body=data)
        except MaxRetryError as error:
            raise ServerError(f"no answer: {_reason(error)}", url=self.url) from error
        except HTTPError as error:
            raise ServerError(f"no answer: {error}", url=self.url) from error
        answer = _decode(response.data)
        if response.status == 200 and answer is not None:
            return answer
        raise _refusal(self.url, response.status, answer, body or {})


def encode(value: object) -> bytes:
    """JSON as short as it gets."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _decode(data: bytes) -> dict[str, Any] | None:
    """A JSON object, or None where it is none."""
    try:
        answer = json.loads(data)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _refusal(
    url: str, status: int, answer: Mapping[str, Any] | None, body: Mapping[str, Any]
) -> Exception:
    """What a local matcher would raise, or else a ServerError."""
    said = (answer or {}).get("error")
    if not isinstance(said, dict) or not {"code", "message"} <= said.keys():
        what = "matchset serve must answer there with JSON"
        return ServerError(f"{what}; got status {status} without it", url=url, status=status)
    code, message = str(said["code"]), str(said["message"])
    if code == "bad_filter" and (found := _BAD_FILTER.fullmatch(message)):
        return FilterError(found[1], str(body.get("where", "")), int(found[2]) - 1)
    if status in _CALLERS_FAULT and status != 429 and code not in _NOT_CALLERS:
        return ValueError(message)
    return ServerError(message, url=url, status=status, code=code)


def _reason(error: MaxRetryError) -> str:
    """Why the last attempt failed, without urllib3's names of objects."""
    text = str(error.reason or error)
    return text.split("): ", 1)[-1] if text.startswith("<") else text


def _check_url(url: str) -> str:
    """The address of a server without a slash at its end, if it is one."""
    if not isinstance(url, str):
        raise TypeError(f"url must be str; got {type(url).__name__}")
    try:
        parsed = parse_url(url)
    except LocationParseError:
        parsed = Url()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(
            f"url must be that of a server, such as http://127.0.0.1:8080; got {url!r}"
        )
    if parsed.auth or parsed.query or parsed.fragment:
        raise ValueError(f"url must have no user, query or fragment; got one of {parsed.host}")
    return url.rstrip("/")


def _check_key(key: str) -> str:
    """A key that may stand in a header; errors never show it."""
    if not isinstance(key, str):
        raise TypeError(f"api_key must be str; got {type(key).__name__}")
    if not key or not all("!" <= character <= "~" for character in key):
        raise ValueError("api_key must be of printable ASCII without spaces; got another text")
    return key
