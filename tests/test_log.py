"""A log holds distinct, sorted rows of normalised queries."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchset.data.log import NO_DAY, Log, make_log
from matchset.strings import Strings
from matchset.text import normalize_strings

RAW = ["Red Shoes", "red  shoes", "RED shoes", "blue", "", "  ", "Blue", "hat"]
EVENTS = ["view", "buy"]
rows_of_codes = st.lists(
    st.tuples(
        st.integers(0, len(RAW) - 1),
        st.integers(0, 3),
        st.integers(0, 1),
        st.sampled_from([int(NO_DAY), 0, 20_000, 20_001]),
        st.integers(0, 9).map(lambda n: n / 2),
    ),
    max_size=40,
)


def log_of(rows):
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 5
    return make_log(
        queries=Strings.of(RAW),
        products=Strings.of(["p3", "p1", "p2", "unused"]),
        events=EVENTS,
        **dict(zip(["query", "product", "event", "day", "count"], columns, strict=True)),
    )


def rows_of(log: Log):
    return {
        (log.queries[q], log.products[p], log.events[e], d): c
        for q, p, e, d, c in zip(log.query, log.product, log.event, log.day, log.count, strict=True)
    }


@given(rows_of_codes)
def test_rows_add_up_as_in_a_plain_dictionary(rows):
    expected = defaultdict(float)
    for q, p, e, d, c in rows:
        query = normalize_strings(Strings.of([RAW[q]]))[0]
        if query:
            expected[query, ["p3", "p1", "p2", "unused"][p], EVENTS[e], d] += c
    log = log_of(rows)
    assert rows_of(log) == expected
    assert log.report.rows == len(rows)
    assert log.report.without_query == sum(not RAW[q].strip() for q, *_ in rows)


@given(rows_of_codes)
def test_a_spelling_is_the_most_frequent_of_its_query(rows):
    totals = defaultdict(lambda: defaultdict(float))
    for q, _, _, _, c in rows:
        totals[normalize_strings(Strings.of([RAW[q]]))[0]][RAW[q]] += c
    totals.pop("", None)
    expected = {
        query: min(counts, key=lambda raw: (-counts[raw], raw)) for query, counts in totals.items()
    }
    log = log_of(rows)
    assert dict(zip(log.queries, log.spellings, strict=True)) == expected


@given(rows_of_codes, st.randoms())
def test_the_order_of_rows_does_not_matter(rows, random):
    shuffled = random.sample(rows, len(rows))
    assert log_of(rows) == log_of(shuffled)


@given(rows_of_codes)
def test_rows_are_sorted_and_every_name_is_used(rows):
    log = log_of(rows)
    keys = list(zip(log.query, log.product, log.event, log.day, strict=True))
    assert keys == sorted(set(keys))
    assert set(log.query) == set(range(len(log.queries)))
    assert set(log.product) == set(range(len(log.products)))
    assert list(log.products) == sorted(log.products)


def test_keys_too_wide_for_one_integer_are_grouped_alike():
    days = [NO_DAY, np.iinfo(np.int32).max, NO_DAY]
    n = 100_000
    log = make_log(
        queries=Strings.of([f"q{i}" for i in range(n)]),
        products=Strings.of([f"p{i}" for i in range(n)]),
        events=[""],
        query=np.r_[np.arange(n), [5, 5, 5]],
        product=np.r_[np.arange(n), [7, 7, 7]],
        event=np.zeros(n + 3),
        day=np.r_[np.zeros(n), days],
        count=np.ones(n + 3),
    )
    assert len(log) == n + 2
    assert rows_of(log)["q5", "p7", "", NO_DAY] == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"query": [9]}, "query must be a place within 2; got 9"),
        ({"product": [-1]}, "product must be a place within 1; got -1"),
        ({"count": [-1.0]}, "count must be finite and not negative"),
        ({"count": [np.nan]}, "count must be finite and not negative"),
        ({"day": [1, 2]}, r"day must have the shape \(1,\); got \(2,\)"),
    ],
)
def test_codes_outside_are_refused(wrong, message):
    rows = {"query": [0], "product": [0], "event": [0], "day": [0], "count": [1.0]}
    with pytest.raises(ValueError, match=message):
        make_log(
            queries=Strings.of(["a", "b"]), products=Strings.of(["p"]), events=[""], **rows | wrong
        )
