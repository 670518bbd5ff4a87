"""Are the answers those of PECOS? A model that PECOS trained, converted and searched by both.

python benchmarks/search.py --products 20000      # trains it
python benchmarks/search_parity.py build/problems/shop-20000
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from environments import peer_python

from matchset.matrices import to_csr
from matchset.model.packed import pack
from matchset.model.search import search_rule
from matchset.model.tree import LabelTree, LayerWeights, TreeModel

ANSWER = """
import sys, scipy.sparse as sp
from pecos.utils.featurization.text.vectorizers import Vectorizer
from pecos.xmc.xlinear.model import XLinearModel
path, texts = sys.argv[1], open(sys.argv[2]).read().split("\\n")
X = Vectorizer.load(path + "/vectorizer").predict(texts, threads=1)
model = XLinearModel.load(path + "/compiled", is_predict_only=True)
sp.save_npz(path + "/X.npz", X)
found = model.predict(X, beam_size=10, only_topk=100, threads=1)
sp.save_npz(path + "/answers.npz", found)
"""


def main() -> None:
    """Convert, search, compare."""
    folder = Path(sys.argv[1])
    path = folder / "pecos"
    command = [peer_python("pecos"), "-c", ANSWER, path, folder / "test.txt"]
    subprocess.run(list(map(str, command)), check=True)
    X = to_csr(sp.load_npz(path / "X.npz"), "X")
    theirs = sp.load_npz(path / "answers.npz")
    model = convert(path / "model" / "ranker")
    for precision in ("float32", "int8"):
        packed = pack(model, precision=precision, threads=2)
        ours = packed.search_rows(X, search_rule(100, 10), threads=2)
        same_sets, same_scores = compare(ours.to_scipy(), theirs)
        size = f"{packed.n_bytes / packed.n_weights:.2f} bytes per weight"
        print(
            f"{precision}: the same top 100 for {100 * same_sets:.3f} % of {len(X):,} queries, "
            f"the same scores rank by rank for {100 * same_scores:.3f} %; {size}"
        )


def convert(ranker: Path) -> TreeModel:
    """PECOS's layers as ours: siblings side by side, weights by parent, feature and child."""
    offsets, layers = [], []
    order = np.zeros(1, dtype=np.int64)  # PECOS's number of each node of the level above
    for number in range(len(list(ranker.glob("*.model")))):
        W = sp.load_npz(ranker / f"{number}.model" / "W.npz").tocsc()
        C = sp.load_npz(ranker / f"{number}.model" / "C.npz").tocsc()
        children = [C.indices[C.indptr[p] : C.indptr[p + 1]] for p in order]
        offsets.append(np.concatenate([[0], np.cumsum([len(c) for c in children])]))
        order = np.concatenate(children).astype(np.int64)
        layers.append(_layer(W[:, order].tocoo(), offsets[-1]))
    n_features = W.shape[0] - 1
    tree = LabelTree(order.astype(np.int32), tuple(offsets))
    return TreeModel(tree, tuple(layers), n_features, len(order))


def _layer(W: sp.coo_matrix, first_child: np.ndarray) -> LayerWeights:
    n_features = W.shape[0] - 1
    bias = np.zeros(W.shape[1], np.float32)
    is_bias = W.row == n_features
    bias[W.col[is_bias]] = W.data[is_bias]
    feature, node, weight = W.row[~is_bias], W.col[~is_bias], W.data[~is_bias]
    parent = np.searchsorted(first_child, node, side="right") - 1
    entries = np.lexsort((node, feature, parent))
    feature, node, parent = feature[entries], node[entries], parent[entries]
    is_first = np.ones(len(entries), dtype=bool)
    is_first[1:] = (feature[1:] != feature[:-1]) | (parent[1:] != parent[:-1])
    rows = np.flatnonzero(is_first)
    return LayerWeights(
        np.searchsorted(parent[rows], np.arange(len(first_child))).astype(np.int64),
        feature[rows].astype(np.int32),
        np.append(rows, len(entries)).astype(np.int64),
        (node - first_child[parent]).astype(np.uint16),
        weight[entries].astype(np.float32),
        bias,
    )


def compare(ours: sp.csr_array, theirs: sp.csr_matrix) -> tuple[float, float]:
    """Shares of queries with the same labels, and with the same scores at every rank."""
    n_same_labels = n_same_scores = 0
    for i in range(ours.shape[0]):
        a, b = slice(*ours.indptr[i : i + 2]), slice(*theirs.indptr[i : i + 2])
        n_same_labels += set(ours.indices[a]) == set(theirs.indices[b])
        x, y = np.sort(ours.data[a]), np.sort(theirs.data[b])
        n_same_scores += len(x) == len(y) and np.allclose(x, y, rtol=1e-4, atol=1e-7)
    return n_same_labels / ours.shape[0], n_same_scores / ours.shape[0]


if __name__ == "__main__":
    main()
