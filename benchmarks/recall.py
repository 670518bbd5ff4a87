"""What does the match set find, what do its parts and other methods, and what do scores mean?

    python benchmarks/recall.py shop-20000 market-20000
    python benchmarks/recall.py homedepot-0 cooking --real FOLDER    # nfcorpus, crowdflower, ...
    python benchmarks/recall.py nfcorpus --real FOLDER --rows "match set" --models FOLDER
    python benchmarks/recall.py market-20000 --rows "match set" --new-share 0.05 0.2 0.4

`splits.py` says how each problem is split, and whose tests hold new pairs alone. The parts are
trained once; without a part, or for one alone, only the re-ranker is fitted again. "Best part" is
the best of the other methods at each k. Cold products have no positive in training, new queries
none either; a recall of some pairs is the mean over the queries that have such.

The gap is the largest between mean score and share of positives in a tenth of [0, 1] with at least
500 of the first 100 answers of each query; "too high" says how far the mean of all their scores
lies above the share of positives. Last comes what all problems hold together.

With --models FOLDER, models are read from there by the problem's name (a missing one is trained
and kept there): one folder for each version of the code.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from splits import (
    Floats,
    Pairs,
    Problem,
    Ranking,
    choose,
    list_others,
    read_problem,
    recall,
    train,
)

import matchset as ms
from matchset.strings import Strings

KS = (10, 50, 100)
Flags = NDArray[np.bool_]
Cells = list[list[float]]  # recall at each k, for each kind of pair
Scored = dict[str, tuple[Floats, Flags]]  # for each kind of answer: scores, and which are right


def main() -> None:
    """The tables of each problem."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--real", type=Path, help="folder of the real data sets")
    parser.add_argument("--sample", type=int, default=5_000, help="test queries")
    parser.add_argument("--rows", nargs="+", help="only these rows")
    parser.add_argument("--models", type=Path, help="folder to read models from, or keep them in")
    parser.add_argument("--new-share", nargs="+", type=float, default=[], help="a row for each")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is shown as nan
    every: list[Scored] = []
    for name in options.problems:
        problem = read_problem(name, options.real)
        matcher = train(problem, options.models)
        print(f"\n{name}: {matcher.model.reranker}\n", flush=True)
        show_rows(problem, matcher, options)
        every.append(show_scores(problem, matcher, options))
    if len(every) > 1:
        print("\nall problems together")
        show_kinds({kind: join([each[kind] for each in every]) for kind in every[0]})


def show_rows(problem: Problem, matcher: ms.MatchSet, options: argparse.Namespace) -> None:
    """Recall of the match set, of its parts and of other methods."""
    queries = problem.test.queries
    queries = queries.take(choose(len(queries), options.sample))
    right = problem.number(problem.test, queries)
    kinds = split_pairs(problem, right, problem.is_known(queries))
    heads = [f"{kind} ({np.count_nonzero(mask):,})" for kind, mask in kinds.items()]
    print(f"{len(queries):,} queries; in brackets the pairs")
    print(f"\n| R@10/50/100 | {' | '.join(heads)} | ± |\n|{'---|' * 7}")
    others = list_others(problem, matcher)
    best: list[Cells] = []
    shares = {f"new share {s:g}": partial(matcher.with_new_share, s) for s in options.new_share}
    for name, make in {**list_rows(matcher), **others, **shares}.items():
        if options.rows and name not in (*options.rows, *shares):
            continue
        ranking = problem.rank(make(), queries, without=problem.taken_out(queries))
        found = [
            [recall(ranking, right.select(mask), len(queries), k) for k in KS]
            for mask in kinds.values()
        ]
        cells = [[100 * float(np.nanmean(each)) for each in row] for row in found]
        width = max(196 * float(np.nanstd(each)) for each in found[0]) / len(queries) ** 0.5
        show_row(name, cells, f"{width:.1f}")
        if name in others:
            best.append(cells)
    if len(best) == len(others):
        show_row("**best part**", np.max(best, axis=0).tolist(), "")


def show_row(name: str, cells: Cells, last: str) -> None:
    """One line of the table."""
    texts = [" / ".join(f"{value:.1f}" for value in cell) for cell in cells]
    print(f"| {name} | {' | '.join(texts)} | {last} |", flush=True)


def list_rows(matcher: ms.MatchSet) -> dict[str, Callable[[], ms.Matcher]]:
    """The match set, all parts but each, each part alone."""
    parts = matcher.model.parts
    rows: dict[str, Callable[[], ms.Matcher]] = {"match set": lambda: matcher}
    for part in parts if len(parts) > 2 else ():
        left = [name for name in parts if name != part]
        rows[f"without {part}"] = lambda left=left: matcher.only(left)
    return rows | {f"{part} alone": lambda part=part: matcher.only([part]) for part in parts}


def split_pairs(problem: Problem, pairs: Pairs, is_known: Flags) -> dict[str, Flags]:
    """Which pairs are of each kind."""
    warm, known = problem.is_warm[pairs.product], is_known[pairs.query]
    masks = [np.ones(len(warm), bool), warm, ~warm, known, ~known]
    names = ("all", "warm product", "cold product", "known query", "new query")
    return dict(zip(names, masks, strict=True))


def show_scores(problem: Problem, matcher: ms.MatchSet, options: argparse.Namespace) -> Scored:
    """What the scores of the first 100 answers mean, by kind of answer."""
    queries = problem.test.queries
    queries = queries.take(choose(len(queries), options.sample))
    right, without = problem.number(problem.test, queries), problem.taken_out(queries)
    if without is not None:
        print("\nknown answers counted as wrong")
        show_kinds(split_answers(problem, problem.rank(matcher, queries), right, queries))
        print("\nknown answers taken out")
    answers = problem.rank(matcher, queries, without=without)
    scored = split_answers(problem, answers, right, queries)
    show_kinds(scored)
    return scored


def split_answers(problem: Problem, answers: Ranking, right: Pairs, queries: Strings) -> Scored:
    """Scores of each kind of answer, and which are right."""
    is_right = np.isin(answers.key, right.key)
    kinds = split_pairs(problem, answers, problem.is_known(queries))
    return {kind: (answers.score[mask], is_right[mask]) for kind, mask in kinds.items()}


def show_kinds(scored: Scored) -> None:
    """A line for each kind of answer."""
    print(
        "\n| scores of | answers | mean | positives | too high | gap |\n|---|---|---|---|---|---|"
    )
    for kind, (scores, is_right) in scored.items():
        mean, share = float(np.mean(scores)), float(np.mean(is_right))
        high = f"{100 * (mean / share - 1):+.1f} %" if share > 0 else ""
        gap = find_gap(scores, is_right)
        print(f"| {kind} | {len(scores):,} | {mean:.5f} | {share:.5f} | {high} | {gap:.3f} |")


def find_gap(scores: Floats, is_right: Flags) -> float:
    """Largest difference of mean score and share of positives in a tenth of the scale."""
    tenth = np.minimum((10 * scores).astype(int), 9)
    parts = [tenth == i for i in range(10) if np.count_nonzero(tenth == i) >= 500]
    return max((abs(float(scores[p].mean() - is_right[p].mean())) for p in parts), default=np.nan)


def join(parts: list[tuple[Floats, Flags]]) -> tuple[Floats, Flags]:
    """The answers of several problems."""
    scores, is_right = zip(*parts, strict=True)
    return np.concatenate(scores), np.concatenate(is_right)


if __name__ == "__main__":
    main()
