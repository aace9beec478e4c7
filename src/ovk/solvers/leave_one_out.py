"""Leave-one-out in closed form.

Kernel ridge regression with the gram K, the ridge alpha and unpenalised columns E (an intercept is a column of ones)
has, with A = K + alpha I, Z = A^-1 E and M = (E'Z)^-1,

    P = A^-1 - Z M Z',   c = P y,   b = M Z'y,   f(x) = k(x)'c + e(x)'b,   l(x) = P k(x) + Z M e(x),

where e(x) is the row of x in E. Without E, P = A^-1. A fit without the rows I has

    residuals       y_I - f_-I(x_I) = P_II^-1 c_I = r_I,    with predictive covariance P_II^-1
    functions       f_-I(x) = f(x) - l_I(x)' r_I
    variances       v_-I(x) = v(x) + l_I(x)' P_II^-1 l_I(x)

and v(x) = k(x, x) - k(x)'A^-1 k(x) + D'M D with D = e(x) - Z'k(x) is the posterior variance of f(x). Subtracting the
mean beforehand is *not* the same as an intercept. Weights w scale rows: W^1/2 K W^1/2, W^1/2 y, W^1/2 E.

There are two forms, each with its residuals along a path of alphas and its functions at one alpha:

    separable   a kernel k T and complete outputs             `SeparablePath`   `SeparableLeaveOneOut`
    pairwise    any kernel; pairs of a row and an output      `pairwise_path`   `PairwiseLeaveOneOut`

The separable form works in the eigenvectors of the scalar gram, G = Q diag(g) Q', and of T = V diag(t) V'. The columns
of Y V are separate problems with A = t_q G + alpha I, and with S = 1 / (g t' + alpha)

    C~ = Q ((Q'YV) * S),   H = (Q * Q) S,   rows left out: (C~ / H) V',   entries left out: C / (H (V * V)').

The pairwise form is one problem of all N observed pairs, in which the pairs of a row are left out together. An alpha
for each output, D = diag(alpha), is equivalent to the operator D^-1/2 T D^-1/2 and ridge 1 for the outputs Y D^-1/2.

The last section is the mean squared residual as a criterion with derivatives, for gradient-based tuning.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, cholesky, get_lapack_funcs, lapack, solve_triangular

from ovk.base import (
    Array,
    DeviceMatrix,
    Indices,
    ObservedPairs,
    ProgressBar,
    members_of_groups,
    square_norms_of_inverse,
    to_host,
)
from ovk.operators import Spectrum, spectrum
from ovk.ovkernels import Rotated
from ovk.solvers.cholesky import cholesky_factor
from ovk.solvers.eigen import Eigenpairs, eigenpairs
from ovk.solvers.evidence import Criterion, decomposed, inverse_of_factor, solved
from ovk.solvers.iterative import conjugate_gradients

#: Maximum size of each product in a batch of alphas: 32 MiB of doubles.
MAX_BATCH_SIZE = 1 << 22
#: Maximum number of rows left out together for which products of eigenvector entries are stored.
MAX_PRODUCT_ROWS = 30


class Blocks:
    """Blocks of rows that are left out together: equal entries in `together` (n,), by default single rows."""

    def __init__(self, n: int, together: Indices | None = None) -> None:
        self.block: Indices = np.arange(n)  # the number of each row's block
        # Blocks of the same size, (blocks, size) rows, are solved in one call.
        self.sets, self._numbers = [self.block[:, None]], [self.block]
        self.count = n
        if together is not None:
            _, self.block = np.unique(together, return_inverse=True)
            self._numbers = [self.block]
            self.count = int(self.block.max(initial=-1)) + 1
        if self.count < n:
            members = members_of_groups(self.block)
            sizes = np.array([len(rows) for rows in members])
            self._numbers = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
            self.sets = [np.stack([members[i] for i in numbers]) for numbers in self._numbers]

    def gather(self, M: Array) -> list[Array]:
        """M_II of each block: (blocks, size, size) for each set."""
        return [M[rows[:, :, None], rows[:, None, :]] for rows in self.sets]

    def solve(self, P: list[Array], C: Array) -> Array:
        """P_II^-1 C_I for columns C, (n, k)."""
        result = np.empty_like(C)
        for rows, blocks in zip(self.sets, P, strict=True):
            result[rows] = C[rows] / blocks if rows.shape[1] == 1 else np.linalg.solve(blocks, C[rows])
        return result

    def diagonal(self, P: list[Array]) -> Array:
        """(n,) diagonals of the blocks."""
        result = np.empty(len(self.block))
        for rows, blocks in zip(self.sets, P, strict=True):
            result[rows] = np.einsum("bii->bi", blocks)
        return result

    def inner(self, L: Array, M: list[Array]) -> Array:
        """l_I' M_II l_I for each row l of L, (m, n): (m, blocks)."""
        result = np.empty((len(L), self.count))
        for rows, numbers, blocks in zip(self.sets, self._numbers, M, strict=True):
            if rows.shape[1] == 1:
                result[:, numbers] = L[:, rows[:, 0]] ** 2 * blocks[:, 0, 0]
            else:
                parts = L[:, rows].swapaxes(0, 1)
                result[:, numbers] = ((parts @ blocks) * parts).sum(axis=2).T
        return result

    def products(self, L: Array, r: Array) -> Array:
        """l_I' r_I for each row l of L, (m, n), and each column of r, (n, k): (m, blocks, k)."""
        result = np.empty((len(L), self.count, r.shape[1]))
        for rows, numbers in zip(self.sets, self._numbers, strict=True):
            if rows.shape[1] == 1:
                result[:, numbers] = L[:, rows[:, 0], None] * r[rows[:, 0]]
            else:
                result[:, numbers] = (L[:, rows].swapaxes(0, 1) @ r[rows]).swapaxes(0, 1)
        return result


class InverseBlocks:
    """(A^-1)_II of each block I, from the eigenpairs of A - alpha I, for many alphas at once."""

    def __init__(self, pairs: Eigenpairs, blocks: Blocks) -> None:
        self._pairs, self._blocks = pairs, blocks
        #: Total size of the blocks of one matrix.
        self.size = sum(rows.size * rows.shape[1] for rows in blocks.sets)
        # For single rows the products are squares, which every call needs.
        self._squares = pairs.Q**2 if blocks.count == len(pairs.Q) else None
        if not pairs.full:
            ones = np.ones((len(pairs.g), 1))
            self._outside = [np.eye(rows.shape[1])[None] - B[..., 0] for rows, B in self._by_set(ones)]
            if self._squares is not None:
                self._outside = [np.maximum(self._outside[0], 0.0)]

    def at(self, filters: Array, alphas: Array) -> list[Array]:
        """Blocks (blocks, size, size, columns) of each set, for eigenvalues `filters` (r, columns) of A^-1.

        Outside the span of Q the eigenvalues are 1 / alphas, (columns,).
        """
        found = [B for _, B in self._by_set(filters)]
        if self._pairs.full:
            return found
        return [B + outside[..., None] / alphas for B, outside in zip(found, self._outside, strict=True)]

    def _by_set(self, filters: Array) -> Iterator[tuple[Indices, Array]]:
        """Q_I diag(filters) Q_I' for each block and each column of filters."""
        Q, columns = self._pairs.Q, filters.shape[1]
        if self._squares is not None:
            yield self._blocks.sets[0], (self._squares @ filters)[:, None, None]
            return
        for rows in self._blocks.sets:
            count, size = rows.shape
            result = np.empty((count, size, size, columns))
            if size > min(MAX_PRODUCT_ROWS, 8 * columns):
                for number, own in enumerate(rows):
                    for a, one in enumerate(filters.T):
                        result[number, :, :, a] = to_host((Q[own] * one) @ Q[own].T)
            else:
                # One product with all filters instead of small ones for each block and filter.
                first, second = np.tril_indices(size)
                step = max(1, MAX_BATCH_SIZE // max(len(first) * Q.shape[1], 1))
                for start in range(0, count, step):
                    part = slice(start, start + step)
                    products = Q[rows[part][:, first].ravel()] * Q[rows[part][:, second].ravel()]
                    values = (products @ filters).reshape(-1, len(first), columns)
                    result[part, first, second] = values
                    result[part, second, first] = values
            yield rows, result


class RotatedSolution(NamedTuple):
    """The separable form at one alpha, in the m distinct eigenvalues of the operator."""

    C: Array  # (n, d) coefficients in its eigenvectors
    P: list[Array]  # blocks (blocks, size, size, m) of each set
    Z: Array  # (n, k, m) A^-1 E


class SeparablePath:
    """Residuals of a separable kernel with complete outputs Y (n, d), for any alpha and any operator.

    `pairs` are those of the scalar gram; `E` (n, k), or (n,) if k = 1, has the unpenalised columns. With weights, pass
    the eigenpairs of W^1/2 G W^1/2 and W^1/2 Y; the residuals then have the factor W^1/2 too. Rows with the same number
    in `together` are left out together.
    """

    def __init__(self, pairs: Eigenpairs, Y: Array, E: Array | None = None, together: Indices | None = None) -> None:
        self._pairs, self._Y = pairs, Y
        self._E = np.empty((len(Y), 0)) if E is None else E.reshape(len(Y), -1)
        self.blocks = Blocks(len(Y), together)
        self._inverses = InverseBlocks(pairs, self.blocks)
        self._inner, self._inner_E = pairs.Q.T @ Y, pairs.Q.T @ self._E

    def residuals(self, operator: Spectrum, alpha: float, *, entry: bool = False) -> Array:
        """Residuals (n, d) at `alpha` for an operator with the given spectrum."""
        return next(self.path(operator, np.array([alpha]), entry=entry))

    def path(self, operator: Spectrum, alphas: Array, *, entry: bool = False) -> Iterator[Array]:
        """Residuals (n, d) at each alpha in turn; with `entry`, for blocks of one row, those of single entries."""
        V = operator.vectors
        for found in self.solutions(operator, alphas):
            if entry:
                yield _of_entries(found.C, np.repeat(found.P[0][:, 0, 0], _sizes(operator), axis=1), V)
            else:
                yield self.rotated_residuals(operator, found) @ V.T

    def uncoupled(self, alphas: Array) -> Array:
        """(alphas, n, d) residuals of uncoupled outputs: few products for all alphas if the problem is small."""
        (n, d), pairs, k = self._Y.shape, self._pairs, self._E.shape[1]
        if self.blocks.count < n or k > 1 or not pairs.full or len(alphas) * self._Y.size > MAX_BATCH_SIZE:
            return np.array(list(self.path(Spectrum(np.ones(d), np.eye(d)), alphas)))
        filters = 1.0 / (pairs.g[:, None] + alphas)
        (P,) = self._inverses.at(filters, alphas)
        H, right = P[:, 0, 0], np.hstack([self._inner, self._inner_E])
        solved = pairs.Q @ (right[:, :, None] * filters[:, None, :]).reshape(len(right), -1)
        solved = solved.reshape(n, d + k, len(alphas))
        C = solved[:, :d]
        if k:
            Z = solved[:, d]
            ZM = Z / (self._E[:, 0] @ Z)
            H, C = H - Z * ZM, C - ZM[:, None, :] * (Z.T @ self._Y).T
        return np.asarray((C / H[:, None, :]).transpose(2, 0, 1))

    def rotated_residuals(self, operator: Spectrum, found: RotatedSolution) -> Array:
        """Residuals (n, d) in the eigenvectors of the operator."""
        if self.blocks.count == len(self._Y):
            return np.asarray(found.C / np.repeat(found.P[0][:, 0, 0], _sizes(operator), axis=1))
        parts = [
            self.blocks.solve([P[..., q] for P in found.P], found.C[:, group])
            for q, group in enumerate(operator.groups)
        ]
        return np.concatenate(parts, axis=1)

    def solutions(self, operator: Spectrum, alphas: Array) -> Iterator[RotatedSolution]:
        """The solution at each alpha in turn; alphas share products with Q in batches, which saves reading Q."""
        m = len(operator.groups)
        # Size of each product for one alpha.
        size = max(self._Y.size, self._E.size * m, self._inverses.size * m, 1)
        step = max(1, MAX_BATCH_SIZE // size)
        for start in range(0, len(alphas), step):
            yield from self._batch(operator, alphas[start : start + step])

    def _batch(self, operator: Spectrum, alphas: Array) -> Iterator[RotatedSolution]:
        pairs, E, V, sizes = self._pairs, self._E, operator.vectors, _sizes(operator)
        n, count, m, k = len(self._Y), len(alphas), len(sizes), self._E.shape[1]
        YV, inner = self._Y @ V, self._inner @ V
        # One column for each alpha and distinct eigenvalue, shared by the outputs with this eigenvalue.
        values = np.multiply.outer(pairs.g, operator.distinct)[:, None, :]
        filters = 1.0 / (values + alphas[:, None])
        blocks = self._inverses.at(filters.reshape(-1, count * m), np.repeat(alphas, m))
        # Outside the span of Q, A^-1 is 1 / alpha: use that everywhere, and correct it on the span.
        span = filters if pairs.full else -values * filters / alphas[:, None]
        weighted = inner[:, None, :] * np.repeat(span, sizes, axis=2)
        Cs = (pairs.Q @ weighted.reshape(-1, count * V.shape[1])).reshape(n, count, -1)
        weighted = self._inner_E[:, :, None, None] * span[:, None]
        Zs = (pairs.Q @ weighted.reshape(len(pairs.g), k * count * m)).reshape(n, k, count, m)
        for a in range(count):
            C, Z = Cs[:, a], Zs[:, :, a]
            if not pairs.full:
                C, Z = C + YV / alphas[a], Z + E[:, :, None] / alphas[a]
            P = [B[..., a * m : (a + 1) * m] for B in blocks]
            if k:
                # Z M, (n, k, m), of P = A^-1 - Z M Z'
                inner = E.T @ Z.transpose(2, 0, 1)
                ZM: Any = Z / inner.T if k == 1 else np.linalg.solve(inner, Z.T).T
                P = [B - _outer(Z[rows], ZM[rows]) for rows, B in zip(self.blocks.sets, P, strict=True)]
                b = np.einsum("ikq,iq->kq", np.repeat(ZM, sizes, axis=2), YV)
                C = C - np.einsum("ikq,kq->iq", np.repeat(Z, sizes, axis=2), b)
            yield RotatedSolution(C, P, Z)


def _sizes(operator: Spectrum) -> list[int]:
    return [group.stop - group.start for group in operator.groups]


def _outer(A: Array, B: Array) -> Array:
    """A B' of the rows of each block, (blocks, size, k, m) each: (blocks, size, size, m)."""
    if A.shape[1] == 1:
        return np.asarray((A * B).sum(axis=2)[:, :, None])
    return np.moveaxis(np.moveaxis(A, 3, 0) @ np.moveaxis(B, 3, 0).swapaxes(2, 3), 0, 3)


def _of_entries(C: Array, H: Array, V: Array) -> Array:
    """Residuals of left-out entries, from C~ and H, (n, d) each."""
    return np.asarray((C @ V.T) / (H @ (V**2).T))


def decoupled_path(parts: Rotated, Y: Array, u: Array | None, alphas: Array, *, entry: bool = False) -> Iterator[Array]:
    """Residuals (n, d) of complete outputs Y at each alpha in turn, for a sum of kernels with commuting operators.

    Each distinct tuple of eigenvalues is a scalar problem with its own gram, C~ and H. `u`, (n,), is the intercept's
    column, or None.
    """
    Cs = np.empty((len(alphas), *Y.shape))
    Hs = np.empty_like(Cs)
    # One problem at a time: the eigenvectors of all would be d matrices of the size of the gram.
    for q, (group, part) in enumerate(zip(parts.groups, parts.split(Y), strict=True)):
        same = Spectrum(np.ones(part.shape[1]), np.eye(part.shape[1]))
        path = SeparablePath(eigenpairs(parts.matrix(q)), part, u)
        for a, found in enumerate(path.solutions(same, alphas)):
            Cs[a, :, group], Hs[a, :, group] = found.C, found.P[0][:, 0, 0]
    for C, H in zip(Cs, Hs, strict=True):
        yield _of_entries(C, H, parts.vectors) if entry else (C / H) @ parts.vectors.T


def factored_leave_one_out(
    make: Callable[[], Array], alpha: float, Y: Array, u: Array | None = None, together: Indices | None = None
) -> tuple[Array, Array]:
    """Residuals (n, d) of a scalar kernel at one alpha, and the diagonal (n,) of P, from a Cholesky factor.

    For one alpha it is faster than eigenvectors. `make` returns the gram; u and `together` are as in `SeparablePath`.
    """
    blocks, factor = Blocks(len(Y), together), cholesky_factor(make, alpha)
    C, z = factor.solve(Y), None if u is None else factor.solve(u[:, None])
    if blocks.count == len(Y):
        # (A^-1)_ii is the sum of squares of column i of L^-1, which takes a third of the work of A^-1.
        if isinstance(factor.L, DeviceMatrix):
            diagonal = square_norms_of_inverse(factor.L)
        else:
            inverse, _ = lapack.dtrtri(factor.L, lower=1, overwrite_c=1)
            diagonal = np.array([column[i:] @ column[i:] for i, column in enumerate(inverse.T)])
        P = [diagonal[:, None, None]]
    else:
        P = blocks.gather(factor.solve(np.eye(len(Y))))
    if u is not None and z is not None:
        total = float(u @ z[:, 0])
        C = C - z * (z[:, 0] @ Y) / total
        P = [B - z[rows] * z[rows].swapaxes(1, 2) / total for rows, B in zip(blocks.sets, P, strict=True)]
    return blocks.solve(P, C), blocks.diagonal(P)


def pairwise_path(
    gram: Array | Eigenpairs, y: Array, together: Indices, alphas: Array, E: Array | None = None
) -> Iterator[Array]:
    """Residuals (N,) of any gram (N, N) at each alpha in turn, as one scalar problem on N pairs with outputs y (N,).

    Pairs with the same number in `together` are left out together; E (N, k) has an intercept for each output.
    """
    path = SeparablePath(gram if isinstance(gram, Eigenpairs) else eigenpairs(gram), y[:, None], E, together)
    return (residuals[:, 0] for residuals in path.path(Spectrum(np.ones(1), np.eye(1)), alphas))


# Leave-one-out functions at one alpha.
#
# An alpha chosen by leave-one-out is not a noise variance: the posterior of output j is scaled by sigma_j^2, the mean
# of r_ij^2 / s_ij^2 over the rows, where s_ij^2 is the predictive variance of a residual. Nor do the residuals identify
# the noise if repeated inputs are left out together. The spread of outputs at the same inputs does: the noise e_j of an
# observation is raised above alpha_j until e_j sigma_j^2, which increases with it, equals that spread (`raise_noise`).

#: Maximum ratio of noise to alpha, and bisection steps of the search for it.
MAX_NOISE_FACTOR, BISECTIONS = 1e8, 40
#: Rows of one time to which the mean over all times is equivalent in the scale of one time.
SHARED_ROWS = 10.0


class LeaveOneOut(ABC):
    """A ridge regression that leaves out blocks of rows in turn: rows with equal entries in `together`.

    New points are given by `cross`, their kernel values with the training data, and `prior`, those with themselves.
    """

    residuals: Array  # (n, d) y_i - f_-I(x_i), I the block of row i; nan where an output is missing
    variances: Array  # (n, d) s_ij^2, the variance of that residual up to `scale`; nan where an output is missing
    #: Whether outputs are values of one curve. Their standardised errors have the same distribution, so the other times
    #: improve the estimate of `scale` at times with few curves.
    alike: bool = False

    def __init__(self, alpha: float | Array, d: int, n: int, together: Indices | None) -> None:
        self.alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), d).copy()
        # Noise variance of an observation of weight 1, up to `scale`, (d,).
        self.noise = self.alpha
        self._rows = Blocks(n, together)
        self.block, self.n_blocks = self._rows.block, self._rows.count
        if self.n_blocks < 2:
            raise ValueError(
                "leave-one-out requires at least 2 blocks of rows, got 1: pass groups, or a number of folds, that "
                "split the rows"
            )

    def raise_noise(self, spread: Array, weight: Array | None = None) -> None:
        """Raise the noise of outputs to `spread` (d,), their variances at equal inputs for rows of weight 1."""
        shares = np.ones((len(self.residuals), 1)) if weight is None else 1.0 / weight[:, None]
        squares = self.residuals**2

        def known(noise: Array) -> Array:
            return noise * _column_means(squares / (self.variances + (noise - self.alpha) * shares))

        low, high = np.log(self.alpha), np.log(self.alpha) + np.log(MAX_NOISE_FACTOR)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            enough = known(np.exp(middle)) >= spread
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        noise = np.where(known(self.alpha) >= spread, self.alpha, np.exp(high))
        self.variances = self.variances + (noise - self.alpha) * shares
        self.noise = noise

    @cached_property
    def scale(self) -> Array:
        """(d,) sigma_j^2, the factor of the variances; for a curve shrunk to the mean over all times."""
        squares = self.residuals**2 / self.variances
        if not self.alike:
            return _column_means(squares)
        seen = ~np.isnan(squares)
        common = _column_means(squares.reshape(-1, 1))
        total = np.where(seen, squares, 0.0).sum(axis=0) + SHARED_ROWS * common
        return np.asarray(total / (seen.sum(axis=0) + SHARED_ROWS))

    @abstractmethod
    def predict(self, cross: Array) -> Array:
        """f(x), (m, d)."""

    @abstractmethod
    def variance(self, cross: Array, prior: Array) -> Array:
        """v(x), (m, d): the variance of f(x) up to `scale`; plus `noise` it is that of a new observation."""

    def deviation(self, cross: Array, prior: Array, *, observation: bool = True) -> Array:
        """(m, d) standard deviation of a new observation at x, or of f(x), up to the root of `scale`."""
        v = self.variance(cross, prior)
        return np.sqrt(v + self.noise if observation else v)

    @abstractmethod
    def predict_without(self, cross: Array) -> Array:
        """f_-I(x) for every block I, (m, n_blocks, d)."""

    @abstractmethod
    def variance_without(self, cross: Array, prior: Array) -> Array:
        """v_-I(x) for every block I, (m, n_blocks, d)."""


def _column_means(values: Array) -> Array:
    """(d,) means over the rows of (n, d), ignoring nan; 1 for a column of nan."""
    seen = ~np.isnan(values)
    counts = seen.sum(axis=0)
    total = np.where(seen, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, counts, out=np.ones(len(counts)), where=counts > 0))


class SeparableLeaveOneOut(LeaveOneOut):
    """Complete outputs Y and a kernel k T, from the eigenvectors of the gram of k.

    For new points `cross` is k(x, x_i), (m, n), and `prior` k(x, x), (m,).
    """

    def __init__(
        self,
        pairs: Eigenpairs,  # of the scalar gram G, (n, n); with weights of W^1/2 G W^1/2
        Y: Array,
        T: Array,
        alpha: float | Array,
        weight: Array | None = None,
        *,
        intercept: bool = True,
        together: Indices | None = None,
    ) -> None:
        n, d = Y.shape
        super().__init__(alpha, d, n, together)
        self.pairs, self._root = pairs, np.sqrt(self.alpha)
        self._operator = spectrum(T / np.outer(self._root, self._root), "the output operator")
        self._V = self._operator.vectors
        self._scales = np.ones(n) if weight is None else np.sqrt(weight)
        scaled = (Y / self._root) * self._scales[:, None]
        path = SeparablePath(pairs, scaled, self._scales if intercept else None, together)
        (found,) = path.solutions(self._operator, np.ones(1))
        # Z and E'Z of the intercept; b = z'y / u'z in the eigenvectors of the operator.
        self._C, self._Z = found.C, found.Z[:, 0] if intercept else None
        self._b = np.zeros(d)
        if self._Z is not None:
            self._totals = self._scales @ self._Z
            wide, totals = (np.repeat(each, _sizes(self._operator), axis=-1) for each in (self._Z, self._totals))
            self._b = np.einsum("iq,iq->q", wide, scaled @ self._V) / totals
        self._inverses = [[_inverse_blocks(P[..., q]) for P in found.P] for q in range(len(self._operator.groups))]
        self._r = path.rotated_residuals(self._operator, found)
        self.residuals = (self._r / self._scales[:, None]) @ self._V.T * self._root
        each = [self._rows.diagonal(inverses) for inverses in self._inverses]
        self.variances = self._of_outputs(np.stack(each, axis=-1)) / self._scales[:, None] ** 2

    def _of_outputs(self, variances: Array) -> Array:
        """Variances of the outputs, alpha_j sum_q V_jq^2 v_q, from those of the distinct eigenvalues (..., m)."""
        return (np.repeat(variances, _sizes(self._operator), axis=-1) @ (self._V**2).T) * self.alpha

    def predict(self, cross: Array) -> Array:
        rotated = ((cross * self._scales) @ self._C) * self._operator.values + self._b
        return np.asarray((rotated @ self._V.T) * self._root)

    def _weights(self, cross: Array, q: int) -> Array:
        """l(x), (m, n), of the q-th distinct eigenvalue: the derivative of f(x) with respect to the outputs."""
        t = float(self._operator.distinct[q])
        L: Array = t * self.pairs.solve(cross.T, t, 1.0).T
        if self._Z is None:
            return L
        z = self._Z[:, q]
        return L + np.outer((1.0 - t * (cross @ z)) / self._totals[q], z)

    def variance(self, cross: Array, prior: Array) -> Array:
        cross = cross * self._scales
        v = np.empty((len(cross), len(self._operator.groups)))
        for q, t in enumerate(self._operator.distinct):
            explained = np.einsum("ij,ij->i", cross, self.pairs.solve(cross.T, float(t), 1.0).T)
            v[:, q] = t * prior - t**2 * explained
            if self._Z is not None:
                v[:, q] += (1.0 - t * (cross @ self._Z[:, q])) ** 2 / self._totals[q]
        return self._of_outputs(np.maximum(v, 0.0))

    def predict_without(self, cross: Array) -> Array:
        changes = np.empty((len(cross), self.n_blocks, len(self.alpha)))
        for q, group in enumerate(self._operator.groups):
            changes[..., group] = self._rows.products(self._weights(cross * self._scales, q), self._r[:, group])
        return self.predict(cross)[:, None, :] - (changes @ self._V.T) * self._root

    def variance_without(self, cross: Array, prior: Array) -> Array:
        added = [self._rows.inner(self._weights(cross * self._scales, q), M) for q, M in enumerate(self._inverses)]
        return self.variance(cross, prior)[:, None, :] + self._of_outputs(np.stack(added, axis=-1))


#: Maximum number of pairs in double precision, and largest scaled kernel value, at ridge 1, in single precision.
MAX_DOUBLE_PAIRS, MAX_SINGLE_VALUE = 4000, 1e5
#: Relative residual to which coefficients from a factor in single precision are refined, and the maximum of iterations.
SINGLE_TOLERANCE, MAX_REFINEMENTS = 1e-10, 200


def _inverse_blocks(P: Array) -> Array:
    return 1.0 / P if P.shape[1] == 1 else np.asarray(np.linalg.inv(P))


class PairwiseLeaveOneOut(LeaveOneOut):
    """Any kernel and any gaps, as one dense problem of the observed pairs, scaled by sqrt(w / alpha) to the ridge 1.

    E has a column for the intercept of each output. Variances are small differences, so they are computed from the
    factor of A, which is more accurate than the inverse. For new points `cross` is the kernel between every output of x
    and the pairs, (m, d, N), and `prior` that of every output of x with itself, (m, d).
    """

    def __init__(
        self,
        K: Array,  # (N, N) gram of the observed pairs, not scaled
        pairs: ObservedPairs,
        alpha: float | Array,
        *,
        intercept: bool = True,
        together: Indices | None = None,
    ) -> None:
        self._solve(K.astype, lambda v: K @ v, np.diagonal(K), pairs, alpha, intercept, together)

    def _solve(
        self,
        gram: Callable[[Any], Array],  # a new array of the (N, N) gram of that type
        times: Callable[[Array], Array],  # its product with (N, k)
        diagonal: Array,
        pairs: ObservedPairs,
        alpha: float | Array,
        intercept: bool,
        together: Indices | None,
    ) -> None:
        (n, d), rows, outputs = pairs.shape, pairs.points, pairs.outputs
        super().__init__(alpha, d, n, together)
        self._scales = scales = pairs.roots / np.sqrt(self.alpha[outputs])
        E = pairs.columns() / np.sqrt(self.alpha) if intercept else np.empty((len(pairs), 0))
        right = np.column_stack([E, scales * pairs.values])
        with ProgressBar("leave-one-out of pairs", total=3) as bar:
            single = len(pairs) > MAX_DOUBLE_PAIRS and float((diagonal * scales**2).max()) <= MAX_SINGLE_VALUE
            self._L = self._factored(gram, np.float32 if single else np.float64)
            bar.update()
            if self._L.dtype == np.float32:
                # Variances may have the precision of the factor; the coefficients are refined.
                def apply(v: Array) -> Array:
                    return scales[:, None] * times(scales[:, None] * v) + v

                def precondition(v: Array) -> Array:
                    return np.asarray(cho_solve((self._L, True), v.astype(np.float32)), dtype=np.float64)

                found = conjugate_gradients(apply, right, precondition, None, SINGLE_TOLERANCE, MAX_REFINEMENTS).X
            else:
                found = np.asarray(cho_solve((self._L, True), right))
            bar.update()
            # L^-1 in Fortran order: (A^-1)_II are the products of its columns.
            inverse, _ = get_lapack_funcs(("trtri",), (self._L,))[0](self._L, lower=1)
            # Leaving out a block without observations changes nothing.
            self._seen, numbers = np.unique(self.block[rows], return_inverse=True)
            self._blocks = Blocks(len(pairs), numbers)
            parts = [[inverse.T[own, own.min() :] for own in each] for each in self._blocks.sets]
            P = [np.stack([V @ V.T for V in each]) for each in parts]
            bar.update()
        self._c = found[:, -1]
        # The intercepts' part of l: Z M e_j for output j.
        self._Z, self._means = np.zeros((2, len(pairs), d))
        self._M, self.b = np.zeros((d, d)), np.zeros(d)
        if intercept:
            self._Z = found[:, :-1]
            self._M = np.asarray(np.linalg.inv(E.T @ self._Z), dtype=np.float64)
            self._means = self._Z @ self._M
            self.b = self._means.T @ right[:, -1]
            self._c = self._c - self._Z @ self.b
            P = [
                B - self._means[each] @ self._Z[each].swapaxes(1, 2)
                for B, each in zip(P, self._blocks.sets, strict=True)
            ]
        self._inverses = [_inverse_blocks(block) for block in P]
        self._r = self._blocks.solve(P, self._c[:, None])
        self.residuals = pairs.spread(self._r[:, 0] / scales, np.nan)
        self.variances = pairs.spread(self._blocks.diagonal(self._inverses) / scales**2, np.nan)

    def _factored(self, gram: Callable[[Any], Array], dtype: Any) -> Array:
        """Lower factor of A; in double precision where rounding makes A indefinite."""
        A = gram(dtype)
        scales = self._scales.astype(dtype)
        A *= scales[:, None]
        A *= scales
        A[np.diag_indices_from(A)] += 1.0
        try:
            # A is symmetric: its transpose is in the order of LAPACK.
            return np.asarray(cholesky(A.T, lower=True, overwrite_a=True, check_finite=False))
        except np.linalg.LinAlgError:
            if dtype == np.float64:
                raise
            return self._factored(gram, np.float64)

    @cached_property
    def _P(self) -> Array:
        return inverse_of_factor(self._L) - self._means @ self._Z.T

    def predict(self, cross: Array) -> Array:
        return np.asarray((cross * self._scales) @ self._c + self.b)

    def _weights(self, cross: Array, q: int) -> Array:
        """l_q(x) of one output, (m, N), in the scale of the pairs."""
        return np.asarray((cross[:, q] * self._scales) @ self._P + self._means[:, q])

    def variance(self, cross: Array, prior: Array) -> Array:
        m, d, N = cross.shape
        scaled = (cross * self._scales).reshape(m * d, N)
        white = solve_triangular(self._L, scaled.T.astype(self._L.dtype), lower=True, check_finite=False)
        explained = np.einsum("ij,ij->j", white, white, dtype=np.float64).reshape(m, d)
        return self._left(prior, explained, (scaled @ self._Z).reshape(m, d, d))

    def _left(self, prior: Array, explained: Array, along: Array) -> Array:
        """v_j(x), (m, d), from K_jj(x, x) and k_j'A^-1 k_j, (m, d) each, and Z'k_j, (m, d, d)."""
        D = np.eye(prior.shape[1]) - along
        return np.asarray(np.maximum(prior - explained + np.einsum("mjp,mjp->mj", D @ self._M, D), 0.0))

    def predict_without(self, cross: Array) -> Array:
        changes = np.zeros((len(cross), self.n_blocks, len(self.alpha)))
        for q in range(len(self.alpha)):
            changes[:, self._seen, q] = self._blocks.products(self._weights(cross, q), self._r)[:, :, 0]
        return self.predict(cross)[:, None, :] - changes

    def variance_without(self, cross: Array, prior: Array) -> Array:
        added = np.zeros((len(cross), self.n_blocks, len(self.alpha)))
        for q in range(len(self.alpha)):
            added[:, self._seen, q] = self._blocks.inner(self._weights(cross, q), self._inverses)
        return self.variance(cross, prior)[:, None, :] + added


class ScalarPairsLeaveOneOut(PairwiseLeaveOneOut):
    """The same for a kernel k T, without forming the kernel values of pairs of a point and an output.

    With a_jp = T_jq s_p for the pair p = (i, q) of scale s_p, and A_j the (n, N) matrix with a_jp at (i, p), k_j(x) is
    A_j'k(x). So k_j'A^-1 k_j = |R_j k(x)|^2, where A = L L' and L^-1 A_j' = Q_j R_j with orthonormal columns Q_j: R_j
    is (n, n) for any number of outputs. G (n, n) is the gram of k; for `cross` and `prior` see `SeparableLeaveOneOut`.
    """

    def __init__(
        self,
        G: Array,
        T: Array,
        pairs: ObservedPairs,
        alpha: float | Array,
        *,
        intercept: bool = True,
        together: Indices | None = None,
    ) -> None:
        points, outputs = pairs.points, pairs.outputs

        def gram(dtype: Any) -> Array:
            K = G.astype(dtype)[points][:, points]
            K *= T.astype(dtype)[outputs][:, outputs]
            return np.ascontiguousarray(K)

        def times(v: Array) -> Array:
            return np.stack([(G @ pairs.spread(column) @ T)[points, outputs] for column in v.T], axis=1)

        self._solve(gram, times, np.diagonal(G)[points] * np.diagonal(T)[outputs], pairs, alpha, intercept, together)
        self._T, self._pairs, self._asked = T, pairs, 0
        self._C = pairs.spread(self._scales * self._c) @ T

    def _gathering(self, q: int) -> sparse.csr_array:
        """A_q, (n, N)."""
        points, outputs = self._pairs.points, self._pairs.outputs
        values = self._T[q, outputs] * self._scales
        return sparse.csr_array((values, (points, np.arange(len(points)))), shape=(self._pairs.shape[0], len(points)))

    @cached_property
    def _gathered(self) -> list[tuple[Array, Array]]:
        """R_q, (n, n), and A_q Z, (n, d), of each output."""
        result = []
        for A in map(self._gathering, range(len(self._T))):
            white = solve_triangular(self._L, A.toarray().T.astype(self._L.dtype), lower=True, check_finite=False)
            result.append((np.asarray(np.linalg.qr(white, mode="r"), dtype=np.float64), A @ self._Z))
        return result

    def predict(self, cross: Array) -> Array:
        return np.asarray(cross @ self._C + self.b)

    def _weights(self, cross: Array, q: int) -> Array:
        return np.asarray(cross @ (self._gathering(q) @ self._P) + self._means[:, q])

    def variance(self, cross: Array, prior: Array) -> Array:
        d, outputs = len(self._T), self._pairs.outputs
        # The R_q take the time of about n points, so they only pay off for more.
        self._asked += len(cross)
        if self._asked <= len(self.block):
            at_pairs = cross[:, None, self._pairs.points] * self._T[:, outputs]
            return super().variance(at_pairs, np.multiply.outer(prior, np.diagonal(self._T)))
        explained, along = np.empty((len(cross), d)), np.empty((len(cross), d, d))
        for q, (R, gathered) in enumerate(self._gathered):
            white = cross @ R.T
            explained[:, q] = np.einsum("ij,ij->i", white, white)
            along[:, q] = cross @ gathered
        return self._left(np.multiply.outer(prior, np.diagonal(self._T)), explained, along)


def residuals_of_smoother(R: Array, H: Array) -> Array:
    """Leave-one-out residuals (n, d) from residuals R (n, d), nan if missing, and blocks H (n, d, d) of a smoother.

    If fitted values are linear in the outputs, and H_i is the derivative of those of row i with respect to its outputs,
    the residual is (I - H_i)^-1 r_i.
    """
    seen = ~np.isnan(R)
    H = np.where(seen[:, :, None] & seen[:, None, :], H, 0.0)
    found = np.linalg.solve(np.eye(R.shape[1]) - H, np.where(seen, R, 0.0)[:, :, None])[:, :, 0]
    return np.where(seen, found, np.nan)


# The mean squared residual as a criterion with derivatives.
#
# With B = A^-1 (P where there are unpenalised columns), r_I = B_II^-1 c_I and p_I = B_II^-1 r_I, the mean of |r|^2 over
# N pairs changes with A by <Omega, dA>,
#
#     Omega = (2 / N) (B S B - (B p c' + c p'B) / 2),   S block diagonal, S_II = (r_I p_I' + p_I r_I') / 2.
#
# With one term k T and complete outputs the computation is elementwise in the eigenvectors, except for one product per
# output in the derivative with respect to G.


def separable_leave_one_out(G: Array, T: Array, Y: Array, noise: Array) -> Criterion:
    """Mean squared residual of complete outputs Y, (n, d), each row left out, under G (x) T + I (x) diag(noise)."""
    n, d = Y.shape
    root = np.sqrt(noise)
    scaled, Y = T / np.outer(root, root), Y / root
    t, V, g, Q, filters = decomposed(scaled, G)
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
    # The noise enters through the mean, the scaled outputs and the scaled operator.
    own = noise * (residuals**2).sum(axis=0) / (n * d)
    by_log_noise = own - 0.5 * np.einsum("iq,iq->q", Q @ P @ V.T, Y) - (by_scaled * scaled).sum(axis=1)
    return Criterion(value, [by_gram], [by_scaled / np.outer(root, root)], by_log_noise / noise)


def pairwise_leave_one_out(A: Array, y: Array, together: Indices, E: Array | None = None) -> tuple[float, Array]:
    """Mean squared residual of the pairs y, leaving out those with equal `together`, and its derivative Omega."""
    B, c, _ = solved(A, y, E)
    blocks = Blocks(len(y), together)
    inner = blocks.gather(B)
    r = blocks.solve(inner, c[:, None])
    p = blocks.solve(inner, r)
    r, p = r[:, 0], p[:, 0]
    rows = np.concatenate([np.repeat(rows, rows.shape[1], axis=1).ravel() for rows in blocks.sets])
    columns = np.concatenate([np.tile(rows, rows.shape[1]).ravel() for rows in blocks.sets])
    S = sparse.csr_array((0.5 * (r[rows] * p[columns] + p[rows] * r[columns]), (rows, columns)), shape=B.shape)
    after = B @ p
    omega = B @ (S @ B) - 0.5 * (np.outer(after, c) + np.outer(c, after))
    return float(r @ r) / len(y), (2.0 / len(y)) * omega
