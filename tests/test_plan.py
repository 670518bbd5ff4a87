"""A plan says what a training will take, by training on samples of its log."""

import re

import pytest

import matchset as ms
from matchset.cli.console import describe_step, format_seconds
from matchset.learn.plan_training import Cost, extend, plan_training
from matchset.work.steps import Progress


@pytest.fixture(scope="module")
def shop():
    return ms.lab.simulate_shop(products=300, seed=1)


def test_a_plan_measures_two_samples_and_counts_all_pairs(shop):
    config = ms.TrainConfig(parts=("tree", "neighbors"), tune=False)
    whole, (few, many) = plan_training(shop.log, shop.catalog, config)
    trained = ms.train(shop.log, shop.catalog, config)
    assert 0 < few.pairs < many.pairs < whole.pairs == trained.summary.pairs
    assert trained.summary.n_bytes / 3 < whole.model < 3 * trained.summary.n_bytes
    assert 0 < many.seconds <= whole.seconds
    assert many.memory <= whole.memory


def test_costs_are_extended_along_a_line_and_never_fall():
    few, many = Cost(100, 1.0, 5000, 10), Cost(300, 2.0, 4000, 50)
    assert extend(few, many, 500) == Cost(500, 3.0, 4000, 90)
    assert extend(many, many, 500) == Cost(500, 2.0, 4000, 50)


def test_the_command_says_what_was_measured_and_what_not(shop, tmp_path, call):
    shop.save(tmp_path)
    files = [tmp_path / "log.parquet", "--catalog", tmp_path / "products.parquet"]
    settings = tmp_path / "settings.toml"
    settings.write_text("tune = false\n")
    code, said, wrong = call(
        "plan", *files, "--parts", "neighbors", "--config", settings, "--memory", "60MB"
    )
    assert code == 0, wrong
    assert len(re.findall(r"^[\d,]+ .* MB *$", said, re.MULTILINE)) == 3
    assert "the last line is an estimate" in said
    assert "temporary files: " in said


def test_steps_and_times_are_said_in_words():
    times = [format_seconds(time) for time in (1.26, 600, 9000)]
    assert times == ["1.3 s", "10 min", "2.5 h"]
    said = "solve (to weigh the parts), 3 of 40"
    assert describe_step(Progress("solve", 3, 40, is_tuning=True)) == said
    assert describe_step(Progress("read", 1, 1)) == "read"
