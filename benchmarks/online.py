"""Are experiments with customers read rightly? Measured on a shop whose customers are simulated.

    python benchmarks/online.py
    python benchmarks/online.py --products 2000 --customers 20000 --without-dssm    # a minute

A/A tests, an arm that is better by construction, interleaving beside A/B, shadow mode beside the
online result, and the paper's experiment: what the candidates of a second matcher add to BM25.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import matchset as ms
from matchset.baselines import BM25
from matchset.lab.shop import (
    Crowd,
    make_crowd,
    serve_crowd,
    write_served_log,
    write_served_records,
)
from matchset.matchers.base import Retriever
from matchset.matrices import Csr
from matchset.online.decision import list_decision
from matchset.online.definition import Arm, Experiment, Mode
from matchset.online.intervals import Effect
from matchset.online.outcomes import Outcomes, read_outcomes
from matchset.online.reading import Reading, analyze
from matchset.online.searches import PURCHASE, searches_of
from matchset.online.session_rows import read_session_rows
from matchset.online.shadow import measure_shadow
from matchset.strings import Strings

LOST = 0.2  # share of the products that the worse arm loses
SIGMAS = 1.96 + 0.84  # a test at 5 % finds an effect of so many standard errors in 80 %
SEEN = 24  # products that the most patient customer looks at


class Thinned:
    """A matcher that loses some of the products of every answer, by a hash of both."""

    def __init__(self, matcher: ms.Matcher, share: float) -> None:
        self.matcher, self.share = matcher, share

    def match(self, queries: Strings, k: int = 100, *, where: object = None) -> ms.Matches:
        """What is left of the answers."""
        found = self.matcher.match(queries, 2 * k, where=where)  # type: ignore[arg-type]
        cells = found.found
        label = cells.indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = found.queries.hashes()[cells.row_of_entry] + label
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        kept = np.flatnonzero((mixed >> np.uint64(40)) / 2.0**24 >= self.share)
        offsets = np.searchsorted(cells.row_of_entry[kept], np.arange(len(found.queries) + 1))
        part = Csr(offsets, cells.indices[kept], cells.data[kept], cells.n_cols)
        return ms.Matches(found.queries, _first(part, k), found.products)


def _first(cells: Csr, k: int) -> Csr:
    kept = np.flatnonzero(cells.position_in_row < k)
    offsets = np.searchsorted(cells.row_of_entry[kept], np.arange(len(cells) + 1))
    return Csr(offsets, cells.indices[kept], cells.data[kept], cells.n_cols)


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=5_000)
    parser.add_argument("--customers", type=int, default=60_000)
    parser.add_argument("--runs", type=int, default=2_000, help="A/A tests")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without-dssm", action="store_true", help="where PyTorch is missing")
    options = parser.parse_args()
    shop = ms.lab.simulate_shop(products=options.products, seed=options.seed)
    crowd = make_crowd(products=options.products, customers=options.customers, seed=options.seed)
    arms = train_arms(shop.log, shop.catalog, with_dssm=not options.without_dssm)
    print(f"\n{options.products:,} products, {options.customers:,} customers, {crowd.days} days")
    show_aa(crowd, arms["BM25"], options.runs)
    show_paper(crowd, arms)
    show_interleaving(crowd, arms)
    show_shadow(crowd, arms)


def train_arms(log: ms.Log, catalog: ms.Catalog, *, with_dssm: bool) -> dict[str, ms.Matcher]:
    """BM25 alone, and with the candidates of others: both rankings are fused by ranks."""
    bm25 = BM25.from_catalog(catalog)
    others = {
        "XR-Linear": lambda: ms.train(log, catalog, ms.TrainConfig(parts=("tree",))),
        "match set": lambda: ms.train(log, catalog),
    }
    if with_dssm:
        others = {"DSSM": lambda: ms.lab.train_dssm(log, catalog), **others}
    arms: dict[str, ms.Matcher] = {"BM25": bm25}
    for name, train in others.items():
        began = time.perf_counter()
        made = train()
        print(f"{name}: trained in {time.perf_counter() - began:.0f} s", flush=True)
        arms[f"BM25 + {name}"] = ms.Fusion([bm25, made], "rrf")
        arms[name] = made
    return arms


def define(names: list[str], mode: Mode = "ab", *, salt: str = "salt") -> Experiment:
    """An experiment of these arms, in equal shares."""
    share = 1 / len(names) if mode == "ab" else 1.0
    made = tuple(Arm(name=f"arm-{n}", matchers=(f"m{n}",), share=share) for n in range(len(names)))
    return Experiment(name="shop", salt=salt, arms=made, mode=mode)


def run(crowd: Crowd, arms: Mapping[str, Retriever], mode: Mode = "ab") -> tuple[Outcomes, Reading]:
    """Serve the crowd, and read what came of it."""
    experiment = define(list(arms), mode)
    named = {f"arm-{n}": arm for n, arm in enumerate(arms.values())}
    served = serve_crowd(crowd, named, experiment)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        write_served_records(served, path, experiment)
        outcomes = read_outcomes(str(path))
    return outcomes, analyze(outcomes, experiment=experiment, planned=len(outcomes.searches))


def show_aa(crowd: Crowd, matcher: Retriever, runs: int) -> None:
    """How often nothing looks like something."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_served_log(serve_crowd(crowd, {"one": matcher}), path)
        searches = searches_of(read_session_rows(str(path)))
    print(f"\nA/A, {runs:,} random halves of 20,000 customers:\n")
    print("| metric | differs |\n|---|---|")
    for metric in searches.values:
        alarms = searches.count_false_alarms(metric, runs=runs)
        print(f"| {metric} | {alarms.share:.1%} |", flush=True)


def show_paper(crowd: Crowd, arms: Mapping[str, ms.Matcher]) -> None:
    """The paper's experiment, with BM25 alone and the match set beside it."""
    chosen = {name: arm for name, arm in arms.items() if name.startswith("BM25")}
    chosen["match set"] = arms["match set"]
    _, reading = run(crowd, chosen)
    names = list(chosen)
    print(f"\nOne experiment of {len(names)} arms; change against BM25, with intervals that hold")
    print("for all arms together:\n")
    print("| arm | searches | purchase rate | change | click rate | no results |")
    print("|---|---|---|---|---|---|")
    for number, name in enumerate(names):
        rows = {r.metric: r for r in reading.compared if r.arm == f"arm-{number}"}
        base = {r.metric: r for r in reading.compared if r.arm == "arm-1"}
        values = [rows[m].second if rows else base[m].first for m in base]
        shown = dict(zip(base, values, strict=True))
        change = "" if not rows else "{:+.1%} ({:+.1%} to {:+.1%})".format(*rows[PURCHASE].relative)
        rates = f"{shown['click rate']:.2%} | {shown.get('zero results', 0):.2%}"
        n = reading.searches[f"arm-{number}"]
        print(f"| {name} | {n:,} | {shown[PURCHASE]:.2%} | {change} | {rates} |", flush=True)
    pairs = [name for name in ("BM25 + DSSM", "BM25 + XR-Linear") if name in chosen]
    if len(pairs) == 2:
        _, reading = run(crowd, {name: chosen[name] for name in pairs})
        row = next(row for row in reading.compared if row.metric == PURCHASE)
        print(
            "\n{1} against {0} alone: {2:+.1%} ({3:+.1%} to {4:+.1%})".format(*pairs, *row.relative)
        )


def needed(effect: Effect, searches: int) -> float:
    """Searches with which a test at 5 % finds this effect in 80 % of the cases."""
    error = (effect.high - effect.low) / (2 * 1.96)
    return searches * (SIGMAS * error / effect.value) ** 2


def show_interleaving(crowd: Crowd, arms: Mapping[str, ms.Matcher]) -> None:
    """How many times fewer searches interleaving needs, for arms of which one is better."""
    best = arms["BM25 + match set"]
    pairs: dict[str, dict[str, Retriever]] = {
        f"{LOST:.0%} of every answer lost": {"worse": Thinned(best, LOST), "whole": best},
        "BM25, and with match set": {"BM25": arms["BM25"], "both": best},
        "BM25, and match set": {"BM25": arms["BM25"], "match set": arms["match set"]},
    }
    print("\nSearches that find the better arm in 80 % of the cases, by purchases:\n")
    print("| arms | A/B verdict | both arms | team draft | times fewer | union | times fewer |")
    print("|---|---|---|---|---|---|---|")
    for name, pair in pairs.items():
        outcomes, reading = run(crowd, pair)
        row = next(row for row in reading.compared if row.metric == PURCHASE)
        ab = needed(row.effect, len(outcomes.searches))
        verdict = list_decision(reading)[0].split(":")[0]
        cells = [f"{verdict}, {row.relative[0]:+.1%}", f"{ab:,.0f}"]
        for mode in ("team_draft", "union"):
            mixed, found = run(crowd, pair, mode)  # type: ignore[arg-type]
            preference = next(p for p in found.preferences if p.metric == PURCHASE)
            fewer = needed(preference.effect, len(mixed.searches))
            # Where one arm has all the credits, that arm holds nearly all of the other's products.
            cells += [f"{fewer:,.0f}", f"{ab / fewer:.1f}"] if fewer else ["all to one", "–"]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def show_shadow(crowd: Crowd, arms: Mapping[str, ms.Matcher]) -> None:
    """What a log of BM25's customers says about others, and what an A/B test then showed."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_served_log(serve_crowd(crowd, {"one": arms["BM25"]}), path)
        rows = read_session_rows(str(path))
    print(f"\nShadow mode on a log of BM25, {SEEN} products, shares of purchases; then A/B:\n")
    print(
        "| ours | only ours | only theirs | after another query | only ours | only theirs | A/B |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in [name for name in arms if name != "BM25"]:
        found = measure_shadow(rows, arms[name], arms["BM25"], k=SEEN)
        _, reading = run(crowd, {"BM25": arms["BM25"], name: arms[name]})
        row = next(row for row in reading.compared if row.metric == PURCHASE)
        online = "{:+.1%} ({:+.1%} to {:+.1%})".format(*row.relative)
        cells = []
        for held in (found.direct[0], found.later):
            if held is not None:
                cells += [f"{held.only_ours.value:.1%}", f"{held.only_theirs.value:.1%}"]
        later = 0.0 if found.later is None else found.later.purchases / found.direct[0].purchases
        print(f"| {name} | {cells[0]} | {cells[1]} | {later:.0%} of purchases | {cells[2]} | "
              f"{cells[3]} | {online} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
