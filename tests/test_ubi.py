"""Logs in the schema of User Behavior Insights are joined by query id, however they are stored."""

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import run
from logs import DAY_NUMBER, rows_of

from matchset.data.log_reader import read_log, read_ubi
from matchset.errors import DataError

QUERIES = [
    {
        "query_id": "1",
        "user_query": "Red Shoes",
        "client_id": "c",
        "timestamp": "2026-01-02T10:00:00Z",
    },
    {"query_id": "2", "user_query": "hat", "client_id": "c", "timestamp": "2026-01-02T11:00:00Z"},
]


def event(query_id, action, product, **more):
    attributes = {
        "object": {"object_id": product, "object_id_field": "sku"},
        "position": {"ordinal": 3},
    }
    return {
        "action_name": action,
        "query_id": query_id,
        "timestamp": "2026-01-02T12:00:00.000Z",
        "event_attributes": attributes if product else {"object": None, "position": None},
    } | more


EVENTS = [
    event("1", "click", "00123"),
    event("1", "click", "00123"),
    event("2", "purchase", "7"),
    event("9", "click", "7"),  # of a query that is not there
    event("1", "login", None),  # without a product
]
EXPECTED = {
    ("red shoes", "00123", "click", DAY_NUMBER): 2.0,
    ("hat", "7", "purchase", DAY_NUMBER): 1.0,
}


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def flat(row):
    product = (row["event_attributes"]["object"] or {}).get("object_id")
    return {key: value for key, value in row.items() if key != "event_attributes"} | {
        "event_attributes.object.object_id": product
    }


def sources(tmp_path):
    """The same events in every form."""
    wrapped = [
        {"_index": "ubi_events", "_id": str(i), "_source": row} for i, row in enumerate(EVENTS)
    ]
    wrapped_queries = [{"_source": row} for row in QUERIES]
    queries = write_lines(tmp_path / "queries.jsonl", QUERIES)
    yield queries, write_lines(tmp_path / "events.jsonl", EVENTS)
    yield (
        write_lines(tmp_path / "dump_q.jsonl", wrapped_queries),
        write_lines(tmp_path / "dump.jsonl", wrapped),
    )
    yield queries, write_lines(tmp_path / "flat.jsonl", map(flat, EVENTS))
    pq.write_table(pa.Table.from_pylist(EVENTS), tmp_path / "events.parquet")
    yield queries, tmp_path / "events.parquet"
    yield pl.DataFrame(QUERIES), pa.Table.from_pylist(EVENTS)
    pl.DataFrame([flat(row) for row in EVENTS]).write_csv(tmp_path / "flat.csv")
    yield queries, tmp_path / "flat.csv"
    texts = [row | {"event_attributes": json.dumps(row["event_attributes"])} for row in EVENTS]
    pl.DataFrame(texts).write_csv(tmp_path / "texts.csv")
    yield queries, tmp_path / "texts.csv"
    short = [{"object_id": flat(row)["event_attributes.object.object_id"]} | row for row in EVENTS]
    yield pl.DataFrame(QUERIES), pl.DataFrame(short).drop("event_attributes")


def test_every_form_gives_the_same_log(tmp_path, caplog):
    for queries, events in sources(tmp_path):
        log = read_ubi(queries=queries, events=events)
        assert rows_of(log) == EXPECTED
        assert (log.report.rows, log.report.without_query, log.report.without_product) == (5, 1, 1)
        assert list(log.spellings) == ["hat", "Red Shoes"]
    assert "UBI: 5 rows read, 2 dropped" in caplog.text


def test_both_indexes_are_recognized_in_a_list(tmp_path):
    for queries, events in sources(tmp_path):
        if isinstance(queries, Path):
            for both in ([queries, events], [events, queries]):
                assert rows_of(read_log(both)) == EXPECTED
    shown = run("describe", tmp_path / "queries.jsonl", tmp_path / "events.jsonl")
    assert "5 rows read, 2 dropped" in shown


def test_fields_that_appear_late_are_found(tmp_path):
    login = {"action_name": "login", "query_id": "1", "timestamp": "2026-01-02T12:00:00.000Z"}
    events = write_lines(tmp_path / "events.jsonl", [login] * 25_000 + EVENTS[:3])
    log = read_ubi(queries=pl.DataFrame(QUERIES), events=events)
    assert rows_of(log) == EXPECTED
    assert log.report.without_product == 25_000


def test_only_the_actions_asked_for_are_read():
    tables = {
        "queries": pl.DataFrame(QUERIES),
        "events": pa.Table.from_pylist(EVENTS[:3] + EVENTS[4:]),
    }
    log = read_ubi(**tables, actions=["click", "purchase"], strict=True)
    assert rows_of(log) == EXPECTED
    assert log.report.is_clean
    assert len(read_ubi(**tables, actions=[])) == 0


def test_actions_that_occur_nowhere_list_what_there_is(tmp_path, caplog):
    tables = {"queries": pl.DataFrame(QUERIES), "events": pl.DataFrame(EVENTS)}
    with pytest.raises(TypeError, match="actions must be a list of names; got the text 'click'"):
        read_ubi(**tables, actions="click")
    for events in (pl.DataFrame(EVENTS), write_lines(tmp_path / "events.jsonl", EVENTS)):
        with pytest.raises(
            DataError, match="got 'clik', 'buy', but there are 'click', 'login', 'purchase'"
        ):
            read_ubi(queries=tables["queries"], events=events, actions=["clik", "buy"])
    read_ubi(**tables, actions=["click", "login"])  # a login occurs, though without a product
    assert "must occur in the events" not in caplog.text
    read_ubi(**tables, actions=["click", "buy"])
    assert "actions= must occur in the events; got 'buy', but there are 'click'" in caplog.text


def test_a_stream_that_is_read_once_may_miss_an_action():
    events = pa.Table.from_pylist(EVENTS).to_reader()
    log = read_ubi(queries=pl.DataFrame(QUERIES), events=events, actions=["click", "buy"])
    assert log.events == ("click",)


def test_of_two_texts_of_one_query_the_smallest_is_taken():
    queries = [QUERIES[0], QUERIES[1] | {"query_id": "1"}, QUERIES[0]]
    for order in (queries, queries[::-1]):
        log = read_ubi(queries=pl.DataFrame(order), events=pa.Table.from_pylist(EVENTS[:1]))
        assert list(log.spellings) == ["Red Shoes"]


def test_strict_names_the_event():
    with pytest.raises(
        DataError, match=r"the events of the given table, row 4: column 'query' must hold a query"
    ):
        read_ubi(queries=pl.DataFrame(QUERIES), events=pa.Table.from_pylist(EVENTS), strict=True)


def test_a_missing_field_lists_what_there_is():
    with pytest.raises(
        DataError,
        match="the given table: UBI must have the field 'user_query'; there are the columns",
    ):
        read_ubi(queries=pl.DataFrame({"query_id": ["1"]}), events=pl.DataFrame(EVENTS))
    with pytest.raises(
        DataError, match=r"UBI must have the field 'event_attributes\.object\.object_id'"
    ):
        read_ubi(
            queries=pl.DataFrame(QUERIES), events=pl.DataFrame(EVENTS).drop("event_attributes")
        )


def test_times_of_any_type_are_understood():
    events = [event("1", "click", "7", timestamp=1767312000000)]
    log = read_ubi(queries=pl.DataFrame(QUERIES), events=pa.Table.from_pylist(events))
    assert log.day.tolist() == [DAY_NUMBER]
