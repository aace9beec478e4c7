"""The page of the audit: what the papers say, where it is, how it is tested, and how far code from the papers is off.

``python docs/audit.py`` runs every comparison below and writes ``docs/systems/audit.md``; a test runs them again. Each
writes a statement out as it stands in the paper, with loops and dense matrices, and returns its largest difference to
the library. The page gives a power of ten with a digit to spare, so that it holds on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ovk import IOKR, KAWV, OKVAR, OLOK, PKAWV, MovKL, MultiTaskSVC, OVKRidge
from ovk.curves import Grid
from ovk.features import Given, Nystrom
from ovk.kernels import Gaussian, Linear
from ovk.losses import Novelty, NuHinge, NuInsensitive
from ovk.online import Window, error_bound, regret_bound
from ovk.operators import GraphLaplacian, Identity, Integral, LowRank, MeanRegularised, MixedEffect, TensorProduct
from ovk.ovkernels import CurlFree, DivFree, Transformable
from ovk.schedules import Constant

HERE = Path(__file__).resolve().parent
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (30, 2))
NEW = RNG.uniform(-1, 1, (7, 2))
Y = np.column_stack([np.sin(3 * X[:, 0]), X[:, 1] + X[:, 0], X[:, 0] * X[:, 1]])
K = Gaussian(0.8)


class Statement(NamedTuple):
    """One line of the page.

    Attributes
    ----------
    seed : the document
    says : what it states
    where : the public name that does it
    test : the test that looks at it closely
    difference : computes the largest difference, or by how much a bound is broken
    bound : whether the statement is an inequality
    least : to which both sides were computed; a smaller difference is chance
    """

    seed: str
    says: str
    where: str
    test: str
    difference: Callable[[], float]
    bound: bool = False
    least: float = 1e-13


def largest(a: Any, b: Any) -> float:
    """The largest difference of two arrays, in units of the larger one."""
    a, b = np.asarray(a), np.asarray(b)
    return float(np.abs(a - b).max() / max(np.abs(a).max(), np.abs(b).max(), 1e-300))


# ------------------------------------------------------------------------------------------- online learning


def steps(eta: Callable[[int], float], alpha: float, window: int | None = None) -> Any:
    """f <- (1 - eta alpha) f - eta K(x, .) (f(x) - y), row by row: predictions, points and coefficients."""
    T = MixedEffect(0.5, 3).dense()
    points: list[Any] = []
    a: list[Any] = []
    before = []
    for t, (x, y) in enumerate(zip(X, Y, strict=True), 1):
        z = sum((K(x[None], p[None])[0, 0] * T @ c for p, c in zip(points, a, strict=True)), np.zeros(3))
        before.append(z)
        a = [(1 - eta(t) * alpha) * c for c in a] + [-eta(t) * (z - y)]
        points.append(x)
        if window is not None:
            points, a = points[-window:], a[-window:]
    return np.array(before)


def olok() -> float:
    model = OLOK(K * MixedEffect(0.5), 0.1, 0.5)
    return largest(model.predict_then_learn(X, Y), steps(lambda t: 0.5 / t**0.5, 0.1))


def truncated_olok() -> float:
    model = OLOK(K * MixedEffect(0.5), 0.1, 0.5, truncation=Window(9, hold_steps=False))
    return largest(model.predict_then_learn(X, Y), steps(lambda t: 0.5 / t**0.5, 0.1, 9))


def cumulative_error() -> float:
    """Theorem 1: the mean instantaneous risk against the batch's, 0 where it is within the bound."""
    labels = np.sign(Y[:, 0])
    model = OLOK(K, 0.5, 1.0, "hinge").fit(X, labels)
    best = min(np.maximum(1 - labels * (K(X) @ c), 0).mean() + 0.25 * c @ K(X) @ c for c in (np.zeros(30), labels / 30))
    return max(model.cumulative_risk_ / 30 - best - float(error_bound(model).excess or np.nan), 0.0)


def norma() -> float:
    a: list[float] = []
    before = []
    for t in range(30):
        before.append(float(K(X[t : t + 1], X[:t])[0] @ a) if t else 0.0)
        a = [(1 - 0.3 * 0.1) * c for c in a] + [-0.3 * (before[-1] - Y[t, 0])]
    return largest(OLOK(K, 0.1, Constant(0.3)).predict_then_learn(X, Y[:, 0]), before)


def thresholds() -> float:
    """nu-classification, novelty detection and the adaptive tube, each with its own number learned."""
    worst = 0.0
    for loss, labels in ((NuHinge(0.3), np.sign(Y[:, 0])), (Novelty(0.3), np.ones(30)), (NuInsensitive(0.3), Y[:, 0])):
        tube = isinstance(loss, NuInsensitive)
        theta, a, kept = loss.start(), [], []
        for x, y in zip(X, labels, strict=True):
            f = sum(c * K(x[None], z[None])[0, 0] for c, z in zip(a, kept, strict=True))
            wrong = abs(y - f) > theta if tube else y * f < theta
            a = [(1 - 0.3 * 0.1) * c for c in a]
            # The margin falls and the tube widens by eta (1 - nu) where a row is on the wrong side.
            move = 0.3 * ((1 - 0.3) if wrong else -0.3)
            theta = max(theta + move, 0.0) if tube else theta - move
            if wrong:
                a.append(0.3 * (np.sign(y - f) if tube else y))
                kept.append(x)
        model = OLOK(K, 0.1, Constant(0.3), loss)
        model.fit(X, None if isinstance(loss, Novelty) else labels)
        worst = max(worst, abs(model.threshold_ - theta))
    return worst


def forecaster() -> float:
    """The nonlinear ridge forecaster: argmin of sum_{s<t} (y_s - f(x_s))^2 + alpha |f|^2 + f(x_t)^2, row by row."""
    found = []
    for t in range(30):
        G = K(X[: t + 1])
        c = np.linalg.solve(G + 0.3 * np.eye(t + 1), np.append(Y[:t, 0], 0.0))
        found.append(G[-1] @ c)
    return largest(KAWV(K, 0.3).predict_then_learn(X, Y[:, 0]), found)


def projected() -> float:
    """The same over the span of given points."""
    Z = X[:8]
    found = []
    for t in range(30):
        A = K(X[: t + 1], Z)
        c = np.linalg.lstsq(A.T @ A + 0.3 * K(Z), A.T @ np.append(Y[:t, 0], 0.0), rcond=1e-14)[0]
        found.append(K(X[t : t + 1], Z)[0] @ c)
    return largest(PKAWV(K, 0.3, Nystrom(Given(Z))).predict_then_learn(X, Y[:, 0]), found)


def regret() -> float:
    """sum (y_t - p_t)^2 - sum (y_t - f(x_t))^2 <= alpha |f|^2 + B^2 log det(I + K / alpha); 0 where it holds."""
    y, alpha = Y[:, 0], 0.3
    p = KAWV(K, alpha).predict_then_learn(X, y)
    c = np.linalg.solve(K(X) + alpha * np.eye(30), y)
    f = K(X) @ c
    bound = regret_bound(K, X, alpha, norm=float(np.sqrt(c @ f)), largest=float(np.abs(y).max()))
    return max(float(((y - p) ** 2).sum() - ((y - f) ** 2).sum()) - bound, 0.0)


# ------------------------------------------------------------------------------------ operators, tasks, outputs


def ridge() -> float:
    """(K + alpha I) c = y with the matrix of all blocks."""
    T = MixedEffect(0.5, 3).dense()
    c = np.linalg.solve(np.kron(K(X), T) + 0.3 * np.eye(90), Y.ravel())
    model = OVKRidge(K * MixedEffect(0.5), 0.3, fit_intercept=False).fit(X, Y)
    return largest(model.predict(NEW), (np.kron(K(NEW, X), T) @ c).reshape(-1, 3))


def penalties() -> float:
    """Penalties on tasks as they are written, by their normal equations, against operators."""
    M = np.array([[0.2, 1.0, 0.0], [1.0, 0.1, 0.5], [0.0, 0.5, 0.3]])
    centred = np.eye(3) - 1 / 3
    off = M - np.diag(np.diag(M))
    written = {
        MeanRegularised(0.4, 1.5): 0.4 * np.eye(3) + 1.5 * centred,
        GraphLaplacian(M): np.diag(off.sum(axis=1)) - off + np.diag(np.diag(M)),
    }
    worst = 0.0
    for operator, R in written.items():
        W = np.linalg.solve(np.kron(np.eye(3), X.T @ X) + 0.3 * np.kron(R, np.eye(2)), (X.T @ Y).T.ravel())
        model = OVKRidge(Linear() * operator, 0.3, fit_intercept=False).fit(X, Y)
        worst = max(worst, largest(model.predict(np.eye(2)), W.reshape(3, 2).T))
    return worst


def machine() -> float:
    """Theorem 2.1: an ordinary machine on phi(x, t) = (x / sqrt(mu), 0, ..., x, ..., 0)."""
    from sklearn.svm import LinearSVC

    labels, mu = np.where(Y[:, :2] > 0, 1.0, -1.0), 0.5
    phi = [np.hstack([X / np.sqrt(mu), *(X if s == t else np.zeros_like(X) for s in range(2))]) for t in range(2)]
    peer = LinearSVC(loss="hinge", C=0.7, fit_intercept=False, tol=1e-11, max_iter=10**6)
    peer.fit(np.vstack(phi), labels.T.ravel())
    shared = LowRank(np.full((2, 1), mu**-0.5), diag=1.0)
    model = MultiTaskSVC(Linear() * shared, C=0.7, tol=1e-11).fit(X, labels)
    return largest(model.decision_function(X).T.ravel(), peer.decision_function(np.vstack(phi)))


def classes_in_tasks() -> float:
    """Several classes in several tasks: a machine on the features of a Kronecker product, a row for each class."""
    from sklearn.svm import LinearSVC

    task, classes = np.arange(30) % 2, (Y[:, 0] > 0).astype(int) + (Y[:, 1] > 0)
    operators = [MixedEffect(0.7, 2), MixedEffect(0.2, 3)]
    F = np.linalg.cholesky(np.kron(operators[0].dense(), operators[1].dense()))
    phi = np.array([np.kron(x, F[3 * t + c]) for x, t in zip(X, task, strict=True) for c in range(3)])
    peer = LinearSVC(loss="hinge", C=0.7, fit_intercept=False, tol=1e-11, max_iter=10**6)
    peer.fit(phi, np.where(classes[:, None] == np.arange(3), 1.0, -1.0).ravel())
    model = MultiTaskSVC(Linear() * TensorProduct(operators), C=0.7, tol=1e-11).fit(X, classes, task=task)
    return largest(model.decision_function(X, task).ravel(), peer.decision_function(phi))


def fields() -> float:
    """Curl-free and divergence-free kernels as second differences of the scalar one."""
    h, worst = 1e-4, 0.0
    k = Gaussian(0.8)
    for kernel in (CurlFree(k), DivFree(k)):
        H = np.empty((2, 2))
        x, z = X[0], X[1]
        for i, j in np.ndindex(2, 2):
            e, f = h * np.eye(2)[i], h * np.eye(2)[j]
            values = [k((x + s * e + t * f)[None], z[None])[0, 0] * s * t for s in (1, -1) for t in (1, -1)]
            H[i, j] = sum(values) / (4 * h * h)
        whole = -H if isinstance(kernel, CurlFree) else H - np.trace(H) * np.eye(2)
        worst = max(worst, largest(kernel(x, z), whole * 0.8**2))
    return worst


def transformable() -> float:
    """K(x, z)_ij = k(S_i x, S_j z)."""
    S = np.random.default_rng(1).standard_normal((2, 2, 2))
    kernel = Transformable(K, S)
    blocks = [[K((S[i] @ X[0])[None], (S[j] @ X[1])[None])[0, 0] for j in range(2)] for i in range(2)]
    return largest(kernel(X[0], X[1]), blocks)


def structured() -> float:
    """argmin_y |phi(y) - h(x)|^2 with h(x) = sum_ij phi(y_i) (K + alpha I)^-1_ij k(x_j, x)."""
    outputs, L = Y, Gaussian(1.0)
    A = np.linalg.solve(K(X) + 0.3 * np.eye(30), K(X, NEW))
    scores = (L(outputs) @ A - 0.5).T
    return largest(IOKR(K, L, 0.3).fit(X, outputs).decision_function(NEW, outputs), scores)


def manifold() -> float:
    """The gradient of the criterion with the graph's penalty, at the coefficients of the library, over that at zero."""
    labelled, n, alpha, weight = 12, len(X), 0.3, 0.7
    T, links = MixedEffect(0.4, output_dim=3).dense(), np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    model = OVKRidge(K * MixedEffect(0.4), alpha, fit_intercept=False, alpha_graph=weight)
    model.fit(X[:labelled], Y[:labelled], unlabelled=X[labelled:], graph=links - np.diag(np.diag(links)))
    G = K(X)

    def slope(C: Any) -> Any:
        # Of sum |y - f|^2 + alpha |f|^2 + weight sum_lm w_lm |f_l - f_m|^2 in the values f, as coefficients.
        F = G @ C @ T
        down = alpha * C
        for one in range(n):
            if one < labelled:
                down[one] += F[one] - Y[one]
            for other in range(n):
                down[one] += 2.0 * weight * links[one, other] * (F[one] - F[other])
        return down

    return float(np.abs(slope(model.dual_coef_)).max() / np.abs(slope(np.zeros((n, 3)))).max())


def jacobians() -> float:
    """The Jacobians from which networks are read, against differences of what the model predicts."""
    series = np.cumsum(np.random.default_rng(2).standard_normal((40, 3)), axis=0)
    model, h = OKVAR(Gaussian(3.0), 0.5).fit(series), 1e-5
    slopes = [(model.drift(series + h * e) - model.drift(series - h * e)) / (2 * h) for e in np.eye(3)]
    return largest(model.jacobian(series), np.stack(slopes, axis=-1))


# ------------------------------------------------------------------------------------------------ many kernels


def alternation(grams: list[Any], y: Any, alpha: float, r: float) -> Any:
    """The weights of Algorithm 1, 400 rounds of it as written, with dense matrices of all blocks."""
    d = np.full(len(grams), len(grams) ** (-1 / r))
    for _ in range(400):
        c = np.linalg.solve(sum(w * G for w, G in zip(d, grams, strict=True)) + alpha * np.eye(len(y)), y)
        norms = np.array([w * np.sqrt(c @ G @ c) for w, G in zip(d, grams, strict=True)])
        d = norms ** (2 / (r + 1)) / (norms ** (2 * r / (r + 1))).sum() ** (1 / r)
    return d


def weights() -> float:
    kernels = [Gaussian(0.3), Gaussian(1.0), Linear()]
    d = alternation([np.kron(k(X), np.eye(3)) for k in kernels], Y.ravel(), 0.1, 2.0)
    model = MovKL([k * Identity() for k in kernels], 0.1, r=2.0, tol=1e-12, max_iter=2000).fit(X, Y)
    return largest(model.weights_, d)


def weights_of_fields() -> float:
    """The same with kernels that are no products."""
    kernels = [CurlFree(K), DivFree(K), Linear() * Identity(2)]
    d = alternation([kernel.gram(X).dense() for kernel in kernels], Y[:, :2].ravel(), 0.1, 2.0)
    return largest(MovKL(kernels, 0.1, r=2.0, tol=1e-12, max_iter=2000).fit(X, Y[:, :2]).weights_, d)


def several_input_kernels() -> float:
    """h(x) at the weights that were learned, for structured outputs: the solution with their sum as one kernel."""
    kernels, L = [Gaussian(0.3), Gaussian(1.0), Linear()], Gaussian(1.0)
    model = IOKR(kernels, L, 0.3).fit(X, Y)
    G, G_new = (sum(w * k(X, Z) for w, k in zip(model.kernel_weights_, kernels, strict=True)) for Z in (X, NEW))
    scores = (L(Y) @ np.linalg.solve(G + 0.3 * np.eye(30), G_new) - 0.5).T
    return largest(model.decision_function(NEW, Y), scores)


def eigenvalues() -> float:
    """The integral operator of exp(-|t - s|) on [0, 1]: 2 / (1 + w^2) with cot w = (w - 1 / w) / 2."""
    from scipy.optimize import brentq

    roots = []
    for k in range(3):
        low, high = max(k * np.pi, 1e-9) + 1e-9, (k + 1) * np.pi - 1e-9
        roots.append(brentq(lambda w: np.cos(w) / np.sin(w) - 0.5 * (w - 1 / w), low, high))
    values = np.linalg.eigvalsh(Integral(grid=Grid.regular(400)).dense())[::-1][:3]
    return largest(values, 2 / (1 + np.array(roots) ** 2))


STATEMENTS = [
    Statement("OLOK", "Algorithm 1, the step", "ovk.OLOK", "online/test_rows_equal_chunks.py::test_naive_loop", olok),
    Statement(
        "OLOK",
        "Algorithm 1 with the truncation step",
        "ovk.online.Window",
        "online/test_rows_equal_chunks.py::test_naive_loop_with_a_window_and_means",
        truncated_olok,
    ),
    Statement(
        "OLOK",
        "Theorem 1, the cumulative error bound",
        "ovk.online.error_bound",
        "online/test_bound.py::test_hinge_loss_against_the_batch_infimum",
        cumulative_error,
        bound=True,
    ),
    Statement(
        "NORMA notes",
        "the step for one output, equations 4 and 5",
        "ovk.OLOK",
        "online/test_rows_equal_chunks.py::test_norma_is_olok_with_one_output",
        norma,
    ),
    Statement(
        "NORMA notes",
        "margin, threshold and tube of the paper behind the notes",
        "ovk.losses.NuHinge",
        "online/test_norma.py::test_learns_what_the_paper_writes",
        thresholds,
    ),
    Statement(
        "AWV slides",
        "the nonlinear ridge forecaster",
        "ovk.KAWV",
        "online/test_second_order.py::test_exact_forecaster",
        forecaster,
    ),
    Statement(
        "AWV slides",
        "the forecaster projected on a dictionary",
        "ovk.PKAWV",
        "online/test_second_order.py::test_projected_forecaster",
        projected,
    ),
    Statement(
        "AWV slides",
        "Theorem, the regret of the exact forecaster",
        "ovk.online.regret_bound",
        "online/test_second_order_laws.py::test_regret_of_the_exact_forecaster",
        regret,
        bound=True,
    ),
    Statement(
        "OVK slides",
        "the representer theorem for vector-valued ridge regression",
        "ovk.OVKRidge",
        "batch/test_ridge_exact.py::test_fit_and_posterior_equal_dense_algebra",
        ridge,
    ),
    Statement(
        "OVK slides",
        "penalties on tasks are operators (mean, graph)",
        "ovk.operators.MeanRegularised",
        "batch/test_penalty_is_kernel.py::test_minimiser_of_the_penalty",
        penalties,
    ),
    Statement(
        "OVK slides",
        "the multi-task support vector machine",
        "ovk.MultiTaskSVC",
        "batch/test_multitask_svm.py::test_theorem_2_1_is_the_penalty_on_a_common_and_on_own_parts",
        machine,
        least=1e-11,
    ),
    Statement(
        "OVK slides",
        "several classes in several tasks (hospitals)",
        "ovk.MultiTaskSVC",
        "batch/test_multitask_svm.py::test_several_classes_in_several_tasks_are_linear_svc_on_the_expanded_features",
        classes_in_tasks,
        least=1e-11,
    ),
    Statement(
        "OVK slides",
        "curl-free and divergence-free kernels",
        "ovk.ovkernels.CurlFree",
        "ovkernels/test_fields.py::test_second_differences_of_the_scalar_kernel",
        fields,
    ),
    Statement(
        "OVK slides",
        "transformable kernels",
        "ovk.ovkernels.Transformable",
        "ovkernels/test_agreement.py::test_gram",
        transformable,
    ),
    Statement(
        "OVK slides",
        "input-output kernel regression and its pre-image",
        "ovk.IOKR",
        "structured/test_iokr.py::test_pre_images_are_those_of_brute_force_with_norms_that_vary",
        structured,
    ),
    Statement(
        "OVK slides",
        "the solution with unlabelled inputs and a graph, for K = k T",
        "ovk.OVKRidge",
        "batch/test_manifold.py::test_every_form_is_the_minimiser",
        manifold,
    ),
    Statement(
        "OVK slides",
        "networks from the Jacobians of an autoregression",
        "ovk.OKVAR",
        "batch/okvar/test_exact.py::test_jacobians_equal_finite_differences",
        jacobians,
    ),
    Statement(
        "MovKL",
        "Algorithm 1, weights and function in turn",
        "ovk.MovKL",
        "batch/test_movkl.py::test_finds_the_optimum_of_the_plain_alternation",
        weights,
    ),
    Statement(
        "MovKL",
        "Algorithm 1 with kernels of any kind",
        "ovk.MovKL",
        "batch/test_movkl.py::test_kernels_of_any_kind",
        weights_of_fields,
    ),
    Statement(
        "MovKL",
        "many kernels of the inputs for structured outputs",
        "ovk.IOKR",
        "structured/test_iokr.py::test_a_list_of_kernels_is_weighed_by_what_the_outputs_say",
        several_input_kernels,
    ),
    Statement(
        "MovKL",
        "eigenvalues of the integral operator",
        "ovk.operators.Integral",
        "operators/test_curves.py::test_known_eigenfunctions",
        eigenvalues,
    ),
]


def shown(one: Statement) -> str:
    """A power of ten that the difference stays below, with a digit to spare and not below 1e-12; or "holds"."""
    difference = one.difference()
    if one.bound:
        return "holds" if difference == 0.0 else f"broken by {difference:.2g}"
    return f"below 1e{int(np.ceil(np.log10(max(difference, one.least)))) + 1:+03d}"


def page() -> str:
    """The page."""
    lines = [
        "# Audit: what the papers say, and what the code does",
        "",
        "Written by `python docs/audit.py`, which writes every statement out from the paper, with loops and dense",
        "matrices, and compares. The last column is the largest relative difference to the library; those above 1e-10",
        "are differences of the comparison itself (finite differences, a quadrature). Where the code differs from a",
        "paper on purpose, the page of the system says so.",
        "",
        "| document | statement | in the library | tested by | largest difference |",
        "|---|---|---|---|---|",
    ]
    for one in STATEMENTS:
        lines.append(f"| {one.seed} | {one.says} | `{one.where}` | `tests/{one.test}` | {shown(one)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    (HERE / "systems" / "audit.md").write_text(page(), encoding="utf-8")
