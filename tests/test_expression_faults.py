"""What is not in the language of filters is an error that helps, and does no harm."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shelf import ROWS, make_columns

from matchset.data.catalog import Column
from matchset.errors import FilterError
from matchset.filters.parser import DEFAULT_LIMITS, Limits, parse
from matchset.filters.predicate import evaluate


def fault(text, limits=DEFAULT_LIMITS):
    with pytest.raises(FilterError) as caught:
        evaluate(parse(text, limits), make_columns(), len(ROWS))
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "price < 20; drop table products", "price < 20 -- and in_stock",
        "price < 20 # and in_stock", "price < 20 /* and */ and in_stock",
        "price < (select max(price) from products)", "price in (select price from products)",
        "(select 1)", "exists (select 1)", "1 = 1", "in_stock or 1 = 1", "'a' = 'a'", "true",
        "in_stock or true", "null", "price = null", "price in (1, null)",
        "read_csv('/etc/passwd')", "price < length(locale)", "read_text('/etc/passwd') = 'x'",
        "locale = getenv('HOME')", "__import__('os').system('id')", "locale.__class__ = 'x'",
        "price < 20 union select 1", "locale like 5", "locale = 'a' || 'b'", "price + 1 < 20",
        "price < 20 + 1", "price < - 20", "price < 1_000", "price < 0x10", "price < ٣",
        "price < nan", "price < 1e999", "price < 1.2.3", "price < 20abc", "price < price",
        "10 < price < 20", "price between 1", "price <", "< 20", "price", "price 20",
        "price = = 20", "price in ()", "price in 10", "price in (10,)", "price in (10",
        "price not 10", "price is 10", "price is not 10", "not", "", "  ", "()", "(in_stock",
        "in_stock)", "in_stock and", "and in_stock", "in_stock in_stock",
        "in_stock or or in_stock", "in_stock && in_stock", "!in_stock", "locale = us",
        "locale = 'us", 'locale = "us', "locale = 'us\\'", "locale = '\\x41'", "`locale = 'us'",
        "$1 = 'us'", "? = 'us'", ":name = 'us'", "@@version = 1", "{{7*7}} = 49",
        "${jndi:ldap://x} = 1", "locale = 'us'\x00", "in_stock\u202e", "cast(price as text) = '1'",
        "price::text = '1'", "products.price < 20", "case when in_stock then true end",
        "date 'today' < since", "date 2026 < since", "since < date '2026-02-30'",
        "since < '2026-10-01T00:00:00'", "since < 'yesterday'", "since < 20261001", "locale < 3",
        "locale = true", "locale = date '2026-10-01'", "price < '20'", "price = true",
        "in_stock = 1", "in_stock = 'true'", "in_stock < true", "Price < 20", "unknown is null",
        "locale '\x1b[2J'", "locale = `\x07\n`",
    ],
)  # fmt: skip
def test_what_is_not_in_the_language_is_an_error_that_points_at_a_place(text):
    error = fault(text)
    assert 0 <= error.position <= len(text)
    lines = str(error).splitlines()
    assert len(lines) == 3
    assert lines[2].strip() == "^"
    assert all(map(str.isprintable, lines))


@given(st.text(max_size=60) | st.text("()'\"`\\<>=!,.-+eE0123456789 antdorisul_", max_size=60))
def test_any_text_is_an_expression_or_a_filter_error(text):
    error = None
    try:
        evaluate(parse(text), make_columns(), len(ROWS))
    except FilterError as caught:
        error = caught
    assert error is None or 0 <= error.position <= len(text)
    assert all(map(str.isprintable, str(error).split("\n")))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("in_stock and prise < 20", "\n  in_stock and prise < 20\n               ^"),
        ("prise < 20", "an attribute must be one of price (number), in_stock (boolean), locale"),
        ("prise < 20", "(text), since (date); got 'prise' (did you mean 'price'?)\n"),
        ("IN_STOCK", "did you mean 'in_stock'?"),
        ("colour = 'red'", "got 'colour'\n  colour"),
        ("locale < 3", "locale (text) must be compared with text in quotes; got 3\n"),
        ("price = 'cheap'", "price (number) must be compared with a number; got 'cheap'\n"),
        ("since > 'may'", "since (date) must be compared with a date like '2026-10-01'; got 'may'"),
        ("price", "price (number) must be compared with a number; got no operator"),
        ("in_stock < true", "in_stock (boolean) must be compared by = or !=; got <"),
        ("lower(locale) = 'us'", "a filter has no functions; got lower("),
        ("price = null", "a value must not be null (use `is null` or `is not null`); got null"),
        ("locale = us", "an attribute is compared with a value (text in quotes); got us"),
        ("1 = 1", "a comparison needs an attribute; got two values"),
        ("unit-price < 3", "a name that is not one plain word must be in backticks; got"),
        ("price < 3;", "an expression has only attributes, values and operators; got ';'"),
        ("price < 1e999", "a number must be finite; got 1e999"),
        ("locale = '\\x'", r"""a backslash in text must precede one of \ ' " n t; got 'x'"""),
        ("'日本' = prise", "  '日本' = prise\n           ^"),
        ("(in_stock", "expected `and`, `or` or `)`; got the end"),
    ],
)
def test_errors_say_the_rule_and_the_place(text, wanted):
    assert wanted in str(fault(text))


def test_long_expressions_are_shown_around_the_fault():
    text = " or ".join(["in_stock"] * 40) + " or prise < 3 or " + " or ".join(["in_stock"] * 40)
    line, caret = str(fault(text)).splitlines()[1:]
    assert len(line) < 100
    assert line[caret.index("^") :].startswith("prise < 3")


def test_many_attributes_are_not_all_listed():
    columns = {f"a{i}": Column("number", np.zeros(1)) for i in range(50)}
    with pytest.raises(FilterError, match=r"a19 \(number\), 30 more; got 'x'"):
        evaluate(parse("x < 1"), columns, 1)
    with pytest.raises(FilterError, match="needs a catalog with attributes; got 'x'"):
        evaluate(parse("x < 1"), {}, 1)


def test_an_expression_has_limits():
    limits = Limits(length=100, depth=3, terms=4)
    assert parse("(((in_stock)))", limits)
    assert parse("not not not in_stock", limits)
    assert parse("in_stock and price in (1, 2, 3)", limits)
    for text, rule in {
        "x" * 101: "at most 100 characters; got 101",
        "((((in_stock))))": "nest at most 3 deep",
        "not not not not in_stock": "nest at most 3 deep",
        "not (not (in_stock or (not price < 3)))": "nest at most 3 deep",
        "in_stock and price in (1, 2, 3, 4)": "at most 4 terms",
        "a or a or a or a or a": "at most 4 terms",
    }.items():
        assert rule in str(fault(text, limits))


@pytest.mark.parametrize("text", ["(" * 9_999, "not " * 2_400, "in_stock or " * 800, "'" * 9_999])
def test_the_default_limits_hold_off_what_would_exhaust_us(text):
    fault(text)


def test_an_expression_must_be_str():
    with pytest.raises(TypeError, match="an expression must be str; got bytes"):
        parse(b"in_stock")


def test_a_filter_error_survives_pickling():
    error = fault("prise < 3")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.position) == (str(error), error.position)
    assert isinstance(again, ValueError)
