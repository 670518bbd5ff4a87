"""Latency: how long does one query take?"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from matchset.data.log import Log
from matchset.data.positives import Positives
from matchset.evaluate.significance import Values
from matchset.matchers.base import DEFAULT_K, Retriever
from matchset.matchers.recorded_run import Engine, as_retriever
from matchset.strings import Strings

SAMPLE = 300
_WARM_UP = 20  # queries before the clock starts


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Latency:
    """Time of single `match` calls from one thread, in seconds."""

    seconds: Values  # of each call, (n_calls,)

    def quantile(self, share: float) -> float:
        """Return the time within which this share of the calls returned."""
        return float(np.quantile(self.seconds, share))

    @property
    def p50(self) -> float:
        """Median time of a call."""
        return self.quantile(0.50)

    @property
    def p99(self) -> float:
        """99th percentile of the time of a call."""
        return self.quantile(0.99)

    def __repr__(self) -> str:
        p50, p99 = 1e3 * self.p50, 1e3 * self.p99
        return f"Latency(p50 {p50:.3f} ms, p99 {p99:.3f} ms; {len(self.seconds):,} queries)"


def measure_latency(
    matcher: Retriever | Engine,
    queries: Log | Positives | Iterable[str],
    *,
    k: int = DEFAULT_K,
    sample: int = SAMPLE,
    seed: int = 0,
) -> Latency:
    """Measure the time of each `match` call, over a random sample of the queries, one by one."""
    if sample < 1:
        raise ValueError(f"sample must be positive; got {sample}")
    given = queries.queries if isinstance(queries, Log | Positives) else queries
    texts, matcher = Strings.of(given, "queries"), as_retriever(matcher)
    if len(texts) == 0:
        raise ValueError("queries must hold at least one; got none")
    rng = np.random.default_rng(seed)
    chosen = list(texts.take(rng.permutation(len(texts))[:sample]))
    for query in chosen[:_WARM_UP]:
        matcher.match(query, k)
    seconds = np.empty(len(chosen))
    for index, query in enumerate(chosen):
        started = time.perf_counter()
        matcher.match(query, k)
        seconds[index] = time.perf_counter() - started
    return Latency(seconds)
