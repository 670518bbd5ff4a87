"""A split keeps the future out of training, and says what a test can ask for."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import rows_of
from test_positives import log_of

from matchset.data.arrow import NO_DAY
from matchset.data.positives import positives
from matchset.data.split import split_by_query, split_by_time
from matchset.errors import DataError

FIRST = (dt.date(2026, 9, 1) - dt.date(1970, 1, 1)).days
log_rows = st.lists(
    st.tuples(
        st.integers(0, 4), st.integers(0, 4), st.integers(0, 1), st.integers(FIRST, FIRST + 40),
        st.integers(1, 3),
    ),
    min_size=2, max_size=40,
)  # fmt: skip
EVENTS = ["click", "purchase"]


@given(log_rows, st.integers(0, 41))
def test_every_row_is_on_one_side_of_the_day(rows, shift):
    log = log_of(rows, EVENTS)
    day = dt.date(2026, 9, 1) + dt.timedelta(shift)
    number = FIRST + shift
    if not any(r[3] < number for r in rows) or not any(r[3] >= number for r in rows):
        with pytest.raises(DataError, match="a split must leave rows on both sides; got"):
            split_by_time(log, test_from=day)
        return
    train, test = split_by_time(log, test_from=day)
    assert rows_of(train) | rows_of(test) == rows_of(log)
    assert train.day.max() < number <= test.day.min()
    for side in (train, test):
        assert set(side.query) == set(range(len(side.queries)))
        assert set(side.product) == set(range(len(side.products)))
        assert side.events == log.events


def two_days():
    return log_of([(0, 0, 0, FIRST, 1.0), (1, 1, 0, FIRST + 1, 2.0)], ["click"])


@pytest.mark.parametrize(
    "test_from",
    ["2026-09-02", "2026-09-02T10:00:00", dt.date(2026, 9, 2), dt.datetime(2026, 9, 2, 5),
     dt.datetime(2026, 9, 1, 23, tzinfo=dt.timezone(dt.timedelta(hours=-5)))],
)  # fmt: skip
def test_the_day_may_be_text_or_a_date(test_from):
    train, test = split_by_time(two_days(), test_from=test_from)
    assert list(train.queries) == ["q0"]
    assert list(test.queries) == ["q1"]


def test_the_last_days_are_for_testing():
    log = log_of([(0, 0, 0, FIRST + i, 1.0) for i in range(40)], ["click"])
    train, test = split_by_time(log, test_days=30)
    assert (len(train), len(test)) == (10, 30)


def test_rows_without_a_time_are_on_neither_side(caplog):
    log = log_of(
        [(0, 0, 0, FIRST, 1.0), (1, 1, 0, FIRST + 1, 1.0), (2, 2, 0, NO_DAY, 1.0)], ["click"]
    )
    split = split_by_time(log, test_days=1)
    assert split.undated == 1
    assert [len(side) for side in split] == [1, 1]
    assert "1 rows without a time are in neither train nor test" in caplog.text


def test_splits_by_time_refuse_what_makes_no_sense():
    with pytest.raises(DataError, match="a split by time needs times; the log has none"):
        split_by_time(log_of([(0, 0, 0, NO_DAY, 1.0)], ["click"]), test_days=3)
    for wrong in ({}, {"test_from": "2026-09-02", "test_days": 3}):
        with pytest.raises(ValueError, match="either test_from or test_days must be given"):
            split_by_time(two_days(), **wrong)
    with pytest.raises(ValueError, match="test_from must be a date such as 2026-10-01; got 'soon'"):
        split_by_time(two_days(), test_from="soon")
    for n_days in (0, -1, 2.5, True):  # u3: 2.5 was taken for 2
        with pytest.raises(ValueError, match=f"test_days must be a positive integer; got {n_days}"):
            split_by_time(two_days(), test_days=n_days)
    with pytest.raises(DataError, match="got 2 days for a log from 2026-09-01 to 2026-09-02"):
        split_by_time(two_days(), test_days=2)


@given(log_rows, st.integers(0, 9))
def test_folds_part_the_queries(rows, seed):
    log = log_of(rows, EVENTS)
    folds = len(log.queries)
    if folds < 2:
        with pytest.raises(DataError, match="at least 2 queries, one per fold; got 1"):
            split_by_query(log, folds=2, seed=seed)
        return
    tested = []
    for fold in range(folds):
        train, test = split_by_query(log, folds=folds, fold=fold, seed=seed)
        assert not set(train.queries) & set(test.queries)
        assert rows_of(train) | rows_of(test) == rows_of(log)
        tested += test.queries
    assert sorted(tested) == list(log.queries)


def test_the_seed_decides_the_folds():
    log = log_of([(i, i, 0, FIRST, 1.0) for i in range(5)], ["click"])
    chosen = {seed: list(split_by_query(log, seed=seed).test.queries) for seed in range(20)}
    assert chosen[3] == list(split_by_query(log, seed=3).test.queries)
    assert len({tuple(queries) for queries in chosen.values()}) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds must be at least 2; got 1"),
        ({"folds": 3, "fold": 3}, "fold must be from 0 to 2; got 3"),
        ({"folds": 3, "fold": -1}, "fold must be from 0 to 2; got -1"),
    ],
)
def test_folds_outside_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        split_by_query(two_days(), **options)


def test_the_report_is_that_of_a_split_counted_by_hand():
    rows = [
        (0, 0, 1, FIRST, 1.0), (0, 1, 1, FIRST, 1.0), (1, 1, 1, FIRST, 2.0), (2, 4, 0, FIRST, 1.0),
        # Test: q0 bought p0, p1 (both seen) and p2 (new); q3 bought p3 (new); q2 only clicked.
        (0, 0, 1, FIRST + 9, 1.0), (0, 1, 1, FIRST + 9, 1.0), (0, 2, 1, FIRST + 9, 1.0),
        (3, 3, 1, FIRST + 9, 1.0), (2, 4, 0, FIRST + 9, 9.0),
    ]  # fmt: skip
    split = split_by_time(log_of(rows, EVENTS), test_days=3)
    report = split.report(k=100)
    assert (report.train_pairs, report.train_queries, report.train_products) == (3, 2, 2)
    assert (report.test_pairs, report.test_queries, report.test_products) == (4, 2, 4)
    assert report.unseen_products == 0.5  # p2 and p3 of four
    assert report.unseen_queries == 0.5  # q3 of two
    assert report.seen_limit == pytest.approx((2 / 3 + 0) / 2)
    assert split.report(k=1).seen_limit == pytest.approx((1 / 3 + 0) / 2)
    assert "Recall@100 is at most 33.3%" in str(report)
    clicks = positives(split.test, events=["click"])
    assert split.report(test=clicks).test_pairs == 1
    with pytest.raises(ValueError, match="k must be positive; got 0"):
        split.report(k=0)


def test_a_test_without_answers_has_no_limit():
    split = split_by_time(two_days(), test_days=1)
    none = positives(split.test, min_count=99)
    assert np.isnan(split.report(test=none).seen_limit)
    assert str(split.report(test=none)).endswith(
        "nothing to test: no pair on the test side reaches a count of 99 by 'click'"
    )
    rows = [(0, 0, 1, FIRST, 1.0), (1, 1, 0, FIRST + 1, 2.0)]
    report = str(split_by_time(log_of(rows, EVENTS), test_days=1).report())
    assert "no pair on the test side reaches a count of 1 by 'purchase'" in report
    assert "nan" not in report
    rows = [(0, 0, 0, FIRST, 1.0), (1, 1, 0, FIRST + 1, 0.5)]
    report = str(split_by_time(log_of(rows, [""]), test_days=1).report())
    assert report.endswith("reaches a count of 1 by rows")


def test_a_split_by_days_of_a_log_of_months_is_told(caplog):
    log = log_of([(0, 0, 0, FIRST + 30 * month, 1) for month in range(6)], ["click"])
    split_by_time(log, test_days=30)
    assert (
        "times are coarse, such as months: the test has 1 of the log's 6 distinct days"
        in caplog.text
    )
    caplog.clear()
    split_by_time(log_of([(0, 0, 0, FIRST + day, 1) for day in range(40)], ["click"]), test_days=30)
    assert caplog.text == ""
