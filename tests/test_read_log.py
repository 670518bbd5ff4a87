"""Logs of every format read alike, and are saved and read back."""

import datetime as dt
import subprocess
import sys
from collections import defaultdict

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from logs import DAY_NUMBER, ROWS, one_value, rows_of, write_rows

from matchset.data.arrow import NO_DAY
from matchset.data.log_reader import read_log
from matchset.errors import DataError
from matchset.strings import Strings
from matchset.text import normalize_strings

FORMATS = [
    "log.parquet", "log.csv", "log.tsv", "log.jsonl", "log.ndjson", "log.json", "log.csv.gz",
    "log.tsv.gz", "log.jsonl.gz",
]  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_log(tmp_path, name):
    log = read_log(write_rows(tmp_path / name))
    assert rows_of(log) == {
        ("red shoes", "00123", "click", DAY_NUMBER): 2,
        (
            normalize_strings(Strings.of([ROWS[2]["query"]]))[0],
            "b,1",
            "purchase",
            DAY_NUMBER + 1,
        ): 1,
        (normalize_strings(Strings.of([ROWS[3]["query"]]))[0], "7", "click", DAY_NUMBER + 1): 1,
    }
    assert log.report.rows == 4
    assert log.report.is_clean


def test_every_frame_gives_the_same_log(tmp_path):
    table = pa.Table.from_pylist(ROWS)
    expected = read_log(write_rows(tmp_path / "log.parquet"))
    con = duckdb.connect()
    con.register("rows", table)
    for frame in (
        table,
        table.to_reader(),
        pd.DataFrame(ROWS),
        pl.DataFrame(ROWS),
        pl.DataFrame(ROWS).with_columns(pl.col("query").cast(pl.Categorical)),
        con.sql("SELECT * FROM rows"),
        expected,
    ):
        assert read_log(frame) == expected
        assert not hasattr(frame, "to_reader") or read_log(frame, strict=True) == expected


def test_globs_folders_and_lists_are_read_together(tmp_path):
    folder = tmp_path / "log"
    (folder / "day=2").mkdir(parents=True)
    for number, row in enumerate(ROWS):
        write_rows(folder / ("day=2" if number % 2 else ".") / f"part{number}.parquet", [row])
    (folder / "_SUCCESS").touch()
    (folder / ".part.crc").touch()
    expected = read_log(write_rows(tmp_path / "all.csv"))
    assert read_log(folder) == expected
    assert read_log(str(folder / "**" / "*.parquet")) == expected
    assert read_log([folder, *sorted(folder.glob("*.parquet"))]) == expected  # each file once
    assert read_log([tmp_path / "all.csv", write_rows(tmp_path / "more.jsonl")]).count.sum() == 8


def test_folders_named_key_value_are_columns(tmp_path):
    for day in ("2026-01-02", "2026-01-03"):
        (tmp_path / "log" / f"date={day}").mkdir(parents=True)
        rows = [
            {key: row[key] for key in ("query", "product_id", "event")}
            for row in ROWS
            if row["date"] == day
        ]
        write_rows(tmp_path / "log" / f"date={day}" / "part.parquet", rows)
    expected = read_log(write_rows(tmp_path / "all.csv"))
    assert read_log(tmp_path / "log") == expected
    assert read_log(str(tmp_path / "log" / "*" / "*.parquet")) == expected


@pytest.mark.parametrize(
    "name", ["it's.csv", "a[1]*?.csv", 'say "x".tsv', "back\\slash.jsonl", "'; DROP.parquet"]
)
def test_any_file_name_is_safe(tmp_path, name):
    (tmp_path / "a1xx.csv").write_text("query,product_id\nwrong,1\n")
    expected = read_log(write_rows(tmp_path / "plain.csv"))
    assert read_log(write_rows(tmp_path / name)) == expected
    assert read_log([write_rows(tmp_path / name)], strict=True) == expected


def test_any_column_name_is_safe(tmp_path):
    names = {"query": 'q"; DROP TABLE x; --', "product_id": "it's", "event": "a b", "date": "ünï"}
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        rows = [{names[key]: value for key, value in row.items()} for row in ROWS[:2]]
        path = write_rows(tmp_path / f"log.{ending}", rows)
        if ending == "csv":
            assert path.read_text().startswith('"q""; DROP')
        log = read_log(path, query=names["query"], product="it's", event="a b", timestamp="ünï")
        assert rows_of(log) == {("red shoes", "00123", "click", DAY_NUMBER): 2}


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ("search_term sku action ts clicks", True),
        ("Q ASIN Event_Type TIME Quantity", True),
        ("keywords item_id event timestamp count", True),
        ("query_text product_id other", True),
    ],
)
def test_columns_are_found_by_their_usual_names(columns, found):
    values = ["shoe", "p1", "click", "2026-01-02", "3"]
    table = pa.table({name: [value] for name, value in zip(columns.split(), values, strict=False)})
    log = read_log(table)
    assert list(log.queries) == ["shoe"]
    assert log.count.tolist() == [3.0 if len(columns.split()) == 5 else 1.0]


def test_missing_and_ambiguous_columns_list_what_there_is(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("words,product_id,sku\nred,1,2\n")
    with pytest.raises(
        DataError,
        match=r".*log.csv: query= must name a column, as none is called query, search_term, q, "
        r"keywords, query_text; there are the columns 'words', 'product_id', 'sku'",
    ):
        read_log(path)
    with pytest.raises(
        DataError, match=r"product= must say which column to take, 'product_id' or 'sku'; there"
    ):
        read_log(path, query="words")
    with pytest.raises(DataError, match=r".*log.csv: event= must name a column; got 'action'"):
        read_log(path, query="words", product="sku", event="action")
    with pytest.raises(DataError, match="product= must name a column; got False"):
        read_log(path, query="words", product=False)


def test_false_leaves_a_column_out():
    table = pa.table(
        {"query": ["a", "a"], "sku": ["x", "x"], "event": ["click", "buy"], "count": [5, 7]}
    )
    log = read_log(table, event=False, count=False)
    assert rows_of(log) == {("a", "x", "", int(NO_DAY)): 2}


def test_a_small_memory_is_enough_or_says_so(tmp_path):
    n = 300_000
    table = pa.table(
        {
            "query": [f"query number {i}" for i in range(n)],
            "sku": [f"product {i}" for i in range(n)],
        }
    )
    assert len(read_log(table, memory="16MB")) == n
    with pytest.raises(
        ValueError, match="memory must be a size such as 4GB, or a number of bytes; got 'much'"
    ):
        read_log(table, memory="much")


words = st.sampled_from(["red", "Red", " red ", "RED shoe", "red  shoe", "blue", "", "?", None])
log_rows = st.lists(
    st.tuples(
        words,
        st.sampled_from(["1", "01", "2", None]),
        st.sampled_from(["click", "buy", None]),
        st.sampled_from(["2026-01-02", "2026-01-03T05:00:00Z", "soon"]),
        st.integers(0, 3),
    ),
    max_size=30,
)


def grouped_in_python(rows):
    groups = defaultdict(float)
    for query, product, event, day, count in rows:
        normal = normalize_strings(Strings.of([query or ""]))[0]
        if normal and product:
            number = {"2026-01-02": DAY_NUMBER, "2026-01-03T05:00:00Z": DAY_NUMBER + 1}.get(
                day, int(NO_DAY)
            )
            groups[normal, product, event or "", number] += count
    return groups


def is_usable(rows):
    """Whether a row is left, and a time of such a row can be read; or there are no rows."""
    return not rows or any(day != NO_DAY for *_, day in grouped_in_python(rows))


@settings(max_examples=40)
@given(log_rows, st.randoms())
def test_grouping_equals_plain_python_in_any_order(rows, random):
    names = ["query", "product_id", "event", "ts", "count"]
    types = [pa.string()] * 4 + [pa.int64()]

    def table(of):
        columns = list(zip(*of, strict=True)) or [()] * 5
        return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)

    wanted = grouped_in_python(rows)
    if not is_usable(rows):
        with pytest.raises(DataError, match=r"must have a row|must hold a date"):
            read_log(table(rows))
        return
    log = read_log(table(rows))
    assert rows_of(log) == wanted
    assert log == read_log(table(random.sample(rows, len(rows))))


@settings(max_examples=20)
@given(log_rows)
def test_a_saved_log_reads_back_equal(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("saved") / "log.parquet"
    assume(is_usable(rows))
    columns = list(zip(*rows, strict=True)) or [()] * 5
    types = [pa.string()] * 4 + [pa.int64()]
    names = ["query", "product_id", "event", "ts", "count"]
    log = read_log(
        pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)
    )
    log.save(path)
    assert read_log(path) == log
    assert [file.name for file in path.parent.iterdir()] == ["log.parquet"]


def test_saving_needs_a_folder_and_a_parquet_name(tmp_path):
    log = one_value("count", [2])
    with pytest.raises(ValueError, match=r"path must end in .parquet; got '.*log.csv'"):
        log.save(tmp_path / "log.csv")
    with pytest.raises(FileNotFoundError, match="path must be in a folder that exists"):
        log.save(tmp_path / "nowhere" / "log.parquet")


def test_a_log_is_an_arrow_table():
    log = read_log(pa.Table.from_pylist(ROWS))
    frame = pl.DataFrame(log)
    assert frame.columns == ["query", "product_id", "event", "date", "count"]
    assert frame["count"].sum() == 4
    assert frame["date"].max() == dt.date(2026, 1, 3)
    assert pa.table(one_value("count", [2])).column_names == ["query", "product_id", "count"]


WITHOUT_FRAMES = """
import sys
sys.modules |= dict.fromkeys(["pandas", "polars", "pyarrow"])  # None: importing fails
from matchset.data.log_reader import read_log
path, saved = sys.argv[1:]
log = read_log(path, strict=True)
log.save(saved)
assert read_log(saved) == read_log(log) == log
"""


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet"])
def test_no_frame_library_is_needed(tmp_path, name):
    path = write_rows(tmp_path / name)
    command = [sys.executable, "-c", WITHOUT_FRAMES, path, tmp_path / "saved.parquet"]
    subprocess.run(command, check=True, timeout=60)


def test_polars_is_read_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert read_log(pl.DataFrame(ROWS), strict=True).report.rows == 4
