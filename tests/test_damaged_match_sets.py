"""Whatever a match set's files hold: a clear error or an answer, never a crash."""

import numpy as np
import pytest
from match_sets import make_match_set

from matchset.data.catalog import Catalog
from matchset.errors import ModelFileError
from matchset.matchers.match_set import MatchSet
from matchset.storage.sections import Section, open_sections, read_section
from matchset.strings import Strings

SECTIONS = ("tree", "towers", "lexical", "neighbors", "search", "fresh")
QUERIES = ["red rose", "white vase garden", "mug 3", "blue", "rde rsoe"]


@pytest.fixture(scope="module")
def sections(tmp_path_factory):
    """Of a saved match set, memory-mapped."""
    path = tmp_path_factory.mktemp("whole") / "model"
    goods = Catalog(Strings.of(["n1", "n2"]), Strings.of(["red zyxo rose", "zyxo mug"]))
    make_match_set(tune=False, min_count=3.0).add(goods).remove(["p001"]).save(path)
    return open_sections(path)[1]


def load(sections):
    """What `ms.load` does once the files are mapped."""
    return read_section("model", "match set", lambda: MatchSet._read(sections, None))


def name_arrays():
    """Every array of every part; a test below compares this list with what is saved."""
    lists = ("offsets", "ids", "impacts")
    vectors = [f"{of}.{v}" for of in ("table", "groups", "clusters", "vectors")
               for v in ("values", "scales")]  # fmt: skip
    return {
        "tree": ["blocks", "data", "first_block", "labels"],
        "towers": ["row_of", "position_of", "group_offsets", "list_offsets", "labels", *vectors],
        "lexical": ["row_of", *(f"{of}.{x}" for of in ("titles_of", "words_of") for x in lists)],
        "neighbors": ["offsets", "products", "counts", "hashes", "by_hash",
                      *(f"queries_of.{x}" for x in lists)],
        "search": ["popularity", "recent", "heirs", "lenders"],
        "fresh": [f"titles.{x}" for x in ("product", "starts", "words", "counts", "keys",
                                          "features", "values", "scales", "clusters",
                                          "lenders")],
    }  # fmt: skip


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


def test_every_array_of_a_match_set_is_damaged_below(sections):
    found = {name: sorted(sections[name].arrays) for name in SECTIONS}
    found["fresh"] = [name for name in found["fresh"] if name.startswith("titles.")]
    assert found == {name: sorted(arrays) for name, arrays in name_arrays().items()}
    ask(load(sections))


@pytest.mark.parametrize(
    ("section", "name"), [(s, name) for s, names in name_arrays().items() for name in names]
)
def test_a_damaged_array_is_an_error_or_another_answer(sections, section, name):
    whole, n_refused = sections[section], 0
    for changed in damages(whole.arrays[name]):
        damaged = Section(whole.header, {**whole.arrays, name: changed})
        try:
            ask(load({**sections, section: damaged}))
        except (ModelFileError, ValueError, IndexError) as error:
            n_refused += bool(str(error))
    assert n_refused > 0


@pytest.mark.parametrize("section", SECTIONS)
def test_a_missing_array_is_refused(sections, section):
    for name in name_arrays()[section]:
        left = {key: array for key, array in sections[section].arrays.items() if key != name}
        with pytest.raises(ModelFileError, match=f"damaged: no '.*{name.split('.')[-1]}'"):
            load({**sections, section: Section(sections[section].header, left)})


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("towers", "dimensions", 0),
        ("towers", "dimensions", 24),
        ("towers", "dimensions", -16),
        ("towers", "dimensions", "many"),
        ("lexical", "scale", "large"),
        ("lexical", "first_word", -1),
        ("lexical", "first_word", 2**40),
        ("search", "parts", ["leaves"]),
        ("search", "parts", []),
        ("search", "bounds", {"lists": 0}),
        ("search", "bounds", {"doors": 4}),
        ("reranker", "weights", [[1.0]]),
        ("reranker", "knots", []),
        ("reranker", "knots", [[]] * 3),
        ("reranker", "knots", [[2.0, 1.0]] * 3),
        ("reranker", "log_odds", [[float("inf")]] * 3),
        ("reranker", "features", ["cosine"]),
    ],
)
def test_a_damaged_header_is_refused(sections, section, key, value):
    whole = sections[section]
    with pytest.raises(ModelFileError, match="damaged"):
        load({**sections, section: Section({**whole.header, key: value}, whole.arrays)})
