"""A plan says what a training will take."""

from dataclasses import replace
from datetime import datetime

import pytest

import matchset as ms
from matchset.cli.console import describe_step, format_seconds
from matchset.cli.plan import check_choices, show_plan, show_projection
from matchset.errors import ParameterError
from matchset.learn.cost import Cost, estimate, plan_training
from matchset.learn.projection import PAPER, StagePlan, Step, plan_stages, project
from matchset.learn.sizes import Sizes
from matchset.learn.train_tree import Progress

SIZES = Sizes(
    products=12_000,
    queries=18_209,
    pairs=50_531,
    query_entries=462_648,
    title_entries=788_796,
    features=76_259,
)
ALL = ("tree", "towers", "lexical", "neighbors")


def costs(sizes=SIZES, *, n_held=3_000, **settings):
    return estimate(sizes, ms.TrainConfig(**{"parts": ALL, **settings}), n_held)


@pytest.fixture(scope="module")
def shop():
    return ms.lab.simulate_shop(products=300, seed=1)


def test_every_part_that_is_trained_has_a_cost():
    assert list(costs()) == ["features", *ALL, "tuning"]
    assert list(costs(tune=False)) == ["features", *ALL]
    assert list(costs(parts=("tree",))) == ["features", "tree"]
    without_titles = replace(SIZES, title_entries=0)
    assert list(costs(without_titles, tune=False)) == ["features", "tree", "neighbors"]


def test_a_tree_that_learns_from_titles_too_costs_more():
    beside, alone = costs(tune=False)["tree"], costs(parts=("tree",))["tree"]
    assert alone.seconds(2) > 1.5 * beside.seconds(2)


def test_tuning_trains_every_part_twice():
    once, twice = costs(tune=False), costs()
    for part, cost in once.items():
        assert twice[part].seconds(2) == pytest.approx(2 * cost.seconds(2))
        assert twice[part].disk == cost.disk


def test_threads_shorten_what_they_share():
    one, four = (sum(cost.seconds(n) for cost in costs().values()) for n in (1, 4))
    assert one / 4 < four < one


def test_more_data_costs_more():
    double = replace(SIZES, pairs=2 * SIZES.pairs, query_entries=2 * SIZES.query_entries)
    for part in ("features", "tree", "towers", "neighbors"):
        assert costs(double)[part].seconds(2) > costs()[part].seconds(2)


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
    show_plan(plan, 10**12)
    said = capsys.readouterr().out
    for name in (*plan.parts, "all", "memory", "300 products"):
        assert name in said
    assert "temporary files" not in said
    show_plan(plan, 1000)
    said = capsys.readouterr().out
    assert "memory: 0.00 GB at most" in said
    assert f"temporary files: {plan.memory / 1e9:.2f} GB, for what exceeds --memory" in said
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


def test_titles_are_indexed_after_the_data_are_made_even_without_towers():
    config = ms.TrainConfig(parts=("lexical",), tune=False)
    stages = plan_stages(PAPER, config)
    alone = {stage.name: project([stage], 64) for stage in stages}
    assert project(stages, 64) == pytest.approx(alone["data"] + alone["lexical"])


def test_a_projection_lists_every_stage_and_more_cores_are_faster(capsys):
    config = ms.TrainConfig()
    stages = plan_stages(PAPER, config)
    assert [stage.name for stage in stages][-1] == "reranker"
    single = {stage.name for stage in stages if stage.n_tasks <= 2}
    assert single == {"levels", "fit", "neighbors", "lexical", "reranker"}
    assert next(stage.n_tasks for stage in stages if stage.name == "solve") > 1000
    spent = sum(stage.seconds for stage in stages)
    times = {cores: project(stages, cores) for cores in (1, 16, 64, 256, 1024)}
    assert list(times.values()) == sorted(times.values(), reverse=True)
    assert times[1] == pytest.approx(spent)
    assert all(1.001 * time >= spent / cores for cores, time in times.items())
    show_projection(PAPER, stages, (64,), 0.05)
    said = capsys.readouterr().out
    for part in ("100,000,000 products", "solve", f"{spent / 3600:.1f} h", "64 cores: "):
        assert part in said


def test_a_small_training_has_one_task_for_each_stage_but_solve():
    stages = plan_stages(SIZES, ms.TrainConfig(tune=False))
    assert all(stage.n_tasks == 1 for stage in stages if stage.name != "solve")


def test_steps_share_the_machines_and_wait_for_what_they_need():
    wide = Step(3, 3.0, 48.0, 1e9)  # of 1 s alone and 16 s shared: 2 s each on 16 cores
    narrow = Step(32, 0.0, 64.0, 1e9, is_wide=False, longest=3.0)  # 16 at once, for 2 s
    stages = [
        StagePlan("data", 1, Cost(3.0, 48.0), (wide,)),
        StagePlan("neighbors", 1, Cost(1.0), (Step(1, 1.0, 0.0, 1e9, is_wide=False),)),
        StagePlan("fit", 1, Cost(0.0, 64.0), (narrow,)),
    ]
    second = 61 / 31  # seconds of the tasks that run after the longest
    assert project(stages, 16) == pytest.approx(3 * 2 + 1 + 3 + second)
    assert project(stages, 32) == pytest.approx(2 * 2 + 3)
    assert project(stages, 1024) == pytest.approx(2 + 3)
    assert project(stages, 1) == pytest.approx(51 + 1 + 64)


def test_a_price_is_that_of_all_cores_for_the_whole_time(capsys):
    stages = plan_stages(PAPER, ms.TrainConfig())
    show_projection(PAPER, stages, (16, 1024), 0.05)
    said = capsys.readouterr()
    for cores in (16, 1024):
        paid = cores * project(stages, cores) / 3600
        assert f"{paid:,.1f} core hours, price {0.05 * paid:,.2f}" in said.out
    assert "including idle ones" in said.out


def test_a_task_that_no_usual_machine_holds_is_told(capsys):
    small = PAPER.scale(1_000_000, most_features=10**7)
    show_projection(small, plan_stages(small, ms.TrainConfig()), (16,), None)
    assert not capsys.readouterr().err
    steps = (Step(1, 1.0, 1.0, 300e9),)
    stages = [replace(stage, steps=steps) for stage in plan_stages(small, ms.TrainConfig())]
    show_projection(small, stages, (16,), None)
    assert "needs 300 GB: more than machines of 16 cores usually have" in capsys.readouterr().err


def test_a_shop_is_scaled_with_all_that_it_has():
    double = SIZES.scale(24_000, most_features=100_000)
    assert (double.products, double.pairs) == (24_000, 2 * SIZES.pairs)
    assert double.features == 100_000
    assert SIZES.scale(12_000, most_features=10**9) == SIZES


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ((None, None, ()), "products must be given without a log; got neither"),
        ((None, 0, ()), "products must be at least 1; got 0"),
        ((None, 5, (16, 0)), "cores must be at least 1; got 0"),
    ],
)
def test_what_cannot_be_planned_is_refused(given, rule):
    with pytest.raises(ParameterError, match=rule):
        check_choices(*given)


def test_fewer_past_queries_make_a_smaller_plan():
    few, many = (
        {stage.name: stage for stage in plan_stages(PAPER, ms.TrainConfig(max_past_queries=n))}
        for n in (1000, 2_000_000)
    )
    assert few["neighbors"].memory < many["neighbors"].memory / 100
    assert few["lexical"] == many["lexical"]
