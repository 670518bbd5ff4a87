"""Private words: which words of rare queries must nothing be learned from?

A rare query can hold personal data: a name, a telephone number, an address. Hashes do not hide a
word from someone who guesses it, and trigrams spell it out. So a match set learns from a rare query
as if its private words were not there: they are in no file of the model, in no form. The hash of
the whole query alone still covers them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from matchset import _native
from matchset.config import UNSPACED, count_threads
from matchset.features.stems import learn_stems
from matchset.matrices import Ids, Offsets, offsets_of
from matchset.strings import Strings
from matchset.text import normalize_strings
from matchset.work.tasks import plan_parts

logger = logging.getLogger(__name__)

_SPACE = 0x20
_BLOCK = 1 << 20  # texts whose words are listed at once


@dataclass(frozen=True, slots=True, eq=False)
class _Words:
    """The words of some texts."""

    offsets: Offsets  # of the words of each text, and the end, (n_texts + 1,)
    word: Ids  # number of each word, in the order of the texts
    distinct: Strings  # words by their number
    is_public: NDArray[np.bool_]  # whether a public text has it, of each number


def forget_private_words(
    queries: Strings,
    counts: NDArray[np.float64],
    titles: Strings | None,
    *,
    least: float,
    threads: int | None = None,
) -> Strings:
    """Normalized queries, of which those that occurred less than `least` times lose private words.

    A word is private unless a title has it, or the queries that have it occurred `least` times in
    all. Numbers and their units, and of scripts without spaces pairs of characters and single ones,
    count as words, as they do in n-grams: what stands between two spaces is private if one is.
    """
    rare = np.flatnonzero(counts < least)
    if len(rare) == 0:
        return queries
    n_threads, texts = count_threads(threads), queries.take(rare)
    own = _number_words(texts, np.zeros(len(texts), dtype=np.bool_), n_threads)
    frequent, n_frequent = _list_words(queries.take(np.flatnonzero(counts >= least)), n_threads)
    public = [frequent]
    if titles is not None:
        public.append(_list_words(titles, n_threads)[0])
    found = _add_public(own, public)
    is_private = _find_private(found, counts[rare], least)[found.word]
    n_words, n_private = len(found.word) + n_frequent, int(np.count_nonzero(is_private))
    logger.log(
        logging.WARNING if 2 * n_private > n_words else logging.INFO,
        "nothing is learned from %s of %s words in queries: no title has them, and their queries "
        "occurred less than %g times (min_query_count)",
        f"{n_private:,}",
        f"{n_words:,}",
        least,
    )
    is_dropped = np.zeros(len(texts.used), dtype=np.bool_)
    is_dropped[texts.used != _SPACE] = np.repeat(is_private, found.distinct.lengths[found.word])
    kept = Strings(np.where(is_dropped, np.uint8(_SPACE), texts.used), texts.offsets)
    rows = np.arange(len(queries))
    rows[rare] = len(queries) + np.arange(len(rare))
    return Strings.concatenate([queries, normalize_strings(kept, threads=n_threads)]).take(rows)


def _list_words(texts: Strings, threads: int) -> tuple[Strings, int]:
    """The distinct words of texts, block by block, and how many words they have in all.

    A word may be listed by several blocks.
    """
    found, n_words = [], 0
    for block in plan_parts(len(texts), _BLOCK):
        own = normalize_strings(texts.slice(block.start, block.stop), threads=threads)
        words = _number_words(own, np.ones(len(own), dtype=np.bool_), threads)
        found.append(words.distinct)
        n_words += len(words.word)
    return Strings.concatenate(found), n_words


def _add_public(own: _Words, public: Sequence[Strings]) -> _Words:
    """The words of rare queries and, behind them, public words that they do not have."""
    words = Strings.concatenate([own.distinct, *public])
    number, first = words.factorize()
    is_public = np.zeros(len(first), dtype=np.bool_)
    is_public[number[len(own.distinct) :]] = True
    return replace(own, distinct=words.take(first), is_public=is_public)


def _find_private(found: _Words, counts: NDArray[np.float64], least: float) -> NDArray[np.bool_]:
    """Which words are private, (n_distinct,); counts are those of the rare queries."""
    word, offsets = found.word, found.offsets
    analyzed = learn_stems(Strings.of([]), UNSPACED).analyze(found.distinct, threads=1)
    pieces = _number_words(analyzed, found.is_public, 1)
    has_piece = _mark(pieces.word, pieces.offsets, len(pieces.distinct))  # words x pieces
    is_public = pieces.is_public
    is_closed = (has_piece @ ~is_public > 0)[word]
    closed = offsets_of(is_closed)[offsets]
    in_text = _mark(word[is_closed], closed, len(found.distinct))
    entries = (in_text @ has_piece).tocoo()  # rare queries x pieces
    is_public |= np.bincount(entries.col, counts[entries.row], len(is_public)) >= least
    is_private: NDArray[np.bool_] = has_piece @ ~is_public > 0
    return is_private


def _mark(columns: Ids, offsets: Offsets, n_columns: int) -> sp.csr_array:
    """Ones where there is an entry; entries may repeat."""
    ones = np.ones(len(columns), dtype=np.int32)
    return sp.csr_array((ones, columns, offsets), shape=(len(offsets) - 1, n_columns))


def _number_words(texts: Strings, is_public: NDArray[np.bool_], threads: int) -> _Words:
    """Words between spaces."""
    offsets, word, distinct, is_shown = _native.number_words(
        texts.data, texts.offsets, is_public.view(np.uint8), threads
    )
    return _Words(offsets, word, Strings(*distinct), is_shown.view(np.bool_))
