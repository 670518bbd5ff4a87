"""Models that are replaced under a running server, with load on it."""

import os
import signal
import threading

from serving import KEY, eventually

import matchset as ms
from matchset.serve.run import count_listeners

AUTH = {"authorization": f"Bearer {KEY}"}


def replace_by(folder, other):
    ms.load(other).save(folder / "model", overwrite=True)


def damage(model, name="tree.data.bin"):
    """Change a byte, in a new file: served files are never written to."""
    file = model / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    file.write_bytes(data)


def reload(server):
    return server.post("/v1/reload", b"", headers=AUTH)


def versions(server, n=30):
    return {server.call("/v1/model", headers=AUTH).json["model_version"] for _ in range(n)}


def kill_worker(server):
    """Kill a worker and wait for its replacement."""
    n_workers, killed = len(server.workers), server.workers[0]
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: killed not in server.workers)
    eventually(lambda: len(server.workers) == n_workers)
    eventually(lambda: count_listeners(server.port) == n_workers)
    return killed


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
            except OSError as error:
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
