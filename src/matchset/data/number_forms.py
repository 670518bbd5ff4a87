"""Number forms: which number is "1.299,00 €", and is the comma of "1,5" a decimal one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import duckdb

from matchset.data.duckdb_session import fetch_row
from matchset.errors import ParameterError

Decimal: TypeAlias = Literal[".", ","]

# A zero in front ("00123") makes an id, not a number.
_WHOLE = r"[+-]?(?:0|[1-9]\d{{0,2}}(?:{0}\d{{3}})+|[1-9]\d{{0,14}})"
_PATTERNS: Mapping[Decimal, str] = {
    ".": _WHOLE.format(",") + r"(?:\.\d+)?(?:[eE][+-]?\d{1,2})?",
    ",": _WHOLE.format(r"\.") + r"(?:,\d+)?",
}
_CURRENCY = r"\p{Sc}|[A-Z]{3}|[Kk]r\.?|zł|Kč|Fr\.?|lei|Ft"
_SPACE = r"[\s\x{a0}\x{202f}]"
# A price: perhaps a currency, an amount, perhaps ",-" for no cents, perhaps a currency.
_PRICE = rf"(?:({_CURRENCY}){_SPACE}?)?([+-]?\d(?:[\d.,''’]|{_SPACE}\d)*)(?:,-+|\.-+)?"
_PRICE += rf"{_SPACE}?({_CURRENCY})?"
_GROUPING = rf"(\d)(?:{_SPACE}|[''’])(\d{{3}})\b"
_SAMPLE = 1_000  # rows by which columns that hold no numbers are recognized
_LONGEST = 32  # characters of a number with its currency
_BATCH = 16  # columns looked at together; each takes megabytes for its regular expressions


def check_decimal(decimal: str | None) -> None:
    """Refuse anything but a point or a comma."""
    if decimal not in (None, ".", ","):
        rule = f"must be the decimal separator, . or ,; got {decimal!r}"
        raise ParameterError(rule, parameter="decimal")


def number_from_text(text: str, decimal: Decimal) -> str:
    """SQL of the number that a trimmed text means, as DOUBLE; NULL if it means none."""
    amount = _amount(text)
    plain = f"replace({amount}, ',', '')"
    if decimal == ",":
        plain = f"replace(replace({amount}, '.', ''), ',', '.')"
    is_number = f"regexp_full_match({amount}, '{_PATTERNS[decimal]}')"
    return f"if({is_number}, try_cast({plain} AS DOUBLE), NULL)"


@dataclass(frozen=True, slots=True)
class NumberForm:
    """What the texts of a column look like as numbers."""

    n_texts: int = 0
    n_point: int = 0  # numbers if a point is the decimal sign, and a comma groups thousands
    n_comma: int = 0  # numbers if it is the reverse
    n_unclear: int = 0  # numbers in both cases, and not the same one: 1,234
    n_currencies: int = 0
    n_priced: int = 0  # with a currency
    examples: tuple[str, ...] = ()  # texts that are not numbers, or unclear ones if all are
    number: str | None = None  # one that is
    unclear: str | None = None

    @property
    def decimal(self) -> Decimal | None:
        """The sign before decimals; None if the texts do not tell, or are not numbers."""
        if self.n_point == self.n_comma:
            return "." if self.n_point and not self.n_unclear else None
        return "." if self.n_point > self.n_comma else ","

    def count(self, decimal: Decimal) -> int:
        """Texts that are numbers with this decimal sign."""
        return self.n_point if decimal == "." else self.n_comma


def find_number_forms(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[str], table: str
) -> list[NumberForm]:
    """What the texts of some columns look like; `columns` is SQL of each trimmed text.

    Columns whose first rows hold hardly a number are not looked at further.
    """
    likely = _find_likely(connection, columns, f"(FROM {table} LIMIT {_SAMPLE})")
    found = [NumberForm()] * len(columns)
    for batch in (likely[i : i + _BATCH] for i in range(0, len(likely), _BATCH)):
        counted = _count(connection, [columns[index] for index in batch], table)
        for index, form in zip(batch, counted, strict=True):
            found[index] = form
    return found


def _find_likely(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[str], table: str
) -> list[int]:
    """Columns of which half the texts are short and have a digit."""
    if not columns:
        return []
    tests = ", ".join(
        f"2 * count(*) FILTER (length({text}) <= {_LONGEST} AND regexp_matches({text}, '[0-9]')) "
        f">= count(*) FILTER ({text} != '')"
        for text in columns
    )
    row = fetch_row(connection, f"SELECT {tests} FROM {table}") or ()
    return [index for index, is_likely in enumerate(row) if is_likely]


def _count(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[str], table: str
) -> list[NumberForm]:
    parts = [
        f"{text} AS t{i}, {_amount(text)} AS n{i}, {_currency(text)} AS c{i}"
        for i, text in enumerate(columns)
    ]
    sql = ", ".join(_tests(f"t{i}", f"n{i}", f"c{i}") for i in range(len(columns)))
    row = fetch_row(connection, f"SELECT {sql} FROM (SELECT {', '.join(parts)} FROM {table})") or ()
    size = len(row) // len(columns)
    return [_to_form(row[i * size : (i + 1) * size]) for i in range(len(columns))]


def _tests(text: str, amount: str, currency: str) -> str:
    is_text = f"{text} != ''"
    point, comma = (f"regexp_full_match({amount}, '{_PATTERNS[sign]}')" for sign in (".", ","))
    is_unclear = f"{point} AND {comma} AND regexp_matches({amount}, '[.,]')"
    wrong, unclear = f"{is_text} AND NOT ({point} OR {comma})", f"{is_text} AND {is_unclear}"
    conditions = (is_text, point, comma, is_unclear)
    counts = [f"count(*) FILTER ({one})" for one in conditions]
    return ", ".join(
        [
            *counts,
            f"count(DISTINCT {currency}) FILTER ({currency} != '')",
            f"count(*) FILTER ({currency} != '')",
            *(f"{pick}({text}) FILTER ({one})" for one in (wrong, unclear) for pick in _PICKS),
            f"min({text}) FILTER ({point} OR {comma})",
        ]
    )


_PICKS = ("min", "max")


def _to_form(row: Sequence[Any]) -> NumberForm:
    n_texts, n_point, n_comma, n_unclear, n_currencies, n_priced = row[:6]
    wrong, other_wrong, unclear, other_unclear, number = row[6:]
    shown = (wrong, other_wrong) if wrong is not None else (unclear, other_unclear)
    examples = tuple(dict.fromkeys(text for text in shown if text is not None))
    return NumberForm(
        n_texts, n_point, n_comma, n_unclear, n_currencies, n_priced, examples, number, unclear
    )


def _currency(text: str) -> str:
    return f"regexp_extract({text}, '^{_PRICE}$', 1) || regexp_extract({text}, '^{_PRICE}$', 3)"


def _amount(text: str) -> str:
    """The text without its currency; where it has one, spaces may group thousands."""
    amount = f"regexp_extract({text}, '^{_PRICE}$', 2)"
    close = amount
    for _ in range(2):  # each match takes the three digits that the next would need
        close = rf"regexp_replace({close}, '{_GROUPING}', '\1\2', 'g')"
    return f"if({_currency(text)} != '', {close}, {amount})"
