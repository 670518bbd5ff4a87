"""What are the two simulated shops like, who wins on each, and how much memory does writing take?

python benchmarks/shops.py --kind shop marketplace --products 20000 50000 200000
python benchmarks/shops.py --kind marketplace --products 20000 50000 --methods all --json FILE
python benchmarks/shops.py --kind shop --products 300000 --methods "match set" DSSM
python benchmarks/shops.py --tables FILE...
python benchmarks/shops.py --kind marketplace --products 1000000 --queries 200000 --stream

With --json every row is kept as soon as it is measured, and one that FILE has is not measured
again: the same command goes on after a stop. --tables prints what such files hold, together.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import resource
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shop_methods import METHODS, Bench
from shop_tables import KS, print_tables

import matchset as ms
from matchset.baselines import RecordedRun
from matchset.evaluate.latency import measure_latency
from matchset.lab.experiments.store import describe_machine

Plain = dict[str, Any]
SINGLES = 300  # queries for latency, one by one


def main() -> None:
    """Facts of each shop; perhaps recall of every method, or the memory of streaming."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", nargs="+", default=["shop", "marketplace"])
    parser.add_argument("--products", type=int, nargs="+", default=[20_000])
    parser.add_argument("--queries", type=int)
    parser.add_argument(
        "--methods", nargs="+", default=["BM25"], help=f"all, or some of: {', '.join(METHODS)}"
    )
    parser.add_argument("--sample", type=int, default=5_000, help="test queries")
    parser.add_argument("--encoder", type=Path, help="folder of a sentence encoder")
    parser.add_argument("--pecos", type=Path, help="a Python that has libpecos")
    parser.add_argument("--json", type=Path, help="file to keep the results in")
    parser.add_argument("--tables", type=Path, nargs="+", help="only print what is in such files")
    parser.add_argument("--stream", action="store_true", help="only write, and measure the memory")
    options = parser.parse_args()
    if options.methods == ["all"]:
        options.methods = list(METHODS)
    if unknown := set(options.methods) - set(METHODS):
        parser.error(f"--methods must be all, or among {', '.join(METHODS)}; got {min(unknown)}")
    if options.tables:
        print_tables([shop for file in options.tables for shop in read_shops(file)])
        return
    for kind, n_products in itertools.product(options.kind, options.products):
        if options.stream:
            stream(kind, n_products, options.queries)
        else:
            print_tables([measure(kind, n_products, options)])


def stream(kind: str, n_products: int, n_queries: int | None) -> None:
    """Write to a temporary folder; the peak is that of this process, so run one size at a time."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = ms.lab.stream_shop(folder, kind=kind, products=n_products, queries=n_queries)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"| {kind} | {n_products:,} | {rows:,} | {time.perf_counter() - start:.0f} s | "
        f"{used.ru_utime + used.ru_stime:.0f} s | {used.ru_maxrss / 1024:,.0f} MB |"
    )


def measure(kind: str, n_products: int, options: argparse.Namespace) -> Plain:
    """Facts, then the rows on the last month; those that were kept are taken from the file."""
    key = {"kind": kind, "products": n_products, "queries": options.queries}
    key |= {"sample": options.sample}
    kept = read_shops(options.json)
    result = next((shop for shop in kept if key.items() <= shop.items()), None)
    if result is not None:  # what could not run is tried again
        result["rows"] = [row for row in result["rows"] if not row.get("absent")]
    rows = {} if result is None else {row["name"]: row for row in result["rows"]}
    if result is not None and rows.keys() >= set(options.methods):
        return result
    start = time.perf_counter()
    shop = ms.lab.simulate_shop(kind=kind, products=n_products, queries=options.queries)
    seconds = round(time.perf_counter() - start, 1)
    if result is None:
        facts = asdict(ms.lab.describe_shop(shop))
        result = {**key, "seconds": seconds, "facts": facts, "machine": describe_machine()}
        kept.append(result | {"rows": []})
        result = kept[-1]
    train, test = ms.split_by_time(shop.log, test_days=30)
    given = {"encoder": options.encoder, "pecos": options.pecos}
    paths = {name: path for name, path in given.items() if path is not None}
    bench = Bench(train, shop.catalog, test, paths)
    for name in options.methods:
        if name in rows:
            continue
        print(f"{kind}, {n_products:,} products: {name}", flush=True)
        result["rows"].append(measure_row(name, bench, options.sample))
        write_shops(options.json, kept)
        gc.collect()
    return result


def measure_row(name: str, bench: Bench, sample: int) -> Plain:
    """Train a method, and match the test queries; `recalls` are those of each query."""
    if absent := METHODS[name].absent(bench):
        return {"name": name, "absent": absent}
    matcher, seconds = bench.train(name)
    found = ms.evaluate(matcher, bench.test, train=bench.train_log, sample=sample, ks=KS)
    is_recorded = isinstance(matcher, RecordedRun)  # by another process
    latency = None if is_recorded else measure_latency(matcher, found.queries, sample=SINGLES)
    scores: dict[str, Any] = {}
    for score in found.scores:
        if score.metric == "recall":
            interval = [round(value, 5) for value in (score.value, score.low, score.high)]
            scores.setdefault(score.segment, {})[str(score.k)] = interval
    return {
        "name": name,
        "training_seconds": round(seconds, 1),
        "p50_us": None if latency is None else round(1e6 * latency.p50, 1),
        "p99_us": None if latency is None else round(1e6 * latency.p99, 1),
        "recall": scores,
        "recalls": found.recalls.round(4).tolist(),
    }


def read_shops(file: Path | None) -> list[Plain]:
    """What a file holds; nothing if there is none."""
    shops: list[Plain] = json.loads(file.read_text()) if file and file.exists() else []
    return shops


def write_shops(file: Path | None, shops: list[Plain]) -> None:
    """Replace a file at once, so that a stop leaves the old or the new one."""
    if file is not None:
        part = file.with_suffix(".part")
        part.write_text(json.dumps(shops))
        part.replace(file)


if __name__ == "__main__":
    main()
