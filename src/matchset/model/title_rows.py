"""Title rows: what was read of the titles that came after the training?

Reading takes a stemmer and the towers. So it is kept, in memory and on disk: opening a model and
the next step read new titles alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Floats, Ids, Offsets, take_entries
from matchset.model.changes import Changes, searched_texts
from matchset.model.heirs import LENDERS
from matchset.model.inverted_lists import ByteVectors
from matchset.strings import Strings

_MOST_LISTS = np.iinfo(np.int32).max


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


@dataclass(frozen=True, slots=True, eq=False)
class KeptTitles:
    """What was read of the titles of some changed products; their texts are in the changes."""

    product: NDArray[np.int64]  # index into the changed products
    rows: TitleRows  # without texts

    @classmethod
    def of(cls, rows: TitleRows, ids: Strings, changes: Changes) -> KeptTitles:
        """Return what is known, as `rows` of products with these ids, of changed products."""
        row = ids.index_of(changes.products.ids)
        product, rows = np.flatnonzero(row >= 0), rows.take(row[row >= 0])
        is_used = np.bincount(rows.words, minlength=len(rows.keys)) > 0
        kept = replace(
            rows,
            texts=(),
            words=(np.cumsum(is_used) - 1).astype(np.int32)[rows.words],
            keys=rows.keys[is_used],
            features=rows.features[is_used],
        )
        return cls(product, kept)

    def read(
        self, changes: Changes, *, n_features: int, n_lists: int | None, n_trained: int
    ) -> TitleRows:
        """Return the rows with their texts; a ValueError if something is out of range.

        Without `n_lists`, the towers were dropped since, and clusters do not matter.
        """
        texts, rows = searched_texts(changes.products), self.rows
        _check_sizes(rows, len(self.product))
        for name, ids, least, end in (
            ("product", self.product, 0, len(texts[0])),
            ("words", rows.words, 0, len(rows.keys)),
            ("features", rows.features, -1, n_features),
            ("clusters", rows.clusters, -1, n_lists or _MOST_LISTS),
            ("lenders", rows.lenders, -1, n_trained),
        ):
            if ids.size and not least <= ids.min() <= ids.max() < end:
                raise ValueError(f"{name} of titles must be from {least} to {end - 1:,}")
        return replace(rows, texts=tuple(each.take(self.product) for each in texts))


def _check_sizes(rows: TitleRows, n: int) -> None:
    """Raise a ValueError about rows that do not fit n titles, or each other."""
    starts, counts, keys, n_words = rows.starts, rows.counts, rows.keys, len(rows.words)
    found = len(starts) - 1, len(rows.vectors), len(rows.clusters), rows.lenders.shape
    if found != (n, n, n, (n, LENDERS)) or (len(counts), len(rows.features)) != (
        n_words,
        len(keys),
    ):
        raise ValueError(f"titles must be {n:,} with {n_words:,} words; got {found}")
    is_ordered = starts[0] == 0 and starts[-1] == n_words and bool((np.diff(starts) >= 0).all())
    if not is_ordered or (keys[1:] <= keys[:-1]).any():
        raise ValueError("words of titles must have ascending starts and keys")
    if not np.isfinite(counts).all() or (counts <= 0).any():
        raise ValueError("words of titles must have positive counts")
