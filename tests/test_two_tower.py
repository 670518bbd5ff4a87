"""Two towers: does the trainer do what a few lines of NumPy do, on any machine?"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tower_oracles import train_slowly

import matchset
from matchset import _native
from matchset.learn.two_tower import (
    TwoTowerConfig,
    number_features,
    select_pairs,
    train_table,
    train_two_tower,
)
from matchset.matrices import from_scipy
from matchset.model.inverted_lists import quantize
from matchset.model.towers import encode_products
from matchset.work.cuts import CUTS, Cuts

SMALL = TwoTowerConfig(dimensions=48, batch_size=24, epochs=2, learning_rate=0.05, threads=1)


def make_rows(rng, n_rows, n_features, density):
    rows = sp.random_array((n_rows, n_features), density=density, rng=rng, dtype=np.float32)
    return from_scipy(sp.csr_array(rows))


def make_problem(seed=0, n_queries=60, n_products=40, n_features=90):
    """Queries and titles with a few features each, some of them with none, and their pairs."""
    rng = np.random.default_rng(seed)
    return (
        make_rows(rng, n_queries, n_features, 0.04),
        make_rows(rng, n_products, n_features, 0.1),
        make_rows(rng, n_queries, n_products, 0.06),
    )


def make_data(problem, min_df=2):
    X, T, Y = problem
    return select_pairs(X, T, Y, number_features(X, T, min_df), TwoTowerConfig())


def train_digest(threads=1, cuts=CUTS, **options):
    config = TwoTowerConfig(dimensions=80, batch_size=137, threads=threads, **options)
    tower = train_two_tower(*make_problem(3, 300, 200, 150), config, cuts=cuts)
    assert len(tower.losses)
    digest = hashlib.sha256()
    for array in (*tower.table.arrays, *tower.vectors.arrays, tower.losses):
        digest.update(array.tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("title_rows", [0.0, 1.0, 1.7])
@pytest.mark.parametrize("dimensions", [16, 48, 64])
def test_training_equals_numpy(dimensions, title_rows):
    config = TwoTowerConfig(
        dimensions=dimensions, batch_size=24, learning_rate=0.05, title_rows=title_rows
    )
    data = make_data(make_problem())
    table, losses = train_table(data, config, threads=1)
    slow_table, slow_losses = train_slowly(data, config)
    np.testing.assert_allclose(losses, slow_losses, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(table, slow_table, atol=1e-3)


def test_training_equals_numpy_for_one_long_batch_with_many_positives():
    """Each query has so many positives that columns are looked up among them."""
    X, T, _ = make_problem(1, 4, 60, 50)
    Y = from_scipy(sp.csr_array(np.ones((4, 60), dtype=np.float32)))
    data = make_data((X, T, Y))
    config = TwoTowerConfig(dimensions=32, batch_size=3, epochs=1, learning_rate=0.05)
    table, losses = train_table(data, config, threads=1)
    slow_table, slow_losses = train_slowly(data, config)
    np.testing.assert_allclose(losses, slow_losses, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(table, slow_table, atol=1e-3)


def test_training_equals_numpy_for_batches_that_no_power_of_two_divides():
    """More columns than are compared at once, and a rest."""
    config = TwoTowerConfig(dimensions=80, batch_size=137, epochs=2, learning_rate=0.05)
    data = make_data(make_problem(3, 300, 200, 150))
    table, losses = train_table(data, config, threads=1)
    slow_table, slow_losses = train_slowly(data, config)
    np.testing.assert_allclose(losses, slow_losses, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(table, slow_table, atol=2e-3)


def test_other_positives_of_a_query_are_left_out():
    """A batch that holds nothing but one query's positives has nothing to learn."""
    X, T, _ = make_problem(2, 1, 30, 20)
    Y = from_scipy(sp.csr_array(np.ones((1, 30), dtype=np.float32)))
    config = TwoTowerConfig(dimensions=16, min_df=1, title_rows=0, learning_rate=0.1)
    _, losses = train_table(make_data((X, T, Y), min_df=1), config, threads=1)
    np.testing.assert_allclose(losses, 0, atol=1e-6)


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_do_not_change_a_byte(threads):
    assert train_digest(threads=threads) == train_digest(threads=1)


def test_calls_of_any_length_give_the_same_bytes():
    assert train_digest(cuts=Cuts(tower_steps=3)) == train_digest()


def sample_pairs(max_pairs, seed=0):
    X, T, Y = make_problem()
    config = TwoTowerConfig(max_pairs=max_pairs, seed=seed)
    found = select_pairs(X, T, Y, number_features(X, T, 2), config)
    return found, list(zip(*(ids.tolist() for ids in found.pairs), strict=True))


def test_of_too_many_pairs_the_towers_see_a_sample_that_data_and_seed_decide():
    whole, pairs = sample_pairs(10**6)
    assert not whole.is_sample
    data, some = sample_pairs(40)
    assert data.is_sample
    assert len(pairs) > 80
    assert len(set(some)) == len(some) == 40
    assert set(some) < set(pairs)
    ends = np.arange(1, 41) * len(pairs) // 40
    ranges = np.searchsorted(ends, [pairs.index(pair) for pair in some], side="right")
    assert ranges.tolist() == list(range(40))  # one of each: every query has its share
    assert sample_pairs(40)[1] == some != sample_pairs(40, seed=1)[1]
    assert sample_pairs(len(pairs))[1] == pairs
    np.testing.assert_array_equal(data.positives[1], whole.positives[1])  # all count as right


def test_towers_say_how_many_pairs_they_were_trained_on_if_not_all():
    few = TwoTowerConfig(dimensions=16, epochs=1, batch_size=10, max_pairs=40)
    assert train_two_tower(*make_problem(), few).n_sampled == 40
    assert len(train_two_tower(*make_problem(), few).losses) == 4
    assert train_two_tower(*make_problem(), SMALL).n_sampled is None


def test_texts_keep_their_rows_in_blocks_of_any_size(monkeypatch):
    whole = make_data(make_problem())
    monkeypatch.setattr("matchset.learn.two_tower._BLOCK", 7)
    monkeypatch.setattr("matchset.learn.two_tower._ENTRIES", 11)
    blocks = make_data(make_problem())
    for name in ("queries", "titles", "pairs"):
        for one, two in zip(getattr(whole, name), getattr(blocks, name), strict=True):
            np.testing.assert_array_equal(one, two)


def test_another_seed_gives_another_table():
    assert train_digest(seed=1) != train_digest(seed=0)


def test_narrow_instructions_give_the_same_bytes():
    code = "import test_two_tower; print(test_two_tower.train_digest())"
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(matchset.__file__).parent.parent)])
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"MATCHSET_PLAIN": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == train_digest()


def test_training_brings_queries_near_their_products():
    rng = np.random.default_rng(4)
    X, T = np.zeros((2, 100, 300), dtype=np.float32)
    X[np.repeat(np.arange(100), 2), rng.permutation(200)] = 1  # no query has a word of its title
    T[np.arange(100), 200 + np.arange(100)] = 1
    X, T = (from_scipy(sp.csr_array(rows)) for rows in (X, T))
    Y = from_scipy(sp.csr_array(sp.eye_array(100, dtype=np.float32)))
    config = TwoTowerConfig(dimensions=64, epochs=40, batch_size=50, min_df=1, learning_rate=0.1)
    tower = train_two_tower(X, T, Y, config)
    cosines = tower.encode(X) @ tower.vectors.to_floats().T
    assert (cosines.argmax(axis=1) == np.arange(100)).all()
    assert tower.losses[-1] < tower.losses[0] / 4


def test_progress_counts_steps_and_may_cancel():
    heard = []
    train_two_tower(
        *make_problem(), SMALL, progress=lambda done, total: heard.append((done, total))
    )
    assert heard[-1][0] == heard[-1][1] == len(train_two_tower(*make_problem(), SMALL).losses)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_two_tower(*make_problem(), SMALL, progress=stop)


def test_new_titles_get_the_vectors_that_old_ones_have():
    X, T, Y = make_problem()
    tower = train_two_tower(X, T, Y, SMALL)
    again = quantize(tower.encode(T))
    assert np.array_equal(again.values, tower.vectors.values)
    assert np.array_equal(again.scales, tower.vectors.scales)


def test_a_vector_is_the_mean_of_its_embeddings():
    X, T, Y = make_problem()
    tower = train_two_tower(X, T, Y, SMALL)
    table = tower.table.to_floats()
    for i, vector in enumerate(tower.encode(X)):
        rows = tower.row_of[X.indices[X.indptr[i] : X.indptr[i + 1]]]
        mean = table[rows[rows >= 0]].sum(axis=0)
        length = np.linalg.norm(mean)
        np.testing.assert_allclose(vector, mean / length if length else 0, atol=1e-5)


def test_rare_features_have_no_embedding():
    X, T, Y = make_problem()
    tower = train_two_tower(X, T, Y, SMALL)
    df = np.bincount(np.concatenate([X.indices, T.indices]), minlength=X.n_cols)
    assert np.array_equal(tower.row_of >= 0, df >= 2)
    assert len(tower.table) == (df >= 2).sum()


@pytest.mark.parametrize("shape", [(0, 0, 0), (1, 1, 1), (3, 1, 5), (1, 3, 5), (5, 4, 1)], ids=str)
@pytest.mark.parametrize("density", [0.0, 1.0])
def test_tiny_problems_train(shape, density):
    n_queries, n_products, n_features = shape
    shapes = (n_queries, n_features), (n_products, n_features), (n_queries, n_products)
    full = (np.full(shape, density, dtype=np.float32) for shape in shapes)
    X, T, Y = (from_scipy(sp.csr_array(rows)) for rows in full)
    tower = train_two_tower(X, T, Y, TwoTowerConfig(dimensions=16, min_df=1))
    assert tower.encode(X).shape == (n_queries, 16)
    assert np.isfinite(tower.encode(T)).all()


def test_a_batch_of_one_pair_trains():
    table, losses = train_table(
        make_data(make_problem()), TwoTowerConfig(dimensions=16, batch_size=1, epochs=1), threads=3
    )
    assert np.isfinite(table).all()
    assert np.isfinite(losses).all()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"dimensions": 24}, "dimensions must be a multiple of 16; got 24"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1; got 0"),
        ({"temperature": 0.0}, "temperature must be positive and finite; got 0.0"),
        ({"title_rows": -1.0}, "title_rows must be from 0 to 16; got -1.0"),
        ({"title_share": 2.0}, "title_share must be from 0 to 1; got 2.0"),
    ],
)
def test_settings_are_checked(option, message):
    with pytest.raises(ValueError, match=message):
        TwoTowerConfig(**option)


def test_the_data_decides_only_what_is_not_set():
    few, many = TwoTowerConfig().settle(40_000, 55_000), TwoTowerConfig().settle(500_000, 50_000)
    assert (few.learning_rate, few.title_rows) == (0.02, 1.0)
    assert (many.learning_rate, many.title_rows) == (0.05, 0.5)
    assert [TwoTowerConfig().settle(n, 50_000).epochs for n in (0, 700_000, 10**7)] == [4, 3, 3]
    fixed = TwoTowerConfig(learning_rate=0.3, title_rows=0.0, epochs=1)
    assert fixed.settle(500_000, 50_000) == fixed


def test_shapes_must_agree():
    X, T, Y = make_problem()
    with pytest.raises(ValueError, match="the same features"):
        train_two_tower(X, Y, Y, SMALL)
    with pytest.raises(ValueError, match="Y must have shape"):
        train_two_tower(X, T, X, SMALL)


@pytest.mark.parametrize("name", ["queries", "titles", "positives", "pairs"])
def test_kernel_refuses_ids_out_of_bounds(name):
    data = make_data(make_problem())
    spoiled = {
        key: (getattr(data, key)[0].copy(), getattr(data, key)[1].copy())
        for key in ("queries", "titles", "positives", "pairs")
    }
    spoiled[name][1][:] = 10_000
    table = np.zeros(data.n_rows * 16, dtype=np.float32)
    rule = _native.TowerRule(
        dimensions=16, temperature=0.05, title_rows=1, title_share=0.15, learning_rate=0.1, seed=0
    )
    with pytest.raises(ValueError, match="must be below"):
        _native.train_towers(
            *spoiled.values(),
            data.titled,
            np.arange(data.n_pairs, dtype=np.int32),
            table,
            np.zeros(data.n_rows, dtype=np.float32),
            rule,
            n_batches=2,
            begin=0,
            end=2,
            first_step=0,
            n_steps=2,
            threads=2,
        )


def test_bytes_are_within_half_a_step_of_the_vector():
    vectors = np.random.default_rng(5).normal(size=(50, 64)).astype(np.float32)
    vectors[7] = 0
    rounded = quantize(vectors)
    error = np.abs(rounded.to_floats() - vectors)
    assert (error <= 0.5001 * rounded.scales[:, None]).all()
    assert (np.abs(rounded.values).max(axis=1)[np.arange(50) != 7] == 127).all()
    assert not rounded.scales[7]


def test_only_the_most_frequent_ngrams_have_an_embedding_where_there_are_too_many():
    X, T, _ = make_problem()
    df = np.bincount(np.concatenate([X.indices, T.indices]), minlength=X.n_cols)
    every = number_features(X, T, 1)
    few = number_features(X, T, 1, 10)
    kept = np.flatnonzero(few >= 0)
    assert few[kept].tolist() == list(range(10))
    assert (every[kept] >= 0).all()
    assert df[kept].min() >= np.delete(df, kept).max()


def test_vectors_of_products_do_not_depend_on_the_block(monkeypatch):
    X, T, Y = make_problem()
    tower = train_two_tower(X, T, Y, TwoTowerConfig(dimensions=16, epochs=1))
    texts = [(T.indptr, T.indices), (T.indptr, T.indices)]
    for given in (texts[:1], texts):
        found = []
        for block in (7, 1000):
            monkeypatch.setattr("matchset.model.towers._BLOCK", block)
            found.append(encode_products(given, tower.row_of, tower.table, threads=1))
        assert np.array_equal(found[0].values, found[1].values)
        assert np.array_equal(found[0].scales, found[1].scales)
