"""The OLOK paper, the notes on NORMA and the talk on the forecaster of Azoury, Vovk and Warmuth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from audits.base import K, X, Y, excess, largest, statement
from ovk import KAWV, OLOK, PKAWV, MultiTaskSVC, OVKRidge
from ovk.features import ALD, KORS, Given, Nystrom, NystromMap, TaylorMap
from ovk.kernels import Gaussian, Matern
from ovk.objectives import Constant, Novelty, NuHinge, NuInsensitive
from ovk.online import PaperWindow, Tolerance, Window
from ovk.online.theory import (
    capacity_exponent,
    effective_dimension,
    error_bound,
    kors_beta,
    kors_gap,
    kors_size_bound,
    log_determinant,
    projected_regret_bound,
    regret_bound,
    suggest,
    suggest_from_capacity,
)
from ovk.operators import MixedEffect


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


@statement(
    "OLOK",
    "Algorithm 1, the step",
    "ovk.OLOK",
    "online/test_rows_equal_chunks.py::test_naive_loop",
)
def olok() -> float:
    model = OLOK(K * MixedEffect(0.5), 0.1, 0.5)
    return largest(model.predict_then_learn(X, Y), steps(lambda t: 0.5 / t**0.5, 0.1))


@statement(
    "OLOK",
    "Algorithm 1 with the truncation step",
    "ovk.online.Window",
    "online/test_rows_equal_chunks.py::test_naive_loop_with_a_window_and_means",
)
def truncated_olok() -> float:
    model = OLOK(K * MixedEffect(0.5), 0.1, 0.5, truncation=Window(9, hold_steps=False))
    return largest(model.predict_then_learn(X, Y), steps(lambda t: 0.5 / t**0.5, 0.1, 9))


@statement(
    "OLOK",
    "Theorem 1, the cumulative error bound",
    "ovk.online.theory.error_bound",
    "online/test_bound.py::test_hinge_loss_against_the_batch_infimum",
    bound=True,
)
def cumulative_error() -> float:
    """Theorem 1: the mean instantaneous risk against the batch's, 0 where it is within the bound."""
    labels = np.sign(Y[:, 0])
    model = OLOK(K, 0.5, 1.0, "hinge").fit(X, labels)
    best = min(np.maximum(1 - labels * (K(X) @ c), 0).mean() + 0.25 * c @ K(X) @ c for c in (np.zeros(30), labels / 30))
    return max(model.cumulative_risk_ / 30 - best - float(error_bound(model).excess or np.nan), 0.0)


@statement(
    "OLOK",
    "Theorem 1 with the truncation step, for the squared loss",
    "ovk.online.PaperWindow",
    "online/test_bound.py::test_squared_loss_against_the_batch_infimum",
    bound=True,
)
def truncated_error() -> float:
    """The mean risk against that of ridge regression, whose risk is the least of all."""
    alpha, y = 2.5, Y[:, 0] / np.abs(Y[:, 0]).max()
    model = OLOK(K, alpha, 0.3, truncation=PaperWindow(0.4)).fit(X, y)
    c = np.linalg.solve(K(X) + 30 * alpha * np.eye(30), y)
    best = 0.5 * np.mean((K(X) @ c - y) ** 2) + 0.5 * alpha * c @ K(X) @ c
    return excess((model.cumulative_risk_ / 30 - best, float(error_bound(model, 1.0).excess or np.nan)))


@statement(
    "OLOK",
    "Theorem 1, the window: its three conditions hold from t_0 on, and not just before",
    "ovk.online.PaperWindow",
    "online/test_invariants.py::test_the_first_step_of_the_paper_window_counts_all_later_steps",
    bound=True,
)
def first_of_window() -> float:
    """eta alpha < sqrt(t), exp(-eta alpha t^e) <= eta alpha / sqrt(t) and t^(1/2 + e) <= .75 t for 200,000 steps."""
    t, wrong = np.arange(1.0, 200_001.0), 0
    for epsilon in (0.15, 0.25, 0.4):
        for product in (0.3, 0.9, 1.1, 2.5):
            second = np.exp(-product * t**epsilon) <= product / np.sqrt(t)
            holds = (product < np.sqrt(t)) & second & (t ** (0.5 + epsilon) <= 0.75 * t)
            found = PaperWindow(epsilon).first(product, 1.0)
            wrong += int(not holds[found - 1 :].all() or (found > 1 and bool(holds[min(found, len(t)) - 2])))
    return float(wrong)


@statement(
    "OLOK",
    "Proposition 2.1: new coefficients, iterates and the batch solution are bounded",
    "ovk.OLOK",
    "online/test_invariants.py::test_proposition_1",
    bound=True,
)
def proposition_1() -> float:
    """|a_t| <= eta_t C, |f_t| <= C kappa / alpha and |g| <= C kappa / alpha, for the hinge loss (C = kappa = 1)."""
    labels, alpha = np.sign(Y[:, 0]), 0.5
    model, pairs = OLOK(K, alpha, 1.0, "hinge"), []
    for t in range(30):
        before = model.predict(X[t : t + 1])[0] if t else 0.0
        model.partial_fit(X[t : t + 1], labels[t : t + 1])
        # The coefficient that the row has just got, 0 where its margin was large enough.
        new = np.abs(model.support_.A[-1]).max() if labels[t] * before < 1 else 0.0
        pairs += [(new, (t + 1) ** -0.5), (model.norm_, 1 / alpha)]
    batch = MultiTaskSVC(K, C=1 / (30 * alpha), tol=1e-10).fit(X, labels)
    return excess(*pairs, (batch.expansion_.norm(), 1 / alpha))


@statement(
    "OLOK",
    "Proposition 2.2: the same for the squared loss and outputs that are bounded",
    "ovk.OLOK",
    "online/test_invariants.py::test_proposition_2",
    bound=True,
)
def proposition_2() -> float:
    """|f_t| < C_y / kappa, |a_t| <= 2 eta_t C_y, and |g| <= U, with kappa = 3 and alpha > 2 kappa^2."""
    kernel, alpha, eta = 9.0 * K, 20.0, 0.04
    y = Y[:, 0] / np.abs(Y[:, 0]).max()
    model, pairs = OLOK(kernel, alpha, eta), []
    for t in range(30):
        model.partial_fit(X[t : t + 1], y[t : t + 1])
        pairs += [(model.norm_, 1 / 3), (np.abs(model.support_.A[-1]).max(), 2 * eta * (t + 1) ** -0.5)]
    batch = OVKRidge(kernel, 30 * alpha, fit_intercept=False).fit(X, y)
    return excess(*pairs, (batch.expansion_.norm(), max(1 / 3, 2 / alpha)))


@statement(
    "NORMA notes",
    "the step for one output, equations 4 and 5",
    "ovk.OLOK",
    "online/test_rows_equal_chunks.py::test_norma_is_olok_with_one_output",
)
def norma() -> float:
    a: list[float] = []
    before = []
    for t in range(30):
        before.append(float(K(X[t : t + 1], X[:t])[0] @ a) if t else 0.0)
        a = [(1 - 0.3 * 0.1) * c for c in a] + [-0.3 * (before[-1] - Y[t, 0])]
    return largest(OLOK(K, 0.1, Constant(0.3)).predict_then_learn(X, Y[:, 0]), before)


@statement(
    "NORMA notes",
    "margin, threshold and tube of the paper behind the notes",
    "ovk.objectives.NuHinge",
    "online/test_norma.py::test_learns_what_the_paper_writes",
)
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


@statement(
    "NORMA notes",
    "old terms shrink and can be dropped, at a cost that is bounded",
    "ovk.online.Tolerance",
    "online/test_truncation_bound.py::test_tolerance",
    bound=True,
)
def dropped_terms() -> float:
    """Predictions differ from those of the learner that drops nothing by kappa times `truncation_error_` at most."""
    rows, y = np.tile(X, (20, 1)), np.tile(Y[:, 0], 20)
    few, all_ = (OLOK(K, 0.05, Constant(0.5), truncation=cut).fit(rows, y) for cut in (Tolerance(1e-2), None))
    assert len(few.support_) < len(all_.support_)
    return excess((np.abs(few.predict(X) - all_.predict(X)), few.truncation_error_ + 1e-14))


@statement(
    "AWV slides",
    "the nonlinear ridge forecaster",
    "ovk.KAWV",
    "online/test_second_order.py::test_exact_forecaster",
)
def forecaster() -> float:
    """The nonlinear ridge forecaster: argmin of sum_{s<t} (y_s - f(x_s))^2 + alpha |f|^2 + f(x_t)^2, row by row."""
    found = []
    for t in range(30):
        G = K(X[: t + 1])
        c = np.linalg.solve(G + 0.3 * np.eye(t + 1), np.append(Y[:t, 0], 0.0))
        found.append(G[-1] @ c)
    return largest(KAWV(K, 0.3).predict_then_learn(X, Y[:, 0]), found)


@statement(
    "AWV slides",
    "the forecaster projected on a well-conditioned dictionary",
    "ovk.PKAWV",
    "online/test_second_order.py::test_projected_forecaster",
)
def projected() -> float:
    """The same over the span of given points."""
    Z = X[:8]
    found = []
    for t in range(30):
        A = K(X[: t + 1], Z)
        c = np.linalg.lstsq(A.T @ A + 0.3 * K(Z), A.T @ np.append(Y[:t, 0], 0.0), rcond=1e-14)[0]
        found.append(K(X[t : t + 1], Z)[0] @ c)
    return largest(PKAWV(K, 0.3, Nystrom(Given(Z))).predict_then_learn(X, Y[:, 0]), found)


@statement(
    "AWV slides",
    "a growing dictionary: every row is predicted as if its dictionary had been known from the start",
    "ovk.features.Nystrom",
    "online/test_exact_past.py::test_blocks_with_growth_equal_the_definition",
    least=1e-11,
)
def exact_past() -> float:
    """(K~ + alpha I) c = (y, 0) for all rows so far, K~ projected on the points so far."""
    model = PKAWV(K, 0.3, Nystrom(ALD(0.05), past="exact"), warm_up=0)
    Z = model.predict_then_learn(X, Y[:, 0])
    chosen, found = {tuple(point) for point in model.support_}, []
    for t in range(30):
        rows = X[: t + 1]
        D = np.array([x for x in rows if tuple(x) in chosen])
        G = K(rows, D) @ np.linalg.lstsq(K(D), K(D, rows), rcond=1e-12)[0]
        found.append(G[t] @ np.linalg.solve(G + 0.3 * np.eye(t + 1), np.append(Y[:t, 0], 0.0)))
    return largest(Z, found)


@statement(
    "AWV slides",
    "the forecaster projected on nearly dependent points: all rows, so that it is the exact one",
    "ovk.features.Given",
    "features/test_nystrom.py::test_nearly_dependent_points_count_where_only_the_span_matters",
    least=1e-7,
)
def nearly_dependent() -> float:
    """alpha = 1e-4 and a wide kernel, whose gram has eigenvalues down to rounding."""
    wide = Gaussian(4.0)
    exact = KAWV(wide, 1e-4).predict_then_learn(X, Y[:, 0])
    return largest(PKAWV(wide, 1e-4, Nystrom(Given(X))).predict_then_learn(X, Y[:, 0]), exact)


@statement(
    "AWV slides",
    "Theorem, the regret of the exact forecaster",
    "ovk.online.theory.regret_bound",
    "online/test_second_order_laws.py::test_regret_of_the_exact_forecaster",
    bound=True,
)
def regret() -> float:
    """sum (y_t - p_t)^2 - sum (y_t - f(x_t))^2 <= alpha |f|^2 + B^2 log det(I + K / alpha); 0 where it holds."""
    y, alpha = Y[:, 0], 0.3
    p = KAWV(K, alpha).predict_then_learn(X, y)
    c = np.linalg.solve(K(X) + alpha * np.eye(30), y)
    f = K(X) @ c
    bound = regret_bound(K, X, alpha, norm=float(np.sqrt(c @ f)), largest=float(np.abs(y).max()))
    return max(float(((y - p) ** 2).sum() - ((y - f) ** 2).sum()) - bound, 0.0)


@statement(
    "AWV slides",
    "the effective dimension",
    "ovk.online.theory.effective_dimension",
    "online/test_capacity.py::test_scalar_kernels_by_definition",
)
def dimension() -> float:
    """trace K (K + alpha I)^-1."""
    return largest(effective_dimension(K, X, 0.3), np.trace(K(X) @ np.linalg.inv(K(X) + 0.3 * np.eye(30))))


@statement(
    "AWV slides",
    "the effective dimension is at most n / alpha, and bounds the regret up to a logarithm",
    "ovk.online.theory.log_determinant",
    "online/test_capacity.py::test_order_of_the_quantities",
    bound=True,
)
def dimension_bounds() -> float:
    """d <= n / alpha and log det(I + K / alpha) <= d (1 + log(1 + n / alpha)), for a kernel with k(x, x) = 1."""
    pairs: list[tuple[Any, Any]] = []
    for alpha in (0.01, 0.3, 10.0):
        d = effective_dimension(K, X, alpha)
        pairs += [(d, 30 / alpha), (log_determinant(K, X, alpha), d * (1 + np.log(1 + 30 / alpha)))]
    return excess(*pairs)


@statement(
    "AWV slides",
    "the capacity of Sobolev spaces and of the Gaussian kernel",
    "ovk.online.theory.capacity_exponent",
    "online/test_suggest.py::test_the_measured_dimension_grows_with_the_exponent",
)
def capacity() -> float:
    """d / (2 beta), with beta = nu + d / 2 the smoothness of a Matern kernel of order nu; 0 for the Gaussian."""
    found = [capacity_exponent(Matern(nu, 1.0), p) for nu, p in ((0.5, 1), (1.5, 1), (2.5, 3))]
    return largest([*found, capacity_exponent(K, 2)], [1 / 2, 1 / 4, 3 / 8, 0.0])


@statement(
    "AWV slides",
    "Theorem: size of a KORS dictionary, and what it leaves out",
    "ovk.features.KORS",
    "online/test_regret_of_forecasters.py::test_the_size_and_the_gap_of_kors",
    bound=True,
)
def kors() -> float:
    mu, beta = 0.5, kors_beta(30)
    model = PKAWV(K, 0.3, Nystrom(KORS(mu=mu, beta=beta)), random_state=0).fit(X, Y[:, 0])
    phi = NystromMap.from_points(K, model.support_).transform(X)
    gap = np.linalg.eigvalsh(K(X) - phi @ phi.T)[-1]
    return excess((model.n_features_, kors_size_bound(K, X, mu, beta=beta)), (gap, kors_gap(mu)))


def regret_beside(model: Any, alpha: float, gap: float, growths: int) -> float:
    """By how much the regret against the best function in hindsight exceeds the bound of a projected forecaster."""
    y = Y[:, 0]
    p = model.predict_then_learn(X, y)
    c = np.linalg.solve(K(X) + alpha * np.eye(30), y)
    f = K(X) @ c
    args = {"norm": float(np.sqrt(c @ f)), "largest": float(np.abs(y).max())}
    bound = projected_regret_bound(K, X, alpha, gap=gap, growths=growths, **args)
    return excess((((y - p) ** 2).sum() - ((y - f) ** 2).sum(), bound))


@statement(
    "AWV slides",
    "Theorem, the regret on a growing dictionary",
    "ovk.online.theory.projected_regret_bound",
    "online/test_regret_of_forecasters.py::test_projected_anew_at_each_growth",
    bound=True,
)
def growing() -> float:
    plan = Nystrom(KORS(mu=0.3, beta=1.0), past="exact")
    Z = PKAWV(K, 0.3, plan, random_state=0).fit(X, Y[:, 0]).support_
    joined = [int(np.flatnonzero((z == X).all(axis=1))[0]) for z in Z]
    gap = 0.0
    for t in range(1, 31):
        rows, points = X[:t], Z[: sum(j < t for j in joined)]
        phi = NystromMap.from_points(K, points).transform(rows) if len(points) else np.zeros((t, 1))
        gap = max(gap, float(np.linalg.eigvalsh(K(rows) - phi @ phi.T)[-1]))
    return regret_beside(PKAWV(K, 0.3, plan, random_state=0), 0.3, gap, len(Z))


@statement(
    "AWV slides",
    "Theorem, the regret where the inputs are known beforehand",
    "ovk.online.theory.projected_regret_bound",
    "online/test_regret_of_forecasters.py::test_features_known_beforehand",
    bound=True,
)
def beforehand() -> float:
    phi = NystromMap.from_points(K, X[::3]).transform(X)
    gap = float(np.linalg.eigvalsh(K(X) - phi @ phi.T)[-1])
    return regret_beside(PKAWV(K, 0.3, Nystrom(Given(X[::3]))), 0.3, gap, 0)


@statement(
    "AWV slides",
    "Corollaries: ridge and scale of the dictionary, Gaussian and under a capacity condition",
    "ovk.online.theory.suggest_from_capacity",
    "online/test_suggest.py::test_the_three_terms_are_balanced",
)
def corollaries() -> float:
    """mu = n m^(-1 / gamma); alpha by the size m of the dictionary, as the two theorems have it; 1 for the Gaussian."""
    n = 10_000
    gaussian = suggest(K, n, 2)
    worst = largest([gaussian.mu * n**2, gaussian.alpha], [1.0, 1.0])
    for gamma, m, known in ((0.25, 500, False), (0.25, 50, False), (0.25, 200, True), (0.25, 20, True)):
        found = suggest_from_capacity(n, gamma, m=m, known_beforehand=known)
        enough = m >= n ** (2 * gamma / ((1 + gamma) if known else (1 - gamma**2)))
        small = n * m ** (-1 / (2 * gamma) + (0.0 if known else 0.5))
        written = n * m ** (-1 / gamma), n ** (gamma / (1 + gamma)) if enough else small
        worst = max(worst, largest(found.mu, written[0]), largest(found.alpha, written[1]))
    return worst


@statement(
    "AWV slides",
    "better projections for the Gaussian kernel: Taylor features",
    "ovk.features.TaylorMap",
    "online/test_regret_bounds.py::test_the_spill_of_a_taylor_map",
)
def taylor() -> float:
    """The inner products of the features are the values of the kernel."""
    phi = TaylorMap.from_kernel(Gaussian(1.0), 30, np.zeros(2)).transform(X)
    return largest(phi @ phi.T, Gaussian(1.0)(X))
