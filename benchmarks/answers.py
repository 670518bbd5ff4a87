"""Would a person trust the answers: exact words, word pairs, new brands, new products, typos?

    python benchmarks/answers.py --only words shop-20000
    python benchmarks/answers.py --only words pairs left misspelt nfcorpus lastfm --real FOLDER
    python benchmarks/answers.py --only brands                     # shop-2000 and market-2000
    python benchmarks/fresh.py --products 5000 --seeds 2 --parts add   # products added to a model

Each question is a table, a line for each problem (`splits.py` has them; each must have titles):

words: up to 600 words of three letters or more that stand in at most 50 titles and in no training
query. How often has the first of ten products the word as written?
pairs: 300 times two words of a title. How often comes a product first that has neither a word
(stemmed, as BM25 sees it) nor a past query with one, which led to it?
brands: 20 products of the catalog are added again, one at a time, with an invented name before the
title. How often is the new one first for the name alone? Once more after `refresh` with the next
month of the log. The model has learned from all but the last two months.
left: a tenth of the products leaves the training log and stays in the catalog. Queries that
training still knows are asked for those of their products that left, with the answers that training
has for the query in the ranking and without them. Last, the usual test's recall of known products.
misspelt: 500 test queries with a word that training queries know, of which one letter is left out,
doubled, changed or swapped with the next, so that no query and no title has it.

With --models FOLDER, models are read from there by name (a missing one is trained and kept there).
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from splits import Pairs, Problem, list_others, make_bm25, read_problem, recall, train

import matchset as ms
from matchset.strings import Strings
from matchset.text import normalize_strings

KS = (10, 50, 100)
BRANDS = """Adorvia Belmora Cantrell Dunvale Elvorin Fenwara Gravelin Hostrava Invora Jundell
Kaltheim Lomvard Morvanta Nexholm Ostrivan Pelvaro Quorvel Rundavik Solvanto Trivanta""".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def main() -> None:
    """A table for each question."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--only", nargs="+", choices=list(QUESTIONS), default=list(QUESTIONS))
    parser.add_argument("--real", type=Path, help="folder of the real data sets")
    parser.add_argument("--sample", type=int, default=5_000, help="queries of `left`")
    parser.add_argument("--models", type=Path, help="folder to read models from, or keep them in")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is shown as nan
    for question in options.only:
        ask, head, usual = QUESTIONS[question]
        print(f"\n| {question} | {head} |\n|{'---|' * (2 + head.count('|'))}", flush=True)
        for name in options.problems or usual:
            if question == "brands":
                name, n_products = name.split("-")[0], 2000
                show(f"{name}-{n_products}", ask(name, options))
            else:
                show(name, ask(read_problem(name, options.real), options))


def show(name: str, cells: Iterable[str]) -> None:
    """One line."""
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
