"""What a step of DSSM looks at, and how it counts what is wrong."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from towers import CONFIG

from matchset.lab.dssm.batches import Batch, Examples, draw_batches, split_validation
from matchset.matrices import from_scipy

N_QUERIES, N_PRODUCTS = 50, 30


@pytest.fixture
def examples():
    rng = np.random.default_rng(0)
    Y = (rng.random((N_QUERIES, N_PRODUCTS)) < 0.1).astype(np.float32)
    Y[7], Y[8] = 0, 1  # none, and all
    X = rng.random((N_QUERIES, 12)) < 0.5
    T = rng.random((N_PRODUCTS, 12)) < 0.5
    matrices = (X, T, Y)
    return Examples(*(from_scipy(sp.csr_array(m.astype(np.float32))) for m in matrices))


def pairs_of(examples):
    matrix = examples.positives
    return matrix.row_of_entry.astype(np.int64), matrix.indices.astype(np.int64)


def test_an_epoch_has_every_pair_once_in_batches_of_like_size(examples):
    pairs = pairs_of(examples)
    config = replace(CONFIG, batch_size=16)
    batches = list(draw_batches(examples, pairs, np.random.default_rng(0), config))
    sizes = [len(batch.queries) for batch in batches]
    assert max(sizes) <= 16
    assert max(sizes) - min(sizes) <= 1
    seen = [
        (query, product)
        for batch in batches
        for query, product in zip(batch.queries, batch.products[batch.target], strict=True)
    ]
    assert sorted(seen) == sorted(zip(*pairs, strict=True))


def test_a_batch_knows_all_its_positive_columns(examples):
    wanted = examples.positives.to_scipy().toarray() > 0
    config = replace(CONFIG, batch_size=16)
    for batch in draw_batches(examples, pairs_of(examples), np.random.default_rng(0), config):
        assert len(set(batch.products)) == len(batch.products)
        mask = np.zeros((len(batch.queries), len(batch.products)), dtype=np.bool_)
        mask[batch.positives] = True
        np.testing.assert_array_equal(mask, wanted[batch.queries][:, batch.products])


def test_validation_queries_have_products_and_do_not_train(examples):
    config = replace(CONFIG, validation_share=0.5)
    (queries, _), validation = split_validation(examples, config)
    assert len(validation) == 24  # of the 49 with a product
    assert 7 not in validation
    assert not set(queries) & set(validation)
    assert len(split_validation(examples, replace(config, validation_queries=3))[1]) == 3
    assert len(split_validation(examples, replace(config, validation_share=0.0))[1]) == 0


COSINES = np.array([[0.8, 0.7, 0.5, 0.1], [0.3, 0.95, 0.0, 0.6]], dtype=np.float32)
BATCH = Batch(
    queries=np.array([0, 1]),
    products=np.array([3, 5, 6, 9]),
    target=np.array([0, 1]),
    positives=(np.array([0, 0, 1]), np.array([0, 2, 1])),
)


@pytest.mark.torch
def test_softmax_leaves_a_querys_other_positives_out():
    import torch

    from matchset.lab.dssm.network import measure_loss

    config = replace(CONFIG, temperature=0.5)
    weights = np.exp(COSINES.astype(np.float64) / 0.5)
    first = -np.log(weights[0, 0] / weights[0, [0, 1, 3]].sum())
    second = -np.log(weights[1, 1] / weights[1].sum())
    found = measure_loss(torch.from_numpy(COSINES), BATCH, config)
    assert found.item() == pytest.approx((first + second) / 2, rel=1e-5)


@pytest.mark.torch
def test_a_step_changes_only_the_embeddings_of_its_ngrams(examples):
    import torch

    from matchset.lab.dssm.network import Network

    batch = next(draw_batches(examples, pairs_of(examples), np.random.default_rng(0), CONFIG))
    network = Network(40, 8, seed=0)  # 12 n-grams are used, 28 are not
    before = network.table.clone()
    cosines, indices, rows = network.compare(examples, batch)
    assert cosines.shape == (len(batch.queries), len(batch.products))
    cosines.sum().backward()
    network.update_rows(indices, rows, 0.1)
    has_changed = (network.table != before).any(dim=1)
    assert torch.equal(torch.nonzero(has_changed)[:, 0], torch.arange(12))
