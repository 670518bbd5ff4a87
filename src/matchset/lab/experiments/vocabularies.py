"""Vocabularies: how many n-grams do the paper's variants of XR-Linear get on this log?

The paper has 3 million unigrams (V), 3 million unigrams and bigrams, 5.6 million of these (1.9 V),
and 4 million of these with 200,000 character trigrams (1.4 V). Here V is a share of the distinct
words of the training queries, so that every limit cuts something off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.config import NGrams, VectorizerConfig
from matchset.features.vectorizer import Vectorizer
from matchset.strings import Strings

SHARE = 0.8  # of the distinct words
# Names of the paper's variants.
UNIGRAMS = "xr_linear_unigrams"
BIGRAMS = "xr_linear_bigrams"
MORE_BIGRAMS = "xr_linear_more_bigrams"
TRIGRAMS = "xr_linear_trigrams"
_WORDS, _PAIRS, _CHARACTERS = NGrams("word", 1, 0), NGrams("word", 2, 0), NGrams("char", 3, 0)


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """The vocabularies of the paper's variants, by name, and the counts they are based on."""

    size: int  # V
    distinct: tuple[int, int, int]  # words, bigrams and character trigrams of the training queries
    configs: Mapping[str, VectorizerConfig]

    def to_dict(self) -> dict[str, float]:
        """For the report."""
        words, bigrams, trigrams = self.distinct
        return {
            "V": self.size,
            "share": SHARE,
            "distinct_words": words,
            "distinct_bigrams": bigrams,
            "distinct_trigrams": trigrams,
        }


def choose_vocabularies(queries: Strings, base: VectorizerConfig) -> Vocabularies:
    """Choose limits for the training queries; words and bigrams compete by document frequency."""
    everything = VectorizerConfig(
        ngrams=tuple(_limited(kind, 2**31 - 1) for kind in (_WORDS, _PAIRS, _CHARACTERS)),
    )
    counted = Vectorizer(everything).fit(queries).vocabulary
    n_words, n_bigrams, n_trigrams = counted.distinct
    words, bigrams = counted.df[:n_words], counted.df[n_words : n_words + n_bigrams]
    size = max(1, int(SHARE * n_words))

    def limit(total: float, trigrams: float = 0.0) -> VectorizerConfig:
        limits = _most_frequent(words, bigrams, round(total * size))
        kinds = [_limited(_WORDS, limits[0]), _limited(_PAIRS, limits[1])]
        if trigrams:
            kinds.append(_limited(_CHARACTERS, max(1, round(trigrams * size))))
        return VectorizerConfig(tuple(kinds), base.oov_buckets)

    unigrams = VectorizerConfig((_limited(_WORDS, size),), base.oov_buckets)
    configs = {
        UNIGRAMS: unigrams,
        BIGRAMS: limit(1.0),
        MORE_BIGRAMS: limit(1.9),
        TRIGRAMS: limit(4 / 3, 1 / 15),
    }
    return Vocabularies(size, (n_words, n_bigrams, n_trigrams), configs)


def _limited(kind: NGrams, limit: int) -> NGrams:
    return NGrams(kind.unit, kind.n, limit)


def _most_frequent(
    words: NDArray[np.uint32], bigrams: NDArray[np.uint32], total: int
) -> tuple[int, int]:
    """Return how many words and bigrams are among the `total` most frequent; ties go to words."""
    if total >= len(words) + len(bigrams):
        return len(words), len(bigrams)
    least = np.sort(np.concatenate([words, bigrams]))[::-1][total - 1]
    n_above = int(np.count_nonzero(bigrams > least))
    n_words = min(int(np.count_nonzero(words >= least)), total - n_above)
    return n_words, total - n_words
