"""Step sizes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ovk import OLOK
from ovk.kernels import Gaussian, Matern
from ovk.objectives import (
    Constant,
    DistanceOverGradients,
    EpsilonInsensitive,
    Inverse,
    InverseSqrt,
    Pinball,
    as_schedule,
)
from ovk.operators import Identity

T = np.array([1, 4, 100])


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (InverseSqrt(0.6), [0.6, 0.3, 0.06]),
        (InverseSqrt(0.6, start=4), [0.3, 0.6 / 7**0.5, 0.6 / 103**0.5]),
        (Inverse(2.0), [2.0, 0.5, 0.02]),
        (Inverse(2.0, start=5), [0.4, 0.25, 2 / 104]),
        (Constant(0.3), [0.3, 0.3, 0.3]),
    ],
    ids=str,
)
def test_rates(schedule, rates):
    assert_allclose(schedule.rate(T), rates)
    assert as_schedule(schedule) is schedule


def test_names_and_numbers():
    assert isinstance(as_schedule("inverse-sqrt"), InverseSqrt)
    assert isinstance(as_schedule("inverse"), Inverse)
    assert isinstance(as_schedule("constant"), Constant)
    assert isinstance(as_schedule("auto"), DistanceOverGradients)
    for number in (2, 2.0, np.float64(2), np.float32(2), np.int64(2)):
        schedule = as_schedule(number)
        assert isinstance(schedule, InverseSqrt)
        assert_allclose(schedule.rate(T), 2 / T**0.5)
    for wrong in ("fast", True, Constant, [0.1]):
        with pytest.raises(ValueError, match=r"schedule must be a number, one of .*'auto'"):
            as_schedule(wrong)


def test_the_default_is_in_the_scale_of_the_kernel():
    schedule = as_schedule(None)
    assert isinstance(schedule, InverseSqrt)
    assert schedule.scaled
    assert not as_schedule(1.0).scaled
    assert_allclose(schedule.rate(T), 1 / T**0.5)


def test_bad_parameters():
    for make in (InverseSqrt, Inverse, Constant):
        for eta in (0.0, -1.0, np.nan, np.inf, "1"):
            with pytest.raises(ValueError, match="eta must be positive and finite"):
                make(eta).rate(T)
    for make in (InverseSqrt, Inverse):
        with pytest.raises(ValueError, match="start must be an integer >= 1, got 0"):
            make(1.0, start=0).rate(T)
    with pytest.raises(ValueError, match="first must be positive and finite"):
        DistanceOverGradients(0.0).step(1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="no rate independent of the data"):
        DistanceOverGradients().rate(T)


def test_distance_over_gradients():
    schedule = DistanceOverGradients(0.1)
    assert schedule.step(0.0, 0.0, 0.0) == 0
    assert_allclose(schedule.step(0.0, 4.0, 3.0), 0.15)
    assert_allclose(schedule.step(10.0, 4.0, 3.0), 5.0)


def progressive_error(kernel, scale, loss="squared", n=1500, noise=0.0):
    """Mean squared error of the last rows, over the variance."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (n, 1))
    Y = np.column_stack([np.sin(X[:, 0]), np.cos(2 * X[:, 0])])
    Y = scale * (Y + noise * rng.standard_normal(Y.shape))
    Z = OLOK(kernel * Identity(), alpha=0.0, schedule="auto", loss=loss).predict_then_learn(X, Y)
    return np.mean((Z - Y)[-300:] ** 2) / Y.var()


@pytest.mark.pairwise
@pytest.mark.parametrize("units", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Gaussian(0.2), Matern(1.5, 1.0)], ids=str)
def test_auto_needs_no_tuning(kernel, scale, units):
    assert progressive_error(units * kernel, scale) < 0.01


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("loss", ["epsilon-insensitive", "pinball", "huber"])
def test_auto_with_other_losses(loss, scale):
    # Losses with a width require one that suits the outputs.
    loss = {"epsilon-insensitive": EpsilonInsensitive(0.01 * scale), "pinball": Pinball(0.5)}.get(loss, loss)
    if loss == "huber" and scale != 1:
        return
    assert progressive_error(Gaussian(0.5), scale, loss) < 0.03


def test_auto_learns_under_noise():
    assert progressive_error(Gaussian(1.0), 1.0, noise=0.5) < 0.42  # 1/3 of the variance is noise


def test_auto_is_free_of_units():
    a, b = progressive_error(Gaussian(1.0), 1e-3), progressive_error(1e4 * Gaussian(1.0), 1e3)
    assert_allclose(a, b, rtol=1e-6)
