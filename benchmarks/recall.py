"""What does the match set find, what does each part alone, and what is lost without each?

    python benchmarks/recall.py shop-20000 market-20000
    python benchmarks/recall.py homedepot-0 cooking --real FOLDER
    python benchmarks/recall.py homedepot-0 --real FOLDER --blind   # cold and warm look the same

Shops are split by their last month (shop-50000 is that of `matchset compare`), Home Depot by query,
cooking as usual. The parts are trained once; without a part, or for one alone, only the re-ranker
is fitted again. The last column is the largest gap between mean score and share of positives in
a tenth of [0, 1] with at least 500 answers; the last line is that of all problems together.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from problems import RELEVANT, read_cooking
from titles import read_homedepot

import matchset as ms
from matchset.config import count_threads
from matchset.learn.hold_back import hold_back
from matchset.learn.match_set_tasks import learn_reranker
from matchset.learn.train_match_set import train_parts
from matchset.model.match_set_model import MatchSetModel

KS = (10, 50, 100)
Answers = tuple[NDArray[np.float32], NDArray[np.bool_]]  # scores, and which are right
QUERIES = {"shop-50000": 200_000}  # otherwise the default of the simulation


def main() -> None:
    """A table for each problem."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--real", type=Path, help="folder of the real data sets")
    parser.add_argument("--sample", type=int, default=5_000, help="test queries")
    parser.add_argument("--blind", action="store_true", help="hide which products are warm")
    options = parser.parse_args()
    answers: list[Answers] = []
    for name in options.problems:
        train, test, catalog, config = read_problem(name, options.real)
        matcher = ms.train(train, catalog, config)
        if options.blind:
            matcher = hide_popularity(matcher, train, catalog)
        print(f"\n{name}{', blind' * options.blind}: {matcher.model.reranker}\n")
        print("| | Recall@10 / 50 / 100, % | ± | gap |\n|---|---|---|---|")
        for row, some in list_rows(matcher):
            result = ms.evaluate(some, test, train=train, ks=KS, sample=options.sample)
            found = [result.score("recall", k) for k in KS]
            recalls = " / ".join(f"{100 * each.value:.1f}" for each in found)
            width = max(50 * (each.high - each.low) for each in found)
            gap = find_gap(answer(some, test, options))
            print(f"| {row} | {recalls} | {width:.1f} | {gap:.3f} |")
        answers.append(answer(matcher, test, options))
    if len(answers) > 1:
        scores, hits = map(np.concatenate, zip(*answers, strict=True))
        print(f"\ngap of the match sets over all problems: {find_gap((scores, hits)):.3f}")


def read_problem(name: str, real: Path | None):
    """Training log, relevant products of the test, catalog and settings."""
    kind, _, number = name.partition("-")
    if kind in ("shop", "market"):
        full = {"shop": "shop", "market": "marketplace"}[kind]
        shop = ms.simulate_shop(kind=full, products=int(number), queries=QUERIES.get(name))
        train, test = ms.split_by_time(shop.log, test_days=30)
        return train, ms.relevance(test), shop.catalog, ms.TrainConfig()
    if real is None:
        raise SystemExit(f"{name}: needs --real, the folder of the data sets")
    if kind == "homedepot":
        train, test, catalog = list(read_homedepot(real))[int(number)]
        return train, test, catalog, ms.TrainConfig(min_count=RELEVANT)
    train, test = read_cooking(real / "cooking")
    return train, ms.positives(test), None, ms.TrainConfig()


def list_rows(matcher: ms.MatchSet) -> Iterator[tuple[str, ms.MatchSet]]:
    """The match set, all parts but each, each part alone."""
    parts = matcher.model.parts
    yield "match set", matcher
    for part in parts if len(parts) > 2 else ():
        yield f"without {part}", matcher.only(name for name in parts if name != part)
    for part in parts:
        yield f"{part} alone", matcher.only([part])


def hide_popularity(matcher: ms.MatchSet, train: ms.Log, catalog: ms.Catalog | None) -> ms.MatchSet:
    """The same parts; the re-ranker is fitted again, as if no product had a past query."""
    held = hold_back(train, matcher.config)
    parts = train_parts(held.rest, catalog, matcher.config)
    blind = _hide(parts.model)
    threads = count_threads(None)
    reranker = learn_reranker(blind, parts.data, held, matcher.config, threads=threads)
    return replace(matcher, model=replace(_hide(matcher.model), reranker=reranker))


def _hide(model: MatchSetModel) -> MatchSetModel:
    nothing = np.zeros_like(model.popularity)
    return replace(model, popularity=nothing, recent=nothing)


def answer(matcher: ms.MatchSet, test: ms.Positives, options: argparse.Namespace) -> Answers:
    """Scores of the answers to test queries, and whether each answer is right."""
    rows = np.random.default_rng(0).permutation(len(test.queries))[: options.sample]
    label_of = matcher.products.ids.index_of(test.products)
    scores, hits = [], []
    for row, match in zip(rows, matcher.match(list(test.queries.take(rows)), 100), strict=True):
        begin, end = test.pairs.indptr[row : row + 2]
        scores.append(match.scores)
        hits.append(np.isin(match.labels, label_of[test.pairs.indices[begin:end]]))
    return np.concatenate(scores), np.concatenate(hits)


def find_gap(answers: Answers) -> float:
    """Largest difference of mean score and share of positives in a tenth of the scale."""
    scores, hits = answers
    tenth = np.minimum((10 * scores).astype(int), 9)
    return max(
        abs(float(scores[tenth == i].mean() - hits[tenth == i].mean()))
        for i in range(10)
        if np.count_nonzero(tenth == i) >= 500
    )


if __name__ == "__main__":
    main()
