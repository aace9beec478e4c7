"""Every scalar kernel equals its formula, and its derivatives equal numerical ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import instances
import reference
from ovk.kernels import Laplacian, Matern, NotDifferentiableError, Precomputed
from ovk.kernels.base import contract
from ovk.ovkernels.base import by_entry

EVERY = instances.each(instances.KERNELS)

#: Continuous hyper-parameters that have a derivative.
HYPER = {
    "gaussian": {"length_scale"},
    "gaussian-ard": {"length_scale"},
    "laplacian": {"length_scale"},
    "matern-1/2": {"length_scale"},
    "matern-5/2-ard": {"length_scale"},
    "rational-quadratic": {"alpha", "length_scale"},
    "polynomial": {"gamma", "coef0"},
    "linear": set(),
    "sum": {"left__length_scale"},
    "product": {"left__length_scale", "right__gamma", "right__coef0"},
    "scaled": {"factor", "kernel__alpha", "kernel__length_scale"},
}


@pytest.mark.parametrize("kernel", EVERY)
def test_matrix(kernel):
    X, Z = instances.inputs(kernel, 7, seed=1), instances.inputs(kernel, 5, seed=2)
    assert_allclose(kernel(X), reference.scalar_gram(kernel, X), rtol=1e-8, atol=1e-14)
    assert_allclose(kernel(X, Z), reference.scalar_gram(kernel, X, Z), rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("kernel", EVERY)
def test_product(kernel):
    X, Z = instances.inputs(kernel, 7, seed=1), instances.inputs(kernel, 5, seed=2)
    W = np.random.default_rng(0).standard_normal((5, 3))
    assert_allclose(kernel.product(X, Z, W), reference.scalar_gram(kernel, X, Z) @ W, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("kernel", EVERY)
def test_diagonal_and_its_bound(kernel):
    X = instances.inputs(kernel, 7, seed=1)
    expected = [reference.scalar(kernel, x, x) for x in X]
    assert_allclose(kernel.diag(X), expected, rtol=1e-12)
    bound = kernel.norm_bound()
    assert bound is None or max(expected) <= bound * (1 + 1e-12)


def test_which_kernels_are_bounded():
    unbounded = {name for name, kernel in instances.KERNELS if kernel.norm_bound() is None}
    assert unbounded == {
        "polynomial",
        "linear",
        "function",
        "sklearn",
        "sum",
        "product",
        "nested",
        "on-curves-derivative",
        "periodic-sum",
    }


@pytest.mark.parametrize("kernel", EVERY)
def test_inputs_and_outputs_are_apart(kernel):
    X = instances.inputs(kernel, 4, seed=1)
    before = X.copy()
    first = kernel(X)
    expected = first.copy()
    first[...] = -1.0
    assert np.array_equal(X, before)
    assert np.array_equal(kernel(X), expected)


@pytest.mark.parametrize("kernel", instances.each(instances.KERNELS, without={"precomputed", "function", "sklearn"}))
def test_float32_inputs_give_float64(kernel):
    X, Z = (
        instances.inputs(kernel, 6, seed=1).astype(np.float32),
        instances.inputs(kernel, 4, seed=2).astype(np.float32),
    )
    values = kernel(X, Z)
    assert values.dtype == np.float64
    assert_allclose(values, kernel(X.astype(float), Z.astype(float)), rtol=1e-12)


def test_precomputed_takes_any_integers():
    kernel = dict(instances.KERNELS)["precomputed"]
    X = np.array([[3], [0], [3]], dtype=np.uint8)
    assert_allclose(kernel(X), kernel.matrix[np.ix_([3, 0, 3], [3, 0, 3])])


@pytest.mark.parametrize(
    "kernel", instances.each(instances.KERNELS, without={"laplacian", "precomputed", "function", "sklearn"})
)
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_inputs(kernel, form):
    X = np.round(instances.inputs(kernel, 8, seed=1)) * (np.arange(8)[:, None] % 3 > 0)
    Z = np.round(instances.inputs(kernel, 5, seed=2))
    assert_allclose(kernel(form(X)), kernel(X), rtol=1e-7, atol=1e-12)
    assert_allclose(kernel(form(X), form(Z)), kernel(X, Z), rtol=1e-7, atol=1e-12)
    assert_allclose(kernel.diag(form(X)), kernel.diag(X), rtol=1e-12)


@pytest.mark.parametrize(
    "kernel", instances.each(instances.KERNELS, only={"linear", "tanimoto", "polynomial", "gaussian"})
)
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8])
def test_sparse_inputs_of_narrow_types(kernel, dtype):
    """In their own type the products of such numbers would overflow, or be true and false."""
    X = np.random.default_rng(0).integers(0, 2, size=(5, 40)) * (100 if dtype is np.uint8 else 1)
    assert_allclose(kernel(sparse.csr_array(X.astype(dtype))), kernel(X.astype(float)), rtol=1e-12, atol=1e-300)
    assert_allclose(kernel.diag(sparse.csr_array(X.astype(dtype))), kernel.diag(X.astype(float)))


# ------------------------------------------------------------------------------------------------ derivatives


@pytest.mark.parametrize("kernel", EVERY)
def test_gradient_in_hyper_parameters(kernel):
    X, Z = instances.inputs(kernel, 5, seed=1), instances.inputs(kernel, 4, seed=2)
    for other in (Z, None):
        for name, change in by_entry("", kernel.gradient(X, other)).items():
            name = name.removeprefix("__")
            expected = reference.derivative(
                lambda t, name=name, Z=other: reference.moved(kernel, name, t)(X, Z), 0.0, h=1e-2
            )
            assert_allclose(change, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", HYPER)
def test_names_of_hyper_parameters(name):
    kernel = dict(instances.KERNELS)[name]
    gradient = kernel.gradient(instances.inputs(kernel, 4))
    assert set(gradient) == HYPER[name]
    for parameter, change in gradient.items():
        assert change.shape == (*np.shape(kernel.get_params()[parameter]), 4, 4)


@pytest.mark.parametrize("kernel", instances.each(instances.KERNELS, without=instances.ROUGH))
def test_slopes(kernel):
    X, Z = instances.inputs(kernel, 5, seed=1), instances.inputs(kernel, 4, seed=2)
    W = np.random.default_rng(3).standard_normal((4, 2))
    found = contract(kernel.slopes(X, Z), X, Z, W)
    assert_allclose(found, reference.jacobian(lambda x: kernel(x, Z) @ W, X, h=5e-3), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", instances.each(instances.KERNELS, without={*instances.ROUGH, "tanimoto"}))
def test_slopes_at_the_points_themselves(kernel):
    """x = z is where distances have no derivative, but their squares do."""
    X = instances.inputs(kernel, 3, seed=1)
    found = contract(kernel.slopes(X, X), X, X, np.eye(3))
    assert np.isfinite(found).all()
    direction = np.array([0.6, 0.0, 0.8])
    for i in range(3):
        up, down = (kernel(X[i : i + 1] + t * direction, X[i : i + 1])[0, 0] for t in (1e-6, -1e-6))
        assert_allclose(found[i, i] @ direction, (up - down) / 2e-6, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("kernel", instances.each(instances.KERNELS, only=instances.ROUGH))
def test_rough_kernels_say_so(kernel):
    X = instances.inputs(kernel, 3)
    with pytest.raises(NotDifferentiableError, match="Jacobian"):
        kernel.slopes(X, X)


def test_gradient_is_finite_at_duplicates():
    X = np.zeros((3, 2))
    for kernel in (
        Matern(0.5, 1.0),
        Matern(0.3, 1.0),
        Matern(1, 1.0),
        Matern(1.5, np.ones(2)),
        Laplacian(1.0),
    ):
        assert_allclose(kernel.gradient(X)["length_scale"], 0.0, atol=1e-10)


def test_precomputed_without_a_matrix_leaves_the_given_one_alone():
    G = np.array([[2.0, 1.0], [1.0, 3.0]])
    K = Precomputed() * dict(instances.OPERATORS)["dense"]
    before = G.copy()
    K.gram(G).dense()
    K.pairs(G, np.array([0, 1]))
    K.diagonal_blocks(G)
    assert np.array_equal(G, before)
    assert_allclose(Precomputed().diag(G), [2.0, 3.0])
