"""Burgers' equation on the circle: waves that steepen until viscosity stops them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.fft import irfft, rfft

from ovk._types import Array, Loaded, RandomState
from ovk.curves import Grid
from ovk.datasets._equations import checked_draw, checked_motion, function_pairs, in_steps, waves_on_circle

#: Curves that are carried on together.
_TOGETHER = 64


def make_burgers(
    n_samples: int = 200,
    *,
    size: int = 128,
    viscosity: float = 0.01,
    time: float = 1.0,
    steps: int = 200,
    noise: float = 0.0,
    random_state: RandomState = None,
    return_X_y: bool = False,
) -> Loaded:
    r"""Draw curves on the circle and let Burgers' equation move them.

    .. math:: \partial_t u + u \, \partial_x u = \nu \, \partial_x^2 u \quad \text{on } [0, 1], \text{ periodic}

    The curves at the beginning are Gaussian with covariance :math:`625 (-\Delta + 25)^{-2}`. Space is spectral, with a
    third of the waves removed against aliasing; time is of fourth order (Runge-Kutta, viscosity integrated exactly).
    Numbers that papers report for this equation are of data drawn otherwise: compare methods on the same draw.

    Parameters
    ----------
    n_samples : int
    size : int, even, at least 16
        Points of the grid. A steep wave is about `viscosity` wide, and should be a few points.
    viscosity, time : float > 0
    steps : int
        Steps in time.
    noise : float >= 0
        Standard deviation of noise on every value of the outputs, relative to their root mean square.
    random_state : int, Generator, RandomState or None
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (n, size) curves at the beginning, `target` (n, size) at `time`; `grid` the periodic `Grid`;
        `feature_names`, `target_names`, `DESCR`.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.datasets import make_burgers
    >>> waves = make_burgers(3, size=64, random_state=0)
    >>> bool(np.allclose(waves.data.mean(axis=1), waves.target.mean(axis=1)))  # nothing is lost on a circle
    True
    """
    n, level, rng = checked_draw(n_samples, noise, random_state)
    d, nu, T, count = checked_motion(size, 16, viscosity, time, steps)
    grid = Grid(np.arange(d) / d, period=1.0)
    # Waves that the equation is solved for, and a constant of variance 1.
    waves = np.vstack([np.ones((1, d)), 25.0 * waves_on_circle(grid.checked(), d // 3, 25.0)])
    data = rng.standard_normal((n, len(waves))) @ waves
    parts = [burgers(data[i : i + _TOGETHER], nu, T, count) for i in range(0, n, _TOGETHER)]
    return function_pairs(
        f"{n} solutions of Burgers' equation with viscosity {nu:g} at time {T:g}",
        data, np.concatenate(parts), ("u0", "u"), grid, level, rng, return_X_y,
    )  # fmt: skip


def burgers(initial: Array, viscosity: float, time: float, steps: int) -> Array:
    """The curves (n, d) at `time`: with w the transform of u, w' = -nu k^2 w - i k F(u^2) / 2 (see `in_steps`)."""
    d = initial.shape[-1]
    k = 2.0 * np.pi * np.arange(d // 2 + 1)
    h = time / steps
    multiplier = np.where(np.arange(d // 2 + 1) <= d // 3, -0.5j * h * k, 0.0)

    def moved(w: Any) -> Any:
        return multiplier * rfft(irfft(w, n=d) ** 2)

    return np.asarray(irfft(in_steps(rfft(initial), moved, np.exp(-0.5 * h * viscosity * k**2), steps), n=d))
