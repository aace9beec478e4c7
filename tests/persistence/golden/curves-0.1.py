"""Fitted models of curves, and the objects that they are made of."""

import numpy as np

from ovk import FunctionalRidge, FunctionalRidgeCV, MovKL, MovKLClassifier, MovKLCV
from ovk.curves import FourierBasis, Grid
from ovk.kernels import Gaussian, Linear, OnCurves, Periodic
from ovk.operators import Identity, Integral, Multiplication

rng = np.random.default_rng(0)
X = rng.uniform(size=(12, 5)).round(3)
Y = rng.uniform(size=(12, 5)).round(3)
holes = np.where(np.arange(60).reshape(12, 5) % 7 == 0, np.nan, Y)
new = rng.uniform(size=(2, 5)).round(3)
T = np.array([0.0, 0.1, 0.4, 0.7, 1.0])
kernels = [
    k * operator
    for k in (Gaussian(0.7), Linear())
    for operator in (Identity(), Multiplication(Gaussian.from_mu(1.0)), Integral())
]


def make():
    closed = OnCurves(Gaussian(0.5), basis=FourierBasis(3)) * Integral(Periodic(Gaussian(0.2), 1.5))
    return {
        "curves": FunctionalRidge(Gaussian(0.7) * Integral(), 0.1, grid=T, fit_intercept=True).fit(X, holes),
        "closed": FunctionalRidge(closed, 0.1, grid=Grid(T, period=1.5), fit_intercept=False).fit(X, Y),
        "chosen": FunctionalRidgeCV(alphas=[0.1, 1.0], grid=T, n_eigen=[2, 4], fit_intercept=False).fit(X, Y),
        "kernels": MovKL(kernels, 0.1, grid=T).fit(X, Y),
        "kernels chosen": MovKLCV(kernels, [0.1, 1.0], 1.0, grid=T, fit_intercept=True).fit(X, Y),
        "labels": MovKLClassifier(kernels, 0.1, grid=T).fit(X, (Y > 0.5).astype(int)),
    }


def check(loaded):
    for name, model in make().items():
        np.testing.assert_allclose(loaded[name].predict(new), model.predict(new), rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(
            loaded[name].predict(new, grid=[0.2, 0.9]), model.predict(new, grid=[0.2, 0.9]), rtol=1e-6, err_msg=name
        )
