"""Timing: how long does one query take, and how much of that is spent on its features?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from matchset.evaluate.latency import measure_latency
from matchset.evaluate.significance import Values
from matchset.matchers.base import Matcher
from matchset.strings import Strings

_REPEATS = 3  # of a batch; the fastest counts, as the others were disturbed
_WARM_UP = 20  # queries before the clock starts


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """Seconds of single queries on one thread, called from Python, (n_calls,) each."""

    total: Values  # of `match`
    vectorizing: Values  # of turning the same queries into features

    @property
    def search(self) -> Values:
        """The remaining time of each call."""
        return np.maximum(self.total - self.vectorizing, 0.0)

    def to_dict(self) -> dict[str, float]:
        """Return median and 99th percentile of each part, in seconds."""
        parts = {"total": self.total, "vectorizing": self.vectorizing, "search": self.search}
        return {
            f"{name}_p{percent}": float(np.quantile(seconds, percent / 100))
            for name, seconds in parts.items()
            for percent in (50, 99)
        }


def time_queries(matcher: Matcher, queries: Strings, *, sample: int, seed: int = 0) -> Timing:
    """Match a random sample of queries one by one, then vectorize the same queries."""
    if sample == 0:
        return Timing(np.empty(0), np.empty(0))
    rng = np.random.default_rng(seed)
    chosen = list(queries.take(rng.permutation(len(queries))[:sample]))
    total = measure_latency(matcher, chosen, sample=len(chosen), seed=seed).seconds
    encode = getattr(getattr(matcher, "vectorizer", None), "encode", None)
    vectorize = getattr(matcher, "vectorize", encode)  # of a neural one: with its network
    if vectorize is None:
        return Timing(total, np.zeros_like(total))
    order = np.random.default_rng(seed).permutation(len(chosen))  # as in `measure_latency`
    return Timing(total, _time_each(vectorize, [chosen[index] for index in order]))


def measure_throughput(matcher: Matcher, queries: Strings) -> float:
    """Measure queries per second of one batch, on one core."""
    spent = []
    with on_one_core():
        for _ in range(_REPEATS):
            started = time.perf_counter()
            matcher.match(queries)
            spent.append(time.perf_counter() - started)
    return len(queries) / min(spent)


@contextmanager
def on_one_core() -> Iterator[None]:
    """Restrict this thread, and those that it starts, to one core, where the system allows it.

    Code that starts one thread per available core then starts one.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _time_each(call: Callable[[str], object], queries: Sequence[str]) -> Values:
    for query in queries[:_WARM_UP]:
        call(query)
    seconds = np.empty(len(queries))
    for index, query in enumerate(queries):
        started = time.perf_counter()
        call(query)
        seconds[index] = time.perf_counter() - started
    return seconds
