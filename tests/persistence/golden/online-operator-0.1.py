"""A stream of functions, which goes on after loading: once in its warm-up, once behind it."""

import numpy as np

from ovk import OLOK, OnlineOperator
from ovk.curves import Components, Grid, ProductGrid
from ovk.kernels import Gaussian, Linear

rng = np.random.default_rng(0)
a = rng.standard_normal((30, 2)).round(3)
X = a @ rng.standard_normal((2, 6)).round(3)
Y = np.tanh(a) @ rng.standard_normal((2, 4)).round(3)
GRIDS = {"input_grid": ProductGrid([Components(2), Grid.regular(3)]), "output_grid": Grid([0.0, 0.2, 0.5, 1.0])}
WARM_UPS = (8, 24)


def make():
    learner = OLOK(Linear() + Gaussian(1.0), alpha=0.01, schedule=0.5)
    return [OnlineOperator(learner, warm_up=size, **GRIDS).partial_fit(X[:15], Y[:15]) for size in WARM_UPS]


def check(loaded):
    for old, model in zip(loaded, make(), strict=True):
        np.testing.assert_allclose(old.predict(X), model.predict(X), rtol=1e-9)
        np.testing.assert_allclose(
            old.predict_then_learn(X[15:], Y[15:]), model.predict_then_learn(X[15:], Y[15:]), rtol=1e-9
        )
