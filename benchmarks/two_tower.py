"""What do the two towers find alone, by exact search and through inverted lists, and how fast?

python benchmarks/two_tower.py --products 50000
python benchmarks/two_tower.py --real FOLDER         # Home Depot, first fold
python benchmarks/two_tower.py --set dimensions=128 --set epochs=1
python benchmarks/two_tower.py --validate            # on queries of the training side
"""

from __future__ import annotations

import argparse
import ast
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from problems import RELEVANT
from titles import read_homedepot

import matchset as ms
from matchset.config import VectorizerConfig
from matchset.data.positives import Positives, relevance
from matchset.learn.clusters import cluster_vectors
from matchset.learn.training_data import fit_vectorizer
from matchset.learn.two_tower import TwoTowerConfig, train_two_tower
from matchset.matrices import Csr, from_scipy
from matchset.model.products import make_products
from matchset.work.steps import open_steps

KS = (10, 50, 100)
HELD_BACK = 1500  # queries to validate on, at most a sixth


@dataclass(frozen=True)
class Problem:
    """Texts as features, the pairs to learn from and those to find."""

    queries: Csr
    titles: Csr
    pairs: Csr
    test_queries: Csr
    wanted: Csr  # test queries x products
    n_wanted: np.ndarray  # of each test query, products without a title too


def main() -> None:
    """Train, then one line per way to search."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=200_000)
    parser.add_argument("--real", type=Path, help="folder of the real data sets")
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.real:
        problem = make_problem(*next(read_homedepot(options.real)), RELEVANT)
    else:
        shop = ms.lab.simulate_shop(products=options.products, queries=options.queries)
        train, test = ms.split_by_time(shop.log, test_days=30)
        problem = make_problem(train, relevance(test), shop.catalog, 1.0)
    if options.validate:
        problem = hold_back(problem)
    values = {k: ast.literal_eval(v) for k, v in (item.split("=") for item in options.set)}
    measure(problem, TwoTowerConfig(threads=options.threads, **values))


def make_problem(log: ms.Log, test: Positives, catalog: ms.Catalog, min_count: float) -> Problem:
    """One vocabulary of queries and titles, as training has it."""
    pairs = ms.positives(log, min_count=min_count)
    products = make_products(pairs.products, catalog, with_unseen=True)
    vectorizer = fit_vectorizer(
        pairs.queries,
        np.ones(len(pairs.queries)),
        products.titles,
        VectorizerConfig(),
        min_query_count=0,
        threads=2,
    )
    shape = (len(pairs.queries), len(products))
    Y = sp.csr_array((pairs.pairs.data, pairs.pairs.indices, pairs.pairs.indptr), shape=shape)
    label = products.ids.index_of(test.products)
    entries = test.pairs.tocoo()
    known = label[entries.col] >= 0
    places = entries.row[known], label[entries.col[known]]
    wanted = sp.csr_array((np.ones(known.sum()), places), (len(test.queries), len(products)))
    return Problem(
        from_scipy(vectorizer.transform(pairs.queries)),
        from_scipy(vectorizer.transform(products.titles)),
        from_scipy(Y),
        from_scipy(vectorizer.transform(test.queries)),
        from_scipy(wanted),
        np.diff(test.pairs.indptr),
    )


def hold_back(problem: Problem) -> Problem:
    """Some training queries as the test."""
    n = len(problem.queries)
    held = np.random.default_rng(1).permutation(n)[: min(HELD_BACK, n // 6)]
    Y, X = problem.pairs.to_scipy(), problem.queries.to_scipy()
    kept = np.ones(n, dtype=np.float32)
    kept[held] = 0
    rest = sp.csr_array(sp.diags_array(kept) @ Y)
    rest.eliminate_zeros()
    wanted = from_scipy(sp.csr_array(Y[held]))
    return Problem(
        problem.queries,
        problem.titles,
        from_scipy(rest),
        from_scipy(sp.csr_array(X[held])),
        wanted,
        np.diff(wanted.indptr),
    )


def measure(problem: Problem, config: TwoTowerConfig) -> None:
    """Seconds of training and recall."""
    started, cpu = time.perf_counter(), time.process_time()
    tower = train_two_tower(problem.queries, problem.titles, problem.pairs, config)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    print(
        f"{len(problem.pairs.indices):,} pairs, {len(tower.table):,} embeddings, "
        f"{len(tower.losses):,} steps: {seconds:.1f} s, {cpu:.1f} s of CPU"
    )
    started = time.perf_counter()
    with open_steps(threads=config.threads or 1) as step:
        lists = cluster_vectors(step, tower.vectors)
    print(
        f"{lists.n_lists:,} lists in {lists.n_groups} groups: {time.perf_counter() - started:.1f} s"
    )
    queries = tower.encode(problem.test_queries)
    is_cold = np.bincount(problem.pairs.indices, minlength=len(problem.titles)) == 0
    print("| search | R@10/50/100 | cold products | us per query |\n|---|---|---|---|")
    ways = {"all lists": (lists.n_lists, lists.n_groups)}
    ways |= {f"10 lists of {n} groups": (10, n) for n in (8, 16, lists.n_groups)}
    for name, (n_lists, n_groups) in ways.items():
        started = time.perf_counter()
        answers = lists.search(queries, max(KS), n_lists=n_lists, n_groups=n_groups)
        each = 1e6 * (time.perf_counter() - started) / len(queries)
        cells = [recall(problem, answers, is_cold=some) for some in (None, is_cold)]
        print(f"| {name} | {cells[0]} | {cells[1]} | {each:.0f} |", flush=True)


def recall(problem: Problem, answers: Csr, *, is_cold: np.ndarray | None) -> str:
    """Mean share of each query's relevant products among the first k; of cold ones where given."""
    wanted = problem.wanted.to_scipy().astype(np.float64)
    n_wanted = problem.n_wanted
    if is_cold is not None:
        wanted = sp.csr_array(wanted @ sp.diags_array(is_cold.astype(np.float64)))
        n_wanted = np.asarray(wanted.sum(axis=1))
    rank = np.arange(len(answers.indices)) - answers.indptr[answers.row_of_entry]
    shares = []
    for k in KS:
        first = sp.csr_array(
            (
                np.ones((rank < k).sum()),
                (answers.row_of_entry[rank < k], answers.indices[rank < k]),
            ),
            shape=wanted.shape,
        )
        hits = np.asarray((first * wanted.sign()).sum(axis=1))
        shares.append(100 * np.mean(hits[n_wanted > 0] / n_wanted[n_wanted > 0]))
    return " / ".join(f"{share:.1f}" for share in shares)


if __name__ == "__main__":
    main()
