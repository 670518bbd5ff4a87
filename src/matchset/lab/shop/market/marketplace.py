"""Marketplace: how is one made of any size, in chunks that do not change it?

Listings are held in memory, about 130 bytes each while they are sorted. Titles and the log are made
chunk by chunk, in several threads. Every draw depends on the seed and on the number of the product,
query and visit, so the chunks and threads do not show in the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.lab.shop.customers import LAST_DAY, season_days
from matchset.lab.shop.lexicon import Lexicon, make_lexicon
from matchset.lab.shop.market import assumptions
from matchset.lab.shop.market.assumptions import SHARES, Shares
from matchset.lab.shop.market.buying import Shelf, make_family_shelf, make_shelf, visit_market
from matchset.lab.shop.market.listing_columns import make_catalog_part
from matchset.lab.shop.market.listings import Listings, make_listings
from matchset.lab.shop.market.queries import Ask, list_asks, make_queries
from matchset.lab.shop.stream import LogChunk, map_in_order
from matchset.lab.shop.words import read_vocabulary

_PRODUCTS_PER_BRAND = 20
_MAX_BRANDS = 9_600
PRODUCT_CHUNK = 1 << 15  # products whose titles are made at a time
QUERY_CHUNK = 1 << 12  # queries whose visits are made at a time


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """A marketplace before its titles and its log are written."""

    lexicon: Lexicon
    listings: Listings
    interest: NDArray[np.float64]  # running sums of how much each product is looked for, (n,)
    calendar: NDArray[np.float64]  # share of the demand up to each day, (n_seasons, days)
    n_asked: int  # wordings, many of which are the same
    shares: Shares

    def catalog_parts(
        self, *, chunk: int = PRODUCT_CHUNK, threads: int | None = None
    ) -> Iterator[Catalog]:
        """Return the catalog, some products at a time."""
        n = len(self.listings)
        ranges = [np.arange(at, min(at + chunk, n)) for at in range(0, n, chunk)]

        def make(products: NDArray[np.int64]) -> Catalog:
            return make_catalog_part(self.lexicon, self.listings, products, LAST_DAY)

        return map_in_order(make, ranges, threads)

    def log_chunks(
        self, *, chunk: int = QUERY_CHUNK, threads: int | None = None
    ) -> Iterator[LogChunk]:
        """Yield the log, some queries at a time; the queries of one way to ask stand together."""
        families = make_family_shelf(self.listings)
        asks = list_asks()
        ends = np.round(np.cumsum([ask.share for ask in asks]) * self.n_asked).astype(int).tolist()
        for ask, (begin, end) in zip(asks, pairwise([0, *ends]), strict=True):
            if begin == end:
                continue
            shelves = make_shelf(self.listings, ask), families
            ranges = [np.arange(at, min(at + chunk, end)) for at in range(begin, end, chunk)]
            tasks = [(ask, number, shelves) for number in ranges]
            yield from map_in_order(self._make_chunk, tasks, threads)

    def _make_chunk(self, task: tuple[Ask, NDArray[np.int64], tuple[Shelf, Shelf]]) -> LogChunk:
        ask, number, shelves = task
        queries = make_queries(self.lexicon, self.listings, ask, number, self.interest, self.shares)
        rows = visit_market(
            self.lexicon, self.listings, ask, queries, shelves, self.calendar, self.shares
        )
        return LogChunk(
            texts=queries.texts,
            query=rows.query.astype(np.int32),
            product=rows.product.astype(np.int32),
            event=rows.event,
            day=rows.day,
            count=rows.count.astype(np.float32),
        )


def make_market(
    *, products: int, queries: int | None, days: int, seed: int, shares: Shares = SHARES
) -> Market:
    """Make everything that does not grow with the log."""
    n_brands = min(max(products // _PRODUCTS_PER_BRAND, 300), _MAX_BRANDS)
    lexicon = make_lexicon(read_vocabulary(), brands=n_brands, seed=seed)
    listings = make_listings(lexicon, products, last_day=LAST_DAY, seed=seed, shares=shares)
    n_queries = assumptions.QUERIES * products if queries is None else queries
    return Market(
        lexicon=lexicon,
        listings=listings,
        interest=np.cumsum(np.sqrt(listings.appeal), dtype=np.float64),
        calendar=season_days(days),
        n_asked=max(round(assumptions.REPEATS * n_queries), 1),
        shares=shares,
    )
