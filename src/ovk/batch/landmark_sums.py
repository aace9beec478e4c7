"""Ridge regression on Nystrom features: sums over the data, then a small system.

For a separable kernel k T, T = V diag(t) V', and whitened features phi(x), (m,), each rotated output is a scalar ridge

    (S + (alpha / t_q) I) u_q = B v_q,   S = sum w phi phi',   B = sum w phi y'.

Missing outputs break the rotation. With T = F F', rows f_q, and S_q the sum over the points where output q was seen,
the unknown W, (m, s), of f(x) = phi' W F' solves  alpha W + sum_q S_q W f_q f_q' = sum_q B_q f_q'. Other kernels have
features for pairs of a point and an output, and one scalar ridge. Intercepts are further unknowns, not penalised.

Memory is that of the sums, whatever the number of rows; two sets of sums over the same landmarks add up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ovk._params import Registered
from ovk._validation import Array, Indices
from ovk.solvers import SolverInfo


class LandmarkRidge(Registered, ABC):
    """Sums over the data for one dictionary of landmarks, and their solution."""

    features: Any

    @abstractmethod
    def add(self, X: Any, Y: Array, weight: Array | None) -> None:
        """Take in rows with outputs (n, d), nan where missing."""

    @abstractmethod
    def add_pairs(self, X: Any, task: Indices, y: Array, weight: Array | None) -> None:
        """Take in observations in long form: y_i is output task_i at x_i."""

    @abstractmethod
    def solve(self, alpha: float | Array, *, intercept: bool) -> tuple[Array, Array | None, SolverInfo]:
        """Expansion coefficients (m, d), intercept and how they were found."""

    @abstractmethod
    def covariance(self, X: Any, alpha: float | Array, *, intercept: bool) -> Array:
        """Posterior covariance at new points, (n, d, d); the prior's where the landmarks do not reach."""
