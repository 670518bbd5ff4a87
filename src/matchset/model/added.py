"""Added products: how are products found that came after the training?

By their words and by their title's vector, with the statistics of the training: a title has the
scores that it would have there. In the tree they take the places of the products most like them,
as do those of the training that no query led to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.features.vectorizer import Vectorizer
from matchset.matrices import Csr, Floats, Ids, Offsets, offsets_of, rows_of
from matchset.model.heirs import LENDERS, find_lenders
from matchset.model.impact_lists import LARGEST, ImpactLists, round_impacts
from matchset.model.inverted_lists import ByteVectors, assign_clusters
from matchset.model.lexical import MORE_WEIGHT, LexicalIndex, find_idf, saturate
from matchset.model.title_rows import TitleRows, join_texts, join_title_rows
from matchset.model.towers import TowerIndex, encode_products
from matchset.strings import Strings

_Words = tuple[Offsets, NDArray[np.uint64], Ids, Floats]  # starts, keys, features, counts
_NO_WIDTH = 16  # dimensions of vectors where there are none


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
    rows: TitleRows  # of the added ones

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels take."""
        return self.words.arrays, self.vectors.arrays, self.shown


def index_added(
    texts: tuple[Strings, ...],
    vectorizer: Vectorizer,
    *,
    lexical: LexicalIndex | None,
    towers: TowerIndex | None,
    is_warm: NDArray[np.bool_],
    is_gone: NDArray[np.bool_],
    before: Sequence[TitleRows] = (),
    threads: int = 1,
) -> AddedProducts:
    """Products with these titles, and with the text beside them if there is some.

    Of the trained ones, warm ones lend their places in the tree, and those that are gone are shown
    no more. What was read `before` of the same texts is not read again.
    """
    n_trained, n = len(is_gone), len(texts[0])
    labels = np.concatenate([np.flatnonzero(~is_gone), n_trained + np.arange(n)]).astype(np.int32)
    shown = np.full(n_trained + n, -1, dtype=np.int32)
    shown[labels] = np.arange(len(labels), dtype=np.int32)
    kinds = [(kind.unit, kind.n) for kind in vectorizer.vocabulary.config.ngrams]
    kind = kinds.index(("word", 1)) if lexical is not None and ("word", 1) in kinds else None

    def read(new: tuple[Strings, ...]) -> TitleRows:
        return _read_titles(new, vectorizer, towers, is_warm, kind=kind, threads=threads)

    width = _NO_WIDTH if towers is None else towers.table.dimensions
    # Of others, parts were left out since.
    known = [rows for rows in before if rows.vectors.dimensions == width]
    rows = _read_new(texts, join_title_rows(known), read) if known else read(texts)
    words, vectors = _no_words(n), _no_vectors(n)
    if lexical is not None and kind is not None:
        words = _index_words(rows, kind, lexical, n_trained)
    if towers is not None:
        vectors = _place_vectors(rows, towers, n_trained)
    return AddedProducts(words, vectors, shown, labels, rows)


def _read_new(
    texts: tuple[Strings, ...],
    before: TitleRows,
    read: Callable[[tuple[Strings, ...]], TitleRows],
) -> TitleRows:
    together, n_before = join_texts([before.texts, texts]), len(before)
    group, first = together[0].factorize()
    for more in together[1:]:
        pair = group.astype(np.int64) * len(more) + more.factorize()[0]
        _, first, group = np.unique(pair, return_index=True, return_inverse=True)
    source = first[group[n_before:]]  # the first equal product
    new = np.unique(source[source >= n_before])
    known = np.where(source < n_before, source, n_before + np.searchsorted(new, source))
    if len(new) == 0:
        return before.take(known)
    return join_title_rows([before, read(tuple(each.take(new) for each in together))]).take(known)


def _read_titles(
    texts: tuple[Strings, ...],
    vectorizer: Vectorizer,
    towers: TowerIndex | None,
    is_warm: NDArray[np.bool_],
    *,
    kind: int | None,
    threads: int,
) -> TitleRows:
    n, none = len(texts[0]), np.empty(0, np.int32)
    found: _Words = np.zeros(n + 1, np.int64), np.empty(0, np.uint64), none, np.empty(0, np.float32)
    if kind is not None:
        hash_words = vectorizer.native.hash_words
        found = _add_up([hash_words(each.data, each.offsets, kind) for each in texts])
    starts, hashes, features, counts = found
    keys, first, word = np.unique(hashes, return_index=True, return_inverse=True)
    words = word.reshape(-1).astype(np.int32)
    vectors = ByteVectors(np.zeros((n, _NO_WIDTH), np.int8), np.zeros(n, np.float32))
    clusters = np.full(n, -1, dtype=np.int32)
    lenders = np.full((n, LENDERS), -1, dtype=np.int32)
    if towers is not None:
        vectors = _encode(texts, vectorizer, towers, threads=threads)
        placed = np.flatnonzero(vectors.scales > 0)
        clusters[placed] = assign_clusters(vectors.take(placed), towers.lists, threads=threads)
        lenders = find_lenders(vectors, towers, is_warm, threads=threads)
    return TitleRows(
        texts, starts, words, counts, keys, features[first], vectors, clusters, lenders
    )


def _add_up(words: list[_Words]) -> _Words:
    """Words of titles and of the text beside them, which counts less, as one text."""
    if len(words) == 1:
        return words[0]
    row = np.concatenate([rows_of(starts) for starts, *_ in words])
    keys, features = (np.concatenate([each[i] for each in words]) for i in (1, 2))
    counts = np.concatenate([words[0][3], np.float32(MORE_WEIGHT) * words[1][3]])
    order = np.lexsort((keys, row))
    row, keys = row[order], keys[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (row[1:] != row[:-1]) | (keys[1:] != keys[:-1])
    starts = offsets_of(np.bincount(row[is_first], minlength=len(words[0][0]) - 1))
    counts = np.add.reduceat(counts[order], np.flatnonzero(is_first)) if len(order) else counts
    return starts, keys[is_first], features[order][is_first], counts


def _encode(
    texts: tuple[Strings, ...], vectorizer: Vectorizer, towers: TowerIndex, *, threads: int
) -> ByteVectors:
    vectorize = vectorizer.native.vectorize_all
    rows = [vectorize(each.data, each.offsets, threads)[:2] for each in texts]
    return encode_products(rows, towers.row_of, towers.table, threads=threads)


def _index_words(rows: TitleRows, kind: int, lexical: LexicalIndex, first_label: int) -> AddedWords:
    is_used = np.bincount(rows.words, minlength=len(rows.keys)) > 0
    keys, feature = rows.keys[is_used], rows.features[is_used]
    # A word that no title had is as rare as one of a single title.
    n_titles_of = np.diff(lexical.titles_of.offsets)
    at = feature - lexical.first_word
    is_known = (feature >= 0) & (at < len(n_titles_of))
    df = np.ones(len(keys), dtype=np.int64)
    df[is_known] = np.maximum(n_titles_of[at[is_known]], 1)
    ids = (np.cumsum(is_used) - 1).astype(np.int32)[rows.words]
    counts = Csr(rows.starts, ids, rows.counts, len(keys))
    idf = find_idf(df, len(lexical.row_of))[ids]
    weights = saturate(counts, idf, lexical.mean_length)
    impacts = round_impacts(weights, lexical.scale * LARGEST)
    row = rows_of(rows.starts)  # ascending, and stays so among equal ones
    order = np.argsort(LARGEST - impacts, kind="stable")
    narrow = ids.astype(np.min_scalar_type(len(keys)))  # sorts faster
    order = order[np.argsort(narrow[order], kind="stable")]
    titles_of = ImpactLists(
        offsets_of(np.bincount(ids, minlength=len(keys))),
        (first_label + row[order]).astype(np.int32),
        impacts[order],
    )
    return AddedWords(kind, keys, feature, titles_of, ImpactLists(rows.starts, ids, impacts))


def _place_vectors(rows: TitleRows, towers: TowerIndex, first_label: int) -> AddedVectors:
    placed = np.flatnonzero(rows.clusters >= 0)
    cluster = rows.clusters[placed]
    order = placed[np.argsort(cluster, kind="stable")]
    position_of = np.full(len(rows.clusters), -1, dtype=np.int32)
    position_of[order] = np.arange(len(order), dtype=np.int32)
    return AddedVectors(
        offsets_of(np.bincount(cluster, minlength=towers.lists.n_lists)),
        rows.vectors.take(order),
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
    vectors = ByteVectors(np.empty((0, _NO_WIDTH), np.int8), np.empty(0, np.float32))
    return AddedVectors(np.zeros(1, np.int64), vectors, none, np.full(n, -1, np.int32))
