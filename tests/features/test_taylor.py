"""Taylor features of the Gaussian kernel: convergence and error bounds."""

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import factorial

import reference
from ovk.features import TaylorMap
from ovk.kernels import Gaussian, Matern

CENTRE = np.array([0.5, -1.0, 0.2])


def inputs(n, seed=0):
    return CENTRE + np.random.default_rng(seed).standard_normal((n, 3))


def exponents(degree):
    """Multi-indices of three inputs in the order of the features: by degree, then by the powers of the last input."""
    every = [a for a in product(range(degree + 1), repeat=3) if sum(a) <= degree]
    return sorted(every, key=lambda a: (sum(a), a[::-1]))


@pytest.mark.parametrize("scale", [1.3, np.array([0.8, 1.5, 2.5])])
@pytest.mark.parametrize("degree", [0, 1, 4])
def test_the_features_are_the_monomials(scale, degree):
    features = TaylorMap.from_kernel(Gaussian(scale), degree, CENTRE)
    X = inputs(4)
    phi = features.transform(X)
    assert phi.shape == (4, comb(3 + degree, degree)) == (4, features.m)
    for row, x in zip(phi, X, strict=True):
        expected = reference.taylor_features(x, scale, degree, CENTRE)
        assert len(expected) == features.m
        assert_allclose(row, [expected[a] for a in exponents(degree)], rtol=1e-12, atol=1e-300)


def test_features_come_in_order_of_their_degree_so_a_lower_degree_is_a_prefix():
    X = inputs(5)
    high, low = (TaylorMap.from_kernel(Gaussian(1.0), degree, CENTRE) for degree in (5, 3))
    assert np.array_equal(high.transform(X)[:, : low.m], low.transform(X))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 12), st.floats(0.3, 4.0), st.integers(0, 10**6))
def test_the_error_is_below_its_bound(degree, scale, seed):
    """The remainder is a kernel, so Cauchy and Schwarz bound it by its diagonal; Lagrange by t^(r+1) / (r+1)!."""
    kernel, X = 1.7 * Gaussian(scale), inputs(6, seed)
    features = TaylorMap.from_kernel(kernel, degree, CENTRE)
    phi = features.transform(X)
    remainder = kernel(X) - phi @ phi.T
    residual = features.residual(X)
    assert_allclose(np.diagonal(remainder), residual, atol=1e-13)
    assert (np.abs(remainder) <= np.sqrt(np.outer(residual, residual)) + 1e-13).all()
    u = (X - CENTRE) / scale
    lagrange = 1.7 * np.abs(u @ u.T) ** (degree + 1) / factorial(degree + 1)
    assert (np.abs(remainder) <= lagrange + 1e-13).all()
    assert np.linalg.eigvalsh(remainder)[0] > -1e-12


def test_it_converges_to_the_kernel():
    X = inputs(8)
    errors = []
    for degree in (2, 8, 16, 30):
        phi = TaylorMap.from_kernel(Gaussian(1.5), degree, CENTRE).transform(X)
        errors.append(np.abs(phi @ phi.T - Gaussian(1.5)(X)).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[-1] < 1e-14


def test_the_centre_matters():
    X = inputs(20)
    near, far = (TaylorMap.from_kernel(Gaussian(3.0), 4, CENTRE + shift) for shift in (0.0, 2.0))
    errors = [np.abs(f.transform(X) @ f.transform(X).T - Gaussian(3.0)(X)).max() for f in (near, far)]
    assert errors[1] > 5 * errors[0]


@pytest.mark.parametrize("size", [0.0, 1e-300, 40.0, 1e5, 1e200])
@pytest.mark.parametrize("degree", [3, 2000])
def test_no_overflow_however_far_out_and_however_high_the_degree(size, degree):
    features = TaylorMap.from_kernel(Gaussian(1.0), degree, np.zeros(1))
    X = np.array([[size], [-size]])
    phi = features.transform(X)
    assert np.isfinite(phi).all()
    assert (np.abs(phi) <= 1.0).all()
    assert_allclose((phi**2).sum(axis=1), 1.0 - features.residual(X), atol=1e-12)


def test_high_degree_far_out_is_still_the_kernel():
    features = TaylorMap.from_kernel(Gaussian(1.0), 2500, np.zeros(1))
    X = np.array([[40.0], [40.5], [-40.0]])
    phi = features.transform(X)
    assert_allclose(phi @ phi.T, Gaussian(1.0)(X), atol=1e-11)


def test_bad_arguments():
    with pytest.raises(ValueError, match="multiples of the Gaussian kernel"):
        TaylorMap.from_kernel(Matern(), 2, CENTRE)
    with pytest.raises(ValueError, match="degree must be an integer >= 0"):
        TaylorMap.from_kernel(Gaussian(1.0), 1.5, CENTRE)
    with pytest.raises(ValueError, match="centre must be a finite vector"):
        TaylorMap.from_kernel(Gaussian(1.0), 2, [np.nan])
    with pytest.raises(ValueError, match="length_scale must have 3 entries"):
        TaylorMap.from_kernel(Gaussian(np.ones(2)), 2, CENTRE)
    with pytest.raises(ValueError, match="lower the degree"):
        TaylorMap.from_kernel(Gaussian(1.0), 10, np.zeros(40))
    with pytest.raises(ValueError, match=r"shape \(n, 3\)"):
        TaylorMap.from_kernel(Gaussian(1.0), 2, CENTRE).transform(np.ones((4, 2)))
