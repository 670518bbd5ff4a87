"""Tower: what vector does a text get?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import read_vocabulary, store_vocabulary
from matchset.matrices import Floats
from matchset.parts import Part, under
from matchset.strings import Strings

_TEXTS_AT_ONCE = 8192
_SMALLEST = np.float32(1e-12)  # length that a vector is divided by


@dataclass(frozen=True, slots=True, eq=False)
class Tower:
    """The trained network as NumPy runs it: for one query faster than PyTorch does.

    tanh(mean of the embeddings of a text's n-grams + shift), scaled to unit length. Batch
    normalisation multiplies and shifts by constants once training is over: the factors are in the
    embeddings, the rest is `shift`.
    """

    vectorizer: Vectorizer
    embeddings: Floats  # of each n-gram, (n_features, dimensions)
    shift: Floats  # (dimensions,)

    def __post_init__(self) -> None:
        wanted = (self.vectorizer.n_features, *self.shift.shape)
        if self.embeddings.shape != wanted or self.shift.ndim != 1:
            raise ValueError(f"embeddings must be of {wanted}; got {self.embeddings.shape}")
        if self.embeddings.dtype != np.float32 or self.shift.dtype != np.float32:
            found = f"{self.embeddings.dtype} and {self.shift.dtype}"
            raise ValueError(f"embeddings and shift must be float32; got {found}")

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return len(self.shift)

    def encode(self, texts: Strings, *, threads: int | None = 1) -> Floats:
        """A unit vector per text, zeros where no n-gram is known, (n_texts, dimensions)."""
        if len(texts) == 1:
            return self._encode_one(texts)
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            some = slice(first, first + _TEXTS_AT_ONCE)
            rows = self.vectorizer.transform(texts[some], threads=threads)
            vectors[some] = pool_rows(rows, self.embeddings, self.shift)
        return vectors

    def _encode_one(self, texts: Strings) -> Floats:
        row = self.vectorizer.transform(texts, threads=1)
        # Added in the order of `pool_rows`: a query has the same vector alone and in a batch.
        total = np.add.reduce(self.embeddings[row.indices], axis=0, keepdims=True)
        return _finish(total, np.array([[len(row.indices)]], dtype=np.float32), self.shift)


def pool_rows(rows: csr_array, embeddings: Floats, shift: Floats) -> Floats:
    """Unit vectors of texts given as rows of n-grams, (n_rows, dimensions)."""
    ones = csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), shape=rows.shape)
    sizes = np.diff(rows.indptr).astype(np.float32)[:, np.newaxis]
    return _finish(np.asarray(ones @ embeddings), sizes, shift)


def _finish(totals: Floats, sizes: Floats, shift: Floats) -> Floats:
    vectors = np.divide(totals, np.maximum(sizes, 1), dtype=np.float32)
    vectors += shift
    np.tanh(vectors, out=vectors)
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, np.newaxis]
    vectors *= np.where(sizes > 0, 1 / np.maximum(norms, _SMALLEST), 0).astype(np.float32)
    return vectors


def store_tower(tower: Tower) -> Part:
    """A tower as a part."""
    vocabulary = store_vocabulary(tower.vectorizer.vocabulary)
    arrays = under("vocabulary", vocabulary.arrays)
    arrays |= {"embeddings": tower.embeddings, "shift": tower.shift}
    return Part({"vocabulary": vocabulary.header}, arrays)


def read_tower(part: Part) -> Tower:
    """A tower from its part."""
    vocabulary = Part(part.header["vocabulary"], part.within("vocabulary"))
    vectorizer = Vectorizer.of(read_vocabulary(vocabulary))
    return Tower(vectorizer, part.arrays["embeddings"], part.arrays["shift"])
