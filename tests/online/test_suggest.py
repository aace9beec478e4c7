"""Suggested parameters: the two regimes agree at their boundary, and the measured dimension has the stated exponent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from ovk.features import TaylorMap
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial, RationalQuadratic, Tanimoto
from ovk.online.theory import (
    capacity_exponent,
    effective_dimension,
    regret_bound,
    suggest,
    suggest_from_capacity,
    taylor_degree,
)
from ovk.operators import Identity
from ovk.ovkernels import CurlFree, Diagonal, Transformable

GAMMAS = st.floats(0.05, 0.95)
ROWS = st.integers(10, 10**9)


@given(ROWS, GAMMAS, st.integers(1, 10**6), st.booleans())
def test_the_three_terms_are_balanced(n, gamma, m, beforehand):
    """For any m, no term of the bound exceeds the suggested regret, and alpha is the largest."""
    found = suggest_from_capacity(n, gamma, m=m, known_beforehand=beforehand)
    dimension = (n / found.alpha) ** gamma
    growths = 1 if beforehand else found.m
    projection = growths * n * found.mu / found.alpha
    assert max(dimension, projection) <= found.regret * (1 + 1e-6)
    assert found.alpha == found.regret >= n ** (gamma / (1 + gamma)) * (1 - 1e-9)
    assert_allclose((n / found.mu) ** gamma, found.m, rtol=1e-6)


@given(ROWS, GAMMAS, st.booleans())
def test_the_default_size_reaches_the_best_rate_if_any_does(n, gamma, beforehand):
    found = suggest_from_capacity(n, gamma, known_beforehand=beforehand)
    assert found.m <= n
    reachable = beforehand or gamma <= np.sqrt(2) - 1
    assert found.optimal == reachable or found.m == n
    if reachable:
        assert_allclose(found.regret, n ** (gamma / (1 + gamma)))


def test_a_growing_dictionary_below_n_reaches_it_for_gamma_below_root_two_minus_one_only():
    """Not for all gamma < 1/2: at 0.45 the rate would require more points than rows."""
    n = 10**6
    assert suggest_from_capacity(n, 0.41).m < n
    assert suggest_from_capacity(n, 0.45).m == n
    assert not suggest_from_capacity(n, 0.45, m=n).optimal
    assert suggest_from_capacity(n, 0.45, known_beforehand=True).optimal


@given(GAMMAS, st.booleans())
def test_the_regimes_meet(gamma, beforehand):
    n = 10**8
    needed = n ** (2 * gamma / (1 + gamma if beforehand else 1 - gamma**2))
    if 2 < needed < n:
        below, above = (
            suggest_from_capacity(n, gamma, m=m, known_beforehand=beforehand)
            for m in (int(needed * 0.999), int(needed) + 2)
        )
        assert above.optimal
        if below.m < needed:
            assert not below.optimal
        ratio = (below.m / needed) ** ((0.0 if beforehand else 0.5) - 1 / (2 * gamma))
        assert_allclose(below.regret / above.regret, ratio, rtol=1e-9)


def test_gaussian():
    found = suggest(Gaussian(1.0), 10_000, 2)
    assert (found.alpha, found.mu) == (1.0, 1e-8)
    assert_allclose(found.regret, np.log(10_000) ** 3)
    assert not suggest(Gaussian(1.0), 10_000, 2, m=5).optimal
    assert suggest(Gaussian(1.0), 10_000, 2, m=5).regret == 10_000
    assert suggest(Gaussian(1.0), 10_000, 2, m=5000).optimal


def test_gaussian_with_many_inputs():
    """(log n)^(p + 1) = 4.8e8 says nothing about 10,000 rows; with all of them, alpha = sqrt(n) has a smaller bound."""
    found = suggest(Gaussian(1.0), 10_000, 8)
    assert (found.alpha, found.m, found.regret, found.optimal) == (100.0, 10_000, 100.0, False)
    X = np.random.default_rng(0).standard_normal((300, 8))
    found = suggest(Gaussian(1.0), 300, 8)
    bound = regret_bound(Gaussian(1.0), X, found.alpha, norm=1.0, largest=1.0)
    assert bound <= 2 * found.regret


@given(st.integers(2, 10**7), st.integers(1, 12), st.none() | st.integers(1, 10**7), st.booleans())
def test_the_suggested_regret_is_at_most_that_of_predicting_zero(n, p, m, beforehand):
    found = suggest(Gaussian(1.0), n, p, m=m, known_beforehand=beforehand)
    assert found.regret <= n
    assert found.m <= n
    assert found.optimal <= (found.regret == max(1.0, np.log(n)) ** (p + 1))


@pytest.mark.parametrize(
    ("kernel", "p", "gamma"),
    [
        (Matern(1.5), 1, 0.25),
        (Matern(0.5), 1, 0.5),
        (Matern(2.0), 4, 0.5),
        (Laplacian(), 3, 0.5),
        (2.0 * Gaussian() + Matern(1.5), 1, 0.25),
        (RationalQuadratic() * Linear(), 5, 0.0),
        (Polynomial(3), 5, 0.0),
        (Matern(1.5) * Identity(3), 1, 0.25),
        (Diagonal([Gaussian(), Matern(0.5)]), 1, 0.5),
        (CurlFree(Matern(3.0)), 2, 1 / 3),
        (0.5 * (CurlFree(Gaussian()) + CurlFree(Matern(2.0))), 2, 0.5),
    ],
)
def test_exponents(kernel, p, gamma):
    assert_allclose(capacity_exponent(kernel, p), gamma)


@pytest.mark.parametrize("nu", [0.5, 1.5])
def test_the_measured_dimension_grows_with_the_exponent(nu):
    """On n equally spaced inputs, the slope of log d_eff against log(1 / alpha) is gamma within a tenth."""
    X = np.linspace(0, 1, 400)[:, None]
    alphas = np.logspace(-0.5, 1.0, 7)
    d_eff = effective_dimension(Matern(nu, 0.5), X, alphas)
    slope = np.polyfit(np.log(1 / alphas), np.log(d_eff), 1)[0]
    assert_allclose(slope, capacity_exponent(Matern(nu), 1), rtol=0.12)


def test_the_dimension_of_a_gaussian_grows_like_a_power_of_the_logarithm():
    X = np.random.default_rng(0).uniform(size=(300, 2))
    alphas = np.logspace(-8, 0, 9)
    d_eff = effective_dimension(Gaussian(0.5), X, alphas)
    slope = np.polyfit(np.log(np.log(300 / alphas)), np.log(d_eff), 1)[0]
    assert 1.0 < slope <= 2.0  # on a bounded domain a little less than the power p


@pytest.mark.parametrize(("n", "p", "radius"), [(100, 1, 1.0), (300, 2, 0.7), (50, 3, 1.5)])
def test_taylor_degree_is_enough_and_least(n, p, radius):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    X *= radius / np.linalg.norm(X, axis=1, keepdims=True)
    degree = taylor_degree(n, p, radius)
    residual = TaylorMap.from_kernel(Gaussian(1.0), degree, np.zeros(p)).residual(X)
    assert residual.sum() <= n**-2.0 * (1 + 1e-9)
    assert TaylorMap.from_kernel(Gaussian(1.0), degree - 1, np.zeros(p)).residual(X).sum() > n**-2.0


def test_bad_input():
    with pytest.raises(ValueError, match="capacity of Tanimoto is not known: compute effective_dimension"):
        suggest(Tanimoto(), 100, 2)
    with pytest.raises(ValueError, match="capacity of Transformable is not known"):
        suggest(Transformable(Gaussian()), 100, 2)
    with pytest.raises(ValueError, match="gamma must be a number in"):
        suggest_from_capacity(100, 1.0)
    with pytest.raises(ValueError, match="n must be an integer"):
        suggest(Gaussian(), 0, 2)
    with pytest.raises(ValueError, match="use Nystrom features"):
        taylor_degree(1000, 20, 10.0)
