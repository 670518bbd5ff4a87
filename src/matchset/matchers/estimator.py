"""XR-Linear over matrices: which labels does a feature vector call for?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from matchset.config import LearnConfig, count_threads
from matchset.learn.train import Examples, Progress, train
from matchset.matrices import Csr, drop_zeros, to_csr
from matchset.model.packed import PackedTree, pack
from matchset.model.search import search_rule
from matchset.model.tree import TreeModel

_DEFAULT = LearnConfig()


class XRLinear:
    """A tree of sparse linear classifiers, as an estimator in the manner of scikit-learn.

    Parameters are those of `LearnConfig`, with the same defaults; `fit` checks them. After `fit`,
    `model_` is the trained model, `n_features_in_` and `n_labels_` its widths.

    >>> import numpy as np, matchset.matchers.estimator as xr
    >>> X = np.eye(4, dtype=np.float32)
    >>> xr.XRLinear().fit(X, X).predict(X, k=1).toarray().argmax(axis=1)
    array([0, 1, 2, 3])
    """

    def __init__(
        self,
        *,
        branching: int = _DEFAULT.branching,
        max_leaf: int = _DEFAULT.max_leaf,
        cluster_passes: int = _DEFAULT.cluster_passes,
        embeddings: str = _DEFAULT.embeddings,
        pifa_entries: int | None = _DEFAULT.pifa_entries,
        pifa_rows: str = _DEFAULT.pifa_rows,
        given_share: float = _DEFAULT.given_share,
        negatives: str = _DEFAULT.negatives,
        man_beam: int = _DEFAULT.man_beam,
        loss: str = _DEFAULT.loss,
        C: float = _DEFAULT.C,
        positive_weight: float = _DEFAULT.positive_weight,
        negative_weight: float = _DEFAULT.negative_weight,
        weights: str = _DEFAULT.weights,
        bias: float = _DEFAULT.bias,
        tolerance: float = _DEFAULT.tolerance,
        max_passes: int = _DEFAULT.max_passes,
        threshold: float = _DEFAULT.threshold,
        max_weights: int | None = _DEFAULT.max_weights,
        seed: int = _DEFAULT.seed,
        threads: int | None = _DEFAULT.threads,
    ) -> None:
        self.branching = branching
        self.max_leaf = max_leaf
        self.cluster_passes = cluster_passes
        self.embeddings = embeddings
        self.pifa_entries = pifa_entries
        self.pifa_rows = pifa_rows
        self.given_share = given_share
        self.negatives = negatives
        self.man_beam = man_beam
        self.loss = loss
        self.C = C
        self.positive_weight = positive_weight
        self.negative_weight = negative_weight
        self.weights = weights
        self.bias = bias
        self.tolerance = tolerance
        self.max_passes = max_passes
        self.threshold = threshold
        self.max_weights = max_weights
        self.seed = seed
        self.threads = threads

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        label_vectors: Any = None,
        pair_weights: Any = None,
        negatives: Any = None,
        folder: Path | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> Self:
        """Learn from X (instances x features) and Y (instances x labels).

        Both are any SciPy sparse matrix or array; where Y is not zero, the label is right for the
        instance. `label_vectors` (labels x anything) serve `embeddings="given"`, `pair_weights` (of
        Y's pattern) `weights="given"`, `negatives` (instances x labels) `negatives="given"`. With
        a `folder`, weights are kept in files there and mapped.
        """
        config = LearnConfig(**self.get_params())
        given = {
            "label_vectors": (label_vectors, "given" in config.embeddings, "embeddings"),
            "pair_weights": (pair_weights, config.weights == "given", "weights"),
            "negatives": (negatives, "given" in config.negatives.split("+"), "negatives"),
        }
        for name, (value, is_wanted, parameter) in given.items():
            if (value is not None) != is_wanted:
                got = "none" if value is None else "some"
                raise ValueError(
                    f"{name} must come with {parameter}='given', and with it only; got {got}"
                )
        examples = Examples(
            to_csr(X, "X"),
            drop_zeros(to_csr(Y, "Y")),
            *(
                None if value is None else to_csr(value, name)
                for name, (value, *_) in given.items()
            ),
        )
        _check(examples)
        vars(self).pop("_packed_model", None)
        self.model_ = train(examples, config, folder=folder, progress=progress)
        self.n_features_in_ = examples.X.n_cols
        self.n_labels_ = examples.Y.n_cols
        return self

    def predict(
        self, X: Any, k: int = 100, beam: int = 10, threads: int | None = None
    ) -> sp.csr_array:
        """Scores of the k best labels of each row, (n_rows, n_labels).

        A score is the product of `exp(-max(0, 1 - w.x)^3)` along the label's path. The entries of a
        row stand best first, equal scores in the order of the tree. A row of zeros has none.
        """
        threads = count_threads(self.threads if threads is None else threads)
        found = self._packed(threads).search_rows(
            drop_zeros(to_csr(X, "X")), search_rule(k, beam), threads=threads
        )
        return found.to_scipy()

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Parameters by name; `deep` is there for scikit-learn's sake."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(LearnConfig)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"parameters must be among {', '.join(known)}; got {name!r}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Parameters that differ from their defaults."""
        default = dataclasses.asdict(_DEFAULT)
        changed = (f"{k}={v!r}" for k, v in self.get_params().items() if v != default[k])
        return f"{type(self).__name__}({', '.join(changed)})"

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: parameters and what was learned; it is packed again when first used."""
        return {name: value for name, value in vars(self).items() if name != "_packed_model"}

    def _packed(self, threads: int) -> PackedTree:
        """The model in the form that search wants, made once."""
        model: TreeModel | None = getattr(self, "model_", None)
        if model is None:
            raise ValueError("fit must be called before predict; got an estimator without model_")
        packed: PackedTree | None = getattr(self, "_packed_model", None)
        if packed is None:
            packed = pack(model, precision="float32", threads=threads)
            self._packed_model = packed
        return packed


def _check(examples: Examples) -> None:
    X, Y = examples.X, examples.Y
    if len(X) != len(Y):
        raise ValueError(f"X and Y must have as many rows; got {len(X)} and {len(Y)}")
    if len(Y.data) == 0:
        raise ValueError(f"Y must have at least one positive pair; got none in {Y.n_cols} labels")
    if Y.data.min() < 0:
        row = Y.row_of_entry[np.argmin(Y.data)]
        raise ValueError(f"Y must not be negative; got {Y.data.min()} in row {row}")
    vectors, weights, negatives = examples.label_vectors, examples.pair_weights, examples.negatives
    if vectors is not None and len(vectors) != Y.n_cols:
        raise ValueError(f"label_vectors must have {Y.n_cols} rows; got {len(vectors)}")
    if weights is not None:
        _check_weights(weights, Y)
    if negatives is not None and (len(negatives), negatives.n_cols) != (len(Y), Y.n_cols):
        raise ValueError(
            f"negatives must be as large as Y, {(len(Y), Y.n_cols)}; "
            f"got {(len(negatives), negatives.n_cols)}"
        )


def _check_weights(weights: Csr, Y: Csr) -> None:
    if not (
        np.array_equal(weights.indptr, Y.indptr) and np.array_equal(weights.indices, Y.indices)
    ):
        raise ValueError("pair_weights must have entries where Y has, and nowhere else; got others")
    if weights.data.min() <= 0:
        raise ValueError(f"pair_weights must be positive; got {weights.data.min()}")
