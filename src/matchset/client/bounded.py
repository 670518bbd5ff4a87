"""Bounded connections: how does a client not wait for ever, and not take any amount of data?

urllib3 limits each wait for data. A server that sends a byte now and then could hold a caller for
hours, so here everything until the last byte of a response has one deadline, and a limit of bytes.
"""

from __future__ import annotations

import http.client
import io
import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

MAX_BYTES = 256_000_000  # of a response; a server's own limit is 64 MB
_SHORTEST = 0.001  # seconds; 0 would mean: do not wait at all


class ResponseTooLargeError(Exception):
    """A response that is larger than `MAX_BYTES`; it is not asked for again."""


class _Deadline(threading.local):
    at = math.inf  # by the monotonic clock


_deadline = _Deadline()


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Limit what this thread does on bounded connections."""
    before, _deadline.at = _deadline.at, time.monotonic() + seconds
    try:
        yield
    finally:
        _deadline.at = before


def seconds_left() -> float:
    """Until the deadline of this thread; not below 0."""
    return max(0.0, _deadline.at - time.monotonic())


class _BoundedReader(io.RawIOBase):
    """The bytes of one response."""

    def __init__(self, raw: io.RawIOBase, connected: socket.socket) -> None:
        self._raw, self._socket, self._n_left = raw, connected, MAX_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = seconds_left()
        if left == 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(None if math.isinf(left) else left)
        n_read: int | None = self._raw.readinto(buffer)
        self._n_left -= n_read or 0
        if self._n_left < 0:
            raise ResponseTooLargeError
        return n_read

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, connected: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(connected, *args, **options)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(_BoundedReader(raw, connected))


class _Connection(HTTPConnection):
    response_class = _Response

    def connect(self) -> None:
        self.timeout = _shorten(self.timeout)
        super().connect()


class _SecureConnection(HTTPSConnection):
    response_class = _Response

    def connect(self) -> None:
        self.timeout = _shorten(self.timeout)
        super().connect()


def _shorten(timeout: Any) -> Any:
    known = isinstance(timeout, int | float)
    return min(timeout, max(_SHORTEST, seconds_left())) if known else timeout


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def make_pool(**options: Any) -> PoolManager:
    """A pool of bounded connections."""
    pool = PoolManager(**options)
    pool.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    return pool
