"""Random Fourier features: unbiased, with the stated variance; curl-free and divergence-free fields stay so."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import instances
import ovk
import reference
from ovk.features import (
    Fourier,
    FourierMap,
    LinearFourier,
    Nystrom,
    NystromMap,
    OperatorFourier,
    OperatorFourierMap,
    Taylor,
)
from ovk.features.fourier import complement
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, RationalQuadratic
from ovk.operators import Dense, Identity, LowRank, MixedEffect
from ovk.ovkernels import CurlFree, Diagonal, DivFree, Hadamard, Transformable

STATIONARY = [
    ("gaussian", Gaussian(1.3)),
    ("gaussian-ard", Gaussian(instances.ARD)),
    ("laplacian", Laplacian(2.0)),
    ("matern", Matern(1.5, 1.2)),
    ("rational-quadratic", RationalQuadratic(0.7, 1.1)),
    ("sum", 2.0 * Gaussian(0.7) + Matern(2.5, 2.0)),
    ("product", Gaussian(2.0) * Laplacian(3.0)),
    ("nested", 0.5 * (Gaussian(instances.ARD) + 2.0 * Matern(1.5, 3.0)) * Gaussian(2.0)),
]

FIELDS = [
    ("separable", Gaussian(1.3) * Dense(instances.B)),
    ("separable-low-rank", Matern(2.5, 2.0) * LowRank([[1.0], [2.0], [-1.0]])),
    ("diagonal", Diagonal([Gaussian(1.0), 2.0 * Matern(2.5, 1.0), RationalQuadratic(1.0, 2.0)])),
    ("sum", Gaussian(1.3) * Dense(instances.B) + Matern(1.5, 2.0) * MixedEffect(0.6, 3)),
    ("scaled", 1.5 * (CurlFree(Gaussian(1.3)) + Gaussian(2.0) * Identity(3))),
    ("hadamard", Hadamard(Gaussian(1.3) * Dense(instances.B), Matern(2.5, 2.0) * MixedEffect(0.4, 3))),
    ("hadamard-field", Hadamard(CurlFree(Gaussian(1.3)), Matern(2.5, 2.0) * MixedEffect(0.4, 3))),
    ("transformable", Transformable(Gaussian(1.1))),
    ("transformable-matrices", Transformable(Matern(2.5, 1.5), instances._MATRICES)),
    ("curl-free", CurlFree(Gaussian(1.4))),
    ("curl-free-matern", CurlFree(Matern(3.5, 1.4))),
    ("div-free", DivFree(Gaussian(1.4))),
    ("helmholtz", CurlFree(Gaussian(1.4)) + 0.5 * DivFree(Gaussian(2.0))),
]


@pytest.mark.parametrize("kernel", instances.each(STATIONARY))
def test_unbiased_with_the_stated_variance(kernel):
    """The mean of many maps is the kernel, and their variance that of the docstring, within five standard errors."""
    X = 0.7 * instances.inputs(kernel, 4, seed=1)
    n, repeats = 5, 4000
    features = FourierMap.from_kernel(kernel, n * repeats, instances.P, rng=0)
    phi = features.transform(X).reshape(4, 2, repeats, n)
    grams = np.einsum("icrn,jcrn->rij", phi, phi) * repeats  # each repeat a map of n frequencies
    exact = reference.scalar_gram(kernel, X)
    mass = exact[0, 0]
    assert_allclose(features.mass, mass)
    doubled = reference.scalar_gram(kernel, 2 * X)
    variance = (mass**2 + mass * doubled - 2 * exact**2) / (2 * n)
    assert (np.abs(grams.mean(axis=0) - exact) <= 5 * np.sqrt(variance / repeats) + 1e-12).all()
    assert_allclose(grams.var(axis=0), variance, rtol=0.15, atol=1e-12)


def test_large_errors_are_as_rare_as_stated():
    kernel, X = Gaussian(1.0), instances.inputs(None, 2, seed=3)
    n, e = 50, 0.3
    errors = [
        abs(np.prod(FourierMap.from_kernel(kernel, n, 3, rng=seed).transform(X), axis=0).sum() - kernel(X)[0, 1])
        for seed in range(2000)
    ]
    assert np.mean(np.array(errors) > e) <= 2 * np.exp(-n * e**2 / 2)


@pytest.mark.parametrize("kernel", instances.each(STATIONARY))
def test_the_diagonal_is_exact(kernel):
    X = instances.inputs(kernel, 6)
    phi = FourierMap.from_kernel(kernel, 10, instances.P, rng=0).transform(X)
    assert phi.shape == (6, 20)
    assert_allclose((phi**2).sum(axis=1), kernel.diag(X))


FIELD = CurlFree(Gaussian(1.4)) + Gaussian(1.0) * Dense(instances.B)
PLANS = [(Gaussian(1.0), plan) for plan in (Fourier(10), LinearFourier(10), LinearFourier(0), Taylor(4), Nystrom())]


@pytest.mark.parametrize(("kernel", "plan"), [*PLANS, (FIELD, OperatorFourier(10)), (FIELD, Nystrom())])
def test_a_saved_learner_has_the_features_that_were_drawn(kernel, plan, tmp_path):
    X = instances.inputs(None, 5)
    model = ovk.PKAWV(kernel, features=plan, random_state=0).fit(X, X)
    ovk.save(model, tmp_path / "model")
    again = ovk.load(tmp_path / "model").features_
    assert np.array_equal(again.transform(X), model.features_.transform(X))
    assert again.same(model.features_)


def test_a_seed_and_its_generator_draw_the_same():
    X = instances.inputs(None, 5)
    a, b = (FourierMap.from_kernel(Gaussian(1.0), 10, 3, rng=rng) for rng in (3, np.random.default_rng(3)))
    assert np.array_equal(a.transform(X), b.transform(X))


# -------------------------------------------------------------------------------------------- operator-valued


@pytest.mark.parametrize("K", instances.each(FIELDS))
def test_operator_features_are_unbiased(K):
    """Means over batches of frequencies are normal: no entry lies beyond five standard errors."""
    X = 0.7 * instances.inputs(K, 3, seed=1)
    rng = np.random.default_rng(2)
    grams = []
    for _ in range(40):
        features = OperatorFourierMap.from_kernel(K, 500, instances.P, rng)
        phi = features.transform(X)
        grams.append(phi @ phi.T)
    assert features.per == instances.D
    assert phi.shape == (9, features.m)
    exact = reference.gram(K, X)
    error = np.std(grams, axis=0) / np.sqrt(40)
    assert (np.abs(np.mean(grams, axis=0) - exact) <= 5 * error + 1e-10).all()
    assert np.abs(np.mean(grams, axis=0) - exact).max() < 0.1 * np.abs(exact).max()


@pytest.mark.parametrize("K", [CurlFree(Gaussian(1.4)), DivFree(Gaussian(1.4)), Gaussian(1.4) * Dense(instances.B)])
def test_amplitudes_of_waves(K):
    X, Z = instances.inputs(K, 3, seed=1), instances.inputs(K, 2, seed=2)
    features = OperatorFourierMap.from_kernel(K, 4, instances.P, rng=0)
    W = features.terms[0].frequencies
    expected = np.block(
        [[sum(np.cos(w @ (x - z)) * reference.wave_amplitude(K, w) for w in W) / 4 for z in Z] for x in X]
    )
    assert_allclose(features.transform(X) @ features.transform(Z).T, expected, atol=1e-12)


def test_the_error_decreases_like_one_over_the_root():
    K, X = CurlFree(Gaussian(1.4)), instances.inputs(None, 4)
    G = K.gram(X).dense()

    def error(n):
        maps = [OperatorFourierMap.from_kernel(K, n, 3, rng=seed).transform(X) for seed in range(30)]
        return np.sqrt(np.mean([(phi @ phi.T - G) ** 2 for phi in maps]))

    assert_allclose(error(50) / error(3200), 8.0, rtol=0.2)


@pytest.mark.parametrize(
    ("K", "zero"),
    [
        (CurlFree(Gaussian(1.4)), reference.curl),
        (CurlFree(Matern(3.5, 1.4)), reference.curl),
        (DivFree(Gaussian(1.4)), reference.divergence),
    ],
)
def test_functions_of_the_features_are_fields_of_their_kind(K, zero):
    features = OperatorFourierMap.from_kernel(K, 20, 3, rng=0)
    w = np.random.default_rng(1).standard_normal(features.m)
    J = reference.jacobian(lambda X: (features.transform(X) @ w).reshape(-1, 3), instances.inputs(None, 5))
    assert np.abs(J).max() > 0.1
    assert np.abs(zero(J)).max() < 1e-8 * np.abs(J).max()


def test_a_divergence_free_field_in_the_plane_has_one_feature_of_each_kind_a_frequency():
    assert OperatorFourierMap.from_kernel(DivFree(Gaussian(1.0)), 7, 2, rng=0).m == 14


@pytest.mark.parametrize("d", [2, 3, 5])
def test_complement(d):
    V = np.random.default_rng(0).standard_normal((20, d))
    V[0], V[1], V[2] = 0.0, np.eye(d)[0], -np.eye(d)[0]
    B = complement(V)
    expected = [(v @ v) * np.eye(d) - np.outer(v, v) for v in V]
    assert_allclose(B @ B.transpose(0, 2, 1), expected, atol=1e-12)


def test_root_of_singular_operators():
    T = LowRank([[1.0], [2.0], [0.0]])
    root = T.eigh().root()
    assert root.shape == (3, 1)
    assert_allclose(root @ root.T, T.dense(), atol=1e-14)


def test_scalar_and_operator_maps_agree_for_one_output():
    X = instances.inputs(None, 5)
    scalar = FourierMap.from_kernel(Gaussian(1.0), 10, 3, rng=0).transform(X)
    operator = OperatorFourierMap.from_kernel(Gaussian(1.0) * Identity(1), 10, 3, rng=0).transform(X)
    assert_allclose(np.abs(operator), np.abs(scalar))
    assert_allclose(operator @ operator.T, scalar @ scalar.T)


def test_bad_arguments():
    with pytest.raises(ValueError, match="Fourier features support Gaussian"):
        FourierMap.from_kernel(Gaussian(1.0) + Linear(), 5, 2)
    with pytest.raises(ValueError, match="learned from training inputs"):
        FourierMap.from_kernel(Gaussian(), 5, 2)
    with pytest.raises(ValueError, match="n must be an integer >= 1"):
        FourierMap.from_kernel(Gaussian(1.0), 0, 2)
    with pytest.raises(ValueError, match=r"shape \(n, 2\)"):
        FourierMap.from_kernel(Gaussian(1.0), 5, 2).transform(np.ones((3, 4)))
    with pytest.raises(ValueError, match="Identity requires output_dim"):
        OperatorFourierMap.from_kernel(Gaussian(1.0), 5, 2)
    with pytest.raises(ValueError, match="entrywise products with a Transformable"):
        OperatorFourierMap.from_kernel(Gaussian(1.0) * Identity(2) & Transformable(Gaussian(1.0)), 5, 2)
    with pytest.raises(ValueError, match=r"same number of outputs, got \[2, 3\]"):
        OperatorFourierMap.from_kernel(Gaussian(1.0) * Identity(2) + Gaussian(1.0) * Identity(3), 5, 2)
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        OperatorFourierMap.from_kernel(CurlFree(Gaussian(1.0)), 5, 1)


def test_a_kernel_that_is_not_stationary_raises():
    class Other(CurlFree.__base__):
        def _form(self, p):
            raise NotImplementedError

    with pytest.raises(ValueError, match="got Other: use Nystrom"):
        OperatorFourierMap.from_kernel(Other(Gaussian(1.0)), 5, 2)


def test_nystrom_of_the_same_kernel_agrees_where_fourier_has_converged():
    X = instances.inputs(None, 6)
    a = FourierMap.from_kernel(Gaussian(2.0), 20_000, 3, rng=0).transform(X)
    b = NystromMap.from_points(Gaussian(2.0), X).transform(X)
    assert_allclose(a @ a.T, b @ b.T, atol=0.03)


def test_linear_and_fourier_features_approximate_the_sum_of_kernels():
    X = np.random.default_rng(0).standard_normal((6, 3))
    features = LinearFourier(4000, weight=2.5).build(Gaussian(1.5) * Identity(1), 3, 1, np.random.default_rng(0))
    phi = features.transform(X)
    assert phi.shape == (6, features.m)
    assert_allclose(phi @ phi.T, 2.5 * (1 + X @ X.T) + Gaussian(1.5)(X), atol=0.1)
    assert_allclose(features.prior(X)[:, 0, 0], 2.5 * (1 + (X**2).sum(axis=1)) + 1.0)
    linear = LinearFourier(0).build(Gaussian(1.5) * Identity(1), 3, 1, np.random.default_rng(0))
    phi = linear.transform(X)
    assert_allclose(phi @ phi.T, 10 * (1 + X @ X.T))
    with pytest.raises(ValueError, match="scalar kernels and products"):
        LinearFourier().build(CurlFree(Gaussian(1.0)), 2, 2, np.random.default_rng(0))
