"""N-gram counts: how many texts have each n-gram, also where no machine reads all of them?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import NGrams, VectorizerConfig
from matchset.features.stems import Stems
from matchset.matrices import offsets_of
from matchset.memory import memory_for_counters
from matchset.strings import Strings

UNITS = {"word": 0, "char": 1}
_SLICE = 1 << 24  # n-grams that are added up at once: about two gigabytes
_SPACE, _SHOWN_SPACE = ord(" "), ord("#")
_NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class NGramCounts:
    """N-grams of one kind."""

    keys: NDArray[np.uint64]  # hashes, (n,)
    df: NDArray[np.uint32]  # texts with each, (n,)
    names: Strings  # with spaces, (n,)
    is_shown: NDArray[np.uint8]  # whether a text that may be shown has it, (n,)
    n_distinct: int  # that were found; here are those that were kept

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, chosen: NDArray[np.integer]) -> NGramCounts:
        """Return some of them, in the order given."""
        arrays = (self.keys[chosen], self.df[chosen], self.names.take(chosen))
        return NGramCounts(*arrays, self.is_shown[chosen], self.n_distinct)

    def slice(self, begin: int, end: int) -> NGramCounts:
        """Return those from begin to end; nothing is copied."""
        names, at = self.names.slice(begin, end), slice(begin, end)
        return NGramCounts(self.keys[at], self.df[at], names, self.is_shown[at], end - begin)

    @property
    def shown_names(self) -> Strings:
        """As people read them; empty where no text that may be shown has one."""
        lengths, is_shown = self.names.lengths, self.is_shown.view(np.bool_)
        data = self.names.used
        if not is_shown.all():
            data = data[np.repeat(is_shown, lengths)]
        readable = np.where(data == _SPACE, np.uint8(_SHOWN_SPACE), data)
        return Strings(readable, offsets_of(np.where(is_shown, lengths, 0)))


def kind_arrays(ngrams: tuple[NGrams, ...]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Unit and length of each kind, in the form that native code needs."""
    units = np.array([UNITS[kind.unit] for kind in ngrams], dtype=np.uint8)
    return units, np.array([kind.n for kind in ngrams], dtype=np.uint8)


def count_ngrams(
    normalized: Strings,
    config: VectorizerConfig,
    stems: Stems | None,
    *,
    threads: int,
    shown: NDArray[np.bool_] | None = None,
    is_part: bool = False,
) -> tuple[NGramCounts, ...]:
    """Return the n-grams of each kind that the configuration keeps, most frequent first.

    Of a part of the texts all n-grams are kept, in the order of their keys: `add_counts` chooses.
    """
    analyzed = None if stems is None else stems.analyze(normalized, threads=threads)
    units, lengths = kind_arrays(config.ngrams)
    counted = _native.count_ngrams(
        normalized.data,
        normalized.offsets,
        units,
        lengths,
        np.array([_NO_LIMIT if is_part else kind.limit for kind in config.ngrams]),
        np.array([1 if is_part else kind.min_df for kind in config.ngrams]),
        memory_for_counters(),
        threads,
        None if analyzed is None else (analyzed.data, analyzed.offsets),
        None if shown is None else shown.view(np.uint8),
        by_key=is_part,
    )
    return tuple(
        NGramCounts(keys, df, Strings(*names), is_shown, n_distinct)
        for keys, df, names, is_shown, n_distinct in counted
    )


def add_counts(parts: Sequence[NGramCounts], kind: NGrams) -> NGramCounts:
    """Merge counts of parts, in order, to those of all texts, for one kind.

    Reads a range of keys after another, so that it takes no more memory than what it keeps.
    """
    best, n_distinct = parts[0].slice(0, 0), 0
    for ranges in _cut_keys(parts):
        added = _add_equal_keys(ranges)
        n_distinct += len(added)
        added = added.take(np.flatnonzero(added.df >= kind.min_df))
        best = _keep_best(_join([best, added]), kind.limit)
    by_name = best.take(best.names.argsort())
    found = by_name.take(np.argsort(-by_name.df.astype(np.int64), kind="stable"))
    return replace(found, n_distinct=n_distinct)


def _cut_keys(parts: Sequence[NGramCounts]) -> Iterator[list[NGramCounts]]:
    """Yield the parts, a range of keys after another; hashes are spread evenly."""
    n = max(1, -(-sum(map(len, parts)) // _SLICE))
    bounds = np.array([(number << 64) // n for number in range(1, n)], dtype=np.uint64)
    cuts = [[0, *np.searchsorted(part.keys, bounds).tolist(), len(part)] for part in parts]
    for number in range(n):
        yield [
            part.slice(cut[number], cut[number + 1]) for part, cut in zip(parts, cuts, strict=True)
        ]


def _add_equal_keys(parts: Sequence[NGramCounts]) -> NGramCounts:
    """Return one entry per key, named by the first text that may be shown, else by the first.

    Different names have one key if hashes collide.
    """
    found = _join(parts)
    if not len(found):
        return found
    order = np.argsort(found.keys, kind="stable")
    keys = found.keys[order]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    is_shown = found.is_shown[order].view(np.bool_)
    first_shown = np.where(is_shown, np.arange(len(keys)), len(keys))
    at = np.minimum.reduceat(first_shown, starts)
    chosen = found.take(order[np.where(at < len(keys), at, starts)])
    return replace(chosen, df=np.add.reduceat(found.df[order], starts, dtype=np.uint32))


def _keep_best(counts: NGramCounts, limit: int) -> NGramCounts:
    """Return the most frequent, ties by name, in any order."""
    if len(counts) <= limit:
        return counts
    if limit == 0:
        return counts.slice(0, 0)
    least = np.partition(counts.df, len(counts) - limit)[len(counts) - limit]
    sure = np.flatnonzero(counts.df > least)
    ties = np.flatnonzero(counts.df == least)
    ties = ties[counts.names.take(ties).argsort()[: limit - len(sure)]]
    return counts.take(np.concatenate([sure, ties]))


def _join(parts: Sequence[NGramCounts]) -> NGramCounts:
    return NGramCounts(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.df for part in parts]),
        Strings.concatenate([part.names for part in parts]),
        np.concatenate([part.is_shown for part in parts]),
        sum(part.n_distinct for part in parts),
    )
