"""Vectorizer: what does a query say, as a sparse vector?"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from matchset import _native
from matchset.config import VectorizerConfig, count_threads
from matchset.features.vocabulary import (
    Vocabulary,
    kind_arrays,
    learn_vocabulary,
    read_vocabulary,
    store_vocabulary,
)
from matchset.storage.folders import open_folder, write_folder
from matchset.storage.sections import Section, read_section
from matchset.strings import Strings
from matchset.text import normalize_strings

Rows = csr_array[np.float32, tuple[int, int]]
KIND = "vectorizer"
NOT_FITTED = "the vectorizer must be fitted first; call fit(queries)"


class Vectorizer:
    """Queries to TF-IDF rows over word and character n-grams.

    A row holds tf * idf per known n-gram, tf being how often the query has it and idf being
    ln((1 + N) / (1 + df)) + 1 over the N queries of `fit`, and is scaled to unit length. An id for
    unknown n-grams counts once (tf = 1); its df is the number of queries of `fit` that had it
    beside a known n-gram, and it is silent where none had. A query without any known n-gram is
    unknown: its row is empty, whatever its unknown n-grams are.

    Any `str` is a query; matchset.text tells how it is normalised, and where a long one is cut.
    """

    def __init__(self, config: VectorizerConfig | None = None) -> None:
        self.config = config or VectorizerConfig()
        self._vocabulary: Vocabulary | None = None
        self._native: _native.Vocabulary | None = None
        self._one_row: Rows

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Self:
        """A vectorizer that has learned `vocabulary`."""
        vectorizer = cls(vocabulary.config)
        vectorizer._adopt(vocabulary)
        return vectorizer

    def fit(
        self,
        queries: Iterable[str],
        *,
        shown: NDArray[np.bool_] | None = None,
        threads: int | None = None,
    ) -> Self:
        """Learn the vocabulary of distinct queries.

        `shown` marks the queries that may be shown (see `Log.shown`): only n-grams that one of them
        has keep their name. The others are features like any, without a name.
        """
        n_threads = count_threads(threads)
        texts = normalize_strings(Strings.of(queries, "queries"), threads=n_threads)
        fitted = self.of(learn_vocabulary(texts, self.config, n_threads))
        vocabulary = fitted.vocabulary
        if shown is not None:
            shown = np.asarray(shown, dtype=np.bool_)
            if shown.shape != (len(texts),):
                raise ValueError(
                    f"shown must have one entry per query, ({len(texts)},); got {shown.shape}"
                )
            may_show = fitted.transform(texts.take(np.flatnonzero(shown)), threads=n_threads)
            named = np.isin(np.arange(vocabulary.n_known), may_show.indices)
            vocabulary = replace(vocabulary, names=_blank_unless(named, vocabulary.names))
        self._adopt(vocabulary)
        return self

    def transform(self, queries: Iterable[str], *, threads: int | None = None) -> Rows:
        """One row per query: float32, sorted ids, unit length or empty, (n_queries, n_features)."""
        texts = Strings.of(queries, "queries")
        starts, ids, weights = self._fitted().vectorize_all(
            texts.data, texts.offsets, count_threads(threads)
        )
        if len(texts) == 1:  # SciPy's checks would take most of the time of a single query
            row = copy(self._one_row)
            row.data, row.indices, row.indptr = weights, ids, starts.astype(np.int32)
            return row
        return csr_array((weights, ids, starts), shape=(len(texts), self.n_features))

    def fit_transform(self, queries: Iterable[str], *, threads: int | None = None) -> Rows:
        """`fit`, then `transform` of the same queries."""
        texts = Strings.of(queries, "queries")
        return self.fit(texts, threads=threads).transform(texts, threads=threads)

    def encode(self, query: str) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """Ids and weights of one query: the row that `transform` gives, without a matrix."""
        return self._fitted().vectorize(query)

    def encode_into(self, query: str, ids: NDArray[np.uint32], weights: NDArray[np.float32]) -> int:
        """`encode` into the caller's buffers; returns how many features were written."""
        return self._fitted().vectorize_into(query, ids, weights)

    def ngrams(self, query: str) -> list[str]:
        """The n-grams of a query, known or not, as people read them."""
        (data, offsets), _ = _native.list_ngrams(query, *kind_arrays(self.config.ngrams))
        return list(Strings(data, offsets))

    def name(self, feature: int) -> str:
        """A feature as people read it."""
        vocabulary = self.vocabulary
        if not 0 <= feature < vocabulary.n_features:
            raise IndexError(f"feature must be below {vocabulary.n_features}; got {feature}")
        if feature >= vocabulary.n_known:
            kind = self.config.ngrams[(feature - vocabulary.n_known) // self.config.oov_buckets]
            return f"(unknown {kind.unit} {kind.n}-gram)"
        return vocabulary.names[feature] or "(not shown)"

    @property
    def vocabulary(self) -> Vocabulary:
        """What `fit` learned."""
        if self._vocabulary is None:
            raise ValueError(NOT_FITTED)
        return self._vocabulary

    @property
    def native(self) -> _native.Vocabulary:
        """The vocabulary as search takes it."""
        return self._fitted()

    @property
    def n_features(self) -> int:
        """Number of columns that `transform` gives."""
        return self.vocabulary.n_features

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the vocabulary to a new folder."""
        part = store_vocabulary(self.vocabulary)
        write_folder(
            Path(path), KIND, header=part.header, arrays=part.arrays, overwrite=overwrite
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Open a folder that `save` wrote: memory-mapped, in milliseconds whatever its size."""
        part = Section(*open_folder(Path(path), KIND))
        return read_section(path, KIND, lambda: cls.of(read_vocabulary(part)))

    def __repr__(self) -> str:
        if self._vocabulary is None:
            return "Vectorizer(not fitted)"
        kinds = zip(self.config.ngrams, self._vocabulary.sizes, strict=True)
        known = ", ".join(f"{size:,} {kind.unit} {kind.n}-grams" for kind, size in kinds)
        return f"Vectorizer({known})"

    def _fitted(self) -> _native.Vocabulary:
        if self._native is None:
            raise ValueError(NOT_FITTED)
        return self._native

    def _adopt(self, vocabulary: Vocabulary) -> None:
        self._vocabulary, self._native = vocabulary, vocabulary.to_native()
        nothing = (np.empty(0, np.float32), np.empty(0, np.int32), np.zeros(2, np.int32))
        self._one_row = csr_array(nothing, shape=(1, vocabulary.n_features))


def _blank_unless(named: NDArray[np.bool_], names: Strings) -> Strings:
    lengths = np.where(named, names.lengths, 0)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Strings(names.data[np.repeat(named, names.lengths)], offsets)
