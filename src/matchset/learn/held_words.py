"""Held words: which words are held back, so that the re-ranker learns what a new one looks like?

A word of few titles and few queries, such as a brand, leaves the log with every query that has it.
For half of the words the titles leave the catalog as well, as if the brand were new.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from matchset import _native
from matchset.config import UNSPACED
from matchset.data.catalog import Catalog
from matchset.features.stems import learn_stems
from matchset.strings import Strings
from matchset.text import normalize_strings

_MOST_TITLES, _MOST_QUERIES = 50, 0.001  # of a rare word; a share of the queries
_LEFT = 0.05  # of the titles, at most

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class HeldWords:
    """Which queries have a word that is held back, and which products leave with their titles."""

    in_queries: Mask
    in_later: Mask  # queries of the recent days
    left: Strings  # ids of products

    @classmethod
    def none(cls, n_queries: int, n_later: int) -> HeldWords:
        """Return that no word is held back."""
        return cls(np.zeros(n_queries, np.bool_), np.zeros(n_later, np.bool_), Strings.of([]))


def choose_words(
    queries: Strings,
    catalog: Catalog,
    pairs_of_query: NDArray[np.int64],
    pairs_of_title: NDArray[np.int64],
    later: Strings,
    *,
    most_pairs: float,
    most_queries: int,
    few: int,
    rng: np.random.Generator,
    threads: int,
) -> HeldWords:
    """Choose words by chance, of those sorted by their bytes; none where `later` has enough."""
    n, n_titles = len(queries), len(catalog)
    titles = normalize_strings(catalog.titles, threads=threads)
    has_word, words = _mark_words(Strings.concatenate([queries, titles, later]), threads)
    asked, told, later_asked = has_word[:n], has_word[n : n + n_titles], has_word[n + n_titles :]
    n_queries, n_titles_of = _count(asked), _count(told)
    is_new = (n_queries == 0) & (n_titles_of > 0)
    if np.count_nonzero(later_asked @ is_new) >= few:
        return HeldWords.none(n, len(later))
    is_rare = (n_queries > 0) & (n_queries <= max(1.0, _MOST_QUERIES * n))
    rare = np.flatnonzero(is_rare & (n_titles_of > 0) & (n_titles_of <= _MOST_TITLES))
    rare = rare[words.take(rare).argsort()]
    rare = rare[rng.permutation(len(rare))]
    chosen = _take(rare, (asked.T @ pairs_of_query, most_pairs), (n_queries, most_queries))
    lost = told.T @ pairs_of_title
    brands = _take(chosen[::2], (lost, most_pairs), (n_titles_of, _LEFT * n_titles))
    return HeldWords(
        _have_any(asked, chosen),
        _have_any(later_asked, chosen),
        catalog.ids.take(np.flatnonzero(_have_any(told, brands))),
    )


def _take(words: NDArray[np.int64], *costs: tuple[NDArray[np.int64], float]) -> NDArray[np.int64]:
    """Return as many words as all budgets allow; none that takes a third of one by itself."""
    for cost, most in costs:
        words = words[3 * cost[words] <= max(3.0, most)]
    is_taken = [np.cumsum(cost[words]) <= most for cost, most in costs]
    return words[np.logical_and.reduce(is_taken)]


def _mark_words(texts: Strings, threads: int) -> tuple[sp.csr_array, Strings]:
    """Return each normalized text's words; in scripts without spaces, pairs of characters."""
    analyzed = learn_stems(Strings.of([]), UNSPACED).analyze(texts, threads=threads)
    every = np.ones(len(texts), dtype=np.uint8)
    offsets, word, distinct, _ = _native.number_words(
        analyzed.data, analyzed.offsets, every, threads
    )
    words = Strings(*distinct)
    shape = (len(texts), len(words))
    has_word = sp.csr_array((np.ones(len(word), dtype=np.int64), word, offsets), shape=shape)
    has_word.sum_duplicates()
    has_word.data[:] = 1
    return has_word, words


def _count(has_word: sp.csr_array) -> NDArray[np.int64]:
    """Return how many of the texts have each word."""
    return np.bincount(has_word.indices, minlength=has_word.shape[1])


def _have_any(has_word: sp.csr_array, words: NDArray[np.int64]) -> Mask:
    """Return which of the texts have one of the words."""
    is_chosen = np.zeros(has_word.shape[1], dtype=np.int64)
    is_chosen[words] = 1
    return np.asarray(has_word @ is_chosen > 0)
