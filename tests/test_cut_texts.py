"""Texts and labels that are cut into many tasks give the bytes that one task gives."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import learn_oracles
import numpy as np
import pytest
from digests import digests
from match_sets import make_config, make_shop
from test_work import list_results, read_times

import matchset as ms
from matchset.config import NGrams, VectorizerConfig
from matchset.learn import embed_tasks, text_tasks
from matchset.matchers.estimator import XRLinear
from matchset.strings import Strings

FEW = VectorizerConfig(
    ngrams=(NGrams("word", 1, 15), NGrams("word", 2, 60, min_df=2), NGrams("char", 3, 50)),
    oov_buckets=3,
)
STEPS = ["ngrams", "rows", "stems", "unknown", "vocabulary", "words"]


def shop():
    """A log, and a catalog with text beside the titles."""
    log, catalog = make_shop(200, days=60)
    texts = [f"made of oak and {i % 9} tins" for i in range(len(catalog))]
    return log, replace(catalog, more_text=Strings.of(texts))


def train(threads=2, settings=None, **options):
    config = make_config(language="en", vectorizer=FEW, **(settings or {}))
    config = replace(config, learn=replace(config.learn, threads=threads))
    return ms.train(*shop(), config, **options)


def cut():
    """Let there be many tasks."""
    text_tasks.MOST_BYTES, embed_tasks.MOST_LABELS = 1500, 30


@pytest.fixture
def is_cut(monkeypatch):
    monkeypatch.setattr(text_tasks, "MOST_BYTES", 1500)
    monkeypatch.setattr(embed_tasks, "MOST_LABELS", 30)


@pytest.fixture(scope="module")
def expected():
    """What one task for all texts gives."""
    return digests(train())


SETTINGS = {
    "no language": {"language": None},
    "scripts without spaces": {"language": "cjk"},
    "every n-gram is known": {"vectorizer": VectorizerConfig(), "language": "auto"},
    "the tree alone": {"parts": ("tree",)},
    "no titles": {"titles": "none"},
    "few positives": {"min_count": 4.0},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_parts_of_texts_and_labels_change_no_byte(settings, request):
    config = make_config(**{"language": "en", "vectorizer": FEW, **settings})
    whole = digests(ms.train(*shop(), config))
    request.getfixturevalue("is_cut")
    assert digests(ms.train(*shop(), config)) == whole


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_do_not_decide_where_texts_are_cut(threads, expected, is_cut, tmp_path):
    assert digests(train(threads, work=tmp_path / "work")) == expected
    tasks = [name for name in list_results(tmp_path / "work") if name.startswith("final/data.")]
    assert sorted({name.split("/")[1].removeprefix("data.") for name in tasks}) == STEPS
    rows = [name.split("/")[2] for name in tasks if "data.rows/" in name]
    assert {name.split("-")[0] for name in rows} == {"queries", "titles", "more"}
    assert len(rows) > 5
    assert len(list((tmp_path / "work/final/embed.sums").iterdir())) > 3


def test_a_text_longer_than_several_ranges_is_in_one_of_them(request):
    log, catalog = shop()
    texts = ["oak " * 2000, *list(catalog.more_text)[1:]]
    catalog = replace(catalog, more_text=Strings.of(texts))
    config = make_config(language="en", vectorizer=FEW)
    whole = digests(ms.train(log, catalog, config))
    request.getfixturevalue("is_cut")
    assert digests(ms.train(log, catalog, config)) == whole


def test_processes_share_the_ranges(expected, is_cut, tmp_path):
    assert digests(train(work=tmp_path / "work", engine="processes")) == expected


@pytest.mark.parametrize("embeddings", ["pifa", "given", "pifa+given"])
def test_ranges_of_labels_change_no_weight_of_an_estimator(embeddings, monkeypatch):
    X, Y = learn_oracles.make_problem()
    rng = np.random.default_rng(0)
    vectors = None if embeddings == "pifa" else rng.random((Y.shape[1], 5)).astype(np.float32)
    settings = {"embeddings": embeddings, "pifa_normalize": True, "branching": 3}

    def fit():
        estimator = XRLinear(**settings, max_leaf_size=4, threshold=0.0)
        return estimator.fit(X, Y, label_vectors=vectors).decision_function(X, k=5)

    whole = fit()
    monkeypatch.setattr(embed_tasks, "MOST_LABELS", 7)
    parts = fit()
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))


KILLED = """
import os, signal, sys
import test_cut_texts
test_cut_texts.cut()
steps = []
def kill(step):
    steps.append(step)
    if step.stage == sys.argv[3] and step.total > 1 and step.done == 2 and len(steps) > 20:
        os.kill(os.getpid(), signal.SIGKILL)
test_cut_texts.train(work=sys.argv[1], engine=sys.argv[2], progress=kill)
"""


@pytest.mark.parametrize(
    ("engine", "stage"),
    [("threads", "vectorize"), ("processes", "vectorize"), ("threads", "embed")],
)
def test_a_training_killed_among_its_ranges_goes_on(
    engine, stage, tmp_path, expected, is_cut, monkeypatch
):
    here, work = Path(__file__).parent, tmp_path / "work"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (here, here.parent))))
    command = [sys.executable, "-c", KILLED, str(work), engine, stage]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    before = read_times(work)
    step = "embed.sums" if stage == "embed" else "data."
    assert any(step in name for name in before)
    assert not (work / "tune" / ("embed" if stage == "embed" else "data")).exists()
    assert digests(train(work=work)) == expected
    after = read_times(work)
    assert {name: after.get(name) for name in before} == before  # nothing was done twice


def test_progress_tells_known_stages_and_comes_to_an_end(is_cut):
    steps = []
    train(settings={"tune": False}, progress=steps.append)
    assert [step.stage for step in steps][:2] == ["read", "vectorize"]
    assert max(step.total for step in steps if step.stage == "vectorize") > 5
    assert steps[-1].seconds_left == 0
    left = [step.seconds_left for step in steps if step.seconds_left is not None]
    assert min(left) >= 0
