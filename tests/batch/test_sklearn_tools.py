"""Compatibility with scikit-learn: search, pipelines, cross-validation, precomputed kernels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from batch.reference import long_form
from ovk import OVKRidge, OVKRidgeCV
from ovk.kernels import Gaussian, Precomputed
from ovk.operators import Dense, Identity, MixedEffect
from ovk.ovkernels import Separable

FOLDS = KFold(3, shuffle=True, random_state=0)


@pytest.mark.parametrize("form", ["complete", "holes"])
def test_grid_search_over_nested_parameters(form, data):
    Y = data.Y if form == "complete" else data.holes
    grid = {
        "kernel__kernel__length_scale": [0.3, 1.0],
        "kernel__operator__omega": [0.0, 0.6],
        "alpha": [0.01, 1.0],
    }
    search = GridSearchCV(OVKRidge(Gaussian() * MixedEffect()), grid, cv=FOLDS, error_score="raise")
    search.fit(data.X, Y)
    assert len(search.cv_results_["params"]) == 8
    best = OVKRidge(Gaussian() * MixedEffect()).set_params(**search.best_params_).fit(data.X, Y)
    assert_allclose(search.predict(data.X_new), best.predict(data.X_new), rtol=0, atol=0)
    scores = cross_val_score(best, data.X, Y, cv=FOLDS, error_score="raise")
    assert_allclose(search.best_score_, scores.mean(), rtol=1e-12)


def test_grid_search_over_kernels_and_alphas_for_each_output(data):
    grid = {"kernel": [Gaussian(0.8), Gaussian(0.8) * MixedEffect(0.5)], "alpha": [0.1, [0.1, 0.2, 0.3]]}
    search = GridSearchCV(OVKRidge(), grid, cv=FOLDS, error_score="raise").fit(data.X, data.Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("estimator", [OVKRidge(Gaussian(1.0), alpha=0.1), OVKRidgeCV(Gaussian(1.0))])
def test_pipeline(estimator, data):
    X = 100.0 + 50.0 * data.X
    model = make_pipeline(StandardScaler(), estimator).fit(X, data.holes)
    scaler = StandardScaler().fit(X)
    alone = type(estimator)(**estimator.get_params(deep=False)).fit(scaler.transform(X), data.holes)
    X_new = 100.0 + 50.0 * data.X_new
    expected = alone.predict(scaler.transform(X_new), return_std=True)
    assert_allclose(model.predict(X_new, return_std=True), expected, rtol=0, atol=0)


def test_transformed_target(data):
    model = TransformedTargetRegressor(OVKRidge(Gaussian(0.8), alpha=0.1), transformer=StandardScaler())
    prediction = model.fit(data.X, data.Y).predict(data.X_new)
    mean, scale = data.Y.mean(axis=0), data.Y.std(axis=0)
    alone = OVKRidge(Gaussian(0.8), alpha=0.1).fit(data.X, (data.Y - mean) / scale)
    assert_allclose(prediction, alone.predict(data.X_new) * scale + mean, rtol=1e-10)


def test_cross_val_predict(data):
    model = OVKRidge(Gaussian(0.8) * MixedEffect(0.5), alpha=0.1)
    found = cross_val_predict(model, data.X, data.Y, cv=FOLDS)
    for train, test in FOLDS.split(data.X):
        assert_allclose(found[test], model.fit(data.X[train], data.Y[train]).predict(data.X[test]), rtol=1e-12)


@pytest.mark.parametrize("operator", [Identity(), MixedEffect(0.5), Dense(np.diag([1.0, 2.0, 3.0]) + 0.5)])
@pytest.mark.parametrize("form", ["complete", "holes", "weights", "long"])
def test_precomputed_kernels_both_ways(form, operator, data):
    k = Gaussian(0.8)
    X, Y, task = data.X, data.holes if form in ("holes", "long") else data.Y, None
    if form == "long":
        X, Y, task = long_form(X, Y)
    weight = np.where(np.arange(len(X)) % 7 == 3, 0.0, 1.5) if form == "weights" else None
    params = {"alpha": 0.1, "fit_intercept": True}
    expected = OVKRidge(k * operator, **params).fit(X, Y, weight, task=task)
    # A kernel matrix does not identify equal inputs, on which the scale of the residuals depends.
    mean, std = expected.predict(data.X_new, return_std=True, of="posterior")

    gram = k(X)
    kept = gram.copy()
    given = OVKRidge(Precomputed() * operator, **params).fit(gram, Y, weight, task=task)
    assert_allclose(given.predict(k(data.X_new, X)), mean, rtol=1e-9)
    assert_allclose(gram, kept, rtol=0, atol=0)
    for new in (
        data.X_new,
        X[::-1],
    ):  # the second makes a square matrix
        with pytest.raises(ValueError, match=r"which Precomputed\(\) does not"):
            given.predict(k(new, X), return_std=True)

    known = Precomputed(k(np.vstack([X, data.X_new])))
    indexed = OVKRidge(known * operator, **params).fit(np.arange(len(X))[:, None], Y, weight, task=task)
    found = indexed.predict(len(X) + np.arange(7)[:, None], return_std=True, of="posterior")
    assert_allclose(found, (mean, std), rtol=1e-8)


@pytest.mark.parametrize("kernel", ["precomputed", Precomputed(), Precomputed() * MixedEffect(0.5)])
def test_search_and_cross_validation_with_a_kernel_matrix(kernel, data):
    k = Gaussian(0.8)
    plain = k * MixedEffect(0.5) if isinstance(kernel, Separable) else k
    expected = GridSearchCV(OVKRidge(plain), {"alpha": [0.01, 0.1, 1.0]}, cv=FOLDS).fit(data.X, data.Y)
    search = GridSearchCV(OVKRidge(kernel), {"alpha": [0.01, 0.1, 1.0]}, cv=FOLDS, error_score="raise")
    search.fit(k(data.X), data.Y)
    assert_allclose(search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-8)
    assert_allclose(search.predict(k(data.X_new, data.X)), expected.predict(data.X_new), rtol=1e-8)


@pytest.mark.parametrize("form", ["complete", "holes"])
def test_leave_one_out_with_a_kernel_matrix(form, data):
    Y = data.Y if form == "complete" else data.holes
    k, omegas = Gaussian(0.8), [0.0, 0.5]
    expected = OVKRidgeCV(k, omegas=omegas).fit(data.X, Y)
    given = OVKRidgeCV("precomputed", omegas=omegas).fit(k(data.X), Y)
    several = OVKRidgeCV([Precomputed() * MixedEffect(omega) for omega in omegas]).fit(k(data.X), Y)
    indexed = OVKRidgeCV(Precomputed(k(data.X)), omegas=omegas).fit(np.arange(25)[:, None], Y)
    assert_allclose(given.errors_, expected.errors_, rtol=1e-6)
    assert_allclose(indexed.errors_, expected.errors_, rtol=1e-6)
    assert_allclose(several.errors_[:, 0], expected.errors_[0], rtol=1e-6)
    assert_allclose(given.predict(k(data.X_new, data.X)), expected.predict(data.X_new), rtol=1e-6)
    assert_allclose(several.predict(k(data.X_new, data.X)), expected.predict(data.X_new), rtol=1e-6)


def test_search_over_the_estimator_that_searches(data):
    search = GridSearchCV(OVKRidgeCV(Gaussian()), {"omegas": [[0.0], [0.5]], "fit_intercept": [True]}, cv=FOLDS)
    assert search.fit(data.X, data.Y).best_estimator_.omega_ in (0.0, 0.5)
