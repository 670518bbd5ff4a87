"""Who may call the server, under which of its names, and what is logged."""

import socket

import pytest
from serving import KEY, serving


@pytest.fixture(scope="module")
def keyed(served_shop):
    options = ["--api-key-file", served_shop / "keys", "--allow-host", "search.example"]
    with serving(served_shop, *options, workers=1) as running:
        yield running


@pytest.mark.parametrize("host", ["localhost", "localhost:99", "127.0.0.1", "[::1]:80", "10.1.2.3"])
def test_the_server_answers_for_its_names(keyed, host):
    assert keyed.call("/", headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::1", "a:b"],
)
def test_another_host_name_is_refused(keyed, host):
    reply = keyed.call("/v1/match?q=a", headers={"host": host})
    assert reply.status == 400
    if reply.body:  # what is no host at all is refused before us
        assert reply.code == "bad_host"


def test_a_host_can_be_allowed(keyed):
    assert keyed.call("/healthz", headers={"host": "Search.Example:443"}).status == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/", "/page.js", "/docs", "/openapi.json"])
def test_health_and_the_page_need_no_key(keyed, path):
    assert keyed.call(path).status == 200


def test_metrics_can_be_opened(served_shop):
    options = ["--api-key-file", served_shop / "keys", "--open-metrics"]
    with serving(served_shop, *options, workers=1) as running:
        assert running.call("/metrics").status == 200
        assert running.call("/v1/model").status == 401


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        KEY,
        f"Basic {KEY}",
        "Bearer ",
        f"Bearer {KEY}x",
        f"Bearer {KEY[:-1]}",
        "Bearer # keys",
        "Bearer ümläut",
    ],
)
def test_everything_else_needs_a_key(keyed, given):
    headers = {} if given is None else {"authorization": given.encode("latin-1")}
    closed = ("/v1/match?q=a", "/v1/model", "/v1/purchases?q=a", "/metrics")
    for path in (*closed, "/nothing"):
        reply = keyed.call(path, headers=headers)
        assert (reply.status, reply.code) == (401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"
    assert keyed.post("/v1/reload", {}, headers=headers).status == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_key_opens(keyed, scheme):
    headers = {"authorization": f"{scheme} {KEY}"}
    assert keyed.call("/v1/match?q=sofa", headers=headers).status == 200
    assert keyed.call("/metrics", headers=headers).status == 200


def test_without_a_log_there_are_no_purchases(keyed):
    reply = keyed.call("/v1/purchases?q=sofa", headers={"authorization": f"Bearer {KEY}"})
    assert (reply.status, reply.code) == (404, "no_log")


def test_l13_several_keys_and_zones_of_addresses_are_refused(keyed):
    host = "127.0.0.1"
    for lines, status in (
        ([f"host: {host}", f"authorization: Bearer {KEY}"], 200),
        ([f"host: {host}", f"authorization: Bearer {KEY}", "authorization: Bearer x"], 401),
        ([f"host: {host}", "authorization: Bearer x", f"authorization: Bearer {KEY}"], 401),
        (["host: [fe80::1]", f"authorization: Bearer {KEY}"], 200),
        (["host: [fe80::1%evil.example]", f"authorization: Bearer {KEY}"], 400),
    ):
        with socket.create_connection((host, keyed.port), 20) as one:
            head = "\r\n".join(["GET /v1/model HTTP/1.1", *lines, "connection: close", "", ""])
            one.sendall(head.encode())
            assert int(one.recv(12)[9:12]) == status


def test_l13_answers_that_need_a_key_are_not_for_shared_caches(keyed):
    headers = {"authorization": f"Bearer {KEY}"}
    assert keyed.call("/v1/model", headers=headers).headers["cache-control"] == "no-store"


def test_l13_responses_do_not_tell_what_the_server_stands_on(keyed):
    for path in ("/healthz", "/v1/model", "/nothing"):
        assert keyed.call(path).headers["server"] == "matchset"


def test_l5_headers_have_the_limit_that_is_stated(keyed):
    headers = {"authorization": f"Bearer {KEY}", "x-long": "x" * 70_000}
    refused = keyed.call("/v1/model", headers=headers)
    assert (refused.status, refused.code) == (431, "headers_too_large")
    headers["x-long"] = "x" * 60_000
    assert keyed.call("/v1/model", headers=headers).status == 200


def test_the_log_has_neither_keys_nor_queries(keyed):
    headers = {"authorization": f"Bearer {KEY}"}
    keyed.call("/v1/match?q=secretword", headers=headers)
    keyed.post("/v1/match", {"queries": ["secretword"]}, headers=headers)
    keyed.call("/secretword?q=secretword", headers=headers)
    assert keyed.stop() == 0
    # A busy machine makes granian log a warning as well, about a worker that has just ended.
    lines = [line for line in keyed.lines() if line["event"] == "request"]
    assert {"time", "level", "event", "request_id", "method", "route", "status", "ms"} <= set(
        lines[-1]
    )
    assert [line["route"] for line in lines[-3:]] == ["/v1/match", "/v1/match", "other"]
    assert KEY not in keyed.log.read_text()
    assert "secretword" not in keyed.log.read_text()
