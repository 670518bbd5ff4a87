"""Would a person trust the answers: exact words, word pairs, new brands, new products, typos?

    python benchmarks/answers.py shop-20000 --only words
    python benchmarks/answers.py nfcorpus lastfm --only words pairs left misspelt --real FOLDER
    python benchmarks/answers.py --only brands                         # shop-2000 and market-2000
    python benchmarks/fresh.py --products 5000 --seeds 2 --parts add   # products added to a model

Each question is a table, a line for each problem (`splits.py` has them; each must have titles):

words: up to 600 words of three characters or more that stand in at most 50 titles and in no
training query. How often has the first of ten products the word as written?
pairs: 300 times two words of a title. How often comes a product first that has neither a word
(stemmed, as BM25 sees it) nor a past query with one, which led to it?
brands: 20 products of the catalog are added again, one at a time, with an invented name (or code)
before the title. How often is the new one first for the name alone? Once more after `refresh` with
a month of the log that the model has not learned from (shops alone).
left: a tenth of the products leaves the training log and stays in the catalog. Queries that
training still knows are asked for those of their products that left, with the answers that training
has for the query in the ranking and without them (parts that know a query give those first). Last,
the usual test's recall of products that training still knows. A row for some shares of new
products, too.
misspelt: 500 test queries with a word that training queries know, of which one letter is left out,
doubled, changed or swapped with the next, so that no query and no title has it.

With --models FOLDER, models are read from there by name (a missing one is trained and kept there).
"""

from __future__ import annotations

import argparse
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from splits import (
    Pairs,
    Problem,
    Ranking,
    choose,
    list_others,
    make_bm25,
    read_problem,
    recall,
    train,
)

import matchset as ms
from matchset.baselines import BM25
from matchset.strings import Strings
from matchset.text import normalize

KS = (10, 50, 100)
SHARES = (0.2, 0.5, 1.0)  # of new products, in `left`
BRANDS = [
    "adorvia",
    "belmora",
    "cantrell",
    "dunvale",
    "elvorin",
    "fenwara",
    "gravelin",
    "hostrava",
    "invora",
    "jundell",
    "kaltheim",
    "lomvard",
    "morvanta",
    "nexholm",
    "ostrivan",
    "pelvaro",
    "quorvel",
    "rundavik",
    "solvanto",
    "trivanta",
]
CODES = [f"zzq{number}x" for number in range(len(BRANDS))]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
Rows = Iterator[tuple[str, ...]]


def main() -> None:
    """A table for each question."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=["shop-2000", "market-2000"])
    parser.add_argument("--only", nargs="+", choices=list(QUESTIONS), default=list(QUESTIONS))
    parser.add_argument("--real", type=Path, help="folder of the real data sets")
    parser.add_argument("--sample", type=int, default=5_000, help="queries of `left`")
    parser.add_argument("--models", type=Path, help="folder to read models from, or keep them in")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is shown as nan
    read = cache(lambda name: read_problem(name, options.real))
    for question in options.only:
        ask, heads = QUESTIONS[question]
        print(f"\n| {question} | {' | '.join(heads)} |\n|{'---|' * (1 + len(heads))}", flush=True)
        for name in options.problems:
            for cells in ask(read(name), options):
                print(f"| {name} | {' | '.join(cells)} |", flush=True)


def ask_words(problem: Problem, options: argparse.Namespace) -> Rows:
    """How often the first product has the word, by match set and BM25."""
    titles = [find_written(title) for title in problem.catalog.titles]
    n_titles = Counter(word for title in titles for word in title)
    rare = {word for word, n in n_titles.items() if n <= 50 and len(word) >= 3}
    words = sorted(rare.difference(*map(find_written, problem.train.spellings)))
    words = [words[i] for i in choose(len(words), 600)]
    title_of = dict(zip(problem.catalog.ids, titles, strict=True))
    cells = [str(len(words))]
    for matcher in (train(problem, options.models), make_bm25(problem.catalog)):
        matches = matcher.match(words, 10)
        has = [m.query in title_of[m.ids[0]] if m.ids else False for m in matches]
        cells.append(f"{100 * float(np.mean(has)):.1f}")
    yield tuple(cells)


def ask_pairs(problem: Problem, options: argparse.Namespace) -> Rows:
    """How many pairs of words begin with a product that has nothing of them."""
    rng, log, config = random.Random(0), problem.train, problem.config
    titles = [sorted(words) for words in split_words(problem.catalog.titles) if len(words) > 1]
    queries = [" ".join(rng.sample(words, 2)) for words in rng.choices(titles, k=300)]
    counted = {"events": config.events, "min_count": config.min_count, "min_query_count": 0}
    said = BM25.from_log(log, problem.catalog, **counted)
    firsts = [match.ids[:1] for match in train(problem, options.models).match(queries, 10)]
    has = [set(match.ids) for match in said.match(queries, len(said.products))]
    n_strange = sum(not some.issuperset(ids) for ids, some in zip(firsts, has, strict=True))
    yield f"{len(queries)}", f"{100 * n_strange / len(queries):.1f}", f"{firsts.count(())}"


def ask_brands(problem: Problem, options: argparse.Namespace) -> Rows:
    """Where added products stand for their brand alone, before and after a refresh."""
    before, later = ms.split_by_time(problem.train, test_days=30)
    matcher = train(replace(problem, train=before), options.models, f"{problem.name}-earlier")
    titles = problem.catalog.titles
    titles = titles.take(choose(len(titles), len(BRANDS)))
    for kind, names in (("names", BRANDS), ("codes", CODES)):
        places = []
        for name, title in zip(names, titles, strict=True):
            added = matcher.upsert([ms.Upsert("NEW", f"{name} {title}")])
            found = [each.match(name, 100).ids for each in (added, added.refresh(later))]
            places.append([ids.index("NEW") if "NEW" in ids else 100 for ids in found])
        firsts = [[int((some < k).sum()) for k in (1, 10, 100)] for some in np.transpose(places)]
        yield kind, *(" / ".join(map(str, row)) for row in firsts)


def ask_left(problem: Problem, options: argparse.Namespace) -> Rows:
    """Recall of products that left the log, for queries that it still knows, by every method."""
    log, known = problem.train, problem.known
    left = np.random.default_rng(0).permutation(len(log.products))[: len(log.products) // 10]
    rest = replace(problem, train=log.select(~np.isin(log.product, left)))
    is_left = np.zeros(len(rest.ids), bool)
    is_left[rest.ids.index_of(log.products.take(left))] = True

    def find_right(queries: Strings) -> Pairs:
        pairs = rest.number(known, queries)
        return pairs.select(is_left[pairs.product])

    asked = known.queries.take(np.flatnonzero(rest.is_known(known.queries)))
    asked = asked.take(np.unique(find_right(asked).query))
    asked = asked.take(choose(len(asked), options.sample))
    tested = problem.test.queries.take(choose(len(problem.test.queries), options.sample))
    usual = rest.number(problem.test, tested)
    usual = usual.select(rest.is_warm[usual.product])
    matcher = train(rest, options.models, f"{problem.name}-left")
    shares: dict[str, Callable[[], ms.Matcher]] = {"match set": lambda: matcher}
    for share in SHARES:
        shares[f"match set, new share {share:g}"] = partial(matcher.with_new_share, share)
    parts = {f"{part} alone": partial(matcher.only, [part]) for part in matcher.model.parts}
    best: list[list[list[float]]] = []
    for name, make in {**shares, **parts, **list_others(rest, matcher)}.items():
        method, right = make(), find_right(asked)
        cells = [
            find_recall(rest.rank(method, asked), right),
            find_recall(rest.rank(method, asked, without=rest.known_pairs(asked)), right),
            find_recall(rest.rank(method, tested, without=rest.taken_out(tested)), usual),
        ]
        best += [cells] if name not in shares else []
        yield f"{len(asked):,}", name, *map(show, cells)
    yield f"{len(asked):,}", "**best part**", *map(show, np.max(best, axis=0))


def ask_misspelt(problem: Problem, options: argparse.Namespace) -> Rows:
    """Recall@10 of test queries as written, and with one edit."""
    test, rng, edited = problem.test, random.Random(0), {}
    known = set().union(*split_words(problem.known.queries))
    taken = known.union(*split_words(problem.catalog.titles))
    for row in np.random.default_rng(0).permutation(len(test.queries)).tolist():
        words = test.queries[row].split()
        places = [i for i, w in enumerate(words) if w in known and len(w) >= 4 and w.isalpha()]
        if places and len(edited) < 500:
            place = rng.choice(places)
            words[place] = misspell(words[place], taken, rng)
            edited[row] = " ".join(words)
    asked = test.queries.take(np.array(list(edited)))
    right, without = problem.number(test, asked), problem.taken_out(asked)
    matchers = train(problem, options.models), make_bm25(problem.catalog)
    both = product(matchers, (asked, list(edited.values())))
    rankings = [problem.rank(matcher, some, without=without) for matcher, some in both]
    yield str(len(asked)), *(show(find_recall(ranking, right)) for ranking in rankings)


def misspell(word: str, taken: set[str], rng: random.Random) -> str:
    """The word with one edit, such that nothing has it."""
    while True:
        i, letter = rng.randrange(len(word) - 1), rng.choice(LETTERS)
        edits = [
            word[:i] + word[i + 1 :],
            word[:i] + word[i] + word[i:],
            word[:i] + letter + word[i + 1 :],
            word[:i] + word[i + 1] + word[i] + word[i + 2 :],
        ]
        edit = rng.choice(edits)
        if edit not in taken:
            return edit


def find_recall(ranking: Ranking, right: Pairs) -> list[float]:
    """Recall at each k, in percent."""
    n = 1 + int(max(right.query.max(initial=0), ranking.query.max(initial=0)))
    return [100 * float(np.nanmean(recall(ranking, right, n, k))) for k in KS]


def show(recalls: Iterable[float]) -> str:
    """A cell."""
    return " / ".join(f"{value:.1f}" for value in recalls)


def find_written(text: str) -> set[str]:
    """The words of a text as they are written, joined by hyphens too."""
    return set(re.findall(r"[\w-]+", text.casefold()))


def split_words(texts: Iterable[str]) -> list[set[str]]:
    """The words of each text, normalized."""
    return [set(normalize(text).split()) for text in texts]


QUESTIONS = {
    "words": (ask_words, ["words", "match set, %", "stemmed BM25, %"]),
    "pairs": (ask_pairs, ["pairs", "first product has nothing of it, %", "no answer"]),
    "brands": (ask_brands, ["of 20", "first / in 10 / in 100", "after `refresh`"]),
    "left": (
        ask_left,
        [
            "queries",
            "method",
            "left products R@10/50/100",
            "known answers taken out",
            "known products of the test",
        ],
    ),
    "misspelt": (
        ask_misspelt,
        ["queries", "R@10/50/100 as written", "misspelt", "BM25 as written", "misspelt"],
    ),
}


if __name__ == "__main__":
    main()
