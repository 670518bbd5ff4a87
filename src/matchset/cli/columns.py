"""Columns: how are the columns of a log named on the command line?"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from cyclopts import Parameter

from matchset.data.log import Log
from matchset.data.read import read_log


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class LogColumns:
    """Columns of the log; one that is not named is found by its usual names."""

    query: str | None = None
    "Column of the query."
    product: str | None = None
    "Column of the product id."
    event: str | None = None
    "Column of the event, such as click or purchase."
    timestamp: str | None = None
    "Column of the time."
    count: str | None = None
    "Column of how often it happened."
    strict: bool = False
    "Stop at the first row that cannot be used, and name it."

    def read(self, sources: list[str]) -> Log:
        """Read the log."""
        return read_log(sources[0] if len(sources) == 1 else sources, **asdict(self))
