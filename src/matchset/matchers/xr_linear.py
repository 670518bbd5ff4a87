"""Tree matcher: XR-Linear over text, which the paper is about."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, overload
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import TrainConfig, count_threads, read_config
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import read_vocabulary, store_vocabulary
from matchset.filters.filter import Filter, Where
from matchset.learn.summary import TrainSummary
from matchset.matchers.base import DEFAULT_K, check_k, to_texts
from matchset.matchers.explanation import Reasons, name_reasons
from matchset.matchers.match import Match, Matches
from matchset.matchers.registry import TREE, require_kind
from matchset.matrices import Csr, Ids
from matchset.model.explain import explain
from matchset.model.packed import PackedTree, prune_packed, read_tree, store_tree
from matchset.model.products import Products, read_products, store_products
from matchset.model.search import search_rule
from matchset.storage.sections import Part, open_parts, read_part, save_parts
from matchset.strings import Strings
from matchset.text import normalize_strings

DEFAULT_BEAM = 10


@dataclass(frozen=True, slots=True, eq=False)
class XRLinearMatcher:
    """What `matchset.train` learned: a vectorizer, a tree of classifiers, and the products.

    Nothing in it changes, so any number of threads may ask at once.
    """

    vectorizer: Vectorizer
    tree: PackedTree
    products: Products
    config: TrainConfig
    query_hashes: NDArray[np.uint64]  # of the queries trained on, ascending
    n_queries_of: NDArray[np.int64]  # positive queries of each product, (n_products,)
    provenance: Mapping[str, Any] = field(default_factory=dict)  # when, from what, how
    _allowed: WeakKeyDictionary[Filter, _native.Allowed] = field(
        init=False, repr=False, default_factory=WeakKeyDictionary
    )

    @overload
    def match(  # type: ignore[overload-overlap]
        self,
        queries: str,
        k: int = ...,
        *,
        beam: int = ...,
        where: Where | None = ...,
        min_score: float | None = ...,
        or_popular: bool = ...,
        threads: int | None = ...,
    ) -> Match: ...
    @overload
    def match(
        self,
        queries: Iterable[str],
        k: int = ...,
        *,
        beam: int = ...,
        where: Where | None = ...,
        min_score: float | None = ...,
        or_popular: bool = ...,
        threads: int | None = ...,
    ) -> Matches: ...
    def match(
        self,
        queries: str | Iterable[str],
        k: int = DEFAULT_K,
        *,
        beam: int = DEFAULT_BEAM,
        where: Where | None = None,
        min_score: float | None = None,
        or_popular: bool = False,
        threads: int | None = None,
    ) -> Match | Matches:
        """The k best products of one query, or of each of many.

        A wider `beam` looks at more of the tree: slower, and better up to a point. It ends in as
        many leaves, of at most 50 products unless trained otherwise: a larger k needs a wider one.
        `where` allows some products only (see `filter`). Products below `min_score` are left out. A
        query without a known n-gram gets no products, or with `or_popular` those with the most
        training queries, with a score of 0.
        """
        most = min(check_k(k), len(self.products)) or 1
        rule = search_rule(most, beam, min_score=min_score)
        allowed = None if where is None else self._allow(self.filter(where))
        if isinstance(queries, str):  # the short way: a few microseconds count here
            labels, scores = self.tree.search_text(self.vectorizer.native, queries, rule, allowed)
            if len(labels) == 0 and or_popular and len(self.vectorizer.encode(queries)[0]) == 0:
                labels = self._popular(most, where)
                scores = np.zeros(len(labels), dtype=np.float32)
            return Match(queries, labels, scores, self.products)
        texts = to_texts(queries)
        found = self.tree.search_texts(
            self.vectorizer.native, texts, rule, allowed, threads=count_threads(threads)
        )
        if or_popular:
            found = self._or_popular(texts, found, most, where)
        return Matches(texts, found, self.products)

    def filter(self, what: Where) -> Filter:
        """A filter to use again and again: `match(..., where=filter)`.

        From an expression such as "in_stock and price < 20", product ids, or a boolean array.
        """
        return self.products.filter(what)

    def explain(
        self, query: str, product: str, *, k: int = DEFAULT_K, beam: int = DEFAULT_BEAM
    ) -> Reasons:
        """Why a query gets a product, or where in the tree it was lost."""
        label = int(self.products.labels([product])[0])
        if label < 0:
            raise ValueError(f"product must be one of the matcher's; got {product!r}")
        ids, weights = self.vectorizer.encode(query)
        found = explain(self.tree, ids.astype(np.int32), weights, label, k=k, beam=beam)
        return name_reasons(found, query, self.products, self.vectorizer, self.tree)

    def prune(self, threshold: float, *, threads: int | None = None) -> XRLinearMatcher:
        """A smaller matcher, without weights of at most `threshold` in magnitude."""
        tree = prune_packed(self.tree, threshold, threads=count_threads(threads))
        learn = replace(self.config.learn, threshold=max(threshold, self.config.learn.threshold))
        return replace(self, tree=tree, config=replace(self.config, learn=learn))

    @property
    def summary(self) -> TrainSummary | None:
        """Figures of the training; None for a model that has no record of it."""
        stored = self.provenance.get("summary")
        return None if stored is None else TrainSummary.from_dict(stored)

    def is_seen(self, queries: Strings) -> NDArray[np.bool_]:
        """Which queries it was trained on, (n_queries,)."""
        hashes = normalize_strings(queries).hashes()
        return np.isin(hashes, self.query_hashes)

    def is_warm(self, ids: Strings) -> NDArray[np.bool_]:
        """Which products had a positive query in training, (n_ids,)."""
        labels = self.products.ids.index_of(ids)
        return np.asarray((labels >= 0) & (self.n_queries_of[labels] > 0))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model to a folder, at once or not at all; its files never change afterwards."""
        memory = {"query_hashes": self.query_hashes, "n_queries_of": self.n_queries_of}
        parts = {
            "vectorizer": store_vocabulary(self.vectorizer.vocabulary),
            "tree": store_tree(self.tree),
            "products": store_products(self.products),
            "memory": Part(arrays=memory),
        }
        header = {"config": asdict(self.config), "provenance": dict(self.provenance)}
        save_parts(path, parts, header=header, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> XRLinearMatcher:
        """Open a saved model: memory-mapped, shared between processes, in milliseconds."""
        header, parts = open_parts(path)
        require_kind(path, header, TREE)

        def read() -> XRLinearMatcher:
            memory = parts["memory"].arrays
            return cls(
                vectorizer=Vectorizer.of(read_vocabulary(parts["vectorizer"])),
                tree=read_tree(parts["tree"]),
                products=read_products(parts["products"]),
                config=read_config(header["config"]),
                query_hashes=memory["query_hashes"],
                n_queries_of=memory["n_queries_of"],
                provenance=header["provenance"],
            )

        return read_part(path, "model", read)

    def __post_init__(self) -> None:
        n_labels, n_features = len(self.products), self.vectorizer.n_features
        found = (self.tree.n_labels, self.tree.n_features, len(self.n_queries_of))
        if found != (n_labels, n_features, n_labels):
            raise ValueError(
                f"a tree must be of {n_labels:,} products and {n_features:,} features; "
                f"got one of {self.tree.n_labels:,} and {self.tree.n_features:,}"
            )

    def __repr__(self) -> str:
        return (
            f"XRLinearMatcher({len(self.products):,} products, "
            f"{self.vectorizer.n_features:,} features, {self.tree.n_weights:,} weights)"
        )

    def _popular(self, k: int, where: Where | None) -> Ids:
        """The allowed products with the most training queries, ties by label."""
        counts = self.n_queries_of
        if where is not None:
            counts = counts * self.filter(where).allowed
        best = np.argsort(-counts, kind="stable")[:k]
        return best[counts[best] > 0].astype(np.int32)

    def _or_popular(self, texts: Strings, found: Csr, k: int, where: Where | None) -> Csr:
        """Give the popular products to texts without a known n-gram."""
        is_unknown = np.diff(self.vectorizer.transform(texts).indptr) == 0
        popular = self._popular(k, where)
        sizes = np.where(is_unknown, len(popular), np.diff(found.indptr))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        columns, values = np.empty(offsets[-1], np.int32), np.zeros(offsets[-1], np.float32)
        is_popular = np.repeat(is_unknown, sizes)
        columns[is_popular] = np.tile(popular, np.count_nonzero(is_unknown))
        columns[~is_popular], values[~is_popular] = found.indices, found.data
        return Csr(offsets, columns, values, found.n_cols)

    def _allow(self, chosen: Filter) -> _native.Allowed:
        """A filter as the tree takes it, made once for each."""
        allowed = self._allowed.get(chosen)
        if allowed is None:
            allowed = self._allowed[chosen] = self.tree.allow(chosen.allowed)
        return allowed
