"""Limits are enforced while a request arrives, with an error code."""

import asyncio
import json
import socket
import threading
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import eventually, serving, working
from starlette.requests import Request

from matchset import _native
from matchset.serve.body import read_json
from matchset.serve.request_errors import RequestError

LONG = b"x" * 65_536


@pytest.fixture(scope="module")
def server(served_shop):
    # On a busy machine a test may pause between two steps.
    limits = {"body-bytes": 50_000, "slow-seconds": 2, "concurrency": 3}
    options = [part for name, value in limits.items() for part in (f"--limits.{name}", value)]
    with serving(served_shop, *options, workers=1) as running:
        yield running


class Wire:
    """A connection over which anything may be sent."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=90)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def send(self, data):
        self._socket.sendall(data)

    def post(self, headers=b"", body=b""):
        start = b"POST /v1/match HTTP/1.1\r\nhost: localhost\r\n"
        self.send(start + b"content-type: application/json\r\n" + headers + b"\r\n" + body)

    def read(self):
        """What comes until the answer is whole or the connection ends."""
        found = b""
        try:
            while part := self._socket.recv(65_536):
                found += part
                head, _, body = found.partition(b"\r\n\r\n")
                lengths = [
                    line for line in head.split(b"\r\n") if line.startswith(b"content-length:")
                ]
                if lengths and len(body) >= int(lengths[0].split(b":")[1]):
                    break
        except ConnectionError:
            pass
        return found


def test_limits_are_published(server):
    limits = server.call("/v1/model").json["limits"]
    assert (limits["k"], limits["queries"], limits["body_bytes"]) == (1000, 256, 50_000)


def test_large_headers_are_refused(server):
    with Wire(server.port) as wire:
        wire.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-a: " + 3 * LONG + b"\r\n\r\n")
        assert wire.read().startswith(b"HTTP/1.1 431")
    assert server.call("/healthz").status == 200


def test_a_body_that_says_it_is_too_large_is_refused_unread(server):
    with Wire(server.port) as wire:
        wire.post(b"content-length: 100000000\r\n")
        answer = wire.read()
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"body_too_large" in answer
        assert b"at most 50000 bytes; got 100000000" in answer


def test_a_body_that_grows_is_refused_on_the_way(server):
    n_sent = 0
    with Wire(server.port) as wire:
        wire.post(b"transfer-encoding: chunked\r\n")
        try:
            while n_sent < 1_000_000_000:
                wire.send(b"10000\r\n" + LONG + b"\r\n")
                n_sent += len(LONG)
        except ConnectionError:
            pass
        assert n_sent < 1_000_000_000  # what lay in buffers, not what was read
    assert server.call("/healthz").status == 200


def test_a_chunked_body_just_above_the_limit_gets_a_reason(server):
    with Wire(server.port) as wire:
        wire.post(b"transfer-encoding: chunked\r\n", b"c351\r\n" + b"x" * 50_001 + b"\r\n")
        answer = wire.read()
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"got more" in answer


def test_a_slow_body_is_refused(server):
    with Wire(server.port) as wire:
        wire.post(b"content-length: 100\r\n", b'{"quer')
        answer = wire.read()
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"body_too_slow" in answer


def test_slow_headers_end_the_connection(server):
    with Wire(server.port) as wire:
        wire.send(b"GET /healthz HTTP/1.1\r\nhost: loc")
        answer = wire.read()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS to a plain port
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /v1/match?q=<a> HTTP/1.1\r\nhost: localhost\r\n\r\n",
        (
            b"POST /v1/match HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n"
            b"transfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\n0\r\n\r\n"
        ),
    ],
)
def test_what_is_no_http_does_no_harm(server, sent):
    with Wire(server.port) as wire:
        wire.send(sent)
        answer = wire.read()
        assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert server.call("/healthz").status == 200


@pytest.mark.parametrize("hosts", [(b"evil.example", b"localhost"), (b"localhost", b"localhost")])
def test_a_request_has_one_host(server, hosts):
    with Wire(server.port) as wire:
        headers = b"".join(b"host: %b\r\n" % host for host in hosts)
        wire.send(b"GET /healthz HTTP/1.1\r\n" + headers + b"\r\n")
        answer = wire.read()
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"Host must be given once; got 2" in answer


def test_a_caller_who_goes_away_does_no_harm(server):
    for _ in range(20):
        with Wire(server.port) as wire:
            wire.post(b"content-length: 100\r\n", b'{"queries"')
    eventually(lambda: server.match("sofa").status == 200)


def ask_while_full(server):
    """A rejected request and the health check meanwhile; None if the others had timed out."""
    with ExitStack() as stack:
        for _ in range(3):
            wire = stack.enter_context(Wire(server.port))
            wire.post(b"content-length: 100\r\n", b"{")
        for _ in range(20):
            reply, health = server.match("sofa"), server.call("/healthz")
            if reply.status == 503:
                return reply, health
    return None


def test_too_many_concurrent_requests_are_rejected_but_health_is_not(server):
    reply, health = eventually(lambda: ask_while_full(server))
    assert (reply.code, reply.headers["retry-after"]) == ("overloaded", "1")
    assert health.status == 200
    eventually(lambda: server.match("sofa").status == 200)


def test_many_connections_are_answered(server):
    with ExitStack() as stack:
        wires = []
        for _ in range(300):  # each asks at once: one that is silent is closed
            wires.append(wire := stack.enter_context(Wire(server.port)))
            wire.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert all(wire.read().startswith(b"HTTP/1.1 200") for wire in wires)


def test_a_request_that_takes_too_long_is_refused(served_shop):
    with serving(served_shop, "--limits.seconds", 0.000001, workers=1) as running:
        reply = running.post("/v1/match", {"queries": ["sofa"] * 200})
        assert (reply.status, reply.code) == (504, "timeout")
        assert running.match("sofa").status == 200  # microseconds of work: nothing to wait for


def test_l2_a_content_length_of_thousands_of_digits_is_a_400(server):
    with Wire(server.port) as wire:
        wire.post(b"content-length: " + b"0" * 5000 + b"27\r\n")
        answer = wire.read()
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"at most 20 digits; got 5002" in answer


def test_m3_what_is_in_a_body_is_found_without_parsing_it():
    assert _native.scan_json(b'{"a": [1, 2.5e3, "x,:[", true], "b": {"c": null}}') == (8, 3, 2, 4)
    assert _native.scan_json(b'["\\"\\\\", ""]') == (3, 0, 1, 4)
    for broken in (b"", b'"', b'"\\', b"]]}", b":::", b'{"a', b"[1, 2"):
        assert len(_native.scan_json(broken)) == 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON, st.sampled_from([None, 1]), st.booleans())
def test_m3_sizes_are_those_that_a_parser_finds(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert _native.scan_json(text.encode())[:3] == measure(value)


def measure(value):
    """Values, keys and depth of a parsed text."""
    if not isinstance(value, list | dict):
        return 1, 0, 0
    inner = value.values() if isinstance(value, dict) else value
    found = [measure(one) for one in inner]
    n_keys = len(value) if isinstance(value, dict) else 0
    values, keys, depths = zip(*found, strict=True) if found else ((), (), (0,))
    return 1 + sum(values), n_keys + sum(keys), 1 + max(depths)


@pytest.mark.parametrize(
    "body",
    [
        b'{"queries":[' + b"[]," * 110_000 + b"[]]}",
        b"[" * 100_001,
    ],
)
def test_m3_a_body_that_would_block_the_others_is_refused_before_it_is_parsed(worker, body):
    sent = iter([{"type": "http.request", "body": body}])

    async def receive():
        return next(sent)

    headers = [(b"content-type", b"application/json")]
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)

    def read(_):
        raise AssertionError

    with pytest.raises(RequestError) as raised:
        asyncio.run(read_json(request, worker, read))
    assert raised.value.code == "body_too_complex"


def test_m3_a_large_body_is_read_in_a_thread(worker):
    sent = iter([{"type": "http.request", "body": b"[" + b"1, " * 30_000 + b"1]"}])

    async def receive():
        return next(sent)

    headers = [(b"content-type", b"application/json")]
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    name = asyncio.run(read_json(request, worker, lambda _: threading.current_thread().name))
    assert name.startswith("matchset")


@pytest.fixture
def worker(served_shop):
    with working(served_shop / "model") as made:
        yield made
