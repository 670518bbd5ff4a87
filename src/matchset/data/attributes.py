"""Attributes: does a column of a catalog hold numbers, dates, booleans or texts?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from matchset.data.catalog import ColumnKind
from matchset.data.duckdb_session import fetch_row, quote_name
from matchset.data.nested import is_nested
from matchset.data.sql import day_of, is_number, may_be_large, number_of, text_of
from matchset.data.tables import Table
from matchset.data.value_forms import (
    Decimal,
    advise_decimal,
    advise_time_format,
    currency_from_text,
    number_from_text,
    time_from_text,
)
from matchset.errors import InputError

# A column of texts is read as numbers, booleans or dates only if every value is: "00123" is an id.
_PATTERNS: dict[ColumnKind, str] = {
    "number": r"[+-]?(0|[1-9]\d{0,14})(\.\d+)?([eE][+-]?\d{1,2})?",
    "boolean": r"(?i)true|false",
    "date": r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?",
}
_OTHER_DATE = r"\s*\d{1,2}[./-]\d{1,2}[./-]\d{2,4}([T, ].*)?"
_MAX_EXACT = 2**53 - 1  # up to here, a DOUBLE distinguishes all integers
_IS_TIME = "({0} IS NULL OR try_cast(trim({0}) AS TIMESTAMPTZ) IS NOT NULL)"
_TEXT_FORMATS = ("CSV", "TSV", "JSON", "JSON Lines")
_SAMPLE = 1_000  # rows by which columns are found that look like numbers
_MOSTLY = 0.9  # of them are numbers: the others may be mistakes
_SIGNS: tuple[Decimal, ...] = (".", ",")
_LONGEST = 32  # characters of a price


@dataclass(frozen=True, slots=True)
class Forms:
    """How numbers and times are written, as the user says."""

    decimal: Decimal | None = None
    time_format: str | None = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """The kind of a column, and how its numbers or dates are written if not as usual."""

    kind: ColumnKind
    forms: Forms = Forms()

    def sql(self, table: Table, name: str, kind: ColumnKind) -> str:
        """Return SQL of a value as `kind`, which is this one or text."""
        if kind == "number" and self.forms.decimal is not None:
            return number_from_text(_trim(table, name), self.forms.decimal)
        if kind == "date" and self.forms.time_format is not None:
            return f"({day_of(table, name, self.forms.time_format)})::INTEGER"
        return value_of(table, name, kind)


def find_attributes(
    connection: duckdb.DuckDBPyConnection, table: Table, names: Iterable[str], forms: Forms
) -> tuple[dict[str, Attribute], list[InputError]]:
    """Find the kind of each column, and what to tell of texts that look like numbers or dates."""
    kinds: dict[str, ColumnKind] = {name: _kind_of_type(table.type_of(name)) for name in names}
    kinds |= dict.fromkeys(_find_large(connection, table, kinds), "text")
    attributes = {name: Attribute(kind) for name, kind in kinds.items()}
    texts = [name for name in kinds if _holds_texts(table, name)]
    notes: list[InputError] = []
    if table.format in _TEXT_FORMATS and texts:
        plain, notes = _find_plain(connection, table, texts, forms)
        attributes |= plain
        texts = [name for name in texts if name not in plain]
    for name in _find_likely(connection, table, texts):
        attribute, note = _find_number(connection, table, name, forms.decimal)
        attributes[name] = attribute
        notes += [] if note is None else [note]
    return attributes, notes


def merge_kinds(parts: Sequence[Mapping[str, Attribute]]) -> dict[str, ColumnKind]:
    """Return one kind per attribute; text if files disagree."""
    kinds: dict[str, ColumnKind] = {}
    for part in parts:
        for name, attribute in part.items():
            kind = attribute.kind
            kinds[name] = kind if kinds.get(name, kind) == kind else "text"
    return kinds


def value_of(table: Table, name: str, kind: ColumnKind) -> str:
    """Return SQL of a value as a kind, where it is written as usual."""
    column = quote_name(name)
    if kind == "number":
        return number_of(table, name)
    if kind == "boolean":
        return f"{column}::BOOLEAN"
    if kind == "date":
        return f"({day_of(table, name)})::INTEGER"
    if is_nested(table.type_of(name)):
        return f"to_json({column})::VARCHAR"
    return text_of(table, name)


def _holds_texts(table: Table, name: str) -> bool:
    kind = table.type_of(name)
    is_text = table.format in _TEXT_FORMATS and not is_nested(kind)
    return is_text or kind == "VARCHAR"


def _kind_of_type(kind: str) -> ColumnKind:
    if is_nested(kind):
        return "text"
    if is_number(kind):
        return "number"
    if kind == "BOOLEAN":
        return "boolean"
    return "date" if kind.startswith(("DATE", "TIMESTAMP")) else "text"


def _find_large(
    connection: duckdb.DuckDBPyConnection, table: Table, names: Iterable[str]
) -> list[str]:
    """Find columns with an integer beyond 2^53, which as a DOUBLE would equal another."""
    wide = [name for name in names if may_be_large(table.type_of(name))]
    if not wide:
        return []
    tests = ", ".join(
        f"bool_or({quote_name(name)} NOT BETWEEN -{_MAX_EXACT} AND {_MAX_EXACT})" for name in wide
    )
    row = fetch_row(connection, f"SELECT {tests} FROM {table.sql()}") or ()
    return [name for name, is_large in zip(wide, row, strict=True) if is_large]


def _find_plain(
    connection: duckdb.DuckDBPyConnection, table: Table, names: Sequence[str], forms: Forms
) -> tuple[dict[str, Attribute], list[InputError]]:
    """Find columns of plain numbers, booleans and dates, ISO or as given; also of other dates."""
    tests = {kind: f"regexp_full_match({{0}}, '{_PATTERNS[kind]}')" for kind in _PATTERNS}
    tests["date"] += f" AND {_IS_TIME}"
    found = {kind: Attribute(kind) for kind in _PATTERNS}
    if forms.decimal == ",":
        del tests["number"]
    given = "false"
    if forms.time_format is not None:
        is_time = f"{time_from_text('trim({0})', forms.time_format)} IS NOT NULL"
        given = f"if(coalesce(trim({{0}}), '') = '', NULL, {is_time})"
    is_other = f"regexp_full_match({{0}}, '{_OTHER_DATE}')"
    each = ", ".join(f"bool_and({test})" for test in (*tests.values(), given, is_other))
    each += ", min({0})"
    listed = ", ".join(each.replace("{0}", quote_name(name)) for name in names)
    row = fetch_row(connection, f"SELECT {listed} FROM {table.sql()}") or ()
    attributes, notes, size = {}, [], len(tests) + 3
    for index, name in enumerate(names):
        *verdicts, is_given, is_other_date, least = row[index * size : (index + 1) * size]
        kinds = [kind for kind, is_all in zip(tests, verdicts, strict=True) if is_all]
        if kinds:
            attributes[name] = found[kinds[0]]
        elif is_given:
            attributes[name] = Attribute("date", Forms(time_format=forms.time_format))
        elif is_other_date:
            rule = f"is read as text: its dates are not ISO, such as {least!r}"
            advice = advise_time_format(least)
            notes.append(InputError(rule, column=name, advice=advice, **table.location))
    return attributes, notes


def _find_likely(
    connection: duckdb.DuckDBPyConnection, table: Table, names: Sequence[str]
) -> list[str]:
    """Find columns of which half the first texts are short and have a digit."""
    if not names:
        return []
    tests = ", ".join(
        f"2 * count(*) FILTER (length({text}) <= {_LONGEST} AND regexp_matches({text}, '[0-9]')) "
        f">= count(*) FILTER ({text} != '') AND bool_or({text} != '')"
        for text in (_trim(table, name) for name in names)
    )
    row = fetch_row(connection, f"SELECT {tests} FROM {_sample(table)}") or ()
    return [name for name, is_likely in zip(names, row, strict=True) if is_likely]


def _find_number(
    connection: duckdb.DuckDBPyConnection, table: Table, name: str, decimal: Decimal | None
) -> tuple[Attribute, InputError | None]:
    """Return the kind of a column that may hold numbers, and what to say if it is text."""
    signs = _SIGNS if decimal is None else (decimal,)
    first = [_count(connection, table, name, sign, rows=_sample(table)) for sign in signs]
    if max(n_numbers for _, n_numbers, *_ in first) < _MOSTLY * first[0][0]:
        return Attribute("text"), None
    n_texts, n_numbers, n_currencies, unplain, other = _count(
        connection, table, name, signs[0], rows=table.sql()
    )
    advice = None
    if decimal is None:
        rule = f"its numbers are not plain, such as {unplain!r}"
        advice = advise_decimal(*(n_numbers for _, n_numbers, *_ in first))
    elif n_currencies > 1:
        rule = f"its prices have {n_currencies} currencies"
    elif n_numbers < n_texts:
        rule = f"not all values are numbers, such as {other!r}"
    else:
        return Attribute("number", Forms(decimal)), None
    note = InputError(f"is read as text: {rule}", column=name, advice=advice, **table.location)
    return Attribute("text"), note


def _count(
    connection: duckdb.DuckDBPyConnection, table: Table, name: str, sign: Decimal, *, rows: str
) -> tuple[Any, ...]:
    """Count texts, numbers, currencies; also a text that is no plain number, and one that is none.

    Texts of a typed table are meant as texts, unless they have a currency.
    """
    number, currency = number_from_text("t", sign), currency_from_text("t", sign)
    if table.format not in _TEXT_FORMATS:
        number = f"if({currency} != '', {number}, NULL)"
    row = fetch_row(
        connection,
        f"SELECT count(*), count({number}), count(DISTINCT nullif({currency}, '')), "
        f"min(t) FILTER (NOT regexp_full_match(t, '{_PATTERNS['number']}')), "
        f"min(t) FILTER ({number} IS NULL) "
        f"FROM (SELECT {_trim(table, name)} AS t FROM {rows}) WHERE t != ''",
    )
    return row or ()


def _trim(table: Table, name: str) -> str:
    return f"trim({text_of(table, name)})"


def _sample(table: Table) -> str:
    return f"(FROM {table.sql()} LIMIT {_SAMPLE})"
