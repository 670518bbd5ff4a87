"""A filter says which products may be returned, however it was asked for."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from shelf import ROWS, make_columns

from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.errors import FilterError
from matchset.filters.filter import Filter, make_filter
from matchset.model.products import Products
from matchset.strings import Strings

IDS = Strings.of([f"p{i}" for i in range(len(ROWS))])
MASK = np.array([True, False, True, False, False])


def make_shelf(ids=IDS):
    return Products(ids, None, make_columns())


def indices(filtered):
    return list(np.flatnonzero(filtered.allowed))


@pytest.mark.parametrize(
    "what",
    [
        "in_stock",
        {"p0", "p2"},
        ["p2", "p0", "p2"],
        ("p0", "p2"),
        frozenset({"p0", "p2"}),
        {"p0": 1, "p2": 2},
        (product for product in ["p0", "p2"]),
        Strings.of(["p0", "p2"]),
        np.array(["p0", "p2"]),
        np.array(["p0", "p2"], dtype=object),
        pd.Series(["p0", "p2"]),
        pl.Series(["p0", "p2"]),
        MASK,
        pd.Series(MASK),
        pl.Series(MASK),
    ],
    ids=lambda what: type(what).__name__,
)
def test_expressions_ids_and_arrays_make_the_same_filter(what):
    made = make_filter(make_shelf(), what)
    assert indices(made) == [0, 2]
    assert (made.n_allowed, made.n_unknown) == (2, 0)
    assert made.ids is IDS


def test_a_catalog_can_be_filtered_too():
    catalog = Catalog(IDS, Strings.of([""] * 5), None, make_columns())
    assert indices(make_filter(catalog, "price < 20")) == [0, 3]


def test_ids_that_no_product_has_are_ignored_counted_and_named():
    made = make_filter(make_shelf(), ["p0", "gone", "gone", "later"])
    assert (made.n_allowed, made.n_unknown) == (1, 2)
    shown = "1 of 5 products, 2 unknown ids ignored; unknown ids: 'gone', 'later'"
    assert repr(made) == f"Filter('3 product ids': {shown})"
    many = make_filter(make_shelf(), [str(number) for number in range(1000)])
    assert many.hints == ("unknown ids: '0', '1', '2', ...",)


def test_a_filter_tells_what_it_was_made_from():
    assert repr(make_filter(make_shelf(), "in_stock")) == "Filter('in_stock': 2 of 5 products)"
    assert make_filter(make_shelf(), MASK).description == "a boolean array"


def test_a_filter_does_not_change_with_the_array_it_was_made_from():
    mask = MASK.copy()
    made = make_filter(make_shelf(), mask)
    mask[:] = True
    assert indices(made) == [0, 2]
    with pytest.raises(ValueError, match="read-only"):
        made.allowed[1] = True


def test_a_filter_is_used_again_for_the_same_products_only():
    made = make_filter(make_shelf(), "in_stock")
    assert make_filter(make_shelf(), made) is made
    same = Strings.of(list(IDS))
    assert make_filter(make_shelf(same), made) is made
    for ids, got in ([f"x{i}" for i in range(5)], "other ones"), (["p0"], "one of 5"):
        with pytest.raises(ValueError, match=f"filter of this matcher's .* products; got {got}"):
            make_filter(Products(Strings.of(ids)), made)


def test_filters_join_without_joining_their_texts():
    shop = make_filter(make_shelf(), "locale = 'us'")
    customer = make_filter(make_shelf(), ["p0", "p1", "gone"])
    both = shop & customer
    assert indices(both) == [0]
    assert (both.n_allowed, both.n_unknown) == (1, 1)
    assert both.description == "(locale = 'us') and (3 product ids)"
    with pytest.raises(FilterError, match=r"got \)"):
        make_filter(make_shelf(), "price < 0) or (in_stock")
    with pytest.raises(TypeError):
        shop & "in_stock"


@pytest.mark.parametrize(
    ("what", "error", "rule"),
    [
        (None, TypeError, "where must be an expression, a filter, product ids or a boolean array"),
        (3, TypeError, "got int"),
        (b"in_stock", TypeError, "got bytes"),
        (["p0", 3], TypeError, r"where\[1\] must be str; got int"),
        ([True, False, True, False, False], TypeError, r"where\[0\] must be str; got bool"),
        (np.array([1, 0, 1, 0, 0]), TypeError, "where must be a boolean array; got one of int64"),
        (MASK[:4], ValueError, r"where must have the shape \(5,\); got \(4,\)"),
        (MASK[:, None], ValueError, r"where must have the shape \(5,\); got \(5, 1\)"),
        ("colour = 'red'", FilterError, "an attribute must be one of price"),
    ],
)
def test_what_is_no_filter_is_an_error(what, error, rule):
    with pytest.raises(error, match=rule):
        make_filter(make_shelf(), what)


def test_no_products_can_be_filtered():
    none = Products(Strings.of([]), None, make_columns([]))
    assert make_filter(none, "in_stock and price < 3").n_allowed == 0
    assert make_filter(none, ["p0"]).n_unknown == 1


def test_a_filter_survives_pickling():
    made = make_filter(make_shelf(), "in_stock")
    again = pickle.loads(pickle.dumps(made))
    assert isinstance(again, Filter)
    assert make_filter(make_shelf(), again) is again


@pytest.mark.parametrize(
    ("expression", "hints"),
    [
        ("locale = 'xx'", ["no product has locale = 'xx'"]),
        (
            "not (price < 3 or locale != 'US')",
            ["no product has locale = 'US' (did you mean 'us'?)"],
        ),
        ("locale in ('de', 'fr')", ["no product has locale = 'fr'"]),
        ("locale = 'xx' or locale = 'xx'", ["no product has locale = 'xx'"]),
        ("locale = 'us' and price = 7 and since > '2020-01-01' and locale > 'x'", []),
    ],
)
def test_a_text_that_no_product_has_gives_a_hint(expression, hints, caplog):
    made = make_filter(make_shelf(), expression)
    assert list(made.hints) == hints
    assert caplog.messages == []  # a server's callers shall not fill its log
    shelf = make_shelf()
    assert shelf.filter(expression) is shelf.filter(expression)
    assert caplog.messages == hints
    assert all(hint in repr(made) for hint in hints)
    joined = make_filter(make_shelf(), "in_stock") & made
    assert joined.hints == made.hints


def test_a_long_text_is_cut_in_its_hint():
    made = make_filter(make_shelf(), f"locale = '{'x' * 3_000}'")
    assert len(made.hints[0]) < 100


def test_the_same_expression_is_read_once():
    products = make_shelf()
    made = products.filter("in_stock")
    assert products.filter("in_stock") is made
    assert products.filter(made) is made
    assert products.filter(["p0"]) is not products.filter(["p0"])
    for price in range(100):  # more than are kept
        products.filter(f"price < {price}")
    again = products.filter("in_stock")
    assert again is not made
    assert indices(again) == indices(made)
    with pytest.raises(FilterError):
        products.filter("in_stock and")
    assert indices(pickle.loads(pickle.dumps(products)).filter("in_stock")) == indices(made)


def test_a_number_compared_as_text_is_a_hint():
    rows = {"sku": ["1", "2"], "title": ["a", "b"], "price": ["9 each", "1000 each"]}
    catalog = read_catalog(pd.DataFrame(rows))
    (hint,) = make_filter(catalog, "price < '500 €'").hints
    assert hint.startswith("price is text, so price < '500 €' compares character by character")
    (hint,) = make_filter(catalog, "price between '1' and '5 each'").hints[:1]
    assert "price is text" in hint
    assert make_filter(catalog, "price > 'a' or price < '2026-10-01'").hints == ()
