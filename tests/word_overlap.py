"""A tiny matcher, right by reading: products whose titles share words with the query."""

from dataclasses import dataclass

import numpy as np

from matchset.matchers.base import Matcher
from matchset.matrices import Csr
from matchset.model.products import Products
from matchset.strings import Strings


@dataclass(frozen=True)
class WordOverlap(Matcher):
    """A score is the number of shared words."""

    kind = "word_overlap"
    products: Products

    def _search(self, queries, k, where):
        rows = []
        for query in queries:
            words = set(query.split())
            scores = np.array([len(words & set(title.split())) for title in self.products.titles])
            if where is not None:
                scores = scores * where.allowed
            best = np.argsort(-scores, kind="stable")[:k]
            best = best[scores[best] > 0]
            rows.append((best, scores[best]))
        labels = [label for labels, _ in rows for label in labels]
        scores = [score for _, scores in rows for score in scores]
        offsets = np.cumsum([0, *(len(labels) for labels, _ in rows)])
        return Csr(
            offsets,
            np.array(labels, dtype=np.int32),
            np.array(scores, dtype=np.float32),
            len(self.products),
        )


def make_word_overlap():
    titles = ["red rose", "rose", "plant", "red plant pot", "pot", "rose pot"]
    ids = [f"p{i}" for i in range(len(titles))]
    return WordOverlap(Products(Strings.of(ids), Strings.of(titles)))
