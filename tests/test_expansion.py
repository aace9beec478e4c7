"""f(x) = sum K(x, x_i) c_i: values, derivatives, norm, slices of rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import instances
import ovk
import reference
from ovk.base.parameters import equal
from ovk.kernels import Gaussian, Laplacian, Linear, NotDifferentiableError
from ovk.operators import Dense, Identity
from ovk.ovkernels.base import Expansion, row_slices

EVERY = instances.each(instances.OVKERNELS)
SUPPORT, NEW = instances.inputs(None, 5, seed=1), instances.inputs(None, 4, seed=2)
C = np.random.default_rng(0).standard_normal((5, instances.D))
OFFSET = np.array([1.0, -2.0, 3.0])


@pytest.mark.parametrize("K", EVERY)
def test_values(K):
    expected = (reference.gram(K, NEW, SUPPORT) @ C.ravel()).reshape(4, instances.D)
    assert_allclose(Expansion(K, SUPPORT, C)(NEW), expected, rtol=1e-8, atol=1e-10)
    assert_allclose(Expansion(K, SUPPORT, C, OFFSET)(NEW), expected + OFFSET, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("K", instances.each(instances.OVKERNELS, without={"transformable-functions"}))
def test_jacobian(K):
    f = Expansion(K, SUPPORT, C, OFFSET)
    assert_allclose(f.jacobian(NEW), reference.jacobian(f, NEW, h=5e-3), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("K", EVERY)
def test_norm(K):
    expected = np.sqrt(C.ravel() @ reference.gram(K, SUPPORT) @ C.ravel())
    assert Expansion(K, SUPPORT, C, OFFSET).norm() == pytest.approx(expected)


@pytest.mark.parametrize("K", EVERY)
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_coefficients(K, form):
    thin = C * (np.arange(5)[:, None] % 2)
    full, f = Expansion(K, SUPPORT, thin, OFFSET), Expansion(K, SUPPORT, form(thin), OFFSET)
    assert_allclose(f(NEW), full(NEW), atol=1e-12)
    assert f.norm() == pytest.approx(full.norm())
    if K is not dict(instances.OVKERNELS)["transformable-functions"]:
        assert_allclose(f.jacobian(NEW), full.jacobian(NEW), atol=1e-12)


def test_sparse_inputs():
    K = Linear() * Dense(instances.B)
    f = Expansion(K, sparse.csr_array(SUPPORT), C)
    assert_allclose(f(sparse.csr_array(NEW)), Expansion(K, SUPPORT, C)(NEW))


def test_no_rows():
    f = Expansion(Gaussian(1.0) * Dense(instances.B), SUPPORT, C, OFFSET)
    assert f(np.zeros((0, 3))).shape == (0, 3)
    assert f.jacobian(np.zeros((0, 3))).shape == (0, 3, 3)


def test_norm_of_rounding_below_zero_is_zero():
    K = Linear() * Identity(1)
    f = Expansion(K, np.array([[1.0], [3.0]]), np.array([[3.0], [-1.0]]))
    assert f.norm() == 0.0


def test_a_function_that_cannot_be_differentiated():
    with pytest.raises(NotDifferentiableError, match="Laplacian has no closed-form derivative"):
        Expansion(Laplacian(1.0) * Identity(3), SUPPORT, C).jacobian(NEW)


@pytest.mark.parametrize(("n", "width", "most"), [(0, 5, 100), (1, 5, 100), (100, 5, 100), (1000, 1, 64), (70, 0, 64)])
def test_slices_cover_all_rows_once(n, width, most):
    parts = list(row_slices(n, width, most))
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(n))
    assert all(part.stop - part.start <= max(32, most // max(width, 1)) for part in parts)


def test_values_do_not_depend_on_slices(monkeypatch):
    X = np.random.default_rng(0).standard_normal((101, 3))
    f = Expansion(Gaussian(1.0) * Dense(instances.B), SUPPORT, C, OFFSET)
    whole, derivative = f(X), f.jacobian(X)
    monkeypatch.setattr(row_slices, "__defaults__", (64,))
    assert len(list(row_slices(101, 5))) > 1
    assert_allclose(f(X), whole, rtol=1e-12)
    assert_allclose(f.jacobian(X), derivative, rtol=1e-12)


def test_save_and_load(tmp_path):
    for coefficients in (C, sparse.csr_array(C)):
        f = Expansion(Gaussian(1.0) * Dense(instances.B), SUPPORT, coefficients, OFFSET)
        ovk.save(f, tmp_path / "f")
        again = ovk.load(tmp_path / "f")
        assert equal(again.kernel, f.kernel)
        assert np.array_equal(again(NEW), f(NEW))
