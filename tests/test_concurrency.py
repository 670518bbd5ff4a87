"""One matcher, many threads at once, no lock: `make sanitize` runs this under TSan."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from match_sets import make_match_set
from search_oracles import random_model, random_rows, row
from test_vectorizer import SHOP, same_rows

from matchset.features.vectorizer import Vectorizer
from matchset.model.packed import pack
from matchset.model.search import search_rule

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


def test_one_tree_searched_by_many_threads_gives_the_answers_of_one():
    packed, X, rule = pack(random_model(1)), random_rows(1, n=300), search_rule(9, 3)
    allowed = packed.allow(np.arange(packed.n_labels) % 2 == 0)
    expected = packed.search_rows(X, rule), packed.search_rows(X, rule, allowed)

    def call(worker):
        for i in range(worker, len(X), 7):
            labels, scores = packed.search_row(*row(X, i), rule)
            assert np.array_equal(labels, row(expected[0], i)[0])
            assert np.array_equal(scores, row(expected[0], i)[1])
        batches = (packed.search_rows(X, rule, a, threads=2) for a in (None, allowed))
        return all(
            np.array_equal(ours.indices, theirs.indices)
            for ours, theirs in zip(batches, expected, strict=True)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(8)))


def test_one_match_set_asked_by_many_threads_gives_the_answers_of_one():
    matcher = make_match_set(tune=False)
    queries = ["red rose", "white vase", "mug 3", "blue lamp kitchen", "rde rsoe"] * 20
    chosen = matcher.filter([f"p{i:03}" for i in range(0, 160, 3)])
    expected = [matcher.match(query, k=30) for query in queries]

    def call(worker):
        for i in range(worker, len(queries), 7):
            assert matcher.match(queries[i], k=30) == expected[i]
            assert len(matcher.match(queries[i], k=30, where=chosen)) == 30
        return list(matcher.match(queries, k=30)) == expected

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(8)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_after_a_search_searches():
    packed, X, rule = pack(random_model(1)), random_rows(1, n=200), search_rule(9, 3)
    expected = packed.search_rows(X, rule, threads=2)
    child = os.fork()
    if child == 0:
        found = packed.search_rows(X, rule, threads=2)
        os._exit(0 if np.array_equal(found.indices, expected.indices) else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_many_queries_do_not_take_memory():
    packed, X, rule = pack(random_model(1)), random_rows(1, n=300), search_rule(9, 3)

    def ask(times):
        for _ in range(times):
            for i in range(len(X)):
                packed.search_row(*row(X, i), rule)
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1])

    before = ask(20)
    assert ask(100) <= before + 512
