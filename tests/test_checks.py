"""Checks of experiments: they find what is wrong, and only that."""

import numpy as np
import pytest
from scipy import stats

from matchset.online.checks import calibrate, check_sample_ratio, compare_exposure


def test_a_ratio_within_chance_is_no_mismatch():
    found = check_sample_ratio({"a": 5_050, "b": 4_950}, {"a": 0.5, "b": 0.5})
    assert not found.is_mismatch
    assert found.expected == {"a": 5_000.0, "b": 5_000.0}
    assert found.p_value == pytest.approx(0.3173, abs=1e-4)  # one standard deviation


def test_lost_units_of_an_arm_are_a_mismatch():
    # 821,588 and 815,482 users: p = 1.8e-6 in Kohavi, Tang and Xu, 2020, chapter 21.
    found = check_sample_ratio({"a": 821_588, "b": 815_482}, {"a": 0.5, "b": 0.5})
    assert found.p_value == pytest.approx(1.8e-6, rel=0.05)
    assert found.is_mismatch
    assert check_sample_ratio({"a": 900}, {"a": 9, "b": 1}).is_mismatch


def test_an_arm_that_is_not_of_the_experiment_is_refused():
    with pytest.raises(ValueError, match="arms must be among a, b; got c"):
        check_sample_ratio({"a": 1, "c": 2}, {"a": 0.5, "b": 0.5})


def grown(units, looks, *, seed=0):
    """Events and searches of units up to each look; many come more than once."""
    rng = np.random.default_rng(seed)
    y = rng.poisson(0.2 * rng.gamma(2.0, 0.5, (units, 1)), (units, looks))
    x = rng.binomial(y, rng.beta(1.0, 4.0, (units, 1)))
    came = y.sum(axis=1) > 0
    return (np.cumsum(part[came], axis=1).astype(float) for part in (x, y))


def test_units_that_differ_in_nothing_show_a_difference_in_5_percent():
    found = calibrate(*grown(4_000, 10), runs=2_000, planned=4_000)
    low, high = found.bounds
    assert low <= found.once <= high
    assert found.ever <= 0.06
    assert found.looks == 10


def test_searches_taken_for_units_show_differences_too_often():
    # What clustering is for: the same customers, but assigned search by search in whole sessions
    # and then analyzed as if each search stood alone.
    x, y = (part[:, -1:] for part in grown(3_000, 10))
    rate = x.sum() / y.sum()
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(500):
        second = rng.random(len(x)) < 0.5
        a, b = (x[side].sum() / y[side].sum() for side in (~second, second))
        error = np.sqrt(rate * (1 - rate) * (1 / y[second].sum() + 1 / y[~second].sum()))
        wrong += abs(a - b) > 1.96 * error
    assert wrong / 500 > 0.06
    assert calibrate(x, y, runs=1_000).once < 0.07


def test_calibration_needs_units():
    with pytest.raises(ValueError, match="one shape"):
        calibrate(np.zeros((0, 1)), np.zeros((0, 1)))


def test_an_arm_that_loses_more_of_its_units_is_found_where_few_are_lost():
    # Against the assigned totals alone, 99,000 and 98,500 of 100,000 look like chance (p = 0.26).
    assigned = {"old": 100_000, "new": 100_000}
    exposed = {"old": 99_000, "new": 98_500}
    found = compare_exposure(assigned, exposed)
    pooled = (99_000 + 98_500) / 200_000
    z = (0.990 - 0.985) / np.sqrt(pooled * (1 - pooled) * 2 / 100_000)  # of two proportions
    assert found == pytest.approx(2 * stats.norm.sf(z))
    assert found < 1e-20
    assert compare_exposure(assigned, {"old": 98_510, "new": 98_500}) > 0.5
    assert compare_exposure(assigned, assigned) == 1.0
    assert compare_exposure({"old": 5, "new": 0}, {"old": 4}) == 1.0
