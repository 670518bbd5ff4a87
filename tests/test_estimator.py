"""XRLinear learns what X says about Y, and answers by beam search."""

import inspect
import itertools
import logging
import pickle
import re
from dataclasses import replace

import learn_oracles as oracles
import numpy as np
import pytest
import scipy.sparse as sp

from matchset.config import LearnConfig
from matchset.matchers import estimator as estimator_module
from matchset.matchers.estimator import XRLinear, count_jobs
from matchset.model.packed import pack

SMALL = {"branching": 3, "max_leaf_size": 4, "n_jobs": 2}


@pytest.fixture(scope="module")
def fitted():
    X, Y = oracles.make_problem()
    return X, Y, XRLinear(**SMALL, threshold=0.0).fit(X, Y)


def best(scores):
    """Labels of each row, best first."""
    return [scores.indices[a:b].tolist() for a, b in itertools.pairwise(scores.indptr)]


def checkerboard(n=40):
    """Label i answers the instances that have feature i or i + 1, i and features counted mod n."""
    X = np.eye(n, dtype=np.float32)
    return sp.csr_array(X), sp.csr_array(X + np.roll(X, 1, axis=1))


def test_a_checkerboard_is_learned_exactly():
    X, Y = checkerboard()
    found = XRLinear(**SMALL).fit(X, Y).decision_function(X, k=2)
    for row, labels in enumerate(best(found)):
        assert set(labels) == set(Y[[row]].indices)


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_beam_search_agrees_with_its_definition(fitted, beam):
    X, _, estimator = fitted
    found = estimator.decision_function(X[:50], k=7, beam_size=beam)
    for row in range(50):
        labels, scores = oracles.beam_search(
            estimator.model_, X[[row]].toarray()[0], k=7, beam=beam
        )
        own = slice(found.indptr[row], found.indptr[row + 1])
        if X[[row]].nnz == 0:
            assert own.start == own.stop
            continue
        np.testing.assert_allclose(found.data[own], scores, rtol=1e-4, atol=1e-7)
        assert found.indices[own].tolist() == labels.tolist()


def test_a_beam_as_wide_as_the_tree_scores_every_label(fitted):
    X, Y, estimator = fitted
    found = estimator.decision_function(X, k=Y.shape[1], beam_size=1000)
    tree, x = estimator.model_.tree, X.toarray()
    log_scores = np.zeros((len(x), 1))
    for level, layer in enumerate(estimator.model_.layers):
        W = oracles.dense_layer(tree, layer, level, X.shape[1])
        margins = x @ W.T + layer.bias
        log_scores = log_scores[:, tree.parents(level)] - np.maximum(0, 1 - margins) ** 3
    wanted = np.zeros(Y.shape)
    wanted[:, tree.labels] = np.exp(log_scores)
    wanted[x.sum(axis=1) == 0] = 0
    np.testing.assert_allclose(found.toarray(), wanted, rtol=1e-3, atol=1e-6)


def test_k_beyond_the_labels_and_a_beam_beyond_the_tree_work(fitted):
    X, _, estimator = fitted
    found = estimator.decision_function(X, k=10_000, beam_size=10_000)
    assert np.diff(found.indptr).max() == len(estimator.model_.tree.labels)


def test_rows_stand_best_first_and_the_same_one_by_one(fitted):
    X, _, estimator = fitted
    found = estimator.decision_function(X, k=9)
    for row in range(20):
        scores = found.data[found.indptr[row] : found.indptr[row + 1]]
        assert np.all(np.diff(scores) <= 0)
        alone = estimator.decision_function(X[[row]], k=9)
        assert best(alone)[0] == best(found)[row]


def test_equal_scores_go_by_leaf_position():
    X, Y = sp.csr_array(np.ones((6, 1))), sp.csr_array(np.ones((6, 5)))
    estimator = XRLinear().fit(X, Y)
    assert best(estimator.decision_function(X[:1], k=5))[0] == estimator.model_.tree.labels.tolist()


def test_a_row_of_zeros_finds_nothing(fitted):
    X, Y, estimator = fitted
    found = estimator.decision_function(sp.csr_array((3, X.shape[1]), dtype=np.float32))
    assert found.shape == (3, Y.shape[1])
    assert found.nnz == 0


def test_labels_without_positives_are_never_predicted():
    X, Y = oracles.make_problem()
    kept = Y.toarray()
    kept[:, ::3] = 0
    estimator = XRLinear(**SMALL).fit(X, kept)
    found = estimator.decision_function(X, k=1000, beam_size=1000)
    assert not set(found.indices) & set(range(0, Y.shape[1], 3))
    assert len(estimator.model_.tree.labels) == np.count_nonzero(kept.sum(axis=0))


def test_one_label_in_all_and_few_labels_work():
    X, Y = oracles.make_problem(n_labels=1)
    assert XRLinear().fit(X, Y).decision_function(X).shape == Y.shape
    X, Y = oracles.make_problem(n_labels=5)
    estimator = XRLinear().fit(X, Y)
    assert estimator.model_.tree.depth == 1
    assert np.diff(estimator.decision_function(X).indptr).max() == 5


@pytest.mark.parametrize("negatives", ["tfn", "tfn+man"])
@pytest.mark.parametrize("threads", [2, 7])
def test_training_gives_the_same_bytes_for_any_number_of_threads(threads, negatives):
    X, Y = oracles.make_problem(400, 80, 90)
    models = [
        XRLinear(branching=3, max_leaf_size=6, negatives=negatives, n_jobs=t).fit(X, Y).model_
        for t in (1, threads)
    ]
    assert models[0].tree.labels.tobytes() == models[1].tree.labels.tobytes()
    for a, b in zip(models[0].layers, models[1].layers, strict=True):
        for name in a.__slots__:
            assert getattr(a, name).tobytes() == getattr(b, name).tobytes()


def test_the_layers_hold_ascending_features_and_children(fitted):
    model = fitted[2].model_
    for level, layer in enumerate(model.layers):
        n_children = np.diff(model.tree.offsets[level])
        assert layer.row_offsets[-1] == len(layer.features)
        assert layer.entry_offsets[-1] == len(layer.children) == len(layer.weights)
        for parent, (a, b) in enumerate(itertools.pairwise(layer.row_offsets)):
            assert np.all(np.diff(layer.features[a:b]) > 0)
            for row in range(a, b):
                children = layer.children[slice(*layer.entry_offsets[row : row + 2])]
                assert len(children) > 0
                assert np.all(np.diff(children.astype(int)) > 0)
                assert children[-1] < n_children[parent]


@pytest.mark.parametrize(
    "convert",
    [
        lambda m: m.toarray(),
        lambda m: m.astype(np.float64),
        lambda m: m.tocsc(),
        lambda m: m.tocoo(),
        sp.csr_matrix,
        lambda m: sp.coo_array(
            (np.tile(m.tocoo().data / 2, 2), np.tile(m.tocoo().coords, 2)), m.shape
        ),
    ],
)
def test_any_matrix_is_read_and_none_is_changed(convert, fitted):
    X, Y, estimator = fitted
    converted = convert(X)
    before = converted.copy()
    found = XRLinear(**SMALL, threshold=0.0).fit(converted, convert(Y)).decision_function(converted)
    assert best(found) == best(estimator.decision_function(X))
    assert abs(sp.csr_array(converted) - sp.csr_array(before)).sum() == 0


def test_a_layer_without_weights_predicts_by_its_biases():
    X, Y = checkerboard()
    found = XRLinear(**SMALL, threshold=100.0).fit(X, Y).decision_function(X, k=3)
    assert np.diff(found.indptr).tolist() == [3] * 40


def test_a_higher_threshold_keeps_the_larger_weights_of_the_same_model(fitted):
    X, Y, estimator = fitted
    pruned = XRLinear(**SMALL, threshold=0.2).fit(X, Y)
    for full, kept in zip(estimator.model_.layers, pruned.model_.layers, strict=True):
        assert np.array_equal(kept.weights, full.weights[np.abs(full.weights) > np.float32(0.2)])


def test_counts_weigh_positives_as_asked():
    X, Y = oracles.make_problem(n_labels=8)
    counted = Y.copy()
    counted.data = np.random.default_rng(0).integers(1, 9, Y.nnz).astype(np.float32)

    def weights(**parameters):
        fit = parameters.pop("fit", {})
        model = XRLinear(tol=1e-7, **parameters).fit(X, counted, **fit).model_
        return model.layers[0].weights

    given = counted.copy()
    given.data = 1 + np.log(counted.data)
    ones = counted.copy()
    ones.data[:] = 1
    linear, log = weights(weights="linear"), weights(weights="log")
    assert not np.array_equal(linear, log)
    assert np.array_equal(linear, weights(weights="given", fit={"pair_weights": counted}))
    np.testing.assert_allclose(
        log, weights(weights="given", fit={"pair_weights": given}), atol=1e-5
    )
    assert np.array_equal(weights(), weights(weights="given", fit={"pair_weights": ones}))


def test_given_vectors_shape_the_tree():
    X, Y = oracles.make_problem()
    kinds = np.arange(Y.shape[1]) % 4
    vectors = np.eye(4)[kinds]
    model = XRLinear(branching=4, max_leaf_size=10, embeddings="given").fit(
        X, Y, label_vectors=vectors
    )
    leaves = np.split(kinds[model.model_.tree.labels], model.model_.tree.offsets[-1][1:-1])
    assert all(len(set(leaf)) <= 2 for leaf in leaves)


def test_progress_names_every_stage_and_can_cancel():
    X, Y = oracles.make_problem()
    heard = []
    XRLinear(**SMALL).fit(X, Y, progress=heard.append)
    assert [p.stage for p in heard][:4] == ["embed", "tree", "levels", "solve"]
    assert heard[-1].done == heard[-1].total

    def cancel(progress):
        if progress.stage == "tree":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        XRLinear(**SMALL).fit(X, Y, progress=cancel)


def test_it_can_be_pickled_and_fitted_again(fitted):
    X, Y, estimator = fitted
    copy = pickle.loads(pickle.dumps(estimator))
    assert best(copy.decision_function(X)) == best(estimator.decision_function(X))
    assert pickle.loads(pickle.dumps(XRLinear(C=3.0, max_weights=7))).get_params()["C"] == 3.0
    copy.fit(X[:, ::-1], Y)
    assert best(copy.decision_function(X)) != best(estimator.decision_function(X))


def test_parameters_and_defaults_are_those_of_the_configuration():
    params = XRLinear().get_params()
    renamed = {"seed": params.pop("random_state"), "threads": None}
    assert (params.pop("n_jobs"), params.pop("beam_size")) == (-1, 10)
    assert LearnConfig(**params, **renamed) == LearnConfig()
    assert repr(XRLinear(branching=5, C=3.0)) == "XRLinear(branching=5, C=3.0)"
    assert XRLinear().set_params(random_state=3).get_params()["random_state"] == 3
    with pytest.raises(ValueError, match=r"parameters must be among .*; got 'treshold'"):
        XRLinear().set_params(treshold=0.5)
    with pytest.raises(TypeError, match="treshold"):
        XRLinear(treshold=0.5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"branching": 1}, "branching must be an integer of at least 2; got 1"),
        ({"branching": 2.5}, "branching must be an integer of at least 2; got 2.5"),
        ({"max_leaf_size": 0}, "max_leaf_size must be an integer of at least 1; got 0"),
        ({"max_leaf_size": 70_000}, "max_leaf_size must be at most 65536; got 70000"),
        ({"negatives": "tnf"}, "negatives must be one of tfn, man, given; got 'tnf'"),
        ({"negatives": "tfn+"}, "negatives must be one of tfn, man, given; got ''"),
        ({"embeddings": "pfia"}, "embeddings must be one of pifa, given, pifa.given; got 'pfia'"),
        ({"weights": "sqrt"}, "weights must be one of binary, log, linear, given; got 'sqrt'"),
        ({"C": 0}, "C must be positive and finite; got 0"),
        ({"C": float("nan")}, "C must be positive and finite; got nan"),
        ({"threshold": -0.1}, "threshold must be zero or positive, and finite; got -0.1"),
        ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0; got 0"),
        ({"n_jobs": "2"}, "n_jobs must be None or an integer other than 0; got '2'"),
        ({"n_jobs": 5000}, "n_jobs must be at most 4096; got 5000"),
        ({"C": "1"}, "C must be a number, positive and finite; got '1'"),
        ({"C": None}, "C must be a number, positive and finite; got None"),
        ({"C": True}, "C must be a number, positive and finite; got True"),
        ({"tol": 0.0}, "tol must be positive and finite; got 0.0"),
        ({"max_iter": 2**31}, "max_iter must be at most 2147483647; got 2147483648"),
        ({"max_leaf_size": True}, "max_leaf_size must be an integer of at least 1; got True"),
        ({"pifa_normalize": "yes"}, "pifa_normalize must be a boolean; got 'yes'"),
        ({"negatives": None}, "negatives must be one of tfn, man, given; got None"),
        (
            {"random_state": 2**63},
            "random_state must be at most 4294967295; got 9223372036854775808",
        ),
        ({"random_state": None}, "random_state must be an integer of at least 0; got None"),
        ({"beam_size": 1.5}, "beam_size must be an integer of at least 1; got 1.5"),
    ],
)
def test_a_parameter_outside_its_rule_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        XRLinear(**parameters).fit(*oracles.make_problem())


ONE, FINITE = np.eye(3), "X must hold finite numbers, not NaN or inf; got"


@pytest.mark.parametrize(
    ("X", "Y", "parameters", "given", "message"),
    [
        (ONE, np.eye(4), {}, {}, "X and Y must have the same number of rows; got 3 and 4"),
        (np.diag([1, np.nan, 1]), ONE, {}, {}, f"{FINITE} nan in row 1"),
        (np.diag([1, 1, np.inf]), ONE, {}, {}, f"{FINITE} inf in row 2"),
        (np.diag([1, 1, 1e300]), ONE, {}, {}, f"{FINITE} inf in row 2"),
        (ONE, np.diag([1, np.nan, 1]), {}, {}, "Y must hold finite numbers"),
        (ONE, 0 * ONE, {}, {}, "Y must have at least one positive pair; got none in 3 labels"),
        (ONE, -ONE, {}, {}, "Y must not be negative; got -1.0 in row 0"),
        (np.ones(3), ONE, {}, {}, "X must have two dimensions; got 1"),
        (np.array([["a"]]), np.eye(1), {}, {}, "X must hold real numbers; got <U1"),
        (ONE, ONE, {"weights": "given"}, {}, "must come with weights='given', .*; got none"),
        (ONE, ONE, {}, {"pair_weights": ONE}, "must come with weights='given', .*; got some"),
        (ONE, ONE, {"weights": "given"}, {"pair_weights": ONE + 1}, "entries exactly where Y has"),
        (ONE, ONE, {"weights": "given"}, {"pair_weights": -ONE}, "must be positive; got -1"),
        (ONE, ONE, {"embeddings": "given"}, {"label_vectors": np.eye(4)}, "3 rows; got 4"),
        (ONE, ONE, {"negatives": "given"}, {"negatives": np.eye(4)}, r"\(3, 3\); got \(4, 4\)"),
    ],
)
def test_what_breaks_a_rule_is_refused(X, Y, parameters, given, message):
    with pytest.raises(ValueError, match=message):
        XRLinear(**parameters).fit(X, Y, **given)


def test_predict_says_what_it_needs(fitted):
    with pytest.raises(ValueError, match="fit must be called before predictions"):
        XRLinear().decision_function(np.eye(3))
    with pytest.raises(ValueError, match="X must have 60 features; got 3"):
        fitted[2].decision_function(np.eye(3))
    for k in (0, -1, 2.0, True, "3", None, np.True_):
        with pytest.raises(ValueError, match=f"k must be an integer of at least 1; got {k!r}"):
            fitted[2].decision_function(fitted[0], k=k)
    for beam_size in (0, 1.5, "2"):
        rule = f"beam_size must be an integer of at least 1; got {beam_size!r}"
        with pytest.raises(ValueError, match=rule):
            fitted[2].decision_function(fitted[0], beam_size=beam_size)


@pytest.mark.parametrize(
    "changes",
    [
        {"children": lambda a: a + np.uint16(1000)},
        {"weights": lambda a: a * np.float32(np.nan)},
        {"entry_offsets": lambda a: a + 10**9},
        {"entry_offsets": lambda a: -a},
        {"entry_offsets": lambda a: a[:-1]},
        {"row_offsets": lambda a: a[::-1].copy()},
        {"bias": lambda a: a[:-1]},
        {"weights": lambda a: a[:-1]},
    ],
)
def test_a_broken_model_is_refused(fitted, changes):
    _, _, estimator = fitted
    broken = tuple(
        replace(layer, **{name: change(getattr(layer, name)) for name, change in changes.items()})
        for layer in estimator.model_.layers
    )
    model = replace(estimator.model_, layers=broken)
    with pytest.raises((ValueError, IndexError), match="must"):
        pack(model, precision="float32", threads=2)


@pytest.mark.parametrize("stopped_by", [KeyboardInterrupt, RuntimeError])
def test_a_cancelled_fit_leaves_the_estimator_as_it_was(fitted, stopped_by):
    X, Y = checkerboard()

    def stop(step):
        if step.stage == "solve":
            raise stopped_by

    fresh, trained = XRLinear(**SMALL), XRLinear(**SMALL).fit(fitted[0], fitted[1])
    model = trained.model_
    for estimator in (fresh, trained):
        with pytest.raises(stopped_by):
            estimator.fit(X, Y, progress=stop)
    assert not hasattr(fresh, "model_")
    assert trained.model_ is model
    assert trained.decision_function(fitted[0]).shape == fitted[1].shape


def test_classifiers_that_do_not_converge_are_counted_and_warned_of_once(caplog):
    X, Y = oracles.make_problem()
    estimator = XRLinear(**SMALL, max_iter=1, tol=1e-6)
    with caplog.at_level(logging.WARNING):
        estimator.fit(X, Y)
    assert estimator.n_unconverged_ > 0
    assert len(caplog.records) == 1
    assert f"{estimator.n_unconverged_} of" in caplog.text
    assert "did not converge within max_iter=1" in caplog.text
    caplog.clear()
    assert XRLinear(**SMALL).fit(X, Y).n_unconverged_ == 0
    assert caplog.records == []


@pytest.mark.parametrize(
    ("n_jobs", "threads"), [(None, 1), (1, 1), (3, 3), (-1, 8), (-2, 7), (-100, 1)]
)
def test_n_jobs_counts_as_in_scikit_learn(monkeypatch, n_jobs, threads):
    monkeypatch.setattr(estimator_module, "count_threads", lambda _: 8)
    assert count_jobs(n_jobs) == threads


def test_w5_a_threshold_that_leaves_almost_nothing_warns_with_numbers(caplog):
    rng = np.random.default_rng(0)
    X = sp.random(200, 50, density=0.2, rng=rng, format="csr", dtype=np.float32)
    Y = sp.random(200, 30, density=0.05, rng=rng, format="csr", dtype=np.float32)
    XRLinear(max_leaf_size=10).fit(X, Y)
    assert "threshold" not in caplog.text
    XRLinear(max_leaf_size=10).fit(1000 * X, Y)
    assert re.search(r"threshold=0.1 leaves \d+ weights for 3\d classifiers", caplog.text)
    caplog.clear()
    XRLinear(max_leaf_size=10, threshold=0).fit(1000 * X, Y)
    assert "threshold" not in caplog.text


ODD = (2.0, 1.5, "3", None, True, -1, 0, 2**31, 2**63, 2**70, [1], np.nan)


@pytest.mark.parametrize("name", [*inspect.signature(XRLinear).parameters, "predict k"])
def test_u1_no_nanobind_message_reaches_a_user(name):
    X, Y = checkerboard(6)
    n_refused = 0
    for value in ODD:
        try:
            if name == "predict k":
                XRLinear().fit(X, Y).decision_function(X, k=value)
            else:
                XRLinear(**{name: value}).fit(X, Y).decision_function(X, 3)
        except (ValueError, TypeError) as error:
            n_refused += 1
            assert re.match(rf"{name.split()[-1]} must .*; got ", str(error))  # noqa: PT017
    assert n_refused
