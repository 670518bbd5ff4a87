"""A new model takes the place of the old one, or changes nothing."""

import os
import shutil
import signal
import threading

import pytest
from reloading import Load, all_serve, damage, kill_worker, reload, replace_by, versions
from serving import eventually, serving
from stored import copy_model

import matchset as ms
from matchset.errors import ModelFileError
from matchset.serve.snapshots import Sources, naming_sources, take_snapshots, version_of
from matchset.serve.versions import make_run_folder


def test_a_reload_switches_every_worker_and_fails_no_request(folder, served_shop):
    models = (served_shop / "other", served_shop / "model")
    with serving(folder, "--api-key-file", folder / "keys") as server:
        (before,) = versions(server)
        with Load(server) as load:
            for number in range(6):
                replace_by(folder, models[number % 2])
                reply = reload(server)
                assert reply.status == 200, reply.body
                eventually(lambda v=reply.json["model_version"]: all_serve(server) == v)
        assert load.errors == []
        assert len(load.versions) == 2
        assert versions(server) == {before}
        (run,) = folder.glob(".model.*.serving")
        assert {one.name for one in (run / "versions").iterdir()} == {"6", "7"}
        assert server.stop() == 0
        assert list(folder.glob(".model.*.serving")) == []


def spoil(model, how, served_shop):
    if how == "byte":
        damage(model)
    elif how == "cut":
        data = model.read_bytes()
        model.unlink()
        model.write_bytes(data[:-100])
    else:
        model.unlink()
        if how == "other kind":
            shutil.copy(served_shop / "bm25", model)


def test_a_bad_model_changes_nothing(folder, served_shop):
    model = folder / "model"
    with serving(folder, "--api-key-file", folder / "keys") as server:
        (before,) = versions(server, 4)
        for how in ("byte", "cut", "no file", "other kind"):
            spoil(model, how, served_shop)
            reply = reload(server)
            assert (reply.status, reply.code) == (409, "model_rejected")
            message = reply.json["error"]["message"]
            assert str(model) in message
            assert ".serving" not in message
            assert versions(server, 4) == {before}
            copy_model(served_shop / "other", model)
        damage(model)
        # A worker that starts now opens what was verified, not what lies at the path.
        kill_worker(server)
        assert versions(server, 10) == {before}
        copy_model(served_shop / "other", model)
        assert reload(server).status == 200


def test_a_model_that_is_copied_over_the_one_that_is_served_hurts_nobody(folder, served_shop):
    with serving(folder, "--api-key-file", folder / "keys") as server:
        (before,) = versions(server, 4)
        with Load(server) as load:
            shutil.copy(served_shop / "bm25", folder / "model")  # smaller, into the same inode
            assert reload(server).status == 409
            kill_worker(server)
            shutil.copy(served_shop / "other", folder / "model")
            assert reload(server).status == 200
            assert eventually(lambda: load.versions > {before})
        assert not [error for error in load.errors if isinstance(error, bytes)]
        assert server.stop() == 0


def test_reloads_wait_for_each_other(folder):
    with serving(folder, "--api-key-file", folder / "keys") as server:
        statuses = []
        threads = [
            threading.Thread(target=lambda: statuses.append(reload(server))) for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [reply.status for reply in statuses] == [200] * 6
        (run,) = folder.glob(".model.*.serving")
        assert (run / "current").readlink().name == "7"


def test_a_signal_reloads(folder, served_shop):
    with serving(folder) as server:
        (first,) = versions(server, 4)
        workers = server.workers
        replace_by(folder, served_shop / "other")
        server.process.send_signal(signal.SIGUSR1)
        eventually(lambda: all_serve(server) not in (None, first))
        assert server.workers == workers
        damage(folder / "model")
        server.process.send_signal(signal.SIGUSR1)
        eventually(lambda: "reload failed" in {line["event"] for line in server.lines()})
        assert first not in versions(server, 10)
        replace_by(folder, served_shop / "model")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: not set(server.workers) & set(workers))
        eventually(lambda: all_serve(server) == first)


def test_a_watched_file_reloads_when_it_is_replaced(folder, served_shop):
    with serving(folder, "--watch") as server:
        (before,) = versions(server, 4)
        replace_by(folder, served_shop / "other")
        now = eventually(lambda: (found := all_serve(server)) != before and found)
        assert versions(server, 10) == {now}
        copy_model(served_shop / "bm25", folder / "model")
        eventually(lambda: "reload failed" in {line["event"] for line in server.lines()})
        assert versions(server, 10) == {now}
        replace = folder / "next"
        shutil.copy(served_shop / "model", replace)
        replace.rename(folder / "model")
        eventually(lambda: all_serve(server) == before)
        assert versions(server, 10) == {before}


def test_a_watched_file_that_is_copied_in_is_served_once_it_is_whole(folder, served_shop):
    with serving(folder, "--watch", workers=1) as server:
        (before,) = versions(server, 2)
        whole = (served_shop / "other").read_bytes()
        (folder / "model").unlink()
        (folder / "model").write_bytes(whole[:-100])
        eventually(lambda: any("must be" in line.get("reason", "") for line in server.lines()))
        with (folder / "model").open("ab") as stream:
            stream.write(whole[-100:])
        eventually(lambda: before not in versions(server, 2))


def test_keys_are_read_again_on_reload(folder):
    with serving(folder, "--api-key-file", folder / "keys", workers=1) as server:
        (folder / "keys").write_text("another-key-of-length\n")
        assert reload(server).status == 200
        assert reload(server).status == 401
        auth = {"authorization": "Bearer another-key-of-length"}
        (folder / "keys").write_text("short\n")
        reply = server.post("/v1/reload", b"", headers=auth)
        assert (reply.status, reply.code) == (409, "model_rejected")
        assert "another" not in reply.json["error"]["message"]
        assert server.call("/v1/model", headers=auth).status == 200


def test_a_snapshot_keeps_what_was_there(folder, served_shop):
    sources = Sources(folder / "model")
    version = take_snapshots(sources, folder / "kept")
    assert version == version_of([folder / "model"])
    replace_by(folder, served_shop / "other")
    assert version_of([folder / "kept" / "0"]) == version
    assert version_of([folder / "model"]) != version
    ms.verify(folder / "kept" / "0")
    assert ms.load(folder / "kept" / "0").match("sofa").ids


def test_a_snapshot_of_what_is_damaged_is_refused_by_its_own_name(folder):
    damage(folder / "model")
    sources = Sources(folder / "model")
    expected = pytest.raises(ModelFileError, match="model: damaged: the checksum of")
    with expected, naming_sources(sources, folder / "kept"):
        take_snapshots(sources, folder / "kept")


def test_an_unwritable_place_is_gone_around(folder, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    with make_run_folder(tmp_path / "file" / "model") as run:  # no folder can be made there
        assert run.path.parent == tmp_path
    assert not run.path.exists()


def test_m4_a_reload_of_a_pipe_is_refused_at_once_and_the_next_one_works(folder, served_shop):
    with serving(folder, "--api-key-file", folder / "keys") as server:
        (folder / "model").unlink()
        os.mkfifo(folder / "model")
        reply = reload(server)
        assert (reply.status, reply.code) == (409, "model_rejected")
        assert "no regular file" in reply.json["error"]["message"]
        copy_model(served_shop / "other", folder / "model")
        assert reload(server).status == 200
        assert server.stop() == 0
