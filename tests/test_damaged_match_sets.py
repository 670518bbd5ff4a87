"""Whatever a match set's files hold: a clear error or an answer, never a crash."""

import copy

import numpy as np
import pytest
from match_sets import make_match_set
from stored import take_apart

from matchset.data.catalog import Catalog
from matchset.errors import ModelFileError
from matchset.matchers.saved import Saved, read_part
from matchset.storage.codec import decode
from matchset.strings import Strings

QUERIES = ["red rose", "white vase garden", "mug 3", "blue", "rde rsoe"]
MODEL, TITLES = "model.", "changes.titles."
LISTS = ("offsets", "ids", "impacts")
VECTORS = [f"{of}.{v}" for of in ("table", "lists.groups", "lists.clusters", "lists.vectors")
           for v in ("values", "scales")]  # fmt: skip
NAMES = {
    "tree": ["blocks", "data", "first_block", "labels"],
    "towers": ["row_of", "position_of", "lists.group_offsets", "lists.list_offsets",
               "lists.labels", *VECTORS],
    "lexical": ["row_of", *(f"{of}.{x}" for of in ("titles_of", "words_of") for x in LISTS)],
    "neighbors": ["offsets", "products", "counts", "hashes", "by_hash",
                  *(f"queries_of.{x}" for x in LISTS)],
    "heirs": ["labels", "lenders"],
}  # fmt: skip
ROWS = ["starts", "words", "counts", "keys", "features", "vectors.values", "vectors.scales",
        "clusters", "lenders"]  # fmt: skip
ARRAYS = [
    f"{MODEL}popularity",
    f"{MODEL}recent",
    *(f"{MODEL}{part}.{name}" for part, names in NAMES.items() for name in names),
    f"{TITLES}product",
    *(f"{TITLES}rows.{name}" for name in ROWS),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Header and arrays of a saved match set."""
    path = tmp_path_factory.mktemp("whole") / "model"
    goods = Catalog(Strings.of(["n1", "n2"]), Strings.of(["red zyxo rose", "zyxo mug"]))
    make_match_set(tune=False, min_count=3.0).add(goods).remove(["p001"]).save(path)
    return take_apart(path)


def load(header, arrays):
    """What `ms.load` does once the file is mapped."""
    return read_part("model", "model", lambda: decode(Saved, header, arrays))


def extremes(array):
    """The same array with every value at its largest, or at its smallest; NaN for numbers."""
    if array.dtype.kind == "f":
        return [np.full_like(array, np.nan), np.full_like(array, np.inf)]
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        return [np.full_like(array, limits.max), np.full_like(array, limits.min)]
    return [np.frombuffer(b"\xff" * array.nbytes, array.dtype), np.zeros_like(array)]


def one_wrong(array):
    """Single values out of range, at the beginning, in the middle and at the end."""
    for at in {0, len(array) // 2, len(array) - 1}:
        for whole in extremes(array):
            changed = array.copy()
            changed[at] = whole[at]
            yield changed


def damages(array):
    """The array truncated, lengthened, empty, mistyped, with values out of range."""
    array = np.array(array)
    yield array[: len(array) // 2]
    yield array[:-1]
    yield array[:0]
    yield np.concatenate([array, array[:1]])
    yield array.view(np.uint8).copy() if array.dtype != np.uint8 else array.astype(np.int64)
    yield array.reshape(1, -1)
    yield from extremes(array)
    yield from one_wrong(array)


def ask(matcher):
    """One by one, in a batch and under a filter."""
    for query in QUERIES:
        matcher.match(query, k=50)
    matcher.match(QUERIES, k=200)
    n = len(matcher.products)
    allowed = matcher.model.native.allow(np.arange(n) % 3 == 0)
    matcher.model.search_text(matcher.vectorizer.native, "red vase", 40, allowed)


def test_every_array_of_a_match_set_is_damaged_below(stored):
    header, arrays = stored
    found = {name for name in arrays if name.startswith((MODEL, TITLES))}
    assert {name for name in found if ".reranker." not in name} == set(ARRAYS)
    ask(load(header, arrays))


@pytest.mark.parametrize("name", ARRAYS)
def test_a_damaged_array_is_an_error_or_another_answer(stored, name):
    header, arrays = stored
    n_refused = 0
    for changed in damages(arrays[name]):
        try:
            ask(load(header, {**arrays, name: changed}))
        except (ModelFileError, ValueError, IndexError) as error:
            n_refused += bool(str(error))
    assert n_refused > 0


def test_a_missing_array_is_refused(stored):
    header, arrays = stored
    for name in arrays:
        left = {key: array for key, array in arrays.items() if key != name}
        with pytest.raises(ModelFileError, match=f"damaged: {name} must be the name of an array"):
            load(header, left)


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("towers", "table", None),
        ("lexical", "scale", "large"),
        ("lexical", "first_word", -1),
        ("lexical", "first_word", 2**40),
        ("lexical", "mean_length", []),
        ("tree", "sizes", [1]),
        ("tree", "n_features", -1),
        ("tree", "precision", "x"),
        ("bounds", "lists", 0),
        ("bounds", "doors", 4),
        ("reranker", "features", ["cosine"]),
        ("reranker", "calibrations", []),
        ("reranker", "subsets", None),
    ],
)
def test_a_damaged_header_is_refused(stored, part, key, value):
    header, arrays = copy.deepcopy(stored)
    header["fields"]["model"][part][key] = value
    with pytest.raises(ModelFileError, match="damaged"):
        load(header, arrays)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("weights", np.ones((1, 1), np.float32)),
        ("weights", np.full((3, 2, 20), np.nan, np.float32)),
        ("calibrations.0.knots", np.empty(0, np.float32)),
        ("calibrations.1.knots", np.array([2.0, 1.0], np.float32)),
        ("calibrations.2.log_odds", np.array([np.inf], np.float32)),
    ],
)
def test_a_damaged_reranker_is_refused(stored, name, array):
    header, arrays = stored
    with pytest.raises(ModelFileError, match="damaged"):
        load(header, {**arrays, f"{MODEL}reranker.{name}": array})


def test_a_file_without_parts_is_refused(stored):
    header, arrays = copy.deepcopy(stored)
    for part in ("tree", "towers", "lexical", "neighbors"):
        header["fields"]["model"][part] = None
        arrays = {key: a for key, a in arrays.items() if not key.startswith(f"{MODEL}{part}.")}
    with pytest.raises(ModelFileError, match="must have one of tree"):
        load(header, arrays)
