"""The load of a soak: what do callers ask all the time, and which products does a shop write?"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from serving import KEY, Server

KINDS = ("query", "filter", "batch", "explain", "model")
WEIGHTS = (70, 10, 10, 5, 5)
WRITE_SECONDS = 0.2  # between the writes of the shop
HEADERS = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
BATCH = json.dumps({"queries": ["sofa", "red table", "lamp"] * 8, "k": 50}).encode()


@dataclass
class Soak:
    """What happened so far."""

    server: Server
    paths: list[str]
    model: Path  # that is served
    models: list[Path]  # that take turns
    counts: Counter[str] = field(default_factory=Counter)
    kills: list[float] = field(default_factory=list)
    failures: list[tuple[float, str]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    # Whoever writes into the model's folder, until it has looked at what came of it.
    writing: threading.Lock = field(default_factory=threading.Lock)
    explains: bool = False  # whether the model can

    @property
    def port(self) -> int:
        """Where the server listens."""
        return int(self.server.url.rpartition(":")[2])

    def call(self) -> None:
        """Ask over and over, as one caller."""
        rng, connection = random.Random(threading.get_ident()), self.connect()
        while not self.stopped.is_set():
            (kind,) = rng.choices(KINDS, WEIGHTS)
            path, body = self.choose(kind, rng)
            status, _ = self.ask(connection, "GET" if body is None else "POST", path, body)
            if status == 200:
                self.counts["answered"] += 1
            elif status:
                self.failures.append((time.monotonic(), f"status {status} of {kind}"))
        connection.close()

    def ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> tuple[int, bytes]:
        """Send one request; 0 stands for a connection that failed, and is counted."""
        try:
            connection.request(method, path, body, HEADERS)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.failures.append((time.monotonic(), type(error).__name__))
            connection.close()  # it connects again
            return 0, b""

    def choose(self, kind: str, rng: random.Random) -> tuple[str, bytes | None]:
        """A request of a kind."""
        path = rng.choice(self.paths)
        if kind == "batch":
            return "/v1/match", BATCH
        if kind == "explain":
            query = {"query": "sofa", "product": "P00000001"}
            return ("/v1/explain", json.dumps(query).encode()) if self.explains else (path, None)
        if kind == "model":
            return "/v1/model", None
        return (f"{path}&where=price%3C{rng.randint(1, 60)}" if kind == "filter" else path), None

    def write(self) -> None:
        """Add products and remove half of them again, as a shop does all day."""
        number, connection = 0, self.connect()
        while not self.stopped.wait(WRITE_SECONDS):
            number += 1
            with self.writing:
                self.write_one(connection, number)
        connection.close()

    def write_one(self, connection: http.client.HTTPConnection, number: int) -> None:
        """Write a product; who was told that it is served must find it, on any worker."""
        product = {"id": f"soak{number}", "title": f"zyxo{number} lamp"}
        body = json.dumps({"products": [product], "version": 2 * number}).encode()
        if self.do_write(connection, "upserts", "POST", "/v1/products", body):
            self.look_for(number, is_there=True)
            path = f"/v1/products/soak{number}?version={2 * number + 1}"
            if number % 2 and self.do_write(connection, "removals", "DELETE", path, None):
                self.look_for(number, is_there=False)

    def do_write(
        self,
        connection: http.client.HTTPConnection,
        what: str,
        method: str,
        path: str,
        body: bytes | None,
    ) -> bool:
        """Whether a write was done; on a full disk it may be refused."""
        filler = self.model.parent / "filler"
        was_full = filler.exists()
        status, answer = self.ask(connection, method, path, body)
        if status == 200:
            self.counts[what] += 1
        elif b"No space left" in answer and (was_full or filler.exists()):
            self.counts["writes refused while the disk was full"] += 1
        elif status:
            self.failures.append((time.monotonic(), f"{status} of {what}: {answer[:200]!r}"))
        return status == 200

    def look_for(self, number: int, *, is_there: bool) -> None:
        """Ask for a product over new connections, which any worker may get."""
        for _ in range(2):
            connection = self.connect()
            status, answer = self.ask(connection, "GET", f"/v1/match?q=zyxo{number}", None)
            connection.close()
            if status == 200 and (f'"soak{number}"'.encode() in answer) != is_there:
                what = "a product is not found" if is_there else "a removed product is found"
                self.failures.append((time.monotonic(), what))

    def connect(self) -> http.client.HTTPConnection:
        """A connection of a caller."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
