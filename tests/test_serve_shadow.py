"""A shadow records what another matcher would have answered, and nothing about anybody."""

import json
import re
import subprocess
from pathlib import Path

import duckdb
import pytest
from recorded import read_records, read_shadow_record
from serving import COMMAND, eventually, serving

import matchset as ms
from matchset.online.record_files import SHADOW
from matchset.online.records import ShadowRecord, timestamp_now, write_record
from matchset.serve.options import ServeConfig


def read(folder):
    return {
        record["query_id"]: read_shadow_record(record)
        for record in read_records(folder / SHADOW, SHADOW)
    }


def count_dropped(server):
    lines = server.call("/metrics").body.decode().splitlines()
    return sum(float(one.rsplit(" ", 1)[1]) for one in lines if "records_dropped_total{" in one)


def start(folder, records, *more):
    options = ("--also", folder / "bm25", "--shadow", "bm25", "--records", records)
    return serving(folder, *options, *more, model="set", workers=1)


def test_a_shadow_is_recorded_and_never_sent(served_shop, tmp_path):
    bm25, match_set = ms.load(served_shop / "bm25"), ms.load(served_shop / "set")
    query = bm25.products.titles[50]
    with start(served_shop, tmp_path, "--shadow-share", "1") as server:
        answers = [server.match(query, k=5, unit="somebody").json for _ in range(3)]
        body = {"queries": [query, "sofa"], "k": 5, "candidates": [["x"], []]}
        answers += server.post("/v1/match", body).json["results"]
        assert "query_id" not in server.match(query, matcher="bm25", k=5).json
        wanted = {answer["query_id"] for answer in answers}
        eventually(lambda: len(read(tmp_path)) >= len(wanted) - count_dropped(server))
    found = read(tmp_path)
    assert set(found) <= wanted
    for answer in answers:
        if record := found.get(answer["query_id"]):
            assert record.ids == tuple(hit["id"] for hit in answer["products"])
            assert (record.matcher, record.shadow, record.query) == ("match_set", "bm25", None)
    for answer in answers[:3]:
        assert tuple(hit["id"] for hit in answer["products"]) == match_set.match(query, 5).ids
        if record := found.get(answer["query_id"]):
            assert record.shadow_ids == bm25.match(query, 5).ids
    if fused := found.get(answers[3]["query_id"]):
        assert "x" in fused.shadow_ids
    written = "".join(file.read_text() for file in (tmp_path / SHADOW).glob("*.jsonl"))
    assert "somebody" not in written
    assert json.dumps(query) not in written


def test_a_share_is_drawn_and_queries_are_recorded_if_they_may_be_logged(served_shop, tmp_path):
    with start(served_shop, tmp_path, "--shadow-share", "0.2", "--log-queries") as server:
        answers = [server.match("sofa", k=1).json for _ in range(200)]
        drawn = [answer["query_id"] for answer in answers if "query_id" in answer]
        assert 15 <= len(drawn) <= 70  # 40, and at least four standard deviations around it
        eventually(lambda: len(read(tmp_path)) >= len(drawn) - count_dropped(server))
    assert {record.query for record in read(tmp_path).values()} == {"sofa"}


def test_a_shadow_that_is_not_served_is_refused(served_shop):
    command = [COMMAND, "serve", served_shop / "set", "--port", "0", "--shadow", "bm25"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "shadow must be one of match_set, tree" in done.stderr
    assert "got 'bm25'" in done.stderr


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"shadow_share": 0}, "shadow_share must be above 0 and at most 1; got 0"),
        ({"shadow": "bm25", "experiment": "x.toml"}, "an experiment or a shadow; got both"),
    ],
)
def test_options_that_cannot_be_are_refused(given, fault):
    with pytest.raises(ValueError, match=fault):
        ServeConfig(**given)


def test_the_query_of_the_guide_counts_what_each_matcher_held(tmp_path, monkeypatch):
    guide = (Path(__file__).parent.parent / "docs" / "online.md").read_text()
    query = re.search(r"^```sql\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)[1]
    (tmp_path / "records" / SHADOW).mkdir(parents=True)
    about = {"timestamp": timestamp_now(), "matcher": "bm25", "shadow": "x", "model_version": "1"}
    lines = [
        ShadowRecord(query_id=name, ids=ids, shadow_ids=others, **about)
        for name, ids, others in (("a", ("p1", "p2"), ("p2", "p3")), ("b", ("p1",), ("p9",)))
    ]
    file = tmp_path / "records" / SHADOW / "shadow.jsonl"
    file.write_bytes(b"".join(map(write_record, lines)))
    rows = ["a,p3", "a,p2", "a,p1", "b,p9", "unheard,p1"]
    (tmp_path / "purchases.csv").write_text("\n".join(["query_id,product_id", *rows, ""]))
    monkeypatch.chdir(tmp_path)
    assert duckdb.sql(query).fetchall() == [(4, 0.5, 0.25)]
