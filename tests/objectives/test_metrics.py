"""Errors of curves and labels."""

import numpy as np
import pytest
from sklearn.metrics import r2_score

from ovk.curves import Grid
from ovk.objectives import lcr, r2_observed, rsse


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
        (lambda: rsse(np.ones((2, 3)), np.ones((2, 3)), Grid.regular(4)), "4 points but the curves have 3"),
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
