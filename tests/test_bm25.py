"""BM25 scores words as Lucene does, and keeps the contract."""

import numpy as np
import pytest
from bookshelf import IDS, QUERIES, TITLES, make_catalog
from contract import CHECKS, Subject, name_of
from oracles import bm25

from matchset.errors import ModelFileError
from matchset.matchers.bm25 import BM25
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.strings import Strings
from matchset.text import normalize


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bm25") / "matcher"
    BM25.from_catalog(make_catalog()).save(folder)
    return folder


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("is_loaded", [False, True], ids=["learned", "loaded"])
def test_bm25_keeps_the_contract(check, is_loaded, saved):
    matcher = BM25.load(saved) if is_loaded else BM25.from_catalog(make_catalog())
    check(Subject(matcher, QUERIES, IDS))


@pytest.mark.parametrize("query", [*QUERIES, "rose rose pot", "Roses, for the GARDEN!"])
@pytest.mark.parametrize("options", [{}, {"k1": 1.2, "b": 0.75}])
def test_scores_follow_the_formula(query, options):
    wanted = bm25(
        list(map(normalize, TITLES)), normalize(query), **{"k1": 0.5, "b": 0.45} | options
    )
    match = BM25.from_catalog(make_catalog(), **options).match(query)
    assert list(match.ids) == [IDS[i] for i in np.argsort(-wanted, kind="stable") if wanted[i] > 0]
    np.testing.assert_allclose(match.scores, np.sort(wanted[wanted > 0])[::-1], rtol=1e-5)


def test_stems_are_scored_by_the_same_formula():
    matcher = BM25.from_catalog(make_catalog(), k1=1.2, b=0.75, language="en")
    stemmed = list(matcher.stems.analyze(Strings.of(map(normalize, TITLES))))
    assert stemmed[1] == "white rose bouquet vase"
    wanted = bm25(stemmed, "glass vase rose", k1=1.2, b=0.75)
    match = matcher.match("Glasses or VASES for roses")
    np.testing.assert_allclose(match.scores, np.sort(wanted[wanted > 0])[::-1], rtol=1e-5)


def test_descriptions_count_when_asked():
    catalog = make_catalog(["", "", "", "", "", "a wheelbarrow", ""])
    assert len(BM25.from_catalog(catalog).match("wheelbarrow")) == 0
    assert BM25.from_catalog(catalog, descriptions=True).match("wheelbarrow").ids == ("p5",)
    with pytest.raises(ValueError, match="descriptions must be in the catalog; got one without"):
        BM25.from_catalog(make_catalog(), descriptions=True)


def test_a_filter_is_filled_from_allowed_products():
    assert BM25.from_catalog(make_catalog()).match("red rose", k=2, where="price < 8").ids == (
        "p4",
    )


def test_a_saved_matcher_answers_alike(saved):
    matcher, loaded = BM25.from_catalog(make_catalog()), BM25.load(saved)
    assert loaded.match([*QUERIES, "zebra"]) == matcher.match([*QUERIES, "zebra"])
    assert loaded.match("vase", where="price > 8") == matcher.match("vase", where="price > 8")
    with pytest.raises(ModelFileError, match="holds a 'bm25' matcher; expected a 'title"):
        TitleSimilarity.load(saved)


def test_a_catalog_without_words_gives_nothing():
    catalog = make_catalog()
    empty = type(catalog)(catalog.ids, catalog.titles.take(np.full(7, 5)))
    assert len(BM25.from_catalog(empty).match("rose")) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k1": -1}, "k1 must be at least 0 and finite; got -1"),
        ({"b": 2}, "b must be from 0 to 1"),
    ],
)
def test_a_parameter_out_of_range_is_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        BM25.from_catalog(make_catalog(), **options)
