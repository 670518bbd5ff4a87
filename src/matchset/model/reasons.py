"""Reasons: what do the parts of a match set know of one product, and which of them proposed it?

Features are those of the code that answers queries. What is added here is how they come about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.matrices import Floats, Ids
from matchset.model.added import AddedProducts
from matchset.model.lexical import LexicalIndex
from matchset.model.match_set_model import SOURCES, Bounds, Candidates, MatchSetModel
from matchset.model.reranker import COLD, FEATURES, WARM
from matchset.model.towers import TowerIndex
from matchset.strings import Strings

Terms: TypeAlias = tuple[Ids, Floats]  # features of the query, and what each adds to a score
_ALL = 2**31 - 1
_CONSTANT, _POPULARITY = FEATURES.index("constant"), FEATURES.index("popularity")
_STEPS = 128  # of cosines from 0 to 1, as search counts ranks
_RANKED_BY = {
    "tree": "tree_log",
    "towers": "cosine",
    "lexical": "bm25",
    "neighbors": "vote_share",
}


@dataclass(frozen=True, slots=True, eq=False)
class SourceReason:
    """What one candidate source did with the product."""

    is_proposed: bool
    rank: int | None  # by its own score, among all that it read; None where it did not read it
    terms: Terms  # of the lexical index and the towers; none for others


@dataclass(frozen=True, slots=True, eq=False)
class Reasons:
    """The product as the re-ranker sees it; as it would, where no source proposed the product."""

    is_candidate: bool
    features: NDArray[np.float64]  # (n_features,)
    weights: NDArray[np.float64]  # of the re-ranker for such a product, (n_features,)
    score: float  # the chance that the linear score stands for
    rank: int  # among the candidates
    n_candidates: int
    sources: Mapping[str, SourceReason]

    @property
    def linear(self) -> float:
        """The sum of features times weights."""
        return float(self.features @ self.weights)

    def share(self, names: tuple[str, ...]) -> float:
        """Return what some features add to the linear score."""
        columns = [FEATURES.index(name) for name in names]
        return float(self.features[columns] @ self.weights[columns])


def find_reasons(
    model: MatchSetModel,
    vocabulary: _native.Vocabulary,
    query: str,
    ids: Ids,
    label: int,
    *,
    bounds: Bounds,
    allowed: _native.MatchSetFilter | None = None,
) -> Reasons:
    """Describe the candidates of a query once as search does, once with all that was read."""
    text = Strings.of([query])
    candidates = model.describe(vocabulary, text, allowed, bounds)
    limits = [name for name in asdict(bounds) if name.endswith("_products")]
    propose_all = replace(bounds, **dict.fromkeys(limits, _ALL))
    read = model.describe(vocabulary, text, allowed, propose_all)
    inside, at = model.label_of(label), np.flatnonzero(candidates.labels == label)
    terms = _find_terms(model, ids, inside)
    if len(at):
        features = candidates.features[at[0]].astype(np.float64)
    else:
        features = _assume_features(model, candidates, inside, terms).astype(np.float64)
    situation, n = int(candidates.situations[0]), len(candidates.labels)
    is_warm = features[_POPULARITY] > 0
    weights = model.reranker.weights[situation, WARM if is_warm else COLD].astype(np.float64)
    weights[_CONSTANT] += 0.0 if is_warm else bounds.cold_shift
    log_odds = model.reranker.calibrations[situation].read(np.array([features @ weights]))[0]
    score = 1 / (1 + math.exp(-min(max(log_odds, -30.0), 30.0)))  # as search computes it
    answer, scores = model.search_text(vocabulary, query, max(n, 1), allowed, bounds)
    sources = {
        name: SourceReason(
            is_proposed=len(at) > 0 and bool(candidates.sources[at[0]] & SOURCES[name]),
            rank=_rank_in_source(read, name, label),
            terms=terms[name],
        )
        for name in model.parts
    }
    n_better = np.argmax(answer == label) if len(at) else np.count_nonzero(scores[:n] > score)
    return Reasons(len(at) > 0, features, weights, score, int(n_better) + 1, n, sources)


def _find_terms(model: MatchSetModel, ids: Ids, label: int) -> dict[str, Terms]:
    terms: dict[str, Terms] = {name: (ids[:0], np.empty(0, np.float32)) for name in model.parts}
    if model.lexical is not None:
        terms["lexical"] = _weigh_words(model.lexical, model.added, ids, label)
    if model.towers is not None:
        terms["towers"] = _weigh_embeddings(model.towers, model.added, ids, label)
    return terms


def _weigh_words(index: LexicalIndex, added: AddedProducts | None, ids: Ids, label: int) -> Terms:
    """Return what each word of the query adds to the BM25 score of a title."""
    n_trained, lists = len(index.row_of), index.words_of
    if added is None or label < n_trained:
        row = int(index.row_of[label])
    else:
        lists, row = added.words.words_of, label - n_trained
    begin, end = lists.offsets[row : row + 2]
    words, impacts = lists.ids[begin:end], lists.impacts[begin:end]
    if added is None or label < n_trained:
        features = words + np.int32(index.first_word)
    else:
        features = added.words.features[words]
    shared, _, at = np.intersect1d(ids, features, return_indices=True)
    return shared, impacts[at].astype(np.float32) * np.float32(index.scale)


def _weigh_embeddings(
    towers: TowerIndex, added: AddedProducts | None, ids: Ids, label: int
) -> Terms:
    """Return what each n-gram of the query adds to the cosine with a title."""
    vectors, position_of = towers.lists.vectors, towers.position_of
    if added is not None and label >= len(position_of):
        label -= len(position_of)
        vectors, position_of = added.vectors.vectors, added.vectors.position_of
    rows, position = towers.row_of[ids], int(position_of[label])
    ngrams = towers.table.take(rows[rows >= 0]).to_floats()
    length = float(np.linalg.norm(ngrams.sum(axis=0)))
    if position < 0 or length == 0:
        return ids[:0], np.empty(0, np.float32)
    title = vectors.take(np.array([position])).to_floats()[0]
    return ids[rows >= 0], (ngrams @ title / length).astype(np.float32)


def _assume_features(
    model: MatchSetModel, candidates: Candidates, label: int, terms: Mapping[str, Terms]
) -> Floats:
    """Return the features that any source would have given a product that none proposed."""
    values = {"constant": 1.0, "tree_missed": float(model.tree is not None)}
    if label < len(model.popularity):
        values["popularity"] = float(model.popularity[label])
        values["recent"] = float(model.recent[label])
    if "towers" in terms:
        cosine = float(terms["towers"][1].sum())
        others = candidates.features[:, FEATURES.index("cosine")]
        n_greater = np.count_nonzero(np.ceil(_STEPS * others) > math.ceil(_STEPS * cosine))
        values |= {"cosine": cosine, "cosine_rank": math.log1p(n_greater)}
    if "lexical" in terms:
        bm25 = float(terms["lexical"][1].sum())
        best = max(bm25, float(candidates.features[:, FEATURES.index("bm25")].max(initial=0)))
        share = bm25 / best if bm25 else 0.0
        values |= {"bm25": bm25, "bm25_any": float(bm25 > 0), "bm25_share": share}
    return np.array([values.get(name, 0.0) for name in FEATURES], dtype=np.float32)


def _rank_in_source(read: Candidates, name: str, label: int) -> int | None:
    """Return the rank of a product by a source's own score, ties by label, among what it read."""
    is_read = (read.sources & SOURCES[name]) > 0
    values = read.features[is_read, FEATURES.index(_RANKED_BY[name])]
    at = np.flatnonzero(read.labels[is_read][np.lexsort((read.labels[is_read], -values))] == label)
    return int(at[0]) + 1 if len(at) else None
