"""One side of the learning benchmark: vectorize, train, answer the test, print one line of JSON.

The models stay in the problem's folder, as `matchset` and `pecos`: search.py measures them.

python learn_side.py matchset|pecos FOLDER THREADS CONFIG
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from problems import read, recall

BEAM, K = 10, 100
# Word unigrams and bigrams, character trigrams inside words: the n-grams of the paper.
PECOS_NGRAMS = (
    {"ngram_range": [1, 2], "analyzer": "word"},
    {"ngram_range": [3, 3], "analyzer": "char_wb"},
)


class Stopwatch:
    """Seconds per stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def __call__(self, stage: str) -> None:
        """Everything since the last call was this stage."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self.last
        self.last = now


def run_matchset(folder: Path, threads: int, options: dict) -> dict:
    """Ours, with its defaults but for `options`."""
    from matchset.config import LearnConfig
    from matchset.features.vectorizer import Vectorizer
    from matchset.learn.train_tree import train
    from matchset.learn.training_data import Examples
    from matchset.matrices import to_csr
    from matchset.model.packed import pack
    from matchset.model.products import Products
    from matchset.model.search import search_rule
    from matchset.storage.codec import encode
    from matchset.storage.file import write_file
    from matchset.strings import Strings

    texts, Y = read(folder, "train")
    watch = Stopwatch()
    vectorizer = Vectorizer().fit(texts, threads=threads)
    X = vectorizer.transform(texts, threads=threads)
    watch("vectorize")
    examples = Examples(to_csr(X, "X"), to_csr(Y, "Y"))
    config = LearnConfig(threads=threads, **options)
    model = train(examples, config, progress=lambda step: watch(step.stage)).model
    memory = peak_memory()
    asked, _ = read(folder, "test")
    rows = to_csr(vectorizer.transform(asked), "X")
    exact = pack(model, precision="float32", threads=threads)
    found = exact.search_rows(rows, search_rule(K, BEAM), threads=threads)
    products = Products(Strings.of([f"B{i:09d}" for i in range(Y.shape[1])]))
    header, arrays = encode((vectorizer, pack(model), products))
    write_file(folder / "matchset", "parts", header, arrays, overwrite=True)
    return {
        **watch.seconds,
        "memory": memory,
        "sizes": list(model.tree.sizes),
        # PECOS counts biases among its weights.
        "weights": model.n_weights + sum(len(layer.bias) for layer in model.layers),
        **recall(folder, found.indptr, found.indices),
    }


def run_pecos(folder: Path, threads: int, options: dict) -> dict:
    """PECOS as its documentation does it, with B = 32 and the rest at its defaults."""
    from pecos.utils.featurization.text.vectorizers import Vectorizer
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    texts, Y = read(folder, "train")
    watch = Stopwatch()
    kinds = [dict(kind) for kind in PECOS_NGRAMS]
    config = {"type": "tfidf", "kwargs": {"base_vect_configs": kinds, "threads": threads}}
    vectorizer = Vectorizer.train(texts, config)
    X = vectorizer.predict(texts, threads=threads)
    watch("vectorize")
    Z = LabelEmbeddingFactory.create(Y, X, method="pifa", threads=threads)
    watch("embed")
    branching = options.get("branching", 32)
    chain = Indexer.gen(Z, "hierarchicalkmeans", nr_splits=branching, threads=threads)
    watch("tree")
    model = XLinearModel.train(X, Y, C=chain, threshold=0.1, threads=threads)
    watch("solve")
    memory = peak_memory()
    asked, _ = read(folder, "test")
    rows = vectorizer.predict(asked, threads=threads)
    found = model.predict(rows, beam_size=BEAM, only_topk=K, threads=threads)
    layers = model.model.model_chain
    path = folder / "pecos"
    model.save(str(path / "model"))
    XLinearModel.compile_mmap_model(str(path / "model"), str(path / "compiled"))
    vectorizer.save(str(path / "vectorizer"))
    (path / "weights.json").write_text(json.dumps(sum(int(layer.W.nnz) for layer in layers)))
    return {
        **watch.seconds,
        "memory": memory,
        "sizes": [layer.W.shape[1] for layer in layers],
        "weights": sum(int(layer.W.nnz) for layer in layers),
        **recall(folder, found.indptr, found.indices),
    }


def peak_memory() -> float:
    """Of this process so far, with its libraries and the data, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run one side."""
    side, folder, threads, options = sys.argv[1:]
    run = {"matchset": run_matchset, "pecos": run_pecos}[side]
    print(json.dumps(run(Path(folder), int(threads), json.loads(options))))


if __name__ == "__main__":
    main()
