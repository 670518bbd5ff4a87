"""Turns: how do explanations leave the time of a worker to those who search?

An explanation is Python, for which every other request waits. So there is one at a time, and they
get a share of a worker's time: as many as people ask for at once, then what the share allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

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
    def wait(self) -> Iterator[None]:
        """Wait for a turn in here; refused where too many do."""
        if self._n_waiting >= _MOST_WAITING:
            rule = f"a worker keeps at most {_MOST_WAITING} explanations waiting"
            raise RequestError("overloaded", f"{rule}; got more", headers=RETRY)
        self._n_waiting += 1
        try:
            yield
        finally:
            self._n_waiting -= 1

    def take(self, do: Callable[[], T]) -> T:
        """Do it in this thread, once the share allows it."""
        pause = self._used_until - time.monotonic()
        time.sleep(min(max(0.0, pause), _LONGEST_PAUSE))
        began = time.thread_time()
        try:
            return do()
        finally:
            used, now = (time.thread_time() - began) / self._share, time.monotonic()
            used_until = used + max(self._used_until, now - _SAVED_SECONDS)
            self._used_until = min(used_until, now + _LONGEST_PAUSE)
