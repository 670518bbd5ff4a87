"""UBI answers: what did the units of an experiment see, and what came of each search?

A search is a query of a unit on a day, as in `session_rows`: a second page or a reload is another
answer and the same search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from matchset.data.arrow import NO_DAY, ArrowColumn, read_columns
from matchset.data.duckdb_session import (
    fetch_row,
    naming_errors,
    quote_name,
    quote_text,
)
from matchset.data.events import EventKind, kind_of
from matchset.data.nested import is_nested
from matchset.data.record_lines import whole_lines
from matchset.data.sql import day_of
from matchset.data.tables import Table, TableSource, open_tables
from matchset.data.ubi import field_of
from matchset.errors import DataError
from matchset.memory import DEFAULT_MEMORY, Memory, limit_memory

ORIGINS = ("a", "b")  # which of two interleaved arms a product came from
_ANSWER, _EVENT = "query_response_hit_ids", "action_name"
_IS_COMPLETE = "(arm IS NOT NULL AND unit IS NOT NULL AND query_id IS NOT NULL)"
_SAME_QUERY = "trim(regexp_replace(lower(query), '\\s+', ' ', 'g'))"
_LIST = "'[\"VARCHAR\"]'"  # JSON of a list of texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """How much of the records could not be used, by what is wrong with it."""

    unmatched: int = 0  # events with the query id of no answer
    repeated: int = 0  # events that are there twice
    incomplete: int = 0  # answers without an arm, a unit or a query id
    bad_revenue: int = 0  # purchases whose revenue is no number
    untimed: int = 0  # answers without the time that the matcher took
    torn: int = 0  # last lines of files that were not written to their end


@dataclass(frozen=True, slots=True, eq=False)
class UbiAnswers:
    """A row per search: unit, arm, day, n_hits, took (ms), revenue, and counts of events.

    A column such as "click" has the clicks on products of its answers, "click a" those on products
    that are credited to the first of two interleaved arms.
    """

    experiment: str
    columns: dict[str, ArrowColumn]
    n_events: int  # that have the query id of one of these answers
    n_strange: int  # of them, on products that were not in the answer
    dropped: Dropped


def read_answers(
    source: TableSource,
    kinds: Sequence[EventKind],
    *,
    name: str | None = None,
    memory: Memory = DEFAULT_MEMORY,
) -> UbiAnswers:
    """Read answers with their events, of one experiment; see `read_outcomes`."""
    with (
        limit_memory(memory),
        whole_lines(source) as (whole, n_torn),
        open_tables(whole) as (connection, (tables,)),
    ):
        answers = [_select_answers(table) for table in tables if _has(table, _ANSWER)]
        events = [_select_events(table) for table in tables if _has(table, _EVENT)]
        if not answers:
            rule = f"records of an experiment must have the field {_ANSWER!r}; got none"
            raise DataError(rule, **tables[0].location)
        with naming_errors("UBI record", **tables[0].location):
            chosen = _create_answers(connection, answers, name, tables[0])
            n_events, n_strange = _create_events(connection, events)
            dropped = _count_dropped(connection, chosen, n_torn)
            columns = read_columns(_join(connection, kinds), coded=("unit", "arm"))
    return UbiAnswers(chosen, columns, n_events, n_strange, dropped)


def _has(table: Table, field: str) -> bool:
    return field in table.columns or "_source" in table.columns


def _select_answers(table: Table) -> str:
    """SQL of the answers in a table; `hits` and `origins` are JSON arrays as text."""
    hits = field_of(table, _ANSWER)
    if is_nested(table.columns.get(_ANSWER, "")):
        hits = f"to_json({hits})"
    try:
        unit = field_of(table, "client_id")
    except DataError as error:
        raise DataError(f"{error.rule}; it holds the unit", **table.location) from None
    attributes = {
        name: field_of(table, f"query_attributes.{field}")
        for name, field in (
            ("experiment", "experiment"),
            ("arm", "arm"),
            ("took", "microseconds"),
            ("origins", "from"),
        )
    }
    inner = ", ".join(f"{sql}::VARCHAR AS {name}" for name, sql in attributes.items())
    return (
        f"SELECT {field_of(table, 'query_id')}::VARCHAR AS query_id, {unit}::VARCHAR AS unit, "
        f"{_optional(table, 'user_query')} AS query, {_day(table)} AS day, "
        f"{hits}::VARCHAR AS hits, {inner} FROM {table.sql()}"
    )


def _select_events(table: Table) -> str:
    return (
        f"SELECT {field_of(table, 'query_id')}::VARCHAR AS query_id, "
        f"{field_of(table, _EVENT)}::VARCHAR AS action, "
        f"{field_of(table, 'event_attributes.object.object_id')}::VARCHAR AS product, "
        f"{_optional(table, 'event_attributes.revenue')} AS revenue, "
        f"{_optional(table, 'timestamp')} AS timestamp, "
        f"{_optional(table, 'event_id', '_id')} AS event_id FROM {table.sql()}"
    )


def _optional(table: Table, *paths: str) -> str:
    """SQL of the first of some fields that a table has, as text."""
    for path in paths:
        try:
            return f"{field_of(table, path)}::VARCHAR"
        except DataError:
            continue
    return "NULL::VARCHAR"


def _day(table: Table) -> str:
    if "timestamp" in table.columns:
        return day_of(table, "timestamp")
    moment = f"try_cast({field_of(table, 'timestamp')}::VARCHAR AS TIMESTAMPTZ)"
    return f"floor(epoch_us({moment}) / 86400e6)"


def _create_answers(
    connection: duckdb.DuckDBPyConnection,
    answers: Sequence[str],
    name: str | None,
    table: Table,
) -> str:
    """Create the table of answers of one experiment; returns its name."""
    connection.execute(
        f"CREATE TABLE answer_row AS FROM ({' UNION ALL '.join(answers)}) "
        "WHERE experiment IS NOT NULL"
    )
    connection.execute(
        "CREATE TABLE every_answer AS SELECT DISTINCT ON (query_id) * FROM answer_row "
        f"WHERE {_IS_COMPLETE}"
    )
    rows = connection.execute("SELECT DISTINCT experiment FROM every_answer ORDER BY 1").fetchall()
    names = [each for (each,) in rows]
    if not names:
        raise DataError("must hold answers to units of an experiment; got none", **table.location)
    if name is None and len(names) > 1:
        listed = ", ".join(map(repr, names))
        raise DataError(
            f"must hold one experiment, or its name must be given; got {listed}",
            parameter="name",
            **table.location,
        )
    chosen = names[0] if name is None else name
    if chosen not in names:
        listed = ", ".join(map(repr, names))
        raise DataError(
            f"must be one of the recorded experiments, {listed}; got {chosen!r}",
            parameter="name",
        )
    connection.execute(
        f"CREATE TABLE answer AS SELECT * FROM every_answer WHERE experiment = {quote_text(chosen)}"
    )
    return chosen


def _create_events(connection: duckdb.DuckDBPyConnection, events: Sequence[str]) -> tuple[int, int]:
    """Create the table of events on products; returns how many, and on products not shown."""
    names = "query_id", "action", "product", "revenue", "timestamp", "event_id"
    empty = ", ".join(f"NULL::VARCHAR AS {name}" for name in names)
    rows = " UNION ALL ".join([*events, f"SELECT {empty} WHERE false"])
    connection.execute(
        f"CREATE TABLE event_row AS FROM ({rows}) WHERE action IS NOT NULL AND query_id IS NOT NULL"
    )
    # Trackers send again what may have been lost: the same event id, or else the same moment.
    connection.execute(
        "CREATE TABLE event_once AS SELECT DISTINCT ON (query_id, event_id, "
        "if(event_id IS NULL, [action, product, timestamp], NULL)) * FROM event_row"
    )
    connection.execute(
        f"CREATE TABLE event AS SELECT action, e.product, revenue, e.query_id, "
        "if(isfinite(try_cast(revenue AS DOUBLE)), try_cast(revenue AS DOUBLE), NULL) AS amount, "
        f"list_position(from_json(hits, {_LIST}), e.product) AS position, "
        f"from_json(origins, {_LIST})[position] AS origin "
        "FROM event_once e JOIN answer USING (query_id)"
    )
    counted = fetch_row(
        connection,
        "SELECT count(*), count(*) FILTER (WHERE product IS NOT NULL AND position IS NULL) "
        "FROM event",
    ) or (0, 0)
    return int(counted[0]), int(counted[1])


def _count_dropped(connection: duckdb.DuckDBPyConnection, chosen: str, n_torn: int) -> Dropped:
    rows = connection.execute("SELECT DISTINCT action FROM event").fetchall()
    bought = ", ".join(quote_text(each) for (each,) in rows if kind_of(each) == "purchase")
    known = "SELECT query_id FROM every_answer"
    tables = {
        "unmatched": f"event_once ANTI JOIN ({known}) USING (query_id)",
        "repeated": "(SELECT (SELECT count(*) FROM event_row) - count(*) AS n FROM event_once)",
        "incomplete": f"answer_row WHERE experiment = {quote_text(chosen)} AND NOT {_IS_COMPLETE}",
        "bad_revenue": f"event WHERE action IN ({bought or 'NULL'}) AND revenue IS NOT NULL "
        "AND amount IS NULL",
        "untimed": "answer WHERE try_cast(took AS DOUBLE) IS NULL",
    }
    counts = {}
    for name, table in tables.items():
        what = "n" if name == "repeated" else "count(*)"
        counts[name] = int((fetch_row(connection, f"SELECT {what} FROM {table}") or (0,))[0])
    return Dropped(**counts, torn=n_torn)


def _join(
    connection: duckdb.DuckDBPyConnection, kinds: Sequence[EventKind]
) -> duckdb.DuckDBPyRelation:
    """One row per search, with what came of its answers."""
    rows = connection.execute("SELECT DISTINCT action FROM event").fetchall()
    parts: dict[str, str] = {}
    is_kind = {}
    for kind in kinds:
        named = [quote_text(action) for (action,) in rows if kind_of(action) == kind]
        is_kind[kind] = f"action IN ({', '.join(named) or 'NULL'})"
        parts[kind] = f"count(*) FILTER (WHERE {is_kind[kind]})"
        for origin in ORIGINS:
            chosen = f"{is_kind[kind]} AND origin = {quote_text(origin)}"
            parts[f"{kind} {origin}"] = f"count(DISTINCT product) FILTER (WHERE {chosen})"
    parts["revenue"] = f"sum(amount) FILTER (WHERE {is_kind.get('purchase', 'false')})"
    made = ", ".join(f"{sql} AS {quote_name(name)}" for name, sql in parts.items())
    filled = ", ".join(f"coalesce({q}, 0)::DOUBLE AS {q}" for q in map(quote_name, parts))
    return connection.sql(
        "WITH shown AS (SELECT *, dense_rank() OVER (ORDER BY unit, arm, day, "
        f"coalesce({_SAME_QUERY}, 'id ' || query_id)) AS search FROM answer) "
        f"SELECT unit, arm, coalesce(day, {NO_DAY})::DOUBLE AS day, n_hits, took, {filled} FROM "
        "(SELECT search, any_value(unit) AS unit, any_value(arm) AS arm, any_value(day) AS day, "
        "max(coalesce(json_array_length(hits), 0))::DOUBLE AS n_hits, "
        "avg(try_cast(took AS DOUBLE)) / 1000 AS took FROM shown GROUP BY search) LEFT JOIN "
        f"(SELECT search, {made} FROM event JOIN shown USING (query_id) GROUP BY search) "
        "USING (search)"
    )
