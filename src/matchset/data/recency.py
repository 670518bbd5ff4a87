"""Recency: which products do customers want lately?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import count_threads
from matchset.data.arrow import NO_DAY
from matchset.data.log import Log

KEPT_PER_DAY = 0.95  # of what an event counts: after two weeks it counts half


def count_recent(
    log: Log, weights: Mapping[str, float], *, threads: int | None = None
) -> NDArray[np.float64]:
    """Weighted events of each product, the older the less, by the log's last day, (n_products,).

    Without times nothing is known to be recent: all are zero. In a log that has times, an event
    without one is as old as the oldest.
    """
    n_threads = count_threads(threads)
    days = find_days(log, threads=n_threads)
    if days is None:
        return np.zeros(len(log.products))
    weight = np.array([weights.get(name, 0.0) for name in log.events])
    first, last = days
    kept = np.cumprod(np.r_[1.0, np.full(last - first, KEPT_PER_DAY)], dtype=np.float64)  # by age
    by_day = log.day, np.ascontiguousarray(kept[::-1]), first
    columns = log.product, len(log.products), log.event, log.count
    return _native.sum_products(*columns, weight, *by_day, n_threads)


def find_days(log: Log, *, threads: int | None = None) -> tuple[int, int] | None:
    """First and last day of a log; None without times. One row in a thousand may be dated later."""
    return _native.find_days(log.day, int(NO_DAY), 1000, count_threads(threads))
