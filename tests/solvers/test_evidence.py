"""Evidence and leave-one-out criteria equal their definitions, and their derivatives finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import reference
from ovk.kernels import Gaussian
from ovk.solvers.evidence import dense_evidence, separable_evidence, split_among_terms
from ovk.solvers.leave_one_out import pairwise_leave_one_out, separable_leave_one_out

rng = np.random.default_rng(0)
N, D = 8, 3
G = Gaussian(1.0)(rng.standard_normal((N, 2))) + 0.3 * np.eye(N)
W = rng.standard_normal((D, 2))
T = W @ W.T + 0.2 * np.eye(D)
Y = rng.standard_normal((N, D))
NOISE = np.array([0.3, 0.1, 0.7])
dG, dT, dN = (M + M.T for M in (rng.standard_normal((N, N)), rng.standard_normal((D, D)), np.diag([0.1, -0.2, 0.3])))
dn = np.diagonal(dN)


def test_evidence_is_that_of_the_normal_distribution():
    A = np.kron(G, T) + np.kron(np.eye(N), np.diag(NOISE))
    expected = -multivariate_normal(np.zeros(N * D), A).logpdf(Y.ravel())
    assert_allclose(separable_evidence(G, T, Y, NOISE).value, expected, rtol=1e-10)
    assert_allclose(dense_evidence(A, Y.ravel())[0], expected, rtol=1e-10)


def test_derivatives_of_the_structured_evidence():
    found = separable_evidence(G, T, Y, NOISE)

    def slope(f):
        return reference.derivative(lambda s: f(s).value, 0.0, h=1e-3)

    assert_allclose(
        np.vdot(found.grams[0], dG), slope(lambda s: separable_evidence(G + s * dG, T, Y, NOISE)), rtol=1e-7
    )
    assert_allclose(
        np.vdot(found.operators[0], dT), slope(lambda s: separable_evidence(G, T + s * dT, Y, NOISE)), rtol=1e-7
    )
    assert_allclose(found.noise @ dn, slope(lambda s: separable_evidence(G, T, Y, NOISE + s * dn)), rtol=1e-7)


TOGETHER = {
    "row": np.repeat(np.arange(N), D),
    "entry": np.arange(N * D),
    "mixed": np.repeat([0, 1, 2, 3], [6, 1, 8, 9]),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_leave_one_out_is_leaving_out(name):
    A = np.kron(G, T) + np.kron(np.eye(N), np.diag(NOISE))
    y, together = Y.ravel(), TOGETHER[name]
    total = 0.0
    for group in np.unique(together):
        out = together == group
        predicted = A[np.ix_(out, ~out)] @ np.linalg.solve(A[np.ix_(~out, ~out)], y[~out])
        total += ((y[out] - predicted) ** 2).sum()
    assert_allclose(pairwise_leave_one_out(A, y, together)[0], total / len(y), rtol=1e-10)


@pytest.mark.parametrize("name", [*TOGETHER, "evidence"])
def test_derivatives_of_the_dense_criteria(name):
    A = np.kron(G, T) + np.kron(np.eye(N), np.diag(NOISE))
    change = rng.standard_normal(A.shape)
    change += change.T

    def criterion(A):
        return (
            dense_evidence(A, Y.ravel()) if name == "evidence" else pairwise_leave_one_out(A, Y.ravel(), TOGETHER[name])
        )

    slope = reference.derivative(lambda s: criterion(A + s * change)[0], 0.0, h=1e-4)
    assert_allclose(np.vdot(criterion(A)[1], change), slope, rtol=1e-6)


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
@pytest.mark.parametrize("operator", [T, W @ W.T], ids=["full", "singular"])
def test_the_dense_derivative_splits_into_those_of_the_terms(criterion, operator):
    points, outputs = np.repeat(np.arange(N), D), np.tile(np.arange(D), N)
    A = np.kron(G, operator) + np.kron(np.eye(N), np.diag(NOISE))
    if criterion == "evidence":
        dense, structured = dense_evidence(A, Y.ravel()), separable_evidence(G, operator, Y, NOISE)
    else:
        dense, structured = pairwise_leave_one_out(A, Y.ravel(), points), separable_leave_one_out(G, operator, Y, NOISE)
    value, omega = dense
    grams, operators = split_among_terms(omega, [(G, operator)], points, outputs, N, D)
    assert_allclose(structured.value, value, rtol=1e-10)
    assert_allclose(structured.grams[0], grams[0], atol=1e-9)
    assert_allclose(structured.operators[0], operators[0], atol=1e-9)
    assert_allclose(structured.noise, np.bincount(outputs, weights=np.diagonal(omega)), atol=1e-9)
