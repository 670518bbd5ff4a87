"""Do titles teach? Recall with and without them, for warm and for cold products.

    python benchmarks/titles.py --products 50000
    python benchmarks/titles.py --real FOLDER         # Home Depot, five folds by query

A product is warm when a training query has it as an answer, cold when none has.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from problems import RELEVANT

import matchset as ms
from matchset.data.positives import Positives, relevance

SEGMENTS = {"all": "all", "warm": "warm product", "cold": "cold product"}
KS = (10, 50, 100)


def main() -> None:
    """One table, a row per setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=50_000)
    parser.add_argument("--real", type=Path, help="folder of the real data sets")
    parser.add_argument("--weights", type=float, nargs="+", default=[1.0, 10.0])
    options = parser.parse_args()
    problems = list(read_homedepot(options.real) if options.real else make_shop(options.products))
    base = ms.TrainConfig(min_count=RELEVANT if options.real else 1.0)
    settings = {"no titles": dataclasses.replace(base, titles="none")}
    for weight in options.weights:
        config = dataclasses.replace(base, titles="instances", title_weight=weight)
        settings[f"titles, weight {weight:g}"] = config
    print("| | " + " | ".join(f"{name} R@10/50/100" for name in SEGMENTS) + " | ceiling |")
    print("|---|" + "---|" * (len(SEGMENTS) + 1))
    for name, config in settings.items():
        found = [measure(train, test, catalog, config) for train, test, catalog in problems]
        shares = np.nanmean(found, axis=0)
        cells = [" / ".join(f"{100 * share:.1f}" for share in row) for row in shares[:-1]]
        print(f"| {name} | {' | '.join(cells)} | {100 * shares[-1][-1]:.1f} |", flush=True)


def measure(train: ms.Log, test: Positives, catalog: ms.Catalog, config) -> list[list[float]]:
    """Recall by segment and k; last the ceiling of a matcher that knows no titles."""
    matcher = ms.train(train, catalog, dataclasses.replace(config, parts=("tree",)))
    result = ms.evaluate(matcher, test, ks=KS, resamples=1)
    rows = [[result.recall(k, segment) for k in KS] for segment in SEGMENTS.values()]
    return [*rows, [result.score("recall", k).seen_limit for k in KS]]


def make_shop(n_products: int) -> Iterator[tuple[ms.Log, Positives, ms.Catalog]]:
    """A simulated shop: the last month is the test."""
    shop = ms.lab.simulate_shop(products=n_products)
    train, test = ms.split_by_time(shop.log, test_days=30)
    yield train, relevance(test), shop.catalog


def read_homedepot(real: Path) -> Iterator[tuple[ms.Log, Positives, ms.Catalog]]:
    """Shopping queries with judged products, split by query."""
    columns = {"query": "query_text", "product": "product_id", "count": "relevance"}
    file = str(real / "homedepot" / "pairs.tsv")
    log = ms.read_log(file, event=False, timestamp=False, **columns)
    catalog = ms.read_catalog(str(real / "homedepot" / "products.tsv"))
    for fold in range(5):
        train, test = ms.split_by_query(log, folds=5, fold=fold)
        yield train, ms.positives(test, min_count=RELEVANT), catalog


if __name__ == "__main__":
    main()
