"""A log holds distinct, sorted rows of normalized queries."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import rows_of
from match_sets import make_shop

import matchset as ms
from matchset.data import grouping
from matchset.data.arrow import NO_DAY
from matchset.data.log import make_log
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


@pytest.fixture(params=["one slab", "many slabs"], autouse=True)
def slabs(request, monkeypatch):
    """Large logs are mapped in blocks and sorted in slabs; small ones must go both ways."""
    if request.param == "many slabs":
        monkeypatch.setattr(grouping, "_BLOCK", 4)
        monkeypatch.setattr(grouping, "_SLAB", 3)


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


wide = st.sampled_from([0, 1, 2**31 - 1])


@given(st.lists(st.tuples(wide, wide, st.sampled_from([0, 255]), wide, st.integers(0, 3))))
def test_keys_too_wide_for_one_integer_are_grouped_alike(rows):
    expected = defaultdict(float)
    for *key, count in rows:
        expected[tuple(key)] += count
    types = (np.int32, np.int32, np.uint8, np.int32, np.float64)
    columns = [
        np.array([row[column] for row in rows], dtype=dtype) for column, dtype in enumerate(types)
    ]
    grouped = grouping.group_rows(grouping.Rows(*columns))
    keys = list(zip(*(key.tolist() for key in grouped.keys), strict=True))
    assert keys == sorted(expected)
    assert grouped.count.tolist() == [expected[key] for key in keys]


def test_rows_are_selected_by_a_mask_alone():
    log = make_shop(20)[0]
    with pytest.raises(TypeError, match="rows must be a mask of bool; got int64"):
        log.select(np.arange(len(log))[::-1])


def test_a_log_and_a_catalog_become_arrow_tables():
    shop = ms.lab.simulate_shop(products=100)
    table = shop.log.to_arrow()
    assert table.column_names == ["query", "product_id", "event", "date", "count"]
    assert ms.read_log(table) == shop.log
    assert ms.read_log(table.to_pandas()) == shop.log
    goods = shop.catalog.to_arrow()
    assert list(ms.read_catalog(goods.to_pandas()).titles) == list(shop.catalog.titles)
