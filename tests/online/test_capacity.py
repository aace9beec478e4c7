"""Effective dimension and log determinant: against their definitions, and between the bounds of a sketch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import instances
import reference
from ovk.kernels import Function, Gaussian, Linear, Matern
from ovk.online.theory import effective_dimension, log_determinant, online_dimension, sketched_effective_dimension
from ovk.operators import Dense, Identity
from ovk.ovkernels import CurlFree
from ovk.solvers import SingularSystemError

KERNELS = instances.each(instances.KERNELS)
OVKERNELS = instances.each(instances.OVKERNELS)


def definitions(G, alpha):
    system = G + alpha * np.eye(len(G))
    return np.trace(G @ np.linalg.inv(system)), np.linalg.slogdet(system / alpha)[1]


@pytest.mark.parametrize("kernel", KERNELS)
def test_scalar_kernels_by_definition(kernel):
    X = instances.inputs(kernel, 8)
    expected = definitions(reference.scalar_gram(kernel, X), 0.3)
    found = effective_dimension(kernel, X, 0.3), log_determinant(kernel, X, 0.3)
    assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("K", OVKERNELS)
def test_operator_valued_kernels_by_definition(K):
    X = instances.inputs(K, 6)
    expected = definitions(reference.gram(K, X), 0.3)
    found = effective_dimension(K, X, 0.3), log_determinant(K, X, 0.3)
    assert_allclose(found, expected, rtol=1e-8)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.floats(1e-3, 10.0), st.integers(1, 14))
def test_order_of_the_quantities(seed, alpha, rank):
    """d_eff <= online <= log det <= d_eff (1 + log(1 + l_1 / alpha)); the sketch brackets d_eff; more is closer."""
    X = np.random.default_rng(seed).standard_normal((12, 2))
    k = Gaussian(0.8)
    d_eff, online, log_det = (f(k, X, alpha) for f in (effective_dimension, online_dimension, log_determinant))
    largest = np.linalg.eigvalsh(k(X))[-1]
    assert d_eff <= online + 1e-9 <= log_det + 2e-9
    assert log_det <= d_eff * (1 + np.log1p(largest / alpha)) + 1e-9
    near, far = (sketched_effective_dimension(k, X, alpha, rank=r) for r in (rank + 1, rank))
    for found in (near, far):
        assert found[0] - 1e-9 <= d_eff <= found[1] + 1e-9
    assert near[1] - near[0] <= far[1] - far[0] + 1e-9


@pytest.mark.parametrize("K", OVKERNELS)
def test_the_sketch_of_all_columns_is_exact(K):
    X = instances.inputs(K, 6)
    exact = effective_dimension(K, X, np.array([0.1, 1.0]))
    found = sketched_effective_dimension(K, X, np.array([0.1, 1.0]), rank=100)
    assert_allclose(found[0], exact, rtol=1e-7)
    assert_allclose(found[1], exact, rtol=1e-7)


@pytest.mark.parametrize("K", [CurlFree(Gaussian(1.4)), Gaussian(1.4) * Dense(instances.B), Matern(1.5, 1.0)])
def test_a_partial_sketch_brackets(K):
    X = instances.inputs(K, 40)
    exact = effective_dimension(K, X, 0.5)
    found = sketched_effective_dimension(K, X, 0.5, rank=20)
    assert found[0] <= exact <= found[1]
    assert found[1] - found[0] > 1e-6  # it is partial


def test_many_alphas_cost_one_decomposition(monkeypatch):
    calls = []
    eigvalsh = np.linalg.eigvalsh
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda G: calls.append(len(G)) or eigvalsh(G))
    effective_dimension(Gaussian(1.0) * Dense(instances.B), instances.inputs(None, 10), np.logspace(-3, 3, 7))
    assert calls.count(10) == 1
    assert 30 not in calls


def test_extremes():
    X = instances.inputs(None, 10)
    assert_allclose(effective_dimension(Gaussian(0.01), X, 1e-12), 10.0)
    assert_allclose(effective_dimension(Linear(), X, 1e-8), 3.0, atol=1e-6)
    assert effective_dimension(Linear(), X, 1e12) < 1e-9
    assert effective_dimension("gaussian", X, 1.0) > 0  # the median length scale is learned


def test_large_sketch_needs_no_square_matrix():
    X = np.random.default_rng(0).uniform(size=(50_000, 1))
    found = sketched_effective_dimension(Gaussian(0.3), X, 1.0, rank=20)
    assert found[1] - found[0] < 1e-3
    assert_allclose(np.mean(found), effective_dimension(Gaussian(0.3), X[::50], 1.0 / 50), rtol=0.01)


def test_bad_input():
    X = instances.inputs(None, 5)
    with pytest.raises(ValueError, match=r"alpha must be positive, got 0\.0"):
        effective_dimension(Gaussian(1.0), X, 0.0)
    with pytest.raises(ValueError, match="rank must be an integer"):
        sketched_effective_dimension(Gaussian(1.0), X, 1.0, rank=0)
    with pytest.raises(SingularSystemError, match="positive semi-definite"):
        effective_dimension(Function(lambda X, Z: -(X @ Z.T)), X, 1.0)
    with pytest.raises(ValueError, match="Identity requires output_dim"):
        effective_dimension(Gaussian(1.0) * Identity(), X, 1.0)
    with pytest.raises(SingularSystemError, match="increase mu"):
        online_dimension(Linear(), 1e8 * np.ones((4, 1)), 1e-12)
