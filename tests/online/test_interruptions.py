"""An interrupted call does not change the learner, which then continues normally."""

import copy
import importlib

import numpy as np
import pytest

import ovk
from interruptions import Interruption, count_calls, interrupt
from learners import CLASSIFIERS, EVERY, rows
from ovk.features import Nystrom, Uniform
from ovk.kernels import Gaussian, Linear, ScalarKernel
from ovk.online import MLPoly
from ovk.structured import IOKR

#: Interruptions that are tried for a learner, spread over all of its inner calls. `make fuzz` tries every one.
TRIED = 12
FEW = pytest.mark.parametrize("tried", [4, pytest.param(TRIED, marks=pytest.mark.long)])


def spread(total, tried):
    return sorted({round(k) for k in np.linspace(1, total, min(tried, total))})


def interrupted(model, action, tried=TRIED):
    """Copies of a model whose `action` was interrupted, each at a different inner call."""
    counted = copy.deepcopy(model)
    calls = count_calls(lambda: action(counted))
    for number in spread(calls, tried):
        trial = copy.deepcopy(model)
        if not interrupt(lambda trial=trial: action(trial), number):
            # Cached results make the second run slightly shorter than the first.
            assert number > 0.9 * calls
            return
        yield trial


@pytest.mark.parametrize("method", ["partial_fit", "predict_then_learn"])
@pytest.mark.parametrize("name", EVERY)
@FEW
def test_an_interrupted_learner_is_as_it_was(name, method, tried):
    (X, Y), (X1, Y1), (X2, Y2) = rows(name, 40), rows(name, 33, 1), rows(name, 30, 2)
    begun = EVERY[name]()
    begun.partial_fit(X, Y, **({"classes": ["down", "up"]} if name in CLASSIFIERS else {}))
    undisturbed = copy.deepcopy(begun)
    before = undisturbed.predict(X2)
    getattr(undisturbed, method)(X1, Y1)
    middle = undisturbed.predict(X2)
    getattr(undisturbed, method)(X2, Y2)
    after = undisturbed.predict(X1)

    model = copy.deepcopy(begun)
    calls = count_calls(lambda: getattr(model, method)(X1, Y1))
    for number in spread(calls, tried):
        model = copy.deepcopy(begun)
        assert interrupt(lambda model=model: getattr(model, method)(X1, Y1), number)
        np.testing.assert_array_equal(model.predict(X2), before, err_msg=f"interrupted at call {number}")
        getattr(model, method)(X1, Y1)
        np.testing.assert_array_equal(model.predict(X2), middle, err_msg=f"interrupted at call {number}")
        getattr(model, method)(X2, Y2)
        np.testing.assert_array_equal(model.predict(X1), after, err_msg=f"interrupted at call {number}")


@pytest.mark.parametrize("name", EVERY)
@FEW
def test_an_interrupted_first_call_leaves_no_trace(name, tried):
    X, Y = rows(name, 40)
    options = {"classes": ["down", "up"]} if name in CLASSIFIERS else {}
    undisturbed = EVERY[name]()
    calls = count_calls(lambda: undisturbed.partial_fit(X, Y, **options))
    for number in spread(calls, tried):
        model = EVERY[name]()
        assert interrupt(lambda model=model: model.partial_fit(X, Y, **options), number, MemoryError)
        model.partial_fit(X, Y, **options)
        np.testing.assert_array_equal(model.predict(X), undisturbed.predict(X), err_msg=f"failed at call {number}")


@pytest.mark.parametrize("name", [name for name in EVERY if "intervals" not in name])
def test_an_interrupted_fit_leaves_the_fitted_model(name):
    (X, Y), (X1, Y1) = rows(name, 40), rows(name, 33, 1)
    model = EVERY[name]().fit(X, Y)
    before = model.predict(X1)
    for trial in interrupted(model, lambda trial: trial.fit(X1, Y1), 8):
        np.testing.assert_array_equal(trial.predict(X1), before)


@pytest.mark.parametrize("name", [name for name in EVERY if "intervals" in name])
def test_regions_after_an_interruption(name):
    (X, Y), (X1, Y1) = rows(name, 40), rows(name, 33, 1)
    model = EVERY[name]().partial_fit(X, Y)
    before, after = model.predict_regions(X1), copy.deepcopy(model).regions_then_learn(X1, Y1)
    for trial in interrupted(model, lambda trial: trial.regions_then_learn(X1, Y1), 8):
        np.testing.assert_array_equal(trial.predict_regions(X1).upper, before.upper)
        np.testing.assert_array_equal(trial.regions_then_learn(X1, Y1).upper, after.upper)


def test_weights_of_experts_after_an_interruption():
    rng = np.random.default_rng(0)
    F, Y = rng.standard_normal((30, 3, 2)), rng.standard_normal((30, 2))
    model = MLPoly()
    model.predict_then_learn(F[:10], Y[:10])
    before = model.predict(F)
    for trial in interrupted(model, lambda trial: trial.predict_then_learn(F[10:], Y[10:])):
        np.testing.assert_array_equal(trial.predict(F), before)


def test_structured_outputs_of_a_stream_after_an_interruption():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    Y = np.stack([X[:, 0] > 0, X[:, 1] > 0, X.sum(axis=1) > 0], axis=1).astype(float)
    model = IOKR(Gaussian(1.0), Linear(), landmarks=10).partial_fit(X[:30], Y[:30])
    before = model.weights(X)
    undisturbed = copy.deepcopy(model).partial_fit(X[30:], Y[30:]).weights(X)
    for trial in interrupted(model, lambda trial: trial.partial_fit(X[30:], Y[30:])):
        np.testing.assert_array_equal(trial.weights(X), before)
        np.testing.assert_array_equal(trial.partial_fit(X[30:], Y[30:]).weights(X), undisturbed)


@pytest.mark.parametrize("kind", ["RiverRegressor", "RiverClassifier"])
def test_an_interrupted_example_with_a_new_feature(kind):
    pytest.importorskip("river")
    river = importlib.import_module("ovk.online.river")
    classes = kind == "RiverClassifier"
    model = getattr(river, kind)(ovk.OLOKClassifier(Gaussian(1.0)) if classes else ovk.OLOK(Gaussian(1.0)))
    labels = ["one", "two", "three"] if classes else [1.0, -1.0, 0.5]
    model.learn_one({"a": 1.0}, labels[0])
    model.learn_one({"a": -1.0}, labels[1])
    read = (lambda model, x: model.predict_proba_one(x)) if classes else (lambda model, x: model.predict_one(x))
    before, new, both = read(model, {"a": 0.7}), {"a": 0.5, "b": 1.0}, {"a": 0.7, "b": 0.3}
    undisturbed = copy.deepcopy(model)
    undisturbed.learn_one(new, labels[2])
    for trial in interrupted(model, lambda trial: trial.learn_one(new, labels[2]), 2 * TRIED):
        assert read(trial, {"a": 0.7}) == before
        trial.learn_one(new, labels[2])
        assert read(trial, both) == read(undisturbed, both)


class Failing(ScalarKernel):
    """A user-defined kernel that sometimes fails."""

    def __init__(self, length_scale=1.0):
        self.length_scale = length_scale

    left = None

    def __call__(self, X, Z=None):
        if Failing.left is not None:
            Failing.left -= 1
            if Failing.left < 0:
                raise Interruption
        return Gaussian(self.length_scale)(X, Z)

    def diag(self, X):
        return np.ones(len(X))


@pytest.mark.parametrize("make", [ovk.OLOK, ovk.KAWV, ovk.PKAWV])
def test_a_kernel_of_the_user_that_fails(make):
    (X, Y), (X1, Y1) = rows("", 40, gaps=False), rows("", 33, 1, gaps=False)
    options = {"features": Nystrom(Uniform(size=15), budget=15), "random_state": 0} if make is ovk.PKAWV else {}
    model = make(Failing(), alpha=0.1, **options).partial_fit(X, Y)
    undisturbed = copy.deepcopy(model).partial_fit(X1, Y1).predict(X)
    try:
        for calls in range(12):
            Failing.left = calls
            broken = copy.deepcopy(model)
            try:
                broken.partial_fit(X1, Y1)
            except Interruption:
                Failing.left = None
                broken.partial_fit(X1, Y1)
            Failing.left = None
            np.testing.assert_array_equal(broken.predict(X), undisturbed)
    finally:
        Failing.left = None
