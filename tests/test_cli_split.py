"""`matchset split` writes the two sides of a log as files."""

import pytest
from command_line import run

import matchset as ms
from matchset.data.split import SplitOptions

ROWS = [
    ("red shoe", "p1", "purchase", "2026-01-01"),
    ("hat", "p2", "purchase", "2026-02-01"),
    ("cap", "p3", "click", "2026-02-10"),
    ("sock", "p4", "purchase", "2026-03-01"),
    ("red shoe", "p5", "purchase", "2026-03-02"),
]


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "log.csv"
    lines = ["query,product_id,event,date", *map(",".join, ROWS)]
    file.write_text("\n".join(lines) + "\n")
    return file


def read(folder):
    return [ms.read_log(str(folder / f"{side}.parquet")) for side in ("train", "test")]


@pytest.mark.parametrize(
    "options", [["--test-days", 2], ["--test-from", "2026-03-01"], ["--by", "time"]]
)
def test_a_log_is_split_by_time(log, tmp_path, options):
    said = run("split", log, "-o", tmp_path / "sides", *options)
    assert "Recall@100 is at most" in said
    train, test = read(tmp_path / "sides")
    days = 30 if options[0] == "--by" else 2
    wanted = ms.split_by_time(ms.read_log(str(log)), test_days=days)
    for ours, theirs in zip((train, test), wanted, strict=True):
        assert list(ours.queries) == list(theirs.queries)
        assert list(ours.products) == list(theirs.products)
        assert ours.days == theirs.days
        assert ours.count.tolist() == theirs.count.tolist()


def test_a_log_is_split_by_query(log, tmp_path):
    run("split", log, "-o", tmp_path, "--by", "query", "--test-share", 0.5, "--seed", 3)
    train, test = read(tmp_path)
    assert len(train.queries) == len(test.queries) == 2
    assert not set(train.queries) & set(test.queries)


def test_a_log_without_times_is_split_by_query(log, tmp_path):
    log.write_text("query,product_id\n" + "".join(f"q{i},p{i}\n" for i in range(10)))
    run("split", log, "-o", tmp_path)
    train, test = read(tmp_path)
    assert (len(train.queries), len(test.queries)) == (8, 2)
    compared = SplitOptions(split="query").divide(ms.read_log(str(log)), seed=0)
    assert list(test.queries) == list(compared.test.queries)  # as `matchset compare` does


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "query", "--test-days", 3], "a split by query takes no days; got --test-days 3"),
        (["--test-share", 0.1, "--test-from", "2026-03-01"], "got --test-from 2026-03-01"),
        (["--by", "time", "--test-share", 0.1], "--test-share is for a split by query; got 0.1"),
        (["--test-share", 1.5], "--test-share must be between 0 and 1; got 1.5"),
        (["--test-share", 0.01], "a split must leave queries on both sides; got 0.01 of 4 queries"),
        (["--test-days", 99], "a split must leave rows on both sides; got 99 days"),
        (["--test-days", 2, "--test-from", "2026-03-01"], "either test_from or test_days"),
    ],
)
def test_options_that_do_not_fit_are_refused(log, tmp_path, options, message):
    assert message in run("split", log, "-o", tmp_path / "sides", *options, ok=False)
    assert not (tmp_path / "sides").exists()


def test_files_that_are_there_are_replaced_only_when_told(log, tmp_path):
    run("split", log, "-o", tmp_path)
    assert "test.parquet" in run("split", log, "-o", tmp_path, "--overwrite")
    said = run("split", log, "-o", tmp_path, ok=False)
    assert "train.parquet: already exists; --overwrite replaces it" in said


def test_a_log_of_unusual_events_is_split_once_they_have_weights(tmp_path):
    log = tmp_path / "log.csv"
    rows = [f"tisch {n % 4},{n},Kauf,2026-03-0{1 + n % 9}" for n in range(40)]
    log.write_text("\n".join(["query,sku,event,date", *rows]) + "\n")
    options = ("split", log, "-o", tmp_path / "sides", "--test-days", 2)
    assert "--events must say which events make a pair positive" in run(*options, ok=False)
    assert not (tmp_path / "sides").exists()
    assert "test.parquet" in run(*options, "--events.Kauf", 1)
