"""Profiles, their derivatives, spectral densities and the median rule."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.spatial.distance import pdist

import reference
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, RationalQuadratic
from ovk.kernels import stationary as stationary_module

PROFILES = [
    Gaussian(1.0),
    *(Matern(nu, 1.0) for nu in (0.3, 0.5, 1, 1.5, 2, 2.5, 3.5, 0.8, 1.7, 2.2, 3.3, 4.0, 6.25, 12.1)),
    RationalQuadratic(0.4, 1.0),
    RationalQuadratic(3.0, 1.0),
]


@pytest.mark.parametrize("kernel", PROFILES, ids=repr)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_the_profile(kernel, order):
    s = np.array([0.05, 0.3, 1.0, 2.7, 9.0])
    # An analytic continuation is smooth on the scale of s itself.
    found = np.array(
        [reference.derivative(lambda t: kernel.profile(np.array([t]), order - 1)[0], x, x / 40) for x in s]
    )
    assert_allclose(kernel.profile(s, order), found, rtol=1e-8)


@pytest.mark.parametrize("kernel", PROFILES, ids=repr)
def test_profile_at_zero_and_infinity(kernel):
    values = kernel.profile(np.array([0.0, 1e-300, 1e-40, 1e-20, 1e9, 1e300]))
    assert_allclose(values[:2], 1.0, atol=1e-13)
    assert (np.diff(values) <= 1e-13).all()
    assert (values >= 0).all()
    assert values[-1] == pytest.approx(0.0, abs=1e-100)


@pytest.mark.parametrize("alpha", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_shape_gradient_of_the_rational_quadratic(alpha, order):
    s = np.array([0.0, 0.3, 2.0, 20.0])
    expected = reference.derivative(lambda a: RationalQuadratic(a, 1.0).profile(s, order), alpha)
    assert_allclose(RationalQuadratic(alpha, 1.0).shape_gradient(s, order)["alpha"], expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("nu", [30.3, 60.0, 99.5, 99.9, 100])
def test_matern_of_large_nu_is_finite_and_nearly_gaussian(nu):
    X = np.array([[0.0], [1e-160], [1e-12], [1e-3], [1.0], [3.0], [1e6]])
    assert_allclose(Matern(nu, 1.0)(X), Gaussian(1.0)(X), atol=0.3 / nu)


def test_matern_of_nu_above_the_limit_is_refused():
    with pytest.raises(ValueError, match="nu must be at most 100, got 101: use a Gaussian"):
        Matern(101, 1.0)(np.zeros((2, 1)))


def test_bessel_functions_and_polynomials_agree():
    """Half-integers have closed forms; a neighbour goes through Bessel functions."""
    s = np.linspace(0.0, 30.0, 50)
    for nu in (0.5, 1.5, 2.5, 3.5, 7.5):
        assert_allclose(Matern(nu, 1.0).profile(s), Matern(nu + 1e-9, 1.0).profile(s), atol=1e-7)


FREQUENCIES = [
    Gaussian(1.3),
    Gaussian(np.array([0.5, 2.0])),
    Matern(0.5, 1.3),
    Matern(2.2, np.array([0.5, 2.0])),
    RationalQuadratic(0.7, 1.3),
    Laplacian(1.3),
]


@pytest.mark.parametrize("kernel", FREQUENCIES, ids=repr)
def test_frequencies_come_from_the_spectral_density(kernel):
    rng = np.random.default_rng(0)
    n = 40_000
    W = kernel.sample_frequencies(n, 2, rng)
    assert W.shape == (n, 2)
    X = rng.standard_normal((6, 2))
    difference = (X[:, None] - X[None]).reshape(-1, 2)
    # Means of n cosines: five standard errors.
    assert_allclose(np.cos(difference @ W.T).mean(axis=1), kernel(X).ravel(), atol=5 / np.sqrt(n))


# ---------------------------------------------------------------------------------------------- length scales

MEDIAN = [(Gaussian(), "euclidean"), (Matern(2.5), "euclidean"), (RationalQuadratic(2.0), "euclidean")]
MEDIAN += [(Laplacian(), "cityblock")]


@pytest.mark.parametrize(("kernel", "metric"), MEDIAN, ids=lambda value: type(value).__name__)
def test_median(kernel, metric):
    X = np.random.default_rng(0).standard_normal((30, 4))
    resolved = kernel.resolve(X)
    assert resolved.length_scale == pytest.approx(np.median(pdist(X, metric)))
    assert kernel.length_scale == "median"
    assert resolved.resolve(2.0 * X) is resolved
    others = {name: value for name, value in kernel.get_params().items() if name != "length_scale"}
    assert {name: resolved.get_params()[name] for name in others} == others


@pytest.mark.parametrize(("kernel", "metric"), MEDIAN, ids=lambda value: type(value).__name__)
def test_median_of_one_place_is_one(kernel, metric):
    assert kernel.resolve(np.full((5, 2), 3.0)).length_scale == 1.0
    assert kernel.resolve(np.full((1, 2), 3.0)).length_scale == 1.0


def test_median_counts_repeated_rows_once_in_any_order():
    X = np.random.default_rng(0).standard_normal((20, 2))
    again = np.concatenate([X, X[:7], X[:7]])[::-1]
    assert Gaussian().resolve(again).length_scale == pytest.approx(Gaussian().resolve(X).length_scale)


def test_median_of_sparse_and_of_many_rows(monkeypatch):
    X = np.random.default_rng(0).standard_normal((300, 2))
    exact = np.median(pdist(X))
    assert Gaussian().resolve(sparse.csr_array(X)).length_scale == pytest.approx(exact)
    monkeypatch.setattr(stationary_module, "MAX_SAMPLED_ROWS", 100)
    monkeypatch.setattr(stationary_module, "MAX_DEDUPLICATED_ROWS", 200)
    assert Gaussian().resolve(X).length_scale == pytest.approx(exact, rel=0.2)


def test_median_inside_other_kernels():
    X = np.random.default_rng(0).standard_normal((10, 2))
    scale = np.median(pdist(X))
    kernel = 2.0 * (Gaussian() + Linear()) * Matern(1.5)
    resolved = kernel.resolve(X)
    assert resolved.left.kernel.left.length_scale == resolved.right.length_scale == pytest.approx(scale)
    assert kernel.left.kernel.left.length_scale == kernel.right.length_scale == "median"
    unchanged = Linear() + Gaussian(1.0)
    assert unchanged.resolve(X) is unchanged


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(), RationalQuadratic(), Laplacian()], ids=repr)
def test_unresolved_median_says_what_to_do(kernel):
    X = np.zeros((2, 2))
    for call in (kernel, kernel.diag, kernel.gradient):
        with pytest.raises(ValueError, match=r"length_scale='median' of \w+ is learned .* kernel\.resolve\(X\)"):
            call(X)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, [1.0, -1.0], [[1.0]], []])
def test_bad_length_scales(scale):
    with pytest.raises(ValueError, match=r"length_scale must be .*positive.*, got"):
        Gaussian(scale)(np.zeros((2, 2)))


@pytest.mark.parametrize("scale", ["mean", None, {}, "2.0"])
def test_length_scales_that_are_no_numbers(scale):
    with pytest.raises(ValueError, match="length_scale must be"):
        Gaussian(scale)(np.zeros((2, 2)))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, "mean", None, np.array([1.0, 2.0]), True])
def test_bad_length_scales_of_the_laplacian(scale):
    with pytest.raises(ValueError, match=r"length_scale .*, got"):
        Laplacian(scale)(np.zeros((2, 2)))


def test_wrong_number_of_length_scales():
    for call in (Gaussian([1.0, 2.0]), Gaussian([1.0, 2.0]).diag, Gaussian([1.0, 2.0]).gradient):
        with pytest.raises(ValueError, match="length_scale must have 3 entries, one for each input, got 2"):
            call(np.zeros((2, 3)))


def test_bad_shapes():
    with pytest.raises(ValueError, match="nu must be positive and finite, got 0"):
        Matern(0, 1.0)(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="alpha must be positive and finite, got 'a'"):
        RationalQuadratic("a", 1.0)(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="mu must be positive and finite, got -1"):
        Gaussian.from_mu(-1)


def test_mu_of_the_papers():
    x, z = np.array([[0.3, -1.0]]), np.array([[1.0, 2.0]])
    assert_allclose(Gaussian.from_mu(5.0)(x, z), np.exp(-((x - z) ** 2).sum() / 5.0))


@pytest.mark.parametrize("scale", [0.7, np.array([0.5, 2.0, 1.0])])
@pytest.mark.parametrize("nu", [0.3, 0.5])
def test_rough_kernels_are_exact_near_zero_whatever_the_shape_of_the_call(nu, scale):
    rng = np.random.default_rng(0)
    Z = 10.0 + rng.standard_normal((200, 3))
    X = np.concatenate([Z[:5], Z[:5] + 1e-7 * rng.standard_normal((5, 3)), rng.standard_normal((5, 3))])
    k = Matern(nu, scale)
    s = (((X[:, None] - Z[None]) / scale) ** 2).sum(axis=2)
    expected = k.profile(s)
    np.testing.assert_allclose(np.diagonal(k(X[:5], Z)), 1.0, rtol=1e-14)
    np.testing.assert_allclose(k(X, Z), expected, rtol=1e-9)
    for i in range(len(X)):
        np.testing.assert_allclose(k(X[i : i + 1], Z)[0], expected[i], rtol=1e-9)
    W = rng.standard_normal((200, 2))
    np.testing.assert_allclose(k.product(X, Z, W), expected @ W, rtol=1e-9, atol=1e-12)
