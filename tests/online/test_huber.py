"""The influence of outliers is capped, and the learner is exact for the clipped labels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ovk
from ovk import PKAWV, AutoStream
from ovk.features import Given, Nystrom
from ovk.kernels import Gaussian
from ovk.online.second_order.decaying_ridge import LIMIT_FACTOR, first_limit, next_limit
from ovk.operators import MixedEffect


def rows(n=400, gaps=True):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (n, 1))
    Y = np.sin(X) + [[0.0, 0.5]] + 0.1 * rng.standard_normal((n, 2))
    if gaps:
        Y[rng.random(Y.shape) < 0.2] = np.nan
    return X, Y


def learner(points, **params):
    return PKAWV(Gaussian(1.0) * MixedEffect(0.5), 0.1, Nystrom(Given(points)), loss="huber", **params)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("params", [{}, {"discount": 0.98}, {"window": 80}], ids=str)
def test_labels_are_clipped_as_documented(params, gaps, tmp_path):
    X, Y = rows(160, gaps)
    Y[[90, 130], [0, 1]] = 50.0, -1e9
    # One row at a time with the squared loss and labels clipped here.
    plain, limit, early, moved = (
        learner(X[:8], forecaster="ridge", **params).replace(loss="squared"),
        np.full(2, np.inf),
        [],
        Y.copy(),
    )
    expected = np.zeros(Y.shape)
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        z = plain.predict(x[None])[0] if t else np.zeros(2)
        expected[t] = z
        residual = np.nan_to_num(y - z)
        if not np.isnan(y).all():
            if len(early) < 50:
                early.append(residual)
                if len(early) == 50:
                    limit = first_limit(np.array(early[25:]), LIMIT_FACTOR)
            else:
                moved[t] = np.where(np.isnan(y), np.nan, z + np.clip(residual, -limit, limit))
                limit = next_limit(limit, residual, LIMIT_FACTOR)
        plain.partial_fit(x[None], moved[t][None])
    assert abs(moved[90, 0]) < 5 or np.isnan(Y[90, 0])
    whole, parts = (learner(X[:8], forecaster="ridge", **params) for _ in range(2))
    assert_allclose(whole.predict_then_learn(X, Y), expected, atol=1e-8)
    found = []
    for start in range(0, 160, 23):
        ovk.save(parts, tmp_path / "model.ovk")
        parts = ovk.load(tmp_path / "model.ovk")
        found.append(parts.predict_then_learn(X[start : start + 23], Y[start : start + 23]))
    assert_allclose(np.concatenate(found), expected, atol=1e-8)


@pytest.mark.long
@pytest.mark.parametrize("outliers", [1e9, 1e30, 1e300])
@pytest.mark.parametrize("make", [lambda: PKAWV(loss="huber"), AutoStream], ids=["pkawv", "auto"])
def test_one_outlier_is_forgotten_after_a_hundred_rows(make, outliers):
    X, Y = rows(700, gaps=False)
    y = Y[:, 0]
    spoiled = y.copy()
    spoiled[300] = outliers
    errors = [np.mean((make().predict_then_learn(X, labels)[400:] - y[400:]) ** 2) for labels in (y, spoiled)]
    assert errors[1] <= 1.05 * errors[0]


def test_without_outliers_nothing_changes():
    X, Y = rows(300, gaps=False)
    one = PKAWV(Gaussian(1.0), 0.1).predict_then_learn(X, Y)
    assert_array_equal(PKAWV(Gaussian(1.0), 0.1, loss="huber").predict_then_learn(X, Y), one)


def test_refusals():
    X, Y = rows(60)
    with pytest.raises(ValueError, match="loss must be 'squared' or 'huber', got 'cauchy'"):
        PKAWV(loss="cauchy").fit(X, Y)
    model = learner(X[:5]).fit(X, Y)
    with pytest.raises(ValueError, match="loss='huber' cannot be merged"):
        model.merge(model)
