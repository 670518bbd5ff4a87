"""Read report: which rows of a log could not be used, and why?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Fault(IntEnum):
    """What is wrong with a row: the first that applies. Named for the role of the column."""

    NONE = 0
    QUERY = 1
    PRODUCT = 2
    COUNT = 3
    TIMESTAMP = 4  # such a row is used, without its time

    @property
    def role(self) -> str:
        """The column that is at fault."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class ReadReport:
    """Rows read and what was wrong with them; a row is counted once, under its first fault."""

    rows: int = 0  # rows read, good and bad
    without_query: int = 0  # dropped: no query, or one that normalizes to nothing
    without_product: int = 0  # dropped
    bad_count: int = 0  # dropped: the count is missing, not a number, negative or infinite
    bad_timestamp: int = 0  # kept, but without a day: the time is missing or does not parse
    searches: int = 0  # rows of a session with a query alone, whose clicks are other rows
    joined: int = 0  # rows without a query that got it from such a search

    @classmethod
    def of(cls, fault: NDArray[np.uint8], *, searches: int = 0, joined: int = 0) -> ReadReport:
        """Count the rows of each `Fault`; `searches` of those without a product are none."""
        counts = [int(np.count_nonzero(fault == each)) for each in Fault]
        return cls(
            rows=len(fault),
            without_query=counts[Fault.QUERY],
            without_product=counts[Fault.PRODUCT] - searches,
            bad_count=counts[Fault.COUNT],
            bad_timestamp=counts[Fault.TIMESTAMP],
            searches=searches,
            joined=joined,
        )

    @property
    def dropped(self) -> int:
        """Rows that are not in the log, though they should say something."""
        return self.without_query + self.without_product + self.bad_count

    @property
    def kept(self) -> int:
        """Rows that are in the log."""
        return self.rows - self.dropped - self.searches

    @property
    def is_clean(self) -> bool:
        """Whether every row was used in full."""
        return self.dropped == 0 and self.bad_timestamp == 0

    def __str__(self) -> str:
        faults = {
            "without a query": self.without_query,
            "without a product": self.without_product,
            "with a bad count": self.bad_count,
        }
        counted = ", ".join(f"{n:,} {fault}" for fault, n in faults.items() if n)
        text = f"{self.rows:,} rows read, {self.dropped:,} dropped" + (
            f" ({counted})" * bool(counted)
        )
        if self.bad_timestamp:
            text += f", {self.bad_timestamp:,} kept without a day (time missing or not readable)"
        if self.searches:
            text += f", {self.joined:,} joined to the {self.searches:,} searches of their sessions"
        return text


NO_REPORT = ReadReport()  # of a log that was not read
