"""A product that no query led to stands in the tree where the products most like it stand."""

import dataclasses

import numpy as np
import pytest
from match_sets import make_match_set, make_shop

import matchset as ms
from matchset.data.catalog import Catalog
from matchset.model.heirs import LENDERS
from matchset.model.match_set_model import SOURCES
from matchset.strings import Strings

TREE = SOURCES["tree"]


@pytest.fixture(scope="module")
def matcher():
    return make_match_set(tune=False)


def make_goods(titles):
    ids = [f"n{i:04}" for i in range(len(titles))]
    return Catalog(Strings.of(ids), Strings.of(titles))


def list_proposed(matcher, query):
    """Ids of what the tree proposes."""
    found = matcher.model.describe(matcher.vectorizer.native, Strings.of([query]))
    proposed = found.labels[(found.sources & TREE) > 0]
    return {matcher.products.ids[int(product)] for product in proposed}


def test_the_tree_proposes_a_product_where_it_proposes_one_that_is_like_it(matcher):
    grown = matcher.add(make_goods(["red rose small", "white vase kitchen"]))
    assert "n0000" in list_proposed(grown, "red rose")
    assert "n0001" in list_proposed(grown, "white vase")
    parts = {part.name: part for part in grown.explain("red rose", "n0000").parts}
    assert parts["tree"].is_proposed
    named = parts["tree"].note.split(" in the place of ")[1].split(" or ")
    assert 1 <= len(named) <= LENDERS
    assert all(grown.n_queries_of[grown.label_of(lender)] > 0 for lender in named)
    assert parts["tree"].note.startswith("rank ")


def test_a_lender_that_was_removed_still_lends_but_is_not_named(matcher):
    grown = matcher.add(make_goods(["red rose small"]))
    lenders = [grown.products.ids[i] for i in grown.model.lenders_of(grown.label_of("n0000"))]
    one, other = grown.remove(lenders), matcher.remove(lenders).add(make_goods(["red rose small"]))
    for changed in (one, other):
        assert "n0000" in list_proposed(changed, "red rose")
        tree = next(p for p in changed.explain("red rose", "n0000").parts if p.name == "tree")
        assert "in the place of" not in tree.note
    assert one.match("red rose", 50).ids == other.match("red rose", 50).ids


def test_a_thousand_new_products_beside_one_leave_room_for_others(matcher):
    grown = matcher.add(make_goods(["red rose small"] * 1000))
    known = {hit.id for hit in matcher.match("red rose", 10) if "red rose" in hit.title}
    assert len(known) == 4
    assert known <= set(grown.match("red rose", 20).ids)
    most = grown.model.bounds.tree_products
    proposed = list_proposed(grown, "red rose")
    new = {product for product in proposed if product.startswith("n")}
    assert 0 < len(new) <= most
    assert len(proposed) <= 2 * most
    is_warm = np.asarray(matcher.n_queries_of) > 0
    lost = list_proposed(matcher, "red rose") - proposed  # heirs of before, at most
    assert not any(is_warm[matcher.label_of(product)] for product in lost)


def test_products_of_the_training_that_no_query_led_to_borrow_as_well(matcher):
    cold = np.flatnonzero(np.asarray(matcher.n_queries_of) == 0)
    lenders = [matcher.model.lenders_of(int(product)) for product in cold]
    assert all(len(each) for each in lenders)
    assert np.all(np.asarray(matcher.n_queries_of)[np.concatenate(lenders)] > 0)
    warm = int(np.flatnonzero(np.asarray(matcher.n_queries_of) > 0)[0])
    assert len(matcher.model.lenders_of(warm)) == 0


def test_a_refresh_makes_no_new_product_harder_to_find(matcher, tmp_path):
    grown = matcher.add(make_goods(["red rose small", "zyxo lamp"]))
    log, _ = make_shop(30, seed=5)
    refreshed = grown.refresh(log)
    for query, product in (("red rose", "n0000"), ("zyxo lamp", "n0001")):
        places = [list(each.match(query, 160).ids).index(product) for each in (grown, refreshed)]
        assert places[1] <= places[0] + 5  # others moved, as customers chose them
        assert product in list_proposed(refreshed, query)
    refreshed.save(tmp_path / "m")
    assert ms.load(tmp_path / "m").match("red rose", 50) == refreshed.match("red rose", 50)


def test_what_no_heirs_can_be_is_refused(matcher):
    heirs = matcher.model.heirs
    for wrong in (heirs.lenders[:-1], heirs.lenders.astype(np.int64)):
        with pytest.raises(ValueError, match="lenders must be"):
            dataclasses.replace(heirs, lenders=wrong)
