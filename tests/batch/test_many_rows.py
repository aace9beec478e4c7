"""Automatic choice and fit above the sizes that compare candidates."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ovk
from ovk import OVKClassifier, OVKClassifierCV, OVKRidge, OVKRidgeCV
from ovk.batch.tuning.automatic import ComparisonData, stretched
from ovk.kernels import Gaussian, Linear, Mapped, Matern
from ovk.operators import MixedEffect


def rows(n, rng):
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sin(3 * X[:, :1]) * X[:, 1:] + 0.2 * rng.standard_normal((n, 2))


@pytest.fixture
def single(monkeypatch):
    """Fits above 60 rows in single precision, with 40 landmarks for the variances of intervals."""
    monkeypatch.setattr("ovk.batch.tuning.ridge_cv.MAX_EXACT_ROWS", 60)
    monkeypatch.setattr("ovk.batch.tuning.ridge_cv.INTERVAL_LANDMARKS", 40)


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
def test_exact_fit_and_residuals_in_single_precision(single, weighted, intercept):
    rng = np.random.default_rng(0)
    X, Y = rows(200, rng)
    weight = rng.uniform(0.5, 2.0, 200) if weighted else None
    how = {"omegas": [0.6], "fit_intercept": intercept}
    model = OVKRidgeCV(Gaussian(1.0), [0.1], **how).fit(X, Y, weight)
    exact = OVKRidge(Gaussian(1.0) * MixedEffect(0.6), 0.1, fit_intercept=intercept).fit(X, Y, weight)
    assert model.solver_info_.route == "SinglePrecision"
    assert_allclose(model.predict(X), exact.predict(X), atol=1e-5)
    # Residuals in the order of the rows that are no landmarks.
    expected = exact.loo_residuals()
    found = model.landmark_loo_[0]
    at = [int(np.abs(expected - row).sum(axis=1).argmin()) for row in found]
    assert len(found) == 160
    assert np.all(np.diff(at) > 0)
    assert_allclose(found, expected[at], atol=1e-4)


def test_intervals_and_saving_in_single_precision(single, tmp_path):
    rng = np.random.default_rng(1)
    (X, Y), (new, truth) = rows(600, rng), rows(1000, rng)
    model = OVKRidgeCV(metric=False).fit(X, Y)
    assert model.landmarks_ is None
    assert model.interval_landmarks_ is not None
    regions = model.predict_interval(new)
    assert abs(regions.contains(truth).mean() - 0.9) < 0.03
    ovk.save(model, tmp_path / "model.ovk")
    assert_allclose(ovk.load(tmp_path / "model.ovk").predict_interval(new).upper, regions.upper)
    for refused in (model.loo_residuals, lambda: model.predict_interval(new, method="jackknife+")):
        with pytest.raises(ValueError, match=r"all training rows.* without landmarks"):
            refused()
    assert model.set_params(landmarks=None).fit(X, Y).interval_landmarks_ is None


@pytest.mark.parametrize("case", ["gaps", "sparse", "huber", "noise-free"])
def test_landmarks_where_single_precision_does_not_apply(single, monkeypatch, case):
    from scipy import sparse

    monkeypatch.setattr("ovk.batch.tuning.ridge_cv.DEFAULT_LANDMARKS", 50)
    X, Y = rows(100, np.random.default_rng(2))
    alpha = 1e-8 if case == "noise-free" else 0.1
    if case == "gaps":
        Y[::5, 0] = np.nan
    model = OVKRidgeCV(Gaussian(1.0), [alpha], loss="huber" if case == "huber" else "squared")
    if case == "huber":
        with pytest.warns(UserWarning, match="50 landmarks"), pytest.raises(ValueError, match="huber"):
            model.fit(X, Y)
        return
    with pytest.warns(UserWarning, match="100 rows are fitted with 50 landmarks"):
        model.fit(sparse.csr_array(X) if case == "sparse" else X, Y)
    assert model.landmarks_ is not None


def test_probabilities_of_a_fit_in_single_precision(single):
    """They are calibrated on exact leave-one-out residuals, as those of fewer rows."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (400, 2))
    y = (X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(400) > 0).astype(int) + (X[:, 0] > 0.8)
    model = OVKClassifierCV(Gaussian(1.0), [1.0]).fit(X, y)
    assert model.model_.interval_landmarks_ is not None
    exact = OVKClassifier(model.model_.kernel_, model.model_.alpha_).fit(X, y)
    assert_allclose(model.predict_proba(X), exact.predict_proba(X), atol=0.03)


def test_missing_values_in_many_outputs_leave_fewer_landmarks(monkeypatch):
    monkeypatch.setattr("ovk.batch.tuning.ridge_cv.MAX_EXACT_ROWS", 60)
    monkeypatch.setattr("ovk.batch.tuning.ridge_cv.MAX_LANDMARK_ENTRIES", 3200)
    X, Y = rows(100, np.random.default_rng(7))
    Y[::5, 0] = np.nan
    with pytest.warns(UserWarning, match="100 rows are fitted with 40 landmarks"):
        OVKRidgeCV(Gaussian(1.0), [0.1]).fit(X, Y)


# ---------------------------------------------------------------------------------------------- refining the choice


def test_all_length_scales_are_stretched():
    X = np.random.default_rng(3).standard_normal((6, 3))
    R = np.diag([1.0, 2.0, 0.5])
    kernel = 0.3 * Gaussian(1.5) + Mapped(Matern(1.5, 2.0), R)
    assert_allclose(stretched(kernel, 0.7)(X), kernel(X / 0.7))
    assert_allclose(stretched(Linear(), 0.7)(X), Linear()(X))


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("grouped", [False, True], ids=["", "groups"])
def test_error_of_one_alpha_for_each_output_agrees_with_the_path(weighted, grouped):
    rng = np.random.default_rng(4)
    X, Y = rows(40, rng)
    how = {"weight": rng.uniform(0.5, 2.0, 40) if weighted else None, "groups": np.arange(40) // 3 if grouped else None}
    data = ComparisonData(X, Y, variance=Y.var(axis=0), **how)
    alphas, threshold = np.array([0.1, 2.0]), np.array([0.3, 0.3])
    G = Gaussian(0.8)(X)
    R = np.stack([data.residuals(G, alphas)[q, :, q] for q in (0, 1)], axis=1)
    assert_allclose(data._mean_error(G, alphas, threshold), np.mean(data._robust(R, threshold)), rtol=1e-8)


def test_refinement_finds_a_better_width_and_alpha(monkeypatch):
    monkeypatch.setattr("ovk.batch.tuning.automatic.REFINED_ROWS", (100, 200, 300))
    X, Y = rows(300, np.random.default_rng(5))
    data = ComparisonData(X, Y, variance=Y.var(axis=0), half=np.zeros(300, dtype=np.intp))
    order, threshold = np.random.default_rng(0).permutation(300), np.full(2, np.inf)
    start = Gaussian(4.0), np.array([3.0, 3.0])
    kernel, alphas = data.refined(*start, threshold, order)
    before, after = (data._mean_error(k(X), a, threshold) for k, a in (start, (kernel, alphas)))
    assert after < 0.95 * before
    assert np.all(alphas < 3.0)
    # With as many rows as chose them, nothing changes.
    few = replace(data, X=X[:100], Y=Y[:100])
    assert few.refined(*start, threshold, np.arange(100)) == start
