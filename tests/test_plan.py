"""A plan says what a training will take."""

from dataclasses import replace
from datetime import datetime

import pytest

import matchset as ms
from matchset.cli.console import describe_step, format_seconds
from matchset.cli.plan import show_plan
from matchset.learn.cost import Sizes, estimate, plan_training
from matchset.learn.train import Progress

SIZES = Sizes(
    products=12_000,
    queries=18_209,
    pairs=50_531,
    query_entries=462_648,
    title_entries=788_796,
    features=76_259,
)
ALL = ("tree", "towers", "lexical", "neighbors")


def seconds(sizes=SIZES, *, threads=2, n_held=3_000, **settings):
    config = ms.TrainConfig(**{"parts": ALL, **settings})
    return estimate(sizes, config, threads=threads, n_held=n_held)


@pytest.fixture(scope="module")
def shop():
    return ms.simulate_shop(products=300, seed=1)


def test_every_part_that_is_trained_has_a_cost():
    assert list(seconds()) == ["features", *ALL, "tuning"]
    assert list(seconds(tune=False)) == ["features", *ALL]
    assert list(seconds(parts=("tree",))) == ["features", "tree alone"]
    without_titles = replace(SIZES, title_entries=0)
    assert list(seconds(without_titles, tune=False)) == ["features", "tree alone", "neighbors"]


def test_tuning_trains_every_part_twice():
    once, twice = seconds(tune=False), seconds()
    for part, cost in once.items():
        assert twice[part].seconds == pytest.approx(2 * cost.seconds)
        assert twice[part].disk == cost.disk


def test_threads_shorten_what_they_share():
    one, four = (sum(cost.seconds for cost in seconds(threads=n).values()) for n in (1, 4))
    assert one / 4 < four < one


def test_more_data_costs_more():
    double = replace(SIZES, pairs=2 * SIZES.pairs, query_entries=2 * SIZES.query_entries)
    for part in ("features", "tree", "towers", "neighbors"):
        assert seconds(double)[part].seconds > seconds()[part].seconds


def test_a_plan_counts_what_training_counts_and_knows_the_size_of_the_model(shop, tmp_path):
    config = ms.TrainConfig(parts=("tree",))
    plan = plan_training(shop.log, shop.catalog, config)
    matcher = ms.train(shop.log, shop.catalog, config, out=tmp_path / "model")
    summary = matcher.summary
    assert plan.sizes.pairs == summary.pairs
    assert plan.sizes.queries == summary.queries
    assert plan.sizes.products == summary.products
    assert plan.sizes.features == summary.features
    size = sum(file.stat().st_size for file in (tmp_path / "model").rglob("*") if file.is_file())
    assert size / 2 < plan.disk < 2 * size
    assert plan.memory >= plan.used_memory


def test_a_plan_is_printed_by_part(shop, capsys):
    plan = plan_training(shop.log, shop.catalog, ms.TrainConfig(parts=ALL))
    show_plan(plan)
    said = capsys.readouterr().out
    for name in (*plan.parts, "all", "memory", "300 products"):
        assert name in said
    times = [format_seconds(time) for time in (1.26, 600, 9000)]
    assert times == ["1.3 s", "10 min", "2.5 h"]


def test_progress_tells_what_is_left_of_the_whole_training(shop):
    config = ms.TrainConfig(parts=("tree", "neighbors"))
    steps = []
    ms.train(shop.log, shop.catalog, config, progress=steps.append)
    known = [step.seconds_left for step in steps if step.seconds_left is not None]
    assert len(known) == len(steps) - 1  # all but reading
    assert known[0] > known[-1] == 0
    now = datetime(2026, 1, 31, 23, 50)
    step = Progress("solve", 3, 40, is_tuning=True, seconds_left=900)
    said = "solving (to weigh the parts), 3 of 40; 15 min left, until Sun 00:05"
    assert describe_step(step, now) == said
    assert describe_step(Progress("read", 1, 1), now) == "reading"
