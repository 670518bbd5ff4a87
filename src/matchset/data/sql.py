"""SQL: how are ids, times and counts of any type read?"""

from __future__ import annotations

from matchset.data.duckdb_session import quote_name, quote_text
from matchset.data.nested import is_nested
from matchset.data.tables import JSON_NUMBER, Table
from matchset.data.value_forms import Decimal, number_from_text, time_from_text
from matchset.errors import DataError

_DAY_US = 86_400_000_000
_NUMBER = r"[+-]?\d+(\.\d*)?"
_HAS_YEAR = r"^[+-]?\d{4}"  # of a text; DuckDB takes 01-03-26 for a day of the year 1
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}
_LARGE = {"BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT"}
_NUMBERS = _INTEGERS | {f"U{kind}" for kind in _INTEGERS} | {"FLOAT", "DOUBLE", "DECIMAL"}
_UNREAL = ("NaN", "nan", "inf", "-inf", "Infinity", "-Infinity")  # as programs write them
_NEVER_TIMES = {"BOOLEAN", "TIME", "TIME WITH TIME ZONE", "INTERVAL", "UUID", "BLOB", "BIT"}


def is_number(kind: str) -> bool:
    """Return whether a DuckDB type is numeric."""
    return kind.split("(")[0] in _NUMBERS


def may_be_large(kind: str) -> bool:
    """Return whether a DuckDB type holds integers that a DOUBLE cannot distinguish."""
    plain = kind.split("(")[0]
    return plain in _LARGE or (plain == "DECIMAL" and kind.endswith(",0)"))


def text_of(table: Table, column: str) -> str:
    """Return SQL of a text as it is, or of a plain number: "123", never "123.0"; NaN is NULL."""
    name, kind = quote_name(column), _plain_type(table, column)
    if kind in ("DOUBLE", "FLOAT"):
        whole = f"{name} = trunc({name}) AND abs({name}) < 1e18"
        plain = f"WHEN {whole} THEN {name}::BIGINT::VARCHAR ELSE {name}::VARCHAR"
        return f"CASE WHEN NOT isfinite({name}) THEN NULL {plain} END"
    if kind == JSON_NUMBER:
        return rf"regexp_replace({name}, '\.0$', '')"
    return name if kind == "VARCHAR" else f"{name}::VARCHAR"


def id_of(table: Table, column: str) -> str:
    """Return SQL of a product id as text; NULL for a blank, NaN or infinity, also as text.

    Tools that turn a missing number into text write "nan", and no shop has one product of all rows
    without a product.
    """
    text = text_of(table, column)
    unreal = ", ".join(map(quote_text, ("", *_UNREAL)))
    return f"if(trim({text}) IN ({unreal}), NULL, {text})"


def number_of(table: Table, column: str) -> str:
    """Return SQL of a number as DOUBLE; one of a FLOAT column is the decimal that was written.

    The FLOAT that is nearest to 19.99 is 19.98999977 as a DOUBLE. Its shortest decimal form is
    "19.99", which is what was written and what users compare it with.
    """
    name = quote_name(column)
    if _plain_type(table, column) == "FLOAT":
        return f"{name}::VARCHAR::DOUBLE"
    return f"{name}::DOUBLE"


def day_of(table: Table, column: str, time_format: str | None = None, *, per_day: int = 1) -> str:
    """Return SQL of days since 1970-01-01, in UTC, of a time in any usual form; else of NULL.

    With a `time_format`, texts and numbers must have it. `per_day` gives parts of a day, such as
    86,400 seconds.

    Dates and timestamps (without a zone: UTC), ISO texts, and numbers, also as text: eight digits
    that are a date (20261231), fourteen that are a date and time (20261231235959), or else a time
    since 1970 in seconds, milliseconds, microseconds or nanoseconds, distinguished by size (the
    limits are 1e11, 1e14 and 1e17). A number below 1e8 that is no such date is not a time: it may
    be a year, a month (202612) or a day of Excel's. Nor are fourteen digits that start like a date
    and are none: as milliseconds they would be in the 26th century.
    """
    name, kind = quote_name(column), _plain_type(table, column)
    if kind == "DATE":
        return f"if(isfinite({name}), ({name} - DATE '1970-01-01')::BIGINT * {per_day}, NULL)"
    if kind.startswith("TIMESTAMP"):
        has_zone = "ZONE" in kind or "TZ" in kind
        instant = f"{name}::TIMESTAMPTZ" if has_zone else f"{name}::TIMESTAMP"
        return f"if(isfinite({instant}), {_floor_day(f'epoch_us({instant})', per_day)}, NULL)"
    if kind in _NUMBERS and time_format is None:
        return _day_of_number(f"{name}::DOUBLE", per_day)
    if kind in _NEVER_TIMES:
        raise DataError(f"must hold times; got {kind}", column=column, **table.location)
    text = f"trim({text_of(table, column)})"
    if time_format is not None:
        return _floor_day(f"epoch_us({time_from_text(text, time_format)})", per_day)
    iso = f"if(regexp_matches({text}, '{_HAS_YEAR}'), try_cast({text} AS TIMESTAMPTZ), NULL)"
    return (
        f"CASE WHEN regexp_full_match({text}, '{_NUMBER}') "
        f"THEN {_day_of_number(f'try_cast({text} AS DOUBLE)', per_day)} "
        f"ELSE {_floor_day(f'epoch_us({iso})', per_day)} END"
    )


def count_of(table: Table, column: str, decimal: Decimal | None = None) -> str:
    """Return SQL of a count that is finite and not negative; true is 1, false 0, also as text."""
    name, kind = quote_name(column), _plain_type(table, column)
    if decimal is not None and kind == "VARCHAR":
        number = number_from_text(f"trim({name})", decimal)
        return f"if({number} >= 0, {number}, NULL)"
    # Trimmed, because DuckDB moves the cast of a bare column into its CSV reader, where one value
    # that is not a number fails the whole file. The same holds for every other cast of texts.
    value = f"trim({name})" if kind in ("VARCHAR", JSON_NUMBER) else name
    number = number_of(table, column) if kind == "FLOAT" else f"try_cast({value} AS DOUBLE)"
    if value != name:
        is_true = f"lower({value}) IN ('true', 'false'), (lower({value}) = 'true')::DOUBLE"
        number = f"if({is_true}, {number})"
    return f"if({number} >= 0 AND isfinite({number}), {number}, NULL)"


def _floor_day(microseconds: str, per_day: int) -> str:
    return f"floor({microseconds} / {_DAY_US // per_day}.0)::BIGINT"


def _day_of_number(number: str, per_day: int) -> str:
    digits = f"try_cast({number} AS BIGINT)::VARCHAR"
    scale = " ".join(
        f"WHEN abs({number}) < {limit} THEN {divisor}"
        for limit, divisor in (("1e11", "86400"), ("1e14", "86400e3"), ("1e17", "86400e6"))
    )
    days = f"{number} / CASE {scale} ELSE 86400e9 END"
    since = f"try_cast(floor({days} * {per_day}) AS BIGINT)"
    is_small = f"{number} < 1e8"  # as seconds: before March 1973
    is_date = f"{number} BETWEEN 19000101 AND 21001231 AND {number} = trunc({number})"
    date = f"if({is_date}, try_strptime({digits}, '%Y%m%d'), NULL)"
    is_moment = f"{number} BETWEEN 19000101000000 AND 21001231235960"
    moment = f"try_strptime({digits}, '%Y%m%d%H%M%S')"
    return (
        f"CASE WHEN {is_small} THEN {_floor_day(f'epoch_us({date})', per_day)} "
        f"WHEN {is_moment} THEN {_floor_day(f'epoch_us({moment})', per_day)} ELSE {since} END"
    )


def _plain_type(table: Table, column: str) -> str:
    kind = table.type_of(column)
    if is_nested(kind):
        raise DataError(f"must hold plain values; got {kind}", column=column, **table.location)
    return kind.split("(")[0]
