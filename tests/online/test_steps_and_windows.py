"""Bounds and windows of first-order learners: initial functions, kinks and long streams."""

import copy
import warnings

import numpy as np
import pytest

import ovk
from ovk import KAWV, OLOK, OVKRidge
from ovk.kernels import Gaussian
from ovk.objectives import EpsilonInsensitive, Huber, InverseSqrt
from ovk.online import PaperWindow, Tolerance, TruncationWarning, Window
from ovk.online.first_order.truncation import AUTO_WINDOW
from ovk.online.theory import error_bound
from ovk.persistence import NotSavableError

RNG = np.random.default_rng(0)


def stationary(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    f = np.sin(X[:, 0]) * np.cos(X[:, 1])
    return X, f, f + 0.2 * rng.standard_normal(n)


# The bound of the paper, from a function that is not zero -------------------------------------------------------------


@pytest.mark.parametrize(("loss", "alpha"), [("epsilon-insensitive", 0.5), ("hinge", 0.5), ("squared", 2.5)])
@pytest.mark.parametrize("size", [0.0, 0.1, 50.0])
def test_the_bound_holds_from_any_start(loss, alpha, size):
    X, f, Y = stationary(400)
    Y = np.sign(f) if loss == "hinge" else np.clip(Y, -1, 1)
    start = OVKRidge(Gaussian(1.0), alpha=0.1, fit_intercept=False).fit(X[:100], size * f[:100])
    model = OLOK(Gaussian(1.0), alpha=alpha, schedule=0.3, loss=loss, init=start)
    model.fit(X, Y)
    bound = error_bound(model, 1.0)
    assert bound.failed == ""
    assert start.expansion_.norm() - 1e-9 <= bound.U
    # The best regularised risk is at most that of zero.
    at_zero = {"epsilon-insensitive": np.maximum(np.abs(Y) - EpsilonInsensitive().epsilon, 0), "hinge": np.ones(400)}
    best = at_zero.get(loss, 0.5 * Y**2).mean()
    assert model.cumulative_risk_ / 400 <= best + bound.excess


def test_the_bound_of_the_window_is_not_for_another_start():
    X, f, _ = stationary(60)
    start = OVKRidge(Gaussian(1.0), alpha=0.1, fit_intercept=False).fit(X, 50 * f)
    model = OLOK(Gaussian(1.0), alpha=0.5, schedule=1.0, loss="hinge", init=start, truncation=PaperWindow(0.3))
    found = error_bound(model.fit(X, np.sign(f)))
    assert found.excess is None
    assert "init" in found.failed


# Certified truncation with kinks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["epsilon-insensitive", "pinball"])
def test_certified_truncation_goes_on_dropping_with_kinks(loss):
    X, _, Y = stationary(6000)
    model = OLOK(Gaussian(1.0), alpha=0.3, loss=loss, truncation=Tolerance(1e-3))
    whole = OLOK(Gaussian(1.0), alpha=0.3, loss=loss)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        model.fit(X, Y)
    whole.fit(X, Y)
    smooth = OLOK(Gaussian(1.0), alpha=0.3, truncation=Tolerance(1e-5)).fit(X, Y)
    assert len(model.support_) <= 1.2 * len(smooth.support_) < len(whole.support_)
    assert model.truncation_error_ <= 1e-3
    assert np.abs(model.predict(X[:200]) - whole.predict(X[:200])).max() <= model.truncation_error_ + 1e-12


def test_a_violated_tolerance_warns_and_memory_stays_bounded(monkeypatch):
    # Truncation that uses the whole tolerance soon meets a kink.
    monkeypatch.setattr("ovk.online.first_order.truncation.KINK_SHARE", 1.0)
    X, _, Y = stationary(8000)
    model = OLOK(Gaussian(1.0), alpha=0.3, loss="epsilon-insensitive", truncation=Tolerance(1e-3))
    with pytest.warns(TruncationWarning, match="above truncation=Tolerance"):
        model.fit(X[:4000], Y[:4000])
    size = len(model.support_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        model.partial_fit(X[4000:], Y[4000:])
    assert model.truncation_error_ > 1e-3
    # The number of relevant points grows like sqrt(t).
    assert len(model.support_) < 1.7 * size


def test_the_budget_does_not_depend_on_chunks():
    X, _, Y = stationary(1500)
    make = lambda: OLOK(Gaussian(1.0), alpha=0.8, loss="epsilon-insensitive", truncation=Tolerance(1e-2))  # noqa: E731
    at_once, in_pieces = make().fit(X, Y), make()
    for start in range(0, len(X), 7):
        in_pieces.partial_fit(X[start : start + 7], Y[start : start + 7])
    assert 0 < len(at_once.support_) < len(X) * 0.9
    assert len(at_once.support_) == len(in_pieces.support_)
    np.testing.assert_allclose(at_once.truncation_error_, in_pieces.truncation_error_, rtol=1e-8)


# A fixed window on a long stream --------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("schedule", [1.0, "auto", "inverse"])
def test_a_window_holds_its_error(schedule):
    X, f, Y = stationary(40_000)
    model = OLOK(Gaussian(1.0), schedule=schedule, truncation=200)
    errors = (model.predict_then_learn(X, Y) - f) ** 2
    early, late = errors[2000:6000].mean(), errors[-4000:].mean()
    assert late <= 1.1 * early
    if schedule != "inverse":
        assert late < 0.5 * f.var()


def test_a_window_whose_steps_go_on_shrinking_forgets():
    X, f, Y = stationary(40_000)
    model = OLOK(Gaussian(1.0), truncation=Window(200, hold_steps=False))
    errors = (model.predict_then_learn(X, Y) - f) ** 2
    assert errors[-4000:].mean() > 1.15 * errors[2000:6000].mean()


def test_held_steps_are_those_of_the_last_step_of_the_window():
    X, _, Y = stationary(300)
    held = OLOK(Gaussian(1.0), alpha=0.1, truncation=50).fit(X, Y)
    by_hand = OLOK(Gaussian(1.0), alpha=0.1, truncation=Window(50, hold_steps=False))
    for t in range(300):
        by_hand.set_params(schedule=InverseSqrt(np.sqrt((t + 1) / min(t + 1, 50))))
        by_hand.partial_fit(X[t : t + 1], Y[t : t + 1])
    np.testing.assert_allclose(held.predict(X), by_hand.predict(X), atol=1e-10)
    assert np.all(held.support_.time > 250)


def test_a_held_window_goes_on_after_saving(tmp_path):
    import ovk

    X, _, Y = stationary(500)
    model = OLOK(Gaussian(1.0), schedule="auto", truncation=60).partial_fit(X[:250], Y[:250])
    ovk.save(model, tmp_path / "m.ovk")
    again = ovk.load(tmp_path / "m.ovk").partial_fit(X[250:], Y[250:])
    expected = copy.deepcopy(model).partial_fit(X[250:], Y[250:])
    np.testing.assert_array_equal(again.predict(X), expected.predict(X))


def test_a_learner_left_to_the_data_is_bounded_and_that_of_the_paper_is_not():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (AUTO_WINDOW + 500, 1))
    y = np.sin(2.0 * X[:, 0])
    assert len(OLOK().fit(X, y).support_) == AUTO_WINDOW
    for model in (OLOK(Gaussian(1.0)), OLOK(truncation=None), OLOK(init=OLOK(Gaussian(1.0)).fit(X[:5], y[:5]))):
        assert len(model.fit(X, y).support_) >= len(X)
    windowed = OLOK(truncation=Window(AUTO_WINDOW)).fit(X, y)
    np.testing.assert_array_equal(OLOK().fit(X, y).predict(X[:50]), windowed.predict(X[:50]))


def test_plain_functions_are_schedules_losses_and_windows(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 2)), rng.standard_normal((60, 2))
    Y[::7, 1] = np.nan

    def huber(Y, F):
        R = F - Y
        small = np.abs(R) <= 1.0
        return np.where(small, R**2 / 2, np.abs(R) - 0.5).sum(axis=1), np.clip(R, -1.0, 1.0)

    objects = {"schedule": InverseSqrt(0.5), "loss": Huber(1.0), "truncation": Window(20, hold_steps=False)}
    functions = {"schedule": lambda t: 0.5 / np.sqrt(t), "loss": huber, "truncation": lambda t: 20}
    models = [OLOK(Gaussian(1.0), 0.1, warm_up=0, **form) for form in (objects, functions)]
    expected, found = (model.predict_then_learn(X, Y) for model in models)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert len(models[1].support_) == 20
    with pytest.raises(NotSavableError, match=r"(schedule|loss|truncation) cannot be saved: it is a function"):
        ovk.save(models[1], tmp_path / "model.ovk")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"schedule": lambda t: -1.0}, "schedule must return finite numbers >= 0, got -1.0 at t = 1"),
        ({"loss": lambda Y, F: F - Y}, "loss must return a pair of losses"),
        ({"loss": lambda Y, F: (F - Y, F - Y)}, r"losses \(\d+,\) and gradients"),
        ({"truncation": lambda t: 0}, "number of points that truncation returns must be"),
        ({"schedule": InverseSqrt}, "a function of the step t, got <class"),
    ],
)
def test_functions_that_return_something_else_are_named(form, message):
    model = OLOK(Gaussian(1.0), warm_up=0, **form)
    with pytest.raises((ValueError, TypeError), match=message):
        model.partial_fit(np.zeros((3, 1)), np.ones((3, 1)))
    assert not hasattr(model, "t_")


@pytest.mark.parametrize("model", [OLOK(Gaussian(1.0), warm_up=0, average=True), KAWV(Gaussian(1.0), warm_up=0)])
def test_dual_coefficients_are_those_of_the_function(model):
    X, _, y = stationary(40)
    model.partial_fit(X, np.column_stack([y, -y]))
    points = model.support_ if isinstance(model, KAWV) else model.support_.X
    expected = model.expansion_(X[:5])
    np.testing.assert_allclose(Gaussian(1.0)(X[:5], points) @ model.dual_coef_, expected, atol=1e-12)
    if isinstance(model, OLOK):
        assert repr(model.support_) == "SupportPoints(40 points, 2 inputs, 2 outputs)"
