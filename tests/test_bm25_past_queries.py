"""BM25 over titles and past queries finds by what customers said, and keeps no rare words."""

import numpy as np
import pyarrow as pa
import pytest
from bookshelf import IDS, QUERIES, make_catalog
from contract import CHECKS, Subject, name_of
from oracles import bm25

import matchset as ms
from matchset.text import normalize

SECRET = "xylander"
ROWS = [  # query, product, count
    ("rose", 0, 3),
    ("flower thing", 0, 9),
    ("flower thing", 3, 1),
    ("red pot", 2, 6),
    (f"{SECRET} vase", 6, 1),
]


def make_log(rows=ROWS):
    columns = zip(*rows, strict=True)
    queries, products, counts = map(list, columns)
    ids = [IDS[i] for i in products]
    return ms.read_log(pa.table({"query": queries, "product_id": ids, "count": counts}))


def make_matcher(**options):
    return ms.BM25.from_log(make_log(), make_catalog(), **options)


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_bm25_with_past_queries_keeps_the_contract(check):
    matcher = make_matcher()
    check(Subject(matcher, QUERIES, list(matcher.products.ids)))


def test_a_product_is_found_by_words_that_only_its_queries_have():
    assert len(ms.BM25.from_catalog(make_catalog()).match("thing")) == 0
    assert make_matcher().match("thing").ids == ("p0", "p3")  # nine events tell more than one


def test_a_product_that_nobody_found_is_still_found_by_its_title():
    assert set(ms.BM25.from_catalog(make_catalog()).match("vase").ids) <= set(
        make_matcher().match("vase").ids
    )


def test_scores_are_those_of_titles_and_queries_as_one_text():
    """With one event per pair and titles that count once, a text is the words of both."""
    asked = [*ROWS, ("wheelbarrow", 5, 1)]  # whose title is empty
    rows = [(query, product, np.e - 1) for query, product, _ in asked]  # log(1 + count) = 1
    catalog, log = make_catalog(), make_log(rows)
    matcher = ms.BM25.from_log(
        log, catalog, k1=0.9, b=0.4, title_weight=1, language=None, min_query_count=0
    )
    title_of = dict(zip(catalog.ids, catalog.titles, strict=True))
    texts = [
        " ".join([title_of[product], *(q for q, p, _ in rows if IDS[p] == product)])
        for product in matcher.products.ids
    ]
    for query in ("rose", "flower thing", "red pot", f"{SECRET} vase"):
        wanted = bm25(list(map(normalize, texts)), normalize(query), k1=0.9, b=0.4)
        match = matcher.match(query)
        np.testing.assert_allclose(match.scores, np.sort(wanted[wanted > 0])[::-1], rtol=1e-5)


def test_words_that_only_rare_queries_have_are_not_kept(tmp_path):
    make_matcher().save(tmp_path / "private")
    make_matcher(min_query_count=0).save(tmp_path / "all")
    has_secret = {
        name: any(SECRET.encode() in file.read_bytes() for file in (tmp_path / name).iterdir())
        for name in ("private", "all")
    }
    assert has_secret == {"private": False, "all": True}
    assert len(make_matcher().match(SECRET)) == 0


def test_a_saved_matcher_answers_alike(tmp_path):
    matcher = make_matcher()
    matcher.save(tmp_path / "matcher")
    assert ms.load(tmp_path / "matcher").match([*QUERIES, "thing"]) == matcher.match(
        [*QUERIES, "thing"]
    )


def test_a_weight_of_titles_must_be_positive():
    with pytest.raises(ValueError, match="title_weight must be positive and finite; got 0"):
        make_matcher(title_weight=0)
