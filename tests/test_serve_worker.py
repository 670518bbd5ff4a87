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
from serving import KEY, ask, eventually

import matchset as ms
from matchset.serve import turns
from matchset.serve.http import handlers
from matchset.serve.http.access_log import pack
from matchset.serve.http.app import make_app
from matchset.serve.http.request_errors import RequestError
from matchset.serve.http.requests import MatchOptions, MatchRequest
from matchset.serve.http.retrieval import answer as match_batch
from matchset.serve.loaded_model import open_version
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.reload import switch
from matchset.serve.reload.run_folder import (
    RunFolder,
    current_version,
    make_run_folder,
    publish,
    read_workers,
)
from matchset.serve.reload.snapshots import Sources
from matchset.serve.reload.switch import make_version, reload
from matchset.serve.supervisor import Supervisor
from matchset.serve.worker import Worker

FULL = OSError(28, "No space left on device")


def fail(*_):
    raise FULL


@pytest.fixture
def worker(folder):
    """A worker in this process, of a folder that a test may change."""
    sources = Sources(folder / "model")
    config = ServeConfig(reload_seconds=0.2, api_key_file=folder / "keys", threads=2)
    with make_run_folder(sources.model) as run:
        publish(run, make_version(run, sources, config, 1))
        made = Worker(run, sources, config, Limits())
        yield made
        made.stop()


def test_a_model_is_served_with_its_own_beam(folder):
    narrow = ms.load(folder / "model").with_beam(1)
    narrow.save(folder / "narrow")
    sources, config = Sources(folder / "narrow"), ServeConfig(threads=2)
    with make_run_folder(sources.model) as run:
        publish(run, make_version(run, sources, config, 1))
        worker = Worker(run, sources, config, Limits())
        try:
            found = ask(worker, "/v1/match", b"q=sofa")[1]["products"]
            wider = ask(worker, "/v1/match", b"q=sofa&beam=10")[1]["products"]
        finally:
            worker.stop()
    assert [each["id"] for each in found] == list(narrow.match("sofa").ids)
    assert [each["id"] for each in wider] == list(narrow.match("sofa", beam=10).ids)
    assert len(found) < len(wider)


def test_a_worker_that_starts_later_has_the_keys_of_the_others(worker, folder):
    (folder / "keys").unlink()
    opened = open_version(worker.run, current_version(worker.run), worker.sources, worker.config)
    assert opened.keys == worker.model.keys
    assert opened.keys.allow(f"Bearer {KEY}".encode())
    assert not opened.keys.allow(f"Bearer {KEY}x".encode())
    kept = [file for file in worker.run.path.rglob("*") if file.is_file()]
    assert not any(KEY.encode() in file.read_bytes() for file in kept)


def test_requests_in_flight_in_a_dead_worker_do_not_count(worker):
    dead = Worker(worker.run, worker.sources, worker.config, Limits())
    for one in (worker, dead):
        one.metrics.count_in_flight(1)
        one.metrics.count_queries("xr_linear", 5, 0)
    assert b"in_flight 2.0" in asyncio.run(worker.write_metrics())
    dead.stop()
    text = asyncio.run(worker.write_metrics())
    assert b"in_flight 1.0" in text
    assert b'matchset_queries_total{matcher="xr_linear"} 10.0' in text


def test_l12_a_worker_goes_on_counting_where_a_dead_one_stopped(worker):
    for _ in range(30):  # more than there are slots
        next_one = Worker(worker.run, worker.sources, worker.config, Limits())
        next_one.metrics.begin(["/v1/match"], [])
        next_one.metrics.count_request("/v1/match", 200, 0.003)
        next_one.metrics.count_request("/favicon.ico", 200, 0.003)  # no metric
        next_one.stop()
    lines = asyncio.run(worker.write_metrics()).decode().splitlines()
    assert 'matchset_requests_total{route="/v1/match",status="200"} 30.0' in lines
    assert 'matchset_request_seconds_bucket{route="/v1/match",le="0.002"} 0.0' in lines
    assert 'matchset_request_seconds_bucket{route="/v1/match",le="0.005"} 30.0' in lines
    assert 'matchset_request_seconds_bucket{route="/v1/match",le="+Inf"} 30.0' in lines
    assert 'matchset_request_seconds_count{route="/v1/match"} 30.0' in lines
    assert len(read_workers(worker.run)) == 1


def test_queries_and_metrics_are_answered_while_every_thread_is_busy(worker, monkeypatch):
    release = threading.Event()
    busy = [worker._pool.submit(release.wait, 60) for _ in range(worker.config.threads + 1)]
    try:
        assert b"matchset_workers{" in asyncio.run(worker.write_metrics())
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
    """Keep a thread busy; when that began and ended."""
    began, cpu = time.monotonic(), time.thread_time()
    while time.thread_time() < cpu + seconds:
        pass
    return began, time.monotonic()


def explain_at_once(worker, n):
    async def explain():
        return await asyncio.gather(*(worker.explain_in_turn(use_processor) for _ in range(n)))

    return asyncio.run(explain())


def test_m2_explanations_are_one_at_a_time_and_some_hundred_need_not_wait(worker):
    spans = explain_at_once(worker, 4)
    assert all(ended <= began for (_, ended), (began, _) in pairwise(spans))
    assert worker.turns._used_until < time.monotonic()


def test_m2_many_explanations_get_a_share_of_the_time(worker):
    start = worker.turns._used_until = time.monotonic()  # nothing is saved
    worker.turns._share = 0.25
    spans = explain_at_once(worker, 4)
    # 5 ms of processor time are a quarter of 20 ms, which must be over before the next begins.
    assert all(began >= start + 0.020 * n for n, (began, _) in enumerate(spans))
    assert worker.turns._used_until >= start + 0.020 * 4


def test_m2_explanations_that_wait_take_no_thread_of_others_and_are_bounded(worker, monkeypatch):
    monkeypatch.setattr(turns, "_MOST_WAITING", 3)
    release, key = threading.Event(), [(b"authorization", f"Bearer {KEY}".encode())]

    async def explain_too_much():
        waiting = [asyncio.create_task(worker.explain_in_turn(release.wait)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="at most 3 explanations waiting") as raised:
            await worker.explain_in_turn(release.wait)
        assert (raised.value.code, raised.value.status) == ("overloaded", 503)
        sent = await asyncio.to_thread(ask, worker, "/v1/match", b"q=sofa&where=price<9", key)
        assert sent[0] == 200
        release.set()
        return await asyncio.gather(*waiting)

    assert all(asyncio.run(explain_too_much()))
    assert explain_at_once(worker, 3)


async def ask_to_explain(worker, has_left):
    """Send a request whose client leaves at some time; the status of the response."""
    body, sent = b'{"query": "sofa", "product": "any"}', []
    received = [{"type": "http.request", "body": body}]

    async def receive():
        if not received:
            await has_left.wait()
        return received.pop() if received else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    headers = {"host": "localhost", "authorization": f"Bearer {KEY}"}
    headers["content-type"] = "application/json"
    scope = {
        "type": "http", "method": "POST", "path": "/v1/explain", "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()], "root_path": "",
    }  # fmt: skip
    await make_app(worker)(scope, receive, send)
    return sent[0]["status"]


@pytest.mark.parametrize("waits_for", ["another", "its share"])
@pytest.mark.parametrize("gives_up", ["client", "server"])
def test_an_explanation_that_is_given_up_leaves_its_turn(worker, monkeypatch, waits_for, gives_up):
    release, explained = threading.Event(), []
    monkeypatch.setattr(turns, "_MOST_WAITING", 1)
    monkeypatch.setattr(turns, "_LONGEST_PAUSE", 60)
    monkeypatch.setattr(handlers, "explain", lambda *_: explained.append(1))
    if waits_for == "another":
        worker.turns.pool.submit(release.wait)
    else:
        worker.turns._used_until = time.monotonic() + 60
    if gives_up == "server":
        monkeypatch.setattr(worker, "limits", Limits(seconds=0.2))

    async def give_up():
        has_left = asyncio.Event()
        asked = asyncio.create_task(ask_to_explain(worker, has_left))
        while worker.turns._n_waiting == 0:
            await asyncio.sleep(0.001)
        if gives_up == "client":
            has_left.set()
        assert await asked == 504
        worker.turns._used_until = 0.0
        release.set()
        monkeypatch.setattr(worker, "limits", Limits())
        return await worker.explain_in_turn(lambda: "the next one")

    assert asyncio.run(give_up()) == "the next one"
    assert not explained


def test_h3_a_response_has_a_limit_of_bytes(worker, monkeypatch):
    key = [(b"authorization", f"Bearer {KEY}".encode())]
    monkeypatch.setattr(worker, "limits", Limits(response_bytes=2000))
    assert ask(worker, "/v1/match", b"q=sofa&k=10", key)[0] == 200
    status, answer = ask(worker, "/v1/match", b"q=sofa&k=100", key)
    assert (status, answer["error"]["code"]) == (400, "response_too_large")
    batch = MatchRequest(["sofa"] * 10, MatchOptions("xr_linear"))
    with pytest.raises(RequestError, match="at most 2000 bytes") as raised:
        match_batch(worker.model, batch, time.monotonic() + 60, 2000)
    assert raised.value.code == "response_too_large"


def test_a_status_has_room_for_any_error(worker):
    current = current_version(worker.run)
    worker._report(current, error="\N{GRINNING FACE}" * 100_000)
    assert read_workers(worker.run)[os.getpid()].error.startswith("\N{GRINNING FACE}" * 300)


def test_a_full_disk_refuses_a_new_model_and_keeps_the_old(worker, monkeypatch):
    before = current_version(worker.run)
    monkeypatch.setattr("matchset.serve.reload.switch.publish", fail)
    with pytest.raises(
        RequestError, match="No space left on device; still serving the old model"
    ) as raised:
        reload(worker.run, worker.sources, worker.config)
    assert raised.value.code == "model_rejected"
    assert current_version(worker.run) == before


def test_a_signal_that_cannot_be_recorded_does_not_end_the_server(tmp_path, caplog):
    supervisor = Supervisor.__new__(Supervisor)
    supervisor.run = RunFolder(tmp_path / "gone")
    supervisor.signal_handler_reload()
    assert "cannot request a reload" in caplog.text


def test_a_small_file_that_cannot_be_replaced_leaves_nothing(tmp_path):
    (tmp_path / "name").mkdir()
    with pytest.raises(OSError, match="directory"):
        RunFolder(tmp_path).write_text("name", "text")
    assert [file.name for file in tmp_path.iterdir()] == ["name"]


def test_a_folder_whose_files_still_grow_is_not_the_same_folder(folder):
    sources = Sources(folder / "model")
    file = folder / "model" / "tree.data.bin"
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


def test_m4_a_reload_that_hangs_ends_in_time_and_never_blocks_the_next(worker, monkeypatch):
    before, release = current_version(worker.run), threading.Event()
    monkeypatch.setattr(worker, "config", ServeConfig(snapshot_seconds=0.3, reload_seconds=20))
    with monkeypatch.context() as patch:
        patch.setattr(switch, "take_snapshots", lambda *_: release.wait(60))
        started = time.monotonic()
        with pytest.raises(RequestError, match=r"read within 0\.3 s; got no end") as raised:
            worker.reload()
        assert raised.value.code == "reload_timeout"
        assert time.monotonic() - started < 50
    assert current_version(worker.run).folder == before.folder
    worker.start()
    monkeypatch.setattr(worker, "config", ServeConfig(reload_seconds=20))
    assert worker.reload().version == before.name  # while the thread still hangs
    folder = current_version(worker.run).folder
    release.set()
    eventually(lambda: [one.name for one in worker.run.versions.iterdir()] == [folder])
    assert worker.model.opened_from.folder == folder
