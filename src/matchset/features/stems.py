"""Stems: how do texts become texts of stems, also words that training never saw?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import LANGUAGES, UNSPACED, count_threads
from matchset.features.analysis import Analyzer
from matchset.storage.codec import Picklable
from matchset.strings import Strings

SLOTS_PER_WORD = 4 / 3  # of the hash table: more is faster, less is smaller


@dataclass(frozen=True, eq=False)
class Stems(Picklable):
    """Stems of known words, as arrays that may be memory-mapped; others are stemmed when asked.

    The table holds the hash of a word, how many of its first bytes its stem has, and a suffix: no
    word is spelled out. Suffixes come from words that may be shown.
    """

    language: str
    slots: NDArray[np.uint8]  # hash table of the known words, 16 bytes a slot
    n_homes: int  # slots before the overflow area at the end of the table
    suffixes: Strings

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise ValueError(f"language must be one of {known}; got {self.language!r}")

    @cached_property
    def native(self) -> _native.Stems:
        """The native view over these arrays."""
        stem = None if self.language == UNSPACED else Analyzer.of(self.language).stem_word
        suffixes = self.suffixes
        return _native.Stems(self.slots, self.n_homes, suffixes.data, suffixes.offsets, stem)

    def analyze(self, normalized: Strings, *, threads: int | None = None) -> Strings:
        """Normalized texts with stems for words; a text of stop words alone stays as it is.

        In every language, runs of a script without spaces become pairs of characters. The single
        characters of Chinese and Japanese ones stand at the end, two spaces before each.
        """
        n_threads = count_threads(threads)
        return Strings(*self.native.analyze(normalized.data, normalized.offsets, n_threads))


@dataclass(frozen=True, slots=True, eq=False)
class WordList:
    """The distinct words of some texts in the order in which they first occur, and their stems."""

    words: Strings
    stems: Strings
    is_shown: NDArray[np.uint8]  # whether a text that may be shown to people has it


def learn_stems(
    normalized: Strings,
    language: str,
    shown: NDArray[np.bool_] | None = None,
    *,
    threads: int = 1,
) -> Stems:
    """Stem every word of normalized texts; `shown` marks the texts that may be shown to people.

    A word that only other texts have is stored if its stem needs no suffix, or a short one that a
    word of a shown text has too. Otherwise it is stemmed when asked.
    """
    return lay_out_stems(language, list_words(normalized, language, shown, threads=threads))


def list_words(
    normalized: Strings,
    language: str,
    shown: NDArray[np.bool_] | None = None,
    *,
    threads: int = 1,
) -> WordList:
    """Learn the words of normalized texts, with their stems."""
    if language == UNSPACED:  # nothing is stemmed
        return WordList(Strings.of([]), Strings.of([]), np.empty(0, dtype=np.uint8))
    marks = None if shown is None else shown.view(np.uint8)
    found, is_shown = _native.list_words(normalized.data, normalized.offsets, threads, marks)
    words = Strings(*found)
    everything = words.decode(np.arange(len(words), dtype=np.int32))
    return WordList(words, Strings.of(Analyzer.of(language).stem(everything)), is_shown)


def unite_words(parts: Sequence[WordList]) -> WordList:
    """Merge the words of parts, in order, to those of all texts."""
    words = Strings.concatenate([part.words for part in parts])
    group, first = words.factorize()
    is_shown = np.zeros(len(first), dtype=np.uint8)
    np.maximum.at(is_shown, group, np.concatenate([part.is_shown for part in parts]))
    stems = Strings.concatenate([part.stems for part in parts])
    return WordList(words.take(first), stems.take(first), is_shown)


def lay_out_stems(language: str, found: WordList) -> Stems:
    """Return the table of these words."""
    n_homes = max(1, round(SLOTS_PER_WORD * len(found.words)))
    words, stems = ((texts.data, texts.offsets) for texts in (found.words, found.stems))
    slots, data, offsets = _native.lay_out_stems(words, stems, found.is_shown, n_homes)
    return Stems(language, slots, n_homes, Strings(data, offsets))
