"""Learning the output operator together with the function.

    minimise over T in the positive semi-definite cone   H(T) = h(T) + alpha Omega(T),

where h is the objective of ridge regression minimised over the function. The problem is jointly convex in f and T,
because <B, G B T^-1> is (Ciliberto et al. 2015); with Omega = |T|_F^2 it is that of Dinuzzo et al. (2011).

If Omega depends only on the eigenvalues, there are three stages. Block coordinate descent: the coefficients C from T (a
Sylvester equation, solved by eigenvectors), then with B = C T fixed, T from  <B'GB, T^-1> + Omega(T),  which has a
closed form; fast far from the solution, slow where eigenvalues vanish. If Omega makes them vanish, L-BFGS on a factor
W, T = W W', with as many columns as outputs, which has no other minima than H. Accelerated proximal steps on T, which
set small eigenvalues to zero and certify the minimum; for other penalties this is the only stage. No stage raises H.

With a `rank`, the same H is minimised in W, (d, rank): not convex, but never above its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from ovk.base import Array, ObservedPairs
from ovk.objectives import Penalty, Spectral
from ovk.solvers.cholesky import cholesky_factor
from ovk.solvers.eigen import Eigenpairs
from ovk.solvers.proximal import proximal_gradient

# Ridge regression as a function of the output operator.
#
# Minimised over the function, the kernel k T has the objective
#
#     h(T) = min over f of  sum |y - f(x)|^2 + alpha |f|^2  =  alpha <Y, C>,    G C T + alpha C = Y,
#
# which is convex in T, and by the envelope theorem its derivative is -alpha M with M = C' G C, (d, d). One
# eigendecomposition G = Q diag(g) Q' serves every T = V diag(t) V': with Z = Q'YV and C~ = Z / (g t' + alpha),
#
#     h = alpha (<Z, C~> + |Y|^2 outside Q / alpha),    M = V (C~' diag(g) C~) V'.


class Evaluation(NamedTuple):
    """h(T) and the moment M = C' G C of the coefficients: dh/dT = -alpha M."""

    value: float
    moment: Array


class CompleteProfile:
    """h(T) for complete outputs; the arguments are those of `SeparablePath`."""

    def __init__(self, pairs: Eigenpairs, Y: Array, u: Array | None = None) -> None:
        self.d = Y.shape[1]
        self._g = pairs.g
        if u is not None:
            # h minimises over intercepts, so it does not depend on the level of Y, which may be large: subtract it.
            Y = Y - np.outer(u, u @ Y / (u @ u))
        self._inner = pairs.Q.T @ Y
        self._inner_u = None if u is None else pairs.Q.T @ u
        outside = np.zeros_like(Y) if pairs.full else Y - pairs.Q @ self._inner
        # Products of the part outside the span of Q, where the gram is zero.
        self._outside = outside.T @ outside
        if u is not None and self._inner_u is not None:
            rest = np.zeros_like(u) if pairs.full else u - pairs.Q @ self._inner_u
            self._outside_u, self._outside_uY = float(rest @ rest), rest @ outside

    def evaluate(self, T: Array, alpha: float) -> Evaluation:
        t, V = np.linalg.eigh(T)
        filters = 1.0 / (np.multiply.outer(self._g, np.maximum(t, 0.0)) + alpha)
        Z = self._inner @ V
        C = Z * filters
        value = float(np.vdot(Z, C)) + float(np.trace(self._outside)) / alpha
        if self._inner_u is not None:
            # b = (u'A^-1 y) / (u'A^-1 u) for each rotated output; subtract A^-1 u b from C.
            solved = self._inner_u[:, None] * filters
            total = self._inner_u @ solved + self._outside_u / alpha
            b = (self._inner_u @ C + (self._outside_uY @ V) / alpha) / total
            value -= float(b**2 @ total)
            C = C - solved * b
        return Evaluation(alpha * value, V @ ((C.T * self._g) @ C) @ V.T)


class PairProfile:
    """h(T) for observed pairs and the scalar gram G (n, n); each evaluation factors the gram of the pairs."""

    def __init__(self, G: Array, pairs: ObservedPairs, *, intercept: bool = False) -> None:
        self.d = pairs.shape[1]
        self._G, self._pairs, self._y = G, pairs, pairs.scaled_values()
        self._E = pairs.columns() if intercept else None
        if self._E is not None:
            self._y = self._y - self._E @ np.linalg.lstsq(self._E, self._y)[0]
        self._matrix: Array = G[np.ix_(pairs.points, pairs.points)] * np.outer(pairs.roots, pairs.roots)

    def gram(self, T: Array) -> Array:
        """(N, N) gram of the pairs under k T, scaled."""
        return self._matrix * T[np.ix_(self._pairs.outputs, self._pairs.outputs)]

    def evaluate(self, T: Array, alpha: float) -> Evaluation:
        factor = cholesky_factor(lambda: self.gram(T), alpha)
        c = factor.solve(self._y)
        if self._E is not None:
            inside = factor.solve(self._E)
            c -= inside @ np.linalg.solve(self._E.T @ inside, self._E.T @ c)
        value = alpha * float(self._y @ c)
        at = self._pairs.points, self._pairs.outputs
        C = sparse.csr_array((self._pairs.roots * c, at), shape=self._pairs.shape)
        return Evaluation(value, np.asarray(C.T @ (self._G @ C)))


Profile = CompleteProfile | PairProfile

#: Proximal steps in a round, and the factor of the step size between rounds: curvature falls as T grows.
ROUND_STEPS, STEP_GROWTH = 20, 8.0
#: Relative decrease of the objective below which a round of proximal steps has converged.
MIN_DECREASE = 1e-9
#: Relative decrease of the objective at which block descent stops.
MIN_BLOCK_DECREASE = 1e-3
#: Smallest eigenvalue, relative to the largest, at the start of L-BFGS.
MIN_EIGENVALUE = 1e-3
#: Share of the mean eigenvalue added to each before block descent, which cannot leave the range of T.
EIGENVALUE_SHIFT = 1e-2


class Learned(NamedTuple):
    T: Array  # (d, d)
    objective: list[float]  # H after each round, never increasing
    #: The gradient mapping (with a rank: the gradient) is below the tolerance, or a round of proximal steps no longer
    #: lowers the objective.
    converged: bool


@dataclass(eq=False, repr=False)
class Weighted(Penalty, saved=False):
    penalty: Penalty
    alpha: float

    def value(self, C: Array) -> float:
        return self.alpha * self.penalty.value(C)

    def prox(self, C: Array, step: float) -> Array:
        return self.penalty.prox(C, self.alpha * step)


def learn_operator(
    profile: Profile, penalty: Penalty, alpha: float, start: Array, *, tol: float = 1e-4, max_iter: int = 1000
) -> Learned:
    """Minimise h(T) + alpha Omega(T) over positive semi-definite T (d, d).

    Stops at a gradient mapping of `tol` relative to the gradient of h, or after `max_iter` steps.
    """
    T, left = start, max_iter
    log: list[float] = []
    if isinstance(penalty, Spectral) and max_iter > 0:
        T, log = _block_descent(profile, penalty, alpha, start, max_iter)
        if penalty.low_rank:
            T, lower = _factor_descent(profile, penalty, alpha, T, log[-1], tol, max_iter - len(log))
            log += lower
        left -= len(log)
    found = profile.evaluate(T, alpha)
    scale = alpha * float(np.linalg.norm(found.moment))
    if not log:
        log.append(found.value + alpha * penalty.value(T))
    if scale == 0.0:
        # Without information in the data, the penalty determines T.
        zero = np.zeros_like(T)
        return Learned(zero, [*log, profile.evaluate(zero, alpha).value + alpha * penalty.value(zero)], True)

    def smooth(T: Array) -> tuple[float, Array]:
        value, moment = profile.evaluate(T, alpha)
        return value, -alpha * moment

    step, done = max(float(np.linalg.norm(T)), 1e-8) / scale, False
    while left > 0 and not done:
        T, info = proximal_gradient(
            smooth,
            Weighted(penalty, alpha),
            T,
            step=step,
            scale=scale,
            tol=tol,
            max_iter=min(ROUND_STEPS, left),
            warn=False,
        )
        log.append(info.objective)
        step, left = STEP_GROWTH * info.step, left - info.iterations
        # The tolerance is relative to the gradient of h at the minimum, which can be far smaller than at the start.
        scale = alpha * float(np.linalg.norm(profile.evaluate(T, alpha).moment))
        done = info.gradient_mapping <= tol * scale or log[-2] - log[-1] <= MIN_DECREASE * abs(log[-1])
    return Learned(0.5 * (T + T.T), log, bool(done))


def _block_descent(
    profile: Profile, penalty: Spectral, alpha: float, T: Array, max_iter: int
) -> tuple[Array, list[float]]:
    mean = float(np.trace(T)) / len(T)
    T = T + EIGENVALUE_SHIFT * (mean if mean > 0 else 1.0) * np.eye(len(T))
    value, moment = profile.evaluate(T, alpha)
    log = [value + alpha * penalty.value(T)]
    while len(log) < max_iter:
        # B'GB = T M T
        following = penalty.balance(T @ moment @ T)
        value, moment = profile.evaluate(following, alpha)
        total = value + alpha * penalty.value(following)
        if total > log[-1]:
            break
        T = following
        log.append(total)
        if log[-2] - log[-1] <= MIN_BLOCK_DECREASE * abs(log[-1]):
            break
    return T, log


def _factor_descent(
    profile: Profile, penalty: Spectral, alpha: float, T: Array, reached: float, tol: float, max_iter: int
) -> tuple[Array, list[float]]:
    """T from L-BFGS on a square factor, and the objectives below `reached`."""
    values, vectors = np.linalg.eigh(T)
    if max_iter <= 0 or values[-1] <= 0:
        return T, []
    # A zero column would stay zero.
    W = vectors * np.sqrt(np.maximum(values, MIN_EIGENVALUE * values[-1]))
    found = learn_low_rank(profile, penalty, alpha, W, tol=tol, max_iter=max_iter)
    log = [value for value in found.objective if value < reached]
    return (found.T, log) if log else (T, [])


def learn_low_rank(
    profile: Profile, penalty: Spectral, alpha: float, start: Array, *, tol: float = 1e-4, max_iter: int = 1000
) -> Learned:
    """Minimise h(W W') + alpha Omega(W W') over W, (d, rank), from `start`, (d, rank).

    Stops if the gradient is below `tol` alpha |moment| |W| at the current point; at the start these norms can be larger
    by orders of magnitude, so they would stop the search too early.
    """
    shape = start.shape
    at_start = profile.evaluate(start @ start.T, alpha)
    log = [at_start.value + alpha * penalty.value(start @ start.T)]
    empty = float(np.linalg.norm(at_start.moment)) == 0.0
    if empty or max_iter == 0:
        return Learned(start @ start.T, log, empty)
    if log[0] < float(np.finfo(float).tiny):
        raise ValueError(
            f"squares of the outputs underflow, the objective is {log[0]:.2g}: scale y, for example by its standard "
            "deviation"
        )

    def objective(w: Array) -> tuple[float, Array]:
        W = w.reshape(shape)
        T = W @ W.T
        value, moment = profile.evaluate(T, alpha)
        gradient = 2.0 * alpha * (penalty.gradient(T) - moment) @ W
        return (value + alpha * penalty.value(T)) / log[0], gradient.ravel() / log[0]

    def enough(w: Array) -> float:
        """The norm of the gradient at w below which the search has converged."""
        W = w.reshape(shape)
        moment = float(np.linalg.norm(profile.evaluate(W @ W.T, alpha).moment))
        return tol * alpha * moment * max(float(np.linalg.norm(W, 2)), 1e-300) / log[0]

    w, left, done = start.ravel(), max_iter, False
    while left > 0 and not done:
        found = minimize(
            objective,
            w,
            jac=True,
            method="L-BFGS-B",
            callback=lambda intermediate_result: log.append(float(intermediate_result.fun) * log[0]),
            options={"maxiter": left, "gtol": enough(w) / np.sqrt(start.size), "ftol": 0.0},
        )
        done = bool(np.linalg.norm(found.jac) <= enough(found.x))
        stuck = found.nit == 0 or np.array_equal(found.x, w)
        w, left = found.x, left - max(int(found.nit), 1)
        if stuck:
            break
    W = w.reshape(shape)
    return Learned(W @ W.T, log, done)
