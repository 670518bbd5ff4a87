"""Search gives what the definition gives, whatever the tree, the filter and the threads."""

import math
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_oracles import beam_search, exhaustive, random_model, random_rows, row

from matchset import _native
from matchset.model.packed import pack
from matchset.model.search import search_rule

seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.sampled_from([1, 2, 5, 9, 30]), min_size=1, max_size=3)


def assert_same(found, expected, tolerance=2e-6):
    assert list(found[0]) == list(expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=tolerance, atol=1e-30)


def dense(X):
    return X.to_scipy().toarray()


@given(seeds, shapes, st.integers(1, 40), st.integers(1, 12))
def test_float32_search_equals_the_oracle(seed, splits, k, beam):
    model, X = random_model(seed, splits=splits), random_rows(seed, n=4)
    packed = pack(model, precision="float32")
    for i, x in enumerate(dense(X)):
        found = packed.search_row(*row(X, i), search_rule(k, beam))
        assert_same(found, beam_search(model, x, k=k, beam=beam))


@given(seeds, shapes)
def test_a_beam_as_wide_as_the_tree_is_exhaustive(seed, splits):
    model, X = random_model(seed, splits=splits), random_rows(seed, n=3)
    packed = pack(model, precision="float32")
    for i, x in enumerate(dense(X)):
        found = packed.search_row(*row(X, i), search_rule(10**6, 10**6))
        assert_same(found, exhaustive(model, x, k=10**6))


@pytest.mark.parametrize("precision", ["int8", "float32"])
@pytest.mark.parametrize(("splits", "n_features"), [((3, 700), 30), ((2,), 3000), ((40, 90), 70)])
def test_large_nodes_many_features_and_long_rows_are_found(splits, n_features, precision):
    model = random_model(1, splits=splits, n_features=n_features, density=0.3)
    X = random_rows(2, n=6, n_features=n_features, density=0.3)
    packed = pack(model, precision=precision)
    for i, x in enumerate(dense(X)):
        labels, scores = packed.search_row(*row(X, i), search_rule(50, 4))
        if precision == "float32":
            assert_same((labels, scores), beam_search(model, x, k=50, beam=4), 1e-5)
        else:
            expected = beam_search(model, x, k=50, beam=4)
            assert len(np.intersect1d(labels, expected[0])) >= 0.8 * len(expected[0])


def test_numbers_of_features_that_need_long_keys_are_found():
    model = random_model(3, splits=(4, 20), n_features=64)
    wide = type(model)(model.tree, model.layers, 2**31 - 1, model.n_labels)
    X = random_rows(4, n_features=64)
    for precision in ("int8", "float32"):
        narrow, packed = pack(model, precision=precision), pack(wide, precision=precision)
        for i in range(len(X)):
            expected = narrow.search_row(*row(X, i), search_rule(9, 3))
            assert_same(packed.search_row(*row(X, i), search_rule(9, 3)), expected)


@pytest.mark.parametrize("precision", ["int8", "float32"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("share", [None, 0.5, 0.02])
def test_a_batch_equals_one_by_one(precision, threads, share):
    model, X = random_model(5), random_rows(5, n=500)
    packed, rule = pack(model, precision=precision), search_rule(12, 3)
    chosen = np.random.default_rng(5).random(model.n_labels) < (share or 1)
    allowed = None if share is None else packed.allow(chosen)
    found = packed.search_rows(X, rule, allowed, threads=threads)
    for i in range(len(X)):
        labels, scores = packed.search_row(*row(X, i), rule, allowed)
        np.testing.assert_array_equal(row(found, i)[0], labels)
        np.testing.assert_array_equal(row(found, i)[1], scores)


def fingerprint():
    """A hash of what searches find in trees of many shapes."""
    found = sha256()
    for seed, splits in enumerate([(5, 7, 9), (3, 700), (40, 90), (400,)]):
        model = random_model(seed, splits=splits, density=0.3)
        for precision in ("int8", "float32"):
            packed = pack(model, precision=precision)
            for k, beam in [(3, 2), (50, 10), (1000, 100)]:
                rows = packed.search_rows(random_rows(seed), search_rule(k, beam))
                for array in rows.arrays:
                    found.update(array.tobytes())
    return found.hexdigest()


def test_code_for_any_machine_and_for_this_one_find_the_same():
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.getenv("PYTHONPATH")]))
    plain = subprocess.run(
        [sys.executable, "-c", "import test_search; print(test_search.fingerprint())"],
        env=os.environ | {"MATCHSET_PLAIN": "1", "PYTHONPATH": path},
        check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert plain.stdout.split() == [fingerprint()]


def other_rule(k, beam, **scores):
    values = {"hinge_power": 3, "is_log": False, "min_score": 0.0} | scores
    return _native.SearchRule(k=k, beam=beam, **values)


@pytest.mark.parametrize("power", range(7))
def test_other_scores_and_their_logarithms(power):
    scores = f"l{power}-hinge" if power else "sigmoid"
    model, X = random_model(6), random_rows(6)
    packed = pack(model, precision="float32")
    for i, x in enumerate(dense(X)):
        found = packed.search_row(*row(X, i), other_rule(9, 3, hinge_power=power))
        expected = beam_search(model, x, k=9, beam=3, scores=scores)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
        in_logs = other_rule(9, 3, hinge_power=power, is_log=True, min_score=-math.inf)
        logs = packed.search_row(*row(X, i), in_logs)
        assert list(logs[0]) == list(found[0])
        np.testing.assert_allclose(np.exp(logs[1]), found[1], rtol=1e-5)


def test_labels_below_min_score_are_left_out():
    packed, X = pack(random_model(7), precision="float32"), random_rows(7)
    whole = packed.search_rows(X, search_rule(100, 5))
    cut = packed.search_rows(X, other_rule(100, 5, min_score=0.1))
    is_kept = whole.data >= 0.1
    assert 0 < is_kept.sum() < len(is_kept)
    np.testing.assert_array_equal(cut.indices, whole.indices[is_kept])


@given(seeds, st.sampled_from([0.05, 0.3]))
def test_with_a_filter_too_fewer_labels_are_the_first_of_more(seed, share):
    model, X = random_model(seed, splits=(8, 8, 16)), random_rows(seed, n=3)
    packed = pack(model, precision="float32")
    allowed = packed.allow(np.random.default_rng(seed).random(model.n_labels) < share)
    for i in range(len(X)):
        more, few = (packed.search_row(*row(X, i), search_rule(k, 2), allowed) for k in (100, 10))
        assert_same(few, tuple(each[:10] for each in more))


@given(seeds, shapes, st.sampled_from([0, 0.02, 0.3, 1]))
def test_a_filter_gives_the_best_that_it_allows(seed, splits, share):
    model, X = random_model(seed, splits=splits), random_rows(seed, n=3)
    is_allowed = np.random.default_rng(seed).random(model.n_labels) < share
    packed = pack(model, precision="float32")
    allowed = packed.allow(is_allowed)
    n_allowed = int(is_allowed[model.tree.labels].sum())
    assert allowed.total == n_allowed
    for i, x in enumerate(dense(X)):
        found = packed.search_row(*row(X, i), search_rule(10**6, 10**6), allowed)
        assert_same(found, exhaustive(model, x, k=10**6, allowed=is_allowed))
        narrow = packed.search_row(*row(X, i), search_rule(5, 1), allowed)
        assert is_allowed[narrow[0]].all()
        assert len(narrow[0]) == (min(5, n_allowed) if x.any() else 0)
        assert_same(narrow, beam_search(model, x, k=5, beam=1, allowed=is_allowed))


@pytest.mark.parametrize("most", [2**64 // 5 + 1, 2**62, 10**30])
def test_a_k_or_beam_whose_multiples_are_no_numbers_means_all(most):
    model, X = random_model(6), random_rows(6, n=70)
    packed, everything = pack(model), search_rule(model.n_labels, model.n_labels)
    for rule in (search_rule(most, model.n_labels), search_rule(model.n_labels, most)):
        for allowed in (None, packed.allow(np.ones(model.n_labels, dtype=np.bool_))):
            found = packed.search_rows(X, rule, allowed)
            for array, wanted in zip(
                found.arrays, packed.search_rows(X, everything).arrays, strict=True
            ):
                np.testing.assert_array_equal(array, wanted)


def test_what_does_not_fit_is_refused():
    packed, X = pack(random_model(8)), random_rows(8, n_features=41)
    with pytest.raises(ValueError, match="X must have 40 features; got 41"):
        packed.search_rows(X, search_rule())
    with pytest.raises(ValueError, match="ids must be below 40; got 40"):
        packed.search_row(np.array([40], np.int32), np.ones(1, np.float32), search_rule())
    with pytest.raises(ValueError, match="one entry per label"):
        packed.allow(np.ones(3, bool))
    other = pack(random_model(9)).allow(np.ones(random_model(9).n_labels, bool))
    with pytest.raises(ValueError, match="allowed must be of this tree"):
        packed.search_rows(random_rows(8), search_rule(), other)
    for rule in ({"k": 0}, {"beam": 0}):
        with pytest.raises(ValueError, match="must be"):
            search_rule(**rule)
