"""A node learns from the instances that its scheme admits."""

from dataclasses import replace

import learn_oracles as oracles
import numpy as np
import pytest

from matchset.config import LearnConfig
from matchset.learn.label_tree import plan_offsets
from matchset.learn.negatives import propagate_labels, select_instances
from matchset.learn.train import Examples, train
from matchset.matrices import to_csr
from matchset.model.search import search_nodes
from matchset.model.tree import LabelTree


@pytest.fixture(scope="module")
def trained():
    X, Y = (to_csr(part, "matrix") for part in oracles.make_problem())
    config = LearnConfig(branching=3, max_leaf=4, threads=2)
    return X, Y, train(Examples(X, Y), config)


def clusters(tree, level):
    """Nodes of the level below x nodes of `level`, as in the paper's C."""
    return np.eye(len(tree.offsets[level]) - 1)[tree.parents(level)]


def test_upper_labels_are_sums_over_clusters(trained):
    _, Y, model = trained
    wanted = Y.to_scipy().toarray()[:, model.tree.labels]
    for level in range(model.tree.depth - 1, -1, -1):
        found = propagate_labels(Y, model.tree)[level]
        np.testing.assert_allclose(found.to_scipy().toarray(), wanted)
        assert np.count_nonzero(wanted) == len(found.data)  # binarize(Y C) is its pattern
        wanted = wanted @ clusters(model.tree, level)


def test_rows_without_labels_stay_empty_on_every_level():
    tree = LabelTree(np.arange(6, dtype=np.int32), plan_offsets(6, (2,)))
    Y = to_csr(np.array([[0] * 6, [1, 2, 0, 0, 0, 4], [0] * 6, [0, 0, 0, 3, 0, 0], [0] * 6]), "Y")
    raised = propagate_labels(Y, tree)[0].to_scipy().toarray()
    assert raised.tolist() == [[0, 0], [3, 4], [0, 0], [0, 3], [0, 0]]


def select(trained, level, negatives, given=None):
    X, Y, model = trained
    found = select_instances(
        X,
        replace(model, layers=model.layers[:level]),
        positives=propagate_labels(Y, model.tree),
        given=given,
        config=LearnConfig(negatives=negatives, man_beam=2),
        threads=2,
    )
    return found.to_scipy().toarray() != 0


def test_the_root_learns_from_every_instance(trained):
    assert select(trained, 0, "tfn").all()


def test_teacher_forcing_takes_the_positives_of_the_parent(trained):
    for level in range(1, trained[2].tree.depth):
        wanted = propagate_labels(trained[1], trained[2].tree)[level - 1].to_scipy().toarray() > 0
        assert np.array_equal(select(trained, level, "tfn"), wanted.T)


@pytest.mark.parametrize("scheme", ["man", "tfn+man"])
def test_matcher_aware_negatives_add_what_the_beam_reaches(trained, scheme):
    X, _, model = trained
    for level in range(1, model.tree.depth):
        top = replace(model, layers=model.layers[:level])
        beam = search_nodes(top, X, k=2, beam=2, threads=1)
        wanted = select(trained, level, "tfn") | (beam.to_scipy().toarray().T > 0)
        assert np.array_equal(select(trained, level, scheme), wanted)


def test_given_negatives_reach_the_clusters_of_their_labels(trained):
    X, Y, model = trained
    given = to_csr(np.random.default_rng(0).random((len(X), Y.n_cols)) < 0.02, "negatives")
    raised = propagate_labels(given, model.tree)
    for level in range(1, model.tree.depth):
        wanted = select(trained, level, "tfn") | (raised[level - 1].to_scipy().toarray().T > 0)
        assert np.array_equal(select(trained, level, "given", raised), wanted)
