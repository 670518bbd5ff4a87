"""Expressions say which products are meant."""

import operator
from datetime import date, timedelta

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shelf import EPOCH, KINDS, ROWS, make_columns

from matchset.data.catalog import Column
from matchset.errors import FilterError
from matchset.filters.parser import Limits, parse
from matchset.filters.predicate import evaluate
from matchset.filters.syntax import Attribute, Constant, Joined, Not, Term
from matchset.strings import Strings

PYTHON = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matching_rows(text, rows=ROWS):
    return list(np.flatnonzero(evaluate(parse(text), make_columns(rows), len(rows))))


def truth(condition, row):
    """SQL's three-valued logic for one row: True, False or None."""
    match condition:
        case Term(Attribute(name), "is true"):
            return row[name]
        case Term(Attribute(name), "is null"):
            return row[name] is None
        case Term(Attribute(name), "in", constants):
            return None if row[name] is None else row[name] in [one.value for one in constants]
        case Term(Attribute(name), sign, (Constant(value),)):
            return None if row[name] is None else PYTHON[sign](row[name], value)
        case Not(inner):
            value = truth(inner, row)
            return None if value is None else not value
        case Joined(word, parts):
            values = [truth(part, row) for part in parts]
            decisive = word == "or"
            if decisive in values:
                return decisive
            return None if None in values else not decisive


days = st.dates(date(1, 1, 1), date(9999, 12, 31))
numbers = st.floats(allow_nan=False, allow_infinity=False)
values = {
    "price": st.integers(-3, 3).map(float) | numbers,
    "in_stock": st.booleans(),
    "locale": st.sampled_from(["us", "de", "", "it's"]) | st.text(max_size=4),
    "since": st.integers(-2, 2).map(lambda n: EPOCH + timedelta(n)) | days,
}
rows = st.lists(st.tuples(*(st.none() | values[name] for name in KINDS)), max_size=12)


@st.composite
def leaves(draw):
    name = draw(st.sampled_from(list(KINDS)))
    attribute, constants = st.just(Attribute(name)), values[name].map(Constant)
    signs = st.sampled_from(["=", "!="] if name == "in_stock" else list(PYTHON))
    some = st.lists(constants, min_size=1, max_size=4).map(tuple)
    kinds = [
        st.builds(Term, attribute, signs, st.tuples(constants)),
        st.builds(Term, attribute, st.just("in"), some),
        st.just(Term(Attribute(name), "is null")),
        st.just(Term(Attribute("in_stock"))),
    ]
    return draw(st.one_of(kinds))


def nest(inner):
    several = st.lists(inner, min_size=2, max_size=4).map(tuple)
    return st.builds(Not, inner) | st.builds(Joined, st.sampled_from(["and", "or"]), several)


conditions = st.recursive(leaves(), nest, max_leaves=12)
WIDE = Limits(length=10**6, depth=100, terms=10**4)


@given(conditions)
def test_what_is_printed_parses_back_to_the_same(condition):
    assert parse(str(condition), WIDE).condition == condition


@given(st.text(min_size=1), st.text())
def test_any_name_and_any_text_can_be_written(name, text):
    condition = Term(Attribute(name), "=", (Constant(text),))
    assert parse(str(condition)).condition == condition


@given(conditions, rows)
def test_evaluation_equals_three_valued_logic_row_by_row(condition, rows):
    mask = evaluate(parse(str(condition), WIDE), make_columns(rows), len(rows))
    wanted = [truth(condition, dict(zip(KINDS, row, strict=True))) is True for row in rows]
    assert list(mask) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("in_stock and price < 20 and locale = 'us'", [0]),
        ("price < 20", [0, 3]),
        ("20 > price", [0, 3]),
        ("price <= 20 and price >= 10.0", [0, 1]),
        ("price == 1e1 or price = +2E+1 or price=-1.5 or price = 1.e300", [0, 1, 3, 4]),
        ("price > -.5", [0, 1, 4]),
        ("price<>10", [1, 3, 4]),
        ("not price < 20", [1, 4]),
        ("price is null", [2]),
        ("price IS NOT NULL", [0, 1, 3, 4]),
        ("in_stock", [0, 2]),
        ("not in_stock", [1, 4]),
        ("Not Not in_stock", [0, 2]),
        ("in_stock = true or in_stock != TRUE", [0, 1, 2, 4]),
        ("false = in_stock", [1, 4]),
        ("in_stock is null or in_stock", [0, 2, 3]),
        ("locale in ('us', \"it's\", 'fr')", [0, 2, 4]),
        ("locale not in ('us', 'fr')", [1, 4]),
        ("not locale in ('us')", [1, 4]),
        ("locale = 'it''s' or locale = 'it\\'s' or locale = \"it's\"", [4]),
        ("locale != 'fr'", [0, 1, 2, 4]),
        ("locale > 'de'", [0, 2, 4]),
        ("locale <= 'df'", [1]),
        ("'e' < locale", [0, 2, 4]),
        ("`locale` = 'us'", [0, 2]),
        ("since >= '2026-10-01'", [0, 4]),
        ("since < date '2026-10-01'", [1, 3]),
        ("DATE '1969-12-31' = since", [3]),
        ("since in ('2026-10-01', date '2026-10-02')", [0, 4]),
        ("in_stock or price < 20 and locale = 'de'", [0, 2]),
        ("(in_stock or price <= 20) and locale = 'de'", [1]),
        ("price in (10, 20, -1.5) and ((in_stock))", [0]),
        ("\n\tprice\n<\n11\u00a0", [0, 3]),
    ],
)
def test_expressions_mean_what_search_engineers_expect(text, wanted):
    assert matching_rows(text) == wanted


def test_null_is_neither_true_nor_false_nor_equal_to_anything():
    null = [(None, None, None, None)]
    for text in ("price = 1", "price != 1", "price in (1)", "in_stock", "locale < 'x'"):
        assert matching_rows(text, null) == matching_rows(f"not ({text})", null) == []
        assert matching_rows(f"{text} or price is null", null) == [0]
        assert matching_rows(f"not ({text} and price is not null)", null) == [0]


def test_date_is_also_a_name():
    columns = {"date": make_columns(ROWS)["since"]}
    assert evaluate(parse("date > '2026-10-01'"), columns, 5).tolist() == [False] * 4 + [True]
    assert evaluate(parse("date '2026-10-01' < date"), columns, 5).sum() == 1


def test_a_text_column_without_categories_holds_nothing():
    columns = {"locale": Column("text", np.full(3, -1, dtype=np.int32))}
    assert not evaluate(parse("locale < 'x' or locale != 'x'"), columns, 3).any()


@given(
    st.lists(st.text("ab%_\\", max_size=6), min_size=1, max_size=20, unique=True),
    st.text("ab%_", max_size=6),
    st.booleans(),
)
def test_like_means_what_it_means_in_sql(texts, pattern, is_negated):
    column = Column("text", np.arange(len(texts), dtype=np.int32), Strings.of(sorted(texts)))
    word = "not like" if is_negated else "like"
    found = evaluate(parse(f"name {word} {Constant(pattern)}"), {"name": column}, len(texts))
    listed = ", ".join(f"('{text}')" for text in sorted(texts))
    sql = f"SELECT t {word} '{pattern}' FROM (VALUES {listed}) AS v(t)"
    assert found.tolist() == [value for (value,) in duckdb.sql(sql).fetchall()]


def test_a_backslash_takes_the_meaning_of_a_sign_in_a_pattern():
    names = Strings.of(["50 off", "50% off", "a_b", "axb", "c\\"])
    columns = {"name": Column("text", np.arange(5, dtype=np.int32), names)}
    for pattern, wanted in ((r"50\\%%", [1]), (r"a\\_b", [2]), ("a_b", [2, 3]), (r"%\\", [4])):
        found = evaluate(parse(f"name like '{pattern}'"), columns, 5)
        assert np.flatnonzero(found).tolist() == wanted


def test_between_has_both_ends_and_no_null():
    low_and_high = "price between 2 and 5", "price >= 2 and price <= 5"
    assert parse(low_and_high[0]) == parse(low_and_high[1])
    assert parse("not price between 2 and 5") == parse("price not between 2 and 5")
    texts = "locale between 'de' and 'it'", "locale >= 'de' and locale <= 'it'"
    assert matching_rows(texts[0]) == matching_rows(texts[1])


def test_like_of_a_number_is_refused_and_many_are_too():
    with pytest.raises(FilterError, match=r"price \(number\) must be text for like; got number"):
        matching_rows("price like '2%'")
    with pytest.raises(FilterError, match="at most 500 terms"):
        parse(" or ".join(["locale like '%a%'"] * 21))
    assert parse(" or ".join(["locale like '%a%'"] * 20))
