"""Training: how do instances and their labels become a model?"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from matchset.config import LearnConfig
from matchset.learn.embeddings import embed_labels
from matchset.learn.layers import train_layer
from matchset.learn.negatives import raise_labels, select_instances
from matchset.learn.tree import build_tree
from matchset.matrices import Csr, Ids, from_scipy
from matchset.model.layers import LayerWeights, TreeModel
from matchset.model.tree import LabelTree
from matchset.threads import count_threads

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
    negatives: Csr | None = (
        None  # instances x labels: pairs that the labels' clusters also learn from
    )


def train(
    examples: Examples,
    config: LearnConfig,
    *,
    progress: Callable[[Progress], None] = lambda _: None,
) -> TreeModel:
    """Embed the labels, put them into a tree, then learn layer by layer which way to go.

    Labels without a positive have nothing to learn from: they are left out of the tree, cost
    nothing and are never predicted.
    """
    threads = count_threads(config.threads)
    X, Y = examples.X, examples.Y
    by_label = Y.transposed()
    placed = np.flatnonzero(np.diff(by_label.offsets)).astype(np.int32)
    log.info("%d of %d labels have positives", len(placed), Y.width)

    vectors = None if examples.label_vectors is None else _take(examples.label_vectors, placed)
    Z = embed_labels(X, _take(by_label, placed), given=vectors, config=config, threads=threads)
    progress(Progress("embed", 1, 1))
    tree = build_tree(
        Z,
        branching=config.branching,
        max_leaf=config.max_leaf,
        passes=config.cluster_passes,
        seed=config.seed,
        threads=threads,
    )
    tree = LabelTree(placed[tree.labels], tree.offsets)
    progress(Progress("tree", 1, 1))

    layers = _train_layers(examples, tree, config, threads=threads, progress=progress)
    return TreeModel(tree, tuple(layers), X.width, Y.width)


def _train_layers(
    examples: Examples,
    tree: LabelTree,
    config: LearnConfig,
    *,
    threads: int,
    progress: Callable[[Progress], None],
) -> list[LayerWeights]:
    pairs = examples.Y if examples.pair_weights is None else examples.pair_weights
    positives = raise_labels(_to_positions(pairs, tree), tree)
    given = None
    if examples.negatives is not None:
        given = raise_labels(_to_positions(examples.negatives, tree), tree)
    layers: list[LayerWeights] = []
    for level, first_child in enumerate(tree.offsets):
        instances = select_instances(
            level,
            examples.X,
            positives=positives,
            given=given,
            tree=tree,
            layers=layers,
            config=config,
            threads=threads,
        )

        def report(done: int, level: int = level, total: int = len(instances)) -> None:
            progress(Progress("solve", done, total, level + 1, tree.depth))

        layers.append(
            train_layer(
                examples.X,
                instances,
                positives[level].transposed(),
                first_child,
                config=config,
                seed=config.seed * 64 + level,
                threads=threads,
                on_parents=report,
            )
        )
    return layers


def _take(matrix: Csr, rows: Ids) -> Csr:
    """Some rows of a matrix."""
    return from_scipy(matrix.to_scipy()[rows])


def _to_positions(pairs: Csr, tree: LabelTree) -> Csr:
    """Instances x leaf positions; pairs of labels outside the tree are dropped."""
    position = np.full(pairs.width, -1, dtype=np.int32)
    position[tree.labels] = np.arange(len(tree.labels), dtype=np.int32)
    columns = position[pairs.columns]
    is_placed = columns >= 0
    offsets = np.concatenate([[0], np.cumsum(is_placed, dtype=np.int64)])[pairs.offsets]
    kept = Csr(offsets, columns[is_placed], pairs.values[is_placed], len(tree.labels)).to_scipy()
    kept.sort_indices()
    return from_scipy(kept)
