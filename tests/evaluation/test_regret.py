"""Regret against its definition."""

import numpy as np
import pytest

from ovk import OLOK, OVKRidge, OVKRidgeCV
from ovk.evaluation import progressive, regret
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(120, 1))
    Y = np.column_stack([np.sin(6 * X[:, 0]), np.cos(6 * X[:, 0])]) + 0.1 * rng.normal(size=(120, 2))
    Y[rng.uniform(size=Y.shape) < 0.2] = np.nan
    return X, Y


KERNEL = Gaussian(0.2) * MixedEffect(0.3)


def test_definition_with_missing_outputs_and_a_warm_up(rows):
    X, Y = rows
    result = progressive(OLOK(KERNEL), X, Y, untested=15, keep="all")
    found = regret(result, OVKRidge(KERNEL, alpha=0.5))
    tested = np.where(np.arange(120)[:, None] >= 15, Y, np.nan)
    best = OVKRidge(KERNEL, alpha=0.5).fit(X[15:], tested[15:])
    G = best.predict(X)
    for k, t in enumerate(found.rows):
        loss = np.nansum((tested[:t] - result.predictions[:t]) ** 2)
        least = np.nansum((tested[:t] - G[:t]) ** 2)
        assert found.loss[k] == pytest.approx(loss)
        assert found.curve[k] == pytest.approx(loss - least)
        assert found.regularised_curve[k] == pytest.approx(loss - least - 0.5 * best.expansion_.norm() ** 2)
    assert found.rows[-1] == 120
    assert found.final == found.curve[-1]
    assert found.final_regularised == found.regularised_curve[-1] < found.final


def test_no_fixed_function_has_negative_regularised_regret(rows):
    X, Y = rows
    ridge = OVKRidge(KERNEL, alpha=0.5)
    for other in (ridge, OVKRidge(KERNEL, alpha=5.0), OVKRidge(Gaussian(0.2) * MixedEffect(0.3), alpha=0.01)):
        f = other.fit(X, Y)
        found = regret(f.predict(X), ridge, X=X, Y=Y)
        # sum |y - g|^2 + alpha |g|^2 is least at the comparator.
        assert found.final_regularised + 0.5 * f.expansion_.norm() ** 2 > -1e-9
    assert regret(ridge.fit(X, Y).predict(X), ridge, X=X, Y=Y).final == pytest.approx(0.0, abs=1e-9)


def test_regret_per_row_falls(rows):
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(1000, 1))
    result = progressive(OLOK(Gaussian(0.2), alpha=1e-4), X, np.sin(6 * X[:, 0]), keep="all")
    found = regret(result, OVKRidge(Gaussian(0.2), alpha=1.0))
    per_row = found.curve / found.rows
    early = np.searchsorted(found.rows, 100)
    assert 0 < per_row[-1] < 0.5 * per_row[early]


def test_predictions_alone_and_one_output(rows):
    X, Y = rows
    y = Y[:, 0]
    F = OLOK(Gaussian(0.2)).predict_then_learn(X, y)
    flat = regret(F, OVKRidge(Gaussian(0.2)), X=X, Y=y)
    column = regret(F[:, None], OVKRidge(Gaussian(0.2)), X=X, Y=y[:, None])
    assert flat.final == pytest.approx(column.final)
    chosen = regret(F, OVKRidgeCV(Gaussian(0.2), alphas=[0.1, 1.0]), X=X, Y=y)
    assert chosen.penalty == pytest.approx(chosen.comparator.alpha_ * chosen.comparator.expansion_.norm() ** 2)


def test_a_result_without_rows_takes_them_from_the_arguments(rows):
    X, Y = rows
    kept, bare = (progressive(OLOK(KERNEL), X, Y, keep=keep) for keep in ("all", "predictions"))
    assert regret(bare, OVKRidge(KERNEL), X=X, Y=Y).final == regret(kept, OVKRidge(KERNEL)).final
    with pytest.raises(ValueError, match="X and Y are missing"):
        regret(bare, OVKRidge(KERNEL))
    with pytest.raises(ValueError, match="has no stored predictions"):
        regret(progressive(OLOK(KERNEL), X, Y, keep="none"), OVKRidge(KERNEL))


@pytest.mark.parametrize(
    ("predictions", "comparator", "message", "kind"),
    [
        (np.zeros((120, 2)), "ridge", "comparator must be a batch regressor of ovk", TypeError),
        (np.zeros((120, 2)), OVKRidge(alpha=np.array([1.0, 2.0])), "one alpha for all outputs", ValueError),
        (np.zeros((120, 1)), OVKRidge(), "must have the same rows, at least one, got shapes", ValueError),
        (np.full((120, 2), np.nan), OVKRidge(), "no output was both predicted and observed", ValueError),
    ],
)
def test_invalid_arguments(rows, predictions, comparator, message, kind):
    X, Y = rows
    with pytest.raises(kind, match=message):
        regret(predictions, comparator, X=X, Y=Y)
