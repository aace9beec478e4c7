"""Huber's loss by reweighting: rows that are far off count linearly.

With residuals r_i in units of their outputs' robust scales s_j (1.4826 times the median of |r_ij|), minimise

    sum_i w_i rho(|r_i / s|) + penalty,    rho(z) = z^2 / 2 up to c, then c z - c^2 / 2.

Its solution is that of the squared loss with the row's weight multiplied by min(1, c / |r_i / s|), which depends on the
solution: solve, weigh, and solve again. c is the length that a row of normal residuals exceeds as often as a normal
number exceeds 1.345, whatever the number of outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from ovk._types import Array
from ovk.batch.ridge.problem import ridge_problem
from ovk.ovkernels import OperatorKernel
from ovk.solvers import as_solver
from ovk.targets import Targets

#: How often a normal number is beyond 1.345, where Huber's loss costs 5% of efficiency on normal data.
BEYOND = 2.0 * float(norm.sf(1.345))
#: Change of the weights at which the iteration stops, and steps at most.
TOLERANCE, MOST_STEPS = 1e-4, 100
#: The smallest scale of residuals, as a part of the deviation of the outputs.
LEAST = 1e-6


def huber_weights(R: Array, spread: Array) -> Array:
    """(n,) weights of rows with residuals R (n, d), nan where an output was not observed.

    `spread` (d,), the outputs' deviations, keeps scales away from zero.

    >>> huber_weights(np.array([[1.0], [-1.0], [0.5], [20.0]]), np.ones(1)).round(2)
    array([1. , 1. , 1. , 0.1])
    """
    seen = ~np.isnan(R)
    scale = np.maximum(1.4826 * np.nanmedian(np.abs(R), axis=0), LEAST * np.where(spread > 0, spread, 1.0))
    length = np.sqrt(np.where(seen, (R / scale) ** 2, 0.0).sum(axis=1))
    most = np.sqrt(chi2.isf(BEYOND, np.maximum(seen.sum(axis=1), 1)))
    return np.asarray(np.minimum(1.0, most / np.maximum(length, 1e-300)))


def reweighted(residuals: Callable[[Array], Array], n: int, spread: Array) -> Array:
    """(n,) weights at which the weighted solution has the residuals that ask for these weights.

    `residuals` gives those of the solution, (n, d), for weights (n,) of the rows.
    """
    weights = np.ones(n)
    for _ in range(MOST_STEPS):
        found = huber_weights(residuals(weights), spread)
        change = float(np.abs(found - weights).max())
        weights = found
        if change < TOLERANCE:
            break
    return weights


def robust_targets(
    kernel: OperatorKernel, alpha: float | Array, X: Any, targets: Targets, *, intercept: bool
) -> Targets:
    """The targets with weights at which the squared loss is Huber's."""
    if np.any(np.asarray(alpha) <= 0):
        raise ValueError("loss='huber' needs alpha > 0: a function without penalty has no residuals to judge by")
    given = np.ones(len(targets.Y)) if targets.weight is None else targets.weight
    alphas = np.broadcast_to(alpha, (targets.d,))

    def residuals(weights: Array) -> Array:
        # alpha_j c_ij = w_i r_ij
        problem = ridge_problem(kernel, X, replace(targets, weight=given * weights), alpha)
        C = problem.solve(as_solver("auto", problem.gram), intercept=intercept)[0].C
        if targets.task is not None:
            own = np.asarray(C[np.arange(len(given)), targets.task])
            return np.asarray(own * alphas[targets.task] / (given * weights))[:, None]
        R: Array = C * alphas / (given * weights)[:, None]
        return R if targets.complete else np.where(np.isnan(targets.Y), np.nan, R)

    return replace(targets, weight=given * reweighted(residuals, len(given), np.nanstd(targets.Y, axis=0)))
