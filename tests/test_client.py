"""A client retries when that may help, raises the right errors, and never shows its key."""

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import numpy as np
import pytest
from scripted import LIMITS, Script, failure

import matchset as ms
from matchset.errors import FilterError, ServerError
from matchset.filters.filter import make_filter
from matchset.model.products import Products
from matchset.strings import Strings

KEY = "a-key-of-the-shop"


@contextmanager
def ask(script, **options):
    with script.run() as url, ms.Client(url, **options) as client:
        yield client


OVERLOADED = failure(503, "overloaded", "at most 4 requests at once; try again", {"Retry-After": 0})


def test_requests_to_an_overloaded_server_are_retried():
    script = Script(OVERLOADED, failure(429, "overloaded", "later"), OVERLOADED)
    with ask(script) as client:
        assert client.match("rose").ids == ("rose",)
    assert len(script.requests) == 4


def test_a_server_that_stays_overloaded_is_an_error_with_its_message():
    with ask(Script(*[OVERLOADED] * 3), retries=2) as client:
        with pytest.raises(ServerError, match="at most 4 requests at once") as caught:
            client.match("rose")
        assert (caught.value.status, caught.value.code) == (503, "overloaded")
        assert isinstance(caught.value, ConnectionError)


def test_the_wait_that_a_server_asks_for_is_followed_and_bounded(monkeypatch):
    for asked, least in (("2", 2.0), ("86400", 10.0), ("soon", 0.1), ("9" * 5000, 0.1)):
        waits = []
        monkeypatch.setattr("matchset.client.transport.time.sleep", waits.append)
        refused = failure(503, "overloaded", "later", {"Retry-After": asked})
        for _ in range(5):
            with ask(Script(refused), timeout=60) as client:
                client.match("rose")
        assert all(least <= wait <= 1.25 * least for wait in waits)
        assert len(set(waits)) > 1  # callers that were refused together come back one by one


def test_an_unreachable_server_is_an_error_that_names_it():
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
    with (
        ms.Client(url, retries=1) as client,
        pytest.raises(ServerError, match=f"{url}: no answer: .*refused"),
    ):
        client.match("rose")


def test_a_server_that_does_not_answer_in_time_is_an_error():
    class Silent(Script):
        def answer(self, *_):
            released.wait(30)
            return 200, {}, {}

    released = threading.Event()
    with ask(Silent(), timeout=0.05, retries=0) as client:
        with pytest.raises(ServerError, match=r"no answer: .*timed out"):
            client.match("rose")
        released.set()


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            failure(400, "query_too_long", "q must have at most 5 characters; got 9"),
            ValueError,
            "q ",
        ),
        (failure(404, "unknown_product", "product must be one of the model's"), ValueError, "prod"),
        (failure(413, "body_too_large", "a body must have at most 9 bytes"), ValueError, "body"),
        (failure(401, "unauthorized", "an API key must be given"), ServerError, "127.*an API key"),
        (failure(400, "bad_host", "Host must be localhost"), ServerError, "Host must be"),
        (failure(500, "internal", "a fault of the server"), ServerError, "a fault of the server"),
        ((200, {}, b"<html>"), ServerError, "server must answer with JSON; got status 200"),
        (
            (404, {}, b"nothing here"),
            ServerError,
            "server must answer with JSON; got status 404",
        ),
        ((200, {}, {"hello": "world"}), ServerError, "JSON of another form"),
        ((200, {}, {"results": []}), ServerError, "0 results for 1 queries"),
        ((200, {}, {"results": [{"products": 7}]}), ServerError, "JSON of another form"),
    ],
)
def test_an_error_is_what_a_local_matcher_would_raise_or_else_a_server_error(
    answer, error, message
):
    with ask(Script(answer)) as client, pytest.raises(error, match=message) as caught:
        client.match("rose")
    assert type(caught.value) is error


def test_a_bad_filter_points_at_the_same_position_as_locally():
    where = {"rule": "there is no attribute `prize`", "position": 4}
    error = failure(400, "bad_filter", "any words", **where)
    with ask(Script(error)) as client, pytest.raises(FilterError) as caught:
        client.match("rose", where="not prize < 3")
    assert (caught.value.rule, caught.value.position) == ("there is no attribute `prize`", 4)


def test_redirects_are_not_followed():
    script = Script((307, {"Location": "http://127.0.0.1:1/v1/match"}, b""))
    with ask(script) as client, pytest.raises(ServerError, match="got status 307"):
        client.match("rose")


def test_many_queries_go_within_the_limits_of_the_server():
    queries = [*"abcdefg", "x" * 2000, "y" * 2000, "\x00" * 500, "ü" * 500]
    script = Script()
    with ask(script) as client:
        found = client.match(queries)
    assert [match.ids for match in found] == [(query,) for query in queries]
    assert found[0].titles == ("A",)
    sent = [body["queries"] for body in script.bodies]
    assert all(len(batch) <= LIMITS["queries"] for batch in sent)
    sizes = [len(json.dumps(body, ensure_ascii=False).encode()) for body in script.bodies]
    assert max(sizes) <= LIMITS["body_bytes"]
    assert sorted(query for batch in sent for query in batch) == sorted(queries)


def test_no_queries_are_no_request():
    script = Script()
    with ask(script) as client:
        assert len(client.match([])) == 0
    assert script.requests == []


def test_all_options_are_sent():
    script = Script()
    with ask(script, matcher="bm25", titles=False, api_key=KEY) as client:
        client.match("rose", 7, where="price < 3", beam=20)
        client.match("rose", where=iter(["p1", "p2"]))
        products = Products(Strings.of(["p1", "p2", "p3"]))
        client.match("rose", where=make_filter(products, np.array([True, False, True])))
    first, *others = script.bodies
    assert first == {
        "queries": ["rose"],
        "k": 7,
        "where": "price < 3",
        "beam": 20,
        "matcher": "bm25",
        "titles": False,
    }
    assert [body["where"] for body in others] == [["p1", "p2"], ["p1", "p3"]]
    assert {headers["Authorization"] for _, headers, _ in script.requests} == {f"Bearer {KEY}"}


def test_an_explanation_is_asked_for_as_a_match_is():
    script = Script((400, {}, {"error": {"code": "cannot_explain", "message": "no"}}))
    options = {"where": "price < 3", "beam": 20, "min_score": 0.1, "min_relative": 0.5}
    with ask(script, matcher="tree") as client, pytest.raises(ValueError, match="no"):
        client.explain("rose", "p1", k=7, **options)
    ((path, _, body),) = script.requests
    assert path == "/v1/explain"
    assert body == {"query": "rose", "product": "p1", "k": 7, "matcher": "tree", **options}


def test_a_filter_that_cannot_be_sent_is_an_error():
    with ms.Client("http://127.0.0.1:1") as client:
        for wrong in (np.ones(3, dtype=np.bool_), 3, b"rose"):
            with pytest.raises(TypeError, match="where must be an expression, a filter, product i"):
                client.match("rose", where=wrong)
        with pytest.raises(TypeError, match=r"where\[1\] must be str"):
            client.match("rose", where=["p1", 2])


def test_a_k_beyond_a_small_catalog_is_within_the_limit():
    for products, sent in ((5, 1000), (5000, 10**12)):
        script = Script(products=products)
        with ask(script) as client:
            client.match("rose", 10**12)
        assert script.bodies[0]["k"] == sent


def test_scores_come_back_as_they_were():
    rng = np.random.default_rng(0)
    scores = np.sort(rng.random(2000, dtype=np.float32) ** 20)[::-1]
    hits = [{"id": f"p{i}", "score": float(score)} for i, score in enumerate(scores)]
    shortest = [
        {"id": hit["id"], "score": float(str(s))} for hit, s in zip(hits, scores, strict=True)
    ]
    for sent in (hits, shortest):
        with ask(Script((200, {}, {"results": [{"products": sent}]}))) as client:
            found = client.match("rose")
        assert found.titles is None
        np.testing.assert_array_equal(found.scores, scores)


def test_a_connection_is_used_again_and_threads_share_a_client():
    script = Script()
    with ask(script) as client:
        for query in "abc":
            client.match(query)
        assert script.connections == 1
        threads = [threading.Thread(target=client.match, args=(["a"] * 20,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(len(body["queries"]) for body in script.bodies) == 3 + 4 * 20


def test_a_forked_process_has_connections_of_its_own(monkeypatch):
    script = Script()
    with ask(script) as client:
        client.match("a")
        parent = os.getpid()
        monkeypatch.setattr("os.getpid", lambda: parent + 1)
        client.match("b")
        client.match("c")
        monkeypatch.undo()
        client.match("d")
    assert script.connections == 2


def test_the_parameters_of_a_client_are_checked():
    for url in ("", "shop", "ftp://shop", "http://", "/v1", "http://a b"):
        with pytest.raises(ValueError, match="url must be a server's address"):
            ms.Client(url)
    for url in ("http://me@shop", "http://shop?q=1", "http://shop/#top"):
        with pytest.raises(ValueError, match="url must have no user, query or fragment"):
            ms.Client(url)
    with pytest.raises(TypeError, match="url must be str"):
        ms.Client(8080)
    for name, value in (("timeout", 0), ("retries", -1), ("connections", 0)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            ms.Client("http://shop", **{name: value})


def test_a_key_is_never_shown():
    for key in ("", "my secret", "secret\r\nX: y", "sécret"):
        with pytest.raises(ValueError, match="api_key must be") as caught:
            ms.Client("http://shop", api_key=key)
        assert "ecret" not in str(caught.value)
    with ms.Client("http://shop/search/", api_key=KEY) as client:
        assert repr(client) == "Client('http://shop/search')"


def test_waits_between_attempts_grow_and_vary(monkeypatch):
    last = []
    for _ in range(5):
        waits = []
        monkeypatch.setattr("matchset.client.transport.time.sleep", waits.append)
        with ask(Script(*[failure(503, "overloaded", "later")] * 4)) as client:
            assert client.match("rose").ids == ("rose",)
        assert len(waits) == 4
        assert all(later > earlier for earlier, later in pairwise(waits))
        last.append(waits[-1])
    assert len(set(last)) > 1


def test_a_client_needs_nothing_of_a_server():
    loaded = "import sys, matchset; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True)
    assert not {"starlette", "granian", "msgspec", "prometheus_client"} & set(
        modules.stdout.split()
    )


def test_l10_a_server_that_drips_bytes_is_left_in_time():
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"
    stopped = threading.Event()

    def drip(listener):
        while not stopped.is_set():
            try:
                one, _ = listener.accept()
                with one:
                    one.sendall(head)
                    while not stopped.wait(0.02):
                        one.sendall(b"x")
            except OSError:  # the client has gone, or the test is over
                continue

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        started = time.monotonic()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with (
            ms.Client(url, timeout=0.4) as client,
            pytest.raises(ServerError, match="no answer"),
        ):
            client.model()
        assert time.monotonic() - started < 60  # byte by byte it takes half an hour, or for ever
        stopped.set()
        thread.join()


def test_l10_a_response_has_a_limit_of_bytes(monkeypatch):
    monkeypatch.setattr("matchset.client.transport.MAX_BYTES", 100_000)
    script = Script((200, {}, b" " * 200_000))
    with ask(script) as client:
        with pytest.raises(ServerError, match="a response must have at most"):
            client.model()
        assert len(script.requests) == 1  # it is not asked for again
        assert client.model()["model_version"] == "1"


@pytest.mark.parametrize(
    ("headers", "content"),
    [({}, b"[" * 200_000), ({"Content-Encoding": "gzip"}, gzip.compress(bytes(10_000_000)))],
    ids=["nested", "compressed"],
)
def test_l10_a_response_that_is_no_plain_json_is_an_error(headers, content):
    with (
        ask(Script((200, headers, content))) as client,
        pytest.raises(ServerError, match="must answer with JSON"),
    ):
        client.model()


def test_a_server_that_is_not_there_is_an_error_in_one_sentence():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"  # bound, but nobody listens
        with pytest.raises(ServerError) as caught:
            ms.Client(url, retries=0).match("rose")
    assert str(caught.value) == f"{url}: no answer: Connection refused"
