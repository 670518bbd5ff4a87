"""Rows that need something from outside: a sentence encoder's folder, a Python with libpecos."""

import sys
from pathlib import Path

import pytest
from encoders import install_stand_in
from encoders import make_encoder as make_folder
from experiments import BUDGET, make_small

from matchset.errors import ParameterError
from matchset.lab.experiments import outsiders
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.outsiders import NO_PECOS, Outside, make_encoder, make_pecos

PACKAGE = """
class LabelEmbeddingFactory:
    @staticmethod
    def create(Y, X, *, method, threads):
        assert (method, threads > 0) == ("pifa", True)
        return Y.T @ X


class Indexer:
    @staticmethod
    def gen(Z, kind, **settings):
        assert (settings["nr_splits"], settings["max_leaf_size"]) == (32, 100)
        return Z
"""
MODEL = '''
import numpy as np


class XLinearModel:
    """Adds up what similar training queries led to."""

    @classmethod
    def train(cls, X, Y, *, C, Cp, Cn, threshold, threads):
        model = cls()
        model.X, model.Y = X, Y
        return model

    def predict(self, test, *, beam_size, only_topk):
        scores = (test @ self.X.T @ self.Y).tocsr()
        for row in range(scores.shape[0]):
            some = scores.data[scores.indptr[row] : scores.indptr[row + 1]]
            if len(some) > only_topk:
                some[some < np.sort(some)[-only_topk]] = 0
        scores.eliminate_zeros()
        return scores
'''


@pytest.fixture(scope="module")
def benchmark():
    return make_small()


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python with a package that looks like PECOS."""
    folder = tmp_path_factory.mktemp("pecos")
    for name, text in {"": "", "xmc": PACKAGE, "xmc/xlinear": ""}.items():
        package = folder / "pecos" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(text)
    (folder / "pecos/xmc/xlinear/model.py").write_text(MODEL)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return script


def test_pecos_is_a_row_that_answers_the_test_queries(benchmark, python, tmp_path):
    found = run_comparison(
        benchmark, tmp_path, BUDGET, names=["pecos", "popularity"], outside=Outside(pecos=python)
    )
    row, floor = found.row("pecos"), found.row("popularity")
    assert row.recall(20) > floor.recall(20) > 0
    assert row.cost is None  # measured in another process
    assert "process of its own" in row.note


def test_a_python_without_libpecos_is_told_by_its_own_words(benchmark, tmp_path):
    outside = Outside(pecos=Path(sys.executable))
    with pytest.raises(ParameterError, match=r"that has libpecos; .* No module named 'pecos'"):
        run_comparison(benchmark, tmp_path, BUDGET, names=["pecos"], outside=outside)
    with pytest.raises(ParameterError, match="got nowhere/python, which is no file"):
        make_pecos(benchmark, Path("nowhere/python"))


def test_rows_are_absent_with_a_sentence_until_something_is_brought(benchmark, monkeypatch):
    monkeypatch.setattr(outsiders, "find_spec", lambda name: None)
    assert make_pecos(benchmark, None).absent == NO_PECOS
    assert make_encoder(benchmark, None).absent.endswith("give --encoder")


def test_an_encoder_without_its_packages_says_how_to_install_them(benchmark, tmp_path, monkeypatch):
    monkeypatch.setattr(outsiders, "find_spec", lambda name: None)
    folder = make_folder(tmp_path / "encoder")
    assert "pip install" in make_encoder(benchmark, folder).absent


@pytest.mark.torch
def test_a_sentence_encoder_is_a_row_with_its_name_in_a_note(benchmark, tmp_path, monkeypatch):
    install_stand_in(monkeypatch)
    monkeypatch.setattr(outsiders, "find_spec", lambda name: name)
    folder = make_folder(tmp_path / "my-encoder")
    found = run_comparison(
        benchmark,
        tmp_path / "out",
        BUDGET,
        names=["sentence_encoder", "popularity"],
        outside=Outside(encoder=folder),
    )
    row = found.row("sentence_encoder")
    assert row.recall(20) > found.row("popularity").recall(20)
    assert row.note == "the encoder is my-encoder; disk does not count it"
    assert row.cost.latency["vectorizing_p50"] > 0
