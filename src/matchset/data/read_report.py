"""Read report: which rows of a log could not be used, and why?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadReport:
    """Rows read and what was wrong with them; a row is counted once, under its first fault."""

    rows: int = 0  # rows read, good and bad
    without_query: int = 0  # dropped: no query, or one that normalizes to nothing
    without_product: int = 0  # dropped
    bad_count: int = 0  # dropped: the count is missing, not a number, negative or infinite
    bad_timestamp: int = 0  # kept, but without a day: the time is missing or does not parse

    @property
    def dropped(self) -> int:
        """Rows that are not in the log."""
        return self.without_query + self.without_product + self.bad_count

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
        text = f"{self.rows:,} rows read, {self.dropped:,} dropped" + f" ({counted})" * bool(
            counted
        )
        if self.bad_timestamp:
            text += f", {self.bad_timestamp:,} kept without a day (time missing or not readable)"
        return text


NO_REPORT = ReadReport()  # of a log that was not read
