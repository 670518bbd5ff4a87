"""Private words: which words of rare queries must nothing be learned from?

A rare query can hold personal data: a name, a telephone number, an address. Hashes do not hide a
word from someone who guesses it, and trigrams spell it out. So a match set learns from a rare query
as if its private words were not there: they are in no file of the model, in no form. The hash of
the whole query alone still covers them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from matchset.config import UNSPACED
from matchset.features.stems import learn_stems
from matchset.matrices import Ids, offsets_of, rows_of
from matchset.strings import Strings
from matchset.text import normalize_strings

_SPACE = 0x20


@dataclass(frozen=True, slots=True, eq=False)
class _Words:
    """The words of some texts, in their order."""

    words: Strings
    text_of: Ids  # text of each word, (n_words,)
    is_letter: NDArray[np.bool_]  # which bytes of the texts belong to words


def forget_private_words(
    queries: Strings, counts: NDArray[np.float64], titles: Strings | None, *, least: float
) -> Strings:
    """Normalized queries, of which those that occurred less than `least` times lose private words.

    A word is private unless a title has it, or the queries that have it occurred `least` times in
    all. Numbers and their units, and pairs of characters of scripts without spaces, count as words,
    as they do in n-grams: what stands between two spaces is private if one of them is.
    """
    is_rare = counts < least
    if not is_rare.any():
        return queries
    parts = [queries] if titles is None else [queries, normalize_strings(titles)]
    found = _split(Strings.concatenate(parts))
    count_of = np.full(sum(map(len, parts)), np.inf)  # titles are public
    count_of[: len(queries)] = counts
    is_private = _find_private(found, count_of, least)
    is_dropped = np.zeros(len(found.is_letter), dtype=np.bool_)
    is_dropped[found.is_letter] = np.repeat(is_private, found.words.lengths)
    kept = np.where(is_dropped[: len(queries.used)], np.uint8(_SPACE), queries.used)
    return normalize_strings(Strings(kept, queries.offsets - queries.offsets[0]))


def _find_private(found: _Words, count_of: NDArray[np.float64], least: float) -> NDArray[np.bool_]:
    """Which words are private where they stand, (n_words,); `count_of` says how rare texts are."""
    word, first = found.words.factorize()  # distinct words are numbered
    pieces = _split(learn_stems(Strings.of([]), UNSPACED).analyze(found.words.take(first)))
    piece, distinct = pieces.words.factorize()
    has_piece = _mark(pieces.text_of, piece, (len(first), len(distinct)))  # words x pieces
    is_rare = (count_of < least)[found.text_of]
    is_public = np.zeros(len(distinct), dtype=np.bool_)
    is_public[has_piece[np.unique(word[~is_rare])].indices] = True
    is_closed = has_piece @ ~is_public > 0  # words
    closed = np.flatnonzero(is_rare & is_closed[word])
    in_text = _mark(found.text_of[closed], word[closed], (len(count_of), len(first)))
    entries = (in_text @ has_piece).tocoo()  # texts x pieces
    is_public |= np.bincount(entries.col, count_of[entries.row], len(distinct)) >= least
    is_private: NDArray[np.bool_] = has_piece @ ~is_public > 0
    return is_rare & is_private[word]


def _mark(rows: Ids, columns: Ids, shape: tuple[int, int]) -> sp.csr_array:
    """Ones where there is an entry; entries may repeat."""
    return sp.csr_array((np.ones(len(rows), dtype=np.int32), (rows, columns)), shape=shape)


def _split(texts: Strings) -> _Words:
    """Words between spaces."""
    data = texts.used
    is_letter = data != _SPACE
    is_start = is_letter.copy()
    is_start[1:] &= ~is_letter[:-1]
    begins = texts.offsets[:-1] - texts.offsets[0]
    begins = begins[texts.lengths > 0]
    is_start[begins] = is_letter[begins]
    letters = data[is_letter]
    lengths = np.diff(np.flatnonzero(is_start[is_letter]), append=len(letters))
    text_of = rows_of(texts.offsets)[is_start]
    return _Words(Strings(letters, offsets_of(lengths)), text_of, is_letter)
