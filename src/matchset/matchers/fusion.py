"""Fusion: how do several matchers answer as one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np

from matchset.data.events import EventWeights
from matchset.data.log import Log
from matchset.data.positives import Positives, relevance
from matchset.errors import DataError
from matchset.filters.filter import Filter, make_filter
from matchset.matchers.base import DEFAULT_K, Matcher, Options, TrainingRecord, check_k
from matchset.matchers.fused_match import FusedMatch, FusedMatches
from matchset.matchers.fusion_rules import (
    DEFAULT_CONSTANT,
    SCORED,
    Fused,
    FusionRule,
    Method,
    Normalization,
    fuse,
)
from matchset.matchers.fusion_tuning import ValidationRankings, tune
from matchset.matchers.match import Match, Matches, least_scores
from matchset.matchers.saved import OpenPart, Sections
from matchset.matrices import Csr, Ids
from matchset.model.products import Products, join_products, unite_products
from matchset.storage.sections import Section
from matchset.strings import Strings

DEFAULT_DEPTH = 100
DEFAULT_SAMPLE = 2_000


class Fusion(Matcher):
    """Several matchers as one. `FusionRule` describes how their rankings are combined.

    Products with the same id are the same product. Each part is queried, with its defaults, for
    `depth` products, or for k if that is more. So for any k up to `depth`, a smaller k gives the
    first products of a larger one. `ranks` of a match has the rank of each product at each part.

    `min_scores` and `min_relatives` have one entry per part, None for no limit. With a minimum
    score, a match set adds only products that it is sure of.

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
        normalize: Normalization = "minmax",
        keep: int | None = None,
        depth: int = DEFAULT_DEPTH,
        seed: int = 0,
        min_scores: Sequence[float | None] | None = None,
        min_relatives: Sequence[float | None] | None = None,
    ) -> None:
        """`names` are those of the parts in results; by default their kinds, such as "bm25"."""
        self.matchers = tuple(matchers)
        if not self.matchers:
            raise ValueError("there must be at least one matcher; got none")
        for part in self.matchers:
            if not isinstance(part, Matcher):
                raise TypeError(f"matchers must be of the class Matcher; got {type(part).__name__}")
        self.names = _name(self.matchers, names)
        self.rule = FusionRule(
            method=method,
            weights=None if weights is None else tuple(map(float, weights)),
            constant=constant,
            normalize=normalize,
            keep=keep,
            seed=seed,
        )
        self.rule.weigh(len(self.matchers))
        if depth < 1:
            raise ValueError(f"depth must be at least 1; got {depth}")
        self.depth = depth
        n_parts = len(self.matchers)
        self.min_scores = _one_per_part(min_scores, n_parts, "min_scores")
        self.min_relatives = _one_per_part(min_relatives, n_parts, "min_relatives")
        for cut in zip(self.min_scores, self.min_relatives, strict=True):
            least_scores(0.0, *cut)  # checks them
        united, labels = unite_products([part.products for part in self.matchers])
        self.products, self._labels = _leave_out(united, labels, self.removed)
        self._allowed: WeakKeyDictionary[Filter, tuple[Filter, ...]] = WeakKeyDictionary()
        # What a part is asked without a filter: all that it has, unless some of that is removed.
        self._present = tuple(
            None if (own >= 0).all() else make_filter(part.products, own >= 0)
            for part, own in zip(self.matchers, self._labels, strict=True)
        )

    def tune(
        self,
        validation: Log | Positives,
        *,
        k: int | Sequence[int] = DEFAULT_K,
        events: EventWeights | None = None,
        min_count: float = 1.0,
        sample: int = DEFAULT_SAMPLE,
        seed: int = 0,
    ) -> Fusion:
        """Return a fusion with the weights that give the highest recall on validation queries.

        Recall is taken at k, or averaged over several ks. The method stays the same. With "rrf" the
        constant is chosen too, with "weighted" the normalization. On these queries the result is
        never worse than its best part. Do not use training queries, which some parts have
        memorized. For a log, `events` and `min_count` define what is relevant, as in `relevance`.
        At most `sample` queries are used, drawn by `seed`.
        """
        if self.rule.method not in SCORED:
            raise ValueError(f"tune needs the method rrf or weighted; got {self.rule.method!r}")
        ks = tuple(sorted(check_k(each) for each in (k if isinstance(k, Sequence) else [k])))
        if not ks:
            raise ValueError("there must be at least one k; got none")
        if sample < 1:
            raise ValueError(f"sample must be positive; got {sample}")
        if isinstance(validation, Log):
            validation = relevance(validation, events=events, min_count=min_count)
        if len(validation) == 0:
            raise DataError(f"validation must have relevant pairs; got none with {validation.rule}")
        rule = tune(self._rank_validation(validation, ks, sample, seed), self.rule)
        return Fusion(self.matchers, names=self.names, **self._settings(), **asdict(rule))

    @property
    def removed(self) -> Strings:
        """Ids of products that were removed from any of the parts."""
        return Strings.concatenate([part.removed for part in self.matchers])

    @property
    def training(self) -> TrainingRecord | None:
        """The training record of the first part that has one."""
        return next(filter(None, (part.training for part in self.matchers)), None)

    def __repr__(self) -> str:
        weights = self.rule.weigh(len(self.matchers))
        parts = (
            f"{name} x {weight:g}" if self.rule.weights else name
            for name, weight in zip(self.names, weights, strict=True)
        )
        return f"Fusion({self.rule.method} of {', '.join(parts)}; {len(self.products):,} products)"

    def _match_one(self, query: str, options: Options) -> Match:
        k, where, _, _ = options
        fused = self._fuse(query, k, where)
        labels, scores = fused.found.indices, fused.found.data
        return FusedMatch(query, labels, scores, self.products, self.names, fused.ranks)

    def _match_many(self, queries: Strings, options: Options) -> Matches:
        k, where, _, _ = options
        fused = self._fuse(queries, k, where)
        return FusedMatches(queries, fused.found, self.products, self.names, fused.ranks)

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        return self._fuse(queries, k, where).found

    def _fuse(self, queries: str | Strings, k: int, where: Filter | None) -> Fused:
        depth = max(k, self.depth)
        rankings = self._ask(queries, depth, where)
        texts = Strings.of([queries]) if isinstance(queries, str) else queries
        return fuse(rankings, k, self.rule, depth=depth, queries=texts)

    def _sections(self) -> Sections:
        header = {"names": self.names, "rule": asdict(self.rule), **self._settings()}
        return {"fusion": Section(header)}

    def _settings(self) -> dict[str, Any]:
        """What is asked of the parts; least scores only where there are some."""
        cuts = {"min_scores": self.min_scores, "min_relatives": self.min_relatives}
        given = {name: cut for name, cut in cuts.items() if any(each is not None for each in cut)}
        return {"depth": self.depth, **given}

    def _parts(self) -> Mapping[str, Matcher]:
        return {f"part{number}": part for number, part in enumerate(self.matchers)}

    @classmethod
    def _read(cls, sections: Sections, open_part: OpenPart) -> Self:
        header = sections["fusion"].header
        names = [str(name) for name in header["names"]]
        opened = [open_part(f"part{number}") for number in range(len(names))]
        cuts: dict[str, Any] = {name: header.get(name) for name in ("min_scores", "min_relatives")}
        return cls(opened, names=names, depth=int(header["depth"]), **cuts, **header["rule"])

    def _rank_validation(
        self, validation: Positives, ks: tuple[int, ...], sample: int, seed: int
    ) -> ValidationRankings:
        """The rankings of every part, also of those with weight 0, and what is relevant."""
        n_queries = len(validation.queries)
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.choice(n_queries, min(sample, n_queries), replace=False))
        pairs = validation.pairs[rows].tocoo()
        label = self.products.ids.index_of(validation.products)[pairs.col]
        is_known = label >= 0
        depth = max(*ks, self.depth)
        queries = validation.queries.take(rows)
        return ValidationRankings(
            queries=queries,
            rankings=self._ask(queries, depth, None, weights=[1.0] * len(self.matchers)),
            depth=depth,
            row=pairs.row[is_known].astype(np.int64),
            label=label[is_known],
            n_relevant=np.bincount(pairs.row, minlength=len(rows)).astype(np.float64),
            ks=ks,
        )

    def _ask(
        self,
        queries: str | Strings,
        depth: int,
        where: Filter | None,
        weights: Sequence[float] | None = None,
    ) -> list[Csr]:
        """What each part finds, in labels of the fusion; a part of weight 0 is not asked."""
        weights = weights or self.rule.weigh(len(self.matchers))
        allowed = self._present if where is None else self._allow(where)
        rankings = []
        for number, part in enumerate(self.matchers):
            if weights[number] == 0:
                n_queries = 1 if isinstance(queries, str) else len(queries)
                found = _nothing(n_queries)
            else:
                answer = part.match(
                    queries,
                    depth,
                    where=allowed[number],
                    min_score=self.min_scores[number],
                    min_relative=self.min_relatives[number],
                )
                found = _rows_of(answer, part.products)
            labels = self._labels[number][found.indices]
            rankings.append(Csr(found.indptr, labels, found.data, len(self.products)))
        return rankings

    def _allow(self, chosen: Filter) -> Sequence[Filter]:
        """The filter of each part, made once."""
        allowed = self._allowed.get(chosen)
        if allowed is None:
            allowed = self._allowed[chosen] = tuple(
                make_filter(part.products, np.append(chosen.allowed, False)[labels])
                for part, labels in zip(self.matchers, self._labels, strict=True)
            )
        return allowed


def _leave_out(
    products: Products, labels: tuple[Ids, ...], removed: Strings
) -> tuple[Products, tuple[Ids, ...]]:
    """Products without those that were removed; the label of such a one becomes -1."""
    gone = products.index_of(removed)
    if not np.any(gone >= 0):
        return products, labels
    is_kept = np.ones(len(products), dtype=np.bool_)
    is_kept[gone[gone >= 0]] = False
    label_of = np.where(is_kept, np.cumsum(is_kept) - 1, -1).astype(np.int32)
    left = join_products([products], np.flatnonzero(is_kept))
    return left, tuple(label_of[own] for own in labels)


def _name(matchers: Sequence[Matcher], names: Sequence[str] | None) -> tuple[str, ...]:
    """The names, or else the kinds; the second of a kind gets the suffix _2."""
    if names is None:
        kinds = [part.kind for part in matchers]
        again = [kinds[: number + 1].count(kind) for number, kind in enumerate(kinds)]
        names = [f"{kind}_{n}" if n > 1 else kind for kind, n in zip(kinds, again, strict=True)]
    if isinstance(names, str) or len(names) != len(matchers):
        raise ValueError(f"names must be {len(matchers)}, one per matcher; got {names!r}")
    if len(set(names)) < len(names) or not all(names):
        raise ValueError(f"names must be distinct and not empty; got {list(names)}")
    return tuple(names)


def _one_per_part(
    given: Sequence[float | None] | None, n_parts: int, name: str
) -> tuple[float | None, ...]:
    if given is None:
        return (None,) * n_parts
    if len(given) != n_parts:
        raise ValueError(f"{name} must be {n_parts}, one per matcher; got {len(given)}")
    return tuple(None if each is None else float(each) for each in given)


def _rows_of(answer: Match | Matches, products: Products) -> Csr:
    """The answer of a part as rows of its labels."""
    if answer.products is not products:
        raise TypeError("a matcher must answer with its own products; got others")
    if isinstance(answer, Matches):
        return answer.found
    offsets = np.array([0, len(answer)], dtype=np.int64)
    return Csr(offsets, answer.labels, answer.scores, len(products))


def _nothing(n_queries: int) -> Csr:
    labels, scores = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
    return Csr(np.zeros(n_queries + 1, dtype=np.int64), labels, scores, 0)
