"""Marketplace: how is one made of any size, in chunks that do not change it?

Listings are held in memory, 60 bytes each. Titles and the log are made chunk by chunk, in several
threads. Every draw depends on the seed and on the number of the product, query and visit, so the
chunks and threads do not show in the result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from matchset.config import count_threads
from matchset.data.arrow import ExportColumn, export_columns
from matchset.data.catalog import Catalog, Column
from matchset.data.duckdb_session import write_parquet
from matchset.data.log import Log, make_log
from matchset.lab.shop.customers import LAST_DAY, season_days
from matchset.lab.shop.lexicon import Lexicon, make_lexicon
from matchset.lab.shop.market.listings import Listings, make_listings
from matchset.lab.shop.market.queries import Ask, list_asks, make_queries
from matchset.lab.shop.market.shares import SHARES, Shares
from matchset.lab.shop.market.titles import make_catalog_part, make_ids
from matchset.lab.shop.market.visits import (
    Rows,
    Shelf,
    make_family_shelf,
    make_shelf,
    visit_market,
)
from matchset.lab.shop.visits import EVENTS
from matchset.lab.shop.words import read_vocabulary
from matchset.strings import Strings

_PRODUCTS_PER_BRAND = 20
_MAX_BRANDS = 9_600
_PRODUCT_CHUNK = 1 << 16  # products whose titles are made at a time
_QUERY_CHUNK = 1 << 13  # queries whose visits are made at a time
_ROWS_PER_FILE = 1 << 22

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """A marketplace before its titles and its log are written."""

    lexicon: Lexicon
    listings: Listings
    interest: NDArray[np.float64]  # running sums of how much each product is looked for, (n,)
    calendar: NDArray[np.float64]  # share of the demand up to each day, (n_seasons, days)
    n_asked: int  # queries, some of which say the same
    shares: Shares

    def catalog_parts(self, chunk: int) -> Iterator[Catalog]:
        """The catalog, some products at a time."""
        n = len(self.listings)
        ranges = [np.arange(at, min(at + chunk, n)) for at in range(0, n, chunk)]

        def make(products: NDArray[np.int64]) -> Catalog:
            return make_catalog_part(self.lexicon, self.listings, products, LAST_DAY, self.shares)

        return map_in_order(make, ranges)

    def log_parts(self, chunk: int) -> Iterator[tuple[Strings, Rows]]:
        """Queries and their rows of the log, some queries at a time."""
        families = make_family_shelf(self.listings, self.shares)
        asks = list_asks(self.shares)
        ends = np.round(np.cumsum([ask.share for ask in asks]) * self.n_asked).astype(int).tolist()
        for ask, (begin, end) in zip(asks, pairwise([0, *ends]), strict=True):
            shelves = make_shelf(self.listings, ask, self.shares), families
            ranges = [np.arange(at, min(at + chunk, end)) for at in range(begin, end, chunk)]

            def make(
                number: NDArray[np.int64],
                ask: Ask = ask,
                shelves: tuple[Shelf, Shelf] = shelves,
            ) -> tuple[Strings, Rows]:
                queries = make_queries(
                    self.lexicon, self.listings, ask, number, self.interest, self.shares
                )
                rows = visit_market(
                    self.lexicon, self.listings, ask, queries, shelves, self.calendar, self.shares
                )
                return queries.texts, rows

            yield from map_in_order(make, ranges)


def make_market(
    *, products: int, queries: int | None, days: int, seed: int, shares: Shares = SHARES
) -> Market:
    """Everything that does not grow with the log."""
    n_brands = min(max(products // _PRODUCTS_PER_BRAND, 300), _MAX_BRANDS)
    lexicon = make_lexicon(read_vocabulary(), brands=n_brands, seed=seed)
    listings = make_listings(lexicon, products, last_day=LAST_DAY, seed=seed, shares=shares)
    n_queries = shares.queries * products if queries is None else queries
    return Market(
        lexicon=lexicon,
        listings=listings,
        interest=np.cumsum(np.sqrt(listings.appeal), dtype=np.float64),
        calendar=season_days(days),
        n_asked=max(round(shares.repeats * n_queries), 1),
        shares=shares,
    )


def simulate_market(
    *,
    products: int,
    queries: int | None = None,
    days: int = 395,
    seed: int = 0,
    shares: Shares = SHARES,
    product_chunk: int = _PRODUCT_CHUNK,
    query_chunk: int = _QUERY_CHUNK,
) -> tuple[Catalog, Log]:
    """Make a marketplace in memory: its catalog and its log."""
    market = make_market(products=products, queries=queries, days=days, seed=seed, shares=shares)
    catalog = _join_catalogs(list(market.catalog_parts(product_chunk)))
    texts: list[Strings] = []
    parts: list[Rows] = []
    n_queries = 0
    for said, rows in market.log_parts(query_chunk):
        texts.append(said)
        parts.append(
            replace(
                rows,
                query=(rows.query + n_queries).astype(np.int32),
                product=rows.product.astype(np.int32),
                count=rows.count.astype(np.float32),
            )
        )
        n_queries += len(said)
    log = make_log(
        queries=Strings.concatenate(texts),
        products=catalog.ids,
        events=EVENTS,
        query=np.concatenate([part.query for part in parts]),
        product=np.concatenate([part.product for part in parts]),
        event=np.concatenate([part.event for part in parts]),
        day=np.concatenate([part.day for part in parts]),
        count=np.concatenate([part.count for part in parts]),
    )
    return catalog, log


def stream_market(
    folder: Path,
    *,
    products: int,
    queries: int | None = None,
    days: int = 395,
    seed: int = 0,
    shares: Shares = SHARES,
    product_chunk: int = _PRODUCT_CHUNK,
    query_chunk: int = _QUERY_CHUNK,
) -> int:
    """Write a marketplace as Parquet files in `folder`/products and `folder`/log, in small memory.

    Returns the number of rows of the log.
    """
    market = make_market(products=products, queries=queries, days=days, seed=seed, shares=shares)
    goods, log = folder / "products", folder / "log"
    for target in (goods, log):
        target.mkdir(parents=True)
    for number, part in enumerate(market.catalog_parts(product_chunk)):
        part.save(goods / f"{number:05}.parquet")
    total = 0
    chunks = market.log_parts(query_chunk)
    for number, table in enumerate(_collect(chunks, _ROWS_PER_FILE)):
        write_parquet(table, log / f"{number:05}.parquet")
        total += len(table)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class LogTable:
    """Rows of a log as a table with the columns that `read_log` knows."""

    texts: Strings
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export to Arrow: query, product_id, event, date, count."""
        used, product = np.unique(self.rows.product, return_inverse=True)
        columns = [
            ExportColumn("query", self.rows.query.astype(np.int32), self.texts),
            ExportColumn("product_id", product.astype(np.int32), make_ids(used)),
            ExportColumn("event", self.rows.event, Strings.of(EVENTS)),
            ExportColumn("date", self.rows.day, is_date=True),
            ExportColumn("count", self.rows.count),
        ]
        return export_columns(columns, len(self.rows))


def _collect(chunks: Iterable[tuple[Strings, Rows]], n_rows: int) -> Iterator[LogTable]:
    """Join chunks until they have so many rows."""
    waiting: list[tuple[Strings, Rows]] = []
    for chunk in chunks:
        waiting.append(chunk)
        if sum(len(rows) for _, rows in waiting) >= n_rows:
            yield _join_rows(waiting)
            waiting = []
    if waiting:
        yield _join_rows(waiting)


def _join_rows(chunks: list[tuple[Strings, Rows]]) -> LogTable:
    before = np.cumsum([0, *(len(texts) for texts, _ in chunks)])
    return LogTable(
        Strings.concatenate([texts for texts, _ in chunks]),
        Rows(
            query=np.concatenate(
                [rows.query + n for (_, rows), n in zip(chunks, before[:-1], strict=True)]
            ),
            product=np.concatenate([rows.product for _, rows in chunks]),
            event=np.concatenate([rows.event for _, rows in chunks]),
            day=np.concatenate([rows.day for _, rows in chunks]),
            count=np.concatenate([rows.count for _, rows in chunks]),
        ),
    )


def _join_catalogs(parts: list[Catalog]) -> Catalog:
    """One catalog of all parts; each has only the categories that it uses."""
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
    known = sorted({text for column in columns for text in column.categories or ()})
    categories = Strings.of(known)
    renumbered = [
        np.append(categories.index_of(column.categories), -1).astype(np.int32)[column.values]
        for column in columns
        if column.categories is not None
    ]
    return Column("text", np.concatenate(renumbered), categories)


def map_in_order(
    make: Callable[[Task], Result], tasks: Iterable[Task], threads: int | None = None
) -> Iterator[Result]:
    """Results in the order of the tasks; only as many are in memory as there are threads, twice."""
    n = count_threads(threads)
    with ThreadPoolExecutor(n) as pool:
        running: deque[Future[Result]] = deque()
        for task in tasks:
            running.append(pool.submit(make, task))
            if len(running) > n:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
