"""The commands that plan and read experiments, as a person calls them."""

import re

import numpy as np
import polars as pl
import pytest
from ab_tests import simulate, write


def make_rows(users=2_000, *, seed=0):
    """A log of searches: every one is seen, a third is clicked, a tenth bought."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), rng.integers(1, 4, users))
    day = rng.integers(1, 28, len(user))
    rows = []
    for event, rate in (("impression", 1.0), ("click", 0.3), ("purchase", 0.1)):
        kept = rng.random(len(user)) < rate
        rows.append(
            pl.DataFrame(
                {
                    "user_id": [f"u{n}" for n in user[kept]],
                    "query": [f"words {n % 7}" for n in user[kept]],
                    "product_id": ["p"] * int(kept.sum()),
                    "event": [event] * int(kept.sum()),
                    "timestamp": [f"2026-01-{n:02}T10:00:00Z" for n in day[kept]],
                }
            )
        )
    return pl.concat(rows)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    make_rows().write_parquet(path)
    return path


def test_an_experiment_is_planned_from_the_rates_of_a_log(call, log):
    code, said, error = call("experiment", "plan", log, "--effect", 0.05)
    assert code == 0, error
    assert "of 2,000 users on 27 days" in said
    assert "purchase rate" in said
    assert "+5.0%" in said
    assert re.search(r"A/A test on this log, purchase rate: \d+\.\d% of 1,000 random halves", said)
    assert not error


def test_a_log_without_impressions_cannot_tell_how_many_searches_led_to_nothing(call, tmp_path):
    make_rows().filter(pl.col("event") != "impression").write_csv(tmp_path / "log.csv")
    code, _, error = call("experiment", "plan", tmp_path / "log.csv")
    assert code == 0
    assert "The log has no impressions" in error


def test_a_log_without_customers_is_planned_with_by_its_number_of_searches(call, tmp_path):
    make_rows().drop("user_id").write_csv(tmp_path / "log.csv")
    code, _, error = call("experiment", "plan", tmp_path / "log.csv")
    assert code == 1
    assert "name one with --user COLUMN or --session COLUMN" in error
    code, said, error = call("experiment", "plan", tmp_path / "log.csv", "--searches", 10_000)
    assert code == 0, error
    assert "1.00 times as many searches as independent ones" in said
    code, _, error = call("experiment", "plan", tmp_path / "log.csv", "--searches", 10)
    assert code == 1
    assert "must be at least the number of events" in error


def test_events_of_any_name_are_planned_with_if_they_are_named(call, tmp_path):
    names = {"impression": "Anzeige", "click": "Klick", "purchase": "Kauf"}
    make_rows().with_columns(pl.col("event").replace(names)).write_csv(tmp_path / "log.csv")
    code, _, error = call("experiment", "plan", tmp_path / "log.csv")
    assert code == 1
    assert "a log must hold purchases, carts or clicks to plan with; got" in error
    assert "such as --events.Klick 1" in error  # not what was merely shown
    code, said, error = call("experiment", "plan", tmp_path / "log.csv", "--events.Kauf", 1)
    assert code == 0
    assert not error  # searches that led to nothing are there
    assert "event rate" in said
    usual = tmp_path / "usual.csv"
    make_rows().write_csv(usual)
    plain = call("experiment", "plan", usual, "--events.purchase", 1)[1]
    assert said == plain
    counted = call("experiment", "plan", usual, "--events.click", 1, "--searches", 10_000)[1]
    assert "each search counts as another customer's" in counted


def test_an_effect_that_no_rate_can_have_is_refused(call, log):
    code, _, error = call("experiment", "plan", log, "--effect", 50)
    assert code == 1
    assert "--effect must give a rate between 0 and 1" in error
    assert "got 50, which is +5,000% (0.05 means 5 %)" in error


def test_a_plan_says_what_to_read_it_with(call, log):
    _, said, _ = call("experiment", "plan", log)
    ab = r"A/B --planned (\d+) \(([\d,]+) customers\)"
    found = re.search(ab + r", interleaving --planned (\d+)", said)
    planned, customers, interleaved = (int(each.replace(",", "")) for each in found.groups())
    assert planned > customers > 0
    assert planned > interleaved > 0


def test_a_log_without_times_gives_no_days(call, tmp_path):
    make_rows().drop("timestamp").write_csv(tmp_path / "log.csv")
    code, said, error = call("experiment", "plan", tmp_path / "log.csv")
    assert code == 0, error
    assert "searches of 2,000 users\n" in said
    assert "days" not in said


def test_an_experiment_is_read_and_reported(call, tmp_path):
    records = simulate((0.1, 0.2), units=800)
    path = write(tmp_path / "records.jsonl", records)
    file = tmp_path / "experiment.toml"
    file.write_text(
        'name = "shoes"\nsalt = "pepper"\n'
        '[[arms]]\nname = "old"\nmatcher = "bm25"\n[[arms]]\nname = "new"\nmatcher = "match_set"\n'
    )
    options = ["--experiment", file, "--planned", 800]
    code, said, error = call("experiment", "read", path, *options)
    assert code == 0, error
    assert said.startswith("Yes: new sells more than old.\n")
    assert "revenue per search" in said
    assert re.search(r"difference is \+[0-9.]+ to \+[0-9.]+ percentage points at any time", said)


def test_a_reading_of_nothing_is_one_sentence(call, tmp_path):
    code, _, error = call("experiment", "read", tmp_path / "none.jsonl")
    assert code == 1
    assert "none.jsonl" in error
    code, _, error = call("experiment", "read", __file__)
    assert code == 1
    assert error.count("\n") == 1
