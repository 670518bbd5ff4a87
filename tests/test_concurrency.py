"""One vectorizer, many threads at once, no lock: `make sanitize` runs this under TSan."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from test_vectorizer import SHOP, same_rows

from matchset.features.vectorizer import Vectorizer

QUERIES = [f"{query} {i % 50}" for i, query in enumerate(SHOP * 400)]


def test_concurrent_calls_give_the_answers_of_one_thread():
    vectorizer = Vectorizer().fit(QUERIES, threads=3)
    expected = vectorizer.transform(QUERIES, threads=1)

    def call(worker):
        for i in range(worker, len(QUERIES), 97):
            ids, weights = vectorizer.encode(QUERIES[i])
            assert np.array_equal(ids, expected[[i]].indices)
            assert np.array_equal(weights, expected[[i]].data)
        return vectorizer.transform(QUERIES, threads=2)

    with ThreadPoolExecutor(4) as pool:
        assert all(same_rows(rows, expected) for rows in pool.map(call, range(8)))
