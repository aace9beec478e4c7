"""Posterior covariances equal dense algebra for every solver."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import instances
import reference
from ovk.kernels import Gaussian, Linear
from ovk.operators import Dense
from ovk.ovkernels import Diagonal, Observed
from ovk.solvers import Cholesky, ConjugateGradient, Eigen, MissingOutputs, select
from ovk.solvers.solver_choice import explained_by_pairs, explained_covariance

X, NEW = instances.inputs(None, 7, seed=1), instances.inputs(None, 4, seed=2)


@pytest.mark.parametrize("alpha", [1e-2, 1.0])
@pytest.mark.parametrize("K", instances.each(instances.OVKERNELS))
def test_complete_outputs(K, alpha):
    gram, cross = K.gram(X), K.gram(NEW, X)
    expected = reference.explained(gram.dense(), cross.dense(), alpha, instances.D)
    solvers = {select(gram), ConjugateGradient(tol=1e-13)} | ({Eigen()} if gram.decouple() else set())
    for solver in solvers:
        found = explained_covariance(solver, solver.factor(gram), cross, alpha)
        assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("K", instances.each(instances.OVKERNELS))
def test_data_only_take_away(K):
    """0 <= K(x, X) A^-1 K(X, x) <= K(x, x)."""
    gram, cross = K.gram(X), K.gram(NEW, X)
    solver = select(gram)
    taken = explained_covariance(solver, solver.factor(gram), cross, 0.1)
    left = K.diagonal_blocks(NEW) - taken
    assert np.linalg.eigvalsh(taken).min() > -1e-9
    assert np.linalg.eigvalsh(left).min() > -1e-9


KERNELS = [
    Gaussian(1.3) * Dense(instances.B),
    Diagonal([Gaussian(1.0), Linear(), Gaussian(2.0)]),
    dict(instances.OVKERNELS)["sum-not-commuting"],
    dict(instances.OVKERNELS)["curl-free"],
]


@pytest.mark.parametrize("alpha", [1e-2, 1.0])
@pytest.mark.parametrize("K", KERNELS, ids=lambda K: type(K).__name__)
def test_observed_pairs(K, alpha):
    points, outputs = np.nonzero(np.random.default_rng(3).random((7, 3)) < 0.6)
    gram = Observed(K.gram(X), points, outputs)
    every, each = np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4)
    cross = K.pairs(NEW[every], each, X[points], outputs)
    expected = reference.explained(gram.dense(), cross, alpha, 3)
    solvers = [Cholesky(), Eigen(), ConjugateGradient(tol=1e-13)]
    if gram.base.terms() is not None and len(gram.base.terms()) == 1:
        solvers.append(MissingOutputs(tol=1e-13))
    for solver in solvers:
        found = explained_by_pairs(solver, solver.factor(gram), cross.T, alpha, 3)
        assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
