"""`load` opens whichever matcher is in a file; the command line takes any of them."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from bookshelf import QUERIES, make_catalog, make_pairs
from command_line import run
from stored import forge

import matchset as ms
from matchset.baselines import BM25, NearestQueries, Popularity, TitleSimilarity
from matchset.errors import ModelFileError
from matchset.matchers.registry import KINDS

TREE = ms.TrainConfig(parts=("tree",))
LOG = "query,product_id,event\nred rose,p0,purchase\nclay pot,p2,purchase\nvase,p6,purchase\n"


def make_matchers():
    catalog, pairs = make_catalog(), make_pairs()
    bm25, popularity = BM25.from_catalog(catalog), Popularity.from_positives(pairs, catalog)
    return {
        "bm25": bm25,
        "title_similarity": TitleSimilarity.from_catalog(catalog),
        "nearest_queries": NearestQueries.from_positives(pairs, catalog=catalog),
        "popularity": popularity,
        "fusion": ms.Fusion([bm25, popularity]),
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matchers")
    for name, matcher in make_matchers().items():
        matcher.save(folder / name)
    (folder / "log.csv").write_text(LOG)
    log, catalog = str(folder / "log.csv"), make_catalog()
    ms.train(log, catalog, TREE, out=folder / "xr_linear")
    ms.train(log, catalog, out=folder / "match_set")
    return folder


@pytest.mark.parametrize("name", make_matchers())
def test_every_matcher_is_opened_as_what_it_is(saved, name):
    opened, matcher = ms.load(saved / name), make_matchers()[name]
    assert type(opened) is type(matcher)
    assert opened.match(QUERIES) == matcher.match(QUERIES)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_is_registered_under_the_name_of_its_class(kind):
    found = kind.find_class()
    assert found.kind == kind.name
    assert issubclass(found, ms.Matcher)


def test_a_matcher_is_opened_without_the_packages_of_others(saved):
    script = (
        "import sys, matchset as ms\n"
        f"print(type(ms.load({str(saved / 'xr_linear')!r})).__name__, 'torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.stdout.split() == ["XRLinearMatcher", "False"]


def test_an_unknown_matcher_is_named(saved, tmp_path):
    make_matchers()["bm25"].save(tmp_path / "m")
    forge(tmp_path / "m", lambda header, _: header.update({"class": "oracle"}))
    with pytest.raises(
        ModelFileError, match=r"a matcher must be one of match_set, .*; got 'oracle'"
    ):
        ms.load(tmp_path / "m")
    with pytest.raises(ModelFileError, match="it is a folder"):
        ms.load(tmp_path)


def test_the_command_line_asks_any_matcher(saved):
    assert "Red Rose" in run("match", saved / "bm25", "red rose", "-k", 1)
    line = json.loads(run("match", saved / "fusion", "vase", "-k", 1, "--form", "jsonl"))
    assert line["ranks"].keys() == {"bm25", "popularity"}
    assert "popularity" in run("match", saved / "fusion", "vase", "--where", "price < 40")
    wrong = run("match", saved / "bm25", "vase", "--beam", 3, ok=False)
    assert "beam is not an option of a bm25 matcher; got 3" in wrong
    assert "Recall" in run("evaluate", saved / "fusion", saved / "log.csv")


def test_any_matcher_is_inspected_and_verified(saved):
    said = run("inspect", saved / "fusion", "--verify")
    for part in ("every byte is as it was written", "with titles", "rrf of bm25, popularity"):
        assert part in said
    assert "bm25" in run("inspect", saved / "bm25")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["prune", "--threshold", 0.1, "-o", "small"],
            "--threshold is for a trained model; got a bm25",
        ),
        (["explain", "vase", "p6"], "a bm25 matcher cannot explain its results"),
    ],
    ids=["prune", "explain"],
)
def test_what_a_kind_cannot_do_is_said(saved, arguments, message):
    command, *rest = arguments
    assert message in run(command, saved / "bm25", *rest, ok=False)


def test_a_fusion_remembers_what_its_parts_were_trained_on(saved):
    trained, bm25 = ms.load(saved / "xr_linear"), ms.load(saved / "bm25")
    log = ms.read_log(str(saved / "log.csv"))
    alone = ms.evaluate(trained, log, ks=[2]).score("recall", 2)
    fused = ms.evaluate(ms.Fusion([bm25, ms.Fusion([trained])]), log, ks=[2]).score("recall", 2)
    assert fused.seen_limit == alone.seen_limit == 1.0


@pytest.mark.parametrize(
    ("name", "value"),
    [("provenance", []), ("provenance", None), ("config", []), ("config.learn.negatives", 3)],
)
def test_l2_an_odd_header_is_a_model_file_error(tmp_path, name, value):
    path = tmp_path / "model"
    ms.train(pa.table({"query": ["a", "b"], "sku": ["p", "q"]}), config=TREE).save(path)
    *inner, last = name.split(".")

    def change(header, _):
        fields = header["fields"]
        for each in inner:
            fields = fields[each]
        fields[last] = value

    forge(path, change)
    for opens in (ms.load, ms.verify):
        with pytest.raises(ModelFileError, match=f"the model is damaged: {name} must be"):
            opens(path)
