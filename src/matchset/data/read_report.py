"""Read report: which rows of a log could not be used, and why?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MAX_SHOWN = 40  # characters of an example


@dataclass(frozen=True, slots=True)
class ReadReport:
    """Rows read and what was wrong with them; a row is counted once, under its first fault."""

    rows: int = 0  # rows read, good and bad
    without_query: int = 0  # dropped: no query, or one that normalizes to nothing
    without_product: int = 0  # dropped
    bad_count: int = 0  # dropped: the count is missing, not a number, negative or infinite
    bad_timestamp: int = 0  # kept, but without a day: the time is missing or does not parse
    bad_counts: tuple[str, ...] = ()  # two examples of them
    bad_timestamps: tuple[str, ...] = ()

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
        found = [f"{n:,} {fault}" for fault, n in faults.items() if n]
        if self.bad_count:
            found[-1] += format_examples(self.bad_counts)
        text = f"{self.rows:,} rows read, {self.dropped:,} dropped"
        if found:
            text += f" ({', '.join(found)})"
        if self.bad_timestamp:
            examples = format_examples(self.bad_timestamps)
            text += f", {self.bad_timestamp:,} kept without a day (time missing or not readable"
            text += f"{examples})"
        return text


def format_examples(texts: Sequence[str]) -> str:
    """Return examples for a message: such as 'a' and 'b'."""
    short = [text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..." for text in texts]
    return f", such as {' and '.join(map(repr, short))}" if texts else ""


NO_REPORT = ReadReport()  # of a log that was not read
