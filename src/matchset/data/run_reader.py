"""Reading a run: what did another search engine answer?"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import ArrowColumn, read_columns
from matchset.data.columns import LOG_NAMES, choose_columns, describe_columns
from matchset.data.duckdb_session import naming_errors, quote_name
from matchset.data.sql import id_of, text_of
from matchset.data.tables import Table, TableSource, open_tables
from matchset.errors import DataError
from matchset.strings import Strings

_NAMES = {
    "query": LOG_NAMES["query"],
    "product": (*LOG_NAMES["product"], "product"),
    "rank": ("rank", "position"),
    "score": ("score",),
}


@dataclass(frozen=True, slots=True, eq=False)
class RunRows:
    """The rows of a run; either ranks or scores are there."""

    queries: Strings  # (n_rows,)
    products: Strings
    ranks: NDArray[np.float64] | None = None  # 1 is the best
    scores: NDArray[np.float64] | None = None


def read_run_rows(
    source: TableSource,
    *,
    query: str | None = None,
    product: str | None = None,
    rank: str | None = None,
    score: str | None = None,
) -> RunRows:
    """Read the rows of a table with a rank or a score."""
    choices = {"query": query, "product": product, "rank": rank, "score": score}
    with open_tables(source, is_ordered=True) as (session, (tables,)):
        parts = [_read(session, table, choices) for table in tables]
    orders = {part.ranks is None for part in parts}
    if len(orders) > 1:
        raise DataError("the files of a run must all have ranks or all have scores; got both")
    queries, products = ([getattr(p, of) for p in parts] for of in ("queries", "products"))
    ranks, scores = (
        [each for p in parts if (each := getattr(p, of)) is not None] for of in ("ranks", "scores")
    )
    return RunRows(
        Strings.concatenate(queries),
        Strings.concatenate(products),
        np.concatenate(ranks) if ranks else None,
        np.concatenate(scores) if scores else None,
    )


def _read(
    session: duckdb.DuckDBPyConnection, table: Table, choices: dict[str, str | None]
) -> RunRows:
    """Read the rows of a table; one without a query, a product or a number is a DataError."""
    roles = choose_columns(table, _NAMES, choices, required=("query", "product"))
    order = "rank" if "rank" in roles else "score"
    if order not in roles:
        rule = f"a run must have a column rank or score; there are {describe_columns(table)}"
        raise DataError(rule, **table.location)
    written = f"{quote_name(roles[order])}::VARCHAR"
    rows = (
        f"SELECT {text_of(table, roles['query'])} AS query, "
        f"{id_of(table, roles['product'])} AS product, "
        f"try_cast({written} AS DOUBLE) AS number, {written} AS written FROM {table.sql()}"
    )
    with naming_errors(table.kind, **table.location):
        # A row with neither is a query that the engine had no answer to.
        used = f"FROM ({rows}) WHERE coalesce(product, written) IS NOT NULL"
        columns = read_columns(session.sql(used))
    numbers = columns["number"].values.astype(np.float64)
    if len(numbers) == 0:
        raise DataError("a run must have rows; got none", **table.location)
    for role in ("query", "product"):
        bad = np.flatnonzero(_is_null(columns[role]))
        if len(bad):
            rule = f"every row of a run must have a {role}; row {bad[0] + 1} has none"
            raise DataError(rule, **table.location)
    bad = np.flatnonzero(_is_null(columns["number"]) | ~np.isfinite(numbers))
    if len(bad):
        got = columns["written"].texts[int(bad[0])] or "nothing"
        rule = f"every {order} of a run must be a number; got {got!r} in row {bad[0] + 1}"
        raise DataError(rule, **table.location)
    texts = columns["query"].texts, columns["product"].texts
    return RunRows(*texts, ranks=numbers) if order == "rank" else RunRows(*texts, scores=numbers)


def _is_null(column: ArrowColumn) -> NDArray[np.bool_]:
    return np.zeros(1, np.bool_) if column.is_null is None else column.is_null
