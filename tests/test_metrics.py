"""Metrics equal those of ir-measures, and intervals and tests are calibrated."""

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, P, R, Success, nDCG
from rankings import Recited, make_positives, random_test

from matchset.evaluate.judgments import MISSING, Judgments, run_qrels
from matchset.evaluate.metrics import METRICS, recall, seen_limit
from matchset.evaluate.qrels import make_qrels
from matchset.evaluate.significance import bootstrap, holm, mean, randomization_test

THEIRS = {
    "recall": lambda k: R @ k,
    "precision": lambda k: P @ k,
    "ndcg": lambda k: nDCG @ k,
    "mrr": lambda k: RR @ k,
    "hit_rate": lambda k: Success @ k,
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("graded", [False, True], ids=["binary", "graded"])
@pytest.mark.parametrize("seed", range(3))
def test_every_metric_equals_ir_measures_query_by_query(metric, graded, seed):
    answers, relevant = random_test(np.random.default_rng(seed))
    qrels = make_qrels(make_positives(relevant, 40), graded=graded)
    judgments = run_qrels(Recited.of(answers, 40), qrels, [20], batch=7).judgments
    run = {
        q: {f"p{p}": 1000.0 - rank for rank, p in enumerate(found)} for q, found in answers.items()
    }
    theirs_qrels = {
        q: {f"p{p}": (grade if graded else 1) for p, grade in grades.items()}
        for q, grades in relevant.items()
    }
    for k in (1, 3, 10, 20):
        measure = THEIRS[metric](k)
        theirs = {m.query_id: m.value for m in ir_measures.iter_calc([measure], theirs_qrels, run)}
        ours = METRICS[metric](judgments, k)
        wanted = [theirs.get(query, 0.0) for query in relevant]
        np.testing.assert_allclose(ours, wanted, atol=1e-9)


def test_recall_is_the_share_of_relevant_products_among_the_first_k():
    judgments = Judgments(np.array([0, 0, 1]), np.ones(3), np.array([0, 5, MISSING]), 3)
    np.testing.assert_array_equal(recall(judgments, 5), [0.5, 0.0, np.nan])
    np.testing.assert_array_equal(recall(judgments, 6), [1.0, 0.0, np.nan])


def test_a_query_without_relevant_products_has_no_value():
    judgments = Judgments(np.array([1]), np.ones(1), np.array([0]), 2)
    for metric in METRICS.values():
        assert np.isnan(metric(judgments, 10)[0])
        assert metric(judgments, 10)[1] > 0


def test_the_limit_counts_warm_products_up_to_k():
    judgments = Judgments(np.zeros(4, dtype=np.int64), np.ones(4), np.full(4, MISSING), 1)
    is_warm = np.array([True, True, True, False])
    assert [seen_limit(judgments, is_warm, k)[0] for k in (1, 2, 3, 4)] == [0.25, 0.5, 0.75, 0.75]


@given(st.integers(0, 1000), st.integers(1, 40))
def test_no_metric_falls_when_a_relevant_product_rises(seed, k):
    rng = np.random.default_rng(seed)
    row = np.sort(rng.integers(0, 5, 12))
    rank = rng.permutation(60)[:12]
    lower = Judgments(row, rng.random(12) + 0.1, rank, 5)
    raised = rank.copy()
    at = rng.integers(12)
    free = np.setdiff1d(np.arange(raised[at] + 1), rank[row == row[at]])
    raised[at] = min(free, default=raised[at])
    higher = Judgments(row, lower.gain, raised, 5)
    for metric in METRICS.values():
        a, b = metric(lower, k), metric(higher, k)
        assert np.all((b >= a - 1e-12) | np.isnan(a))
        assert np.nanmax(b) <= 1 + 1e-12


def test_means_are_plain_and_weighted_and_skip_queries_outside_a_group():
    values = np.array([[[1.0], [np.nan]], [[0.0], [0.5]]])  # 2 queries, 2 groups
    weights = np.array([[1.0, 1.0], [3.0, 1.0]])
    np.testing.assert_allclose(mean(values, weights)[:, :, 0], [[0.5, 0.5], [0.75, 0.5]])


def test_an_interval_holds_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    weights = np.ones((1, 120))
    n_held = 0
    for trial in range(200):
        values = (rng.random((120, 1, 1)) < 0.3).astype(float)
        low, high = bootstrap(values, weights, resamples=300, seed=trial)
        n_held += low[0, 0, 0] <= 0.3 <= high[0, 0, 0]
    assert 180 <= n_held <= 199


def test_an_interval_is_the_same_for_the_same_seed():
    values = np.random.default_rng(0).random((50, 2, 3))
    one, again, other = (bootstrap(values, np.ones((1, 50)), seed=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_a_group_without_queries_has_no_interval():
    values = np.full((4, 1, 1), np.nan)
    assert np.isnan(bootstrap(values, np.ones((1, 4)))).all()
    assert np.isnan(bootstrap(values[:0], np.ones((1, 0)))).all()
    assert np.isnan(mean(values[:0], np.ones((1, 0)))).all()


def test_equal_matchers_differ_significantly_in_one_of_twenty():
    rng = np.random.default_rng(2)
    p = randomization_test(rng.normal(0.0, 1.0, (80, 400)), flips=400)
    assert 0.02 <= np.mean(p <= 0.05) <= 0.09


def test_a_small_randomization_test_equals_counting_all_signs():
    differences = np.array([0.5, 0.25, 1.0, -0.25, 0.75, 0.0])[:, None]
    signs = np.array(np.meshgrid(*[[-1, 1]] * 6)).reshape(6, -1)
    wanted = np.mean(np.abs(signs.T @ differences) >= differences.sum() - 1e-9)
    assert randomization_test(differences, flips=20_000)[0] == pytest.approx(wanted, abs=0.01)


def test_no_difference_is_no_evidence():
    assert list(randomization_test(np.zeros((10, 2)))) == [1.0, 1.0]


def test_holm_corrects_as_by_hand():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert list(holm([])) == []
    assert list(holm([0.9, 0.8])) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resamples": 0}, "resamples must be positive; got 0"),
        ({"confidence": 1.0}, "confidence must be between 0 and 1; got 1.0"),
    ],
)
def test_what_makes_no_bootstrap_is_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap(np.zeros((3, 1, 1)), np.ones((1, 3)), **options)
