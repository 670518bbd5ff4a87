"""Popularity gives everyone the same, and keeps the contract of every matcher."""

import numpy as np
import pytest
from contract import CHECKS, Subject, name_of
from scipy.sparse import csr_array

from matchset.data.catalog import Catalog, Column
from matchset.data.events import training_rule
from matchset.data.positives import Positives
from matchset.errors import FilterError
from matchset.matchers.popularity import Popularity
from matchset.strings import Strings

PAIRS = [[1, 0, 3, 0, 2, 0], [1, 2, 0, 0, 5, 0]]


def make_positives(pairs=PAIRS):
    matrix = csr_array(np.array(pairs, dtype=np.float32))
    queries, products = (Strings.of([f"{kind}{i}" for i in range(n)]) for kind, n in
                         zip("qp", matrix.shape, strict=True))  # fmt: skip
    return Positives(queries, products, matrix, training_rule(("",)))


def make_catalog():
    price = Column("number", np.array([9.0, np.nan, 20.0]))
    return Catalog(Strings.of(["p4", "p0", "new"]), Strings.of(["four", "zero", "n"]), None,
                   {"price": price})  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("catalog", [None, make_catalog()], ids=["log alone", "catalog"])
def test_popularity_keeps_the_contract(check, catalog):
    matcher = Popularity.from_positives(make_positives(), catalog)
    check(Subject(matcher, ["rose", "plant pot", "q0"], [f"p{i}" for i in range(6)]))


def test_the_product_with_the_most_positives_comes_first_and_ties_go_by_label():
    match = Popularity.from_positives(make_positives()).match("anything")
    assert match.ids == ("p4", "p2", "p0", "p1")
    assert list(match.scores) == [7, 3, 2, 2]


def test_products_without_positives_are_not_given():
    matcher = Popularity.from_positives(make_positives([[0, 1, 0]]))
    assert matcher.match("rose", k=100).ids == ("p1",)


def test_titles_and_attributes_come_from_the_catalog():
    matcher = Popularity.from_positives(make_positives(), make_catalog())
    assert matcher.match("rose", k=3).titles == ("four", "", "zero")
    assert matcher.match("rose", where="price < 10").ids == ("p4",)
    assert matcher.match("rose", where="price is null").ids == ("p2", "p0", "p1")
    cheap = matcher.filter("price < 10")
    assert cheap.n_allowed == 1
    assert matcher.match("rose", where=cheap).ids == ("p4",)
    with pytest.raises(FilterError, match="one of price"):
        matcher.match("rose", where="colour = 'red'")


def test_sums_are_made_in_double_precision():
    match = Popularity.from_positives(make_positives([[2**24, 2**24], [0, 1], [0, 1]])).match(
        "rose"
    )
    assert list(zip(match.ids, match.scores, strict=True)) == [("p1", 2**24 + 2), ("p0", 2**24)]


def test_no_positives_give_no_products():
    assert len(Popularity.from_positives(make_positives(np.zeros((1, 0)))).match("rose")) == 0


def test_a_saved_matcher_answers_alike(tmp_path):
    matcher = Popularity.from_positives(make_positives(), make_catalog())
    matcher.save(tmp_path / "popular")
    loaded = Popularity.load(tmp_path / "popular")
    for options in ({}, {"k": 2}, {"where": "price < 10"}):
        assert loaded.match(["rose", ""], **options) == matcher.match(["rose", ""], **options)
