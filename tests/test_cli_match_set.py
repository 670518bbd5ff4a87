"""The command line over a match set: what is done with its parts."""

import json
import re

import pytest
from command_line import run
from match_sets import make_match_set

import matchset as ms
from matchset.model.reranker import FEATURES


@pytest.fixture(scope="module")
def match_set(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts") / "model"
    make_match_set(tune=False).save(folder)
    return folder


def test_the_parts_of_a_match_set_are_inspected(match_set):
    said = run("inspect", match_set, "--verify")
    for part in ("every file is as it was written", "match_set", "bytes per weight", "tune is off"):
        assert part in said
    for part in ms.load(match_set).model.parts:
        assert re.search(rf"^{part} +[0-9]+\.[0-9]", said, flags=re.MULTILINE)
    for feature in FEATURES:
        assert re.search(rf"^{feature} .*[+-][0-9]", said, flags=re.MULTILINE)


def test_a_part_of_a_match_set_is_dropped(match_set, tmp_path):
    out = tmp_path / "small"
    said = run("prune", match_set, "--drop", "towers", "lexical", "--threshold", 0.3, "-o", out)
    assert "default weights of the re-ranker" in said
    whole, small = ms.load(match_set), ms.load(out)
    assert small.model.parts == small.config.parts == ("tree", "neighbors")
    assert small.model.tree.n_weights < whole.model.tree.n_weights
    assert small.config.learn.threshold == 0.3
    assert "cosine" not in run("inspect", out)
    for arguments, part in (
        (["--drop", *whole.model.parts], "and leave one; got tree, towers, lexical, neighbors"),
        (["--drop", "forest"], "drop must be some of tree, towers, lexical, neighbors"),
        ([], "--threshold must be given, or --drop; got neither"),
    ):
        assert part in run("prune", match_set, *arguments, "-o", tmp_path / "none", ok=False)
    assert not (tmp_path / "none").exists()


def test_a_match_set_tells_why_a_product_is_missing(match_set):
    said = run("explain", match_set, "red rose", "p159", "-k", 3)
    for part in ("tree", "towers", "lexical", "neighbors", "popularity", "no word in common"):
        assert part in said


@pytest.fixture
def searches(tmp_path):
    """A log of some searches in the shop of `match_set`."""
    file = tmp_path / "searches.csv"
    rows = [f"red rose {i},p{i:03},5" for i in range(40)]
    file.write_text("\n".join(["query,product_id,count", *rows]) + "\n")
    return file


def test_the_tree_of_a_match_set_is_swept_alone(match_set, searches, tmp_path):
    found = {}
    for kind, parts in (("match_set", ms.load(match_set).model.parts), ("xr_linear", ["tree"])):
        run("sweep", match_set, searches, "--parts", *parts, "-o", tmp_path / kind, "--quick")
        swept = json.loads((tmp_path / kind / "results.json").read_text())["sweep"]
        assert swept["kind"] == kind
        found[kind] = [row["recall"] for row in swept["beams"]]
    assert found["match_set"] != found["xr_linear"]


def test_parts_that_a_given_model_cannot_be_swept_with_are_refused(match_set, searches, tmp_path):
    whole = ms.load(match_set)
    whole.part("tree").save(tmp_path / "tree")
    whole.only(["towers", "lexical"]).save(tmp_path / "treeless")
    rule = "--parts must be tree, or all parts of the model"
    for given, parts, said in (
        (match_set, ["tree", "towers"], f"{rule} (tree, towers, lexical, neighbors); got tree, "),
        (match_set, ["forest"], "parts must be"),
        (tmp_path / "tree", ["lexical"], f"{rule} (tree); got lexical"),
        (tmp_path / "treeless", ["tree"], "--model must have a tree; got towers, lexical"),
    ):
        options = ["--parts", *parts, "-o", tmp_path / "out"]
        assert said in run("sweep", given, searches, *options, ok=False)
    assert not (tmp_path / "out").exists()
