"""Kernels of inner products, precomputed matrices, functions and scikit-learn's kernels; names and errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.spatial.distance import pdist, squareform
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel

import instances
import ovk
from ovk import OVKRidge
from ovk.kernels import (
    Function,
    Gaussian,
    Laplacian,
    Linear,
    OnColumns,
    Polynomial,
    Precomputed,
    SklearnKernel,
    Tanimoto,
    as_kernel,
)
from ovk.operators import Identity, MixedEffect
from ovk.ovkernels import as_operator_kernel

X = np.random.default_rng(0).standard_normal((5, 3))


def test_against_scikit_learn():
    assert_allclose(Polynomial(3, 0.4, 2.0)(X), polynomial_kernel(X, degree=3, gamma=0.4, coef0=2.0))
    assert_allclose(Laplacian(4.0)(X), laplacian_kernel(X, gamma=0.25))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Polynomial(0), "degree must be an integer >= 1, got 0"),
        (Polynomial(1.5), "degree must be an integer >= 1, got 1.5"),
        (Polynomial("2"), "degree must be an integer >= 1, got '2'"),
        (Polynomial(2, 0.0), "gamma must be positive and finite, got 0"),
        (Polynomial(2, 1.0, -1.0), "coef0 must be non-negative and finite, got -1"),
        (-1.0 * Gaussian(1.0), "factor must be non-negative and finite, got -1"),
        (float("nan") * Gaussian(1.0), "factor must be non-negative and finite, got nan"),
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


@pytest.mark.parametrize("kernel", [pytest.param(kernel, id=name) for name, kernel in instances.KERNELS])
def test_no_rows_give_matrices_without_rows_or_columns(kernel):
    rows = instances.inputs(kernel, 4)
    for left, right in ((rows[:0], None), (rows, rows[:0]), (rows[:0], rows)):
        assert kernel(left, right).shape == (len(left), len(left if right is None else right))
    assert kernel.diag(rows[:0]).shape == (0,)


# ------------------------------------------------------------------------------------------------ precomputed


@pytest.mark.parametrize("index", [-1, 3, 0.5, np.nan, np.inf])
def test_bad_index_of_a_precomputed_kernel(index):
    with pytest.raises(ValueError, match="integers from 0 to 2, the indices of the rows of the matrix"):
        Precomputed(np.eye(3))(np.array([[0.0], [index]]))


def test_bad_shapes_of_a_precomputed_kernel():
    with pytest.raises(ValueError, match="X must have one column, got 2"):
        Precomputed(np.eye(3))(np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"matrix must be square, got shape \(2, 3\)"):
        Precomputed(np.ones((2, 3)))(np.zeros((4, 1)))
    with pytest.raises(ValueError, match=r"with 3 columns, one per training object, got shape \(3, 2\)"):
        Precomputed()(np.ones((3, 2)))
    with pytest.raises(ValueError, match="with 4 columns, one per training object"):
        Precomputed()(np.ones((2, 3)), np.ones((4, 4)))
    with pytest.raises(ValueError, match=r"k\(x, x\) of new objects is unknown"):
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


def test_white_kernel_distinguishes_new_points():
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
    with pytest.raises(ValueError, match=r"one of \['gaussian', .*\] or a kernel object, got 'gauss'"):
        as_kernel("gauss")
    for wrong in (None, 3.0, Gaussian, Identity(2)):
        with pytest.raises(ValueError, match=r"kernel must be a kernel of ovk\.kernels"):
            as_kernel(wrong)


def test_scikit_learn_s_algebra_with_our_kernels_and_operators(tmp_path):
    ours, operator, theirs = Gaussian(2.0), MixedEffect(0.5), RBF(1.0)
    G = np.exp(-squareform(pdist(X, "sqeuclidean")) / 2)
    for product in (theirs * ours, ours * theirs):
        assert_allclose(as_kernel(product)(X), G * ours(X))
        assert "Gaussian(2.0)" in repr(product)
    for total in (theirs + ours, ours + theirs):
        assert_allclose(as_kernel(total)(X), G + ours(X))
    both = as_operator_kernel(2.0 * theirs * MixedEffect(0.5, 2))
    assert_allclose(both.gram(X).dense(), np.kron(2.0 * G, [[1.0, 0.5], [0.5, 1.0]]))
    # A notebook prints the model.
    model = OVKRidge(theirs * operator)
    assert repr(model) == "OVKRidge(kernel=RBF(length_scale=1) * MixedEffect(0.5))"
    model.fit(X, X[:, :2])
    ovk.save(model, tmp_path / "model.ovk")
    assert_allclose(ovk.load(tmp_path / "model.ovk").predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"kernel must be a kernel of ovk\.kernels"):
        as_kernel(operator)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([0, 3], r"columns must be between 0 and 2, the last column of X, got \[0, 3\]"),
        ([-1], "columns must be between 0 and 2"),
        ([], "columns must be a non-empty list of distinct integers"),
        ([1, 1], "columns must be a non-empty list of distinct integers"),
        ([0.5], "columns must be a non-empty list of distinct integers"),
    ],
)
def test_bad_columns(columns, message):
    with pytest.raises(ValueError, match=message):
        OnColumns(Gaussian(1.0), columns)(X)


def test_lengths_are_learned_from_the_columns():
    kernel = OnColumns(Gaussian(), [0, 2]).resolve(X)
    assert_allclose(kernel.kernel.length_scale, np.median(pdist(X[:, [0, 2]])))
