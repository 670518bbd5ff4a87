"""A new model takes the place of the old one, or changes nothing; who dies is replaced."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from serving import COMMAND, KEY, eventually, serving

import matchset as ms
from matchset.errors import ModelFileError
from matchset.serve.generations import make_run_folder
from matchset.serve.run import count_listeners
from matchset.serve.snapshots import Sources, naming, take_snapshots, version_of

AUTH = {"authorization": f"Bearer {KEY}"}


@pytest.fixture
def folder(served_shop, tmp_path):
    """A folder of its own, whose model may be replaced."""
    shutil.copytree(served_shop / "model", tmp_path / "model")
    shutil.copy(served_shop / "keys", tmp_path / "keys")
    return tmp_path


def replace_by(folder, other):
    ms.load(other).save(folder / "model", overwrite=True)


def damage(model, name="tree.data.bin"):
    """Change a byte, in a file that replaces the other: served files are never written to."""
    file = model / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    file.write_bytes(data)


def reload(server):
    return server.post("/v1/reload", b"", headers=AUTH)


def versions(server, n=30):
    return {server.call("/v1/model", headers=AUTH).json["model_version"] for _ in range(n)}


class Load:
    """Asks without end, from threads; notes every answer that is not 200."""

    def __init__(self, server, n_threads=3):
        self.faults, self.versions, self.n_asked = [], set(), 0
        self._stop = threading.Event()
        self._server = server
        self._threads = [threading.Thread(target=self._ask) for _ in range(n_threads)]

    def _ask(self):
        while not self._stop.is_set():
            try:
                reply = self._server.call("/v1/match?q=sofa&k=5", headers=AUTH)
            except OSError as error:
                self.faults.append(repr(error))
                continue
            self.n_asked += 1
            if reply.status == 200:
                self.versions.add(reply.json["model_version"])
            else:
                self.faults.append(reply.body)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()


def test_a_reload_switches_every_worker_and_fails_no_request(folder, served_shop):
    models = (served_shop / "other", served_shop / "model")
    with serving(folder, "--api-key-file", folder / "keys") as server:
        (before,) = versions(server)
        with Load(server) as load:
            for number in range(6):
                replace_by(folder, models[number % 2])
                reply = reload(server)
                assert reply.status == 200, reply.body
                assert reply.json["workers"] == 2
                assert versions(server, 8) == {reply.json["model_version"]}
        assert load.faults == []
        assert len(load.versions) == 2
        assert versions(server) == {before}
        (run,) = folder.glob(".model.*.serving")
        assert [one.name for one in (run / "generations").iterdir()] == ["7"]
        assert server.stop() == 0
        assert list(folder.glob(".model.*")) == []


def spoil(model, how, served_shop):
    if how == "byte":
        damage(model)
    elif how == "missing file":
        (model / "tree.data.bin").unlink()
    elif how == "no manifest":
        (model / "manifest.json").unlink()
    else:
        shutil.rmtree(model)
        if how == "other kind":
            shutil.copytree(served_shop / "bm25", model)


def test_a_bad_model_changes_nothing(folder, served_shop):
    model = folder / "model"
    with serving(folder, "--api-key-file", folder / "keys") as server:
        (before,) = versions(server, 4)
        for how in ("byte", "missing file", "no manifest", "no folder", "other kind"):
            spoil(model, how, served_shop)
            reply = reload(server)
            assert (reply.status, reply.code) == (409, "model_refused")
            message = reply.json["error"]["message"]
            assert str(model) in message
            assert ".serving" not in message
            assert versions(server, 4) == {before}
            shutil.rmtree(model, ignore_errors=True)
            shutil.copytree(served_shop / "other", model)
        damage(model)
        # A worker that starts now opens what was verified, not what lies at the path.
        kill_worker(server)
        assert versions(server, 10) == {before}
        shutil.rmtree(model)
        shutil.copytree(served_shop / "other", model)
        assert reload(server).status == 200


def kill_worker(server):
    """Kill one, and wait for another in its place."""
    n_workers, killed = len(server.workers), server.workers[0]
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: killed not in server.workers)
    eventually(lambda: len(server.workers) == n_workers)
    eventually(lambda: count_listeners(server.port) == n_workers)
    return killed


def test_one_reload_at_a_time(folder):
    with serving(folder, "--api-key-file", folder / "keys") as server:
        statuses = []
        threads = [
            threading.Thread(target=lambda: statuses.append(reload(server))) for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {reply.status for reply in statuses} <= {200, 409}
        assert 200 in {reply.status for reply in statuses}
        assert {reply.code for reply in statuses if reply.status == 409} <= {"reload_running"}


def test_a_signal_reloads_and_restarts_nobody(folder, served_shop):
    with serving(folder) as server:
        (first,) = versions(server, 4)
        workers = server.workers
        replace_by(folder, served_shop / "other")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: first not in versions(server, 10))
        replace_by(folder, served_shop / "model")
        server.process.send_signal(signal.SIGUSR1)
        eventually(lambda: versions(server, 10) == {first})
        damage(folder / "model")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "reload failed" in {line["event"] for line in server.lines()})
        assert versions(server, 10) == {first}
        assert server.workers == workers


def test_a_watched_folder_reloads_when_it_is_replaced(folder, served_shop):
    with serving(folder, "--watch") as server:
        (before,) = versions(server, 4)
        replace_by(folder, served_shop / "other")
        (now,) = eventually(lambda: before not in (found := versions(server, 10)) and found)
        shutil.rmtree(folder / "model")
        shutil.copytree(served_shop / "bm25", folder / "model")
        eventually(lambda: "reload failed" in {line["event"] for line in server.lines()})
        assert versions(server, 10) == {now}
        replace = folder / "next"
        shutil.copytree(served_shop / "model", replace)
        shutil.rmtree(folder / "model")
        replace.rename(folder / "model")
        eventually(lambda: versions(server, 10) == {before})


def test_keys_are_read_again_on_reload(folder):
    with serving(folder, "--api-key-file", folder / "keys", workers=1) as server:
        (folder / "keys").write_text("another-key-of-length\n")
        assert reload(server).status == 200
        assert reload(server).status == 401
        auth = {"authorization": "Bearer another-key-of-length"}
        (folder / "keys").write_text("short\n")
        reply = server.post("/v1/reload", b"", headers=auth)
        assert (reply.status, reply.code) == (409, "model_refused")
        assert "another" not in reply.json["error"]["message"].replace("got another", "")
        assert server.call("/v1/model", headers=auth).status == 200


def test_a_killed_worker_is_replaced_again_and_again(folder):
    with serving(folder) as server, Load(server, 2) as load:
        killed = {kill_worker(server) for _ in range(3)}  # more often than granian would bear
        assert len(killed) == 3
        assert not killed & set(server.workers)
        n_asked = load.n_asked
        eventually(lambda: load.n_asked > n_asked + 20)
    # A killed process takes what it was answering with it; nothing else fails.
    assert all(isinstance(fault, str) for fault in load.faults)
    assert len(load.faults) <= 3 * 2


def test_a_worker_killed_amid_a_reload_leaves_the_rest_whole(folder, served_shop):
    with serving(folder, "--api-key-file", folder / "keys") as server:
        replace_by(folder, served_shop / "other")
        thread = threading.Thread(target=lambda: _ignore(lambda: reload(server)))
        thread.start()
        kill_worker(server)
        thread.join()
        reply = eventually(lambda: (r := reload(server)).status == 200 and r)
        assert versions(server, 10) == {reply.json["model_version"]}


def _ignore(do):
    try:
        do()
    except OSError:
        return


def test_requests_in_flight_end_before_the_server_does(folder):
    with serving(folder) as server:
        body = json.dumps({"queries": ["sofa"]}).encode()
        connections = []
        for _ in range(6):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            connection.putrequest("POST", "/v1/match")
            connection.putheader("content-type", "application/json")
            connection.putheader("content-length", str(len(body)))
            connection.endheaders(body[:5])
            connections.append(connection)
        # This request is one of those in flight too.
        eventually(lambda: b"in_flight 7.0" in server.call("/metrics").body)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: _is_refused(server))
        for connection in connections:
            connection.send(body[5:])
        assert [connection.getresponse().status for connection in connections] == [200] * 6
        assert server.process.wait(30) == 0
    assert list(folder.glob(".model.*")) == []


def _is_refused(server):
    try:
        server.call("/healthz", timeout=2)
    except OSError:
        return True
    return False


def test_a_signal_to_the_whole_group_is_no_fault(folder):
    with serving(folder) as server:
        for pid in [*server.workers, server.process.pid]:  # as a service manager does it
            os.kill(pid, signal.SIGTERM)
        assert server.process.wait(30) == 0


def test_workers_do_not_outlive_the_main_process(folder, served_shop):
    with serving(folder) as server:
        workers = server.workers
        server.process.kill()
        server.process.wait(10)
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
        assert len(list(folder.glob(".model.*.serving"))) == 1
    with serving(folder) as server:  # clears away what the killed one left
        assert len(list(folder.glob(".model.*.serving"))) == 1
        assert server.match("sofa").status == 200


def test_a_port_that_is_taken_is_not_shared(folder):
    with serving(folder, workers=1) as server:
        done = subprocess.run(
            [COMMAND, "serve", folder / "model", "--port", str(server.port)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1
        assert "cannot listen: Address already in use" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["nothing"], "not a matchset folder"),
        (["model", "--beside", "model"], "matchers must be of different kinds; got two tree"),
        (["model", "--host", "300.1.1.1"], "cannot listen"),
        (["model", "--api-key-file", "nothing"], "API keys cannot be read"),
        (["model", "--limits.beam", "0"], "beam must be positive and finite; got 0"),
    ],
)
def test_a_server_that_cannot_start_says_why_and_leaves_nothing(folder, arguments, fault):
    done = subprocess.run(
        [COMMAND, "serve", *arguments], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert fault in done.stderr
    assert "Traceback" not in done.stderr
    assert list(folder.glob(".model.*")) == []


@pytest.mark.parametrize("how", ["link", "copy"])
def test_a_snapshot_keeps_what_was_there(folder, served_shop, how):
    sources = Sources(folder / "model")
    version = take_snapshots(sources, folder / "kept", how)
    assert version == version_of([folder / "model"])
    replace_by(folder, served_shop / "other")
    assert version_of([folder / "kept" / "0"]) == version
    assert version_of([folder / "model"]) != version
    ms.verify(folder / "kept" / "0")
    assert ms.load(folder / "kept" / "0").match("sofa").ids


def test_a_snapshot_of_what_is_damaged_is_refused_by_its_own_name(folder):
    damage(folder / "model")
    sources = Sources(folder / "model")
    expected = pytest.raises(ModelFileError, match=r"model/tree\.data\.bin: damaged")
    with expected, naming(sources, folder / "kept"):
        take_snapshots(sources, folder / "kept", "link")


def test_an_unwritable_place_is_gone_around(folder, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    with make_run_folder(tmp_path / "file" / "model") as run:  # no folder can be made there
        assert run.path.parent == tmp_path
    assert not run.path.exists()
