"""Reasons: what do the parts of a match set know of one product, and which of them proposed it?

Features are those of the code that answers queries. What is added here is how they come about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.matrices import Floats, Ids
from matchset.model.added import AddedProducts, AddedWords
from matchset.model.lexical import LexicalIndex
from matchset.model.match_set_model import SOURCES, Bounds, Candidates, MatchSetModel
from matchset.model.reranker import COLD, DECISIVE, FEATURES, WARM
from matchset.model.towers import TowerIndex
from matchset.strings import Strings

_ALL = 2**31 - 1
_STEPS = 128  # of cosines from 0 to 1, as search counts ranks
_DECIDING = ("popularity", "all_words", "words_decide")
_RANKED_BY = {
    "tree": "tree_log",
    "towers": "cosine",
    "lexical": "bm25",
    "neighbors": "vote_share",
}


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """What features of the query add to a part's score of the product."""

    features: Ids
    values: Floats


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
    linear: float  # the sum of features times weights
    score: float  # the chance that it stands for
    rank: int  # by the linear score, among the candidates
    n_candidates: int
    sources: dict[str, SourceReason]

    def share(self, names: tuple[str, ...]) -> float:
        """What some features add to the linear score."""
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
    found = model.describe(vocabulary, text, allowed, bounds)
    read = model.describe(vocabulary, text, allowed, _propose_all(bounds))
    terms = {name: Terms(ids[:0], np.empty(0, np.float32)) for name in model.parts}
    known = model.label_of(label)
    added = known - len(model.popularity)
    is_added = added >= 0
    popularity = 0.0 if is_added else float(model.popularity[known])
    recent = 0.0 if is_added else float(model.recent[known])
    if model.lexical is not None:
        terms["lexical"] = (
            weigh_words(model.lexical, ids, known)
            if model.added is None or added < 0
            else weigh_added_words(model.added.words, model.lexical.scale, ids, added)
        )
    if model.towers is not None:
        vector = find_vector(model.towers, model.added, known)
        terms["towers"] = weigh_embeddings(model.towers, ids, vector)
    at = _position(found, label)
    told = {"popularity": popularity, "recent": recent}
    features = _features(model, found, at, terms, told)
    scores, order = score_linear(model, found, bounds.cold_shift)
    weights = model.reranker.weights[found.situations[0], WARM if popularity > 0 else COLD].copy()
    if popularity <= 0:
        weights[FEATURES.index("constant")] += np.float32(bounds.cold_shift)
    linear = float(features @ weights) if at is None else float(scores[at])
    return Reasons(
        is_candidate=at is not None,
        features=features.astype(np.float64),
        weights=weights.astype(np.float64),
        linear=linear,
        score=_find_chance(model, int(found.situations[0]), linear),
        rank=1 + _count_better(order, found.labels, linear if at is None else order[at], label),
        n_candidates=len(scores),
        sources={
            name: SourceReason(
                is_proposed=at is not None and bool(found.sources[at] & SOURCES[name]),
                rank=_rank_in_source(read, name, label),
                terms=terms[name],
            )
            for name in model.parts
        },
    )


def _find_chance(model: MatchSetModel, situation: int, linear: float) -> float:
    """The chance that a linear score stands for, as search computes it."""
    log_odds = model.reranker.calibrations[situation].read(np.array([linear]))[0]
    return 1 / (1 + math.exp(-min(max(log_odds, -30.0), 30.0)))


def _propose_all(bounds: Bounds) -> Bounds:
    """Bounds under which sources read as much as before, and propose all that they read."""
    limits = [name for name in asdict(bounds) if name.endswith("_products")]
    return replace(bounds, **dict.fromkeys(limits, _ALL))


def score_linear(
    model: MatchSetModel, found: Candidates, cold_shift: float
) -> tuple[Floats, Floats]:
    """Linear scores of a query's candidates, and what they are ordered by: words may decide."""
    features = {name: found.features[:, FEATURES.index(name)] for name in _DECIDING}
    is_warm = (features["popularity"] > 0).astype(np.int64)
    weights = model.reranker.weights[found.situations[0], is_warm]
    scores: Floats = np.einsum("ij,ij->i", found.features, weights)
    scores = scores + np.float32(cold_shift) * (1 - is_warm).astype(np.float32)
    decides, has_all = features["words_decide"], features["all_words"] > 0
    most = scores[has_all].max(initial=-np.inf)
    order = scores + np.float32(DECISIVE) * np.maximum(decides, 0)
    return scores, np.where(decides < 0, np.minimum(scores, np.nextafter(most, -np.inf)), order)


def weigh_words(index: LexicalIndex, ids: Ids, label: int) -> Terms:
    """What each word of the query adds to the BM25 score of a title."""
    row = int(index.row_of[label])
    begin, end = index.words_of.offsets[row : row + 2]
    words, impacts = index.words_of.ids[begin:end], index.words_of.impacts[begin:end]
    _, ours, theirs = np.intersect1d(ids - index.first_word, words, return_indices=True)
    values = impacts[theirs].astype(np.float32) * np.float32(index.scale)
    return Terms(ids[ours], values)


def weigh_added_words(words: AddedWords, scale: float, ids: Ids, row: int) -> Terms:
    """The same for an added product; words that the vocabulary lacks are not among them."""
    begin, end = words.words_of.offsets[row : row + 2]
    features = words.features[words.words_of.ids[begin:end]]
    impacts = words.words_of.impacts[begin:end]
    shared, _, theirs = np.intersect1d(ids, features, return_indices=True)
    return Terms(shared, impacts[theirs].astype(np.float32) * np.float32(scale))


def find_vector(towers: TowerIndex, added: AddedProducts | None, label: int) -> Floats | None:
    """The vector of a product's title; None where it has none."""
    vectors, position_of = towers.lists.vectors, towers.position_of
    if added is not None and label >= len(position_of):
        label -= len(position_of)
        vectors, position_of = added.vectors.vectors, added.vectors.position_of
    position = int(position_of[label])
    return None if position < 0 else vectors.take(np.array([position])).to_floats()[0]


def weigh_embeddings(towers: TowerIndex, ids: Ids, product: Floats | None) -> Terms:
    """What each n-gram of the query adds to the cosine with a title; none where one is zero."""
    rows = towers.row_of[ids]
    known = ids[rows >= 0]
    vectors = towers.table.take(rows[rows >= 0]).to_floats()
    length = float(np.linalg.norm(vectors.sum(axis=0)))
    if product is None or length == 0:
        return Terms(ids[:0], np.empty(0, np.float32))
    values: Floats = (vectors @ product / length).astype(np.float32)
    return Terms(known, values)


def _position(candidates: Candidates, label: int) -> int | None:
    at = np.flatnonzero(candidates.labels == label)
    return int(at[0]) if len(at) else None


def _features(
    model: MatchSetModel,
    found: Candidates,
    at: int | None,
    terms: dict[str, Terms],
    told: Mapping[str, float],
) -> Floats:
    """The features of a candidate; of another product those that any source would have given it."""
    if at is not None:
        mine: Floats = found.features[at]
        return mine
    features: Floats = np.zeros(len(FEATURES), dtype=np.float32)
    values = {"constant": 1.0, **told}
    values["tree_missed"] = float(model.tree is not None)
    if "towers" in terms:
        cosine = float(terms["towers"].values.sum())
        others = found.features[:, FEATURES.index("cosine")]
        n_greater = np.count_nonzero(np.ceil(_STEPS * others) > math.ceil(_STEPS * cosine))
        values |= {"cosine": cosine, "cosine_rank": math.log1p(n_greater)}
    if "lexical" in terms:
        best = float(found.features[:, FEATURES.index("bm25")].max(initial=0))
        bm25 = float(terms["lexical"].values.sum())
        share = bm25 / max(best, bm25) if bm25 else 0.0
        values |= {"bm25": bm25, "bm25_any": float(bm25 > 0), "bm25_share": share}
    for name, value in values.items():
        features[FEATURES.index(name)] = value
    return features


def _count_better(scores: Floats, labels: Ids, linear: float, label: int) -> int:
    """Candidates that rank before a score: ties go to the smaller label."""
    is_tied = (scores == np.float32(linear)) & (labels < label)
    return int(np.count_nonzero((scores > np.float32(linear)) | is_tied))


def _rank_in_source(read: Candidates, name: str, label: int) -> int | None:
    """Rank of a product by a source's own score, among what the source read."""
    mine = (read.sources & SOURCES[name]) > 0
    labels = read.labels[mine]
    values = read.features[mine, FEATURES.index(_RANKED_BY[name])]
    at = np.flatnonzero(labels == label)
    if len(at) == 0:
        return None
    return 1 + _count_better(values, labels, float(values[at[0]]), label)
