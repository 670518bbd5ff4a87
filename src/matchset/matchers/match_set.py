"""Match set matcher: which products answer a query, by all parts together?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from matchset import _native
from matchset.config import count_threads
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.tables import TableSource
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import Vocabulary
from matchset.filters.filter import Filter, Where
from matchset.matchers.base import DEFAULT_K, Matcher, OpenPart, Options, Sections
from matchset.matchers.explanation import Explanation
from matchset.matchers.match import Match, Matches
from matchset.matchers.match_set_explanation import Asked, explain_product
from matchset.matchers.registry import MATCH_SET
from matchset.matchers.trained import TrainedMatcher
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.matrices import Csr
from matchset.model.added import index_added
from matchset.model.changes import apply_changes, nothing
from matchset.model.fresh import (
    FRESH,
    Fresh,
    Freshness,
    Step,
    adding,
    measure,
    read_fresh,
    removing,
    store_fresh,
    updating,
)
from matchset.model.match_set_model import (
    Bounds,
    MatchSetModel,
    read_match_set,
    store_match_set,
    widen_beam,
)
from matchset.model.packed import prune_packed
from matchset.model.upserts import Upsert, upserting
from matchset.storage.atomic import locked
from matchset.storage.folders import checksum
from matchset.storage.sections import Section
from matchset.storage.segments import count_segments, is_segment, write_segment
from matchset.strings import Strings
from matchset.text import normalize

_SMALL_BATCH = 32  # queries that are not worth more than one thread
_MOST_SEGMENTS = 16  # the next one holds all changes


@dataclass(frozen=True, eq=False, kw_only=True)
class MatchSet(TrainedMatcher):
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
    can_explain: ClassVar[bool] = True
    model: MatchSetModel
    fresh: Fresh | None = None  # what changed since the training

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
        where: Where | None = None,
    ) -> Explanation:
        """What each part adds to a product's score, or why no source proposed it.

        For a product that the filter excludes, it is what a search without the filter would do.
        """
        label = self.label_of(product)
        chosen = None if where is None else self.products.filter(where)
        is_allowed = chosen is None or bool(chosen.allowed[label])
        rank, score = self._find(self.match(query, k, beam=beam, where=chosen), label)
        asked = Asked(
            query=query,
            label=label,
            k=k,
            bounds=self._bounds(beam),
            allowed=None if chosen is None or not is_allowed else self._allow(chosen),
            is_allowed=is_allowed,
            rank=rank,
            score=score,
            n_queries=int(self.n_queries_of[label]),
            may_tell_same_query=self._may_show(query),
        )
        return explain_product(self.model, self.vectorizer, self.products, asked)

    def _may_show(self, query: str) -> bool:
        """Whether a past query is known to be frequent enough to be shown."""
        if self.model.neighbors is None:
            return False
        largest = max([1.0, *(self.config.events or {}).values()])  # counts are weighted events
        return self.model.neighbors.count(normalize(query)) / largest >= self.config.min_query_count

    def with_bounds(self, bounds: Bounds) -> Self:
        """The same match set, whose sources search within other bounds."""
        return replace(self, model=replace(self.model, bounds=bounds))

    def prune(
        self,
        threshold: float | None = None,
        *,
        drop: Iterable[str] = (),
        threads: int | None = None,
    ) -> MatchSet:
        """A smaller match set: without small weights of its tree, and without some of its parts.

        Weights of at most `threshold` in magnitude are dropped. Where parts are, the re-ranker is
        that of the parts left (see `only`).
        """
        dropped = tuple(drop)
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
        """The same match set, whose tree is searched with another beam."""
        return self.with_bounds(self._bounds(beam))

    def only(self, parts: Iterable[str]) -> Self:
        """Some of its parts: all but one, or one alone, under a re-ranker fitted to them.

        With other choices of parts the weights are the defaults, which any parts can use.
        """
        model = self.model.only(parts)
        return replace(self, model=model, config=replace(self.config, parts=model.parts))

    def part(self, name: str) -> Matcher:
        """One part as a matcher of its own, over the same arrays.

        The tree is an `XRLinearMatcher`, unless products changed since the training; the others
        rank by what they know alone.
        """
        if name not in self.model.parts:
            raise ValueError(f"part must be one of {', '.join(self.model.parts)}; got {name!r}")
        model = self.model.only([name])
        if model.tree is None or model.added is not None:
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

    def add(self, products: Catalog | TableSource, *, version: int | None = None) -> Self:
        """With these products too, which may be new or take the place of those with their ids.

        They are found at once, by their words and by what their titles mean; attributes that the
        model lacks are left out. What comes with a `version` is left out where the product has
        that version or a later one.
        """
        return self._change(adding(self._to_catalog(products), version))

    def update(self, products: Catalog | TableSource, *, version: int | None = None) -> Self:
        """With what these products have anew: a title, or attributes alone, which is cheapest.

        Titles that are empty or not given stay, as do attributes that are not given; ids that the
        model does not know are left out.
        """
        return self._change(updating(self._to_catalog(products), version))

    def remove(self, ids: Iterable[str], *, version: int | None = None) -> Self:
        """Without these products; ids that the model does not know are left out."""
        return self._change(removing(Strings.of(ids, "ids"), version))

    def upsert(
        self,
        products: Sequence[Upsert],
        *,
        remove: Sequence[str] = (),
        version: int | None = None,
    ) -> Self:
        """With products that come or change, told one by one, and without others, in one step."""
        return self._change(upserting(products, remove, version))

    def merge(self) -> Self:
        """The same match set, whose folder holds all changes as one; no answer changes."""
        if self._home is None:
            return self
        with locked(Path(self._home)):
            return self._now(self._home)._fold()  # noqa: SLF001

    @property
    def freshness(self) -> Freshness:
        """How far its products have moved from those that it was trained with."""
        return measure(self.fresh, len(self.products))

    def _change(self, step: Step) -> Self:
        """The same match set after a step, which its folder holds too, if it has one."""
        self._require_titles()
        if self._home is None:
            return self._with_fresh(self._changed().take(step, self.products)[0])
        with locked(Path(self._home)):
            return self._now(self._home)._write(step)  # noqa: SLF001

    def _fold(self) -> Self:
        return self if self.fresh is None else self._publish(self.fresh, store_fresh(self.fresh))

    def _write(self, step: Step) -> Self:
        fresh, later = self._changed().take(step, self.products)
        if len(later) == 0:
            return self
        is_many = count_segments(str(self._home)) >= _MOST_SEGMENTS
        return self._publish(fresh, store_fresh(fresh, None if is_many else later))

    def _changed(self) -> Fresh:
        """What changed so far."""
        return self.fresh or Fresh(self.products, self.n_queries_of, nothing(self.products))

    def _now(self, folder: str) -> Self:
        """What its folder holds by now: another process may have written to it."""
        return self if self._source == (folder, checksum(folder)) else type(self).load(folder)

    def _publish(self, fresh: Fresh, section: Section) -> Self:
        """With these changes, in its folder too; what cannot be searched is not written."""
        folder = Path(str(self._home))
        changed = self._with_fresh(fresh)
        write_segment(folder, section, instead_of_all=bool(section.header["is_whole"]))
        return changed._settle(str(folder), checksum(folder))  # noqa: SLF001

    def _require_titles(self) -> None:
        if self.products.titles is None or not {"lexical", "towers"} & set(self.model.parts):
            rule = "to take products, a match set must have titles, and a lexical index or towers"
            raise ValueError(f"{rule}; got {', '.join(self.model.parts)}")

    @staticmethod
    def _to_catalog(products: Catalog | TableSource) -> Catalog:
        if isinstance(products, Catalog):
            return products
        return read_catalog(products, requires_title=False)

    def _with_fresh(self, fresh: Fresh) -> Self:
        """With these changes instead of those that it has."""
        trained = self._trained()
        present = apply_changes(trained.products, fresh.changes)
        added = index_added(
            present.added,
            self.vectorizer,
            lexical=self.model.lexical,
            towers=self.model.towers,
            is_gone=present.is_gone,
            threads=1 if len(present.added) <= _SMALL_BATCH else count_threads(None),
        )
        kept = trained.n_queries_of[~present.is_gone]
        return replace(
            self,
            model=replace(self.model, added=added),
            products=present.products,
            n_queries_of=np.concatenate([kept, np.zeros(len(present.added), np.int64)]),
            fresh=fresh,
        )

    def _trained(self) -> Self:
        """As it was before products changed."""
        if self.fresh is None:
            return self
        return replace(
            self,
            model=replace(self.model, added=None),
            products=self.fresh.products,
            n_queries_of=self.fresh.n_queries_of,
            fresh=None,
        )

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
        trained = self._trained()
        shared = trained._shared_sections()  # noqa: SLF001
        sections = {**shared, **store_match_set(trained.model)}
        return sections if self.fresh is None else {**sections, FRESH: store_fresh(self.fresh)}

    @classmethod
    def _read(cls, sections: Sections, _: OpenPart) -> Self:
        trained = cls(model=read_match_set(sections), **cls._read_shared(sections))
        changes = [each for name, each in sections.items() if name == FRESH or is_segment(name)]
        if not changes:
            return trained
        fresh = read_fresh(changes, trained.products, trained.n_queries_of)
        return trained._with_fresh(fresh)

    def _prepare_filter(self, chosen: Filter) -> _native.MatchSetFilter | None:
        """None where it allows everything."""
        mask = np.ascontiguousarray(chosen.allowed, dtype=np.bool_)
        return None if mask.all() else self.model.native.allow(mask)


def forget_names(vectorizer: Vectorizer) -> Vectorizer:
    """The same vectorizer without names of n-grams, which would spell past queries out."""
    vocabulary: Vocabulary = vectorizer.vocabulary
    nameless = Strings(np.empty(0, np.uint8), np.zeros(vocabulary.n_known + 1, np.int64))
    return Vectorizer.of(replace(vocabulary, names=nameless))
