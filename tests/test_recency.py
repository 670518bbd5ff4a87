"""Recency: do events count the less the older they are?"""

import dataclasses
from datetime import date

import numpy as np
import pytest
import scipy.sparse as sp
from match_sets import make_config, make_shop

import matchset as ms
from matchset.data import recency
from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Catalog
from matchset.data.log import join_logs, make_log
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
    np.testing.assert_allclose(wanted, recent, rtol=1e-9, atol=1e-70)
    for threads in (1, 2, 7):
        assert recency.find_days(log, threads=threads) == (first, last)
        assert np.array_equal(recency.count_recent(log, WEIGHTS, threads=threads), wanted)
        assert np.array_equal(log.query_counts(threads=threads), in_query)
        some = log.select(log.product % 7 == 3, threads=threads)
        texts = log.queries.take(log.query[log.product % 7 == 3])
        assert some == log.select(log.product % 7 == 3)
        assert some.queries.take(some.query) == texts
        assert some.products == log.products.take(np.arange(3, len(log.products), 7))
        assert np.array_equal(some.day, log.day[log.product % 7 == 3])
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


def make_dated_shop(first, days=10, n_queries=300, seed=0):
    """The log of a shop that begins on a day, and its catalog."""
    log, catalog = make_shop(n_queries, seed=seed, days=days)
    return dataclasses.replace(log, day=log.day + np.int32(first)), catalog


@pytest.fixture(scope="module")
def trained():
    """A match set that knows the days 100 to 129, and its log."""
    log, catalog = make_dated_shop(100, days=30)
    return ms.train(log, catalog, make_config(tune=False)), log


def assert_counts_as_one_log(refreshed, *logs):
    """Whether events of several logs count as if they had been in one."""
    wanted = np.zeros(len(refreshed.products))
    whole = join_logs(logs)
    wanted[refreshed.products.index_of(whole.products)] = recency.count_recent(whole, {"": 1.0})
    np.testing.assert_allclose(np.expm1(refreshed.model.recent), wanted, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("first", "last_day"),
    [(130, "1970-05-20"), (400, "1971-02-14"), (120, "1970-05-10"), (20, "1970-05-10")],
    ids=["next", "much later", "within", "older"],
)
def test_events_of_a_refresh_are_as_old_as_their_days_say(trained, first, last_day):
    before, log = trained
    since, _ = make_dated_shop(first, n_queries=60, seed=5)
    after = before.refresh(since)
    assert_counts_as_one_log(after, log, since)
    assert after.provenance["last_day"] == last_day
    assert_counts_as_one_log(before.refresh(since, log), log, since)


def test_a_product_that_was_chosen_only_long_ago_is_recent_no_longer(trained):
    before, _ = trained
    since, _ = make_dated_shop(330, days=1, n_queries=20, seed=5)
    after = before.refresh(since)
    is_old = np.ones(len(after.products), dtype=np.bool_)
    is_old[after.products.index_of(since.products)] = False
    assert before.model.recent[is_old].max() > 1
    assert after.model.recent[is_old].max() < 0.001
    assert after.model.recent[~is_old].min() > 0.6


def test_refreshes_one_after_another_count_as_one(trained):
    before, log = trained
    first, second, late = (
        make_dated_shop(day, n_queries=40, seed=seed)[0]
        for day, seed in ((150, 1), (190, 2), (160, 3))
    )
    after = before.refresh(first).refresh(second).refresh(late)
    assert after.provenance["last_day"] == "1970-07-19"
    assert_counts_as_one_log(after, log, first, second, late)


def test_a_refresh_without_times_makes_nothing_recent_and_nothing_old(trained):
    before, _ = trained
    after = before.refresh(make_shop(60, seed=5)[0])
    np.testing.assert_allclose(after.model.recent, before.model.recent, rtol=1e-4, atol=1e-4)
    assert after.provenance["last_day"] == before.provenance["last_day"]


def test_a_model_without_times_learns_them_from_a_refresh():
    log, catalog = make_shop(60)
    since, _ = make_dated_shop(130, n_queries=60, seed=5)
    after = ms.train(log, catalog, make_config(tune=False)).refresh(since)
    assert_counts_as_one_log(after, since)
    assert after.provenance["last_day"] == "1970-05-20"


def test_a_wrong_date_is_the_last_day_of_no_training_and_no_refresh():
    rows = 2000
    day = np.full(rows, 100, dtype=np.int32)
    day[-1] = 2_932_896
    log = make_log(
        queries=Strings.of([f"vase {i}" for i in range(rows)]), products=Strings.of(["a", "b"]),
        events=["purchase"], query=list(range(rows)), product=[i % 2 for i in range(rows)],
        event=[0] * rows, day=day, count=[1] * rows,
    )  # fmt: skip
    for before in (None, date(1970, 4, 1)):
        assert recency.find_last_day(log, None, before=before) == date(1970, 4, 11)
    since = make_log(
        queries=Strings.of(["vase"]), products=Strings.of(["a"]), events=["purchase"],
        query=[0], product=[0], event=[0], day=[110], count=[1],
    )  # fmt: skip
    catalog = Catalog(Strings.of(["a", "b"]), Strings.of(["red vase", "blue vase"]))
    before = ms.train(log, catalog, make_config(tune=False, parts=("lexical", "neighbors")))
    assert before.provenance["last_day"] == "1970-04-11"
    recent = np.expm1(before.refresh(since).model.recent)
    np.testing.assert_allclose(recent, [1000 * 0.95**10 + 1, 1000 * 0.95**10], rtol=1e-4)
