"""Shadow mode counts what each match set would have held, as plain loops count it."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import matchset as ms
from matchset.baselines import RecordedRun
from matchset.config import LearnConfig
from matchset.data.arrow import NO_DAY
from matchset.data.log_reader import read_log
from matchset.errors import DataError
from matchset.online.session_rows import read_session_rows
from matchset.online.shadow import measure_shadow

QUERIES = [f"query {n}" for n in range(12)]
PRODUCTS = [f"p{n}" for n in range(30)]


def make_run(seed, *, queries=QUERIES, size=10):
    rng = np.random.default_rng(seed)
    answers = {query: [PRODUCTS[n] for n in rng.permutation(30)[:size]] for query in queries}
    rows = [(q, p, rank) for q, ids in answers.items() for rank, p in enumerate(ids, 1)]
    asked, products, ranks = zip(*rows, strict=True)
    run = RecordedRun.of(ms.Matches.of(asked, products, ranks=ranks))
    return run, answers


def make_rows(*, users=60, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(users):
        for session in range(int(rng.integers(1, 3))):
            seconds = np.sort(rng.integers(0, 3600, 4))
            for second in seconds.tolist():
                when = f"2026-03-{1 + session:02}T10:{second // 60:02}:{second % 60:02}Z"
                event = ("impression", "click", "purchase")[int(rng.integers(3))]
                query = QUERIES[int(rng.integers(12))]
                product = PRODUCTS[int(rng.integers(30))]
                rows.append((f"u{user}", f"s{user}-{session}", query, product, event, when))
    names = ["user_id", "session_id", "query", "product_id", "event", "timestamp"]
    return pl.DataFrame(rows, schema=names, orient="row")


def shares(rows, hold):
    """Only ours, only theirs and both, as shares of rows."""
    held = [hold(row) for row in rows]
    n = len(held)
    return (
        sum(a and not b for a, b in held) / n,
        sum(b and not a for a, b in held) / n,
        sum(a and b for a, b in held) / n,
    )


def test_purchases_are_held_as_a_plain_loop_counts_them():
    frame = make_rows()
    (ours, mine), (theirs, others) = make_run(1), make_run(2)
    found = measure_shadow(read_session_rows(frame), ours, theirs, k=5)
    rows = frame.rows(named=True)
    bought = [row for row in rows if row["event"] == "purchase"]

    def holds(row):
        return tuple(row["product_id"] in each[row["query"]][:5] for each in (mine, others))

    total = found.direct[0]
    assert (total.segment, total.purchases) == ("all", len(bought))
    got = total.only_ours.value, total.only_theirs.value, total.both.value
    assert got == pytest.approx(shares(bought, holds))
    assert total.gain.value == pytest.approx(got[0] - got[1])
    assert total.only_ours.low < got[0] < total.only_ours.high

    def earlier(row):
        same = [r for r in rows if r["session_id"] == row["session_id"]]
        first = {}
        for r in same:
            first[r["query"]] = min(first.get(r["query"], "z"), r["timestamp"])
        return [q for q, t in first.items() if q != row["query"] and t <= row["timestamp"]]

    after = [row for row in bought if earlier(row)]
    got = found.later.only_ours.value, found.later.only_theirs.value, found.later.both.value
    assert found.later.purchases == len(after)
    assert got == pytest.approx(shares(after, lambda row: tuple(
        any(row["product_id"] in each[q][:5] for q in earlier(row)) for each in (mine, others)
    )))  # fmt: skip


def test_intervals_are_clustered_by_user():
    # One user who buys a lot says less than as many users who buy once.
    (ours, mine), (theirs, _) = make_run(1), make_run(2)
    good, bad = mine["query 0"][0], next(p for p in PRODUCTS if p not in mine["query 0"])
    many = [
        (f"u{n}", "query 0", good if n % 2 else bad, "purchase", "2026-03-01") for n in range(80)
    ]
    few = [(f"u{n % 8 % 2}{n % 4}", *row[1:]) for n, row in enumerate(many)]
    names = ["user_id", "query", "product_id", "event", "timestamp"]
    widths = []
    for rows in (many, few):
        read = read_session_rows(pl.DataFrame(rows, schema=names, orient="row"))
        share = measure_shadow(read, ours, theirs).direct[0].gain
        widths.append(share.high - share.low)
    assert widths[1] > 2 * widths[0]


def test_a_log_without_customers_is_clustered_by_query_and_knows_no_later_purchases():
    frame = make_rows().drop("user_id", "session_id")
    (ours, _), (theirs, _) = make_run(1), make_run(2)
    found = measure_shadow(read_log(frame), ours, theirs)
    assert found.unit_kind == "query"
    assert found.later is None


def test_queries_that_a_run_did_not_record_are_left_out_and_counted():
    frame = make_rows()
    (ours, _), (theirs, _) = make_run(1), make_run(2, queries=QUERIES[:6])
    found = measure_shadow(read_session_rows(frame), ours, theirs)
    bought = frame.filter(pl.col("event") == "purchase")
    known = bought.filter(pl.col("query").is_in(QUERIES[:6]))
    assert found.direct[0].purchases == len(known)
    assert found.unanswered == len(bought) - len(known)


def test_a_run_with_fewer_queries_is_not_worse_after_another_query():
    frame = make_rows(users=200)
    (ours, _), (theirs, _) = make_run(1), make_run(1)
    half = RecordedRun.of(theirs.match(QUERIES[:6], 10))
    for pair in ((ours, half), (half, ours)):
        later = measure_shadow(read_session_rows(frame), *pair).later
        assert later.both.value > 0
        assert later.only_ours.value == later.only_theirs.value == later.gain.value == 0
    whole = measure_shadow(read_session_rows(frame), ours, theirs).later
    assert 0 < later.purchases < whole.purchases


def test_a_run_that_answers_nothing_that_was_bought_is_refused():
    frame = make_rows()
    (ours, _), (theirs, _) = make_run(1), make_run(2, queries=["another query"])
    n = len(frame.filter(pl.col("event") == "purchase"))
    with pytest.raises(DataError, match=f"got answers to none of {n} purchases") as caught:
        measure_shadow(read_session_rows(frame), ours, theirs)
    assert caught.value.parameter == "theirs"


def test_without_times_nobody_knows_what_came_after_another_query():
    (ours, _), (theirs, _) = make_run(1), make_run(2)
    found = measure_shadow(read_session_rows(make_rows().drop("timestamp")), ours, theirs)
    assert found.later is None
    assert found.unit_kind == "user"


def test_a_sample_takes_whole_users():
    frame = make_rows(users=400)
    (ours, _), (theirs, _) = make_run(1), make_run(2)
    rows = read_session_rows(frame)
    whole = measure_shadow(rows, ours, theirs).direct[0]
    part = measure_shadow(rows, ours, theirs, sample=200).direct[0]
    assert 120 < part.purchases < 280
    assert part.only_ours.low < whole.only_ours.value < part.only_ours.high


def test_without_purchases_clicks_count():
    frame = make_rows().filter(pl.col("event") != "purchase")
    (ours, _), (theirs, _) = make_run(1), make_run(2)
    assert measure_shadow(read_session_rows(frame), ours, theirs).what == "clicks"
    seen = frame.filter(pl.col("event") == "impression")
    with pytest.raises(DataError):
        measure_shadow(read_session_rows(seen), ours, theirs)


def test_a_log_that_is_not_later_than_the_training_is_told(call, tmp_path):
    split = ms.split_by_time(ms.lab.simulate_shop(products=100, days=20, seed=1).log, test_days=5)
    settings = ms.TrainConfig(parts=("tree",), learn=LearnConfig(branching=4))
    ms.train(split.train, config=settings, out=tmp_path / "ours")
    ms.train(replace(split.train, day=split.train.day * 0 + NO_DAY), None, settings).save(
        tmp_path / "undated"
    )
    said = {}
    for name, log in (("before", split.train), ("after", split.test)):
        log.save(tmp_path / f"{name}.parquet")
        for ours in ("ours", "undated"):
            files = "--ours", tmp_path / ours, "--theirs", tmp_path / "ours", "-k", 5
            code, _, said[name, ours] = call("shadow", tmp_path / f"{name}.parquet", *files)
            assert code == 0
    last = split.train.days[1]
    assert f"--ours was trained on days up to {last}, but the log begins" in said["before", "ours"]
    assert not said["after", "ours"]
    assert "--ours must be trained on days before the log" in said["after", "undated"]


def test_events_of_any_name_are_counted_if_they_are_named(call, tmp_path):
    names = {"impression": "Anzeige", "click": "Klick", "purchase": "Kauf"}
    frame = make_rows().with_columns(pl.col("event").replace(names))
    frame.write_parquet(tmp_path / "log.parquet")
    for number in (1, 2):
        make_run(number)[0].save(tmp_path / str(number))
    options = tmp_path / "log.parquet", "--ours", tmp_path / "1", "--theirs", tmp_path / "2"
    code, _, error = call("shadow", *options)
    assert code == 1
    assert "such as --events.Kauf 1" in error  # not what was merely shown
    code, said, error = call("shadow", *options, "--events.Kauf", 1)
    assert code == 0, error
    n = len(frame.filter(pl.col("event") == "Kauf"))
    assert said.startswith(f"Of {n} events, ours would have held")


def test_what_nobody_disputes_is_no_option_of_a_plan(call, tmp_path):
    make_rows().write_parquet(tmp_path / "log.parquet")
    make_run(1)[0].save(tmp_path / "run")
    files = "--ours", tmp_path / "run", "--theirs", tmp_path / "run"
    code, said, _ = call("shadow", tmp_path / "log.parquet", *files)
    assert code == 0
    assert "--disputed" not in said
    assert "interleaving could not decide" in said


def test_shadow_is_a_command(call, tmp_path):
    make_rows().write_parquet(tmp_path / "log.parquet")
    make_run(1)[0].save(tmp_path / "ours")
    rows = [(q, p, r) for q, ids in make_run(2)[1].items() for r, p in enumerate(ids, 1)]
    names = ["query", "product_id", "rank"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv(tmp_path / "theirs.csv")
    options = "--ours", tmp_path / "ours", "--theirs", tmp_path / "theirs.csv", "-k", 5
    code, said, error = call("shadow", tmp_path / "log.parquet", *options)
    assert code == 0, error
    assert "a lower bound of what ours would add" in said
    assert "that came after another query, an earlier query would have held" in said.split("\n")[0]
    assert "after another query" in said
    assert "clustered by user" in said
    code, said, _ = call("shadow", tmp_path / "log.parquet", *options, "--form", "json")
    assert json.loads(said)["direct"][0]["segment"] == "all"
    make_rows().drop("user_id", "session_id").write_parquet(tmp_path / "plain.parquet")
    code, said, _ = call("shadow", tmp_path / "plain.parquet", *options)
    assert code == 0
    assert "The log has no users or sessions" in said
