"""PECOS's side of a comparison, run by the Python that has libpecos: train a tree, answer the test.

It reads rows.npz and answers.npz (training), test.npz and settings.json from a folder, and
writes found.npz there: a row per test query, with the scores of its products.

PYTHON pecos_side.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import scipy.sparse as sp


def train(folder: Path, settings: dict[str, Any]) -> Any:
    """A tree of linear models over the label vectors that the paper uses."""
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    threads = settings["threads"]
    X, Y = (sp.csr_matrix(sp.load_npz(folder / f"{name}.npz")) for name in ("rows", "answers"))
    Z = LabelEmbeddingFactory.create(Y, X, method="pifa", threads=threads)
    tree = Indexer.gen(
        Z,
        "hierarchicalkmeans",
        nr_splits=settings["branching"],
        max_leaf_size=settings["max_leaf_size"],
        seed=settings["seed"],
        threads=threads,
    )
    cost = settings["C"]
    threshold = settings["threshold"]
    return XLinearModel.train(X, Y, C=tree, Cp=cost, Cn=cost, threshold=threshold, threads=threads)


def main() -> None:
    """Train, then answer every test query."""
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "settings.json").read_text())
    model = train(folder, settings)
    test = sp.csr_matrix(sp.load_npz(folder / "test.npz"))
    found = model.predict(test, beam_size=settings["beam"], only_topk=settings["k"])
    sp.save_npz(folder / "found.npz", sp.csr_matrix(found))


if __name__ == "__main__":
    main()
