"""One side of the search benchmark: measure what learn_side.py trained, print one line of JSON.

python search_side.py measure|filters matchset|pecos FOLDER SINGLES
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from problems import read, recall

BEAM, K, BATCH = 10, 100, 20_000


def measure_matchset(folder: Path, singles: int) -> dict[str, float]:
    """Ours: everything through Python."""
    from matchset.features.vectorizer import Vectorizer
    from matchset.matrices import to_csr
    from matchset.model.packed import PackedTree
    from matchset.model.products import Products
    from matchset.model.search import search_rule
    from matchset.storage.codec import decode
    from matchset.storage.file import open_file
    from matchset.strings import Strings

    started = time.perf_counter()
    stored = open_file(folder / "matchset", "parts")
    form = tuple[Vectorizer, PackedTree, Products]
    vectorizer, tree, products = decode(form, stored.header.value, stored.arrays)
    opened = time.perf_counter() - started

    texts, _ = read(folder, "test")
    vocabulary, rule, ids = vectorizer.native, search_rule(K, BEAM), products.ids
    X = to_csr(vectorizer.transform(texts), "X")
    packed = Strings.of(texts)
    batch = [texts[i % len(texts)] for i in range(BATCH)]
    rows = to_csr(vectorizer.transform(batch), "X")

    def ask(text: str) -> object:
        labels, _ = tree.search_text(vocabulary, text, rule)
        return ids.decode(labels)

    def ask_row(i: int) -> object:
        begin, end = X.indptr[i], X.indptr[i + 1]
        return tree.search_row(X.indices[begin:end], X.data[begin:end], rule)

    figures = time_singles("text", ask, texts, singles)
    figures |= time_singles("row", ask_row, range(len(texts)), singles)
    figures["batch"] = time_batch(lambda: tree.search_rows(rows, rule))
    strings = Strings.of(batch)
    figures["text_batch"] = time_batch(lambda: tree.search_texts(vocabulary, strings, rule))
    found = tree.search_texts(vocabulary, packed, rule)
    files = sum(file.stat().st_size for file in (folder / "matchset").glob("tree.*"))
    return figures | {
        "bytes_per_weight": files / tree.n_weights,
        "open_ms": opened * 1e3,
        **recall(folder, found.indptr, found.indices),
    }


def measure_pecos(folder: Path, singles: int) -> dict[str, float]:
    """PECOS: predict-only, memory-mapped, one thread."""
    from pecos.utils.featurization.text.vectorizers import Vectorizer
    from pecos.xmc.xlinear.model import XLinearModel

    path = folder / "pecos"
    started = time.perf_counter()
    model = XLinearModel.load(str(path / "compiled"), is_predict_only=True, lazy_load=True)
    vectorizer = Vectorizer.load(str(path / "vectorizer"))
    opened = time.perf_counter() - started
    options = {"beam_size": BEAM, "only_topk": K, "threads": 1}

    texts, Y = read(folder, "test")
    names = np.array([f"B{i:09d}" for i in range(Y.shape[1])])
    X = vectorizer.predict(texts, threads=1)
    batch = [texts[i % len(texts)] for i in range(BATCH)]
    rows = vectorizer.predict(batch, threads=1)

    def ask(text: str) -> object:
        found = model.predict(vectorizer.predict([text], threads=1), **options)
        return names[found.indices]

    each = {i: X[i] for i in choose(len(texts), singles)}
    figures = time_singles("text", ask, texts, singles)
    figures |= time_singles(
        "row", lambda i: model.predict(each[i], **options), range(len(texts)), singles
    )
    figures["batch"] = time_batch(lambda: model.predict(rows, **options))
    figures["text_batch"] = time_batch(
        lambda: model.predict(vectorizer.predict(batch, threads=1), **options)
    )
    found = model.predict(X, **options)
    files = sum(f.stat().st_size for f in (path / "compiled").rglob("*") if f.is_file())
    return figures | {
        "bytes_per_weight": files / json.loads((path / "weights.json").read_text()),
        "open_ms": opened * 1e3,
        **recall(folder, found.indptr, found.indices),
    }


def measure_filters(folder: Path, singles: int) -> dict[str, float]:
    """Ours alone: what a filter costs that admits less and less."""
    from matchset.features.vectorizer import Vectorizer
    from matchset.model.packed import PackedTree
    from matchset.model.products import Products
    from matchset.model.search import search_rule
    from matchset.storage.codec import decode
    from matchset.storage.file import open_file

    stored = open_file(folder / "matchset", "parts")
    form = tuple[Vectorizer, PackedTree, Products]
    vectorizer, tree, _ = decode(form, stored.header.value, stored.arrays)
    vocabulary, rule = vectorizer.native, search_rule(K, BEAM)
    texts, _ = read(folder, "test")
    rng = np.random.default_rng(0)
    figures = {}
    for share in (None, 1.0, 0.5, 0.1, 0.01, 0.001, 0.0001):
        allowed = None if share is None else tree.allow(rng.random(tree.n_labels) < share)
        times = time_singles(
            "x", lambda text, a=allowed: tree.search_text(vocabulary, text, rule, a), texts, singles
        )
        name = "no filter" if share is None else f"{100 * share:g} % allowed"
        figures[f"{name}, p50"] = times["x_p50"]
    return figures


def choose(n: int, singles: int) -> list[int]:
    """Indices of the queries to search one by one: they are sorted, so the first are no sample."""
    return np.random.default_rng(0).permutation(n)[:singles].tolist()


def time_singles(name: str, ask: Callable, queries: Sequence, singles: int) -> dict[str, float]:
    """Median and 99th percentile, in microseconds, after a warm-up; the same for every side."""
    chosen = [queries[index] for index in choose(len(queries), singles)]
    for query in chosen[: len(chosen) // 4]:
        ask(query)
    times = []
    for query in chosen:
        started = time.perf_counter()
        ask(query)
        times.append(time.perf_counter() - started)
    p50, p99 = np.percentile(times, [50, 99]) * 1e6
    return {f"{name}_p50": p50, f"{name}_p99": p99}


def time_batch(ask: Callable[[], object], size: int = BATCH) -> float:
    """Microseconds of processor time per query of a batch of `size`, the second time.

    One thread works, so that on an idle machine this is the time that passes.
    """
    ask()
    started = time.process_time()
    ask()
    return (time.process_time() - started) / size * 1e6


def main() -> None:
    """Do one step of one side."""
    step, side, folder, singles = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    if step == "filters":
        print(json.dumps(measure_filters(folder, singles)))
        return
    figures = {"matchset": measure_matchset, "pecos": measure_pecos}[side](folder, singles)
    figures["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({name: float(value) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
