"""Time forms: how are dates and times written that are not ISO, and which of them is it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import duckdb

from matchset.data.duckdb_session import fetch_row, quote_text
from matchset.errors import ParameterError

_CLOCKS = (
    "", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p"
)  # fmt: skip
_BETWEEN = (" ", ", ", "T")
_SAMPLE = 1_000  # distinct values that are tried in every form
_ENOUGH = 0.9  # share of the values that have the form of a column
_YEARS = "BETWEEN 1900 AND 2200"  # or "%d.%m.%Y" would take 1.3.26 for a day of the year 26


@dataclass(frozen=True, slots=True)
class TimeForm:
    """A way to write times: DuckDB's formats, and a name such as day.month.year for messages."""

    formats: tuple[str, ...]
    name: str = ""

    def sql(self, text: str) -> str:
        """SQL of the instant that a text means, NULL if it is not of this form."""
        formats = ", ".join(map(quote_text, self.formats))
        moment = f"try_strptime({text}, [{formats}])"
        return f"if(isfinite({moment}) AND year({moment}) {_YEARS}, {moment}, NULL)"


def _with_clocks(name: str, *dates: str) -> TimeForm:
    clocks = [f"{gap}{clock}" for gap, clock in product(_BETWEEN, _CLOCKS) if clock]
    return TimeForm(tuple(day + clock for day in dates for clock in ("", *clocks)), name)


# A dot between day, month and year means that the day is first; a slash or a dash does not tell.
FORMS = (
    _with_clocks("day.month.year", "%d.%m.%Y"),
    _with_clocks("day.month.year", "%d.%m.%y"),
    _with_clocks("day/month/year", "%d/%m/%Y"),
    _with_clocks("month/day/year", "%m/%d/%Y"),
    _with_clocks("day-month-year", "%d-%m-%Y"),
    _with_clocks("month-day-year", "%m-%d-%Y"),
    _with_clocks("year.month.day", "%Y.%m.%d"),
    _with_clocks("day month year", "%d %b %Y", "%d %B %Y", "%d-%b-%Y"),
    _with_clocks("month day, year", "%b %d, %Y", "%B %d, %Y"),
    TimeForm(("%d/%b/%Y:%H:%M:%S %z",), "day/month/year:time zone"),
    TimeForm(("%a, %d %b %Y %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S %Z"), "day month year time zone"),
)


def check_time_format(connection: duckdb.DuckDBPyConnection, given: str | None) -> TimeForm | None:
    """The form of a format that a user gave."""
    if given is None:
        return None
    try:
        connection.execute(f"SELECT try_strptime('', {quote_text(given)})").fetchall()
        is_format = "%" in given
    except duckdb.Error:
        is_format = False
    if not is_format:
        rule = f"must be a format such as %d.%m.%Y %H:%M; got {given!r}"
        raise ParameterError(rule, parameter="time_format")
    return TimeForm((given,), given)


def find_time_forms(
    connection: duckdb.DuckDBPyConnection, column: str, table: str
) -> Sequence[TimeForm]:
    """The forms that nearly all texts of a column have: two if day and month are unclear.

    `column` is SQL of a trimmed text, `table` what to select it from.
    """
    values = f"(SELECT DISTINCT {column} AS v FROM {table} WHERE {column} != ''"
    # All values are tried only in the forms that some of the first have.
    counts, _ = _count(connection, FORMS, f"{values} LIMIT {_SAMPLE})")
    likely = [form for form, count in zip(FORMS, counts, strict=True) if count]
    if not likely:
        return ()
    counts, n = _count(connection, likely, f"{values})")
    best = max(counts)
    is_found = best >= _ENOUGH * n
    return [form for form, count in zip(likely, counts, strict=True) if is_found and count == best]


def _count(
    connection: duckdb.DuckDBPyConnection, forms: Sequence[TimeForm], values: str
) -> tuple[list[int], int]:
    """How many values have each form, and how many there are."""
    tests = ", ".join(f"count({form.sql('v')})" for form in forms)
    *counts, n = fetch_row(connection, f"SELECT {tests}, count(*) FROM {values}") or ()
    return counts, n
