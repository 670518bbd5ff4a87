"""BM25: which titles contain the words of the query?"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from matchset.data.catalog import Catalog
from matchset.features.analysis import choose_language
from matchset.features.stems import Stems, learn_stems, read_stems, store_stems
from matchset.filters.filter import Filter
from matchset.matchers.base import Matcher, OpenPart, Sections
from matchset.matrices import Csr
from matchset.model.postings import Postings, read_postings, store_postings
from matchset.model.products import Products, make_products, read_products, store_products
from matchset.storage.sections import Section, read_strings, store_strings
from matchset.strings import Strings
from matchset.text import normalize_strings

K1, B = 0.5, 0.45  # of the XR-Linear paper: titles are short, and rarely repeat a word
STEMMED_K1, STEMMED_B = 1.2, 0.75  # what search engines use by default


@dataclass(frozen=True, eq=False)
class BM25(Matcher):
    """Lexical search over the words of normalized titles, scored by bm25s (Lucene's variant).

    With stems, over those, without stop words. A product without a word of the query is never
    given.
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
        """Index the titles, and with `descriptions` those too.

        With a `language`, or "auto" to detect it, words are stemmed.
        """
        if not 0 <= k1 < float("inf"):
            raise ValueError(f"k1 must be at least 0 and finite; got {k1}")
        if not 0 <= b <= 1:
            raise ValueError(f"b must be from 0 to 1; got {b}")
        texts = normalize_strings(catalog.titles)
        if descriptions:
            if catalog.descriptions is None:
                raise ValueError("descriptions must be in the catalog; got one without")
            more = normalize_strings(catalog.descriptions)
            texts = Strings.of([f"{a} {z}" for a, z in zip(texts, more, strict=True)])
        chosen = choose_language(language, [texts])
        stems = None if chosen is None else learn_stems(texts, chosen)
        texts = texts if stems is None else stems.analyze(texts)
        index: dict[str, int] = {}
        rows = [[index.setdefault(w, len(index)) for w in text.split()] for text in texts]
        lists = _score(rows, index, k1=k1, b=b)
        products, words = make_products(catalog.ids, catalog), Strings.of(list(index))
        return cls(products, words, Postings(lists), stems)

    @property
    def vectorize(self) -> Callable[[str], Csr]:
        """Counts the known words of a query, (1, n_words)."""
        return lambda query: self._count(Strings.of([query]))

    def _sections(self) -> Sections:
        sections = {
            "products": store_products(self.products),
            "words": Section(arrays=store_strings(self.words)),
            "postings": store_postings(self.postings),
        }
        return sections if self.stems is None else {**sections, "stems": store_stems(self.stems)}

    @classmethod
    def _read(cls, sections: Sections, _: OpenPart) -> Self:
        return cls(
            read_products(sections["products"]),
            read_strings(sections["words"].arrays),
            read_postings(sections["postings"]),
            read_stems(sections["stems"]) if "stems" in sections else None,
        )

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
        """How often each query has each known word, (n_queries, n_words)."""
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


def _score(rows: list[list[int]], index: dict[str, int], *, k1: float, b: float) -> Csr:
    """What each word adds to the score of each text with it, (n_words, n_texts)."""
    if not index:
        nothing = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
        return Csr(np.zeros(1, dtype=np.int64), *nothing, len(rows))
    import bm25s  # takes a quarter of a second, which only indexing needs

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it logs every step
    scorer = bm25s.BM25(k1=k1, b=b, method="lucene")
    scorer.index((rows, dict(index)), create_empty_token=False, show_progress=False)
    scores = scorer.scores
    return Csr(
        np.ascontiguousarray(scores["indptr"], dtype=np.int64),
        np.ascontiguousarray(scores["indices"], dtype=np.int32),
        np.ascontiguousarray(scores["data"], dtype=np.float32),
        len(rows),
    )
