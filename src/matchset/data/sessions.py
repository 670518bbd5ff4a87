"""Sessions: which rows belong to one visit, and which search did a click follow?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY
from matchset.strings import Strings

DAY = 86_400_000  # milliseconds
NO_TIME = int(NO_DAY) * DAY  # of a row without a time
WINDOW = 30 * 60_000  # milliseconds from a search to a click that it led to


def number_groups(*keys: NDArray[Any]) -> NDArray[np.int64]:
    """Number rows from 0; those that agree in all keys get the same number."""
    number = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        _, code = np.unique(key, return_inverse=True)
        _, number = np.unique(number * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    return number.astype(np.int64)


def find_searches(
    columns: Mapping[str, NDArray[Any]],
    queries: Strings,
    *,
    is_search: NDArray[np.bool_],
    is_click: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Return the row of the search that each click follows, -1 for none, (n_clicks,).

    It is the last search of the click's session (of the same user, if rows name users) that is not
    later than the click, and at most `WINDOW` earlier.
    """
    rows = np.flatnonzero(is_search | is_click)
    rank = np.empty(len(queries) + 1, dtype=np.int64)  # the last is of rows without a query
    rank[queries.argsort()] = np.arange(len(queries))
    visit = number_groups(columns["user"][rows], columns["session"][rows])
    time = columns["time"][rows]
    # Of searches in the same moment, the text decides, so that the order of rows does not.
    order = np.lexsort([rank[columns["query"][rows]], is_click[rows], time, visit])
    rows, visit, time = rows[order], visit[order], time[order]
    at = np.arange(len(rows))
    last = np.maximum.accumulate(np.where(is_search[rows], at, 0))
    is_found = is_search[rows][last] & (visit[last] == visit) & (time - time[last] <= WINDOW)
    search = np.full(len(is_click), -1, dtype=np.int64)
    search[rows] = np.where(is_found, rows[last], -1)
    return search[is_click]
