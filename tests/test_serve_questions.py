"""Everything that a caller says is checked before any work is done for it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import matchset as ms
from matchset.matchers.registry import XR_LINEAR
from matchset.serve.http.bodies import check_weights
from matchset.serve.http.problems import CODES, RequestError
from matchset.serve.http.requests import MatchReader, Question, read_batch, read_bought, read_doubt
from matchset.serve.loaded_model import Filters, Named
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


def code_of(read, *given):
    with pytest.raises(RequestError) as raised:
        read(*given, LIMITS)
    assert raised.value.code in CODES
    return raised.value.code


def read_match(query_string, limits=LIMITS):
    return MatchReader(limits).read(query_string)


def body(**fields):
    return json.dumps(fields).encode()


def test_a_query_string_is_read():
    assert read_match(b"q=so%20fa") == ("so fa", Question(k=10))  # the default, if it may be
    assert read_match(b"k=3&q=a%2Bb+c&beam=4&titles=false&matcher=bm25&where=") == (
        "a+b c",
        Question(k=3, beam=4, matcher="bm25", has_titles=False),
    )
    assert read_match(b"q=%C3%BC&where=price%3C2")[1].where == "price<2"
    assert read_match(b"q=")[0] == ""


def test_how_a_query_is_asked_is_remembered_but_not_the_query():
    reader = MatchReader(LIMITS)
    assert reader.read(b"q=a&k=3") == ("a", Question(k=3))
    assert reader.read(b"k=3&q=b") == ("b", Question(k=3))
    assert reader.read(b"k=4&q=b") == ("b", Question(k=4))


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
        (b"q=a&k=9999999999", "bad_parameter"),
        (b"q=a&k=nan", "bad_parameter"),
        (b"q=a&titles=1", "bad_parameter"),
        (b"q=a&k=0", "k_out_of_range"),
        (b"q=a&k=-1", "k_out_of_range"),
        (b"q=a&k=11", "k_out_of_range"),
        (b"q=a&beam=21", "beam_out_of_range"),
        (b"q=abcdef", "query_too_long"),
        (b"q=a&where=" + b"x" * 21, "filter_too_long"),
        (b"q=" + b"a" * 59, "url_too_long"),
    ],
)
def test_a_bad_query_string_is_refused(query_string, code):
    assert code_of(read_match, query_string) == code


def test_a_wrong_name_is_told_all_the_right_ones():
    with pytest.raises(
        RequestError, match="one of beam, k, matcher, q, titles, where; got 'query'"
    ):
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
        (body(queries=["a"], titles="yes"), "bad_parameter"),
        (body(queries=["a"], where=3), "bad_parameter"),
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
        (fused(keep=2), "bad_parameter"),
        (fused(method="append", keep=1.5), "bad_parameter"),
        (fused(method="append", keep=0), "bad_parameter"),
        (fused(seed=1), "bad_parameter"),
    ],
)
def test_bad_candidates_are_refused(sent, code):
    assert code_of(read_batch, sent) == code


def test_candidates_are_read():
    batch = read_batch(fused([["p", "q"]], method="append", keep=2.0), LIMITS)
    assert batch.candidates == [["p", "q"]]
    assert (batch.rule.method, batch.rule.keep) == ("append", 2)


def test_weights_are_one_per_ranking():
    rule = read_batch(fused(weights=[1, 0.5]), LIMITS).rule
    check_weights(rule, 2)
    with pytest.raises(RequestError, match="weights must be 3"):
        check_weights(rule, 3)


def test_a_batch_is_read():
    batch = read_batch(body(queries=["a", ""], k=10.0, where=None), LIMITS)
    assert (batch.queries, batch.question) == (["a", ""], Question(k=10))
    for where, read in (([], ()), (["p1", "p2"], ("p1", "p2")), ("", None)):
        assert read_batch(body(queries=["a"], where=where), LIMITS).question.where == read


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (body(query="a"), "bad_parameter"),
        (body(product="p"), "bad_parameter"),
        (body(query="a", product=3), "bad_parameter"),
        (body(query="a", product="p" * 5), "bad_parameter"),
        (body(query="abcdef", product="p"), "query_too_long"),
        (body(query="a", product="p", matcher="bm25"), "bad_parameter"),
    ],
)
def test_a_bad_doubt_is_refused(sent, code):
    assert code_of(read_doubt, sent) == code


def test_what_was_bought_needs_a_query():
    assert read_bought(b"q=sofa", LIMITS) == "sofa"
    assert code_of(read_bought, b"") == "bad_parameter"
    assert code_of(read_bought, b"q=a&k=1") == "bad_parameter"


@given(st.binary(max_size=60))
def test_no_query_string_does_worse_than_be_refused(query_string):
    try:
        query, _ = read_match(query_string)
    except RequestError as error:
        assert error.code in CODES  # noqa: PT017
    else:
        assert len(query) <= 5


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_no_value_does_worse_than_be_refused(value):
    for name in ("queries", "k", "beam", "where", "matcher", "titles"):
        sent = json.dumps({"queries": ["a"], name: value}).encode()
        try:
            read_batch(sent, LIMITS)
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
    "brand like '%a%'",
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
    named = Named(XR_LINEAR, model, model.products)
    with pytest.raises(RequestError) as raised:
        Filters(4).make(named, expression)
    assert raised.value.code == "bad_filter"
    assert "root:" not in raised.value.message


def test_filters_are_remembered_up_to_a_number(served_shop):
    model = ms.load(served_shop / "model")
    named = Named(XR_LINEAR, model, model.products)
    filters = Filters(2)
    first = filters.make(named, "price < 1")
    assert filters.make(named, "price < 1") is first
    filters.make(named, "price < 2")
    assert filters.find(named, "price < 1") is first
    filters.make(named, "price < 3")
    assert filters.find(named, "price < 2") is None
    assert filters.find(named, "price < 1") is first


def test_filters_are_remembered_up_to_a_size(served_shop, monkeypatch):
    model = ms.load(served_shop / "model")
    named = Named(XR_LINEAR, model, model.products)
    monkeypatch.setattr("matchset.serve.loaded_model._MOST_BYTES", 2 * len(model.products))
    filters = Filters(64)
    for bound in (1, 2, 3):
        filters.make(named, f"price < {bound}")
    assert filters.find(named, "price < 1") is None
    assert filters.find(named, "price < 2") is not None


def test_settings_are_checked():
    with pytest.raises(ValueError, match="k must be positive and finite; got 0"):
        Limits(k=0)
    with pytest.raises(ValueError, match="header_bytes must be at least 8192; got 10"):
        Limits(header_bytes=10)
    with pytest.raises(ValueError, match="port must be from 0 to 65535; got 70000"):
        ServeConfig(port=70_000)
    with pytest.raises(ValueError, match="workers must be at least 1; got 0"):
        ServeConfig(workers=0)
