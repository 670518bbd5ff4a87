"""A full disk, a damaged model, and clients that never read do not end a server."""

import os
import signal
import subprocess

import pytest
from reloading import kill_worker
from serving import eventually, serving


@pytest.fixture
def disk(tmp_path, served_shop):
    """A small disk of its own with a model on it, and how to fill it."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "matchset-test", str(path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a disk")
    try:
        subprocess.run(["cp", "-r", served_shop / "model", path / "model"], check=True)
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(disk):
    """Leave no byte free."""
    file = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
    for size in (1 << 20, 1 << 12, 1):
        try:
            while True:
                os.write(file, bytes(size))
        except OSError:
            continue
    os.close(file)


def test_h1_a_full_disk_beside_the_model_stops_nothing(disk, tmp_path):
    with serving(tmp_path, model=disk / "model") as server:
        fill(disk)
        assert [server.match("sofa").status for _ in range(20)] == [200] * 20
        assert server.call("/openapi.json").status == 200  # a route that was not counted yet
        killed = {kill_worker(server) for _ in range(2)}
        assert not killed & set(server.workers)
        assert [server.match("sofa").status for _ in range(20)] == [200] * 20
        assert b"matchset_requests_total{" in server.call("/metrics").body
        died = [line for line in server.lines() if line["event"] == "a worker died"]
        assert {line["pid"] for line in died} == killed
        assert {line["died_of"] for line in died} == {"SIGKILL"}
        assert server.stop() == 0


def test_m5_a_damaged_model_is_made_again_from_its_folder(folder, served_shop):
    with serving(folder) as server:
        damage_in_place(folder)
        repair(folder, served_shop)
        os.kill(server.workers[0], signal.SIGBUS)  # as the damage would, sooner or later
        eventually(lambda: any("made again" in line["event"] for line in server.lines()))
        eventually(lambda: server.match("sofa").status == 200)
        kill_worker(server)
        assert server.match("sofa").status == 200
        assert server.stop() == 0


def test_m5_a_server_that_can_serve_nobody_ends_with_an_error(folder):
    with serving(folder) as server:
        damage_in_place(folder)
        for pid in server.workers:
            os.kill(pid, signal.SIGBUS)
        assert server.process.wait(60) == 1
        assert "cannot be served" in server.log.read_text()
    assert list(folder.glob(".model.*")) == []


def damage_in_place(folder):
    """Cut a file that is served, as no program of ours would."""
    with (folder / "model" / "tree.blocks.bin").open("r+b") as stream:
        stream.truncate(100)


def repair(folder, served_shop):
    """Bring the model back, under the same name."""
    (folder / "model" / "tree.blocks.bin").unlink()
    source, target = served_shop / "model", folder / "model"
    subprocess.run(["cp", source / "tree.blocks.bin", target / "tree.blocks.bin"], check=True)
