"""Vocabulary: which n-grams are features, and how much does each weigh?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import VectorizerConfig
from matchset.features.ngram_counts import NGramCounts, count_ngrams, kind_arrays
from matchset.features.stems import Stems, learn_stems
from matchset.matrices import Ids, offsets_of
from matchset.strings import Strings

SLOTS_PER_NGRAM = 4 / 3  # of the hash table: more is faster, less is smaller
_SLOT = np.dtype([("key", "<u8"), ("id", "<u4"), ("idf", "<f4")])
_FREE = np.uint64(2**64 - 1)  # key of a slot that holds nothing


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The features, as arrays that may be memory-mapped.

    Feature ids go kind by kind in the order of the configuration, and within a kind from the most
    frequent n-gram to the rarest. Those for unknown n-grams come last, also kind by kind.
    """

    config: VectorizerConfig
    n_queries: int  # number of queries it was learned from
    sizes: tuple[int, ...]  # n-grams kept, per kind
    distinct: tuple[int, ...]  # n-grams found, per kind
    slots: NDArray[np.uint8]  # hash table of the known n-grams, 16 bytes a slot
    n_homes: int  # slots before the overflow area at the end of the table
    df: NDArray[np.uint32]  # queries with each known n-gram, (n_known,)
    unknown_idf: NDArray[np.float32]  # (kinds x oov_buckets,)
    names: Strings  # readable known n-grams, "" for those that may not be shown, (n_known,)
    stems: Stems | None = None  # of which word n-grams are made; without: words as they are

    def __post_init__(self) -> None:
        kinds, n_known = len(self.config.ngrams), sum(self.sizes)
        if (len(self.sizes), len(self.distinct)) != (kinds, kinds):
            raise ValueError(f"sizes and distinct must have {kinds} entries; got {self.sizes}")
        if (len(self.df), len(self.names)) != (n_known, n_known):
            found = f"{len(self.df)} and {len(self.names)}"
            raise ValueError(f"df and names must have {n_known} entries; got {found}")

    @property
    def n_known(self) -> int:
        """Number of known n-grams."""
        return sum(self.sizes)

    @property
    def n_features(self) -> int:
        """Number of feature ids, including those for unknown n-grams."""
        return self.n_known + len(self.unknown_idf)

    @property
    def language(self) -> str | None:
        """The language that texts are analyzed in; None if they are not."""
        return None if self.stems is None else self.stems.language

    @property
    def has_cut(self) -> bool:
        """Whether texts that it was learned from have n-grams that it does not know."""
        return len(self.unknown_idf) > 0 and self.sizes != self.distinct

    def to_native(self) -> _native.Vocabulary:
        """Return the native view over these arrays."""
        units, lengths = kind_arrays(self.config.ngrams)
        return _native.Vocabulary(
            self.slots,
            self.n_homes,
            units,
            lengths,
            self.n_known,
            self.config.oov_buckets,
            self.unknown_idf,
            None if self.stems is None else self.stems.native,
        )


def learn_vocabulary(
    normalized: Strings,
    config: VectorizerConfig,
    threads: int,
    *,
    language: str | None = None,
    shown: NDArray[np.bool_] | None = None,
) -> Vocabulary:
    """Count the n-grams of normalized queries, and keep the most frequent of each kind.

    With a `language`, n-grams of words are those of stems. Only n-grams of texts that are `shown`
    have names.
    """
    stems = None
    if language is not None:
        stems = learn_stems(normalized, language, shown, threads=threads)
    counted = count_ngrams(normalized, config, stems, threads=threads, shown=shown)
    vocabulary = make_vocabulary(counted, config, len(normalized), stems=stems, threads=threads)
    return weigh_unknown(vocabulary, count_unknown(vocabulary, normalized, threads=threads))


def make_vocabulary(
    counted: Sequence[NGramCounts],
    config: VectorizerConfig,
    n_texts: int,
    *,
    stems: Stems | None,
    threads: int,
) -> Vocabulary:
    """Make a vocabulary of the n-grams kept; `weigh_unknown` sets the weight of all others."""
    keys, df = (
        np.concatenate([getattr(kind, name) for kind in counted]) for name in ("keys", "df")
    )
    slots, n_homes = _lay_out(keys, df, n_texts, threads)
    return Vocabulary(
        config=config,
        n_queries=n_texts,
        sizes=tuple(map(len, counted)),
        distinct=tuple(kind.n_distinct for kind in counted),
        slots=slots,
        n_homes=n_homes,
        df=df,
        unknown_idf=np.ones(len(config.ngrams) * config.oov_buckets, dtype=np.float32),
        names=Strings.concatenate([kind.shown_names for kind in counted]),
        stems=stems,
    )


def count_unknown(vocabulary: Vocabulary, texts: Strings, *, threads: int) -> NDArray[np.int64]:
    """Count the texts it was learned from that have each feature for unknown n-grams."""
    if not vocabulary.has_cut:
        return np.zeros(len(vocabulary.unknown_idf), dtype=np.int64)
    return vocabulary.to_native().count_unknown(texts.data, texts.offsets, threads)


def weigh_unknown(vocabulary: Vocabulary, counts: NDArray[np.int64]) -> Vocabulary:
    """Set the idf of unknown n-grams from the texts that have them; 0 where no text has."""
    idf = inverse_frequency(counts, vocabulary.n_queries) * (counts > 0)
    return replace(vocabulary, unknown_idf=idf.astype(np.float32))


def extend_vocabulary(
    vocabulary: Vocabulary, normalized: Strings, *, threads: int
) -> tuple[Vocabulary, Ids]:
    """Add the n-grams of more texts; also return the new id of each feature.

    What it knows keeps its weight. New n-grams follow those of their kind, as far as the limits
    allow; they have no names, and weigh as if the first texts had been as many as all are.
    """
    slots = vocabulary.slots.view(_SLOT)
    known = slots[(slots["key"] != _FREE) & (slots["id"] < vocabulary.n_known)]
    key_of = np.full(vocabulary.n_known, known["key"][np.argmin(known["id"])] if len(known) else 0)
    key_of[known["id"]] = known["key"]  # an id without a slot is shadowed by a smaller one
    keys, df, lengths, sizes = [], [], [], []
    begin, old_lengths = 0, vocabulary.names.lengths
    counted = count_ngrams(normalized, vocabulary.config, vocabulary.stems, threads=threads)
    for kind, size, own in zip(vocabulary.config.ngrams, vocabulary.sizes, counted, strict=True):
        new = np.flatnonzero(~np.isin(own.keys, known["key"]))[: max(0, kind.limit - size)]
        keys += [key_of[begin : begin + size], own.keys[new]]
        df += [vocabulary.df[begin : begin + size], own.df[new]]
        lengths += [old_lengths[begin : begin + size], np.zeros(len(new), dtype=np.int64)]
        sizes.append(size + len(new))
        begin += size
    grown = np.array(sizes) - vocabulary.sizes
    slots_now, n_homes = _lay_out(
        np.concatenate(keys), np.concatenate(df), vocabulary.n_queries, threads
    )
    after = replace(
        vocabulary,
        sizes=tuple(sizes),
        distinct=tuple(int(n) for n in vocabulary.distinct + grown),
        slots=slots_now,
        n_homes=n_homes,
        df=np.concatenate(df),
        names=Strings(vocabulary.names.used, offsets_of(np.concatenate(lengths))),
    )
    shift = np.repeat(
        np.cumsum([0, *grown]), [*vocabulary.sizes, len(vocabulary.unknown_idf)]
    )  # by kind, then of the features for unknown n-grams
    return after, (np.arange(vocabulary.n_features) + shift).astype(np.int32)


def _lay_out(
    keys: NDArray[np.uint64], df: NDArray[np.uint32], n_queries: int, threads: int
) -> tuple[NDArray[np.uint8], int]:
    """Return the hash table of the n-grams with these keys, and its homes."""
    n_homes = max(1, round(SLOTS_PER_NGRAM * len(keys)))
    idf = inverse_frequency(df, n_queries)
    return _native.lay_out_slots(keys, idf, n_homes, threads), n_homes


def inverse_frequency(df: NDArray[np.integer], n_queries: int) -> NDArray[np.float32]:
    """Return ln((1 + N) / (1 + df)) + 1, as scikit-learn: 1 for what every query has."""
    return (np.log((1 + n_queries) / (1 + df.astype(np.float64))) + 1).astype(np.float32)
