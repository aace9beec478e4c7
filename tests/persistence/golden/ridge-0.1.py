"""Fitted ridge models of every form, with kernels of every package."""

import numpy as np

from ovk import OVKRidge, OVKRidgeCV
from ovk.kernels import Gaussian, Linear, Matern
from ovk.operators import Cluster, Dense, GraphLaplacian, LowRank, MixedEffect
from ovk.ovkernels import CurlFree, Diagonal, DivFree

rng = np.random.default_rng(0)
X = rng.uniform(size=(12, 2)).round(3)
Y = rng.uniform(size=(12, 2)).round(3)
holes = np.where(np.arange(24).reshape(12, 2) % 5 == 0, np.nan, Y)
path = np.array([[0.0, 1.0], [1.0, 0.0]])
new = np.array([[0.2, 0.4], [0.9, 0.1]])


def make():
    two = Gaussian(0.5) * MixedEffect(0.5) + 0.3 * Linear() * Dense(np.array([[2.0, 0.5], [0.5, 1.0]]))
    return {
        "default": OVKRidge(fit_intercept=False).fit(X, Y[:, 0]),
        "sum with holes and intercept": OVKRidge(two, 0.1, fit_intercept=True).fit(X, holes),
        "weights and an alpha each": OVKRidge(
            Gaussian("median") * LowRank([[1.0], [0.5]], 0.1), [0.1, 0.2], fit_intercept=False
        ).fit(X, Y, np.arange(12.0) + 1),
        "long form": OVKRidge(Matern(1.5, 0.7) * GraphLaplacian(path, 0.5), 0.1, fit_intercept=False).fit(
            X, Y[:, 0], task=np.arange(12) % 2
        ),
        "field": OVKRidge(CurlFree(Gaussian(0.5)) + DivFree(Gaussian(0.5)), 0.1, fit_intercept=False).fit(X, Y),
        "diagonal": OVKRidge(Diagonal([Gaussian(0.5), Linear()]), 0.1, fit_intercept=False).fit(X, Y),
        "landmarks": OVKRidge(Gaussian(0.5) * Cluster(["a", "a"], 0.5), 0.1, landmarks=X[:5], fit_intercept=False).fit(
            X, holes
        ),
        "chosen": OVKRidgeCV(Gaussian(0.5), [0.1, 1.0], omegas=[0.0, 0.5], fit_intercept=False).fit(X, Y),
    }


def check(loaded):
    for name, model in make().items():
        np.testing.assert_allclose(loaded[name].predict(new), model.predict(new), rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(
            loaded[name].predict(new, return_std=True)[1],
            model.predict(new, return_std=True)[1],
            rtol=1e-6,
            err_msg=name,
        )
