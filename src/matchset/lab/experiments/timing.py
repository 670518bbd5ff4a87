"""Timing: how long does one query take, and how much of that is making features of it?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from matchset.evaluate.latency import measure_latency
from matchset.evaluate.metrics import Values
from matchset.matchers.base import DEFAULT_K, Matcher
from matchset.strings import Strings

_REPEATS = 3  # of a batch, of which the fastest counts: the others were disturbed


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """Seconds of single queries on one thread, through Python, (n_calls,) each."""

    total: Values  # of `match`
    vectorizing: Values  # of the same queries to features alone

    @property
    def search(self) -> Values:
        """The rest."""
        return np.maximum(self.total - self.vectorizing, 0.0)

    def to_dict(self) -> dict[str, float]:
        """Median and 99th percentile of each part, in seconds."""
        parts = {"total": self.total, "vectorizing": self.vectorizing, "search": self.search}
        return {
            f"{name}_p{percent}": float(np.quantile(seconds, percent / 100))
            for name, seconds in parts.items()
            for percent in (50, 99)
        }


def time_queries(
    matcher: Matcher, queries: Strings, *, sample: int, k: int = DEFAULT_K, seed: int = 0
) -> Timing:
    """Ask some queries one by one, then vectorize the same ones alone."""
    rng = np.random.default_rng(seed)
    chosen = list(queries.take(rng.permutation(len(queries))[:sample]))
    total = measure_latency(matcher, chosen, k=k, sample=len(chosen), seed=seed).seconds
    vectorize = matcher.vectorize
    if vectorize is None:
        return Timing(total, np.zeros_like(total))
    order = np.random.default_rng(seed).permutation(len(chosen))  # as `measure_latency` asks
    return Timing(total, _time_each(vectorize, [chosen[place] for place in order]))


def time_batch(ask: Callable[[Strings], object], queries: Strings) -> float:
    """Queries per second of all queries asked together, on one core."""
    spent = []
    with on_one_core():
        for _ in range(_REPEATS):
            started = time.perf_counter()
            ask(queries)
            spent.append(time.perf_counter() - started)
    return len(queries) / min(spent)


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep this thread, and those that it starts, to one core where the system can do that.

    Whoever would take a thread per core then takes one.
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


def _time_each(do: Callable[[str], object], queries: Sequence[str]) -> Values:
    for query in queries[:20]:  # warm
        do(query)
    seconds = np.empty(len(queries))
    for place, query in enumerate(queries):
        started = time.perf_counter()
        do(query)
        seconds[place] = time.perf_counter() - started
    return seconds
