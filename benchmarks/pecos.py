"""PECOS's own XR-Linear on our features of queries, trained by a Python that has libpecos.

    python benchmarks/pecos.py LOG --catalog PRODUCTS --python ENV/bin/python --out pecos.csv
    matchset compare LOG --catalog PRODUCTS --run pecos.csv --out DIR

The log is split as `matchset compare` splits it by default; PECOS answers its test queries.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import matchset as ms
from matchset.config import LearnConfig, TrainConfig, count_threads
from matchset.data.log import Log
from matchset.data.split import SplitOptions
from matchset.lab.experiments.benchmark import make_benchmark
from matchset.learn.training_data import prepare_training_data
from matchset.matchers.match import Matches
from matchset.matchers.recorded_run import RecordedRun
from matchset.matrices import Csr, offsets_of
from matchset.strings import Strings

BEAM, DEPTH = 10, 100  # the paper's beam, and as many products as are measured
PAPER = TrainConfig(parts=("tree",), titles="none", learn=LearnConfig())
SIDE = Path(__file__).with_name("pecos_side.py")


def main() -> None:
    """Write what PECOS answers to the test queries of a log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--catalog", help="only its ids count")
    parser.add_argument("--python", type=Path, required=True, help="a Python that has libpecos")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    catalog = ms.read_catalog(options.catalog) if options.catalog else None
    bench = make_benchmark(ms.read_log(options.log), catalog, PAPER, SplitOptions())
    run = run_pecos(bench.train, bench.qrels.queries, PAPER, options.python)
    run.match(list(bench.qrels.queries), DEPTH).to_pandas().to_csv(options.out, index=False)


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
        command = [str(python), str(SIDE), name]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing"]
            rule = f"must be a Python that has libpecos; {python} said: {said[-1]}"
            raise SystemExit(rule)
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


if __name__ == "__main__":
    main()
