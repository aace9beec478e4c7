"""A copy taken before learning stays as it was, to the last bit, whatever the learner learns after it."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import ovk
from learners import CLASSIFIERS, EVERY, begun, rows
from ovk.evaluation import ConformalPID, WithIntervals
from ovk.features import KORS, Fourier, Nystrom, Uniform
from ovk.kernels import Gaussian
from ovk.objectives import Constant
from ovk.online import Window
from ovk.operators import Dense, MixedEffect

COUPLED = Gaussian(1.0) * MixedEffect(0.5)
#: Options together that the list of all learners has one at a time.
TOGETHER = {
    "olok, window, intercept and discount": lambda: ovk.OLOK(
        COUPLED, 0.1, Constant(0.2), truncation=Window(25, hold_steps=False), fit_intercept=True, discount=0.95
    ),
    "olok, average of a window": lambda: ovk.OLOK(COUPLED, 0.1, truncation=20, average=True),
    "kawv, clip and two terms": lambda: ovk.KAWV(
        COUPLED + Gaussian(2.0) * Dense([[2.0, 1.0], [1.0, 1.0]]), 0.1, forecaster="ridge", clip=1.5
    ),
    "pkawv, discount and a growing dictionary": lambda: ovk.PKAWV(
        COUPLED, 0.1, Nystrom(KORS(1e-2), budget=15), discount=0.97, random_state=0
    ),
    "pkawv, two terms": lambda: ovk.PKAWV(
        COUPLED + Gaussian(2.0) * Dense([[2.0, 1.0], [1.0, 1.0]]), 0.1, Nystrom(Uniform(size=15)), random_state=0
    ),
    "intervals with seasons of a window": lambda: WithIntervals(
        ovk.PKAWV(COUPLED, 0.1, Fourier(20), window=25, random_state=0), ConformalPID(0.8, season=3)
    ),
}
ALL = {**EVERY, **TOGETHER}


def written(model, path):
    """All of a learner's state, as it stands in a file."""
    ovk.save(model, path)
    return path.read_bytes()


@pytest.mark.parametrize("name", ALL)
def test_learning_leaves_copies_alone(name, tmp_path):
    if name in EVERY:
        model = begun(name)
    else:
        X, Y = rows(name, 40)
        model = ALL[name]().partial_fit(X, Y)
    X, Y = rows(name, 60, 1)
    path, kept = tmp_path / "model.ovk", []
    # Single rows go a way of their own, and a chunk after them another one.
    chunks = [slice(0, 1), slice(1, 2), slice(2, 30), slice(30, 31), slice(31, 60)]
    for chunk in chunks:
        copy = model._snapshot()
        kept.append((copy, written(copy, path), copy.predict(X)))
        model.partial_fit(X[chunk], Y[chunk])
    for copy, state, predictions in kept:
        assert written(copy, path) == state
        assert_array_equal(copy.predict(X), predictions)
    # A copy learns what the learner has learned, from where it was.
    first = kept[0][0]
    for chunk in chunks:
        first.partial_fit(X[chunk], Y[chunk])
    if name in CLASSIFIERS:
        assert_array_equal(first.predict(X), model.predict(X))
    else:
        np.testing.assert_allclose(first.predict(X), model.predict(X), rtol=0, atol=1e-9)
