"""What is held back, which weights are learned from it, and what the scores then mean."""

import dataclasses
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from candidates import SAME, WEIGHTS, make_candidates
from command_line import run
from match_set_oracles import column, decide_order
from match_sets import make_config, make_match_set, make_shop
from scipy.optimize import minimize
from test_hold_back import make_brands, with_impressions

import matchset as ms
from matchset import _native
from matchset.config import PARTS
from matchset.learn.examine import describe_held
from matchset.learn.fit_reranker import (
    PART_FEATURES,
    choose_same_query,
    fit_reranker,
    fit_weights,
    list_subsets,
    weigh_kinds,
)
from matchset.learn.held_kinds import ELSEWHERE, PAIRS, PRODUCTS, QUERIES, WORDS
from matchset.learn.hold_back import hold_back
from matchset.learn.labeled_candidates import (
    label_candidates,
    recall_of,
)
from matchset.learn.train_match_set import train_match_set
from matchset.learn.two_tower import TwoTowerConfig
from matchset.matrices import Csr, offsets_of
from matchset.model.match_set_model import SOURCES, Candidates
from matchset.model.reranker import (
    FEATURES,
    KNOWN_QUERY,
    NEW_QUERY,
    NEW_WORD,
    PRIOR,
    SITUATIONS,
    WARM,
)
from matchset.strings import Strings


def softmax_loss(weights, features, offsets, is_positive, shares, center, precision):
    loss = (weights - center) @ precision @ (weights - center) / 2
    for share, (begin, end) in zip(shares, pairwise(offsets), strict=True):
        scores = features[begin:end] @ weights
        right = is_positive[begin:end]
        total = np.log(np.exp(scores - scores.max()).sum()) + scores.max()
        loss -= share * (scores[right] - total).mean()
    return loss


def test_softmax_weights_are_those_of_least_loss():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(600, 3)).astype(np.float32)
    offsets = offsets_of([12] * 50)
    is_positive = np.zeros(600, dtype=bool)
    is_positive[offsets[:-1] + rng.integers(12, size=50)] = True
    is_positive[offsets[:-1] + rng.integers(12, size=50)] = True
    kinds = rng.integers(2, size=600, dtype=np.uint8)
    shares, center = rng.choice([0.0, 0.5, 1.0, 3.0], 50), rng.normal(size=6)
    root = rng.normal(size=(6, 6))
    precision = root @ root.T + np.eye(6)
    wide = np.zeros((600, 6))
    for kind in (0, 1):
        wide[kinds == kind, 3 * kind : 3 * kind + 3] = features[kinds == kind]
    arguments = (wide, offsets, is_positive, shares, center, precision)
    wanted = minimize(softmax_loss, center, args=arguments, tol=1e-10).x
    found = [
        fit_plainly(features, offsets, is_positive, kinds, *arguments[3:], threads=n)
        for n in (1, 7)
    ]
    np.testing.assert_allclose(found[0], wanted, atol=1e-4)
    assert np.array_equal(*found)
    nothing = fit_plainly(features, offsets, is_positive, kinds, 0 * shares, center, precision)
    assert np.array_equal(nothing, center)
    is_out = rng.random(600) < 0.2  # these are in no query
    counts = np.add.reduceat(~is_out, offsets[:-1])
    fewer = (each[~is_out] for each in (features, is_positive, kinds))
    features_left, positive_left, kinds_left = fewer
    without = fit_plainly(
        features_left, offsets_of(counts), positive_left, kinds_left, *arguments[3:]
    )
    left_out = np.where(is_out, np.uint8(2), kinds)
    assert np.array_equal(
        fit_plainly(features, offsets, is_positive, left_out, *arguments[3:]), without
    )


def fit_plainly(features, offsets, is_positive, kinds, shares, center, precision, *, threads=1):
    positive = np.asarray(is_positive).view(np.uint8)
    prior = center, precision.reshape(-1)
    arrays = features.reshape(-1), offsets, positive, kinds, shares, *prior
    return _native.fit_softmax(*arrays, n_kinds=2, threads=threads)


@pytest.mark.parametrize(
    ("kinds", "share", "message"),
    [([0, 0, 0], 1, "have a kind"), ([3] * 4, 1, "at most 2"), ([0] * 4, -1, "at least 0; got -1")],
)
def test_what_a_softmax_cannot_be_fitted_to_is_refused(kinds, share, message):
    candidates = np.ones(8, np.float32), offsets_of([4]), [True, False, False, False]
    shares = np.full(1, share, np.float64)
    with pytest.raises(ValueError, match=message):
        fit_plainly(*candidates, np.array(kinds, np.uint8), shares, np.zeros(4), np.eye(4))


def fit(data, *, new_share=0.1, threads=1):
    weights = fit_weights(data, PARTS, new_share=new_share, threads=threads)
    weights[..., SAME] = choose_same_query(data, weights)
    return weights


def test_learned_weights_are_near_those_that_made_the_positives():
    # Situations of 1,300, 690 and 10 queries: of the last there are too few to learn much from.
    situations = np.repeat([0, 2, 1], [1300, 690, 10]).astype(np.uint8)
    weights = fit(make_candidates(2000, situations=situations), threads=2)[:, WARM][:, [1, 4]]
    assert np.all(abs(weights - WEIGHTS)[[0, 2]] < 0.3)
    low, high = np.sort(weights[[0, 2]], axis=0)
    assert np.all((low < weights[1]) & (weights[1] < high))
    again = fit(make_candidates(situations=np.zeros(400, np.uint8)))[:, WARM]
    assert np.all(abs(again[1] - again[2]) < 1e-5)  # of nothing, what is common to all
    assert 1 < again[1, 1] < again[0, 1]


def test_the_weight_of_the_very_same_query_is_never_negative():
    data = make_candidates(same_weight=-3.0)
    assert fit(data)[0, WARM, SAME] >= 0


def test_the_weight_of_the_very_same_query_is_no_larger_than_it_needs_to_be():
    weight = fit(make_candidates(same_weight=2.0))[0, WARM, SAME]
    assert 0 < weight <= 5


def test_with_times_known_answers_that_nobody_chose_again_take_places():
    data = make_candidates(1000, 40, same_weight=-1.0)
    assert fit(data)[0, WARM, SAME] == 0
    by_seed = dataclasses.replace(data, n_days=0)
    assert fit(by_seed)[0, WARM, SAME] > 0


def test_a_known_answer_is_never_a_wrong_answer():
    data = make_candidates()
    is_wrong = data.is_known & ~data.is_positive
    other = data.candidates.features.copy()
    other[is_wrong, 1] += 100  # would ruin the weight if it counted
    changed = dataclasses.replace(data.candidates, features=other)
    others = [i for i in range(len(FEATURES)) if i != SAME]
    for n_days, compared in ((0, [*others, SAME]), (30, others)):
        first = dataclasses.replace(data, n_days=n_days)
        again = dataclasses.replace(first, candidates=changed)
        one, two = (fit(each)[..., compared] for each in (first, again))
        assert np.array_equal(one, two)


def test_where_nothing_is_known_of_the_very_same_query_its_weight_is_the_default():
    data = make_candidates()
    features = data.candidates.features.copy()
    features[:, SAME] = 0
    data = dataclasses.replace(
        data, candidates=dataclasses.replace(data.candidates, features=features)
    )
    assert fit(data)[0, WARM, SAME] == PRIOR["same_query"][0]


def test_candidates_are_labeled_by_query_and_product():
    candidates = Candidates(
        np.array([0, 2, 4]),
        np.array([5, 7, 5, 9], dtype=np.int32),
        np.zeros((4, len(FEATURES)), dtype=np.float32),
        np.ones(4, dtype=np.uint8),
        np.zeros(2, dtype=np.uint8),
    )
    wanted = Csr(
        np.array([0, 2, 3]),
        np.array([7, -1, 5], dtype=np.int32),
        np.array([2, 1, 3], np.float32),
        10,
    )
    kinds = np.full(2, QUERIES, np.uint8)
    found = label_candidates(candidates, wanted, kinds)
    assert found.halves.tolist() == [0, 2, 3, 0]
    assert found.is_positive.tolist() == [False, True, True, False]
    assert found.n_positive.tolist() == [2, 1]
    nothing = np.zeros((len(SITUATIONS), 2, len(FEATURES)), np.float32)
    assert recall_of(found, nothing) == [0.75] * 3
    wanted.data[0] = ELSEWHERE  # right, but not what is asked for
    found = label_candidates(candidates, wanted, kinds)
    assert found.candidates.labels.tolist() == [5, 5, 9]
    assert found.n_positive.tolist() == [1, 1]


def test_words_decide_validation_as_they_decide_answers():
    data, rng = make_candidates(50), np.random.default_rng(0)
    features = data.candidates.features.copy()
    features[:, column("all_words")] = rng.random(1000) < 0.1
    features[data.candidates.offsets[:-1], column("all_words")] = 1
    features[:, column("words_decide")] = rng.choice([-1, 0, 0.5, 1], 1000)
    data = dataclasses.replace(
        data, candidates=dataclasses.replace(data.candidates, features=features)
    )
    scores = rng.normal(size=1000)
    rank = data.rank(data.lift(scores))
    for query in range(50):
        one = data.select(np.arange(50) == query)
        order = decide_order(one.candidates, data.lift(scores)[data.row == query])
        assert np.all(np.diff(order[np.argsort(rank[data.row == query])]) <= 0)


def test_queries_of_new_products_weigh_as_many_as_are_assumed():
    kinds = np.repeat([QUERIES, PRODUCTS, PAIRS], [50, 30, 20]).astype(np.uint8)
    data = dataclasses.replace(make_candidates(100, n_days=0), kinds=kinds)
    every = np.ones(100, bool)
    shares = weigh_kinds(data, every, 0.2)
    totals = [shares[kinds == kind].sum() for kind in (QUERIES, PRODUCTS, PAIRS)]
    assert totals == pytest.approx([50, 10, 40])
    assert np.all(weigh_kinds(dataclasses.replace(data, n_days=30), every, 0.2) == 1)
    assert not weigh_kinds(data, ~every, 0.2).any()


def test_queries_that_are_not_what_they_were_held_back_for_are_left_out():
    kinds = np.repeat([PRODUCTS, WORDS, QUERIES], 3).astype(np.uint8)
    situations = np.tile([NEW_QUERY, KNOWN_QUERY, NEW_WORD], 3).astype(np.uint8)
    for n_days, wanted in ((0, [1, 3, 4, 5, 6, 7, 8]), (30, [1, 5, 6, 7, 8])):
        data = make_candidates(9, situations=situations, n_days=n_days)
        is_other = dataclasses.replace(data, kinds=kinds).is_other
        assert np.flatnonzero(~is_other).tolist() == wanted


@pytest.mark.parametrize("has_impressions", [False, True])
@pytest.mark.parametrize("every", [5, 2], ids=["few", "many"])
def test_a_product_that_was_never_shown_is_no_wrong_answer(has_impressions, every):
    log, catalog = make_brands(n_queries=600)
    log = log.select(log.product % every > 0)
    share = float((log.products.index_of(catalog.ids) < 0).mean())
    log = with_impressions(log) if has_impressions else log
    held = hold_back(log, catalog, make_config())
    parts = train_match_set(held.rest, catalog.without(held.left), make_config(tune=False))
    labeled, new_share = describe_held(parts.model, parts.data, held, catalog, threads=1)
    ids = Strings.concatenate([parts.data.products.ids, held.left])
    if every == 5:  # few enough events: products with a new word leave, and are added again
        assert np.any(labeled.candidates.labels >= len(parts.data.products))
    was_shown = log.products.index_of(ids)[labeled.candidates.labels] >= 0
    assert was_shown.all() == (has_impressions and every == 5)
    assert new_share == pytest.approx(share, abs=1e-4)


@pytest.fixture(scope="module")
def tuned():
    log, catalog = make_shop(5000)
    return ms.train(log, catalog, make_config())


def test_tuning_tells_what_each_part_was_worth(tuned):
    facts = tuned.model.reranker.facts
    assert facts["is_learned"]
    without = {f"without {part}" for part in tuned.model.parts}
    alone = {f"{part} alone" for part in tuned.model.parts}
    assert set(facts["recall"]) == {"all", *without, *alone}
    assert min(tuned.model.reranker.table()["same_query"]) >= 0
    assert set(facts["kinds"]) == {"new queries", "new products", "new pairs"}
    assert sum(kind["queries"] for kind in facts["kinds"].values()) == facts["queries"]


def test_the_summary_tells_weights_and_sizes_of_the_parts(tuned):
    text = str(tuned.summary)
    assert "validation queries" in text
    assert "chosen by the seed" in text
    assert "without towers" in text
    assert "lexical alone" in text
    assert all(f"{part} 0." in text for part in tuned.model.parts)
    assert "bytes each" not in text


def test_the_summary_says_why_weights_are_the_defaults():
    matcher = make_match_set(tune=False)
    assert "default weights of the re-ranker: tune is off" in str(matcher.summary)


def test_a_sample_of_the_pairs_is_told_by_summary_and_inspect(monkeypatch, tmp_path):
    fewer = partial(TwoTowerConfig, max_pairs=100, epochs=1)
    monkeypatch.setattr("matchset.learn.train_match_set.TwoTowerConfig", fewer)
    config = make_config(parts=("towers", "lexical"), tune=False)
    matcher = ms.train(*make_shop(), config, out=tmp_path / "model")
    said = "trained on a sample of 100 pairs"
    assert f"towers: {said}\n" in str(matcher.summary)
    assert f"towers: {said}\n" in run("inspect", tmp_path / "model")


@pytest.mark.parametrize("left_out", PARTS)
def test_without_a_part_the_weights_are_those_fitted_without_it(tuned, left_out, tmp_path):
    tuned.save(tmp_path / "model")
    left = tuple(part for part in PARTS if part != left_out)
    matcher = ms.load(tmp_path / "model").only(left)
    assert matcher.model.parts == matcher.config.parts == left
    reranker = matcher.model.reranker
    assert reranker.is_learned
    assert not any(any(reranker.table()[name]) for name in PART_FEATURES[left_out])
    assert not np.array_equal(reranker.weights, tuned.model.reranker.weights)
    assert matcher.match("red rose", 5) == tuned.only(left).match("red rose", 5)


def test_one_part_alone_answers(tuned):
    for part in PARTS:
        alone = tuned.only(part)  # one may be named alone
        assert alone.model.parts == (part,)
        assert alone.model.reranker.is_learned
        assert len(alone.match("red rose", 5)) == 5


@pytest.mark.parametrize(("left_out", "seen"), [("lexical", [0, 1, 0]), ("neighbors", [0, 0, 0])])
def test_without_a_part_queries_are_fitted_as_what_search_takes_them_for(left_out, seen):
    left = tuple(part for part in PARTS if part != left_out)
    weights = []
    for situation in ([0, 1, 2], seen):
        data = make_candidates(600, situations=np.tile([0, 1, 2], 200).astype(np.uint8))
        data.candidates.sources[:] = sum(SOURCES.values())
        data.candidates.situations[:] = np.array(situation)[data.candidates.situations]
        found = fit_reranker(data, PARTS, new_share=0.1, threads=2)
        weights.append(found.for_parts(left).weights)
    assert np.array_equal(*weights)


def test_parts_that_nothing_was_fitted_to_get_the_default_weights(tuned):
    two = tuned.only(["tree", "lexical"])
    assert not two.model.reranker.is_learned
    assert two.model.reranker.facts["reason"] == "none were fitted to tree and lexical"
    assert len(two.match("red rose", 5)) == 5


@pytest.mark.parametrize("wrong", [(), ("forest",), ("tree", "forest")])
def test_only_parts_that_are_there_can_be_kept(tuned, wrong):
    with pytest.raises(ValueError, match="parts must be some of"):
        tuned.only(wrong)


def test_each_choice_of_parts_is_fitted_once():
    assert list_subsets(("tree",)) == []
    assert list_subsets(("tree", "neighbors")) == [("neighbors",), ("tree",)]
    assert len(list_subsets(PARTS)) == 8


def test_logarithms_are_those_of_the_library_to_the_last_digits():
    values = np.concatenate([np.geomspace(1e-300, 1e300, 2001), 1 + np.geomspace(1e-9, 1, 50)])
    assert np.allclose(_native.log_fixed(values), np.log(values), rtol=1e-15, atol=1e-16)


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_only_positive_numbers_have_a_logarithm(value):
    with pytest.raises(ValueError, match="values must be positive and finite"):
        _native.log_fixed(np.array([1.0, value]))
