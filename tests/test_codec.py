"""A value becomes a header and arrays, and comes back checked against its annotations."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from matchset.matrices import Csr
from matchset.storage.codec import TRANSIENT, ArrayPieces, Picklable, decode, encode
from matchset.strings import Strings


@dataclass(frozen=True)
class Circle:
    radius: float


@dataclass(frozen=True)
class Square:
    side: float


@dataclass(frozen=True)
class Chain:
    inner: Chain | None


class Words:
    """Keeps something else than its fields."""

    def __init__(self, text: str) -> None:
        self.words = text.split()

    def to_stored(self) -> str:
        return " ".join(self.words)

    @classmethod
    def from_stored(cls, stored: str) -> Words:
        return cls(stored)


@dataclass(frozen=True, eq=False)
class Whole(Picklable):
    name: str
    n: int
    share: float
    is_new: bool
    day: str | None
    precision: Literal["int8", "float32"]
    limit: int | Literal["auto"]
    shape: Circle | Square | None
    one_shape: Circle | None
    sizes: tuple[int, ...]
    pair: tuple[str, NDArray[np.int32]]
    notes: list[str]
    weights: Mapping[str, float]
    columns: dict[str, NDArray[Any]]
    facts: Mapping[str, Any]
    mask: NDArray[np.bool_]
    vectors: NDArray[np.float32]
    titles: Strings
    rows: Csr
    matrix: csr_array
    words: Words
    inner: tuple[Whole, ...] = ()
    cache: dict[int, int] = field(default_factory=dict, metadata=TRANSIENT)
    total: int = field(init=False)

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError(f"n must not be negative; got {self.n}")
        object.__setattr__(self, "total", self.n + len(self.sizes))


def make_whole(**changed: Any) -> Whole:
    indptr, indices = np.array([0, 1, 3]), np.array([2, 0, 1], np.int32)
    whole = Whole(
        name="a.b",
        n=3,
        share=0.1,
        is_new=True,
        day=None,
        precision="int8",
        limit="auto",
        shape=Square(2),
        one_shape=Circle(1.5),
        sizes=(1, 2),
        pair=("x", np.arange(4, dtype=np.int32)),
        notes=["one"],
        weights={"purchase": 1, "click": 0.5},
        columns={"a/b": np.arange(3), "": np.zeros((2, 2), np.int8)},
        facts={"n": np.int64(3), "list": (1, None, "x")},
        mask=np.array([True, False]),
        vectors=np.ones((2, 3), np.float32),
        titles=Strings.of(["", "red shoes", "blue"]).slice(1, 3),
        rows=Csr(indptr, indices, np.ones(3, np.float32), 4),
        matrix=csr_array(np.eye(3, dtype=np.float32)),
        words=Words("a b"),
    )
    return replace(whole, **changed)


def through_json(value: Any, form: Any = None) -> Any:
    header, arrays = encode(value, form)
    return decode(form or type(value), json.loads(json.dumps(header)), arrays)


def test_a_value_comes_back_as_it_was() -> None:
    before = make_whole(inner=(make_whole(name="inner"),))
    for after in (through_json(before), pickle.loads(pickle.dumps(before))):
        assert encode(after)[0] == encode(before)[0]
        arrays, again = encode(before)[1], encode(after)[1]
        assert list(arrays) == list(again)
        for name, array in arrays.items():
            np.testing.assert_array_equal(again[name], array, strict=True)
        assert (after.sizes, after.shape, after.total) == ((1, 2), Square(2), 5)
        assert list(after.titles) == ["red shoes", "blue"]
        assert list(after.columns) == ["a/b", ""]
        assert after.facts == {"n": 3, "list": [1, None, "x"]}
        assert after.words.words == ["a", "b"]
        assert after.inner[0].name == "inner"
        assert type(after.share) is float
        np.testing.assert_array_equal(after.matrix.toarray(), np.eye(3))


def test_arrays_are_named_by_their_path() -> None:
    _, arrays = encode(make_whole(inner=(make_whole(),)))
    names = {"pair.1", "columns.0", "columns.1", "mask", "titles.0", "rows.indptr", "inner.0.mask"}
    assert names <= arrays.keys()


def test_values_without_a_class_are_read_by_their_annotation() -> None:
    value = Strings.of(["a"]), np.arange(2), {"x": Circle(1)}
    texts, numbers, shapes = through_json(
        value, tuple[Strings, NDArray[np.int64], dict[str, Circle]]
    )
    assert (list(texts), numbers.tolist(), shapes) == (["a"], [0, 1], {"x": Circle(1)})
    header, arrays = encode((1, "a"))
    assert (header, arrays) == ([1, "a"], {})
    with pytest.raises(TypeError, match="must be annotated to be read"):
        decode(tuple, header, {})


def test_pieces_are_kept_as_one_array() -> None:
    pieces: Any = ArrayPieces([np.arange(2, dtype=np.int32), np.arange(3, dtype=np.int32)])
    _, arrays = encode(pieces, NDArray[np.int32])
    assert arrays["array"].shape == (5,)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n": "3"}, "n must be an integer; got '3'"),
        ({"n": True}, "n must be an integer; got True"),
        ({"n": 3.0}, "n must be an integer; got 3.0"),
        ({"n": -1}, "n must not be negative; got -1"),
        ({"share": "much"}, "share must be a number; got 'much'"),
        ({"share": 10**400}, "share: int too large"),
        ({"is_new": 1}, "is_new must be true or false; got 1"),
        ({"day": 1}, "day must be a text; got 1"),
        ({"precision": "int4"}, "precision must be one of 'int8', 'float32'; got 'int4'"),
        ({"limit": "most"}, "limit must be int or .*; got 'most'"),
        ({"shape": {"class": "Popen", "fields": {}}}, "shape must be Circle or Square"),
        ({"shape": {"class": ["Circle"], "fields": {}}}, "shape must be Circle or Square"),
        ({"shape": {"class": "Circle", "fields": []}}, "shape must be the fields of a Circle"),
        ({"one_shape": {}}, "one_shape.radius is missing"),
        ({"one_shape": {"radius": 1, "x": 1}}, "one_shape.x is no field of Circle"),
        ({"sizes": [1, "2"]}, "sizes.1 must be an integer; got '2'"),
        ({"sizes": {"0": 1}}, "sizes must be a list; got dict"),
        ({"pair": ["x"]}, "pair must be a list of 2; got list"),
        ({"weights": []}, "weights must be an object; got list"),
        ({"mask": "nowhere"}, "mask must be the name of an array"),
        ({"mask": 3}, "mask must be the name of an array"),
        ({"mask": "vectors"}, "mask must be an array of bool.* got an array of float32"),
        ({"vectors": "mask"}, "vectors must be the name of an array, each of one field"),
        ({"words": 3}, "words must be a text; got 3"),
        ({"total": 3}, "total is no field of Whole"),
        ({"cache": {}}, "cache is no field of Whole"),
    ],
)
def test_a_wrong_header_is_an_error_that_names_the_field(
    changed: dict[str, Any], message: str
) -> None:
    header, arrays = encode(make_whole())
    with pytest.raises(ValueError, match=message):
        decode(Whole, {**header, **changed}, arrays)


def test_missing_fields_and_arrays_too_many_are_errors() -> None:
    header, arrays = encode(make_whole())
    without = {name: value for name, value in header.items() if name != "sizes"}
    with pytest.raises(ValueError, match="sizes is missing"):
        decode(Whole, without, arrays)
    with pytest.raises(ValueError, match="arrays must belong to a field; got 'more'"):
        decode(Whole, header, {**arrays, "more": np.arange(2)})


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("titles.1", np.array([0, 9, 14]), "titles: offsets must go from 0 to"),
        ("titles.1", np.array([[0, 13]]), "titles: texts must be bytes and offsets"),
        ("titles.1", np.empty(0, np.int64), "titles: offsets must go from 0 to"),
        ("rows.indptr", np.array([0, 1, 4]), "rows: offsets must go from 0 to 3"),
        ("rows.data", np.ones(2, np.float32), "rows: offsets must go from 0 to 3"),
        ("rows.data", np.ones((3, 1), np.float32), "rows: rows must have arrays of one dim"),
        ("matrix.indices", np.array([0, 1, 7], np.int32), "matrix: "),
        ("pair.1", np.arange(4), "pair.1 must be an array of int32; got an array of int64"),
        ("mask", np.array(["x"]), "mask must be an array of bool"),
    ],
)
def test_wrong_arrays_are_errors(name: str, array: NDArray[Any], message: str) -> None:
    header, arrays = encode(make_whole())
    with pytest.raises(ValueError, match=message):
        decode(Whole, header, {**arrays, name: array})


@pytest.mark.parametrize(
    "changed",
    [
        {"name": 3},
        {"vectors": np.ones(2)},
        {"titles": ["a"]},
        {"facts": {"x": object()}},
        {"shape": Words("x")},
        {"notes": "one"},
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_written(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(changed))}.* must be"):
        encode(make_whole(**changed))


def test_classes_that_are_no_dataclasses_are_refused() -> None:
    with pytest.raises(TypeError, match="must be of arrays and dataclasses"):
        encode(object)


def test_deep_headers_are_refused() -> None:
    deep: Any = {"inner": None}
    for _ in range(5_000):
        deep = {"inner": deep}
    with pytest.raises(ValueError, match="nested so deeply"):
        decode(Chain, deep, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(st.data())
def test_damage_is_a_value_error_or_another_value(data: st.DataObject) -> None:
    header, arrays = encode(make_whole(inner=(make_whole(),)))
    at = header if data.draw(st.booleans()) else header["inner"][0]
    name = data.draw(st.sampled_from(sorted(at)))
    at[name] = data.draw(JSON | st.sampled_from(sorted(arrays)))
    try:
        value = decode(Whole, header, arrays)
    except ValueError:
        return
    assert type(value) is Whole
