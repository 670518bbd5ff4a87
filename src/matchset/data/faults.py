"""Faults: what does an error of DuckDB say about the user's data?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from matchset.errors import DataError

FRAME = "frame"  # the format of a table in memory

_SHOWN_BEFORE, _SHOWN_AFTER = 200, 95  # of a long message; what is wrong stands at its end
_ADVICE = re.compile(r"Possible |Try setting|LINE \d+:")  # on DuckDB's options, on our SQL
_BROKEN_LINES = "The CSV Parser state machine reached an invalid state"


@contextmanager
def naming_errors(name: str, form: str) -> Iterator[None]:
    """Turn DuckDB's errors into a DataError that names the file."""
    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        refuse_small_memory(error)
        what = "table" if form == FRAME else f"{form} file"
        raise DataError(f"{name} must be a readable {what}; got: {explain(error)}") from error


def refuse_small_memory(error: Exception) -> None:
    """Raise a MemoryError if an error was for want of memory, which is no fault of the data."""
    if "Out of Memory" in str(error):  # an Arrow stream passes on the message, not the type
        raise MemoryError(f"memory_limit must be larger; got: {explain(error)}") from error


def explain(error: Exception) -> str:
    """The part of DuckDB's message that tells what is wrong, in one line of bearable length."""
    text = str(error)
    if _BROKEN_LINES in text:
        return (
            "lines that do not all end alike (in \\n or in \\r\\n), or a quote that is not closed"
        )
    text = _ADVICE.split(text)[0].strip()
    # The line stays out: it, or all that follows an open quote, may be what nobody should see.
    place, shows_line, rest = text.partition("Original Line:")
    if shows_line:
        text = f"{place} {rest.strip().splitlines()[-1]}"
    text = " ".join(text.split()).removeprefix("Invalid Input Error: ")
    if len(text) <= _SHOWN_BEFORE + _SHOWN_AFTER:
        return text
    return f"{text[:_SHOWN_BEFORE]} ... {text[-_SHOWN_AFTER:]}"
