"""Huber's loss: weights and robustness."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from batch.reference import long_form
from ovk import OVKRidge, OVKRidgeCV
from ovk.batch.ridge.ridge_system import huber_weights
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect


def spoiled(n=60, wild=6):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n, 1))
    truth = np.hstack([np.sin(2 * X), np.cos(2 * X)])
    Y = truth + 0.1 * rng.standard_normal((n, 2))
    Y[:wild] += 30.0
    return X, Y, truth


@pytest.mark.parametrize("form", ["complete", "holes", "long"])
@pytest.mark.parametrize("alpha", [0.1, [0.1, 0.3]], ids=["one alpha", "two alphas"])
def test_the_weights_are_those_that_the_residuals_ask_for(form, alpha):
    X, Y, _ = spoiled()
    task = None
    if form != "complete":
        Y[np.random.default_rng(1).random(Y.shape) < 0.2] = np.nan
    if form == "long":
        X, Y, task = long_form(X, Y)
    model = OVKRidge(Gaussian(1.0) * MixedEffect(0.3, 2), alpha, loss="huber").fit(X, Y, task=task)
    F = model.predict(X, task=task)
    R = (Y - F)[:, None] if form == "long" else Y - F
    used = np.arange(len(R)) if form == "long" else np.flatnonzero(~np.isnan(Y).all(axis=1))
    expected = huber_weights(R[used], np.ones(R.shape[1]))
    assert_allclose(model.sample_weight_, expected, atol=2e-4)
    assert model.sample_weight_[0] < 0.1 < np.median(model.sample_weight_)


def test_it_is_the_minimum_of_hubers_loss():
    """One output: the reweighted solution agrees with a general minimiser at a fixed scale."""
    X, Y, _ = spoiled(25, 3)
    y, G = Y[:, 0], Gaussian(1.0)(X)
    model = OVKRidge(Gaussian(1.0), 0.1, loss="huber", fit_intercept=False).fit(X, y)
    c = 1.345 * 1.4826 * np.median(np.abs(y - model.predict(X)))

    def objective(a):
        r = np.abs(y - G @ a)
        loss = np.where(r <= c, r**2, 2 * c * r - c**2)
        slope = np.where(r <= c, 2 * r, 2 * c) * np.sign(y - G @ a)
        return loss.sum() + 0.1 * a @ G @ a, G @ (0.2 * a - slope)

    best = minimize(objective, np.zeros(25), jac=True, method="BFGS", options={"maxiter": 2000, "gtol": 1e-8})
    assert objective(model.dual_coef_)[0] <= best.fun * (1 + 1e-4)


def test_outlying_rows_have_little_influence():
    X, Y, truth = spoiled()
    errors = {
        loss: np.mean((OVKRidge(Gaussian(1.0), 0.1, loss=loss).fit(X, Y).predict(X) - truth) ** 2)
        for loss in ("squared", "huber")
    }
    assert errors["huber"] < 0.2
    assert errors["huber"] < 0.05 * errors["squared"]


def test_the_choice_without_arguments_uses_robust_weights():
    X, Y, truth = spoiled(100, 5)
    plain, robust = (OVKRidgeCV(loss=loss).fit(X, Y) for loss in ("squared", "huber"))
    assert np.mean((robust.predict(X) - truth) ** 2) < 0.1
    assert np.mean((robust.predict(X) - truth) ** 2) < 0.1 * np.mean((plain.predict(X) - truth) ** 2)


def test_the_loss_is_chosen_by_the_residuals():
    """Huber's loss for frequent symmetric outliers; for skewed noise it would estimate another function."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (150, 1))
    truth = np.sin(2 * X)
    noise = {"huber": 0.3 * rng.standard_t(1.5, truth.shape), "squared": 0.3 * rng.exponential(size=truth.shape)}
    for loss, e in noise.items():
        model = OVKRidgeCV(metric=False, loss="auto").fit(X, truth + e)
        assert model.loss_ == loss
        same = OVKRidgeCV(metric=False, loss=loss).fit(X, truth + e)
        assert_allclose(model.predict(X), same.predict(X))
    with pytest.raises(ValueError, match="loss must be 'auto', 'squared' or 'huber', got 'absolute'"):
        OVKRidgeCV(loss="absolute").fit(X, truth)


def test_clean_data_are_fitted_as_before():
    X, Y, _ = spoiled(60, 0)
    plain, robust = (OVKRidge(Gaussian(1.0), 0.1, loss=loss).fit(X, Y) for loss in ("squared", "huber"))
    assert_allclose(plain.predict(X), robust.predict(X), atol=0.05)


def test_unsupported_options_raise():
    X, Y, _ = spoiled()
    with pytest.raises(ValueError, match="loss must be 'squared' or 'huber', got 'absolute'"):
        OVKRidge(loss="absolute").fit(X, Y)
    with pytest.raises(ValueError, match="alpha must be positive with loss"):
        OVKRidge(alpha=0.0, loss="huber").fit(X, Y)
    with pytest.raises(ValueError, match="does not support landmarks"):
        OVKRidge(landmarks=5, loss="huber").fit(X, Y)
