"""Refresh: how does a match set learn from the log since its training, at a fraction of the cost?

It is a training in which all is kept that did not change: n-grams and their embeddings, leaves of
the tree whose pairs are those of before, the re-ranker and its calibration. Past queries,
popularity and the lexical index are made anew, which costs little.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.data.log import Log
from matchset.data.positives import apply_rule
from matchset.data.recency import count_recent, find_last_day, keep_recent
from matchset.features.vectorizer import Vectorizer
from matchset.learn.clusters import update_inverted_lists
from matchset.learn.refresh_data import Known, RefreshData, find_words, prepare_refresh
from matchset.learn.refresh_report import RefreshReport
from matchset.learn.refresh_tree import RefreshedTree, refresh_tree
from matchset.learn.training_data import Examples, join_titles, name_products
from matchset.matrices import Csr, from_scipy, rows_of
from matchset.model.heirs import find_heirs
from matchset.model.lexical import index_titles
from matchset.model.match_set_model import MatchSetModel
from matchset.model.neighbors import remember_queries
from matchset.model.towers import TowerIndex, encode_products

_ASKED = 2000  # queries of the new log that measure what the model found before, at most
_KS = (10, 50, 100)


@dataclass(frozen=True, slots=True, eq=False)
class RefreshedMatchSet:
    """A model that has learned from a log, and what is told of it."""

    model: MatchSetModel
    vectorizer: Vectorizer
    n_queries_of: NDArray[np.int64]
    query_hashes: NDArray[np.uint64]  # of the queries that have pairs now
    last_day: date | None  # of all logs that it has learned from
    report: RefreshReport


def refresh_match_set(
    known: Known, log: Log, old_log: Log | None, before: RefreshReport | None, *, threads: int
) -> RefreshedMatchSet:
    """Learn from a log; `before` tells of an earlier refresh since the training."""
    began = time.perf_counter()
    data = prepare_refresh(known, log, old_log, threads=threads)
    X_titles, *others = (
        from_scipy(data.vectorizer.transform(texts, threads=threads)) for texts in known.texts
    )
    model = known.model
    tree = _refresh_tree(known, data, X_titles, threads) if model.tree is not None else None
    towers = None
    if model.towers is not None:
        towers = _refresh_towers(known, data, [X_titles, *others], threads)
    lexical = model.lexical and index_titles(
        X_titles,
        data.vectorizer.vocabulary,
        X_more=others[0] if others else None,
        order=None if towers is None else towers.lists.labels,
    )
    neighbors = model.neighbors and remember_queries(
        data.hashes,
        data.X,
        data.Y,
        n_known=data.vectorizer.vocabulary.n_known,
        frequency=np.add.reduceat(data.Y.data.astype(np.float64), data.Y.indptr[:-1]),
        most=known.config.max_past_queries,
    )
    last_day = find_last_day(log, old_log, before=known.last_day)
    recent = _count_recent(known, log, old_log, last_day)
    heirs = None
    if tree is not None and towers is not None:
        heirs = find_heirs(towers, data.n_queries_of > 0, threads=threads)
    refreshed = replace(
        model,
        heirs=heirs,
        popularity=_native.log_fixed(1 + data.n_queries_of.astype(np.float64)).astype(np.float32),
        recent=_native.log_fixed(1 + recent).astype(np.float32),
        tree=None if tree is None else tree.tree,
        towers=towers,
        lexical=lexical,
        neighbors=neighbors,
        added=None,
    )
    measured = _measure_recall(known, log, threads)
    report = RefreshReport(
        refreshed=datetime.now(UTC).isoformat(timespec="seconds"),
        refreshes=1 if before is None else before.refreshes + 1,
        from_old_log=old_log is not None,
        share_unknown_words=_measure_unknown(known, log),
        seconds=time.perf_counter() - began,
        **_count(known, data, tree, 0 if before is None else before.new_products),
        **measured,
    )
    return RefreshedMatchSet(
        refreshed, data.vectorizer, data.n_queries_of, data.hashes, last_day, report
    )


def _count_recent(
    known: Known, log: Log, old_log: Log | None, last_day: date | None
) -> NDArray[np.float64]:
    """Events of each product, the older on the last day the less.

    Those before the log come from the old log, or else from the model, which has them as they
    counted on its own last day.
    """
    recent = np.zeros(len(known.products))
    for each in (log,) if old_log is None else (old_log, log):
        counts = count_recent(each, known.training_rule(each).weights, last_day)
        recent += name_products(counts, each.products, known.products)
    if old_log is None and known.last_day is not None and last_day is not None:
        is_kept = known.label_of >= 0
        before: NDArray[np.float64] = np.expm1(known.model.recent[is_kept].astype(np.float64))
        recent[known.label_of[is_kept]] += keep_recent(before.round(4), known.last_day, last_day)
    return recent


def _count(
    known: Known, data: RefreshData, tree: RefreshedTree | None, n_before: int
) -> dict[str, Any]:
    """Return what a report counts; `n_before` products came before the last refresh."""
    return {
        "new_pairs": data.n_new_pairs,
        "pairs": len(data.Y.indices),
        "queries": len(data.hashes),
        "unknown_products": data.n_unknown,
        "leaves": 0 if tree is None else tree.n_leaves,
        "solved_leaves": 0 if tree is None else tree.n_solved,
        "split_leaves": 0 if tree is None else tree.n_split,
        "solved_above": tree is not None and tree.is_solved_above,
        "products": len(known.products),
        "new_products": n_before + len(known.products) - known.n_kept,
    }


def _measure_recall(known: Known, log: Log, threads: int) -> dict[str, Any]:
    """Recall@10, 50 and 100 of a log's queries before anything is learned from it, and then."""
    reranker = known.model.reranker
    then = tuple(reranker.facts["recall"]["all"]) if reranker.is_learned else None
    wanted = apply_rule(log, known.relevance_rule(log))
    n = len(wanted.queries)
    rows = np.sort(np.random.default_rng(known.config.learn.seed).permutation(n)[:_ASKED])
    if len(rows) == 0:
        return {"recall": (0.0,) * len(_KS), "recall_queries": 0, "recall_trained": then}
    native, queries = known.vectorizer.native, wanted.queries.take(rows)
    found = known.model.search_texts(native, queries, max(_KS), threads=threads)
    pairs = from_scipy(wanted.pairs).take(rows)
    label = known.products.index_of(wanted.products)[pairs.indices]
    width = np.int64(len(known.products) + 1)
    keys, asked = (row * width for row in (pairs.row_of_entry, found.row_of_entry))
    n_wanted, recalls = np.diff(pairs.indptr), []
    for k in _KS:
        shown = (asked + found.indices)[found.position_in_row < k]
        is_hit = (label >= 0) & np.isin(keys + label, shown)
        hits = np.bincount(pairs.row_of_entry[is_hit], minlength=len(rows))
        recalls.append(round(float((hits / n_wanted).mean()), 4))
    return {"recall": tuple(recalls), "recall_queries": len(rows), "recall_trained": then}


def _measure_unknown(known: Known, log: Log) -> float:
    """Share of the words in a log's queries, as often as they were asked, without embedding."""
    counts = log.query_counts()
    starts, features = find_words(log.queries, known.vectorizer)
    weight = counts[rows_of(starts)]
    is_unknown = features < 0
    if known.model.towers is not None:
        is_unknown |= known.model.towers.row_of[features] < 0
    return round(float(weight[is_unknown].sum() / max(1.0, weight.sum())), 4)


def _refresh_tree(known: Known, data: RefreshData, X_titles: Csr, threads: int) -> RefreshedTree:
    """Return the tree; one that was trained without towers has learned from titles, too."""
    packed, config = known.model.tree, known.config
    if packed is None:
        raise RuntimeError("a tree must be there")
    examples = Examples(data.X, data.Y)
    if known.model.towers is None and len(packed.labels) == len(known.label_of):
        examples = join_titles(data.X, data.Y, X_titles, config.title_weight)
    return refresh_tree(
        packed,
        examples,
        data.is_changed,
        config.learn,
        label_of=known.label_of,
        feature_of=data.feature_of,
        threads=threads,
    )


def _refresh_towers(known: Known, data: RefreshData, texts: list[Csr], threads: int) -> TowerIndex:
    """Return the same embeddings; products that came have vectors now, and lists that hold them."""
    towers = known.model.towers
    if towers is None:
        raise RuntimeError("towers must be there")
    row_of = np.full(data.vectorizer.n_features, -1, dtype=np.int32)
    row_of[data.feature_of] = towers.row_of
    new = [X.slice(known.n_kept, len(X)) for X in texts]
    rows = [(X.indptr, X.indices) for X in new]
    vectors = encode_products(rows, row_of, towers.table, threads=threads)
    seed = known.config.learn.seed
    lists = update_inverted_lists(towers.lists, known.label_of, vectors, seed=seed, threads=threads)
    return TowerIndex.of(row_of, towers.table, lists)
