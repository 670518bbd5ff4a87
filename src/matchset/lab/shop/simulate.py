"""Shop: what would a whole shop's catalogue and search log look like?"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.data.log import Log, make_log
from matchset.lab.shop.assortment import Products, make_catalog, make_products
from matchset.lab.shop.customers import EXACT, LAST_DAY, Wants, say, want
from matchset.lab.shop.lexicon import Lexicon, make_lexicon
from matchset.lab.shop.visits import EVENTS, IMPRESSION, KEPT_IMPRESSIONS, visit_shop
from matchset.lab.shop.words import read_vocabulary
from matchset.strings import Strings

_MAX_PRODUCTS = 100_000_000  # ids have eight digits
_PRODUCTS_PER_BRAND = 20
_MAX_BRANDS = 9_600
_MAX_ROUNDS = 8
_SAID = 1.03  # texts said per query of the log: some lead to nothing, some normalise to the same


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
    *, products: int = 10_000, queries: int | None = None, days: int = 395, seed: int = 0
) -> Shop:
    """Simulate a shop with so many products and the search log of its last `days` days.

    `queries` is the number of distinct queries to aim at, twice the products if not given; the log
    has within a few percent of it. Its rows follow, 20 to 50 per query. A small shop runs out of
    things to say: then there are fewer. The log ends on 2026-10-31; 395 days are 13 months. The
    shop grows: it launches products all the time, and takes none out. Stock is that of the last
    day: what is sold out by then was bought before.

    The same arguments give the same shop, everywhere. A million products and two million queries
    (96 million rows) take three minutes and 7 GB of memory; both grow with products and queries.
    """
    queries = 2 * products if queries is None else queries
    _check("products", products, 100, _MAX_PRODUCTS)
    _check("queries", queries, 1, 2**30)
    _check("days", days, 1, 3650)
    _check("seed", seed, 0, 2**63 - 1)
    n_brands = min(max(products // _PRODUCTS_PER_BRAND, 300), _MAX_BRANDS)
    lexicon = make_lexicon(read_vocabulary(), brands=n_brands, seed=seed)
    stock = make_products(lexicon, products, last_day=LAST_DAY, seed=seed)
    catalog = make_catalog(lexicon, stock, last_day=LAST_DAY, seed=seed)
    wants, texts, text = ask_around(lexicon, stock, int(_SAID * queries), seed=seed)
    visits = _count_visits(wants, seed=seed)
    events = visit_shop(lexicon, stock, wants, visits, days=days, seed=seed)
    log = make_log(
        queries=texts,
        products=catalog.ids,
        events=EVENTS,
        query=text[events.want],
        product=events.product,
        event=events.event,
        day=events.day,
        count=np.where(events.event == IMPRESSION, float(KEPT_IMPRESSIONS), 1.0),
    )
    return Shop(catalog, log)


def ask_around(
    lexicon: Lexicon, products: Products, queries: int, *, seed: int
) -> tuple[Wants, Strings, NDArray[np.int32]]:
    """Ask customers until they have said so many distinct texts, or hardly anything new.

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
    """How many visits each want leads to: mostly tens, some hundreds, more if it asks for less."""
    rng = np.random.default_rng([seed, 5])
    frequency = 22.0 * np.minimum(rng.pareto(1.6, len(wants)), 12.0) / np.sqrt(1 + wants.n_asked)
    frequency[wants.asked == EXACT] *= 0.5
    frequency[wants.is_slip] *= 0.4
    return 8 + frequency.astype(np.int64)


def _check(name: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int; got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {value}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}; got {value}")
