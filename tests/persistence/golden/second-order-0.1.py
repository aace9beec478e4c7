"""Second-order online learners in the middle of a block, with features of every kind."""

import numpy as np

from ovk import KAWV, PKAWV, PKAWVClassifier
from ovk.features import ALD, KORS, Fourier, Given, Nystrom, OperatorFourier, Taylor, Uniform
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect
from ovk.ovkernels import CurlFree

rng = np.random.default_rng(0)
X = rng.uniform(size=(30, 2)).round(3)
Y = rng.uniform(size=(30, 2)).round(3)
holes = np.where(np.arange(60).reshape(30, 2) % 7 == 0, np.nan, Y)
K = Gaussian(0.3) * MixedEffect(0.5)
new = np.array([[0.2, 0.4], [0.9, 0.1]])


def make():
    return {
        "exact": KAWV(K, 0.1).fit(X, Y),
        "exact with holes": KAWV(K, 0.1).fit(X, holes),
        "first rows": PKAWV(K, 0.1, Nystrom(Uniform(size=5))).fit(X, Y),
        "kors with holes": PKAWV(K, 0.1, Nystrom(KORS(0.5), budget=8), random_state=0).fit(X, holes),
        "exact past": PKAWV(K, 0.1, Nystrom(ALD(0.2), past="exact")).fit(X, Y),
        "discount": PKAWV(K, 0.1, Nystrom(Given(X[:4])), discount=0.9).fit(X, Y),
        "window": PKAWV(K, 0.1, Nystrom(Given(X[:4])), window=10).fit(X, Y),
        "taylor": PKAWV(K, 0.1, Taylor(2)).fit(X, Y),
        "fourier": PKAWV(K, 0.1, Fourier(3), random_state=0).fit(X, Y),
        "operator fourier": PKAWV(CurlFree(Gaussian(0.5)), 0.1, OperatorFourier(3), random_state=0).fit(X, Y),
        "classes": PKAWVClassifier(Gaussian(0.3), 0.1).fit(X, np.arange(30) % 3),
    }


def check(loaded):
    for name, model in make().items():
        one, two = loaded[name], model
        if name == "classes":
            np.testing.assert_allclose(one.decision_function(new), two.decision_function(new), rtol=0, atol=1e-9)
            np.testing.assert_array_equal(*(m.predict_then_learn(X, np.arange(30) % 2) for m in (one, two)))
            np.testing.assert_allclose(one.decision_function(new), two.decision_function(new), rtol=0, atol=1e-9)
            continue
        np.testing.assert_allclose(one.predict(new), two.predict(new), rtol=0, atol=1e-9, err_msg=name)
        more = one.predict_then_learn(X, holes), two.predict_then_learn(X, holes)
        np.testing.assert_allclose(*more, rtol=0, atol=1e-9, err_msg=name)
