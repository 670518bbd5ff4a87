"""What workers share stays right if one dies, a disk is full, or all are busy."""

import asyncio
import os
import threading
import time
from itertools import pairwise
from select import PIPE_BUF

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import KEY, ask, working

import matchset as ms
from matchset.serve.access_log import pack
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.prometheus import Metrics, make_slots
from matchset.serve.reloading import reload
from matchset.serve.request_errors import RequestError
from matchset.serve.requests import MatchOptions, MatchRequest
from matchset.serve.retrieval import answer as match_batch
from matchset.serve.snapshots import Sources
from matchset.serve.versions import open_current


@pytest.fixture
def worker(folder):
    """A worker in this process, of a folder that a test may change."""
    with working(folder / "model", config=ServeConfig(api_key_file=folder / "keys")) as made:
        yield made


def test_a_model_is_served_with_its_own_beam(folder):
    narrow = ms.load(folder / "model").with_beam(1)
    narrow.save(folder / "narrow")
    with working(folder / "narrow") as worker:
        found = ask(worker, "/v1/match", b"q=sofa")[1]["products"]
        wider = ask(worker, "/v1/match", b"q=sofa&beam=10")[1]["products"]
    assert [each["id"] for each in found] == list(narrow.match("sofa").ids)
    assert [each["id"] for each in wider] == list(narrow.match("sofa", beam=10).ids)
    assert len(found) < len(wider)


def test_a_worker_that_starts_later_has_the_keys_of_the_others(worker, folder):
    (folder / "keys").unlink()
    opened = open_current(worker.run, worker.config)
    assert opened.keys == worker.model.keys
    assert opened.keys.allow(f"Bearer {KEY}".encode())
    assert not opened.keys.allow(f"Bearer {KEY}x".encode())
    kept = [file for file in worker.run.path.rglob("*") if file.is_file()]
    assert not any(KEY.encode() in file.read_bytes() for file in kept)


@pytest.fixture
def slots():
    with make_slots(4) as folder:
        yield folder


def test_requests_in_flight_in_a_dead_worker_do_not_count(slots):
    live, dead = Metrics(slots), Metrics(slots)
    for one in (live, dead):
        one.count_in_flight(1)
        one.count_queries("xr_linear", 5, 0)
        one.serve("v1")
    assert b"in_flight 2.0" in live.write()
    assert b'matchset_workers{version="v1"} 2.0' in live.write()
    dead.close()
    text = live.write()
    assert b"in_flight 1.0" in text
    assert b'matchset_workers{version="v1"} 1.0' in text
    assert b'matchset_queries_total{matcher="xr_linear"} 10.0' in text
    live.close()


def test_l12_sums_survive_a_thousand_workers_in_bounded_files(slots):
    size = sum(file.stat().st_size for file in slots.iterdir())
    for _ in range(1000):
        one = Metrics(slots)
        one.begin(["/v1/match"], [])
        one.count_request("/v1/match", 200, 0.003)
        one.count_request("/favicon.ico", 200, 0.003)  # no metric
        one.close()
    last = Metrics(slots)
    lines = last.write().decode().splitlines()
    last.close()
    assert 'matchset_requests_total{route="/v1/match",status="200"} 1000.0' in lines
    assert 'matchset_request_seconds_bucket{le="0.002",route="/v1/match"} 0.0' in lines
    assert 'matchset_request_seconds_bucket{le="0.005",route="/v1/match"} 1000.0' in lines
    assert 'matchset_request_seconds_bucket{le="+Inf",route="/v1/match"} 1000.0' in lines
    assert 'matchset_request_seconds_count{route="/v1/match"} 1000.0' in lines
    assert sum(file.stat().st_size for file in slots.iterdir()) == size


def test_what_a_killed_server_left_in_memory_is_removed_by_the_next(slots):
    left = slots.parent / f"matchset-left{os.getpid()}"
    left.mkdir()
    (left / "held").touch()
    with make_slots(1) as next_one:
        assert not left.exists()
        assert slots.exists()
        assert next_one.exists()


def test_memory_of_metrics_is_taken_before_it_is_needed(slots):
    """A page that is first touched when the file system is full would end the process."""
    for file in slots.glob("*.db"):
        assert file.stat().st_blocks * 512 >= file.stat().st_size > 0


def test_queries_and_metrics_are_answered_while_every_thread_is_busy(worker, monkeypatch):
    release = threading.Event()
    busy = [worker._pool.submit(release.wait, 60) for _ in range(5)]
    try:
        assert b"matchset_requests_in_flight" in asyncio.run(worker.write_metrics())
        monkeypatch.setattr(worker, "config", ServeConfig(access_log=False))
        key = [(b"authorization", f"Bearer {KEY}".encode())]
        assert ask(worker, "/v1/match", b"q=sofa", key)[0] == 200
        monkeypatch.setattr(worker, "limits", Limits(seconds=0.01))
        status, answer = ask(worker, "/v1/match", b"q=sofa&where=price<9", key)
        assert (status, answer["error"]["code"]) == (504, "timeout")
    finally:
        release.set()
    assert all(one.result() for one in busy)


def use_processor(seconds=0.005):
    """Keep a thread busy; return when that began and ended."""
    began, cpu = time.monotonic(), time.thread_time()
    while time.thread_time() < cpu + seconds:
        pass
    return began, time.monotonic()


def test_m2_explanations_are_one_at_a_time_with_a_rest_after_each(worker):
    async def explain():
        return await asyncio.gather(*(worker.explain_in_turn(use_processor) for _ in range(4)))

    spans = asyncio.run(explain())
    assert all(began - ended > 0.040 for (_, ended), (began, _) in pairwise(spans))


def test_m2_explanations_that_wait_take_no_thread_of_others_and_are_bounded(worker):
    release, key = threading.Event(), [(b"authorization", f"Bearer {KEY}".encode())]

    async def explain_too_much():
        waiting = [asyncio.create_task(worker.explain_in_turn(release.wait)) for _ in range(8)]
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="at most 8 explanations waiting") as raised:
            await worker.explain_in_turn(release.wait)
        assert (raised.value.code, raised.value.status) == ("overloaded", 503)
        sent = await asyncio.to_thread(ask, worker, "/v1/match", b"q=sofa&where=price<9", key)
        assert sent[0] == 200
        release.set()
        return await asyncio.gather(*waiting)

    assert all(asyncio.run(explain_too_much()))


def test_h3_a_response_has_a_limit_of_bytes(worker, monkeypatch):
    batch = MatchRequest(("sofa",) * 10, MatchOptions("xr_linear"))
    with pytest.raises(RequestError, match="at most 2000 bytes") as raised:
        match_batch(worker.model, batch, time.monotonic() + 60, 2000)
    assert raised.value.code == "response_too_large"


def test_a_full_disk_refuses_a_new_model_and_keeps_the_old(worker, monkeypatch):
    before = worker.run.current

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matchset.serve.versions.take_snapshots", fail)
    with pytest.raises(RequestError, match="No space left on device; still serving") as raised:
        reload(worker.run, worker.sources, worker.config, worker.metrics)
    assert raised.value.code == "model_rejected"
    assert worker.run.current == before


def test_a_worker_that_cannot_open_a_new_model_keeps_the_old(worker, monkeypatch, caplog):
    before = worker.model.version
    reload(worker.run, worker.sources, worker.config, worker.metrics)

    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr("matchset.serve.versions.open_version", fail)
    for _ in range(3):
        worker._switch()
    assert caplog.text.count("cannot open the new model: no room") == 1
    assert worker.model.version == before


def test_a_file_that_still_grows_is_not_the_same_file(folder):
    sources = Sources(folder / "model")
    file = folder / "model"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    half = sources.identity()
    assert sources.identity() == half
    with file.open("ab") as stream:
        stream.write(whole[len(whole) // 2 :])
    assert sources.identity() != half


def test_a_batch_past_its_deadline_is_given_up(worker):
    batch = MatchRequest(["sofa"], MatchOptions("xr_linear"))
    assert match_batch(worker.model, batch, time.monotonic() + 60, 10**9).n_empty == 0
    with pytest.raises(TimeoutError):
        match_batch(worker.model, batch, time.monotonic() - 1, 10**9)


@given(st.lists(st.binary(max_size=3 * PIPE_BUF)))
def test_log_lines_stay_whole(texts):
    lines = [text.replace(b"\n", b" ") + b"\n" for text in texts]
    written = list(pack(lines))
    assert b"".join(written) == b"".join(lines)
    assert all(data.endswith(b"\n") for data in written)
    assert all(len(data) <= PIPE_BUF or data.count(b"\n") == 1 for data in written)
