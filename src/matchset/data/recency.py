"""Recency: which products do customers want lately?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY
from matchset.data.log import Log

KEPT_PER_DAY = 0.95  # of what an event counts: after two weeks it counts half
_OLDEST = 10 * 365  # days; what is older counts as little as nothing
_KEPT = np.cumprod(np.r_[1.0, np.full(_OLDEST, KEPT_PER_DAY)])  # by age in days
_EPOCH = date(1970, 1, 1)
_ROWS = 1 << 20  # at a time: a log may take much of the memory


def count_recent(
    log: Log, weights: Mapping[str, float], today: date | None = None
) -> NDArray[np.float64]:
    """Weighted events of each product, the older on a day the less, (n_products,).

    The day is the log's last one if none is given. Without times nothing is known to be recent:
    all are zero. In a log that has times, an event without one is as old as the oldest.
    """
    sums = np.zeros(len(log.products))
    days = _find_days(log)
    if days is None:
        return sums
    weight = np.array([weights.get(name, 0.0) for name in log.events])
    first, last = days
    if today is not None:
        last = (today - _EPOCH).days
    for begin in range(0, len(log), _ROWS):
        rows = slice(begin, begin + _ROWS)
        day = np.where(log.day[rows] == NO_DAY, first, log.day[rows])
        age = np.clip(last - day.astype(np.int64), 0, _OLDEST)
        counts = log.count[rows] * weight[log.event[rows]] * _KEPT[age]
        sums += np.bincount(log.product[rows], weights=counts, minlength=len(sums))
    return sums


def keep_recent(counts: NDArray[np.float64], since: date, today: date) -> NDArray[np.float64]:
    """What is left today of counts of an earlier day."""
    kept: NDArray[np.float64] = counts * _KEPT[min(_OLDEST, max(0, (today - since).days))]
    return kept


def find_last_day(*logs: Log | None, before: date | None = None) -> date | None:
    """The last day of logs, or one `before` them if it is later; None without times.

    One row in a thousand of a log may be dated later, since some dates are wrong.
    """
    found = [days for log in logs if log is not None and (days := _find_days(log)) is not None]
    lasts = [_EPOCH + timedelta(last) for _, last in found]
    return max([*lasts, *([] if before is None else [before])], default=None)


def _find_days(log: Log) -> tuple[int, int] | None:
    """The first day of a log, and the last one that is not wrong; None without times."""
    days = log.day[log.day != NO_DAY]
    if not len(days):
        return None
    first, place = int(days.min()), (len(days) - 1) - len(days) // 1000
    days.partition(place)
    return first, int(days[place])
