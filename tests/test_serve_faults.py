"""A full disk, a damaged model, and clients that never read do not end a server."""

import http.client
import json
import os
import signal
import socket
import subprocess
from contextlib import ExitStack, suppress

import pytest
from reloading import kill_worker
from serving import eventually, serving

BATCH = {"queries": ["sofa"] * 64, "k": 300}  # two megabytes of response
N_ASKED = 100  # of those: more than any buffer on the way holds
UNREAD = "--limits.unread-seconds"
LONG = ("--limits.seconds", 600)  # no request takes too long, on a busy machine either


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
        # The other worker may read what is damaged before it has switched, and die of it too.
        eventually(lambda: is_answered(server))
        kill_worker(server)
        assert server.match("sofa").status == 200
        assert server.stop() == 0


def is_answered(server):
    with suppress(OSError, http.client.HTTPException):
        return server.match("sofa").status == 200
    return False


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


def ask_and_never_read(server, stack):
    """A connection that asks for much at once and takes nothing: soon a response must wait."""
    body = json.dumps(BATCH).encode()
    one = stack.enter_context(socket.socket())
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)  # room for all requests
    one.connect(("127.0.0.1", server.port))
    start = b"POST /v1/match HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    one.sendall((start + b"content-length: %d\r\n\r\n" % len(body) + body) * N_ASKED)
    return one


def count_in_flight(server):
    lines = server.call("/metrics").body.decode().splitlines()
    return float(next(line for line in lines if line.startswith("matchset_requests_in")).split()[1])


def read_to_end(one):
    one.settimeout(60)
    n_bytes = 0
    try:
        while part := one.recv(1 << 20):
            n_bytes += len(part)
    except ConnectionError:
        pass
    return n_bytes


def list_ended(server):
    """Log lines of requests whose response nobody read in time."""
    return [line for line in server.lines() if line.get("status") == 504]


def test_h3_responses_that_nobody_reads_end_after_a_while(folder):
    with serving(folder, UNREAD, 1, *LONG, workers=1) as server, ExitStack() as stack:
        whole = len(server.post("/v1/match", BATCH).body)
        unread = [ask_and_never_read(server, stack) for _ in range(3)]
        eventually(lambda: len(list_ended(server)) == 3)
        eventually(lambda: count_in_flight(server) == 1)  # this one
        assert [read_to_end(one) < N_ASKED * whole for one in unread] == [True] * 3
        assert server.stop() == 0


def test_h3_unsent_bytes_of_a_worker_are_bounded_and_count_as_in_flight(folder):
    options = ["--limits.unsent-bytes", 4_000_000, UNREAD, 600, *LONG]
    with serving(folder, *options, workers=1) as server, ExitStack() as stack:
        whole = len(server.post("/v1/match", BATCH).body)
        assert 2_000_000 < whole < 4_000_000
        ask_and_never_read(server, stack)
        refused = eventually(lambda: (r := server.post("/v1/match", BATCH)).status == 503 and r)
        assert refused.code == "overloaded"
        assert refused.headers["retry-after"] == "1"
        eventually(lambda: count_in_flight(server) == 2)  # this one too
        assert server.match("sofa").status == 200


def test_h3_a_small_response_that_nobody_reads_ends_too(folder):
    with serving(folder, UNREAD, 1, workers=1) as server, ExitStack() as stack:
        one = stack.enter_context(socket.socket())
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", server.port))
        one.settimeout(60)
        request = b"GET /v1/match?q=sofa&k=300 HTTP/1.1\r\nhost: localhost\r\n\r\n"
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            one.sendall(request * 1_000_000)  # until the server's buffers are full, and it gives up


def test_a_caller_who_leaves_amid_a_response_is_no_failure(folder):
    with serving(folder, *LONG, workers=1) as server:
        for _ in range(5):
            with ExitStack() as stack:
                ask_and_never_read(server, stack).recv(1000)
        eventually(lambda: count_in_flight(server) == 1)
        assert [line for line in server.lines() if line["level"] in ("error", "warning")] == []
        assert server.match("sofa").status == 200
