"""Learning a match set: how do its parts come from a log, and what decides between them?"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from matchset import _native
from matchset.config import TrainConfig, count_threads
from matchset.data.catalog import Catalog
from matchset.data.log import Log
from matchset.errors import DataError
from matchset.learn.clusters import build_inverted_lists
from matchset.learn.fit_reranker import fit_reranker
from matchset.learn.hold_back import HeldBack, hold_back
from matchset.learn.labeled_candidates import label_candidates
from matchset.learn.train import Progress, TrainedTree
from matchset.learn.train import train as train_tree
from matchset.learn.training_data import Examples, TrainingData, prepare_training_data
from matchset.learn.two_tower import TwoTowerConfig, train_two_tower
from matchset.matrices import Csr
from matchset.model.lexical import index_titles
from matchset.model.match_set_model import MatchSetModel
from matchset.model.neighbors import remember_queries
from matchset.model.packed import pack
from matchset.model.reranker import Reranker, default_reranker
from matchset.model.towers import TowerIndex

logger = logging.getLogger(__name__)

OnProgress = Callable[[Progress], None]
_FITTED = 3000  # validation queries whose candidates are described, at most: half a gigabyte


@dataclass(frozen=True, slots=True, eq=False)
class TrainedMatchSet:
    """A model, what it was learned from, and the tree inside before it was packed."""

    model: MatchSetModel
    data: TrainingData
    tree: TrainedTree | None


def train_match_set(
    log: Log, catalog: Catalog | None, config: TrainConfig, *, progress: OnProgress = lambda _: None
) -> TrainedMatchSet:
    """Learn how to weigh the parts on what is held back, then train the parts on everything."""
    reranker = default_reranker("tune is off")
    if config.tune:
        reranker = tune(log, catalog, config, progress=progress)
    return train_parts(log, catalog, config, reranker, progress=progress)


def tune(
    log: Log, catalog: Catalog | None, config: TrainConfig, *, progress: OnProgress = lambda _: None
) -> Reranker:
    """The re-ranker that puts held-back positives first, with parts trained on the rest."""
    held = hold_back(log, config)
    try:
        trained = train_parts(held.rest, catalog, config, default_reranker(""), progress=progress)
    except DataError:
        return default_reranker("nothing is left to train on when validation queries are held back")
    reranker = learn_reranker(trained, held, config)
    progress(Progress("tune", 1, 1))
    return reranker


def learn_reranker(trained: TrainedMatchSet, held: HeldBack, config: TrainConfig) -> Reranker:
    """Describe the candidates of the held-back queries, and fit the re-ranker to them."""
    threads = count_threads(config.learn.threads)
    rows = np.random.default_rng(config.learn.seed).permutation(len(held.queries))[:_FITTED]
    label_of = trained.data.products.ids.index_of(held.products).astype(np.int32)
    pairs = held.pairs.take(rows)
    wanted = Csr(pairs.indptr, label_of[pairs.indices], pairs.data, pairs.n_cols)
    queries = held.queries.take(rows)
    model = trained.model
    candidates = model.describe(trained.data.vectorizer.native, queries, threads=threads)
    labeled = label_candidates(candidates, wanted, held.is_complete[rows], n_days=held.n_days)
    return fit_reranker(labeled, model.parts, threads=threads)


def train_parts(
    log: Log,
    catalog: Catalog | None,
    config: TrainConfig,
    reranker: Reranker,
    *,
    progress: OnProgress = lambda _: None,
) -> TrainedMatchSet:
    """Train each part of a match set; those that read titles need a catalog."""
    threads = count_threads(config.learn.threads)
    data = prepare_training_data(log, catalog, config, threads=config.learn.threads)
    progress(Progress("vectorize", 1, 1))
    X, Y, X_titles = _divide(data)
    parts = _find_parts(config, has_titles=X_titles is not None)
    model = MatchSetModel(
        _native.log_fixed(1 + data.n_queries_of.astype(np.float64)).astype(np.float32),
        reranker,
        tree=None,
        neighbors=remember_queries(
            data.positives.queries,
            X,
            Y,
            n_known=data.vectorizer.vocabulary.n_known,
            frequency=log.query_counts()[log.queries.index_of(data.positives.queries)],
        ),
    )
    progress(Progress("neighbors", 1, 1))
    tree = None
    if "tree" in parts:
        # Beside the towers, which read the titles, the tree needs none: it finds as much, and takes
        # a third of the time.
        examples = Examples(X, Y) if "towers" in parts else data.examples
        tree = train_tree(examples, config.learn, progress=progress)
        model = replace(model, tree=pack(tree.model, precision=config.precision, threads=threads))
        progress(Progress("pack", 1, 1))
    if "towers" in parts and X_titles is not None:
        towers = _train_towers(X, X_titles, Y, config, progress=progress)
        model = replace(model, towers=towers)
    if "lexical" in parts and X_titles is not None:
        order = None if model.towers is None else model.towers.lists.labels
        lexical = index_titles(X_titles, data.vectorizer.vocabulary, order=order)
        model = replace(model, lexical=lexical)
        progress(Progress("lexical", 1, 1))
    if "neighbors" not in parts:
        model = replace(model, neighbors=None)
    return TrainedMatchSet(model, data, tree)


def _find_parts(config: TrainConfig, *, has_titles: bool) -> tuple[str, ...]:
    """The parts that can be trained: two of them read titles."""
    parts = tuple(p for p in config.parts if has_titles or p in ("tree", "neighbors"))
    if not parts:
        raise DataError(f"{' and '.join(config.parts)} must have a catalog's titles; got none")
    return parts


def _divide(data: TrainingData) -> tuple[Csr, Csr, Csr | None]:
    """Queries x features, queries x products, and titles x features if titles are instances."""
    examples, n_queries = data.examples, len(data.positives.queries)
    queries = np.arange(n_queries)
    X, Y = examples.X.take(queries), examples.Y.take(queries)
    if len(examples.X) == n_queries:
        return X, Y, None
    return X, Y, examples.X.take(np.arange(n_queries, len(examples.X)))


def _train_towers(
    X: Csr, X_titles: Csr, Y: Csr, config: TrainConfig, *, progress: OnProgress
) -> TowerIndex:
    settings = TwoTowerConfig(seed=config.learn.seed, threads=config.learn.threads)
    towers = train_two_tower(
        X, X_titles, Y, settings, progress=lambda done, n: progress(Progress("fit", done, n))
    )
    lists = build_inverted_lists(
        towers.vectors, seed=config.learn.seed, threads=count_threads(config.learn.threads)
    )
    progress(Progress("encode", 1, 1))
    return TowerIndex.of(towers.row_of, towers.table, lists)
