"""Examination: what do parts trained on a rest propose for the queries held back from it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.learn.fit_reranker import fit_reranker
from matchset.learn.held_kinds import ELSEWHERE, RECENT, HeldBack
from matchset.learn.labeled_candidates import LabeledCandidates, label_candidates
from matchset.learn.training_data import TrainingData
from matchset.matrices import Csr
from matchset.model.added import index_added
from matchset.model.match_set_model import MatchSetModel
from matchset.model.reranker import LEAST_NEW, Reranker
from matchset.strings import Strings

_LEAST_SHOWN = 2 / 3  # of the products, in a log with impressions


# Candidates of validation queries; share of new products among the answers.
Examination: TypeAlias = tuple[LabeledCandidates, float]


def learn_reranker(
    rounds: Sequence[Examination], parts: tuple[str, ...], *, threads: int
) -> Reranker:
    """Fit the re-ranker to the candidates of all held-back queries."""
    labeled = LabeledCandidates.join([labeled for labeled, _ in rounds])
    return fit_reranker(labeled, parts, new_share=rounds[0][1], threads=threads)


def describe_held(
    model: MatchSetModel,
    data: TrainingData,
    held: HeldBack,
    catalog: Catalog | None,
    *,
    threads: int,
) -> Examination:
    """Describe the candidates of held-back queries, and measure the share of new products.

    A product that no row of the log has was perhaps not on sale yet. It is no wrong answer, or all
    new products would seem worse than they are. Where many products are like that, most were
    never wanted: there they count. Of recent queries, products count that were not held back.
    """
    ids = data.products.ids
    if len(held.left) and catalog is not None and {"lexical", "towers"} & set(model.parts):
        ids = Strings.concatenate([ids, held.left])
        model = _add_left(model, data, catalog, held.left, threads=threads)
    label_of = ids.index_of(held.products).astype(np.int32)
    pairs = replace(held.pairs, indices=label_of[held.pairs.indices])
    is_cold = np.append(data.n_queries_of == 0, np.ones(len(ids) - len(data.products), np.bool_))
    share = _measure_new(pairs, held, is_cold)
    bounds = replace(model.bounds, cold_share=share)
    labeled = label_candidates(
        model.describe(data.vectorizer.native, held.queries, bounds=bounds, threads=threads),
        pairs,
        held.kinds,
        n_days=held.n_days,
    )
    is_out = (held.cold.index_of(ids) >= 0)[labeled.candidates.labels]
    is_out &= (held.kinds == RECENT)[labeled.row]
    if held.shown is not None:
        is_shown = held.shown.index_of(ids) >= 0
        if is_shown.mean() >= _LEAST_SHOWN:
            is_out |= ~is_shown[labeled.candidates.labels]
    return labeled.keep(~is_out).drop_others(), share


def _measure_new(pairs: Csr, held: HeldBack, is_cold: NDArray[np.bool_]) -> float:
    """Share of products without a past query among answers: of the recent days, or assumed.

    Where time can't tell, it is assumed to be that of products which the log lacks.
    """
    share = held.share_unseen
    if held.is_by_time:
        is_asked = (pairs.indices >= 0) & (pairs.data != ELSEWHERE)
        is_asked &= (held.kinds == RECENT)[pairs.row_of_entry]
        share = float(is_cold[pairs.indices[is_asked]].mean()) if is_asked.any() else 0.0
    return round(min(max(share, LEAST_NEW), 1 - LEAST_NEW), 4)


def _add_left(
    model: MatchSetModel, data: TrainingData, catalog: Catalog, left: Strings, *, threads: int
) -> MatchSetModel:
    """The model with products that were held back, as if they came after the training."""
    rows = catalog.ids.index_of(left)
    texts = [each.take(rows) for each in (catalog.titles, catalog.more_text) if each is not None]
    added = index_added(
        tuple(texts),
        data.vectorizer,
        lexical=model.lexical,
        towers=model.towers,
        is_warm=model.popularity > 0,
        is_gone=np.zeros(len(data.products), dtype=np.bool_),
        threads=threads,
    )
    return replace(model, added=added)
