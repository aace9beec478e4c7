"""Parameters from theory: ridge, dictionary and regret of the projected forecaster, from n and the kernel.

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
and mu = n^-2 give a regret of (log n)^(p + 1) with (log n)^p points.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, comb, exp, factorial, log
from typing import Any

from scipy.special import gammainc

from ovk._params import check_int, in_interval, positive
from ovk.kernels import (
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Product,
    RationalQuadratic,
    Scaled,
    Sum,
    as_kernel,
)
from ovk.ovkernels import CurlFree, DivFree, OperatorKernel


@dataclass(frozen=True)
class Suggestion:
    """Parameters for a stream of n rows, in units in which outputs and comparator are of order one.

    Attributes
    ----------
    alpha : ridge of the forecaster
    mu : regularisation of KORS
    m : size of the dictionary that goes with them, up to constants and logarithms
    regret : the order of the regret, up to constants and logarithms
    optimal : whether no algorithm has a smaller order

    Examples
    --------
    >>> from ovk.online import suggest_from_capacity
    >>> suggest_from_capacity(10_000, gamma=0.25).alpha
    6.309...
    """

    alpha: float
    mu: float
    m: int
    regret: float
    optimal: bool


def suggest(kernel: Any, n: int, p: int, *, m: int | None = None, known_beforehand: bool = False) -> Suggestion:
    """Parameters of the projected forecaster for n rows of p inputs, from what is known of the kernel's capacity.

    Parameters
    ----------
    kernel : scalar or operator-valued kernel
    n, p : rows and inputs
    m : points that the dictionary may have; default as many as the best rate needs, but at most n
    known_beforehand : whether the dictionary is chosen from all inputs before the first output

    Examples
    --------
    >>> from ovk.kernels import Gaussian, Matern
    >>> from ovk.online import suggest
    >>> suggest(Gaussian(1.0), n=1000, p=1)
    Suggestion(alpha=1.0, mu=1e-06, m=21, regret=47.7..., optimal=True)
    >>> suggest(Matern(1.5), n=10_000, p=1, m=50).optimal
    False
    """
    gamma = capacity_exponent(kernel, p)
    if gamma == 0.0:
        return suggest_analytic(n, p, m=m)
    return suggest_from_capacity(n, gamma, m=m, known_beforehand=known_beforehand)


def suggest_from_capacity(n: int, gamma: float, *, m: int | None = None, known_beforehand: bool = False) -> Suggestion:
    """Parameters for a kernel with d_eff(alpha) <= (n / alpha)^gamma, 0 < gamma < 1.

    Examples
    --------
    >>> from ovk.online import suggest_from_capacity
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
    # At m = 1 the dictionary teaches nothing: alpha = n, and the regret is that of predicting zero.
    return Suggestion(alpha=rate, mu=n * exp(-log(m) / gamma), m=m, regret=rate, optimal=optimal)


def suggest_analytic(n: int, p: int, *, m: int | None = None) -> Suggestion:
    """alpha = 1 and mu = n^-2, for the Gaussian kernel and others of analytic functions.

    The number of points is that of the monomials of degree at most log(n / mu), its order up to a constant.

    Examples
    --------
    >>> from ovk.online import suggest_analytic
    >>> suggest_analytic(100, p=2).mu
    0.0001
    """
    n, p = check_int(n, "n"), check_int(p, "p")
    # Monomials of degree r in p variables: r^p / p! of them.
    points = max(1, round((3 * log(n)) ** p / factorial(p)))
    points = min(n, points) if m is None else min(n, check_int(m, "m"))
    return Suggestion(alpha=1.0, mu=float(n) ** -2, m=points, regret=max(1.0, log(n)) ** (p + 1), optimal=m is None)


def taylor_degree(n: int, p: int, radius: float, mu: float | None = None) -> int:
    """The least degree of Taylor features with K - K~ <= mu I for n rows within a radius, in units of the length scale.

    Each diagonal entry of K - K~ is at most the chance that a Poisson variable of mean radius^2 exceeds the degree.

    Parameters
    ----------
    n, p : rows and inputs
    radius : the largest |x - centre| / l
    mu : default n^-2, as for KORS

    Examples
    --------
    >>> from ovk.online import taylor_degree
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
                f"radius={radius:g} needs a Taylor degree above {degree} in {p} inputs, too many features: use "
                "Nystrom features"
            )
    return degree


def capacity_exponent(kernel: Any, p: int) -> float:
    """gamma with d_eff(alpha) of the order (n / alpha)^gamma, up to logarithms; 0 for analytic and finite kernels.

    A Matern kernel's space is the Sobolev space of smoothness s = nu + p / 2, with gamma = p / (2 s).

    Examples
    --------
    >>> from ovk.kernels import Gaussian, Matern
    >>> from ovk.online import capacity_exponent
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
        # The roughest decides: eigenvalues add.
        return max(_scalar_exponent(part, p) for _, part in kernel.summands())
    if isinstance(kernel, Product):
        # Spectral densities convolve.
        return max(_scalar_exponent(kernel.left, p), _scalar_exponent(kernel.right, p))
    raise _unknown(kernel)


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
    raise _unknown(K)


def _unknown(kernel: Any) -> ValueError:
    return ValueError(
        f"the capacity of {type(kernel).__name__} is not known: measure effective_dimension(kernel, X, alpha) at a few "
        "alpha, and give its exponent to suggest_from_capacity(n, gamma)"
    )
