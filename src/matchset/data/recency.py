"""Recency: which products do customers want lately?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY
from matchset.data.log import Log

KEPT_PER_DAY = 0.95  # of what an event counts: after two weeks it counts half
_ROWS = 1 << 20  # at a time: a log may take much of the memory


def count_recent(log: Log, weights: Mapping[str, float]) -> NDArray[np.float64]:
    """Weighted events of each product, the older the less, by the log's last day, (n_products,).

    Without times nothing is known to be recent: all are zero. In a log that has times, an event
    without one is as old as the oldest.
    """
    sums = np.zeros(len(log.products))
    days = log.day[log.day != NO_DAY]
    if not len(days):
        return sums
    weight = np.array([weights.get(name, 0.0) for name in log.events])
    first, last = int(days.min()), int(days.max())
    kept = np.cumprod(np.r_[1.0, np.full(last - first, KEPT_PER_DAY)])  # by age
    for begin in range(0, len(log), _ROWS):
        rows = slice(begin, begin + _ROWS)
        age = last - np.where(log.day[rows] == NO_DAY, first, log.day[rows])
        counts = log.count[rows] * weight[log.event[rows]] * kept[age]
        sums += np.bincount(log.product[rows], weights=counts, minlength=len(sums))
    return sums
