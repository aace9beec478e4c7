"""Invalid rows are rejected or skipped, unusual rows are learned, and the model stays finite."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from online.streams import KERNELS, LOSSES, stream
from ovk import OLOK, Expansion, OVKRidge
from ovk.kernels import Gaussian
from ovk.objectives import (
    Constant,
    DistanceOverGradients,
    EpsilonInsensitive,
    Huber,
    InverseSqrt,
    Novelty,
    Pinball,
    Schedule,
)
from ovk.online import PaperWindow, Tolerance, Window
from ovk.operators import Identity, MixedEffect


def state(model):
    return pickle.dumps({name: value for name, value in vars(model).items() if name != "_memo"})


def with_bad(X, Y, rows=(3, 140), value=np.nan, where="X"):
    X, Y = X.copy(), Y.copy()
    for row in rows:
        (X if where == "X" else Y)[row, 1] = value
    return X, Y


BAD = {
    "nan in X": ("X", np.nan, "X must contain finite numbers, but row 3 contains NaN or infinity"),
    "inf in X": ("X", -np.inf, "X must contain finite numbers, but row 3 contains NaN or infinity"),
    "inf in y": ("Y", np.inf, "y must contain finite numbers, but row 3 contains infinity"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_refused_with_their_number(case):
    where, value, message = BAD[case]
    X, Y = stream(160)
    model = OLOK(KERNELS["separable"], 0.1, 0.5)
    empty = state(model)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(*with_bad(X, Y, value=value, where=where))
    assert state(model) == empty
    model.partial_fit(X, Y)
    before = state(model)
    for method in (model.partial_fit, model.predict_then_learn, model.fit):
        with pytest.raises(ValueError, match=message):
            method(*with_bad(X, Y, value=value, where=where))
        assert state(model) == before


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_skipped_and_counted(case):
    where, value, _ = BAD[case]
    X, Y = stream(160)
    good = np.setdiff1d(np.arange(160), [3, 140])
    skipping = OLOK(KERNELS["separable"], 0.1, 0.5, on_invalid="skip", truncation=Tolerance(1e-3))
    clean = OLOK(KERNELS["separable"], 0.1, 0.5, truncation=Tolerance(1e-3))
    Z = skipping.predict_then_learn(*with_bad(X, Y, value=value, where=where))
    assert skipping.n_skipped_ == 2
    assert np.isnan(Z[[3, 140]]).all()
    assert_array_equal(Z[good], clean.predict_then_learn(X[good], Y[good]))
    assert_array_equal(skipping.predict(X), clean.predict(X))


def test_a_stream_may_begin_with_bad_rows():
    X, Y = stream(20)
    model = OLOK(KERNELS["separable"], 0.1, 0.5, on_invalid="skip")
    Z = model.predict_then_learn(np.full((2, 3), np.nan), Y[:2])
    assert Z.shape == (2, 3)
    assert np.isnan(Z).all()
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.partial_fit(X, Y)
    assert model.n_skipped_ == 2
    assert_array_equal(model.predict(X), OLOK(KERNELS["separable"], 0.1, 0.5).fit(X, Y).predict(X))
    assert model.fit(X, Y).n_skipped_ == 0
    with pytest.raises(ValueError, match="nothing to learn from"):
        OLOK(on_invalid="skip").fit(np.full((2, 3), np.nan), Y[:2])


REFUSED = {
    "alpha": ({"alpha": -1.0}, "alpha must be non-negative and finite, got -1.0"),
    "alpha nan": ({"alpha": np.nan}, "alpha must be"),
    "discount": ({"discount": 0.0}, r"discount must be in \(0, 1\], got 0.0"),
    "discount above": ({"discount": 1.1}, "discount must be a number in"),
    "schedule": ({"schedule": "fast"}, "schedule must be a number, one of .*'auto'.* got 'fast'"),
    "eta": ({"schedule": -1.0}, "eta must be positive and finite, got -1.0"),
    "first": ({"schedule": DistanceOverGradients(0.0)}, "first must be positive and finite"),
    "start": ({"schedule": InverseSqrt(1.0, start=0)}, "start must be an integer >= 1, got 0"),
    "too large": ({"schedule": 3.0, "alpha": 0.5}, r"at t = 1 it is 3 \* 0.5 = 1.5: lower alpha"),
    "loss": ({"loss": "absolute"}, "loss must be one of .* got 'absolute'"),
    "delta": ({"loss": Huber(0.0)}, "delta must be positive and finite"),
    "epsilon": ({"loss": EpsilonInsensitive(-0.1)}, "epsilon must be non-negative and finite"),
    "nu": ({"loss": Novelty(1.5)}, "nu must be a number in"),
    "quantiles": ({"loss": Pinball([0.5, 0.5])}, "one for each of the 3 outputs"),
    "quantile": ({"loss": Pinball(1.0)}, r"quantiles must be a number in \(0, 1\)"),
    "labels": ({"loss": "hinge"}, "labels of Hinge must be -1 or 1, got .* in row 0, output 0"),
    "codes": ({"loss": LOSSES["simplex"]}, "rows of simplex_code"),
    "truncation": ({"truncation": "some"}, "truncation must be .auto., None, a number of points, a truncation of"),
    "window": ({"truncation": Window(0)}, "s must be an integer >= 1, got 0"),
    "number": ({"truncation": 0}, "truncation must be an integer >= 1"),
    "tolerance": ({"truncation": Tolerance(0.0)}, "tol must be positive and finite"),
    "paper": ({"truncation": PaperWindow(0.5)}, "epsilon must be a number in"),
    "max_support": ({"max_support": 0}, "max_support must be an integer >= 1"),
    "on_invalid": ({"on_invalid": "warn"}, "on_invalid must be 'raise' or 'skip', got 'warn'"),
    "kernel": ({"kernel": 3.0}, "kernel"),
    "operator": ({"kernel": Gaussian(1.0) * Identity(2)}, "2"),
    "init": ({"init": Expansion(Gaussian(1.0) * Identity(2), np.eye(2), np.eye(2))}, "maps 2 features to 2 outputs"),
    "init type": ({"init": 3.0}, "init must be an Expansion or a fitted estimator"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_leave_a_new_model_new(case):
    params, message = REFUSED[case]
    X, Y = stream(200)
    model = OLOK(**params)
    before = state(model)
    for method in (model.partial_fit, model.fit):
        with pytest.raises((ValueError, TypeError), match=message):
            method(X, Y)
        assert state(model) == before


AT_THE_START = {"kernel", "operator", "init", "init type", "nu", "too large"}


@pytest.mark.parametrize("case", [case for case in REFUSED if case not in AT_THE_START])
def test_refusals_leave_a_running_model_as_it_was(case):
    params, message = REFUSED[case]
    X, Y = stream(200)
    model = OLOK(Gaussian(1.0), 0.1, 0.5).partial_fit(X[:50], Y[:50])
    predictions = model.predict(X)
    kept = {name: getattr(model, name) for name in params}
    model.set_params(**params)
    before = state(model)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X[50:], Y[50:])
    assert state(model) == before
    model.set_params(**kept)
    assert_array_equal(model.predict(X), predictions)


def test_shapes_are_refused():
    X, Y = stream(30)
    model = OLOK(Gaussian(1.0)).partial_fit(X, Y)
    before = state(model)
    for bad, message in [
        ((X[:, :2], Y), "2 features"),
        ((X, Y[:, :2]), "y has 2 outputs but the model has learned 3"),
        ((X, Y[:20]), "inconsistent numbers of samples"),
        ((X, None), "requires y"),
        ((X, np.zeros((30, 3, 2))), "dim"),
    ]:
        for on_invalid in ("raise", "skip"):
            with pytest.raises(ValueError, match=message):
                model.set_params(on_invalid=on_invalid).partial_fit(*bad)
    assert state(model.set_params(on_invalid="raise")) == before


class Rising(Schedule):
    """An unreasonable schedule, eta_t = t / 10."""

    def rate(self, t):
        return t / 10


def test_a_schedule_that_rises_is_stopped_where_it_becomes_too_large():
    X, Y = stream(30)
    model = OLOK(Gaussian(1.0), 0.5, Rising()).partial_fit(X[:10], Y[:10])
    before = state(model)
    with pytest.raises(ValueError, match=r"at t = 20 it is 2 \* 0.5 = 1"):
        model.partial_fit(X[10:], Y[10:])
    assert state(model) == before


STRANGE = {
    "huge outputs": lambda X, Y: (X, np.where(np.arange(len(Y))[:, None] % 50 == 7, 1e300, Y)),
    "tiny outputs": lambda X, Y: (X, 1e-300 * Y),
    "constant inputs": lambda X, Y: (np.ones_like(X), Y),
    "duplicated rows": lambda X, Y: (np.repeat(X[:5], len(X) // 5, axis=0), np.repeat(Y[:5], len(X) // 5, axis=0)),
    "zeros": lambda X, Y: (0 * X, 0 * Y),
    "huge inputs": lambda X, Y: (1e150 * X, Y),
    "an output never seen": lambda X, Y: (X, np.where(np.arange(3) == 1, np.nan, Y)),
    "nothing seen": lambda X, Y: (X, np.full_like(Y, np.nan)),
    "one row": lambda X, Y: (X[:1], Y[:1]),
}


@pytest.mark.pairwise
@pytest.mark.parametrize(
    "params", [{}, {"truncation": 30}, {"truncation": Tolerance(1e-6)}, {"average": True}], ids=str
)
@pytest.mark.parametrize("schedule", [0.5, "auto"], ids=str)
@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon-insensitive", EpsilonInsensitive(joint=True)], ids=str)
@pytest.mark.parametrize("case", STRANGE)
def test_unusual_streams(case, loss, schedule, params):
    X, Y = STRANGE[case](*stream(200))
    model = OLOK(Gaussian(1.0) * MixedEffect(0.5), 0.1, schedule, loss, **params)
    Z = model.predict_then_learn(X, Y)
    assert np.isfinite(Z).all()
    assert np.isfinite(model.predict(X[:10])).all()
    for name in ("norm_", "cumulative_loss_", "cumulative_risk_", "truncation_error_"):
        assert not np.isnan(getattr(model, name)), name
    # Rows of zeros have no effect.
    before = state(model)
    assert model.predict_then_learn(X[:0], Y[:0]).shape == (0, 3)
    assert state(model) == before


def test_default_learner_begins_with_one_row():
    model = OLOK().partial_fit([[1.0, 2.0]], [3.0])
    assert np.isfinite(model.predict([[1.0, 2.0], [5.0, 5.0]])).all()


def test_outliers_do_not_move_a_robust_learner():
    X, Y = stream(300)
    outliers = Y.copy()
    outliers[::30] = 1e300
    calm = OLOK(KERNELS["separable"], 0.01, 0.5, "huber").fit(X, Y)
    robust = OLOK(KERNELS["separable"], 0.01, 0.5, "huber").fit(X, outliers)
    assert np.abs(robust.predict(X) - calm.predict(X)).max() < 1.5


# Start ---------------------------------------------------------------------------------------------------------------


def test_start_from_a_batch_solution():
    X, Y = stream(80)
    K = Gaussian(1.0) * MixedEffect(0.5, 3)
    batch = OVKRidge(K, alpha=0.1, fit_intercept=False).fit(X[:40], Y[:40])
    for init in (batch, batch.expansion_, OLOK(K, 0.1, 0.5).fit(X[:40], Y[:40])):
        f = init if isinstance(init, Expansion) else init.expansion_
        for average in (False, True):
            model = OLOK(K, 0.1, Constant(1e-3), init=init, average=average)
            Z = model.predict_then_learn(X[40:], Y[40:])
            assert_allclose(Z[0], f(X[40:41])[0], rtol=0, atol=1e-12)
            assert_allclose(Z, f(X[40:]), rtol=0, atol=0.2)
            assert model.t_ == 40
        # The initial function predicts a row without outputs.
        model = OLOK(K, 0.1, 0.5, init=init, average=True).partial_fit(X[:1], np.full((1, 3), np.nan))
        assert_allclose(model.predict(X), f(X), rtol=0, atol=1e-12)
        assert_allclose(model.norm_, f.norm(), rtol=1e-9)


def test_start_in_one_go_or_two():
    X, Y = stream(80)
    K = KERNELS["sum"]
    through = OLOK(K, 0.1, Constant(0.2)).fit(X, Y)
    half = OLOK(K, 0.1, Constant(0.2)).fit(X[:40], Y[:40])
    rest = OLOK(K, 0.1, Constant(0.2), init=half).fit(X[40:], Y[40:])
    assert_allclose(rest.predict(X), through.predict(X), rtol=0, atol=1e-10)
    assert_allclose(rest.norm_, through.norm_, rtol=1e-9)


def test_start_without_intercept_only():
    X, Y = stream(40)
    batch = OVKRidge(Gaussian(1.0), fit_intercept=True).fit(X, Y)
    with pytest.raises(ValueError, match="init has an intercept: fit it with fit_intercept=False"):
        OLOK(Gaussian(1.0), init=batch).partial_fit(X, Y)
