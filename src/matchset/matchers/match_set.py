"""Match set matcher: which products answer a query, by all parts together?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import TrainConfig, count_threads, read_config
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import Vocabulary, read_vocabulary, store_vocabulary
from matchset.filters.filter import Filter
from matchset.learn.summary import TrainSummary
from matchset.matchers.base import Matcher, OpenPart, Options, Sections, TrainingRecord
from matchset.matchers.match import Match, Matches
from matchset.matchers.registry import MATCH_SET
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.matrices import Csr
from matchset.model.match_set_model import (
    Bounds,
    MatchSetModel,
    read_match_set,
    store_match_set,
    widen_beam,
)
from matchset.model.products import Products, read_products, store_products
from matchset.storage.sections import Section
from matchset.strings import Strings

_SMALL_BATCH = 32  # queries that are not worth more than one thread


@dataclass(frozen=True, eq=False)
class MatchSet(Matcher):
    """Several candidate sources, and one linear re-ranker that decides between them.

    The beam of a tree of classifiers, inverted lists of two-tower embeddings, a lexical index of
    titles and the most similar past queries propose products. A score is the chance that the
    product is a positive of such a query, as it was on validation queries: within a month, where
    the log has times. Customers who did not click do not mean that a product is wrong. A query
    without a known n-gram gets no products.

    Its folder holds no name of an n-gram and no text of a query.
    """

    kind: ClassVar[str] = MATCH_SET
    takes: ClassVar[frozenset[str]] = frozenset({"beam"})
    vectorizer: Vectorizer
    model: MatchSetModel
    products: Products
    config: TrainConfig
    query_hashes: NDArray[np.uint64]  # of the training queries, ascending
    n_queries_of: NDArray[np.int64]  # positive queries of each product, (n_products,)
    provenance: Mapping[str, Any] = field(default_factory=dict)  # when, from what, how
    _allowed: WeakKeyDictionary[Filter, _native.MatchSetFilter | None] = field(
        init=False, repr=False, default_factory=WeakKeyDictionary
    )

    def __post_init__(self) -> None:
        n = len(self.products)
        found = len(self.model.popularity), len(self.n_queries_of)
        if found != (n, n):
            raise ValueError(f"a match set must have {n:,} products; got {found[0]:,}")
        tree, towers = self.model.tree, self.model.towers
        widths = {tree.n_features} if tree is not None else set()
        widths |= {len(towers.row_of)} if towers is not None else set()
        if widths - {self.vectorizer.n_features}:
            raise ValueError(
                f"parts must have {self.vectorizer.n_features:,} features; got {sorted(widths)}"
            )

    def __repr__(self) -> str:
        parts = ", ".join(self.model.parts)
        return f"MatchSet({len(self.products):,} products; {parts})"

    def with_bounds(self, bounds: Bounds) -> Self:
        """The same match set, whose sources search within other bounds."""
        return replace(self, model=replace(self.model, bounds=bounds))

    def only(self, parts: Iterable[str]) -> Self:
        """Some of its parts: all but one, or one alone, under a re-ranker fitted to them.

        With other choices of parts the weights are the defaults, which any parts can use.
        """
        model = self.model.only(parts)
        return replace(self, model=model, config=replace(self.config, parts=model.parts))

    def part(self, name: str) -> Matcher:
        """One part as a matcher of its own, over the same arrays.

        The tree is an `XRLinearMatcher`; the others rank by what they know alone.
        """
        if name not in self.model.parts:
            raise ValueError(f"part must be one of {', '.join(self.model.parts)}; got {name!r}")
        model = self.model.only([name])
        if model.tree is None:
            return replace(self, model=model)
        return XRLinearMatcher(
            vectorizer=self.vectorizer,
            tree=model.tree,
            products=self.products,
            config=replace(self.config, parts=("tree",)),
            query_hashes=self.query_hashes,
            n_queries_of=self.n_queries_of,
            provenance=self.provenance,
            beam=model.bounds.tree_beam,
        )

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
        allowed = None if where is None else self._allow(where)
        native, bounds = self.vectorizer.native, self._bounds(beam)
        labels, scores = self.model.search_text(native, query, k, allowed, bounds)
        return Match(query, labels, scores, self.products)

    def _match_many(self, queries: Strings, options: Options) -> Matches:
        k, where, beam = options
        return Matches(queries, self._search(queries, k, where, beam), self.products)

    def _search(
        self, queries: Strings, k: int, where: Filter | None, beam: int | None = None
    ) -> Csr:
        allowed = None if where is None else self._allow(where)
        threads = 1 if len(queries) <= _SMALL_BATCH else count_threads(None)
        native, bounds = self.vectorizer.native, self._bounds(beam)
        return self.model.search_texts(native, queries, k, allowed, bounds, threads=threads)

    def _bounds(self, beam: int | None) -> Bounds:
        """The bounds of a search, with the beam that a caller asked for."""
        if beam is None:
            return self.model.bounds
        if self.model.tree is None:
            raise ValueError(f"beam is not an option of a match set without a tree; got {beam}")
        return widen_beam(self.model.bounds, beam)

    def _sections(self) -> Sections:
        about = {"config": asdict(self.config), "provenance": dict(self.provenance)}
        memory = {"query_hashes": self.query_hashes, "n_queries_of": self.n_queries_of}
        return {
            "vectorizer": store_vocabulary(self.vectorizer.vocabulary),
            "products": store_products(self.products),
            "training": Section(about, memory),
            **store_match_set(self.model),
        }

    @classmethod
    def _read(cls, sections: Sections, _: OpenPart) -> Self:
        training = sections["training"]
        return cls(
            vectorizer=Vectorizer.of(read_vocabulary(sections["vectorizer"])),
            model=read_match_set(sections),
            products=read_products(sections["products"]),
            config=read_config(training.header["config"]),
            query_hashes=training.arrays["query_hashes"],
            n_queries_of=training.arrays["n_queries_of"],
            provenance=training.header["provenance"],
        )

    def _allow(self, chosen: Filter) -> _native.MatchSetFilter | None:
        """The filter in the form of the sources, made once; None where it allows everything."""
        if chosen in self._allowed:
            return self._allowed[chosen]
        mask = np.ascontiguousarray(chosen.allowed, dtype=np.bool_)
        allowed = None if mask.all() else self.model.native.allow(mask)
        self._allowed[chosen] = allowed
        return allowed


def forget_names(vectorizer: Vectorizer) -> Vectorizer:
    """The same vectorizer without names of n-grams, which would spell past queries out."""
    vocabulary: Vocabulary = vectorizer.vocabulary
    nameless = Strings(np.empty(0, np.uint8), np.zeros(vocabulary.n_known + 1, np.int64))
    return Vectorizer.of(replace(vocabulary, names=nameless))
