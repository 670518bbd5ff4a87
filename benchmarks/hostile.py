"""Hostile clients: what do they send, and does a server refuse it clearly and stay up?"""

from __future__ import annotations

import argparse
import re
import resource
import selectors
import socket
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import urllib3
from serving import KEY, Server

import matchset as ms

AT_A_TIME = 500  # connections that are opened together: more than a kernel queues would wait
MOST_SECONDS = 120  # for all of them
LIMIT_SECONDS = 2  # for headers and bodies to come in: slow clients need not be waited for long
WRONG = {
    "malformed JSON": b'{"queries": ["sofa"',
    "not an object": b"[]",
    "not UTF-8": b'{"queries": ["\xff\xfe"]}',
    "nested 100,000 deep": b"[" * 100_000,
    "queries is a number": b'{"queries": 3}',
    "a query is a number": b'{"queries": ["sofa", 3]}',
    "k is a text": b'{"queries": ["sofa"], "k": "ten"}',
    "k is huge": b'{"queries": ["sofa"], "k": 1e400}',
    "an unknown field": b'{"queries": ["sofa"], "kk": 3}',
}


@dataclass(frozen=True)
class Target:
    """A server, what it serves, and a way to call it."""

    server: Server
    folder: Path
    pool: urllib3.PoolManager
    options: argparse.Namespace

    @property
    def address(self) -> tuple[str, int]:
        """To connect to."""
        host, port = self.server.url.removeprefix("http://").split(":")
        return host, int(port)

    def post(self, path: str, body: bytes = b"", timeout: float = 60) -> urllib3.BaseHTTPResponse:
        """One call with the key."""
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        url = self.server.url + path
        return self.pool.request("POST", url, body=body, headers=headers, timeout=timeout)

    def version(self) -> str:
        """Of the model that answers."""
        with ms.Client(self.server.url, api_key=KEY) as client:
            return str(client.model()["model_version"])

    def replace(self, source: str) -> None:
        """Put another model into the served folder, at once."""
        ms.load(self.folder / source).save(self.folder / "served", overwrite=True)


@dataclass(frozen=True)
class Outcome:
    """What a fault did."""

    what: str
    is_right: bool


def is_alive(target: Target) -> bool:
    """Whether it still answers others."""
    with ms.Client(target.server.url, api_key=KEY, retries=0) as client:
        return client.match("sofa", 10).query == "sofa"


def send_wrong(target: Target) -> Outcome:
    """Bodies that are not what they should be: each a 400 with a code."""
    seen = {name: target.post("/v1/match", body) for name, body in WRONG.items()}
    strange = [name for name, answer in seen.items() if answer.status != 400]
    codes = Counter(answer.json()["error"]["code"] for answer in seen.values())
    what = ", ".join(f"{count} {code}" for code, count in codes.items())
    what += f"; not 400: {', '.join(strange)}" if strange else ""
    return Outcome(f"{len(seen)} bodies: {what}", not strange and is_alive(target))


def send_large(target: Target) -> Outcome:
    """100 MB in chunks without a length: refused while it comes in, without being kept."""
    before = sum(target.server.memory().values())
    head = f"POST /v1/match HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    sent = 0
    with socket.create_connection(target.address, timeout=30) as connection:
        connection.sendall(head.encode())
        try:
            for _ in range(100):
                connection.sendall(chunk)
                sent += 1
            connection.sendall(b"0\r\n\r\n")
        except OSError:  # it does not listen any longer
            pass
        status = read_status(connection)
    told = target.post("/v1/match", b" " * 20_000_000).status if status else None
    grown = sum(target.server.memory().values()) - before
    what = f"{status or 'closed'} after {sent} MB, {told} with a length; memory {grown:+.0f} MB"
    return Outcome(what, status in (None, 413) and grown < 50 and is_alive(target))


def read_status(connection: socket.socket) -> int | None:
    """Of an answer, None where the connection was closed without one."""
    try:
        found = re.match(rb"HTTP/1\.1 (\d+)", connection.recv(1000))
    except OSError:
        return None
    return int(found[1]) if found else None


def send_slowly(target: Target) -> Outcome:
    """Headers and bodies a byte at a time: cut off in time, others are served meanwhile."""
    begins = (
        b"GET /v1/match?q=sofa HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        f"POST /v1/match HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n".encode(),
    )
    slow = [socket.create_connection(target.address, timeout=5) for _ in range(200)]
    started = time.perf_counter()
    for index, connection in enumerate(slow):
        connection.sendall(begins[index % 2])
    ended: list[float] = []
    n_served = 0
    while slow and time.perf_counter() - started < 5 * LIMIT_SECONDS:
        time.sleep(0.25)
        n_served += is_alive(target)
        for connection in list(slow):
            if not drip(connection):
                ended.append(time.perf_counter() - started)
                connection.close()
                slow.remove(connection)
    for connection in slow:
        connection.close()
    last = f", the last after {max(ended):.1f} s" if ended else ""
    what = f"{len(ended)} of 200 cut off{last} (limit {LIMIT_SECONDS} s); others: {n_served} served"
    return Outcome(what, is_right=not slow and is_alive(target))


def drip(connection: socket.socket) -> bool:
    """Send one byte more, if it is still wanted."""
    connection.setblocking(False)
    try:
        connection.recv(1)  # an end, or a refusal
    except BlockingIOError:
        pass
    except OSError:
        return False
    else:
        return False
    try:
        connection.send(b"x")
    except OSError:
        return False
    return True


def connect_many(target: Target) -> Outcome:
    """Thousands of connections that stay open, with one request each."""
    wanted = allow_files(target.options.connections)
    request = b"GET /v1/match?q=sofa&k=10 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    request += f"Authorization: Bearer {KEY}\r\n\r\n".encode()
    seen: Counter[str] = Counter()
    kept: list[socket.socket] = []
    started = time.perf_counter()
    with selectors.DefaultSelector() as waiting:
        while len(kept) < wanted and time.perf_counter() - started < MOST_SECONDS:
            for _ in range(min(AT_A_TIME, wanted - len(kept))):
                connection = socket.socket()
                connection.setblocking(False)
                connection.connect_ex(target.address)
                waiting.register(connection, selectors.EVENT_WRITE)
                kept.append(connection)
            while waiting.get_map() and time.perf_counter() - started < MOST_SECONDS:
                for key, events in waiting.select(timeout=1):
                    advance(waiting, key, events, request, seen)
        seen["without an answer"] = wanted - len(kept) + len(waiting.get_map())
    seconds = time.perf_counter() - started
    asked = time.perf_counter()
    is_served = is_alive(target)  # while they are all open
    waited = time.perf_counter() - asked
    for connection in kept:
        connection.close()
    shown = ", ".join(f"{count:,} {what}" for what, count in seen.items() if count)
    others = f"served in {waited:.2f} s" if is_served else "not served"
    what = f"{wanted:,} connections: {shown} in {seconds:.1f} s; others meanwhile: {others}"
    is_clear = set(seen) <= {"200", "503", "without an answer"} and not seen["without an answer"]
    return Outcome(what, is_clear and is_served and waited < 1 and is_alive(target))


def allow_files(wanted: int) -> int:
    """So many connections, or as many as this process may have open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return min(wanted, most - 200)


def advance(
    waiting: selectors.BaseSelector,
    key: selectors.SelectorKey,
    events: int,
    request: bytes,
    seen: Counter[str],
) -> None:
    """Send what a connection has to say, or count what it got."""
    connection = key.fileobj
    assert isinstance(connection, socket.socket)
    if events & selectors.EVENT_WRITE:
        try:
            connection.send(request)
            waiting.modify(connection, selectors.EVENT_READ)
        except OSError as error:
            seen[error.strerror or "broken"] += 1
            waiting.unregister(connection)
        return
    waiting.unregister(connection)
    seen[str(read_status(connection) or "closed")] += 1
