"""An operator between functions, with everything chosen from short lists; its bands need the factor again."""

import numpy as np

from ovk import OperatorRidge
from ovk.curves import Grid, ProductGrid
from ovk.kernels import Gaussian, Linear

rng = np.random.default_rng(0)
a = rng.standard_normal((25, 2)).round(3)
X = a @ rng.standard_normal((2, 6)).round(3)
Y = np.tanh(a) @ rng.standard_normal((2, 4)).round(3)
GRIDS = {"input_grid": ProductGrid.regular((2, 3)), "output_grid": Grid([0.0, 0.2, 0.5, 1.0])}


def make():
    return OperatorRidge([Linear(), Gaussian(1.5)], [1e-4, 1e-2], decay=[0.5, 1.0], groups=2, **GRIDS).fit(X, Y)


def check(loaded):
    model = make()
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-7)
    np.testing.assert_allclose(loaded.predict(X, grid=[0.1, 0.7]), model.predict(X, grid=[0.1, 0.7]), rtol=1e-7)
    for old, new in zip(loaded.predict_bands(X), model.predict_bands(X), strict=True):
        np.testing.assert_allclose(old, new, rtol=1e-6)
