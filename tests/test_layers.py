"""A layer is solved in ranges of parents, and neither cuts nor threads change a byte."""

import numpy as np
import pytest

from matchset.config import LearnConfig
from matchset.learn.label_tree import build_tree
from matchset.learn.layers import (
    MOST_THREADS,
    LayerProblem,
    Range,
    join_parents,
    plan_ranges,
    solve,
)
from matchset.learn.negatives import propagate_labels
from matchset.matrices import Csr, to_csr
from matchset.work.cuts import Cuts

CONFIG = LearnConfig(tol=0.1)


@pytest.fixture(scope="module")
def problem():
    """The root of a tree, with 40 children."""
    rng = np.random.default_rng(0)
    X = to_csr(rng.random((300, 50)) * (rng.random((300, 50)) < 0.2), "X")
    Y = to_csr((rng.random((300, 400)) < 0.01).astype(np.float32), "Y")
    Z = to_csr(rng.random((400, 20)).astype(np.float32), "Z")
    tree = build_tree(Z, branching=40, max_leaf_size=10, max_iter=3, seed=0, threads=1)
    everything = Csr(np.array([0, 300]), np.arange(300, dtype=np.int32), np.ones(300, "f4"), 300)
    positives = [rows.transposed() for rows in propagate_labels(Y, tree)]
    root = LayerProblem(X, everything, positives[0], tree.offsets[0])
    return root, LayerProblem(X, positives[0], positives[1], tree.offsets[1])


def join(problem, ranges, threads=1):
    return [solve(problem.take(one), CONFIG, seed=5, threads=threads) for one in ranges]


def assert_same(first, second):
    n_unconverged = [sum(part.n_unconverged for part in parts) for parts in (first, second)]
    assert n_unconverged[0] == n_unconverged[1]
    layers = [join_parents(parts) for parts in (first, second)]
    for name in layers[0].__slots__:
        one, other = (getattr(layer, name) for layer in layers)
        assert one.dtype == other.dtype, name
        assert np.array_equal(one, other), name


@pytest.mark.parametrize("threads", [2, 5, 16])
def test_threads_inside_a_parent_change_no_byte(problem, threads):
    """Sixteen threads solve its 40 children by four, five by eight and two by sixteen."""
    root, _ = problem
    assert len(root.positives) == 40
    assert_same(join(root, [Range(0, 0, 1)], threads), join(root, [Range(0, 0, 1)]))


def test_ranges_of_parents_give_the_bytes_of_their_layer(problem):
    _, second = problem
    n = len(second.instances)
    cuts = [Range(1, begin, min(n, begin + 7)) for begin in range(0, n, 7)]
    assert_same(join(second, cuts), join(second, [Range(1, 0, n)]))


def test_planned_ranges_cover_every_parent_once_and_threads_share_the_dear_ones(problem):
    root, second = problem
    sizes = [(one.instances.indptr, one.first_child) for one in (root, second)]
    ranges = plan_ranges(sizes, Cuts(solve_cost=200))
    assert [one.threads for one in ranges if one.level == 0] == [MOST_THREADS]
    lower = [one for one in ranges if one.level == 1]
    assert [one.begin for one in lower] == [0, *(one.end for one in lower[:-1])]
    assert lower[-1].end == len(second.instances)
    assert all(one.cost <= 200 or one.end - one.begin == 1 for one in lower)
    assert {one.threads for one in lower} == {1}


def test_there_are_never_too_many_ranges():
    sizes = np.arange(0, 100_001 * 50, 50)
    ranges = plan_ranges([(sizes, sizes)], Cuts(solve_cost=1))
    assert len(ranges) <= 2 * Cuts().solve_ranges
