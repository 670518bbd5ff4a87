"""A model folder holds all its sections, is replaced at once, and names whatever is damaged."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from search_oracles import random_model
from test_vectorizer import SHOP, same_rows

import matchset as ms
from matchset.baselines import XRLinearMatcher
from matchset.config import LearnConfig
from matchset.data.catalog import Column
from matchset.errors import ModelFileError
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import read_vocabulary, store_vocabulary
from matchset.model.packed import pack, read_tree, store_tree
from matchset.model.products import Products, read_products, store_products
from matchset.storage import atomic
from matchset.storage.folders import open_folder, verify_folder, write_folder
from matchset.storage.sections import open_sections, read_section, save_sections
from matchset.strings import Strings

GOLDEN = Path(__file__).parent / "golden" / "model-4"
ANSWERS = GOLDEN.with_name("model-4.json")  # of the model of format 4

PRODUCTS = Products(
    Strings.of(["p1", "p2", "ü"]),
    Strings.of(["Red shoe", "", "[/] bolt"]),
    {
        "brand / maker": Column("text", np.array([1, -1, 0], np.int32), Strings.of(["a", "b"])),
        "price": Column("number", np.array([1.5, np.nan, 3])),
        "in stock": Column("boolean", np.array([1, -1, 0], np.int8)),
        "since": Column("date", np.array([1, 2, 3], np.int32)),
    },
)


def save_model(path, seed=6, **options):
    sections = {
        "vectorizer": store_vocabulary(Vectorizer().fit(SHOP).vocabulary),
        "tree": store_tree(pack(random_model(seed, splits=(3, 6)))),
        "products": store_products(PRODUCTS),
    }
    save_sections(path, sections, header={"config": {"k": 1}, "seed": seed}, **options)


@pytest.fixture
def saved(tmp_path):
    save_model(tmp_path / "model")
    return tmp_path / "model"


def test_every_section_comes_back(saved):
    header, sections = open_sections(saved)
    assert header == {"config": {"k": 1}, "seed": 6}
    products = read_products(sections["products"])
    assert products.ids == PRODUCTS.ids
    assert products.titles == PRODUCTS.titles
    assert list(products.attributes) == list(PRODUCTS.attributes)
    for name, column in PRODUCTS.attributes.items():
        found = products.attributes[name]
        assert found.kind == column.kind
        assert found.categories == column.categories
        np.testing.assert_array_equal(found.values, column.values)
    opened = Vectorizer.of(read_vocabulary(sections["vectorizer"]))
    assert same_rows(opened.transform(SHOP), Vectorizer().fit(SHOP).transform(SHOP))
    ms.verify(saved)


def test_products_without_titles_come_back_without():
    assert read_products(store_products(Products(PRODUCTS.ids))).titles is None


def test_overwriting_must_be_asked_for_and_swaps_the_whole(saved):
    with pytest.raises(FileExistsError, match="already exists; overwrite=True replaces it"):
        save_model(saved, 7)
    mapped = open_sections(saved)[1]["tree"].arrays["data"]
    before = mapped.tobytes()
    save_model(saved, 7, overwrite=True)
    assert open_sections(saved)[0]["seed"] == 7
    assert mapped.tobytes() == before  # who has it open keeps what was opened
    assert [entry.name for entry in saved.parent.iterdir()] == ["model"]


def test_where_folders_cannot_be_exchanged_the_old_one_is_moved_away(saved, monkeypatch):
    monkeypatch.setattr(atomic, "exchange", lambda *_: False)
    save_model(saved, 7, overwrite=True)
    assert open_sections(saved)[0]["seed"] == 7
    assert [entry.name for entry in saved.parent.iterdir()] == ["model"]


def test_the_old_folder_comes_back_where_the_new_one_cannot_be_moved(saved, monkeypatch):
    before = open_sections(saved)[0]
    monkeypatch.setattr(atomic, "exchange", lambda *_: False)
    really_rename = Path.rename

    def rename(path, target):
        if Path(target) == saved and not path.name.endswith(".old.tmp"):
            raise OSError(errno.EIO, "Input/output error")
        return really_rename(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="Input/output"):
        save_model(saved, 7, overwrite=True)
    assert open_sections(saved)[0] == before
    assert [entry.name for entry in saved.parent.iterdir()] == ["model"]


def test_a_folder_that_is_not_ours_is_never_replaced(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "letter").write_text("dear")
    with pytest.raises(ModelFileError, match="not a matchset folder"):
        save_model(tmp_path / "precious", overwrite=True)
    assert (tmp_path / "precious" / "letter").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux's")
def test_two_folders_are_exchanged_in_one_step(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "is").write_text(name)
    if not atomic.exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("this file system cannot exchange")
    assert (tmp_path / "a" / "is").read_text() == "b"
    with pytest.raises(FileNotFoundError):
        atomic.exchange(tmp_path / "a", tmp_path / "none")


KILLED = """
import sys, pathlib, numpy as np
from matchset.storage.folders import write_folder
path, n = pathlib.Path(sys.argv[1]), 0
while True:
    n += 1
    arrays = {f"part.a{i}": np.full(200_000, n) for i in range(4)}
    write_folder(path, "test", header={"n": n}, arrays=arrays, overwrite=True)
    print(n, flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.011, 0.02, 0.05])
def test_kill_9_while_saving_leaves_a_whole_model(tmp_path, delay):
    path = tmp_path / "model"
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        child.stdout.readline()  # one is there; another is being written over it
        time.sleep(delay)
        os.kill(child.pid, signal.SIGKILL)
    header, arrays = open_folder(path, "test")
    assert all((array == header["n"]).all() for array in arrays.values())
    verify_folder(path)
    write_folder(path, "test", header={"n": 0}, arrays={}, overwrite=True)


@pytest.mark.parametrize("file", ["manifest.json", "tree.data.bin", "products.ids.bytes.bin"])
def test_verify_finds_a_flipped_bit(saved, file):
    whole = (saved / file).read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 50)):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        (saved / file).write_bytes(damaged)
        with pytest.raises(ModelFileError):
            ms.verify(saved)
    (saved / file).write_bytes(whole)
    ms.verify(saved)


def edit(path, change):
    file = path / "manifest.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    file.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["header"].pop("sections"), "does not list sections"),
        (lambda m: m["header"].update(sections=[]), "does not list sections"),
        (lambda m: m["header"]["sections"]["tree"].pop("sizes"), "tree is damaged: no 'sizes'"),
        (lambda m: m["header"]["sections"]["tree"].update(sizes=[1]), "tree is damaged: .* must"),
        (lambda m: m["header"]["sections"]["tree"].update(n_features=-1), "tree is damaged"),
        (lambda m: m["header"]["sections"]["tree"].update(precision="x"), "precision must be"),
        (lambda m: m["arrays"]["tree.labels"].update(dtype="<f4"), "tree is damaged"),
    ],
)
def test_a_damaged_tree_is_named(saved, change, message):
    edit(saved, change)
    with pytest.raises(ModelFileError, match=message):
        read_section(saved, "tree", lambda: read_tree(open_sections(saved)[1]["tree"]))


def test_damaged_products_are_named(saved):
    def shorten(manifest):
        manifest["header"]["sections"]["products"]["columns"][1]["kind"] = "boolean"

    edit(saved, shorten)
    with pytest.raises(ModelFileError, match="boolean attributes must be"):
        read_section(saved, "products", lambda: read_products(open_sections(saved)[1]["products"]))


def test_a_model_of_format_4_opens_and_answers_the_same():
    """`python tests/test_model_files.py` wrote it; it never changes."""
    ms.verify(GOLDEN)
    matcher = ms.load(GOLDEN)
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


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_model_of_an_earlier_format_must_be_trained_again(tmp_path, version):
    model = tmp_path / "model"
    model.mkdir()
    (model / "manifest.json").write_bytes((GOLDEN.parent / f"manifest-{version}.json").read_bytes())
    message = rf"written by an older matchset \(format {version}\), which .*; train it again"
    for open_it in (ms.load, XRLinearMatcher.load, ms.verify, open_sections):
        with pytest.raises(ModelFileError, match=message) as caught:
            open_it(model)
        assert "damaged" not in str(caught.value)
    save_model(model, overwrite=True)  # what trains again may replace it
    assert open_sections(model)[0]["seed"] == 6


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
    config = ms.TrainConfig(min_count=2.0, learn=LearnConfig(branching=2, max_leaf_size=2))
    trained = ms.train(log, catalog, config, out=GOLDEN, overwrite=GOLDEN.exists())
    matcher = trained.upsert([ms.Upsert("p5", "Green Zyxo Lamp", {"price": 9.0})], remove=["p1"])
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
