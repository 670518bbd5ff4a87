"""One side of the comparison with the peers: train, save, answer the test, print one line of JSON.

Every side gets the same rows, rows-train.npz and rows-test.npz in the problem's folder, and
settings as near to ours as it has: 32 branches, at most 100 labels a leaf, squared hinge with C = 1
and a bias, weights up to 0.1 dropped, beam 10, top 100. Its model stays in FOLDER/peers/SIDE.

python peers_side.py matchset|pecos|napkinxc|omikuji FOLDER THREADS SINGLES
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from learn_side import BEAM, K, peak_memory
from pip._vendor.packaging.requirements import Requirement
from problems import read, recall
from search_side import choose, time_batch, time_singles

BRANCHING, MAX_LEAF, C, THRESHOLD, MAX_PASSES = 32, 100, 1.0, 0.1, 100
LEVELS = 5  # of a binary tree that make 32 branches
BATCH = 4_000
PACKAGES = {"pecos": "libpecos"}  # where the package is not called like the side


@dataclass(frozen=True)
class Answerer:
    """A saved model that was opened to answer on one thread."""

    one: Callable[[Any], Any]  # the answer to one row, in the form of `rows`
    many: Callable[[Any], Any]  # the answers to a matrix
    flatten: Callable[[Any], tuple[Any, Any]]  # answers to offsets and labels
    rows: Callable[[sp.csr_matrix], Sequence[Any]]  # single rows as `one` wants them


@dataclass(frozen=True)
class Side:
    """How a library is trained, and how its model is opened."""

    train: Callable[[Path, Path, int], None]  # from the benchmark to the folder of the model
    open: Callable[[Path], Answerer]


def read_rows(folder: Path, name: str) -> sp.csr_matrix:
    """Queries x features, as our vectorizer made them."""
    return sp.csr_matrix(sp.load_npz(folder / f"rows-{name}.npz"))


def train_matchset(folder: Path, path: Path, threads: int) -> None:
    """Ours: the estimator, and its tree packed to 8 bits as `ms.train` keeps it."""
    from matchset import XRLinear
    from matchset.model.packed import pack
    from matchset.storage.codec import encode
    from matchset.storage.file import write_file

    settings = {"branching": BRANCHING, "max_leaf_size": MAX_LEAF, "C": C, "threshold": THRESHOLD}
    estimator = XRLinear(**settings, n_jobs=threads)
    estimator.fit(read_rows(folder, "train"), read(folder, "train")[1])
    tree = pack(estimator.model_, threads=threads)
    write_file(path, "tree", *encode(tree), overwrite=True)


def open_matchset(path: Path) -> Answerer:
    """Ours, memory-mapped; a single row goes in as two arrays."""
    from matchset.matrices import to_csr
    from matchset.model.packed import PackedTree
    from matchset.model.search import search_rule
    from matchset.storage.codec import decode
    from matchset.storage.file import open_file

    stored = open_file(path, "tree")
    tree, rule = decode(PackedTree, stored.header.value, stored.arrays), search_rule(K, BEAM)
    return Answerer(
        one=lambda row: tree.search_row(*row, rule),
        many=lambda X: tree.search_rows(to_csr(X, "X"), rule),
        flatten=lambda found: (found.indptr, found.indices),
        rows=lambda X: [(row.indices, row.data) for row in split(X)],
    )


def train_pecos(folder: Path, path: Path, threads: int) -> None:
    """PECOS, compiled for mapping."""
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    X, (_, Y) = read_rows(folder, "train"), read(folder, "train")
    Z = LabelEmbeddingFactory.create(Y, X, method="pifa", threads=threads)
    settings = {"nr_splits": BRANCHING, "max_leaf_size": MAX_LEAF, "threads": threads}
    tree = Indexer.gen(Z, "hierarchicalkmeans", **settings)
    model = XLinearModel.train(X, Y, C=tree, Cp=C, Cn=C, threshold=THRESHOLD, threads=threads)
    model.save(str(path.with_name("pecos-uncompiled")))
    XLinearModel.compile_mmap_model(str(path.with_name("pecos-uncompiled")), str(path))


def open_pecos(path: Path) -> Answerer:
    """PECOS as it is fastest: predict-only, memory-mapped."""
    from pecos.xmc.xlinear.model import XLinearModel

    model = XLinearModel.load(str(path), is_predict_only=True, lazy_load=True)

    def predict(X: sp.csr_matrix) -> sp.csr_matrix:
        return model.predict(X, beam_size=BEAM, only_topk=K, threads=1)

    return Answerer(predict, predict, lambda found: (found.indptr, found.indices), split)


def make_napkinxc(path: Path, threads: int) -> Any:
    """A probabilistic label tree: a binary one, flattened, found more than 32-means did.

    Log loss is its default, squared hinge is comparable.
    """
    from napkinxc.models import PLT

    return PLT(
        str(path),
        arity=2,
        flatten_tree=LEVELS,
        max_leaves=MAX_LEAF,
        loss="squaredHinge",
        liblinear_c=C,
        weights_threshold=THRESHOLD,
        tree_search_type="beam",
        beam_search_width=BEAM,
        threads=threads,
        seed=0,
    )


def train_napkinxc(folder: Path, path: Path, threads: int) -> None:
    """NapkinXC, which writes its model as it trains."""
    labels = split(read(folder, "train")[1])
    rows = read_rows(folder, "train")
    make_napkinxc(path, threads).fit(rows, [row.indices.tolist() for row in labels])


def open_napkinxc(path: Path) -> Answerer:
    """NapkinXC, in memory."""
    model = make_napkinxc(path, 1)
    model.load()

    def predict(X: sp.csr_matrix) -> list[list[int]]:
        return model.predict(X, top_k=K)

    return Answerer(predict, predict, flatten_lists, split)


def train_omikuji(folder: Path, path: Path, threads: int) -> None:
    """Omikuji with one tree; it reads a text file, whose writing is part of the training."""
    import omikuji

    X, (_, Y) = read_rows(folder, "train"), read(folder, "train")
    file = path.with_name("omikuji.txt")
    with file.open("w") as stream:
        stream.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
        for row, labels in zip(split(X), split(Y), strict=True):
            features = " ".join(f"{i}:{v:.7g}" for i, v in to_pairs(row))
            stream.write(f"{','.join(map(str, labels.indices.tolist()))} {features}\n")
    settings = omikuji.Model.default_hyper_param()
    settings.n_trees = 1
    settings.min_branch_size = MAX_LEAF
    settings.cluster_k = BRANCHING  # found more than 2 with layers collapsed
    settings.linear_loss_type = omikuji.LossType.HINGE.value  # squared
    settings.linear_c = C
    settings.linear_weight_threshold = THRESHOLD
    settings.linear_max_iter = MAX_PASSES
    omikuji.Model.train_on_data(str(file), settings, threads).save(str(path))
    file.unlink()


def open_omikuji(path: Path) -> Answerer:
    """Omikuji, in memory; its Python has no batch, so that many are asked one by one."""
    import omikuji

    model = omikuji.Model.load(str(path))
    model.init_prediction_thread_pool(1)

    def predict(row: list[tuple[int, float]]) -> list[tuple[int, float]]:
        return model.predict(row, beam_size=BEAM, top_k=K)

    return Answerer(
        one=predict,
        many=lambda X: [predict(to_pairs(row)) for row in split(X)],
        flatten=lambda found: flatten_lists([[label for label, _ in row] for row in found]),
        rows=lambda X: [to_pairs(row) for row in split(X)],
    )


def split(X: sp.csr_matrix) -> list[sp.csr_matrix]:
    """Single rows."""
    return [X[i] for i in range(X.shape[0])]


def to_pairs(row: sp.csr_matrix) -> list[tuple[int, float]]:
    """Features and their values."""
    return list(zip(row.indices.tolist(), row.data.tolist(), strict=True))


def flatten_lists(found: list[list[int]]) -> tuple[Any, Any]:
    """Lists of labels to offsets and labels."""
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in found])])
    return offsets, np.fromiter(chain.from_iterable(found), np.int64, offsets[-1])


def measure(side: str, folder: Path, threads: int, singles: int) -> dict[str, Any]:
    """Train, open, and take every figure."""
    path = folder / "peers" / side
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    SIDES[side].train(folder, path, threads)
    seconds, memory = time.perf_counter() - started, peak_memory()
    answerer = SIDES[side].open(path)
    X = read_rows(folder, "test")
    batch = X[np.arange(BATCH) % X.shape[0]]
    rows = answerer.rows(X[choose(X.shape[0], singles)])
    name = PACKAGES.get(side, side)
    return {
        "version": metadata.version(name),
        "train": seconds,
        "memory": memory,
        **recall(folder, *answerer.flatten(answerer.many(X))),
        **time_singles("row", answerer.one, rows, singles),
        "batch": time_batch(lambda: answerer.many(batch), BATCH),
        "model": sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) / 1e6,
        "installed": sum(map(measure_package, find_packages(name))) / 1e6,
    }


def find_packages(name: str) -> set[str]:
    """A package and all that it pulls in, as far as it is installed."""
    found: set[str] = set()
    wanted = [name]
    while wanted:
        package = wanted.pop().lower().replace("_", "-")
        if package in found:
            continue
        try:
            needs = map(Requirement, metadata.requires(package) or [])
        except metadata.PackageNotFoundError:  # PECOS is installed without torch and the like
            continue
        found.add(package)
        wanted += [n.name for n in needs if not n.marker or n.marker.evaluate({"extra": ""})]
    return found


def measure_package(name: str) -> int:
    """Bytes of the files that a package installed."""
    files = (Path(str(file.locate())) for file in metadata.files(name) or [])
    return sum(file.stat().st_size for file in files if file.is_file())


SIDES = {
    "matchset": Side(train_matchset, open_matchset),
    "pecos": Side(train_pecos, open_pecos),
    "napkinxc": Side(train_napkinxc, open_napkinxc),
    "omikuji": Side(train_omikuji, open_omikuji),
}


def main() -> None:
    """Run one side."""
    side, folder, threads, singles = sys.argv[1:]
    print(json.dumps(measure(side, Path(folder), int(threads), int(singles))))


if __name__ == "__main__":
    main()
