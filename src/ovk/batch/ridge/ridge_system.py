"""Ridge regression as a linear system, for every form of outputs, weights and ridge.

    minimise  sum_i w_i |y_i - f(x_i) - b|^2 + alpha |f|^2   =>   (K~ + ridge I) C~ + E b = Y~

Scaling handles weights and an alpha for each output. With complete outputs, R = diag(sqrt w) and S = diag(alpha^-1/2),

    K~ = (R x S) K (R x S),   Y~ = R Y S,   C = R C~ S,   ridge 1

(S = I and ridge alpha when alpha is one number). With missing outputs the unknowns are the observed pairs of a point
and an output, each with the scale v = sqrt(w_point / alpha_output).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.stats import chi2, norm
from sklearn.utils import check_random_state

from ovk.base import (
    Array,
    DeviceMatrix,
    Indices,
    Map,
    ObservedPairs,
    SingularSystemError,
    Targets,
    ridge_and_scales,
    to_host,
)
from ovk.base import cholesky as device_cholesky
from ovk.intervals import NoiseScale, noise_scale
from ovk.kernels import Linear, Precomputed, ScalarKernel
from ovk.operators import spectrum
from ovk.ovkernels import (
    DenseBlocks,
    Expansion,
    Gram,
    Observed,
    OperatorKernel,
    Separable,
    as_operator_kernel,
    row_slices,
)
from ovk.solvers import (
    MAX_DENSE_UNKNOWNS,
    Cholesky,
    CholeskyFactor,
    Eigen,
    LeaveOneOut,
    LowRankPreconditioner,
    PairwiseLeaveOneOut,
    ScalarPairsLeaveOneOut,
    SeparableLeaveOneOut,
    Solution,
    Solver,
    SolverInfo,
    as_solver,
    conjugate_gradients,
    eigenpairs,
    explained_by_pairs,
    explained_covariance,
    random_pivots,
    solve_with_intercept,
)


class RidgeSystem(ABC):
    """A scaled system, and the map from its solution to that of the original problem."""

    gram: Gram  # K~, square
    Y: Array  # Y~ in the shape of the system: (n, d), or (N, 1) for N pairs
    ridge: float  # added to the diagonal
    solver: Any = "auto"

    @cached_property
    def _factored(self) -> tuple[Solver, Any]:
        """The solver and its factorisation of the gram."""
        solver = as_solver(self.solver, self.gram)
        return solver, solver.factor(self.gram)

    @abstractmethod
    def columns(self) -> Array:
        """E: (n,) if all outputs share the column, (N, d) for pairs."""

    @abstractmethod
    def intercept(self, b: Array) -> Array:
        """The intercept, from that of the scaled system."""

    @abstractmethod
    def coefficients(self, C: Array) -> Any:
        """Coefficients of the expansion, (n, d), from those of the scaled system."""

    @abstractmethod
    def reduction(self, X_new: Any, *, intercept: bool) -> Array:
        """Prior minus posterior covariance at each new point, (m, d, d).

        K(x, X) A^-1 K(X, x), minus D (E' A^-1 E)^-1 D' with D = I - K(x, X) A^-1 E for a free intercept.
        """

    def solve(self, *, intercept: bool) -> tuple[Solution, Array | None]:
        """Coefficients of the expansion, and the intercept."""
        solver, state = self._factored
        (C, info), b = solve_with_intercept(solver, state, self.Y, self.ridge, self.columns() if intercept else None)
        return Solution(self.coefficients(C), info), None if b is None else self.intercept(b)


class CompleteSystem(RidgeSystem):
    def __init__(self, kernel: OperatorKernel, X: Any, targets: Targets, alpha: float | Array) -> None:
        self._kernel, self._X = kernel, X
        self._rows = None if targets.weight is None else np.sqrt(targets.weight)
        self.ridge, self._scales = ridge_and_scales(alpha)
        gram = kernel.gram(X)
        plain = self._rows is None and self._scales is None
        self.gram = gram if plain else gram.rescale(self._rows, self._rows, self._scales)
        self.Y = self._scaled(targets.Y)

    def _scaled(self, Y: Array) -> Array:
        """R Y S; also maps C~ to C."""
        if self._rows is not None:
            Y = Y * self._rows[:, None]
        return Y if self._scales is None else Y * self._scales

    def columns(self) -> Array:
        return np.ones(self.gram.shape[0]) if self._rows is None else self._rows

    def intercept(self, b: Array) -> Array:
        return b if self._scales is None else b / self._scales

    def coefficients(self, C: Array) -> Array:
        return self._scaled(C)

    def reduction(self, X_new: Any, *, intercept: bool) -> Array:
        solver, state = self._factored
        cross = self._kernel.gram(X_new, self._X).rescale(None, self._rows, self._scales)
        total = explained_covariance(solver, state, cross, self.ridge)
        if intercept:
            d, u = self.Y.shape[1], self.columns()
            solved = [solver.solve(state, np.outer(u, e), self.ridge).C for e in np.eye(d)]
            D = np.eye(d) - np.stack([cross.matmat(Z) for Z in solved], axis=2)
            M = np.stack([u @ Z for Z in solved], axis=1)
            total -= D @ np.linalg.solve(M, D.swapaxes(1, 2))
        return total if self._scales is None else total / np.outer(self._scales, self._scales)


class PairSystem(RidgeSystem):
    """Observed pairs of a point and an output, from gaps in Y or from long form, where every row is one pair."""

    def __init__(self, kernel: OperatorKernel, X: Any, targets: Targets, alpha: float | Array) -> None:
        self._kernel, self._X, self._d = kernel, X, targets.d
        self._long = targets.task is not None
        self.pairs = pairs = targets.pairs()
        self.ridge, scales = ridge_and_scales(alpha)
        self._scales = scales
        self._v = pairs.roots if scales is None else pairs.roots * scales[pairs.outputs]
        self.Y = (self._v * pairs.values)[:, None]
        plain = targets.weight is None and scales is None
        if self._long:
            gram: Gram = DenseBlocks(kernel.pairs(X, pairs.outputs), 1)
            self.gram = gram if plain else gram.rescale(self._v, self._v, None)
        else:
            base = kernel.gram(X)
            rows = None if targets.weight is None else np.sqrt(targets.weight)
            self.gram = Observed(base if plain else base.rescale(rows, rows, scales), pairs.points, pairs.outputs)

    def columns(self) -> Array:
        columns = self.pairs.columns()
        return columns if self._scales is None else columns * self._scales[self.pairs.outputs][:, None]

    def intercept(self, b: Array) -> Array:
        return b

    def coefficients(self, C: Array) -> Any:
        at = self.pairs.points, self.pairs.outputs
        full = sparse.csr_array((self._v * C[:, 0], at), shape=self.pairs.shape)
        # In long form nearly all of the (n, d) coefficients are zero.
        return full if self._long else full.toarray()

    def reduction(self, X_new: Any, *, intercept: bool) -> Array:
        m, d = X_new.shape[0], self._d
        return self.reduction_at(X_new[np.repeat(np.arange(m), d)], np.tile(np.arange(d), m), d, intercept=intercept)

    def reduction_at(self, X_new: Any, outputs: Indices, size: int = 1, *, intercept: bool) -> Array:
        """`reduction` for one output of each new row, in blocks of `size` rows: (rows / size, size, size)."""
        pairs, (solver, state) = self.pairs, self._factored
        cross = (self._kernel.pairs(X_new, outputs, self._X[pairs.points], pairs.outputs) * self._v).T
        total = explained_by_pairs(solver, state, cross, self.ridge, size)
        if intercept:
            E = self.columns()
            Z = np.column_stack([solver.solve(state, e[:, None], self.ridge).C[:, 0] for e in E.T])
            D = (np.eye(self._d)[outputs] - cross.T @ Z).reshape(-1, size, self._d)
            total -= D @ np.linalg.solve(E.T @ Z, D.swapaxes(1, 2))
        return total


def ridge_system(kernel: OperatorKernel, X: Any, targets: Targets, alpha: float | Array) -> RidgeSystem:
    return (CompleteSystem if targets.complete else PairSystem)(kernel, X, targets, alpha)


def takes_gram(kernel: Any) -> bool:
    """Whether the inputs are rows of a kernel matrix."""
    if isinstance(kernel, (list, tuple)):
        return any(map(takes_gram, kernel))
    if isinstance(kernel, OperatorKernel):
        separable = kernel.as_separable()
        kernel = None if separable is None else separable.kernel
    if isinstance(kernel, str):
        return kernel == "precomputed"
    return isinstance(kernel, Precomputed) and kernel.matrix is None


def as_generator(random_state: Any) -> Any:
    """A Generator as given, else a RandomState made from `random_state` as in scikit-learn."""
    return random_state if isinstance(random_state, np.random.Generator) else check_random_state(random_state)


def new_generator(random_state: Any) -> np.random.Generator:
    """A Generator, seeded by `random_state` as in scikit-learn if it is not one."""
    given = as_generator(random_state)
    return given if isinstance(given, np.random.Generator) else np.random.default_rng(given.randint(2**31))


def same_inputs(X: Any) -> Indices:
    """(n,) group numbers of rows with the same inputs, in order of appearance."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in row_keys(X)], dtype=np.intp)


def order_of_rows(X: Any, Y: Array) -> Indices:
    """Row numbers in an order that depends only on the contents of the rows."""
    keys = list(zip(row_keys(X), row_keys(Y), strict=True))
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def row_keys(X: Any) -> list[Any]:
    """Sortable keys, equal for rows with equal inputs."""
    X = to_host(X)
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        X.sum_duplicates()
        bounds = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return [(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in bounds]
    # + 0.0 turns -0.0 into 0.0.
    return [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]


def rows_held_out_together(kernel: Any, X: Any, targets: Targets, *, intercept: bool) -> Indices:
    """(n,) group numbers of rows with the same inputs; checks that leave-one-out errors are meaningful."""
    same = np.arange(X.shape[0]) if takes_gram(kernel) else same_inputs(X)
    if intercept:
        check_two_inputs(targets.pairs(same))
    elif not takes_gram(kernel):
        warn_of_centred_rows(kernel, X, targets)
    return same


def warn_of_centred_rows(kernel: Any, X: Any, targets: Targets) -> None:
    """Warn if each row is the negative sum of the others, in inputs and outputs.

    With 1'X = 0 the gram G of the linear kernel has G 1 = 0. With rank n - 1 and 1'y = 0, as alpha goes to zero,
    (G + alpha)^-1 y stays bounded and the diagonal of (G + alpha)^-1 = 11' / (n alpha) + ... does not: their ratio, the
    leave-one-out residual, goes to zero for any y.
    """
    X, n = to_host(X), X.shape[0]
    if sparse.issparse(X) or X.shape[1] < n - 1 or np.isnan(targets.Y).any():
        return
    for A in (X, targets.Y):
        sizes = np.abs(A).sum(axis=0)
        if not (sizes.any() and (np.abs(A.sum(axis=0)) <= 1e-9 * sizes).all()):
            return
    given = kernel if isinstance(kernel, Sequence) else [kernel]
    # Without a kernel, the candidates include a linear kernel.
    terms = [[] if one is None else as_operator_kernel(one).terms() for one in given]
    if any(each is not None and all(isinstance(term.kernel, Linear) for term in each) for each in terms):
        warnings.warn(
            f"the columns of X and y sum to zero, and with {X.shape[1]} inputs a linear kernel can fit all {n} rows: "
            "each row follows from the others, so leave-one-out errors and the chosen alpha are too small. Set "
            "fit_intercept=True, or do not centre the data",
            stacklevel=6,
        )


def check_two_inputs(pairs: ObservedPairs) -> None:
    """A free intercept needs each output at two different inputs, one of which stays when the other is left out."""
    for q in range(pairs.shape[1]):
        if len(np.unique(pairs.groups[pairs.outputs == q])) == 1:
            raise ValueError(
                "leave-one-out with fit_intercept=True requires each output at 2 or more different inputs, but output "
                f"{q} has only 1 sample, or samples of the same inputs"
            )


def merge_same_inputs(X: Any, targets: Targets, groups: Indices) -> tuple[Any, Targets, Array]:
    """Merge rows with the same inputs into one row with their mean output and total weight.

    sum_i w_i |y_i - f|^2 = W |mean - f|^2 + sum_i w_i |y_i - mean|^2; the last term, (d,), does not depend on f.
    """
    n = int(groups.max(initial=-1)) + 1
    if n == len(groups):
        return X, targets, np.zeros(targets.d)
    weight = np.ones(len(groups)) if targets.weight is None else targets.weight
    total: Array = np.bincount(groups, weights=weight, minlength=n).astype(np.float64)
    member = sparse.csr_array((weight, (groups, np.arange(len(groups)))), shape=(n, len(groups)))
    mean = (member @ targets.Y) / total[:, None]
    within = weight @ (targets.Y - mean[groups]) ** 2
    _, first = np.unique(groups, return_index=True)
    return X[first], Targets(mean, targets.d, targets.single, None, total), within


# Ridge regression with the matrix in single precision and the solution in double precision.
#
# A direct solution in double precision holds the kernel matrix and its factor: 16 n^2 bytes. Here
#
#     A = t R G R + ridge I     (t an eigenvalue of the output operator, R the square roots of weights)
#
# is computed in single precision and factored in place: 4 n^2 bytes. The factor has an error of 6e-8 times the largest
# eigenvalue, which may exceed the ridge. So it only preconditions conjugate gradients in double precision, which
# recompute the kernel in blocks of rows for each product with A. The solution is as accurate as that of a factor in
# double precision. It takes about three iterations while the ridge is above rounding, and more below.

#: Relative residual at which the iteration stops, and its maximum number of iterations.
RESIDUAL_TOLERANCE, MAX_REFINEMENTS = 1e-12, 500
#: Entries of the kernel matrix held in double precision at a time: 2 MiB, on a device 128 MiB.
MAX_ENTRIES, MAX_DEVICE_ENTRIES = 1 << 18, 1 << 24
#: Attempts at the jitter of a factor that rounding made indefinite, in units of sqrt(n) times machine precision.
JITTERS = (0.0, 1.0, 10.0, 100.0, 1000.0)


def as_single(X: Any) -> Any:
    """Inputs, dense or sparse, in single precision; rejects numbers beyond its range."""
    with np.errstate(over="ignore"):
        found = X.astype(np.float32)
    if not np.isfinite(found.data if sparse.issparse(found) else found).all():
        raise ValueError(
            f"X has values up to {abs(X).max():.3g}, beyond the range of single precision: scale X, or set "
            "dtype='float64'"
        )
    return found


def refined_ridge(
    kernel: OperatorKernel,
    X: Any,
    targets: Targets,
    alpha: float | Array,
    *,
    intercept: bool,
    tiled: bool = False,
    left_out: Indices | None = None,
) -> tuple[Array, Array | None, SolverInfo, Array | None]:
    """Coefficients (n, d), intercept (d,) and solver info, for a resolved kernel k T and complete outputs.

    With S = diag(alpha^-1/2) and S T S = V diag(t) V' the columns of R Y S V are separate problems; those with the same
    t share a preconditioner, a factor in single precision or with `tiled` one of low rank. A free intercept is
    eliminated in each. Last are the leave-one-out residuals of the rows `left_out`, C~_i / P_ii with P as in
    `ovk.solvers.leave_one_out`, or None.
    """
    route, advice = ("Tiles", "set solver='auto'") if tiled else ("SinglePrecision", "set dtype='float64'")
    separable = _separable(kernel, targets, alpha, "solver='tiles'" if tiled else "dtype='float32'", advice)
    n, d = targets.Y.shape
    roots = np.ones(n) if targets.weight is None else np.sqrt(targets.weight)
    ridge, own = ridge_and_scales(alpha)
    scales = np.ones(d) if own is None else own
    found = spectrum(separable.operator.dense() * np.outer(scales, scales), "operator")
    V = np.asarray(found.vectors)
    rotated = (targets.Y * roots[:, None] * scales) @ V
    C, b = np.empty((n, d)), np.zeros(d)
    residuals = None if left_out is None else np.empty((len(left_out), d))
    iterations, residual, jitter = 0, 0.0, 0.0
    for t, columns in zip(found.distinct, found.groups, strict=True):
        right = np.column_stack([rotated[:, columns], roots]) if intercept else rotated[:, columns]
        system = (TiledSystem if tiled else SinglePrecisionSystem)(separable.scalar, X, roots, float(t), ridge)
        end = conjugate_gradients(system.apply, right, system.precondition, None, RESIDUAL_TOLERANCE, MAX_REFINEMENTS)
        if intercept:
            Z, z = end.X[:, :-1], end.X[:, -1]
            b[columns] = (roots @ Z) / (roots @ z)
            C[:, columns] = Z - np.outer(z, b[columns])
        else:
            C[:, columns] = end.X
        if residuals is not None and left_out is not None:
            P = system.inverse_diagonal(left_out)
            P = P - end.X[left_out, -1] ** 2 / (roots @ end.X[:, -1]) if intercept else P
            residuals[:, columns] = C[left_out, columns] / P[:, None]
        iterations, residual = max(iterations, end.iterations), max(residual, end.residual)
        jitter = max(jitter, system.jitter)
    info = SolverInfo(route, iterations=iterations, jitter=jitter, residual=residual)
    info.warn_above(RESIDUAL_TOLERANCE, f"increase alpha, or {advice}")
    if residuals is not None:
        residuals = (residuals @ V.T) / scales / roots[left_out, None]
    return (C @ V.T) * scales * roots[:, None], (b @ V.T) / scales if intercept else None, info, residuals


def _separable(kernel: OperatorKernel, targets: Targets, alpha: float | Array, option: str, advice: str) -> Separable:
    """The kernel as k T, after checking the requirements of the `option`."""
    separable = kernel.as_separable()
    if separable is None or takes_gram(kernel):
        raise ValueError(f"{option} requires a kernel k * T of inputs, got {kernel!r}: {advice}")
    if not targets.complete:
        raise ValueError(f"{option} requires complete outputs, got missing ones: {advice}")
    if np.any(np.asarray(alpha) <= 0):
        raise ValueError(f"alpha must be positive with {option}, got {alpha!r}: {advice}")
    return separable


class SinglePrecisionSystem:
    """A = t R G R + ridge I: products in double precision, and a factor in single precision.

    G is the gram of `kernel` at X, `roots` (n,) the diagonal of R; `jitter` is added to the diagonal of the factor.
    """

    def __init__(self, kernel: ScalarKernel, X: Any, roots: Array, t: float, ridge: float) -> None:
        self._kernel, self._X, self._roots, self._t, self._ridge = kernel, X, roots, t, ridge
        self._double = X.double() if isinstance(X, DeviceMatrix) else X
        # In units of the largest entry no value leaves the range of single precision.
        self._unit = t * float((roots**2 * kernel.diag(X)).max()) + ridge
        if not np.isfinite(self._unit):
            raise SingularSystemError("kernel values must be finite, got nan or inf: scale X, or check the kernel")
        self._factor, self.jitter = self._factored()

    def _factored(self) -> tuple[Any, float]:
        n = len(self._roots)
        for times in JITTERS:
            jitter = times * np.sqrt(n) * float(np.finfo(np.float32).eps)
            if isinstance(self._X, DeviceMatrix):
                rows: Any = self._roots[:, None] * (self._t / self._unit)
                L = device_cholesky(self._kernel(self._X) * rows * self._roots, self._ridge / self._unit + jitter)
                if L is not None:
                    return CholeskyFactor(L, jitter, np.nan), jitter * self._unit
                continue
            U, failed = lapack.spotrf(self._matrix(jitter).T, lower=0, clean=0, overwrite_a=1)
            if failed == 0:
                return U, jitter * self._unit
        raise SingularSystemError(
            f"the kernel matrix of {n} points plus alpha={self._ridge:.3g} is not positive definite in single "
            "precision: increase alpha, check that the kernel is positive semi-definite, or set dtype='float64'"
        )

    def _matrix(self, jitter: float) -> Any:
        """The lower triangle of A / unit, (n, n) in single precision."""
        n = len(self._roots)
        A = np.zeros((n, n), dtype=np.float32)
        for rows in row_slices(n, n, MAX_ENTRIES):
            before = slice(0, rows.stop)
            values = self._kernel(self._X[rows], self._X[before])
            A[rows, before] = values * (self._roots[rows, None] * (self._t / self._unit)) * self._roots[before]
        A[np.diag_indices(n)] += self._ridge / self._unit + jitter
        return A

    def apply(self, B: Array) -> Array:
        """A B, from the kernel values of a block of rows at a time."""
        result: Array = self._ridge * B
        if self._t > 0:
            scaled = B * self._roots[:, None]
            most = MAX_DEVICE_ENTRIES if isinstance(self._X, DeviceMatrix) else MAX_ENTRIES
            for rows in row_slices(len(B), len(B), most):
                values = self._kernel(self._double[rows], self._double) @ scaled
                result[rows] += (self._t * self._roots[rows, None]) * values
        return result

    def precondition(self, B: Array) -> Array:
        """Approximately A^-1 B; columns are scaled because single precision has a small range."""
        size = np.abs(B).max(axis=0)
        size[size == 0] = 1.0
        if isinstance(self._factor, CholeskyFactor):
            small: Any = self._factor.solve(B / size)
        else:
            small = cho_solve((self._factor, False), (B / size).astype(np.float32), check_finite=False)
        return np.asarray(small * (size / self._unit), dtype=np.float64)

    def inverse_diagonal(self, rows: Indices) -> Array:
        """(A^-1)_ii of some rows, in single precision: the squared norms of U'^-1 e_i with A = U'U."""
        result = np.empty(len(rows))
        for part in row_slices(len(rows), len(self._roots)):
            E = np.zeros((len(self._roots), len(result[part])), dtype=np.float32, order="F")
            E[rows[part], np.arange(E.shape[1])] = 1.0
            E = solve_triangular(self._factor, E, trans="T", overwrite_b=True, check_finite=False)
            result[part] = np.einsum("ij,ij->j", E, E) / self._unit
        return result


#: Maximum rank of the preconditioner of `TiledSystem`.
MAX_RANK = 1000


class TiledSystem(SinglePrecisionSystem):
    """The same with a factor in double precision and of low rank: nothing of size (n, n) is stored."""

    def _factored(self) -> tuple[Any, float]:
        scales = np.sqrt(self._t) * self._roots
        return pivoted_preconditioner(self._kernel, self._double, scales, self._ridge, MAX_RANK, 0), 0.0

    def precondition(self, B: Array) -> Array:
        return np.asarray(self._factor(B))


def pivoted_preconditioner(kernel: ScalarKernel, X: Any, scales: Array, ridge: float, rank: int, seed: int) -> Map:
    """Approximate inverse of A = D G D + ridge I, D = diag(scales), without storing the gram G of X.

    A is close to F F' + ridge I, F (n, rank), from the columns of D G D at randomly pivoted points.
    """

    def entries(rows: Indices, columns: Indices) -> Array:
        return np.asarray(scales[rows, None] * to_host(kernel(X[rows], X[columns])) * scales[columns])

    F: Any = random_pivots(entries, scales**2 * kernel.diag(X), min(rank, len(scales)), np.random.default_rng(seed)).F
    if not F.shape[1]:
        return lambda B: B / ridge
    return LowRankPreconditioner(X.like(F) if isinstance(X, DeviceMatrix) else F)(ridge)


# Huber's loss by iterative reweighting.
#
# With residuals r_i in units of their outputs' robust scales s_j (1.4826 times the median of |r_ij|), minimise
#
#     sum_i w_i rho(|r_i / s|) + penalty,    rho(z) = z^2 / 2 up to c, then c z - c^2 / 2.
#
# Its solution is that of the squared loss with the row's weight multiplied by min(1, c / |r_i / s|), which depends on
# the solution: solve, reweight, and repeat. A row of normal residuals is longer than c with the probability that a
# standard normal number exceeds 1.345 in absolute value, for any number of outputs.

#: Probability that |z| > 1.345 for a normal z, where Huber's loss has 95% efficiency on normal data.
HUBER_TAIL = 2.0 * float(norm.sf(1.345))
#: Change of the weights at which the iteration stops, and its maximum number of steps.
WEIGHT_TOLERANCE, MAX_REWEIGHTINGS = 1e-4, 100
#: Smallest scale of residuals, relative to the standard deviation of the outputs.
MIN_RESIDUAL_SCALE = 1e-6


def huber_weights(R: Array, spread: Array) -> Array:
    """(n,) weights from residuals R (n, d) with gaps; the deviations `spread` (d,) keep scales away from zero."""
    seen = ~np.isnan(R)
    scale = np.maximum(1.4826 * np.nanmedian(np.abs(R), axis=0), MIN_RESIDUAL_SCALE * np.where(spread > 0, spread, 1.0))
    length = np.sqrt(np.where(seen, (R / scale) ** 2, 0.0).sum(axis=1))
    most = np.sqrt(chi2.isf(HUBER_TAIL, np.maximum(seen.sum(axis=1), 1)))
    return np.asarray(np.minimum(1.0, most / np.maximum(length, 1e-300)))


def robust_targets(
    kernel: OperatorKernel, alpha: float | Array, X: Any, targets: Targets, *, intercept: bool
) -> Targets:
    """The targets with the weights for which the squared loss has the solution of Huber's loss."""
    if np.any(np.asarray(alpha) <= 0):
        raise ValueError(f"alpha must be positive with loss='huber', got {alpha!r}")
    given = np.ones(len(targets.Y)) if targets.weight is None else targets.weight
    alphas, spread = np.broadcast_to(alpha, (targets.d,)), np.nanstd(targets.Y, axis=0)
    weights = np.ones(len(given))
    for _ in range(MAX_REWEIGHTINGS):
        total = given * weights
        C = ridge_system(kernel, X, replace(targets, weight=total), alpha).solve(intercept=intercept)[0].C
        # alpha_j c_ij = w_i r_ij
        if targets.task is None:
            R = np.where(np.isnan(targets.Y), np.nan, C * alphas / total[:, None])
        else:
            R = (np.asarray(C[np.arange(len(given)), targets.task]) * alphas[targets.task] / total)[:, None]
        before, weights = weights, huber_weights(R, spread)
        if np.abs(weights - before).max() < WEIGHT_TOLERANCE:
            break
    return replace(targets, weight=given * weights)


class RidgeSolution(NamedTuple):
    """Inputs and outputs used, coefficients (n, d), intercept (d,), solver info, and residuals of left-out rows."""

    X: Any
    targets: Targets
    C: Any
    intercept: Array | None
    info: SolverInfo
    left_out: Array | None = None


def solve_ridge(
    kernel: OperatorKernel,
    alpha: float | Array,
    X: Any,
    targets: Targets,
    *,
    solver: Any = "auto",
    intercept: bool,
    loss: str = "squared",
    single: bool = False,
    left_out: Indices | None = None,
) -> RidgeSolution:
    """Solve ridge regression for a resolved kernel; in single precision also the residuals of rows `left_out`."""
    residuals = None
    if isinstance(X, DeviceMatrix):
        name = "eigen" if isinstance(solver, Eigen) else "cholesky" if isinstance(solver, Cholesky) else solver
        check_on_device(kernel, solver=name, loss=loss, dtype="float32" if single else "float64")
        # Other systems with inputs of single precision are solved in double precision.
        double = name in ("eigen", "tiles") or not targets.complete
        single = X.is_single and not double and bool(np.all(np.asarray(alpha) > 0))
    tiled = isinstance(solver, str) and solver == "tiles"
    if tiled and loss != "squared":
        raise ValueError(f"solver='tiles' requires loss='squared', got loss={loss!r}: set solver='auto'")
    try:
        if tiled:
            C, b, info, _ = refined_ridge(kernel, X, targets, alpha, intercept=intercept, tiled=True)
        elif single:
            X = X if isinstance(X, DeviceMatrix) else as_single(X)
            C, b, info, residuals = refined_ridge(kernel, X, targets, alpha, intercept=intercept, left_out=left_out)
        else:
            if loss == "huber":
                targets = robust_targets(kernel, alpha, X, targets, intercept=intercept)
            system = ridge_system(kernel, X.double() if isinstance(X, DeviceMatrix) else X, targets, alpha)
            system.solver = solver
            (C, info), b = system.solve(intercept=intercept)
    except MemoryError as error:
        n = X.shape[0]
        raise MemoryError(
            f"the kernel matrix of {n:,} rows takes {8e-9 * n * n:,.1f} GB, and solving as much again (with "
            "dtype='float32' a quarter of both): set solver='tiles', which does not store it, or landmarks, for "
            "example landmarks=1000, whose memory does not grow with the number of rows"
        ) from error
    return RidgeSolution(X, targets, C, b, info, residuals)


#: Options of fits on a device. Inputs of single precision take the place of dtype="float32".
ON_DEVICE = {"solver": ("auto", "cholesky", "eigen", "tiles"), "loss": ("squared",), "dtype": ("float64",)}


def runs_on_devices(kernel: OperatorKernel) -> bool:
    """Whether the kernel is k * T with a kernel k that can be evaluated on a device."""
    separable = kernel.as_separable()
    return separable is not None and separable.scalar.runs_on_devices()


def check_on_device(kernel: OperatorKernel, **options: Any) -> None:
    """Reject a kernel, or `options` of `solve_ridge`, that do not run on a device."""
    found = [f"{name}={value!r}: omit it" for name, value in options.items() if value not in ON_DEVICE[name]]
    if not runs_on_devices(kernel):
        found = [f"the kernel {kernel!r}: use k * T with a Gaussian, Matern, Laplacian or polynomial kernel k"]
    if found:
        raise ValueError(f"a fit on a device does not support {found[0]}, or pass NumPy arrays")


# The training data of a fitted expansion, and its leave-one-out functions.
#
# The fitted function determines the outputs: since alpha C_i = w_i (y_i - f(x_i)),
#
#     y_i = f(x_i) + alpha C_i / w_i.
#
# The leave-one-out functions, which intervals and standard deviations need, follow in closed form
# (`ovk.solvers.leave_one_out`): for a kernel k T and complete outputs from the eigenvectors of the gram of k, otherwise
# from one dense system of the observed pairs.

#: Repeated inputs needed to estimate the spread of outputs at the same inputs.
MIN_REPEATED = 10
#: Maximum number of rows that determine the scale of the noise, for outputs with gaps.
MAX_NOISE_ROWS = 1000


class LeaveOneOutPredictor(NamedTuple):
    """Leave-one-out functions of inputs instead of kernel values."""

    left_out: LeaveOneOut
    width: int  # numbers held for each new row
    kernels: Callable[[Any], tuple[Array, Array]]  # `cross` and `prior` of new inputs


@dataclass(frozen=True)
class TrainingData:
    """Resolved kernel, inputs, alpha, whether there is an intercept, and outputs of a fit."""

    kernel: OperatorKernel
    X: Any
    alpha: float | Array
    intercept: bool
    targets: Targets
    device: DeviceMatrix | None = None  # any matrix on the device where eigenvectors are computed, None for the host

    @classmethod
    def recover(
        cls, expansion: Expansion, alpha: float | Array, observed: Any, task: Any, weight: Array | None
    ) -> TrainingData:
        """Recover the outputs from a fitted expansion; `observed`, `task` and `weight` describe the training data."""
        if np.any(np.asarray(alpha) <= 0):
            raise ValueError(f"alpha must be positive for leave-one-out, got {alpha!r}")
        X, d = expansion.support, expansion.kernel.output_dim
        C, single = expansion.C, task is not None
        assert d is not None
        if single:
            c, scale = np.asarray(C[np.arange(X.shape[0]), task]).reshape(-1), np.broadcast_to(alpha, d)[task]
            Y = (expansion.at(X, task) + scale * c / (1.0 if weight is None else weight))[:, None]
        else:
            Y = expansion(X) + alpha * C / (1.0 if weight is None else weight[:, None])
            if observed is not None:
                Y = np.where(observed, Y, np.nan)
        return cls(expansion.kernel, X, alpha, expansion.offset is not None, Targets(Y, d, False, task, weight))

    def left_out(self, together: Indices | None, *, alike: bool = False) -> LeaveOneOutPredictor:
        """Leave out rows with the same number in `together`, by default one; `alike` outputs are values of a curve."""
        rows = self._without({"intercept": self.intercept, "together": together})
        rows.left_out.alike = alike
        if self.targets.task is None and not takes_gram(self.kernel):
            spread = repeated_spread(same_inputs(self.X), self.targets.Y, self.targets.weight)
            if spread is not None:
                rows.left_out.raise_noise(spread, self.targets.weight)
        return rows

    def noise_scale(self, left_out: LeaveOneOut, together: Indices | None) -> NoiseScale | None:
        """The learned scale of the noise, for a kernel k T of inputs in wide form; None if a constant is as good."""
        separable, weight = self.kernel.as_separable(), self.targets.weight
        if separable is None or self.targets.task is not None or takes_gram(self.kernel):
            return None
        if isinstance(left_out, SeparableLeaveOneOut):
            return noise_scale(left_out.pairs, left_out, weight, together)
        if not isinstance(left_out, ScalarPairsLeaveOneOut):
            return None
        n, k = self.X.shape[0], separable.scalar
        alone = together is None or len(np.unique(together)) == n
        # Some rows suffice; the values of the others, which it has not seen, are left-out values, too.
        some = np.arange(0, n, -(-n // MAX_NOISE_ROWS) if alone else 1)
        G, own = k(self.X[some]), None if weight is None else weight[some]
        scaled = G if own is None else G * np.sqrt(np.outer(own, own))
        found = noise_scale(eigenpairs(scaled), left_out, own, None if alone else together, some)
        if found is None or len(some) == n:
            return found
        values = found.at(k(self.X, self.X))
        values[some] = found.left_out
        return replace(found, left_out=values)

    def _without(self, options: dict[str, Any]) -> LeaveOneOutPredictor:
        kernel, X, targets, separable = self.kernel, self.X, self.targets, self.kernel.as_separable()
        n, d = X.shape[0], targets.d
        if targets.complete and separable is not None:
            G = separable.scalar(X if self.device is None else self.device.like(X))
            if targets.weight is not None:
                roots = np.sqrt(targets.weight)
                G = G * roots[:, None] * roots
            T = separable.operator.dense()
            rows = SeparableLeaveOneOut(eigenpairs(G), targets.Y, T, self.alpha, targets.weight, **options)
            return _of_scalar_kernel(rows, separable.scalar, X, d)
        pairs = targets.pairs()
        if len(pairs) > MAX_DENSE_UNKNOWNS:
            raise ValueError(
                f"leave-one-out requires a dense matrix of all {len(pairs)} observed values; the maximum is "
                f"{MAX_DENSE_UNKNOWNS}: fit fewer rows, or use predict(of='posterior') and no intervals"
            )
        # Its matrices, one of (n, n) for each output, must take no more memory than the matrix of the pairs.
        if separable is not None and targets.task is None and d * n**2 <= len(pairs) ** 2:
            T = separable.operator.dense()
            scalar = ScalarPairsLeaveOneOut(separable.scalar(X), T, pairs, self.alpha, **options)
            return _of_scalar_kernel(scalar, separable.scalar, X, d)
        K = PairSystem(kernel, X, replace(targets, weight=None), 1.0).gram.dense()

        def kernels(new: Any) -> tuple[Array, Array]:
            m = new.shape[0]
            repeated, outputs = new[np.repeat(np.arange(m), d)], np.tile(np.arange(d), m)
            cross = kernel.pairs(repeated, outputs, X[pairs.points], pairs.outputs).reshape(m, d, -1)
            return cross, np.einsum("nqq->nq", kernel.diagonal_blocks(new))

        return LeaveOneOutPredictor(PairwiseLeaveOneOut(K, pairs, self.alpha, **options), len(pairs) * d, kernels)


def _of_scalar_kernel(left_out: LeaveOneOut, k: ScalarKernel, X: Any, d: int) -> LeaveOneOutPredictor:
    return LeaveOneOutPredictor(left_out, X.shape[0] * (d + 2), lambda new: (k(new, X), k.diag(new)))


def repeated_spread(same: Indices, Y: Array, weight: Array | None) -> Array | None:
    """(d,) variances of outputs Y at the same inputs, for rows of weight 1; None if too few inputs repeat.

    sum_i w_i (y_i - mean of its group)^2 / sum over groups of (rows - 1); 0 for an output with too few repetitions.
    Rows with the same inputs have the same number in `same` (n,).
    """
    count = int(same.max()) + 1
    if len(same) - count < MIN_REPEATED:
        return None
    seen = ~np.isnan(Y)
    w = seen * (1.0 if weight is None else weight[:, None])
    member = sparse.csr_array((np.ones(len(same)), (same, np.arange(len(same)))), shape=(count, len(same)))
    mean = (member @ (w * np.where(seen, Y, 0.0))) / np.maximum(member @ w, 1e-300)
    squares = (w * np.where(seen, Y - mean[same], 0.0) ** 2).sum(axis=0)
    freedom = seen.sum(axis=0) - (member @ seen.astype(np.float64) > 0).sum(axis=0)
    return np.where(freedom >= MIN_REPEATED, squares / np.maximum(freedom, 1), 0.0)
