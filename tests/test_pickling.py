"""Matchers and matches can be pickled and copied: joblib, spawned processes and Spark need it."""

import copy
import pickle
import subprocess
import sys

import pytest
from bookshelf import QUERIES, make_catalog, make_pairs
from towers import make_dssm, make_log

import matchset as ms
from matchset.baselines import BM25, NearestQueries, Popularity, RecordedRun, TitleSimilarity
from matchset.matchers.registry import KINDS


def make_matcher(kind):
    catalog, pairs = make_catalog(), make_pairs()
    if kind == "xr_linear":
        return ms.train(make_log(), catalog, ms.TrainConfig(parts=("tree",)))
    if kind == "match_set":
        return ms.train(make_log(), catalog)
    if kind == "dssm_hnsw":
        pytest.importorskip("usearch")
        return make_dssm().with_hnsw()
    return {
        "bm25": lambda: BM25.from_catalog(catalog),
        "title_similarity": lambda: TitleSimilarity.from_catalog(catalog),
        "nearest_queries": lambda: NearestQueries.from_positives(
            pairs, catalog=catalog, neighbors=3
        ),
        "popularity": lambda: Popularity.from_positives(pairs, catalog),
        "dssm": make_dssm,
        "dssm_int8": lambda: make_dssm().with_int8(),
        "run": lambda: RecordedRun.of(BM25.from_catalog(catalog).match(QUERIES)),
        "fusion": lambda: ms.Fusion(
            [BM25.from_catalog(catalog), Popularity.from_positives(pairs, catalog)],
            "weighted",
            weights=[2, 1],
            depth=5,
        ),
    }[kind]()


@pytest.fixture(params=[kind for kind in KINDS if kind != "sentence_encoder"])  # needs a folder
def matcher(request):
    return make_matcher(request.param)


def same(first, second):
    assert type(first) is type(second)
    assert first.match(QUERIES) == second.match(QUERIES)
    assert first.match(QUERIES[0], where="price < 20") == second.match(
        QUERIES[0], where="price < 20"
    )


def test_a_matcher_is_pickled_by_its_arrays(matcher, tmp_path):
    matcher.save(tmp_path / "m")
    loaded = ms.load(tmp_path / "m")
    (tmp_path / "m").unlink()
    for each in (matcher, loaded):
        same(pickle.loads(pickle.dumps(each)), matcher)


def test_a_copy_is_the_matcher_itself_since_nothing_in_it_changes(matcher):
    assert copy.copy(matcher) is matcher
    assert copy.deepcopy({"m": [matcher]})["m"][0] is matcher


def test_another_process_opens_what_was_pickled(tmp_path):
    matcher = make_matcher("xr_linear")
    matcher.save(tmp_path / "m")
    (tmp_path / "pickled").write_bytes(pickle.dumps(ms.load(tmp_path / "m")))
    script = (
        "import pathlib, pickle, sys\n"
        "matcher = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
        f"print(*matcher.match({QUERIES[0]!r}, 3).ids)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "pickled")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert tuple(done.stdout.split()) == matcher.match(QUERIES[0], 3).ids


@pytest.mark.parametrize("kind", ["bm25", "fusion"])
def test_a_pickled_match_does_not_carry_the_catalog(kind):
    matcher = make_matcher(kind)
    one, many = matcher.match(QUERIES[0], 2), matcher.match([*QUERIES, "", "?"], 2)
    for found in (one, many, many[1], many[1:], one[:1], matcher.match([])):
        copied = pickle.loads(pickle.dumps(found))
        assert type(copied) is type(found)
        assert copied == found
        assert copied.to_dicts() == found.to_dicts()
        assert len(copied.products) <= 6
        assert not copied.products.attributes
    assert pickle.loads(pickle.dumps(one)).titles == one.titles
    assert len(pickle.loads(pickle.dumps(one)).products) == 2
    assert copy.deepcopy(many) == many
    untitled = ms.Match.of("q", ["a"], [1.0])
    assert pickle.loads(pickle.dumps(untitled)).titles is None
