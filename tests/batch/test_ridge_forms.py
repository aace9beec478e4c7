"""Forms of input: weights, repeated and empty rows, long form, data frames, lists, sparse and float32 arrays."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from batch.reference import DenseRidge, long_form
from ovk import OVKRidge, OVKRidgeCV
from ovk.kernels import Gaussian, Linear, Polynomial, Tanimoto
from ovk.operators import Dense, Identity, MixedEffect

KERNEL = Gaussian(0.8) * MixedEffect(0.4)
MODELS = {
    "ridge": OVKRidge(KERNEL, alpha=0.1),
    "median": OVKRidge(Gaussian() * MixedEffect(0.4), alpha=[0.1, 0.2, 0.3], fit_intercept=True),
    "landmarks": OVKRidge(KERNEL, alpha=0.1, landmarks=np.random.default_rng(3).uniform(-1, 1, (9, 2))),
    "cv": OVKRidgeCV(KERNEL, alphas=[0.01, 0.1, 1.0], omegas=[0.0, 0.5]),
    "cv with intercept": OVKRidgeCV(KERNEL, alphas=[0.01, 0.1, 1.0], fit_intercept=True),
    "cv of entries": OVKRidgeCV(KERNEL, alphas=[0.01, 0.1, 1.0], leave_out="entry"),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def assert_same_model(a, b, X_new, rtol=1e-8):
    assert_allclose(a.predict(X_new), b.predict(X_new), rtol=rtol, atol=1e-10)
    assert_allclose(
        a.predict(X_new, return_cov=True, of="posterior")[1],
        b.predict(X_new, return_cov=True, of="posterior")[1],
        rtol=0,
        atol=1e-8,
    )
    if isinstance(a, OVKRidgeCV):
        assert a.alpha_ == b.alpha_
        assert a.omega_ == b.omega_
        assert_allclose(a.output_errors_, b.output_errors_, rtol=1e-7)


def fitted(model, *args, **kwargs):
    return type(model)(**model.get_params(deep=False)).fit(*args, **kwargs)


@every_model
@pytest.mark.parametrize("form", ["complete", "holes", "long"])
def test_repeated_rows_equal_doubled_weights(model, form, data):
    Y = data.Y if form == "complete" else data.holes
    times = np.random.default_rng(1).integers(1, 4, len(Y))
    X, outputs, task = (data.X, Y, None) if form != "long" else long_form(data.X, Y)
    if form == "long":
        times = np.random.default_rng(1).integers(1, 4, len(X))
    weighted = fitted(model, X, outputs, times.astype(float), task=task)
    repeated = fitted(
        model,
        np.repeat(X, times, axis=0),
        np.repeat(outputs, times, axis=0),
        task=None if task is None else np.repeat(task, times),
    )
    assert_same_model(weighted, repeated, data.X_new)


@every_model
@pytest.mark.parametrize("form", ["complete", "holes", "long"])
def test_weight_zero_equals_left_out(model, form, data):
    X, Y, task = data.X, data.Y if form == "complete" else data.holes, None
    if form == "long":
        X, Y, task = long_form(X, Y)
    keep = np.arange(len(X)) % 5 != 3
    weight = np.where(keep, np.linspace(0.5, 2.0, len(X)), 0.0)
    kept = fitted(model, X[keep], Y[keep], weight[keep], task=None if task is None else task[keep])
    assert_same_model(fitted(model, X, Y, weight, task=task), kept, data.X_new)


@every_model
def test_rows_without_outputs_are_ignored(model, data):
    X = np.vstack([data.X, 5.0 + data.X_new])
    Y = np.vstack([data.holes, np.full((7, 3), np.nan)])
    seen = ~np.isnan(data.holes).all(axis=1)
    assert 0 < seen.sum() < len(seen)
    assert_same_model(fitted(model, X, Y), fitted(model, data.X[seen], data.holes[seen]), data.X_new)


@every_model
@pytest.mark.parametrize("weighted", [False, True])
def test_long_form_equals_nan_form(model, weighted, data):
    weight = data.weight if weighted else None
    wide = fitted(model, data.X, data.holes, weight)
    X, y, task, *rest = long_form(data.X, data.holes, weight)
    order = np.random.default_rng(0).permutation(len(y))
    long = fitted(model, X[order], y[order], *[w[order] for w in rest], task=task[order])
    assert_same_model(long, wide, data.X_new)
    assert long.predict(data.X_new).shape == (7, 3)


def test_long_form_keeps_sparse_coefficients(data):
    X, y, task = long_form(data.X, data.holes)
    model = OVKRidge(KERNEL).fit(X, y, task=task)
    assert sparse.issparse(model.dual_coef_)
    assert model.dual_coef_.shape == (len(y), 3)
    assert model.dual_coef_.nnz == len(y)


def test_long_form_takes_the_number_of_outputs_from_the_operator(data):
    B = np.array([[1.0, 0.5, 0.9], [0.5, 1.0, 0.6], [0.9, 0.6, 1.0]])
    X, y, task = long_form(data.X, data.holes[:, :2])
    model = OVKRidge(Gaussian(0.8) * Dense(B), alpha=0.1, fit_intercept=False).fit(X, y, task=task)
    # Output 2 is never observed and is predicted only through the others.
    slow = DenseRidge(Gaussian(0.8) * Dense(B), X, y, 0.1, task=task, outputs=3)
    assert_allclose(model.predict(data.X_new), slow.predict(data.X_new), rtol=1e-8)
    with pytest.raises(ValueError, match=r"fit_intercept=True .* output 2 has none"):
        OVKRidge(Gaussian(0.8) * Dense(B), fit_intercept=True).fit(X, y, task=task)


def test_task_may_be_a_series_of_floats(data):
    X, y, task = long_form(data.X, data.holes)
    expected = OVKRidge(KERNEL).fit(X, y, task=task).predict(data.X_new)
    for form in (pd.Series(task), pl.Series(task), task.astype(float), task.astype(np.uint8), list(task)):
        assert_allclose(OVKRidge(KERNEL).fit(X, y, task=form).predict(data.X_new), expected, rtol=0, atol=0)


@every_model
def test_one_dimensional_y_gives_one_dimensional_predictions(model, data):
    model = type(model)(
        **{**model.get_params(deep=False), **({"alpha": 0.1} if model.get_params().get("alpha") else {})}
    )
    y = data.holes[:, 0]
    flat, column = fitted(model, data.X, y), fitted(model, data.X, y[:, None])
    mean, std = flat.predict(data.X_new, return_std=True)
    assert mean.shape == std.shape == (7,)
    assert flat.dual_coef_.ndim == 1
    expected, spread = column.predict(data.X_new, return_std=True)
    assert expected.shape == spread.shape == (7, 1)
    assert_allclose(mean, expected[:, 0], rtol=0, atol=0)
    assert_allclose(std, spread[:, 0], rtol=0, atol=0)
    assert flat.predict(data.X_new, return_cov=True)[1].shape == (7, 1, 1)
    assert flat.jacobian(data.X_new).shape == (7, 1, 2)
    assert_allclose(flat.score(data.X, y), column.score(data.X, y[:, None]), rtol=0, atol=0)


@every_model
def test_frames_and_lists(model, data):
    expected = fitted(model, data.X, data.holes).predict(data.X_new)
    names = ["a", "b"], ["u", "v", "w"]
    frames = [
        (pd.DataFrame(data.X, columns=names[0]), pd.DataFrame(data.holes, columns=names[1])),
        (pl.DataFrame(data.X, schema=names[0]), pl.DataFrame(data.holes, schema=names[1]).fill_nan(None)),
        (data.X.tolist(), data.holes.tolist()),
    ]
    for X, Y in frames:
        found = fitted(model, X, Y)
        new = type(X)(data.X_new, columns=names[0]) if isinstance(X, pd.DataFrame) else data.X_new.tolist()
        if isinstance(X, pl.DataFrame):
            new = pl.DataFrame(data.X_new, schema=names[0])
        assert_allclose(found.predict(new), expected, rtol=1e-12)
        if not isinstance(X, list):
            assert list(found.feature_names_in_) == names[0]


def test_wrong_feature_names_raise(data):
    model = OVKRidge(KERNEL).fit(pd.DataFrame(data.X, columns=["a", "b"]), data.Y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(data.X_new, columns=["a", "c"]))


@pytest.mark.parametrize("scalar", [Gaussian(0.8), Gaussian(), Linear(), Polynomial(2), Tanimoto()])
@pytest.mark.parametrize("form", ["complete", "holes", "long"])
def test_sparse_inputs_equal_dense_ones(scalar, form, data):
    X = np.where(np.abs(data.X) < 0.4, 0.0, np.abs(data.X))
    X_new = np.where(np.abs(data.X_new) < 0.4, 0.0, np.abs(data.X_new))
    Y, task = data.Y if form == "complete" else data.holes, None
    if form == "long":
        X, Y, task = long_form(X, Y)
    model = OVKRidge(scalar * MixedEffect(0.4), alpha=0.1, fit_intercept=True)
    expected = fitted(model, X, Y, task=task)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        found = fitted(model, kind(X), Y, task=task)
        assert_same_model(found, expected, kind(X_new))
        assert_allclose(found.predict(X_new), expected.predict(X_new), rtol=1e-9)


@every_model
def test_sparse_inputs_in_every_estimator(model, data):
    X = np.where(np.abs(data.X) < 0.3, 0.0, data.X)
    found, expected = fitted(model, sparse.csr_array(X), data.holes), fitted(model, X, data.holes)
    assert_same_model(found, expected, X)
    assert_allclose(found.predict(sparse.csr_array(X)), expected.predict(X), rtol=1e-9)
    assert_allclose(found.jacobian(sparse.csr_array(X)), expected.jacobian(X), rtol=0, atol=1e-9)


@every_model
def test_single_precision(model, data):
    X, Y, X_new = (A.astype(np.float32) for A in (data.X, data.holes, data.X_new))
    found = fitted(model, X, Y)
    expected = fitted(model, X.astype(float), Y.astype(float))
    assert found.predict(X_new).dtype == np.float64
    assert_allclose(found.predict(X_new), expected.predict(X_new.astype(float)), rtol=1e-9)


def test_score_counts_observed_outputs(data):
    model = OVKRidge(KERNEL, alpha=0.1).fit(data.X, data.Y)
    prediction = model.predict(data.X)
    expected = []
    for q in range(3):
        seen = ~np.isnan(data.holes[:, q])
        y, f, w = data.holes[seen, q], prediction[seen, q], data.weight[seen]
        mean = np.average(y, weights=w)
        expected.append(1 - (w * (y - f) ** 2).sum() / (w * (y - mean) ** 2).sum())
    assert_allclose(model.score(data.X, data.holes, data.weight), np.mean(expected), rtol=1e-12)
    with pytest.raises(ValueError, match="must have the 3 outputs of the fitted model, got 2"):
        model.score(data.X, data.Y[:, :2])


def test_repeated_inputs_with_different_outputs(data):
    X = data.X[np.arange(25) % 8]
    model = OVKRidge(Gaussian(0.8) * Identity(), alpha=0.1, fit_intercept=False).fit(X, data.Y)
    slow = DenseRidge(Gaussian(0.8) * Identity(3), X, data.Y, 0.1)
    assert_allclose(model.predict(data.X_new), slow.predict(data.X_new), rtol=1e-9)
