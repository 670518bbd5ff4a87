"""A node learns from the instances that its scheme admits."""

from dataclasses import replace

import learn_oracles as oracles
import numpy as np
import pytest

import matchset as ms
from matchset.config import LearnConfig
from matchset.learn.label_tree import plan_offsets
from matchset.learn.layers import weigh_positives
from matchset.learn.negatives import propagate_labels, select_instances
from matchset.learn.train_tree import train
from matchset.learn.training_data import Examples, prepare_training_data
from matchset.matrices import to_csr
from matchset.model.search import search_nodes
from matchset.model.tree import LabelTree


@pytest.fixture(scope="module")
def trained():
    X, Y = (to_csr(part, "matrix") for part in oracles.make_problem())
    config = LearnConfig(branching=3, max_leaf_size=4, threads=2)
    return X, Y, train(Examples(X, Y), config).model


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
    propagated = propagate_labels(Y, tree)[0].to_scipy().toarray()
    assert propagated.tolist() == [[0, 0], [3, 4], [0, 0], [0, 3], [0, 0]]


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
    propagated = propagate_labels(given, model.tree)
    for level in range(1, model.tree.depth):
        wanted = select(trained, level, "tfn") | (propagated[level - 1].to_scipy().toarray().T > 0)
        assert np.array_equal(select(trained, level, "given", propagated), wanted)


@pytest.fixture(scope="module")
def shop():
    return ms.lab.simulate_shop(products=400, queries=800)


@pytest.mark.parametrize("weights", ["binary", "log", "linear"])
def test_a_positive_weighs_the_same_with_and_without_a_catalog(shop, weights):
    learn = LearnConfig(branching=3, max_leaf_size=10, weights=weights)
    config = ms.TrainConfig(learn=learn, title_weight=7)
    alone = prepare_training_data(shop.log, None, config)
    beside = prepare_training_data(shop.log, shop.catalog, config)
    n_queries = len(alone.examples.X)
    assert alone.examples.instance_weights is None
    assert len(beside.examples.X) == n_queries + len(shop.catalog)
    tree = train(beside.examples, learn).model.tree
    assert tree.depth >= 3
    ids = alone.products.ids.index_of(beside.products.ids)  # labels of one among the other's
    columns = np.where(ids < 0, len(alone.products), ids)
    Y = alone.examples.Y.to_scipy().toarray()
    wide = to_csr(np.pad(Y, ((0, 0), (0, 1)))[:, columns], "Y")
    is_several = False
    for own, both in zip(
        propagate_labels(wide, tree), propagate_labels(beside.examples.Y, tree), strict=True
    ):
        one = weigh_densely(own, weights, None)
        other = weigh_densely(both, weights, beside.examples.instance_weights)
        assert np.array_equal(one, other[:n_queries])
        assert set(np.unique(other[n_queries:])) == {0, 7}
        if weights == "binary":
            assert set(np.unique(one)) == {0, 1}
        is_several |= bool(np.diff(own.indptr).max() < np.diff(wide.indptr).max())
    assert is_several  # some query has several positives below one node


def weigh_densely(positives, weights, instance_weights):
    """Instances x nodes: what each positive weighs in its node's problem."""
    by_node = positives.transposed()
    data = weigh_positives(by_node, weights, instance_weights)
    data = data if len(data) else np.ones_like(by_node.data)
    return replace(by_node, data=data).to_scipy().toarray().T


@pytest.mark.parametrize("weights", ["binary", "log", "linear"])
def test_instance_weights_of_one_change_nothing(trained, weights):
    X, Y, _ = trained
    config = LearnConfig(branching=3, max_leaf_size=4, weights=weights)
    counts = np.random.default_rng(0).integers(1, 5, len(Y.data)).astype(np.float32)
    Y = replace(Y, data=counts)
    ones = np.ones(len(X), dtype=np.float32)
    plain = train(Examples(X, Y), config).model
    weighed = train(Examples(X, Y, instance_weights=ones), config).model
    assert plain.tree.depth >= 3
    for a, b in zip(plain.layers, weighed.layers, strict=True):
        np.testing.assert_allclose(a.weights, b.weights, atol=1e-6)


def test_binary_counts_an_instance_once_at_every_level(trained):
    X, Y, _ = trained
    counted = replace(Y, data=np.full_like(Y.data, 9))
    config = LearnConfig(branching=3, max_leaf_size=4)
    once, often = (train(Examples(X, y), config).model for y in (Y, counted))
    for a, b in zip(once.layers, often.layers, strict=True):
        assert np.array_equal(a.weights, b.weights)
