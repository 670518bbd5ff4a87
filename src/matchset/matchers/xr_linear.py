"""XR-Linear matcher: which products does a tree of linear classifiers find for a query?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from matchset import _native
from matchset.config import count_threads
from matchset.filters.filter import Filter, Where
from matchset.matchers.base import DEFAULT_BEAM, DEFAULT_K, Options
from matchset.matchers.explain import Question, explain_tree
from matchset.matchers.explanation import Explanation
from matchset.matchers.match import Match, Matches
from matchset.matchers.registry import XR_LINEAR
from matchset.matchers.trained import TrainedMatcher
from matchset.matrices import Csr, Ids
from matchset.model.packed import PackedTree, prune_packed
from matchset.model.search import search_rule
from matchset.strings import Strings


@dataclass(frozen=True, eq=False, kw_only=True)
class XRLinearMatcher(TrainedMatcher):
    """XR-Linear over text: a vectorizer, a tree of classifiers, and the products.

    `matchset.train` returns it with `parts=("tree",)`. A search with a `beam` of n ends in n
    leaves, each with at most 50 products unless trained otherwise, so a larger k needs a wider
    beam. A query without a known n-gram gets no products.
    """

    kind: ClassVar[str] = XR_LINEAR
    takes: ClassVar[frozenset[str]] = frozenset({"beam"})
    can_explain: ClassVar[bool] = True
    tree: PackedTree
    beam: int = DEFAULT_BEAM  # nodes kept per level, where `match` is not given another number
    labels: Ids | None = None  # of each product in the tree, -1 for one that came later

    def explain(
        self,
        query: str,
        product: str,
        *,
        k: int = DEFAULT_K,
        beam: int | None = None,
        new_share: float | None = None,
        where: Where | None = None,
    ) -> Explanation:
        """Explain why a query gets a product, or where in the tree it was lost.

        Ranks along the path ignore the filter.
        """
        label = self.label_of(product)
        chosen = None if where is None else self.products.filter(where)
        is_allowed = chosen is None or bool(chosen.allowed[label])
        answer = self.match(query, k, beam=beam, new_share=new_share, where=chosen)
        question = Question(answer, label, k, is_allowed, self.vectorizer)
        inside = label if self.labels is None else int(self.labels[label])
        return explain_tree(question, self.tree, inside, self.beam if beam is None else beam)

    def with_beam(self, beam: int) -> Self:
        """Return the same matcher with another default beam."""
        return replace(self, beam=beam)

    def prune(self, threshold: float, *, threads: int | None = None) -> XRLinearMatcher:
        """Return a smaller matcher, without weights of at most `threshold` in magnitude."""
        tree = prune_packed(self.tree, threshold, threads=count_threads(threads))
        return replace(self, tree=tree, config=self.config.with_threshold(threshold))

    def _match_one(self, query: str, options: Options) -> Match:
        k, where, beam, _ = options
        rule = search_rule(k, self.beam if beam is None else beam)
        allowed = self._present if where is None else self._allow(where)
        labels, scores = self.tree.search_text(self.vectorizer.native, query, rule, allowed)
        if self.labels is not None:
            labels = self._product_of[labels]
        return Match(query, labels, scores, self.products)

    def _match_many(self, queries: Strings, options: Options) -> Matches:
        k, where, beam, _ = options
        return Matches(queries, self._search(queries, k, where, beam), self.products)

    def _search(
        self, queries: Strings, k: int, where: Filter | None, beam: int | None = None
    ) -> Csr:
        allowed = self._present if where is None else self._allow(where)
        rule = search_rule(k, self.beam if beam is None else beam)
        native = self.vectorizer.native
        threads = count_threads(None)
        found = self.tree.search_texts(native, queries, rule, allowed, threads=threads)
        if self.labels is None:
            return found
        return Csr(found.indptr, self._product_of[found.indices], found.data, len(self.products))

    @cached_property
    def _product_of(self) -> Ids:
        """The product of each label of the tree, -1 where it was removed."""
        if self.labels is None:
            return np.arange(self.tree.n_labels, dtype=np.int32)
        product_of = np.full(self.tree.n_labels, -1, dtype=np.int32)
        inside = np.flatnonzero(self.labels >= 0)
        product_of[self.labels[inside]] = inside
        return product_of

    @cached_property
    def _present(self) -> _native.Allowed | None:
        """What a search without a filter allows; None: all."""
        is_there = self._product_of >= 0
        return None if is_there.all() else self.tree.allow(is_there)

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ValueError(f"beam must be at least 1; got {self.beam}")
        n_labels, n_features = len(self.products), self.vectorizer.n_features
        if self.labels is not None:
            self._check_labels(self.labels)
            n_labels = self.tree.n_labels
        found = (self.tree.n_labels, self.tree.n_features, len(self.n_queries_of))
        if found != (n_labels, n_features, len(self.products)):
            raise ValueError(
                f"the tree must have {n_labels:,} products and {n_features:,} features; "
                f"got one with {self.tree.n_labels:,} and {self.tree.n_features:,}"
            )

    def _check_labels(self, labels: Ids) -> None:
        inside = labels[labels >= 0]
        is_map = labels.dtype == np.int32 and labels.shape == (len(self.products),)
        if not is_map or np.any(inside >= self.tree.n_labels) or np.any(np.diff(inside) <= 0):
            raise ValueError(f"labels must be one per product, ascending; got {labels.shape}")

    def __repr__(self) -> str:
        return (
            f"XRLinearMatcher({len(self.products):,} products, "
            f"{self.vectorizer.n_features:,} features, {self.tree.n_weights:,} weights)"
        )

    def _prepare_filter(self, chosen: Filter) -> _native.Allowed:
        if self.labels is None:
            return self.tree.allow(chosen.allowed)
        return self.tree.allow(np.append(chosen.allowed, False)[self._product_of])
