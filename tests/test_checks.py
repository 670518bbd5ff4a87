"""Checks of experiments: they find what is wrong, and only that."""

import numpy as np
import pytest

from matchset.online.checks import check_sample_ratio, count_false_alarms


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


def grown(units, *, seed=0):
    """Events and searches of units; many come more than once."""
    rng = np.random.default_rng(seed)
    y = rng.poisson(2 * rng.gamma(2.0, 0.5, units))
    x = rng.binomial(y, rng.beta(1.0, 4.0, units))
    return (part[y > 0].astype(float) for part in (x, y))


def test_units_that_differ_in_nothing_show_a_difference_in_5_percent():
    alarms = count_false_alarms(*grown(4_000), runs=2_000)
    low, high = alarms.bounds
    assert low <= alarms.share <= high


def test_searches_taken_for_units_show_differences_too_often():
    # What clustering is for: the same customers, but assigned search by search in whole sessions
    # and then analyzed as if each search stood alone.
    x, y = grown(3_000)
    rate = x.sum() / y.sum()
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(500):
        second = rng.random(len(x)) < 0.5
        a, b = (x[side].sum() / y[side].sum() for side in (~second, second))
        error = np.sqrt(rate * (1 - rate) * (1 / y[second].sum() + 1 / y[~second].sum()))
        wrong += abs(a - b) > 1.96 * error
    assert wrong / 500 > 0.06
    assert count_false_alarms(x, y).share < 0.07


def test_an_a_a_test_needs_units():
    with pytest.raises(ValueError, match="must have units; got none"):
        count_false_alarms(np.zeros(0), np.zeros(0))
