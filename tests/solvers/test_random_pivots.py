"""Randomly pivoted Cholesky: distribution of pivots, residual, and use as a preconditioner."""

from __future__ import annotations

import numpy as np
import pytest

from ovk import IOKR, OVKRidge
from ovk.batch.operator_learning.exact import FactoredRidge, TiledRidge
from ovk.features import Given, RPCholesky
from ovk.kernels import Gaussian, Linear
from ovk.operators import Dense, MixedEffect
from ovk.ovkernels import CurlFree
from ovk.solvers.iterative import _accepted, conjugate_gradients, random_pivots

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3))
K = Gaussian(1.0)(X)


def pivots_of(matrix, rank, seed, tol=0.0):
    return random_pivots(lambda i, j: matrix[np.ix_(i, j)], np.diagonal(matrix), rank, np.random.default_rng(seed), tol)


def test_the_factor_is_the_nystrom_approximation_at_its_pivots():
    found = pivots_of(K, 60, 0)
    S = found.pivots
    assert len(set(S.tolist())) == len(S) == 60
    expected = K[:, S] @ np.linalg.solve(K[np.ix_(S, S)], K[S])
    np.testing.assert_allclose(found.F @ found.F.T, expected, atol=1e-8)
    assert found.left == pytest.approx(np.trace(K - expected) / np.trace(K), rel=1e-6)
    few = pivots_of(K, 300, 0, tol=0.1)
    assert len(few.pivots) < 100
    assert few.left <= 0.1


def test_blocks_draw_as_one_by_one_would():
    """The distribution of the second pivot over many draws equals d_i / sum d after the first."""
    small = np.array([[2.0, 1.9, 0.0, 0.0], [1.9, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.3], [0.0, 0.0, 0.3, 1.0]])
    expected = np.zeros(4)
    for i in range(4):
        d = np.diagonal(small) - small[:, i] ** 2 / small[i, i]
        expected += small[i, i] / 6.0 * d / d.sum()
    counts, rng = np.zeros(4), np.random.default_rng(1)
    for _ in range(2000):
        proposed = rng.choice(4, size=30, p=np.diagonal(small) / 6.0)
        kept, _ = _accepted(small[np.ix_(proposed, proposed)], np.diagonal(small)[proposed], rng, 1e-12)
        counts[proposed[kept[1]]] += 1
    np.testing.assert_allclose(counts / counts.sum(), expected, atol=0.035)


def test_the_trace_left_is_below_that_of_uniform_landmarks():
    # A dense cluster, from which most uniform landmarks are drawn, and a few distant points.
    Z = np.vstack([0.1 * RNG.standard_normal((270, 2)), 4.0 * RNG.standard_normal((30, 2))])
    G = Gaussian(1.0)(Z)
    left = np.mean([pivots_of(G, 20, seed).left for seed in range(5)])
    uniform = []
    for seed in range(5):
        S = np.random.default_rng(seed).choice(300, 20, replace=False)
        F = np.linalg.lstsq(G[np.ix_(S, S)], G[S], rcond=1e-10)[0]
        uniform.append(1.0 - np.sum(F * G[S]) / np.trace(G))
    assert left < 0.5 * np.mean(uniform)


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Gaussian(1.0) * Dense([[1.0, 0.3], [0.3, 1.0]]),
                                    Gaussian(1.0) * MixedEffect(0.2) + Linear() * MixedEffect(0.9)])  # fmt: skip
def test_landmarks_of_ridge(kernel):
    Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1])])
    model = OVKRidge(kernel, 1e-3, landmarks=RPCholesky(80), random_state=0).fit(X, Y)
    assert len(model.X_fit_) <= 80
    rows = {tuple(row) for row in X.tolist()}
    assert {tuple(row) for row in model.X_fit_.tolist()} <= rows
    assert model.score(X, Y) > 0.95
    again = OVKRidge(kernel, 1e-3, landmarks=RPCholesky(80), random_state=0).fit(X, Y)
    np.testing.assert_array_equal(again.X_fit_, model.X_fit_)


def test_landmarks_everywhere():
    y = np.sin(X[:, 0])
    by_name = OVKRidge(Gaussian(2.0), 1e-3, landmarks="rpcholesky", random_state=0).fit(X, y)
    assert len(by_name.X_fit_) < 300
    stream = OVKRidge(Gaussian(2.0), 1e-3, landmarks=RPCholesky(30), random_state=0)
    assert stream.fit((X[i : i + 50], y[i : i + 50]) for i in range(0, 300, 50)).score(X, y) > 0.9
    curl = OVKRidge(CurlFree(Gaussian(1.0)), 1e-2, landmarks=RPCholesky(40), random_state=0).fit(X[:100], X[:100])
    assert curl.score(X[:100], X[:100]) > 0.9
    structured = IOKR(Gaussian(1.0), Linear(), alpha=1e-3, landmarks=RPCholesky(50), random_state=0)
    assert structured.fit(X[:100], X[:100]).predict(X[:3], candidates=X[:100]).shape == (3, 3)
    dictionary = Given.chosen(Gaussian(1.0), X, RPCholesky(25), random_state=0)
    assert len(dictionary.points) == 25
    with pytest.raises(ValueError, match="'rpcholesky' or points"):
        OVKRidge(landmarks="kmeans").fit(X, y)


def test_columns_converge_each_in_steps_of_their_own():
    A = K + 0.1 * np.eye(300)
    B = RNG.standard_normal((300, 4)) * [1.0, 1e-6, 1e3, 0.0]
    found = conjugate_gradients(lambda C: A @ C, B, lambda R: R / np.diagonal(A)[:, None], None, 1e-10, 500)
    np.testing.assert_allclose(found.X, np.linalg.solve(A, B), rtol=1e-6, atol=1e-12)
    assert found.residual <= 1e-10
    again = conjugate_gradients(lambda C: A @ C, B, lambda R: R, found.X, 1e-9, 500)
    assert again.iterations == 0


def test_the_preconditioner_saves_iterations():
    T = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1])])
    iterations = []
    for alpha in (1e-2, 1e-3):
        tiled = TiledRidge.of(Gaussian(2.0), X, alpha, 120, 0)
        C, b = tiled.solve(T)
        exact = FactoredRidge.of(Gaussian(2.0), X, alpha).solve(T)
        np.testing.assert_allclose(Gaussian(2.0)(X) @ C + b, Gaussian(2.0)(X) @ exact[0] + exact[1], atol=1e-6)
        assert abs(C.sum()) < 1e-5
        found = conjugate_gradients(tiled._apply, T, tiled.precondition, None, tiled.tol, tiled.max_iter)
        iterations.append(found.iterations)
    G = Gaussian(2.0)(X)
    plain = conjugate_gradients(lambda C: G @ C + 1e-3 * C, T, lambda R: R, None, 1e-8, 2000)
    assert max(iterations) < 0.25 * plain.iterations
