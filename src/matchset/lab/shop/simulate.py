"""Shop: what would a whole shop's catalog and search log look like?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.data.log import Log, make_log
from matchset.lab.shop.assortment import Products, make_catalog, make_products
from matchset.lab.shop.customers import EXACT, LAST_DAY, Wants, say, want
from matchset.lab.shop.lexicon import Lexicon, make_lexicon
from matchset.lab.shop.market.listing_columns import make_ids
from matchset.lab.shop.market.marketplace import make_market
from matchset.lab.shop.stream import LogChunk, join_catalogs, write_catalog, write_log
from matchset.lab.shop.visits import (
    EVENTS,
    IMPRESSION,
    KEPT_IMPRESSIONS,
    iterate_visits,
    visit_shop,
)
from matchset.lab.shop.words import read_vocabulary
from matchset.strings import Strings

ShopKind: TypeAlias = Literal["shop", "marketplace"]
_MAX_PRODUCTS = 100_000_000  # ids have eight digits
_PRODUCTS_PER_BRAND = 20
_MAX_BRANDS = 9_600
_MAX_ROUNDS = 8
_SAID = 1.03  # texts said per query of the log: some lead to nothing, some normalize to the same


@dataclass(frozen=True, slots=True)
class Shop:
    """A simulated shop: what it sells and what its customers did."""

    catalog: Catalog
    log: Log

    def __repr__(self) -> str:
        return f"Shop({self.catalog!r}, {self.log!r})"

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
        """Write `products.parquet` and `log.parquet`, for `read_catalog` and `read_log`."""
        paths = Path(folder) / "products.parquet", Path(folder) / "log.parquet"
        paths[0].parent.mkdir(parents=True, exist_ok=True)
        self.catalog.save(paths[0])
        self.log.save(paths[1])
        return paths


def simulate_shop(
    *,
    kind: ShopKind = "shop",
    products: int = 10_000,
    queries: int | None = None,
    days: int = 395,
    seed: int = 0,
) -> Shop:
    """Simulate a shop with `products` products and the search log of its last `days` days.

    There are two kinds. In a "shop", few products fit a query, and titles say what customers buy.
    In a "marketplace", thousands of near-identical products fit a query, and what customers buy
    depends on what titles do not say (see `matchset.lab.shop.market`).

    `queries` is the number of distinct queries to aim at. In a shop, the default is twice the
    products, and the log comes within a few percent of it. In a marketplace, the default is 2.4
    times the products, and the log comes within a fifth of it. A small shop runs out of distinct
    queries, and then there are fewer. The log ends on 2026-10-31; 395 days are 13 months. Products
    are launched all the time, and stay in the catalog. Stock is that of the last day: products that
    are sold out by then were bought before.

    The same arguments give the same shop, everywhere. A shop of a million products and two million
    queries (96 million rows) takes three minutes and 7 GB of memory. A marketplace of 50,000
    products (14 million rows) takes 25 seconds of one core. Both grow with products and queries.
    `stream_shop` needs less memory.
    """
    queries = check_arguments(kind, products, queries, days, seed)
    if kind == "marketplace":
        market = make_market(products=products, queries=queries, days=days, seed=seed)
        catalog = join_catalogs(list(market.catalog_parts()))
        return Shop(catalog, LogChunk.join(list(market.log_chunks())).to_log(catalog.ids))
    made = prepare_shop(products, queries or 2 * products, seed)
    events = visit_shop(made.lexicon, made.stock, made.wants, made.visits, days=days, seed=seed)
    log = make_log(
        queries=made.texts,
        products=made.catalog.ids,
        events=EVENTS,
        query=made.text[events.want],
        product=events.product,
        event=events.event,
        day=events.day,
        count=np.where(events.event == IMPRESSION, float(KEPT_IMPRESSIONS), 1.0),
    )
    return Shop(made.catalog, log)


def stream_shop(
    folder: str | os.PathLike[str],
    *,
    kind: ShopKind = "shop",
    products: int = 10_000,
    queries: int | None = None,
    days: int = 395,
    seed: int = 0,
    threads: int | None = None,
) -> int:
    """Write the shop of `simulate_shop` to Parquet files; returns the number of rows of the log.

    The files are in `folder`/products and `folder`/log, for `read_catalog` and `read_log`; these
    folders must not exist. Only products and a few chunks of the log are in memory: a marketplace
    of 10 million products takes 1.6 GB. A shop also keeps its titles and queries in memory, because
    each of its draws depends on the one before.
    """
    queries = check_arguments(kind, products, queries, days, seed)
    goods, target = Path(folder) / "products", Path(folder) / "log"
    for path in (goods, target):
        if path.exists():
            raise FileExistsError(f"{path}: already exists; choose another folder")
    if kind == "marketplace":
        market = make_market(products=products, queries=queries, days=days, seed=seed)
        write_catalog(market.catalog_parts(threads=threads), goods)
        return write_log(market.log_chunks(threads=threads), make_ids, target)
    made = prepare_shop(products, queries or 2 * products, seed)
    write_catalog([made.catalog], goods)
    return write_log(_log_chunks(made, days, seed), made.catalog.ids.take, target)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedShop:
    """A shop before anyone visits it."""

    lexicon: Lexicon
    stock: Products
    catalog: Catalog
    wants: Wants
    visits: NDArray[np.int64]  # of each want, (n_wants,)
    texts: Strings  # what is said, (n_texts,)
    text: NDArray[np.int32]  # index into texts of each want, (n_wants,)


def prepare_shop(products: int, queries: int, seed: int) -> PreparedShop:
    """Return the catalog of a shop, what its customers want, and how they say it."""
    n_brands = min(max(products // _PRODUCTS_PER_BRAND, 300), _MAX_BRANDS)
    lexicon = make_lexicon(read_vocabulary(), brands=n_brands, seed=seed)
    stock = make_products(lexicon, products, last_day=LAST_DAY, seed=seed)
    catalog = make_catalog(lexicon, stock, last_day=LAST_DAY, seed=seed)
    wants, texts, text = ask_around(lexicon, stock, int(_SAID * queries), seed=seed)
    visits = _count_visits(wants, seed=seed)
    return PreparedShop(lexicon, stock, catalog, wants, visits, texts, text)


def _log_chunks(made: PreparedShop, days: int, seed: int) -> Iterator[LogChunk]:
    """Yield the rows of a shop's log, a batch of visits at a time."""
    for events in iterate_visits(
        made.lexicon, made.stock, made.wants, made.visits, days=days, seed=seed
    ):
        said, query = np.unique(made.text[events.want], return_inverse=True)
        yield LogChunk(
            texts=made.texts.take(said),
            query=query.astype(np.int32),
            product=events.product,
            event=events.event,
            day=events.day,
            count=np.where(events.event == IMPRESSION, KEPT_IMPRESSIONS, 1).astype(np.float32),
        )


def ask_around(
    lexicon: Lexicon, products: Products, queries: int, *, seed: int
) -> tuple[Wants, Strings, NDArray[np.int32]]:
    """Ask customers until they have said `queries` distinct texts, or hardly anything new.

    Returns their wants, the distinct texts, and the text of each want.
    """
    said: list[tuple[Wants, Strings]] = []
    n_asked, n_distinct = 0, 0
    for number in range(_MAX_ROUNDS):
        # As many again as the last round suggests; the first guesses 1.4 customers per text.
        rate = max(n_distinct / n_asked, 0.2) if n_asked else 0.7
        n = int(1.1 * (queries - n_distinct) / rate) + 100
        rng = np.random.default_rng([seed, 3, number])
        wants = want(lexicon, products, n, rng)
        said.append((wants, say(lexicon, products, wants, rng)))
        texts = Strings.concatenate([part for _, part in said])
        group, first = texts.factorize()
        n_asked, n_distinct = len(texts), len(first)
        if n_distinct >= queries:
            break
    kept = group < queries
    wants = Wants(
        target=np.concatenate([part.target for part, _ in said])[kept],
        asked=np.concatenate([part.asked for part, _ in said])[kept],
        manner=np.concatenate([part.manner for part, _ in said])[kept],
        is_slip=np.concatenate([part.is_slip for part, _ in said])[kept],
    )
    return wants, texts.take(first[:queries]), group[kept]


def _count_visits(wants: Wants, *, seed: int) -> NDArray[np.int64]:
    """Draw how many visits each want leads to: mostly tens, more if it asks for less."""
    rng = np.random.default_rng([seed, 5])
    frequency = 22.0 * np.minimum(rng.pareto(1.6, len(wants)), 12.0) / np.sqrt(1 + wants.n_asked)
    frequency[wants.asked == EXACT] *= 0.5
    frequency[wants.is_slip] *= 0.4
    return 8 + frequency.astype(np.int64)


def check_arguments(
    kind: str, products: int, queries: int | None, days: int, seed: int
) -> int | None:
    """Check all arguments; returns the number of queries as it was given."""
    if kind not in get_args(ShopKind):
        raise ValueError(f"kind must be 'shop' or 'marketplace'; got {kind!r}")
    _check("products", products, 100 if kind == "shop" else 1, _MAX_PRODUCTS)
    if queries is not None:
        _check("queries", queries, 1, 2**30)
    _check("days", days, 1, 3650)
    _check("seed", seed, 0, 2**63 - 1)
    return queries


def _check(name: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int; got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {value}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}; got {value}")
