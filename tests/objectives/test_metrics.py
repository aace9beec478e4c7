"""Errors of curves and labels."""

import pickle

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    make_scorer,
    max_error,
    mean_absolute_error,
    mean_pinball_loss,
    mean_squared_error,
    median_absolute_error,
    r2_score,
    root_mean_squared_error,
)
from sklearn.model_selection import GridSearchCV, cross_val_score

from ovk import OVKRidge
from ovk.curves import Grid
from ovk.objectives import lcr, observed, r2_observed, rsse


def test_rsse_is_an_integral():
    grid = Grid([0.0, 0.1, 1.0])
    Y, F = np.array([[1.0, 2.0, 0.0]]), np.array([[0.0, 0.0, 0.0]])
    assert rsse(Y, F, grid) == pytest.approx(0.05 * 1 + 0.5 * 4)
    fine = np.linspace(0, 1, 2001)
    assert rsse(np.sin(fine), np.zeros(2001)) == pytest.approx(0.5 - np.sin(2) / 4, abs=1e-6)
    assert rsse(np.array([[np.nan, 2.0, 0.0]]), F, grid) == pytest.approx(2.0)


def test_lcr_counts_labels():
    assert lcr(np.array(["a", "b", "b", "a"]), np.array(["a", "b", "a", "a"])) == 75.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rsse(np.ones((2, 3)), np.ones((2, 4))), r"shapes \(2, 3\) and \(2, 4\)"),
        (lambda: rsse(np.ones((2, 3)), np.ones((2, 3)), Grid.regular(4)), "for each of the 3 columns of Y, got 4"),
        (lambda: lcr(np.ones(2), np.ones(3)), "the same shape"),
    ],
)
def test_bad_calls(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_weights_count_rows():
    rng = np.random.default_rng(0)
    Y, F = rng.standard_normal((6, 2)), rng.standard_normal((6, 2))
    Y[0, 1] = np.nan
    weight = np.array([1, 2, 3, 1, 1, 2])
    repeated = np.repeat(np.arange(6), weight)
    assert r2_observed(Y, F, weight) == pytest.approx(r2_observed(Y[repeated], F[repeated]))
    assert r2_observed(Y, F, weight) != pytest.approx(r2_observed(Y, F))


def test_outputs_with_gaps_count_by_what_was_observed():
    rng = np.random.default_rng(0)
    Y, F = rng.standard_normal((20, 3)), rng.standard_normal((20, 3))
    Y[::3, 1] = Y[:, 2] = np.nan
    rest = ~np.isnan(Y[:, 1])
    expected = [r2_score(Y[:, 0], F[:, 0]), r2_score(Y[rest, 1], F[rest, 1])]
    assert r2_observed(Y, F) == pytest.approx(np.mean(expected))


METRICS = [mean_absolute_error, mean_squared_error, median_absolute_error, r2_score, max_error, root_mean_squared_error]


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_ignores_missing_outputs(metric):
    rng = np.random.default_rng(0)
    Y, F = rng.standard_normal((20, 3)), rng.standard_normal((20, 3))
    if metric is not max_error:
        assert observed(metric)(Y, F) == pytest.approx(metric(Y, F))
    Y[::3, 1] = Y[:, 2] = np.nan
    rest = ~np.isnan(Y[:, 1])
    expected = [metric(Y[:, 0], F[:, 0]), metric(Y[rest, 1], F[rest, 1]), np.nan]
    np.testing.assert_allclose(observed(metric)(Y, F, multioutput="raw_values"), expected)
    assert observed(metric)(Y, F) == pytest.approx(np.mean(expected[:2]))
    assert observed(metric)(Y[:, 1], F[:, 1]) == pytest.approx(expected[1])
    assert observed(metric)(np.ma.masked_invalid(Y), F) == pytest.approx(np.mean(expected[:2]))


def test_a_metric_with_gaps_takes_weights_options_and_labels():
    rng = np.random.default_rng(0)
    y, f, weight = rng.standard_normal(20), rng.standard_normal(20), rng.uniform(size=20)
    y[3:9] = np.nan
    rest = ~np.isnan(y)
    found = observed(mean_pinball_loss)(y, f, sample_weight=weight, alpha=0.1)
    assert found == mean_pinball_loss(y[rest], f[rest], sample_weight=weight[rest], alpha=0.1)
    labels = np.array(["a", None, "b", np.nan, "b"], dtype=object)
    assert observed(accuracy_score)(labels, np.array(list("aabbb"))) == 1.0
    assert observed(accuracy_score)(labels, np.array(list("abaab"))) == pytest.approx(2 / 3)
    assert observed(f1_score)(np.array([1.0, np.nan, 0.0]), np.array([1.0, 1.0, 0.0])) == 1.0


def test_a_metric_with_gaps_is_a_scorer_in_other_processes():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(30, 1))
    Y = np.hstack([np.sin(3 * X), X**2])
    Y[::4, 1] = np.nan
    scorer = make_scorer(observed(mean_absolute_error), greater_is_better=False)
    assert "observed(mean_absolute_error)" in repr(scorer)
    assert pickle.loads(pickle.dumps(observed(r2_score)))(Y, Y) == 1.0
    assert (cross_val_score(OVKRidge(alpha=1e-3), X, Y, scoring=scorer, cv=3) < 0).all()
    search = GridSearchCV(OVKRidge(), {"alpha": [1e-4, 1e4]}, scoring=scorer, cv=3).fit(X, Y)
    assert search.best_params_ == {"alpha": 1e-4}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda score: score(np.ones((3, 2)), np.ones((3, 1))), r"shapes \(3, 2\) and \(3, 1\)"),
        (lambda score: score(np.full(3, np.nan), np.ones(3)), "at least one observed value"),
        (lambda score: score(np.ones((0, 2)), np.ones((0, 2))), "at least one observed value"),
        (lambda score: score(np.ones(3), np.ones(3), multioutput="all"), "'uniform_average' or 'raw_values'"),
    ],
)
def test_scores_that_cannot_be_computed(call, message):
    with pytest.raises(ValueError, match=message):
        call(observed(mean_absolute_error))
