"""benchmarks/recall.py and answers.py: what is counted, and what is left out of a ranking?"""

import importlib
import random
import sys
from pathlib import Path

import numpy as np
import pytest

import matchset as ms
from matchset.baselines import BM25

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MODULES = ("answers", "problems", "recall", "splits", "titles")
TRAIN = "query,product_id\nred shoe,a\nred shoe,b\nblue hat,c\n"
TEST = "query,product_id\nred shoe,d\nblue hat,c\ngreen hat,c\n"
PRODUCTS = "product_id,title\na,Red shoe\nb,Redder shoe\nc,Blue hat\nd,Red shoe of wool\n"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def folder(tmp_path):
    for problem in ("nfcorpus", "crowdflower"):
        (tmp_path / problem).mkdir()
        for name, text in (("train", TRAIN), ("test", TEST), ("products", PRODUCTS)):
            (tmp_path / problem / f"{name}.csv").write_text(text)
    return tmp_path


@pytest.fixture
def run(load, monkeypatch, capsys):
    def call(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        load(name).main()
        return capsys.readouterr().out

    return call


def test_only_tests_of_new_pairs_take_known_answers_out_of_a_ranking(load, folder):
    splits = load("splits")
    for name, found in (("nfcorpus", 0.0), ("crowdflower", 1.0)):
        problem = splits.read_problem(name, folder)
        queries = problem.test.queries
        row = list(queries).index("red shoe")
        matcher = BM25.from_catalog(problem.catalog)
        ranking = problem.rank(matcher, queries, 1, without=problem.taken_out(queries))
        right = problem.number(problem.test, queries)
        assert splits.recall(ranking, right, len(queries), 1)[row] == found


def test_pairs_are_split_by_what_training_knows_of_query_and_product(load, folder):
    problem = load("splits").read_problem("nfcorpus", folder)
    queries = problem.test.queries
    right = problem.number(problem.test, queries)
    kinds = load("recall").split_pairs(problem, right, problem.is_known(queries))
    counts = {kind: int(mask.sum()) for kind, mask in kinds.items()}
    expected = {"warm product": 2, "cold product": 1, "known query": 2, "new query": 1}
    assert counts == {"all": 3, **expected}


def test_a_query_without_right_products_is_in_no_mean(load):
    splits = load("splits")
    right = splits.Pairs(np.array([0, 0]), np.array([1, 2]), 5)
    zeros = np.zeros(2)
    ranking = splits.Ranking(np.array([0, 1]), np.array([2, 2]), 5, zeros, zeros.astype(int))
    found = splits.recall(ranking, right, 2, 10)
    assert found[0] == 0.5
    assert np.isnan(found[1])


def test_the_gap_is_that_of_tenths_with_enough_answers(load):
    find_gap = load("recall").find_gap
    scores = np.repeat([0.05, 0.95], [500, 499])
    assert find_gap(scores, scores > 0.5) == pytest.approx(0.05)
    assert np.isnan(find_gap(scores[500:], scores[500:] > 0.5))


def test_a_misspelt_word_is_one_that_nothing_has(load):
    misspell, rng = load("answers").misspell, random.Random(0)
    edits = {misspell("lamp", {"lamps", "lamp", "lam", "lmap"}, rng) for _ in range(200)}
    assert edits.isdisjoint({"lamps", "lamp", "lam", "lmap"})
    assert {len(edit) for edit in edits} == {3, 4, 5}


def test_what_is_added_to_a_kept_model_is_not_kept(load, tmp_path):
    splits = load("splits")
    problem = splits.read_problem("shop-300", None)
    for _ in range(2):  # trained, then read
        matcher = splits.train(problem, tmp_path)
        matcher.upsert([ms.Upsert("NEW", "belmora")])
        assert "NEW" not in list(ms.load(tmp_path / "shop-300").products.ids)


def test_every_question_is_answered_in_a_shop_and_models_are_kept(run, tmp_path):
    models = "--models", tmp_path / "models"
    text = run("answers", "shop-300", "--sample", "50", *models)
    for question in ("words", "pairs", "brands", "left", "misspelt"):
        assert f"\n| {question} |" in text
    assert "| shop-300 | names | " in text
    assert "BM25, titles and past queries" in text
    kept = {folder.name for folder in (tmp_path / "models").iterdir()}
    assert kept == {"shop-300", "shop-300-earlier", "shop-300-left"}
    text = run("recall", "shop-300", "--sample", "50", "--rows", "match set", *models)
    assert text.count("| match set |") == 1
    assert "| BM25, stemmed |" not in text
