"""Match set matcher: which products answer a query, by all parts together?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np

from matchset import _native
from matchset.config import count_threads
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import Vocabulary
from matchset.filters.filter import Filter, Where
from matchset.matchers.base import DEFAULT_K, Matcher, Options
from matchset.matchers.explain import Question, explain_match_set
from matchset.matchers.explanation import Explanation
from matchset.matchers.fresh_matcher import FreshMatcher
from matchset.matchers.match import Match, Matches
from matchset.matchers.registry import MATCH_SET
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.matrices import Csr
from matchset.model.match_set_model import Bounds, change_bounds
from matchset.model.packed import prune_packed
from matchset.strings import Strings
from matchset.text import normalize

_SMALL_BATCH = 32  # queries that are not worth more than one thread


@dataclass(frozen=True, eq=False, kw_only=True)
class MatchSet(FreshMatcher):
    """Several candidate sources, and one linear re-ranker that scores their candidates.

    There are four sources: a tree of classifiers, two-tower embeddings in inverted lists, a lexical
    index of titles, and the most similar past queries. A score is the probability that the product
    is a positive for the query, as measured on validation queries: within a month, if the log has
    times. A log with few queries can't measure that: then scores only order products, and the
    summary says so. A product that nobody clicked is not necessarily wrong. A query without a known
    n-gram gets no products.

    The saved file holds no names of n-grams and no text of queries.
    """

    kind: ClassVar[str] = MATCH_SET
    takes: ClassVar[frozenset[str]] = frozenset({"beam", "new_share"})
    can_explain: ClassVar[bool] = True

    def __post_init__(self) -> None:
        n = len(self.products)
        found = self.model.n_products, len(self.n_queries_of)
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
        """Show what each part adds to a product's score, or why no source proposed it.

        If the filter excludes the product, this shows what a search without the filter would do.
        """
        label = self.label_of(product)
        chosen = None if where is None else self.products.filter(where)
        is_allowed = chosen is None or bool(chosen.allowed[label])
        answer = self.match(query, k, beam=beam, new_share=new_share, where=chosen)
        return explain_match_set(
            Question(answer, label, k, is_allowed, self.vectorizer),
            self.model,
            self._bounds(beam, new_share),
            None if chosen is None or not is_allowed else self._allow(chosen),
            n_queries=int(self.n_queries_of[label]),
            may_tell_same_query=self._may_show(query),
        )

    def _may_show(self, query: str) -> bool:
        """Return whether a past query is known to be frequent enough to be shown."""
        if self.model.neighbors is None:
            return False
        largest = max([1.0, *(self.config.events or {}).values()])  # counts are weighted events
        return self.model.neighbors.count(normalize(query)) / largest >= self.config.min_query_count

    def with_bounds(self, bounds: Bounds) -> Self:
        """Return the same match set with other limits on how far its sources search."""
        return replace(self, model=replace(self.model, bounds=bounds))

    def prune(
        self,
        threshold: float | None = None,
        *,
        drop: Iterable[str] = (),
        threads: int | None = None,
    ) -> MatchSet:
        """Return a smaller match set: without small weights of its tree, or some of its parts.

        Weights of at most `threshold` in magnitude are dropped. If parts are dropped, the re-ranker
        is the one for the remaining parts (see `only`).
        """
        dropped = (drop,) if isinstance(drop, str) else tuple(drop)
        unknown = [name for name in dropped if name not in self.model.parts]
        left = [name for name in self.model.parts if name not in dropped]
        if unknown or not left:
            rule = f"drop must be some of {', '.join(self.model.parts)}, and leave one"
            raise ValueError(f"{rule}; got {', '.join(dropped)}")
        chosen = self.only(left) if dropped else self
        model, config = chosen.model, chosen.config
        if threshold is not None:
            if model.tree is None:
                raise ValueError(f"threshold is for a match set with a tree; got {threshold}")
            tree = prune_packed(model.tree, threshold, threads=count_threads(threads))
            model = replace(model, tree=tree)
            config = config.with_threshold(threshold)
        return replace(self, model=model, config=config)

    def with_beam(self, beam: int) -> Self:
        """Return the same match set with another beam for its tree."""
        return self.with_bounds(self._bounds(beam, None))

    def with_new_share(self, new_share: float) -> Self:
        """Return the same match set for another share of new products among the answers.

        Those are products to which no past query led. More of them cost some recall of known ones.
        Nothing is trained. From a share of 0.2 on, a query takes about a tenth longer.
        """
        return self.with_bounds(self._bounds(None, new_share))

    def only(self, parts: Iterable[str]) -> Self:
        """Return the same match set with only some of its parts, or one: `only("lexical")`.

        A re-ranker was fitted in training for each part alone, and for all parts but one. Other
        choices of parts use default weights.
        """
        model = self.model.only([parts] if isinstance(parts, str) else parts)
        return replace(self, model=model, config=replace(self.config, parts=model.parts))

    def part(self, name: str) -> Matcher:
        """Return one part as its own matcher, over the same arrays.

        The tree is an `XRLinearMatcher`. The other parts rank by their own scores.
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
            labels=model.trained_labels(),
        )

    def prepare_answer(
        self,
        k: int,
        *,
        beam: int | None = None,
        new_share: float | None = None,
        titles: bool = True,
    ) -> Callable[[bytes, str, bool], tuple[bytes, int, int, bytes]]:
        """Return what answers a query as JSON, in one native call.

        It takes a head, a query, and whether ids are wanted too. It returns a body, the number of
        products, microseconds, and the ids as a JSON array. The body is the head, then the fields
        query, microseconds and products, then a brace.
        """
        k = min(k, len(self.products) or 1)
        vocabulary, bounds = self.vectorizer.native, self._bounds(beam, new_share).native
        return partial(self.model.native.answer, vocabulary, k, bounds, self.products.texts, titles)

    def _match_one(self, query: str, options: Options) -> Match:
        k, where, beam, new_share = options
        allowed = None if where is None else self._allow(where)
        native, bounds = self.vectorizer.native, self._bounds(beam, new_share)
        labels, scores = self.model.search_text(native, query, k, allowed, bounds)
        return Match(query, labels, scores, self.products)

    def _match_many(self, queries: Strings, options: Options) -> Matches:
        return Matches(queries, self._search(queries, *options), self.products)

    def _search(
        self,
        queries: Strings,
        k: int,
        where: Filter | None,
        beam: int | None = None,
        new_share: float | None = None,
    ) -> Csr:
        allowed = None if where is None else self._allow(where)
        threads = 1 if len(queries) <= _SMALL_BATCH else count_threads(None)
        native, bounds = self.vectorizer.native, self._bounds(beam, new_share)
        return self.model.search_texts(native, queries, k, allowed, bounds, threads=threads)

    def _bounds(self, beam: int | None, new_share: float | None) -> Bounds:
        """Return the bounds of a search, with the beam and the share that a caller asked for."""
        if beam is None and new_share is None:
            return self.model.bounds
        if beam is not None and self.model.tree is None:
            raise ValueError(f"beam is not an option of a match set without a tree; got {beam}")
        return change_bounds(self.model.bounds, beam, new_share)

    def _prepare_filter(self, chosen: Filter) -> _native.MatchSetFilter | None:
        """Return the filter for kernels; None where it allows everything."""
        mask = np.ascontiguousarray(chosen.allowed, dtype=np.bool_)
        return None if mask.all() else self.model.native.allow(mask)


def forget_names(vectorizer: Vectorizer) -> Vectorizer:
    """Return the same vectorizer without names of n-grams, which would spell past queries out."""
    vocabulary: Vocabulary = vectorizer.vocabulary
    nameless = Strings(np.empty(0, np.uint8), np.zeros(vocabulary.n_known + 1, np.int64))
    return Vectorizer.of(replace(vocabulary, names=nameless))
