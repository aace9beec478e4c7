"""Every operator-valued kernel equals its definition block by block, and so do its derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import instances
import reference
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, NotDifferentiableError
from ovk.operators import Dense, Identity
from ovk.ovkernels import CurlFree, Diagonal, DivFree, OperatorKernel, Separable, Transformable, WeightedSum
from ovk.solvers import select

EVERY = instances.each(instances.OVKERNELS)
SMOOTH = instances.each(instances.OVKERNELS, without={"transformable-functions"})
#: Products in which every kernel and every operator occurs. A product only multiplies what the two give.
PRODUCTS = [
    pytest.param(kernel, operator, id=f"{k}-{T}")
    for i, (k, kernel) in enumerate(instances.KERNELS)
    for j, (T, operator) in enumerate(instances.OPERATORS)
    if (i - j) % min(len(instances.KERNELS), len(instances.OPERATORS)) == 0
]


@pytest.mark.parametrize("K", EVERY)
def test_gram(K):
    X, Z = instances.inputs(K, 5, seed=1), instances.inputs(K, 4, seed=2)
    assert_allclose(K.gram(X).dense(), reference.gram(K, X), rtol=1e-8, atol=1e-13)
    assert_allclose(K.gram(X, Z).dense(), reference.gram(K, X, Z), rtol=1e-8, atol=1e-13)
    assert_allclose(K(X[0], Z[0]), reference.block(K, X[0], Z[0]), rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("K", EVERY)
def test_product(K):
    X, Z = instances.inputs(K, 5, seed=1), instances.inputs(K, 4, seed=2)
    dense = reference.gram(K, X, Z)
    C = np.random.default_rng(0).standard_normal((4, dense.shape[1] // 4))
    values = (dense @ C.reshape(-1)).reshape(5, -1)
    assert_allclose(K.product(X, Z, C), values, rtol=1e-8, atol=1e-12)
    assert_allclose(K.product(X, Z, sparse.csr_array(C)), values, rtol=1e-8, atol=1e-12)
    # The first points are seen by some of the rows only.
    since = np.array([0, 1, 1, 3, 4])
    d = C.shape[1]
    dense *= np.repeat(np.repeat(np.arange(4) >= since[:, None], d, axis=0), d, axis=1)
    values = (dense @ C.reshape(-1)).reshape(5, -1)
    assert_allclose(K.product(X, Z, C, since), values, rtol=1e-8, atol=1e-12)
    assert_allclose(K.gram(X, Z).matmul_window(C, since), values, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("kernel", "operator"), PRODUCTS)
def test_products_of_kernels_and_operators(kernel, operator):
    X, Z = instances.inputs(kernel, 4, seed=1), instances.inputs(kernel, 3, seed=2)
    K = kernel * operator
    C = np.random.default_rng(0).standard_normal((3, instances.D))
    assert_allclose(K.gram(X).dense(), reference.gram(K, X), rtol=1e-8, atol=1e-13)
    values = (reference.gram(K, X, Z) @ C.reshape(-1)).reshape(4, instances.D)
    assert_allclose(K.gram(X, Z).matmat(C), values, rtol=1e-8, atol=1e-12)
    assert_allclose(K.diagonal_blocks(X), [reference.block(K, x, x) for x in X], rtol=1e-8, atol=1e-13)
    assert type(select(K.gram(X))).__name__ == "Cholesky"


@pytest.mark.parametrize("name", instances.ROUTES)
def test_route(name):
    """The structure that each kernel keeps, and the solver that follows from it."""
    gram = dict(instances.OVKERNELS)[name].gram(instances.inputs(None, 6))
    terms = gram.terms()
    found = type(gram), None if terms is None else len(terms), type(select(gram))
    assert found == instances.ROUTES[name]


@pytest.mark.parametrize("K", EVERY)
def test_diagonal_blocks_and_their_bound(K):
    X = instances.inputs(K, 5, seed=1)
    expected = np.array([reference.block(K, x, x) for x in X])
    assert_allclose(K.diagonal_blocks(X), expected, rtol=1e-8, atol=1e-13)
    assert_allclose(OperatorKernel.diagonal_blocks(K, X), expected, rtol=1e-8, atol=1e-13)
    bound = K.norm_bound()
    assert bound is None or max(np.linalg.norm(block, 2) for block in expected) <= bound * (1 + 1e-12)


def test_which_kernels_are_bounded():
    bounded = {name for name, K in instances.OVKERNELS if K.norm_bound() is not None}
    assert bounded == {
        "separable", "separable-multiple", "separable-ard", "sum-not-commuting", "diagonal-one-kernel",
        "transformable-matrices", "transformable-functions", "curl-free", "div-free",
    }  # fmt: skip


ONE, THREE = Gaussian(1.0), 3.0 * Gaussian(2.0)


@pytest.mark.parametrize(
    "K",
    [
        Diagonal([ONE, THREE, 0.5 * ONE]),
        Diagonal([THREE, 0.5 * ONE, ONE]),
        THREE * Dense(instances.B),
        WeightedSum([ONE * Dense(instances.B), Diagonal([ONE, ONE, THREE])], [0.2, 2.0]),
        (THREE * Dense(instances.B)) & Diagonal([ONE, THREE, ONE]),
        Transformable(THREE, np.random.default_rng(0).standard_normal((3, 2, instances.P))),
    ],
    ids=lambda K: type(K).__name__,
)
def test_bounds_of_combinations_with_parts_of_different_size(K):
    """Step sizes and truncation errors rely on the bound; where each part has the value 1 at x = z, all are equal."""
    X = instances.inputs(None, 5, seed=1)
    reached = max(np.linalg.norm(block, 2) for block in K.diagonal_blocks(X))
    assert reached <= K.norm_bound() * (1 + 1e-12)
    if isinstance(K, (Diagonal, Separable)):
        assert_allclose(reached, K.norm_bound())


@pytest.mark.parametrize("K", EVERY)
def test_pairs(K):
    rng = np.random.default_rng(0)
    X, Z = instances.inputs(K, 7, seed=1), instances.inputs(K, 5, seed=2)
    s, t = rng.integers(0, instances.D, 7), rng.integers(0, instances.D, 5)
    one = [[reference.block(K, x, z)[p, q] for z, q in zip(X, s, strict=True)] for x, p in zip(X, s, strict=True)]
    two = [[reference.block(K, x, z)[p, q] for z, q in zip(Z, t, strict=True)] for x, p in zip(X, s, strict=True)]
    for pairs in (K.pairs, lambda *args: OperatorKernel.pairs(K, *args)):
        assert_allclose(pairs(X, s), one, rtol=1e-8, atol=1e-13)
        assert_allclose(pairs(X, s, Z, t), two, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("K", SMOOTH)
def test_jacobian(K):
    X, Z = instances.inputs(K, 4, seed=1), instances.inputs(K, 5, seed=2)
    C = np.random.default_rng(0).standard_normal((5, instances.D))
    expected = reference.jacobian(lambda x: K.gram(x, Z).matmat(C), X, h=5e-3)
    found = K.jacobian(X, Z, C)
    assert found.shape == (4, instances.D, instances.P)
    assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("K", SMOOTH)
def test_jacobian_with_coefficients_for_each_point(K):
    X, Z = instances.inputs(K, 4, seed=1), instances.inputs(K, 5, seed=2)
    C = np.random.default_rng(0).standard_normal((4, 5, instances.D))
    expected = [K.jacobian(X[i : i + 1], Z, C[i])[0] for i in range(4)]
    assert_allclose(K.jacobian(X, Z, C), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("K", EVERY)
def test_gradient_in_hyper_parameters(K):
    X, Z = instances.inputs(K, 4, seed=1), instances.inputs(K, 3, seed=2)
    for other in (None, Z):
        for name, change in K.gradient(X, other).items():
            if name.endswith("self_weight"):
                continue  # at zero there is nothing below; tests/operators has the derivative elsewhere
            expected = reference.derivative(
                lambda t, n=name, o=other: reference.moved(K, n, t).gram(X, o).dense(), 0.0, h=5e-3
            )
            assert_allclose(change.dense(), expected, rtol=1e-8, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("K", EVERY)
def test_products_of_grams_and_gradients_with_weights(K):
    X = instances.inputs(K, 5, seed=1)
    dense = K.gram(X).dense()
    W = np.random.default_rng(0).standard_normal(dense.shape)
    value, slopes = K.gradient_product(W + W.T, X)
    expected = {name: np.sum((W + W.T) * change.dense()) for name, change in K.gradient(X).items()}
    assert_allclose(value, np.sum((W + W.T) * dense), rtol=1e-9, atol=1e-10)
    assert slopes.keys() == expected.keys()
    assert_allclose([slopes[name] for name in expected], list(expected.values()), rtol=1e-9, atol=1e-10)


def test_names_of_gradients():
    X = instances.inputs(None, 3)
    kernels = dict(instances.OVKERNELS)
    assert set(kernels["curl-free-rational-quadratic"].gradient(X)) == {
        "kernel__length_scale",
        "kernel__alpha",
    }
    assert set(kernels["diagonal"].gradient(X)) == {
        "kernels[0]__length_scale",
        "kernels[2]__length_scale",
        "kernels[2]__alpha",
    }
    assert set(kernels["sum-commuting"].gradient(X)) == {
        "kernels[0]__kernel__length_scale",
        "kernels[0]__operator__omega",
    }
    assert "operator__B[0,2]" in kernels["separable"].gradient(X)
    assert "kernel__length_scale[2]" in kernels["separable-ard"].gradient(X)
    assert {"weights[0]", "weights[1]", "kernels[0]__kernel__length_scale"} <= set(kernels["scaled-sum"].gradient(X))


def test_kernels_that_have_no_jacobian_say_so():
    X, C = instances.inputs(None, 3), np.ones((3, 3))
    with pytest.raises(NotDifferentiableError, match=r"transforms\[0\] is a function without a known derivative"):
        dict(instances.OVKERNELS)["transformable-functions"].jacobian(X, X, C)
    with pytest.raises(NotDifferentiableError, match="Laplacian has no closed-form derivative"):
        (Laplacian(1.0) * Identity(3)).jacobian(X, X, C)
    with pytest.raises(NotDifferentiableError, match=r"greater than 3/2 for a Jacobian, got 1\.5"):
        CurlFree(Matern(1.5, 1.0)).jacobian(X, X, C)

    class Own(OperatorKernel):
        output_dim = 3

        def gram(self, X, Z=None):
            return (Gaussian(1.0) * Identity(3)).gram(X, Z)

    with pytest.raises(NotDifferentiableError, match="Own has no closed-form derivative"):
        Own().jacobian(X, X, C)
    assert Own().gradient(X) == {}
    assert Own().norm_bound() is None


@pytest.mark.parametrize("nu", [1.1, 1.5, 1.7, 2.0, 2.2])
@pytest.mark.parametrize("kind", [CurlFree, DivFree])
def test_fields_of_rough_matern_kernels_are_finite_at_the_points(nu, kind):
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.5]])
    K = kind(Matern(nu, 1.0))
    matrix = K.gram(X).dense()
    assert np.isfinite(matrix).all()
    assert np.linalg.eigvalsh(matrix).min() > -1e-6
    assert_allclose(matrix[:2, :2], K.diagonal_blocks(X)[0])
    if nu > 1.5:
        assert np.isfinite(K.jacobian(X, X, np.ones((3, 2)))).all()


def test_kernels_by_name_and_function():
    X = instances.inputs(None, 4)
    K = Separable("linear", Identity(3))
    assert_allclose(K.gram(X).dense(), (Linear() * Identity(3)).gram(X).dense())
    assert_allclose(Diagonal(["linear"] * 3).gram(X).dense(), (Linear() * Identity(3)).gram(X).dense())
    named = Transformable(lambda A, B: A @ B.T)
    assert_allclose(named.gram(X).dense(), Transformable(Linear()).gram(X).dense())


def test_no_rows():
    none, some = np.zeros((0, 3)), instances.inputs(None, 2)
    for _, K in instances.OVKERNELS:
        assert K.gram(none, some).dense().shape == (0, 6)
        assert K.gram(none, some).matmat(np.ones((2, 3))).shape == (0, 3)
        assert K.diagonal_blocks(none).shape == (0, 3, 3)
