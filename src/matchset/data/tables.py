"""Tables: which columns do files or frames have, and how does DuckDB read them?"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from matchset import _native
from matchset.data.arrow import ArrowSource
from matchset.data.duckdb_session import (
    naming_errors,
    open_session,
    quote_files,
    quote_name,
    quote_text,
)
from matchset.data.encodings import check_encoding, check_gzip, open_text, to_utf8
from matchset.data.files import DataFile, PathLike, find_files
from matchset.data.nested import find_fields
from matchset.data.spill import spill_folder
from matchset.errors import DataError

# Paths, or a table in memory of any library; `Any` because pandas and polars are not imported.
TableSource: TypeAlias = PathLike | Sequence[PathLike] | ArrowSource | Any

FRAME = "frame"  # the format of a table in memory
GIVEN_TABLE = "the given table"  # the name of a frame in messages
JSON_NUMBER = "NUMBER"  # our type for a JSON column of decimal numbers, which is read as text
_SEPARATOR = re.compile('"?sep=([^"])"?\\s*', re.IGNORECASE)  # a first line of Excel's
_LONGEST_LINE = 1 << 20  # characters of a header
_NUMBERED = re.compile(r"_\d+$")
# By default, DuckDB samples 20,480 rows and drops keys that first appear later. Looking at all of
# 2 million rows costs 2 s, as does reading them. Rare keys must not become a MAP.
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
    fields: Mapping[str, str] = field(default_factory=dict)  # SQL of nested ones, by dotted path
    copies: Mapping[Path, Path] = field(default_factory=dict)  # read instead of some files

    def sql(self, *files: Path) -> str:
        """Return the SQL to select from: all the files, or these."""
        paths = [self.copies.get(path, path) for path in files or self.files]
        rows = f"{self.reader}({quote_files(paths)}{self.options})" if paths else self.reader
        if not self.fields:
            return rows
        inner = ", ".join(f"{sql} AS {quote_name(path)}" for path, sql in self.fields.items())
        return f"(SELECT *, {inner} FROM {rows})"

    def type_of(self, column: str) -> str:
        """Return DuckDB's type of a column, or of a nested field, which is text."""
        return self.columns.get(column, "VARCHAR")

    @property
    def names(self) -> list[str]:
        """What a user can name: columns, and the fields inside nested ones."""
        inside = {path.partition(".")[0] for path in self.fields}
        return [name for name in self.columns if name not in inside] + list(self.fields)

    @property
    def kind(self) -> str:
        """What it is, for messages."""
        return "table" if self.format == FRAME else f"{self.format} file"

    @property
    def location(self) -> dict[str, Any]:
        """The fields of an error about this table: its first file, or its name."""
        return {"path": self.files[0]} if self.files else {"source": self.label}


@contextmanager
def open_tables(
    *sources: TableSource,
    is_ordered: bool = False,
    encoding: str | None = None,
) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[list[Table]]]]:
    """Open sources: a DuckDB connection and, for each source, one table per set of columns.

    `is_ordered` keeps the order of rows and lets a frame be read more than once.
    """
    encoding = check_encoding(encoding)
    found = [None if is_frame(source) else find_files(source) for source in sources]
    check_gzip([file.path for files in found for file in files or ()])
    with ExitStack() as stack:
        folder = stack.enter_context(spill_folder())
        found = [
            None if files is None else to_utf8(files, encoding, folder / str(index))
            for index, files in enumerate(found)
        ]
        paths = [file.data or file.path for files in found for file in files or ()]
        connection = stack.enter_context(open_session(paths=paths, is_ordered=is_ordered))
        tables = []
        for index, (source, files) in enumerate(zip(sources, found, strict=True)):
            if files is None:
                name = f"{FRAME}{index}"
                with naming_errors("table", source=GIVEN_TABLE):
                    table = register_frame(connection, source, name=name, is_ordered=is_ordered)
                tables.append([table])
            else:
                tables.append(describe_files(connection, files))
        yield connection, tables


def is_frame(source: Any) -> bool:
    """Return whether a source is a table in memory; raise a TypeError unless it is one or paths."""
    if _is_pandas(source) or isinstance(source, ArrowSource):
        return True
    if isinstance(source, list | tuple) or hasattr(source, "__fspath__") or isinstance(source, str):
        return False
    advice = "; make a table of it, such as pandas.DataFrame(...)" * isinstance(source, dict)
    advice = "; call its collect()" if hasattr(source, "collect") else advice  # a LazyFrame
    raise TypeError(
        "source must be a path, a list of paths or a table with __arrow_c_stream__; "
        f"got {type(source).__name__}{advice}"
    )


def register_frame(
    connection: duckdb.DuckDBPyConnection, frame: Any, *, name: str, is_ordered: bool
) -> Table:
    """Register a frame with DuckDB: pandas as it is (without pyarrow), others by Arrow streams."""
    if _is_pandas(frame):
        names = list(map(str, frame.columns))
    else:
        # A stream such as a RecordBatchReader opens once; DuckDB opens it often and reads it once.
        frame = _native.SharedArrowStream(frame.__arrow_c_stream__())
        names = frame.column_names()
    _check_names(names, source=GIVEN_TABLE)
    connection.register(name, frame)
    if is_ordered:
        connection.execute(f"CREATE TABLE {name}_copy AS SELECT * FROM {name}")
        name += "_copy"
    columns = _describe(connection, name)
    return Table(columns, FRAME, (), name, fields=find_fields(connection, name, columns))


def describe_files(connection: duckdb.DuckDBPyConnection, files: Sequence[DataFile]) -> list[Table]:
    """Find the columns of every file, and group the files that have the same."""
    groups: dict[tuple[object, ...], list[Table]] = {}
    for file in files:
        with naming_errors(f"{file.format} file", path=file.path):
            table = _describe_file(connection, file)
        kinds = (tuple(table.columns.items()), tuple(table.fields.items()))
        key = (table.reader, table.options, kinds)
        groups.setdefault(key, []).append(table)
    return [
        replace(
            tables[0],
            files=tuple(path for table in tables for path in table.files),
            copies={path: copy for table in tables for path, copy in table.copies.items()},
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
        table = _describe_csv(file)
    else:
        table = _describe_json(connection, file)
    names = _parquet_names(connection, file) if file.format == "Parquet" else list(table.columns)
    # DuckDB renames a duplicate column, and prefers the name of a folder to a column.
    folders = [part.partition("=")[0] for part in file.path.parts[:-1] if "=" in part]
    _check_names(names, folders if file.is_partitioned else [], path=file.path)
    copies = {} if file.data is None else {file.path: file.data}
    table = replace(table, options=table.options + partitions, copies=copies)
    columns = _describe(connection, replace(table, fields={}).sql()) | table.columns
    fields = table.fields or find_fields(connection, table.sql(), columns)
    return replace(table, columns=columns, fields=fields)


def _parquet_names(connection: duckdb.DuckDBPyConnection, file: DataFile) -> list[str]:
    """Return the columns as the file names them."""
    sql = f"SELECT name, num_children FROM parquet_schema({quote_files([file.data or file.path])})"
    names, n_inner = [], 0  # the schema lists the inside of each nested column after it
    for name, n_children in connection.execute(sql).fetchall()[1:]:
        if n_inner == 0:
            names.append(name)
        n_inner = max(n_inner - 1, 0) + (n_children or 0)
    return names


def _describe_csv(file: DataFile) -> Table:
    """Read the header ourselves; nothing is guessed: every value is text, no row is skipped.

    TSV has no quoting: a `"` is a plain character. CSV follows RFC 4180, its delimiter is the most
    frequent of , ; tab | in the header, or what a first line such as sep=; says.
    """
    is_tsv = file.format == "TSV"
    with open_text(file.data or file.path) as stream:
        header = stream.readline(_LONGEST_LINE)
        separator = _SEPARATOR.fullmatch(header)
        header = stream.readline(_LONGEST_LINE) if separator else header
        if not header.strip():
            got = "an empty line" if header else "an empty file"
            raise DataError(f"the first line must name the columns; got {got}", path=file.path)
        delimiter = separator[1] if separator else max(",;\t|", key=header.count)
        delimiter = "\t" if is_tsv else delimiter
        try:
            rows = csv.reader(chain([header], stream), delimiter=delimiter)
            names = header.rstrip("\n").split("\t") if is_tsv else next(rows)
        except csv.Error as error:
            rule = f"the first line must name the columns; got: {error}"
            raise DataError(rule, path=file.path) from None
    names = [name.strip() or f"column{index}" for index, name in enumerate(names)]
    columns = ", ".join(f"{quote_text(name)}: 'VARCHAR'" for name in names)
    quote = "" if is_tsv else '"'
    options = (
        f", auto_detect=false, columns={{{columns}}}, header=true, delim={quote_text(delimiter)}, "
        f"quote='{quote}', escape='{quote}', comment='', null_padding=false, strict_mode=true"
        f", skip={1 if separator else 0}"
    )
    _check_names(names, path=file.path)
    return Table(dict.fromkeys(names, "VARCHAR"), file.format, (file.path,), "read_csv", options)


def _describe_json(connection: duckdb.DuckDBPyConnection, file: DataFile) -> Table:
    """Find the keys of all rows; plain values are read as text, nested ones as JSON."""
    form = ", format='newline_delimited'" if file.format == "JSON Lines" else ", format='auto'"
    rows = f"read_json({quote_files([file.data or file.path])}{form}{_JSON_SNIFF})"
    sniffed = _describe(connection, rows)
    _check_names(list(sniffed), path=file.path)
    types = {name: _json_type(kind) for name, kind in sniffed.items()}
    fields = find_fields(connection, rows, sniffed, is_json=True)
    lower = {name.lower() for name in types}
    if any(name != (plain := _NUMBERED.sub("", name)) and plain in lower for name in lower):
        # "size" and "size_1" may be keys, or what DuckDB makes of "size" and "Size".
        objects = f"read_json_objects({quote_files([file.data or file.path])}{form})"
        sql = f"SELECT DISTINCT unnest(json_keys(json)) FROM {objects} ORDER BY 1"
        _check_names([key for (key,) in connection.execute(sql).fetchall()], path=file.path)
    columns = ", ".join(
        f"{quote_text(name)}: '{'VARCHAR' if kind == JSON_NUMBER else kind}'"
        for name, kind in types.items()
    )
    options = f"{form}, columns={{{columns}}}"
    return Table(types, file.format, (file.path,), "read_json", options, fields=fields)


def _json_type(kind: str) -> str:
    if kind.startswith(("STRUCT", "MAP")) or kind.endswith("[]"):
        return "JSON"
    return JSON_NUMBER if kind in ("DOUBLE", "FLOAT") else "VARCHAR"


def _check_names(names: Sequence[str], folders: Sequence[str] = (), **location: Any) -> None:
    """Refuse a name twice, in any case; names of `folders` become columns too."""
    seen: set[str] = set()
    for name in (*names, *folders):
        if name.lower() in seen:
            also = ", once as the name of a folder" if name in folders else ""
            rule = f"columns must have distinct names; got {name!r} twice{also}"
            raise DataError(rule, **location)
        seen.add(name.lower())


def _is_pandas(source: Any) -> bool:
    return type(source).__module__.partition(".")[0] == "pandas"
