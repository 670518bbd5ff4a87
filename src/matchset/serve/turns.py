"""Turns: how do explanations leave the time of a worker to those who search?

An explanation is Python, for which every other request waits. So there is one at a time, and its
thread rests after each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from matchset.serve.request_errors import RETRY, RequestError

T = TypeVar("T")
_REST = 9.0  # times as long as the explanation before took: a tenth of a worker's time
_LONGEST_REST = 1.0  # seconds
_MOST_WAITING = 8  # fewer than the seconds of a request


class Turns:
    """One thread for explanations, and who waits for it."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="explain")
        self._rests_until = 0.0
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
        """Do it in this thread, once it has rested."""
        time.sleep(max(0.0, self._rests_until - time.monotonic()))
        began = time.thread_time()
        try:
            return do()
        finally:
            rest = min(_REST * (time.thread_time() - began), _LONGEST_REST)
            self._rests_until = time.monotonic() + rest
