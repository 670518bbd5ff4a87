"""Value forms: which number is "1.299,00 €", and which day 03.04.2026, as the user says?"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from itertools import product
from typing import Literal, TypeAlias

import duckdb

from matchset.data.duckdb_session import quote_text
from matchset.errors import ParameterError

Decimal: TypeAlias = Literal[".", ","]

_CURRENCY = r"\p{Sc}|[A-Z]{3}|[Kk]r\.?|zł|Kč|Fr\.?|lei|Ft"
_SPACE = r"\s\x{a0}\x{202f}"
# A zero in front ("00123") makes an id, not a number.
_WHOLE = r"[+-]?(?:0|[1-9]\d{{0,2}}(?:[{0}]\d{{3}})+|[1-9]\d{{0,14}})"
_GROUPS: Mapping[Decimal, str] = {".": f",'’{_SPACE}", ",": rf"\.'’{_SPACE}"}
_AMOUNTS: Mapping[Decimal, str] = {
    ".": _WHOLE.format(_GROUPS["."]) + r"(?:\.\d+)?(?:[eE][+-]?\d{1,2})?",
    ",": _WHOLE.format(_GROUPS[","]) + r"(?:,\d+)?",
}
_YEARS = "BETWEEN 1900 AND 2200"  # or "%d.%m.%Y" would take 1.3.26 for a day of the year 26
_DATES = (
    "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y",
    "%Y.%m.%d", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%b %d, %Y", "%B %d, %Y",
)  # fmt: skip
_CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
# What messages propose for a time that is not ISO.
_FORMATS = (
    *_DATES,
    *(f"{day}{gap}{clock}" for day, gap, clock in product(_DATES, (" ", ", ", "T"), _CLOCKS)),
    "%d/%b/%Y:%H:%M:%S %z",
    "%a, %d %b %Y %H:%M:%S %z",
    "%a, %d %b %Y %H:%M:%S %Z",
)


def check_decimal(decimal: str | None) -> None:
    """Refuse anything but a point or a comma."""
    if decimal not in (None, ".", ","):
        rule = f"must be the decimal separator, . or ,; got {decimal!r}"
        raise ParameterError(rule, parameter="decimal")


def check_time_format(connection: duckdb.DuckDBPyConnection, time_format: str | None) -> None:
    """Refuse a format that DuckDB cannot read."""
    if time_format is None:
        return
    try:
        connection.execute(f"SELECT try_strptime('', {quote_text(time_format)})").fetchall()
        is_format = "%" in time_format
    except duckdb.Error:
        is_format = False
    if not is_format:
        rule = f"must be a format such as %d.%m.%Y %H:%M; got {time_format!r}"
        raise ParameterError(rule, parameter="time_format")


def number_from_text(text: str, decimal: Decimal) -> str:
    """Return SQL of the number that a trimmed text means, as DOUBLE; NULL if it means none."""
    amount = _extract(text, decimal, group=2)
    ungrouped = f"regexp_replace({amount}, {quote_text(f'[{_GROUPS[decimal]}]')}, '', 'g')"
    return f"try_cast(replace({ungrouped}, ',', '.') AS DOUBLE)"


def currency_from_text(text: str, decimal: Decimal) -> str:
    """Return SQL of the currency of a trimmed price; an empty text if it is none, or has none."""
    return f"({_extract(text, decimal, group=1)} || {_extract(text, decimal, group=3)})"


def time_from_text(text: str, time_format: str) -> str:
    """Return SQL of the instant that a text means, NULL if it does not have the format."""
    moment = f"try_strptime({text}, {quote_text(time_format)})"
    return f"if(isfinite({moment}) AND year({moment}) {_YEARS}, {moment}, NULL)"


def advise_decimal(n_point: int, n_comma: int) -> str:
    """Return what to say of texts of which so many are numbers with a decimal point, or comma."""
    if n_point == n_comma:
        return "say {decimal=,} for a decimal comma, {decimal=.} for a decimal point"
    return f"say {{decimal={'.' if n_point > n_comma else ','}}}"


def advise_time_format(text: str) -> str | None:
    """Return what to say of a time that is not ISO; None if no format is known that reads it."""
    formats = []
    for each in _FORMATS:
        with suppress(ValueError):
            datetime.strptime(text.strip(), each)
            formats.append(f"{{time_format={each}}}")
    return f"say {' or '.join(formats)}" if formats else None


def _extract(text: str, decimal: Decimal, *, group: int) -> str:
    """Return SQL of a part of a price: a currency, the amount, or a currency after it."""
    price = (
        rf"(?:({_CURRENCY})[{_SPACE}]?)?({_AMOUNTS[decimal]})(?:,-+|\.-+)?"  # ",-" is no cents
        rf"[{_SPACE}]?({_CURRENCY})?"
    )
    return f"regexp_extract({text}, {quote_text(f'^{price}$')}, {group})"
