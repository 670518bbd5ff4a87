"""UBI answers: what did the units of an experiment see, and what came of each answer?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from matchset.data.arrow import NO_DAY, ArrowColumn, read_columns
from matchset.data.duckdb_session import (
    DEFAULT_MEMORY_LIMIT,
    fetch_row,
    naming_errors,
    quote_name,
    quote_text,
)
from matchset.data.events import EventKind, kind_of
from matchset.data.nested import is_nested
from matchset.data.sql import day_of
from matchset.data.tables import Table, TableSource, open_tables
from matchset.data.ubi import field_of
from matchset.errors import DataError

ORIGINS = ("a", "b")  # which of two interleaved arms a product came from
_ANSWER, _EVENT = "query_response_hit_ids", "action_name"
_LIST = "'[\"VARCHAR\"]'"  # JSON of a list of texts


@dataclass(frozen=True, slots=True, eq=False)
class UbiAnswers:
    """A row per answer: unit, arm, day, n_hits, took (ms), revenue, and counts of events.

    A column such as "click" has the clicks on products of the answer, "click a" those on products
    that are credited to the first of two interleaved arms.
    """

    experiment: str
    columns: dict[str, ArrowColumn]
    n_events: int  # that have the query id of one of these answers
    n_strange: int  # of them, on products that were not in the answer


def read_answers(
    source: TableSource,
    kinds: Sequence[EventKind],
    *,
    name: str | None = None,
    memory_limit: str = DEFAULT_MEMORY_LIMIT,
) -> UbiAnswers:
    """Read answers with their events, of one experiment; see `read_outcomes`."""
    with open_tables(source, memory_limit=memory_limit) as (connection, (tables,)):
        answers = [_select_answers(table) for table in tables if _has(table, _ANSWER)]
        events = [_select_events(table) for table in tables if _has(table, _EVENT)]
        if not answers:
            rule = f"records of an experiment must have the field {_ANSWER!r}; got none"
            raise DataError(rule, **tables[0].location)
        with naming_errors("UBI record", **tables[0].location):
            chosen = _create_answers(connection, answers, name, tables[0])
            n_events, n_strange = _create_events(connection, events)
            columns = read_columns(_join(connection, kinds), coded=("unit", "arm"))
    return UbiAnswers(chosen, columns, n_events, n_strange)


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
        f"{_day(table)} AS day, {hits}::VARCHAR AS hits, {inner} FROM {table.sql()}"
    )


def _select_events(table: Table) -> str:
    revenue = "NULL"
    if "event_attributes" in table.columns or "event_attributes.revenue" in table.columns:
        revenue = field_of(table, "event_attributes.revenue")
    return (
        f"SELECT {field_of(table, 'query_id')}::VARCHAR AS query_id, "
        f"{field_of(table, _EVENT)}::VARCHAR AS action, "
        f"{field_of(table, 'event_attributes.object.object_id')}::VARCHAR AS product, "
        f"try_cast({revenue}::VARCHAR AS DOUBLE) AS revenue FROM {table.sql()}"
    )


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
        "CREATE TABLE every_answer AS SELECT DISTINCT ON (query_id) * FROM "
        f"({' UNION ALL '.join(answers)}) WHERE experiment IS NOT NULL AND arm IS NOT NULL "
        "AND unit IS NOT NULL AND query_id IS NOT NULL"
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
    empty = "SELECT NULL::VARCHAR AS query_id, NULL::VARCHAR AS action, NULL::VARCHAR AS product, "
    rows = " UNION ALL ".join([*events, f"{empty}NULL::DOUBLE AS revenue WHERE false"])
    connection.execute(
        f"CREATE TABLE event AS SELECT action, e.product, revenue, e.query_id, "
        f"list_position(from_json(hits, {_LIST}), e.product) AS position, "
        f"from_json(origins, {_LIST})[position] AS origin "
        f"FROM ({rows}) e JOIN answer USING (query_id) WHERE action IS NOT NULL"
    )
    counted = fetch_row(
        connection,
        "SELECT count(*), count(*) FILTER (WHERE product IS NOT NULL AND position IS NULL) "
        "FROM event",
    ) or (0, 0)
    return int(counted[0]), int(counted[1])


def _join(
    connection: duckdb.DuckDBPyConnection, kinds: Sequence[EventKind]
) -> duckdb.DuckDBPyRelation:
    """One row per answer, with what came of it."""
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
    parts["revenue"] = f"sum(revenue) FILTER (WHERE {is_kind.get('purchase', 'false')})"
    made = ", ".join(f"{sql} AS {quote_name(name)}" for name, sql in parts.items())
    filled = ", ".join(f"coalesce({q}, 0)::DOUBLE AS {q}" for q in map(quote_name, parts))
    return connection.sql(
        f"SELECT unit, arm, coalesce(day, {NO_DAY})::DOUBLE AS day, "
        "coalesce(json_array_length(hits), 0)::DOUBLE AS n_hits, "
        f"try_cast(took AS DOUBLE) / 1000 AS took, {filled} FROM answer "
        f"LEFT JOIN (SELECT query_id, {made} FROM event GROUP BY query_id) USING (query_id)"
    )
