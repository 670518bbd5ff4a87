"""`load` opens whichever matcher lies in a folder; the command line takes any of them."""

import json
import subprocess
import sys
from importlib import import_module

import pytest
from bookshelf import QUERIES, make_catalog, make_pairs
from test_cli import run

import matchset as ms
from matchset.matchers.registry import TREE, WHO

LOG = "query,product_id,event\nred rose,p0,purchase\nclay pot,p2,purchase\nvase,p6,purchase\n"


def make_matchers():
    catalog, pairs = make_catalog(), make_pairs()
    bm25, popularity = ms.BM25.from_catalog(catalog), ms.Popularity.from_log(pairs, catalog)
    return {
        "bm25": bm25,
        "title_similarity": ms.TitleSimilarity.from_catalog(catalog),
        "nearest_queries": ms.NearestQueries.from_log(pairs, catalog=catalog),
        "popularity": popularity,
        "fusion": ms.Fusion([bm25, popularity]),
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matchers")
    for name, matcher in make_matchers().items():
        matcher.save(folder / name)
    (folder / "log.csv").write_text(LOG)
    ms.train(str(folder / "log.csv"), make_catalog(), out=folder / "tree")
    return folder


@pytest.mark.parametrize("name", make_matchers())
def test_every_matcher_is_opened_as_what_it_is(saved, name):
    opened, matcher = ms.load(saved / name), make_matchers()[name]
    assert type(opened) is type(matcher)
    assert opened.match(QUERIES) == matcher.match(QUERIES)


@pytest.mark.parametrize(("kind", "who"), WHO.items())
def test_every_kind_is_known_by_who_saves_it(kind, who):
    module, name = who.split(":")
    found = import_module(module)
    assert getattr(found, "KIND", TREE) == kind
    assert callable(getattr(found, name).load)


def test_a_tree_is_opened_without_the_packages_of_others(saved):
    script = (
        "import sys, matchset as ms\n"
        f"print(type(ms.load({str(saved / 'tree')!r})).__name__, 'torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.stdout.split() == ["XRLinearMatcher", "False"]


def test_an_unknown_matcher_is_named(saved, tmp_path):
    make_matchers()["bm25"].save(tmp_path / "m")
    file = tmp_path / "m" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["header"]["matcher"] = "oracle"
    file.write_text(json.dumps(manifest))
    with pytest.raises(ms.ModelFileError, match=r"a matcher must be one of tree, .*; got 'oracle'"):
        ms.load(tmp_path / "m")
    with pytest.raises(ms.ModelFileError, match="not a matchset folder"):
        ms.load(tmp_path)


def test_the_command_line_asks_any_matcher(saved):
    assert "Red Rose" in run("match", saved / "bm25", "red rose", "-k", 1)
    line = json.loads(run("match", saved / "fusion", "vase", "-k", 1, "--form", "jsonl"))
    assert line["ranks"].keys() == {"bm25", "popularity"}
    assert "popularity" in run("match", saved / "fusion", "vase", "--where", "price < 40")
    wrong = run("match", saved / "bm25", "vase", "--beam", 3, ok=False)
    assert "beam is for trees; got a bm25 matcher" in wrong
    assert "Recall" in run("evaluate", saved / "fusion", saved / "log.csv")


def test_any_matcher_is_inspected_and_verified(saved):
    said = run("inspect", saved / "fusion", "--verify")
    for part in ("every file is as it was written", "with titles", "rrf of bm25, popularity"):
        assert part in said
    assert "bm25" in run("inspect", saved / "bm25")


@pytest.mark.parametrize(
    "arguments",
    [["explain", "vase", "p6"], ["prune", "--threshold", 0.1, "-o", "small"]],
    ids=lambda arguments: arguments[0],
)
def test_what_needs_a_tree_says_so(saved, arguments):
    command, *rest = arguments
    said = run(command, saved / "bm25", *rest, ok=False)
    assert "holds a 'bm25' matcher; expected a 'tree' matcher" in said


def test_a_fusion_remembers_what_its_parts_were_trained_on(saved):
    tree, bm25 = ms.load(saved / "tree"), ms.load(saved / "bm25")
    log = ms.read_log(str(saved / "log.csv"))
    alone = ms.evaluate(tree, log, ks=[2]).score("recall", 2)
    fused = ms.evaluate(ms.Fusion([bm25, ms.Fusion([tree])]), log, ks=[2]).score("recall", 2)
    assert fused.ceiling == alone.ceiling == 1.0
