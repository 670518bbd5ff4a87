"""What a worker shares with others stays right when one dies, a disk is full, or all are busy."""

import asyncio
import os
import threading
import time
from select import PIPE_BUF

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import KEY, ask

from matchset.serve.http.access_log import pack
from matchset.serve.http.handlers import answer_batch
from matchset.serve.http.problems import RequestError
from matchset.serve.http.requests import Batch, Question
from matchset.serve.loaded_model import open_generation
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.reload.generations import (
    RunFolder,
    current,
    make_run_folder,
    publish,
    read_workers,
)
from matchset.serve.reload.snapshots import Sources
from matchset.serve.reload.switch import make_generation, reload
from matchset.serve.run import _Supervisor
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
        publish(run, make_generation(run, sources, config, 1))
        made = Worker(run, sources, config, Limits())
        yield made
        made.stop()


def test_a_worker_that_starts_later_has_the_keys_of_the_others(worker, folder):
    (folder / "keys").unlink()
    opened = open_generation(worker.run, current(worker.run), worker.sources, worker.config)
    assert opened.keys == worker.served.keys
    assert opened.keys.allow(f"Bearer {KEY}".encode())
    assert not opened.keys.allow(f"Bearer {KEY}x".encode())
    kept = [file for file in worker.run.path.rglob("*") if file.is_file()]
    assert not any(KEY.encode() in file.read_bytes() for file in kept)


def test_what_was_in_flight_in_a_dead_worker_is_forgotten(worker):
    dead, live = (worker.run.metrics / f"gauge_livesum_{pid}.db" for pid in (2**30, os.getpid()))
    for file in (dead, live):
        file.write_bytes(bytes(64))
    text = asyncio.run(worker.write_metrics())
    assert not dead.exists()
    assert live.exists()
    assert b"matchset_workers{" in text


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


def test_an_acknowledgement_that_could_not_be_written_is_made_up_for(worker, monkeypatch):
    made = make_generation(worker.run, worker.sources, worker.config, 2)
    publish(worker.run, made)
    monkeypatch.setattr(worker._registration, "acknowledge", fail)
    with pytest.raises(OSError, match="No space"):
        worker._follow()
    monkeypatch.undo()
    worker._follow()
    assert read_workers(worker.run)[os.getpid()].number == 2
    assert worker.served.generation == made


def test_a_full_disk_refuses_a_new_model_and_keeps_the_old(worker, monkeypatch):
    before = current(worker.run)
    monkeypatch.setattr("matchset.serve.reload.switch.publish", fail)
    with pytest.raises(RequestError, match="No space left on device; the old model") as raised:
        reload(worker.run, worker.sources, worker.config)
    assert raised.value.code == "model_refused"
    assert current(worker.run) == before


def test_a_signal_that_cannot_be_noted_does_not_end_the_server(tmp_path, caplog):
    supervisor = _Supervisor.__new__(_Supervisor)
    supervisor.run = RunFolder(tmp_path / "gone")
    supervisor.signal_handler_reload()
    assert "a reload cannot be asked for" in caplog.text


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


def test_nobody_works_for_a_batch_whose_time_is_over(worker):
    batch = Batch(["sofa"], Question())
    assert answer_batch(worker.served, batch, time.monotonic() + 60)[1] == 0
    with pytest.raises(TimeoutError):
        answer_batch(worker.served, batch, time.monotonic() - 1)


@given(st.lists(st.binary(max_size=3 * PIPE_BUF)))
def test_lines_of_a_log_are_written_whole(texts):
    lines = [text.replace(b"\n", b" ") + b"\n" for text in texts]
    written = list(pack(lines))
    assert b"".join(written) == b"".join(lines)
    assert all(data.endswith(b"\n") for data in written)
    assert all(len(data) <= PIPE_BUF or data.count(b"\n") == 1 for data in written)
