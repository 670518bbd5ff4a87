"""What is held back, which weights are learned from it, and what the scores then mean."""

import dataclasses
import re
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from candidates import SAME, make_candidates
from command_line import run
from match_sets import make_config, make_match_set, make_shop
from scipy.optimize import minimize

import matchset as ms
from matchset import _native
from matchset.cli.plan import show_plan
from matchset.config import PARTS
from matchset.data.arrow import NO_DAY
from matchset.data.log import make_log
from matchset.learn import match_set_tasks
from matchset.learn.cost import plan_training
from matchset.learn.fit_reranker import PART_FEATURES, fit_weights, list_subsets
from matchset.learn.hold_back import SHARE, hold_back
from matchset.learn.labeled_candidates import (
    label_candidates,
    recall_of,
)
from matchset.learn.match_set_tasks import learn_reranker
from matchset.learn.train_match_set import train_parts
from matchset.learn.two_tower import TwoTowerConfig
from matchset.matrices import Csr, offsets_of
from matchset.model.match_set_model import Candidates
from matchset.model.reranker import DEFAULT_WEIGHTS, FEATURES, WARM


def softmax_loss(weights, features, offsets, is_positive, ridge):
    loss = 0.0
    for begin, end in pairwise(offsets):
        scores = features[begin:end] @ weights
        right = is_positive[begin:end]
        total = np.log(np.exp(scores - scores.max()).sum()) + scores.max()
        loss -= (scores[right] - total).mean()
    return loss / (len(offsets) - 1) + (ridge / 2 * weights) @ weights


def test_softmax_weights_are_those_of_least_loss():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(600, 3)).astype(np.float32)
    offsets = offsets_of([12] * 50)
    is_positive = np.zeros(600, dtype=bool)
    is_positive[offsets[:-1] + rng.integers(12, size=50)] = True
    is_positive[offsets[:-1] + rng.integers(12, size=50)] = True
    kinds = rng.integers(2, size=600, dtype=np.uint8)
    ridge = np.array([1e-2, 2e-2, 1e-2, 3e-2, 1e-2, 1e-2])
    wide = np.zeros((600, 6))
    for kind in (0, 1):
        wide[kinds == kind, 3 * kind : 3 * kind + 3] = features[kinds == kind]
    arguments = (wide, offsets, is_positive, ridge)
    wanted = minimize(softmax_loss, np.zeros(6), args=arguments, tol=1e-10).x
    found = _native.fit_softmax(
        features.reshape(-1),
        offsets,
        is_positive.view(np.uint8),
        kinds,
        ridge,
        n_kinds=2,
        threads=1,
    )
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("wrong", [np.full(4, 2, np.uint8), np.zeros(3, np.uint8)])
def test_each_candidate_must_have_a_known_kind(wrong):
    arrays = np.ones(8, np.float32), offsets_of([4]), np.array([1, 0, 0, 0], np.uint8)
    with pytest.raises(ValueError, match="kind"):
        _native.fit_softmax(*arrays, wrong, np.ones(4), n_kinds=2, threads=1)


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_do_not_change_weights(threads):
    data = make_candidates()
    assert np.array_equal(fit_weights(data, threads=1), fit_weights(data, threads=threads))


def test_learned_weights_are_near_those_that_made_the_positives():
    weights = fit_weights(make_candidates(2000), threads=2)[WARM]
    assert abs(weights[1] - 2) < 0.3
    assert abs(weights[4] + 1) < 0.2


def test_the_weight_of_the_very_same_query_is_never_negative():
    data = make_candidates(same_weight=-3.0)
    assert fit_weights(data, threads=1)[WARM, SAME] >= 0


def test_the_weight_of_the_very_same_query_is_no_larger_than_it_needs_to_be():
    weight = fit_weights(make_candidates(same_weight=2.0), threads=1)[WARM, SAME]
    assert 0 < weight <= 5


def test_with_times_known_answers_that_nobody_chose_again_take_places():
    data = make_candidates(1000, 40, same_weight=-1.0)
    assert fit_weights(data, threads=1)[WARM, SAME] == 0
    by_seed = dataclasses.replace(data, n_days=0)
    assert fit_weights(by_seed, threads=1)[WARM, SAME] > 0


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
        one, two = (fit_weights(each, threads=1)[:, compared] for each in (first, again))
        assert np.array_equal(one, two)


def test_where_nothing_is_known_of_the_very_same_query_its_weight_is_the_default():
    data = make_candidates()
    features = data.candidates.features.copy()
    features[:, SAME] = 0
    data = dataclasses.replace(
        data, candidates=dataclasses.replace(data.candidates, features=features)
    )
    assert fit_weights(data, threads=1)[WARM, SAME] == DEFAULT_WEIGHTS["same_query"]


def test_candidates_are_labeled_by_query_and_product():
    candidates = Candidates(
        np.array([0, 2, 4]),
        np.array([5, 7, 5, 9], dtype=np.int32),
        np.zeros((4, len(FEATURES)), dtype=np.float32),
        np.ones(4, dtype=np.uint8),
    )
    wanted = Csr(
        np.array([0, 2, 3]),
        np.array([7, -1, 5], dtype=np.int32),
        np.array([2, 1, 3], np.float32),
        10,
    )
    found = label_candidates(candidates, wanted, np.ones(2, dtype=bool))
    assert found.halves.tolist() == [0, 2, 3, 0]
    assert found.is_positive.tolist() == [False, True, True, False]
    assert found.n_positive.tolist() == [2, 1]
    assert recall_of(found, np.zeros((2, len(FEATURES)), np.float32)) == [0.75] * 3


def pairs_of(log):
    return {(log.queries[q], log.products[p]) for q, p in zip(log.query, log.product, strict=True)}


def test_with_times_the_most_recent_tenth_is_held_back():
    log, _ = make_shop(days=100)
    held = hold_back(log, make_config())
    assert held.is_by_time
    assert held.is_complete.all()
    last = held.rest.day.max()
    assert 85 <= last <= 95
    recent = log.select(log.day > last)
    assert held.n_days == recent.day.max() - last
    first = pairs_of(recent.select(recent.day <= last + held.n_days // 2))
    for bits, query, product in zip(
        held.pairs.data, held.pairs.row_of_entry, held.pairs.indices, strict=True
    ):
        assert (int(bits) % 2 == 1) == ((held.queries[query], held.products[product]) in first)
    assert set(held.queries) == set(recent.queries)
    assert len(held.rest) + len(recent) == len(log)


@pytest.mark.parametrize("days", [None, 10])
def test_without_times_whole_queries_and_single_events_are_held_back(days):
    log, _ = make_shop(600, days=days)
    held = hold_back(log, make_config())
    assert not held.is_by_time
    n_pairs = len(ms.positives(log))
    assert 0.5 * SHARE * n_pairs < len(held.pairs.indices) <= SHARE * n_pairs
    whole = {q for q, c in zip(held.queries, held.is_complete, strict=True) if c}
    single = {q for q, c in zip(held.queries, held.is_complete, strict=True) if not c}
    assert whole
    assert single
    assert not whole & single
    assert not whole & set(held.rest.queries)
    assert single <= set(held.rest.queries)
    held_pairs = {
        (held.queries[q], held.products[p])
        for q, p in zip(held.pairs.row_of_entry, held.pairs.indices, strict=True)
    }
    assert held_pairs <= pairs_of(log)
    assert pairs_of(held.rest) <= pairs_of(log)
    taken = log.count.sum() - held.rest.count.sum()
    assert 0 < taken < log.count.sum() / 4


def test_the_same_seed_holds_back_the_same():
    log, _ = make_shop(600)
    one, two = (hold_back(log, make_config()) for _ in range(2))
    assert one.queries == two.queries
    assert one.rest == two.rest


def with_impressions(log):
    """The same log, where each answer was bought and shown twice, on two days."""
    n = len(log)
    return make_log(
        queries=log.queries,
        products=log.products,
        events=["impression", "purchase"],
        query=np.tile(log.query, 3),
        product=np.tile(log.product, 3),
        event=np.repeat([1, 0, 0], n),
        day=np.repeat([5, 5, 6], n),
        count=np.tile(log.count, 3),
    )


@pytest.mark.parametrize("has_impressions", [False, True])
@pytest.mark.parametrize("every", [5, 2], ids=["few", "many"])
def test_a_product_that_was_never_shown_is_no_wrong_answer(monkeypatch, has_impressions, every):
    log, catalog = make_shop(600)
    log = log.select(log.product % every > 0)
    log = with_impressions(log) if has_impressions else log
    fitted = []
    monkeypatch.setattr(match_set_tasks, "fit_reranker", lambda data, *_, **__: fitted.append(data))
    held = hold_back(log, make_config())
    parts = train_parts(held.rest, catalog, make_config())
    learn_reranker(parts.model, parts.data, held, make_config(), threads=1)
    data = fitted[0]
    was_shown = log.products.index_of(parts.data.products.ids)[data.candidates.labels] >= 0
    assert not was_shown.all()
    if has_impressions and every == 5:
        assert np.array_equal(data.is_shown, was_shown)
        assert np.array_equal(data.shown().candidates.labels, data.candidates.labels[was_shown])
        assert np.array_equal(data.shown().n_positive, data.n_positive)
    else:
        assert data.shown() is data


def test_what_was_never_shown_counts_where_recall_is_told_but_not_in_the_weights():
    data = make_candidates()
    is_shown = np.random.default_rng(3).random(len(data.halves)) < 0.7
    marked = dataclasses.replace(data, is_shown=is_shown | data.is_positive)
    weights = fit_weights(marked, threads=1)
    others = [i for i in range(len(FEATURES)) if i != SAME]  # that one is chosen by recall
    fitted = fit_weights(marked.shown(), threads=1)[:, others]
    assert np.array_equal(weights[:, others], fitted)
    assert not np.array_equal(weights[:, others], fit_weights(data, threads=1)[:, others])
    assert recall_of(marked, weights) == recall_of(data, weights)


def test_purchases_without_a_date_are_held_back_by_the_seed():
    log, _ = make_shop(200)
    dated = with_impressions(log)
    is_impression = dated.event == dated.events.index("impression")
    day = np.where(is_impression, np.arange(len(dated)) % 30, NO_DAY).astype(np.int32)
    held = hold_back(dataclasses.replace(dated, day=day), make_config())
    assert not held.is_by_time
    assert len(held.queries)


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
    assert tuned.model.reranker.table()["same_query"][WARM] >= 0


def test_the_summary_tells_weights_and_sizes_of_the_parts(tuned):
    text = str(tuned.summary)
    assert "validation queries" in text
    assert "chosen by the seed" in text
    assert "without towers" in text
    assert "lexical alone" in text
    assert "bm25_share" in text
    assert all(f"{part} 0." in text for part in tuned.model.parts)
    assert "bytes each" not in text


def test_the_summary_says_why_weights_are_the_defaults():
    matcher = make_match_set(tune=False)
    assert "default weights of the re-ranker: tune is off" in str(matcher.summary)


def test_a_sample_of_the_pairs_is_told_by_summary_plan_and_inspect(monkeypatch, tmp_path, capsys):
    fewer = partial(TwoTowerConfig, max_pairs=100, epochs=1)
    for room in ("sizes", "match_set_tasks"):
        monkeypatch.setattr(f"matchset.learn.{room}.TwoTowerConfig", fewer)
    log, catalog = make_shop()
    config = make_config(parts=("towers", "lexical"), tune=False)
    matcher = ms.train(log, catalog, config, out=tmp_path / "model")
    said = "trained on a sample of 100 pairs"
    assert f"towers: {said}\n" in str(matcher.summary)
    show_plan(plan_training(log, catalog, config), 10**12)
    assert f"towers: {said}\n" in capsys.readouterr().out
    assert re.search(rf"towers +{said}", run("inspect", tmp_path / "model"))
    plan = plan_training(log, catalog, make_config(parts=("neighbors",), tune=False))
    show_plan(plan, 10**12)
    assert "sample" not in capsys.readouterr().out


@pytest.mark.parametrize("left_out", PARTS)
def test_without_a_part_the_weights_are_those_fitted_without_it(tuned, left_out, tmp_path):
    tuned.save(tmp_path / "model")
    left = tuple(part for part in PARTS if part != left_out)
    matcher = ms.load(tmp_path / "model").only(left)
    assert matcher.model.parts == matcher.config.parts == left
    reranker = matcher.model.reranker
    assert reranker.is_learned
    assert all(reranker.table()[name] == (0, 0) for name in PART_FEATURES[left_out])
    assert not np.array_equal(reranker.weights, tuned.model.reranker.weights)
    assert matcher.match("red rose", 5) == tuned.only(left).match("red rose", 5)


def test_one_part_alone_answers(tuned):
    for part in PARTS:
        alone = tuned.only([part])
        assert alone.model.parts == (part,)
        assert alone.model.reranker.is_learned
        assert len(alone.match("red rose", 5)) == 5


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
