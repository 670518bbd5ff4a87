"""Labels are alike when their instances are."""

import learn_oracles as oracles
import numpy as np
import pytest
import scipy.sparse as sp

from matchset.config import LearnConfig
from matchset.learn.embeddings import embed_labels, join, normalize_rows
from matchset.matrices import to_csr


def embed(X, Y, given=None, **parameters):
    config = LearnConfig(**parameters)
    by_label = to_csr(Y, "Y").transposed()
    Z = embed_labels(to_csr(X, "X"), by_label, given=given, config=config, threads=2)
    return Z.to_scipy().toarray()


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)


def test_pifa_is_the_normalized_sum_of_the_positive_instances():
    X, Y = oracles.make_problem()
    wanted = unit((Y.T @ X).toarray())
    np.testing.assert_allclose(embed(X, Y, pifa_max_entries=None), wanted, atol=1e-6)


@pytest.mark.parametrize("threads", [2, 7])
def test_pifa_is_the_same_for_any_number_of_threads(threads):
    rng = np.random.default_rng(0)
    X = to_csr(sp.random_array((300, 40), density=0.2, rng=rng, dtype=np.float32), "X")
    by_label = to_csr(sp.random_array((5000, 300), density=0.01, rng=rng), "Y")  # five chunks
    one, many = (
        embed_labels(X, by_label, given=None, config=LearnConfig(), threads=t) for t in (1, threads)
    )
    assert all(map(np.array_equal, one.arrays, many.arrays))


def test_an_instance_of_many_labels_counts_less_when_rows_are_normalized():
    X, Y = oracles.make_problem()
    shares = Y.toarray() / np.sqrt(np.maximum(Y.sum(axis=1), 1))[:, None]
    found = embed(X, Y, pifa_max_entries=None, pifa_normalize=True)
    np.testing.assert_allclose(found, unit(shares.T @ X.toarray()), atol=1e-6)


def test_only_the_largest_entries_are_kept_ties_by_feature():
    X = np.array([[3, 1, 2, 2, 0], [0, 0, 1, 1, 0]], dtype=np.float32)
    found = embed(X, np.ones((2, 1)), pifa_max_entries=2)
    np.testing.assert_allclose(found, unit(np.array([[3.0, 0, 3, 0, 0]])), atol=1e-6)


def test_entries_that_cancel_are_not_stored():
    found = embed(np.array([[1, 1], [-1, 1]]), np.ones((2, 1)))
    assert found.tolist() == [[0, 1]]


def test_a_label_without_instances_has_no_vector():
    assert not embed(np.eye(2), np.array([[1, 0], [1, 0]]))[1].any()


def test_given_vectors_are_scaled_to_length_one():
    given = to_csr(np.array([[3.0, 4.0], [0, 0]]), "label_vectors")
    found = embed(np.eye(2), np.eye(2), given, embeddings="given")
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]], atol=1e-6)


def test_joined_vectors_mix_both_similarities():
    first, second = (
        normalize_rows(to_csr(sp.random_array((6, 9), density=0.6, rng=seed), "Z"))
        for seed in (1, 2)
    )
    a, b, both = (Z.to_scipy().toarray() for Z in (first, second, join(first, second, 0.3)))
    np.testing.assert_allclose(both @ both.T, 0.7 * a @ a.T + 0.3 * b @ b.T, atol=1e-6)


def test_given_vectors_must_be_given():
    with pytest.raises(ValueError, match="embeddings 'pifa\\+given' needs label vectors; got none"):
        embed(np.eye(2), np.eye(2), embeddings="pifa+given")
