"""Kernels of inner products, given matrices, functions and scikit-learn's; names and errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel

from ovk.kernels import (
    Function,
    Gaussian,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    SklearnKernel,
    Tanimoto,
    as_kernel,
)
from ovk.operators import Identity

X = np.random.default_rng(0).standard_normal((5, 3))


def test_against_scikit_learn():
    assert_allclose(Polynomial(3, 0.4, 2.0)(X), polynomial_kernel(X, degree=3, gamma=0.4, coef0=2.0))
    assert_allclose(Laplacian(4.0)(X), laplacian_kernel(X, gamma=0.25))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Polynomial(0), "degree must be a whole number >= 1, got 0"),
        (Polynomial(1.5), "degree must be a whole number >= 1, got 1.5"),
        (Polynomial("2"), "degree must be a whole number >= 1, got '2'"),
        (Polynomial(2, 0.0), "gamma must be a finite number > 0, got 0"),
        (Polynomial(2, 1.0, -1.0), "coef0 must be a finite number >= 0, got -1"),
        (-1.0 * Gaussian(1.0), "factor must be a finite number >= 0, got -1"),
        (float("nan") * Gaussian(1.0), "factor must be a finite number >= 0, got nan"),
    ],
)
def test_bad_parameters(kernel, message):
    for call in (kernel, kernel.diag):
        with pytest.raises(ValueError, match=message):
            call(X)


def test_empty_fingerprints_are_alike():
    F = np.array([[0, 0, 0], [0, 0, 0], [1, 0, 1]])
    expected = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert_allclose(Tanimoto()(F), expected)
    assert_allclose(Tanimoto()(sparse.csr_array(F)), expected)
    assert np.isfinite(Tanimoto().slopes(F, F)[0].A).all()


# ------------------------------------------------------------------------------------------------ precomputed


@pytest.mark.parametrize("index", [-1, 3, 0.5, np.nan, np.inf])
def test_bad_index_of_a_precomputed_kernel(index):
    with pytest.raises(ValueError, match="X must hold whole numbers from 0 to 2, the rows of the matrix"):
        Precomputed(np.eye(3))(np.array([[0.0], [index]]))


def test_bad_shapes_of_a_precomputed_kernel():
    with pytest.raises(ValueError, match="X must have one column, got 2"):
        Precomputed(np.eye(3))(np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"matrix must be square, got shape \(2, 3\)"):
        Precomputed(np.ones((2, 3)))(np.zeros((4, 1)))
    with pytest.raises(ValueError, match=r"a column for each of the 3 training objects, got shape \(3, 2\)"):
        Precomputed()(np.ones((3, 2)))
    with pytest.raises(ValueError, match="a column for each of the 4 training objects"):
        Precomputed()(np.ones((2, 3)), np.ones((4, 4)))
    with pytest.raises(ValueError, match=r"does not know k\(x, x\) of new objects"):
        Precomputed().diag(np.ones((2, 3)))


def test_precomputed_as_in_scikit_learn():
    G = X @ X.T
    assert_allclose(Precomputed()(G), G)
    assert_allclose(Precomputed()(sparse.csr_array(G)), G)
    assert_allclose(Precomputed()(G[:2], G), G[:2])
    assert Precomputed().norm_bound() is None
    assert Precomputed(G).norm_bound() == G.diagonal().max()


# ----------------------------------------------------------------------------------------------------- others


def test_a_function_must_return_the_right_shape():
    with pytest.raises(ValueError, match=r"must return an array of shape \(5, 5\) .* got \(5,\)"):
        Function(lambda X, Z: X[:, 0])(X)


def test_function_on_sparse_inputs():
    kernel = Function(lambda X, Z: (X @ Z.T).toarray())
    S = sparse.csr_array(X)
    assert_allclose(kernel(S), X @ X.T)
    assert_allclose(kernel.diag(S), (X**2).sum(axis=1))


def test_white_kernel_knows_new_points_from_old():
    kernel = SklearnKernel(RBF(1.0) + WhiteKernel(0.5))
    assert_allclose(kernel(X).diagonal(), 1.5)
    assert_allclose(kernel(X, X).diagonal(), 1.0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("gaussian", Gaussian),
        ("rbf", Gaussian),
        ("laplacian", Laplacian),
        ("linear", Linear),
        ("polynomial", Polynomial),
        ("tanimoto", Tanimoto),
        ("precomputed", Precomputed),
        (RBF(1.0), SklearnKernel),
        (np.dot, Function),
    ],
)
def test_what_counts_as_a_kernel(given, expected):
    assert type(as_kernel(given)) is expected
    kernel = as_kernel(given)
    assert as_kernel(kernel) is kernel


def test_what_does_not_count_as_a_kernel():
    with pytest.raises(ValueError, match=r"one of \['gaussian', .*\] when given by name, got 'gauss'"):
        as_kernel("gauss")
    for wrong in (None, 3.0, Gaussian, Identity(2)):
        with pytest.raises(ValueError, match=r"kernel must be a kernel of ovk\.kernels"):
            as_kernel(wrong)
