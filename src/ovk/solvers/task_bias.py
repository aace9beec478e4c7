"""The dual of a support vector machine with a bias for each task that is not penalised.

    minimise  1/2 b'Kb - q'b + epsilon |b|_1   subject to  lower <= b <= upper,  sum_{i in task t} b_i = 0 for each t

The biases are the multipliers of the sums. The method of multipliers: solve the problem in the box with
rho/2 sum_t (sum_{i in t} b_i)^2 added, which is the kernel K + rho [same task], then raise bias_t by rho times the sum,
and again. Where that takes long, up to a few thousand coordinates, an interior point method finds both at once. Either
way the result is made to sum to zero exactly, so that the duality gap is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk.base import Array, Indices
from ovk.solvers.support_vectors import (
    CALLS,
    FACTORS,
    INTERIOR,
    BoxDual,
    BoxProgramme,
    DualInfo,
    Products,
    dual_coordinate,
    interior_point,
)

#: Rounds of the method of multipliers, and rho in units of the mean of the diagonal of K.
ROUNDS, STIFFNESS = 50, 10.0
#: Free coordinates up to which the last digits are found by one linear system.
POLISHED = 3000


class _SameTask:
    """K + rho [same task] on pairs."""

    def __init__(self, base: Products, task: Indices, rho: float) -> None:
        self.base, self.task, self.rho = base, task, rho

    def matmat(self, C: Any) -> Array:
        sums = np.bincount(self.task, weights=C[:, 0])
        return self.base.matmat(C) + self.rho * sums[self.task][:, None]

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        same = self.task[rows][:, None] == self.task[columns][None, :]
        return np.asarray(self.base.entries(rows, outputs, columns, inputs) + self.rho * same)

    def diagonal_blocks(self) -> Array:
        return self.base.diagonal_blocks() + self.rho


def dual_with_biases(
    problem: BoxDual, task: Indices, *, tol: float = 1e-6, max_iter: int = 10_000
) -> tuple[Array, Array, DualInfo]:
    """Solution b, (N,), bias of each task, (T,), and how they were found; task numbers are 0..T-1."""
    T, N = int(task.max()) + 1, len(problem.q)
    b, bias = np.zeros(N), np.zeros(T)
    # Multipliers may take about the time of the interior point method, a few steps being for all free coordinates.
    trial = min(max_iter, int(FACTORS * N**3 / 48 / CALLS) + 1) if N <= INTERIOR else max_iter
    found = _multipliers(problem, task, b, bias, tol, trial)
    if found[2].converged or N > INTERIOR:
        return found
    present = np.unique(task)
    E = (task[:, None] == present).astype(np.float64)
    dense = BoxProgramme(problem.matrix(np.arange(N)), *problem[1:], E)
    b, bias[present] = interior_point(dense, tol=min(1e-9, 1e-3 * tol))
    inside = _certified(problem, task, T, b, bias, found[2].iterations + 1, tol)
    if inside[2].converged or found[2].iterations >= max_iter:
        return min(inside, found, key=_gap)
    return min(inside, _multipliers(problem, task, b, bias, tol, max_iter), key=_gap)


def _gap(solution: tuple[Array, Array, DualInfo]) -> float:
    return solution[2].gap


def _multipliers(
    problem: BoxDual, task: Indices, b: Array, bias: Array, tol: float, max_iter: int
) -> tuple[Array, Array, DualInfo]:
    """The method of multipliers from b and biases."""
    T = len(bias)
    rho = STIFFNESS * problem.mean_diagonal()
    stiff = _SameTask(problem.gram, task, rho)
    iterations = 0
    best: tuple[Array, Array, DualInfo] | None = None
    for _ in range(ROUNDS):
        shifted = problem._replace(gram=stiff, q=problem.q - bias[task])
        b, inner = dual_coordinate(shifted, tol=0.1 * tol, max_iter=max(max_iter - iterations, 1), start=b)
        iterations += inner.iterations
        bias = bias + rho * np.bincount(task, weights=b, minlength=T)
        found = _certified(problem, task, T, b, bias, iterations, tol)
        halved = best is None or found[2].gap <= 0.5 * best[2].gap
        if best is None or found[2].gap < best[2].gap:
            best = found
        # Another round costs next to nothing, so it is taken for as long as it still gains.
        if (best[2].converged and not halved) or iterations >= max_iter:
            break
    assert best is not None
    return best


def _certified(
    problem: BoxDual, task: Indices, T: int, b: Array, bias: Array, iterations: int, tol: float
) -> tuple[Array, Array, DualInfo]:
    """b with sums of exactly zero, the best biases for it, and the gap between the two."""
    found = []
    for candidate in (_polished(problem, task, T, b, bias), b):
        if candidate is not None:
            even = balanced(candidate, task, T)
            values = problem.product(even)
            best = best_biases(problem, task, T, problem.q - values)
            info = problem.info(even, problem.q - values - best[task], values, iterations, tol)
            found.append((even, best, info))
    return min(found, key=_gap)


def _polished(problem: BoxDual, task: Indices, T: int, b: Array, bias: Array) -> Array | None:
    """b moved on its free coordinates F to meet their conditions and the sums exactly; None where that cannot be.

    K_FF d + E_F c = (q - Kb - bias)_F - epsilon sign(b_F),    E_F' d = -E' b
    """
    free = np.flatnonzero((b > problem.lower) & (b < problem.upper) & (b != 0))
    if not 0 < len(free) <= POLISHED:
        return None
    r = problem.q - problem.product(b) - bias[task]
    present = np.unique(task[free])
    E = (task[free][:, None] == present).astype(np.float64)
    K = problem.matrix(free)
    K[np.diag_indices_from(K)] += 1e-13 * float(np.diagonal(K).max())
    system = np.block([[K, E], [E.T, np.zeros((len(present), len(present)))]])
    sums = np.bincount(task, weights=b, minlength=T)[present]
    right = np.concatenate([r[free] - problem.epsilon * np.sign(b[free]), -sums])
    try:
        move = np.linalg.solve(system, right)[: len(free)]
    except np.linalg.LinAlgError:
        return None
    new = b.copy()
    new[free] += move
    inside = (new[free] >= problem.lower[free]) & (new[free] <= problem.upper[free])
    return new if inside.all() and np.isfinite(new).all() else None


def balanced(b: Array, task: Indices, T: int) -> Array:
    """b with the heavier sign of each task scaled down until the task sums to zero."""
    up = np.bincount(task, weights=np.maximum(b, 0.0), minlength=T)
    down = np.bincount(task, weights=np.maximum(-b, 0.0), minlength=T)
    level = np.minimum(up, down)
    scale_up = np.divide(level, up, out=np.zeros(T), where=up > 0)
    scale_down = np.divide(level, down, out=np.zeros(T), where=down > 0)
    return b * np.where(b > 0, scale_up[task], scale_down[task])


def best_biases(problem: BoxDual, task: Indices, T: int, r: Array) -> Array:
    """The bias of each task that minimises sum_i s_i(r_i - bias): its slope changes at r_i - epsilon and r_i + epsilon.

    Where several are as good, the middle of them.
    """
    result = np.zeros(T)
    for t in range(T):
        rows = np.flatnonzero(task == t)
        if len(rows) == 0:
            continue
        upper, lower = problem.upper[rows], -problem.lower[rows]
        places = np.concatenate([r[rows] - problem.epsilon, r[rows] + problem.epsilon])
        rises = np.concatenate([upper, lower])
        places, rises = places[rises > 0], rises[rises > 0]
        order = np.argsort(places, kind="stable")
        slope = np.cumsum(rises[order]) - upper.sum()
        level = 1e-12 * rises.sum()
        # The slope before the first place is -upper.sum(); flat parts lie between two places.
        if upper.sum() <= level:
            result[t] = places[order[0]]
            continue
        first = int(np.argmax(slope >= -level))
        flat = abs(slope[first]) <= level and first + 1 < len(order)
        result[t] = 0.5 * (places[order[first]] + places[order[first + 1]]) if flat else places[order[first]]
    return result
