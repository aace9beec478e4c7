"""Lags of inputs (`OnCurves`) and of responses (`Integral`): their meaning, and learning them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ovk import FunctionalRidge, MovKL, tune
from ovk.curves import Components, Grid, ProductGrid
from ovk.kernels import Gaussian, Laplacian, Linear, OnCurves
from ovk.operators import Identity, Integral

SIGNALS, RESPONSE = Grid.regular(41, -1.0, 1.0), Grid.regular(21)
WINDOW = (0.0, 1.0)


def waves(n, seed, t):
    """Smooth random signals at times t, (n, len(t))."""
    rng = np.random.default_rng(seed)
    frequencies, phases = rng.standard_normal((n, 40)) / 0.12, rng.uniform(0, 2 * np.pi, (n, 40))
    return np.sqrt(2.0 / 40.0) * np.cos(frequencies[..., None] * np.asarray(t) + phases[..., None]).sum(axis=1)


def test_a_lag_reads_the_window_earlier():
    kernel = OnCurves(Gaussian(0.7), SIGNALS, window=WINDOW, lag=0.3)
    # 0.3 is a multiple of the spacing, so the spline returns the values themselves.
    X = waves(5, 0, SIGNALS.points)
    part = X[:, 14:35]
    assert_allclose(SIGNALS.points[[14, 34]], [-0.3, 0.7])
    assert_allclose(kernel(X), OnCurves(Gaussian(0.7), Grid.regular(21))(part), atol=1e-12)
    # What happens outside the window has no effect.
    other = X.copy()
    other[:, :5], other[:, 40:] = 9.0, -9.0
    assert_allclose(kernel(other), kernel(X), atol=1e-4)


def test_curves_continue_constantly_and_closed_curves_go_round():
    X = waves(3, 1, SIGNALS.points)
    late = OnCurves(Linear(), SIGNALS, window=WINDOW, lag=5.0)
    assert_allclose(late(X), np.outer(X[:, 0], X[:, 0]), atol=1e-12)
    assert_allclose(late.gradient(X)["lag"], 0.0, atol=1e-12)
    circle = Grid(np.arange(20) / 20.0, period=1.0)
    Z = np.cos(2 * np.pi * (np.asarray(circle.points) - np.array([[0.1], [0.4]])))
    once = OnCurves(Linear(), circle, window=(0.0, 0.5), lag=0.2)
    assert_allclose(once(Z), once.replace(lag=1.2)(Z), atol=1e-10)


def test_a_response_begins_late():
    T = Integral(Gaussian(0.2), RESPONSE, lag=0.4)
    before, after = np.asarray(RESPONSE.points) < 0.1, np.asarray(RESPONSE.points) > 0.7
    plain = Integral(Gaussian(0.2), RESPONSE).dense()
    assert np.abs(T.dense()[before]).max() < 1e-3 * np.abs(plain).max()
    assert_allclose(T.dense()[np.ix_(after, after)], plain[np.ix_(after, after)], rtol=0.01)
    # On the points of the grid, predictions on another grid are those on the grid.
    Y = waves(2, 2, RESPONSE.points)
    for operator in (T, T.replace(kernel=None), T.replace(n_eigen=5)):
        at_points = Y @ operator.evaluation_on(RESPONSE, RESPONSE.points)
        assert_allclose(at_points * RESPONSE.roots(), operator.apply(Y), atol=1e-12)
    assert T.replace(n_eigen=5).gradient() == {}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: OnCurves(Linear(), SIGNALS, lag=0.1)(X), "lag=0.1 requires a window"),
        (lambda X: OnCurves(Linear(), SIGNALS, window=(1.0, 0.0))(X), "window must be .start, stop. with start < stop"),
        (lambda X: OnCurves(Linear(), SIGNALS, window=WINDOW, lag=np.nan)(X), "lag must be finite"),
        (
            lambda X: OnCurves(Linear(), ProductGrid([Components(1), SIGNALS]), window=WINDOW)(X),
            "window requires curves of one variable",
        ),
        (lambda X: Integral(grid=RESPONSE, lag=-0.1).dense(), "lag must be"),
        (lambda X: Integral(grid=ProductGrid([Components(1), RESPONSE]), lag=0.1).dense(), "one variable"),
        (
            lambda X: Integral(Laplacian(1.0), RESPONSE, 3, "analytic", lag=0.1).dense(),
            "lag and eigenfunctions='analytic' cannot be combined",
        ),
    ],
)
def test_bad_lags(call, message):
    with pytest.raises(ValueError, match=message):
        call(waves(2, 0, SIGNALS.points))


def test_kernels_without_a_derivative_have_no_gradient_in_the_lag():
    X = waves(3, 0, SIGNALS.points)
    rough = OnCurves(Laplacian(1.0), SIGNALS, window=WINDOW, lag=0.1)
    assert "lag" not in rough.gradient(X)
    assert "lag" not in rough.gradient_product(np.eye(3), X)
    weights = np.array([[1.0, 0.2, 0.3], [0.2, 2.0, -1.0], [0.3, -1.0, 0.5]])
    smooth = OnCurves(Gaussian(1.0), SIGNALS, window=WINDOW, lag=0.1)
    expected = (weights * smooth.gradient(X)["lag"]).sum()
    assert_allclose(smooth.gradient_product(weights, X)["lag"], expected)


def recordings(n, seed, lag):
    both = waves(n, seed, np.concatenate([SIGNALS.points, np.asarray(RESPONSE.points) - lag]))
    noise = 0.2 * np.random.default_rng(seed + 1).standard_normal((n, len(RESPONSE)))
    return both[:, : len(SIGNALS)], both[:, len(SIGNALS) :] + noise


def test_a_lag_is_learned_by_gradient_and_from_a_grid():
    X, Y = recordings(60, 3, lag=0.3)

    def kernel(lag, operator=None):
        inputs = OnCurves(Linear(), SIGNALS, window=WINDOW, lag=lag)
        return (1.0 * inputs) * (Integral(Gaussian(0.12)) if operator is None else operator)

    start = FunctionalRidge(kernel(0.15), 0.01, grid=RESPONSE, fit_intercept=False)
    tuned = tune(start, X, Y, restarts=1, max_iter=60)
    assert "kernel__kernel__lag" in tuned.tuning_.names
    assert abs(tuned.kernel_.kernel.kernel.lag - 0.3) < 0.02
    lags = [0.0, 0.15, 0.3, 0.45, 0.6]
    model = MovKL([kernel(lag, Identity()) for lag in lags], alpha=0.3, r=1.0, grid=RESPONSE).fit(X, Y)
    assert lags[int(model.weights_.argmax())] == 0.3


def test_an_onset_is_learned_by_gradient():
    X, Y = recordings(60, 3, lag=0.0)
    Y = np.where(np.asarray(RESPONSE.points) > 0.4, Y, 0.2 * np.random.default_rng(0).standard_normal(Y.shape))
    inputs = 1.0 * OnCurves(Linear(), SIGNALS, window=WINDOW)
    start = FunctionalRidge(inputs * Integral(Gaussian(0.12), lag=0.1), 0.01, grid=RESPONSE, fit_intercept=False)
    tuned = tune(start, X, Y, noise="shared", restarts=1, max_iter=60)
    assert abs(tuned.kernel_.operator.lag - 0.4) < 0.06
