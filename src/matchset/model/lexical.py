"""Lexical index: which titles share words with a query, and how strongly?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.features.vocabulary import Vocabulary, inverse_frequency
from matchset.matrices import Csr, Floats, Ids, from_scipy, offsets_of, rows_of
from matchset.model.impact_lists import LARGEST, ImpactLists, invert, round_impacts

K1, B = 0.5, 0.45  # titles are short, and rarely repeat a word
MORE_WEIGHT = 0.3  # of a word that stands beside the title, in another column
_BLOCK = 1 << 18  # titles whose words are counted at once


@dataclass(frozen=True, slots=True, eq=False)
class LexicalIndex:
    """BM25 over the words of titles, in steps of `scale`: both ways, so that any title has a score.

    A word is a feature of the vocabulary, counted from `first_word` on.
    """

    titles_of: ImpactLists  # words x titles, the largest impacts first
    words_of: ImpactLists  # rows x words, ascending
    row_of: Ids  # of each title, in `words_of`, (n_titles,)
    scale: float  # of an impact
    first_word: int  # feature
    mean_length: float  # words of a title that has any

    def __post_init__(self) -> None:
        n, rows = len(self.row_of), self.row_of
        if rows.min(initial=0) < 0 or rows.max(initial=-1) >= n:
            raise ValueError(f"row_of must be below {n:,}; got {rows.min():,} to {rows.max():,}")

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels take."""
        return (
            self.titles_of.arrays,
            self.words_of.arrays,
            self.row_of,
            self.scale,
            self.first_word,
        )

    @property
    def n_bytes(self) -> int:
        """Size of the arrays."""
        return self.titles_of.n_bytes + self.words_of.n_bytes + self.row_of.nbytes


def find_words(vocabulary: Vocabulary) -> range:
    """Return the features that are single words; empty where the vocabulary has none."""
    begin = 0
    for kind, size in zip(vocabulary.config.ngrams, vocabulary.sizes, strict=True):
        if (kind.unit, kind.n) == ("word", 1):
            return range(begin, begin + size)
        begin += size
    return range(0)


def index_titles(
    X_titles: Csr,
    vocabulary: Vocabulary,
    *,
    X_more: Csr | None = None,
    order: Ids | None = None,
) -> LexicalIndex:
    """Return the BM25 index of titles x features, and of the text beside them, which counts less.

    Words of titles that come one after another in `order` lie side by side in memory; titles that
    it lacks come last. A query's candidates are scored much faster where they are neighbors.
    """
    words = find_words(vocabulary)
    counts = count_words(X_titles, vocabulary, words)
    if X_more is not None:
        more = MORE_WEIGHT * count_words(X_more, vocabulary, words).to_scipy()
        counts = from_scipy(counts.to_scipy() + more)
    weights = weigh_bm25(counts, k1=K1, b=B)
    largest = float(weights.data.max(initial=0)) or 1.0
    order = _complete(order, len(weights))
    ordered = weights.take(order)
    row_of = np.empty(len(order), dtype=np.int32)
    row_of[order] = np.arange(len(order), dtype=np.int32)
    return LexicalIndex(
        invert(weights, largest),
        ImpactLists(ordered.indptr, ordered.indices, round_impacts(ordered.data, largest)),
        row_of,
        largest / LARGEST,
        words.start,
        find_mean_length(counts),
    )


def _complete(order: Ids | None, n: int) -> Ids:
    """Return an order of all n, those that are not given last."""
    if order is None:
        return np.arange(n, dtype=np.int32)
    is_given = np.zeros(n, dtype=np.bool_)
    is_given[order] = True
    return np.concatenate([order, np.flatnonzero(~is_given).astype(np.int32)])


def count_words(X_titles: Csr, vocabulary: Vocabulary, words: range) -> Csr:
    """Return how often each title has each word, titles x words.

    Block by block, since words are a small part of a title's n-grams.
    """
    n = len(X_titles)
    idf = inverse_frequency(vocabulary.df, vocabulary.n_queries)
    blocks = [
        _count_block(X_titles.slice(begin, min(n, begin + _BLOCK)), idf, words)
        for begin in range(0, max(1, n), _BLOCK)
    ]
    return Csr(
        offsets_of(np.concatenate([np.diff(block.indptr) for block in blocks])),
        np.concatenate([block.indices for block in blocks]),
        np.concatenate([block.data for block in blocks]),
        len(words),
    )


def _count_block(X_titles: Csr, idf: NDArray[np.floating], words: range) -> Csr:
    """Return the same for some titles.

    A row of X is tf * idf, scaled to unit length; dividing it by idf and by the smallest of what
    results gives tf, since hardly a title has every n-gram twice.
    """
    columns, row = X_titles.indices, X_titles.row_of_entry
    is_known = columns < len(idf)
    columns, row = columns[is_known], row[is_known]
    ratio = X_titles.data[is_known] / idf[columns]
    least = np.full(len(X_titles), np.inf, dtype=np.float32)
    np.minimum.at(least, row, ratio)
    is_word = (columns >= words.start) & (columns < words.stop)
    tf = np.maximum(np.rint(ratio[is_word] / least[row[is_word]]), 1).astype(np.float32)
    offsets = offsets_of(np.bincount(row[is_word], minlength=len(X_titles)))
    ids = (columns[is_word] - words.start).astype(np.int32)
    return Csr(offsets, ids, tf, len(words))


def find_mean_length(counts: Csr) -> float:
    """Words of a title, of those that have any."""
    length = np.bincount(rows_of(counts.indptr), weights=counts.data, minlength=len(counts))
    return float(length.sum() / max(1, np.count_nonzero(length))) or 1.0


def weigh_bm25(counts: Csr, *, k1: float, b: float) -> Csr:
    """Return what each word adds to the score of each title with it (Lucene's variant)."""
    df = np.bincount(counts.indices, minlength=counts.n_cols)
    idf = find_idf(df, len(counts))[counts.indices]
    weights = saturate(counts, idf, find_mean_length(counts), k1=k1, b=b)
    return Csr(counts.indptr, counts.indices, weights, counts.n_cols)


def find_idf(df: NDArray[np.integer], n_titles: int) -> NDArray[np.float64]:
    """Return how much a word tells that this many of the titles have."""
    return _native.log_fixed(1 + (n_titles - df + 0.5) / (df + 0.5))


def saturate(
    counts: Csr, idf: NDArray[np.float64], mean_length: float, *, k1: float = K1, b: float = B
) -> Floats:
    """Return what each word adds to its title's score: less when repeated, and in a long one."""
    row = rows_of(counts.indptr)
    length = np.bincount(row, weights=counts.data, minlength=len(counts))
    tf = counts.data.astype(np.float64)
    weights: Floats = (idf * (tf / (tf + k1 * (1 - b + b * length[row] / mean_length)))).astype(
        np.float32
    )
    return weights
