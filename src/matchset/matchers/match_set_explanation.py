"""Match set explanation: what does each part add to a product's score, or why did none propose it?

Past queries are not named: a match set holds no text of them. What the very same query led to is
told apart from its neighbors only where that query is frequent enough to be shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from matchset import _native
from matchset.features.query_words import QueryWords, find_query_words
from matchset.features.vectorizer import Vectorizer
from matchset.learn.fit_reranker import PART_FEATURES
from matchset.matchers.explanation import (
    Explanation,
    ExplanationPart,
    ExplanationStep,
    Weights,
)
from matchset.matchers.tree_explanation import PathNames
from matchset.matrices import Ids
from matchset.model.explain import LabelPath, follow_label
from matchset.model.match_set_model import COUNTS, Bounds, MatchSetModel
from matchset.model.products import Products
from matchset.model.reasons import Reasons, SourceReason, find_reasons
from matchset.model.reranker import FEATURES

_WIDENED = 4  # times, in each step of a search that finds too little; as in native/match_set.cpp
_MOST = 2**31 - 1
_SAME_QUERY, _POPULARITY = ("same_query",), ("popularity", "recent")


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A product to explain, and what a search for the query found."""

    query: str
    label: int
    k: int
    bounds: Bounds
    allowed: _native.MatchSetFilter | None
    is_allowed: bool
    rank: int | None  # in the answer
    score: float | None  # in the answer
    last: float | None  # score of the last product of an answer of k products
    n_queries: int  # that led to the product
    may_tell_same_query: bool  # whether the query is frequent enough to be shown


def explain_product(
    model: MatchSetModel, vectorizer: Vectorizer, products: Products, asked: Asked
) -> Explanation:
    """What each part knows of the product, and what that adds to its score."""
    title = None if products.titles is None else products.titles[asked.label]
    product = products.ids[asked.label]
    lenders = [products.ids[lender] for lender in model.lenders_of(asked.label)]
    ids, values = vectorizer.encode(asked.query)
    if len(ids) == 0 and asked.rank is None:
        verdict = "the query has no known n-gram"
        return Explanation(
            asked.query, product, title, 0.0, None, False, verdict, is_allowed=asked.is_allowed
        )
    features = ids.astype(np.int32)
    bounds, reasons = _find_reasons(model, vectorizer, features, asked)
    path, tree = None, model.tree
    steps: tuple[ExplanationStep, ...] = ()
    known = model.label_of(asked.label)
    if tree is None or not (tree.labels == known).any():
        words = find_query_words(vectorizer, asked.query)
    else:
        names = PathNames.of(asked.query, title, vectorizer, tree)
        k, beam = bounds.tree_products, bounds.tree_beam
        path = follow_label(tree, features, values, known, k=k, beam=beam)
        words, steps = names.query_words, names.name_steps(path, title or product)
    rank = asked.rank
    if rank is None and reasons.is_candidate:
        # A filter or a tie may have put others before it; without the filter, nothing has.
        rank = max(reasons.rank, asked.k + 1) if asked.is_allowed else reasons.rank
    score = asked.score
    if score is None:
        score = reasons.score
        if rank is not None and asked.last is not None:  # what a wider search adds comes after it
            score = min(score, asked.last)
    return Explanation(
        query=asked.query,
        product=product,
        title=title,
        score=score,
        rank=rank,
        is_returned=asked.rank is not None,
        verdict=_judge(asked, reasons, rank),
        parts=tuple(_list_parts(asked, reasons, bounds, words, path, lenders)),
        steps=steps,
        is_allowed=asked.is_allowed,
        linear=reasons.linear,
    )


def _find_reasons(
    model: MatchSetModel, vectorizer: Vectorizer, features: Ids, asked: Asked
) -> tuple[Bounds, Reasons]:
    """The reasons within the bounds in which the answer found the product, or k others."""
    bounds, n_before = asked.bounds, -1
    while True:
        reasons = find_reasons(
            model,
            vectorizer.native,
            asked.query,
            features,
            asked.label,
            bounds=bounds,
            allowed=asked.allowed,
        )
        limits, n = {name: getattr(bounds, name) for name in COUNTS}, reasons.n_candidates
        if reasons.is_candidate or min(limits.values()) == _MOST:
            return bounds, reasons
        if asked.rank is None and (n >= asked.k or (n == n_before and asked.allowed is None)):
            return bounds, reasons  # a search widens no further
        n_before = n
        wider = {name: min(_WIDENED * limit, _MOST) for name, limit in limits.items()}
        bounds = replace(bounds, **wider)


def _judge(asked: Asked, reasons: Reasons, rank: int | None) -> str:
    if not asked.is_allowed:
        return "the filter excludes it"
    if asked.rank is not None:
        return f"found at rank {asked.rank:,}"
    if rank is not None:
        return f"rank {rank:,} of {reasons.n_candidates:,} candidates, beyond k = {asked.k:,}"
    would_be = f"rank {reasons.rank:,} of {reasons.n_candidates + 1:,}"
    return f"no source proposed it; it would have been {would_be}"


def _list_parts(
    asked: Asked,
    reasons: Reasons,
    bounds: Bounds,
    words: QueryWords,
    path: LabelPath | None,
    lenders: Sequence[str],
) -> Iterator[ExplanationPart]:
    same_query = reasons.share(_SAME_QUERY) if asked.may_tell_same_query else 0.0
    for name, source in reasons.sources.items():
        share = reasons.share(PART_FEATURES[name]) - (same_query if name == "neighbors" else 0)
        terms = source.terms
        behind: Weights = words.fold(terms.features, terms.values)
        if name == "tree" and path is not None:
            behind = words.fold(
                np.concatenate([step.features for step in path.steps]),
                np.concatenate([step.contributions for step in path.steps]),
            )
        note = f"rank {source.rank:,}" if source.rank is not None else ""
        if not source.is_proposed:
            note = _say_why(name, source, bounds, path)
        if name == "tree" and lenders:
            note += f", in the place of {' or '.join(lenders)}"
        yield ExplanationPart(name, share, note, source.is_proposed, source.rank, behind)
    if same_query:
        count = np.expm1(reasons.features[FEATURES.index("same_query")])
        yield ExplanationPart("same query", same_query, f"it led there, with weight {count:.3g}")
    told = f"{asked.n_queries:,} queries led to it" if asked.n_queries else "no query led to it"
    yield ExplanationPart("popularity", reasons.share(_POPULARITY), told)
    grouped = {each for names in PART_FEATURES.values() for each in names} | set(_POPULARITY)
    rest = tuple(name for name in FEATURES if name not in grouped)
    kind = "products that some query led to" if asked.n_queries else "products without queries"
    yield ExplanationPart("constant", reasons.share(rest), f"for {kind}")


def _say_why(name: str, source: SourceReason, bounds: Bounds, path: LabelPath | None) -> str:
    """Why a source did not propose the product."""
    if source.rank is not None:
        return f"rank {source.rank:,}, too low to be proposed"
    if name == "tree":
        if path is None:
            return "not in the tree: no query led to it"
        lost = path.lost_at
        at = "" if lost is None else f": lost at level {lost + 1} of {len(path.steps)}"
        return f"not in the beam{at}"
    if name == "lexical":
        if len(source.terms.features) == 0:
            return "no word in common"
        return f"not among the first {bounds.lexical_postings:,} titles with these words"
    if name == "towers":
        if len(source.terms.features) == 0:
            return "no vector of the query or the title"
        return f"not in the {bounds.lists:,} nearest lists"
    return "no similar past query led to it"
