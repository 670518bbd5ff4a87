"""Analysis: which words of a text count, and which are forms of one word?

In a language with a Snowball stemmer, word n-grams are made of stems: "drills" and "drill" are one
word, "the" and "for" are none. Character n-grams always come from the text as it is written.
"""

from __future__ import annotations

import html
import re
import threading
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from matchset.strings import Strings

AUTO = "auto"

# A language is chosen where function words that no other language has make up this share of all
# words, and this many times the share of any other language's.
MIN_SHARE = 0.005
MIN_LEAD = 2.5
MIN_WORDS = 200  # fewer words decide nothing
_SAMPLE = 200_000  # texts that are looked at

_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Language:
    """What a language needs: a Snowball stemmer, and its function words, normalized."""

    code: str
    stemmer: str
    stop_words: frozenset[str]


@cache
def list_languages() -> Mapping[str, Language]:
    """Every language that can be analyzed, by its ISO 639-1 code."""
    table = tomllib.loads(files(__package__).joinpath("stopwords.toml").read_text("utf-8"))
    return {
        code: Language(code, entry["stemmer"], frozenset(entry["words"].split()))
        for code, entry in table.items()
    }


@cache
def _list_own_words() -> Mapping[str, frozenset[str]]:
    """The function words of each language that no other one has."""
    languages = list_languages()
    owners = Counter(word for each in languages.values() for word in each.stop_words)
    return {
        code: frozenset(word for word in each.stop_words if owners[word] == 1)
        for code, each in languages.items()
    }


def check_language(language: str | None) -> None:
    """Refuse a language that cannot be analyzed."""
    known = list_languages()
    if language not in (None, AUTO, *known):
        names = ", ".join(known)
        raise ValueError(f"language must be None, 'auto' or one of {names}; got {language!r}")


def detect_language(texts: Sequence[Strings]) -> str | None:
    """The language of normalized texts, or None where none stands out.

    Counted are function words that only one language has: "in" is English, German, Dutch and an
    inch. Mixed shops, tiny logs and languages without a stemmer give None.
    """
    counts: dict[str, int] = {}
    n_words = 0
    for each in texts:
        step = max(1, len(each) // _SAMPLE)
        for text in each.take(np.arange(0, len(each), step)):
            for word in text.split():
                counts[word] = counts.get(word, 0) + 1
                n_words += 1
    if n_words < MIN_WORDS:
        return None
    shares = {
        code: sum(counts.get(word, 0) for word in words) / n_words
        for code, words in _list_own_words().items()
    }
    best, second = sorted(shares, key=lambda code: -shares[code])[:2]
    stands_out = shares[best] >= MIN_SHARE and shares[best] >= MIN_LEAD * shares[second]
    return best if stands_out else None


@dataclass(frozen=True, slots=True, eq=False)
class Analyzer:
    """Stems of words in one language; a stop word has none."""

    language: Language
    _stemmers: threading.local = field(init=False, repr=False, default_factory=threading.local)

    @classmethod
    def of(cls, code: str) -> Analyzer:
        """The analyzer of a language by its code."""
        check_language(code)
        return cls(list_languages()[code])

    def stem(self, words: Iterable[str]) -> list[str]:
        """Stem of each normalized word, empty for a stop word."""
        stop_words = self.language.stop_words
        stems: list[str] = self._stemmer().stemWords(list(words))
        return [
            "" if word in stop_words else stem for word, stem in zip(words, stems, strict=True)
        ]

    def analyze(self, text: str) -> str:
        """A normalized text with stems for words; as it was where nothing but stop words is in it."""
        stems = self.stem(text.split())
        return " ".join(filter(None, stems)) or text

    def _stemmer(self) -> Any:
        found = getattr(self._stemmers, "stemmer", None)  # a stemmer serves one thread at a time
        if found is None:
            import Stemmer

            found = self._stemmers.stemmer = Stemmer.Stemmer(self.language.stemmer)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Analyzer, (self.language,)


def clean_markup(text: str) -> str:
    """A text without HTML tags, its entities decoded.

    >>> clean_markup("Steves &amp; Sons <b>door</b>")
    'Steves & Sons door'
    """
    if "&" not in text and "<" not in text:
        return text
    # Entities may hide tags, and be hidden twice ("&amp;nbsp;"), but not for ever.
    for _ in range(2):
        text = html.unescape(_TAG.sub(" ", text))
    return " ".join(text.split())


def clean_strings(texts: Strings) -> Strings:
    """Each text without markup. Texts without "&" and "<" are not looked at again."""
    marked = np.flatnonzero((texts.data == ord("&")) | (texts.data == ord("<")))
    rows = np.unique(np.searchsorted(texts.offsets, marked, side="right") - 1)
    if len(rows) == 0:
        return texts
    cleaned = Strings.of([clean_markup(texts[int(row)]) for row in rows])
    chosen = np.arange(len(texts))
    chosen[rows] = len(texts) + np.arange(len(rows))
    return Strings.concatenate([texts, cleaned]).take(chosen)
