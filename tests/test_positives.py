"""Events say which products answer a query."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchset.data.events import EventRule, kind_of, relevance_rule, training_rule
from matchset.data.log import make_log
from matchset.data.positives import positives, relevance
from matchset.errors import DataError
from matchset.strings import Strings


def log_of(rows, events):
    """A log of (query, product, event, day, count) with queries q0.. and products p0.. ."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 5
    return make_log(
        queries=Strings.of([f"q{i}" for i in range(5)]),
        products=Strings.of([f"p{i}" for i in range(5)]),
        events=events,
        **dict(zip(["query", "product", "event", "day", "count"], columns, strict=True)),
    )


def pairs_of(found):
    table = found.pairs.tocoo()
    return {
        (found.queries[q], found.products[p]): float(value)
        for q, p, value in zip(table.row, table.col, table.data, strict=True)
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("purchase", "purchase"), ("Order", "purchase"), ("add_to_cart", "cart"),
        ("Add To Cart", "cart"), ("click", "click"), ("CLICKS", "click"), ("view_item", "click"),
        ("impression", "impression"), ("view-item-list", "impression"), ("login", "unknown"),
        ("", "none"), (" ", "none"), ("購入", "unknown"), ("-", "unknown"),
    ],
)  # fmt: skip
def test_usual_names_tell_the_kind_of_an_event(name, kind):
    assert kind_of(name) == kind


def test_default_weights_are_relative_to_the_strongest_event():
    every = ("impression", "click", "add_to_cart", "purchase", "login")
    assert training_rule(every).weights == {"purchase": 1.0, "add_to_cart": 0.5, "click": 0.2}
    assert training_rule(("impression", "click")).weights == {"click": 1.0}
    assert training_rule(("click", "cart")).weights == {"click": 0.4, "cart": 1.0}
    assert training_rule(("",)).weights == {"": 1.0}


def test_a_test_pair_was_bought_or_what_comes_closest():
    assert relevance_rule(("click", "purchase", "order")).weights == {"purchase": 1.0, "order": 1.0}
    assert relevance_rule(("impression", "click", "cart")).weights == {"click": 1.0, "cart": 1.0}
    assert relevance_rule(("",)).weights == {"": 1.0}
    assert relevance_rule(("click", "buy"), weights=["click"], min_count=2) == EventRule(
        {"click": 1.0}, 2
    )


@pytest.mark.parametrize("rule", [training_rule, relevance_rule])
@pytest.mark.parametrize("events", [("impression",), ("impression", "refund"), ("", "impression")])
def test_what_customers_only_saw_or_gave_back_is_no_answer(rule, events):
    with pytest.raises(DataError, match="events= must say which events make a pair positive; the"):
        rule(events)


def test_unknown_events_must_be_weighed_by_the_user():
    with pytest.raises(
        DataError,
        match="events= must say which events make a pair positive; the log has 'foo', 'bar'",
    ):
        training_rule(("foo", "bar"))
    with pytest.raises(DataError, match="unknown event 'buy'; the log has 'click', 'order'"):
        training_rule(("click", "order"), weights={"buy": 1})
    with pytest.raises(ValueError, match="the weight of 'click' must be finite and >= 0; got -1"):
        training_rule(("click",), weights={"click": -1})
    with pytest.raises(ValueError, match="min_count must be positive; got 0"):
        training_rule(("click",), min_count=0)
    with pytest.raises(
        TypeError, match="events must be a mapping or a list of names; got the text 'click'"
    ):
        training_rule(("click",), weights="click")


@pytest.mark.parametrize("choose", [positives, relevance])
@pytest.mark.parametrize(
    ("event", "shown"), [("login", "login"), ("", "'' (rows without an event)")]
)
def test_events_that_count_nothing_are_said(choose, event, shown, caplog):
    log = log_of([(0, 0, 0, 1, 1.0), (0, 1, 1, 1, 1.0)], ["click", event])
    assert pairs_of(choose(log)) == {("q0", "p0"): 1.0}
    assert f"these events are not counted: {shown}; events=" in caplog.text
    caplog.clear()
    choose(log, events=["click"])
    choose(log_of([(0, 0, 0, 1, 1.0)], [""]))
    assert caplog.text == ""


def test_five_clicks_of_a_fifth_are_one_purchase_over_any_days():
    rows = [(0, 0, 0, day, 1.0) for day in range(5)] + [(0, 1, 0, 1, 4.0), (1, 2, 1, 1, 1.0)]
    log = log_of(rows, ["click", "purchase"])
    assert pairs_of(positives(log)) == {("q0", "p0"): 1.0, ("q1", "p2"): 1.0}
    assert pairs_of(relevance(log)) == {("q1", "p2"): 1.0}


rows = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(0, 4),
        st.integers(0, 2),
        st.integers(0, 3),
        st.integers(0, 8),
    ),
    max_size=40,
)


@given(rows, st.sampled_from([0.5, 1.0, 3.0]))
def test_pairs_equal_a_plain_dictionary(values, min_count):
    weights = {"buy": 1.0, "click": 0.25, "seen": 0.0}
    log = log_of(values, list(weights))
    expected = defaultdict(float)
    for query, product, event, _, count in values:
        expected[f"q{query}", f"p{product}"] += count * list(weights.values())[event]
    expected = {pair: value for pair, value in expected.items() if value >= min_count}
    given_weights = {name: weight for name, weight in weights.items() if name in log.events}
    found = positives(log, events=given_weights, min_count=min_count)
    assert pairs_of(found) == expected
    assert len(found) == len(expected)
    assert found.pairs.dtype == np.float32
    assert found.pairs.has_sorted_indices
    assert set(found.queries) == {query for query, _ in expected}
    assert set(found.products) == {product for _, product in expected}


@pytest.mark.parametrize("weight", [1, True, np.float32(1), np.int8(1)])
def test_v2_weights_may_be_numbers_of_any_kind(weight):
    log = log_of([(0, 0, 0, 1, 4.0), (0, 1, 1, 1, 1.0)], ["click", "purchase"])
    for find in (positives, relevance):
        assert len(find(log, events={"purchase": weight, "click": weight})) == 2


def test_rare_queries_are_not_shown():
    log = log_of(
        [(0, 0, 0, 1, 4.0), (0, 1, 1, 1, 1.0), (1, 0, 0, 1, 4.5), (1, 0, 2, 1, 99.0)],
        ["click", "purchase", "impression"],
    )
    assert log.query_counts().tolist() == [5.0, 4.5]
    assert log.shown().tolist() == [True, False]
    assert log.shown(min_query_count=4).tolist() == [True, True]
    only_seen = log_of([(0, 0, 0, 1, 7.0)], ["impression"])
    assert only_seen.shown().tolist() == [True]
