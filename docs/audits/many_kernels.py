"""The MovKL paper: Algorithms 1 and 2, its operators on curves, its choices and its measures."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from audits.base import NEW, K, X, Y, excess, largest, statement
from ovk import IOKR, MovKL, MovKLCV
from ovk.curves import Grid
from ovk.kernels import Gaussian, Linear
from ovk.objectives import lcr, rsse
from ovk.operators import Identity, Integral, MixedEffect, Multiplication
from ovk.ovkernels import CurlFree, DivFree


def alternation(grams: list[Any], y: Any, alpha: float, r: float) -> Any:
    """The weights of Algorithm 1, 400 rounds of it as written, with dense matrices of all blocks."""
    d = np.full(len(grams), len(grams) ** (-1 / r))
    for _ in range(400):
        c = np.linalg.solve(sum(w * G for w, G in zip(d, grams, strict=True)) + alpha * np.eye(len(y)), y)
        norms = np.array([w * np.sqrt(c @ G @ c) for w, G in zip(d, grams, strict=True)])
        d = norms ** (2 / (r + 1)) / (norms ** (2 * r / (r + 1))).sum() ** (1 / r)
    return d


@statement(
    "MovKL",
    "Algorithm 1, weights and function in turn",
    "ovk.MovKL",
    "batch/test_movkl.py::test_finds_the_optimum_of_the_plain_alternation",
)
def weights() -> float:
    kernels = [Gaussian(0.3), Gaussian(1.0), Linear()]
    d = alternation([np.kron(k(X), np.eye(3)) for k in kernels], Y.ravel(), 0.1, 2.0)
    model = MovKL([k * Identity() for k in kernels], 0.1, r=2.0, tol=1e-12, max_iter=2000).fit(X, Y)
    return largest(model.weights_, d)


@statement(
    "MovKL",
    "Convergence of Algorithm 1: the objective never rises",
    "ovk.MovKL",
    "batch/test_movkl.py::test_what_must_hold",
    bound=True,
)
def falling_objective() -> float:
    kernels = [Gaussian(0.3) * Identity(3), Gaussian(1.0) * MixedEffect(0.5, 3), Linear() * Identity(3)]
    pairs = []
    for r in (1.0, 2.0):
        found = MovKL(kernels, 0.1, r=r, tol=1e-10, max_iter=500).fit(X, Y).history_[:, 0]
        pairs.append((found[1:], found[:-1]))
    return excess(*pairs)


@statement(
    "MovKL",
    "Algorithm 2 and case 1: the system of many kernels and operators",
    "ovk.MovKL",
    "batch/test_movkl.py::test_every_solver_equals_the_dense_solution_at_the_learned_weights",
    least=1e-10,
)
def system() -> float:
    """By block Gauss-Seidel, by eigenvectors and by default, against dense algebra at even weights."""
    kernels = [Gaussian(0.3) * Identity(3), Gaussian(1.0) * MixedEffect(0.5, 3)]
    c = np.linalg.solve(sum(kernel.gram(X).dense() for kernel in kernels) + 0.5 * np.eye(90), Y.ravel())
    return max(
        largest(MovKL(kernels, 0.5, r=np.inf, solver=solver, tol=1e-12).fit(X, Y).dual_coef_.ravel(), c)
        for solver in ("gauss-seidel", "eigen", "auto")
    )


@statement(
    "MovKL",
    "Algorithm 1 with kernels of any kind",
    "ovk.MovKL",
    "batch/test_movkl.py::test_kernels_of_any_kind",
)
def weights_of_fields() -> float:
    """The same with kernels that are no products."""
    kernels = [CurlFree(K), DivFree(K), Linear() * Identity(2)]
    d = alternation([kernel.gram(X).dense() for kernel in kernels], Y[:, :2].ravel(), 0.1, 2.0)
    return largest(MovKL(kernels, 0.1, r=2.0, tol=1e-12, max_iter=2000).fit(X, Y[:, :2]).weights_, d)


@statement(
    "MovKL",
    "many kernels of the inputs for structured outputs",
    "ovk.IOKR",
    "structured/test_iokr.py::test_a_list_of_kernels_is_weighed_by_what_the_outputs_say",
)
def several_input_kernels() -> float:
    """h(x) at the weights that were learned, for structured outputs: the solution with their sum as one kernel."""
    kernels, L = [Gaussian(0.3), Gaussian(1.0), Linear()], Gaussian(1.0)
    model = IOKR(kernels, L, 0.3).fit(X, Y)
    G, G_new = (sum(w * k(X, Z) for w, k in zip(model.kernel_weights_, kernels, strict=True)) for Z in (X, NEW))
    scores = (L(Y) @ np.linalg.solve(G + 0.3 * np.eye(30), G_new) - 0.5).T
    return largest(model.decision_function(NEW, Y), scores)


@statement(
    "MovKL",
    "eigenvalues of the integral operator",
    "ovk.operators.Integral",
    "operators/test_curves.py::test_known_eigenfunctions",
)
def eigenvalues() -> float:
    """The integral operator of exp(-|t - s|) on [0, 1]: 2 / (1 + w^2) with cot w = (w - 1 / w) / 2."""
    roots = []
    for k in range(3):
        low, high = max(k * np.pi, 1e-9) + 1e-9, (k + 1) * np.pi - 1e-9
        roots.append(brentq(lambda w: np.cos(w) / np.sin(w) - 0.5 * (w - 1 / w), low, high))
    values = np.linalg.eigvalsh(Integral(grid=Grid.regular(400)).dense())[::-1][:3]
    return largest(values, 2 / (1 + np.array(roots) ** 2))


@statement(
    "MovKL",
    "the multiplication operator, and both operators on the coordinates of curves",
    "ovk.operators.Multiplication",
    "operators/test_curves.py::test_on_its_own_grid_the_evaluation_is_the_operator",
)
def operators_on_curves() -> float:
    """(T y)(t) = exp(-t^2) y(t) and the integral of exp(-|t - s|) y(s), by the weights of the grid."""
    grid = Grid.regular(40)
    t, roots = np.asarray(grid.points), grid.roots()
    y = np.cos(3 * t)
    times = Multiplication(grid=grid).dense() @ (roots * y) / roots
    integral = Integral(grid=grid).dense() @ (roots * y) / roots
    return max(
        largest(times, np.exp(-(t**2)) * y),
        largest(integral, np.exp(-np.abs(t[:, None] - t)) @ (roots**2 * y)),
    )


@statement(
    "MovKL",
    "leaving out one curve at a time",
    "ovk.MovKLCV",
    "batch/test_movkl.py::test_loo_curves_equal_refitting_with_the_same_weights",
)
def loo_curves() -> float:
    """Every row predicted from the others, with the weights that were learned from all."""
    kernels = [Gaussian(0.3) * Identity(3), Gaussian(1.0) * MixedEffect(0.5, 3)]
    model = MovKLCV(kernels, [0.3]).fit(X, Y)
    G = sum(w * kernel.gram(X).dense() for w, kernel in zip(model.weights_, kernels, strict=True))
    error = 0.0
    for i in range(30):
        rest, own = np.setdiff1d(np.arange(90), np.arange(3 * i, 3 * i + 3)), slice(3 * i, 3 * i + 3)
        c = np.linalg.solve(G[np.ix_(rest, rest)] + 0.3 * np.eye(87), Y.ravel()[rest])
        error += ((G[own][:, rest] @ c - Y[i]) ** 2).sum()
    return largest(model.errors_[0], error)


@statement(
    "MovKL", "the measures RSSE and LCR", "ovk.objectives.rsse", "objectives/test_metrics.py::test_rsse_is_an_integral"
)
def measures() -> float:
    grid = Grid.regular(40)
    y, f = np.cos(3 * np.asarray(grid.points))[None], np.zeros((1, 40))
    written = np.trapezoid(y[0] ** 2, np.asarray(grid.points))
    labels = np.array([[1, -1, 1, 1]])
    return max(largest(rsse(y, f, grid), written), largest(lcr(labels, -labels * [[1, 1, -1, -1]]), 50.0))
