"""A set of kernels to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ovk.base import check_int
from ovk.batch.curves import bind_grid
from ovk.curves import Grid
from ovk.kernels import Gaussian, Polynomial, ScalarKernel, Scaled, median_distance, spread_rows
from ovk.operators import Identity, Integral, Multiplication, OutputOperator
from ovk.ovkernels import OperatorKernel, Separable

#: Inputs whose squares can be added up.
MAX_INPUT = 1e150


def kernel_grid(
    X: Any,
    *,
    bandwidths: int | Sequence[float] = 5,
    degrees: Sequence[int] = (1, 2, 3),
    operators: Sequence[OutputOperator] | None = None,
    equal_trace: Grid | int | None = None,
) -> list[Separable]:
    """Gaussian kernels of several bandwidths and polynomial ones of several degrees, each with each operator.

    By default the set of the MovKL paper, 24 kernels: 5 Gaussians, degrees 1 to 3, and as operators the identity,
    multiplication by exp(-t^2) and the integral operator of exp(-|t - s|), time running from 0 to 1 or on the grid of
    the estimator. So that weights can be compared, every scalar kernel is scaled to a mean of 1 on the diagonal.

    Parameters
    ----------
    X : (n, p) inputs; what is taken from them is the median distance and the mean squared norm
    bandwidths : how many Gaussians, at length scales from a quarter of the median distance to four times it, or the
        length scales themselves
    degrees : of the polynomial kernels
    operators : output operators
    equal_trace : `Grid` or number of outputs, optional
        Scale every operator to the trace of the identity there. As it is, the integral operator is at most 0.74 times
        the identity, so with r = 1 and the same scalar kernel it can never have weight beside it; with equal traces it
        spends on smooth curves what the identity spreads over all.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.batch import kernel_grid
    >>> len(kernel_grid(np.random.default_rng(0).standard_normal((30, 4))))
    24
    """
    # The different rows: one that stands there twice counts like one of weight two.
    X = spread_rows(X)
    if isinstance(bandwidths, (int, np.integer)):
        count = check_int(bandwidths, "bandwidths", least=0)
        factors = 4.0 ** np.linspace(-1, 1, count) if count > 1 else np.ones(count)
        lengths = median_distance(X) * factors
    else:
        lengths = np.asarray(bandwidths, dtype=np.float64)
    scalars: list[ScalarKernel] = [Gaussian(float(length)) for length in lengths]
    if len(degrees) and np.abs(X).max() > MAX_INPUT:
        raise ValueError(
            f"X goes up to {np.abs(X).max():.3g}, where the squares in a polynomial kernel are not finite: scale X, "
            "for instance with StandardScaler, or leave the polynomials out (degrees=())"
        )
    gamma = 1.0 / max(float((X**2).sum(axis=1).mean()), 1e-300)
    for degree in degrees:
        polynomial = Polynomial(check_int(degree, "degree"), gamma=gamma)
        scalars.append(Scaled(1.0 / float(polynomial.diag(X).mean()), polynomial))
    if operators is None:
        operators = [Identity(), Multiplication(Gaussian.from_mu(1.0)), Integral()]
    if not scalars or not operators:
        raise ValueError("kernel_grid needs at least one bandwidth or degree, and at least one operator")
    if equal_trace is None:
        return [Separable(scalar, operator) for operator in operators for scalar in scalars]
    outputs = check_int(equal_trace, "equal_trace") if isinstance(equal_trace, (int, np.integer)) else len(equal_trace)
    result: list[Separable] = []
    for operator in operators:
        placed = bind_grid(operator, equal_trace) if isinstance(equal_trace, Grid) else operator
        trace = float(placed.resolve(outputs).eigh().values.sum())
        if trace <= 0:
            raise ValueError(f"{operator!r} has the trace 0: it cannot be scaled")
        result += [Separable(Scaled(outputs / trace, scalar), placed) for scalar in scalars]
    return result


def unit_variance(kernels: Sequence[OperatorKernel], X: Any) -> list[Separable]:
    """The kernels k * T with every scalar kernel scaled to the variance 1 of its features,

        1/n sum_i k(x_i, x_i) - 1/n^2 sum_ij k(x_i, x_j) = 1.

    A function that varies as much then costs as much with each of them. Without it a wide Gaussian, all of whose values
    are near 1, hardly has a chance beside a narrow one: learned weights go to what follows the training curves most
    cheaply.

    Parameters
    ----------
    kernels : sequence of separable kernels
    X : (n, p) training inputs

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.batch import unit_variance
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import Identity
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> [round(k.scalar.factor, 1) for k in unit_variance([Gaussian(l) * Identity() for l in (0.1, 1.0, 10.0)], X)]
    [1.3, 9.2, 801.2]
    """
    X = spread_rows(X)
    result = []
    for kernel in kernels:
        separable = kernel.as_separable()
        if separable is None:
            raise ValueError(f"kernels must be separable, k * T, got {type(kernel).__name__}")
        scalar = separable.scalar.resolve(X)
        values = scalar(X)
        variance = float(np.diagonal(values).mean() - values.mean())
        if variance <= 1e-12 * float(np.abs(values).max()):
            raise ValueError(f"{scalar!r} is the same for all rows of X: it has no variance that could be scaled to 1")
        result.append(Separable(Scaled(1.0 / variance, scalar), separable.operator))
    return result
