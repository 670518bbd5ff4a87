"""Products know which product is which label, and what the catalog knows about it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shelf import ROWS, make_columns

from matchset.data.catalog import Catalog
from matchset.model.products import make_products
from matchset.strings import Strings

CATALOG = Catalog(
    Strings.of(["a", "b", "c", "d", "e"]),
    Strings.of(["Ant", "Bee", "", "Dog", "Emu"]),
    None,
    make_columns(),
)


def test_without_a_catalog_there_are_ids_alone():
    products = make_products(Strings.of(["x", "y"]))
    assert (list(products.ids), products.titles, dict(products.attributes)) == (
        ["x", "y"],
        None,
        {},
    )
    assert repr(products) == "Products(2 products)"


def test_labels_follow_the_log_and_what_the_catalog_lacks_has_no_title_and_nulls():
    products = make_products(Strings.of(["d", "x", "a"]), CATALOG)
    assert list(products.ids) == ["d", "x", "a"]
    assert list(products.titles) == ["Dog", "", "Ant"]
    for column in products.attributes.values():
        assert column.is_null[1]
    assert products.attributes["price"].values[[0, 2]].tolist() == [ROWS[3][0], ROWS[0][0]]
    assert products.attributes["locale"].categories is CATALOG.attributes["locale"].categories


def test_products_without_positives_follow_in_the_order_of_the_catalog():
    products = make_products(Strings.of(["d", "x", "a"]), CATALOG, with_unseen=True)
    assert list(products.ids) == ["d", "x", "a", "b", "c", "e"]
    assert list(products.titles) == ["Dog", "", "Ant", "Bee", "", "Emu"]
    assert all(len(column.values) == 6 for column in products.attributes.values())


@given(st.lists(st.text(max_size=3), unique=True), st.lists(st.text(max_size=3), unique=True))
def test_every_product_has_one_label(known, sold):
    catalog = Catalog(Strings.of(sold), Strings.of([f"title of {one}" for one in sold]))
    products = make_products(Strings.of(known), catalog, with_unseen=True)
    everything = [*known, *(one for one in sold if one not in known)]
    assert list(products.ids) == everything
    assert list(products.index_of(everything)) == list(range(len(everything)))
    wanted = [f"title of {one}" if one in sold else "" for one in everything]
    assert list(products.titles) == wanted


def test_an_unknown_product_has_the_label_minus_one():
    products = make_products(Strings.of(["a", "b"]))
    assert products.index_of(["b", "?", "a", "b"]).tolist() == [1, -1, 0, 1]
    assert products.index_of([]).tolist() == []
    with pytest.raises(TypeError, match=r"ids\[0\] must be str; got int"):
        products.index_of([3])


def test_ids_of_the_same_hash_are_told_apart(monkeypatch):
    products = make_products(Strings.of(["a", "b", "c"]))
    monkeypatch.setattr(Strings, "hashes", lambda self: np.full(len(self), 7, np.uint64))
    assert products.index_of(["c", "?", "a", "b"]).tolist() == [2, -1, 0, 1]


def test_titles_are_found_by_id():
    products = make_products(Strings.of(["b", "x", "a"]), CATALOG)
    titles = dict(zip(CATALOG.ids, CATALOG.titles, strict=True))
    assert products.titles_of(["a", "x", "?", "b"]) == [titles["a"], "", "", titles["b"]]
    assert make_products(Strings.of(["b"])).titles_of(["b"]) == [""]
    assert make_products(Strings.of([]), CATALOG).titles_of(["b"]) == [""]


def test_views_of_larger_buffers_are_joined_right():
    part = Strings(CATALOG.ids.data, CATALOG.ids.offsets[1:4])  # "b", "c" of "abcde"
    products = make_products(part, CATALOG, with_unseen=True)
    assert list(products.ids) == ["b", "c", "a", "d", "e"]


def test_a_place_of_minus_one_takes_a_null():
    for column in make_columns().values():
        taken = column.take(np.array([0, -1]))
        assert taken.is_null.tolist() == [False, True]
        assert taken.values.dtype == column.values.dtype
