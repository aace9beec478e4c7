"""Theorem 1 of the OLOK paper holds under its assumptions, and `error_bound` reports which one is violated."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from ovk import OLOK, OVKRidge
from ovk.kernels import Gaussian, Linear
from ovk.objectives import InverseSqrt
from ovk.online import PaperWindow, Window
from ovk.online.theory import error_bound
from ovk.operators import Dense, MixedEffect


def stream(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 1))
    Y = np.column_stack([np.sin((q + 1) * X[:, 0]) for q in range(d)])
    return X, Y / np.linalg.norm(Y, axis=1).max()


@pytest.mark.parametrize("n", [50, 400])
@pytest.mark.parametrize("truncation", [None, PaperWindow(0.4)])
def test_squared_loss_against_the_batch_infimum(n, truncation):
    X, Y = stream(n)
    kernel, alpha = Gaussian(0.7) * MixedEffect(0.2), 2.5  # kappa^2 = 1.2 < alpha / 2
    model = OLOK(kernel, alpha, 0.3, truncation=truncation).fit(X, Y)
    bound = error_bound(model, largest_output=1.0)
    assert bound.failed == ""
    # inf of 1/n sum 1/2 |y - g|^2 + alpha/2 |g|^2 is ridge regression with the ridge n alpha.
    best = OVKRidge(kernel, n * alpha).fit(X, Y)
    risk = 0.5 * ((best.predict(X) - Y) ** 2).sum(axis=1).mean() + 0.5 * alpha * best.expansion_.norm() ** 2
    assert model.cumulative_risk_ / n <= risk + bound.excess
    assert model.norm_ <= bound.U


def test_hinge_loss_against_the_batch_infimum():
    X, Y = stream(120, d=1)
    labels = np.sign(Y)
    alpha, G = 0.5, Gaussian(0.7)(X)
    model = OLOK(Gaussian(0.7), alpha, 1.0, loss="hinge").fit(X, labels)
    bound = error_bound(model)
    assert bound.failed == ""

    def risk(c):
        f = G @ c
        return np.maximum(1 - labels[:, 0] * f, 0).mean() + 0.5 * alpha * c @ f

    best = minimize(risk, np.zeros(120), method="Powell", options={"maxiter": 3}).fun
    assert model.cumulative_risk_ / 120 <= best + bound.excess
    assert model.norm_ <= bound.U


def test_scaled_steps_have_the_bound_of_the_steps_that_are_taken():
    X, Y = stream(60, d=1)
    kernel, labels = 9.0 * Gaussian(0.7), np.sign(Y)  # kappa^2 = 9
    rates = (InverseSqrt(1.8, scaled=True), 0.2)
    scaled, plain = (OLOK(kernel, 0.5, eta, loss="hinge").fit(X, labels) for eta in rates)
    assert_allclose(scaled.predict(X), plain.predict(X))
    one, other = error_bound(scaled), error_bound(plain)
    assert one.failed == other.failed == ""
    assert_allclose([one.excess, one.U], [other.excess, other.U])


@pytest.mark.parametrize(
    ("model", "largest", "what"),
    [
        (OLOK(Gaussian(1.0), alpha=0.0), 1.0, "alpha is 0"),
        (OLOK(Linear(), alpha=1e-3), 1.0, "assumption 1"),
        (OLOK(Gaussian(1.0), alpha=3.0, schedule=0.1), None, "largest_output"),
        (OLOK(Gaussian(1.0), alpha=1.0, schedule=0.1), 1.0, "assumption 3"),
        (OLOK(Gaussian(1.0), alpha=3.0, schedule="constant"), 1.0, "eta / sqrt"),
        (OLOK(Gaussian(1.0), alpha=3.0, schedule=0.1, truncation=Window(5)), 1.0, "PaperWindow"),
    ],
)
def test_the_assumption_that_fails_is_named(model, largest, what):
    X, Y = stream(20)
    bound = error_bound(model.fit(X, Y), largest)
    assert bound.excess is None
    assert what in bound.failed


@pytest.mark.parametrize("d", [16, 20])
def test_assumption_3_fails_in_the_papers_own_settings(d):
    X, Y = stream(20, d=d)
    J = 0.9 * np.eye(d) + 0.1
    model = OLOK(Gaussian.from_mu(1.0) * Dense(J), 3.0, 0.1).fit(X, Y)
    assert error_bound(model, 1.0).failed.startswith("assumption 3")
    paper = OLOK(Gaussian.from_mu(1.0) * Dense(J[:2, :2]), 3.0, 0.1).fit(X, Y[:, :2])
    assert error_bound(paper, 1.0).failed == ""
