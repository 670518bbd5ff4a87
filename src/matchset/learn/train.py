"""Training: how do instances and their labels become a model?"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from matchset.config import LearnConfig, count_threads
from matchset.learn.embeddings import embed_labels
from matchset.learn.label_tree import build_tree
from matchset.learn.layers import LayerProblem, train_layer
from matchset.learn.negatives import propagate_labels, select_instances
from matchset.learn.sinks import FolderSink, MemorySink
from matchset.matrices import Csr
from matchset.model.tree import LabelTree, TreeModel

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """What training has just done; an exception from who hears it cancels the training."""

    stage: str  # "embed", "tree" or "solve"
    done: int  # parents solved so far in this layer; 1 when another stage has ended
    total: int
    layer: int = 0
    n_layers: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What is learned from; rows of X, Y and the optional pair matrices are instances."""

    X: Csr  # instances x features
    Y: Csr  # instances x labels: positive pairs, no stored zeros
    label_vectors: Csr | None = None  # labels x anything
    pair_weights: Csr | None = None  # instances x labels: weights of Y's pairs
    negatives: Csr | None = None  # instances x labels: pairs whose clusters learn from them too


def train(
    examples: Examples,
    config: LearnConfig,
    *,
    folder: Path | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> TreeModel:
    """Embed the labels, put them into a tree, then learn layer by layer which way to go.

    Labels without a positive have nothing to learn from: they are left out of the tree, cost
    nothing and are never predicted. Weights go to files in `folder` as soon as they are known,
    where one is given; the model then maps them.
    """
    threads = count_threads(config.threads)
    tree = _build_label_tree(examples, config, threads=threads, progress=progress)
    pairs = examples.Y if examples.pair_weights is None else examples.pair_weights
    positives = propagate_labels(pairs, tree)
    given = None if examples.negatives is None else propagate_labels(examples.negatives, tree)

    model = TreeModel(tree, (), examples.X.n_cols, examples.Y.n_cols)
    for level in range(tree.depth):
        instances = select_instances(
            examples.X, model, positives=positives, given=given, config=config, threads=threads
        )

        def report(done: int, level: int = level, total: int = len(instances)) -> None:
            progress(Progress("solve", done, total, level + 1, tree.depth))

        layer = train_layer(
            LayerProblem(examples.X, instances, positives[level].transposed(), tree.offsets[level]),
            config,
            seed=config.seed * 64 + level,  # a tree is never that deep
            threads=threads,
            sink=FolderSink(folder, level) if folder else MemorySink(),
            on_parents=report,
        )
        model = replace(model, layers=(*model.layers, layer))
    return model


def _build_label_tree(
    examples: Examples,
    config: LearnConfig,
    *,
    threads: int,
    progress: Callable[[Progress], None],
) -> LabelTree:
    """The tree over the labels that have positives."""
    by_label = examples.Y.transposed()
    placed = np.flatnonzero(np.diff(by_label.indptr)).astype(np.int32)
    log.info("%d of %d labels have positives", len(placed), len(by_label))
    vectors = examples.label_vectors
    given = None if vectors is None else vectors.take(placed)
    Z = embed_labels(examples.X, by_label.take(placed), given=given, config=config, threads=threads)
    progress(Progress("embed", 1, 1))
    tree = build_tree(
        Z,
        branching=config.branching,
        max_leaf=config.max_leaf,
        passes=config.cluster_passes,
        seed=config.seed,
        threads=threads,
    )
    progress(Progress("tree", 1, 1))
    return LabelTree(placed[tree.labels], tree.offsets)
