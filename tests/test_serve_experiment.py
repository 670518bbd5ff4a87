"""A server with an experiment: units keep their arm, and every answer of theirs is on record."""

import http.client
import os
import pickle
import signal
import subprocess
import threading
from collections import Counter
from contextlib import suppress

import pytest
from recorded import read_event_record, read_query_record, read_records
from reloading import kill_worker
from serving import COMMAND, eventually, serving

import matchset as ms
from matchset.online.assignment import assign, hide_unit
from matchset.online.definition import read_experiment
from matchset.online.interleaving import interleave
from matchset.online.record_files import EVENTS, QUERIES
from matchset.serve.loaded_model import open_matchers

AB = """
name = "more"
salt = "autumn"

[[arms]]
name = "control"
matcher = "bm25"

[[arms]]
name = "both"
matchers = ["bm25", "match_set"]
"""
INTERLEAVED = """
name = "union"
salt = "autumn"
mode = "union"

[[arms]]
name = "control"
matcher = "bm25"

[[arms]]
name = "ours"
matcher = "match_set"
"""


class Online:
    """A server with an experiment, and what it has recorded."""

    def __init__(self, server, file, records):
        self.server, self.experiment = server, read_experiment(file)
        self.folder = records / self.experiment.name

    def queries(self):
        """All that was answered so far, once it is on disk."""

        def read():
            found = self.read_all()
            return len(found) == self.count_kept("queries") and (found,)

        return eventually(read)[0]

    def read_all(self, at_least=frozenset()):
        """What is on disk; None while one of `at_least` is not."""
        records = [read_query_record(one) for one in read_records(self.folder, QUERIES)]
        found = {record.query_id: record for record in records}
        assert len(found) == len(records)
        return found if at_least <= set(found) else None

    def events(self):
        eventually(
            lambda: len(list(read_records(self.folder, EVENTS))) == self.count_kept("events")
        )
        return [read_event_record(one) for one in read_records(self.folder, EVENTS)]

    def count_kept(self, stream):
        return self.metrics(f'matchset_records_kept_total{{stream="{stream}"}}')

    def metrics(self, family):
        lines = self.server.call("/metrics").body.decode().splitlines()
        return sum(float(one.rsplit(" ", 1)[1]) for one in lines if one.startswith(family))

    def count_dropped(self):
        return self.metrics("matchset_records_dropped_total")


def start(folder, tmp_path, text):
    file, records = tmp_path / "experiment.toml", tmp_path / "records"
    file.write_text(text)
    options = ("--also", folder / "bm25", "--experiment", file, "--records", records)
    return serving(folder, *options, model="set"), file, records


@pytest.fixture(scope="module")
def online(served_shop, tmp_path_factory):
    starting, file, records = start(served_shop, tmp_path_factory.mktemp("ab"), AB)
    with starting as server:
        yield Online(server, file, records)


def find_query(bm25):
    """A query that BM25 has an answer to: a title."""
    return bm25.products.titles[50]


def test_a_unit_gets_the_answer_of_its_arm_and_the_answer_names_it(online, served_shop):
    bm25, match_set = ms.load(served_shop / "bm25"), ms.load(served_shop / "set")
    query = find_query(bm25)
    fused = ms.Fusion([bm25, match_set], names=["bm25", "match_set"])
    seen = set()
    for number in range(20):
        unit = f"user {number}"
        arm = assign(online.experiment, unit).name
        reply = online.server.match(query, k=5, unit=unit).json
        assert (reply["experiment"], reply["arm"]) == ("more", arm)
        matcher = bm25 if arm == "control" else fused
        assert tuple(hit["id"] for hit in reply["products"]) == matcher.match(query, 5).ids
        assert reply["matcher"] == ("bm25" if arm == "control" else "both")
        seen.add(arm)
    assert seen == {"control", "both"}


def test_every_answer_to_a_unit_is_recorded_before_it_is_sent(online):
    asked = []
    for number in range(10):
        query, unit = f"Lamp {number}", f"user-{number}"
        asked.append((query, unit, online.server.match(query, k=7, unit=unit).json))
    batch = {"queries": ["sofa", "lamp", "zzzz"], "k": 3, "unit": "user-1"}
    reply = online.server.post("/v1/match", batch).json
    asked += [(one["query"], "user-1", {**reply, **one}) for one in reply["results"]]
    records = online.queries()
    assert online.count_dropped() == 0
    for query, unit, answer in asked:
        record = records[answer["query_id"]]
        assert (record.query, record.unit) == (query, hide_unit(online.experiment, unit))
        assert (record.experiment, record.arm) == ("more", answer["arm"])
        assert record.ids == tuple(hit["id"] for hit in answer["products"])
        assert record.microseconds == answer["microseconds"]
        assert record.model_version == answer["model_version"]
        assert record.origins is None
    assert "user-1" not in "".join(file.read_text() for file in online.folder.glob("*"))


def test_without_a_unit_the_first_arm_answers_and_nothing_is_recorded(online):
    n_before = len(online.queries())
    for options in ({}, {"unit": ""}):
        reply = online.server.match("sofa", k=3, **options).json
        assert reply["matcher"] == "bm25"
        assert not {"experiment", "arm", "query_id"} & set(reply)
    reply = online.server.match("sofa", k=3, matcher="match_set").json
    assert reply["matcher"] == "match_set"
    assert len(online.queries()) == n_before


def test_a_request_with_a_unit_cannot_choose_its_matcher(online):
    reply = online.server.match("sofa", unit="u", matcher="match_set")
    assert reply.code == "bad_parameter"
    assert "left to the experiment" in reply.json["error"]["message"]


def test_candidates_of_the_caller_are_fused_with_the_arm(online):
    body = {"queries": ["sofa"], "candidates": [["x", "y"]], "unit": "user-1", "k": 5}
    reply = online.server.post("/v1/match", body).json
    assert reply["arm"] == assign(online.experiment, "user-1").name
    assert {"x", "y"} <= {hit["id"] for hit in reply["results"][0]["products"]}


def test_arms_that_fuse_are_matchers_of_the_server(online, served_shop):
    listed = {one["name"]: one for one in online.server.call("/v1/model").json["matchers"]}
    assert listed["both"]["label"] == "Fusion"
    query = find_query(ms.load(served_shop / "bm25"))
    reply = online.server.match(query, matcher="both", k=2).json
    assert set(reply["products"][0]["ranks"]) == {"bm25", "match_set"}


def test_clicks_and_purchases_are_recorded_and_all_is_read_as_a_log(online):
    answer = online.server.match("sofa", k=7, unit="buyer").json
    product = answer["products"][2]["id"]
    click = {"action_name": "click", "query_id": answer["query_id"], "object_id": product}
    bought = {**click, "action_name": "purchase", "position": 3, "revenue": 9.5}
    reply = online.server.post("/v1/events", {"events": [click, bought]})
    assert (reply.status, reply.json["recorded"]) == (200, 2)
    online.queries()
    assert [(one.action, one.product, one.revenue) for one in online.events()] == [
        ("click", product, None), ("purchase", product, 9.5),
    ]  # fmt: skip
    log = ms.read_ubi(
        queries=sorted(online.folder.glob("queries*.jsonl")),
        events=sorted(online.folder.glob("events*.jsonl")),
        strict=True,
    )
    assert (list(log.queries), sorted(log.events)) == (["sofa"], ["click", "purchase"])


def test_a_client_gets_its_arm_and_sends_events(online):
    with ms.Client(online.server.address) as client:
        found = client.match("sofa", 5, unit="a client")
        assert (found.experiment, found.arm) == ("more", assign(online.experiment, "a client").name)
        assert found.origins is None
        assert pickle.loads(pickle.dumps(found[:2])).query_id == found.query_id
        client.send_event(found, "p7", "purchase", position=7, revenue=2.5)
        (sent,) = [one for one in online.events() if one.query_id == found.query_id]
        assert (sent.product, sent.position, sent.revenue) == ("p7", 7, 2.5)
        with pytest.raises(TypeError, match="unit is for one query; got several queries"):
            client.match(["sofa", "lamp"], unit="a client")


def test_events_of_an_unknown_form_are_refused(online):
    assert online.server.post("/v1/events", {"events": [{"action_name": "click"}]}).status == 400


def test_interleaved_products_say_where_they_come_from(served_shop, tmp_path):
    starting, file, records = start(served_shop, tmp_path, INTERLEAVED)
    with starting as server:
        online = Online(server, file, records)
        bm25 = ms.load(served_shop / "bm25")
        query = find_query(bm25)
        a = bm25.match(query, 100).ids
        b = ms.load(served_shop / "set").match(query, 100).ids
        expected = interleave(online.experiment, "u", query, a, b, 20)
        for k in (20, 5):
            answer = server.match(query, k=k, unit="u").json
            assert answer["arm"] == answer["matcher"] == "interleaved"
            found = tuple((hit["id"], hit["from"]) for hit in answer["products"])
            assert found == tuple(zip(expected.ids, expected.origins, strict=True))[:k]
            assert answer["products"][0]["title"]
        with ms.Client(server.address) as client:
            found = client.match(query, 20, unit="u")
        assert (found.ids, found.origins) == (expected.ids, expected.origins)
        assert {"a", "both"} <= set(expected.origins)
        body = {"queries": [query], "candidates": [[a[0], "x"]], "unit": "u", "k": 100}
        fused = server.post("/v1/match", body).json["results"][0]["products"]
        origins = {hit["id"]: hit["from"] for hit in fused}
        assert origins["x"] == origins[a[0]] == "both"
        assert {"a", "b"} <= set(origins.values())
        assert online.queries()[answer["query_id"]].origins == expected.origins[:5]
        assert "from" not in server.match(query, k=5).json["products"][0]


def test_a_killed_worker_loses_no_answer_that_was_sent(served_shop, tmp_path):
    starting, file, records = start(served_shop, tmp_path, AB)
    with starting as server:
        online = Online(server, file, records)
        answered, stop = Counter(), threading.Event()

        def ask(name):
            number = 0
            while not stop.is_set():
                number += 1
                with suppress(OSError, http.client.HTTPException):  # its worker was killed
                    answer = server.match("sofa", k=20, unit=f"{name}-{number}").json
                    answered[answer["query_id"]] += 1

        threads = [threading.Thread(target=ask, args=(f"caller {n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                n_answered = len(answered)
                eventually(lambda n=n_answered: len(answered) > n + 30)
                kill_worker(server)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert online.count_dropped() == 0
        # Not `queries`: a worker may die between writing a record and counting it.
        recorded = eventually(lambda: online.read_all(at_least=set(answered)))
    assert max(answered.values()) == 1
    assert len(answered) > 90
    # A killed worker takes with it what it had recorded and was about to send, of 4 callers.
    assert len(recorded) <= len(answered) + 3 * 4
    assert len(list(online.folder.glob("queries*.jsonl"))) == 1


def test_a_server_that_stops_writes_what_was_answered(served_shop, tmp_path):
    starting, _, records = start(served_shop, tmp_path, AB)
    with starting as server:
        os.kill(server.workers[0], signal.SIGKILL)  # nobody may take over from it
        sent = set()
        while len(sent) < 50:
            with suppress(OSError, http.client.HTTPException):
                sent.add(server.match("sofa", unit=str(len(sent))).json["query_id"])
        assert server.stop() == 0
    recorded = {one["query_id"] for one in read_records(records / "more", QUERIES)}
    assert sent <= recorded
    assert len(recorded) <= 51  # the worker may have recorded one more before it died


def test_an_experiment_goes_on_over_restarts_and_cannot_change(served_shop, tmp_path):
    starting, file, records = start(served_shop, tmp_path, AB)
    with starting as server:
        before = [server.match("sofa", k=1, unit=f"u{n}").json["arm"] for n in range(20)]
    with start(served_shop, tmp_path, AB)[0] as server:
        assert [server.match("sofa", k=1, unit=f"u{n}").json["arm"] for n in range(20)] == before
    assert len(list((records / "more").glob("queries*.jsonl"))) == 1
    file.write_text(AB.replace("autumn", "winter"))
    command = [COMMAND, "serve", served_shop / "set", "--port", "0"]
    command += ["--experiment", file, "--records", records]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "salt must stay as when the experiment began" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"match_set"]', '"dssm"]', "arm 'both': matchers of an arm must be among .*; got 'dssm'"),
        ('"both"', '"tree"', "an arm that fuses must not be that of a matcher; got 'tree'"),
        ('"both"', '"fusion"', "an arm that fuses must not be that of a matcher; got 'fusion'"),
    ],
)
def test_arms_that_the_server_cannot_have_are_refused(served_shop, tmp_path, old, new, fault):
    file = tmp_path / "experiment.toml"
    file.write_text(AB.replace(old, new))
    with pytest.raises(ValueError, match=fault):
        open_matchers([served_shop / "set", served_shop / "bm25"], read_experiment(file))
