"""How well a kernel and noise levels suit the data, with derivatives.

Two criteria of the Gaussian process y = f + noise, f with covariance K, A = K + noise, c = A^-1 y, B = A^-1:

- evidence: -log p(y) = (y'c + log det A + N log 2 pi) / 2;
- leave-one-out: mean of |r|^2, r_I = B_II^-1 c_I the residuals of the sets I that are left out together.

Both change with A by <Omega, dA>:  Omega = (B - c c') / 2  for the evidence; for leave-one-out, with p_I = B_II^-1 r_I,

    Omega = (2 / N) (B S B - (B p c' + c p'B) / 2),   S block diagonal, S_II = (r_I p_I' + p_I r_I') / 2.

Constants that are not penalised, columns E, turn B into B - B E (E'B E)^-1 E'B in all of this, and the evidence is
restricted to what they do not explain: log det E'B E is added.

For K = sum_k G_k (x) T_k that is all one needs: the derivative in G_k is sum_qp T_k[q, p] Omega[(., q), (., p)], in T_k
sum_ij G_k[i, j] Omega[(i, .), (j, .)]. With one term and complete outputs nothing of size n d is formed: scaling by the
noise D makes A = G (x) T + I with T = V diag(t) V', G = Q diag(g) Q', and the evidence and its derivatives are
elementwise in Q and V. So are the residuals of rows left out; their derivative in G costs a product for each output.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from ovk.base import Array, Indices, members_of_groups
from ovk.solvers.cholesky import cholesky_factor


class Criterion(NamedTuple):
    """A criterion and its derivatives.

    Attributes
    ----------
    value : small is good
    grams : derivative in each scalar gram G_k, (n, n)
    operators : derivative in each operator T_k, (d, d)
    noise : (d,) derivative in the noise variances
    """

    value: float
    grams: list[Array]
    operators: list[Array]
    noise: Array


class DenseCriterion(NamedTuple):
    """A criterion and its derivative Omega, (N, N), in the covariance of the observed pairs."""

    value: float
    omega: Array


def separable_evidence(G: Array, T: Array, Y: Array, noise: Array) -> Criterion:
    """Negative log evidence of complete outputs Y, (n, d), under G (x) T + I (x) diag(noise).

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.solvers.criteria import separable_evidence
    >>> found = separable_evidence(np.eye(1), np.eye(1), np.zeros((1, 1)), np.ones(1))
    >>> round(found.value, 4)  # of the normal density at 0 with variance 2
    1.2655
    """
    n, d = Y.shape
    root = np.sqrt(noise)
    scaled, Y = T / np.outer(root, root), Y / root
    t, V, g, Q, filters = _decomposed(scaled, G)
    Z = Q.T @ Y @ V
    C = Z * filters
    logdet = n * float(np.log(noise).sum()) - float(np.log(filters).sum())
    value = 0.5 * (float(np.vdot(Z, C)) + logdet + n * d * float(np.log(2.0 * np.pi)))
    # In the eigenvectors, A^-1 is diagonal: only the products of coefficients fill the matrices.
    inner = -(C * t) @ C.T
    inner[np.diag_indices_from(inner)] += filters @ t
    outer = -(C.T * g) @ C
    outer[np.diag_indices_from(outer)] += g @ filters
    by_gram = 0.5 * Q @ inner @ Q.T
    by_scaled = 0.5 * V @ outer @ V.T
    # The noise enters by log det, by the scaled outputs and by the scaled operator.
    own = np.einsum("iq,iq->q", Q @ C @ V.T, Y)
    by_log_noise = 0.5 * n - 0.5 * own - (by_scaled * scaled).sum(axis=1)
    return Criterion(value, [by_gram], [by_scaled / np.outer(root, root)], by_log_noise / noise)


def separable_leave_one_out(G: Array, T: Array, Y: Array, noise: Array) -> Criterion:
    """Mean squared residual of complete outputs Y, (n, d), each row left out, under G (x) T + I (x) diag(noise).

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.solvers.criteria import separable_leave_one_out
    >>> separable_leave_one_out(np.eye(2), np.eye(1), np.ones((2, 1)), np.ones(1)).value  # nothing to learn from
    1.0
    """
    n, d = Y.shape
    root = np.sqrt(noise)
    scaled, Y = T / np.outer(root, root), Y / root
    t, V, g, Q, filters = _decomposed(scaled, G)
    squares = Q**2
    C = (Q.T @ Y @ V) * filters
    H = squares @ filters
    # Rotated residuals r and p = H^-1 D r of each row.
    r = (Q @ C) / H
    residuals = r @ V.T
    value = float((noise * residuals**2).sum()) / (n * d)
    p = (2.0 / (n * d)) * ((noise * residuals) @ V) / H
    P = (Q.T @ p) * filters
    inner = -(P * t) @ C.T
    inner = 0.5 * (inner + inner.T)
    for q in range(d):
        if t[q] > 0:
            # B S B for one output: B is diagonal in Q, S in the rows.
            inner += t[q] * np.outer(filters[:, q], filters[:, q]) * ((Q.T * (r[:, q] * p[:, q])) @ Q)
    outer = -(P.T * g) @ C
    outer = 0.5 * (outer + outer.T)
    for q in range(d):
        spread = squares @ (filters * (g * filters[:, q])[:, None])
        outer[q] += 0.5 * ((r[:, q : q + 1] * p + p[:, q : q + 1] * r) * spread).sum(axis=0)
    by_gram = Q @ inner @ Q.T
    by_scaled = V @ outer @ V.T
    # The noise stands in the mean itself, in the scaled outputs and in the scaled operator.
    own = noise * (residuals**2).sum(axis=0) / (n * d)
    by_log_noise = own - 0.5 * np.einsum("iq,iq->q", Q @ P @ V.T, Y) - (by_scaled * scaled).sum(axis=1)
    return Criterion(value, [by_gram], [by_scaled / np.outer(root, root)], by_log_noise / noise)


def _decomposed(T: Array, G: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Eigenvalues and eigenvectors of T and of G, and the eigenvalues of (G (x) T + I)^-1, (n, d)."""
    t, V = np.linalg.eigh(0.5 * (T + T.T))
    g, Q = np.linalg.eigh(G)
    t, g = np.maximum(t, 0.0), np.maximum(g, 0.0)
    return t, V, g, Q, 1.0 / (np.multiply.outer(g, t) + 1.0)


def dense_evidence(A: Array, y: Array, E: Array | None = None) -> DenseCriterion:
    """Negative log evidence of the pairs y, (N,), with covariance A, noise included.

    With columns E, (N, k), of constants that are not penalised: that of what they do not explain.
    """
    P, c, logdet = _solved(A, y, E)
    known = len(y) - (0 if E is None else E.shape[1])
    value = 0.5 * (float(y @ c) + logdet + known * float(np.log(2.0 * np.pi)))
    P -= np.outer(c, c)
    P *= 0.5
    return DenseCriterion(value, P)


def dense_leave_one_out(A: Array, y: Array, together: Indices, E: Array | None = None) -> DenseCriterion:
    """Mean squared left-out residual of the pairs y; those with the same number in `together` are left out together."""
    B, c, _ = _solved(A, y, E)
    r, p = np.empty_like(c), np.empty_like(c)
    rows, columns, values = [], [], []
    for I in members_of_groups(together):  # noqa: E741 - the set I of the formula
        block = B[np.ix_(I, I)]
        r[I] = np.linalg.solve(block, c[I])
        p[I] = np.linalg.solve(block, r[I])
        rows.append(np.repeat(I, len(I)))
        columns.append(np.tile(I, len(I)))
        values.append(0.5 * (np.outer(r[I], p[I]) + np.outer(p[I], r[I])).ravel())
    places = np.concatenate(rows), np.concatenate(columns)
    S = sparse.csr_array((np.concatenate(values), places), shape=B.shape)
    solved = B @ p
    omega = B @ (S @ B) - 0.5 * (np.outer(solved, c) + np.outer(c, solved))
    return DenseCriterion(float(r @ r) / len(y), (2.0 / len(y)) * omega)


def _solved(A: Array, y: Array, E: Array | None) -> tuple[Array, Array, float]:
    """P = A^-1 - A^-1 E (E'A^-1 E)^-1 E'A^-1, c = P y, and log det A + log det E'A^-1 E."""
    factor = cholesky_factor(A.copy, 0.0)
    P, c = _inverse(factor.L), factor.solve(y)
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
    """Derivatives in the scalar grams and operators of  sum_k G_k[i, j] T_k[q, p]."""
    N = len(points)
    at_point = sparse.csr_array((np.ones(N), (points, np.arange(N))), shape=(n, N))
    of_output = sparse.csr_array((np.ones(N), (outputs, np.arange(N))), shape=(d, N))
    grams, operators = [], []
    for G, T in terms:
        grams.append(_summed(at_point, omega * T[np.ix_(outputs, outputs)]))
        operators.append(_summed(of_output, omega * G[np.ix_(points, points)]))
    return grams, operators


def _summed(member: sparse.csr_array, M: Array) -> Array:
    """Sums of M, (N, N), over the members of each pair of groups."""
    return np.asarray(member @ (member @ M).T).T


def _inverse(L: Array) -> Array:
    """(L L')^-1."""
    inverse, _ = lapack.dpotri(np.asfortranarray(L), lower=1)
    # LAPACK fills the lower half; the upper one is copied in strips that stay in the cache.
    for start in range(0, len(inverse), 128):
        strip = slice(start, start + 128)
        square = inverse[strip, strip]
        square[:] = np.tril(square) + np.tril(square, -1).T
        inverse[strip, start + 128 :] = inverse[start + 128 :, strip].T
    return np.asarray(inverse.T)  # the same matrix in C order
