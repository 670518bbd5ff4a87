"""Intervals of rates and effects hold what they promise."""

import math

import numpy as np
import pytest
from scipy import stats

from matchset.online.intervals import (
    Moments,
    always_valid_width,
    compare_rates,
    measure_rate,
    relative_effect,
)


def visits(rng, units, *, rate=0.1, spread=1.0):
    """Events and searches of units that come several times and differ in how much they buy."""
    searches = 1 + rng.poisson(2.0, units)
    eagerness = np.minimum(rate * rng.gamma(1 / spread, spread, units), 1.0)
    return rng.binomial(searches, eagerness).astype(float), searches.astype(float)


def test_a_rate_of_one_search_per_unit_has_the_variance_of_a_mean():
    x = np.random.default_rng(0).normal(3.0, 2.0, 500)
    found = Moments.of(x, np.ones(500))
    assert found.rate == pytest.approx(x.mean())
    assert found.variance == pytest.approx(x.var(ddof=1) / 500)


def test_the_interval_of_two_means_is_that_of_welch_in_large_samples():
    rng = np.random.default_rng(1)
    a, b = rng.normal(1.0, 1.0, 4_000), rng.normal(1.1, 2.0, 6_000)
    effect = compare_rates(*(Moments.of(x, np.ones(len(x))) for x in (a, b)))
    welch = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    assert (effect.low, effect.high) == pytest.approx((welch.low, welch.high), rel=2e-3)


def test_the_variance_of_a_rate_is_that_of_a_bootstrap_over_units():
    rng = np.random.default_rng(2)
    x, y = visits(rng, 800)
    drawn = rng.integers(0, 800, (4_000, 800))
    boot = (x[drawn].sum(axis=1) / y[drawn].sum(axis=1)).var()
    assert Moments.of(x, y).variance == pytest.approx(boot, rel=0.1)


def test_searches_of_one_customer_are_not_counted_as_independent():
    x, y = visits(np.random.default_rng(3), 5_000, spread=4.0)
    rate = x.sum() / y.sum()
    assert Moments.of(x, y).variance > 1.5 * rate * (1 - rate) / y.sum()


def test_an_interval_for_one_reading_holds_the_truth_in_95_percent():
    rng = np.random.default_rng(4)
    inside = 0
    for _ in range(1_000):
        arms = [Moments.of(*visits(rng, 600, rate=rate)) for rate in (0.10, 0.12)]
        effect = compare_rates(*arms)
        truth = TRUE_RATES[0.12] - TRUE_RATES[0.10]
        inside += effect.low <= truth <= effect.high
    assert stats.binom.interval(0.999, 1_000, 0.95)[0] <= inside
    assert inside <= stats.binom.interval(0.999, 1_000, 0.95)[1]


TRUE_RATES = {
    rate: float(np.minimum(rate * stats.gamma(1.0).ppf((np.arange(1e5) + 0.5) / 1e5), 1.0).mean())
    for rate in (0.10, 0.12)
}


def test_an_always_valid_interval_holds_the_truth_at_all_times_at_once():
    # Looking at every one of 4,000 units, from the 50th on; a single-reading interval fails here.
    rng = np.random.default_rng(5)
    n = np.arange(1, 4_001)
    missed = missed_once = 0
    for _ in range(400):
        x = rng.exponential(1.0, len(n)) - 1.0
        mean = np.cumsum(x) / n
        error = np.sqrt(np.maximum(np.cumsum(x**2) / n - mean**2, 1e-12) / n)
        distance = (np.abs(mean) / error)[50:]
        missed += bool((distance > always_valid_width(n[50:], planned=1_000)).any())
        missed_once += bool((distance > 1.96).any())
    assert missed <= stats.binom.ppf(0.999, 400, 0.05)
    assert missed_once > 100


def test_the_width_of_the_always_valid_interval_is_that_of_the_paper():
    # Theorem 2.2: sigma * sqrt(2 (t rho^2 + 1) / (t^2 rho^2) * log(sqrt(t rho^2 + 1) / alpha)).
    t, alpha, planned = 700.0, 0.05, 1_000.0
    rho = math.sqrt((-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / planned)
    scaled = t * rho**2
    paper = math.sqrt(2 * (scaled + 1) / (t * scaled) * math.log(math.sqrt(scaled + 1) / alpha))
    assert always_valid_width(t, planned=planned) / math.sqrt(t) == pytest.approx(paper)


def test_the_always_valid_interval_is_wider_and_shrinks_with_units():
    n = np.array([10, 100, 1_000, 10_000, 1_000_000])
    width = always_valid_width(n)
    assert (width > 1.96).all()
    assert (np.diff(width / np.sqrt(n)) < 0).all()
    assert always_valid_width(0) == math.inf


def test_an_interval_of_nothing_is_not_sure():
    nothing = Moments.of(np.zeros(0), np.zeros(0))
    effect = compare_rates(nothing, nothing)
    assert math.isnan(effect.value)
    assert not effect.is_sure()
    assert not effect.is_sure(at_end=True)


def test_a_preference_is_measured_against_one_half():
    credited = np.repeat([1.0, 0.0], [70, 30])
    effect = measure_rate(Moments.of(credited, np.ones(100)), against=0.5)
    assert effect.value == pytest.approx(0.2)
    assert effect.is_sure(at_end=True)


def test_a_relative_effect_has_the_interval_of_its_logarithm():
    rng = np.random.default_rng(6)
    first, second = (Moments.of(*visits(rng, 20_000, rate=rate)) for rate in (0.10, 0.12))
    value, low, high = relative_effect(first, second)
    assert value == pytest.approx(second.rate / first.rate - 1)
    assert low < 0.2 < high
    assert (1 + value) ** 2 == pytest.approx((1 + low) * (1 + high))
    assert np.isnan(relative_effect(Moments.of([0.0], [1.0]), second)).all()


def test_customers_who_come_back_for_a_year_do_not_make_a_difference_of_nothing():
    # 200 units that are all there on the first day, looked at every hour: no unit is ever added.
    rng = np.random.default_rng(7)
    units, hours, runs = 200, 365 * 24, 400
    eagerness = np.minimum(0.2 * rng.gamma(400.0, 1 / 400.0, units), 1.0)
    is_second = rng.random((runs, units)) < 0.5
    x, y = np.zeros((units, 1)), np.zeros((units, 1))
    sides = is_second.astype(float), (~is_second).astype(float)
    by_searches, by_units = np.zeros(runs, bool), np.zeros(runs, bool)
    for _ in range(0, hours, 219):
        searches = rng.poisson(0.2, (units, 219))
        x = x[:, -1:] + np.cumsum(rng.binomial(searches, eagerness[:, None]), axis=1)
        y = y[:, -1:] + np.cumsum(searches, axis=1)
        parts = np.concatenate([y > 0, x, y, x**2, x * y, y**2], axis=1)
        second, first = (Moments(*np.split(side @ parts, 6, axis=1)) for side in sides)
        error = np.sqrt(first.variance + second.variance)
        distance = np.abs(second.rate - first.rate) / error
        distance[:, x.sum(axis=0) < 20] = 0.0
        total = y.sum(axis=0)
        by_searches |= (distance > always_valid_width(total, planned=4_000)).any(axis=1)
        by_units |= (distance > always_valid_width(units, planned=units)).any(axis=1)
    assert by_searches.mean() <= 0.06
    assert by_units.mean() > 0.06  # a clock that stands still lets chance pass


def test_the_interval_grows_when_the_same_units_come_back():
    x, y = np.tile([0.0, 1.0], 50), np.ones(100)
    few, many = Moments.of(x, y), Moments.of(1_000 * x, 1_000 * y)
    widths = []
    for moments in (few, many):
        effect = compare_rates(moments, moments, planned=200)
        widths.append((effect.always_high - effect.always_low) / (effect.high - effect.low))
    assert widths[1] > 1.2 * widths[0]


def test_values_that_are_all_the_same_do_not_tell_how_precise_they_are():
    same = Moments.of(np.ones(2), np.ones(2))
    for effect in (measure_rate(same, against=0.5), compare_rates(same, same)):
        assert math.isnan(effect.low)
        assert not effect.is_sure()
        assert not effect.is_sure(at_end=True)
    value, low, high = relative_effect(same, same)
    assert value == 0
    assert math.isnan(low)
    assert math.isnan(high)
