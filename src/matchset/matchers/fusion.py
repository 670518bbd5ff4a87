"""Fusion: how do several matchers answer as one?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import cast, overload
from weakref import WeakKeyDictionary

import numpy as np

from matchset.data.events import EventWeights
from matchset.data.log import Log
from matchset.data.positives import Positives, relevance
from matchset.errors import DataError
from matchset.filters.filter import Filter, Where, make_filter
from matchset.matchers.base import DEFAULT_K, Matcher, check_k, to_texts
from matchset.matchers.fused_match import FusedMatch, FusedMatches, unite
from matchset.matchers.fusion_rules import (
    DEFAULT_CONSTANT,
    SCORED,
    FusionRule,
    Method,
    Normalization,
    fuse,
)
from matchset.matchers.fusion_tuning import Lessons, tune
from matchset.matchers.match import Match, Matches
from matchset.matchers.registry import load, load_matcher, name_kind, save_matcher
from matchset.matrices import Csr
from matchset.model.products import Products
from matchset.storage.sections import Part
from matchset.strings import Strings

KIND = "fusion"
DEFAULT_DEPTH = 100
DEFAULT_SAMPLE = 2_000


class Fusion:
    """Several matchers as one; `FusionRule` tells how their rankings become one.

    Products are the same where their ids are, whatever else the matchers know of them. Each part is
    asked, with its defaults, for `depth` products, or k where that is more: for any k up to `depth`
    a smaller k gives the first of a larger. Nothing in it changes, so any number of threads may ask
    at once.
    """

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
    ) -> None:
        """`names` tell the parts apart in results; by default their kinds, such as "tree"."""
        self.matchers = tuple(matchers)
        if not self.matchers:
            raise ValueError("matchers must be at least one; got none")
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
        self.products, self._labels = unite([_products_of(part) for part in self.matchers])
        self._allowed: WeakKeyDictionary[Filter, tuple[Filter, ...]] = WeakKeyDictionary()

    @overload
    def match(  # type: ignore[overload-overlap]
        self, queries: str, k: int = DEFAULT_K, *, where: Where | None = None
    ) -> FusedMatch: ...
    @overload
    def match(
        self, queries: Iterable[str], k: int = DEFAULT_K, *, where: Where | None = None
    ) -> FusedMatches: ...
    def match(
        self, queries: str | Iterable[str], k: int = DEFAULT_K, *, where: Where | None = None
    ) -> FusedMatch | FusedMatches:
        """The k best allowed products by the fused ranking; `ranks` tells who found each."""
        most = min(check_k(k), len(self.products)) or 1
        depth = max(most, self.depth)
        chosen = None if where is None else self.filter(where)
        if isinstance(queries, str):
            texts = Strings.of([queries])
            rankings = self._ask(queries, depth, chosen)
        else:
            texts = to_texts(queries)
            rankings = self._ask(texts, depth, chosen)
        fused = fuse(rankings, most, self.rule, depth=depth, queries=texts)
        found, names = fused.found, self.names
        if isinstance(queries, str):
            labels, scores = found.indices, found.data
            return FusedMatch(queries, labels, scores, self.products, names, fused.ranks)
        return FusedMatches(texts, found, self.products, names, fused.ranks)

    def filter(self, what: Where) -> Filter:
        """A filter to use again, from an expression, product ids or a boolean array."""
        return self.products.filter(what)

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
        """A fusion whose weights find most of what is relevant to the validation queries.

        The measure is recall at k, or its mean over several ks. The method stays; of "rrf" the
        constant is chosen too, of "weighted" the normalisation. On these queries the result is
        never below its best part. They must be no training queries, which some parts know by heart.
        Of a log `events` and `min_count` tell what is relevant, as in `relevance`. Of more than
        `sample` queries so many are drawn by `seed`.
        """
        if self.rule.method not in SCORED:
            raise ValueError(f"tune needs the method rrf or weighted; got {self.rule.method!r}")
        ks = tuple(sorted(check_k(each) for each in (k if isinstance(k, Sequence) else [k])))
        if not ks:
            raise ValueError("k must be at least one; got none")
        if sample < 1:
            raise ValueError(f"sample must be positive; got {sample}")
        if isinstance(validation, Log):
            validation = relevance(validation, events=events, min_count=min_count)
        if len(validation) == 0:
            raise DataError(f"validation must have relevant pairs; got none by {validation.rule}")
        tuned = copy(self)
        tuned.rule = tune(self._prepare(validation, ks, sample, seed), self.rule)
        return tuned

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write it to a folder, its parts to folders inside it, at once or not at all."""
        header = {"names": self.names, "depth": self.depth, "rule": asdict(self.rule)}
        inner = {
            f"part{place}": _saver(part, name)
            for place, (part, name) in enumerate(zip(self.matchers, self.names, strict=True))
        }
        save_matcher(path, KIND, {"fusion": Part(header)}, overwrite=overwrite, inner=inner)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Fusion:
        """Open a folder that `save` wrote, each part memory-mapped."""

        def read(parts: Mapping[str, Part]) -> Fusion:
            header = parts["fusion"].header
            names = [str(name) for name in header["names"]]
            opened = [load(Path(path) / f"part{place}") for place in range(len(names))]
            return cls(opened, names=names, depth=int(header["depth"]), **header["rule"])

        return load_matcher(path, KIND, read)

    def __repr__(self) -> str:
        weights = self.rule.weigh(len(self.matchers))
        parts = (
            f"{name} x {weight:g}" if self.rule.weights else name
            for name, weight in zip(self.names, weights, strict=True)
        )
        return f"Fusion({self.rule.method} of {', '.join(parts)}; {len(self.products):,} products)"

    def _prepare(
        self, validation: Positives, ks: tuple[int, ...], sample: int, seed: int
    ) -> Lessons:
        """Ask every part, also those of weight 0, and note what is relevant."""
        n_queries = len(validation.queries)
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.choice(n_queries, min(sample, n_queries), replace=False))
        pairs = validation.pairs[rows].tocoo()
        label = self.products.ids.index_of(validation.products)[pairs.col]
        is_known = label >= 0
        depth = max(*ks, self.depth)
        queries = validation.queries.take(rows)
        return Lessons(
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
        """What each part finds, in common labels; a part of weight 0 is not asked."""
        weights = weights or self.rule.weigh(len(self.matchers))
        allowed = [None] * len(weights) if where is None else self._allow(where)
        rankings = []
        for place, part in enumerate(self.matchers):
            if weights[place] == 0:
                n_queries = 1 if isinstance(queries, str) else len(queries)
                found = _nothing(n_queries)
            else:
                answer = part.match(queries, depth, where=allowed[place])
                found = _rows_of(answer, _products_of(part))
            labels = self._labels[place][found.indices]
            rankings.append(Csr(found.indptr, labels, found.data, len(self.products)))
        return rankings

    def _allow(self, chosen: Filter) -> Sequence[Filter]:
        """A filter as each part takes it, made once."""
        allowed = self._allowed.get(chosen)
        if allowed is None:
            allowed = self._allowed[chosen] = tuple(
                make_filter(_products_of(part), chosen.allowed[labels])
                for part, labels in zip(self.matchers, self._labels, strict=True)
            )
        return allowed


def _name(matchers: Sequence[Matcher], names: Sequence[str] | None) -> tuple[str, ...]:
    """The names, or the kinds; the second of a kind has a 2 behind it."""
    if names is None:
        kinds = [name_kind(part) for part in matchers]
        again = [kinds[: place + 1].count(kind) for place, kind in enumerate(kinds)]
        names = [f"{kind}_{n}" if n > 1 else kind for kind, n in zip(kinds, again, strict=True)]
    if isinstance(names, str) or len(names) != len(matchers):
        raise ValueError(f"names must be {len(matchers)}, one per matcher; got {names!r}")
    if len(set(names)) < len(names) or not all(names):
        raise ValueError(f"names must be distinct and not empty; got {list(names)}")
    return tuple(names)


def _products_of(part: Matcher) -> Products:
    products: object = getattr(part, "products", None)
    if not isinstance(products, Products):
        got = type(part).__name__
        raise TypeError(f"a matcher to fuse must have its products; got {got} without any")
    return products


def _rows_of(answer: Match | Matches, products: Products) -> Csr:
    """A part's answer as rows of its labels."""
    if answer.products is not products:
        raise TypeError("a matcher to fuse must answer with its own products; got other ones")
    if isinstance(answer, Matches):
        return answer.found
    offsets = np.array([0, len(answer)], dtype=np.int64)
    return Csr(offsets, answer.labels, answer.scores, len(products))


def _nothing(n_queries: int) -> Csr:
    labels, scores = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
    return Csr(np.zeros(n_queries + 1, dtype=np.int64), labels, scores, 0)


def _saver(part: Matcher, name: str) -> Callable[[Path], None]:
    save: object = getattr(part, "save", None)
    if not callable(save):
        got = type(part).__name__
        raise TypeError(f"a matcher to save must have `save`; got {got} as {name!r}")
    return cast("Callable[[Path], None]", save)
