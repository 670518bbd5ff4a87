"""Times, ids and counts of every type are read, and what is wrong with them is counted."""

import datetime as dt
import json
import logging
import math

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from logs import DAY, DAY_NUMBER, one_value, rows_of, write_rows

from matchset.data.arrow import NO_DAY
from matchset.data.log_reader import read_log
from matchset.errors import DataError


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-02", "2026-01-02T23:59:59", "2026-01-02 10:00:00.123456", "2026-01-02T10:00:00Z",
        "2026-01-01T23:00:00-05:00", "2026-01-03T01:00:00+0200", " 2026-01-02 ", "20260102",
        "1767312000", "1767312000.5", "1767312000000", "1767312000000000", "1767312000000000000",
        1767312000, 1767398399, 1767312000.75, 1767312000123, 1767312000123456, 1767312000123456789,
        20260102, 20260102235959, 20260102000000.0, "20260102101010",
        DAY, dt.datetime(2026, 1, 2, 23, 59, 59),
        dt.datetime(2026, 1, 2, 0, 30, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 3, 1, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    ],
)  # fmt: skip
def test_times_of_every_kind_give_their_day_in_utc(value):
    assert one_value("ts", [value]).day.tolist() == [DAY_NUMBER]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamp_columns_of_every_unit_give_their_day_in_utc(unit, zone):
    second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    column = pa.array([second * 1767312000], pa.timestamp(unit, zone))
    assert one_value("ts", column).day.tolist() == [DAY_NUMBER]
    before_1970 = pa.array([-second], pa.timestamp(unit, zone))
    assert one_value("ts", before_1970).day.tolist() == [-1]


@pytest.mark.parametrize(
    "value",
    [
        None, "", "yesterday", "2026-13-01", "infinity", "nan", "99999-01-01",
        float("nan"), math.inf, 1e300,
        *(20261301000000, "20260102250000"),
        *(202610, 2026, 46296, 46296.5, 20269999, 20260102.5, 99_999_999, 0, -1, -(10**9)),
        *("202610", "2026", "46296", "46296.5", "20269999", "20260102.5", "99999999", "0", "-1"),
    ],
)  # fmt: skip
def test_a_time_that_is_not_understood_keeps_its_row_without_a_day(value, caplog):
    good = 20260102.0 if isinstance(value, float) else 20260102
    good = "2026-01-02" if value is None or isinstance(value, str) else good
    rows = {"query": ["boot", "shoe"], "product_id": ["p", "p"], "ts": [good, value]}
    log = read_log(pa.table(rows))
    assert log.day.tolist() == [DAY_NUMBER, NO_DAY]
    assert log.report.bad_timestamp == 1
    assert log.report.dropped == 0
    assert "1 kept without a day" in caplog.text


def test_strict_names_a_number_that_is_no_time():
    with pytest.raises(DataError, match="column 'ts' must hold a date or a time; got '202610'"):
        one_value("ts", [202610], strict=True)


def test_a_column_that_cannot_hold_times_is_refused():
    with pytest.raises(
        DataError, match="the given table: column 'ts' must hold times; got BOOLEAN"
    ):
        one_value("ts", [True])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (123, "123"), (123.0, "123"), (1.5, "1.5"), (2**62, str(2**62)), ("00123", "00123"),
        ("123.0", "123.0"), (" x ", " x "), (True, "true"), (1e17, "100000000000000000"),
    ],
)  # fmt: skip
def test_product_ids_become_plain_text(value, text):
    assert list(one_value("product_id", [value]).products) == [text]


def test_numeric_ids_in_json_become_plain_text(tmp_path):
    path = tmp_path / "log.jsonl"
    rows = [{"query": "a", "sku": sku} for sku in (123, "00123", 4.0, 12345678901234567890)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert set(read_log(path).products) == {"123", "00123", "4.0", "12345678901234567890"}
    path.write_text('{"query": "a", "sku": 123.0}\n{"query": "a", "sku": 7.5}\n')
    assert set(read_log(path).products) == {"123", "7.5"}


@pytest.mark.parametrize("value", [None, "", "many", "-1", -0.5, float("nan"), math.inf, "nan"])
def test_a_bad_count_drops_its_row(value, caplog):
    good = "2" if value is None or isinstance(value, str) else 2.0
    rows = {"query": ["boot", "shoe"], "product_id": ["p", "p"], "count": [good, value]}
    log = read_log(pa.table(rows))
    assert list(log.queries) == ["boot"]
    assert log.report.bad_count == 1
    assert "1 with a bad count" in caplog.text


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.jsonl", "a.json", "a.parquet"])
@pytest.mark.parametrize("strict", [False, True])
def test_bad_values_are_counted_in_every_format(tmp_path, name, strict):
    row = {"query": "red", "product_id": "1", "count": "2", "date": "2026-01-02"}
    wrong = ({"count": "many"}, {"count": "-1"}, {"date": "soon"}, {"date": "2026-02-30"})
    path = write_rows(tmp_path / name, [row, *(row | change for change in wrong)])
    if strict:
        with pytest.raises(DataError, match=r"row 2: column 'count' must hold a finite .* 'many'"):
            read_log(path, strict=True)
        return
    log = read_log(path)
    assert (log.report.bad_count, log.report.bad_timestamp) == (2, 2)
    assert rows_of(log) == {("red", "1", "", DAY_NUMBER): 2, ("red", "1", "", int(NO_DAY)): 4}
    assert read_log(path, count=False).report.bad_timestamp == 2
    assert read_log(path, timestamp=False).report.bad_count == 2


@pytest.mark.parametrize("value", [0, 2.5, "3", True, 1e9])
def test_counts_may_be_fractions_or_texts(value):
    assert one_value("count", [value]).count.tolist() == [float(value)]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet"])
def test_v6_true_and_false_are_counts_in_every_format(tmp_path, name):
    row = {"query": "red", "product_id": "1"}
    values = ("true", "FALSE", "True") if name.endswith("sv") else (True, False, True)
    path = write_rows(tmp_path / name, [row | {"clicks": one} for one in values])
    assert read_log(path, count="clicks").count.tolist() == [2.0]


@pytest.mark.parametrize("make", [pa.Table.from_pydict, pl.DataFrame, pd.DataFrame])
def test_v6_days_of_excel_in_a_frame_are_an_error_that_shows_one(make):
    days = [46390, 46391]
    frame = make({"query": ["a", "b"], "product_id": ["x", "y"], "timestamp": days})
    with pytest.raises(DataError, match="must hold a date or a time; got '46390'"):
        read_log(frame)


@pytest.mark.parametrize("products", [["x", "x"], ["x", "y"]])
def test_counts_beyond_all_measure_are_refused(products, tmp_path):
    rows = [{"query": "a", "product_id": product, "count": "1e308"} for product in products]
    path = write_rows(tmp_path / "log.csv", rows)
    for source, name in ((path, r".*log.csv"), (pa.Table.from_pylist(rows), "a Table")):
        with pytest.raises(
            DataError, match=f"the counts of {name} must add up to at most 3.4e[+]38; got inf"
        ):
            read_log(source)


def test_each_faulty_row_is_counted_once(caplog):
    table = pa.table(
        {
            "query": ["", None, " ", "!!", "!!", "a", "a", "a", "a", "b"],
            "product_id": ["x", None, "x", "x", "x", "", " ", "x", "x", "x"],
            "count": ["1", "1", "1", "1", "1", "x", "1", "x", "2", "3"],
            "date": ["?", "?", "?", "?", "2026-01-02", "?", "?", "?", "?", "2026-01-02"],
        }
    )
    with caplog.at_level(logging.WARNING):
        log = read_log(table)
    report = log.report
    assert report.rows == 10
    assert (
        report.without_query,
        report.without_product,
        report.bad_count,
        report.bad_timestamp,
    ) == (5, 2, 1, 1)
    assert rows_of(log) == {("a", "x", "", int(NO_DAY)): 2, ("b", "x", "", DAY_NUMBER): 3}
    assert "a Table: 10 rows read, 8 dropped (5 without a query, 2 without a" in caplog.text


def test_columns_that_may_say_what_a_row_is_worth_are_told_if_not_used(tmp_path, caplog):
    file = tmp_path / "log.csv"
    file.write_text("query,sku,relevance,rater\nred,1,2.5,a\n")
    read_log(file)
    assert "every row counts 1; columns that are not used: 'relevance', 'rater'" in caplog.text
    caplog.clear()
    read_log(file, count="relevance")
    read_log(file, count=False)
    assert not caplog.text


def test_an_event_that_is_an_object_is_ignored_unless_it_is_named(tmp_path, caplog):
    path = tmp_path / "log.jsonl"
    path.write_text('{"query": "a", "sku": "x", "event": {"name": "click"}, "ts": [1, 2]}\n' * 2)
    assert read_log(path).events == ("",)
    rule = "column 'event' holds objects or lists, so it is ignored; name a field of it, such as"
    assert f"{rule} event='event.name'" in caplog.text
    assert "column 'ts' holds objects or lists, so it is ignored\n" in caplog.text
    assert read_log(path, event="event.name").events == ("click",)
    with pytest.raises(DataError, match="column 'event' must hold plain values; got"):
        read_log(path, event="event")


def test_flat_exports_of_ga4_are_read_by_their_names(tmp_path):
    path = tmp_path / "ga4.csv"
    names = "event_date,event_timestamp,event_name,search_term,item_id"
    path.write_text(f"{names}\n20260102,1767348000000000,select_item,hat,7\n")
    assert rows_of(read_log(path)) == {("hat", "7", "select_item", DAY_NUMBER): 1}
    path.write_text("event_date,event_name,search_term,item_id\n20260102,purchase,hat,7\n")
    assert rows_of(read_log(path)) == {("hat", "7", "purchase", DAY_NUMBER): 1}
