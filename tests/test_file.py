"""A file opens as it was written, is replaced at once, and says what is wrong with it."""

import errno
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from bookshelf import make_catalog, make_pairs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored import damage
from test_vectorizer import SHOP, same_rows

import matchset as ms
from matchset.errors import ModelFileError, TargetExistsError
from matchset.features.vectorizer import KIND, Vectorizer
from matchset.storage.codec import ArrayPieces
from matchset.storage.file import _START, MAGIC, VERSION, open_file, verify_file, write_file
from matchset.strings import Strings

GOLDEN = Path(__file__).parent / "golden"
FORMAT_5, ANSWERS = GOLDEN / "model-5.matchset", GOLDEN / "model-5.json"
ARRAYS = {
    "empty": np.empty((0, 3), np.float32),
    "big_endian": np.arange(5, dtype=">i4"),
    "strided": np.arange(20, dtype=np.uint64)[::3],
    "table": np.arange(6, dtype=np.int8).reshape(2, 3),
    "mask": np.array([True, False]),
}


@pytest.fixture
def saved(tmp_path):
    Vectorizer().fit(SHOP).save(tmp_path / "vectorizer")
    return tmp_path / "vectorizer"


@pytest.fixture
def file(tmp_path):
    write_file(tmp_path / "x", "test", {"a": 1}, ARRAYS)
    return tmp_path / "x"


def test_every_type_and_shape_comes_back(file):
    opened = open_file(file, "test")
    assert opened.header.value == {"a": 1}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(opened.arrays[name], array)
        assert array.size == 0 or not opened.arrays[name].flags.writeable
        assert opened.arrays[name].ctypes.data % 64 == 0 or array.size == 0
    verify_file(file, "test")


def test_a_vectorizer_comes_back(saved):
    opened, fresh = Vectorizer.load(saved), Vectorizer().fit(SHOP)
    assert same_rows(opened.transform(SHOP), fresh.transform(SHOP))
    assert opened.config == fresh.config
    assert opened.name(3) == fresh.name(3)


@pytest.mark.parametrize("cuts", [[], [0], [3, 3, 7]])
def test_an_array_of_pieces_is_written_as_the_whole_is(cuts, tmp_path):
    array = np.arange(10, dtype=np.int32)
    for name, one in {"whole": array, "pieces": ArrayPieces(np.split(array, cuts))}.items():
        write_file(tmp_path / name, "test", {}, {"a": one})
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "pieces").read_bytes()


def test_overwriting_must_be_asked_for_and_leaves_what_is_open_as_it_was(file):
    with pytest.raises(TargetExistsError, match="already exists; overwrite=True replaces it"):
        write_file(file, "test", {}, {})
    mapped = open_file(file, "test").arrays["strided"]
    write_file(file, "test", {"b": 2}, {"strided": np.zeros(7, np.uint64)}, overwrite=True)
    assert open_file(file, "test").header.value == {"b": 2}
    np.testing.assert_array_equal(mapped, ARRAYS["strided"])
    assert [entry.name for entry in file.parent.iterdir()] == ["x"]


def test_what_is_not_ours_is_never_replaced(tmp_path):
    (tmp_path / "letter").write_text("dear")
    (tmp_path / "folder").mkdir()
    for name in ("letter", "folder"):
        with pytest.raises(ModelFileError, match=r"not a file of matchset|it is a folder"):
            write_file(tmp_path / name, "test", {}, {}, overwrite=True)
    assert (tmp_path / "letter").read_text() == "dear"


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        write_file(tmp_path / "x", "test", {"a": object()}, {})
    assert list(tmp_path.iterdir()) == []


def reseal(data, change):
    """The bytes of a file whose header says something else, with a checksum that fits."""
    length = int.from_bytes(data[16:24], "little")
    header = json.loads(data[64 : 64 + length])
    change(header)
    new = json.dumps(header).encode()
    new = new.ljust(-(-(64 + len(new)) // 64) * 64 - 64)
    start = _START.pack(MAGIC, VERSION, len(new), hashlib.sha256(new).digest())
    return start + new + data[64 + length :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "not a file of matchset"),
        (lambda data: b"PK" + data[2:], "not a file of matchset"),
        (lambda data: data[:63], "not a file of matchset"),
        (lambda data: data[:8] + bytes([6]) + data[9:], "written by a newer matchset"),
        (lambda data: data[:8] + bytes([4]) + data[9:], r"\(format 4\); .* format 5; train it"),
        (lambda data: data[:23] + b"\x7f" + data[24:], "checksum of its header differs"),
        (lambda data: data[:-1], "damaged: must be .* bytes; got"),
        (lambda data: data + b" ", "damaged: must be .* bytes; got"),
        (lambda data: reseal(data, lambda h: h.update(kind="shop")), "holds a 'shop'; expected"),
        (lambda data: reseal(data, lambda h: h.pop("arrays")), "header cannot be read"),
        (lambda data: reseal(data, lambda h: h.update(arrays=[])), "header cannot be read"),
        *(
            (
                lambda data, new=new: reseal(data, lambda h: h["arrays"]["slots"].update(new)),
                "header cannot be read|must be",
            )
            for new in (
                {"dtype": "O"}, {"dtype": "V8"}, {"dtype": {"names": 1}}, {"offset": 64},
                {"offset": -64}, {"shape": [-1]}, {"shape": [1.5]}, {"shape": [True]},
                {"shape": [float("inf")]}, {"shape": [1] * 65}, {"shape": None},
                {"shape": [2**62, 2**62]},
            )
        ),
    ],
)  # fmt: skip
def test_damage_is_named(saved, change, message):
    data = saved.read_bytes()
    saved.unlink()
    saved.write_bytes(change(data))
    for read in (Vectorizer.load, lambda path: verify_file(path, KIND)):
        with pytest.raises(ModelFileError, match=message):
            read(saved)


@pytest.mark.parametrize("change", [{"sizes": [9, 9, 9]}, {"sizes": [1]}, {"distinct": []}])
def test_a_header_that_does_not_fit_its_arrays_is_refused(saved, change):
    data = reseal(saved.read_bytes(), lambda header: header["value"].update(change))
    saved.unlink()
    saved.write_bytes(data)
    verify_file(saved, KIND)
    with pytest.raises(ModelFileError, match="the vectorizer is damaged"):
        Vectorizer.load(saved)


def test_any_flipped_byte_is_found(file):
    whole = file.read_bytes()
    for at in range(len(whole)):
        damage(file, at)
        with pytest.raises(ModelFileError):
            verify_file(file)
        file.write_bytes(whole)
    verify_file(file)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_flipped_byte_never_crashes(saved, data):
    whole = saved.read_bytes()
    damage(saved, data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 255)))
    try:
        with pytest.raises(ModelFileError):
            verify_file(saved, KIND)
        try:
            vectorizer = Vectorizer.load(saved)
        except ModelFileError:
            return
        rows = vectorizer.transform(SHOP)
        assert rows.nnz == 0 or rows.indices.max() < vectorizer.n_features
        assert all(isinstance(vectorizer.name(i), str) for i in range(vectorizer.n_features))
    finally:
        saved.write_bytes(whole)


@given(st.binary(min_size=16 * 8, max_size=16 * 8), st.integers(1, 8))
def test_a_table_of_noise_is_safe_to_search(noise, n_homes):
    vocabulary = Vectorizer().fit(SHOP).vocabulary
    units, lengths = np.array([0, 1], np.uint8), np.array([1, 3], np.uint8)
    native = type(vocabulary.to_native())(
        np.frombuffer(noise, np.uint8), n_homes, units, lengths, 40, 1, np.ones(2, np.float32)
    )
    ids, _ = native.vectorize("red running shoes")
    assert all(ids < 42)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "no regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "no regular file"),
        (lambda path: path.mkdir(), "it is a folder"),
        (lambda path: None, "cannot be read: No such file"),
    ],
    ids=["pipe", "device", "folder", "nothing"],
)
def test_m4_only_regular_files_are_read(tmp_path, make, message):
    make(tmp_path / "x")
    for read in (ms.load, ms.verify):
        with pytest.raises(ModelFileError, match=message):
            read(tmp_path / "x")


def test_m4_a_model_may_be_reached_by_a_link(tmp_path):
    ms.baselines.Popularity.from_positives(make_pairs()).save(tmp_path / "v1")
    (tmp_path / "current").symlink_to(tmp_path / "v1")
    assert ms.load(tmp_path / "current").kind == "popularity"


def save_matchers_in_a_loop(path):
    popular = ms.baselines.Popularity.from_positives(make_pairs())
    lexical = ms.baselines.BM25.from_catalog(make_catalog())
    fusion = ms.Fusion([popular, lexical])
    while True:
        for matcher in (popular, fusion, lexical):
            matcher.save(path, overwrite=True)


def test_m1_load_and_verify_during_overwrites_by_other_kinds_never_fail(tmp_path):
    path = tmp_path / "model"
    ms.baselines.Popularity.from_positives(make_pairs()).save(path)
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=save_matchers_in_a_loop, args=(path,), daemon=True)
    child.start()
    try:
        kinds, end = set(), time.monotonic() + 90
        while len(kinds) < 3 and time.monotonic() < end:
            for _ in range(50):
                kinds.add(ms.load(path).kind)
                ms.verify(path)
    finally:
        child.kill()
        child.join()
    assert kinds == {"popularity", "fusion", "bm25"}


KILLED = """
import sys, pathlib, numpy as np
from matchset.storage.file import write_file
path, n = pathlib.Path(sys.argv[1]), 0
while True:
    n += 1
    arrays = {f"a{i}": np.full(200_000, n) for i in range(4)}
    write_file(path, "test", n, arrays, overwrite=True)
    print(n, flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.011, 0.02, 0.05])
def test_kill_9_while_saving_leaves_a_whole_file_and_no_rubbish(tmp_path, delay):
    path = tmp_path / "model"
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        child.stdout.readline()  # one is there; another is being written over it
        time.sleep(delay)
        os.kill(child.pid, signal.SIGKILL)
    opened = open_file(path, "test")
    assert all((array == opened.header.value).all() for array in opened.arrays.values())
    verify_file(path)
    write_file(path, "test", 0, {}, overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


SAVES_ONCE = """
import sys, pathlib
from matchset.storage import file
write = file.write_value
def wait(*args):
    print("begun", flush=True)
    input()
    return write(*args)
file.write_value = wait
file.write_file(pathlib.Path(sys.argv[1]), "test", sys.argv[2], {})
"""


def test_l3_of_several_processes_that_save_to_a_new_path_only_one_does(tmp_path):
    path = tmp_path / "model"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    children = [
        subprocess.Popen([sys.executable, "-c", SAVES_ONCE, path, name], **pipes, text=True)
        for name in "abc"
    ]
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    said = [child.communicate(timeout=60) for child in children]
    assert sorted(child.returncode for child in children) == [0, 1, 1]
    assert sum("TargetExistsError" in error for _, error in said) == 2
    verify_file(path, "test")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_a_full_disk_leaves_the_old_model_and_no_rubbish(file):
    script = (
        "import pathlib, resource, sys, numpy as np\n"
        "from matchset.storage.file import write_file\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        f"arrays = {{'large': np.zeros(100_000)}}\n"
        f"write_file(pathlib.Path({str(file)!r}), 'test', {{}}, arrays, overwrite=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert f"[Errno {errno.EFBIG}]" in done.stderr
    assert open_file(file, "test").header.value == {"a": 1}
    assert [entry.name for entry in file.parent.iterdir()] == ["x"]


def test_a_model_of_format_5_opens_and_answers_the_same(tmp_path):
    """`python tests/test_file.py` wrote it; it never changes."""
    for suffix in ("", ".changes"):
        shutil.copy(f"{FORMAT_5}{suffix}", tmp_path)
    path = tmp_path / FORMAT_5.name
    ms.verify(path)
    matcher = ms.load(path)
    assert isinstance(matcher, ms.MatchSet)
    assert matcher.model.parts == ("tree", "towers", "lexical", "neighbors")
    assert matcher.freshness.added == matcher.freshness.removed == 1
    assert matcher.config.min_count == 2.0
    assert matcher.summary.pairs == 8
    for answer in json.loads(ANSWERS.read_text()):
        asked = matcher if answer["part"] is None else matcher.part(answer["part"])
        found = asked.match(answer["query"], k=3, where=answer["where"])
        assert list(found.ids) == answer["ids"]
        assert list(found.titles) == answer["titles"]
        np.testing.assert_allclose(found.scores, answer["scores"], rtol=1e-5)
    assert matcher.part("tree").explain("red shoe", "p0").score > 0
    assert matcher.training.is_seen(Strings.of(["red shoe", "hat"])).tolist() == [True, False]
    with ms.open_writer(path) as writer:
        assert "p5" not in writer.remove(["p5"]).products.ids


def test_a_model_of_an_earlier_format_must_be_trained_again(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "manifest.json").write_text("{}")
    message = "written by an older matchset, as a folder; train it again"
    popular = ms.baselines.Popularity.from_positives(make_pairs())
    for use in (
        ms.load,
        ms.baselines.XRLinearMatcher.load,
        ms.verify,
        ms.open_writer,
        lambda path: popular.save(path, overwrite=True),
    ):
        with pytest.raises(ModelFileError, match=message) as caught:
            use(model)
        assert "damaged" not in str(caught.value)


def write_golden():
    queries = ["red shoe", "blue shoe", "running shoe", "garden chair", "chair", "red chair"]
    pairs = [(0, 0), (0, 1), (1, 1), (2, 0), (3, 2), (4, 2), (4, 3), (5, 3)]
    log = pa.table(
        {
            "query": [queries[query] for query, _ in pairs] * 2,
            "product_id": [f"p{product}" for _, product in pairs] * 2,
        }
    )
    catalog = pa.table(
        {
            "product_id": ["p0", "p1", "p2", "p3", "p4"],
            "title": ["Red Running Shoe", "Blue Shoe", "Garden Chair", "Chair, red", "Lamp"],
            "brand": ["ada", None, "bo", "bo", "ada"],
            "price": [20.0, 35.5, 80.0, None, 12.0],
            "in_stock": [True, False, True, None, True],
            "since": [date(2026, 1, 2), None, date(2025, 5, 6), date(2026, 7, 8), date(2024, 9, 9)],
        }
    )
    config = ms.TrainConfig(
        min_count=2.0, learn=ms.config.LearnConfig(branching=2, max_leaf_size=2)
    )
    ms.train(log, catalog, config, out=FORMAT_5, overwrite=FORMAT_5.exists())
    with ms.open_writer(FORMAT_5) as writer:
        lamp = ms.Upsert("p5", "Green Zyxo Lamp", {"price": 9.0})
        matcher = writer.upsert([lamp], remove=["p1"])
    answers = []
    asked = [("red shoe", None), ("chair", "price < 100"), ("lamp", "in_stock"), ("zyxo", None)]
    for part in (None, *matcher.model.parts):
        for query, where in asked:
            asks = matcher if part is None else matcher.part(part)
            found = asks.match(query, k=3, where=where)
            answer = {"part": part, "query": query, "where": where}
            answer |= {"ids": found.ids, "titles": found.titles}
            answers.append(answer | {"scores": found.scores.tolist()})
    ANSWERS.write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    write_golden()
