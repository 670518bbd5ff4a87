"""The command line over a match set: its answers, and what is done with its parts."""

import json
import re
import subprocess

import pytest
from command_line import COMMAND, call_main, run
from match_sets import make_match_set

import matchset as ms
from matchset.model.reranker import FEATURES


@pytest.fixture(scope="module")
def match_set(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts") / "model"
    make_match_set(tune=False).save(folder)
    return folder


@pytest.fixture
def searches(tmp_path):
    """A log of some searches in the shop of `match_set`."""
    file = tmp_path / "searches.csv"
    rows = [f"red rose {i},p{i:03},5" for i in range(40)]
    file.write_text("\n".join(["query,product_id,count", *rows]) + "\n")
    return file


def test_the_parts_of_a_match_set_are_inspected(match_set):
    said = run("inspect", match_set, "--verify")
    for part in ("every byte is as it was written", "match_set", "bytes per weight", "tune is off"):
        assert part in said
    for part in ms.load(match_set).model.parts:
        assert re.search(rf"^{part} +[0-9]+\.[0-9]", said, flags=re.MULTILINE)
    for feature in FEATURES:
        assert re.search(rf"^{feature} .*[+-][0-9]", said, flags=re.MULTILINE)


def test_a_training_says_once_that_scores_are_no_probabilities(tmp_path):
    run("simulate", "--products", 100, "-o", tmp_path)
    log, goods = tmp_path / "log.parquet", tmp_path / "products.parquet"
    arguments = [COMMAND, "train", log, "--catalog", goods, "-o", tmp_path / "model"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert (done.stdout + done.stderr).count("scores are no probabilities") == 1


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


def match_lines(*options):
    said = run("match", *options, "--form", "jsonl", "-k", 20)
    return [json.loads(line) for line in said.splitlines()]


def test_products_below_a_score_or_a_share_of_the_best_are_left_out(match_set):
    rows = match_lines(match_set, "red rose")
    best, least = rows[0]["score"], (rows[4]["score"] + rows[5]["score"]) / 2
    for cut in (["--min-score", least], ["--min-relative", least / best]):
        assert match_lines(match_set, "red rose", *cut) == rows[:5]
    assert match_lines(match_set, "red rose", "--min-score", 1.01)[0]["product_id"] is None
    said = run("match", match_set, "red rose", "--min-relative", 2, ok=False)
    assert "must be from 0 to 1; got 2" in said


def test_columns_beside_the_title_are_searched_if_they_are_named(searches, tmp_path):
    goods = tmp_path / "goods.csv"
    rows = [f"p{i:03},red rose {i},{'lapwing' if i == 7 else 'heron'},oak" for i in range(40)]
    goods.write_text("\n".join(["product_id,title,brand,material", *rows]) + "\n")
    for name, text in (("plain", []), ("more", ["--catalog-text", "brand", "material"])):
        run("train", searches, "--catalog", goods, *text, "-o", tmp_path / name)
    assert match_lines(tmp_path / "more", "lapwing")[0]["product_id"] == "p007"
    assert len(match_lines(tmp_path / "more", "oak")) == 20
    for query in ("lapwing", "oak"):
        assert match_lines(tmp_path / "plain", query)[0]["product_id"] is None
    options = ["--catalog", goods, "--catalog-text", "color", "-o", tmp_path / "none"]
    assert "--catalog-text must name a column" in run("train", searches, *options, ok=False)


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
        (tmp_path / "treeless", ["tree"], "a sweep needs a model with a tree; got towers, lexical"),
    ):
        options = ["--parts", *parts, "-o", tmp_path / "out"]
        assert said in run("sweep", given, searches, *options, ok=False)
    assert not (tmp_path / "out").exists()


def test_nothing_else_is_written_over_a_model(match_set, searches):
    before = match_set.read_bytes()
    for command in (
        ("split", searches, "--by", "query"),
        ("simulate", "--products", 100),
        ("compare", searches, "--split", "query"),
        ("sweep", match_set, searches),
    ):
        said = run(*command, "--out", match_set, ok=False)
        assert "exists" in said or "Not a directory" in said
    assert match_set.read_bytes() == before


def test_queries_without_products_are_counted_in_tsv(match_set):
    code, out, err = call_main("match", match_set, "red rose", "qqqq", "--form", "tsv")
    assert (code, out.startswith("red rose\t1\t")) == (0, True)
    assert "queries without products, which have no line: 1" in err


def test_a_log_without_rows_is_told_in_a_sentence(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("query,product_id\n")
    said = run("train", file, "--out", tmp_path / "model", ok=False)
    assert "a log must have rows to learn from; got none" in said
