"""Leave-one-out errors in closed form.

If A = K + alpha I and c = A^-1 y, leaving the entries I out and predicting them from the rest gives the residuals

    y_I - f_without_I(x_I) = (A^-1)_II^-1 c_I.

For a separable kernel this is elementwise in the eigenvectors V of T: with G = Q diag(g) Q' and S = 1 / (g t' + alpha),

    C~ = Q ((Q'YV) * S),   H = (Q * Q) S,   rows left out: (C~ / H) V',   entries left out: C / (H (V * V)').

With an unpenalised intercept A^-1 is replaced by A^-1 - z z' / (u'z), z = A^-1 u, u = 1 (or the square roots of the
weights): subtracting the mean beforehand is *not* the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, lapack, solve_triangular

from ovk.base import Array, Indices, ObservedPairs, members_of_groups
from ovk.operators import Spectrum, spectrum
from ovk.ovkernels import Rotated
from ovk.solvers.eigen import Eigenpairs, eigenpairs

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


# Left-out functions anywhere: residuals, variances and whole predictions without some of the rows, from one solve.
#
# Kernel ridge regression with ridge a, gram t G and an unpenalised intercept has, with A = t G + a I, u the column of
# ones and z = A^-1 u,
#
#     P = A^-1 - z z' / (u'z),   c = P y,   f(x) = t k(x)'c + b,   l(x) = t P k(x) + z / (u'z)
#
# (P = A^-1, l = t P k without intercept). Leaving the rows I out and fitting again gives
#
#     residuals       y_I - f_-I(x_I) = P_II^-1 c_I = r_I,    with predictive covariance P_II^-1
#     functions       f_-I(x) = f(x) - l_I(x)' r_I
#     variances       v_-I(x) = v(x) + l_I(x)' P_II^-1 l_I(x)
#
# of which v(x) = t k(x, x) - t^2 k(x)'A^-1 k(x) + (1 - t k(x)'z)^2 / (u'z) is the posterior variance of f(x). Weights w
# scale rows: W^1/2 G W^1/2, W^1/2 Y, u = w^1/2. Several outputs that an operator T couples fall apart into such
# problems
# in the eigenvectors V of T. An alpha for each output, D = diag(alpha), is the operator D^-1/2 T D^-1/2 on the outputs
# Y D^-1/2 with the ridge 1.
#
# A left-out alpha is no noise variance: the posterior of output j is meant up to a factor sigma_j^2, the mean of
# r_ij^2 / s_ij^2 over the rows, where s_ij^2 is the predictive variance above. Nor need alpha have the right size
# beside
# the kernel: where repeated inputs are left out together, nothing in the left-out errors tells noise apart from alpha.
# Their own spread tells it, and then the noise e_j of an observation is raised above alpha_j until e_j sigma_j^2, which
# grows with it, is that spread (`raise_noise`).

#: How far noise is raised above alpha at most, and halvings of the interval in which it is looked for.
MOST_NOISE, HALVINGS = 1e8, 40
#: Rows that the mean over all times counts for where the scale of one time is estimated.
COMMON_ROWS = 10.0


class LeftOut(ABC):
    """A ridge regression with blocks of its rows left out in turn; see `SeparableLeftOut` and
    `left_out_pairs.PairsLeftOut`.

    The new points of a method come as `cross`, their kernel values against the training data, and `prior`, their own.

    Attributes
    ----------
    residuals : (n, d) y_i - f_-I(x_i), I the block of row i; nan where an output was not observed
    variances : (n, d) s_ij^2, the variance of that residual up to `scale`; nan where an output was not observed
    block : (n,) the number of each row's block, from 0
    n_blocks : how many there are
    alpha : (d,) ridge weights
    noise : (d,) the noise variance of an observation of weight 1, up to `scale`: alpha, unless it was raised
    alike : whether outputs are values of one curve, whose errors in units of their standard deviations have much the
        same distribution at all times: where few curves were seen, the other times then tell it
    """

    residuals: Array
    variances: Array
    block: Indices
    n_blocks: int
    alpha: Array
    noise: Array
    alike: bool = False

    def raise_noise(self, spread: Array, weight: Array | None = None) -> None:
        """Raise the noise of outputs whose observations at the same inputs are further apart than it says.

        Parameters
        ----------
        spread : (d,) variances of observations of weight 1 at the same inputs
        weight : (n,) weights of the rows
        """
        shares = np.ones((len(self.residuals), 1)) if weight is None else 1.0 / weight[:, None]
        squares = self.residuals**2

        def known(noise: Array) -> Array:
            return noise * _column_means(squares / (self.variances + (noise - self.alpha) * shares))

        low, high = np.log(self.alpha), np.log(self.alpha) + np.log(MOST_NOISE)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            enough = known(np.exp(middle)) >= spread
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        noise = np.where(known(self.alpha) >= spread, self.alpha, np.exp(high))
        self.variances = self.variances + (noise - self.alpha) * shares
        self.noise = noise

    @cached_property
    def scale(self) -> Array:
        """(d,) sigma_j^2, the mean of r_ij^2 / s_ij^2: what the variances have to be multiplied by.

        If the outputs are alike, the mean of all of them counts as `COMMON_ROWS` rows more of each.
        """
        squares = self.residuals**2 / self.variances
        if not self.alike:
            return _column_means(squares)
        seen = ~np.isnan(squares)
        common = _column_means(squares.reshape(-1, 1))
        total = np.where(seen, squares, 0.0).sum(axis=0) + COMMON_ROWS * common
        return np.asarray(total / (seen.sum(axis=0) + COMMON_ROWS))

    @abstractmethod
    def predict(self, cross: Array) -> Array:
        """f(x), (m, d)."""

    @abstractmethod
    def variance(self, cross: Array, prior: Array) -> Array:
        """v(x), (m, d): the variance of f(x) up to `scale`; with `alpha` added, that of a new observation."""

    def deviation(self, cross: Array, prior: Array, *, observation: bool = True) -> Array:
        """(m, d) standard deviation of a new observation at x, or of f(x) alone, up to the root of `scale`."""
        v = self.variance(cross, prior)
        return np.sqrt(v + self.noise if observation else v)

    @abstractmethod
    def predict_without(self, cross: Array) -> Array:
        """f_-I(x) for every block I, (m, n_blocks, d)."""

    @abstractmethod
    def variance_without(self, cross: Array, prior: Array) -> Array:
        """v_-I(x) for every block I, (m, n_blocks, d)."""


def _column_means(values: Array) -> Array:
    """(d,) means over the rows of (n, d) without nan; 1 where there is nothing else."""
    seen = ~np.isnan(values)
    counts = seen.sum(axis=0)
    total = np.where(seen, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, counts, out=np.ones(len(counts)), where=counts > 0))


class RowBlocks:
    """Rows by blocks; blocks of a single row are handled all at once."""

    def __init__(self, numbers: Indices) -> None:
        _, self.block = np.unique(numbers, return_inverse=True)
        self.members = members_of_groups(self.block)
        if len(self.members) < 2:
            raise ValueError(
                "at least 2 blocks of rows are needed to leave one out, but all rows are in one: give groups, or a "
                "number of folds, that split the rows"
            )
        self.alone = all(len(rows) == 1 for rows in self.members)

    def __len__(self) -> int:
        return len(self.members)


class BlockInverses:
    """P_II = L_I L_I' for every block I, and products with its inverse."""

    def __init__(self, diagonal: Array, entries: list[Array] | None, blocks: RowBlocks) -> None:
        self._diagonal, self._blocks = diagonal, blocks
        self._factors = None if entries is None else [cho_factor(block, lower=True) for block in entries]

    def residuals(self, c: Array) -> Array:
        """P_II^-1 c_I for columns c, (n, k)."""
        if self._factors is None:
            return c / self._diagonal[:, None]
        result = np.empty_like(c)
        for rows, factor in zip(self._blocks.members, self._factors, strict=True):
            result[rows] = cho_solve(factor, c[rows])
        return result

    def variances(self) -> Array:
        """The diagonals of P_II^-1, (n,)."""
        if self._factors is None:
            return 1.0 / self._diagonal
        result = np.empty_like(self._diagonal)
        for rows, factor in zip(self._blocks.members, self._factors, strict=True):
            result[rows] = np.diagonal(cho_solve(factor, np.eye(len(rows))))
        return result

    def inner(self, L: Array) -> Array:
        """l_I' P_II^-1 l_I for each row l of L, (m, n): (m, blocks)."""
        if self._factors is None:
            return self._blocks_of_one(L**2 / self._diagonal)
        result = np.empty((len(L), len(self._blocks)))
        for number, (rows, (factor, _)) in enumerate(zip(self._blocks.members, self._factors, strict=True)):
            white = solve_triangular(factor, L[:, rows].T, lower=True)
            result[:, number] = np.einsum("ij,ij->j", white, white)
        return result

    def products(self, L: Array, r: Array) -> Array:
        """l_I' r_I for each row l of L, (m, n), and each column of r, (n, k): (m, blocks, k)."""
        if self._factors is None:
            return self._blocks_of_one(L)[:, :, None] * r[np.argsort(self._blocks.block)]
        return np.stack([L[:, rows] @ r[rows] for rows in self._blocks.members], axis=1)

    def _blocks_of_one(self, values: Array) -> Array:
        result = np.empty_like(values)
        result[:, self._blocks.block] = values
        return result


class _ScalarProblem:
    """The formulas above for one multiplier t, ridge 1, and the outputs that share them.

    Attributes
    ----------
    residuals : (n, k), scaled by the square roots of weights as Y is
    variances : (n,)
    """

    def __init__(self, pairs: Eigenpairs, t: float, Y: Array, u: Array | None, blocks: RowBlocks) -> None:
        self._pairs, self._t, self._u = pairs, t, u
        self._c = pairs.solve(Y, t, 1.0)
        # Beyond the span of Q the inverse is I: have it everywhere, and correct it on the span.
        self._beyond = 0.0 if pairs.full else 1.0
        filters = 1.0 / (t * pairs.g + 1.0) - self._beyond
        diagonal = pairs.Q**2 @ filters + self._beyond
        if u is not None:
            self._z = pairs.solve(u[:, None], t, 1.0)[:, 0]
            self._total = float(u @ self._z)
            self.b = (self._z @ Y) / self._total
            self._c = self._c - np.outer(self._z, self.b)
            diagonal = diagonal - self._z**2 / self._total
        entries = None if blocks.alone else [self._block(rows, filters) for rows in blocks.members]
        self._inverses = BlockInverses(diagonal, entries, blocks)
        self.residuals = self._inverses.residuals(self._c)
        self.variances = self._inverses.variances()

    def _block(self, rows: Indices, filters: Array) -> Array:
        Q = self._pairs.Q[rows]
        P: Array = (Q * filters) @ Q.T + self._beyond * np.eye(len(rows))
        return P if self._u is None else P - np.outer(self._z[rows], self._z[rows]) / self._total

    def predict(self, cross: Array) -> Array:
        """f(x), (m, k)."""
        values: Array = self._t * (cross @ self._c)
        return values if self._u is None else values + self.b

    def _weights(self, cross: Array) -> Array:
        """l(x), (m, n): how much f(x) moves with each output."""
        L: Array = self._t * self._pairs.solve(cross.T, self._t, 1.0).T
        if self._u is None:
            return L
        return L + np.outer((1.0 - self._t * (cross @ self._z)) / self._total, self._z)

    def variance(self, cross: Array, prior: Array) -> Array:
        """v(x), (m,)."""
        explained = np.einsum("ij,ij->i", cross, self._pairs.solve(cross.T, self._t, 1.0).T)
        v: Array = self._t * prior - self._t**2 * explained
        if self._u is not None:
            v = v + (1.0 - self._t * (cross @ self._z)) ** 2 / self._total
        return np.maximum(v, 0.0)

    def changes(self, cross: Array) -> Array:
        """f(x) - f_-I(x), (m, blocks, k)."""
        return self._inverses.products(self._weights(cross), self.residuals)

    def added_variance(self, cross: Array) -> Array:
        """v_-I(x) - v(x), (m, blocks)."""
        return self._inverses.inner(self._weights(cross))


class SeparableLeftOut(LeftOut):
    """Complete outputs and a kernel k T, from the eigenvectors of the gram of k.

    Parameters
    ----------
    pairs : eigenpairs of the scalar gram G, (n, n); with weights of W^1/2 G W^1/2
    Y : (n, d) outputs as they are
    T : (d, d) the output operator
    alpha : float or (d,) > 0
    weight : (n,) sample weights, optional
    intercept : whether each output has an unpenalised constant
    together : (n,) numbers; rows with the same number are left out together. Each row alone by default

    For new points `cross` is k(x, x_i), (m, n), and `prior` k(x, x), (m,).

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.solvers.eigen import eigenpairs
    >>> from ovk.solvers.leave_one_out import SeparableLeftOut
    >>> X, k = np.linspace(0, 1, 6)[:, None], Gaussian(0.5)
    >>> model = SeparableLeftOut(eigenpairs(k(X)), np.hstack([X, X**2]), np.eye(2), 0.1)
    >>> model.predict_without(k(X[:1], X)).shape
    (1, 6, 2)
    >>> bool(np.allclose(model.predict_without(k(X[:1], X))[0, 0], [0, 0] - model.residuals[0]))
    True
    """

    def __init__(
        self,
        pairs: Eigenpairs,
        Y: Array,
        T: Array,
        alpha: float | Array,
        weight: Array | None = None,
        *,
        intercept: bool = True,
        together: Indices | None = None,
    ) -> None:
        n, d = Y.shape
        self.alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), d).copy()
        self.noise, self._root = self.alpha, np.sqrt(self.alpha)
        found = spectrum(T / np.outer(self._root, self._root), "the output operator")
        self._V = found.vectors
        blocks = RowBlocks(np.arange(n) if together is None else together)
        self.block, self.n_blocks = blocks.block, len(blocks)
        self._scales = None if weight is None else np.sqrt(weight)
        scaled = (Y / self._root) @ self._V
        if self._scales is not None:
            scaled = scaled * self._scales[:, None]
        u = (np.ones(n) if self._scales is None else self._scales) if intercept else None
        self._problems = [
            (columns, _ScalarProblem(pairs, float(t), scaled[:, columns], u, blocks))
            for columns, t in zip(found.groups, found.distinct, strict=True)
        ]
        rotated = self._gather(lambda problem: problem.residuals, (n,))
        variances = self._spread(lambda problem: problem.variances, (n,))
        if self._scales is not None:
            rotated, variances = rotated / self._scales[:, None], variances / self._scales[:, None] ** 2
        self.residuals, self.variances = self._back(rotated), variances

    def _gather(self, values: Callable[[_ScalarProblem], Array], shape: tuple[int, ...]) -> Array:
        """Values (*shape, k) of each problem, side by side: (*shape, d) in the eigenvectors of the operator."""
        result = np.empty((*shape, len(self._V)))
        for columns, problem in self._problems:
            result[..., columns] = values(problem)
        return result

    def _spread(self, values: Callable[[_ScalarProblem], Array], shape: tuple[int, ...]) -> Array:
        """Variances (*shape) of each problem as those of the outputs, (*shape, d): alpha_j sum_q V_jq^2 v_q."""
        rotated = np.empty((*shape, len(self._V)))
        for columns, problem in self._problems:
            rotated[..., columns] = values(problem)[..., None]
        return (rotated @ (self._V**2).T) * self.alpha

    def _back(self, rotated: Array) -> Array:
        """From the eigenvectors of the operator to the outputs."""
        return (rotated @ self._V.T) * self._root

    def _weighted(self, cross: Array) -> Array:
        return cross if self._scales is None else cross * self._scales

    def predict(self, cross: Array) -> Array:
        cross = self._weighted(cross)
        return self._back(self._gather(lambda problem: problem.predict(cross), (len(cross),)))

    def variance(self, cross: Array, prior: Array) -> Array:
        cross = self._weighted(cross)
        return self._spread(lambda problem: problem.variance(cross, prior), (len(cross),))

    def predict_without(self, cross: Array) -> Array:
        whole, cross = self.predict(cross), self._weighted(cross)
        changes = self._gather(lambda problem: problem.changes(cross), (len(cross), self.n_blocks))
        return whole[:, None, :] - self._back(changes)

    def variance_without(self, cross: Array, prior: Array) -> Array:
        whole, cross = self.variance(cross, prior), self._weighted(cross)
        added = self._spread(lambda problem: problem.added_variance(cross), (len(cross), self.n_blocks))
        return whole[:, None, :] + added


# Left-out functions where outputs are missing: one dense problem on the observed pairs of a row and an output.
#
# The formulas are those of `left_out` with A = K + I on the N pairs (rows scaled by sqrt(w / alpha)), a column of E for
# the intercept of each output, Z = A^-1 E, M = (E'Z)^-1 and
#
#     P = A^-1 - Z M Z',   l_j(x) = P k_j(x) + Z M e_j,   v_j(x) = K_jj(x, x) - k_j'A^-1 k_j + D_j'M D_j,
#
# D_j = e_j - Z'k_j. Variances come from the factor of A: they are small differences, which the inverse would round.


class PairsLeftOut(LeftOut):
    """Any kernel and any gaps, as one dense problem on the observed pairs.

    Parameters
    ----------
    K : (N, N) gram of the observed pairs, as they are
    pairs : what was observed, with its weights
    alpha : float or (d,) > 0
    intercept : whether each output has an unpenalised constant
    together : (n,) numbers; rows with the same number are left out together. Each row alone by default

    For new points `cross` is the kernel between every output of x and the pairs, (m, d, N), and `prior` that of every
    output of x with itself, (m, d).
    """

    def __init__(
        self,
        K: Array,
        pairs: ObservedPairs,
        alpha: float | Array,
        *,
        intercept: bool = True,
        together: Indices | None = None,
    ) -> None:
        (n, d), rows, outputs = pairs.shape, pairs.points, pairs.outputs
        self.alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), d).copy()
        self.noise = self.alpha
        self._scales = pairs.roots / np.sqrt(self.alpha[outputs])
        scaled = self._scales * pairs.values
        self._L, _ = cho_factor(K * np.outer(self._scales, self._scales) + np.eye(len(pairs)), lower=True)
        # The inverse from its factor takes a third of the time of solving for the identity, and has one triangle.
        inverse, _ = lapack.dpotri(self._L, lower=1)
        self._P = np.tril(inverse) + np.tril(inverse, -1).T
        # The intercepts' part of l: Z (E'Z)^-1 e_j for output j, Z = A^-1 E.
        self._Z, self._means = np.zeros((2, len(pairs), d))
        self._M, self.b = np.zeros((d, d)), np.zeros(d)
        if intercept:
            E = pairs.columns() / np.sqrt(self.alpha)
            self._Z = np.asarray(cho_solve((self._L, True), E), dtype=np.float64)
            self._M = np.asarray(np.linalg.inv(E.T @ self._Z), dtype=np.float64)
            self._means = self._Z @ self._M
            self.b = self._means.T @ scaled
            self._P = self._P - self._means @ self._Z.T
        self._c = self._P @ scaled
        # Blocks without any observation leave everything as it is.
        blocks = RowBlocks(np.arange(n) if together is None else together)
        self.block, self.n_blocks = blocks.block, len(blocks)
        seen, numbers = np.unique(self.block[rows], return_inverse=True)
        self._seen = seen
        inside = RowBlocks(numbers)
        entries = [self._P[np.ix_(block, block)] for block in inside.members]
        self._inverses = BlockInverses(np.diagonal(self._P).copy(), entries, inside)
        self._r = self._inverses.residuals(self._c[:, None])
        self.residuals, self.variances = np.full((2, n, d), np.nan)
        self.residuals[rows, outputs] = self._r[:, 0] / self._scales
        self.variances[rows, outputs] = self._inverses.variances() / self._scales**2

    def predict(self, cross: Array) -> Array:
        return np.asarray((cross * self._scales) @ self._c + self.b)

    def _weights(self, cross: Array, q: int) -> Array:
        """l_q(x) of one output, (m, N), scaled as the pairs are."""
        return np.asarray((cross[:, q] * self._scales) @ self._P + self._means[:, q])

    def variance(self, cross: Array, prior: Array) -> Array:
        m, d, N = cross.shape
        scaled = (cross * self._scales).reshape(m * d, N)
        white = solve_triangular(self._L, scaled.T, lower=True, check_finite=False)
        explained = np.einsum("ij,ij->j", white, white).reshape(m, d)
        return self._left(prior, explained, (scaled @ self._Z).reshape(m, d, d))

    def _left(self, prior: Array, explained: Array, along: Array) -> Array:
        """v_j(x), (m, d), from K_jj(x, x) and k_j'A^-1 k_j, (m, d) each, and Z'k_j, (m, d, d)."""
        D = np.eye(prior.shape[1]) - along
        return np.asarray(np.maximum(prior - explained + np.einsum("mjp,mjp->mj", D @ self._M, D), 0.0))

    def predict_without(self, cross: Array) -> Array:
        changes = np.zeros((len(cross), self.n_blocks, len(self.alpha)))
        for q in range(len(self.alpha)):
            changes[:, self._seen, q] = self._inverses.products(self._weights(cross, q), self._r)[:, :, 0]
        return self.predict(cross)[:, None, :] - changes

    def variance_without(self, cross: Array, prior: Array) -> Array:
        added = np.zeros((len(cross), self.n_blocks, len(self.alpha)))
        for q in range(len(self.alpha)):
            added[:, self._seen, q] = self._inverses.inner(self._weights(cross, q))
        return self.variance(cross, prior)[:, None, :] + added


class SeparablePairsLeftOut(PairsLeftOut):
    """The same for a kernel k T: kernel values of the pairs of a point and an output are never formed.

    With a_jp = T_jq s_p for the pair p = (i, q) of scale s_p, and A_j the (n, N) matrix with a_jp at (i, p), k_j(x) is
    A_j'k(x). So k_j'A^-1 k_j = |R_j k(x)|^2, where A = L L' and L^-1 A_j' = Q_j R_j with orthonormal columns Q_j: R_j
    is (n, n) however many outputs a point has.

    Parameters
    ----------
    G : (n, n) gram of k
    T : (d, d) the output operator
    others : as in `PairsLeftOut`

    For new points `cross` is k(x, x_i), (m, n), and `prior` k(x, x), (m,).
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
        K = G[np.ix_(points, points)] * T[np.ix_(outputs, outputs)]
        super().__init__(K, pairs, alpha, intercept=intercept, together=together)
        self._T, self._pairs = T, pairs
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
            white = solve_triangular(self._L, A.toarray().T, lower=True, check_finite=False)
            result.append((np.asarray(np.linalg.qr(white, mode="r")), A @ self._Z))
        return result

    def predict(self, cross: Array) -> Array:
        return np.asarray(cross @ self._C + self.b)

    def _weights(self, cross: Array, q: int) -> Array:
        return np.asarray(cross @ (self._gathering(q) @ self._P) + self._means[:, q])

    def variance(self, cross: Array, prior: Array) -> Array:
        d = len(self._T)
        explained, along = np.empty((len(cross), d)), np.empty((len(cross), d, d))
        for q, (R, gathered) in enumerate(self._gathered):
            white = cross @ R.T
            explained[:, q] = np.einsum("ij,ij->i", white, white)
            along[:, q] = cross @ gathered
        return self._left(np.multiply.outer(prior, np.diagonal(self._T)), explained, along)
