"""A Match gives the products that answer a query, in any form and for any text."""

import builtins
import io
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from word_overlap import make_word_overlap

from matchset.matchers.match import Hit, Match, Matches
from matchset.matrices import Csr
from matchset.model.products import Products
from matchset.strings import Strings

HOSTILE = [
    "bolt [/] x",
    "[bold red]sale[/bold red] [link=http://x]",
    "<script>alert(1)</script>",
    "\x1b[2J\x1b]0;title\x07 clear",
    "a\u202egnp.exe",
    "line\nbreak\ttab\r",
    "",
    "x" * 100_000,
    "\x00" * 1_000,
    "ünï 日本 🌵",
]


def make_matches(titles=("Rose", "", "Pot"), rows=([2, 0], [], [1, 2, 0])):
    ids = Strings.of([f"p{i}" for i in range(len(titles or "abc"))])
    products = Products(ids, None if titles is None else Strings.of(titles))
    offsets = np.cumsum([0, *map(len, rows)])
    labels = np.array([label for row in rows for label in row], dtype=np.int32)
    scores = np.array([1 / (1 + i) for row in rows for i in range(len(row))], dtype=np.float32)
    queries = Strings.of([f"q{i}" for i in range(len(rows))])
    return Matches(queries, Csr(offsets, labels, scores, len(ids)), products)


def test_a_match_has_ids_scores_and_titles_best_first():
    match = make_word_overlap().match("red rose")
    assert match.ids == ("p0", "p1", "p3", "p5")
    assert list(match.scores) == [2, 1, 1, 1]
    assert match.titles == ("red rose", "rose", "red plant pot", "rose pot")
    assert match[0] == Hit("p0", 2.0, "red rose")
    assert match[-1].id == "p5"
    assert [hit.id for hit in match] == list(match.ids)
    assert match[1:3].ids == ("p1", "p3")
    assert match[::-1].ids == match.ids[::-1]


def test_without_a_catalog_there_are_no_titles():
    match = make_matches(titles=None)[0]
    assert match.titles is None
    assert list(match) == [Hit("p2", 1.0, None), Hit("p0", 0.5, None)]
    assert match[:1].to_dicts() == [{"product_id": "p2", "score": 1.0}]
    assert "title" not in match._repr_html_()
    assert "p2" in repr(match)


def test_matches_are_a_sequence_of_match():
    matches = make_matches()
    assert [match.ids for match in matches] == [("p2", "p0"), (), ("p1", "p2", "p0")]
    assert matches[-1] == matches[2] == list(matches)[2]
    for wrong in (3, -4):
        with pytest.raises(IndexError, match="index must be within 3 texts"):
            matches[wrong]


@given(st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=6), st.data())
def test_slices_of_matches_are_matches(rows, data):
    matches = make_matches(rows=rows)
    chosen = data.draw(st.slices(len(rows)))
    assert isinstance(matches[chosen], Matches)
    assert list(matches[chosen]) == list(matches)[chosen]
    assert matches[chosen][:] == matches[chosen]


def test_equal_means_the_same_products_and_scores_for_the_same_query():
    matches = make_matches()
    assert matches[0] == Match.of("q0", ["p2", "p0"], [1, 0.5], ["other", "titles"])
    assert matches[0] != Match.of("q1", ["p2", "p0"], [1, 0.5])
    assert matches[0] != Match.of("q0", ["p0", "p2"], [1, 0.5])
    assert matches[0] != Match.of("q0", ["p2", "p0"], [1, 0.4])
    assert matches[0] != ("p2", "p0")
    assert matches != matches[:2]


def test_ids_need_as_many_scores_and_titles():
    for scores in ([1, 2], [[1]]):
        with pytest.raises(ValueError, match="1 ids must have as many scores; got"):
            Match.of("q", ["p"], scores)
    with pytest.raises(ValueError, match="ids, titles and attributes must be equally many; got"):
        Match.of("q", ["p"], [1], ["a", "b"])


def test_a_match_cannot_be_changed_and_survives_pickling():
    match = make_matches()[2]
    with pytest.raises(AttributeError):
        match.query = "other"
    assert pickle.loads(pickle.dumps(match)) == match
    assert pickle.loads(pickle.dumps(make_matches())) == make_matches()


@pytest.mark.parametrize("titles", [None, ("Rose", "", "Pot"), HOSTILE[:3]])
def test_every_conversion_holds_the_same_rows(titles):
    matches = make_matches(titles=titles)
    for value in (matches, matches[2], matches[1], matches[:0]):
        rows = value.to_dicts()
        assert value.to_pandas().to_dict("records") == rows
        assert pl.DataFrame(value.to_arrow()).to_dicts() == rows
        assert value.to_arrow().to_pylist() == rows
    assert isinstance(matches.to_pandas(), pd.DataFrame)
    assert isinstance(matches.to_arrow(), pa.Table)
    assert matches.to_arrow().column_names[:3] == ["query", "product_id", "score"]
    assert matches.to_arrow().schema.field("score").type == pa.float32()


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_a_missing_package_is_named_in_a_sentence(package, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    convert = {"pandas": "to_pandas", "pyarrow": "to_arrow"}[package]
    with pytest.raises(ImportError, match=f"needs {package}, which is not installed: pip install"):
        getattr(make_matches()[0], convert)()


def test_conversions_to_python_import_nothing(monkeypatch):
    def refuse(name, *rest):
        raise AssertionError(f"imported {name}")

    match = make_matches()[0]
    monkeypatch.setattr(builtins, "__import__", refuse)
    made = (match.to_dicts(), list(match), repr(match), match._repr_html_())
    monkeypatch.undo()
    assert len(made[0]) == 2


def show_rich(value, width=200):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(value)
    return console.file.getvalue()


def is_plain(text):
    return all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_shown_as_text(text):
    match = Match.of(text, [text, "p1"], [2, 1], [text, "Rose"])
    products = match.products
    found = Csr(np.array([0, 2]), match.labels, match.scores, 2)
    for value in (match, Matches(Strings.of([text]), found, products)):
        shown = [repr(value), show_rich(value), value._repr_html_()]
        assert all(map(is_plain, shown))
        assert all(len(one) < 5_000 for one in shown)
        assert "<script" not in shown[2]


def test_markup_in_titles_is_visible_not_obeyed():
    match = Match.of("q", ["a", "b"], [2, 1], ["bolt [/] x", "[bold]y[/bold] <b>"])
    assert "bolt [/] x" in show_rich(match)
    assert "[bold]y[/bold] <b>" in show_rich(match)
    assert "[bold]y[/bold] &lt;b&gt;" in match._repr_html_()
    assert show_rich(match, width=12)


def test_a_match_prints_as_aligned_lines():
    match = Match.of("rose", ["p10", "p2"], [0.98761, 0.5], ["Rose of Jericho", "Pot"])
    assert repr(match).splitlines() == [
        "Match('rose', 2 products)",
        "  1  0.9876  p10  Rose of Jericho",
        "  2  0.5     p2   Pot",
    ]
    assert repr(match[:0]) == "Match('rose', 0 products)"


def test_long_results_are_cut():
    match = Match.of("rose", [f"p{i}" for i in range(1020)], np.arange(1020.0)[::-1])
    assert repr(match).splitlines()[-1] == "  ... 1,000 more"
    assert "... 1,000 more" in show_rich(match)
    assert "... 1,000 more" in match._repr_html_()
    assert repr(make_matches()).splitlines() == [
        "Matches(3 queries)",
        "  0  q0  2  p2 p0",
        "  1  q1  0",
        "  2  q2  3  p1 p2 p0",
    ]


def test_v6_a_score_of_32_bits_is_at_least_what_was_written():
    match = Match.of("q", ["a", "b", "c"], [0.1, 0.01, 0.0099])
    assert match.at_least(0.01).ids == ("a", "b")
    assert match.at_least(1e99).ids == ()
    assert [one.ids for one in Matches.join([match, match]).at_least(0.01)] == [("a", "b")] * 2
