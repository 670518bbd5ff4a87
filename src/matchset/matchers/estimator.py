"""XR-Linear over matrices: which labels does a feature vector call for?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from matchset.config import MAX_SEED, MAX_THREADS, LearnConfig, as_int, check_int, count_threads
from matchset.errors import not_fitted
from matchset.learn.train_tree import train
from matchset.learn.training_data import Examples
from matchset.matrices import Csr, drop_zeros, to_csr
from matchset.model.packed import PackedTree, pack
from matchset.model.search import search_rule
from matchset.model.tree import TreeModel
from matchset.work.steps import Progress

_DEFAULT = LearnConfig()


class XRLinear:
    """A tree of sparse linear classifiers, as an estimator with scikit-learn's conventions.

    Parameters are those of `LearnConfig`, with the same meaning and defaults, except that
    `random_state` is its `seed`, `n_jobs` its `threads` (-1 for all cores, None for 1), and
    `beam_size` is the number of nodes per level that a prediction keeps. `fit` checks them. After
    `fit`, `model_` is the trained
    model, `n_features_in_` and `n_labels_` its dimensions, and `n_unconverged_` the number of
    classifiers that used up `max_iter`.

    >>> import numpy as np, matchset.matchers.estimator as xr
    >>> X = np.eye(4, dtype=np.float32)
    >>> xr.XRLinear().fit(X, X).predict(X).toarray().argmax(axis=1)
    array([0, 1, 2, 3])
    """

    def __init__(
        self,
        *,
        branching: int = _DEFAULT.branching,
        max_leaf_size: int = _DEFAULT.max_leaf_size,
        embeddings: str = _DEFAULT.embeddings,
        pifa_max_entries: int | None = _DEFAULT.pifa_max_entries,
        pifa_normalize: bool = _DEFAULT.pifa_normalize,
        negatives: str = _DEFAULT.negatives,
        C: float = _DEFAULT.C,
        weights: str = _DEFAULT.weights,
        bias: float = _DEFAULT.bias,
        tol: float = _DEFAULT.tol,
        max_iter: int = _DEFAULT.max_iter,
        threshold: float = _DEFAULT.threshold,
        max_weights: int | None = _DEFAULT.max_weights,
        beam_size: int = 10,
        random_state: int = _DEFAULT.seed,
        n_jobs: int | None = -1,
    ) -> None:
        self.branching = branching
        self.max_leaf_size = max_leaf_size
        self.embeddings = embeddings
        self.pifa_max_entries = pifa_max_entries
        self.pifa_normalize = pifa_normalize
        self.negatives = negatives
        self.C = C
        self.weights = weights
        self.bias = bias
        self.tol = tol
        self.max_iter = max_iter
        self.threshold = threshold
        self.max_weights = max_weights
        self.beam_size = beam_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        Y: Any,
        *,
        label_vectors: Any = None,
        pair_weights: Any = None,
        negatives: Any = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> Self:
        """Learn from X (instances x features) and Y (instances x labels).

        Both may be any SciPy sparse matrix or array, or dense; a nonzero entry of Y says that the
        label is right for the instance. `label_vectors` (labels x anything) go with
        `embeddings="given"`, `pair_weights` (with Y's sparsity pattern) with `weights="given"`,
        and `negatives` (instances x labels) with `negatives="given"`. `progress` is called after
        every step; if it raises an exception, the estimator stays as it was.
        """
        config = self._make_config()
        given = {
            "label_vectors": (label_vectors, "given" in config.embeddings, "embeddings"),
            "pair_weights": (pair_weights, config.weights == "given", "weights"),
            "negatives": (negatives, "given" in config.negatives.split("+"), "negatives"),
        }
        for name, (value, is_needed, parameter) in given.items():
            if (value is not None) != is_needed:
                got = "none" if value is None else "some"
                raise ValueError(
                    f"{name} must come with {parameter}='given', and only with it; got {got}"
                )
        optional = {
            name: None if value is None else to_csr(value, name)
            for name, (value, *_) in given.items()
        }
        examples = Examples(
            to_csr(X, "X"),
            drop_zeros(to_csr(Y, "Y")),
            label_vectors=optional["label_vectors"],
            pair_weights=optional["pair_weights"],
            negatives=optional["negatives"],
        )
        _check(examples)
        trained = train(examples, config, progress=progress)
        self.model_ = trained.model
        self.n_features_in_ = examples.X.n_cols
        self.n_labels_ = examples.Y.n_cols
        self.n_unconverged_ = sum(trained.n_unconverged)
        self._packed = _pack(trained.model)
        return self

    def predict(self, X: Any, k: int = 1, *, beam_size: int | None = None) -> sp.csr_array:
        """Return the k best labels of each row as ones, best first, (n_rows, n_labels)."""
        found = self.decision_function(X, k, beam_size=beam_size)
        return sp.csr_array((np.ones_like(found.data), found.indices, found.indptr), found.shape)

    def decision_function(
        self, X: Any, k: int = 100, *, beam_size: int | None = None
    ) -> sp.csr_array:
        """Return scores of the k best labels of each row, (n_rows, n_labels).

        A score is the product of `exp(-max(0, 1 - w.x)^3)` along the label's path. The entries of a
        row stand best first, ties in the order of the tree. A row of zeros has no entries. Without
        a `beam_size`, the estimator's own is used.
        """
        packed: PackedTree | None = getattr(self, "_packed", None)
        if packed is None:
            name = type(self).__name__
            raise not_fitted(f"fit must be called before predictions; this {name} is not fitted")
        rule = search_rule(
            check_int("k", k, 1, 2**62),
            check_int("beam_size", self.beam_size if beam_size is None else beam_size, 1, 2**62),
        )
        rows = drop_zeros(to_csr(X, "X"))
        return packed.search_rows(rows, rule, threads=count_jobs(self.n_jobs)).to_scipy()

    def score(self, X: Any, Y: Any) -> float:
        """Return Precision@1: the share of instances whose best label is one of theirs.

        Instances without any label in Y are not counted.
        """
        relevant = drop_zeros(to_csr(Y, "Y")).to_scipy()
        found = self.predict(X)
        if found.shape != relevant.shape:
            raise ValueError(f"Y must have the shape {found.shape}; got {relevant.shape}")
        n_counted = int(np.count_nonzero(np.diff(relevant.indptr)))
        if n_counted == 0:
            raise ValueError("Y must have at least one positive pair; got none")
        relevant.data[:] = 1
        return float((found * relevant).nnz / n_counted)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return parameters by name; `deep` has no effect, as none is an estimator."""
        return {name: getattr(self, name) for name in _DEFAULTS}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        for name, value in params.items():
            if name not in _DEFAULTS:
                raise ValueError(f"parameters must be among {', '.join(_DEFAULTS)}; got {name!r}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what it wants to know; nobody else calls this."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,  # it ranks labels; a classifier would predict a set of them
            target_tags=TargetTags(
                required=True, two_d_labels=True, multi_output=True, single_output=False
            ),
            input_tags=InputTags(sparse=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether `fit` has been called."""
        return hasattr(self, "model_")

    def __repr__(self) -> str:
        """Show parameters that differ from their defaults."""
        changed = (f"{k}={v!r}" for k, v in self.get_params().items() if v != _DEFAULTS[k])
        return f"{type(self).__name__}({', '.join(changed)})"

    def _make_config(self) -> LearnConfig:
        """Check all parameters."""
        params = self.get_params()
        check_int("beam_size", params.pop("beam_size"), 1, 2**62)
        seed = check_int("random_state", params.pop("random_state"), 0, MAX_SEED)
        return LearnConfig(**params | {"seed": seed, "threads": count_jobs(params.pop("n_jobs"))})

    def __getstate__(self) -> dict[str, Any]:
        """Return parameters and model; what is searched is made of them again."""
        return {name: value for name, value in vars(self).items() if name != "_packed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "model_" in state:
            self._packed = _pack(self.model_)


_DEFAULTS: dict[str, Any] = dict(XRLinear.__init__.__kwdefaults__ or {})


def _pack(model: TreeModel) -> PackedTree:
    return pack(model, precision="float32", threads=count_threads(None))


def count_jobs(n_jobs: int | None) -> int:
    """Return the threads of an `n_jobs`: None is 1, -1 all cores, -2 all but one."""
    number = 1 if n_jobs is None else as_int(n_jobs)
    if number is None or number == 0:
        raise ValueError(f"n_jobs must be None or an integer other than 0; got {n_jobs!r}")
    if number > MAX_THREADS:
        raise ValueError(f"n_jobs must be at most {MAX_THREADS}; got {number}")
    return number if number > 0 else max(1, count_threads(None) + 1 + number)


def _check(examples: Examples) -> None:
    X, Y = examples.X, examples.Y
    if len(X) != len(Y):
        raise ValueError(f"X and Y must have the same number of rows; got {len(X)} and {len(Y)}")
    if X.n_cols == 0:
        raise ValueError("X must have at least one feature; got none")
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
            f"negatives must have the shape of Y, {(len(Y), Y.n_cols)}; "
            f"got {(len(negatives), negatives.n_cols)}"
        )


def _check_weights(weights: Csr, Y: Csr) -> None:
    if not (
        np.array_equal(weights.indptr, Y.indptr) and np.array_equal(weights.indices, Y.indices)
    ):
        raise ValueError("pair_weights must have entries exactly where Y has; got other entries")
    if weights.data.min() <= 0:
        raise ValueError(f"pair_weights must be positive; got {weights.data.min()}")
