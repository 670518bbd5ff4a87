"""A full disk, a damaged model, and clients that never read do not end a server."""

import json
import os
import socket
import subprocess
from contextlib import ExitStack

import pytest
from reloading import kill_worker
from serving import eventually, serving

BATCH = {"queries": ["sofa"] * 64, "k": 300}  # two megabytes of response
N_ASKED = 100  # of those: more than any buffer on the way holds
UNREAD = "--limits.slow-seconds"
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
        assert kill_worker(server) not in server.workers
        assert [server.match("sofa").status for _ in range(20)] == [200] * 20
        assert b"matchset_requests_total{" in server.call("/metrics").body
        assert server.stop() == 0


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


def test_a_caller_who_leaves_amid_a_response_is_no_failure(folder):
    with serving(folder, *LONG, workers=1) as server:
        for _ in range(5):
            with ExitStack() as stack:
                ask_and_never_read(server, stack).recv(1000)
        eventually(lambda: count_in_flight(server) == 1)
        assert [line for line in server.lines() if line["level"] in ("error", "warning")] == []
        assert server.match("sofa").status == 200
