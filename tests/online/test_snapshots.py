"""A snapshot does not change, bit for bit, when the learner learns more rows."""

from inspect import signature

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import ovk
from learners import CLASSIFIERS, EVERY, begun, rows
from ovk.evaluation import ConformalPID, WithIntervals
from ovk.features import KORS, Fourier, Nystrom, Uniform
from ovk.kernels import Gaussian, Linear
from ovk.objectives import Constant
from ovk.online import Window
from ovk.online.experts.expert_set import ExpertSet
from ovk.online.experts.mixture import ExpertMixture
from ovk.operators import Dense, Identity, MixedEffect

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
    "pkawv, loss of huber": lambda: ovk.PKAWV(COUPLED, 0.1, Fourier(20), loss="huber", random_state=0),
    "pkawv, loss of huber and a window": lambda: ovk.PKAWV(
        COUPLED, 0.1, Nystrom(Uniform(size=15)), loss="huber", window=30, random_state=0
    ),
    "movkl, against combinations": lambda: ovk.OnlineMovKL(
        [Gaussian(1.0) * Identity(), Linear() * Identity()], against="combinations"
    ),
    "intervals with seasons of a window": lambda: WithIntervals(
        ovk.PKAWV(COUPLED, 0.1, Fourier(20), window=25, random_state=0), ConformalPID(0.8, season=3)
    ),
}
ALL = {**EVERY, **TOGETHER}


def written(model, path):
    """The state of a learner, as in a file."""
    ovk.save(model, path)
    return path.read_bytes()


#: These reject weights of rows.
UNWEIGHTED = {"pkawv-exact-past", "operator", "movkl", "movkl-sums", "movkl, against combinations"}


def learn(name, model, X, Y, chunk):
    """Learn a chunk, with weights if it starts at an odd row."""
    if chunk.start % 2 and name not in UNWEIGHTED and "sample_weight" in signature(model.partial_fit).parameters:
        model.partial_fit(X[chunk], Y[chunk], sample_weight=np.linspace(0.5, 2.0, len(X))[chunk])
    else:
        model.partial_fit(X[chunk], Y[chunk])


@pytest.mark.parametrize("name", ALL)
def test_learning_does_not_change_snapshots(name, tmp_path):
    if name in EVERY:
        model = begun(name)
    else:
        X, Y = rows(name, 40)
        model = ALL[name]().partial_fit(X, Y)
    X, Y = rows(name, 60, 1)
    path, kept = tmp_path / "model.ovk", []
    # Single rows take the fast path, and the chunk after them the general one.
    chunks = [slice(0, 1), slice(1, 2), slice(2, 30), slice(30, 31), slice(31, 60)]
    for chunk in chunks:
        copy = model._snapshot()
        kept.append((copy, written(copy, path), copy.predict(X)))
        learn(name, model, X, Y, chunk)
    for copy, state, predictions in kept:
        assert written(copy, path) == state
        assert_array_equal(copy.predict(X), predictions)
    # The snapshot then learns the same rows.
    first = kept[0][0]
    for chunk in chunks:
        learn(name, first, X, Y, chunk)
    if name in CLASSIFIERS:
        assert_array_equal(first.predict(X), model.predict(X))
    else:
        np.testing.assert_allclose(first.predict(X), model.predict(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_learning_does_not_change_its_arguments(name):
    """Also outliers and missing labels."""
    model, (X, Y) = ALL[name](), rows(name, 130, gaps="movkl" not in name)
    if name not in CLASSIFIERS:
        Y[120:125, 0], Y[126] = 100.0, -100.0
    given = X.copy(), Y.copy()
    model.partial_fit(X[:110], Y[:110], **({"classes": ["down", "up"]} if name in CLASSIFIERS else {}))
    model.predict_then_learn(X[110:111], Y[110:111])
    model.predict_then_learn(X[111:], Y[111:])
    assert_array_equal(X, given[0])
    assert_array_equal(Y, given[1])


@pytest.mark.parametrize("name", ALL)
def test_predictions_can_be_changed_without_changing_the_learner(name, tmp_path):
    X, Y = rows(name, 60, gaps="movkl" not in name)
    other = "other" if name in CLASSIFIERS else np.nan
    found = []
    for change in (False, True):
        model = ALL[name]()
        if "random_state" in model.get_params():
            model.set_params(random_state=0)
        model.partial_fit(X[:40], Y[:40], **({"classes": ["down", "up"]} if name in CLASSIFIERS else {}))
        for start, stop in ((40, 41), (41, 42), (42, 50)):
            for Z in (model.predict(X[start:stop]), model.predict_then_learn(X[start:stop], Y[start:stop])):
                if change:
                    Z[...] = other
        found.append(written(model, tmp_path / "model.ovk"))
    assert found[0] == found[1]


@pytest.mark.parametrize("classes", [False, True], ids=["numbers", "classes"])
def test_a_refit_does_not_change_snapshots(classes, tmp_path, monkeypatch):
    """Refits happen after few rows here; snapshots are taken before each of them."""
    monkeypatch.setattr(ExpertMixture, "_refit_rows", (15, 40, 110))
    monkeypatch.setattr(ExpertSet, "_rows_compared", 60)
    monkeypatch.setattr(ExpertSet, "_widths", (0.5, 1.0))
    name = "auto-classifier" if classes else "auto"
    X, Y = rows(name, 140, 2)
    model, path, kept = EVERY[name](), tmp_path / "model.ovk", []
    for start in range(0, 140, 28):
        if start:
            copy = model._snapshot()
            kept.append((copy, written(copy, path)))
        chunk = slice(start, start + 28)
        model.partial_fit(X[chunk], Y[chunk], **({"classes": ["down", "up"]} if classes and not start else {}))
    for copy, state in kept:
        assert written(copy, path) == state
