"""Added products: how are products found that came after the training?

By their words and by their title's vector, with the statistics of the training: a title has the
scores that it would have there. Not by the tree: nor does training put a product there that no
query led to, and the re-ranker's weights of such products were learned without its scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.features.vectorizer import Vectorizer
from matchset.matrices import Csr, Ids, Offsets, offsets_of, rows_of
from matchset.model.impact_lists import LARGEST, ImpactLists, round_impacts
from matchset.model.inverted_lists import ByteVectors, assign_clusters, quantize
from matchset.model.lexical import LexicalIndex, find_idf, saturate
from matchset.model.towers import TowerIndex
from matchset.strings import Strings


@dataclass(frozen=True, slots=True, eq=False)
class AddedWords:
    """A lexical index whose words are known by their hashes, so that it has new ones too."""

    kind: int  # of n-grams in the vocabulary: single words
    keys: NDArray[np.uint64]  # of the words, ascending, (n_words,)
    features: Ids  # of the words, -1 where the vocabulary lacks it, (n_words,)
    titles_of: ImpactLists  # words x labels, the largest impacts first
    words_of: ImpactLists  # added products x words, ascending

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels take."""
        row_of = np.arange(len(self.words_of), dtype=np.int32)
        return self.kind, self.keys, self.titles_of.arrays, self.words_of.arrays, row_of


@dataclass(frozen=True, slots=True, eq=False)
class AddedVectors:
    """Vectors of titles in the inverted lists of the training."""

    list_offsets: Offsets  # (n_lists + 1,)
    vectors: ByteVectors  # in the order of the lists
    labels: Ids  # of each
    position_of: Ids  # of each added product, -1 for none

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels take."""
        return self.list_offsets, self.vectors.arrays, self.labels, self.position_of


@dataclass(frozen=True, slots=True, eq=False)
class AddedProducts:
    """Products under the labels that follow those of the training, and which of all are shown."""

    words: AddedWords
    vectors: AddedVectors
    shown: Ids  # product of each label, ascending, -1 where it was removed or replaced
    labels: Ids  # label of each product that is shown

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels take."""
        return self.words.arrays, self.vectors.arrays, self.shown


def index_added(
    titles: Strings,
    vectorizer: Vectorizer,
    *,
    lexical: LexicalIndex | None,
    towers: TowerIndex | None,
    is_gone: NDArray[np.bool_],
    threads: int = 1,
) -> AddedProducts:
    """Products with these titles; `is_gone` says which of the trained ones are shown no more."""
    n_trained, n = len(is_gone), len(titles)
    labels = np.concatenate([np.flatnonzero(~is_gone), n_trained + np.arange(n)]).astype(np.int32)
    shown = np.full(n_trained + n, -1, dtype=np.int32)
    shown[labels] = np.arange(len(labels), dtype=np.int32)
    return AddedProducts(
        _no_words(n) if lexical is None else _index_words(titles, vectorizer, lexical, n_trained),
        _no_vectors(n)
        if towers is None
        else _place_vectors(titles, vectorizer, towers, n_trained, threads=threads),
        shown,
        labels,
    )


def _index_words(
    titles: Strings, vectorizer: Vectorizer, lexical: LexicalIndex, first_label: int
) -> AddedWords:
    kinds = [(kind.unit, kind.n) for kind in vectorizer.vocabulary.config.ngrams]
    if ("word", 1) not in kinds:
        return _no_words(len(titles))
    kind = kinds.index(("word", 1))
    starts, hashes, features, counts = vectorizer.native.hash_words(
        titles.data, titles.offsets, kind
    )
    keys, first, word = np.unique(hashes, return_index=True, return_inverse=True)
    feature = features[first]
    # A word that no title had is as rare as one of a single title.
    n_titles_of = np.diff(lexical.titles_of.offsets)
    at = feature - lexical.first_word
    is_known = (feature >= 0) & (at < len(n_titles_of))
    df = np.ones(len(keys), dtype=np.int64)
    df[is_known] = np.maximum(n_titles_of[at[is_known]], 1)
    ids = word.reshape(-1).astype(np.int32)
    rows = Csr(starts, ids, counts, len(keys))
    idf = find_idf(df, len(lexical.row_of))[ids]
    weights = saturate(rows, idf, lexical.mean_length)
    impacts = round_impacts(weights, lexical.scale * LARGEST)
    row = rows_of(starts)
    order = np.lexsort((row, -impacts.astype(np.int16), ids))
    titles_of = ImpactLists(
        offsets_of(np.bincount(ids, minlength=len(keys))),
        (first_label + row[order]).astype(np.int32),
        impacts[order],
    )
    return AddedWords(kind, keys, feature, titles_of, ImpactLists(starts, ids, impacts))


def _place_vectors(
    titles: Strings, vectorizer: Vectorizer, towers: TowerIndex, first_label: int, *, threads: int
) -> AddedVectors:
    starts, ids, _ = vectorizer.native.vectorize_all(titles.data, titles.offsets, threads)
    table, lists = towers.table, towers.lists
    floats = _native.encode_texts(
        (starts, ids), towers.row_of, table.arrays, dimensions=table.dimensions, threads=threads
    )
    vectors = quantize(floats.reshape(len(titles), table.dimensions))
    placed = np.flatnonzero(vectors.scales > 0)
    cluster = assign_clusters(vectors.take(placed), lists, threads=threads)
    order = placed[np.argsort(cluster, kind="stable")]
    position_of = np.full(len(titles), -1, dtype=np.int32)
    position_of[order] = np.arange(len(order), dtype=np.int32)
    return AddedVectors(
        offsets_of(np.bincount(cluster, minlength=lists.n_lists)),
        vectors.take(order),
        (first_label + order).astype(np.int32),
        position_of,
    )


def _no_words(n: int) -> AddedWords:
    none, no_impacts = np.empty(0, np.int32), np.empty(0, np.uint8)
    return AddedWords(
        0,
        np.empty(0, np.uint64),
        none,
        ImpactLists(np.zeros(1, np.int64), none, no_impacts),
        ImpactLists(np.zeros(n + 1, np.int64), none, no_impacts),
    )


def _no_vectors(n: int) -> AddedVectors:
    none = np.empty(0, np.int32)
    vectors = ByteVectors(np.empty((0, 16), np.int8), np.empty(0, np.float32))
    return AddedVectors(np.zeros(1, np.int64), vectors, none, np.full(n, -1, np.int32))
