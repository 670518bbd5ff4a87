"""Facts: does a simulated shop look like a real one?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import count_threads
from matchset.data.log import Log
from matchset.data.positives import positives
from matchset.lab.shop.simulate import Shop
from matchset.matrices import offsets_of

_MONTH = 30  # days
_SAMPLE = 2_000  # queries whose words are compared with titles
_COUNTING_BUDGET = 1 << 30  # bytes of memory
_POSITIVE = {"purchase": 1.0, "click": 0.2}


@dataclass(frozen=True, slots=True)
class ShopFacts:
    """What to print beside results, to compare with the log of a real shop."""

    products: int
    queries: int
    rows: int
    words_per_query: float
    features: int  # distinct word unigrams and bigrams, character trigrams
    features_per_query: float
    positives: int  # pairs with a purchase or five clicks
    positives_per_query: float  # over all queries
    click_rate: float  # clicks per look at a product
    purchase_rate: float  # purchases per click
    without_title_word: float  # share of pairs bought whose query and title have no word in common
    cold: float  # share of the products bought in the last month that were never seen before it


def describe_shop(shop: Shop) -> ShopFacts:
    """Measure a simulated shop as one would a real log."""
    words, letters = _count_words(shop.log)
    n_positives = len(positives(shop.log, events=_POSITIVE, min_count=1))
    totals = np.bincount(shop.log.event, weights=shop.log.count, minlength=len(shop.log.events))
    events = dict(zip(shop.log.events, totals.tolist(), strict=True))
    return ShopFacts(
        products=len(shop.catalog),
        queries=len(shop.log.queries),
        rows=len(shop.log),
        words_per_query=float(words.mean()),
        features=_count_features(shop.log),
        # A word of n letters has n trigrams, its boundaries included.
        features_per_query=float((2 * words - 1 + letters).mean()),
        positives=n_positives,
        positives_per_query=n_positives / len(shop.log.queries),
        click_rate=events["click"] / (events["click"] + events["impression"]),
        purchase_rate=events["purchase"] / events["click"],
        without_title_word=_share_without_title_word(shop),
        cold=_share_cold(shop.log),
    )


def _count_words(log: Log) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Words and letters of each query; queries are normalised, so single spaces divide them."""
    spaces = offsets_of(log.queries.data == ord(" "))
    gaps = np.diff(spaces[log.queries.offsets])
    return gaps + 1, log.queries.lengths - gaps


def _count_features(log: Log) -> int:
    units, lengths = np.array([[0, 0, 1], [1, 2, 3]], dtype=np.uint8)  # words and letters
    keep, any_df = np.ones((2, 3), dtype=np.int64)  # of the n-grams themselves one is enough
    texts = log.queries.data, log.queries.offsets
    counted = _native.count_ngrams(
        *texts, units, lengths, keep, any_df, _COUNTING_BUDGET, count_threads(None)
    )
    return sum(n_distinct for _, _, _, n_distinct in counted)


def _share_without_title_word(shop: Shop) -> float:
    log = shop.log
    bought = np.flatnonzero(log.event == log.events.index("purchase"))
    sample = np.random.default_rng(0).choice(bought, min(_SAMPLE, len(bought)), replace=False)
    queries = log.queries.take(log.query[sample].astype(np.int64))
    place = shop.catalog.ids.index_of(log.products.take(log.product[sample].astype(np.int64)))
    titles = shop.catalog.titles.take(place)
    pairs = zip(queries, titles, strict=True)
    return float(np.mean([set(q.split()).isdisjoint(t.lower().split()) for q, t in pairs]))


def _share_cold(log: Log) -> float:
    month = int(log.day.max()) - _MONTH
    is_seen = np.zeros(len(log.products), dtype=np.bool_)
    is_seen[log.product[log.day <= month]] = True
    is_bought = (log.day > month) & (log.event == log.events.index("purchase"))
    return 1.0 - float(is_seen[np.unique(log.product[is_bought])].mean())
