"""Transport along a circle: from what is there to what will have arrived."""

from __future__ import annotations

import numpy as np

from ovk._params import check_int, positive
from ovk._types import Array, Loaded, RandomState
from ovk.curves import Grid
from ovk.datasets._shared import as_generator, bundle, with_noise

#: Terms of the Karhunen-Loeve expansion, those without a wave left out.
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
    r"""Draw fields of -1 and 1 on the circle, and carry them along at a constant speed.

    .. math:: \partial_t u + c \, \partial_x u = 0 \quad \text{on } [0, 1], \text{ periodic}, \quad
              u(x, 0) = -1 + 2 \cdot 1\{v(x) \ge 0\}

    v is a Gaussian process with covariance :math:`(-\Delta + 9)^{-2}`, from 100 terms of its expansion: waves
    :math:`\sqrt 2 \cos(2 \pi l x), \sqrt 2 \sin(2 \pi l x)` with variances :math:`((2 \pi l)^2 + 9)^{-2}`, l up to 50.
    The map is linear and loses nothing, but no smooth kernel can tell where between two points a field jumps.

    Parameters
    ----------
    n_samples : int
    size : int
        Points of the grid.
    speed, time : float
        The field is moved by speed times time, to the nearest point of the grid.
    noise : float >= 0
        Standard deviation of noise on every value of the outputs, relative to their root mean square.
    random_state : int, Generator, RandomState or None
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (n, size) fields at the beginning, `target` (n, size) at `time`; `grid` the periodic `Grid`;
        `feature_names`, `target_names`, `DESCR`.

    References
    ----------
    de Hoop, Huang, Qian and Stuart (2022), The cost-accuracy trade-off in operator learning with neural networks,
    Journal of Machine Learning 1(3), 299-341.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.datasets import make_advection
    >>> u0, u1 = make_advection(5, random_state=0, return_X_y=True)
    >>> bool((np.roll(u0, 100, axis=1) == u1).all())
    True
    """
    n, d = check_int(n_samples, "n_samples"), check_int(size, "size", least=2)
    level = positive(noise, "noise", zero=True)
    shift = float(speed) * float(time)
    if not np.isfinite(shift):
        raise ValueError(f"speed and time must be finite, got {speed!r} and {time!r}")
    rng = as_generator(random_state)
    grid = Grid(np.arange(d) / d, period=1.0)
    v = rng.standard_normal((n, _TERMS)) @ _waves(grid.checked())
    data = np.where(v >= 0, 1.0, -1.0)
    target = with_noise(np.roll(data, round(shift * d), axis=1), level, rng)
    return bundle(
        f"{n} fields of -1 and 1 on the circle, carried along by {shift:g}, after de Hoop et al. (2022)",
        data,
        target,
        [f"u0 at {x:g}" for x in grid.checked()],
        [f"u at {x:g}" for x in grid.checked()],
        return_X_y,
        grid=grid,
    )


def _waves(points: Array) -> Array:
    """sqrt(variance) times the waves, one a row: (100, d)."""
    l = np.arange(1, _TERMS // 2 + 1)[:, None]  # noqa: E741 - as in the formula
    angle = 2.0 * np.pi * l * points
    deviation = np.sqrt(2.0) / ((2.0 * np.pi * l) ** 2 + 9.0)
    return np.vstack([deviation * np.cos(angle), deviation * np.sin(angle)])
