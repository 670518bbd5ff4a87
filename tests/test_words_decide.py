"""A title with the words as written comes before resemblance, where training knows no better."""

import dataclasses
from itertools import combinations

import numpy as np
import pytest
from match_set_oracles import column
from stored import take_apart
from test_hold_back import BRANDS, make_brands
from word_shop import COLORS, EXTRA, THINGS, make_config, make_shop

import matchset as ms
from matchset.config import PARTS
from matchset.data.catalog import Catalog
from matchset.learn.held_kinds import KINDS, WORDS
from matchset.learn.train_match_set import train_match_set
from matchset.model.match_set_model import SOURCES, Bounds
from matchset.model.reranker import FEATURES, NEW_QUERY, NEW_WORD, SITUATIONS, default_reranker
from matchset.strings import Strings

GOODS = {  # of which no query has led to one; each looks like its neighbors
    "washer": "samsong wfhe50w washer",
    "other washer": "samsong wfhe51w washer",
    "fridge": "frostix sk-fh14dr",
    "other fridge": "frostix sk-fh15dr",
    "lamp": "l7 lamp red",
    "other lamp": "l8 lamp red",
    "rope": "rope 2m",
    "other rope": "rope 3m",
    "vase": "zyxo vase",
}
FIRST = {  # as it was asked: what comes first
    "wfhe50w": {"washer"},
    "washer wfhe50w": {"washer"},
    "SK-FH14DR": {"fridge"},
    "sk fh14dr frostix": {"fridge"},
    "L7": {"lamp"},
    "lamp l8": {"other lamp"},
    "2m": {"rope"},
    "3 m rope": {"other rope"},
    "zyxo": {"vase"},
    "zyxo vase": {"vase"},
    "samsong": {"washer", "other washer"},
}


@pytest.fixture(scope="module")
def trained():
    log, catalog = make_shop()
    ids, titles = [*catalog.ids, *GOODS], [*catalog.titles, *GOODS.values()]
    catalog = Catalog(Strings.of(ids), Strings.of(titles))
    return train_match_set(log, catalog, make_config(tune=False))


def with_weights(trained, *names, weight=1.0):
    """The model with a re-ranker that looks at some features alone."""
    weights = np.zeros((len(SITUATIONS), 2, len(FEATURES)), np.float32)
    weights[..., [column(name) for name in names]] = weight
    return dataclasses.replace(
        trained.model, reranker=dataclasses.replace(default_reranker(""), weights=weights)
    )


LEARNED = {  # whatever was learned to count: here features that would be wrong
    "nothing": (),
    "resemblance": ("cosine", "tree_score"),
    "popularity": ("popularity", "recent"),
}


@pytest.mark.parametrize("names", LEARNED.values(), ids=LEARNED)
@pytest.mark.parametrize("query", FIRST)
def test_the_title_with_the_word_as_written_comes_first(trained, query, names):
    model = with_weights(trained, *names, weight=5.0)
    labels, _ = model.search_text(trained.data.vectorizer.native, query, len(FIRST[query]))
    assert {trained.data.products.ids[label] for label in labels} == FIRST[query]


@pytest.mark.parametrize("names", LEARNED.values(), ids=LEARNED)
def test_word_pairs_never_begin_with_neither_word_nor_vote(trained, names):
    model, n_decided = with_weights(trained, *names, weight=5.0), 0
    words = " ".join([*COLORS, *THINGS, *EXTRA, *GOODS.values()]).split()
    vectorizer = trained.data.vectorizer.native
    known = [column(name) for name in ("word_share", "vote_share", "same_query")]
    for pair in map(" ".join, combinations(dict.fromkeys(words), 2)):
        found = model.describe(vectorizer, Strings.of([pair]))
        if found.features[:, column("all_words")].any():
            n_decided += 1
            labels, _ = model.search_text(vectorizer, pair, 1)
            assert found.features[found.labels == labels[0]][:, known].any(), pair
    assert n_decided > 80


def test_an_added_product_of_a_new_brand_comes_first():
    log, catalog = make_shop()
    matcher = ms.train(log, catalog, make_config(tune=False))
    for brand, title in zip(BRANDS[:8], list(catalog.titles)[::20], strict=True):
        matcher = matcher.add(Catalog(Strings.of([brand]), Strings.of([f"{brand} {title}"])))
        for query in (brand, f"{brand} {title.split()[1]}"):
            assert matcher.match(query, 1).ids == (brand,)


@pytest.mark.parametrize(
    ("query", "situation", "is_tree_asked"),
    [
        ("samsong", NEW_WORD, False),
        ("zyxo", NEW_WORD, False),
        ("red zyxo", NEW_WORD, True),
        ("table red", NEW_QUERY, True),
    ],
)
def test_popularity_proposes_nothing_for_n_grams_that_no_query_had(
    trained, query, situation, is_tree_asked
):
    vectorizer = trained.data.vectorizer.native
    found = trained.model.describe(vectorizer, Strings.of([query]), bounds=Bounds())
    assert found.situations.tolist() == [situation]
    assert np.any(found.sources & SOURCES["tree"]) == is_tree_asked
    assert len(trained.model.describe(vectorizer, Strings.of(["qqjjq"])).labels) == 0


def list_texts(value):
    """The texts in a header, and its keys."""
    if isinstance(value, dict):
        return {*value, *(text for each in value.values() for text in list_texts(each))}
    if isinstance(value, list):
        return {text for each in value for text in list_texts(each)}
    return {value} if isinstance(value, str) else set()


def test_what_was_held_back_stands_nowhere_in_a_saved_model(tmp_path):
    """A tuned model differs from one that held nothing back by numbers of the re-ranker alone."""
    log, catalog = make_brands(60)
    ms.train(log, catalog, make_config(), out=tmp_path / "tuned")
    ms.train(log, catalog, make_config(tune=False), out=tmp_path / "plain")
    stored = [take_apart(tmp_path / name) for name in ("tuned", "plain")]
    tuned, plain = (
        {n: a.tobytes() for n, a in arrays.items() if ".reranker." not in n} for _, arrays in stored
    )
    assert tuned == plain
    tuned, plain = (header["fields"]["model"]["reranker"] for header, _ in stored)
    assert KINDS[WORDS] in tuned["facts"]["kinds"]
    told = list_texts(tuned) - list_texts(plain) - {*FEATURES, *PARTS, *KINDS}
    told = {text for text in told if not text.startswith("model.reranker.")}  # names of arrays
    told -= {"knots", "log_odds"}
    assert {text for text in told if "without " not in text and " alone" not in text} == {
        "all", "by_time", "days", "kinds", "new_share", "positives", "queries",
        "queries_with_positive_candidate", "recall",
    }  # fmt: skip
