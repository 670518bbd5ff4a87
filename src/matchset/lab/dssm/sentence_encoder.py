"""Sentence encoder: which titles mean what a query means, to a model that never saw the shop?"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.errors import ParameterError
from matchset.filters.filter import Filter
from matchset.lab.dssm.hnsw import Graph, build_graph
from matchset.lab.dssm.settings import import_extra
from matchset.matchers.base import Matcher
from matchset.matrices import Csr, Floats
from matchset.model.products import Products, make_products
from matchset.strings import Strings
from matchset.text import normalize_strings

EXTRA = "encoder"
FOLDER = "MATCHSET_ENCODER"  # environment variable
_TITLES_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Encoder:
    """A model of sentence-transformers, opened when it is first used."""

    digest: str  # of all its files
    folder: Path | None = None  # None: as the environment says
    lock: Lock = field(default_factory=Lock, repr=False)  # tokenizers are not safe for threads

    @classmethod
    def of(cls, folder: str | os.PathLike[str]) -> Self:
        """Return the encoder in a folder."""
        return cls(digest_folder(Path(folder)), Path(folder))

    @cached_property
    def model(self) -> Any:
        """The opened model; a folder with other files is an error."""
        folder = self.folder or os.environ.get(FOLDER)
        if not folder:
            rule = f"must be at hand; set {FOLDER} to its folder"
            raise ParameterError(rule, parameter="encoder")
        if self.folder is None and digest_folder(Path(folder)) != self.digest:
            rule = f"must be the one that encoded the titles; got another in {folder}"
            raise ParameterError(rule, parameter="encoder")
        package = import_extra("sentence_transformers", EXTRA, "a sentence encoder")
        return package.SentenceTransformer(str(folder), local_files_only=True)

    def to_stored(self) -> str:
        """Return what is kept of it: the checksum of its files."""
        return self.digest

    @classmethod
    def from_stored(cls, stored: str) -> Self:
        """Return the encoder with this checksum, found when it is first used."""
        return cls(stored)

    def encode(self, texts: Strings, *, at_once: int = 1) -> Floats:
        """Return a unit vector per text, (n_texts, dimensions).

        One at a time, a text has the same vector alone and among others.
        """
        model = self.model
        with self.lock:
            found = model.encode(
                list(texts),
                batch_size=at_once,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        vectors: Floats = np.ascontiguousarray(found, dtype=np.float32)
        return vectors


def digest_folder(folder: Path) -> str:
    """Return a checksum of all files of a folder, by their names and bytes."""
    if not (folder / "modules.json").is_file():
        rule = f"must be a folder of sentence-transformers, with modules.json; got {folder}"
        raise ParameterError(rule, parameter="encoder")
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(folder)}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False, repr=False)
class SentenceEncoder(Matcher):
    """Products by the cosine of query and title in a pretrained sentence encoder, with HNSW.

    The encoder is any sentence-transformers folder, and learns nothing from the log. It needs the
    extra `encoder`. A saved matcher holds the vectors of the titles, not the encoder. To use it,
    set the environment variable MATCHSET_ENCODER to the encoder's folder.
    """

    kind: ClassVar[str] = "sentence_encoder"
    products: Products
    encoder: Encoder
    vectors: Floats  # unit length, zeros for empty titles, (n_products, dimensions)
    threads: int | None = 1  # that build the graph; with more it is another one each time

    def __post_init__(self) -> None:
        shape, n = self.vectors.shape, len(self.products)
        if len(shape) != 2 or shape[0] != n or self.vectors.dtype != np.float32:
            found = f"{self.vectors.dtype} of {shape}"
            raise ValueError(f"vectors must be float32 of {n} products; got {found}")

    @classmethod
    def from_catalog(
        cls, catalog: Catalog, folder: str | os.PathLike[str], *, threads: int | None = None
    ) -> Self:
        """Encode the titles with the encoder in a folder, and build the paper's graph of them."""
        encoder = Encoder.of(folder)
        vectors = encoder.encode(catalog.titles, at_once=_TITLES_AT_ONCE)
        vectors[_is_empty(catalog.titles)] = 0
        matcher = cls(make_products(catalog.ids, catalog), encoder, vectors, threads)
        matcher.graph  # noqa: B018  # built now, not by the first query
        return matcher

    @cached_property
    def graph(self) -> Graph:
        """The paper's graph, built when it is first searched."""
        return build_graph(self.vectors, threads=self.threads)

    @property
    def vectorize(self) -> Callable[[str], Floats]:
        """The query's vector."""
        return lambda query: self.encoder.encode(Strings.of([query]))

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        encoded = np.zeros((len(queries), self.vectors.shape[1]), dtype=np.float32)
        if len(rows := np.flatnonzero(~_is_empty(queries))):
            encoded[rows] = self.encoder.encode(queries.take(rows))
        return self.graph.search_allowed(encoded, k, where)

    def __repr__(self) -> str:
        shape = f"{len(self.products):,} products, {self.vectors.shape[1]} dimensions"
        return f"{type(self).__name__}({shape})"


def _is_empty(texts: Strings) -> NDArray[np.bool_]:
    """Return which texts have nothing to encode, (n_texts,)."""
    return np.equal(normalize_strings(texts).lengths, 0)
