"""Left-out functions anywhere: residuals, variances and whole predictions without some of the rows, from one solve.

Kernel ridge regression with ridge a, gram t G and an unpenalised intercept has, with A = t G + a I, u the column of
ones and z = A^-1 u,

    P = A^-1 - z z' / (u'z),   c = P y,   f(x) = t k(x)'c + b,   l(x) = t P k(x) + z / (u'z)

(P = A^-1, l = t P k without intercept). Leaving the rows I out and fitting again gives

    residuals       y_I - f_-I(x_I) = P_II^-1 c_I = r_I,    with predictive covariance P_II^-1
    functions       f_-I(x) = f(x) - l_I(x)' r_I
    variances       v_-I(x) = v(x) + l_I(x)' P_II^-1 l_I(x)

of which v(x) = t k(x, x) - t^2 k(x)'A^-1 k(x) + (1 - t k(x)'z)^2 / (u'z) is the posterior variance of f(x). Weights w
scale rows: W^1/2 G W^1/2, W^1/2 Y, u = w^1/2. Several outputs that an operator T couples fall apart into such problems
in the eigenvectors V of T. An alpha for each output, D = diag(alpha), is the operator D^-1/2 T D^-1/2 on the outputs
Y D^-1/2 with the ridge 1.

A left-out alpha is no noise variance: the posterior of output j is meant up to a factor sigma_j^2, the mean of
r_ij^2 / s_ij^2 over the rows, where s_ij^2 is the predictive variance above. Nor need alpha have the right size beside
the kernel: where repeated inputs are left out together, nothing in the left-out errors tells noise apart from alpha.
Their own spread tells it, and then the noise e_j of an observation is raised above alpha_j until e_j sigma_j^2, which
grows with it, is that spread (`raise_noise`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from ovk._types import Array, Indices
from ovk.operators.base import spectrum
from ovk.solvers.eigen import Eigenpairs
from ovk.targets import members_of_groups

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
    >>> from ovk.solvers.left_out import SeparableLeftOut
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
