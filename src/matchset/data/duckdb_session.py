"""Faults: what does an error of DuckDB say about the user's data?"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from matchset.config import count_threads
from matchset.data.arrow import ArrowSource
from matchset.errors import DataError
from matchset.storage.atomic import atomic_file

FRAME = "frame"  # the format of a table in memory

_SHOWN_BEFORE, _SHOWN_AFTER = 200, 95  # of a long message; what is wrong stands at its end
_ADVICE = re.compile(r"Possible |Try setting|LINE \d+:")  # on DuckDB's options, on our SQL
_BROKEN_LINES = "The CSV Parser state machine reached an invalid state"


@contextmanager
def naming_errors(
    form: str, *, path: Path | None = None, source: str | None = None
) -> Iterator[None]:
    """Turn DuckDB's errors into a DataError that names the file, or else the source."""
    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        refuse_small_memory(error)
        what = "table" if form == FRAME else f"{form} file"
        rule = f"must be a readable {what}; got: {explain(error)}"
        raise DataError(rule, path=path, source=source) from error


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


DEFAULT_MEMORY_LIMIT = "4GB"  # of DuckDB; what it cannot hold it writes to a temporary folder

_GLOB_SIGNS = str.maketrans({"*": "[*]", "?": "[?]", "[": "[[]"})


@contextmanager
def open_engine(
    *,
    memory_limit: str = DEFAULT_MEMORY_LIMIT,
    paths: Sequence[Path] = (),
    is_ordered: bool = False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an in-memory DuckDB that can touch `paths` and a folder of its own, removed at the end.

    `is_ordered` keeps rows in the order of the files, so that they can be numbered; it is slower.
    """
    with tempfile.TemporaryDirectory(prefix="matchset-") as folder:
        settings = {
            "temp_directory": quote_text(folder),
            "threads": "1" if is_ordered else str(count_threads(None)),
            "preserve_insertion_order": str(is_ordered).lower(),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "enable_progress_bar": "false",
            "TimeZone": "'UTC'",
            # A path with glob signs is checked as it is written in the query.
            "allowed_paths": f"{quote_list(paths)} || {quote_files(paths)}",
            "enable_external_access": "false",
            "lock_configuration": "true",
        }
        with _connect(memory_limit) as connection:
            for name, value in settings.items():
                connection.execute(f"SET {name} = {value}")
            yield connection


def _connect(memory_limit: str) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(":memory:", config={"memory_limit": memory_limit})
    except duckdb.Error as error:
        rule = f"memory_limit must be a size such as 4GB; got {memory_limit!r}"
        raise ValueError(rule) from error


def fetch_row(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, object] | None = None
) -> tuple[Any, ...] | None:
    """The first row of a result, which is then complete: DuckDB refuses work beside an open one."""
    rows = connection.execute(sql, parameters).fetchall()
    return rows[0] if rows else None


def write_parquet(table: ArrowSource, path: Path) -> None:
    """Write a table to a Parquet file, under another name until it is complete."""
    if path.suffix.lower() not in (".parquet", ".pq"):
        raise ValueError(f"path must end in .parquet; got {str(path)!r}")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"path must be in a folder that exists; got {str(path)!r}")
    with (
        atomic_file(path.absolute()) as staged,
        open_engine(paths=[staged], is_ordered=True) as connection,
    ):
        connection.register("given", table)
        target = quote_text(str(staged))
        connection.execute(f"COPY given TO {target} (FORMAT parquet, COMPRESSION zstd)")


def quote_name(name: str) -> str:
    """An SQL identifier, whatever characters the name has."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """An SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def quote_list(paths: Sequence[Path]) -> str:
    """An SQL list of paths."""
    return "[" + ", ".join(quote_text(str(path)) for path in paths) + "]"


def quote_files(paths: Sequence[Path]) -> str:
    """An SQL list of paths that DuckDB must not take for globs."""
    return quote_list([Path(str(path).translate(_GLOB_SIGNS)) for path in paths])
