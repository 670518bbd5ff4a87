"""Problems: on which queries and products are the peers compared?

A problem is a folder with train.txt and test.txt (queries, one a line, normalized) and train.npz
and test.npz (queries x products, ones). Test pairs whose product no training pair has are left out
of the matrix but count as missed: no side can find them. Simulated shops also have log.parquet (the
training side) and products.parquet, which sides that read titles learn from.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).parent.parent
RELEVANT = 2.33  # mean of the raters, from 1 to 3
COOKING_TRAIN = 12_404  # lines of the usual split


def make_problem(name: str, *, real: Path | None = None) -> Path:
    """The folder of a problem: shop-200000, market-200000, homedepot-0 to -4 (folds), cooking."""
    folder = ROOT / "build" / "problems" / name
    if not (folder / "ceiling.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        kind, _, number = name.partition("-")
        if kind == "shop":
            write_shop(folder, int(number), "shop")
        elif kind == "market":
            write_shop(folder, int(number), "marketplace")
        elif real is None:
            raise SystemExit(f"{name}: needs --real, the folder of the data sets")
        elif kind == "homedepot":
            write_homedepot(folder, real / "homedepot", fold=int(number))
        else:
            write_cooking(folder, real / "cooking")
    return folder


def write_shop(folder: Path, n_products: int, kind: str) -> None:
    """A simulated shop with two queries per product, one query in twenty held out."""
    import matchset as ms

    shop = ms.lab.simulate_shop(kind=kind, products=n_products, queries=2 * n_products)
    split = ms.split_by_query(shop.log, folds=20)
    split.train.save(folder / "log.parquet")
    shop.catalog.save(folder / "products.parquet")
    write_pairs(folder, ms.positives(split.train), ms.positives(split.test))


def write_homedepot(folder: Path, real: Path, *, fold: int) -> None:
    """Shopping queries and products judged relevant, split by query."""
    import matchset as ms

    columns = {"query": "query_text", "product": "product_id", "count": "relevance"}
    log = ms.read_log(str(real / "pairs.tsv"), event=False, timestamp=False, **columns)
    split = ms.split_by_query(log, folds=5, fold=fold)
    train, test = (ms.positives(side, min_count=RELEVANT) for side in split)
    write_pairs(folder, train, test)


def write_cooking(folder: Path, real: Path) -> None:
    """Question titles and their tags, on the usual split."""
    import matchset as ms

    train, test = read_cooking(real)
    write_pairs(folder, ms.positives(train), ms.positives(test))


def read_cooking(real: Path):
    """Logs of both sides of the usual split."""
    import matchset as ms

    lines = [line.split("\t") for line in (real / "pairs.tsv").read_text().splitlines()[1:]]
    sides = []
    with tempfile.TemporaryDirectory() as folder:
        for is_train in (True, False):
            rows = [row for row in lines if (int(row[0]) <= COOKING_TRAIN) == is_train]
            texts = ["query\tproduct_id", *("\t".join(row[1:]) for row in rows)]
            file = Path(folder) / "rows.tsv"
            file.write_text("\n".join(texts) + "\n")
            sides.append(ms.read_log(str(file)))
    return sides


def write_pairs(folder: Path, train, test) -> None:
    """Both sides of a split, with the products of training as columns."""
    label = train.products.index_of(test.products)
    pairs = sp.coo_array(test.pairs)
    is_known = label[pairs.col] >= 0
    shape = (len(test.queries), len(train.products))
    known = pairs.row[is_known], label[pairs.col[is_known]]
    (folder / "train.txt").write_text("\n".join(train.queries))
    (folder / "test.txt").write_text("\n".join(test.queries))
    sp.save_npz(folder / "train.npz", binary(train.pairs))
    sp.save_npz(folder / "test.npz", binary(sp.csr_matrix((np.ones(is_known.sum()), known), shape)))
    n_relevant = np.diff(test.pairs.indptr)
    n_known = np.bincount(known[0], minlength=len(test.queries))
    facts = {"ceiling": float((n_known / n_relevant).mean()), "train_pairs": len(train)}
    np.save(folder / "n_relevant.npy", n_relevant)
    (folder / "ceiling.json").write_text(json.dumps(facts))


def binary(pairs) -> sp.csr_matrix:
    """Ones where there is a pair."""
    matrix = sp.csr_matrix(pairs, dtype=np.float32)
    matrix.data[:] = 1
    return matrix


def read(folder: Path, name: str) -> tuple[list[str], sp.csr_matrix]:
    """Texts and their labels."""
    return (folder / f"{name}.txt").read_text().split("\n"), sp.load_npz(folder / f"{name}.npz")


def recall(folder: Path, offsets, labels) -> dict[str, float]:
    """Mean over all test queries of the share of their relevant products among the first k.

    Relevant products that training never saw count as missed.
    """
    wanted = sp.load_npz(folder / "test.npz")
    n_relevant = np.load(folder / "n_relevant.npy")
    width = np.int64(wanted.shape[1])
    rows = np.repeat(np.arange(len(n_relevant)), np.diff(offsets))
    rank = np.arange(len(rows)) - np.asarray(offsets)[rows]
    of_row = np.repeat(np.arange(len(n_relevant)), np.diff(wanted.indptr))
    is_hit = np.isin(rows * width + labels, of_row * width + wanted.indices)
    result = {}
    for k in (10, 50, 100):
        hits = np.bincount(rows[is_hit & (rank < k)], minlength=len(n_relevant))
        result[f"recall@{k}"] = 100 * float((hits / n_relevant).mean())
    return result
