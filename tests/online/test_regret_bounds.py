"""The regret bounds hold on random, smooth and adversarial sequences; the constants of KORS hold over many draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import instances
import reference
from ovk.features import NystromMap, OperatorNystromMap, TaylorMap
from ovk.kernels import Gaussian
from ovk.online.theory import (
    kors_beta,
    kors_gap,
    kors_size_bound,
    log_determinant,
    projected_regret_bound,
    regret_bound,
    spilled_regret_bound,
)
from ovk.operators import Dense
from ovk.ovkernels import CurlFree, Separable

N = 40


def labels(kind, X, rng):
    if kind == "random":
        return rng.choice([-1.0, 1.0], size=(len(X), 1))
    return np.sin(3 * X[:, :1])


def against(forecast, n):
    """Labels chosen against the learner: each of size one, opposite to its prediction."""
    Y = np.zeros((n, 1))
    for t in range(n):
        Y[t] = -1.0 if forecast(Y)[t, 0] >= 0 else 1.0
    return Y


def best_in_hindsight(K, Y, alpha):
    """Loss and norm of the minimiser of loss + alpha |f|^2."""
    c = np.linalg.solve(K + alpha * np.eye(len(K)), Y.reshape(-1))
    return np.sum((Y.reshape(-1) - K @ c) ** 2), np.sqrt(max(c @ K @ c, 0.0))


def regret(F, Y, loss):
    return np.sum((F - Y) ** 2) - loss


@pytest.mark.parametrize("kind", ["random", "smooth", "adversarial"])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_the_exact_forecaster(kind, alpha):
    rng = np.random.default_rng(0)
    X, k = rng.uniform(-1, 1, (N, 2)), Gaussian(0.5)
    phi = NystromMap.from_points(k, X).transform(X)[:, None]
    K = k(X)

    def forecast(Y):
        return reference.feature_forecasts(phi, Y, alpha)

    Y = against(forecast, N) if kind == "adversarial" else labels(kind, X, rng)
    # Against the regularised minimiser, and against a function that fits the labels closely.
    for ridge in (alpha, 0.1 * alpha):
        loss, norm = best_in_hindsight(K, Y, ridge)
        bound = regret_bound(k, X, alpha, norm=norm, largest=1.0)
        found = regret(forecast(Y), Y, loss)
        assert found <= bound
        if kind == "adversarial" and ridge == alpha:
            assert found > 0.2 * bound  # the bound is no mere formality


@pytest.mark.parametrize("K", [CurlFree(Gaussian(0.7)), Separable(Gaussian(0.7), Dense([[1.0, 0.5], [0.5, 2.0]]))])
def test_several_outputs(K):
    rng = np.random.default_rng(1)
    X, alpha = rng.uniform(-1, 1, (30, 2)), 0.3
    phi = OperatorNystromMap.from_points(K, X).transform(X).reshape(30, 2, -1)
    Y = rng.standard_normal((30, 2))
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    loss, norm = best_in_hindsight(reference.gram(K, X), Y, alpha)
    assert regret(reference.feature_forecasts(phi, Y, alpha), Y, loss) <= regret_bound(
        K, X, alpha, norm=norm, largest=1.0
    )


def dictionaries(K, kept):
    """The factor L of the kernel matrix, and for each row a basis of the span of the points kept so far."""
    L = np.linalg.cholesky(K + 1e-12 * np.eye(len(K)))

    def basis(t):
        return np.linalg.qr(L[[i for i in kept if i <= t]].T)[0]

    return L, basis


def gap(K, L, basis):
    """The maximum over time of the largest eigenvalue of K - K~."""
    return max(
        np.linalg.eigvalsh(K[: t + 1, : t + 1] - (L[: t + 1] @ basis(t)) @ (L[: t + 1] @ basis(t)).T)[-1]
        for t in range(len(K))
    )


@pytest.mark.parametrize("kind", ["random", "smooth", "adversarial"])
@pytest.mark.parametrize("mu", [0.02, 0.5])
def test_the_projected_forecaster(kind, mu):
    rng = np.random.default_rng(2)
    alpha, k = 0.5, Gaussian(0.5)
    X = rng.uniform(-1, 1, (N, 2))
    K = k(X)
    kept = reference.kors(K, mu, 1.0, 0.5, rng.random(N))
    L, basis = dictionaries(K, kept)

    def forecast(Y):
        return reference.feature_forecasts(L[:, None], Y, alpha, basis)

    Y = against(forecast, N) if kind == "adversarial" else labels(kind, X, rng)
    loss, norm = best_in_hindsight(K, Y, alpha)
    bound = projected_regret_bound(k, X, alpha, norm=norm, largest=1.0, gap=gap(K, L, basis), growths=len(kept))
    assert 3 < len(kept) < N
    assert regret(forecast(Y), Y, loss) <= bound


def test_a_dictionary_known_beforehand_adds_the_gap_once():
    rng = np.random.default_rng(3)
    alpha, k = 0.5, Gaussian(0.3)
    X = rng.uniform(-1, 1, (N, 2))
    K, Y = k(X), rng.choice([-1.0, 1.0], size=(N, 1))
    features = NystromMap.from_points(k, X[:15])
    phi = features.transform(X)
    worst = np.linalg.eigvalsh(K - phi @ phi.T)[-1]
    loss, norm = best_in_hindsight(K, Y, alpha)
    bounds = [projected_regret_bound(k, X, alpha, norm=norm, largest=1.0, gap=worst, growths=g) for g in (0, 15)]
    assert regret(reference.feature_forecasts(phi[:, None], Y, alpha), Y, loss) <= bounds[0] < bounds[1]


@pytest.mark.parametrize("kind", ["random", "smooth"])
def test_features_left_as_they_were_projected(kind):
    rng = np.random.default_rng(4)
    alpha, k = 0.5, Gaussian(0.5)
    X = rng.uniform(-1, 1, (N, 2))
    K, Y = k(X), labels(kind, X, rng)
    kept = reference.kors(K, 0.3, 1.0, 0.5, rng.random(N))
    L, basis = dictionaries(K, kept)
    phi = np.array([L[t] @ basis(t) @ basis(t).T for t in range(N)])
    spill = np.sum(np.diagonal(K) - np.sum(phi**2, axis=1))
    loss, norm = best_in_hindsight(K, Y, alpha)
    bound = spilled_regret_bound(phi, alpha, norm=norm, largest=1.0, spill=spill, loss=loss)
    assert spill > 0.1
    assert regret(reference.feature_forecasts(phi[:, None], Y, alpha), Y, loss) <= bound


def test_the_spill_of_a_taylor_map():
    k, X = Gaussian(0.5), np.random.default_rng(5).uniform(-1, 1, (N, 2))
    features = TaylorMap.from_kernel(k, 25, np.zeros(2))
    args = {"norm": 1.0, "largest": 1.0, "loss": 1.0}
    close = spilled_regret_bound(features.transform(X), 1.0, spill=features.residual(X).sum(), **args)
    assert_allclose(close, regret_bound(k, X, 1.0, norm=1.0, largest=1.0), rtol=1e-4)


def test_the_largest_eigenvalue_of_the_operator_scales_the_gap():
    X = np.random.default_rng(6).uniform(-1, 1, (10, 2))
    K, args = Gaussian(0.5) * Dense([[4.0, 0.0], [0.0, 1.0]]), {"norm": 0.0, "largest": 1.0}
    extra = projected_regret_bound(K, X, 1.0, gap=0.1, growths=0, **args) - regret_bound(K, X, 1.0, **args)
    assert_allclose(extra, 10 * 0.4 / 1.4)
    with pytest.raises(ValueError, match="scalar kernel or a product"):
        projected_regret_bound(CurlFree(Gaussian(0.5)), X, 1.0, gap=0.1, growths=0, **args)


# ------------------------------------------------------------------------------------------------------- KORS


def draws(beta, eps, mu, repeats):
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, (200, 1))
    K = Gaussian(0.3)(X)
    return X, K, [reference.kors(K, mu, beta, eps, rng.random(len(X))) for _ in range(repeats)]


def test_the_size_and_the_gap_of_kors_with_the_constants_of_the_proof():
    """None of 8 draws exceeds a bound that may fail with probability 1/20; the bounds are far from tight."""
    mu, eps = 2.0, 0.5
    beta = kors_beta(200, delta=0.05, eps=eps)
    X, K, found = draws(beta, eps, mu, 8)
    limit = kors_size_bound(Gaussian(0.3), X, mu, beta=beta, delta=0.05, eps=eps)
    for kept in found:
        assert len(kept) <= limit
        phi = NystromMap.from_points(Gaussian(0.3), X[kept]).transform(X)
        assert np.linalg.eigvalsh(K - phi @ phi.T)[-1] <= kors_gap(mu, eps)


def test_the_size_of_kors_with_a_practical_beta_follows_the_dimension():
    mu, eps, beta = 0.5, 0.5, 0.5
    X, _, found = draws(beta, eps, mu, 30)
    limit = kors_size_bound(Gaussian(0.3), X, mu, beta=beta, delta=0.05, eps=eps)
    sizes = [len(kept) for kept in found]
    assert 3 < np.mean(sizes) < limit < 60
    assert limit <= 3 * (np.e - 1) * beta * log_determinant(Gaussian(0.3), X, mu) + np.log(20)


def test_estimated_leverages_are_never_below_the_true_ones_when_accurate():
    """tau <= tau~ <= (1 + eps) / (1 - eps) tau for weights within eps, from the definition."""
    rng, eps, mu = np.random.default_rng(8), 0.5, 0.3
    phi = rng.standard_normal((20, 4))
    C = phi.T @ phi
    for _ in range(200):
        # Any matrix within eps of C + mu I, in the sense of the proof.
        R = np.linalg.cholesky(C + mu * np.eye(4))
        E = rng.standard_normal((4, 4))
        E = E + E.T
        E *= eps / np.abs(np.linalg.eigvalsh(E)).max()
        C_S = C + R @ E @ R.T
        x = rng.standard_normal(4)
        r, guess = (mu * x @ np.linalg.solve(M + mu * np.eye(4), x) for M in (C, C_S))
        true, estimate = r / (r + mu), (1 + eps) * guess / (guess + mu)
        assert true - 1e-12 <= estimate <= (1 + eps) / (1 - eps) * true + 1e-12


def test_bad_input():
    X = instances.inputs(None, 5)
    with pytest.raises(ValueError, match="largest must be non-negative and finite"):
        regret_bound(Gaussian(1.0), X, 1.0, norm=1.0, largest=-1.0)
    with pytest.raises(ValueError, match="growths must be an integer >= 0"):
        projected_regret_bound(Gaussian(1.0), X, 1.0, norm=1.0, largest=1.0, gap=0.1, growths=-1)
    with pytest.raises(ValueError, match="eps must be a number"):
        kors_gap(1.0, eps=1.0)
    with pytest.raises(ValueError, match="delta must be a number"):
        kors_beta(10, delta=0.0)
