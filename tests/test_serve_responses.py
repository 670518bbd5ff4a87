"""Responses are JSON, no matter what a model contains."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchset import _native
from matchset.matchers.match import Match
from matchset.model.products import Products
from matchset.serve.responses import write_head, write_result
from matchset.serve.retrieval import Answer, Result
from matchset.strings import Strings

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=80)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, st.floats(width=32)), min_size=1, max_size=20)


def write(ids, titles, labels, scores):
    return _native.write_products(
        Products(ids, titles).texts,
        np.asarray(labels, dtype=np.int32),
        np.asarray(scores, dtype=np.float32),
        titles=True,
    )


@given(ROWS, st.booleans())
def test_products_are_written_as_json_writes_them(rows, has_titles):
    ids, titles, scores = zip(*rows, strict=True)
    labels = list(range(len(rows)))[::-1]
    written = write(Strings.of(ids), Strings.of(titles) if has_titles else None, labels, scores)
    found = json.loads(written)
    assert found == msgspec.json.decode(written)
    assert [one["id"] for one in found] == list(ids)[::-1]
    assert [one.get("title") for one in found] == (
        list(titles)[::-1] if has_titles else [None] * len(rows)
    )


@given(st.lists(TEXTS, max_size=20))
def test_ids_are_written_as_json_writes_them(ids):
    labels = np.arange(len(ids), dtype=np.int32)[::-1].copy()
    written = _native.write_ids(Products(Strings.of(ids)).texts, labels)
    assert json.loads(written) == msgspec.json.decode(written) == ids[::-1]


@pytest.mark.parametrize("special", ['"', "\\", "\x1f", "\x7f", "ä", "😀"])
def test_a_character_is_escaped_wherever_it_stands_in_a_title(special):
    titles = [
        "x" * before + special + "y" * (size - before)
        for size in range(41)
        for before in range(size + 1)
    ]
    labels = np.arange(len(titles), dtype=np.int32)
    written = _native.write_ids(Products(Strings.of(titles)).texts, labels)
    assert json.loads(written) == titles


@pytest.mark.parametrize("label", [-1, 2, 2**31 - 1])
def test_an_id_outside_is_an_error(label):
    with pytest.raises(IndexError, match="within the products"):
        _native.write_ids(Products(Strings.of(["a", "b"])).texts, np.array([label], np.int32))


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_a_score_reads_back_as_the_same_float(scores):
    ids = Strings.of([str(label) for label in range(len(scores))])
    found = json.loads(write(ids, None, range(len(scores)), scores))
    read = np.array([one["score"] for one in found], dtype=np.float32)
    assert np.array_equal(read, np.array(scores, dtype=np.float32))


def test_a_score_that_is_no_number_is_null():
    found = json.loads(write(Strings.of(["a", "b"]), None, [0, 1], [np.nan, -np.inf]))
    assert [one["score"] for one in found] == [None, None]


@given(st.binary(max_size=40))
def test_bytes_that_are_no_text_become_replacement_characters(data):
    texts = Strings(np.frombuffer(data, dtype=np.uint8), np.array([0, len(data)]))
    (found,) = json.loads(write(Strings.of(["a"]), texts, [0], [1.0]))
    known = data.decode("utf-8", "replace")
    assert found["title"].replace("\ufffd", "") == known.replace("\ufffd", "")


@pytest.mark.parametrize("label", [-1, 2, 2**31 - 1])
def test_a_label_outside_is_an_error(label):
    with pytest.raises(IndexError, match="within the products"):
        write(Strings.of(["a", "b"]), None, [label], [1.0])


@pytest.mark.parametrize("offsets", [[0, -1], [5, 2], [0, 99], [-(2**62), 2**62]])
def test_damaged_offsets_are_an_error(offsets):
    texts = Strings(np.zeros(10, dtype=np.uint8), np.array(offsets))
    with pytest.raises(ValueError, match="offsets"):
        write(Strings.of(["a"]), texts, [0], [1.0])


def test_labels_and_scores_must_be_as_many():
    with pytest.raises(ValueError, match="each label"):
        write(Strings.of(["a"]), None, [0], [1.0, 2.0])


def test_a_result_holds_the_query_as_it_was_asked():
    match = Match.of('so"fa\n', ["p1"], [0.5], ["Sofa"])
    result = write_result(match, 12, titles=True)
    expected = {
        "query": 'so"fa\n',
        "microseconds": 12,
        "products": [{"id": "p1", "score": 0.5, "title": "Sofa"}],
    }
    named = {"model_version": "v1", "matcher": "bm25"}
    results = [Result(result, 1, 12)]
    answer = Answer("bm25", write_head("v1", "bm25"), results)
    assert json.loads(answer.to_single()) == {**named, **expected}
    for n in (0, 1, 3):
        found = json.loads(replace(answer, results=results * n).to_batch())
        assert found == {**named, "results": [expected] * n}
    assert b"title" not in write_result(match, 12, titles=False)
