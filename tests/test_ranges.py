"""Labels and vectors that are cut in ranges are cut as they would be in one piece."""

from dataclasses import replace

import learn_oracles
import numpy as np
import pytest
import scipy.sparse as sp
from learn_oracles import cluster
from match_sets import SMALL_CUTS

from matchset import _native
from matchset.config import LearnConfig
from matchset.learn import clusters
from matchset.learn.embeddings import normalize_rows
from matchset.learn.label_tree import build_tree, cut_top, order_subtree, plan_splits
from matchset.learn.train_tree import train
from matchset.learn.training_data import Examples
from matchset.matrices import to_csr
from matchset.model.inverted_lists import NEAR_GROUPS, InvertedLists, move_to_nearest, quantize
from matchset.work.cuts import CUTS

ALL_LABELS = 10**9
RULE = {"max_iter": 10, "seed": 3, "threads": 2}


def fit(X, Y, cuts, **settings):
    config = LearnConfig(branching=3, max_leaf_size=4, threshold=0.0, **settings)
    examples = Examples(to_csr(X, "X"), to_csr(Y, "Y"), make_label_vectors(Y, config))
    return train(examples, config, cuts=cuts)


def make_label_vectors(Y, config):
    if config.embeddings == "pifa":
        return None
    return to_csr(np.random.default_rng(0).random((Y.shape[1], 5)), "label vectors")


@pytest.mark.parametrize("embeddings", ["pifa", "given", "pifa+given"])
def test_a_tree_over_matrices_is_the_same_if_its_labels_are_cut(embeddings):
    X, Y = learn_oracles.make_problem()
    cuts = replace(SMALL_CUTS, labels=7)
    settings = {"embeddings": embeddings, "pifa_normalize": True}
    whole, cut = (fit(X, Y, each, **settings).model for each in (CUTS, cuts))
    for one, two in zip(whole.layers, cut.layers, strict=True):
        for own, other in zip(one.part, two.part, strict=True):
            assert np.array_equal(own, other)
    assert np.array_equal(whole.tree.labels, cut.tree.labels)


def make_rows(n, d=40, seed=0):
    rng = np.random.default_rng(seed)
    return normalize_rows(to_csr(sp.random_array((n, d), density=0.2, rng=rng, format="csr"), "Z"))


def join_subtrees(Z, splits, n_sampled, most=300, rule=RULE):
    order, subtrees = cut_top(Z, splits, most=most, n_sampled=n_sampled, **rule)
    parts = [order[one.begin : one.end] for one in subtrees]
    assert all(len(part) <= most and (np.diff(part) > 0).all() for part in parts)
    found = [
        part[order_subtree(Z.take(part), splits, one, **rule)]
        for part, one in zip(parts, subtrees, strict=True)
    ]
    return order, np.concatenate(found)


def test_top_and_subtrees_make_the_whole_tree():
    Z, splits = make_rows(2000), plan_splits(2000, 6, 20)
    whole = build_tree(Z, branching=6, max_leaf_size=20, **RULE)
    assert np.array_equal(join_subtrees(Z, splits, ALL_LABELS)[1], whole.labels)


@pytest.mark.parametrize("threads", [1, 7])
def test_a_top_cut_by_a_sample_is_the_same_for_any_number_of_threads(threads):
    Z, splits = make_rows(9000), plan_splits(9000, 6, 20)
    sampled = join_subtrees(Z, splits, 500, most=1000)[1]
    again = join_subtrees(Z, splits, 500, most=1000, rule={**RULE, "threads": threads})[1]
    assert np.array_equal(sampled, again)
    assert np.array_equal(np.sort(sampled), np.arange(9000))
    other = join_subtrees(Z, splits, 500, most=1000, rule={**RULE, "seed": 4})[1]
    assert not np.array_equal(sampled, other)


def test_a_sample_places_all_labels_by_their_scores():
    """Labels of two kinds: whichever are sampled, each kind gets a side."""
    rng = np.random.default_rng(0)
    kind = rng.permutation(np.arange(1000) % 2)
    dense = np.zeros((1000, 8), dtype=np.float32)
    dense[np.arange(1000), 4 * kind + rng.integers(0, 4, 1000)] = 1
    dense += 0.3 * (kind[:, None] == np.arange(8) // 4)
    Z = normalize_rows(to_csr(dense, "Z"))
    order, subtrees = cut_top(Z, (2,), most=500, n_sampled=100, **RULE)
    assert [(one.begin, one.end) for one in subtrees] == [(0, 500), (500, 1000)]
    assert {tuple(np.unique(kind[half])) for half in np.split(order, 2)} == {(0,), (1,)}


def test_a_tree_of_no_labels_is_empty():
    nothing = make_rows(10).slice(0, 0)
    assert len(build_tree(nothing, branching=6, max_leaf_size=20, **RULE).labels) == 0
    for splits in ((), (3, 2)):
        order, (all_of_it,) = cut_top(nothing, splits, most=5, n_sampled=5, **RULE)
        assert len(order_subtree(nothing, splits, all_of_it, **RULE)) == len(order) == 0


def test_a_top_that_cannot_be_cut_is_refused():
    Z, splits = make_rows(10), np.array([2], dtype=np.int32)
    rule = {"max_iter": 5, "seed": 0, "threads": 1}
    with pytest.raises(ValueError, match="a sample two; got 1 and 1"):
        _native.cut_top(Z.arrays, Z.n_cols, splits, most=1, n_sampled=1, **rule)
    with pytest.raises(ValueError, match="a label for each part; got 10 for 11"):
        _native.order_labels(Z.arrays, Z.n_cols, splits, subtree=(0, 0, 11), **rule)


def make_vectors(n, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(20, 32))
    return quantize(centers[rng.integers(0, 20, n)] + 0.5 * rng.normal(size=(n, 32)))


def cosines(one, two):
    dots = one.values.astype(np.int64) @ two.values.T.astype(np.int64)
    return dots.astype(np.float32) * (one.scales[:, None] * two.scales)


def near_oracle(lists: InvertedLists, n_near):
    """The nearest of the lists near its own, for each product."""
    nearest = []
    group_of = np.repeat(np.arange(lists.n_groups), np.diff(lists.group_offsets))
    for number in range(lists.n_lists):
        centroid = lists.clusters.take(np.array([number]))
        groups = np.argsort(-cosines(centroid, lists.groups)[0], kind="stable")[:NEAR_GROUPS]
        inside = np.flatnonzero(np.isin(group_of, groups))
        near = cosines(centroid, lists.clusters.take(inside))[0]
        near = np.sort(inside[np.argsort(-near, kind="stable")[:n_near]])
        own = lists.vectors.take(np.arange(*lists.list_offsets[number : number + 2]))
        nearest.append(near[np.argmax(cosines(own, lists.clusters.take(near)), axis=1)])
    return np.concatenate(nearest)


@pytest.mark.parametrize("threads", [1, 7])
def test_products_move_to_the_nearest_of_the_lists_near_their_own(monkeypatch, threads):
    monkeypatch.setattr("matchset.model.inverted_lists.NEAR_LISTS", 12)
    lists = cluster(make_vectors(2500), list_size=16, passes=1)
    assert lists.n_groups > NEAR_GROUPS
    expected = near_oracle(lists, 12)
    whole = range(lists.n_lists)
    assert np.array_equal(move_to_nearest(lists, whole, is_near=True, threads=threads), expected)
    halves = [range(70), range(70, lists.n_lists)]
    found = [move_to_nearest(lists, half, is_near=True, threads=threads) for half in halves]
    assert np.array_equal(np.concatenate(found), expected)


def test_many_lists_still_hold_every_product_once_and_find_it(monkeypatch):
    vectors = make_vectors(3000)
    few = cluster(vectors, list_size=16)
    monkeypatch.setattr(clusters, "MANY_LISTS", 0)
    lists = cluster(vectors, list_size=16)
    assert np.array_equal(np.sort(lists.labels), np.arange(3000))
    queries = vectors.to_floats()[:300]
    exact = np.argsort(-cosines(quantize(queries), vectors), axis=1, kind="stable")[:, :10]

    def recall(lists):
        rows = lists.search(queries, 10).indices.reshape(300, 10)
        return np.mean([np.isin(a, b).mean() for a, b in zip(exact, rows, strict=True)])

    assert recall(lists) > recall(few) - 0.02


def test_lists_that_are_none_are_refused():
    lists = cluster(make_vectors(100), list_size=8)
    given = (lists.group_offsets, lists.groups.arrays, lists.clusters.arrays)
    rule = {"dimensions": 32, "n_groups": 8, "n_near": 4, "threads": 1}
    begins = np.array([0, 100])
    with pytest.raises(ValueError, match="lists must be among the"):
        _native.assign_near(lists.vectors.arrays, begins, lists.n_lists, *given, **rule)
    with pytest.raises(ValueError, match="offsets of inverted lists must ascend"):
        _native.assign_near(lists.vectors.arrays, begins + 1, 0, *given, **rule)
