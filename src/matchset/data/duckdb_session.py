"""DuckDB session: how is DuckDB opened safely, and what do its errors mean to the user?"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from matchset.config import count_threads
from matchset.data.arrow import ArrowSource
from matchset.data.encodings import suggest_encoding
from matchset.data.spill import spill_folder
from matchset.errors import DataError
from matchset.memory import memory_for_tables
from matchset.storage.atomic import atomic_file

_SHOWN_BEFORE, _SHOWN_AFTER = 200, 95  # characters of a long message; the cause is at its end
_ADVICE = re.compile(r"Possible |Try setting|LINE \d+:")  # about DuckDB's options or our SQL
_INTERRUPTED = re.compile(r"INTERRUPT Error|Query interrupted")
_NOT_UTF8 = re.compile("not utf-8 encoded|invalid UTF-8")
_LIMIT_REACHED = re.compile(r"/.* used\)")  # of ours; else the system refused
_DISK_FULL = os.strerror(errno.ENOSPC)
_BROKEN_LINES = "The CSV Parser state machine reached an invalid state"
_GLOB_SIGNS = str.maketrans({"*": "[*]", "?": "[?]", "[": "[[]"})


@contextmanager
def open_session(
    *,
    paths: Sequence[Path] = (),
    is_ordered: bool = False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an in-memory DuckDB that can access `paths` and a temporary folder only.

    What does not fit into its share of memory goes to that folder. `is_ordered` keeps rows in the
    order of the files, so that they can be numbered; it is slower.
    """
    with spill_folder() as folder:
        settings = {
            "temp_directory": quote_text(str(folder)),
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
        limit = f"{memory_for_tables()}B"
        with duckdb.connect(":memory:", config={"memory_limit": limit}) as connection:
            for name, value in settings.items():
                connection.execute(f"SET {name} = {value}")
            try:
                yield connection
            except duckdb.Error as error:  # where nobody knew which file it came from
                raise_unless_data_error(error)
                raise DataError(f"the data must be readable; got: {explain(error)}") from error


def fetch_row(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, object] | None = None
) -> tuple[Any, ...] | None:
    """Return the first row of a result; fetch all, as an open result blocks the connection."""
    rows = connection.execute(sql, parameters).fetchall()
    return rows[0] if rows else None


def write_parquet(table: ArrowSource, path: Path) -> None:
    """Write a table to a Parquet file, which appears under its name only when it is complete."""
    if path.suffix.lower() not in (".parquet", ".pq"):
        raise ValueError(f"path must end in .parquet; got {str(path)!r}")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"path must be in a folder that exists; got {str(path)!r}")
    with (
        atomic_file(path.absolute()) as staged,
        open_session(paths=[staged], is_ordered=True) as connection,
    ):
        connection.register("given", table)
        target = quote_text(str(staged))
        connection.execute(f"COPY given TO {target} (FORMAT parquet, COMPRESSION zstd)")


@contextmanager
def naming_errors(
    what: str, *, path: Path | None = None, source: str | None = None
) -> Iterator[None]:
    """Turn DuckDB's errors into a DataError that names the file, or else the source."""
    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        raise_unless_data_error(error)
        rule = f"must be a readable {what}; got: {explain(error)}"
        found = DataError(rule, path=path, source=source)
        if path is not None and _NOT_UTF8.search(str(error)):
            found = suggest_encoding(path) or found
        raise found from error


@contextmanager
def blaming_files(
    connection: duckdb.DuckDBPyConnection, probes: Iterable[tuple[str, Path, str]]
) -> Iterator[None]:
    """Turn DuckDB's errors into a DataError that names the first file whose probe fails.

    A probe is the kind of a file, its path, and SQL that reads it alone.
    """
    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        raise_unless_data_error(error)
        for kind, path, sql in probes:
            with naming_errors(kind, path=path):
                connection.execute(sql).fetchall()
        raise DataError(f"the data must be readable; got: {explain(error)}") from error


def raise_unless_data_error(error: Exception) -> None:
    """Raise what an error of DuckDB means if the data is not to blame: memory, disk, Ctrl-C.

    An Arrow stream passes on the message of an error, and not its type.
    """
    text = str(error)
    if "Out of Memory" in text:
        is_own = _LIMIT_REACHED.search(text)
        rule = "memory must be larger" if is_own else "this process needs more memory"
        raise MemoryError(f"{rule}; got: {explain(error)}") from error
    if _DISK_FULL in text:
        raise OSError(errno.ENOSPC, _DISK_FULL) from error
    if isinstance(error, duckdb.InterruptException) or _INTERRUPTED.search(str(error)):
        raise KeyboardInterrupt from error


def explain(error: Exception) -> str:
    """Return what DuckDB's message says is wrong, as one line of limited length."""
    text = str(error)
    if _BROKEN_LINES in text:
        return (
            "lines that do not all end alike (in \\n or in \\r\\n), or a quote that is not closed"
        )
    text = _ADVICE.split(text)[0].strip()
    # The line itself is not shown: it, or all that follows an open quote, may be private.
    position, shows_line, rest = text.partition("Original Line:")
    if shows_line:
        text = f"{position} {rest.strip().splitlines()[-1]}"
    text = " ".join(text.split()).removeprefix("Invalid Input Error: ")
    if len(text) <= _SHOWN_BEFORE + _SHOWN_AFTER:
        return text
    return f"{text[:_SHOWN_BEFORE]} ... {text[-_SHOWN_AFTER:]}"


def quote_name(name: str) -> str:
    """Return an SQL identifier; the name may have any characters."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Return an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def quote_list(paths: Sequence[Path]) -> str:
    """Return an SQL list of paths."""
    return "[" + ", ".join(quote_text(str(path)) for path in paths) + "]"


def quote_files(paths: Sequence[Path]) -> str:
    """Return an SQL list of paths, with glob signs escaped."""
    return quote_list([Path(str(path).translate(_GLOB_SIGNS)) for path in paths])
