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
            return self._encode_one(texts[0])
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            some = slice(first, first + _TEXTS_AT_ONCE)
            rows = self.vectorizer.transform(texts[some], threads=threads)
            vectors[some] = pool_rows(rows, self.embeddings, self.shift)
        return vectors

    def _encode_one(self, text: str) -> Floats:
        """The short way: a few microseconds count here."""
        ids, _ = self.vectorizer.encode(text)
        if len(ids) == 0:
            return np.zeros((1, self.dimensions), dtype=np.float32)
        # Added in the order of `pool_rows`: a query has the same vector alone and in a batch.
        total = np.add.reduce(self.embeddings.take(ids, axis=0), axis=0, keepdims=True)
        return _finish(total, np.float32(len(ids)), self.shift)


def pool_rows(rows: csr_array, embeddings: Floats, shift: Floats) -> Floats:
    """Unit vectors of texts given as rows of n-grams, zeros of empty rows, (n_rows, dimensions)."""
    ones = csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), shape=rows.shape)
    sizes = np.diff(rows.indptr).astype(np.float32)[:, np.newaxis]
    vectors = _finish(np.asarray(ones @ embeddings), np.maximum(sizes, 1), shift)
    vectors[sizes[:, 0] == 0] = 0
    return vectors


def _finish(totals: Floats, sizes: Floats | np.float32, shift: Floats) -> Floats:
    vectors = np.divide(totals, sizes, dtype=np.float32)
    vectors += shift
    np.tanh(vectors, out=vectors)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    vectors /= np.maximum(lengths, _SMALLEST)[:, np.newaxis]
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
    # Still mapped, but without what NumPy's memmap does at every slice.
    weights = map(np.asarray, (part.arrays["embeddings"], part.arrays["shift"]))
    return Tower(vectorizer, *weights)
