"""Do several matchers find more than the best of them? Recall of parts and fusions at the same k.

    python benchmarks/fusion.py --products 20000
    python benchmarks/fusion.py --real FOLDER --folds 5    # Home Depot, by query

Parts are trained on the training side, and everything is measured on the test side.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from problems import RELEVANT

import matchset as ms
from matchset.baselines import BM25, NearestQueries, TitleSimilarity
from matchset.data.positives import Positives, relevance

KS = (10, 50, 100)
Benchmark = tuple[ms.Log, Positives, ms.Catalog]  # train, test


def main() -> None:
    """One table, a row per matcher; the mean over folds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument("--real", type=Path, help="folder of the real data sets")
    parser.add_argument("--folds", type=int, default=1, help="of Home Depot, of five")
    parser.add_argument("--sample", type=int, default=10_000, help="test queries at most")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    real = options.real
    found_in = read_homedepot(real, options.folds) if real else make_shop(options.products)
    min_count = RELEVANT if real else 1.0
    found: dict[str, list[list[float]]] = {}
    for train, test, catalog in found_in:
        parts = learn_parts(train, catalog, min_count)
        for name, matcher in make_matchers(parts).items():
            result = ms.evaluate(matcher, test, ks=KS, sample=options.sample, resamples=1)
            found.setdefault(name, []).append([100 * result.recall(k) for k in KS])
    print("| | " + " | ".join(f"Recall@{k}" for k in KS) + " |")
    print("|---|" + "---|" * len(KS))
    for name, recalls in found.items():
        cells = " | ".join(f"{share:.1f}" for share in np.mean(recalls, axis=0))
        print(f"| {name} | {cells} |", flush=True)


def learn_parts(train: ms.Log, catalog: ms.Catalog, min_count: float) -> dict[str, ms.Matcher]:
    """XR-Linear and the baselines, by the name of their kind."""
    pairs = ms.positives(train, min_count=min_count)
    return {
        "xr_linear": ms.train(train, catalog, ms.TrainConfig(parts=("tree",), min_count=min_count)),
        "bm25": BM25.from_catalog(catalog),
        "title_similarity": TitleSimilarity.from_catalog(catalog),
        "nearest_queries": NearestQueries.from_positives(pairs, catalog=catalog),
    }


def make_matchers(parts: Mapping[str, ms.Matcher]) -> Mapping[str, ms.Matcher]:
    """Each part, and all of them fused by each method."""
    matchers, names = list(parts.values()), list(parts)
    lexical_first = [parts["bm25"], parts["xr_linear"]]
    return {
        **parts,
        "rrf": ms.Fusion(matchers, "rrf", names=names),
        "weighted": ms.Fusion(matchers, "weighted", names=names),
        "append: bm25, then xr_linear": ms.Fusion(lexical_first, "append"),
    }


def make_shop(n_products: int) -> Iterator[Benchmark]:
    """A simulated shop: the last month tests."""
    shop = ms.lab.simulate_shop(products=n_products)
    train, test = ms.split_by_time(shop.log, test_days=30)
    yield train, relevance(test), shop.catalog


def read_homedepot(real: Path, folds: int) -> Iterator[Benchmark]:
    """Shopping queries with judged products: a fold tests."""
    columns = {"query": "query_text", "product": "product_id", "count": "relevance"}
    file = str(real / "homedepot" / "pairs.tsv")
    log = ms.read_log(file, event=False, timestamp=False, **columns)
    catalog = ms.read_catalog(str(real / "homedepot" / "products.tsv"))
    for fold in range(folds):
        train, test = ms.split_by_query(log, folds=5, fold=fold)
        yield train, ms.positives(test, min_count=RELEVANT), catalog


if __name__ == "__main__":
    main()
