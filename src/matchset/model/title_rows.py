"""Title rows: what was read of the titles that came after the training?

Reading takes a stemmer and the towers. So it is kept, in memory and on disk: opening a folder and
the next step read new titles alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Floats, Ids, Offsets, take_entries
from matchset.model.changes import read_changes, searched_texts
from matchset.model.heirs import LENDERS
from matchset.model.inverted_lists import ByteVectors
from matchset.model.products import Products
from matchset.storage.folders import Arrays
from matchset.storage.sections import Section, under
from matchset.strings import Strings

_NAME = "titles"  # of their arrays in a section of changes
_MOST_LISTS = np.iinfo(np.int32).max
_TYPES = {
    "product": np.int64,
    "starts": np.int64,
    "words": np.int32,
    "counts": np.float32,
    "keys": np.uint64,
    "features": np.int32,
    "values": np.int8,
    "scales": np.float32,
    "clusters": np.int32,
    "lenders": np.int32,
}


@dataclass(frozen=True, slots=True, eq=False)
class TitleRows:
    """What was read of titles, each by itself."""

    texts: tuple[Strings, ...]  # titles, and the text beside them if there is some
    starts: Offsets  # of each title's words
    words: Ids  # ascending in a title
    counts: Floats  # of these words in the title
    keys: NDArray[np.uint64]  # hash of each word, ascending; perhaps of words of other titles too
    features: Ids  # of each word, -1 where the vocabulary lacks it
    vectors: ByteVectors
    clusters: Ids  # of the vectors, -1 where one is zero
    lenders: Ids  # products that lend their place in the tree, -1 for none, (n, LENDERS)

    def __len__(self) -> int:
        return len(self.clusters)

    def take(self, rows: NDArray[np.int64]) -> TitleRows:
        """Some of the titles."""
        entries, starts = take_entries(self.starts, rows)
        return TitleRows(
            tuple(texts.take(rows) for texts in self.texts),
            starts,
            self.words[entries],
            self.counts[entries],
            self.keys,
            self.features,
            self.vectors.take(rows),
            self.clusters[rows],
            self.lenders[rows],
        )


def join_title_rows(parts: Sequence[TitleRows]) -> TitleRows:
    """Titles, then others."""
    first = np.cumsum([0, *(part.starts[-1] for part in parts)])
    starts = [part.starts[1:] + begin for part, begin in zip(parts, first, strict=False)]
    keys = np.unique(np.concatenate([part.keys for part in parts]))
    word_of = [np.searchsorted(keys, part.keys).astype(np.int32) for part in parts]
    features = np.empty(len(keys), dtype=np.int32)
    for part, words in zip(parts, word_of, strict=True):
        features[words] = part.features
    return TitleRows(
        join_texts([part.texts for part in parts]),
        np.concatenate([[0], *starts]),
        np.concatenate([of[part.words] for part, of in zip(parts, word_of, strict=True)]),
        np.concatenate([part.counts for part in parts]),
        keys,
        features,
        ByteVectors(
            np.concatenate([part.vectors.values for part in parts]),
            np.concatenate([part.vectors.scales for part in parts]),
        ),
        np.concatenate([part.clusters for part in parts]),
        np.concatenate([part.lenders for part in parts]),
    )


def join_texts(parts: Iterable[tuple[Strings, ...]]) -> tuple[Strings, ...]:
    """Texts of products, then those of others."""
    return tuple(Strings.concatenate(each) for each in zip(*parts, strict=True))


def store_title_rows(rows: TitleRows, ids: Strings, products: Products) -> Arrays:
    """What was read of titles of products with these ids, for a section with some of them."""
    row = ids.index_of(products.ids)
    product, rows = np.flatnonzero(row >= 0), rows.take(row[row >= 0])
    is_used = np.bincount(rows.words, minlength=len(rows.keys)) > 0
    arrays: Arrays = {
        "product": product,
        "starts": rows.starts,
        "words": (np.cumsum(is_used) - 1).astype(np.int32)[rows.words],
        "counts": rows.counts,
        "keys": rows.keys[is_used],
        "features": rows.features[is_used],
        "values": rows.vectors.values,
        "scales": rows.vectors.scales,
        "clusters": rows.clusters,
        "lenders": rows.lenders,
    }
    return under(_NAME, arrays)


def read_title_rows(
    sections: Iterable[Section], *, n_features: int, n_lists: int | None, n_trained: int
) -> list[TitleRows]:
    """What was read of titles, from sections of changes; those of a refresh have nothing of it.

    Without `n_lists`, the towers were dropped since, and clusters do not matter. Damage is a
    KeyError, TypeError or ValueError.
    """
    return [
        _read_rows(
            arrays,
            searched_texts(read_changes(section).products),
            {"features": n_features, "clusters": n_lists or _MOST_LISTS, "lenders": n_trained},
        )
        for section in sections
        if (arrays := section.within(_NAME))
    ]


def _read_rows(arrays: Arrays, texts: tuple[Strings, ...], ends: Mapping[str, int]) -> TitleRows:
    for name, dtype in _TYPES.items():
        n_dimensions = 2 if name in ("values", "lenders") else 1
        if arrays[name].dtype != dtype or arrays[name].ndim != n_dimensions:
            raise TypeError(f"{name} of titles must be {dtype.__name__}; got {arrays[name].dtype}")
    product, starts, words, counts, keys, features, values, scales, clusters, lenders = (
        arrays[name] for name in _TYPES
    )
    n, n_words = len(product), len(words)
    found = len(starts) - 1, len(values), len(scales), len(clusters), lenders.shape
    if found != (n, n, n, n, (n, LENDERS)) or (len(counts), len(features)) != (n_words, len(keys)):
        raise ValueError(f"titles must be {n:,} with {n_words:,} words; got {found}")
    is_ordered = starts[0] == 0 and starts[-1] == n_words and bool((np.diff(starts) >= 0).all())
    if not is_ordered or (keys[1:] <= keys[:-1]).any():
        raise ValueError("words of titles must have ascending starts and keys")
    if not np.isfinite(counts).all() or (counts <= 0).any():
        raise ValueError("words of titles must have positive counts")
    for name, ids, least, end in (
        ("product", product, 0, len(texts[0])),
        ("words", words, 0, len(keys)),
        *((name, arrays[name], -1, end) for name, end in ends.items()),
    ):
        if ids.size and not least <= ids.min() <= ids.max() < end:
            raise ValueError(f"{name} of titles must be from {least} to {end - 1:,}")
    own, vectors = tuple(each.take(product) for each in texts), ByteVectors(values, scales)
    return TitleRows(own, starts, words, counts, keys, features, vectors, clusters, lenders)
