"""Data of a refresh: what do a model's past queries and the log since then give to learn from?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from matchset import _native
from matchset.config import TrainConfig
from matchset.data.events import EventRule, relevance_rule, training_rule
from matchset.data.log import Log, join_logs
from matchset.data.positives import Positives, apply_rule
from matchset.errors import DataError
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import extend_vocabulary
from matchset.learn.private_words import forget_private_words
from matchset.matrices import Csr, Ids, Offsets, from_scipy, offsets_of, rows_of
from matchset.model.impact_lists import LARGEST, round_impacts
from matchset.model.match_set_model import MatchSetModel
from matchset.model.products import Products
from matchset.strings import Strings
from matchset.text import normalize_strings


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What a match set knows before it learns from more."""

    model: MatchSetModel  # with what changed since the training
    vectorizer: Vectorizer
    products: Products  # as they are now: those of the training that stay, then others
    texts: Sequence[Strings]  # titles of the products, and the text beside them if there is some
    label_of: Ids  # of each product of the training now, -1 if it is gone or has another title
    n_queries_of: NDArray[np.int64]  # of each product of the training
    config: TrainConfig
    events: Mapping[str, float]  # weight of each event in the training; none: not known
    last_day: date | None  # that the model has learned from; None: its logs had no times

    @property
    def n_kept(self) -> int:
        """How many products of the training stay."""
        return int(np.count_nonzero(self.label_of >= 0))

    def training_rule(self, log: Log) -> EventRule:
        """Return what made a pair positive in the training."""
        if self.events:
            return EventRule(self.events, self.config.min_count)
        return training_rule(
            log.events, weights=self.config.events, min_count=self.config.min_count
        )

    def relevance_rule(self, log: Log) -> EventRule:
        """Return what makes a pair relevant, by the events of the training."""
        return relevance_rule(
            self.events or log.events, weights=self.config.events, min_count=self.config.min_count
        )


@dataclass(frozen=True, slots=True, eq=False)
class RefreshData:
    """All pairs, old and new; queries are in the order of their hashes."""

    vectorizer: Vectorizer  # which knows the n-grams of new texts too
    feature_of: Ids  # new id of each feature that it had
    hashes: NDArray[np.uint64]  # of the queries, ascending, (n_queries,)
    X: Csr  # queries x features, rounded as past queries are
    Y: Csr  # queries x products
    is_changed: NDArray[np.bool_]  # products whose pairs are not those of before, (n_products,)
    n_queries_of: NDArray[np.int64]  # of each product
    n_new_pairs: int
    n_unknown: int  # products of the log's pairs that the model does not have


def prepare_refresh(known: Known, log: Log, old_log: Log | None, *, threads: int) -> RefreshData:
    """Join the pairs of a log with those of past queries, or of the old log if it is given."""
    past = known.model.neighbors
    if past is None and old_log is None:
        raise ValueError("a match set without past queries must get the old log again; got none")
    whole = log if old_log is None else join_logs([old_log, log])
    pairs = apply_rule(whole, known.training_rule(whole))
    label = known.products.index_of(pairs.products)
    Y = _name_columns(from_scipy(pairs.pairs), label, len(known.products))
    kept = np.flatnonzero(np.diff(Y.indptr))
    if len(kept) == 0:
        raise DataError(
            f"a log must have a positive pair of a product that the model has; got none in "
            f"{len(whole):,} rows: {pairs.rule} makes {len(pairs):,} pairs positive"
        )
    learned = _forget_words(known, whole, pairs).take(kept)
    added = np.arange(known.n_kept, len(known.products))
    public = [normalize_strings(texts.take(added)) for texts in known.texts]
    texts = Strings.concatenate([learned, *public])
    vocabulary, feature_of = extend_vocabulary(known.vectorizer.vocabulary, texts, threads=threads)
    vectorizer = Vectorizer.of(vocabulary)
    X = _round(from_scipy(vectorizer.transform(learned, threads=threads)), vocabulary.n_known)
    hashes, Y = pairs.queries.take(kept).hashes(), Y.take(kept)
    before = _recall_past(known, feature_of, vocabulary.n_features)
    if old_log is None:
        X, hashes, Y = _stack(X, before[0]), np.append(hashes, before[1]), _stack(Y, before[2])
    X, hashes, Y = _join_queries(X, hashes, Y)
    new, gone = _compare(hashes, Y, before[1], before[2])
    is_changed = np.zeros(len(known.products), dtype=np.bool_)
    is_changed[new] = is_changed[gone] = True
    n_queries_of = np.bincount(Y.indices, minlength=len(known.products))
    if old_log is None:  # which may be more than past queries tell
        n_queries_of = np.bincount(new, minlength=len(known.products))
        is_kept = known.label_of >= 0
        n_queries_of[known.label_of[is_kept]] += known.n_queries_of[is_kept]
    n_unknown = int(np.count_nonzero(label < 0))
    return RefreshData(
        vectorizer, feature_of, hashes, X, Y, is_changed, n_queries_of, len(new), n_unknown
    )


def _forget_words(known: Known, log: Log, pairs: Positives) -> Strings:
    """Return the queries without private words; what the model has learned is none."""
    counts = log.query_counts()[log.queries.index_of(pairs.queries)]
    words = _list_known_words(pairs.queries, known.vectorizer)
    public = Strings.concatenate([*known.texts, words])
    least = known.config.min_query_count
    return forget_private_words(pairs.queries, counts, public, least=least)


def _list_known_words(queries: Strings, vectorizer: Vectorizer) -> Strings:
    """Return words of normalized queries whose stems the vocabulary has, whole and in pieces."""
    pieces, _ = _native.list_words(queries.data, queries.offsets, 1)
    everything = np.ones(len(queries), dtype=np.uint8)
    _, _, whole, _ = _native.number_words(queries.data, queries.offsets, everything, 1)
    words = Strings.concatenate([Strings(*pieces), Strings(*whole)])
    starts, features = find_words(words, vectorizer)
    n_unknown = np.bincount(rows_of(starts)[features < 0], minlength=len(words))
    return words.take(np.flatnonzero((np.diff(starts) > 0) & (n_unknown == 0)))


def find_words(texts: Strings, vectorizer: Vectorizer) -> tuple[Offsets, Ids]:
    """Start of each text's words, and the feature of each word, -1 for an unknown one."""
    kinds = [(kind.unit, kind.n) for kind in vectorizer.vocabulary.config.ngrams]
    if ("word", 1) not in kinds:
        return np.zeros(len(texts) + 1, np.int64), np.empty(0, np.int32)
    kind = kinds.index(("word", 1))
    starts, _, features, _ = vectorizer.native.hash_words(texts.data, texts.offsets, kind)
    return starts, features


def _name_columns(rows: Csr, label_of: Ids, n_cols: int) -> Csr:
    """Return the same rows with other columns, without those whose new number is -1."""
    columns = label_of[rows.indices]
    is_kept = columns >= 0
    indptr = offsets_of(is_kept)[rows.indptr]
    renamed = Csr(indptr, columns[is_kept], rows.data[is_kept], n_cols).to_scipy()
    renamed.sort_indices()
    return from_scipy(renamed)


def _round(X: Csr, n_known: int) -> Csr:
    """Rows as past queries hold them: weights in 255 steps, without unknown n-grams."""
    label_of = np.where(np.arange(X.n_cols) < n_known, np.arange(X.n_cols), -1).astype(np.int32)
    kept = _name_columns(X, label_of, X.n_cols)
    weights = (round_impacts(kept.data, 1.0) / np.float32(LARGEST)).astype(np.float32)
    return Csr(kept.indptr, kept.indices, weights, X.n_cols)


def _recall_past(
    known: Known, feature_of: Ids, n_features: int
) -> tuple[Csr, NDArray[np.uint64], Csr]:
    """Rows, hashes and products of past queries, by the numbers of now."""
    past, n_products = known.model.neighbors, len(known.products)
    if past is None:
        none = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
        return Csr(*none, n_features), np.empty(0, np.uint64), Csr(*none, n_products)
    X, Y = past.rows(len(known.label_of))
    return (
        _name_columns(X, feature_of, n_features),
        past.hash_of_query(),
        _name_columns(Y, known.label_of, n_products),
    )


def _stack(first: Csr, second: Csr) -> Csr:
    return from_scipy(sp.vstack([first.to_scipy(), second.to_scipy()], format="csr"))


def _join_queries(
    X: Csr, hashes: NDArray[np.uint64], Y: Csr
) -> tuple[Csr, NDArray[np.uint64], Csr]:
    """One row of each query that has a pair: the first of X, and the sum of Y."""
    distinct, first, row_of = np.unique(hashes, return_index=True, return_inverse=True)
    entries = Y.data, (row_of.reshape(-1)[Y.row_of_entry], Y.indices)
    joined = from_scipy(sp.csr_array(entries, shape=(len(distinct), Y.n_cols)))
    kept = np.flatnonzero(np.diff(joined.indptr))
    return X.take(first[kept]), distinct[kept], joined.take(kept)


def _compare(
    hashes: NDArray[np.uint64], Y: Csr, hashes_before: NDArray[np.uint64], Y_before: Csr
) -> tuple[Ids, Ids]:
    """Products of the pairs that are new, and of those that are no more."""
    every = np.unique(np.append(hashes, hashes_before))
    now, before = (
        np.searchsorted(every, own)[rows.row_of_entry] * np.int64(Y.n_cols) + rows.indices
        for own, rows in ((hashes, Y), (hashes_before, Y_before))
    )
    is_new = ~np.isin(now, before)
    return Y.indices[is_new], Y_before.indices[~np.isin(before, now)]
