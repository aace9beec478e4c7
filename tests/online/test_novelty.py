"""Novelty detection: f falls below the threshold where inputs are new."""

import numpy as np
import pytest

from ovk import OLOK
from ovk.kernels import Gaussian
from ovk.objectives import Novelty


def run(nu, schedule, n=6000):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    model = OLOK(Gaussian(1.0), 0.1, schedule, Novelty(nu), truncation=500)
    new = []
    for start in range(0, n, 500):
        rows = X[start : start + 500]
        new.append(np.mean(model.predict(rows) < model.threshold_) if start else np.nan)
        model.partial_fit(rows)
    return model, np.array(new)


@pytest.mark.long
@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5])
def test_a_fraction_nu_is_new(nu):
    """The threshold moves so that a share nu of the rows, each scored before it is learned, is below it."""
    rows = np.random.default_rng(0).standard_normal((1200, 1, 2))
    model = OLOK(Gaussian(1.0), 0.1, 1.0, Novelty(nu), truncation=500).fit(rows[0])
    new = []
    for row in rows[1:]:
        new.append(float(model.predict(row)[0]) < model.threshold_)
        model.partial_fit(row)
    assert abs(np.mean(new[500:]) - nu) < 0.02


def test_outliers_score_lower():
    model, _ = run(0.1, 1.0)
    inside, outside = np.random.default_rng(1).standard_normal((300, 2)), np.full((20, 2), 4.0)
    assert model.predict(outside).max() < np.quantile(model.predict(inside), 0.1)
    assert (model.predict(outside) < model.threshold_).all()


def test_without_targets():
    X = np.random.default_rng(0).standard_normal((50, 2))
    model = OLOK(Gaussian(1.0), 0.1, 0.5, "novelty").fit(X)
    assert model.predict(X).shape == (50,)
    assert model.predict_then_learn(X).shape == (50,)
    with pytest.raises(ValueError, match="requires y"):
        OLOK().fit(X)


def test_adaptive_steps_start():
    model, new = run(0.2, "auto", n=3000)
    assert model.threshold_ > 0
    assert 0.02 < new[2:].mean() < 0.5
