"""Scores of a re-ranker are chances, for as long as they are said to hold."""

import dataclasses
import math

import numpy as np
from candidates import make_candidates

from matchset.learn.fit_reranker import fit_weights
from matchset.learn.labeled_candidates import score_candidates
from matchset.learn.score_calibration import calibrate, fit_isotonic, measure_growth
from matchset.model.reranker import FEATURES


def test_calibrated_scores_are_shares_of_positives():
    data = make_candidates(4000)
    weights = fit_weights(data, threads=2)
    knots, log_odds = calibrate(data, weights)
    assert np.all(np.diff(knots) > 0)
    assert np.all(np.diff(log_odds) > 0)
    fresh = make_candidates(4000, seed=5)
    scores = score_candidates(fresh.candidates.features, weights)
    chance = 1 / (1 + np.exp(-np.interp(scores, knots, log_odds)))
    tenth = np.minimum((10 * chance).astype(int), 9)
    for i in range(10):
        if np.count_nonzero(tenth == i) >= 500:
            assert abs(fresh.is_positive[tenth == i].mean() - chance[tenth == i].mean()) < 0.05


def test_chances_grow_with_the_days_they_hold_for():
    data = make_candidates(2000)
    weights = fit_weights(data, threads=1)
    again = dataclasses.replace(data, n_days=15)
    # Nothing grows where both halves have all positives.
    assert np.array_equal(calibrate(again, weights)[1], calibrate(data, weights)[1])
    half = np.random.default_rng(3).integers(1, 4, len(data.halves), dtype=np.uint8)
    seen = dataclasses.replace(data, halves=np.where(data.is_positive, half, 0).astype(np.uint8))
    month = calibrate(seen, weights)[1]
    assert np.array_equal(month, calibrate(data, weights)[1])  # a month was held back
    for n_days, sign in ((15, 1), (60, -1)):
        knots = calibrate(dataclasses.replace(seen, n_days=n_days), weights)[1]
        assert np.all(sign * (knots - month) >= 0)


def test_growth_is_what_halving_the_days_takes_away():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(-1, 1, 200_000)
    row = np.repeat(np.arange(1000), 200)  # every query has an answer in every half
    all_days, half = (1 / (1 + np.exp(-log_odds + less)) for less in (0.0, 0.5))
    chance, other = rng.random((2, 200_000))
    both = 2 * half - all_days  # of a positive: in the first half, in the second, or in both
    halves = np.select([chance >= all_days, chance < both, other < 0.5], [0, 3, 1], 2)
    assert abs(measure_growth(log_odds, row, halves.astype(np.uint8)) - 0.5) < 0.02
    assert measure_growth(log_odds, row, np.zeros(200_000, np.uint8)) == 0


def test_scores_are_the_known_chances_of_a_simulated_problem():
    data = make_candidates(1500, 100, seed=2)
    weights = np.zeros((2, len(FEATURES)), np.float32)
    weights[:, 1] = 1.0
    scores = score_candidates(data.candidates.features, weights)
    chance = 1 / (1 + np.exp(3 - 2 * np.minimum(scores, 1.5)))  # a curve, not a line
    is_positive = np.random.default_rng(4).random(len(scores)) < chance
    halves = 3 * is_positive.astype(np.uint8)
    knots, log_odds = calibrate(dataclasses.replace(data, halves=halves, n_days=0), weights)
    told = 1 / (1 + np.exp(-np.interp(scores, knots, log_odds)))
    for low in np.arange(0, 0.5, 0.1):
        mine = (told >= low) & (told < low + 0.1)
        assert np.count_nonzero(mine) >= 500
        assert abs(told[mine].mean() - chance[mine].mean()) < 0.02


def min_max(positives, counts):
    """Isotonic regression by its definition: the largest least mean of any run around a bin."""
    n = len(counts)
    return [
        max(
            min(positives[a:b].sum() / counts[a:b].sum() for b in range(i + 1, n + 1))
            for a in range(i + 1)
        )
        for i in range(n)
    ]


def test_isotonic_chances_are_those_of_the_definition():
    rng = np.random.default_rng(7)
    scores = np.sort(rng.random(20_000))
    is_positive = rng.random(20_000) < np.where(scores < 0.6, 0.1, scores - 0.5)
    knots, log_odds = fit_isotonic(scores, is_positive)
    places = np.flatnonzero(is_positive)
    cuts = [places[math.ceil(len(places) * i / 20) - 1] for i in range(1, 20)]
    bins = np.split(is_positive, cuts)
    wanted = min_max(np.array([x.sum() for x in bins]), np.array([len(x) for x in bins]))
    assert len(knots) == len(set(wanted)) < len(bins)  # some were pooled
    np.testing.assert_allclose(1 / (1 + np.exp(-log_odds)), sorted(set(wanted)), atol=1e-3)


def test_isotonic_blocks_never_fall():
    scores = np.arange(1000.0)
    is_positive = np.random.default_rng(0).random(1000) < 0.5  # no order at all
    knots, log_odds = fit_isotonic(scores, is_positive)
    assert np.all(np.diff(log_odds) > 0)
    assert len(knots) == len(log_odds)
    knots, log_odds = fit_isotonic(scores, np.zeros(1000, dtype=bool))
    assert len(knots) == 1
