"""Log: what did customers search for, and what did they do with the products they saw?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.strings import Strings

NO_DAY = np.int32(np.iinfo(np.int32).min)  # the day of a row without a time


@dataclass(frozen=True, slots=True)
class Log:
    """A search log, grouped: one row per query, product, event and day.

    Queries are normalised, and each remembers its most frequent spelling. Rows are sorted by
    (query, product, event, day) and distinct; every query and product occurs in a row.
    """

    queries: Strings  # distinct, normalised, (n_queries,)
    spellings: Strings  # as customers typed them most often, for display, (n_queries,)
    products: Strings  # distinct product ids, (n_products,)
    events: tuple[str, ...]  # names of the events; one empty name where the log has none
    query: NDArray[np.int32]  # place in `queries`, (n_rows,)
    product: NDArray[np.int32]  # place in `products`, (n_rows,)
    event: NDArray[np.uint8]  # place in `events`, (n_rows,)
    day: NDArray[np.int32]  # days since 1970-01-01 (UTC), NO_DAY where unknown, (n_rows,)
    count: NDArray[np.float64]  # how often, possibly fractional, (n_rows,)

    def __len__(self) -> int:
        return len(self.query)
