"""Models that are replaced under a running server, with load on it."""

import http.client
import os
import signal
import threading

from serving import KEY, eventually

import matchset as ms

AUTH = {"authorization": f"Bearer {KEY}"}


def replace_by(folder, other):
    ms.load(other).save(folder / "model", overwrite=True)


def damage(model):
    """Change a byte, in a new file: served files are never written to."""
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    model.unlink()
    model.write_bytes(data)


def reload(server):
    return server.post("/v1/reload", b"", headers=AUTH)


def versions(server, n=30):
    return {server.call("/v1/model", headers=AUTH).json["model_version"] for _ in range(n)}


def all_serve(server):
    """Return the version that every worker serves; None while they differ."""
    lines = server.call("/metrics", headers=AUTH).body.decode().splitlines()
    counts = [line for line in lines if line.startswith("matchset_workers{")]
    if [line.rpartition(" ")[2] for line in counts] != [f"{server.n_workers}.0"]:
        return None
    return counts[0].split('"')[1]


def kill_worker(server):
    """Kill a worker and wait for its replacement."""
    wait_for_workers(server)  # one that died before may not be replaced yet
    killed = server.workers[0]
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: killed not in server.workers)
    wait_for_workers(server)
    return killed


def wait_for_workers(server):
    eventually(lambda: len(server.workers) == server.n_workers)
    eventually(lambda: count_workers(server) == server.n_workers)


def count_workers(server):
    """How many workers serve, as the metrics say."""
    lines = server.call("/metrics", headers=AUTH).body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("matchset_workers{"))


class Load:
    """Sends requests from threads all the time; collects every response that is not 200."""

    def __init__(self, server, n_threads=3):
        self.errors, self.versions, self.n_answered = [], set(), 0
        self._stop = threading.Event()
        self._server = server
        self._threads = [threading.Thread(target=self._send) for _ in range(n_threads)]

    def _send(self):
        while not self._stop.is_set():
            try:
                reply = self._server.call("/v1/match?q=sofa&k=5", headers=AUTH)
            except (OSError, http.client.HTTPException) as error:
                self.errors.append(repr(error))
                continue
            self.n_answered += 1
            if reply.status == 200:
                self.versions.add(reply.json["model_version"])
            else:
                self.errors.append(reply.body)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
