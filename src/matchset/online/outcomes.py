"""Outcomes: what did the customers of an experiment see, and what did they do?

Reads documents of User Behavior Insights as JSON Lines: those that the server wrote (`records`),
and the events of the shop's own tracking with the same query ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY, ArrowColumn, read_columns
from matchset.data.duckdb_session import fetch_row, naming_errors, open_session, quote_files
from matchset.data.duckdb_session import quote_text as quote
from matchset.data.events import kind_of
from matchset.data.files import PathLike, find_files
from matchset.errors import DataError
from matchset.evaluate.significance import Values
from matchset.memory import DEFAULT_MEMORY, Memory, limit_memory
from matchset.online.definition import INTERLEAVED
from matchset.online.searches import EMPTY, KINDS, LATENCY, REVENUE, Searches

ORIGINS = ("a", "b")  # which of two interleaved arms a product came from
_FIELDS = {  # of UBI 1.3; what has another type is read as missing
    "query_id": "VARCHAR",
    "client_id": "VARCHAR",
    "user_query": "VARCHAR",
    "timestamp": "VARCHAR",
    "query_response_hit_ids": "VARCHAR[]",
    "query_attributes": "STRUCT(experiment VARCHAR, arm VARCHAR, microseconds DOUBLE, "
    '"from" VARCHAR[])',
    "action_name": "VARCHAR",
    "event_id": "VARCHAR",
    "event_attributes": "STRUCT(object STRUCT(object_id VARCHAR), revenue DOUBLE)",
}
_ANSWERS = """
CREATE TABLE answer_row AS SELECT query_id, client_id AS unit, coalesce(
    floor(epoch_us(try_cast(timestamp AS TIMESTAMPTZ)) / 86400e6), $no_day) AS day,
  coalesce(trim(regexp_replace(lower(user_query), '\\s+', ' ', 'g')), 'id ' || query_id) AS query,
  query_attributes.experiment AS experiment, query_attributes.arm AS arm,
  query_attributes.microseconds AS microseconds, query_attributes."from" AS origins,
  coalesce(query_response_hit_ids, []) AS hits
FROM line WHERE query_attributes.experiment IS NOT NULL"""
_KNOWN = """
CREATE TABLE known AS SELECT DISTINCT ON (query_id) * FROM answer_row
WHERE query_id IS NOT NULL AND arm IS NOT NULL AND unit IS NOT NULL"""
# A second page or a reload is another answer and the same search.
_CHOSEN = """
CREATE TABLE answer AS SELECT *, dense_rank() OVER (ORDER BY unit, arm, day, query) AS search
FROM known WHERE experiment = $experiment"""
_EVENTS = """
CREATE TABLE event_row AS SELECT query_id, action_name AS action, timestamp, event_id,
  event_attributes.object.object_id AS product, event_attributes.revenue AS revenue
FROM line WHERE action_name IS NOT NULL AND query_id IS NOT NULL"""
# Trackers send again what may have been lost: the same event id, or else the same moment.
_ONCE = """
CREATE TABLE event_once AS SELECT DISTINCT ON (query_id, event_id,
  if(event_id IS NULL, [action, product, timestamp], NULL)) * FROM event_row"""
_MATCHED = """
CREATE TABLE event AS SELECT search, product, if(isfinite(revenue), revenue, NULL) AS revenue,
  list_position(hits, product) AS position, origins[position] AS origin, kind
FROM event_once JOIN answer USING (query_id) LEFT JOIN kind USING (action)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """How much of the records could not be used, by what is wrong with it."""

    unmatched: int = 0  # events with the query id of no answer
    repeated: int = 0  # events that are there twice
    incomplete: int = 0  # answers without an arm, a unit or a query id
    malformed: int = 0  # lines that are no JSON: torn, or written right now


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """The recorded searches of one experiment."""

    experiment: str
    arms: tuple[str, ...]  # sorted by name; "interleaved" alone where both are shown
    arm: NDArray[np.int32]  # of each search, index into `arms`, (n_searches,)
    searches: Searches
    # Of interleaved searches, by metric: products credited to the first and the second arm, that
    # were clicked or bought, (n_searches, 2).
    credited: Mapping[str, Values]
    n_events: int  # that have the query id of one of these searches
    n_strange: int  # of them, on products that were not in the answer
    dropped: Dropped = Dropped()  # frozen

    @property
    def is_interleaved(self) -> bool:
        """Whether every unit sees both arms."""
        return self.arms == (INTERLEAVED,)


def read_outcomes(
    source: PathLike | Sequence[PathLike],
    *,
    name: str | None = None,
    memory: Memory = DEFAULT_MEMORY,
) -> Outcomes:
    """Read the records of an experiment, by its name if there are several.

    `source` is files, globs or folders of JSON Lines, or a list of them. Answers and events may be
    in the same file or in different ones. Answers of one unit, query and day are one search.
    """
    files = find_files(source)
    for file in files:
        if file.format != "JSON Lines":
            rule = f"records must be JSON Lines, such as queries.jsonl; got {file.format}"
            raise DataError(rule, path=file.path)
    paths = [file.path for file in files]
    with (
        limit_memory(memory),
        open_session(paths=paths) as connection,
        naming_errors("file of records", path=paths[0]),
    ):
        experiment = _load(connection, paths, name)
        rows = read_columns(_join(connection), coded=("unit", "arm"))
        n_events, n_strange = _count(
            connection,
            "event",
            "count(*), count(*) FILTER (WHERE product IS NOT NULL AND position IS NULL)",
        )
        dropped = _count_dropped(connection, experiment)
    return _to_outcomes(experiment, rows, n_events, n_strange, dropped)


def _load(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], name: str | None) -> str:
    """Create the tables of one experiment; return its name."""
    types = ", ".join(f"{field}: {quote(kind)}" for field, kind in _FIELDS.items())
    connection.execute(
        f"CREATE TABLE line AS FROM read_json({quote_files(paths)}, columns={{{types}}}, "
        "format='newline_delimited', ignore_errors=true)"
    )
    connection.execute(_ANSWERS, {"no_day": int(NO_DAY)})
    connection.execute(_KNOWN)
    rows = connection.execute("SELECT DISTINCT experiment FROM known ORDER BY 1").fetchall()
    names = [each for (each,) in rows]
    if not names:
        rule = "must hold answers to units of an experiment (query_attributes.experiment); got none"
        raise DataError(rule, path=paths[0])
    if name not in (names if len(names) > 1 else [None, *names]):
        rule = f"must be one of the recorded experiments, {', '.join(map(repr, names))}"
        raise DataError(f"{rule}; got {name!r}", parameter="name")
    experiment = str(name or names[0])
    connection.execute(_CHOSEN, {"experiment": experiment})
    connection.execute(_EVENTS)
    connection.execute(_ONCE)
    actions = connection.execute("SELECT DISTINCT action FROM event_once").fetchall()
    connection.execute("CREATE TABLE kind (action VARCHAR, kind VARCHAR)")
    for (action,) in actions:
        connection.execute("INSERT INTO kind VALUES (?, ?)", [action, kind_of(action)])
    connection.execute(_MATCHED)
    return experiment


def _count(connection: duckdb.DuckDBPyConnection, table: str, what: str = "count(*)") -> list[int]:
    row = fetch_row(connection, f"SELECT {what} FROM {table}")  # our own names
    return [int(number) for number in row or ()]


def _count_dropped(connection: duckdb.DuckDBPyConnection, experiment: str) -> Dropped:
    tables = {
        "unmatched": "event_once ANTI JOIN known USING (query_id)",
        "repeated": "event_row",
        "incomplete": f"answer_row WHERE experiment = {quote(experiment)} AND "
        "(query_id IS NULL OR arm IS NULL OR unit IS NULL)",
        "malformed": "line WHERE query_id IS NULL AND query_attributes IS NULL AND "
        "event_attributes IS NULL AND action_name IS NULL",
    }
    counts = {name: _count(connection, table)[0] for name, table in tables.items()}
    counts["repeated"] -= _count(connection, "event_once")[0]
    return Dropped(**counts)


def _join(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """Return one row per search, with what came of its answers."""
    columns = {"revenue": "sum(revenue) FILTER (WHERE kind = 'purchase')"}
    for kind in KINDS.values():
        columns[kind] = f"count(*) FILTER (WHERE kind = '{kind}')"
        for origin in ORIGINS:
            is_credited = f"kind = '{kind}' AND origin = '{origin}'"
            columns[f"{kind}_{origin}"] = f"count(DISTINCT product) FILTER (WHERE {is_credited})"
    counted = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    filled = ", ".join(f"coalesce({name}, 0)::DOUBLE AS {name}" for name in columns)
    return connection.sql(
        f"SELECT unit, arm, day::DOUBLE AS day, n_hits, took, {filled} FROM (SELECT search, "
        "any_value(unit) AS unit, any_value(arm) AS arm, any_value(day) AS day, "
        "max(len(hits))::DOUBLE AS n_hits, coalesce(avg(microseconds) / 1000, 'nan') AS took "
        f"FROM answer GROUP BY search) LEFT JOIN (SELECT search, {counted} FROM event "
        "GROUP BY search) USING (search)"
    )


def _to_outcomes(
    experiment: str,
    rows: Mapping[str, ArrowColumn],
    n_events: int,
    n_strange: int,
    dropped: Dropped,
) -> Outcomes:
    number = {name: column.values.astype(np.float64) for name, column in rows.items()}
    values = {metric: (number[kind] > 0).astype(np.float64) for metric, kind in KINDS.items()}
    values[REVENUE] = number["revenue"]
    values[EMPTY] = (number["n_hits"] == 0).astype(np.float64)
    values[LATENCY] = number["took"]
    named = list(rows["arm"].texts)
    arms = sorted(named)
    if INTERLEAVED in arms and len(arms) > 1:
        rule = "an experiment must be interleaved or not"
        raise DataError(f"{rule}; {experiment!r} has the arms {', '.join(arms)}")
    credited = {}
    if arms == [INTERLEAVED]:
        for metric, kind in KINDS.items():
            credited[metric] = np.stack([number[f"{kind}_{side}"] for side in ORIGINS], axis=1)
    unit, day = rows["unit"].values.astype(np.int64), number["day"].astype(np.int64)
    return Outcomes(
        experiment=experiment,
        arms=tuple(arms),
        arm=np.array([arms.index(each) for each in named], np.int32)[rows["arm"].values],
        searches=Searches(unit, day, values),
        credited=credited,
        n_events=n_events,
        n_strange=n_strange,
        dropped=dropped,
    )
