"""Curl-free fields have zero curl, divergence-free fields zero divergence."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from ovk.kernels import Gaussian, Matern, RationalQuadratic
from ovk.ovkernels import CurlFree, DivFree

PROFILES = [Gaussian(1.2), Matern(2.5, 1.2), Matern(3.5, 1.2), Matern(3.3, 1.2), RationalQuadratic(0.8, 1.2)]


def field(kind, kernel, p):
    rng = np.random.default_rng(p)
    X, Z, C = (rng.standard_normal((m, p)) for m in (5, 4, 4))
    K = kind(kernel)
    return K, X, Z, C


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("kernel", PROFILES, ids=repr)
def test_gradient_fields_have_no_curl(kernel, p):
    K, X, Z, C = field(CurlFree, kernel, p)
    closed = K.jacobian(X, Z, C)
    numerical = reference.jacobian(lambda x: K.gram(x, Z).matmat(C), X, h=5e-3)
    assert_allclose(reference.curl(closed), 0.0, atol=1e-12)
    assert_allclose(reference.curl(numerical), 0.0, atol=1e-8)
    assert np.abs(reference.divergence(closed)).max() > 0.1


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("kernel", PROFILES, ids=repr)
def test_source_free_fields_have_no_divergence(kernel, p):
    K, X, Z, C = field(DivFree, kernel, p)
    closed = K.jacobian(X, Z, C)
    numerical = reference.jacobian(lambda x: K.gram(x, Z).matmat(C), X, h=5e-3)
    assert_allclose(reference.divergence(closed), 0.0, atol=1e-12)
    assert_allclose(reference.divergence(numerical), 0.0, atol=1e-8)
    assert np.abs(reference.curl(closed)).max() > 0.1


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("kernel", PROFILES, ids=repr)
def test_second_differences_of_the_scalar_kernel(kernel, p):
    """K = -grad grad' k in units of the length scale, away from x = z."""
    rng = np.random.default_rng(p)
    z = np.zeros((1, p))
    for _ in range(3):
        x = rng.standard_normal((1, p)) + 1.0
        H = reference.jacobian(lambda a: reference.jacobian(lambda b: kernel(b, z), a, h=2e-2)[:, 0], x, h=2e-2)[0]
        H *= kernel.length_scale**2
        assert_allclose(CurlFree(kernel)(x[0], z[0]), -H, atol=1e-8)
        assert_allclose(DivFree(kernel)(x[0], z[0]), H - np.trace(H) * np.eye(p), atol=1e-8)


def test_a_turned_frame_turns_the_field():
    """K(Rx, Rz) = R K(x, z) R'."""
    R, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))
    x, z = np.array([0.3, -1.0, 0.5]), np.array([1.0, 0.2, 0.0])
    for K in (CurlFree(Gaussian(1.0)), DivFree(Matern(2.5, 1.0))):
        assert_allclose(K(R @ x, R @ z), R @ K(x, z) @ R.T, atol=1e-13)
