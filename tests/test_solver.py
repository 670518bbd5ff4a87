"""The solver finds the weights that the definition asks for."""

import learn_oracles as oracles
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from matchset import _native


def problem(n=60, d=20, n_labels=5, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) * (rng.random((n, d)) < 0.3)).astype(np.float32)
    Y = (rng.random((n, n_labels)) < 0.2).astype(np.float32)
    Y[0] = 1  # every label has a positive
    return X, Y


@pytest.mark.parametrize("n_labels", [1, 4, 7, 16, 37])
@pytest.mark.parametrize(("C", "bias"), [(1.0, 1.0), (0.1, 2.0), (10.0, 0.5)])
def test_weights_agree_with_linear_svc(n_labels, C, bias):
    X, Y = problem(n_labels=n_labels)
    W, b, unfinished = oracles.solve_one_parent(X, Y, positive_cost=C, negative_cost=C, bias=bias)
    assert unfinished == 0
    for label in range(n_labels):
        svc = LinearSVC(C=C, intercept_scaling=bias, dual=True, tol=1e-8, max_iter=100_000)
        svc.fit(X, Y[:, label])
        np.testing.assert_allclose(W[label], svc.coef_[0], atol=2e-3, rtol=2e-3)
        np.testing.assert_allclose(b[label], svc.intercept_[0], atol=2e-3, rtol=2e-3)


def test_weights_agree_with_plain_descent_when_pairs_and_classes_are_weighted():
    X, Y = problem(n_labels=3)
    counts = np.random.default_rng(1).integers(1, 50, int(Y.sum())).astype(np.float32)
    W, b, _ = oracles.solve_one_parent(X, Y, weights=counts, positive_cost=0.5, negative_cost=2.0)
    rows = sp.csr_array(Y).T.tocsr()
    for label in range(3):
        y, costs = np.where(Y[:, label] > 0, 1.0, -1.0), np.full(len(Y), 2.0)
        own = slice(rows.indptr[label], rows.indptr[label + 1])
        costs[rows.indices[own]] = 0.5 * counts[own]
        w, intercept = oracles.coordinate_descent(X, y, costs)
        np.testing.assert_allclose(W[label], w, atol=2e-3, rtol=2e-3)
        np.testing.assert_allclose(b[label], intercept, atol=2e-3, rtol=2e-3)


def test_features_that_always_come_together_are_weighted_as_if_they_were_apart():
    # Copies of one column, scaled; columns in one row only: what the solver merges.
    X, Y = problem(d=6)
    X = np.hstack([X, X[:, :3] * 0.5, X[:, :1] * 3, np.eye(60, 20, dtype=np.float32)])
    W, b, _ = oracles.solve_one_parent(X, Y)
    for label in range(Y.shape[1]):
        y = np.where(Y[:, label] > 0, 1.0, -1.0)
        w, intercept = oracles.coordinate_descent(X, y, np.ones(60))
        np.testing.assert_allclose(W[label], w, atol=1e-3)
        np.testing.assert_allclose(b[label], intercept, atol=1e-3)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32), st.integers(2, 40), st.integers(1, 15), st.sampled_from([0.1, 1.0, 30.0])
)
def test_the_duality_gap_closes(seed, n, d, C):
    X, Y = problem(n, d, 3, seed)
    W, b, unfinished = oracles.solve_one_parent(X, Y, positive_cost=C, negative_cost=C)
    assert unfinished == 0
    for label in range(3):
        y = np.where(Y[:, label] > 0, 1.0, -1.0)
        gap, primal = oracles.duality_gap(X, y, np.full(n, C), W[label], b[label], 1.0)
        assert gap <= 1e-3 * max(1.0, primal)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.001, 0.01, 0.1]))
def test_the_objective_is_near_its_optimum_as_the_tolerance_says(seed, tolerance):
    X, Y = problem(seed=seed)
    for label, (w, b) in enumerate(
        zip(*oracles.solve_one_parent(X, Y, tol=tolerance)[:2], strict=True)
    ):
        y = np.where(Y[:, label] > 0, 1.0, -1.0)
        svc = LinearSVC(dual=True, tol=1e-8, max_iter=100_000).fit(X, y)
        _, value = oracles.duality_gap(X, y, np.ones(60), w, b, 1.0)
        _, optimum = oracles.duality_gap(X, y, np.ones(60), svc.coef_[0], svc.intercept_[0], 1.0)
        assert optimum * (1 - 1e-6) <= value <= optimum / (1 - tolerance) * (1 + 1e-4)


def test_a_label_is_solved_alike_in_any_company():
    X, Y = problem(n_labels=40)
    W, b, _ = oracles.solve_one_parent(X, Y, tol=0.1)
    alone, b_alone, _ = oracles.solve_one_parent(X, Y[:, 7:8], tol=0.1)
    assert np.array_equal(W[7], alone[0])
    assert b[7] == b_alone[0]


HARD = {
    "one positive": ([[1, 0], [0, 1], [0, 1]], [1, 0, 0]),
    "only positives": ([[1, 0], [0, 1]], [1, 1]),
    "duplicates with opposite labels": ([[1, 1], [1, 1], [1, 1]], [1, 0, 1]),
    "an instance of zeros": ([[0, 0], [1, 0], [0, 1]], [1, 1, 0]),
    "one instance": ([[2, 0]], [1]),
    "no features at all": ([[0, 0], [0, 0]], [1, 0]),
}


@pytest.mark.parametrize("case", HARD)
def test_hard_cases_agree_with_plain_descent(case):
    X, y = (np.array(part, dtype=np.float32) for part in HARD[case])
    W, b, unfinished = oracles.solve_one_parent(X, y[:, None])
    w, intercept = oracles.coordinate_descent(X, np.where(y > 0, 1.0, -1.0), np.ones(len(y)))
    assert unfinished == 0
    np.testing.assert_allclose(W[0], w, atol=1e-3)
    np.testing.assert_allclose(b[0], intercept, atol=1e-3)


def test_huge_counts_make_their_pairs_certain():
    X, y = np.eye(3, dtype=np.float32), np.array([[1], [0], [0]], dtype=np.float32)
    W, b, _ = oracles.solve_one_parent(X, y, weights=np.array([1e9], dtype=np.float32))
    assert W[0] @ X[0] + b[0] == pytest.approx(1, abs=1e-3)


def test_a_child_without_positives_costs_nothing_and_is_out_of_reach():
    X, Y = problem(n_labels=2)
    Y[:, 1] = 0
    W, b, _ = oracles.solve_one_parent(X, Y)
    assert not W[1].any()
    assert b[1] == -1


def test_weights_up_to_the_threshold_are_dropped():
    X, Y = problem()
    W, _, _ = oracles.solve_one_parent(X, Y)
    pruned, _, _ = oracles.solve_one_parent(X, Y, threshold=0.3)
    assert np.array_equal(pruned, np.where(np.abs(W) > np.float32(0.3), W, 0))


def test_only_the_largest_weights_of_each_label_are_kept():
    X, Y = problem(n_labels=20)
    W, _, _ = oracles.solve_one_parent(X, Y)
    pruned, _, _ = oracles.solve_one_parent(X, Y, max_weights=4)
    for full, kept in zip(W, pruned, strict=True):
        assert np.count_nonzero(kept) == 4
        assert set(np.flatnonzero(kept)) == set(np.argsort(-np.abs(full), kind="stable")[:4])


def test_the_solver_says_where_it_used_up_its_passes():
    X, Y = problem()
    assert oracles.solve_one_parent(X, Y, max_iter=1)[2] == Y.shape[1]


def call(threads=1, **changes):
    arguments = {
        "X": (np.arange(4), np.arange(3, dtype=np.int32), np.ones(3, np.float32)),
        "n_features": 3,
        "instances": (np.array([0, 3]), np.arange(3, dtype=np.int32)),
        "positives": (np.array([0, 1]), np.zeros(1, np.int32), np.zeros(0, np.float32)),
        "first_child": np.array([0, 1]),
        "rule": _native.SolverRule(
            positive_cost=1, negative_cost=1, bias=1, tol=0.1, max_iter=10, seed=0
        ),
        "prune": _native.PruneRule(threshold=0, max_weights=9),
    }
    return _native.solve_parents(**(arguments | changes), first_parent=0, threads=threads)


ids, floats = (lambda *v: np.array(v, np.int32)), (lambda *v: np.array(v, np.float32))
BROKEN = {
    "a column beyond the width": {"X": (np.arange(4), ids(0, 3, 1), floats(1, 1, 1))},
    "a negative column": {"X": (np.arange(4), ids(0, -1, 1), floats(1, 1, 1))},
    "columns twice in a row": {"X": (np.array([0, 2, 2, 2]), ids(1, 1), floats(1, 1))},
    "row offsets that descend": {"X": (np.array([0, 2, 1, 3]), ids(0, 1, 2), floats(1, 1, 1))},
    "row offsets beyond the end": {"X": (np.array([0, 1, 2, 9]), ids(0, 1, 2), floats(1, 1, 1))},
    "values missing": {"X": (np.arange(4), ids(0, 1, 2), floats(1))},
    "an instance that is not there": {"instances": (np.array([0, 2]), ids(0, 3))},
    "a negative instance": {"instances": (np.array([0, 2]), ids(-1, 0))},
    "instances out of order": {"instances": (np.array([0, 2]), ids(2, 0))},
    "a positive that is no instance": {"positives": (np.array([0, 1]), ids(5), floats())},
    "a weight of zero": {"positives": (np.array([0, 1]), ids(0), floats(0))},
    "a weight that is no number": {"positives": (np.array([0, 1]), ids(0), floats(np.nan))},
    "weights missing": {"positives": (np.array([0, 2]), ids(0, 1), floats(1))},
    "more children than positives": {"first_child": np.array([0, 2])},
    "children that descend": {"first_child": np.array([1, 0])},
    "more parents than lists of instances": {"first_child": np.array([0, 1, 1])},
    "no parents": {"first_child": np.zeros(0, np.int64)},
    "no lists": {"instances": (np.zeros(0, np.int64), ids())},
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", BROKEN)
def test_broken_arrays_are_refused(case, threads):
    assert len(call(threads)) == 7
    with pytest.raises((ValueError, IndexError)):
        call(threads, **BROKEN[case])


def test_values_beyond_reason_do_no_harm():
    call(X=(np.arange(4), ids(0, 1, 2), floats(1e38, np.inf, np.nan)))
