"""Advection on a circle: from the initial field to the transported one."""

from __future__ import annotations

import numpy as np

from ovk.curves import Grid
from reproduce.data._shared import as_generator, function_pairs
from reproduce.support import Array, Loaded, RandomState, check_int, positive

#: Terms of the Karhunen-Loeve expansion, without the constant.
_TERMS = 100


def make_advection(
    n_samples: int = 1000,
    *,
    size: int = 200,
    speed: float = 1.0,
    time: float = 0.5,
    noise: float = 0.0,
    random_state: RandomState = None,
    return_X_y: bool = False,
) -> Loaded:
    r"""Draw fields of -1 and 1 on the circle, and transport them at a constant speed.

    .. math:: \partial_t u + c \, \partial_x u = 0 \quad \text{on } [0, 1], \text{ periodic}, \quad
              u(x, 0) = -1 + 2 \cdot 1\{v(x) \ge 0\}

    v is a Gaussian process with covariance :math:`(-\Delta + 9)^{-2}`, from 100 terms of its expansion: waves
    :math:`\sqrt 2 \cos(2 \pi l x), \sqrt 2 \sin(2 \pi l x)` with variances :math:`((2 \pi l)^2 + 9)^{-2}`, l up to 50.
    As published, the points, including both ends, are 1 / (`size` - 1) apart, so that with 200 of them half a turn ends
    halfway between two. The output is sampled between the points of the input, so a jump between two points is
    ambiguous: this causes most of the 11% error of the best methods.

    Parameters
    ----------
    n_samples : int
    size : int
        Points of the grid.
    speed, time : float
        The field is moved by speed times time.
    noise, random_state, return_X_y : as in `ovk.datasets.make_burgers`

    Returns
    -------
    Bunch
        `data` (n, size) fields at the beginning, `target` (n, size) at `time`; `grid` the `Grid` of the points;
        `feature_names`, `target_names`, `DESCR`.

    References
    ----------
    de Hoop, Huang, Qian and Stuart (2022), The cost-accuracy trade-off in operator learning with neural networks,
    Journal of Machine Learning 1(3), 299-341.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduce.data import make_advection
    >>> u0, u1 = make_advection(5, size=201, random_state=0, return_X_y=True)  # half a turn is 100 of 200 steps
    >>> bool((np.roll(u0[:, 1:], 100, axis=1) == u1[:, 1:]).all())
    True
    """
    n, level = check_int(n_samples, "n_samples"), positive(noise, "noise", zero=True)
    rng = as_generator(random_state)
    grid, shift = Grid.regular(check_int(size, "size", least=2)), float(speed) * float(time)
    if not np.isfinite(shift):
        raise ValueError(f"speed and time must be finite, got {speed!r} and {time!r}")
    coefficients = rng.standard_normal((n, _TERMS))
    before, after = (
        np.where(coefficients @ _waves(points) >= 0, 1.0, -1.0) for points in (grid.checked(), grid.checked() - shift)
    )
    return function_pairs(
        f"{n} fields of -1 and 1 on the circle, carried along by {shift:g}, after de Hoop et al. (2022)",
        before, after, ("u0", "u"), grid, level, rng, return_X_y,
    )  # fmt: skip


def _waves(points: Array) -> Array:
    """The terms of the expansion at the points, times their standard deviations: (_TERMS, d)."""
    k = 2.0 * np.pi * np.arange(1, _TERMS // 2 + 1)[:, None]
    deviation = np.sqrt(2.0) / (k**2 + 9.0)
    return np.vstack([deviation * np.cos(k * points), deviation * np.sin(k * points)])
