"""Every request is checked before any work is done for it."""

import json
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import matchset as ms
from matchset import _native
from matchset.errors import FilterError
from matchset.serve.http.request_errors import CODES, RequestError, to_request_error
from matchset.serve.http.request_schemas import make_request_schemas
from matchset.serve.http.requests import MatchOptions, RequestReader, check_weights
from matchset.serve.options import Limits, ServeConfig

LIMITS = Limits(
    query_characters=5,
    queries=2,
    k=10,
    beam=20,
    filter_characters=20,
    id_characters=4,
    url_bytes=60,
    candidates=3,
)


MATCHERS = ("xr_linear", "bm25")
READER = RequestReader(LIMITS, MATCHERS)
read_batch = READER.read_batch
read_explain, read_purchases = READER.read_explain, READER.read_purchases


def read_match(query_string):
    read = READER.read_match(query_string)
    return read.queries[0], read.options, read.unit


def code_of(read, given):
    with pytest.raises(RequestError) as raised:
        read(given)
    assert raised.value.code in CODES
    return raised.value.code


def options(matcher="xr_linear", **given):
    return MatchOptions(matcher, **{"k": 10, **given})  # the default k, if the limit allows it


def body(**fields):
    return json.dumps(fields).encode()


def test_a_query_string_is_read():
    assert read_match(b"q=so%20fa") == ("so fa", options(), None)
    assert read_match(b"k=3&q=a%2Bb+c&beam=4&titles=false&matcher=bm25&where=") == (
        "a+b c",
        options("bm25", k=3, beam=4, titles=False, is_chosen=True),
        None,
    )
    assert read_match(b"q=a&unit=u%201") == ("a", options(), "u 1")
    assert read_match(b"q=%C3%BC&where=price%3C2")[1].where == "price<2"
    assert read_match(b"q=")[0] == ""


def test_least_scores_and_attributes_are_read():
    _, asked, _ = read_match(b"q=a&min_score=-1.5e-2&min_relative=0&attributes=p,,a%20b,p")
    wanted = options(min_score=-0.015, min_relative=0.0, attributes=("p", "a b"))
    assert asked == wanted
    sent = {"min_score": -0.015, "min_relative": 0, "attributes": ["p", "a b"]}
    assert read_batch(body(queries=["a"], **sent)).options == wanted
    explained = read_explain(body(query="a", product="p", min_score=1, min_relative=0.5))
    assert (explained.min_score, explained.min_relative, explained.matcher) == (1, 0.5, None)


def test_options_are_cached_but_queries_are_not():
    assert read_match(b"q=a&k=3") == ("a", options(k=3), None)
    assert read_match(b"k=3&q=b") == ("b", options(k=3), None)
    assert read_match(b"k=4&q=b") == ("b", options(k=4), None)


@pytest.mark.parametrize(
    ("query_string", "code"),
    [
        (b"", "bad_parameter"),
        (b"k=3", "bad_parameter"),
        (b"q=a&q=b", "bad_parameter"),
        (b"q=a&q", "bad_parameter"),
        (b"q=a&k=1&k=1", "bad_parameter"),
        (b"q=a&beem=5", "bad_parameter"),
        (b"q=a&%6b=5", "bad_parameter"),
        (b"q=a&=", "bad_parameter"),
        (b"q=a&\xff=1", "bad_parameter"),
        (b"q=%ff", "bad_parameter"),
        (b"q=\xff", "bad_parameter"),
        (b"q=a&k=1.5", "bad_parameter"),
        (b"q=a&k=", "bad_parameter"),
        (b"q=a&k=%EF%BC%91", "bad_parameter"),  # a digit, but not of ASCII
        (b"q=a&k=9999999999", "k_out_of_range"),
        (b"q=a&k=99999999999999999", "bad_parameter"),  # more digits than a number needs
        (b"q=a&k=nan", "bad_parameter"),
        (b"q=a&titles=1", "bad_parameter"),
        (b"q=a&min_score=", "bad_parameter"),
        (b"q=a&min_score=nan", "bad_parameter"),
        (b"q=a&min_score=inf", "bad_parameter"),
        (b"q=a&min_score=1_0", "bad_parameter"),
        (b"q=a&min_score=1e99", "bad_parameter"),
        (b"q=a&min_score=.5", "bad_parameter"),
        (b"q=a&min_relative=1.01", "bad_parameter"),
        (b"q=a&min_relative=-0.1", "bad_parameter"),
        (b"q=a&unit=b&unit=b", "bad_parameter"),
        (b"q=a&unit", "bad_parameter"),
        (b"q=a&unit=%ff", "bad_parameter"),
        (b"q=a&unit=12345", "bad_parameter"),
        (b"q=a&k=0", "k_out_of_range"),
        (b"q=a&k=-1", "k_out_of_range"),
        (b"q=a&k=11", "k_out_of_range"),
        (b"q=a&beam=21", "beam_out_of_range"),
        (b"q=a&matcher=oracle", "unknown_matcher"),
        (b"q=abcdef", "query_too_long"),
        (b"q=a&where=" + b"x" * 21, "filter_too_long"),
        (b"q=" + b"a" * 59, "url_too_long"),
    ],
)
def test_a_bad_query_string_is_refused(query_string, code):
    assert code_of(read_match, query_string) == code


def test_an_unknown_parameter_is_an_error_that_lists_the_known_ones():
    with pytest.raises(RequestError, match=r"one of attributes, beam, k, .*, where; got 'query'"):
        read_match(b"query=sofa")


def test_characters_are_counted_and_not_bytes():
    assert read_match("q=üüüüü".encode())[0] == "üüüüü"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", "bad_json"),
        (b"{", "bad_json"),
        (b"[]", "bad_json"),
        (b'"a"', "bad_json"),
        (b"null", "bad_json"),
        (b'{"queries": ["a"], "k": NaN}', "bad_json"),
        (b'{"queries": ["\\ud800"]}', "bad_json"),
        (b'{"queries": ["\xff"]}', "bad_json"),
        (b'{"queries": ["a"], "k": 3, "k": 4}', "bad_json"),
        (b'{"queries": ["a"], "k": 3, "\\u006b": 4}', "bad_json"),
        (b'{"queries": ["a"], "fusion": {"constant": 1, "constant": 2}}', "bad_json"),
        (b'{"queries":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "bad_json"),
        (body(), "bad_parameter"),
        (body(queries="a"), "bad_parameter"),
        (body(queries=None), "bad_parameter"),
        (body(queries=[1]), "bad_parameter"),
        (body(queries=[["a"]]), "bad_parameter"),
        (body(queries=["a"], more=1), "bad_parameter"),
        (body(queries=["a"], k="1"), "bad_parameter"),
        (body(queries=["a"], k=True), "bad_parameter"),
        (body(queries=["a"], k=1.5), "bad_parameter"),
        (body(queries=["a"], k=None), "bad_parameter"),
        (body(queries=["a"], matcher=1), "bad_parameter"),
        (body(queries=["a"], unit=7), "bad_parameter"),
        (body(queries=["a"], unit="12345"), "bad_parameter"),
        (body(queries=["a"], titles="yes"), "bad_parameter"),
        (body(queries=["a"], where=3), "bad_parameter"),
        (body(queries=["a"], min_score="1"), "bad_parameter"),
        (body(queries=["a"], min_relative=2), "bad_parameter"),
        (body(queries=["a"], attributes="price"), "bad_parameter"),
        (body(queries=["a"], attributes=[1]), "bad_parameter"),
        (body(queries=["a"], attributes=["a"] * 65), "bad_parameter"),
        (body(queries=["a"], where=["p1", 2]), "bad_parameter"),
        (body(queries=["a"], where=["p" * 5]), "bad_parameter"),
        (body(queries=["a"], k=10**30), "k_out_of_range"),
        (body(queries=["a"], beam=0), "beam_out_of_range"),
        (body(queries=["a"] * 3), "too_many_queries"),
        (body(queries=["a", "abcdef"]), "query_too_long"),
        (body(queries=["a"], where="x" * 21), "filter_too_long"),
    ],
)
def test_a_bad_batch_is_refused(sent, code):
    assert code_of(read_batch, sent) == code


def event(**fields):
    known = {"action_name": "click", "query_id": "q", "object_id": "p"}
    return body(events=[{name: one for name, one in (known | fields).items() if one is not None}])


def test_events_are_read_in_the_words_of_ubi():
    (found,) = READER.read_events(event(position=3, revenue=1.5))
    assert (found.action, found.query_id, found.product) == ("click", "q", "p")
    assert (found.position, found.revenue) == (3, 1.5)
    assert READER.read_events(body(events=[])) == []


@pytest.mark.parametrize(
    "sent",
    [
        body(),
        body(events=None),
        body(events=[1]),
        body(events=[{}] * 3),
        event(object_id=None),
        event(object_id="ppppp"),
        event(query_id=""),
        event(query_id="q" * 65),
        event(action_name=""),
        event(action_name=7),
        event(position=0),
        event(position="1"),
        event(revenue="1"),
        event(revenue=1e300),
        event(user="me"),
    ],
)
def test_bad_events_are_refused(sent):
    assert code_of(READER.read_events, sent) in {"bad_parameter", "too_many_queries"}


def fused(candidates=(["p"],), **fusion):
    return body(queries=["a"], candidates=list(candidates), fusion=fusion)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (body(queries=["a"], candidates=["p"]), "bad_parameter"),
        (body(queries=["a"], candidates=[]), "bad_parameter"),
        (body(queries=["a"], candidates=[["p"], ["q"]]), "bad_parameter"),
        (body(queries=["a"], candidates=[[1]]), "bad_parameter"),
        (body(queries=["a"], candidates=[["p", "p"]]), "bad_parameter"),
        (body(queries=["a"], candidates=[["ppppp"]]), "bad_parameter"),
        (body(queries=["a"], candidates=[["p", "q", "r", "s"]]), "too_many_candidates"),
        (body(queries=["a"], fusion={"method": "rrf"}), "bad_parameter"),
        (body(queries=["a"], candidates=[["p"]], fusion="rrf"), "bad_parameter"),
        (fused(method="best"), "bad_parameter"),
        (fused(method=1), "bad_parameter"),
        (fused(method="append", weights=[1, 1]), "bad_parameter"),
        (fused(weights=1), "bad_parameter"),
        (fused(weights=["1", 1]), "bad_parameter"),
        (fused(weights=[-1, 1]), "bad_parameter"),
        (fused(weights=[1e300, 1]), "bad_parameter"),
        (fused(weights=[0, 0]), "bad_parameter"),
        (fused(weights=[1] * 100), "bad_parameter"),
        (fused(constant=0), "bad_parameter"),
        (fused(method="interleave"), "bad_parameter"),
        (fused(keep=2), "bad_parameter"),
    ],
)
def test_bad_candidates_are_refused(sent, code):
    assert code_of(read_batch, sent) == code


def test_candidates_are_read():
    batch = read_batch(fused([["p", "q"]], method="append"))
    assert batch.candidates == [["p", "q"]]
    assert batch.rule.method == "append"


def test_weights_are_one_per_ranking():
    rule = read_batch(fused(weights=[1, 0.5])).rule
    check_weights(rule, 2)
    with pytest.raises(RequestError, match="weights must be 3"):
        check_weights(rule, 3)


def test_a_batch_is_read():
    batch = read_batch(body(queries=["a", ""], k=10.0, where=None))
    assert (batch.queries, batch.options) == (["a", ""], options())
    for where, read in (([], ()), (["p1", "p2"], ("p1", "p2")), ("", None)):
        assert read_batch(body(queries=["a"], where=where)).options.where == read


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (body(query="a"), "bad_parameter"),
        (body(product="p"), "bad_parameter"),
        (body(query="a", product=3), "bad_parameter"),
        (body(query="a", product="p" * 5), "bad_parameter"),
        (body(query="abcdef", product="p"), "query_too_long"),
        (body(query="a", product="p", matcher="oracle"), "unknown_matcher"),
        (body(query="a", product="p", titles=True), "bad_parameter"),
    ],
)
def test_a_bad_explain_request_is_refused(sent, code):
    assert code_of(read_explain, sent) == code


def test_purchases_need_a_query():
    assert read_purchases(b"q=sofa") == "sofa"
    assert code_of(read_purchases, b"") == "bad_parameter"
    assert code_of(read_purchases, b"q=a&k=1") == "bad_parameter"
    assert code_of(read_purchases, b"q=abcdef") == "query_too_long"


@pytest.mark.parametrize(
    ("sent", "message", "parameter"),
    [
        (body(), "queries must be given; got none", "queries"),
        (body(queries=["a", 7]), "queries[1] must be a string; got 7", "queries[1]"),
        (body(queries=["a"], k=None), "k must be an integer; got null", "k"),
        (body(queries=["a"], beam=21), "beam must be from 1 to 20; got 21", "beam"),
        (fused([["p", "ppppp"]]), "candidates[0][1] must have at most 4 characters; got 5", None),
        (fused(weights=[1, -2]), "fusion.weights[1] must be from 0 to 1000000; got -2", None),
        (fused(seed=1), "a field of fusion must be one of constant, method, weights; ...", None),
    ],
)
def test_an_error_names_the_parameter_the_rule_and_the_value(sent, message, parameter):
    with pytest.raises(RequestError) as raised:
        read_batch(sent)
    assert raised.value.message.startswith(message.removesuffix("..."))
    assert raised.value.fields.get("parameter", parameter) == parameter or parameter is None


@given(st.data())
def test_what_the_schema_describes_is_what_is_read(data):
    """The same table describes a field and reads it."""
    schema = make_request_schemas(LIMITS, MATCHERS)["batch"]["properties"]
    name = data.draw(st.sampled_from(["k", "beam"]))
    number = data.draw(st.integers(-5, 50))
    is_described = schema[name]["minimum"] <= number <= schema[name]["maximum"]
    try:
        assert getattr(read_batch(body(queries=["a"], **{name: number})).options, name) == number
    except RequestError:
        assert not is_described
    else:
        assert is_described


@given(st.binary(max_size=60))
def test_no_query_string_does_worse_than_be_refused(query_string):
    try:
        query, _, unit = read_match(query_string)
    except RequestError as error:
        assert error.code in CODES  # noqa: PT017
    else:
        assert len(query) <= 5
        assert len(unit or "") <= LIMITS.id_characters


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_no_value_does_worse_than_be_refused(value):
    for name in ("queries", "k", "beam", "where", "matcher", "titles", "unit"):
        sent = json.dumps({"queries": ["a"], name: value}).encode()
        try:
            read_batch(sent)
        except RequestError as error:
            assert error.status == 400  # noqa: PT017


INJECTIONS = [
    "price < (select max(price) from products)",
    "price in (select 1)",
    "exists (select * from read_csv('/etc/passwd'))",
    "read_csv('/etc/passwd') = 'root'",
    "brand = read_text('/etc/passwd')",
    "price < 5; drop table products",
    "price < 5 -- and stock > 0",
    "price < 5 /* comment */",
    "price < 5 # comment",
    "1 = 1 or price < 5",
    "price < 5 union select 1",
    "__import__('os').system('id')",
    "price.__class__ = 1",
    "brand = 'x' || 'y'",
    "brand ilike '%a%'",
    "price < ＄(id)",
    "price ＜ 5",
    "brand = ’x’",
    "price < 5\x00",
    "brand = 'unended",
    "brand = 'it\\u0027s'",
    "pragma_version() = 1",
    "attach 'x.db' as y",
    "copy products to '/tmp/x'",
    "${jndi:ldap://host/a}",
    "{{7*7}}",
    "price < 1e999",
    "(" * 500 + "price < 5" + ")" * 500,
    "not " * 400 + "fast_delivery",
    " or ".join(["price < 5"] * 600),
]


@pytest.mark.parametrize("expression", INJECTIONS, ids=range(len(INJECTIONS)))
def test_a_filter_is_our_language_and_nothing_else(served_shop, expression):
    model = ms.load(served_shop / "model")
    with pytest.raises(FilterError) as raised:
        model.filter(expression)
    error = to_request_error(raised.value)
    assert error.code == "bad_filter"
    assert error.fields["position"] == raised.value.position
    assert "root:" not in error.message


def test_filters_are_cached_up_to_a_number(served_shop, monkeypatch):
    monkeypatch.setattr("matchset.filters.filter._MAX_FILTERS", 2)
    products = ms.load(served_shop / "model").products
    first = products.filter("price < 1")
    assert products.filter("price < 1") is first
    products.filter("price < 2")
    assert products.filter("price < 1") is first
    products.filter("price < 3")
    assert not products.has_filter("price < 2")
    assert products.has_filter("price < 1")


def test_filters_are_cached_up_to_a_size(served_shop, monkeypatch):
    products = ms.load(served_shop / "model").products
    monkeypatch.setattr("matchset.filters.filter._MAX_BYTES", 2 * len(products))
    for bound in (1, 2, 3):
        products.filter(f"price < {bound}")
    assert not products.has_filter("price < 1")
    assert products.has_filter("price < 2")


def test_settings_are_checked():
    with pytest.raises(ValueError, match="k must be positive and finite; got 0"):
        Limits(k=0)
    with pytest.raises(ValueError, match="header_bytes must be at least 8192; got 10"):
        Limits(header_bytes=10)
    with pytest.raises(ValueError, match="port must be from 0 to 65535; got 70000"):
        ServeConfig(port=70_000)
    with pytest.raises(ValueError, match="workers must be at least 1; got 0"):
        ServeConfig(workers=0)


def test_l6_an_unknown_matcher_is_shortened_in_the_error():
    with pytest.raises(RequestError) as raised:
        read_batch(body(queries=["a"], matcher="\x00" * 4_000_000))
    assert raised.value.code == "unknown_matcher"
    assert len(raised.value.message) < 200


@given(st.text("ab+%0fFgé🛋 2C3A9", max_size=12))
def test_a_parameter_is_decoded_as_forms_are(text):
    try:
        expected = unquote(text.replace("+", " "), errors="strict")
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            _native.decode_parameter(text.encode())
    else:
        assert _native.decode_parameter(text.encode()) == expected
