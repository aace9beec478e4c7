"""What generators of operators share: checks of parameters, random waves, steps in time, and the pairs of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ovk._params import check_int, positive
from ovk._types import Array, Loaded, RandomState
from ovk.curves import Grid
from ovk.datasets._shared import as_generator, bundle, with_noise


def checked_draw(n_samples: int, noise: float, random_state: RandomState) -> tuple[int, float, np.random.Generator]:
    """How many pairs, the level of their noise, and what draws them."""
    return check_int(n_samples, "n_samples"), positive(noise, "noise", zero=True), as_generator(random_state)


def checked_motion(size: int, least: int, viscosity: float, time: float, steps: int) -> tuple[int, float, float, int]:
    """Points along an axis, an even number of them, viscosity, time and steps."""
    points = check_int(size, "size", least=least)
    if points % 2:
        raise ValueError(f"size must be even, got {points}")
    return points, positive(viscosity, "viscosity"), positive(time, "time"), check_int(steps, "steps")


def waves_on_circle(points: Array, count: int, shift: float) -> Array:
    r"""Waves of the length 1 with the standard deviations of N(0, (-Laplace + shift)^-2), one a row: (2 count, d).

    .. math:: \frac{\sqrt 2 \cos(2 \pi l x)}{(2 \pi l)^2 + \mathrm{shift}},
              \quad \frac{\sqrt 2 \sin(2 \pi l x)}{(2 \pi l)^2 + \mathrm{shift}}, \quad l = 1, \dots, \mathrm{count}
    """
    k = 2.0 * np.pi * np.arange(1, count + 1)[:, None]
    deviation = np.sqrt(2.0) / (k**2 + shift)
    return np.vstack([deviation * np.cos(k * points), deviation * np.sin(k * points)])


def in_steps(w: Any, moved: Callable[[Any], Any], damping: Array, steps: int) -> Any:
    """w after `steps` steps of w' = -L w + N(w), by the Runge-Kutta method of fourth order, L integrated exactly.

    With `moved` = h N and `damping` q = exp(-h L / 2) a step is

        a = h N(w),  b = h N(q (w + a / 2)),  c = h N(q w + b / 2),  e = h N(q^2 w + q c),
        w <- q^2 w + (q^2 a + 2 q (b + c) + e) / 6.
    """
    q = damping
    # Steps that are too long end in numbers that are not finite, which is said once, below.
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            a = moved(w)
            b = moved(q * (w + 0.5 * a))
            c = moved(q * w + 0.5 * b)
            e = moved(q * (q * w + c))
            w = q * q * w + (q * q * a + 2.0 * q * (b + c) + e) / 6.0
    if not np.isfinite(w).all():
        raise ValueError(f"the solution grew beyond all numbers with steps={steps}: take more steps, or a shorter time")
    return w


def function_pairs(
    description: str,
    data: Array,
    target: Array,
    names: tuple[str, str],
    grid: Grid,
    noise: float,
    rng: np.random.Generator,
    return_X_y: bool,
    **fields: Any,
) -> Loaded:
    """The Bunch of input and output functions (n, d) on one grid, with noise on the outputs.

    Columns are named after what the functions are and by their points, those of fields by numbers along each axis.
    """
    if len(grid.shape) == 1:
        places = [f"at {x:g}" for x in grid.checked()]
    else:
        places = [",".join(str(i) for i in place) for place in np.ndindex(*grid.shape)]
    features, targets = ([f"{name} {place}" for place in places] for name in names)
    return bundle(description, data, with_noise(target, noise, rng), features, targets, return_X_y, grid=grid, **fields)
