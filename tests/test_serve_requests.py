"""Every request is checked before any work is done for it, and an error says what is wrong."""

import json
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import serving

import matchset as ms
from matchset import _native
from matchset.errors import FilterError

MATCH = "/v1/match"


@pytest.fixture(scope="module")
def server(served_shop):
    also = ["--also", served_shop / "bm25", "--log", served_shop / "log.parquet"]
    with serving(served_shop, *also, workers=1) as running:
        yield running


def body(**fields):
    return json.dumps({"queries": ["a"], **fields}).encode()


@pytest.mark.parametrize(
    ("query_string", "query", "n"),
    [
        ("q=so%20fa+bed&k=3", "so fa bed", None),
        ("k=3&q=a%2Bb&beam=4&titles=false&matcher=bm25&where=", "a+b", None),
        ("q=%C3%BC&where=price%3C2&min_score=-1.5e-2&min_relative=0", "ü", None),
        ("q=", "", 0),
        ("q=sofa&k=1&attributes=price,,brand,price", "sofa", 1),
        ("q=sofa&unit=u%201&k=7", "sofa", 7),
        ("q=" + "%C3%BC" * 512, "ü" * 512, None),  # characters are counted, not bytes
    ],
)
def test_a_query_string_is_read(server, query_string, query, n):
    found = server.call(f"{MATCH}?{query_string}").json
    assert found["query"] == query
    assert n in (None, len(found["products"]))


def test_options_are_cached_but_queries_are_not(server):
    for query, k in (("sofa", 3), ("bed", 3), ("bed", 4)):
        found = server.match(query, k=k).json
        assert (found["query"], len(found["products"])) == (query, k)


@pytest.mark.parametrize(
    ("query_string", "code"),
    [
        ("", "bad_parameter"),
        ("k=3", "bad_parameter"),
        ("q=a&q=b", "bad_parameter"),
        ("q=a&k=1&k=1", "bad_parameter"),
        ("q=a&beem=5", "bad_parameter"),
        ("q=a&%6b=5", "bad_parameter"),
        ("q=%ff", "bad_parameter"),
        ("q=a&k=1.5", "bad_parameter"),
        ("q=a&k=", "bad_parameter"),
        ("q=a&k=%EF%BC%91", "bad_parameter"),  # a digit, but not of ASCII
        ("q=a&k=9999999999", "k_out_of_range"),
        ("q=a&k=nan", "bad_parameter"),
        ("q=a&titles=perhaps", "bad_parameter"),
        ("q=a&min_score=", "bad_parameter"),
        ("q=a&min_score=nan", "bad_parameter"),
        ("q=a&min_score=inf", "bad_parameter"),
        ("q=a&min_score=1_0", "bad_parameter"),
        ("q=a&min_relative=1.01", "bad_parameter"),
        ("q=a&unit=b&unit=b", "bad_parameter"),
        ("q=a&unit=%ff", "bad_parameter"),
        ("q=a&unit=" + "u" * 257, "bad_parameter"),
        ("q=a&k=0", "k_out_of_range"),
        ("q=a&k=-1", "k_out_of_range"),
        ("q=a&k=1001", "k_out_of_range"),
        ("q=a&beam=201", "beam_out_of_range"),
        ("q=a&matcher=oracle", "unknown_matcher"),
        ("q=a&attributes=nothing", "bad_parameter"),
        ("q=" + "a" * 513, "query_too_long"),
        ("q=a&where=" + "x" * 2001, "filter_too_long"),
    ],
)
def test_a_bad_query_string_is_refused(server, query_string, code):
    reply = server.call(f"{MATCH}?{query_string}")
    assert (reply.status, reply.code) == (400, code)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", "bad_json"),
        (b"{", "bad_json"),
        (b"[]", "bad_json"),
        (b"null", "bad_json"),
        (b'{"queries": ["a"], "k": NaN}', "bad_json"),
        (b'{"queries": ["\\ud800"]}', "bad_json"),
        (b'{"queries": ["\xff"]}', "bad_json"),
        (b'{"queries":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "body_too_complex"),
        (b'{"queries":["a"],"more":' + b"[" * 30_000 + b"]" * 30_000 + b"}", "bad_json"),
        (b"{}", "bad_parameter"),
        (body(queries="a"), "bad_parameter"),
        (body(queries=[1]), "bad_parameter"),
        (body(more=1), "bad_parameter"),
        (body(k="1"), "bad_parameter"),
        (body(k=True), "bad_parameter"),
        (body(k=1.5), "bad_parameter"),
        (body(k=None), "bad_parameter"),
        (body(matcher=1), "bad_parameter"),
        (body(unit=7), "bad_parameter"),
        (body(titles="yes"), "bad_parameter"),
        (body(where=3), "bad_parameter"),
        (body(min_score="1"), "bad_parameter"),
        (body(min_relative=2), "bad_parameter"),
        (body(attributes="price"), "bad_parameter"),
        (body(attributes=["price"] * 65), "bad_parameter"),
        (body(where=["p1", 2]), "bad_parameter"),
        (body(k=10**30), "k_out_of_range"),
        (body(beam=0), "beam_out_of_range"),
        (body(queries=["a"] * 257), "too_many_queries"),
        (body(queries=["a", "x" * 513]), "query_too_long"),
        (body(where="x" * 2001), "filter_too_long"),
        (body(candidates=["p"]), "bad_parameter"),
        (body(candidates=[]), "bad_parameter"),
        (body(candidates=[["p", "p"]]), "bad_parameter"),
        (body(candidates=[["p" * 257]]), "bad_parameter"),
        (body(candidates=[[f"{n}" for n in range(1001)]]), "too_many_candidates"),
        (body(fusion={"method": "rrf"}), "bad_parameter"),
        *(
            (body(candidates=[["p"]], fusion=fusion), "bad_parameter")
            for fusion in (
                "rrf",
                {"method": "best"},
                {"method": "append", "weights": [1, 1]},
                {"weights": [-1, 1]},
                {"weights": [0, 0]},
                {"weights": [1, 1, 1]},
                {"constant": 0},
                {"keep": 2},
                {"seed": 1},
            )
        ),
    ],
)
def test_a_bad_batch_is_refused(server, sent, code):
    reply = server.post(MATCH, sent)
    assert (reply.status, reply.code) == (400, code)


@pytest.mark.parametrize(
    ("path", "sent", "code"),
    [
        ("/v1/explain", {"query": "a"}, "bad_parameter"),
        ("/v1/explain", {"query": "a", "product": 3}, "bad_parameter"),
        ("/v1/explain", {"query": "a" * 513, "product": "p"}, "query_too_long"),
        ("/v1/explain", {"query": "a", "product": "p", "titles": True}, "bad_parameter"),
        ("/v1/purchases", None, "bad_parameter"),
        ("/v1/purchases?q=a&k=1", None, "bad_parameter"),
        ("/v1/purchases?q=" + "a" * 513, None, "query_too_long"),
    ],
)
def test_other_bad_requests_are_refused(server, path, sent, code):
    reply = server.call(path) if sent is None else server.post(path, sent)
    assert (reply.status, reply.code) == (400, code)


@pytest.mark.parametrize(
    ("sent", "message", "parameter"),
    [
        (b"{}", "'queries' must be given; got none", "queries"),
        (body(queries=["a", 7]), "queries[1] must be str; got 7", "queries[1]"),
        (body(beam=201), "beam must be at most 200; got 201", "beam"),
        (body(queries=["x" * 600]), "queries[0] must have at most 512 characters; got 600", None),
        (body(candidates=[["p", "p"]]), "candidates[0] must have no duplicates; got some", None),
        (
            body(candidates=[["p"]], fusion={"weights": [1, -2]}),
            "fusion.weights[1] must be at least 0.0; got -2",
            "fusion.weights[1]",
        ),
        (
            body(candidates=[["p"]], fusion={"seed": 1}),
            "'fusion.seed' is no parameter of this request",
            "fusion.seed",
        ),
        (
            body(matcher="x" * 3_000_000),
            f"matcher must be one of xr_linear, bm25; got '{'x' * 39}...",
            "matcher",
        ),
    ],
)
def test_an_error_names_the_parameter_the_rule_and_the_value(server, sent, message, parameter):
    error = server.post(MATCH, sent).json["error"]
    assert error["message"] == message
    assert parameter in (None, error["parameter"])


@given(st.data())
def test_what_the_schema_describes_is_what_is_read(server, data):
    """The same struct describes a field and reads it."""
    schemas = server.call("/openapi.json").json["components"]["schemas"]
    schema = schemas["BatchRequest"]["properties"]["k"]
    number = data.draw(st.integers(-5, 1005))
    is_described = schema["minimum"] <= number <= schema["maximum"]
    assert (server.post(MATCH, body(k=number)).status == 200) == is_described


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_no_value_does_worse_than_be_refused(server, value):
    sent = dict.fromkeys(("queries", "k", "beam", "where", "matcher", "titles", "unit"), value)
    for name in sent:
        assert server.post(MATCH, body(**{name: value})).status in (200, 400)


INJECTIONS = [
    "price < (select max(price) from products)",
    "exists (select * from read_csv('/etc/passwd'))",
    "brand = read_text('/etc/passwd')",
    "price < 5; drop table products",
    "price < 5 -- and stock > 0",
    "price < 5 /* comment */",
    "1 = 1 or price < 5",
    "price < 5 union select 1",
    "__import__('os').system('id')",
    "price.__class__ = 1",
    "brand = 'x' || 'y'",
    "brand ilike '%a%'",
    "price ＜ 5",
    "brand = ’x’",
    "price < 5\x00",
    "brand = 'unended",
    "attach 'x.db' as y",
    "copy products to '/tmp/x'",
    "${jndi:ldap://host/a}",
    "price < 1e999",
    "(" * 500 + "price < 5" + ")" * 500,
    "not " * 400 + "fast_delivery",
]


@pytest.mark.parametrize("expression", INJECTIONS, ids=range(len(INJECTIONS)))
def test_a_filter_is_our_language_and_nothing_else(server, served_shop, expression):
    with pytest.raises(FilterError) as raised:
        ms.load(served_shop / "model").filter(expression)
    error = server.post(MATCH, body(where=expression)).json["error"]
    assert (error["code"], error["position"]) == ("bad_filter", raised.value.position)
    assert "root:" not in error["message"]


@given(st.text("ab+%0fFgé🛋 2C3A9", max_size=12))
def test_a_parameter_is_decoded_as_forms_are(text):
    try:
        expected = unquote(text.replace("+", " "), errors="strict")
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            _native.decode_parameter(text.encode())
    else:
        assert _native.decode_parameter(text.encode()) == expected
