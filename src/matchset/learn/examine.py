"""Examination: what do parts trained on a rest propose for the queries held back from it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.learn.fit_reranker import fit_reranker
from matchset.learn.held_kinds import ELSEWHERE, MISSPELT, RECENT, HeldBack
from matchset.learn.labeled_candidates import LabeledCandidates, label_candidates
from matchset.learn.training_data import TrainingData
from matchset.matrices import Csr
from matchset.model.added import index_added
from matchset.model.match_set_model import MatchSetModel
from matchset.model.reranker import LEAST_NEW, Reranker
from matchset.strings import Strings

_LEAST_SHOWN = 2 / 3  # of the products, in a log with impressions
_BLOCK = 128  # queries that are described at once

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
    is_shown = np.ones(len(ids), np.bool_) if held.shown is None else held.shown.index_of(ids) >= 0
    is_out = ~is_shown & (is_shown.mean() >= _LEAST_SHOWN)
    is_gone = held.cold.index_of(ids) >= 0
    is_recent = np.isin(held.kinds, (RECENT, MISSPELT))
    blocks = []
    for begin in range(0, max(1, len(held.queries)), _BLOCK):
        end = min(begin + _BLOCK, len(held.queries))
        texts, kinds = held.queries[begin:end], held.kinds[begin:end]
        found = model.describe(data.vectorizer.native, texts, bounds=bounds, threads=threads)
        block = label_candidates(found, pairs.slice(begin, end), kinds, n_days=held.n_days)
        labels = block.candidates.labels
        is_left_out = is_out[labels] | (is_gone[labels] & is_recent[begin:end][block.row])
        blocks.append(block.select(~block.is_other, ~is_left_out))
    return LabeledCandidates.join(blocks), share


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
    """Return the model with products that were held back, as if they came after the training."""
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
