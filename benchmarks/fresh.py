"""Fresh: how well are products found that came after the training, and what do changes cost?

    python benchmarks/fresh.py --products 50000 --seeds 3

The last month of a simulated shop is the test. Its new products are those launched in it. Three
match sets answer: trained without them, the same after `add`, and trained with them in the catalog
(nobody has clicked them yet, so it is what `add` should equal).

Then half a month of log comes in, and the other half is the test: the model with added products as
it is, after `refresh` with that log, after `refresh` with the old log as well, and trained on
everything; and what a refresh costs with so few new pairs that at most one leaf in twenty changes.

Then latency with one product in twenty added or removed, and upserts per second into a file.
Each seed trains three times; a line tells of every step.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

import matchset as ms
from matchset.data.log import join_logs
from matchset.data.positives import Positives

KS = (10, 50, 100)
PARTS = ("add", "refresh", "latency", "upserts")
Row = list[list[float]]
T = TypeVar("T")


def main() -> None:
    """The tables of the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sample", type=int, default=10_000, help="test queries of a seed")
    parser.add_argument("--singles", type=int, default=2000, help="queries asked one by one")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    added: list[dict[str, Row]] = []
    refreshed: list[dict[str, Row]] = []
    costs: list[list[str]] = []
    for seed in range(options.seeds):
        shop = ms.lab.simulate_shop(products=options.products, seed=seed)
        train, test = ms.split_by_time(shop.log, test_days=30)
        is_new = shop.catalog.attributes["launched"].values > train.day.max()
        old, new = (take(shop.catalog, np.flatnonzero(which)) for which in (~is_new, is_new))
        print(f"seed {seed}: {len(new):,} of {len(shop.catalog):,} products are new", flush=True)
        base, _ = timed("train without them", lambda: ms.train(train, old))  # noqa: B023
        if "add" in options.parts:
            matchers = {
                "not added": base,
                "added": base.add(new),
                "trained with them": timed(
                    "train with them",
                    lambda: ms.train(train, shop.catalog),  # noqa: B023
                )[0],
            }
            answers = choose(ms.positives(test), options.sample)
            added.append({name: measure(one, answers, new) for name, one in matchers.items()})
        if "refresh" in options.parts:
            logs = train, test
            rows, cost = compare_refresh(base.add(new), shop.catalog, new, *logs, options.sample)
            refreshed.append(rows)
            costs.append([str(seed), *cost])
    show_recall(added)
    show_recall(refreshed)
    show_costs(costs)
    queries = list(ms.positives(test).queries[: options.singles])
    if "latency" in options.parts:
        show_latency(base, old, queries)
    if "upserts" in options.parts:
        show_upserts(base, old)


def timed(what: str, run: Callable[[], T]) -> tuple[T, np.ndarray]:
    """What a function returns, and its seconds by the clock and of all cores, which are told."""
    begin = time.perf_counter(), time.process_time()
    result = run()
    spent = np.array([time.perf_counter(), time.process_time()]) - begin
    print(f"  {what}: {spent[0]:.1f} s, {spent[1]:.1f} s of all cores", flush=True)
    return result, spent


def compare_refresh(
    known: ms.MatchSet,
    catalog: ms.Catalog,
    new: ms.Catalog,
    train: ms.Log,
    test: ms.Log,
    sample: int,
) -> tuple[dict[str, Row], list[str]]:
    """Recall on the second half of the last month, and what learning from the first one costs."""
    is_first = test.day < test.day.min() + 15
    first, rest = test.select(is_first), test.select(~is_first)
    whole = join_logs([train, first])
    half, spent_half = timed("refresh", lambda: known.refresh(first))
    again, spent_again = timed("refresh with the old log", lambda: known.refresh(first, train))
    few = take_pairs(first, train, max(1, half.refreshed.leaves // 40))
    small, spent_small = timed("refresh with few pairs", lambda: known.refresh(few))
    full, spent_full = timed("train on everything", lambda: ms.train(whole, catalog))
    answers = choose(ms.positives(rest), sample)
    matchers = {
        "added, not refreshed": known,
        "refreshed": half,
        "refreshed with the old log": again,
        "trained on everything": full,
    }
    rows = {name: measure(one, answers, new) for name, one in matchers.items()}
    cells = [f"{spent_full[0]:.1f} s"]
    for matcher, spent in ((half, spent_half), (again, spent_again), (small, spent_small)):
        report, share = matcher.refreshed, 100 * spent / spent_full
        cells += [f"{report.solved_leaves:,} of {report.leaves:,}"]
        cells += [f"{spent[0]:.1f} s: {share[0]:.1f} %, {share[1]:.1f} % of all cores"]
    print(f"  {half.refreshed}".replace("\n", "\n  "), flush=True)
    return rows, cells


def choose(answers: Positives, n: int) -> Positives:
    """Some of the queries, by chance."""
    rows = np.sort(np.random.default_rng(0).permutation(len(answers.queries))[:n])
    return replace(answers, queries=answers.queries.take(rows), pairs=answers.pairs[rows])


def take_pairs(log: ms.Log, before: ms.Log, n: int) -> ms.Log:
    """The rows of some pairs that were bought, and that an earlier log does not have."""
    width = np.int64(len(before.products) + 1)
    query = before.queries.index_of(log.queries)[log.query]
    product = before.products.index_of(log.products)[log.product]
    is_old = np.isin(query * width + product, before.query * width + before.product)
    is_new = (log.event == log.events.index("purchase")) & ~(is_old & (query >= 0) & (product >= 0))
    keys = log.query * np.int64(len(log.products)) + log.product
    chosen = np.random.default_rng(0).permutation(np.unique(keys[is_new]))[:n]
    return log.select(np.isin(keys, chosen))


def show_recall(runs: list[dict[str, Row]]) -> None:
    """The mean of all seeds."""
    if runs:
        print("\n| | new products R@10/50/100 | all products R@10/50/100 |\n|---|---|---|")
    for name in runs[0] if runs else ():
        cells = [
            " / ".join(f"{100 * value:.1f}" for value in row)
            for row in np.mean([run[name] for run in runs], axis=0)
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def show_costs(costs: list[list[str]]) -> None:
    """Leaves that were solved again, and seconds as a share of those of a full training."""
    if costs:
        kinds = ("half a month", "with the old log", "few pairs")
        heads = [f"{kind}: leaves solved | time" for kind in kinds]
        print(f"\n| seed | full training | {' | '.join(heads)} |")
        print(f"|{'---|' * (2 + 2 * len(kinds))}")
    for row in costs:
        print(f"| {' | '.join(row)} |")


def take(catalog: ms.Catalog, rows: np.ndarray) -> ms.Catalog:
    """Some of the products."""
    columns = {name: column.take(rows) for name, column in catalog.attributes.items()}
    return replace(
        catalog,
        ids=catalog.ids.take(rows),
        titles=catalog.titles.take(rows),
        descriptions=None,
        attributes=columns,
    )


def measure(matcher: ms.MatchSet, answers: Positives, new: ms.Catalog) -> list[list[float]]:
    """Recall at each k: of new products, by queries that led to one, and of all products."""
    is_new = new.ids.index_of(answers.products) >= 0
    pairs = answers.pairs
    wanted = np.split(pairs.indices, pairs.indptr[1:-1])
    of_new: list[list[float]] = []
    of_all: list[list[float]] = []
    label_of = answers.products.index_of(matcher.products.ids)
    for match, products in zip(matcher.match(list(answers.queries)), wanted, strict=True):
        found = label_of[match.labels]
        hits = [np.isin(products, found[:k]) for k in KS]
        of_all.append([hit.mean() for hit in hits])
        if is_new[products].any():
            of_new.append([hit[is_new[products]].mean() for hit in hits])
    return [np.mean(of_new, axis=0).tolist(), np.mean(of_all, axis=0).tolist()]


def show_latency(base: ms.MatchSet, catalog: ms.Catalog, queries: list[str]) -> None:
    """Median of single queries, in turns; the best of five rounds."""
    n = len(catalog) // 20
    rows = np.arange(0, 20 * n, 20)
    doubles = take(catalog, rows)
    renamed = replace(doubles, ids=type(doubles.ids).of([f"new-{i}" for i in range(n)]))
    sides = {
        "as trained": base,
        "5 % added": base.add(renamed),
        "5 % removed": base.remove(list(doubles.ids)),
        "5 % added and 5 % removed": base.add(renamed).remove(list(doubles.ids)),
    }
    medians: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(5):
        for name, matcher in sides.items():
            times = []
            for query in queries:
                begin = time.perf_counter()
                matcher.match(query)
                times.append(time.perf_counter() - begin)
            medians[name].append(1e6 * float(np.median(times)))
    first = min(medians["as trained"])
    print("\n| | one query, p50 us | |\n|---|---|---|")
    for name, found in medians.items():
        print(f"| {name} | {min(found):.0f} | {100 * (min(found) / first - 1):+.0f} % |")


def show_upserts(base: ms.MatchSet, catalog: ms.Catalog) -> None:
    """Products per second into a file, each batch on disk before the next."""
    print("\n| products a batch | upserts of new titles a second | of attributes |\n|---|---|---|")
    for size in (100, 1000):
        rates = []
        for prefix in ("new-", ""):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model"
                replace(base).save(path)
                writer, n = ms.open_writer(path), min(5 * size, len(catalog))
                begin = time.perf_counter()
                for first in range(0, n, size):
                    batch = take(catalog, np.arange(first, min(first + size, n)))
                    ids = [f"{prefix}{product}" for product in batch.ids]
                    writer.add(replace(batch, ids=type(batch.ids).of(ids)))
                rates.append(n / (time.perf_counter() - begin))
        print(f"| {size:,} | {rates[0]:,.0f} | {rates[1]:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
