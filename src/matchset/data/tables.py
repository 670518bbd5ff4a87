"""Tables: which columns do files or frames have, and how does DuckDB read them?"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from matchset import _native
from matchset.data.arrow import ArrowSource
from matchset.data.duckdb_session import (
    FRAME,
    fetch_row,
    naming_errors,
    open_engine,
    quote_files,
    quote_text,
)
from matchset.data.files import DataFile, PathLike, find_files
from matchset.errors import DataError

# Paths, or a table in memory of any library; "Any" because pandas and polars are not imported.
TableSource: TypeAlias = PathLike | Sequence[PathLike] | ArrowSource | Any

GIVEN_TABLE = "the given table"  # the name of a frame in messages
JSON_NUMBER = "NUMBER"  # our type of a JSON column of numbers with a point, read as text
_NESTED = ("STRUCT", "MAP", "UNION", "JSON")
_NUMBERED = re.compile(r"_\d+$")
# DuckDB would look at 20,480 rows and leave out keys that first appear later. Looking at all of 2
# million rows costs 2 s, as does reading them. Rare keys must not become a MAP.
_JSON_SNIFF = (
    ", sample_size=-1, map_inference_threshold=-1, field_appearance_threshold=0, "
    "hive_partitioning=false"
)


@dataclass(frozen=True, slots=True)
class Table:
    """Files that share their columns, or one frame."""

    columns: dict[str, str]  # name to DuckDB type; CSV and JSON values are read as text
    format: str
    files: tuple[Path, ...]  # none for a frame
    reader: str  # SQL function that reads the files, or the name of the frame
    options: str = ""
    label: str = GIVEN_TABLE  # its name in messages where it has no files

    def sql(self, *files: Path) -> str:
        """What to select from: all the files, or these."""
        if not self.files:
            return self.reader
        return f"{self.reader}({quote_files(files or self.files)}{self.options})"

    @property
    def location(self) -> dict[str, Any]:
        """The fields of an error about this table: its first file, or its name."""
        return {"path": self.files[0]} if self.files else {"source": self.label}


@contextmanager
def open_tables(
    *sources: TableSource, memory_limit: str, is_ordered: bool = False
) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[list[Table]]]]:
    """Open sources: a DuckDB connection and, of each source, one table per set of columns.

    `is_ordered` keeps the order of rows and lets a frame be read more than once.
    """
    found = [None if is_frame(source) else find_files(source) for source in sources]
    paths = [file.path for files in found for file in files or ()]
    with open_engine(memory_limit=memory_limit, paths=paths, is_ordered=is_ordered) as connection:
        tables = []
        for place, (source, files) in enumerate(zip(sources, found, strict=True)):
            if files is None:
                name = f"{FRAME}{place}"
                with naming_errors(FRAME, source=GIVEN_TABLE):
                    table = register_frame(connection, source, name=name, is_ordered=is_ordered)
                tables.append([table])
            else:
                tables.append(describe_files(connection, files))
        yield connection, tables


def is_frame(source: Any) -> bool:
    """Whether a source is a table in memory; what is neither that nor paths is a TypeError."""
    if _is_pandas(source) or isinstance(source, ArrowSource):
        return True
    if isinstance(source, list | tuple) or hasattr(source, "__fspath__") or isinstance(source, str):
        return False
    raise TypeError(
        "source must be a path, a list of paths or a table with __arrow_c_stream__; "
        f"got {type(source).__name__}"
    )


def register_frame(
    connection: duckdb.DuckDBPyConnection, frame: Any, *, name: str, is_ordered: bool
) -> Table:
    """Let DuckDB see a frame: pandas by itself (without pyarrow), others by their Arrow stream."""
    if _is_pandas(frame):
        names = list(map(str, frame.columns))
    else:
        # Streams such as a RecordBatchReader open once; DuckDB opens several times and reads once.
        frame = _native.SharedArrowStream(frame.__arrow_c_stream__())
        names = frame.column_names()
    _check_distinct(names, source=GIVEN_TABLE)
    connection.register(name, frame)
    if is_ordered:
        connection.execute(f"CREATE TABLE {name}_copy AS SELECT * FROM {name}")
        name += "_copy"
    return Table(_describe(connection, name), FRAME, (), name)


def describe_files(connection: duckdb.DuckDBPyConnection, files: Sequence[DataFile]) -> list[Table]:
    """Look at the columns of every file, and put files that share them together."""
    groups: dict[tuple[object, ...], list[Table]] = {}
    for file in files:
        with naming_errors(file.format, path=file.path):
            table = _describe_file(connection, file)
        key = (table.reader, table.options, tuple(table.columns.items()))
        groups.setdefault(key, []).append(table)
    return [
        Table(
            tables[0].columns,
            tables[0].format,
            tuple(path for table in tables for path in table.files),
            tables[0].reader,
            tables[0].options,
        )
        for tables in groups.values()
    ]


def _describe(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, str]:
    rows = connection.execute(f"DESCRIBE SELECT * FROM {sql}").fetchall()
    return {row[0]: row[1] for row in rows}


def _describe_file(connection: duckdb.DuckDBPyConnection, file: DataFile) -> Table:
    partitions = f", hive_partitioning={str(file.is_partitioned).lower()}"
    if file.format == "Parquet":
        table = Table({}, file.format, (file.path,), "read_parquet", ", binary_as_string=true")
    elif file.format in ("CSV", "TSV"):
        table = _describe_csv(connection, file)
    else:
        table = _describe_json(connection, file)
    names = _parquet_names(connection, file) if file.format == "Parquet" else list(table.columns)
    # DuckDB renames a column that is there twice, and lets a folder's name win.
    folders = [part.partition("=")[0] for part in file.path.parts[:-1] if "=" in part]
    _check_distinct(names, folders if file.is_partitioned else [], path=file.path)
    options = table.options + partitions
    described = Table({}, file.format, table.files, table.reader, options)
    columns = _describe(connection, described.sql()) | table.columns
    return Table(columns, file.format, table.files, table.reader, options)


def _parquet_names(connection: duckdb.DuckDBPyConnection, file: DataFile) -> list[str]:
    """The columns as the file names them."""
    sql = f"SELECT name, num_children FROM parquet_schema({quote_files([file.path])})"
    names, n_inner = [], 0  # the schema lists the inside of each nested column after it
    for name, n_children in connection.execute(sql).fetchall()[1:]:
        if n_inner == 0:
            names.append(name)
        n_inner = max(n_inner - 1, 0) + (n_children or 0)
    return names


def _describe_csv(connection: duckdb.DuckDBPyConnection, file: DataFile) -> Table:
    """Read the header ourselves and nothing by guess: everything is text, no row is skipped.

    TSV has no quoting: a `"` is a plain character. CSV follows RFC 4180, its delimiter is the most
    frequent of , ; tab | in the header.
    """
    line = fetch_row(
        connection,
        f"SELECT line FROM read_csv({quote_files([file.path])}, auto_detect=false, "
        "columns={'line': 'VARCHAR'}, delim='\x1f', quote='', escape='', header=false, "
        # Of several threads, the second could win with its first line. Without quotes, line ends
        # inside a value look like line ends of another kind, which the strict mode refuses.
        "parallel=false, strict_mode=false) LIMIT 1",
    )
    header = ((line and line[0]) or "").removeprefix("\ufeff")
    if not header.strip():
        raise DataError(
            "the first line must name the columns; "
            f"got {'an empty line' if line else 'an empty file'}",
            path=file.path,
        )
    delimiter = "\t" if file.format == "TSV" else max(",;\t|", key=header.count)
    if file.format == "TSV":
        names = header.split("\t")
    else:
        names = next(csv.reader([header], delimiter=delimiter), [])
    names = [name.strip() or f"column{index}" for index, name in enumerate(names)]
    _check_distinct(names, path=file.path)
    columns = ", ".join(f"{quote_text(name)}: 'VARCHAR'" for name in names)
    quote = "" if file.format == "TSV" else '"'
    options = (
        f", auto_detect=false, columns={{{columns}}}, header=true, delim={quote_text(delimiter)}, "
        f"quote='{quote}', escape='{quote}', comment='', null_padding=false, strict_mode=true"
    )
    return Table(dict.fromkeys(names, "VARCHAR"), file.format, (file.path,), "read_csv", options)


def _describe_json(connection: duckdb.DuckDBPyConnection, file: DataFile) -> Table:
    """Find the keys of all rows; read plain values as text and nested ones as JSON."""
    form = ", format='newline_delimited'" if file.format == "JSON Lines" else ", format='auto'"
    sniffed = Table({}, file.format, (file.path,), "read_json", form + _JSON_SNIFF)
    types = {name: _json_type(kind) for name, kind in _describe(connection, sniffed.sql()).items()}
    lower = {name.lower() for name in types}
    if any(name != (plain := _NUMBERED.sub("", name)) and plain in lower for name in lower):
        # "size" and "size_1" may be keys, or what DuckDB makes of "size" and "Size".
        rows = f"read_json_objects({quote_files([file.path])}{form})"
        sql = f"SELECT DISTINCT unnest(json_keys(json)) FROM {rows} ORDER BY 1"
        keys = connection.execute(sql).fetchall()
        _check_distinct([key for (key,) in keys], path=file.path)
    columns = ", ".join(
        f"{quote_text(name)}: '{'VARCHAR' if kind == JSON_NUMBER else kind}'"
        for name, kind in types.items()
    )
    return Table(types, file.format, (file.path,), "read_json", f"{form}, columns={{{columns}}}")


def _json_type(kind: str) -> str:
    if kind.startswith(("STRUCT", "MAP")) or kind.endswith("[]"):
        return "JSON"
    return JSON_NUMBER if kind in ("DOUBLE", "FLOAT") else "VARCHAR"


def _check_distinct(names: Sequence[str], folders: Sequence[str] = (), **location: Any) -> None:
    """Refuse a name that occurs twice, in any case; names of `folders` become columns too."""
    seen: set[str] = set()
    for name in (*names, *folders):
        if name.lower() in seen:
            also = ", once as the name of a folder" if name in folders else ""
            rule = f"columns must have distinct names; got {name!r} twice{also}"
            raise DataError(rule, **location)
        seen.add(name.lower())


def _is_pandas(source: Any) -> bool:
    return type(source).__module__.partition(".")[0] == "pandas"


def is_nested(kind: str) -> bool:
    """Whether a DuckDB type holds values inside values."""
    return kind.startswith(_NESTED) or kind.endswith("]")


# None: look for a usual name. A name: take that column. False: take none.
ColumnChoice: TypeAlias = "str | bool | None"

LOG_NAMES: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "search_term", "q", "keywords"),
    "product": ("product_id", "sku", "asin", "item_id"),
    "event": ("event", "event_type", "action"),
    "timestamp": ("timestamp", "time", "ts", "date"),
    "count": ("count", "clicks", "quantity"),
}
CATALOG_NAMES: Mapping[str, tuple[str, ...]] = {
    "product": LOG_NAMES["product"],
    "title": ("title", "product_title", "product_name", "name"),
    "description": ("description", "product_description"),
}


def choose_column(
    table: Table, role: str, choice: ColumnChoice, *, names: tuple[str, ...], is_required: bool
) -> str | None:
    """The column of a role: the one the user named, or the one with a usual name, in any case.

    A missing or ambiguous column is a DataError that lists what the table has.
    """
    if choice is False:
        return None
    by_lower = {column.lower(): column for column in table.columns}
    if isinstance(choice, str):
        found = choice if choice in table.columns else by_lower.get(choice.lower())
        if found is None:
            raise DataError(
                f"must name a column; got {choice!r}, but there are {describe_columns(table)}",
                parameter=role,
                **table.location,
            )
        return found
    usual = [by_lower[name] for name in names if name in by_lower]
    if len(usual) > 1:
        raise DataError(
            f"must say which column to take, {' or '.join(map(repr, usual))}; "
            f"there are {describe_columns(table)}",
            parameter=role,
            **table.location,
        )
    if not usual and is_required:
        raise DataError(
            f"must name a column, as none is called {', '.join(names)}; "
            f"there are {describe_columns(table)}",
            parameter=role,
            **table.location,
        )
    return usual[0] if usual else None


def describe_columns(table: Table) -> str:
    """The columns of a table, for messages."""
    return f"the columns {', '.join(map(repr, table.columns))}" if table.columns else "no columns"
