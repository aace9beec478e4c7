"""What the kernel Azoury-Vovk-Warmuth forecaster may lose against any function, with explicit constants.

For outputs |y_t| <= B, features phi_t, A_t = alpha I + sum_{s<=t} phi_s phi_s', b_t = sum_{s<=t} phi_s y_s' and
H_t = phi_t' A_{t-1}^-1 phi_t, the least regularised loss of the rows up to t is sum |y_s|^2 - b_t' A_t^-1 b_t, and with
yhat_t = phi_t' A_t^-1 b_{t-1} one row costs

    |y_t - yhat_t|^2 - (its growth at t) = y_t' H_t (I + H_t)^-1 y_t - yhat_t' H_t yhat_t <= B^2 log det(I + H_t)

which sums to the exact forecaster's bound

    sum |y_t - yhat_t|^2 - sum |y_t - f(x_t)|^2 <= alpha |f|^2 + B^2 log det(I + K / alpha)          for every f.

*Projected on a growing dictionary, the past projected anew at each growth* (``past="exact"``). Let K~ be the kernel
matrix seen from the dictionary, 0 <= K - K~ <= gap I. The least regularised loss alpha y'(K~ + alpha I)^-1 y then is at
most |y|^2 gap / (alpha + gap) above that of the whole space. This is paid once at the end, and once more for each
growth, which lowers the loss of the past without a prediction having gained from it:

    + (1 + growths) sum |y_t|^2 gap / (alpha + gap)

A dictionary known beforehand pays it once. For a kernel k T, gap becomes t gap with t the largest eigenvalue of T.

*The past left as it was projected* (``past="projected"``). The forecaster is the exact one on the features P_t phi_t,
P_t the projection of row t's own time, so only the comparator suffers: with spill = sum_t |phi_t - P_t phi_t|^2 and
loss(f) the sum of squared errors of f,

    + 2 sqrt(loss(f) |f|^2 spill) + |f|^2 spill

*KORS* keeps row t with probability p_t = min(beta tau~_t, 1). Matrix Freedman, applied at each t <= n to the rows so
far (both sides, dimension t), shows that with beta = (2 + 2 eps / 3) / eps^2 log(n (n + 1) / delta) the weighted
dictionary is within eps of C + mu I, C = sum phi phi', at all times, but for a chance of delta. Then

    gap <= eps / (1 - eps) mu,     tau_t <= tau~_t <= (1 + eps) / (1 - eps) tau_t        (tau_t: online leverage)

and, since sum (kept_t) - (e - 1) sum p_t has an exponential moment of at most 1, but for another chance of delta

    size <= (e - 1) beta (1 + eps) / (1 - eps) sum_t tau_t + log(1 / delta).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ovk._params import check_int, in_interval, positive
from ovk.kernels import Linear
from ovk.online.second_order.capacity import log_determinant, online_dimension
from ovk.ovkernels import OperatorKernel, Separable


def regret_bound(kernel: Any, X: Any, alpha: float, *, norm: float, largest: float) -> float:
    """alpha |f|^2 + B^2 log det(I + K / alpha): the regret of `KAWV` against a function of that norm is at most this.

    Parameters
    ----------
    kernel : scalar or operator-valued kernel
    X : (n, p) inputs, all of them
    alpha : the forecaster's ridge
    norm : |f|, the comparator's norm in the kernel's space
    largest : B, a bound on |y_t|

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online import regret_bound
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> round(regret_bound(Gaussian(0.2), X, 1.0, norm=2.0, largest=1.0), 2)
    18.12
    """
    B, size = positive(largest, "largest", zero=True), positive(norm, "norm", zero=True)
    return float(positive(alpha, "alpha") * size**2 + B**2 * log_determinant(kernel, X, alpha))


def projected_regret_bound(
    kernel: Any, X: Any, alpha: float, *, norm: float, largest: float, gap: float, growths: int
) -> float:
    """The bound of `PKAWV` with ``past="exact"`` and Nystrom features, or with any features chosen beforehand.

    Parameters
    ----------
    kernel, X, alpha, norm, largest : as for `regret_bound`; the kernel scalar or k T
    gap : the largest eigenvalue of k(X, X) less its projection, at worst over time; for features known beforehand that
        of all rows
    growths : how often the dictionary grew; 0 for features known beforehand

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online import projected_regret_bound
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> k = Gaussian(0.2)
    >>> round(projected_regret_bound(k, X, 1.0, norm=2.0, largest=1.0, gap=1e-3, growths=9), 2)
    19.12
    """
    if isinstance(kernel, OperatorKernel) and not isinstance(kernel, Separable):
        raise ValueError(
            f"the bound of the projected forecaster is for a scalar kernel or k T, got {type(kernel).__name__}"
        )
    largest_eigenvalue = float(kernel.operator.eigh().values[-1]) if isinstance(kernel, Separable) else 1.0
    seen = largest_eigenvalue * positive(gap, "gap", zero=True)
    events = 1 + check_int(growths, "growths", least=0)
    extra = events * len(X) * largest**2 * seen / (alpha + seen)
    return regret_bound(kernel, X, alpha, norm=norm, largest=largest) + float(extra)


def spilled_regret_bound(
    features: Any, alpha: float, *, norm: float, largest: float, spill: float, loss: float
) -> float:
    """The bound of `PKAWV` with ``past="projected"``, or of any feature map, from what the features leave out.

    Parameters
    ----------
    features : (n, m) or (n d, m) features of each row at its own time; later ones may be longer: fill up with zeros
    alpha, norm, largest : as for `regret_bound`
    spill : sum over the rows of k(x, x) - |phi(x)|^2 (the largest eigenvalue of K(x, x) - Phi Phi' for several outputs)
    loss : the comparator's sum of squared errors

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import TaylorMap
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online import spilled_regret_bound
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> map = TaylorMap.from_kernel(Gaussian(0.2), 20, np.array([0.5]))
    >>> spill = map.residual(X).sum()
    >>> round(spilled_regret_bound(map.transform(X), 1.0, norm=2.0, largest=1.0, spill=spill, loss=5.0), 2)
    18.15
    """
    norm, spill, loss = (
        positive(value, name, zero=True) for value, name in ((norm, "norm"), (spill, "spill"), (loss, "loss"))
    )
    base = regret_bound(Linear(), _small(features), alpha, norm=norm, largest=largest)
    return base + 2.0 * norm * float(np.sqrt(loss * spill)) + norm**2 * spill


def _small(features: Any) -> Any:
    """Rows with the same log determinant, as few as may be: log det(I + F F' / alpha) = log det(I + F'F / alpha)."""
    F = np.asarray(features, dtype=np.float64)
    return np.linalg.qr(F, mode="r") if F.shape[0] > F.shape[1] else F


def kors_beta(n: int, *, delta: float = 0.05, eps: float = 0.5) -> float:
    """The oversampling beta with which KORS keeps its promise at all of n rows, but for a chance of delta.

    It is what the proof needs; in practice 1 to 5 does.

    Examples
    --------
    >>> from ovk.online import kors_beta
    >>> round(kors_beta(1000), 1)
    156.9
    """
    n, delta, eps = check_int(n, "n"), in_interval(delta, "delta", 1e-300, 1.0), in_interval(eps, "eps", 1e-6, 1 - 1e-6)
    return float((2.0 + 2.0 * eps / 3.0) / eps**2 * np.log(n * (n + 1.0) / delta))


def kors_gap(mu: float, eps: float = 0.5) -> float:
    """The largest eigenvalue of K - K~ that KORS leaves, when it keeps its promise: eps / (1 - eps) mu.

    Examples
    --------
    >>> from ovk.online import kors_gap
    >>> kors_gap(0.01, eps=0.5)
    0.01
    """
    eps = in_interval(eps, "eps", 0.0, 1 - 1e-6)
    return eps / (1.0 - eps) * positive(mu, "mu")


def kors_size_bound(
    kernel: Any, X: Any, mu: float, *, beta: float | None = None, delta: float = 0.05, eps: float = 0.5
) -> float:
    """How many of these rows, in this order, KORS keeps at most, but for a chance of 2 delta.

    Parameters
    ----------
    kernel : scalar kernel
    X : (n, p) inputs in the order of the stream
    mu, beta, eps : of KORS; default beta the one of the proof, `kors_beta`
    delta : chance

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online import kors_size_bound
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> round(kors_size_bound(Gaussian(0.2), X, 1.0, beta=1.0))
    90
    """
    if beta is None:
        beta = kors_beta(len(X), delta=delta, eps=eps)
    delta, eps = in_interval(delta, "delta", 1e-300, 1.0), in_interval(eps, "eps", 1e-6, 1 - 1e-6)
    kept = (math.e - 1.0) * positive(beta, "beta") * (1.0 + eps) / (1.0 - eps) * online_dimension(kernel, X, mu)
    return float(min(len(X), kept + np.log(1.0 / delta)))
