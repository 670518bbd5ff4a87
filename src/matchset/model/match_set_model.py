"""Match set: which parts does it have, and how far does each of them search?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import check_share
from matchset.matrices import Csr, Floats, Ids, Offsets, offsets_of
from matchset.model.added import AddedProducts
from matchset.model.heirs import Heirs
from matchset.model.lexical import LexicalIndex
from matchset.model.neighbors import PastQueries
from matchset.model.packed import PackedTree
from matchset.model.reranker import FEATURES, LEAST_NEW, Reranker
from matchset.model.towers import TowerIndex
from matchset.storage.codec import TRANSIENT
from matchset.strings import Strings

SOURCES = {"tree": 1, "towers": 2, "lexical": 4, "neighbors": 8}  # bits of a candidate's sources
_MAX_BOUND = 2**63 - 1  # what native code counts with


@dataclass(frozen=True)
class Bounds:
    """How much each candidate source reads and proposes for a query.

    Chosen on held-back queries of the training side. Home Depot, Recall@10/50/100: 59.2/80.7/86.4 %
    with 2,000 postings of words and 100 products, 59.5/81.7/87.6 with 5,000 and 200; without effect
    there, but not on cooking questions: 50 neighbors 76.8/86.1/89.3, 100 of them 77.3/87.1/90.2.
    Of the products of the nearest lists, the 300 nearest as candidates found what all 640 did, on
    Home Depot (61.2/82.4/88.2) and in a shop of 20,000 (77.1/96.1/98.4); 200 lost up to 0.2 at 50.
    """

    tree_beam: int = 10
    tree_products: int = 200
    groups: int = 16  # of inverted lists, in which the nearest lists are looked for
    lists: int = 10
    list_products: int = 250
    lexical_postings: int = 4000
    lexical_products: int = 150
    neighbor_postings: int = 3000
    neighbors: int = 100
    neighbor_products: int = 150
    cold_share: float = 0.0  # of products without a past query among the answers: their places
    cold_shift: float = 0.0  # added to the linear score of such products

    def __post_init__(self) -> None:
        for name in COUNTS:
            value = getattr(self, name)
            is_integer = isinstance(value, int) and not isinstance(value, bool)
            if not is_integer or not 1 <= value <= _MAX_BOUND:
                rule = f"{name} must be an integer from 1 to {_MAX_BOUND}"
                raise ValueError(f"{rule}; got {value!r}")
        if not 0 <= self.cold_share <= 1 or not np.isfinite(self.cold_shift):
            raise ValueError(f"cold_share must be from 0 to 1; got {self.cold_share!r}")

    @cached_property
    def native(self) -> _native.SearchBounds:
        """In the form that search needs."""
        return _native.SearchBounds(**asdict(self))


COUNTS = tuple(each.name for each in fields(Bounds) if not each.name.startswith("cold_"))


@lru_cache(maxsize=256)
def change_bounds(
    bounds: Bounds, beam: int | None = None, new_share: float | None = None
) -> Bounds:
    """Return the bounds for another beam, or another share of new products; made once."""
    if beam is not None:
        if beam < 1:
            raise ValueError(f"beam must be at least 1; got {beam}")
        bounds = replace(bounds, tree_beam=beam)
    if new_share is None:
        return bounds
    share = check_share("new_share", new_share)
    shift = bounds.cold_shift + (_log_odds(share) - _log_odds(bounds.cold_share))
    return replace(bounds, cold_share=share, cold_shift=shift)


def _log_odds(share: float) -> float:
    inside = min(max(share, LEAST_NEW), 1 - LEAST_NEW)
    return math.log(inside / (1 - inside))


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The candidates of some queries, and what is known of each."""

    offsets: Offsets  # of each query's candidates, (n_queries + 1,)
    labels: Ids  # (n_candidates,)
    features: Floats  # (n_candidates, n_features)
    sources: NDArray[np.uint8]  # bits of SOURCES, (n_candidates,)
    situations: NDArray[np.uint8]  # what training knows of each query, (n_queries,)

    @classmethod
    def join(cls, blocks: list[Candidates]) -> Candidates:
        """Join the candidates of the queries of all blocks."""
        return cls(
            offsets_of(np.concatenate([np.diff(block.offsets) for block in blocks])),
            np.concatenate([block.labels for block in blocks]),
            np.concatenate([block.features for block in blocks]),
            np.concatenate([block.sources for block in blocks]),
            np.concatenate([block.situations for block in blocks]),
        )


@dataclass(frozen=True, eq=False)
class MatchSetModel:
    """The parts, of which some may be left out, and the re-ranker that decides.

    Arrays may be memory-mapped. Any number of threads may search at once.
    """

    popularity: Floats  # logarithm of 1 + positive queries of each trained product, (n_trained,)
    recent: Floats  # logarithm of 1 + its events, the older the less, (n_trained,)
    reranker: Reranker
    tree: PackedTree | None = None
    towers: TowerIndex | None = None
    lexical: LexicalIndex | None = None
    neighbors: PastQueries | None = None
    heirs: Heirs | None = None  # trained products that take others' places in the tree
    bounds: Bounds = Bounds()
    added: AddedProducts | None = field(  # after the training; also says which were removed
        default=None, metadata=TRANSIENT
    )
    native: _native.MatchSet = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError(f"a match set must have one of {', '.join(SOURCES)}; got none")
        native = _native.MatchSet(
            tree=None if self.tree is None else self.tree.native,
            towers=None if self.towers is None else self.towers.arrays,
            lexical=None if self.lexical is None else self.lexical.arrays,
            past=None if self.neighbors is None else self.neighbors.arrays,
            popularity=self.popularity,
            recent=self.recent,
            reranker=self.reranker.arrays,
            added=None if self.added is None else self.added.arrays,
            heirs=None if self.all_heirs is None else self.all_heirs.arrays,
        )
        object.__setattr__(self, "native", native)

    @cached_property
    def all_heirs(self) -> Heirs | None:
        """Heirs among trained and added products; None without a tree or towers."""
        if self.heirs is None or self.tree is None or self.towers is None:
            return None
        if self.added is None:
            return self.heirs
        return self.heirs.join(len(self.popularity), self.added.rows.lenders)

    @property
    def n_products(self) -> int:
        """How many can be found."""
        return len(self.popularity) if self.added is None else len(self.added.labels)

    def label_of(self, product: int) -> int:
        """Return the parts' label of a product; added ones follow the trained ones."""
        return product if self.added is None else int(self.added.labels[product])

    def lenders_of(self, product: int) -> Ids:
        """Return the products that lend their places in the tree, the most similar first.

        Those that were removed lend too, but are not named.
        """
        if self.all_heirs is None:
            return np.empty(0, dtype=np.int32)
        lenders = self.all_heirs.of_label(self.label_of(product))
        if self.added is None:
            return lenders
        at = [np.flatnonzero(self.added.labels == label) for label in lenders]
        return np.concatenate([*at, np.empty(0, np.int64)]).astype(np.int32)

    def trained_labels(self) -> Ids | None:
        """Return each product's label in the training, -1 for others; None: as they are counted."""
        if self.added is None:
            return None
        n_trained = len(self.popularity)
        labels = np.where(self.added.labels < n_trained, self.added.labels, np.int32(-1))
        is_same = np.array_equal(labels, np.arange(n_trained))
        return None if is_same else labels

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts that it has."""
        return tuple(name for name in SOURCES if getattr(self, name) is not None)

    def only(self, parts: Iterable[str]) -> MatchSetModel:
        """Some of the parts, under the re-ranker that was fitted to them."""
        wanted = set(parts)
        if not wanted or wanted - set(self.parts):
            known, found = ", ".join(self.parts), ", ".join(sorted(wanted)) or "none"
            raise ValueError(f"parts must be some of {known}; got {found}")
        left_out: dict[str, Any] = {name: None for name in self.parts if name not in wanted}
        kept = tuple(name for name in self.parts if name in wanted)
        return replace(self, reranker=self.reranker.for_parts(kept), **left_out)

    def search_text(
        self,
        vocabulary: _native.Vocabulary,
        text: str,
        k: int,
        allowed: _native.MatchSetFilter | None = None,
        bounds: Bounds | None = None,
    ) -> tuple[Ids, Floats]:
        """Labels and calibrated scores of one text, best first; none where no n-gram is known."""
        return self.native.search_text(vocabulary, text, k, (bounds or self.bounds).native, allowed)

    def search_texts(
        self,
        vocabulary: _native.Vocabulary,
        texts: Strings,
        k: int,
        allowed: _native.MatchSetFilter | None = None,
        bounds: Bounds | None = None,
        *,
        threads: int = 1,
    ) -> Csr:
        """Labels and calibrated scores of each text, best first."""
        native = (bounds or self.bounds).native
        found = self.native.search_texts(
            vocabulary, texts.data, texts.offsets, k, native, allowed, threads=threads
        )
        return Csr(*found, self.n_products)

    def describe(
        self,
        vocabulary: _native.Vocabulary,
        texts: Strings,
        allowed: _native.MatchSetFilter | None = None,
        bounds: Bounds | None = None,
        *,
        threads: int = 1,
    ) -> Candidates:
        """Return the candidates of each text, by the code and bounds that answer queries."""
        native = (bounds or self.bounds).native
        offsets, labels, features, *others = self.native.features(
            vocabulary, texts.data, texts.offsets, native, allowed, threads=threads
        )
        return Candidates(offsets, labels, features.reshape(-1, len(FEATURES)), *others)

    def describe_share(self) -> str:
        """Say how many of the answers should be new products, and who says so."""
        share, days = self.bounds.cold_share, self.reranker.facts.get("days")
        source = f"as the last {days} days tell" if days else "assumed"
        source = "as the last day tells" if days == 1 else source
        return f"{share:.1%}, {source if share == self.reranker.new_share else 'as set'}"

    def part_bytes(self) -> dict[str, int]:
        """Size of each part."""
        return {name: int(getattr(self, name).n_bytes) for name in self.parts}
