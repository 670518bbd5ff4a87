"""XR-Linear matcher: which products does a tree of linear classifiers find for a query?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import TrainConfig, count_threads, read_config
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import read_vocabulary, store_vocabulary
from matchset.filters.filter import Filter
from matchset.learn.summary import TrainSummary
from matchset.matchers.base import (
    DEFAULT_BEAM,
    DEFAULT_K,
    Matcher,
    OpenPart,
    Options,
    Sections,
    TrainingRecord,
)
from matchset.matchers.explanation import Explanation, name_path
from matchset.matchers.match import Match, Matches
from matchset.matchers.registry import XR_LINEAR
from matchset.matrices import Csr
from matchset.model.explain import follow_label
from matchset.model.packed import PackedTree, prune_packed, read_tree, store_tree
from matchset.model.products import Products, read_products, store_products
from matchset.model.search import search_rule
from matchset.storage.sections import Section, read_object
from matchset.strings import Strings


@dataclass(frozen=True, eq=False)
class XRLinearMatcher(Matcher):
    """What `matchset.train` learned: a vectorizer, a tree of classifiers, and the products.

    A `beam` ends in as many leaves, of at most 50 products unless trained otherwise: a larger k
    needs a wider one. A query without a known n-gram gets no products.
    """

    kind: ClassVar[str] = XR_LINEAR
    takes: ClassVar[frozenset[str]] = frozenset({"beam"})
    can_explain: ClassVar[bool] = True
    vectorizer: Vectorizer
    tree: PackedTree
    products: Products
    config: TrainConfig
    query_hashes: NDArray[np.uint64]  # of the training queries, ascending
    n_queries_of: NDArray[np.int64]  # positive queries of each product, (n_products,)
    provenance: Mapping[str, Any] = field(default_factory=dict)  # when, from what, how
    beam: int = DEFAULT_BEAM  # nodes kept per level, where `match` is not given another number
    _allowed: WeakKeyDictionary[Filter, _native.Allowed] = field(
        init=False, repr=False, default_factory=WeakKeyDictionary
    )

    def explain(
        self, query: str, product: str, *, k: int = DEFAULT_K, beam: int | None = None
    ) -> Explanation:
        """Why a query gets a product, or where in the tree it was lost."""
        label = int(self.products.index_of([product])[0])
        if label < 0:
            raise ValueError(f"product must be one of the matcher's products; got {product!r}")
        ids, weights = self.vectorizer.encode(query)
        beam = self.beam if beam is None else beam
        found = follow_label(self.tree, ids.astype(np.int32), weights, label, k=k, beam=beam)
        return name_path(found, query, self.products, self.vectorizer, self.tree)

    def with_beam(self, beam: int) -> Self:
        """The same matcher with another default beam."""
        return replace(self, beam=beam)

    def prune(self, threshold: float, *, threads: int | None = None) -> XRLinearMatcher:
        """A smaller matcher, without weights of at most `threshold` in magnitude."""
        tree = prune_packed(self.tree, threshold, threads=count_threads(threads))
        learn = replace(self.config.learn, threshold=max(threshold, self.config.learn.threshold))
        return replace(self, tree=tree, config=replace(self.config, learn=learn))

    @property
    def training(self) -> TrainingRecord:
        """What it remembers of its training."""
        return TrainingRecord(
            self.products, self.query_hashes, self.n_queries_of, self.config, self.provenance
        )

    @property
    def summary(self) -> TrainSummary | None:
        """Figures of the training; None for a model that has no record of it."""
        stored = self.provenance.get("summary")
        return None if stored is None else TrainSummary.from_dict(stored)

    @property
    def vectorize(self) -> Callable[[str], object]:
        """Ids and weights of a query's n-grams."""
        return self.vectorizer.encode

    @property
    def n_features(self) -> int:
        """Known n-grams."""
        return self.vectorizer.vocabulary.n_known

    def _match_one(self, query: str, options: Options) -> Match:
        k, where, beam = options
        rule = search_rule(k, self.beam if beam is None else beam)
        allowed = None if where is None else self._allow(where)
        labels, scores = self.tree.search_text(self.vectorizer.native, query, rule, allowed)
        return Match(query, labels, scores, self.products)

    def _match_many(self, queries: Strings, options: Options) -> Matches:
        k, where, beam = options
        rule = search_rule(k, self.beam if beam is None else beam)
        return Matches(queries, self._beam_search(queries, rule, where), self.products)

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        return self._beam_search(queries, search_rule(k, self.beam), where)

    def _beam_search(self, queries: Strings, rule: _native.SearchRule, where: Filter | None) -> Csr:
        allowed = None if where is None else self._allow(where)
        threads = count_threads(None)
        return self.tree.search_texts(
            self.vectorizer.native, queries, rule, allowed, threads=threads
        )

    def _sections(self) -> Sections:
        about = {"config": asdict(self.config), "provenance": dict(self.provenance)}
        memory = {"query_hashes": self.query_hashes, "n_queries_of": self.n_queries_of}
        return {
            "vectorizer": store_vocabulary(self.vectorizer.vocabulary),
            "tree": store_tree(self.tree),
            "products": store_products(self.products),
            "search": Section({"beam": self.beam}),
            "training": Section(about, memory),
        }

    @classmethod
    def _read(cls, sections: Sections, _: OpenPart) -> Self:
        training = sections["training"]
        return cls(
            vectorizer=Vectorizer.of(read_vocabulary(sections["vectorizer"])),
            tree=read_tree(sections["tree"]),
            products=read_products(sections["products"]),
            config=read_config(read_object(training.header["config"])),
            query_hashes=training.arrays["query_hashes"],
            n_queries_of=training.arrays["n_queries_of"],
            provenance=read_object(training.header["provenance"]),
            beam=int(sections["search"].header["beam"]),
        )

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ValueError(f"beam must be at least 1; got {self.beam}")
        n_labels, n_features = len(self.products), self.vectorizer.n_features
        found = (self.tree.n_labels, self.tree.n_features, len(self.n_queries_of))
        if found != (n_labels, n_features, n_labels):
            raise ValueError(
                f"the tree must have {n_labels:,} products and {n_features:,} features; "
                f"got one with {self.tree.n_labels:,} and {self.tree.n_features:,}"
            )

    def __repr__(self) -> str:
        return (
            f"XRLinearMatcher({len(self.products):,} products, "
            f"{self.vectorizer.n_features:,} features, {self.tree.n_weights:,} weights)"
        )

    def _allow(self, chosen: Filter) -> _native.Allowed:
        """The filter in the form of the tree, made once."""
        allowed = self._allowed.get(chosen)
        if allowed is None:
            allowed = self._allowed[chosen] = self.tree.allow(chosen.allowed)
        return allowed
