"""Turns: how do explanations leave the time of a worker to those who search?

An explanation is Python, for which every other request waits. So there is one at a time, and they
get a share of a worker's time: as many as people ask for at once, then what the share allows.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.types import Receive

from matchset.serve.http.request_errors import RETRY, RequestError

T = TypeVar("T")
_SAVED_SECONDS = 25.0  # of which a quiet worker keeps the share: some 300 explanations by default
_LONGEST_PAUSE = 1.0  # seconds, after one that took unusually long
_MOST_WAITING = 8  # fewer than the seconds of a request


class Turns:
    """One thread for explanations, and what they have used of their share."""

    def __init__(self, share: float) -> None:
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="explain")
        self._share = share
        self._used_until = 0.0  # the (monotonic) time up to which the share is used
        self._n_waiting = 0

    @contextmanager
    def wait(self) -> Iterator[threading.Event]:
        """Wait for a turn in here; refused where too many do. Tells when nobody waits any more."""
        if self._n_waiting >= _MOST_WAITING:
            rule = f"a worker keeps at most {_MOST_WAITING} explanations waiting"
            raise RequestError("overloaded", f"{rule}; got more", headers=RETRY)
        is_over = threading.Event()
        self._n_waiting += 1
        try:
            yield is_over
        finally:
            self._n_waiting -= 1
            is_over.set()

    def take(self, do: Callable[[], T], is_over: threading.Event) -> T:
        """Do it in this thread, once the share allows it; not if nobody waits for it then."""
        pause = self._used_until - time.monotonic()
        if is_over.wait(min(max(0.0, pause), _LONGEST_PAUSE)):
            raise CancelledError
        began = time.thread_time()
        try:
            return do()
        finally:
            used, now = (time.thread_time() - began) / self._share, time.monotonic()
            used_until = used + max(self._used_until, now - _SAVED_SECONDS)
            self._used_until = min(used_until, now + _LONGEST_PAUSE)


async def while_connected(receive: Receive, doing: Coroutine[Any, Any, T]) -> T:
    """The result of something, which is canceled if the client leaves.

    The request's body must have been read: what comes next is that the client has left.
    """
    done, left = asyncio.ensure_future(doing), asyncio.ensure_future(receive())
    try:
        await asyncio.wait((done, left), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            rule = "a client must wait for its response"
            raise RequestError("timeout", f"{rule}; got a closed connection")
        return done.result()
    finally:
        left.cancel()
        done.cancel()
        await asyncio.wait((done,))
