"""Reading a run: what did another search engine answer?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import ArrowColumn, read_columns
from matchset.data.columns import LOG_NAMES, choose_column, describe_columns
from matchset.data.duckdb_session import naming_errors, quote_name
from matchset.data.sql import id_of, text_of
from matchset.data.tables import Table, TableSource, open_tables
from matchset.errors import DataError
from matchset.strings import Strings

TREC = (".run", ".trec", ".txt", ".res")  # endings of TREC runs
_NAMES = {
    "query": LOG_NAMES["query"],
    "product": (*LOG_NAMES["product"], "product"),
    "rank": ("rank", "position"),
    "score": ("score",),
}
_FIELDS = 6  # of a line of a TREC run: query, Q0, product, rank, score, name of the run


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
    """Read the rows of a table, or of a TREC run."""
    if isinstance(source, str | Path) and Path(source).suffix.lower() in TREC:
        return _read_trec(Path(source))
    choices = {"query": query, "product": product, "rank": rank, "score": score}
    with open_tables(source, is_ordered=True) as (session, (tables,)):
        parts = []
        for table in tables:
            sql, order = _select(table, choices)
            with naming_errors(table.kind, **table.location):
                columns = read_columns(session.sql(sql))
            _check(table, columns, order)
            texts = columns["query"].texts, columns["product"].texts
            parts.append((*texts, columns["number"].values.astype(np.float64), order))
    queries, products, values, orders = zip(*parts, strict=True)
    if len(set(orders)) > 1:
        raise DataError("the files of a run must all have ranks or all have scores; got both")
    return RunRows(
        Strings.concatenate(queries),
        Strings.concatenate(products),
        **{f"{orders[0]}s": np.concatenate(values)},
    )


def _select(table: Table, choices: dict[str, str | None]) -> tuple[str, str]:
    """Return SQL of the rows, and the name of the column that orders them."""
    roles = {
        role: choose_column(
            table, role, choices[role], names=names, is_required=role in ("query", "product")
        )
        for role, names in _NAMES.items()
    }
    order = "rank" if roles["rank"] is not None else "score"
    column, query, product = (roles[role] or "" for role in (order, "query", "product"))
    if not column:
        rule = f"a run must have a column rank or score; there are {describe_columns(table)}"
        raise DataError(rule, **table.location)
    written = f"{quote_name(column)}::VARCHAR"
    rows = (
        f"SELECT {text_of(table, query)} AS query, {id_of(table, product)} AS product, "
        f"try_cast({written} AS DOUBLE) AS number, {written} AS written FROM {table.sql()}"
    )
    # A row with neither is a query that the engine had no answer to.
    return f"FROM ({rows}) WHERE coalesce(product, written) IS NOT NULL", order


def _check(table: Table, columns: Mapping[str, ArrowColumn], order: str) -> None:
    """Raise a DataError for the first row that lacks a query, a product, or a finite number."""
    numbers = columns["number"].values
    if len(numbers) == 0:
        raise DataError("a run must have rows; got none", **table.location)
    for role in ("query", "product"):
        rows = np.flatnonzero(_nulls(columns[role]))
        if len(rows):
            rule = f"every row of a run must have a {role}; row {rows[0] + 1} has none"
            raise DataError(rule, **table.location)
    rows = np.flatnonzero(_nulls(columns["number"]) | ~np.isfinite(numbers))
    if len(rows):
        got = columns["written"].texts[int(rows[0])] or "nothing"
        rule = f"every {order} of a run must be a number; got {got!r} in row {rows[0] + 1}"
        raise DataError(rule, **table.location)


def _nulls(column: ArrowColumn) -> NDArray[np.bool_]:
    return np.zeros(1, np.bool_) if column.is_null is None else column.is_null


def _read_trec(path: Path) -> RunRows:
    """Read lines of six fields; the query, which may have spaces, is all before the last five."""
    queries, products, scores = [], [], []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise DataError("a run must be a file; got none of this name", path=path) from None
    except UnicodeDecodeError as error:
        raise DataError(f"a TREC run must be UTF-8; {error}", path=path) from None
    for row, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        fields = line.rsplit(None, _FIELDS - 1)
        try:
            text, _, product, _, score, _ = fields
            scores.append(float(score))
        except ValueError:
            rule = "a line of a TREC run must be: query Q0 product rank score name"
            raise DataError(f"{rule}; got {line[:80]!r}", path=path, row=row) from None
        queries.append(text.strip())
        products.append(product)
    if not queries:
        raise DataError("a run must have rows; got none", path=path)
    return RunRows(Strings.of(queries), Strings.of(products), scores=np.array(scores))
