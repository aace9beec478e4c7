"""OKVAR-Boost: one run written out, its parts, and the consensus."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reproduce.okvar_boost import Boosting, boost, boosted_scores, dependent_pairs, diffusion, elastic, subset_kernel
from scipy import stats

import reference
import reproduce
from reproduce import okvar_boost
from reproduce.data import make_gene_network

RNG = np.random.default_rng(0)
X = RNG.standard_normal((9, 4)).cumsum(axis=0)
X = (X - X.mean(axis=0)) / X.std(axis=0)


def run_written_out(X, Y, settings, rng):
    """`boost` with loops over entries, plain proximal steps, and derivatives by differences."""
    (n, d), U = X.shape, Y - Y.mean(axis=0)
    first, terms = (U**2).sum(axis=0), []
    for _ in range(settings.rounds):
        active = [j for j in range(d) if (U[:, j] ** 2).sum() > okvar_boost.SMALL * first[j]]
        for _ in range(settings.tries):
            S = sorted(rng.choice(active, min(max(2, round(settings.part * d)), len(active)), replace=False))
            k = len(S)
            R = np.array([[stats.pearsonr(U[:, i], U[:, j])[0] for j in S] for i in S])
            P = np.linalg.inv(0.9 * R + 0.1 * np.eye(k))
            A = np.zeros((k, k))
            for i in range(k):
                for j in range(k):
                    z = np.arctanh(-P[i, j] / np.sqrt(P[i, i] * P[j, j])) if i != j else 0.0
                    p = 2 * (1 - stats.norm.cdf(abs(z) * np.sqrt(n - k - 1)))
                    A[i, j] = float(p < settings.level)
            if A.any():
                break
        else:
            break
        L = np.diag(A.sum(axis=0)) - A
        values, vectors = np.linalg.eigh(L)
        B = sum(np.exp(-settings.beta * v) * np.outer(u, u) for v, u in zip(values, vectors.T, strict=True))
        s = settings.width * np.sqrt(k)

        def kernel(x, z, B=B, s=s, k=k):
            far = np.exp(-sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) / (2 * s**2))
            own = 2 * settings.own_width**2
            return np.array([[B[i, j] * far * np.exp(-((x[i] - z[j]) ** 2) / own) for j in range(k)] for i in range(k)])

        Z, u = X[:, S], U[:, S]
        K = np.block([[kernel(x, z) for z in Z] for x in Z])
        c = np.zeros(n * k)
        step = 0.5 / np.linalg.norm(K @ K + settings.alpha * K, 2)
        for _ in range(100_000):
            w = c - 2 * step * (K @ (K @ c - u.ravel()) + settings.alpha * K @ c)
            new = np.sign(w) * np.maximum(np.abs(w) - step * settings.sparsity, 0)
            if np.abs(new - c).max() < 1e-12:
                break
            c = new
        h = (K @ c).reshape(n, k)
        rho = (u * h).sum() / (h * h).sum()
        U[:, S] -= rho * h
        terms.append((rho, S, kernel, Z, c.reshape(n, k)))

    def function(x):
        total = np.zeros(d)
        for rho, S, kernel, Z, C in terms:
            total[S] += rho * sum(kernel(x[S], z) @ a for z, a in zip(Z, C, strict=True))
        return total

    J = np.zeros((n, d, d))
    for t in range(n):
        for j in range(d):
            e = 1e-5 * np.eye(d)[j]
            J[t, :, j] = (function(X[t] + e) - function(X[t] - e)) / 2e-5
    return J, U


def test_a_run_agrees_with_one_that_is_written_out(monkeypatch):
    settings = Boosting(rounds=3, part=0.75, level=0.7, width=1.0, alpha=0.5, sparsity=0.2)
    monkeypatch.setattr(okvar_boost, "elastic", lambda *args: elastic(*args, tol=1e-11, max_iter=100_000))
    J, U = boost(X[:-1], X[1:], settings, np.random.default_rng(3))
    expected_J, expected_U = run_written_out(X[:-1], X[1:], settings, np.random.default_rng(3))
    assert np.abs(U - (X[1:] - X[1:].mean(axis=0))).max() > 0.1
    assert_allclose(U, expected_U, atol=1e-6)
    assert_allclose(J, expected_J, atol=1e-5)


def test_sparse_coefficients_are_stationary():
    kernel = subset_kernel(diffusion(np.array([[0, 1], [1, 0]]), 0.5), Boosting())
    K, u = kernel.gram(X[:, :2]).dense(), RNG.standard_normal(18)
    assert_allclose(K[:2, :2], reference.block(kernel, X[0, :2], X[0, :2]), atol=1e-12)
    c = elastic(K, u, 0.5, 1.0, tol=1e-12, max_iter=100_000)
    slope = 2 * K @ (K @ c - u) + 2 * 0.5 * K @ c
    assert 0 < (c == 0).sum() < len(c)
    assert_allclose(slope[c != 0], -np.sign(c[c != 0]), atol=1e-6)
    assert np.abs(slope[c == 0]).max() <= 1 + 1e-6


def test_the_test_of_independence_has_its_level_and_stops_the_boosting():
    rng = np.random.default_rng(1)
    found = np.mean([dependent_pairs(rng.standard_normal((20, 4)), 0.05)[0, 1] for _ in range(400)])
    assert 0.01 < found < 0.08
    common = rng.standard_normal((20, 1))
    linked = np.hstack([common + 0.3 * rng.standard_normal((20, 1)), common, rng.standard_normal((20, 1))])
    assert dependent_pairs(linked, 0.001)[0, 1]
    Y = rng.standard_normal((20, 3))
    J, U = boost(rng.standard_normal((20, 3)), Y, Boosting(level=1e-12), rng)
    assert not J.any()
    assert_allclose(U, Y - Y.mean(axis=0))


def test_more_rounds_leave_less():
    left = [
        (boost(X[:-1], X[1:], Boosting(rounds=r, level=0.5), np.random.default_rng(0))[1] ** 2).sum() for r in (1, 3, 6)
    ]
    assert left[0] > left[1] > left[2]


def test_the_consensus_is_reproducible():
    made = make_gene_network(4, 2, 10, random_state=0)
    settings = Boosting(rounds=2, level=0.5)
    scores = boosted_scores(made.series, settings, runs=2)
    assert_allclose(boosted_scores(made.series, settings, runs=2), scores)
    assert scores.max() <= 1.0
    assert_allclose(np.diag(scores), 0.0)


@pytest.mark.long
def test_the_table_has_all_rows():
    result = reproduce.run("okvar_boost", runs=1, networks=2)
    assert 0 < result["simulated, AUROC mean: OKVAR-Boost"] <= 100
