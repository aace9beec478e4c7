"""Theory of online learning: capacity of a kernel, bounds on regret and error, and parameters derived from them.

Capacity
--------
With K the (n d, n d) matrix of an operator-valued kernel on n inputs (d = 1 for a scalar one) and lambda_k its
eigenvalues,

    effective dimension   d_eff(alpha) = Tr K (K + alpha I)^-1 = sum_k lambda_k / (lambda_k + alpha)
    log determinant       log det(I + K / alpha) = sum_k log(1 + lambda_k / alpha)

The first is the effective number of parameters of ridge regression, the second appears in the regret of learning them
online; it lies between d_eff(alpha) and d_eff(alpha) (1 + log(1 + lambda_1 / alpha)).

Regret
------
For outputs |y_t| <= B, features phi_t, A_t = alpha I + sum_{s<=t} phi_s phi_s', b_t = sum_{s<=t} phi_s y_s' and
H_t = phi_t' A_{t-1}^-1 phi_t, the least regularised loss of the rows up to t is sum |y_s|^2 - b_t' A_t^-1 b_t, and with
yhat_t = phi_t' A_t^-1 b_{t-1} one row costs

    |y_t - yhat_t|^2 - (its growth at t) = y_t' H_t (I + H_t)^-1 y_t - yhat_t' H_t yhat_t <= B^2 log det(I + H_t)

which sums to the exact forecaster's bound

    sum |y_t - yhat_t|^2 - sum |y_t - f(x_t)|^2 <= alpha |f|^2 + B^2 log det(I + K / alpha)          for every f.

*Growing dictionary, all past rows projected again at each growth* (``past="exact"``). Let K~ be the projected kernel
matrix, 0 <= K - K~ <= gap I. The least regularised loss alpha y'(K~ + alpha I)^-1 y is then at most
|y|^2 gap / (alpha + gap) above that of the whole space. The bound contains this term once for the end, and once for
each growth, which lowers the loss of the past without improving past predictions:

    + (1 + growths) sum |y_t|^2 gap / (alpha + gap)

For a dictionary known beforehand it is added once. For a kernel k T, gap becomes t gap with t the largest eigenvalue of
T.

*Growing dictionary, past rows projected once* (``past="projected"``). The forecaster is the exact one on the features
P_t phi_t, where P_t is the projection at time t, so only the comparator changes: with
spill = sum_t |phi_t - P_t phi_t|^2 and loss(f) the sum of squared errors of f,

    + 2 sqrt(loss(f) |f|^2 spill) + |f|^2 spill

*KORS* keeps row t with probability p_t = min(beta tau~_t, 1). Matrix Freedman, applied at each t <= n to the rows so
far (both sides, dimension t), shows that with beta = (2 + 2 eps / 3) / eps^2 log(n (n + 1) / delta) the weighted
dictionary is within eps of C + mu I, C = sum phi phi', at all times, with probability 1 - delta. Then

    gap <= eps / (1 - eps) mu,     tau_t <= tau~_t <= (1 + eps) / (1 - eps) tau_t        (tau_t: online leverage)

and, since sum (kept_t) - (e - 1) sum p_t has an exponential moment of at most 1, with probability 1 - 2 delta

    size <= (e - 1) beta (1 + eps) / (1 - eps) sum_t tau_t + log(1 / delta).

Parameters of the projected forecaster
--------------------------------------
Up to constants and logarithms its regret against f is at most

    alpha |f|^2 + d_eff(alpha) + growths n mu / alpha,     with a dictionary of m = d_eff(mu) points

where growths is m, or 1 for a dictionary known beforehand.

*Kernels with d_eff(alpha) <= (n / alpha)^gamma.* mu = n m^(-1/gamma) makes the dictionary about m points. The first two
terms balance at alpha = n^(gamma / (1 + gamma)), which no algorithm improves; the third is no larger than that if

    m >= n^(2 gamma / (1 - gamma^2)),     known beforehand:  m >= n^(2 gamma / (1 + gamma))

and otherwise it balances the first at alpha = n m^(1/2 - 1/(2 gamma)), beforehand n m^(-1/(2 gamma)): in both cases the
regret is of the order of alpha. A growing dictionary smaller than n reaches the best rate for gamma < sqrt(2) - 1 only
(where 2 gamma / (1 - gamma^2) = 1), one known beforehand for every gamma < 1.

*Kernels of analytic functions*, such as the Gaussian one: d_eff(alpha) is of the order (log(n / alpha))^p; alpha = 1
and mu = n^-2 give a regret of (log n)^(p + 1) with (log n)^p points. For many inputs these exceed n, and the bound says
less than |y| <= 1 does. A bounded kernel has d_eff(alpha) <= n / alpha, so that with all rows in the dictionary
alpha = sqrt(n) gives a regret of sqrt(n).

Cumulative error
----------------
Theorem 1 of the OLOK paper. For eta_t = eta / sqrt(t), eta alpha < 1, |K(x, x)| <= kappa^2 and a convex C-Lipschitz
loss,

    1/t sum_i R_inst(f_i) <= inf_g R_reg(g) + a / sqrt(t) + b / t,
    a = 2 alpha U^2 (c eta alpha + 1 / (eta alpha)),   b = U^2 / (2 eta),   U = C kappa / alpha,

with c = 2, or c = 10 for the truncated learner with the paper's window. The squared loss is not Lipschitz; with bounded
outputs, |y| <= C_y, and alpha > 2 kappa^2 (assumption 3) the bound holds with U = max(C_y / kappa, 2 C_y / alpha).

The proof uses |f_t| <= U at every step. A step maps the ball of any radius V >= U into itself, so a learner that starts
from f_0 instead of zero stays within V = max(U, |f_0|), with gradients of the regularised risk within 2 alpha V, and
the bound holds with V in place of U. With the paper's window it does not, as the steps do not bound the truncated part
of f_0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, comb, e, exp, factorial, log
from typing import Any

import numpy as np
from scipy.special import gammainc

from ovk.base import Array, check_int, in_interval, positive
from ovk.features import ROUNDING_TOL
from ovk.kernels import (
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Product,
    RationalQuadratic,
    ScalarKernel,
    Scaled,
    Sum,
    as_kernel,
)
from ovk.objectives import InverseSqrt, Squared, ThresholdLoss, as_loss, as_schedule
from ovk.online.first_order.olok import OLOK
from ovk.online.first_order.truncation import PaperWindow
from ovk.ovkernels import CurlFree, DivFree, OperatorKernel, Separable
from ovk.solvers import SingularSystemError


def effective_dimension(kernel: Any, X: Any, alpha: Any) -> Any:
    """Tr K (K + alpha I)^-1 of a scalar or operator-valued kernel at (n, p) inputs, for one alpha or an array of them.

    A kernel k T takes no longer than k. Use `sketched_effective_dimension` for many rows.

    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online.theory import effective_dimension
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> effective_dimension(Gaussian(0.2), X, [0.01, 1.0, 100.0]).round(2)
    array([8.29, 5.08, 0.77])
    """
    return _sum_over_eigenvalues(alpha, _kernel_eigenvalues(kernel, X), _saturation)


def log_determinant(kernel: Any, X: Any, alpha: Any) -> Any:
    """log det(I + K / alpha); arguments and result as for `effective_dimension`.

    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online.theory import log_determinant
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> round(log_determinant(Gaussian(0.2), X, 1.0), 2)
    14.12
    """
    return _sum_over_eigenvalues(alpha, _kernel_eigenvalues(kernel, X), np.log1p)


def online_dimension(kernel: Any, X: Any, mu: float) -> float:
    """Sum of the ridge leverages of the rows, each among the rows up to it, for a scalar kernel.

    It depends on the order of the rows and lies between d_eff(mu) and log det(I + K / mu). With C C' = K + mu I,
    row t has the leverage 1 - mu / C_tt^2.

    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online.theory import online_dimension
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> round(online_dimension(Gaussian(0.2), X, 1.0), 2)
    13.01
    """
    mu = positive(mu, "mu")
    K = as_kernel(kernel).resolve(X)(X)
    K[np.diag_indices_from(K)] += mu
    try:
        C = np.linalg.cholesky(K)
    except np.linalg.LinAlgError as error:
        raise SingularSystemError(f"K + mu I is numerically singular at mu={mu:g}: increase mu") from error
    return float(np.sum(1.0 - mu / np.diagonal(C) ** 2))


def sketched_effective_dimension(kernel: Any, X: Any, alpha: Any, rank: int = 500) -> tuple[Any, Any]:
    """Lower and upper bound on the effective dimension, from at most `rank` columns of K (of k for a kernel k T).

    Pivoted Cholesky gives F F' <= K in time n rank^2, and Tr (K - F F') is known. Since t -> t / (t + alpha) is
    operator monotone and its trace subadditive,

        d_eff(F F') <= d_eff(K) <= d_eff(F F') + Tr(K - F F') / alpha.

    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online.theory import sketched_effective_dimension
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> np.round(sketched_effective_dimension(Gaussian(0.2), X, 1.0, rank=8), 2)
    array([5.07, 5.1 ])
    """
    rank = check_int(rank, "rank")
    K = _resolved(kernel, X)
    if isinstance(K, Separable):
        scalar, outputs = K.scalar, K.operator.eigh().values
    else:
        scalar, outputs = K, np.ones(1)
    if isinstance(scalar, OperatorKernel):
        F, left = _pivoted_cholesky(*_pair_columns(scalar, X), rank)
    else:
        F, left = _pivoted_cholesky(np.array(scalar.diag(X)), lambda i: scalar(X, X[[i]])[:, 0], rank)
    values = np.multiply.outer(np.maximum(np.linalg.eigvalsh(F.T @ F), 0.0), outputs).reshape(-1)
    lower = _sum_over_eigenvalues(alpha, values, _saturation)
    beyond = left * float(outputs.sum()) / np.asarray(alpha, dtype=np.float64)
    return lower, lower + (float(beyond) if beyond.ndim == 0 else beyond)


def _kernel_eigenvalues(kernel: Any, X: Any) -> Array:
    """(n d,) eigenvalues of the kernel matrix, ascending; those below zero by rounding become zero."""
    K = _resolved(kernel, X)
    parts = None if isinstance(K, ScalarKernel) else K.gram(X).rotation()
    if parts is None:
        found: list[Any] = [np.linalg.eigvalsh(K(X) if isinstance(K, ScalarKernel) else K.gram(X).dense())]
    elif len(parts.grams) == 1:
        base = np.linalg.eigvalsh(parts.grams[0])
        found = [weight * base for weight in parts.weights[:, 0]]
    else:
        found = [np.linalg.eigvalsh(parts.matrix(q)) for q in range(len(parts))]
    copies = [1] if parts is None else [group.stop - group.start for group in parts.groups]
    values: Array = np.sort(np.concatenate([np.tile(v, k) for v, k in zip(found, copies, strict=True)]))
    if len(values) and values[0] < -1e-7 * max(float(values[-1]), 1e-300):
        raise SingularSystemError(
            f"the kernel matrix must be positive semi-definite, but it has the eigenvalue {values[0]:.6g} "
            f"(the largest is {values[-1]:.6g}): check the kernel"
        )
    return np.maximum(values, 0.0)


def _resolved(kernel: Any, X: Any) -> ScalarKernel | OperatorKernel:
    if isinstance(kernel, OperatorKernel):
        return kernel if kernel.output_dim is None else kernel.resolve(X, kernel.output_dim)
    return as_kernel(kernel).resolve(X)


def _saturation(ratio: Array) -> Array:
    return ratio / (1.0 + ratio)


def _sum_over_eigenvalues(alpha: Any, values: Array, f: Any) -> Any:
    """sum_k f(lambda_k / alpha) for each alpha."""
    alphas = np.asarray(alpha, dtype=np.float64)
    if not (np.isfinite(alphas).all() and (alphas > 0).all()):
        raise ValueError(f"alpha must be positive, got {alpha!r}")
    sums = np.array([np.sum(f(values / a)) for a in alphas.reshape(-1)]).reshape(alphas.shape)
    return float(sums) if alphas.ndim == 0 else sums


def _pair_columns(K: OperatorKernel, X: Any) -> tuple[Array, Callable[[int], Array]]:
    """Diagonal and columns of the matrix of pairs (input, output), numbered i d + q."""
    diagonal = np.einsum("iqq->iq", K.diagonal_blocks(X))
    n, d = diagonal.shape
    points, outputs = X[np.repeat(np.arange(n), d)], np.tile(np.arange(d), n)
    return diagonal.reshape(-1).copy(), lambda i: K.pairs(points, outputs, points[[i]], outputs[[i]])[:, 0]


def _pivoted_cholesky(left: Array, column: Callable[[int], Array], rank: int) -> tuple[Array, float]:
    """F (N, r) with F F' <= K, and the trace of the remainder, by greedy pivots; `left` is the diagonal of K."""
    total = float(left.sum())
    F = np.zeros((len(left), min(rank, len(left))), order="F")
    used = 0
    for k in range(F.shape[1]):
        pivot = int(left.argmax())
        if left[pivot] <= 1e-14 * total:
            break
        F[:, k] = (column(pivot) - F[:, :k] @ F[pivot, :k]) / np.sqrt(left[pivot])
        left -= F[:, k] ** 2
        left[pivot] = 0.0
        np.maximum(left, 0.0, out=left)
        used = k + 1
    return F[:, :used], float(left.sum())


def regret_bound(kernel: Any, X: Any, alpha: float, *, norm: float, largest: float) -> float:
    """Bound on the regret of `KAWV` against a function f: alpha |f|^2 + B^2 log det(I + K / alpha).

    X (n, p) are all inputs, `norm` is |f| in the kernel's space and `largest` is B >= |y_t|.

    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online.theory import regret_bound
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> round(regret_bound(Gaussian(0.2), X, 1.0, norm=2.0, largest=1.0), 2)
    18.12
    """
    B, size = positive(largest, "largest", zero=True), positive(norm, "norm", zero=True)
    return float(positive(alpha, "alpha") * size**2 + B**2 * log_determinant(kernel, X, alpha))


def projected_regret_bound(
    kernel: Any, X: Any, alpha: float, *, norm: float, largest: float, gap: float, growths: int
) -> float:
    """Bound on the regret of `PKAWV` with ``past="exact"``, or with features chosen beforehand: that of `regret_bound`
    plus (1 + growths) n B^2 gap / (alpha + gap).

    `gap` is the largest eigenvalue over time of k(X, X) minus its projection, for a kernel k or k T; `growths` is the
    number of times the dictionary grew, 0 for features known beforehand.

    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online.theory import projected_regret_bound
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> k = Gaussian(0.2)
    >>> round(projected_regret_bound(k, X, 1.0, norm=2.0, largest=1.0, gap=1e-3, growths=9), 2)
    19.12
    """
    if isinstance(kernel, OperatorKernel) and not isinstance(kernel, Separable):
        allowed = "a scalar kernel or a product k * T"
        raise ValueError(f"kernel must be {allowed} for this bound, got {type(kernel).__name__}")
    largest_eigenvalue = float(kernel.operator.eigh().values[-1]) if isinstance(kernel, Separable) else 1.0
    seen = largest_eigenvalue * positive(gap, "gap", zero=True)
    events = 1 + check_int(growths, "growths", least=0)
    extra = events * len(X) * largest**2 * seen / (alpha + seen)
    return regret_bound(kernel, X, alpha, norm=norm, largest=largest) + float(extra)


def spilled_regret_bound(
    features: Any, alpha: float, *, norm: float, largest: float, spill: float, loss: float
) -> float:
    """Bound on the regret of `PKAWV` with ``past="projected"``, or with any feature map: that of `regret_bound` plus
    2 |f| sqrt(loss spill) + |f|^2 spill.

    `features` (n, m) or (n d, m) are those of each row when it was predicted, padded with zeros; `spill` is the sum of
    k(x, x) - |phi(x)|^2 (with several outputs the largest eigenvalue of K(x, x) - Phi Phi'), and `loss` the sum of
    squared errors of f.

    >>> import numpy as np
    >>> from ovk.features import TaylorMap
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online.theory import spilled_regret_bound
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> map = TaylorMap.from_kernel(Gaussian(0.2), 20, np.array([0.5]))
    >>> spill = map.residual(X).sum()
    >>> round(spilled_regret_bound(map.transform(X), 1.0, norm=2.0, largest=1.0, spill=spill, loss=5.0), 2)
    18.15
    """
    named = {"norm": norm, "spill": spill, "loss": loss}
    norm, spill, loss = (positive(value, name, zero=True) for name, value in named.items())
    F: Any = np.asarray(features, dtype=np.float64)
    # log det(I + F F' / alpha) = log det(I + F'F / alpha): use the smaller matrix.
    F = np.linalg.qr(F, mode="r") if F.shape[0] > F.shape[1] else F
    base = regret_bound(Linear(), F, alpha, norm=norm, largest=largest)
    return base + 2.0 * norm * float(np.sqrt(loss * spill)) + norm**2 * spill


def kors_beta(n: int, *, delta: float = 0.05, eps: float = 0.5) -> float:
    """The oversampling beta for which the guarantee of KORS holds at all of n rows with probability 1 - delta.

    The proof requires this value; in practice 1 to 5 is enough.

    >>> from ovk.online.theory import kors_beta
    >>> round(kors_beta(1000), 1)
    156.9
    """
    n, delta, eps = check_int(n, "n"), in_interval(delta, "delta", 1e-300, 1.0), in_interval(eps, "eps", 1e-6, 1 - 1e-6)
    return float((2.0 + 2.0 * eps / 3.0) / eps**2 * np.log(n * (n + 1.0) / delta))


def kors_gap(mu: float, eps: float = 0.5) -> float:
    """Bound eps / (1 - eps) mu on the largest eigenvalue of K - K~ if the guarantee of KORS holds.

    >>> from ovk.online.theory import kors_gap
    >>> kors_gap(0.01, eps=0.5)
    0.01
    """
    eps = in_interval(eps, "eps", 0.0, 1 - 1e-6)
    return eps / (1.0 - eps) * positive(mu, "mu")


def kors_size_bound(
    kernel: Any, X: Any, mu: float, *, beta: float | None = None, delta: float = 0.05, eps: float = 0.5
) -> float:
    """Bound on the number of rows that KORS keeps, in the given order, with probability 1 - 2 delta.

    The kernel is scalar; the default of `beta` is `kors_beta`.

    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online.theory import kors_size_bound
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> round(kors_size_bound(Gaussian(0.2), X, 1.0, beta=1.0))
    90
    """
    if beta is None:
        beta = kors_beta(len(X), delta=delta, eps=eps)
    delta, eps = in_interval(delta, "delta", 1e-300, 1.0), in_interval(eps, "eps", 1e-6, 1 - 1e-6)
    kept = (e - 1.0) * positive(beta, "beta") * (1.0 + eps) / (1.0 - eps) * online_dimension(kernel, X, mu)
    return float(min(len(X), kept + np.log(1.0 / delta)))


@dataclass(frozen=True)
class Suggestion:
    """Parameters for a stream whose outputs and comparator are of order one: the ridge alpha and mu of KORS. The size m
    of the dictionary and the regret are orders, up to constants and logarithms; `optimal` is True if no algorithm has a
    smaller regret.

    >>> from ovk.online.theory import suggest_from_capacity
    >>> suggest_from_capacity(10_000, gamma=0.25).alpha
    6.309...
    """

    alpha: float
    mu: float
    m: int
    regret: float
    optimal: bool


def suggest(kernel: Any, n: int, p: int, *, m: int | None = None, known_beforehand: bool = False) -> Suggestion:
    """Parameters of the projected forecaster for n rows of p inputs, from the kernel's capacity.

    `m` is the size of the dictionary, by default that of the best rate, at most n. `known_beforehand`: the dictionary
    is chosen from all inputs before the first output. mu is at least 1e-12, because rounding hides smaller distances of
    a point to the dictionary; ``Nystrom(past="projected")`` resolves 1e-6 only.

    >>> from ovk.kernels import Gaussian, Matern
    >>> from ovk.online.theory import suggest
    >>> suggest(Gaussian(1.0), n=1000, p=1)
    Suggestion(alpha=1.0, mu=1e-06, m=21, regret=47.7..., optimal=True)
    >>> suggest(Matern(1.5), n=10_000, p=1, m=50).optimal
    False
    """
    gamma = capacity_exponent(kernel, p)
    if gamma == 0.0:
        return _suggest_analytic(n, p, m, known_beforehand)
    return suggest_from_capacity(n, gamma, m=m, known_beforehand=known_beforehand)


def suggest_from_capacity(n: int, gamma: float, *, m: int | None = None, known_beforehand: bool = False) -> Suggestion:
    """Parameters for a kernel with d_eff(alpha) <= (n / alpha)^gamma, 0 < gamma < 1.

    >>> from ovk.online.theory import suggest_from_capacity
    >>> found = suggest_from_capacity(10_000, gamma=0.25, m=20)
    >>> round(found.mu, 4), round(found.regret, 1), found.optimal
    (0.0625, 111.8, False)
    """
    n, gamma = check_int(n, "n"), in_interval(gamma, "gamma", 1e-3, 1 - 1e-9)
    needed = 2 * gamma / (1 + gamma if known_beforehand else 1 - gamma**2)
    if m is None:
        m = ceil(n ** min(needed, 1.0) - 1e-9)
    m = min(check_int(m, "m"), n)
    best = n ** (gamma / (1 + gamma))
    tight = n * m ** ((0.0 if known_beforehand else 0.5) - 1 / (2 * gamma))
    optimal = m >= n**needed - 1e-9
    rate = best if optimal else tight
    # At m = 1, alpha = n, and the regret is that of predicting zero.
    return Suggestion(alpha=rate, mu=n * exp(-log(m) / gamma), m=m, regret=rate, optimal=optimal)


def _suggest_analytic(n: int, p: int, m: int | None, known_beforehand: bool) -> Suggestion:
    """alpha = 1 and mu = n^-2, for the Gaussian kernel and other kernels of analytic functions.

    d_eff(mu) is the number of monomials of degree at most log(n / mu), log(n / mu)^p / p!, up to a constant.
    """
    n, p = check_int(n, "n"), check_int(p, "p")
    points, mu = max(1, round((3 * log(n)) ** p / factorial(p))), max(float(n) ** -2, ROUNDING_TOL)
    rate = max(1.0, log(n)) ** (p + 1)
    informative = points < n and rate < n
    size = min(n, check_int(m, "m")) if m is not None else points if informative else n
    if informative and (m is None or size >= points):
        return Suggestion(alpha=1.0, mu=mu, m=size, regret=rate, optimal=True)
    if size == n:
        # All rows: only d_eff(alpha) <= n / alpha is known.
        return Suggestion(alpha=n**0.5, mu=mu, m=n, regret=n**0.5, optimal=False)
    # The scale at which d_eff is the size.
    projection = (1 if known_beforehand else size) * n**2 * exp(-((factorial(p) * size) ** (1 / p)))
    return Suggestion(alpha=1.0, mu=mu, m=size, regret=min(float(n), max(rate, projection)), optimal=False)


def taylor_degree(n: int, p: int, radius: float, mu: float | None = None) -> int:
    """The smallest degree of Taylor features with K - K~ <= mu I (default n^-2) for n rows of p inputs, where `radius`
    is the largest |x - centre| / l.

    Each diagonal entry of K - K~ is at most the probability that a Poisson variable of mean radius^2 exceeds the
    degree.

    >>> from ovk.online.theory import taylor_degree
    >>> taylor_degree(1000, p=2, radius=1.0)
    11
    """
    n, p, radius = check_int(n, "n"), check_int(p, "p"), positive(radius, "radius")
    mu = float(n) ** -2 if mu is None else positive(mu, "mu")
    degree = 0
    while n * gammainc(degree + 1.0, radius**2) > mu:
        degree += 1
        if comb(p + degree, degree) > 10**7:
            raise ValueError(
                f"radius={radius:g} requires a Taylor degree above {degree} in {p} inputs, which gives too many "
                "features: use Nystrom features"
            )
    return degree


def capacity_exponent(kernel: Any, p: int) -> float:
    """The exponent gamma of d_eff(alpha) ~ (n / alpha)^gamma, up to logarithms; 0 for analytic and finite kernels.

    A Matern kernel's space is the Sobolev space of smoothness s = nu + p / 2, with gamma = p / (2 s).

    >>> from ovk.kernels import Gaussian, Matern
    >>> from ovk.online.theory import capacity_exponent
    >>> capacity_exponent(Matern(1.5), p=1), capacity_exponent(Gaussian(), p=8)
    (0.25, 0.0)
    """
    p = check_int(p, "p")
    if isinstance(kernel, OperatorKernel):
        return _operator_exponent(kernel, p)
    return _scalar_exponent(as_kernel(kernel), p)


def _scalar_exponent(kernel: Any, p: int) -> float:
    if isinstance(kernel, Matern):
        return p / (2 * positive(kernel.nu, "nu") + p)
    if isinstance(kernel, Laplacian):
        # A product of Matern kernels of one input each: gamma of one, times powers of log.
        return 0.5
    if isinstance(kernel, Gaussian | RationalQuadratic | Linear | Polynomial):
        return 0.0
    if isinstance(kernel, Sum | Scaled):
        # The roughest kernel dominates the sum of eigenvalues.
        return max(_scalar_exponent(part, p) for _, part in kernel.summands())
    if isinstance(kernel, Product):
        # Spectral densities convolve.
        return max(_scalar_exponent(kernel.left, p), _scalar_exponent(kernel.right, p))
    raise _unknown_capacity(kernel)


def _operator_exponent(K: OperatorKernel, p: int) -> float:
    terms = K.terms()
    if terms is not None:
        return max(_scalar_exponent(term.kernel, p) for term in terms)
    parts = [part for _, part in K.summands()]
    if len(parts) > 1:
        return max(_operator_exponent(part, p) for part in parts)
    (K,) = parts
    if isinstance(K, CurlFree | DivFree):
        # Two derivatives of the kernel: one order of smoothness less.
        if isinstance(K.kernel, Matern):
            return p / (2 * (positive(K.kernel.nu, "nu") - 1) + p)
        return _scalar_exponent(K.kernel, p)
    raise _unknown_capacity(K)


def _unknown_capacity(kernel: Any) -> ValueError:
    return ValueError(
        f"the capacity of {type(kernel).__name__} is not known: compute effective_dimension(kernel, X, alpha) for some "
        "alpha, and pass its exponent to suggest_from_capacity(n, gamma)"
    )


@dataclass(frozen=True)
class ErrorBound:
    """Theorem 1 after t steps: `excess` is a / sqrt(t) + b / t, and U the bound on |f_t|; both are None if the theorem
    does not apply, and `failed` then states the violated assumption.
    """

    excess: float | None
    U: float | None
    failed: str = ""


def error_bound(model: OLOK, largest_output: float | None = None) -> ErrorBound:
    """The bound of theorem 1 for a learner that has started; the squared loss requires `largest_output`, C_y.

    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online.theory import error_bound
    >>> model = OLOK(Gaussian(1.0), alpha=0.5, loss="hinge", schedule=1.0).fit(np.eye(2), [1.0, -1.0])
    >>> error_bound(model).U
    2.0
    """

    schedule, loss, alpha = as_schedule(model.schedule), as_loss(model.loss), float(model.alpha)
    kappa2 = model.kernel_.norm_bound()
    if model.fit_intercept:
        return ErrorBound(None, None, "the theorem does not cover fit_intercept")
    if isinstance(loss, ThresholdLoss):
        return ErrorBound(None, None, f"the theorem does not cover the learned threshold of {type(loss).__name__}")
    if alpha == 0:
        return ErrorBound(None, None, "the theorem requires a penalty, but alpha is 0")
    if kappa2 is None:
        return ErrorBound(None, None, "assumption 1: the kernel has no known bound on |K(x, x)|")
    kappa = float(np.sqrt(kappa2))
    if isinstance(loss, Squared):
        if largest_output is None:
            missing = "the squared loss requires a bound on the outputs (largest_output)"
            return ErrorBound(None, None, f"assumption 3: {missing}")
        if alpha <= 2 * kappa2:
            required = f"alpha must be above 2 kappa^2 = {2 * kappa2:g} for the squared loss"
            return ErrorBound(None, None, f"assumption 3: {required}, got {alpha:g}")
        U = max(largest_output / kappa, 2 * largest_output / alpha)
    else:
        steepest = loss.lipschitz(model.support_.A.shape[2])
        if steepest is None:
            return ErrorBound(None, None, f"assumption 2: {type(loss).__name__} is not Lipschitz")
        U = steepest * kappa / alpha
    U = max(U, float(model.initial_norm_))
    if not isinstance(schedule, InverseSqrt) or schedule.start != 1 or model.average or model.discount != 1:
        return ErrorBound(None, U, "the theorem requires eta_t = eta / sqrt(t) from t = 1, without average or discount")
    truncation = model._truncation()
    if truncation is not None and not isinstance(truncation, PaperWindow):
        return ErrorBound(None, U, "the theorem requires no truncation, or the paper's window (PaperWindow)")
    if truncation is not None and model.initial_norm_ > 0:
        return ErrorBound(None, U, "the theorem for the paper's window does not cover init")
    eta, c = float(schedule.eta), 2.0 if truncation is None else 10.0
    if schedule.scaled:
        eta /= max(kappa2, 1.0)
    a = 2 * alpha * U**2 * (c * eta * alpha + 1 / (eta * alpha))
    t = max(model.t_, 1)
    return ErrorBound(float(a / np.sqrt(t) + U**2 / (2 * eta) / t), U)
