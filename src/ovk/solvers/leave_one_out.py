"""Leave-one-out errors in closed form.

If A = K + alpha I and c = A^-1 y, leaving the entries I out and predicting them from the rest gives the residuals

    y_I - f_without_I(x_I) = (A^-1)_II^-1 c_I.

For a separable kernel this is elementwise in the eigenvectors V of T: with G = Q diag(g) Q' and S = 1 / (g t' + alpha),

    C~ = Q ((Q'YV) * S),   H = (Q * Q) S,   rows left out: (C~ / H) V',   entries left out: C / (H (V * V)').

With an unpenalised intercept A^-1 is replaced by A^-1 - z z' / (u'z), z = A^-1 u, u = 1 (or the square roots of the
weights): subtracting the mean beforehand is *not* the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import solve_triangular

from ovk._types import Array, Indices
from ovk.grams import Rotated
from ovk.operators import Spectrum
from ovk.solvers.eigen import Eigenpairs, eigenpairs
from ovk.targets import members_of_groups

#: Numbers in each product of one batch of alphas: 32 MiB of doubles.
BATCH = 1 << 22
#: Pairs left out together from which on the products of their eigenvectors' entries would take too much memory.
LARGE = 30


class KroneckerLeaveOneOut:
    """Left-out residuals of a separable kernel with complete outputs, for any alpha and any operator.

    Parameters
    ----------
    pairs : eigenpairs of the scalar gram (weighted: of W^1/2 G W^1/2)
    Y : (n, d) outputs (weighted: W^1/2 Y; the residuals then carry the factor W^1/2 as well)
    u : (n,) the intercept's column, or None
    """

    def __init__(self, pairs: Eigenpairs, Y: Array, u: Array | None = None) -> None:
        self._pairs = pairs
        self._Y = Y
        self._u = u
        self._squares = pairs.Q**2
        self._beyond = None if pairs.full else np.maximum(1.0 - self._squares.sum(axis=1), 0.0)
        self._inner = pairs.Q.T @ Y
        self._inner_u = None if u is None else pairs.Q.T @ u

    def residuals(self, spectrum: Spectrum, alpha: float, *, entry: bool = False) -> Array:
        """Residuals (n, d) at `alpha` with the operator of the given spectrum."""
        return next(self.path(spectrum, np.array([alpha]), entry=entry))

    def path(self, spectrum: Spectrum, alphas: Array, *, entry: bool = False) -> Iterator[Array]:
        """Residuals (n, d) at each of `alphas` in turn.

        Products with Q cost the reading of Q, so many alphas share them.
        """
        step = max(1, BATCH // max(self._Y.size, 1))
        for start in range(0, len(alphas), step):
            yield from self._batch(spectrum, alphas[start : start + step], entry)

    def _batch(self, spectrum: Spectrum, alphas: Array, entry: bool) -> Iterator[Array]:
        for C, H in self.rotated(spectrum, alphas):
            yield _residuals(C, H, spectrum.vectors, entry)

    def rotated(self, spectrum: Spectrum, alphas: Array) -> Iterator[tuple[Array, Array]]:
        """C~ and H, (n, d) each, at each of `alphas`: coefficients and diagonals of A^-1 in the eigenvectors of T."""
        pairs, V = self._pairs, spectrum.vectors
        n, k, m = len(self._Y), len(alphas), len(spectrum.groups)
        sizes = [group.stop - group.start for group in spectrum.groups]
        YV, inner = self._Y @ V, self._inner @ V
        # One column for each alpha and distinct eigenvalue; outputs that share the eigenvalue share it.
        filters = 1.0 / (np.multiply.outer(pairs.g, spectrum.distinct)[:, None, :] + alphas[:, None])
        span = filters if pairs.full else filters - 1.0 / alphas[:, None]
        Hs = (self._squares @ filters.reshape(-1, k * m)).reshape(n, k, m)
        weighted = inner[:, None, :] * np.repeat(span, sizes, axis=2)
        Cs = (pairs.Q @ weighted.reshape(-1, k * V.shape[1])).reshape(n, k, -1)
        if self._inner_u is not None:
            zs = (pairs.Q @ (span * self._inner_u[:, None, None]).reshape(-1, k * m)).reshape(n, k, m)
        for a, alpha in enumerate(alphas):
            C, H = Cs[:, a], Hs[:, a]
            if self._beyond is not None:
                C = C + YV / alpha
                H = H + self._beyond[:, None] / alpha
            if self._u is not None:
                z = zs[:, a] if pairs.full else zs[:, a] + self._u[:, None] / alpha
                total = self._u @ z
                H = H - z**2 / total
                wide, totals = np.repeat(z, sizes, axis=1), np.repeat(total, sizes)
                C = C - wide * (np.einsum("iq,iq->q", wide, YV) / totals)
            yield C, np.repeat(H, sizes, axis=1)


def rotated_leave_one_out(
    parts: Rotated, Y: Array, u: Array | None, alphas: Array, *, entry: bool = False
) -> Iterator[Array]:
    """Left-out residuals (n, d) of complete outputs Y at each of `alphas` in turn, for a sum of separable kernels whose
    operators have common eigenvectors.

    Each distinct tuple of eigenvalues is a scalar problem with a gram, and so with C~ and H, of its own. `u`, (n,), is
    the intercept's column, or None.
    """
    Cs = np.empty((len(alphas), *Y.shape))
    Hs = np.empty_like(Cs)
    # One problem after the other: the eigenvectors of all at once would be d matrices of the size of the gram.
    for q, (group, part) in enumerate(zip(parts.groups, parts.split(Y), strict=True)):
        one = KroneckerLeaveOneOut(eigenpairs(parts.matrix(q)), part, u)
        same = Spectrum(np.ones(part.shape[1]), np.eye(part.shape[1]))
        for a, (C, H) in enumerate(one.rotated(same, alphas)):
            Cs[a, :, group], Hs[a, :, group] = C, H
    for C, H in zip(Cs, Hs, strict=True):
        yield _residuals(C, H, parts.vectors, entry)


def _residuals(C: Array, H: Array, V: Array, entry: bool) -> Array:
    """Residuals of rows or entries left out, from C~ and H."""
    return np.asarray((C @ V.T) / (H @ (V**2).T) if entry else (C / H) @ V.T)


class DenseLeaveOneOut:
    """Left-out residuals of any gram, as one scalar problem on N observed pairs.

    Parameters
    ----------
    gram : (N, N) gram of the pairs, or its eigenpairs
    y : (N,) their outputs
    together : (N,) numbers; pairs with the same number are left out together
    E : (N, k) unpenalised columns (an intercept for each output), or None
    """

    def __init__(self, gram: Array | Eigenpairs, y: Array, together: Indices, E: Array | None = None) -> None:
        self._pairs = gram if isinstance(gram, Eigenpairs) else eigenpairs(gram)
        self._y, self._E = y, np.zeros((len(y), 0)) if E is None else E
        members = members_of_groups(together)
        sizes = np.array([len(group) for group in members])
        # Sets of the same size, (sets, size), are solved for all at once.
        self._sets = [np.stack([members[i] for i in np.flatnonzero(sizes == s)]) for s in np.unique(sizes)]

    def residuals(self, alpha: float) -> Array:
        """Residuals (N,) at `alpha`."""
        return next(self.path(np.array([alpha])))

    def path(self, alphas: Array) -> Iterator[Array]:
        """Residuals (N,) at each of `alphas` in turn; many of them share the products with the eigenvectors."""
        size = sum(sets.size * sets.shape[1] for sets in self._sets) + self._y.size + self._E.size
        step = max(1, BATCH // max(size, 1))
        for start in range(0, len(alphas), step):
            yield from self._batch(alphas[start : start + step])

    def _batch(self, alphas: Array) -> Iterator[Array]:
        Q, g, full = self._pairs
        # A^-1 = Q diag(filters) Q', and beyond the span of Q 1 / alpha: have it everywhere, and correct it on the span.
        outside = np.zeros(len(alphas)) if full else 1.0 / alphas
        filters = 1.0 / np.add.outer(g, alphas)
        if not full:
            filters = -g[:, None] * filters / alphas
        B = np.column_stack([self._y, self._E])
        solved = (Q @ ((Q.T @ B)[:, :, None] * filters[:, None, :]).reshape(len(g), -1)).reshape(*B.shape, len(alphas))
        blocks = [self._blocks(sets, filters) for sets in self._sets]
        for a in range(len(alphas)):
            both = solved[:, :, a] + outside[a] * B
            c, Z = both[:, 0], both[:, 1:]
            # With L L' = E' A^-1 E and own = A^-1 E L'^-1, A^-1 is replaced by A^-1 - own own'.
            own = solve_triangular(np.linalg.cholesky(self._E.T @ Z), Z.T, lower=True).T if Z.shape[1] else Z
            c = c - own @ (own.T @ self._y)
            residuals = np.empty(len(c))
            for I, entries in zip(self._sets, blocks, strict=True):  # noqa: E741 - the sets I of the formula
                P = entries[..., a] - own[I] @ own[I].swapaxes(1, 2) + outside[a] * np.eye(I.shape[1])
                residuals[I] = np.linalg.solve(P, c[I][:, :, None])[:, :, 0]
            yield residuals

    def _blocks(self, I: Indices, filters: Array) -> Array:  # noqa: E741 - the sets I of the formula
        """Q_I diag(filters) Q_I' for each of the sets and of the columns of filters: (sets, size, size, columns)."""
        Q, (count, size), columns = self._pairs.Q, I.shape, filters.shape[1]
        result = np.empty((count, size, size, columns))
        if size > LARGE:
            for number, rows in enumerate(I):
                for a, one in enumerate(filters.T):
                    result[number, :, :, a] = (Q[rows] * one) @ Q[rows].T
            return result
        # One product with all filters instead of a small one for each set and filter.
        first, second = np.tril_indices(size)
        step = max(1, BATCH // max(len(first) * Q.shape[1], 1))
        for start in range(0, count, step):
            part = slice(start, start + step)
            rows = I[part]
            products = (Q[rows[:, first]] * Q[rows[:, second]]).reshape(-1, Q.shape[1])
            values = (products @ filters).reshape(len(rows), len(first), columns)
            result[part, first, second] = values
            result[part, second, first] = values
        return result
