"""Attributes: does a column of a catalog hold numbers, dates, booleans or texts?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
)
from matchset.errors import InputError

# A column of texts is read as numbers, booleans or dates only if every value is: "00123" is an id.
_NUMBER = r"[+-]?(0|[1-9]\d{0,14})(\.\d+)?([eE][+-]?\d{1,2})?"
_DATE = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?"
_OTHER_DATE = r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}([T, ].*)?"
_MAX_EXACT = 2**53 - 1  # up to here, a DOUBLE distinguishes all integers
_TEXT_FORMATS = ("CSV", "TSV", "JSON", "JSON Lines")
_SAMPLE = 1_000  # rows by which columns are found that look like numbers or dates
_MOSTLY = 0.9  # of them are numbers: the others may be mistakes
_LONGEST = 32  # characters of a number or a date


@dataclass(frozen=True, slots=True)
class Forms:
    """How numbers and times are written, as the user says."""

    decimal: Decimal | None = None
    time_format: str | None = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """The kind of a column, and SQL of its values as that kind."""

    kind: ColumnKind
    sql: str


def find_attributes(
    connection: duckdb.DuckDBPyConnection, table: Table, names: Iterable[str], forms: Forms
) -> tuple[dict[str, Attribute], list[InputError]]:
    """Find the kind of each column, and what to tell of texts that look like numbers or dates.

    Texts of a typed table, such as Parquet or a frame, are meant as texts.
    """
    kinds: dict[str, ColumnKind] = {name: _kind_of_type(table.type_of(name)) for name in names}
    kinds |= dict.fromkeys(_find_large(connection, table, kinds), "text")
    attributes = {
        name: Attribute(kind, _typed_value(table, name, kind)) for name, kind in kinds.items()
    }
    if table.format not in _TEXT_FORMATS:
        return attributes, []
    texts = [name for name in kinds if not is_nested(table.type_of(name))]
    attributes |= _find_in_texts(connection, table, texts, forms)
    others = [name for name in texts if attributes[name].kind == "text"]
    notes = [_look_again(connection, table, name, forms) for name in others]
    return attributes, [note for note in notes if note is not None]


def merge_kinds(parts: Sequence[Mapping[str, Attribute]]) -> dict[str, ColumnKind]:
    """Return one kind per attribute; text if files disagree."""
    kinds: dict[str, ColumnKind] = {}
    for part in parts:
        for name, attribute in part.items():
            kind = attribute.kind
            kinds[name] = kind if kinds.get(name, kind) == kind else "text"
    return kinds


def text_value(table: Table, name: str) -> str:
    """Return SQL of a value as text, of objects and lists as JSON."""
    if is_nested(table.type_of(name)):
        return f"to_json({quote_name(name)})::VARCHAR"
    return text_of(table, name)


def _typed_value(table: Table, name: str, kind: ColumnKind) -> str:
    if kind == "number":
        return number_of(table, name)
    if kind == "date":
        return f"({day_of(table, name)})::INTEGER"
    return quote_name(name) if kind == "boolean" else text_value(table, name)


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
    tests = ", ".join(
        f"bool_or({quote_name(name)} NOT BETWEEN -{_MAX_EXACT} AND {_MAX_EXACT})" for name in wide
    )
    row = (fetch_row(connection, f"SELECT {tests} FROM {table.sql()}") or ()) if wide else ()
    return [name for name, is_large in zip(wide, row, strict=True) if is_large]


def _find_in_texts(
    connection: duckdb.DuckDBPyConnection, table: Table, names: Sequence[str], forms: Forms
) -> dict[str, Attribute]:
    """Find columns of which every text is a number, a boolean or a date, plain or as given."""
    choices = {name: _choices(table, name, forms) for name in names}
    counts = []
    for name, each in choices.items():
        text, currency = _text(table, name), "NULL"
        if forms.decimal is not None:
            currency = f"nullif({currency_from_text(text, forms.decimal)}, '')"
        counted = [text, f"DISTINCT {currency}", *(choice.sql for choice in each)]
        counts += [f"count({sql})" for sql in counted]
    row = fetch_row(connection, f"SELECT {', '.join(counts)} FROM {table.sql()}") if counts else ()
    numbers, found = iter(row or ()), {}
    for name, each in choices.items():
        n_texts, n_currencies = next(numbers), next(numbers)
        whole = [choice for choice in each if next(numbers) == n_texts > 0]
        if whole and n_currencies <= 1:
            found[name] = whole[0]
    return found


def _choices(table: Table, name: str, forms: Forms) -> list[Attribute]:
    """Return what a column of texts may be; SQL is NULL for a text that is not of the kind."""
    text = _text(table, name)
    number = f"if(regexp_full_match({text}, '{_NUMBER}'), try_cast({text} AS DOUBLE), NULL)"
    if forms.decimal is not None:
        number = number_from_text(text, forms.decimal)
    is_boolean = f"lower({text}) IN ('true', 'false')"
    day = f"if(regexp_full_match({text}, '{_DATE}'), ({day_of(table, name)})::INTEGER, NULL)"
    choices = [
        Attribute("number", number),
        Attribute("boolean", f"if({is_boolean}, lower({text}) = 'true', NULL)"),
        Attribute("date", day),
    ]
    if forms.time_format is not None:
        day = day_of(table, name, forms.time_format)
        choices.append(Attribute("date", f"({day})::INTEGER"))
    return [Attribute(choice.kind, _if_short(text, choice.sql)) for choice in choices]


def _look_again(
    connection: duckdb.DuckDBPyConnection, table: Table, name: str, forms: Forms
) -> InputError | None:
    """Return what to say of a column of texts most of which look like numbers or dates."""
    signs: tuple[Decimal, ...] = (".", ",") if forms.decimal is None else (forms.decimal,)
    numbers = [f"if(length(t) <= {_LONGEST}, {number_from_text('t', s)}, NULL)" for s in signs]
    is_plain = f"regexp_full_match(t, '{_NUMBER}')"
    is_read = is_plain if forms.decimal is None else f"{numbers[0]} IS NOT NULL"
    row = fetch_row(
        connection,
        f"SELECT count(t), count(*) FILTER (regexp_full_match(t, '{_OTHER_DATE}')), min(t), "
        f"min(t) FILTER (NOT {is_read}), {', '.join(f'count({number})' for number in numbers)} "
        f"FROM (SELECT {_text(table, name)} AS t FROM {table.sql()} LIMIT {_SAMPLE})",
    )
    n_texts, n_dates, smallest, unread, *n_numbers = row or (0, 0, None, None, 0)
    if n_texts and n_dates == n_texts:
        rule, shown, advice = "its dates are not ISO", smallest, advise_time_format(smallest)
    elif n_texts and max(n_numbers) >= _MOSTLY * n_texts:
        rule, shown, advice = "its numbers are not plain", unread or smallest, None
        if forms.decimal is None:
            advice = advise_decimal(*n_numbers)
        else:
            rule = "not all values are numbers of one currency"
    else:
        return None
    rule = f"is read as text: {rule}, such as {shown!r}"
    return InputError(rule, column=name, advice=advice, **table.location)


def _text(table: Table, name: str) -> str:
    return f"nullif(trim({text_of(table, name)}), '')"


def _if_short(text: str, sql: str) -> str:
    """Return SQL that looks at short texts only, which is faster."""
    return f"if(length({text}) <= {_LONGEST}, {sql}, NULL)"
