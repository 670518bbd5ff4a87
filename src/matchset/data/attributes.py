"""Attributes: does a column of a catalog hold numbers, dates, booleans or texts?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from matchset.data.catalog import ColumnKind
from matchset.data.duckdb_session import fetch_row, quote_name
from matchset.data.nested import is_nested
from matchset.data.number_forms import Decimal, NumberForm, find_number_forms, number_from_text
from matchset.data.read_report import format_examples
from matchset.data.sql import day_of, is_number, may_be_large, number_of, text_of
from matchset.data.tables import Table
from matchset.data.time_forms import TimeForm, find_time_forms
from matchset.errors import InputError

# A column of texts is read as numbers, booleans or dates only if every value is: "00123" is an id.
_PATTERNS: dict[ColumnKind, str] = {
    "number": r"[+-]?(0|[1-9]\d{0,14})(\.\d+)?([eE][+-]?\d{1,2})?",
    "boolean": r"(?i)true|false",
    "date": r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?",
}
_OTHER_DATE = r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}([T, ].*)?"
_MAX_EXACT = 2**53 - 1  # up to here, a DOUBLE distinguishes all integers
_IS_TIME = "({0} IS NULL OR try_cast(trim({0}) AS TIMESTAMPTZ) IS NOT NULL)"
_TEXT_FORMATS = ("CSV", "TSV", "JSON", "JSON Lines")
_MOSTLY = 0.9  # numbers in a column that is text: the others may be mistakes


@dataclass(frozen=True, slots=True)
class Forms:
    """How numbers and times are written, as the user says."""

    decimal: Decimal | None = None
    time_form: TimeForm | None = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """The kind of a column, and how its numbers or dates are written if not as usual."""

    kind: ColumnKind
    decimal: Decimal | None = None
    time_form: TimeForm | None = None

    def sql(self, table: Table, name: str, kind: ColumnKind) -> str:
        """SQL of a value as `kind`, which is this one or text."""
        if kind == "number" and self.decimal is not None:
            return number_from_text(f"trim({text_of(table, name)})", self.decimal)
        if kind == "date" and self.time_form is not None:
            return f"({day_of(table, name, self.time_form)})::INTEGER"
        return value_of(table, name, kind)


def find_attributes(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    names: Iterable[str],
    forms: Forms,
) -> tuple[dict[str, Attribute], list[InputError]]:
    """The kind of each column, and what to tell the user of how it was chosen."""
    decimal, time_form = forms.decimal, forms.time_form
    kinds: dict[str, ColumnKind] = {name: _kind_of_type(table.type_of(name)) for name in names}
    kinds |= dict.fromkeys(_find_large(connection, table, kinds), "text")
    found = {name: Attribute(kind) for name, kind in kinds.items()}
    texts = [name for name in kinds if _holds_texts(table, name)]
    dates: list[str] = []
    if table.format in _TEXT_FORMATS:
        plain, dates = _find_plain(connection, table, texts, decimal=decimal)
        found |= plain
        texts = [name for name in texts if name not in plain]
    priced, notes = _find_numbers(connection, table, texts, decimal=decimal)
    found |= priced
    if time_form is not None and table.format in _TEXT_FORMATS:
        found |= _find_dates(connection, table, texts, time_form)
        dates = []
    for name in dates:
        attribute, note = _find_date(connection, table, name)
        found[name] = attribute
        notes.append(note)
    return found, notes


def merge_kinds(parts: Sequence[Mapping[str, Attribute]]) -> dict[str, ColumnKind]:
    """One kind per attribute; text if files disagree."""
    kinds: dict[str, ColumnKind] = {}
    for part in parts:
        for name, attribute in part.items():
            kind = attribute.kind
            kinds[name] = kind if kinds.get(name, kind) == kind else "text"
    return kinds


def value_of(table: Table, name: str, kind: ColumnKind) -> str:
    """SQL of a value as a kind, where it is written as usual."""
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
    """Columns with an integer beyond 2^53, such as an id: as a DOUBLE it would equal another."""
    wide = [name for name in names if may_be_large(table.type_of(name))]
    if not wide:
        return []
    tests = ", ".join(
        f"bool_or({quote_name(name)} NOT BETWEEN -{_MAX_EXACT} AND {_MAX_EXACT})" for name in wide
    )
    row = fetch_row(connection, f"SELECT {tests} FROM {table.sql()}") or ()
    return [name for name, is_large in zip(wide, row, strict=True) if is_large]


def _find_plain(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    names: Sequence[str],
    *,
    decimal: Decimal | None,
) -> tuple[dict[str, Attribute], list[str]]:
    """Columns of texts that are all plain numbers, booleans or ISO dates; also other dates."""
    if not names:
        return {}, []
    patterns = {kind: _PATTERNS[kind] for kind in _PATTERNS if (kind, decimal) != ("number", ",")}
    tested = [*patterns.items(), ("other", _OTHER_DATE)]
    tests = ", ".join(
        f"bool_and(regexp_full_match({quote_name(name)}, '{pattern}') AND {further})"
        for name in names
        for kind, pattern in tested
        for further in [_IS_TIME.format(quote_name(name)) if kind == "date" else "true"]
    )
    row = fetch_row(connection, f"SELECT {tests} FROM {table.sql()}") or ()
    size, found, dates = len(patterns) + 1, {}, []
    for index, name in enumerate(names):
        *verdicts, is_other = row[index * size : (index + 1) * size]
        kinds = [kind for kind, is_all in zip(patterns, verdicts, strict=True) if is_all]
        if kinds:
            found[name] = Attribute(kinds[0])
        elif is_other:
            dates.append(name)
    return found, dates


def _find_numbers(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    names: Sequence[str],
    *,
    decimal: Decimal | None,
) -> tuple[dict[str, Attribute], list[InputError]]:
    """Columns of prices, or of numbers with a decimal comma; also what is nearly one."""
    columns = [f"trim({text_of(table, name)})" for name in names]
    found, notes = {}, []
    for name, form in zip(names, find_number_forms(connection, columns, table.sql()), strict=True):
        sign = decimal or form.decimal
        # Texts of a typed table are meant as texts, unless they have a currency.
        n_meant = form.n_texts if table.format in _TEXT_FORMATS else form.n_priced
        most = max(form.n_point, form.n_comma)
        if not form.n_texts or min(most, n_meant) < _MOSTLY * form.n_texts:
            continue
        is_clear = sign is not None and form.count(sign) == form.n_texts == n_meant
        if sign is not None and is_clear and form.n_currencies <= 1:
            found[name] = Attribute("number", decimal=sign)
            rule, advice = f"is read as numbers, as in {form.number!r}", None
        else:
            rule, advice = _say_why_text(form, sign)
        notes.append(InputError(rule, column=name, advice=advice, **table.location))
    return found, notes


def _say_why_text(form: NumberForm, sign: Decimal | None) -> tuple[str, str | None]:
    if form.n_currencies > 1:
        return f"is read as text: its prices have {form.n_currencies} currencies", None
    examples = format_examples(form.examples)
    if sign is None:
        advice = "say {decimal=,} for a decimal comma, {decimal=.} for a decimal point"
        return f"is read as text: its numbers are ambiguous{examples}", advice
    return f"is read as text: not all values are numbers{examples}", None


def _find_dates(
    connection: duckdb.DuckDBPyConnection, table: Table, names: Sequence[str], form: TimeForm
) -> dict[str, Attribute]:
    """Columns of texts that all have a given form."""
    if not names:
        return {}
    texts = [f"trim({text_of(table, name)})" for name in names]
    tests = ", ".join(
        f"bool_and({text} = '' OR {form.sql(text)} IS NOT NULL) AND bool_or({text} != '')"
        for text in texts
    )
    row = fetch_row(connection, f"SELECT {tests} FROM {table.sql()}") or ()
    return {
        name: Attribute("date", time_form=form)
        for name, is_all in zip(names, row, strict=True)
        if is_all
    }


def _find_date(
    connection: duckdb.DuckDBPyConnection, table: Table, name: str
) -> tuple[Attribute, InputError]:
    """The form of a column that looks like dates, or why it is text."""
    text = f"trim({text_of(table, name)})"
    forms = find_time_forms(connection, text, table.sql())
    example = fetch_row(connection, f"SELECT min({text}) FROM {table.sql()}") or ("",)
    if len(forms) == 1 and _find_dates(connection, table, [name], forms[0]):
        rule = f"is read as {forms[0].name}, as in {example[0]!r}"
        note = InputError(rule, column=name, **table.location)
        return Attribute("date", time_form=forms[0]), note
    advice = "{time_format=%d/%m/%Y} makes it dates"
    rule = f"is read as text: its dates are ambiguous, such as {example[0]!r}"
    return Attribute("text"), InputError(rule, column=name, advice=advice, **table.location)
