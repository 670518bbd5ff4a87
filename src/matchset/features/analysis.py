"""Analysis: which words of a text count, and which are forms of one word?

In a language with a Snowball stemmer, word n-grams are made of stems: "drills" and "drill" are one
word, "the" and "for" are none. In any language, a script without spaces gives pairs of characters
as words, and Chinese and Japanese single ones, too. Character n-grams always come from the text as
it is written.
"""

from __future__ import annotations

import tomllib
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from matchset import _native
from matchset.config import AUTO, UNSPACED, check_language
from matchset.strings import Strings

# A language is chosen where words and endings that no other language has make up this share of all
# words, and this many times the share of any other language's.
MIN_SHARE = 0.02
MIN_LEAD = 3
MIN_WORDS = 200  # fewer words decide nothing
MIN_UNSPACED = 0.1  # share of words of a script without spaces, which decides first
_SAMPLE = 50_000  # texts that are looked at


@dataclass(frozen=True, slots=True)
class Language:
    """What a language needs: a Snowball stemmer, and its function words, normalized."""

    code: str
    stemmer: str
    stop_words: frozenset[str]


@cache
def _read_table() -> Mapping[str, Mapping[str, str]]:
    """Return what is known of each language, also of those that only tell others apart."""
    return tomllib.loads(files(__package__).joinpath("stopwords.toml").read_text("utf-8"))


@cache
def list_languages() -> Mapping[str, Language]:
    """Return every language that can be analyzed, by its ISO 639-1 code."""
    return {
        code: Language(code, entry["stemmer"], frozenset(entry["words"].split()))
        for code, entry in _read_table().items()
        if "stemmer" in entry
    }


@cache
def _list_signs() -> Mapping[str, str | None]:
    """Return the language that each word and "-ending" is a sign of; None where several list it."""
    signs: dict[str, str | None] = {}
    for code, entry in _read_table().items():
        endings = (f"-{ending}" for ending in entry["endings"].split())
        for sign in dict.fromkeys([*entry["words"].split(), *entry["titles"].split(), *endings]):
            signs[sign] = None if sign in signs else code
    return signs


def choose_language(
    language: str | None, normalized: Sequence[Strings], *, threads: int = 1
) -> str | None:
    """Return the language itself, or for "auto" the one that the normalized texts are in."""
    language = check_language(language)
    return detect_language(normalized, threads=threads) if language == AUTO else language


def detect_language(normalized: Sequence[Strings], *, threads: int = 1) -> str | None:
    """Return the language of normalized texts, None where none stands out.

    Counted are words and endings that only one language has: "in" is English, German, Dutch and an
    inch. Mixed shops, tiny logs and languages without a stemmer give None. Texts of which a tenth
    of the words are in a script without spaces are "cjk".
    """
    sample = Strings.concatenate([sample_texts([each]) for each in normalized])
    signs = _list_signs()
    wanted = Strings.of(list(signs))
    counts, n_words, n_unspaced = _native.count_words(
        (sample.data, sample.offsets), (wanted.data, wanted.offsets), threads
    )
    if n_words and n_unspaced / n_words >= MIN_UNSPACED:
        return UNSPACED
    if n_words < MIN_WORDS:
        return None
    seen = Counter(dict.fromkeys(_read_table(), 0))
    for code, count in zip(signs.values(), counts.tolist(), strict=True):
        if code is not None:
            seen[code] += count
    (best, most), (_, second) = seen.most_common(2)
    stands_out = most >= MIN_SHARE * n_words and most >= MIN_LEAD * second
    return best if stands_out and best in list_languages() else None


def sample_texts(parts: Sequence[Strings]) -> Strings:
    """Return texts at even distances, as many as a language is detected from.

    The parts are taken as one, and are not joined for it.
    """
    n = sum(map(len, parts))
    chosen, begin = np.arange(0, n, max(1, n // _SAMPLE)), 0
    found = []
    for part in parts:
        is_own = (chosen >= begin) & (chosen < begin + len(part))
        found.append(part.take(chosen[is_own] - begin))
        begin += len(part)
    return Strings.concatenate(found)


@dataclass(frozen=True, slots=True, eq=False)
class Analyzer:
    """Stems of words in one language; a stop word has none."""

    language: Language
    # A stemmer serves one thread at a time. Threads take one out; a lock would not survive a fork.
    _idle: deque[Any] = field(init=False, repr=False, default_factory=deque)

    @classmethod
    def of(cls, code: str) -> Analyzer:
        """Return the analyzer of a language by its code."""
        found = list_languages().get(code)
        if found is None:
            raise ValueError(f"language must be one that has a stemmer; got {code!r}")
        return cls(found)

    def stem(self, words: Iterable[str]) -> list[str]:
        """Stem of each normalized word, empty for a stop word."""
        listed = list(words)
        stemmer = self._take_stemmer()
        stems: list[str] = stemmer.stemWords(listed)
        self._idle.append(stemmer)
        stop_words = self.language.stop_words
        return [
            "" if word in stop_words else stem for word, stem in zip(listed, stems, strict=True)
        ]

    def stem_word(self, word: str) -> str:
        """Stem of one normalized word, empty for a stop word."""
        return self.stem((word,))[0]

    def _take_stemmer(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            import Stemmer

            return Stemmer.Stemmer(self.language.stemmer, 0)  # without a cache of words

    def __reduce__(self) -> tuple[Any, ...]:
        return Analyzer, (self.language,)
