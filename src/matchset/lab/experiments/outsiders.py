"""Outsiders: which rows need something that the user has to bring?"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from matchset.config import LearnConfig, TrainConfig, count_threads
from matchset.data.log import Log
from matchset.errors import ParameterError, install_command
from matchset.lab.dssm.hnsw import DEFAULT_GRAPH
from matchset.lab.dssm.sentence_encoder import EXTRA, SentenceEncoder, digest_folder
from matchset.lab.experiments.benchmark import Benchmark
from matchset.lab.experiments.contender import NO_CATALOG, Contender, of_kind
from matchset.learn.training_data import prepare_training_data
from matchset.matchers.base import Matcher
from matchset.matchers.match import Matches
from matchset.matchers.recorded_run import RecordedRun
from matchset.matrices import Csr, offsets_of
from matchset.strings import Strings

ENCODER, PECOS = SentenceEncoder.kind, "pecos"
BEAM, DEPTH = 10, 100  # of PECOS: the paper's beam, and as many products as are measured
NO_ENCODER = "needs a folder of sentence-transformers: give --encoder"
NO_PECOS = "needs libpecos: give --pecos, a Python that has it"
_SIDE = Path(__file__).with_name("pecos_side.py")


@dataclass(frozen=True, slots=True)
class Outside:
    """What the user brings along."""

    encoder: Path | None = None  # folder of a sentence encoder
    pecos: Path | None = None  # a Python that has libpecos; None: perhaps this one


def make_encoder(benchmark: Benchmark, folder: Path | None) -> Contender:
    """A ready sentence encoder, which learns nothing from the log: the paper's BERT."""

    def recipe(_: Path) -> Matcher:
        if benchmark.catalog is None or folder is None:
            raise ValueError(NO_ENCODER)
        threads = benchmark.config.learn.threads
        return SentenceEncoder.from_catalog(benchmark.catalog, folder, threads=threads)

    config: dict[str, Any] = {"graph": asdict(DEFAULT_GRAPH)}
    if folder is not None:
        config["encoder"] = digest_folder(folder)
    note = "" if folder is None else f"the encoder is {folder.name}; disk does not count it"
    absent = _why_no_encoder(benchmark, folder)
    return of_kind(ENCODER, config, recipe, is_stored=True, absent=absent, note=note)


def _why_no_encoder(benchmark: Benchmark, folder: Path | None) -> str:
    if benchmark.catalog is None:
        return NO_CATALOG
    if folder is None:
        return NO_ENCODER
    has_extra = all(find_spec(name) is not None for name in ("sentence_transformers", "usearch"))
    command = install_command(EXTRA)
    return "" if has_extra else f"needs sentence-transformers and usearch: {command}"


def make_pecos(benchmark: Benchmark, python: Path | None) -> Contender:
    """PECOS's own XR-Linear over our features of queries, with the settings of the paper's rows."""
    ours = benchmark.config
    config = replace(ours, parts=("tree",), titles="none", language=None, learn=LearnConfig())
    learn = replace(config.learn, seed=ours.learn.seed, threads=ours.learn.threads)
    config = replace(config, learn=learn)

    def recipe(_: Path) -> Matcher:
        return run_pecos(
            benchmark.train, benchmark.qrels.queries, config, python or Path(sys.executable)
        )

    if python is not None and not python.is_file():
        rule = f"must be a Python that has libpecos; got {python}, which is no file"
        raise ParameterError(rule, parameter="pecos")
    has_own = find_spec("pecos") is not None
    return Contender(
        PECOS,
        RecordedRun.kind,
        "PECOS, XR-Linear (queries)",
        {**asdict(config), "beam": BEAM, "k": DEPTH},
        recipe,
        is_timed=False,
        absent="" if has_own or python is not None else NO_PECOS,
        note="its answers come from a process of its own, so its latency is not measured here",
    )


def run_pecos(log: Log, queries: Strings, config: TrainConfig, python: Path) -> RecordedRun:
    """Train PECOS on a log in another process, and record what it answers to queries."""
    data, learn = prepare_training_data(log, None, config), config.learn
    settings = {
        "branching": learn.branching,
        "max_leaf_size": learn.max_leaf_size,
        "C": learn.C,
        "threshold": learn.threshold,
        "seed": learn.seed,
        "threads": count_threads(learn.threads),
        "beam": BEAM,
        "k": DEPTH,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        matrices = {
            "rows": data.examples.X.to_scipy(),
            "answers": data.examples.Y.to_scipy(),
            "test": data.vectorizer.transform(queries),
        }
        for file, matrix in matrices.items():
            sp.save_npz(folder / f"{file}.npz", sp.csr_matrix(matrix))
        (folder / "settings.json").write_text(json.dumps(settings))
        command = [str(python), str(_SIDE), name]
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing"]
            rule = f"must be a Python that has libpecos; {python} said: {said[-1]}"
            raise ParameterError(rule, parameter="pecos")
        found = sp.csr_array(sp.load_npz(folder / "found.npz"))
    return RecordedRun.of(Matches(queries, _rank(found), data.products))


def _rank(found: sp.csr_array) -> Csr:
    """Products of each row, best first, equal ones by label."""
    entries = found.tocoo()
    order = np.lexsort([entries.col, -entries.data, entries.row])
    counts = np.bincount(entries.row, minlength=found.shape[0])
    labels, scores = entries.col[order], entries.data[order]
    return Csr(
        offsets_of(counts),
        labels.astype(np.int32),
        scores.astype(np.float32),
        found.shape[1],
    )
