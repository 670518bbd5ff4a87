"""Streaming: how is a log that does not fit into memory written, chunk by chunk?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from matchset.config import count_threads
from matchset.data.arrow import ExportColumn, export_columns
from matchset.data.catalog import Catalog, Column
from matchset.data.duckdb_session import write_parquet
from matchset.data.log import Log, make_log
from matchset.lab.shop.visits import EVENTS
from matchset.strings import Strings

_ROWS_PER_FILE = 1 << 21

Ids = Callable[[NDArray[np.integer]], Strings]  # of products, by their numbers
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class LogChunk:
    """Some rows of a log, with the queries that they refer to."""

    texts: Strings  # queries as typed, (n_queries,)
    query: NDArray[np.int32]  # index into texts, (n_rows,)
    product: NDArray[np.int32]  # number of the product, (n_rows,)
    event: NDArray[np.uint8]  # index into EVENTS, (n_rows,)
    day: NDArray[np.int32]  # days since 1970-01-01, (n_rows,)
    count: NDArray[np.float32]  # (n_rows,)

    def __len__(self) -> int:
        return len(self.query)

    @classmethod
    def join(cls, chunks: list[LogChunk]) -> LogChunk:
        """Return all rows of all chunks, in order."""
        before = np.cumsum([0, *(len(chunk.texts) for chunk in chunks)])[:-1]
        shifted = [chunk.query + n for chunk, n in zip(chunks, before, strict=True)]
        return cls(
            texts=Strings.concatenate([chunk.texts for chunk in chunks]),
            query=np.concatenate(shifted).astype(np.int32),
            product=np.concatenate([chunk.product for chunk in chunks]),
            event=np.concatenate([chunk.event for chunk in chunks]),
            day=np.concatenate([chunk.day for chunk in chunks]),
            count=np.concatenate([chunk.count for chunk in chunks]),
        )

    def to_log(self, ids: Strings) -> Log:
        """Return the log of these rows; `ids` are those of all products."""
        return make_log(
            queries=self.texts,
            products=ids,
            events=EVENTS,
            query=self.query,
            product=self.product,
            event=self.event,
            day=self.day,
            count=self.count,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """A chunk with the column names that `read_log` knows."""

    chunk: LogChunk
    ids: Ids

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export to Arrow: query, product_id, event, date, count."""
        chunk = self.chunk
        said, query = np.unique(chunk.query, return_inverse=True)
        used, product = np.unique(chunk.product, return_inverse=True)
        columns = [
            ExportColumn("query", query.astype(np.int32), chunk.texts.take(said)),
            ExportColumn("product_id", product.astype(np.int32), self.ids(used)),
            ExportColumn("event", chunk.event, Strings.of(EVENTS)),
            ExportColumn("date", chunk.day, is_date=True),
            ExportColumn("count", chunk.count),
        ]
        return export_columns(columns, len(chunk))


def write_catalog(parts: Iterable[Catalog], folder: Path) -> None:
    """Write a catalog to numbered Parquet files in a new folder."""
    folder.mkdir(parents=True)
    for number, part in enumerate(parts):
        part.save(folder / f"{number:05}.parquet")


def write_log(chunks: Iterable[LogChunk], ids: Ids, folder: Path) -> int:
    """Write a log to numbered Parquet files in a new folder; returns the number of rows."""
    folder.mkdir(parents=True)
    total = 0
    for number, chunk in enumerate(_collect(chunks)):
        write_parquet(_Table(chunk, ids), folder / f"{number:05}.parquet")
        total += len(chunk)
    return total


def _collect(chunks: Iterable[LogChunk]) -> Iterator[LogChunk]:
    """Join chunks until they fill a file."""
    waiting: list[LogChunk] = []
    n_rows = 0
    for chunk in chunks:
        waiting.append(chunk)
        n_rows += len(chunk)
        if n_rows >= _ROWS_PER_FILE:
            yield LogChunk.join(waiting)
            waiting, n_rows = [], 0
    if waiting:
        yield LogChunk.join(waiting)


def join_catalogs(parts: list[Catalog]) -> Catalog:
    """Return one catalog of all parts; each part has only the categories that it uses."""
    return Catalog(
        ids=Strings.concatenate([part.ids for part in parts]),
        titles=Strings.concatenate([part.titles for part in parts]),
        attributes={
            name: _join_columns([part.attributes[name] for part in parts])
            for name in parts[0].attributes
        },
    )


def _join_columns(columns: list[Column]) -> Column:
    if columns[0].categories is None:
        return Column(columns[0].kind, np.concatenate([column.values for column in columns]))
    known = Strings.of(sorted({text for column in columns for text in column.categories or ()}))
    renumbered = [
        np.append(known.index_of(column.categories), -1).astype(np.int32)[column.values]
        for column in columns
        if column.categories is not None
    ]
    return Column("text", np.concatenate(renumbered), known)


def map_in_order(
    make: Callable[[Task], Result], tasks: Iterable[Task], threads: int | None
) -> Iterator[Result]:
    """Yield results in the order of tasks; one more than there are threads is in memory at most."""
    n = count_threads(threads)
    with ThreadPoolExecutor(n) as pool:
        running: deque[Future[Result]] = deque()
        for task in tasks:
            running.append(pool.submit(make, task))
            if len(running) > n:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
