"""Recency: do events count the less the older they are?"""

import numpy as np
import pytest
import scipy.sparse as sp
from match_sets import make_config, make_match_set, make_shop

import matchset as ms
from matchset.data import recency
from matchset.data.arrow import NO_DAY
from matchset.data.log import make_log
from matchset.model.match_set_model import read_match_set, store_match_set
from matchset.model.reranker import FEATURES
from matchset.storage.sections import Section
from matchset.strings import Strings

WEIGHTS = {"purchase": 1.0, "click": 0.2}


def make_events(days):
    """Three products: a has a purchase and two clicks, b a purchase, c was only shown."""
    return make_log(
        queries=Strings.of(["vase", "red vase", "cup"]),
        products=Strings.of(["a", "b", "c"]),
        events=["click", "impression", "purchase"],
        query=[0, 0, 1, 2, 2],
        product=[0, 0, 0, 1, 2],
        event=[2, 0, 0, 2, 1],
        day=days,
        count=[1, 1, 3, 1, 1],
    )


def test_the_older_an_event_the_less_it_counts():
    log = make_events([0, 3, 10, 10, 10])
    wanted = [0.95**10 + 0.2 * 0.95**7 + 0.2 * 3, 1, 0]
    np.testing.assert_allclose(recency.count_recent(log, WEIGHTS), wanted)


@pytest.mark.parametrize("span", [1, 400, 5000, 3_000_000])
def test_sums_of_a_long_log_are_those_of_numpy_with_any_number_of_threads(span):
    n, rng = 400_000, np.random.default_rng(span)
    log = make_log(
        queries=Strings.of([f"q{i:05}" for i in range(9000)]),
        products=Strings.of([f"p{i:04}" for i in range(5000)]),
        events=["click", "impression", "purchase"],
        # One query has more rows than a thread takes at a time.
        query=np.where(rng.random(n) < 0.3, 4000, rng.integers(0, 9000, n)),
        product=rng.integers(0, 5000, n), event=rng.integers(0, 3, n),
        day=np.where(rng.random(n) < 0.01, NO_DAY, rng.integers(0, span, n)),
        count=rng.integers(1, 4, n),
    )  # fmt: skip
    dated = np.sort(log.day[log.day != NO_DAY])
    first, last = dated[0], dated[len(dated) - 1 - len(dated) // 1000]
    age = np.maximum(0, last - np.where(log.day == NO_DAY, first, log.day))
    weighed = log.count * np.array([0.2, 0, 1])[log.event]
    recent = np.bincount(log.product, weighed * 0.95**age, len(log.products))
    in_query = np.bincount(log.query, log.count * (log.event != 1), len(log.queries))
    pairs = sp.coo_array((weighed, (log.query, log.product))).tocsr().astype(np.float32)
    pairs.data[pairs.data < 1] = 0
    pairs.eliminate_zeros()
    wanted = recency.count_recent(log, WEIGHTS, threads=1)
    np.testing.assert_allclose(wanted, recent, rtol=1e-9, atol=1e-300)
    for threads in (1, 2, 7):
        assert recency.find_days(log, threads=threads) == (first, last)
        assert np.array_equal(recency.count_recent(log, WEIGHTS, threads=threads), wanted)
        assert np.array_equal(log.query_counts(threads=threads), in_query)
        found = ms.positives(log, threads=threads).pairs
        assert np.array_equal(found.indptr[-1], pairs.nnz)
        np.testing.assert_allclose(found.data, pairs.data, rtol=1e-6)


def test_without_times_nothing_is_recent():
    assert recency.count_recent(make_events([NO_DAY] * 5), WEIGHTS).tolist() == [0, 0, 0]


def test_a_row_with_a_wrong_date_makes_no_other_one_old():
    n = 2000
    log = make_log(
        queries=Strings.of(["vase"]), products=Strings.of([f"p{i:04}" for i in range(n)]),
        events=["purchase"], query=[0] * n, product=list(range(n)), event=[0] * n,
        day=[20_000] * (n - 1) + [2_932_896], count=[1] * n,
    )  # fmt: skip
    assert recency.count_recent(log, WEIGHTS).tolist() == [1] * n


def test_an_event_without_a_time_is_as_old_as_the_oldest():
    log = make_events([NO_DAY, 4, 6, 6, 6])
    wanted = [0.95**2 + 0.2 * 0.95**2 + 0.2 * 3, 1, 0]
    np.testing.assert_allclose(recency.count_recent(log, WEIGHTS), wanted)


def test_a_refresh_adds_its_log_to_what_is_left_of_the_events_before():
    (log, catalog), (since, _) = make_shop(days=30), make_shop(60, seed=5, days=10)
    before = ms.train(log, catalog, make_config(tune=False))
    after = before.refresh(since)
    wanted = np.expm1(before.model.recent) * 0.95**10
    wanted[before.products.index_of(since.products)] += recency.count_recent(since, {"": 1.0})
    np.testing.assert_allclose(np.expm1(after.model.recent), wanted, rtol=1e-4, atol=1e-4)


def test_a_model_from_before_recent_events_answers_as_it_did():
    model = make_match_set(tune=False).model
    sections = store_match_set(model)
    header = dict(sections["reranker"].header)
    header["features"] = header["features"][:-1]
    header["weights"] = [row[:-1] for row in header["weights"]]
    sections["reranker"] = Section(header, sections["reranker"].arrays)
    search = sections["search"]
    popularity = {"popularity": search.arrays["popularity"]}
    older = read_match_set({**sections, "search": Section(search.header, popularity)})
    assert FEATURES[-1] == "recent"
    assert older.recent.shape == model.recent.shape
    assert not older.recent.any()
    assert np.array_equal(older.reranker.weights, model.reranker.weights)  # the default ones
