"""Workers that die are replaced; a server that stops finishes its requests first."""

import http.client
import json
import os
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from reloading import Load, all_serve, kill_worker, reload, replace_by
from serving import COMMAND, eventually, serving


def test_a_killed_worker_is_replaced(folder):
    with serving(folder) as server, Load(server, 2) as load:
        killed = kill_worker(server)
        assert killed not in server.workers
        n_answered = load.n_answered
        eventually(lambda: load.n_answered > n_answered + 20)
    # A killed process takes with it what it was answering, and what came to its socket until the
    # kernel closed it: of each of the two callers an answer and a try or two.
    assert all(isinstance(fault, str) for fault in load.errors)
    assert len(load.errors) <= 2 * 3


def test_a_server_whose_workers_keep_dying_ends_with_an_error(folder):
    with serving(folder, workers=1) as server:
        for _ in range(2):
            pid = eventually(lambda: server.workers)[0]
            eventually(lambda: answers(server))
            os.kill(pid, signal.SIGBUS)
            eventually(lambda p=pid: p not in server.workers)
        assert server.process.wait(60) == 1


def answers(server):
    with suppress(OSError, http.client.HTTPException):
        return server.call("/readyz").status == 200
    return False


def test_a_worker_killed_amid_a_reload_leaves_the_rest_whole(folder, served_shop):
    with serving(folder, "--api-key-file", folder / "keys") as server:
        replace_by(folder, served_shop / "other")
        thread = threading.Thread(target=lambda: _ignore(lambda: reload(server)))
        thread.start()
        kill_worker(server)
        thread.join()
        reply = eventually(lambda: (r := reload(server)).status == 200 and r)
        eventually(lambda: all_serve(server) == reply.json["model_version"])


def _ignore(do):
    try:
        do()
    except (OSError, http.client.HTTPException):
        return


def test_requests_in_flight_end_before_the_server_does(folder):
    options = ["--limits.slow-seconds", 600]
    with serving(folder, *options) as server:
        body = json.dumps({"queries": ["sofa"]}).encode()
        connections = []
        for _ in range(6):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
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
        assert server.process.wait(90) == 0
    assert list(folder.glob(".model.*.serving")) == []


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
        assert server.process.wait(90) == 0


def test_workers_do_not_outlive_the_main_process(folder, served_shop):
    with serving(folder) as server:
        workers = server.workers
        server.process.kill()
        server.process.wait(90)
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
        assert len(list(folder.glob(".model.*.serving"))) == 1
    with serving(folder) as server:  # clears away what the killed one left
        assert len(list(folder.glob(".model.*.serving"))) == 1
        assert server.match("sofa").status == 200


def test_a_server_listens_on_a_name(folder):
    with serving(folder, "--host", "localhost", workers=1) as server:
        assert server.address == f"http://localhost:{server.port}"
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
        (["nothing"], "cannot be read: No such file or directory"),
        (["model", "--also", "model"], "matchers must be of different kinds; got two xr_linear"),
        (["model", "--host", "300.1.1.1"], "cannot listen"),
        (["model", "--api-key-file", "nothing"], "API keys cannot be read"),
        (["model", "--limits.seconds", "0"], "seconds must be positive and finite; got 0"),
    ],
)
def test_a_server_that_cannot_start_says_why_and_leaves_nothing(folder, arguments, fault):
    done = subprocess.run(
        [COMMAND, "serve", *arguments], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert fault in done.stderr
    assert "Traceback" not in done.stderr
    assert list(folder.glob(".model.*.serving")) == []
