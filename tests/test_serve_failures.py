"""A failed request leaves nothing behind, whatever failed, without a garbage collection."""

import asyncio
import gc
import time
import tracemalloc
from contextlib import suppress

import pytest
from serving import working

from matchset.serve.app import make_app
from matchset.serve.options import Limits
from matchset.serve.retrieval import Answer, Result

SIZE = 2_000_000  # bytes of a body or of a response
REPEATS = 8
KEPT = SIZE / 10  # bytes of each failure
BATCH = b'{"queries":["sofa","bed"]' + b" " * SIZE


@pytest.fixture(scope="module")
def worker(served_shop):
    with working(served_shop / "model", limits=Limits(slow_seconds=0.05, seconds=0.2)) as made:
        yield made


async def hang_up(message):
    """Leave while the response is sent."""
    raise ConnectionResetError


async def read_head(message):
    """Read nothing but the head."""
    if message["type"] == "http.response.body" and message.get("more_body"):
        await asyncio.sleep(60)


async def fail(app, expected, body, path="/v1/match", *, last=None, send=None, is_whole=None):
    """Send a request whose body goes on with `last`, or never; check the status."""
    is_whole = last is None if is_whole is None else is_whole
    body = bytes(bytearray(body))  # a copy, which is counted
    parts = [{"type": "http.request", "body": body, "more_body": not is_whole}]
    statuses = []

    async def receive():
        if parts:
            return parts.pop()
        return last or await asyncio.sleep(60)

    async def note(message):
        statuses.append(message.get("status"))
        if send is not None:
            await send(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"",
        "headers": headers, "root_path": "",
    }  # fmt: skip
    with suppress(ConnectionResetError):  # granian drops it
        await app(scope, receive, note)
    assert statuses[0] == expected


def count_kept_bytes(make_failure):
    """How many bytes are kept of a failure that is repeated, without a garbage collection."""

    async def run():
        await make_failure()  # what is kept once, such as caches
        gc.collect()
        tracemalloc.start()
        for _ in range(REPEATS):
            await make_failure()
        await asyncio.sleep(0.1)  # threads let go of what they did
        return tracemalloc.get_traced_memory()[0] / REPEATS

    gc.disable()
    try:
        return asyncio.run(run())
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (BATCH, "/v1/match"),  # not JSON
        (b'{"queries":[' + b'"a",' * (SIZE // 4) + b'"a"]}', "/v1/match"),  # too many values
        (BATCH + b',"k":0}', "/v1/match"),
        (BATCH + b',"where":"price <"}', "/v1/match"),
        (BATCH + b"}", "/v1/products"),
        (BATCH + b"}", "/v1/explain"),
    ],
)
def test_n1_a_refused_body_is_not_kept(worker, body, path):
    app = make_app(worker)
    assert count_kept_bytes(lambda: fail(app, 400, body, path)) < KEPT


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ({"type": "http.disconnect"}, 400),
        ({"type": "http.request", "body": bytes(3 * SIZE)}, 413),
        ({}, 408),  # never comes
    ],
)
def test_n1_a_body_that_is_not_whole_in_time_is_not_kept(worker, last, status):
    app = make_app(worker)
    assert count_kept_bytes(lambda: fail(app, status, BATCH, last=last)) < KEPT


@pytest.mark.parametrize("send", [read_head, hang_up])
def test_n1_a_response_that_nobody_reads_is_not_kept(worker, monkeypatch, send):
    def answer(*_):
        return Answer("xr_linear", b"{", [Result(bytes(SIZE), 0, 0)])

    monkeypatch.setattr("matchset.serve.retrieval.answer", answer)
    app = make_app(worker)
    assert count_kept_bytes(lambda: fail(app, 200, BATCH + b"}", send=send)) < KEPT


@pytest.mark.parametrize(
    ("failure", "status"), [(ZeroDivisionError, 500), (TimeoutError, 504), (None, 504)]
)
def test_n1_what_fails_or_takes_too_long_is_not_kept(worker, monkeypatch, failure, status):
    def answer(*_):
        if failure is not None:
            raise failure
        time.sleep(0.3)  # longer than a request may take

    monkeypatch.setattr("matchset.serve.retrieval.answer", answer)
    app = make_app(worker)
    assert count_kept_bytes(lambda: fail(app, status, BATCH + b"}")) < KEPT
