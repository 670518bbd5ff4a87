"""Training: how do instances and their labels become a model?"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from matchset.config import LearnConfig, count_threads
from matchset.learn.embeddings import embed_labels
from matchset.learn.label_tree import build_tree
from matchset.learn.layers import LayerProblem, train_layer
from matchset.learn.negatives import propagate_labels, select_instances
from matchset.learn.training_data import Examples
from matchset.model.tree import LabelTree, TreeModel

logger = logging.getLogger(__name__)

# In the order in which they are reported: "embed", "tree" and "solve" by this module, "read",
# "vectorize" and "pack" around them by `matchers.train`, "fit" and "encode" by DSSM and the two
# towers, "neighbors", "lexical" and "tune" by `learn.match_set`.
Stage = Literal[
    "read", "vectorize", "embed", "tree", "solve", "pack", "fit", "encode",
    "neighbors", "lexical", "tune",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Progress:
    """A step that training has just finished; raising an exception on it cancels the training."""

    stage: Stage
    done: int  # parents solved so far in this layer ("solve"), training steps ("fit"); otherwise 1
    total: int
    layer: int = 0  # of a tree ("solve"), from 1; otherwise 0
    n_layers: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class TrainedTree:
    """A model, and how many classifiers of each layer used up `max_iter` before they converged."""

    model: TreeModel
    n_unconverged: tuple[int, ...]


def train(
    examples: Examples,
    config: LearnConfig,
    *,
    progress: Callable[[Progress], None] = lambda _: None,
) -> TrainedTree:
    """Embed the labels, cluster them into a tree, then train it layer by layer.

    Labels without a positive have nothing to learn from: they are left out of the tree and are
    never predicted.
    """
    threads = count_threads(config.threads)
    tree = _build_label_tree(examples, config, threads=threads, progress=progress)
    pairs = examples.Y if examples.pair_weights is None else examples.pair_weights
    positives = propagate_labels(pairs, tree)
    given = None if examples.negatives is None else propagate_labels(examples.negatives, tree)

    model = TreeModel(tree, (), examples.X.n_cols, examples.Y.n_cols)
    n_unconverged: list[int] = []
    for level in range(tree.depth):
        instances = select_instances(
            examples.X, model, positives=positives, given=given, config=config, threads=threads
        )

        def report(done: int, level: int = level, total: int = len(instances)) -> None:
            progress(Progress("solve", done, total, level + 1, tree.depth))

        layer = train_layer(
            LayerProblem(
                examples.X,
                instances,
                positives[level].transposed(),
                tree.offsets[level],
                examples.instance_weights,
            ),
            config,
            seed=config.seed * 64 + level,  # a tree is never that deep
            threads=threads,
            on_parents=report,
        )
        model = replace(model, layers=(*model.layers, layer.weights))
        n_unconverged.append(layer.n_unconverged)
    _warn_of_unconverged(sum(n_unconverged), sum(tree.sizes), config)
    _warn_of_few_weights(model, config)
    return TrainedTree(model, tuple(n_unconverged))


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
    logger.info("%d of %d labels have positives", len(placed), len(by_label))
    vectors = examples.label_vectors
    given = None if vectors is None else vectors.take(placed)
    Z = embed_labels(examples.X, by_label.take(placed), given=given, config=config, threads=threads)
    progress(Progress("embed", 1, 1))
    tree = build_tree(
        Z,
        branching=config.branching,
        max_leaf_size=config.max_leaf_size,
        max_iter=config.kmeans_max_iter,
        seed=config.seed,
        threads=threads,
    )
    progress(Progress("tree", 1, 1))
    return LabelTree(placed[tree.labels], tree.offsets)


def _warn_of_unconverged(n_unconverged: int, n_classifiers: int, config: LearnConfig) -> None:
    if n_unconverged:
        logger.warning(
            "%s of %s classifiers did not converge within max_iter=%d passes; "
            "a smaller C, scaled features or a larger max_iter may help",
            f"{n_unconverged:,}",
            f"{n_classifiers:,}",
            config.max_iter,
        )


def _warn_of_few_weights(model: TreeModel, config: LearnConfig) -> None:
    """Warn if the threshold, which is absolute, has removed almost everything.

    The larger the values of features are, the smaller are the weights that they need.
    """
    n_weights, n_classifiers = sum(len(layer.weights) for layer in model.layers), model.tree.sizes
    if config.threshold > 0 and n_weights < sum(n_classifiers):
        logger.warning(
            "threshold=%g leaves %s weights for %s classifiers, fewer than one each; "
            "a lower threshold or features of smaller values may help",
            config.threshold,
            f"{n_weights:,}",
            f"{sum(n_classifiers):,}",
        )
