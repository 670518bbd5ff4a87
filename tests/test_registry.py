"""A matcher that someone else wrote is registered once, and then is like our own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from serving import ask, working
from word_overlap import WordOverlap, make_word_overlap

import matchset as ms
from matchset.baselines import BM25
from matchset.errors import ModelFileError
from matchset.matchers.registry import KINDS, Kind, find_kind, register
from matchset.model.products import Products

TOY = Kind("word_overlap", "Word overlap", "word_overlap:WordOverlap", "#445566")


@pytest.fixture(autouse=True)
def registered():
    register(TOY)
    yield
    del KINDS[TOY.name]


def of_shop(folder):
    """The toy over the products of a model."""
    products = ms.load(folder / "model").products
    return WordOverlap(Products(products.ids, products.titles, products.attributes))


def test_it_is_saved_and_loaded_as_what_it_is(tmp_path):
    toy = make_word_overlap()
    toy.save(tmp_path / "toy")
    opened = ms.load(tmp_path / "toy")
    assert type(opened) is WordOverlap
    assert opened.match(["rose", "red pot"]) == toy.match(["rose", "red pot"])
    with pytest.raises(ModelFileError, match="holds a 'word_overlap' matcher; expected a 'bm25"):
        BM25.load(tmp_path / "toy")


def test_it_has_a_filter_and_a_least_score_and_refuses_a_beam():
    toy = make_word_overlap()
    assert toy.match("red pot", where=toy.filter(["p0", "p4"])).ids == ("p0", "p4")
    assert toy.match("red pot", min_score=2).ids == ("p3",)
    many = toy.match(["red pot", "", "rose"], min_score=1.5)
    assert [match.ids for match in many] == [("p3",), (), ()]
    with pytest.raises(ValueError, match="min_score must be a number; got nan"):
        toy.match("rose", min_score=float("nan"))
    with pytest.raises(ValueError, match="beam is not an option of a word_overlap matcher; got 3"):
        toy.match("rose", beam=3)
    with pytest.raises(ValueError, match="a word_overlap matcher cannot explain its results"):
        toy.explain("rose", "p0")
    assert toy.training is None


def test_it_is_served_by_its_name(folder):
    of_shop(folder).save(folder / "toy")
    with working(folder / "model", also=(folder / "toy",)) as worker:
        status, found = ask(worker, "/v1/match", b"q=lamp&matcher=word_overlap&k=3")
        assert status == 200
        assert found["matcher"] == "word_overlap"
        listed = ask(worker, "/v1/model")[1]["matchers"]
    assert {"name": "word_overlap", "label": "Word overlap"}.items() <= listed[1].items()
    assert not listed[1]["can_explain"]
    assert not listed[1]["has_beam"]
    assert [each["name"] for each in listed] == ["xr_linear", "word_overlap"]


def test_it_is_compared_and_fused_under_its_name(folder, tmp_path):
    toy, model = of_shop(folder), ms.load(folder / "model")
    matchers = {matcher.kind: matcher for matcher in (model, toy)}
    test = ms.lab.simulate_shop(products=300).log
    compared = ms.compare_matchers(matchers, test, ks=(5, 20), sample=100, resamples=20, flips=100)
    assert 0 <= compared["word_overlap"].recall(20) <= 1
    fusion = ms.Fusion([model, toy])
    assert fusion.names == ("xr_linear", "word_overlap")
    query = test.queries[0]
    fusion.save(tmp_path / "fusion")
    assert ms.load(tmp_path / "fusion").match(query) == fusion.match(query)
    assert fusion.training.is_seen(test.queries).all() == model.training.is_seen(test.queries).all()


def test_a_name_is_registered_once():
    register(TOY)  # the same again changes nothing
    with pytest.raises(ValueError, match="a kind must be registered once; got 'bm25' for"):
        register(Kind("bm25", "Mine", "word_overlap:WordOverlap", "#000000"))
    with pytest.raises(
        ValueError, match=r"a matcher must be one of match_set, xr_linear, .*; got 'tree'"
    ):
        find_kind("tree")


def test_labels_and_colors_are_distinct():
    assert len({kind.label for kind in KINDS.values()}) == len(KINDS)
    assert len({kind.color for kind in KINDS.values()}) == len(KINDS)
    assert np.all([kind.name == name for name, kind in KINDS.items()])


def test_a_class_has_the_name_that_it_is_registered_under():
    assert [kind.find_class().kind for kind in KINDS.values()] == list(KINDS)


def test_a_fresh_process_finds_it_by_its_entry_point(tmp_path):
    """As an installed package would declare it: a .dist-info folder on the path."""
    make_word_overlap().save(tmp_path / "toy")
    info = tmp_path / "site" / "toy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[matchset.matchers]\nword_overlap = plugin:TOY\n")
    (tmp_path / "site" / "plugin.py").write_text(
        "from matchset.matchers.registry import Kind\n"
        f"TOY = Kind({TOY.name!r}, {TOY.label!r}, {TOY.target!r}, {TOY.color!r})\n"
    )
    paths = [tmp_path / "site", Path(__file__).parent, os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [Path(sys.executable).with_name("matchset"), "match", tmp_path / "toy", "red pot"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "p3" in done.stdout
