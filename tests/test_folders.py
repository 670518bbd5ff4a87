"""Saved folders open as they were written, or say which file is wrong."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_vectorizer import SHOP, same_rows

from matchset.errors import ModelFileError
from matchset.features.vectorizer import KIND, Vectorizer
from matchset.storage.folders import (
    VERSION,
    ArrayPieces,
    open_folder,
    verify_folder,
    write_folder,
)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "vectorizer"
    Vectorizer().fit(SHOP).save(path)
    return path


def edit_manifest(path, **changes):
    file = path / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_saved_and_opened_gives_the_same_rows(saved):
    opened = Vectorizer.load(saved)
    fresh = Vectorizer().fit(SHOP)
    assert isinstance(opened.vocabulary.slots, np.memmap)
    assert same_rows(opened.transform(SHOP), fresh.transform(SHOP))
    assert opened.config == fresh.config
    assert opened.name(3) == fresh.name(3)
    verify_folder(saved, KIND)


def test_every_type_and_shape_comes_back(tmp_path):
    arrays = {
        "empty": np.empty((0, 3), np.float32),
        "big_endian": np.arange(5, dtype=">i4"),
        "strided": np.arange(20, dtype=np.uint64)[::3],
        "table": np.arange(6, dtype=np.int8).reshape(2, 3),
    }
    write_folder(tmp_path / "x", "test", header={"a": 1}, arrays=arrays)
    header, found = open_folder(tmp_path / "x", "test")
    assert header == {"a": 1}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_an_existing_folder_is_never_overwritten(saved):
    with pytest.raises(FileExistsError, match="already exists"):
        Vectorizer().fit(["other"]).save(saved)
    verify_folder(saved, KIND)


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        write_folder(tmp_path / "x", "test", header={"a": object()}, arrays={})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: (p / "slots.bin").unlink(), "slots.bin: missing or unreadable"),
        (lambda p: (p / "slots.bin").write_bytes(b"123"), "slots.bin: damaged: must be .* got 3"),
        (lambda p: (p / "manifest.json").unlink(), "not a matchset folder: it has no manifest"),
        (lambda p: (p / "manifest.json").write_text("{"), "manifest.json: cannot be read"),
        (lambda p: (p / "manifest.json").write_text("[" * 10**5), "manifest.json: cannot be read"),
        (lambda p: (p / "manifest.json").write_text("[]"), "not a manifest of matchset"),
        (lambda p: edit_manifest(p, matchset=VERSION + 1), "written by a newer matchset"),
        (lambda p: edit_manifest(p, kind="shop"), "holds a 'shop'; expected a 'vectorizer'"),
        (lambda p: edit_manifest(p, arrays=[]), "header and arrays must be objects"),
        (lambda p: edit_manifest(p, arrays={"../x": {}}), "is not the name of an array"),
        (lambda p: edit_manifest(p, arrays={"a": {"dtype": "O", "shape": []}}), "damaged entry"),
        (lambda p: edit_manifest(p, arrays={"a": {"dtype": "<u4"}}), "damaged entry"),
        (lambda p: edit_manifest(p, arrays={}), "the vectorizer is damaged"),
        (lambda p: edit_manifest(p, header={}), "the vectorizer is damaged"),
    ],
)  # fmt: skip
def test_damage_is_named(saved, damage, message):
    damage(saved)
    with pytest.raises(ModelFileError, match=message):
        Vectorizer.load(saved)


@pytest.mark.parametrize("change", [{"sizes": [9, 9, 9]}, {"sizes": [1]}, {"distinct": []}])
def test_a_header_that_does_not_fit_its_arrays_is_refused(saved, change):
    header = json.loads((saved / "manifest.json").read_text())["header"]
    edit_manifest(saved, header={**header, **change})
    with pytest.raises(ModelFileError, match="damaged"):
        Vectorizer.load(saved)
    with pytest.raises(ModelFileError, match="damaged"):
        verify_folder(saved, KIND)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_flipped_byte_is_found_and_never_crashes(saved, data):
    file = data.draw(st.sampled_from(sorted(saved.glob("*.bin"))))
    whole = file.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytes([whole[at] ^ data.draw(st.integers(1, 255))])
    file.write_bytes(whole[:at] + flipped + whole[at + 1 :])
    try:
        with pytest.raises(ModelFileError, match="checksum differs"):
            verify_folder(saved, KIND)
        try:
            vectorizer = Vectorizer.load(saved)
        except ModelFileError:
            return
        rows = vectorizer.transform(SHOP)
        assert rows.nnz == 0 or rows.indices.max() < vectorizer.n_features
        assert all(isinstance(vectorizer.name(i), str) for i in range(vectorizer.n_features))
    finally:
        file.write_bytes(whole)


@given(st.binary(min_size=16 * 8, max_size=16 * 8), st.integers(1, 8))
def test_a_table_of_noise_is_safe_to_search(noise, n_homes):
    vocabulary = Vectorizer().fit(SHOP).vocabulary
    units, lengths = np.array([0, 1], np.uint8), np.array([1, 3], np.uint8)
    native = type(vocabulary.to_native())(
        np.frombuffer(noise, np.uint8), n_homes, units, lengths, 40, 1, np.ones(2, np.float32)
    )
    ids, _ = native.vectorize("red running shoes")
    assert all(ids < 42)


@pytest.mark.parametrize("cuts", [[], [0], [3, 3, 7]])
def test_an_array_of_pieces_is_written_as_the_whole_is(cuts, tmp_path):
    array = np.arange(10, dtype=np.int32)
    pieces = {"whole": array, "pieces": ArrayPieces(np.split(array, cuts))}
    for name, arrays in pieces.items():
        write_folder(tmp_path / name, "test", header={}, arrays={"a": arrays})
    for file in ("a.bin", "manifest.json"):
        one, other = ((tmp_path / name / file).read_bytes() for name in pieces)
        assert one == other
    verify_folder(tmp_path / "pieces")
