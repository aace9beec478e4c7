"""Learners raise `DivergenceError` before their state changes, and do not diverge by default."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone

from ovk import KAWV, OLOK, PKAWV, DivergenceError, NoveltyDetector, OLOKClassifier, OnlineMovKL
from ovk.evaluation import progressive
from ovk.features import Nystrom, Uniform
from ovk.kernels import Gaussian, Linear, Matern, Polynomial
from ovk.objectives import Constant, InverseSqrt
from ovk.online import Tolerance

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4))
Y = X[:, :2] @ RNG.standard_normal((2, 2)) + 0.1 * RNG.standard_normal((300, 2))
LABELS = np.where(X[:, 0] > 0, "a", "b")

FIRST_ORDER = {
    "plain": {},
    "intercept": {"fit_intercept": True},
    "average": {"average": True},
    "window": {"truncation": 50},
    "tolerance": {"truncation": Tolerance(1e-6)},
    "no penalty": {"alpha": 0.0},
    "huber": {"loss": "huber"},
}


@pytest.mark.parametrize("case", FIRST_ORDER)
@pytest.mark.parametrize("schedule", [None, "auto"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 10.0, 1e6])
def test_default_and_auto_follow_the_scale_of_the_kernel(case: str, schedule: Any, size: float) -> None:
    found = OLOK(Linear(), schedule=schedule, **FIRST_ORDER[case]).predict_then_learn(size * X, Y)
    assert np.abs(found).max() < 10 * np.abs(Y).max()


def test_one_input_far_out_does_not_stop_the_default_schedule() -> None:
    """Each step is divided by the kernel value of its row, not by the largest so far."""
    outliers = X.copy()
    outliers[20] *= 1e6
    found = OLOK(Linear()).predict_then_learn(outliers, Y)
    assert np.mean((found[-100:] - Y[-100:]) ** 2) < 0.2 * Y.var()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(-6, 6), st.floats(-6, 6), st.sampled_from(["plain", "intercept", "no penalty"]))
def test_the_norm_stays_within_the_reach_of_scaled_steps(seed: int, inputs: float, outputs: float, case: str) -> None:
    """|f_t|^2 <= 2 sum eta_t l_t(0), the bound used for `DivergenceError`; twice as large with an intercept."""
    rng = np.random.default_rng(seed)
    A, B = 10.0**inputs * rng.standard_normal((40, 3)), 10.0**outputs * rng.standard_normal((40, 2))
    model = OLOK(Linear(), schedule=InverseSqrt(0.5, scaled=True), **FIRST_ORDER[case]).fit(A, B)
    norms = np.maximum(np.einsum("ij,ij->i", A, A), 1.0)
    reach = np.sum(0.5 / np.sqrt(np.arange(1, 41)) / norms * np.einsum("ij,ij->i", B, B))
    assert model.progress_.reach == pytest.approx(reach)
    assert model.progress_.norm2 <= reach * (1 + 1e-9)


@pytest.mark.parametrize("case", ["plain", "intercept", "average", "window", "no penalty"])
@pytest.mark.parametrize("size", [3.0, 10.0, 1e3])
def test_an_explicit_schedule_too_large_for_the_kernel_raises_and_changes_nothing(case: str, size: float) -> None:
    model = OLOK(Linear(), schedule=1.0, **FIRST_ORDER[case])
    model.partial_fit(X[:100], Y[:100])
    before = model.predict(X)
    with pytest.raises(
        DivergenceError, match=r"OLOK diverged at step 1\d\d: .* lower the schedule .* 'auto'"
    ) as caught:
        model.partial_fit(30 * size * X, Y)
    assert "The model is unchanged" in str(caught.value)
    assert model.t_ == 100
    assert_array_equal(model.predict(X), before)
    assert np.isfinite(model.partial_fit(X[100:], Y[100:]).predict(X)).all()


def test_the_step_it_names_does_not_depend_on_chunks() -> None:

    def in_chunks(size: int) -> None:
        model = OLOK(Linear(), schedule=Constant(0.5))
        for start in range(0, 300, size):
            model.partial_fit(10 * X[start : start + size], Y[start : start + size])

    named = set()
    for size in (1, 7, 300):
        with pytest.raises(DivergenceError) as caught:
            in_chunks(size)
        named.add(str(caught.value).split(":")[0])
    assert len(named) == 1


def test_every_first_order_learner_raises_or_stays_finite() -> None:
    with pytest.raises(DivergenceError):
        OLOKClassifier(Linear(), schedule=1.0, loss="squared").fit(100 * X, LABELS)
    with pytest.raises(DivergenceError):
        OnlineMovKL([Linear(), Gaussian()], learner=OLOK(schedule=1.0)).fit(100 * X, Y)
    for model in (OLOKClassifier(Linear()), OLOKClassifier(Linear(), fit_intercept=True), NoveltyDetector(Linear())):
        assert np.isfinite(model.fit(100 * X, LABELS).decision_function(100 * X)).all()
    with pytest.raises(DivergenceError):
        progressive(OLOK(Linear(), schedule=1.0), 10 * X, Y)


LEARNERS = {
    "OLOK": OLOK(Gaussian(1.0)),
    "OLOK, units": OLOK(),
    "OLOK, linear": OLOK(Linear()),
    "OLOK, auto": OLOK(Linear(), schedule="auto"),
    "OLOK, intercept": OLOK(Gaussian(1.0), fit_intercept=True),
    "OLOK, rough": OLOK(Matern(0.5, 1.0)),
    "OLOK, polynomial": OLOK(Polynomial(3)),
    "KAWV": KAWV(Gaussian(1.0)),
    "KAWV, linear": KAWV(Linear()),
    "PKAWV": PKAWV(),
    "PKAWV, linear": PKAWV(Linear()),
    "PKAWV, Nystrom": PKAWV(Gaussian(1.0), features=Nystrom(Uniform(size=20))),
    "OnlineMovKL": OnlineMovKL([Linear(), Gaussian()]),
}


def finite_or_refused(model: Any, X: Any, Y: Any) -> bool:
    """Predictions are finite, or an error with advice is raised and the model does not change."""
    model = clone(model)
    try:
        return bool(np.isfinite(model.fit(X, Y).predict(X)).all())
    except DivergenceError as error:
        advice = re.search("[Ss]cale X|scale both to about 1|divide y by", str(error))
        unchanged = re.search("The model is unchanged", str(error))
        return advice is not None and unchanged is not None and not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("inputs", [1e-160, 1e-300, 1e155, 1e300])
def test_inputs_of_any_size_give_finite_predictions_or_a_named_error(name: str, inputs: float) -> None:
    assert finite_or_refused(LEARNERS[name], inputs * X[:60], Y[:60])


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("value", [1e155, 1e300, 1.7e308])
def test_several_outliers_in_one_chunk(name: str, value: float) -> None:
    outliers = Y[:60].copy()
    outliers[[10, 11, 12, 30], 0] = [value, -value, value, value]
    assert finite_or_refused(LEARNERS[name], X[:60], outliers)


def test_gaussian_kernel_of_points_whose_squares_overflow() -> None:
    far = np.array([[1e200, 0.0], [1e200, 0.0], [-1e200, 3.0], [0.0, 1.0], [0.0, 1.0]])
    same = (far[:, None] == far[None]).all(axis=2).astype(float)
    for kernel in (Gaussian(1.0), Matern(0.5, 1.0), Matern(2.5, 1.0)):
        assert_array_equal(kernel(far), same)
        assert_array_equal(kernel(far, far.copy()), same)
        assert_array_equal(kernel.product(far, far.copy(), np.eye(5)), same)
