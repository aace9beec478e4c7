"""Bad input raises an informative error and does not change a fitted model."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from batch.reference import long_form
from ovk import OVKRidge, OVKRidgeCV
from ovk.kernels import Gaussian, Precomputed
from ovk.operators import Dense, Identity, MixedEffect
from ovk.ovkernels import CurlFree, Diagonal, Separable, Transformable

ESTIMATORS = {
    "ridge": OVKRidge,
    "cv": OVKRidgeCV,
    "landmarks": lambda kernel=None, **params: OVKRidge(kernel, landmarks=8, random_state=0, **params),
}


def put(A, value, place=(3, 1)):
    A = np.array(A, dtype=object if isinstance(value, str) else float)
    A[place] = value
    return A


def all_missing(Y, q=1):
    return np.where(np.arange(Y.shape[1]) == q, np.nan, Y)


BAD_DATA = {
    "nan in X": (lambda d: (put(d.X, np.nan), d.Y), "Input X contains NaN"),
    "inf in X": (lambda d: (put(d.X, np.inf), d.Y), "Input X contains infinity"),
    "nan in sparse X": (lambda d: (sparse.csr_array(put(d.X, np.nan)), d.Y), "Input X contains NaN"),
    "inf in Y": (lambda d: (d.X, put(d.Y, -np.inf)), "Input y contains infinity"),
    "output missing": (
        lambda d: (d.X, all_missing(d.Y)),
        "output 1 is nan in all 25 rows: remove the column",
    ),
    "everything missing": (lambda d: (d.X, np.full((25, 3), np.nan)), "output 0 is nan in all 25 rows"),
    "output seen without weight": (
        lambda d: (d.X, d.holes, np.where(np.isnan(d.holes[:, 2]), 1.0, 0.0)),
        "output 2 is nan in all 25 rows of positive weight",
    ),
    "fewer outputs": (lambda d: (d.X, d.Y[:20]), r"inconsistent numbers of samples: \[25, 20\]"),
    "fewer weights": (
        lambda d: (d.X, d.Y, d.weight[:20]),
        r"sample_weight.shape == \(20,\), expected \(25,\)",
    ),
    "negative weight": (lambda d: (d.X, d.Y, -d.weight), "Negative values in data passed to `sample_weight`"),
    "no weight": (
        lambda d: (d.X, d.Y, 0 * d.weight),
        "sample_weight must have a positive entry, got only",
    ),
    "nan weight": (lambda d: (d.X, d.Y, put(d.weight, np.nan, 2)), "sample_weight contains NaN"),
    "empty": (lambda d: (d.X[:0], d.Y[:0]), r"0 sample\(s\)"),
    "no features": (lambda d: (d.X[:, :0], d.Y), r"0 feature\(s\)"),
    "no outputs": (lambda d: (d.X, d.Y[:, :0]), r"Y must have at least one output, got shape \(25, 0\)"),
    "strings in X": (lambda d: (put(d.X, "a"), d.Y), "could not convert string to float"),
    "strings in Y": (lambda d: (d.X, put(d.Y, "a")), "could not convert string to float"),
    "Y of three dimensions": (lambda d: (d.X, np.zeros((25, 3, 2))), "dim"),
    "no Y": (lambda d: (d.X, None), "requires y to be passed, but the target y is None"),
    "X of one dimension": (lambda d: (d.X[:, 0], d.Y), "Expected 2D array, got 1D array"),
    "names of features": (
        lambda d: (pd.DataFrame(d.X, columns=["a", 1]), d.Y),
        None,  # scikit-learn raises a TypeError of its own
    ),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data(case, estimator, data):
    make, message = BAD_DATA[case]
    # Other numbers of features and outputs than those of the failing fit, and names.
    first = pd.DataFrame(data.X[:, :1], columns=["length"])
    model = ESTIMATORS[estimator](Gaussian(0.8) * MixedEffect(0.3)).fit(first, data.Y[:, :2])
    new = first.iloc[:5]
    before, attributes = model.predict(new, return_std=True), set(vars(model))
    with pytest.raises(TypeError if message is None else ValueError, match=message):
        model.fit(*make(data))
    assert set(vars(model)) == attributes
    assert model.n_features_in_ == 1
    assert list(model.feature_names_in_) == ["length"]
    assert_allclose(model.predict(new, return_std=True), before, rtol=0, atol=0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_failed_first_fit_leaves_the_model_unfitted(estimator, data):
    model = ESTIMATORS[estimator]()
    attributes = set(vars(model))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(data.X, put(data.Y, np.inf))
    assert set(vars(model)) == attributes


BAD_PARAMETERS = {
    "negative alpha": ({"alpha": -1.0}, "alpha must be non-negative and finite, got -1.0"),
    "nan alpha": ({"alpha": np.nan}, "alpha must be non-negative and finite, got nan"),
    "text alpha": (
        {"alpha": "large"},
        "alpha must be a number >= 0, or an array with one > 0 per output, got 'large'",
    ),
    "alphas of wrong length": ({"alpha": [0.1, 0.2]}, "alpha must have 3 entries, one for each output, got 2"),
    "one negative alpha": (
        {"alpha": [0.1, 0.2, -0.1]},
        r"alpha must be non-negative and finite, got \[0.1, 0.2, -0.1\]",
    ),
    "one zero alpha": ({"alpha": [0.1, 0.2, 0.0]}, "alpha must be positive for each output if it differs"),
    "unknown solver": ({"solver": "qr"}, "solver must be 'auto', one of .*cholesky.* got 'qr'"),
    "solver that is none": ({"solver": 3}, "solver must be 'auto', one of .*cholesky.* got 3"),
    "kernel that is none": ({"kernel": 3.0}, "kernel must be a kernel of ovk.kernels.* got 3.0"),
    "unknown kernel": ({"kernel": "rfb"}, "kernel must be one of .*'gaussian'.* got 'rfb'"),
    "operator as kernel": ({"kernel": Identity()}, "kernel must be a kernel, got the operator"),
    "matrix as operator": ({"kernel": Separable(Gaussian(1.0), np.eye(3))}, "operator must be an output operator"),
    "operator of another size": ({"kernel": Gaussian(1.0) * Dense(np.eye(2))}, "2 outputs but Y has 3"),
    "other number of kernels": ({"kernel": Diagonal([Gaussian(1.0)] * 2)}, "2 outputs but Y has 3"),
    "operator not PSD": (
        {"kernel": Gaussian(1.0) * Dense([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])},
        "must be positive semi-definite, but it has the eigenvalue -1",
    ),
    "operator not symmetric": (
        {"kernel": Gaussian(1.0) * Dense(np.triu(np.ones((3, 3))))},
        "must be symmetric",
    ),
    "bad length scale": ({"kernel": Gaussian(-1.0)}, "length_scale must be positive and finite, got -1.0"),
    "length scales of wrong length": (
        {"kernel": Gaussian([1.0, 2.0, 3.0])},
        "2 entries, one for each input, got 3",
    ),
    "field": ({"kernel": CurlFree(Gaussian(1.0))}, "X has 2 features and Y has 3 outputs"),
    "coordinates": ({"kernel": Transformable(Gaussian(1.0))}, "X has 2 features and Y has 3 outputs"),
    "not a kernel matrix": ({"kernel": Precomputed()}, "must be a kernel matrix"),
    "not indices": ({"kernel": Precomputed(np.eye(25))}, "X must have one column, got 2"),
}


@pytest.mark.parametrize("case", BAD_PARAMETERS)
def test_bad_parameters(case, data):
    params, message = BAD_PARAMETERS[case]
    model = OVKRidge(Gaussian(0.8), alpha=0.1).fit(data.X[:, :1], data.Y[:, :2])
    before = model.predict(data.X_new[:, :1], return_std=True)
    model.set_params(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(data.X, data.Y)
    assert_allclose(model.predict(data.X_new[:, :1], return_std=True), before, rtol=0, atol=0)


@pytest.mark.parametrize("form", ["holes", "landmarks"])
def test_an_operator_that_is_not_psd_raises_with_gaps_and_landmarks(form, data):
    kernel = Gaussian(1.0) * Dense([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    model = OVKRidge(kernel, alpha=0.1, landmarks=8 if form == "landmarks" else None)
    with pytest.raises(ValueError, match="positive"):
        model.fit(data.X, data.holes if form == "holes" else data.Y)


BAD_TASKS = {
    "too large": (lambda y, t: (y, t + 1), "task must contain output indices below 3, got 3"),
    "negative": (lambda y, t: (y, t - 1), r"task must contain output indices 0..d-1, got -1"),
    "fractions": (lambda y, t: (y, t + 0.5), "task must contain output indices 0..d-1"),
    "nan": (lambda y, t: (y, put(t, np.nan, 2)), "task must contain output indices 0..d-1"),
    "infinite": (lambda y, t: (y, put(t, np.inf, 2)), "task must contain output indices 0..d-1"),
    "text": (lambda y, t: (y, t.astype(str)), "task must contain output indices 0..d-1"),
    "too short": (
        lambda y, t: (y, t[:4]),
        r"task must have one entry for each of the \d+ rows, got shape \(4,\)",
    ),
    "nan in y": (lambda y, t: (put(y, np.nan, 5), t), r"in long form y must not contain nan \(row 5\)"),
    "wide y": (lambda y, t: (np.column_stack([y, y]), t), "in long form .* y must have one value per row"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("case", BAD_TASKS)
def test_bad_long_form(case, estimator, data):
    change, message = BAD_TASKS[case]
    X, y, task = long_form(data.X, data.holes)
    model = ESTIMATORS[estimator](Gaussian(0.8) * MixedEffect(0.3, output_dim=3)).fit(X, y, task=task)
    before = model.predict(data.X_new)
    bad_y, bad_task = change(y, task)
    with pytest.raises(ValueError, match=message):
        model.fit(X, bad_y, task=bad_task)
    assert_allclose(model.predict(data.X_new), before, rtol=0, atol=0)


def test_both_standard_deviation_and_covariance(data):
    model = OVKRidge().fit(data.X, data.Y)
    with pytest.raises(ValueError, match="return_std and return_cov cannot be combined"):
        model.predict(data.X_new, return_std=True, return_cov=True)


@pytest.mark.parametrize("X_new", [np.zeros((3, 5)), np.full((3, 2), np.nan), np.zeros((0, 2))])
def test_bad_new_inputs(X_new, data):
    model = OVKRidge().fit(data.X, data.Y)
    for method in (model.predict, model.jacobian):
        with pytest.raises(ValueError, match=r"features|NaN|sample"):
            method(X_new)
