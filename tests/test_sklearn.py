"""XRLinear and Vectorizer work with scikit-learn like its own estimators."""

import builtins

import learn_oracles as oracles
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import precision_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

import matchset as ms
from matchset.config import NGrams, VectorizerConfig
from matchset.features.vectorizer import Vectorizer

SMALL = {"branching": 3, "max_leaf_size": 4, "n_jobs": 1}
QUERIES = ["red shoe", "blue shoe", "green shoe", "red sofa", "blue sofa", "green sofa"] * 4


@pytest.fixture(scope="module")
def problem():
    return oracles.make_problem()


def labels():
    """Label 0: shoes, 1: sofas, 2 to 4: the color."""
    rows = [[q.split()[1] == "shoe", q.split()[1] == "sofa"] for q in QUERIES]
    colors = [[color in q for color in ("red", "blue", "green")] for q in QUERIES]
    return sp.csr_array(np.hstack([rows, colors]).astype(np.float32))


# Errors follow our own pattern, rule and then value, where the check wants scikit-learn's words.
EXPECTED_FAILED_CHECKS = {
    "check_complex_data": "X must hold real numbers; got complex128",
    "check_estimators_empty_data_messages": "X must have at least one feature; got none",
    "check_n_features_in_after_fitting": "X must have 4 features; got 1",
    "check_requires_y_none": "Y must have two dimensions; got 0",
}


@pytest.mark.filterwarnings(
    "ignore:Estimator XRLinear does not inherit"
)  # it needs no scikit-learn
def test_scikit_learns_own_checks_pass_but_for_words_of_errors():
    checks = check_estimator(
        ms.XRLinear(),
        expected_failed_checks=EXPECTED_FAILED_CHECKS,
        on_skip=None,
        on_fail=None,
    )
    assert [one["check_name"] for one in checks if one["status"] == "failed"] == []
    assert sum(one["status"] == "passed" for one in checks) > 30


@pytest.mark.parametrize(
    ("X", "Y", "rule"),
    [
        (np.ones((3, 2)) * 1j, np.eye(3), EXPECTED_FAILED_CHECKS["check_complex_data"]),
        (np.ones((3, 0)), np.eye(3), "X must have at least one feature; got none"),
        (np.eye(3), None, "Y must have two dimensions; got 0"),
    ],
)
def test_what_a_check_wants_in_other_words_is_refused(X, Y, rule):
    with pytest.raises(ValueError, match=rule):
        ms.XRLinear().fit(X, Y)


def test_predict_gives_labels_and_decision_function_their_scores(problem):
    X, Y = problem
    estimator = ms.XRLinear(**SMALL).fit(X, Y)
    scores, labels = estimator.decision_function(X, k=3), estimator.predict(X, k=3)
    assert set(labels.data) == {1.0}
    assert np.array_equal(labels.indices, scores.indices)
    first = estimator.predict(X)  # the best one, as scikit-learn's metrics take it
    assert np.array_equal(np.diff(first.indptr), np.minimum(np.diff(scores.indptr), 1))
    precision = precision_score(
        Y.astype(bool).toarray(), first.astype(bool), average="samples", zero_division=0
    )
    assert 0.5 < precision <= 1


def test_scikit_learn_knows_what_they_are():
    for estimator in (ms.XRLinear(), Vectorizer()):
        tags = get_tags(estimator)
        assert not is_classifier(estimator)
        assert not is_regressor(estimator)
        assert tags.target_tags.required == isinstance(estimator, ms.XRLinear)
    assert get_tags(ms.XRLinear()).input_tags.sparse
    assert get_tags(Vectorizer()).input_tags.string


def test_both_clone_to_something_not_fitted(problem):
    X, Y = problem
    config = VectorizerConfig(ngrams=(NGrams("word", 1, limit=5),))
    for estimator in (Vectorizer().fit(QUERIES), Vectorizer(config).fit(QUERIES)):
        copy = clone(estimator)
        assert copy.get_params() == estimator.get_params()
        check_is_fitted(estimator)
        with pytest.raises(NotFittedError):
            check_is_fitted(copy)
    estimator = ms.XRLinear(**SMALL, beam_size=3).fit(X, Y)
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    check_is_fitted(estimator)
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)


def test_a_vectorizers_parameters_can_be_set():
    config = VectorizerConfig(oov_buckets=0)
    assert Vectorizer().set_params(config=config).get_params() == {
        "config": config,
        "language": None,
    }
    with pytest.raises(ValueError, match="parameters must be among config, language; got 'ngrams'"):
        Vectorizer().set_params(ngrams=())


def test_calls_before_fit_raise_not_fitted_error():
    for call in (
        lambda: ms.XRLinear().predict(np.eye(3)),
        lambda: ms.XRLinear().score(np.eye(3), np.eye(3)),
        lambda: Vectorizer().transform(QUERIES),
        lambda: Vectorizer().encode("red shoe"),
        lambda: Vectorizer().vocabulary,
    ):
        with pytest.raises(NotFittedError, match="fit"):
            call()


def test_without_scikit_learn_calls_before_fit_raise_value_error(monkeypatch):
    plain = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ValueError, match="fit must be called before predictions") as caught:
        ms.XRLinear().predict(np.eye(3))
    assert type(caught.value) is ValueError


def test_predict_does_not_change_the_estimator(problem):
    X, Y = problem
    estimator = ms.XRLinear(**SMALL).fit(X, Y)
    before = dict(vars(estimator))
    estimator.predict(X)
    estimator.predict(X[[1]])
    assert vars(estimator) == before


def test_the_score_is_the_share_of_instances_whose_best_label_is_right(problem):
    X, Y = problem
    estimator = ms.XRLinear(**SMALL).fit(X, Y)
    best = estimator.predict(X, k=1)
    Y = Y.toarray()
    hits = [Y[row, best[[row]].indices].any() for row in range(len(Y)) if Y[row].any()]
    assert estimator.score(X, Y) == pytest.approx(np.mean(hits))
    assert estimator.score(X, 5 * Y) == estimator.score(X, Y)
    with pytest.raises(ValueError, match=r"Y must have the shape \(200, 40\); got \(200, 3\)"):
        estimator.score(X, Y[:, :3])
    with pytest.raises(ValueError, match="Y must have at least one positive pair; got none"):
        estimator.score(X, 0 * Y)


def test_a_pipeline_from_queries_to_labels():
    pipeline = make_pipeline(Vectorizer(), ms.XRLinear(**SMALL)).fit(QUERIES, labels())
    found = pipeline.predict(["red shoe", "green sofa"], k=2)
    assert [set(found.indices[:2]), set(found.indices[2:])] == [{0, 2}, {1, 4}]
    assert pipeline.score(QUERIES, labels()) == 1
    assert "XRLinear" in estimator_html_repr(pipeline)
    rows = pipeline[:-1].fit_transform(QUERIES, labels())
    assert abs(rows - Vectorizer().fit_transform(QUERIES)).sum() == 0


def test_a_pipeline_of_matrices(problem):
    X, Y = problem
    pipeline = Pipeline([("scale", MaxAbsScaler()), ("xr", ms.XRLinear(**SMALL))]).fit(X, Y)
    assert pipeline.predict(X).shape == Y.shape
    assert pipeline.set_params(xr__C=2.0).fit(X, Y)["xr"].C == 2.0


def test_a_grid_search_takes_arrays_of_numpy(problem):
    X, Y = problem
    grid = {"max_leaf_size": np.array([3, 10]), "C": np.array([0.5, 2.0])}
    search = GridSearchCV(ms.XRLinear(**SMALL), grid, cv=3, error_score="raise").fit(X, Y)
    assert set(search.best_params_) == set(grid)
    assert 0 < search.best_score_ <= 1
    assert search.predict(X).shape == Y.shape


def test_a_grid_search_over_a_pipeline_of_queries():
    pipeline = Pipeline([("features", Vectorizer()), ("xr", ms.XRLinear(**SMALL))])
    words = VectorizerConfig(ngrams=(NGrams("word", 1, limit=100),))
    grid = {"features__config": [VectorizerConfig(), words], "xr__beam_size": [1, 10]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(QUERIES, labels())
    assert search.best_score_ == 1


@pytest.mark.parametrize("dense", [False, True])
def test_cross_validation_predicts_every_instance_once(problem, dense):
    X, Y = problem
    Y = Y.toarray() if dense else Y
    found = cross_val_predict(ms.XRLinear(**SMALL), X, Y, cv=4)
    assert found.shape == Y.shape
    assert np.array_equal(np.diff(found.indptr) > 0, np.diff(X.indptr) > 0)
    if dense:  # scikit-learn's own rule for scores
        assert len(cross_val_score(ms.XRLinear(**SMALL), X, Y, cv=4)) == 4
