"""Weak pairs: is it known where a query led, even where that was too rare for an answer?"""

import numpy as np
import pytest
from match_sets import make_config, make_shop

import matchset as ms
from matchset.data.events import EventRule
from matchset.data.log import join_logs
from matchset.learn import weak_pairs
from matchset.learn.train_match_set import train_parts
from matchset.learn.weak_pairs import find_weak, keep_strongest
from matchset.matrices import Csr
from matchset.model.match_set_model import SOURCES
from matchset.model.reranker import FEATURES
from matchset.strings import Strings

LEAST = 3.0  # events that make a pair positive here
SAME, WEAK = FEATURES.index("same_query"), FEATURES.index("weak_pair")


def sum_by_pair(log):
    """Query, product and count of each pair of a log."""
    sums = {}
    for query, product, count in zip(log.query, log.product, log.count, strict=True):
        key = log.queries[query], log.products[product]
        sums[key] = sums.get(key, 0) + count
    return sums


@pytest.fixture(scope="module")
def trained():
    log, catalog = make_shop()
    return train_parts(log, catalog, make_config(min_count=LEAST))


def list_pairs(model, data):
    """Weak pairs of a model, by query and product."""
    past, queries = model.neighbors, list(data.positives.queries)
    return {
        (queries[row], data.products.ids[past.weak_products[i]]): np.expm1(past.weak_counts[i])
        for row in range(len(past))
        for i in range(*past.weak_offsets[row : row + 2])
    }


def test_pairs_of_positive_queries_with_too_few_events_are_weak(trained):
    sums = sum_by_pair(make_shop()[0])
    positive = {query for (query, _), count in sums.items() if count >= LEAST}
    wanted = {key: n for key, n in sums.items() if key[0] in positive and n < LEAST}
    found = list_pairs(trained.model, trained.data)
    assert len(wanted) > 20
    assert found == pytest.approx(wanted)


def test_a_candidate_knows_its_weak_pair_and_is_proposed_by_it(trained):
    model, data = trained.model, trained.data
    weak = list_pairs(model, data)
    queries = data.positives.queries
    found = model.describe(data.vectorizer.native, queries)
    for row, query in enumerate(queries):
        inside = slice(*found.offsets[row : row + 2])
        ids = [data.products.ids[label] for label in found.labels[inside]]
        wanted = [np.log1p(weak.get((query, product), 0)) for product in ids]
        np.testing.assert_allclose(found.features[inside, WEAK], wanted, atol=1e-6)
        is_weak = found.features[inside, WEAK] > 0
        assert sum(query == each for each, _ in weak) == np.count_nonzero(is_weak)
        assert np.all(found.sources[inside][is_weak] & SOURCES["neighbors"])
        assert not found.features[inside, SAME][is_weak].any()


def test_a_frequent_query_keeps_its_strongest_pairs(monkeypatch):
    monkeypatch.setattr(weak_pairs, "MOST", 2)
    data = np.array([1, 3, 3, 3, 1, 2], dtype=np.float32)
    rows = Csr(np.array([0, 4, 6]), np.array([5, 6, 7, 8, 5, 6], dtype=np.int32), data, 9)
    kept = keep_strongest(rows)
    assert kept.indptr.tolist() == [0, 2, 4]
    assert kept.indices.tolist() == [6, 7, 5, 6]
    assert kept.data.tolist() == [3, 3, 1, 2]


def test_products_that_nobody_sells_have_no_weak_pair():
    log, catalog = make_shop(40)
    products = ms.train(log, catalog, make_config(parts=("tree",))).products
    every = find_weak(log, EventRule({"": 1.0}, 100.0), products)
    assert len(every.indices) == len(sum_by_pair(log))
    assert not len(find_weak(log, EventRule({"": 1.0}, 1e-6), products).indices)


def weak_by_hash(matcher):
    """Weak pairs of a match set, by the hash of the query and the product."""
    past = matcher.model.neighbors
    hashes = np.repeat(past.hash_of_query(), np.diff(past.weak_offsets))
    ids = (matcher.products.ids[label] for label in past.weak_products)
    return dict(zip(zip(hashes, ids, strict=True), np.expm1(past.weak_counts), strict=True))


def test_a_refresh_adds_weak_pairs_and_drops_those_that_became_answers():
    (log, catalog), (since, _) = make_shop(), make_shop(60, seed=5)
    matcher = ms.train(log, catalog, make_config(tune=False, min_count=LEAST))
    old, new = sum_by_pair(log), sum_by_pair(since)
    remembered = {query for (query, _), count in old.items() if count >= LEAST}
    old = {key: count for key, count in old.items() if key[0] in remembered}
    answers = {key for sums in (old, new) for key, count in sums.items() if count >= LEAST}
    known = {query for query, _ in answers}
    wanted = {
        (Strings.of([key[0]]).hashes()[0], key[1]): old.get(key, 0) + new.get(key, 0)
        for key in {*old, *new} - answers
        if key[0] in known
    }
    assert weak_by_hash(matcher.refresh(since)) == pytest.approx(wanted)


def test_a_refresh_with_the_old_log_has_the_weak_pairs_of_both_logs():
    (log, catalog), (since, _) = make_shop(), make_shop(60, seed=5)
    matcher = ms.train(log, catalog, make_config(tune=False, min_count=LEAST))
    both = ms.train(join_logs([log, since]), catalog, make_config(tune=False, min_count=LEAST))
    assert weak_by_hash(matcher.refresh(since, log)) == pytest.approx(weak_by_hash(both))
