"""A set of kernels to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ovk.base import check_int
from ovk.batch.curves.curve_outputs import bind_grid
from ovk.curves import Grid
from ovk.kernels import Gaussian, Polynomial, ScalarKernel, Scaled, median_distance, spread_rows
from ovk.operators import Identity, Integral, Multiplication, OutputOperator
from ovk.ovkernels import Separable

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
