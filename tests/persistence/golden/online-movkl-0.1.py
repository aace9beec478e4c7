"""A stream learned with many kernels, which goes on after loading."""

import numpy as np

from ovk import OLOK, OnlineMovKL
from ovk.kernels import Gaussian, Linear
from ovk.operators import Identity, Integral

rng = np.random.default_rng(0)
X = rng.uniform(size=(20, 2)).round(3)
Y = rng.uniform(size=(20, 4)).round(3)
T = np.array([0.0, 0.2, 0.5, 1.0])
kernels = [Gaussian(0.7) * Identity(), Gaussian(0.7) * Integral(), Linear() * Integral()]


def make():
    return OnlineMovKL(kernels, OLOK(alpha=0.01, schedule=1.0, truncation=8), bound=2.0, grid=T).partial_fit(
        X[:15], Y[:15]
    )


def check(loaded):
    model = make()
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-9)
    np.testing.assert_allclose(
        loaded.predict_then_learn(X[15:], Y[15:]), model.predict_then_learn(X[15:], Y[15:]), rtol=1e-9
    )
