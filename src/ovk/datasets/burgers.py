"""Burgers' equation on the circle: waves that steepen until viscosity stops them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.fft import irfft, rfft

from ovk._params import check_int, positive
from ovk._types import Array, Loaded, RandomState
from ovk.curves import Grid
from ovk.datasets._shared import as_generator, bundle, with_noise

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
    n, d = check_int(n_samples, "n_samples"), check_int(size, "size", least=16)
    if d % 2:
        raise ValueError(f"size must be even, got {d}")
    nu, T = positive(viscosity, "viscosity"), positive(time, "time")
    count, level = check_int(steps, "steps"), positive(noise, "noise", zero=True)
    rng = as_generator(random_state)
    grid = Grid(np.arange(d) / d, period=1.0)
    data = _initial(n, grid.checked(), rng)
    parts = [burgers(data[i : i + _TOGETHER], nu, T, count) for i in range(0, n, _TOGETHER)]
    return bundle(
        f"{n} solutions of Burgers' equation with viscosity {nu:g} at time {T:g}",
        data,
        with_noise(np.concatenate(parts), level, rng),
        [f"u0 at {x:g}" for x in grid.checked()],
        [f"u at {x:g}" for x in grid.checked()],
        return_X_y,
        grid=grid,
    )


def _initial(n: int, points: Array, rng: np.random.Generator) -> Array:
    """Draws of N(0, 625 (-Laplace + 25)^-2), of the waves that the equation is solved for."""
    l = np.arange(1, len(points) // 3 + 1)[:, None]  # noqa: E741 - the wave number
    angle = 2.0 * np.pi * l * points
    deviation = 25.0 * np.sqrt(2.0) / ((2.0 * np.pi * l) ** 2 + 25.0)
    waves = np.vstack([np.ones((1, len(points))), deviation * np.cos(angle), deviation * np.sin(angle)])
    return np.asarray(rng.standard_normal((n, len(waves))) @ waves)


def burgers(initial: Array, viscosity: float, time: float, steps: int) -> Array:
    """The curves (n, d) at `time`.

    With w the transform of u, q = exp(-nu k^2 h / 2) and N(w) = -i k F(u^2) / 2 without its highest third, a step is

        a = h N(w),  b = h N(q (w + a / 2)),  c = h N(q w + b / 2),  e = h N(q^2 w + q c),
        w <- q^2 w + (q^2 a + 2 q (b + c) + e) / 6.
    """
    d = initial.shape[-1]
    k = 2.0 * np.pi * np.arange(d // 2 + 1)
    h = time / steps
    q = np.exp(-0.5 * h * viscosity * k**2)
    multiplier = np.where(np.arange(d // 2 + 1) <= d // 3, -0.5j * h * k, 0.0)

    def moved(w: Any) -> Any:
        return multiplier * rfft(irfft(w, n=d) ** 2)

    w = rfft(initial)
    for _ in range(steps):
        a = moved(w)
        b = moved(q * (w + 0.5 * a))
        c = moved(q * w + 0.5 * b)
        e = moved(q * (q * w + c))
        w = q * q * w + (q * q * a + 2.0 * q * (b + c) + e) / 6.0
    return np.asarray(irfft(w, n=d))
