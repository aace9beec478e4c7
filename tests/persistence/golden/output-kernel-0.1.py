"""Fitted models with a learned output operator."""

import numpy as np

from ovk import OutputKernelRidge
from ovk.kernels import Gaussian
from ovk.operators import MeanRegularised
from ovk.penalties import Frobenius

rng = np.random.default_rng(0)
X = rng.uniform(size=(12, 2)).round(3)
Y = rng.uniform(size=(12, 2)).round(3)
holes = np.where(np.arange(24).reshape(12, 2) % 5 == 0, np.nan, Y)
new = np.array([[0.2, 0.4], [0.9, 0.1]])


def make():
    return {
        "path": OutputKernelRidge(Gaussian(0.5), fit_intercept=False).fit(X, Y),
        "sparse": OutputKernelRidge(Gaussian(0.5), 0.1, penalty="sparse", fit_intercept=False).fit(X, Y),
        "holes": OutputKernelRidge(Gaussian(0.5), 0.1, penalty=Frobenius(2.0), fit_intercept=True).fit(X, holes),
        "fixed": OutputKernelRidge(Gaussian(0.5) * MeanRegularised(0.5, 2.0), 0.1, max_iter=0, fit_intercept=False).fit(
            X, Y
        ),
    }


def check(loaded):
    for name, model in make().items():
        found = loaded[name]
        # The iteration may stop a little earlier or later in another release; what was saved is what is predicted.
        np.testing.assert_allclose(found.predict(new), model.predict(new), rtol=1e-2, err_msg=name)
        np.testing.assert_allclose(found.T_, model.T_, atol=1e-2 * np.trace(model.T_), err_msg=name)
        np.testing.assert_allclose(found.T_, found.kernel_.operator.dense(), rtol=1e-12)
