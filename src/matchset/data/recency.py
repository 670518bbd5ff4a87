"""Recency: which products do customers want lately?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import count_threads
from matchset.data.arrow import NO_DAY
from matchset.data.log import Log

KEPT_PER_DAY = 0.95  # of what an event counts: after two weeks it counts half
_OLDEST = 10 * 365  # days; what is older counts as little as nothing
_KEPT = np.cumprod(np.r_[1.0, np.full(_OLDEST, KEPT_PER_DAY)], dtype=np.float64)  # by age in days
_EPOCH = date(1970, 1, 1)


def count_recent(
    log: Log,
    weights: Mapping[str, float],
    today: date | None = None,
    *,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Sum the weighted events of each product, the older the less, (n_products,).

    The day is the log's last one if none is given. Without times nothing is known to be recent:
    all are zero. In a log that has times, an event without one is as old as the oldest.
    """
    n_threads = count_threads(threads)
    days = find_days(log, threads=n_threads)
    if days is None:
        return np.zeros(len(log.products))
    weight = np.array([weights.get(name, 0.0) for name in log.events])
    first, last = days
    end = last if today is None else (today - _EPOCH).days
    kept: NDArray[np.float64] = _KEPT[
        np.clip(end - np.arange(first, last + 1), 0, _OLDEST)
    ]  # by day
    return _native.sum_products(
        log.product,
        len(log.products),
        log.event,
        log.count,
        weight,
        log.day,
        kept,
        first,
        n_threads,
    )


def keep_recent(counts: NDArray[np.float64], since: date, today: date) -> NDArray[np.float64]:
    """Return what is left today of counts of an earlier day."""
    kept: NDArray[np.float64] = counts * _KEPT[min(_OLDEST, max(0, (today - since).days))]
    return kept


def find_last_day(*logs: Log | None, before: date | None = None) -> date | None:
    """Return the last day of logs, or one `before` them if it is later; None without times."""
    found = [days for log in logs if log is not None and (days := find_days(log)) is not None]
    lasts = [_EPOCH + timedelta(last) for _, last in found]
    return max([*lasts, *([] if before is None else [before])], default=None)


def find_days(log: Log, *, threads: int | None = None) -> tuple[int, int] | None:
    """Return the first and last day of a log; None without times.

    One row in a thousand may be dated later, since some dates are wrong.
    """
    return _native.find_days(log.day, int(NO_DAY), 1000, count_threads(threads))
