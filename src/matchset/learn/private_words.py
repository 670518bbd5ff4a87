"""Private words: which words of rare queries must nothing be learned from?

A rare query can hold personal data: a name, a telephone number, an address. Hashes do not hide a
word from someone who guesses it, and trigrams spell it out. So a match set learns from a rare query
as if its private words were not there, or as if they stood in a form that is not private: they are
in no file of the model. The hash of the whole query alone still covers them.
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
from matchset.work.cuts import plan_parts

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
    language: str | None = None,
    threads: int | None = None,
) -> Strings:
    """Return normalized queries without the private words of those that occurred too rarely.

    That is less than `least` times. A word is private unless a title has it, or the queries that
    have it occurred `least` times in all. If another form of it is not, as `language` stems words,
    that form takes its place. Numbers and their units, and of scripts without spaces pairs of
    characters and single ones, count as words, as they do in n-grams: what stands between two
    spaces is private if one is.
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
    is_private = _find_private(found, counts[rare], least)
    forms = _find_forms(found.distinct, is_private, language, n_threads)[found.word]
    n_words, n_private = len(found.word) + n_frequent, int(np.count_nonzero(forms < 0))
    logger.log(
        logging.WARNING if 2 * n_private > n_words else logging.INFO,
        "nothing is learned from %s of %s words in queries: no title has them, and their queries "
        "occurred less than %g times (min_query_count)",
        f"{n_private:,}",
        f"{n_words:,}",
        least,
    )
    kept = normalize_strings(_join_words(found.distinct, forms, found.offsets), threads=n_threads)
    rows = np.arange(len(queries))
    rows[rare] = len(queries) + np.arange(len(rare))
    return Strings.concatenate([queries, kept]).take(rows)


def _find_forms(
    words: Strings, is_private: NDArray[np.bool_], language: str | None, threads: int
) -> Ids:
    """Return for each word the number of a word with its stem that is not private; -1: none."""
    forms = np.where(is_private, np.int32(-1), np.arange(len(words), dtype=np.int32))
    if language is not None:
        stem, _ = learn_stems(words, language, threads=threads).analyze(words).factorize()
        known = np.flatnonzero(~is_private)[::-1]
        form_of = np.full(len(words), -1, dtype=np.int32)
        form_of[stem[known]] = known  # the first of them
        forms[is_private] = form_of[stem[is_private]]
    return forms


def _join_words(words: Strings, chosen: Ids, offsets: Offsets) -> Strings:
    """Return texts of words by their numbers, -1 for none, with a space after each."""
    has_word = chosen >= 0
    ends = offsets_of(np.where(has_word, words.lengths[chosen], 0) + 1)
    data = np.full(ends[-1], _SPACE, dtype=np.uint8)
    is_letter = np.ones(len(data), dtype=np.bool_)
    is_letter[ends[1:] - 1] = False
    data[is_letter] = words.take(chosen[has_word]).used
    return Strings(data, ends[offsets])


def _list_words(texts: Strings, threads: int) -> tuple[Strings, int]:
    """Return the distinct words of texts, block by block, and how many words they have in all.

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
    """Append public words to those of rare queries, which do not have them."""
    words = Strings.concatenate([own.distinct, *public])
    number, first = words.factorize()
    is_public = np.zeros(len(first), dtype=np.bool_)
    is_public[number[len(own.distinct) :]] = True
    return replace(own, distinct=words.take(first), is_public=is_public)


def _find_private(found: _Words, counts: NDArray[np.float64], least: float) -> NDArray[np.bool_]:
    """Say which words are private, (n_distinct,); counts are those of the rare queries."""
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
    """Make rows of ones where there is an entry; entries may repeat."""
    ones = np.ones(len(columns), dtype=np.int32)
    return sp.csr_array((ones, columns, offsets), shape=(len(offsets) - 1, n_columns))


def _number_words(texts: Strings, is_public: NDArray[np.bool_], threads: int) -> _Words:
    """Number the words between spaces."""
    offsets, word, distinct, is_shown = _native.number_words(
        texts.data, texts.offsets, is_public.view(np.uint8), threads
    )
    return _Words(offsets, word, Strings(*distinct), is_shown.view(np.bool_))
