"""Facts: does a simulated shop look like a real one, such as that of the paper?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import count_threads
from matchset.data.log import Log
from matchset.data.positives import Positives, positives
from matchset.errors import DataError
from matchset.lab.shop.simulate import Shop
from matchset.lab.shop.visits import EVENTS
from matchset.matrices import offsets_of
from matchset.strings import Strings
from matchset.text import normalize_strings

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
    words_per_title: float
    features_per_title: float
    products_per_query: float  # positive ones, of queries with any, before the last month
    queries_per_product: float  # the same pairs, of products with any

    def beside_paper(self) -> dict[str, str]:
        """Return names and values as text, with the paper's own value where it gives one."""
        shown = {}
        for name, value in asdict(self).items():
            text = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
            if math.isnan(value):  # of a log that is too short to tell
                text = "-"
            known = f"  (paper: {PAPER[name]:,})" if name in PAPER else ""
            shown[name.replace("_", " ")] = text + known
        return shown

    def __str__(self) -> str:
        facts = self.beside_paper()
        width = max(map(len, facts))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items())


# What the paper says of its log: section 4.1, and the comments in its LaTeX source. It sampled 100
# million products, and the pairs of 12 months.
PAPER: Mapping[str, float] = {
    "words_per_query": 4.3,
    "features_per_query": 27.3,
    "cold": 0.12,
    "words_per_title": 16.8,
    "features_per_title": 142.1,
    "products_per_query": 20.4,
    "queries_per_product": 49.0,
}


def describe_shop(shop: Shop) -> ShopFacts:
    """Measure a simulated shop as one would a real log."""
    if len(shop.log) == 0:
        raise DataError("a log to describe must have rows; got none")
    words, letters = _count_words(shop.log.queries)
    title_words, title_letters = _count_words(normalize_strings(shop.catalog.titles))
    earlier = _count_earlier_positives(shop.log)
    n_positives = len(positives(shop.log, events=_POSITIVE, min_count=1))
    totals = np.bincount(shop.log.event, weights=shop.log.count, minlength=len(shop.log.events))
    events = dict.fromkeys(EVENTS, 0.0) | dict(zip(shop.log.events, totals.tolist(), strict=True))
    return ShopFacts(
        products=len(shop.catalog),
        queries=len(shop.log.queries),
        rows=len(shop.log),
        words_per_query=float(words.mean()),
        features=_count_features(shop.log),
        # A word of n letters has n trigrams, its boundaries included.
        features_per_query=float((2 * words - 1 + letters).mean()),
        positives=n_positives,
        positives_per_query=_divide(n_positives, len(shop.log.queries)),
        click_rate=_divide(events["click"], events["click"] + events["impression"]),
        purchase_rate=_divide(events["purchase"], events["click"]),
        without_title_word=_share_without_title_word(shop),
        cold=_share_cold(shop.log),
        words_per_title=float(title_words.mean()),
        features_per_title=float((2 * title_words - 1 + title_letters).mean()),
        products_per_query=_divide(len(earlier), len(earlier.queries)),
        queries_per_product=_divide(len(earlier), len(earlier.products)),
    )


def _count_words(texts: Strings) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count words and letters of each text; texts are normalized, so single spaces divide them."""
    spaces = offsets_of(texts.data == ord(" "))
    gaps = np.diff(spaces[texts.offsets])
    return gaps + 1, texts.lengths - gaps


def _count_earlier_positives(log: Log) -> Positives:
    """Return the positive pairs before the last month: what there is to train on."""
    is_earlier = log.day <= int(log.day.max()) - _MONTH
    return positives(log.select(is_earlier), events=_POSITIVE, min_count=1)


def _divide(total: float, n: float) -> float:
    return total / n if n else float("nan")


def _count_features(log: Log) -> int:
    units, lengths = np.array([[0, 0, 1], [1, 2, 3]], dtype=np.uint8)  # words and letters
    keep, any_df = np.ones((2, 3), dtype=np.int64)  # of the n-grams themselves one is enough
    texts = log.queries.data, log.queries.offsets
    counted = _native.count_ngrams(
        *texts, units, lengths, keep, any_df, _COUNTING_BUDGET, count_threads(None)
    )
    return sum(n_distinct for *_, n_distinct in counted)


def _share_without_title_word(shop: Shop) -> float:
    log = shop.log
    bought = np.flatnonzero(_is_purchase(log))
    if len(bought) == 0:
        return float("nan")
    sample = np.random.default_rng(0).choice(bought, min(_SAMPLE, len(bought)), replace=False)
    queries = log.queries.take(log.query[sample].astype(np.int64))
    index = shop.catalog.ids.index_of(log.products.take(log.product[sample].astype(np.int64)))
    titles = shop.catalog.titles.take(index)
    pairs = zip(queries, titles, strict=True)
    return float(np.mean([set(q.split()).isdisjoint(t.lower().split()) for q, t in pairs]))


def _share_cold(log: Log) -> float:
    month = int(log.day.max()) - _MONTH
    if not (log.day <= month).any():
        return float("nan")
    is_seen = np.zeros(len(log.products), dtype=np.bool_)
    is_seen[log.product[log.day <= month]] = True
    products = np.unique(log.product[(log.day > month) & _is_purchase(log)])
    return 1.0 - _divide(float(is_seen[products].sum()), len(products))


def _is_purchase(log: Log) -> NDArray[np.bool_]:
    if "purchase" not in log.events:
        return np.zeros(len(log), dtype=np.bool_)
    return np.equal(log.event, log.events.index("purchase"))
