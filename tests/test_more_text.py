"""Text beside the title is searched too, and counts less, in training and for added products."""

import dataclasses

import numpy as np
import pytest
from fresh_shop import list_goods, make_goods
from match_sets import make_config, make_shop

import matchset as ms
from matchset.matchers.train import train
from matchset.model.lexical import MORE_WEIGHT, find_words
from matchset.model.match_set_model import Bounds
from matchset.model.reranker import FEATURES
from matchset.strings import Strings

WIDE = Bounds(*[10**9] * 10)


def with_text(goods, text_of):
    texts = [text_of.get(product, "") for product in goods.ids]
    return dataclasses.replace(goods, more_text=Strings.of(texts))


@pytest.fixture(scope="module")
def base():
    log, _ = make_shop()
    goods, cold = list_goods(), {"c1": ("oak desk", 1.0, None), "c2": ("tin bowl", 2.0, None)}
    texts = {"c1": "handmade lapwing", "p003": "lapwing"}
    return train(log, with_text(make_goods(goods | cold), texts), make_config(tune=False))


def describe(matcher, query, product):
    """What the re-ranker is told of a product."""
    found = matcher.model.describe(matcher.vectorizer.native, Strings.of([query]), bounds=WIDE)
    label = int(matcher.products.index_of([product])[0])
    return found.features[np.flatnonzero(found.labels == label)[0]]


def test_a_word_beside_the_title_finds_its_products(base, tmp_path):
    assert set(base.match("lapwing", 2).ids) == {"c1", "p003"}
    assert list(base.match("handmade", 1).ids) == ["c1"]
    base.save(tmp_path / "model")
    assert set(ms.load(tmp_path / "model").match("lapwing", 2).ids) == {"c1", "p003"}


def test_it_counts_less_than_the_same_word_in_a_title(base):
    goods = make_goods({"t": ("oak lapwing desk", 1.0, None), "m": ("oak desk", 1.0, None)})
    grown = base.add(with_text(goods, {"m": "lapwing"}))
    bm25 = FEATURES.index("bm25")
    in_title, beside = (describe(grown, "lapwing", product)[bm25] for product in "tm")
    assert 0 < beside < in_title


def test_an_added_product_has_the_features_of_one_that_was_trained_with_its_text(base):
    goods = make_goods({"double": ("oak desk", 1.0, None)})
    grown = base.add(with_text(goods, {"double": "handmade lapwing"}))
    for query in ("oak desk", "lapwing", "handmade desk"):
        features = (describe(grown, query, product) for product in ("c1", "double"))
        np.testing.assert_array_equal(*features)


def test_an_added_product_is_found_by_a_new_word_beside_its_title(base):
    goods = make_goods({"n1": ("tin bowl", 1.0, None), "n2": ("tin bowl", 1.0, None)})
    grown = base.add(with_text(goods, {"n1": "zyxo"}))
    assert list(grown.match("zyxo", 5).ids) == ["n1"]


def test_counts_and_vectors_are_those_of_plain_arithmetic(base):
    label = int(base.products.index_of(["c1"])[0])
    model, vocabulary = base.model, base.vectorizer.vocabulary
    towers = model.towers
    table, vectors = towers.table.to_floats(), []
    for text in ("oak desk", "handmade lapwing"):
        rows = towers.row_of[base.vectorizer.encode(text)[0]]
        sums = table[rows[rows >= 0]].sum(axis=0)
        vectors.append(sums / max(np.linalg.norm(sums), 1e-9))
    wanted = vectors[0] + MORE_WEIGHT * vectors[1]
    found = towers.lists.vectors.to_floats()[towers.position_of[label]]
    np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted), atol=0.01)
    words_of, row = model.lexical.words_of, model.lexical.row_of[label]
    entries = slice(words_of.offsets[row], words_of.offsets[row + 1])
    impacts = dict(zip(words_of.ids[entries], words_of.impacts[entries], strict=True))
    words = {
        word: int(base.vectorizer.encode(word)[0][0]) - find_words(vocabulary).start
        for word in ("oak", "handmade")
    }  # each is in one title, or beside one
    assert impacts[words["handmade"]] < impacts[words["oak"]]


def test_a_refresh_learns_it_too(base):
    goods = make_goods({"m": ("oak desk", 1.0, None)})
    changed = dataclasses.replace(base).add(with_text(goods, {"m": "handmade zyxo"}))
    after = changed.refresh(make_shop(20, seed=5)[0])
    assert list(after.match("zyxo", 1).ids) == ["m"]
    assert set(after.match("lapwing", 2).ids) == {"c1", "p003"}
    for query in ("oak desk", "handmade desk"):
        cosine = FEATURES.index("cosine")
        assert describe(after, query, "m")[cosine] == describe(changed, query, "m")[cosine]
