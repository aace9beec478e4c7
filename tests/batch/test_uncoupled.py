"""Uncoupled outputs with gaps: errors by output equal those of all pairs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from memory import peak_memory
from ovk import OVKRidgeCV
from ovk.base import check_targets
from ovk.batch.ridge.ridge_system import PairSystem, same_inputs
from ovk.batch.tuning.error_surface import CandidateErrors, pairwise_errors
from ovk.kernels import Gaussian
from ovk.operators import Dense, MixedEffect

ALPHAS = np.array([1e-3, 0.1, 10.0])


def gaps(n=40, d=3, missing=0.4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    # Rows with the same inputs are left out together.
    X[5], X[17] = X[4], X[3]
    Y = np.sin(X @ rng.standard_normal((2, d))) + 0.1 * rng.standard_normal((n, d))
    Y[rng.random(Y.shape) < missing] = np.nan
    return X, Y, rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("entry", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("long_form", [False, True])
def test_errors_are_those_of_all_pairs(entry, intercept, weighted, long_form):
    X, Y, weight = gaps()
    task = None
    if long_form:
        rows, task = np.nonzero(~np.isnan(Y))
        X, Y, weight = X[rows], Y[rows, task], weight[rows]
    targets = check_targets(Y, len(X), weight if weighted else None, task, X)
    kernel, same = Gaussian(0.8) * Dense(np.diag([1.0, 0.5, 2.0])), same_inputs(X)
    K = PairSystem(kernel, X, targets, 1.0).gram.dense()
    expected = list(pairwise_errors(K, targets.pairs(same), ALPHAS, intercept=intercept, entry=entry))
    found = CandidateErrors(X, targets, same, ALPHAS, intercept).uncoupled(kernel.as_separable())
    assert_allclose(found, expected, rtol=1e-8)


def test_a_grid_with_and_without_coupling():
    """The errors of an operator do not depend on the other candidates."""
    X, Y, _ = gaps(60)
    both = OVKRidgeCV(Gaussian(1.0), ALPHAS, operators=[MixedEffect(0.0), MixedEffect(0.7)]).fit(X, Y)
    apart = OVKRidgeCV(Gaussian(1.0), ALPHAS, operators=[MixedEffect(0.0)]).fit(X, Y)
    assert_allclose(both.errors_[0, 0], apart.errors_[0, 0], rtol=1e-8)


@pytest.mark.long
def test_memory_of_a_path_with_an_operator_of_low_rank():
    """At most a few times the memory of the gram of all pairs."""
    X, Y, _ = gaps(400, missing=0.1)
    model = OVKRidgeCV(Gaussian(1.0), ALPHAS, operators=[Dense(np.ones((3, 3)))])
    assert peak_memory(lambda: model.fit(X, Y)) < 12 * 8 * np.sum(~np.isnan(Y)) ** 2
