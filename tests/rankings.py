"""Rankings made by hand or at random, and matchers that return them."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from matchset.data.events import training_rule
from matchset.data.positives import Positives
from matchset.matchers.base import Matcher
from matchset.matrices import Csr
from matchset.model.products import Products
from matchset.strings import Strings


@dataclass(frozen=True)
class Recited(Matcher):
    """A matcher with fixed results: labels per query, best first."""

    kind = "recited"
    products: Products
    answers: dict

    @classmethod
    def of(cls, answers, n_products):
        """Results as product numbers: 3 is product p3."""
        return cls(Products(Strings.of([f"p{i}" for i in range(n_products)])), answers)

    def _search(self, queries, k, where):
        rows = [list(self.answers.get(query, []))[:k] for query in queries]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        labels = np.array([label for row in rows for label in row], dtype=np.int32)
        scores = np.array([-rank for row in rows for rank in range(len(row))], dtype=np.float32)
        return Csr(offsets, labels, scores, len(self.products))


def make_positives(relevant, n_products):
    """Of {query: {product number: count}}."""
    matrix = np.zeros((len(relevant), n_products), dtype=np.float32)
    for row, counts in enumerate(relevant.values()):
        for product, count in counts.items():
            matrix[row, product] = count
    used = np.flatnonzero(matrix.any(axis=0))
    products, pairs = Strings.of([f"p{i}" for i in used]), csr_array(matrix[:, used])
    return Positives(Strings.of(list(relevant)), products, pairs, training_rule(("",)))


def random_test(rng, *, n_queries=30, n_products=40, depth=20, grades=3):
    """Random results and relevant products, with many ties in relevance."""
    answers, relevant = {}, {}
    for number in range(n_queries):
        n_given = int(rng.integers(0, depth + 1))
        answers[f"q{number:02}"] = rng.permutation(n_products)[:n_given].tolist()
        chosen = rng.permutation(n_products)[: rng.integers(1, 8)]
        grade = rng.integers(1, grades + 1, len(chosen))
        relevant[f"q{number:02}"] = dict(zip(chosen.tolist(), grade.tolist(), strict=True))
    return answers, relevant
