"""The choice of a solver for a gram, and solutions with an intercept and posterior covariances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import singledispatch
from itertools import chain
from typing import Any

import numpy as np

from ovk.base import Array, SingularSystemError, track
from ovk.ovkernels import Decoupled, DenseBlocks, Gram, Kronecker, Observed, Rotated
from ovk.solvers.base import Solution, Solver
from ovk.solvers.cholesky import MAX_FACTORISATIONS, Cholesky, CholeskyState
from ovk.solvers.eigen import Eigen
from ovk.solvers.iterative import ConjugateGradient, GaussSeidel, MissingOutputs, solves_by_output

#: Maximum number of unknowns of a dense system (a matrix of 800 MB); larger systems are solved iteratively.
MAX_DENSE_UNKNOWNS = 10_000


@singledispatch
def select(gram: Gram) -> Solver:
    """The default solver of a gram."""
    raise TypeError(f"there is no solver for a {type(gram).__name__}")


@select.register
def _(gram: Kronecker) -> Solver:
    operators = [operator for _, operator in gram.terms()]
    if len(operators) == 1:
        return Cholesky() if len(operators[0].eigh().groups) <= MAX_FACTORISATIONS else Eigen()
    decoupled = gram.decouple()
    if decoupled is None:
        return ConjugateGradient()
    # With one operator of many eigenvalues and multiples of the identity, the preconditioner is exact.
    several = sum(len(operator.eigh().groups) > 1 for operator in operators) > 1
    return Cholesky() if several or len(decoupled) <= MAX_FACTORISATIONS else ConjugateGradient()


@select.register
def _(gram: DenseBlocks) -> Solver:
    return Cholesky() if len(gram.matrix) <= MAX_DENSE_UNKNOWNS else ConjugateGradient()


@select.register
def _(gram: Observed) -> Solver:
    terms = gram.base.terms()
    diagonal = terms is not None and all(operator.is_diagonal() for _, operator in terms)
    # With a diagonal operator each output is a separate system.
    if (gram.base.shape[0] if diagonal else gram.shape[0]) <= MAX_DENSE_UNKNOWNS:
        return Cholesky()
    primal = terms is not None and len(terms) == 1 and not solves_by_output(gram)
    return MissingOutputs() if primal else ConjugateGradient()


_NAMES: dict[str, type[Solver]] = {
    "cholesky": Cholesky,
    "eigen": Eigen,
    "cg": ConjugateGradient,
    "gauss-seidel": GaussSeidel,
}


def as_solver(solver: Any, gram: Gram) -> Solver:
    """A solver, from an object, "auto" or another name."""
    if isinstance(solver, Solver):
        return solver
    if solver == "auto":
        return select(gram)
    if isinstance(solver, str) and solver in _NAMES:
        return _NAMES[solver]()
    raise ValueError(f"solver must be 'auto', one of {sorted(_NAMES)} or a solver of ovk.solvers, got {solver!r}")


# An unpenalised intercept.
#
#     (K + alpha I) C + E B = Y,   E' C = 0
#
# has the solution C = A^-1 Y - A^-1 E B with (E' A^-1 E) B = E' A^-1 Y, which needs only the factor of A.


def solve_with_intercept(
    solver: Solver, state: Any, Y: Array, alpha: float, columns: Array | None
) -> tuple[Solution, Array | None]:
    """Coefficients and intercept (d,) for outputs Y, (n, d), or (N, 1) for observed pairs.

    `columns` is E, as (n,) (the same column u for each of d outputs) or as (N, d); None for no intercept.
    """
    if columns is not None and isinstance(solver, ConjugateGradient) and solves_by_output(state[0]):
        return solver.solve_centred(state, Y, alpha, columns[np.arange(len(columns)), state[0].outputs])
    solution = solver.solve(state, Y, alpha)
    if columns is None:
        return solution, None

    def solve(B: Array) -> Array:
        return solver.solve(state, B, alpha).C

    decoupled: Decoupled | None = getattr(state, "decoupled", None)
    if columns.ndim == 2:
        # A factor solves for all columns in one call, which is much faster.
        each = columns.T[:, :, None] if decoupled is None else columns[None]
        inside = np.column_stack([solve(column) for column in each])
        b: Array = np.asarray(np.linalg.solve(columns.T @ inside, columns.T @ solution.C[:, 0]), dtype=np.float64)
        return Solution(solution.C - (inside @ b)[:, None], solution.info), b
    rotated = None if decoupled is None else decoupled.rotation()
    inside, b = _shared_column(solve, rotated, columns, solution.C)
    return Solution(solution.C - inside, solution.info), b


def _shared_column(solve: Callable[[Array], Array], rotated: Rotated | None, u: Array, C: Array) -> tuple[Array, Array]:
    """A^-1 (u b') and b, if every output has the column u."""
    d = C.shape[1]
    if rotated is not None:
        # One solve gives z_q = A_q^-1 u of all rotated outputs.
        V = rotated.vectors
        Z = solve(np.outer(u, V.sum(axis=1))) @ V
        total = u @ Z
        if not np.isfinite(total).all():
            raise SingularSystemError("kernel values must be finite, got nan or inf: scale X, or check the kernel")
        if not (total > 0).all():
            raise SingularSystemError("alpha must be positive with an intercept and a singular operator, got 0")
        along = (u @ C @ V) / total
        return (Z * along) @ V.T, V @ along
    inside = np.stack([solve(np.outer(u, np.eye(d)[q])) for q in range(d)], axis=2)  # (n, d, d)
    b = np.linalg.solve(np.einsum("i,ipq->pq", u, inside), u @ C)
    return inside @ b, b


# Posterior covariance of the Gaussian process whose mean is kernel ridge regression.
#
# With prior covariance K and noise variance alpha, at a new point x: K(x, x) - K(x, X) (K + alpha I)^-1 K(X, x). These
# functions compute the second term.


def explained_covariance(solver: Solver, state: Any, cross: Gram, alpha: float) -> Array:
    """K(x, X) (K + alpha I)^-1 K(X, x) for each new point, (m, d, d).

    `state` is the solver's factorisation of the training gram, `cross` the gram of new and training points.
    """
    (m, n), d = cross.shape, cross.output_dim
    if not isinstance(solver, Cholesky):
        one, every, outputs = np.arange(d), np.repeat(np.arange(n), d), np.tile(np.arange(d), n)
        rows = (cross.entries(np.full(d, i), one, every, outputs).reshape(d, n, d) for i in range(m))
        return _by_solving(solver, state, chain.from_iterable(rows), m, d, alpha)
    rotated, terms = state.decoupled.rotation(), cross.terms()
    if rotated is not None and terms is not None:
        return _rotated(state, rotated.with_grams([G for G, _ in terms]), alpha)
    (factor,) = state.triangles(alpha)
    return inner_blocks(factor.whiten(cross.dense().T), m, d)


def inner_blocks(white: Array, m: int, d: int) -> Array:
    """W_i' W_i of the column blocks W_i, (k, d), of a matrix (k, m d): (m, d, d)."""
    blocks = white.reshape(-1, m, d)
    return np.asarray(np.einsum("kip,kiq->ipq", blocks, blocks, optimize=True))


def _rotated(state: CholeskyState, cross: Rotated, alpha: float) -> Array:
    d = len(cross.vectors)
    total = np.zeros((len(cross.grams[0]), d, d))
    for q, (group, factor) in enumerate(zip(cross.groups, state.triangles(alpha), strict=True)):
        if factor is not None:
            white = factor.whiten(cross.matrix(q).T)
            V = cross.vectors[:, group]
            total += np.einsum("ij,ij->j", white, white)[:, None, None] * (V @ V.T)
    return total


def _by_solving(solver: Solver, state: Any, columns: Iterator[Array], m: int, d: int, alpha: float) -> Array:
    """B'A^-1 B of blocks B of d columns, with one solve per column."""
    total = np.empty((m, d, d))
    for i in track(range(m), "posterior covariance"):
        right = [next(columns) for _ in range(d)]
        solved = [solver.solve(state, column, alpha).C for column in right]
        total[i] = [[np.vdot(one, other) for other in solved] for one in right]
    return total


def explained_by_pairs(solver: Solver, state: Any, cross: Array, alpha: float, d: int) -> Array:
    """`explained_covariance` for training data of N pairs of a point and an output.

    `cross`, (N, m d), has the kernel values of training pairs and all outputs of the new points.
    """
    m = cross.shape[1] // d
    if not isinstance(solver, Cholesky):
        return _by_solving(solver, state, iter(cross.T[:, :, None]), m, d, alpha)
    total = np.zeros((m, d, d))
    for factor, part in zip(state.triangles(alpha), state.decoupled.split(cross), strict=True):
        if factor is not None:
            total += inner_blocks(factor.whiten(part), m, d)
    return total
