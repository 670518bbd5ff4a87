"""Fusion: how do several matchers answer as one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np

from matchset.filters.filter import Filter, make_filter
from matchset.matchers.base import DEFAULT_K, Matcher, Options, TrainingRecord, check_k
from matchset.matchers.fusion_rules import DEFAULT_CONSTANT, FusionRule, Method, fuse
from matchset.matchers.match import Match, Matches
from matchset.matchers.ranks import Ranks
from matchset.matrices import Csr, Ids
from matchset.model.products import Products, join_products, unite_products
from matchset.strings import Strings

DEFAULT_DEPTH = 100


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What is kept of a fusion."""

    matchers: tuple[Matcher, ...]
    names: tuple[str, ...]
    rule: FusionRule
    depth: int


class Fusion(Matcher):
    """Several matchers as one. `FusionRule` describes how their rankings are combined.

    Products with the same id are the same product. Each part is queried, with its defaults, for
    `depth` products, or for k if that is more. So for any k up to `depth`, a smaller k gives the
    first products of a larger one. `ranks` of a match has the rank of each product at each part.

    A product that was removed from one part is not shown, even if another part still has it.
    """

    kind: ClassVar[str] = "fusion"

    def __init__(
        self,
        matchers: Sequence[Matcher],
        method: Method = "rrf",
        *,
        names: Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        constant: float = DEFAULT_CONSTANT,
        depth: int = DEFAULT_DEPTH,
    ) -> None:
        """`names` are those of the parts in results; by default their kinds, such as "bm25"."""
        self.matchers = tuple(matchers)
        if not self.matchers:
            raise ValueError("there must be at least one matcher; got none")
        for part in self.matchers:
            if not isinstance(part, Matcher):
                raise TypeError(f"matchers must be of the class Matcher; got {type(part).__name__}")
        if depth < 1:
            raise ValueError(f"depth must be at least 1; got {depth}")
        self.names, self.depth = _name(self.matchers, names), depth
        shares = None if weights is None else tuple(map(float, weights))
        self.rule = FusionRule(method=method, weights=shares, constant=constant)
        self.rule.weigh(len(self.matchers))
        united, labels = unite_products([part.products for part in self.matchers])
        self.products, self._labels = _leave_out(united, labels, self.removed)
        self._allowed: WeakKeyDictionary[Filter, tuple[Filter, ...]] = WeakKeyDictionary()
        # What a part is asked without a filter: all that it has, unless some of that is removed.
        self._present = tuple(
            None if (own >= 0).all() else make_filter(part.products, own >= 0)
            for part, own in zip(self.matchers, self._labels, strict=True)
        )

    @property
    def removed(self) -> Strings:
        """Ids of products that were removed from any of the parts."""
        return Strings.concatenate([part.removed for part in self.matchers])

    @property
    def training(self) -> TrainingRecord | None:
        """The training record of the first part that has one."""
        return next(filter(None, (part.training for part in self.matchers)), None)

    def __repr__(self) -> str:
        parts = self.names
        if self.rule.weights:
            pairs = zip(self.names, self.rule.weights, strict=True)
            parts = tuple(f"{name} x {weight:g}" for name, weight in pairs)
        return f"Fusion({self.rule.method} of {', '.join(parts)}; {len(self.products):,} products)"

    def _match_one(self, query: str, options: Options) -> Match:
        return self._match_many(Strings.of([query]), options)[0]

    def _match_many(self, queries: Strings, options: Options) -> Matches:
        k, where, _, _ = options
        fused, ranks = self._fuse(queries, k, where)
        return Matches(queries, fused, self.products, rank_table=Ranks(self.names, ranks))

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        return self._fuse(queries, k, where)[0]

    def _fuse(self, queries: Strings, k: int, where: Filter | None) -> tuple[Csr, Ids]:
        depth, rankings = max(k, self.depth), []
        allowed = self._present if where is None else self._allow(where)
        weights = self.rule.weigh(len(self.matchers))
        for part, weight, mask, labels in zip(
            self.matchers, weights, allowed, self._labels, strict=True
        ):
            if weight == 0:
                empty = np.zeros(len(queries) + 1, np.int64), np.empty(0, np.int32)
                found = Csr(*empty, np.empty(0, np.float32), len(labels))
            else:
                answer = part.match(queries, depth, where=mask)
                if answer.products is not part.products:
                    raise TypeError("a matcher must answer with its own products; got others")
                found = answer.found
            rankings.append(
                Csr(found.indptr, labels[found.indices], found.data, len(self.products))
            )
        return fuse(rankings, k, self.rule, depth=depth)

    def _allow(self, chosen: Filter) -> Sequence[Filter]:
        """Return the filter of each part, made once."""
        allowed = self._allowed.get(chosen)
        if allowed is None:
            allowed = self._allowed[chosen] = tuple(
                make_filter(part.products, np.append(chosen.allowed, False)[labels])
                for part, labels in zip(self.matchers, self._labels, strict=True)
            )
        return allowed

    def to_stored(self) -> Parts:
        """Return what is kept of it: its parts as they are, and how they are combined."""
        return Parts(self.matchers, self.names, self.rule, self.depth)

    @classmethod
    def from_stored(cls, stored: Parts) -> Self:
        """Return the fusion of what was kept."""
        settings = asdict(stored.rule)
        return cls(stored.matchers, names=stored.names, depth=stored.depth, **settings)


def fuse_matches(
    matches: Mapping[str, Match], k: int = DEFAULT_K, rule: FusionRule | None = None
) -> Match:
    """Fuse several matches of one query, by name. Products with the same id are the same product.

    `Match.of(query, ids, scores)` makes a match of another search engine's results. Products with
    equal scores keep the order in which they come, match by match. A product that occurs twice in a
    match keeps its first position there.
    """
    if not matches:
        raise ValueError("there must be at least one match; got none")
    k, given = check_k(k), list(matches.values())
    query, *others = dict.fromkeys(match.query for match in given)
    if others:
        got = ", ".join(map(repr, [query, *others]))
        raise ValueError(f"matches must be of the same query; got {got}")
    label = {product: n for n, product in enumerate(dict.fromkeys(p for m in given for p in m.ids))}
    rankings, titles = [], dict.fromkeys(label, "")
    for match in given:
        labels = np.array([label[product] for product in match.ids], dtype=np.int32)
        rankings.append(Csr(np.array([0, len(match)]), labels, match.scores, len(label)))
        for product, title in zip(match.ids, match.titles or (), strict=False):
            titles[product] = titles[product] or title
    depth = max(1, *map(len, given))
    fused, ranks = fuse(rankings, k, rule or FusionRule(), depth=depth)
    has_titles = any(match.titles is not None for match in given)
    texts = Strings.of(list(titles.values())) if has_titles else None
    products = Products(Strings.of(list(label)), texts)
    table = Ranks(tuple(matches), ranks)
    return Match(query, fused.indices, fused.data, products, rank_table=table)


def _leave_out(
    products: Products, labels: tuple[Ids, ...], removed: Strings
) -> tuple[Products, tuple[Ids, ...]]:
    """Return products without those that were removed, whose label becomes -1."""
    gone = products.index_of(removed)
    if not np.any(gone >= 0):
        return products, labels
    is_kept = np.ones(len(products), dtype=np.bool_)
    is_kept[gone[gone >= 0]] = False
    label_of = np.where(is_kept, np.cumsum(is_kept) - 1, -1).astype(np.int32)
    left = join_products([products], np.flatnonzero(is_kept))
    return left, tuple(label_of[own] for own in labels)


def _name(matchers: Sequence[Matcher], names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names, or else the kinds; the second of a kind gets the suffix _2."""
    if names is None:
        kinds = [part.kind for part in matchers]
        again = [kinds[: number + 1].count(kind) for number, kind in enumerate(kinds)]
        names = [f"{kind}_{n}" if n > 1 else kind for kind, n in zip(kinds, again, strict=True)]
    if isinstance(names, str) or len(names) != len(matchers):
        raise ValueError(f"names must be {len(matchers)}, one per matcher; got {names!r}")
    if len(set(names)) < len(names) or not all(names):
        raise ValueError(f"names must be distinct and not empty; got {list(names)}")
    return tuple(names)
