"""Recency: do events count the less the older they are?"""

import numpy as np
from match_sets import make_config, make_shop

import matchset as ms
from matchset.data import recency
from matchset.data.arrow import NO_DAY
from matchset.data.log import make_log
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


def test_the_older_an_event_the_less_it_counts(monkeypatch):
    log = make_events([0, 3, 10, 10, 10])
    wanted = [0.95**10 + 0.2 * 0.95**7 + 0.2 * 3, 1, 0]
    np.testing.assert_allclose(recency.count_recent(log, WEIGHTS), wanted)
    monkeypatch.setattr(recency, "_ROWS", 2)
    np.testing.assert_allclose(recency.count_recent(log, WEIGHTS), wanted)


def test_without_times_nothing_is_recent():
    assert recency.count_recent(make_events([NO_DAY] * 5), WEIGHTS).tolist() == [0, 0, 0]


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
