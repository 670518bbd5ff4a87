"""Query words: which words of a text does each of its features come from?

The names are those of the text itself, so that a vocabulary without names can be explained too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import UNSPACED, NGrams
from matchset.features.ngram_counts import kind_arrays
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import Vocabulary
from matchset.strings import Strings
from matchset.text import normalize

_SLOT = np.dtype([("key", "<u8"), ("id", "<u4"), ("idf", "<f4")])  # `Slot` of native/vocabulary.hpp
_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class QueryWords:
    """The features of a text: as n-grams, and as the words that they come from."""

    ngrams: Mapping[int, str]  # n-gram of each known feature
    words: Mapping[int, tuple[str, ...]]  # words of each feature, one for every occurrence

    def fold(
        self, features: Iterable[int], values: Iterable[float]
    ) -> tuple[tuple[str, float], ...]:
        """Return what each word adds, strongest first: the sum over its n-grams of each length.

        An n-gram of characters counts for its word, one of several words for itself.
        """
        sums: defaultdict[str, float] = defaultdict(float)
        for feature, value in zip(features, values, strict=True):
            found = self.words.get(int(feature), ("(unknown)",))
            for word in found:
                sums[word] += float(value) / len(found)
        rounded = ((word, round(value, 4)) for word, value in sums.items())
        kept = [pair for pair in rounded if pair[1] != 0]
        return tuple(sorted(kept, key=lambda pair: (-abs(pair[1]), pair[0])))


def find_query_words(vectorizer: Vectorizer, text: str) -> QueryWords:
    """Look every n-gram of a text up in the vocabulary."""
    vocabulary, normalized = vectorizer.vocabulary, normalize(text)
    stems = None if vocabulary.stems is None else vocabulary.stems.native
    kinds = vocabulary.config.ngrams
    (data, offsets), keys = _native.list_ngrams(normalized, *kind_arrays(kinds), stems)
    named = list(Strings(data, offsets))
    sources = list(_list_sources(normalized, vocabulary))
    if len(sources) != len(named):  # a text that was cut
        sources = [(0, name) for name in named]
    ngrams: dict[int, str] = {}
    words: defaultdict[int, list[str]] = defaultdict(list)
    slots = np.asarray(vocabulary.slots).view(_SLOT)
    stored = slots["key"], slots["id"]
    for name, key, (kind, word) in zip(named, keys.tolist(), sources, strict=True):
        feature = _find_feature(vocabulary, stored, key, kind)
        if feature < vocabulary.n_known:
            ngrams[feature] = name
        words[feature].append(word)
    return QueryWords(ngrams, {feature: tuple(found) for feature, found in words.items()})


def _list_sources(normalized: str, vocabulary: Vocabulary) -> Iterator[tuple[int, str]]:
    """Kind and word of each n-gram, in the order in which they are listed."""
    words = normalized.split()
    stemmed, surface = words, {word: word for word in words}
    if vocabulary.stems is not None:
        *parts, whole = vocabulary.stems.analyze(Strings.of([*words, normalized]), threads=1)
        stemmed = whole.split(" ")
        if vocabulary.language != UNSPACED:
            for word, part in zip(words, parts, strict=True):
                surface |= dict.fromkeys(part.split(), word)
    for at, kind in enumerate(vocabulary.config.ngrams):
        if kind.unit == "word":
            for begin in range(len(stemmed) - kind.n + 1):
                window = stemmed[begin : begin + kind.n]
                if all(window):  # no n-gram spans the two spaces before a single character
                    found = (surface.get(stem, stem) for stem in window)
                    yield at, " ".join(dict.fromkeys(found))  # a number and its unit are one word
        else:
            yield from ((at, word) for word in words for _ in range(_count_ngrams(word, kind)))


def _count_ngrams(word: str, kind: NGrams) -> int:
    return max(1, len(word) + 2 - kind.n + 1)  # a space before and after it; a short word is one


def _find_feature(
    vocabulary: Vocabulary,
    stored: tuple[NDArray[np.uint64], NDArray[np.uint32]],
    key: int,
    kind: int,
) -> int:
    """Return the feature of an n-gram; one for unknown n-grams where it is not known."""
    keys, ids = stored
    at = key * vocabulary.n_homes >> 64
    while at < len(keys) and (found := keys.item(at)) <= key:
        if found == key:
            return ids.item(at)
        at += 1
    buckets = vocabulary.config.oov_buckets
    spread = (key << 32 | key >> 32) & _MASK  # as in native/vectorize.cpp
    return vocabulary.n_known + kind * buckets + (spread * buckets >> 64)
