"""One side of the learning benchmark: train, predict, print one line of JSON.

python learn_side.py matchset|pecos FOLDER THREADS CONFIG
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

BEAM, K = 10, 100


def run_matchset(X, Y, X_test, threads: int, options: dict) -> tuple[dict, sp.csr_matrix]:
    """Train ours, timed by its own progress reports."""
    from matchset.config import LearnConfig
    from matchset.learn.train import Examples, train
    from matchset.matrices import to_csr
    from matchset.model.search import search

    seconds = {"embed": 0.0, "tree": 0.0, "solve": 0.0}
    layers: dict[int, float] = {}
    last = started = time.perf_counter()

    def listen(progress) -> None:
        nonlocal last
        now = time.perf_counter()
        seconds[progress.stage] += now - last
        if progress.stage == "solve":
            layers[progress.layer] = layers.get(progress.layer, 0) + now - last
        last = now

    config = LearnConfig(threads=threads, **options)
    model = train(Examples(to_csr(X, "X"), to_csr(Y, "Y")), config, progress=listen)
    total = time.perf_counter() - started
    memory = peak_memory()
    found = search(model, to_csr(X_test, "X"), k=K, beam=BEAM, threads=threads)
    return {
        **seconds,
        "total": total,
        "layers": [round(s, 2) for s in layers.values()],
        "sizes": list(model.tree.sizes),
        "weights": model.n_weights + sum(len(layer.bias) for layer in model.layers),
        "weights_by_layer": [len(layer.weights) for layer in model.layers],
        "peak memory (MB)": memory,
    }, found.to_scipy()


def run_pecos(X, Y, X_test, threads: int, options: dict) -> tuple[dict, sp.csr_matrix]:
    """Train PECOS as its documentation does, with B = 32 and the rest at its defaults."""
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    marks: list[float] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "Layer" in record.getMessage():
                marks.append(time.perf_counter())

    logging.getLogger().addHandler(Listener())
    logging.getLogger().setLevel(logging.INFO)
    started = time.perf_counter()
    Z = LabelEmbeddingFactory.create(Y, X, method="pifa", threads=threads)
    embedded = time.perf_counter()
    chain = Indexer.gen(
        Z, "hierarchicalkmeans", nr_splits=options.get("branching", 32), threads=threads
    )
    built = time.perf_counter()
    model = XLinearModel.train(X, Y, C=chain, threshold=0.1, threads=threads)
    ended = time.perf_counter()
    memory = peak_memory()
    found = model.predict(X_test, beam_size=BEAM, only_topk=K, threads=threads)
    weights = [int(layer.W.nnz) for layer in model.model.model_chain]
    return {
        "embed": embedded - started,
        "tree": built - embedded,
        "solve": ended - built,
        "total": ended - started,
        "layers": [round(float(s), 2) for s in np.diff([*marks, ended])],
        "sizes": [layer.W.shape[1] for layer in model.model.model_chain],
        "weights": sum(weights),
        "weights_by_layer": weights,
        "peak memory (MB)": memory,
    }, found


def peak_memory() -> float:
    """Of this process so far, with its libraries and the data."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def recall(found: sp.csr_matrix, wanted: sp.csr_matrix) -> dict[str, float]:
    """Mean over queries of the share of their products among the first k."""
    rows = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
    order = np.lexsort((found.indices, -found.data, rows))
    rank = np.arange(len(rows)) - found.indptr[rows]
    wanted_keys = np.repeat(np.arange(wanted.shape[0]), np.diff(wanted.indptr)) * wanted.shape[1]
    is_hit = np.isin(
        rows.astype(np.int64) * wanted.shape[1] + found.indices[order], wanted_keys + wanted.indices
    )
    n_wanted = np.diff(wanted.indptr)
    has_any = n_wanted > 0
    result = {}
    for k in (10, 50, 100):
        hits = np.bincount(rows[is_hit & (rank < k)], minlength=len(n_wanted))
        result[f"recall@{k} (%)"] = 100 * float((hits[has_any] / n_wanted[has_any]).mean())
    return result


def main() -> None:
    """Load, run one side, print."""
    side, folder, threads, options = sys.argv[1:]
    X, Y, X_test, Y_test = (
        sp.load_npz(Path(folder) / f"{name}.npz") for name in ("X", "Y", "X_test", "Y_test")
    )
    run = {"matchset": run_matchset, "pecos": run_pecos}[side]
    measures, found = run(X, Y, X_test, int(threads), json.loads(options))
    measures |= recall(found, Y_test)
    print(json.dumps(measures))


if __name__ == "__main__":
    main()
