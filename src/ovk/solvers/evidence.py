"""The evidence of a kernel and noise levels, with derivatives.

For the Gaussian process y = f + noise, f with covariance K, A = K + noise, c = A^-1 y,

    -log p(y) = (y'c + log det A + N log 2 pi) / 2,    which changes with A by <Omega, dA>, Omega = (A^-1 - c c') / 2.

With unpenalised constants, columns E, B = A^-1 becomes B - B E (E'B E)^-1 E'B, and log det E'B E is added: this is the
restricted evidence of the part that the constants do not explain.

For K = sum_k G_k (x) T_k, the derivative with respect to G_k is sum_qp T_k[q, p] Omega[(., q), (., p)], and that with
respect to T_k is sum_ij G_k[i, j] Omega[(i, .), (j, .)]. With one term and complete outputs no matrix of size n d is
formed: scaling by the noise D gives A = G (x) T + I with T = V diag(t) V', G = Q diag(g) Q', and the evidence and its
derivatives are elementwise in Q and V.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from ovk.base import Array, Indices
from ovk.solvers.cholesky import cholesky_factor


class Criterion(NamedTuple):
    """A criterion to minimise, and its derivatives."""

    value: float
    grams: list[Array]  # with respect to each scalar gram G_k, (n, n)
    operators: list[Array]  # with respect to each operator T_k, (d, d)
    noise: Array  # (d,) with respect to the noise variances


def separable_evidence(G: Array, T: Array, Y: Array, noise: Array) -> Criterion:
    """Negative log evidence of complete outputs Y, (n, d), under G (x) T + I (x) diag(noise)."""
    n, d = Y.shape
    root = np.sqrt(noise)
    scaled, Y = T / np.outer(root, root), Y / root
    t, V, g, Q, filters = decomposed(scaled, G)
    Z = Q.T @ Y @ V
    C = Z * filters
    logdet = n * float(np.log(noise).sum()) - float(np.log(filters).sum())
    value = 0.5 * (float(np.vdot(Z, C)) + logdet + n * d * float(np.log(2.0 * np.pi)))
    # In the eigenvectors A^-1 is diagonal; only the products of coefficients are full matrices.
    inner = -(C * t) @ C.T
    inner[np.diag_indices_from(inner)] += filters @ t
    outer = -(C.T * g) @ C
    outer[np.diag_indices_from(outer)] += g @ filters
    by_gram = 0.5 * Q @ inner @ Q.T
    by_scaled = 0.5 * V @ outer @ V.T
    # The noise enters through log det, the scaled outputs and the scaled operator.
    own = np.einsum("iq,iq->q", Q @ C @ V.T, Y)
    by_log_noise = 0.5 * n - 0.5 * own - (by_scaled * scaled).sum(axis=1)
    return Criterion(value, [by_gram], [by_scaled / np.outer(root, root)], by_log_noise / noise)


def decomposed(T: Array, G: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Eigenvalues and eigenvectors of T and of G, and the eigenvalues of (G (x) T + I)^-1, (n, d)."""
    t, V = np.linalg.eigh(0.5 * (T + T.T))
    g, Q = np.linalg.eigh(G)
    t, g = np.maximum(t, 0.0), np.maximum(g, 0.0)
    return t, V, g, Q, 1.0 / (np.multiply.outer(g, t) + 1.0)


def dense_evidence(A: Array, y: Array, E: Array | None = None) -> tuple[float, Array]:
    """Negative log evidence of the pairs y, (N,), with covariance A, noise included, and its derivative Omega.

    With columns E, (N, k), of unpenalised constants it is the restricted evidence.
    """
    P, c, logdet = solved(A, y, E)
    known = len(y) - (0 if E is None else E.shape[1])
    value = 0.5 * (float(y @ c) + logdet + known * float(np.log(2.0 * np.pi)))
    P -= np.outer(c, c)
    P *= 0.5
    return value, P


def solved(A: Array, y: Array, E: Array | None) -> tuple[Array, Array, float]:
    """P = A^-1 - A^-1 E (E'A^-1 E)^-1 E'A^-1, c = P y, and log det A + log det E'A^-1 E."""
    factor = cholesky_factor(A.copy, 0.0)
    P, c = inverse_of_factor(factor.L), factor.solve(y)
    logdet = 2.0 * float(np.log(np.diagonal(factor.L)).sum())
    if E is not None:
        Z = P @ E
        inner = E.T @ Z
        P -= Z @ np.linalg.solve(inner, Z.T)
        c = c - Z @ np.linalg.solve(inner, E.T @ c)
        logdet += float(np.linalg.slogdet(inner)[1])
    return P, c, logdet


def split_among_terms(
    omega: Array, terms: list[tuple[Array, Array]], points: Indices, outputs: Indices, n: int, d: int
) -> tuple[list[Array], list[Array]]:
    """Derivatives with respect to the scalar grams and operators of  sum_k G_k[i, j] T_k[q, p]."""
    N = len(points)
    at_point = sparse.csr_array((np.ones(N), (points, np.arange(N))), shape=(n, N))
    of_output = sparse.csr_array((np.ones(N), (outputs, np.arange(N))), shape=(d, N))
    grams = [(at_point @ (at_point @ (omega * T[np.ix_(outputs, outputs)])).T).T for _, T in terms]
    operators = [(of_output @ (of_output @ (omega * G[np.ix_(points, points)])).T).T for G, _ in terms]
    return grams, operators


def inverse_of_factor(L: Array) -> Array:
    """(L L')^-1, in a third of the time of solving for the identity."""
    inverse, _ = lapack.dpotri(np.asfortranarray(L), lower=1)
    # LAPACK fills the lower half; the upper half is copied in strips that fit into the cache.
    for start in range(0, len(inverse), 128):
        strip = slice(start, start + 128)
        square = inverse[strip, strip]
        square[:] = np.tril(square) + np.tril(square, -1).T
        inverse[strip, start + 128 :] = inverse[start + 128 :, strip].T
    return np.asarray(inverse.T)  # the same matrix in C order
