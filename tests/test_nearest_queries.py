"""Nearest queries give what answered queries like this one."""

import numpy as np
import pytest
from bookshelf import IDS, QUERIES, RELEVANT, make_catalog, make_pairs
from contract import CHECKS, Subject, name_of

from matchset.features.vectorizer import Vectorizer
from matchset.matchers.nearest_queries import NearestQueries


def learn(**options):
    return NearestQueries.from_positives(make_pairs(), catalog=make_catalog(), **options)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nearest") / "matcher"
    learn(neighbors=5, power=2).save(folder)
    return folder


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("form", ["learned", "few neighbors", "loaded"])
def test_nearest_queries_keep_the_contract(check, form, saved):
    matcher = NearestQueries.load(saved) if form == "loaded" else learn(
        neighbors=2 if form == "few neighbors" else 100)  # fmt: skip
    check(Subject(matcher, QUERIES, IDS))


def test_what_is_saved_does_not_spell_out_queries(saved):
    assert not any(NearestQueries.load(saved).vectorizer.vocabulary.names)
    texts = b"".join(file.read_bytes() for file in saved.glob("vectorizer.*"))
    assert not any(word.encode() in texts for query in RELEVANT for word in query.split())


@pytest.mark.parametrize("power", [1, 3])
def test_scores_are_sums_of_similarities(power):
    vectorizer = Vectorizer().fit(list(RELEVANT))
    X = vectorizer.transform(list(RELEVANT)).toarray()
    Y = np.array([[float(p in counts) for p in range(len(IDS))] for counts in RELEVANT.values()])
    matcher = NearestQueries.from_positives(make_pairs(), vectorizer, power=power)
    for match in matcher.match(QUERIES):
        wanted = (X @ vectorizer.transform([match.query]).toarray()[0]) ** power @ Y
        scores = dict(zip(match.ids, match.scores, strict=True))
        for label, product in enumerate(IDS):
            assert scores.get(product, 0.0) == pytest.approx(wanted[label], rel=1e-4)


def test_a_training_query_gets_its_own_products_first():
    matcher = learn(neighbors=1)
    for query, counts in RELEVANT.items():
        assert set(matcher.match(query).ids) == {IDS[i] for i in counts}


def test_only_the_nearest_have_a_say():
    assert set(learn(neighbors=1).match("red rose plant").ids) < set(
        learn().match("red rose plant").ids
    )


def test_with_a_filter_the_nearest_queries_with_an_allowed_product_have_a_say():
    matcher = learn(neighbors=1)
    assert matcher.match("plant pot").ids == ("p2",)
    assert matcher.match("plant pot", where=["p4"]).ids == ("p4",)


def test_products_without_a_query_are_never_given():
    matcher = learn()
    assert "p5" in matcher.match("soil").ids
    assert len(matcher.match("zebra")) == 0


def test_a_saved_matcher_answers_alike(saved):
    matcher = learn(neighbors=5, power=2)
    loaded = NearestQueries.load(saved)
    assert loaded.match(QUERIES) == matcher.match(QUERIES)
    assert loaded.match("vase", where="price > 8") == matcher.match("vase", where="price > 8")
    assert (loaded.neighbors, loaded.power) == (5, 2)


@pytest.mark.parametrize("option", ["neighbors", "power"])
def test_a_rule_that_is_none_is_an_error(option):
    with pytest.raises(ValueError, match=f"{option} must be at least 1; got 0"):
        learn(**{option: 0})
