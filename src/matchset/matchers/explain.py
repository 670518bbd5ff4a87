"""Explain: what does each part add to a product's score, or why did none propose it?

Past queries are not named: a match set holds no text of them. What the very same query led to is
told apart from its neighbors only where that query is frequent enough to be shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from matchset import _native
from matchset.features.query_words import QueryWords, find_query_words
from matchset.features.vectorizer import Vectorizer
from matchset.learn.fit_reranker import PART_FEATURES
from matchset.matchers.explanation import (
    Contribution,
    Explanation,
    ExplanationPart,
    ExplanationStep,
    show_rank,
)
from matchset.matchers.match import Match
from matchset.matrices import Floats, Ids
from matchset.model.match_set_model import COUNTS, Bounds, MatchSetModel
from matchset.model.packed import PackedTree
from matchset.model.reasons import Reasons, SourceReason, find_reasons
from matchset.model.reranker import FEATURES
from matchset.model.tree_path import TreeStep, follow_label

Steps: TypeAlias = tuple[ExplanationStep, ...]
_NAMED_BY = 4  # words of a node
_NOT_IN_TREE = "not in the tree: no query led to it"
_WIDENED = 4  # times, in each step of a search that finds too little; as in native/match_set.cpp
_MOST = 2**31 - 1
_SAME_QUERY, _POPULARITY = ("same_query",), ("popularity", "recent")
_GROUPED = {*_POPULARITY, *(name for names in PART_FEATURES.values() for name in names)}


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A product to explain, and the answer of k products that the query got."""

    answer: Match
    label: int
    k: int
    is_allowed: bool  # by the filter
    vectorizer: Vectorizer

    @property
    def rank(self) -> int | None:
        """The rank in the answer."""
        at = np.flatnonzero(self.answer.labels == self.label)
        return int(at[0]) + 1 if len(at) else None

    def settle(self, verdict: str, **known: Any) -> Explanation:
        """Make the explanation; the filter and the answer have the first word."""
        products, rank = self.answer.products, self.rank
        if not self.is_allowed:
            verdict = "the filter excludes it"
        elif rank is not None:
            verdict = f"found at rank {rank:,}"
        return Explanation(
            query=self.answer.query,
            product=products.ids[self.label],
            title=None if products.titles is None else products.titles[self.label],
            is_returned=rank is not None,
            verdict=verdict,
            is_allowed=self.is_allowed,
            **{"score": 0.0, "rank": rank, **known},
        )

    def follow(
        self, tree: PackedTree, label: int, words: QueryWords, *, beam: int, k: int
    ) -> Steps:
        """Follow the product down the tree, which knows it by this label; () if it does not.

        Nodes are named by words of the query and the title, the last one by the product.
        """
        if not (tree.labels == label).any():
            return ()
        ids, values = self.vectorizer.encode(self.answer.query)
        path = follow_label(tree, ids.astype(np.int32), values, label, k=k, beam=beam)
        products = self.answer.products
        title = "" if products.titles is None else products.titles[self.label]
        known = {**find_query_words(self.vectorizer, title).words, **words.words}
        names = [*(_name_node(tree, step, known) for step in path[:-1])]
        names.append(title or products.ids[self.label])
        return tuple(
            ExplanationStep(
                step.level, name, step.score, step.rank, step.is_kept, step.bias,
                _fold(words, step.features, step.contributions),
            )
            for name, step in zip(names, path, strict=True)
        )  # fmt: skip


def explain_tree(question: Question, tree: PackedTree, label: int, beam: int) -> Explanation:
    """Explain the answer of a tree alone, which knows the product by this label."""
    words = find_query_words(question.vectorizer, question.answer.query)
    steps = question.follow(tree, label, words, beam=beam, k=question.k)
    if not steps:
        return question.settle(_NOT_IN_TREE)
    lost = _find_loss(steps)
    rank = next((f" ({show_rank(step.rank)})" for step in steps if not step.is_kept), "")
    verdict = f"{lost}{rank}" if lost else "other products rank higher"
    return question.settle(verdict, score=math.prod(step.score for step in steps), steps=steps)


def explain_match_set(
    question: Question,
    model: MatchSetModel,
    bounds: Bounds,
    allowed: _native.MatchSetFilter | None,
    *,
    n_queries: int,
    may_tell_same_query: bool,
) -> Explanation:
    """Explain what each part knows of a product, to which `n_queries` led in training.

    The same query is told apart only if it is frequent enough to be shown.
    """
    answer, k, rank = question.answer, question.k, question.rank
    ids, _ = question.vectorizer.encode(answer.query)
    if len(ids) == 0 and rank is None:
        return question.settle("the query has no known n-gram")
    bounds, reasons = _find_reasons(question, model, bounds, allowed, ids.astype(np.int32))
    words, n = find_query_words(question.vectorizer, answer.query), reasons.n_candidates
    steps: Steps = ()
    if model.tree is not None:
        beam, label = bounds.tree_beam, model.label_of(question.label)
        steps = question.follow(model.tree, label, words, beam=beam, k=bounds.tree_products)
    score = reasons.score if rank is None else float(answer.scores[rank - 1])
    verdict = f"no source proposed it; it would have been rank {reasons.rank:,} of {n + 1:,}"
    if rank is None and reasons.is_candidate:
        rank = reasons.rank
        if question.is_allowed:  # a wider search adds after the last, and ties come first
            rank = max(rank, k + 1)
            score = min(score, *answer.scores[k - 1 :].tolist(), 1.0)
        verdict = f"rank {rank:,} of {n:,} candidates, beyond k = {k:,}"
    same_query = _SAME_QUERY if may_tell_same_query and reasons.share(_SAME_QUERY) else ()
    lenders = [answer.products.ids[each] for each in model.lenders_of(question.label)]
    parts = (
        *_list_sources(reasons, bounds, words, steps, lenders, without=same_query),
        *_list_others(reasons, n_queries, same_query),
    )
    known = {"score": score, "rank": rank, "linear": reasons.linear}
    return question.settle(verdict, **known, parts=parts, steps=steps)


def _find_reasons(
    question: Question,
    model: MatchSetModel,
    bounds: Bounds,
    allowed: _native.MatchSetFilter | None,
    ids: Ids,
) -> tuple[Bounds, Reasons]:
    """Find reasons within the bounds in which the answer found the product, or k others."""
    query, n_before = question.answer.query, -1
    native, label = question.vectorizer.native, question.label
    while True:
        reasons = find_reasons(model, native, query, ids, label, bounds=bounds, allowed=allowed)
        limits, n = {name: getattr(bounds, name) for name in COUNTS}, reasons.n_candidates
        if reasons.is_candidate or min(limits.values()) == _MOST:
            return bounds, reasons
        if question.rank is None and (n >= question.k or (n == n_before and allowed is None)):
            return bounds, reasons  # a search widens no further
        n_before = n
        wider = {name: min(_WIDENED * limit, _MOST) for name, limit in limits.items()}
        bounds = replace(bounds, **wider)


def _list_sources(
    reasons: Reasons,
    bounds: Bounds,
    words: QueryWords,
    steps: Steps,
    lenders: Sequence[str],
    *,
    without: Sequence[str],
) -> Iterator[ExplanationPart]:
    for name, source in reasons.sources.items():
        share = reasons.share(tuple(each for each in PART_FEATURES[name] if each not in without))
        if source.rank is None:
            note = _say_why(name, source, bounds, steps)
        else:
            note = f"rank {source.rank:,}{'' if source.is_proposed else ', too low to be proposed'}"
        behind = _fold(words, *source.terms)
        if name == "tree":
            note += f", in the place of {' or '.join(lenders)}" if lenders else ""
            behind = _add_up(steps)
        yield ExplanationPart(name, share, note, source.is_proposed, source.rank, behind)


def _say_why(name: str, source: SourceReason, bounds: Bounds, steps: Steps) -> str:
    """Say why a source did not read the product."""
    has_terms = len(source.terms[0]) > 0
    if name == "tree":
        if not steps:
            return _NOT_IN_TREE
        lost = _find_loss(steps)
        return f"not in the beam: {lost}" if lost else "in the beam, but too low to be proposed"
    if name == "lexical":
        among = f"not among the first {bounds.lexical_postings:,} titles with these words"
        return among if has_terms else "no word in common"
    if name == "towers":
        near = f"not in the {bounds.lists:,} nearest lists"
        return near if has_terms else "no vector of the query or the title"
    return "no similar past query led to it"


def _list_others(
    reasons: Reasons, n_queries: int, same_query: tuple[str, ...]
) -> Iterator[ExplanationPart]:
    if same_query:
        count = np.expm1(reasons.features[FEATURES.index("same_query")])
        note = f"it led there, with weight {count:.3g}"
        yield ExplanationPart("same query", reasons.share(same_query), note)
    count = {0: "no query", 1: "1 query"}.get(n_queries, f"{n_queries:,} queries")
    yield ExplanationPart("popularity", reasons.share(_POPULARITY), f"{count} led to it")
    rest = tuple(name for name in FEATURES if name not in _GROUPED)
    kind = "products that some query led to" if n_queries else "products without queries"
    yield ExplanationPart("constant", reasons.share(rest), f"for {kind}")


def _find_loss(steps: Steps) -> str:
    lost = next((step.level + 1 for step in steps if not step.is_kept), None)
    return "" if lost is None else f"lost at level {lost} of {len(steps)}"


def _name_node(tree: PackedTree, step: TreeStep, known: Mapping[int, Sequence[str]]) -> str:
    ids = np.array(sorted(each for each in known if each < tree.n_features), dtype=np.int32)
    features, weights, _ = tree.native.node_weights(step.level, step.node, ids)
    strongest = features[np.argsort(-weights, kind="stable")[: np.count_nonzero(weights > 0)]]
    words = dict.fromkeys(word for feature in strongest for word in known[int(feature)])
    return ", ".join(list(words)[:_NAMED_BY]) or f"node {step.node + 1:,}"


def _fold(words: QueryWords, features: Ids, values: Floats) -> tuple[Contribution, ...]:
    return tuple(Contribution(*pair) for pair in words.fold(features, values))


def _add_up(steps: Steps) -> tuple[Contribution, ...]:
    """Return what each word adds on the whole path."""
    sums: dict[str, float] = {}
    for each in (each for step in steps for each in step.words):
        sums[each.word] = sums.get(each.word, 0.0) + each.weight
    ordered = sorted(sums.items(), key=lambda pair: (-abs(pair[1]), pair[0]))
    return tuple(Contribution(word, round(weight, 4)) for word, weight in ordered)
