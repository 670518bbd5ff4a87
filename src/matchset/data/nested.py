"""Nested: which fields are inside a column of objects, as in request.params.q?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import duckdb
from duckdb.sqltypes import DuckDBPyType

from matchset.data.duckdb_session import quote_name, quote_text

_NESTED = ("STRUCT", "MAP", "UNION", "JSON")
_MAX_FIELDS = 1_000  # a document with more is keyed by values


def is_nested(kind: str) -> bool:
    """Return whether a DuckDB type holds values inside values."""
    return kind.startswith(_NESTED) or kind.endswith("]")


def find_fields(
    connection: duckdb.DuckDBPyConnection,
    rows: str,
    columns: Mapping[str, str],
    *,
    is_json: bool = False,
) -> dict[str, str]:
    """Return SQL of the plain fields inside columns of objects, as text, by their dotted paths.

    `is_json` says that the columns will be read as JSON, whatever was found in them.
    """
    outer = [name for name, kind in columns.items() if kind.startswith("STRUCT")]
    if not outer:
        return {}
    listed = ", ".join(map(quote_name, outer))
    types = connection.sql(f"SELECT {listed} FROM {rows}").types
    fields: dict[str, str] = {}
    for name, kind in zip(outer, types, strict=True):
        document = quote_name(name) if is_json else f"to_json({quote_name(name)})"
        for keys, leaf in _leaves(kind):
            path = ".".join((name, *keys))
            if path not in columns and len(fields) < _MAX_FIELDS:
                fields[path] = extract(document, keys, is_decimal=leaf in ("DOUBLE", "FLOAT"))
    return fields


def extract(document: str, keys: tuple[str, ...], *, is_decimal: bool = False) -> str:
    """Return SQL of a field of a JSON document as text; a decimal number in its plain form."""
    path = "$" + "".join('."' + key.replace('"', '\\"') + '"' for key in keys)
    value = f"json_extract_string({document}, {quote_text(path)})"
    return rf"regexp_replace({value}, '\.0$', '')" if is_decimal else value


def _leaves(kind: DuckDBPyType) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, child in cast("list[tuple[str, DuckDBPyType]]", kind.children):
        if child.id == "struct":
            for keys, leaf in _leaves(child):
                yield (name, *keys), leaf
        elif not is_nested(str(child)):
            yield (name,), str(child)
