"""Baselines keep the contract, made or loaded, and score as their formulas say."""

import numpy as np
import pyarrow as pa
import pytest
from bookshelf import IDS, QUERIES, RELEVANT, TITLES, make_catalog, make_pairs
from contract import CHECKS, Subject, name_of
from oracles import bm25
from rankings import make_positives

import matchset as ms
from matchset.baselines import BM25, NearestQueries, Popularity, RecordedRun, TitleSimilarity
from matchset.config import NGrams, VectorizerConfig
from matchset.features.vectorizer import Vectorizer
from matchset.strings import Strings
from matchset.text import normalize

LEXICAL, NEAREST = BM25.from_catalog, NearestQueries.from_positives
POPULAR, TITLE = Popularity.from_positives, TitleSimilarity.from_catalog
SECRET = "xylander"
ROWS = [  # query, product, count
    ("rose", 0, 3),
    ("flower thing", 0, 9),
    ("flower thing", 3, 1),
    ("red pot", 2, 6),
    (f"{SECRET} vase", 6, 1),
]
BY_NAME = {
    "bm25": lambda: LEXICAL(make_catalog()),
    "bm25, stemmed": lambda: LEXICAL(make_catalog(), language="en"),
    "bm25, past queries": lambda: make_past(),
    "nearest queries": lambda: NEAREST(make_pairs(), catalog=make_catalog()),
    "two nearest queries": lambda: NEAREST(make_pairs(), neighbors=2, power=2),
    "popularity": lambda: POPULAR(make_pairs(), make_catalog()),
    "popularity, no catalog": lambda: POPULAR(make_pairs()),
    "title similarity": lambda: TITLE(make_catalog()),
    "run": lambda: RecordedRun.of(LEXICAL(make_catalog()).match(QUERIES)),
}


def make_past(rows=ROWS, **options):
    queries, products, counts = map(list, zip(*rows, strict=True))
    columns = {"query": queries, "product_id": [IDS[i] for i in products], "count": counts}
    return BM25.from_log(ms.read_log(pa.table(columns)), make_catalog(), **options)


@pytest.fixture(scope="module")
def matchers(tmp_path_factory):
    """Each baseline, as it was made and as it was loaded."""
    folder, both = tmp_path_factory.mktemp("baselines"), {}
    for name, make in BY_NAME.items():
        made = make()
        made.save(folder / name)
        both[name] = made, ms.load(folder / name)
    return both


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("is_loaded", [False, True], ids=["made", "loaded"])
@pytest.mark.parametrize("name", BY_NAME)
def test_a_baseline_keeps_the_contract(check, name, is_loaded, matchers):
    matcher = matchers[name][is_loaded]
    check(Subject(matcher, QUERIES, list(matcher.products.ids)))


@pytest.mark.parametrize("name", BY_NAME)
def test_a_saved_baseline_answers_alike(name, matchers):
    made, loaded = matchers[name]
    assert repr(loaded.products) == repr(made.products)
    asked = [*QUERIES, "vase", "thing", "zebra", ""]
    for options in ({}, {"k": 2}, {"where": IDS[::2]}):
        assert loaded.match(asked, **options) == made.match(asked, **options)
    if made.products.attributes:
        assert loaded.match("vase", where="price > 8") == made.match("vase", where="price > 8")


def same_scores(match, wanted, ids=IDS):
    """The products with a positive score, best first, ties in their order."""
    assert list(match.ids) == [ids[i] for i in np.argsort(-wanted, kind="stable") if wanted[i] > 0]
    np.testing.assert_allclose(match.scores, np.sort(wanted[wanted > 0])[::-1], rtol=1e-5)


@pytest.mark.parametrize("query", [*QUERIES, "rose rose pot", "Roses, for the GARDEN!"])
@pytest.mark.parametrize("options", [{}, {"k1": 1.2, "b": 0.75}])
def test_bm25_follows_the_formula(query, options):
    rule = {"k1": 0.5, "b": 0.45} | options
    wanted = bm25(list(map(normalize, TITLES)), normalize(query), **rule)
    same_scores(LEXICAL(make_catalog(), **options).match(query), wanted)


def test_bm25_scores_stems_by_the_same_formula():
    matcher = LEXICAL(make_catalog(), k1=1.2, b=0.75, language="en")
    stemmed = list(matcher.stems.analyze(Strings.of(map(normalize, TITLES))))
    assert stemmed[1] == "white rose bouquet vase"
    wanted = bm25(stemmed, "glass vase rose", k1=1.2, b=0.75)
    same_scores(matcher.match("Glasses or VASES for roses"), wanted)


def test_bm25_scores_titles_and_past_queries_as_one_text():
    """With one event per pair and titles that count once, a text is the words of both."""
    asked = [*ROWS, ("wheelbarrow", 5, 1)]  # whose title is empty
    rows = [(query, product, np.e - 1) for query, product, _ in asked]  # log(1 + count) = 1
    rule = {"k1": 0.9, "b": 0.4}
    matcher = make_past(rows, **rule, title_weight=1, language=None, min_query_count=0)
    texts = [
        normalize(" ".join([TITLES[IDS.index(id_)], *(q for q, p, _ in rows if IDS[p] == id_)]))
        for id_ in matcher.products.ids
    ]
    for query in ("rose", "flower thing", "red pot", f"{SECRET} vase"):
        same_scores(matcher.match(query), bm25(texts, query, **rule), list(matcher.products.ids))


def test_bm25_finds_by_words_that_only_past_queries_or_only_titles_have():
    titles, past = LEXICAL(make_catalog()), make_past()
    assert len(titles.match("thing")) == 0
    assert past.match("thing").ids == ("p0", "p3")  # nine events tell more than one
    assert set(titles.match("vase").ids) <= set(past.match("vase").ids)


def test_bm25_keeps_no_words_that_only_rare_queries_have(tmp_path):
    for least, has_secret in ((10, False), (0, True)):
        matcher = make_past(min_query_count=least)
        matcher.save(tmp_path / "m", overwrite=True)
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        assert any(SECRET.encode() in file.read_bytes() for file in files) == has_secret
        assert (len(matcher.match(SECRET)) > 0) == has_secret


def test_bm25_reads_descriptions_when_asked():
    catalog = make_catalog(["", "", "", "", "", "a wheelbarrow", ""])
    assert len(LEXICAL(catalog).match("wheelbarrow")) == 0
    assert LEXICAL(catalog, descriptions=True).match("wheelbarrow").ids == ("p5",)


@pytest.mark.parametrize("power", [1, 3])
def test_nearest_queries_add_up_similarities(power):
    vectorizer = Vectorizer().fit(list(RELEVANT))
    X = vectorizer.transform(list(RELEVANT)).toarray()
    Y = np.array([[float(p in counts) for p in range(len(IDS))] for counts in RELEVANT.values()])
    matcher = NEAREST(make_pairs(), vectorizer, power=power)
    for match in matcher.match(QUERIES):
        wanted = (X @ vectorizer.transform([match.query]).toarray()[0]) ** power @ Y
        scores = dict(zip(match.ids, match.scores, strict=True))
        for label, product in enumerate(IDS):
            assert scores.get(product, 0.0) == pytest.approx(wanted[label], rel=1e-4)


def test_only_the_nearest_queries_have_a_say_with_a_filter_those_with_an_allowed_product():
    one, many = NEAREST(make_pairs(), neighbors=1), NEAREST(make_pairs())
    for query, counts in RELEVANT.items():
        assert set(one.match(query).ids) == {IDS[i] for i in counts}
    assert set(one.match("red rose plant").ids) < set(many.match("red rose plant").ids)
    assert one.match("plant pot").ids == ("p2",)
    assert one.match("plant pot", where=["p4"]).ids == ("p4",)
    assert len(many.match("zebra")) == 0


def test_nearest_queries_do_not_spell_out_queries(matchers, tmp_path):
    matcher, _ = matchers["nearest queries"]
    assert not any(matcher.vectorizer.vocabulary.names)
    NEAREST(make_pairs()).save(tmp_path / "m")  # without titles
    saved = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert not any(word.encode() in saved for word in ("rose", "plant", "soil"))


def test_titles_are_scored_by_their_cosine():
    vectorizer = Vectorizer()
    titles, matcher = vectorizer.fit_transform(TITLES).toarray(), TITLE(make_catalog())
    for match in matcher.match(QUERIES, k=10):
        same_scores(match, titles @ vectorizer.transform([match.query]).toarray()[0])
    for product, title in zip(IDS, TITLES, strict=True):
        best = matcher.match(title, k=1)
        assert best.ids == ((product,) if title else ())
    assert matcher.match("bouqet", k=1).ids == ("p1",)  # by its characters
    words = VectorizerConfig(ngrams=(NGrams("word", 1, limit=1000),))
    assert len(TITLE(make_catalog(), words).match("bouqet")) == 0


def test_popularity_goes_by_positives_then_by_label_in_double_precision():
    matcher = POPULAR(make_positives({"a": {0: 1, 2: 3, 4: 2}, "b": {0: 1, 1: 2, 4: 5}}, 6))
    match = matcher.match("anything", k=100)
    assert (match.ids, list(match.scores)) == (("p4", "p2", "p0", "p1"), [7, 3, 2, 2])
    large = POPULAR(make_positives({"a": {0: 2**24, 1: 2**24}, "b": {1: 1}, "c": {1: 1}}, 2))
    found = large.match("rose")
    assert list(zip(found.ids, found.scores, strict=True)) == [("p1", 2**24 + 2), ("p0", 2**24)]
    assert len(POPULAR(make_positives({"a": {}}, 0)).match("rose")) == 0


@pytest.mark.parametrize(
    ("make", "query", "where", "ids"),
    [
        (LEXICAL, "red rose", "price < 8", ("p4",)),
        (TITLE, "red rose", "price < 8", ("p4", "p3")),
        (TITLE, "red rose", "colour = 'white'", ("p1",)),
        (lambda catalog: POPULAR(make_pairs(), catalog), "rose", "price < 5", ("p3", "p5")),
    ],
)
def test_a_filter_is_filled_from_allowed_products(make, query, where, ids):
    assert make(make_catalog()).match(query, k=2, where=where).ids == ids


@pytest.mark.parametrize("make", [LEXICAL, TITLE])
def test_a_catalog_without_words_gives_nothing(make):
    catalog = make_catalog()
    assert len(make(type(catalog)(catalog.ids, Strings.of([""] * len(IDS)))).match("rose")) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LEXICAL(make_catalog(), k1=-1), "k1 must be at least 0 and finite; got -1"),
        (lambda: LEXICAL(make_catalog(), b=2), "b must be from 0 to 1"),
        (lambda: LEXICAL(make_catalog(), descriptions=True), "descriptions must be in the catalog"),
        (lambda: make_past(title_weight=0), "title_weight must be positive and finite; got 0"),
        (lambda: NEAREST(make_pairs(), neighbors=0), "neighbors must be at least 1; got 0"),
        (lambda: NEAREST(make_pairs(), power=0), "power must be at least 1; got 0"),
        (lambda: POPULAR(make_pairs()).match("a", where="colour = 'red'"), "colour"),
    ],
)
def test_an_option_that_breaks_a_rule_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
