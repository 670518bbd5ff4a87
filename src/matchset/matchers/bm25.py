"""BM25: which titles contain the words of the query?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from matchset import _native
from matchset.config import AUTO, DEFAULT_MIN_QUERY_COUNT
from matchset.data.catalog import Catalog
from matchset.data.events import EventWeights
from matchset.data.log import Log
from matchset.data.positives import positives
from matchset.features.analysis import choose_language
from matchset.features.stems import Stems, learn_stems
from matchset.filters.filter import Filter
from matchset.learn.private_words import forget_private_words
from matchset.matchers.base import Matcher
from matchset.matrices import Csr, from_scipy
from matchset.model.lexical import weigh_bm25
from matchset.model.postings import Postings
from matchset.model.products import Products, make_products
from matchset.strings import Strings
from matchset.text import normalize_strings

K1, B = 0.5, 0.45  # of the XR-Linear paper: titles are short, and rarely repeat a word
STEMMED_K1, STEMMED_B = 1.2, 0.75  # what search engines use by default
# With past queries, chosen on the month before the test of both simulated shops.
PAST_K1, PAST_B, TITLE_WEIGHT = 1.2, 0.3, 5.0


@dataclass(frozen=True, eq=False)
class BM25(Matcher):
    """Lexical search over the words of normalized titles, scored as Lucene does.

    With stemming, it searches stems and ignores stop words. `from_log` adds the past queries of
    each product. A product without a word of the query is never returned.
    """

    kind: ClassVar[str] = "bm25"
    products: Products
    words: Strings  # (n_words,)
    postings: Postings  # words x products: the score that a word gives a product
    stems: Stems | None = None

    @classmethod
    def from_catalog(
        cls,
        catalog: Catalog,
        *,
        k1: float = K1,
        b: float = B,
        descriptions: bool = False,
        language: str | None = None,
    ) -> Self:
        """Index the titles, and with `descriptions` also the descriptions.

        With a `language`, or "auto" to detect it, words are stemmed.
        """
        texts = normalize_strings(catalog.titles)
        if descriptions:
            if catalog.descriptions is None:
                raise ValueError("descriptions must be in the catalog; got one without")
            more = normalize_strings(catalog.descriptions)
            texts = Strings.of([f"{a} {z}" for a, z in zip(texts, more, strict=True)])
        products = make_products(catalog.ids, catalog)
        return cls._of(products, texts, k1=k1, b=b, language=choose_language(language, [texts]))

    @classmethod
    def from_log(
        cls,
        log: Log,
        catalog: Catalog,
        *,
        k1: float = PAST_K1,
        b: float = PAST_B,
        title_weight: float = TITLE_WEIGHT,
        language: str | None = AUTO,
        events: EventWeights | None = None,
        min_count: float = 1.0,
        min_query_count: float = DEFAULT_MIN_QUERY_COUNT,
    ) -> Self:
        """Index the titles together with the past queries that led to each product.

        A word of a query counts log(1 + events) times, a word of the title `title_weight` times.
        The pairs are those of `positives`. Words that occur only in rare queries and in no title
        are left out (see `min_query_count` of `TrainConfig`).
        """
        if not 0 < title_weight < float("inf"):
            raise ValueError(f"title_weight must be positive and finite; got {title_weight}")
        pairs = positives(log, events=events, min_count=min_count)
        products = make_products(pairs.products, catalog, with_unseen=True)
        titles = normalize_strings(products.titles or Strings.of([]))
        counts = log.query_counts()[log.queries.index_of(pairs.queries)]
        chosen = choose_language(language, [titles])
        queries = forget_private_words(
            pairs.queries, counts, titles, least=min_query_count, language=chosen
        )
        events_of = _native.log_fixed(1 + pairs.pairs.data.astype(np.float64)).astype(np.float32)
        led = csr_array(
            (events_of, pairs.pairs.indices, pairs.pairs.indptr),
            shape=(len(queries), len(products)),
        )
        past = queries, np.float32(title_weight), led
        return cls._of(products, titles, past, k1=k1, b=b, language=chosen)

    @classmethod
    def _of(
        cls,
        products: Products,
        titles: Strings,
        past: tuple[Strings, np.float32, csr_array] | None = None,
        *,
        k1: float,
        b: float,
        language: str | None,
    ) -> Self:
        """Index titles; with past queries, the weight of a title, and what each query led to."""
        if not 0 <= k1 < float("inf"):
            raise ValueError(f"k1 must be at least 0 and finite; got {k1}")
        if not 0 <= b <= 1:
            raise ValueError(f"b must be from 0 to 1; got {b}")
        stems = None if language is None else learn_stems(titles, language)
        texts = titles if past is None else Strings.concatenate([titles, past[0]])
        words, counts = _count_words(texts if stems is None else stems.analyze(texts))
        if past is not None:
            _, title_weight, led = past
            n = len(titles)
            counts = csr_array(title_weight * counts[:n] + led.T @ counts[n:])
        weights = weigh_bm25(from_scipy(counts), k1=k1, b=b)
        return cls(products, words, Postings.of(weights), stems)

    def __post_init__(self) -> None:
        self.postings.require(len(self.words), len(self.products))
        if self.stems is not None:
            _ = self.stems.native  # refuses damaged arrays

    @cached_property
    def _index_of(self) -> dict[str, int]:
        """Index of each word."""
        return {word: index for index, word in enumerate(self.words)}

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        X = self._count(queries)
        return self.postings.rank(X, k, allowed=None if where is None else where.allowed)

    def _count(self, queries: Strings) -> Csr:
        """Count how often each query has each known word, (n_queries, n_words)."""
        index = self._index_of
        texts = normalize_strings(queries)
        if self.stems is not None:
            texts = self.stems.analyze(texts, threads=1)
        offsets, columns, counts = [0], [], []
        for text in texts:
            known = sorted(index[word] for word in text.split() if word in index)
            distinct = sorted(set(known))
            columns += distinct
            counts += [known.count(column) for column in distinct]
            offsets.append(len(columns))
        return Csr(
            np.array(offsets, dtype=np.int64),
            np.array(columns, dtype=np.int32),
            np.array(counts, dtype=np.float32),
            len(self.words),
        )


def _count_words(texts: Strings) -> tuple[Strings, csr_array]:
    """Return the words of texts, and how often each text has each, (n_texts, n_words)."""
    index: dict[str, int] = {}
    offsets, columns = [0], []
    for text in texts:
        columns += [index.setdefault(word, len(index)) for word in text.split()]
        offsets.append(len(columns))
    ones = np.ones(len(columns), dtype=np.float32)
    counts = csr_array((ones, columns, offsets), shape=(len(texts), len(index)))
    counts.sum_duplicates()
    return Strings.of(list(index)), counts
