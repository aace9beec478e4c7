"""First-order online learners in the middle of their stream."""

import numpy as np

from ovk import OLOK, OLOKClassifier, OVKRidge
from ovk.kernels import Gaussian, Linear
from ovk.losses import SimplexHinge
from ovk.online import Tolerance, Window
from ovk.operators import Dense, MixedEffect
from ovk.ovkernels import CurlFree
from ovk.schedules import Constant

rng = np.random.default_rng(0)
X = rng.uniform(size=(60, 2)).round(3)
Y = np.column_stack([X[:, 0] * X[:, 1], X[:, 0] - X[:, 1]]).round(3)
holes = np.where(np.arange(120).reshape(60, 2) % 7 == 0, np.nan, Y)
labels = np.where(X[:, 0] > 0.66, "a", np.where(X[:, 1] > 0.5, "b", "c"))
then = slice(40, 60)


def make():
    first = slice(0, 40)
    two = Gaussian(0.5) * MixedEffect(0.5) + 0.3 * Linear() * Dense(np.array([[2.0, 0.5], [0.5, 1.0]]))
    start = OVKRidge(two, 0.1, fit_intercept=False).fit(X[:5], Y[:5])
    return {
        "window and holes": OLOK(two, 0.1, 0.5, truncation=Window(7)).partial_fit(X[first], holes[first]),
        "certified": OLOK(two, 0.9, Constant(0.9), truncation=Tolerance(1e-3)).partial_fit(X[first], Y[first]),
        # When the file was written there was no warm-up.
        "average": OLOK(Gaussian("median"), 0.1, 0.5, "huber", average=True, warm_up=0).partial_fit(
            X[first], Y[first, 0]
        ),
        "no tuning": OLOK(CurlFree(Gaussian(0.5)), schedule="auto", init=None).partial_fit(X[first], Y[first]),
        "from a batch": OLOK(two, 0.1, 0.5, "epsilon-insensitive", init=start, discount=0.99).partial_fit(
            X[first], Y[first]
        ),
        "novelty": OLOK(Gaussian(0.5), 0.1, 0.5, "novelty").partial_fit(X[first]),
        # And this was the loss for more than two classes.
        "classes": OLOKClassifier(Gaussian(0.5), loss=SimplexHinge()).partial_fit(
            X[first], labels[first], classes=["a", "b", "c"]
        ),
    }


def check(loaded):
    for name, model in make().items():
        found = loaded[name]
        if name == "classes":
            np.testing.assert_allclose(found.decision_function(X), model.decision_function(X), rtol=1e-9, err_msg=name)
            targets = labels
        else:
            np.testing.assert_allclose(found.predict(X), model.predict(X), rtol=1e-9, err_msg=name)
            np.testing.assert_allclose(found.truncation_error_, model.truncation_error_, rtol=1e-6, err_msg=name)
            targets = None if name == "novelty" else Y[:, 0] if name == "average" else holes
        rows = None if targets is None else targets[then]
        progress = [learner.predict_then_learn(X[then], rows) for learner in (found, model)]
        if name == "classes":
            np.testing.assert_array_equal(*progress)
        else:
            np.testing.assert_allclose(*progress, rtol=1e-9, atol=1e-12, err_msg=name)
