"""Without the extra, everything but DSSM works, and DSSM says what is missing."""

import subprocess
import sys

import pytest
from bookshelf import make_catalog, make_pairs
from towers import CONFIG, make_log

import matchset as ms
from matchset.lab import DSSMConfig
from matchset.lab.dssm.hnsw import build_graph

HOW = r"which is not installed; install it with: pip install 'torch>=[0-9.]+' 'usearch>=[0-9.]+'"


@pytest.fixture
def no_extra(monkeypatch):
    for name in ("torch", "usearch", "usearch.index"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed


def test_importing_matchset_imports_neither_pytorch_nor_usearch():
    code = "import matchset, sys; print({'torch', 'usearch'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


@pytest.mark.usefixtures("no_extra")
def test_training_without_pytorch_says_how_to_get_it():
    with pytest.raises(ImportError, match=f"DSSM needs torch, {HOW}"):
        ms.lab.train_dssm(make_log(), make_catalog(), CONFIG)


@pytest.mark.usefixtures("no_extra")
def test_a_graph_without_usearch_says_how_to_get_it():
    with pytest.raises(ImportError, match=f"DSSM needs usearch, {HOW}"):
        build_graph(make_pairs().pairs.toarray(), threads=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dimensions": 0}, "dimensions must be an integer of at least 1; got 0"),
        ({"batch_size": 1}, "batch_size must be an integer of at least 2; got 1"),
        ({"temperature": 0.0}, "temperature must be positive and finite; got 0.0"),
        ({"time_limit": -1.0}, "time_limit must be positive and finite; got -1.0"),
        ({"validation_share": 1.0}, "validation_share must be from 0 to less than 1; got 1.0"),
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda; got 'tpu'"),
    ],
)
def test_a_setting_out_of_range_is_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        DSSMConfig(**options)
