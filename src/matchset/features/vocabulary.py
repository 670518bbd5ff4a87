"""Vocabulary: which n-grams are features, and how much does each say?"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import NGrams, VectorizerConfig, read_vectorizer_config
from matchset.storage.sections import Section, read_strings, store_strings, under
from matchset.strings import Strings

SLOTS_PER_NGRAM = 4 / 3  # room in the hash table: more is faster, less is smaller
UNITS = {"word": 0, "char": 1}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The features, as arrays that may be memory-mapped.

    Ids ascend kind by kind in the order of the configuration, within a kind from the most frequent
    n-gram to the rarest; the ids for unknown n-grams come last, kind by kind.
    """

    config: VectorizerConfig
    n_queries: int  # that the vocabulary was learned from
    sizes: tuple[int, ...]  # n-grams kept, per kind
    distinct: tuple[int, ...]  # n-grams there were, per kind
    slots: NDArray[np.uint8]  # hash table of the known n-grams, 16 bytes a slot
    n_homes: int  # slots before the overflow at the end of the table
    df: NDArray[np.uint32]  # queries with each known n-gram, (n_known,)
    unknown_idf: NDArray[np.float32]  # (kinds x oov_buckets,)
    names: Strings  # each known n-gram as people read it, "" where it may not be shown, (n_known,)

    def __post_init__(self) -> None:
        kinds, n_known = len(self.config.ngrams), sum(self.sizes)
        if (len(self.sizes), len(self.distinct)) != (kinds, kinds):
            raise ValueError(f"sizes and distinct must be of {kinds} kinds; got {self.sizes}")
        if (len(self.df), len(self.names)) != (n_known, n_known):
            found = f"{len(self.df)} and {len(self.names)}"
            raise ValueError(f"df and names must be of {n_known} n-grams; got {found}")

    @property
    def n_known(self) -> int:
        """Number of known n-grams."""
        return sum(self.sizes)

    @property
    def n_features(self) -> int:
        """Number of feature ids, those for unknown n-grams included."""
        return self.n_known + len(self.unknown_idf)

    def to_native(self) -> _native.Vocabulary:
        """The native view over these arrays."""
        units, lengths = kind_arrays(self.config.ngrams)
        buckets = self.config.oov_buckets
        return _native.Vocabulary(
            self.slots, self.n_homes, units, lengths, self.n_known, buckets, self.unknown_idf
        )


def learn_vocabulary(normalized: Strings, config: VectorizerConfig, threads: int) -> Vocabulary:
    """Count the n-grams of normalised queries and keep the most frequent of each kind."""
    units, lengths = kind_arrays(config.ngrams)
    limits = np.array([kind.limit for kind in config.ngrams])
    min_df = np.array([kind.min_df for kind in config.ngrams])
    texts = (normalized.data, normalized.offsets)
    counted = _native.count_ngrams(
        *texts, units, lengths, limits, min_df, config.memory_budget, threads
    )
    keys, df, names, distinct = zip(*counted, strict=True)
    n_homes = max(1, round(SLOTS_PER_NGRAM * sum(map(len, keys))))
    idf = inverse_frequency(np.concatenate(df), len(normalized))
    slots = _native.lay_out_slots(np.concatenate(keys), idf, n_homes)
    vocabulary = Vocabulary(
        config=config,
        n_queries=len(normalized),
        sizes=tuple(map(len, keys)),
        distinct=distinct,
        slots=slots,
        n_homes=n_homes,
        df=np.concatenate(df),
        unknown_idf=np.ones(len(config.ngrams) * config.oov_buckets, dtype=np.float32),
        names=Strings.concatenate([Strings(*kind) for kind in names]),
    )
    return _weigh_unknown(vocabulary, normalized, threads)


def inverse_frequency(df: NDArray[np.integer], n_queries: int) -> NDArray[np.float32]:
    """ln((1 + N) / (1 + df)) + 1, as in scikit-learn: an n-gram that every query has weighs 1."""
    return (np.log((1 + n_queries) / (1 + df.astype(np.float64))) + 1).astype(np.float32)


def kind_arrays(ngrams: tuple[NGrams, ...]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Unit and length of each kind, as the native code takes them."""
    units = np.array([UNITS[kind.unit] for kind in ngrams], dtype=np.uint8)
    return units, np.array([kind.n for kind in ngrams], dtype=np.uint8)


def _weigh_unknown(vocabulary: Vocabulary, normalized: Strings, threads: int) -> Vocabulary:
    """Give unknown ids the idf of what was cut; an id that no query had stays silent (idf 0)."""
    counts = np.zeros(len(vocabulary.unknown_idf), dtype=np.int64)
    if len(counts) and vocabulary.sizes != vocabulary.distinct:
        texts = (normalized.data, normalized.offsets)
        counts = vocabulary.to_native().count_unknown(*texts, threads)
    idf = inverse_frequency(counts, len(normalized)) * (counts > 0)
    return replace(vocabulary, unknown_idf=idf.astype(np.float32))


def store_vocabulary(vocabulary: Vocabulary) -> Section:
    """A vocabulary as a part of a folder."""
    header = {
        "config": asdict(vocabulary.config),
        "n_queries": vocabulary.n_queries,
        "sizes": vocabulary.sizes,
        "distinct": vocabulary.distinct,
        "n_homes": vocabulary.n_homes,
    }
    arrays = {name: getattr(vocabulary, name) for name in ("slots", "df", "unknown_idf")}
    return Section(header, arrays | under("names", store_strings(vocabulary.names)))


def read_vocabulary(part: Section) -> Vocabulary:
    """A vocabulary from its part; whatever does not fit is a KeyError, TypeError or ValueError."""
    header, arrays = part.header, part.arrays
    return Vocabulary(
        config=read_vectorizer_config(header["config"]),
        n_queries=int(header["n_queries"]),
        sizes=tuple(map(int, header["sizes"])),
        distinct=tuple(map(int, header["distinct"])),
        slots=arrays["slots"],
        n_homes=int(header["n_homes"]),
        df=arrays["df"],
        unknown_idf=arrays["unknown_idf"],
        names=read_strings(part.within("names")),
    )
