"""Vectorizer: how does a query become a sparse vector?"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from matchset import _native
from matchset.config import VectorizerConfig, count_threads
from matchset.errors import ModelFileError, not_fitted
from matchset.features.analysis import choose_language
from matchset.features.ngram_counts import kind_arrays
from matchset.features.vocabulary import Vocabulary, learn_vocabulary
from matchset.storage.codec import decode, encode
from matchset.storage.file import open_file, write_file
from matchset.strings import Strings
from matchset.text import normalize_strings

Rows = csr_array[np.float32, tuple[int, int]]
KIND = "vectorizer"


class Vectorizer:
    """Turns queries into TF-IDF rows over word and character n-grams.

    A row holds tf * idf of each known n-gram and is scaled to unit length: tf is how often the
    query has it, idf is ln((1 + N) / (1 + df)) + 1 over the N queries of `fit`. A feature for
    unknown n-grams counts once (tf = 1); its df is the number of queries of `fit` that had it next
    to a known n-gram, and if none had, its weight is zero. A query without any known n-gram is
    unknown: its row is empty, even if it has unknown n-grams.

    Any `str` is a query; `matchset.text` says how it is normalized, and where a long one is cut.

    It follows scikit-learn's conventions for transformers, so it can be cloned and can stand in a
    Pipeline before `XRLinear`.

    With a `language` (a code such as "de", "cjk" for scripts without spaces, or "auto" to detect it
    in `fit`), word n-grams are made of stems, without stop words. Character n-grams always come
    from the words as they are written.
    """

    def __init__(
        self, config: VectorizerConfig | None = None, *, language: str | None = None
    ) -> None:
        self.config = config or VectorizerConfig()
        self.language = language
        self._vocabulary: Vocabulary | None = None
        self._native: _native.Vocabulary | None = None
        self._one_row: Rows

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Self:
        """Return a vectorizer fitted with `vocabulary`."""
        vectorizer = cls(vocabulary.config, language=vocabulary.language)
        vectorizer._adopt(vocabulary, vocabulary.to_native())
        return vectorizer

    def to_stored(self) -> Vocabulary:
        """Return what is kept of a fitted vectorizer."""
        return self.vocabulary

    @classmethod
    def from_stored(cls, vocabulary: Vocabulary) -> Self:
        """Return a vectorizer as it was kept."""
        return cls.of(vocabulary)

    def fit(
        self,
        queries: Iterable[str],
        y: object = None,  # noqa: ARG002
        *,
        shown: NDArray[np.bool_] | None = None,
        threads: int | None = None,
    ) -> Self:
        """Learn the vocabulary of distinct queries; `y` is ignored, scikit-learn passes it.

        `shown` marks the queries that may be shown to people (see `Log.shown`). Only n-grams that
        occur in one of them keep their names; the others are nameless features.
        """
        n_threads = count_threads(threads)
        texts = normalize_strings(Strings.of(queries, "queries"), threads=n_threads)
        if shown is not None:
            shown = np.ascontiguousarray(shown, dtype=np.bool_)
            if shown.shape != (len(texts),):
                raise ValueError(
                    f"shown must have one entry per query, ({len(texts)},); got {shown.shape}"
                )
        language = choose_language(self.language, [texts], threads=n_threads)
        vocabulary = learn_vocabulary(texts, self.config, n_threads, language=language, shown=shown)
        self._adopt(vocabulary, vocabulary.to_native())
        return self

    def transform(self, queries: Iterable[str], *, threads: int | None = None) -> Rows:
        """Return a row per query: float32, sorted ids, unit length or empty, (n, n_features)."""
        texts = Strings.of(queries, "queries")
        starts, ids, weights = self._fitted().vectorize_all(
            texts.data, texts.offsets, count_threads(threads)
        )
        if len(texts) == 1:  # SciPy's checks would take most of the time of a single query
            row = copy(self._one_row)
            row.data, row.indices, row.indptr = weights, ids, starts.astype(np.int32)
            return row
        return csr_array((weights, ids, starts), shape=(len(texts), self.n_features))

    def fit_transform(
        self,
        queries: Iterable[str],
        y: object = None,  # noqa: ARG002
        *,
        threads: int | None = None,
    ) -> Rows:
        """Fit and then transform the same queries; `y` is ignored."""
        texts = Strings.of(queries, "queries")
        return self.fit(texts, threads=threads).transform(texts, threads=threads)

    def encode(self, query: str) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """Return ids and weights of one query: the row that `transform` gives, without a matrix."""
        return self._fitted().vectorize(query)

    def ngrams(self, query: str) -> list[str]:
        """Return the n-grams of a query, known or not, in readable form."""
        stems = None if self._vocabulary is None else self._vocabulary.stems
        (data, offsets), _ = _native.list_ngrams(
            query,
            *kind_arrays(self.config.ngrams),
            None if stems is None else stems.native,
        )
        return list(Strings(data, offsets))

    def name(self, feature: int) -> str:
        """Return a feature in readable form."""
        vocabulary = self.vocabulary
        if not 0 <= feature < vocabulary.n_features:
            raise IndexError(f"feature must be below {vocabulary.n_features}; got {feature}")
        if feature >= vocabulary.n_known:
            bucket = feature - vocabulary.n_known
            kind = vocabulary.config.ngrams[bucket // vocabulary.config.oov_buckets]
            return f"(unknown {kind.unit} {kind.n}-gram)"
        return vocabulary.names[feature] or "(not shown)"

    @property
    def vocabulary(self) -> Vocabulary:
        """What `fit` learned."""
        if self._vocabulary is None:
            raise _not_fitted()
        return self._vocabulary

    @property
    def native(self) -> _native.Vocabulary:
        """The vocabulary in the form that search needs."""
        return self._fitted()

    @property
    def n_features(self) -> int:
        """Number of columns of what `transform` returns."""
        return self.vocabulary.n_features

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the vocabulary to a new file."""
        write_file(Path(path), KIND, *encode(self.vocabulary), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Open a file that `save` wrote: memory-mapped, in milliseconds for any size."""
        opened = open_file(path, KIND)
        try:
            return cls.of(decode(Vocabulary, opened.header.value, opened.arrays))
        except (IndexError, TypeError, ValueError) as error:
            raise ModelFileError(f"the vectorizer is damaged: {error}", path=path) from None

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return parameters by name; `deep` has no effect, as no parameter is an estimator."""
        return {"config": self.config, "language": self.language}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; they take effect at the next `fit`."""
        for name, value in params.items():
            if name not in ("config", "language"):
                raise ValueError(f"parameters must be among config, language; got {name!r}")
            setattr(self, name, value or VectorizerConfig() if name == "config" else value)
        return self

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know; only scikit-learn calls this."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether `fit` has been called."""
        return self._vocabulary is not None

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the configuration and arrays, also if memory-mapped."""
        return {**self.get_params(), "vocabulary": self._vocabulary}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.config, self.language = state["config"], state["language"]
        self._vocabulary = self._native = None
        vocabulary: Vocabulary | None = state["vocabulary"]
        if vocabulary is not None:
            self._adopt(vocabulary, vocabulary.to_native())

    def __repr__(self) -> str:
        if self._vocabulary is None:
            return "Vectorizer(not fitted)"
        kinds = zip(self._vocabulary.config.ngrams, self._vocabulary.sizes, strict=True)
        known = ", ".join(f"{size:,} {kind.unit} {kind.n}-grams" for kind, size in kinds)
        language = self._vocabulary.language
        return f"Vectorizer({known}{'' if language is None else f'; language {language}'})"

    def _fitted(self) -> _native.Vocabulary:
        if self._native is None:
            raise _not_fitted()
        return self._native

    def _adopt(self, vocabulary: Vocabulary, native: _native.Vocabulary) -> None:
        self._vocabulary, self._native = vocabulary, native
        nothing = (np.empty(0, np.float32), np.empty(0, np.int32), np.zeros(2, np.int32))
        self._one_row = csr_array(nothing, shape=(1, vocabulary.n_features))


def _not_fitted() -> Exception:
    return not_fitted("the vectorizer must be fitted first; call fit(queries)")
