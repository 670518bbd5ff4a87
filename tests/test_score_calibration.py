"""Scores of a re-ranker are chances, for as long as they are said to hold."""

import dataclasses
import math

import numpy as np
from candidates import SAME, make_candidates
from scipy.optimize import brentq

from matchset.config import PARTS
from matchset.learn.fit_reranker import choose_same_query, fit_weights
from matchset.learn.score_calibration import calibrate, fit_isotonic, measure_growth
from matchset.model.reranker import FEATURES, KNOWN_QUERY, NEW_QUERY, NEW_WORD, SITUATIONS


def fit(data, **settings):
    weights = fit_weights(data, PARTS, new_share=0.1, threads=2, **settings)
    weights[..., SAME] = choose_same_query(data, weights)
    return weights


def calibrate_new(data, weights):
    """The lines of the situation in which all of the queries are."""
    scores = data.score(weights)
    lines = calibrate(data, scores, data.rank(scores))[NEW_QUERY]
    return lines.knots, lines.log_odds


def test_calibrated_scores_are_shares_of_positives():
    data = make_candidates(4000)
    weights = fit(data)
    knots, log_odds = calibrate_new(data, weights)
    assert np.all(np.diff(knots) > 0)
    assert np.all(np.diff(log_odds) > 0)
    fresh = make_candidates(4000, seed=5)
    scores = fresh.score(weights)
    chance = 1 / (1 + np.exp(-np.interp(scores, knots, log_odds)))
    tenth = np.minimum((10 * chance).astype(int), 9)
    for i in range(10):
        if np.count_nonzero(tenth == i) >= 500:
            assert abs(fresh.is_positive[tenth == i].mean() - chance[tenth == i].mean()) < 0.05


def test_a_situation_with_few_positives_has_the_lines_of_all_with_a_shrunken_shift():
    situations = np.repeat([NEW_QUERY, KNOWN_QUERY], [2000, 150]).astype(np.uint8)
    data = make_candidates(2150, situations=situations, n_days=0)
    known = np.repeat(situations == KNOWN_QUERY, 20)
    is_lost = known & (np.random.default_rng(1).random(len(known)) < 0.7)
    data = dataclasses.replace(data, halves=np.where(is_lost, 0, data.halves).astype(np.uint8))
    weights = np.zeros((len(SITUATIONS), 2, len(FEATURES)), np.float32)
    weights[..., 1] = 1.0
    counted, scores = data.keep(data.is_judged), data.score(weights)
    assert np.array_equal(counted.is_known, counted.is_known & counted.is_positive)
    lines = calibrate(data, scores, data.rank(scores))
    own, moved, common = (lines[i] for i in (NEW_QUERY, KNOWN_QUERY, NEW_WORD))
    scores, known = counted.score(weights), counted.candidates.situations[counted.row] == 1
    every = fit_isotonic(scores, counted.is_positive)
    first = fit_isotonic(scores[~known], counted.is_positive[~known])
    for lines, wanted in ((own, first), (common, every)):  # of new words there is nothing
        assert np.array_equal(lines.knots, wanted.knots)
        assert np.array_equal(lines.log_odds, wanted.log_odds)
    n = np.count_nonzero(counted.is_positive[known])
    shift = brentq(lambda x: (1 / (1 + np.exp(-every.read(scores[known]) - x))).sum() - n, -10, 10)
    assert 20 < n < 100
    assert shift < -0.5
    np.testing.assert_allclose(moved.log_odds, every.log_odds + shift * n / (n + 300), atol=1e-4)


def test_chances_grow_with_the_days_they_hold_for():
    data = make_candidates(2000)
    weights = fit(data)
    again = dataclasses.replace(data, n_days=15)
    # Nothing grows where both halves have all positives.
    assert np.array_equal(calibrate_new(again, weights)[1], calibrate_new(data, weights)[1])
    half = np.random.default_rng(3).integers(1, 4, len(data.halves), dtype=np.uint8)
    seen = dataclasses.replace(data, halves=np.where(data.is_positive, half, 0).astype(np.uint8))
    month = calibrate_new(seen, weights)[1]
    assert np.array_equal(month, calibrate_new(data, weights)[1])  # a month was held back
    for n_days, sign in ((15, 1), (60, -1)):
        knots = calibrate_new(dataclasses.replace(seen, n_days=n_days), weights)[1]
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
    weights = np.zeros((len(SITUATIONS), 2, len(FEATURES)), np.float32)
    weights[..., 1] = 1.0
    scores = data.score(weights)
    chance = 1 / (1 + np.exp(3 - 2 * np.minimum(scores, 1.5)))  # a curve, not a line
    is_positive = np.random.default_rng(4).random(len(scores)) < chance
    halves = 3 * is_positive.astype(np.uint8)
    knots, log_odds = calibrate_new(dataclasses.replace(data, halves=halves), weights)
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
    lines = fit_isotonic(scores, is_positive)
    knots, log_odds = lines.knots, lines.log_odds
    places = np.flatnonzero(is_positive)
    cuts = [places[math.ceil(len(places) * i / 20) - 1] for i in range(1, 20)]
    bins = np.split(is_positive, cuts)
    wanted = min_max(np.array([x.sum() for x in bins]), np.array([len(x) for x in bins]))
    assert len(knots) == len(set(wanted)) < len(bins)  # some were pooled
    np.testing.assert_allclose(1 / (1 + np.exp(-log_odds)), sorted(set(wanted)), atol=1e-3)


def test_isotonic_blocks_never_fall():
    scores = np.arange(1000.0)
    is_positive = np.random.default_rng(0).random(1000) < 0.5  # no order at all
    lines = fit_isotonic(scores, is_positive)
    knots, log_odds = lines.knots, lines.log_odds
    assert np.all(np.diff(log_odds) > 0)
    assert len(knots) == len(log_odds)
    assert len(fit_isotonic(scores, np.zeros(1000, dtype=bool)).knots) == 1
