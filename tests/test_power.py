"""Plans of experiments: as many searches as they say find the effect."""

import numpy as np
import pytest

from matchset.errors import DataError, ParameterError
from matchset.online.intervals import NORMAL, Moments, compare_rates
from matchset.online.power import plan_experiment


def independent(rate, searches):
    """A search per unit."""
    bought = np.zeros(searches)
    bought[: int(rate * searches)] = 1.0
    return Moments.of(bought, np.ones(searches))


def test_a_plan_agrees_with_the_rule_of_thumb_and_with_the_formula_of_two_variances():
    # 16 p (1 - p) / delta^2, and (1.95996 + 0.84162)^2 * (v1 + v2) / delta^2
    plan = plan_experiment(independent(0.03, 1_000_000), effect=0.02)
    assert plan.ab_per_arm == pytest.approx(16 * 0.03 * 0.97 / 0.0006**2, rel=0.03)
    assert plan.ab_per_arm == pytest.approx(7.84888 * (0.03 * 0.97 + 0.0306 * 0.9694) / 0.0006**2)
    assert plan.design_effect == pytest.approx(1.0, rel=1e-3)


def test_a_planned_experiment_finds_the_effect_four_times_out_of_five():
    plan = plan_experiment(independent(0.2, 100_000), effect=0.1)
    rng = np.random.default_rng(0)
    n = int(plan.ab_per_arm)
    found = 0
    for _ in range(500):
        x = [(rng.random(n) < rate).astype(float) for rate in (0.2, 0.22)]
        effect = compare_rates(*(Moments.of(each, np.ones(n)) for each in x))
        found += effect.is_sure(at_end=True)
    assert 0.74 < found / 500 < 0.86


@pytest.mark.parametrize("effect", [0.3, -0.3])
def test_v5_a_plan_knows_that_the_rate_of_the_second_arm_varies_more_or_less(effect):
    rate, other = 0.05, 0.05 * (1 + effect)
    plan = plan_experiment(independent(rate, 100_000), effect=effect)
    n = plan.ab_per_arm  # the chance that a difference of this error is above 1.96 of it
    error = np.sqrt((rate * (1 - rate) + other * (1 - other)) / n)
    assert NORMAL.cdf(abs(other - rate) / error - 1.95996) == pytest.approx(0.8, abs=1e-4)


def test_customers_who_come_back_need_more_searches():
    rng = np.random.default_rng(1)
    y = 1.0 + rng.poisson(5.0, 20_000)
    x = rng.binomial(y.astype(int), rng.beta(0.2, 1.8, len(y))).astype(float)
    plan = plan_experiment(Moments.of(x, y))
    same = plan_experiment(independent(plan.rate, 200_000))
    assert plan.design_effect > 1.3
    assert plan.ab_per_arm == pytest.approx(plan.design_effect * same.ab_per_arm, rel=0.01)
    assert plan.searches_per_unit == pytest.approx(6.0, rel=0.05)


def test_peeking_costs_at_most_twice_the_searches():
    plan = plan_experiment(independent(0.03, 100_000))
    assert 1.5 < plan.ab_per_arm_always / plan.ab_per_arm < 2.0


def test_credits_of_disputed_purchases_find_the_effect_with_the_searches_of_the_plan():
    rate, effect, disputed = 0.2, 0.04, 0.2
    plan = plan_experiment(independent(rate, 100_000), effect=effect, disputed=disputed)
    rng = np.random.default_rng(2)
    n = int(plan.interleaved)
    # Of the purchases, a share is disputed, and the second arm wins more of those.
    to_second = rate * (disputed + effect) / 2
    to_first = rate * (disputed - effect) / 2
    found = 0
    for _ in range(500):
        first, second, _ = rng.multinomial(n, [to_first, to_second, 1 - to_first - to_second])
        difference, error = (second - first) / n, np.sqrt(second + first) / n
        found += abs(difference) > 1.96 * error
    assert 0.74 < found / 500 < 0.86
    assert plan.times_fewer == pytest.approx(4 * (1 - rate) / disputed, rel=0.02)


def test_a_log_without_events_cannot_be_planned_with():
    with pytest.raises(DataError, match="at least two units and one event; got 3 units and 0"):
        plan_experiment(Moments.of(np.zeros(3), np.ones(3)))
    with pytest.raises(ParameterError, match=r"above 0 and at most 1; got 1\.5"):
        plan_experiment(independent(0.1, 100), disputed=1.5)


def test_no_number_of_searches_is_certain_to_find_an_effect():
    with pytest.raises(ParameterError, match=r"must be above 0 and below 1; got 1"):
        plan_experiment(independent(0.1, 100), power=1.0)
    with pytest.raises(ParameterError, match=r"must be a number other than 0; got inf"):
        plan_experiment(independent(0.1, 100), effect=float("inf"))
