"""XR-Linear matcher: which products does a tree of linear classifiers find for a query?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from matchset import _native
from matchset.config import count_threads
from matchset.filters.filter import Filter, Where
from matchset.matchers.base import DEFAULT_BEAM, DEFAULT_K, OpenPart, Options, Sections
from matchset.matchers.explanation import Explanation
from matchset.matchers.match import Match, Matches
from matchset.matchers.registry import XR_LINEAR
from matchset.matchers.trained import TrainedMatcher
from matchset.matchers.tree_explanation import PathNames, explain_path
from matchset.matrices import Csr
from matchset.model.explain import follow_label
from matchset.model.packed import PackedTree, prune_packed, read_tree, store_tree
from matchset.model.search import search_rule
from matchset.storage.sections import Section
from matchset.strings import Strings


@dataclass(frozen=True, eq=False, kw_only=True)
class XRLinearMatcher(TrainedMatcher):
    """What `matchset.train` learned: a vectorizer, a tree of classifiers, and the products.

    A `beam` ends in as many leaves, of at most 50 products unless trained otherwise: a larger k
    needs a wider one. A query without a known n-gram gets no products.
    """

    kind: ClassVar[str] = XR_LINEAR
    takes: ClassVar[frozenset[str]] = frozenset({"beam"})
    can_explain: ClassVar[bool] = True
    tree: PackedTree
    beam: int = DEFAULT_BEAM  # nodes kept per level, where `match` is not given another number

    def explain(
        self,
        query: str,
        product: str,
        *,
        k: int = DEFAULT_K,
        beam: int | None = None,
        where: Where | None = None,
    ) -> Explanation:
        """Why a query gets a product, or where in the tree it was lost.

        Ranks along the path ignore the filter.
        """
        label = self.label_of(product)
        chosen = None if where is None else self.products.filter(where)
        rank, _ = self._find(self.match(query, k, beam=beam, where=chosen), label)
        ids, weights = self.vectorizer.encode(query)
        beam = self.beam if beam is None else beam
        found = follow_label(self.tree, ids.astype(np.int32), weights, label, k=k, beam=beam)
        title = None if self.products.titles is None else self.products.titles[label]
        return explain_path(
            found,
            query,
            self.products,
            PathNames.of(query, title, self.vectorizer, self.tree),
            rank=rank,
            is_allowed=chosen is None or bool(chosen.allowed[label]),
        )

    def with_beam(self, beam: int) -> Self:
        """The same matcher with another default beam."""
        return replace(self, beam=beam)

    def prune(self, threshold: float, *, threads: int | None = None) -> XRLinearMatcher:
        """A smaller matcher, without weights of at most `threshold` in magnitude."""
        tree = prune_packed(self.tree, threshold, threads=count_threads(threads))
        return replace(self, tree=tree, config=self.config.with_threshold(threshold))

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
        shared = self._shared_sections()
        return {  # in the order that earlier versions wrote: equal models have equal bytes
            "vectorizer": shared["vectorizer"],
            "tree": store_tree(self.tree),
            "products": shared["products"],
            "search": Section({"beam": self.beam}),
            "training": shared["training"],
        }

    @classmethod
    def _read(cls, sections: Sections, _: OpenPart) -> Self:
        return cls(
            tree=read_tree(sections["tree"]),
            beam=int(sections["search"].header["beam"]),
            **cls._read_shared(sections),
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

    def _prepare_filter(self, chosen: Filter) -> _native.Allowed:
        return self.tree.allow(chosen.allowed)
