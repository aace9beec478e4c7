"""Flows on the torus: from a forcing to the vorticity that it has stirred up some time later."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.fft import irfft2, rfft2

from ovk._progress import track
from ovk._types import Array, Loaded, RandomState
from ovk.curves import Grid, ProductGrid
from ovk.datasets._equations import checked_draw, checked_motion, function_pairs, in_steps

#: Flows that are carried on together: few enough for their transforms to stay in the processor's cache.
_TOGETHER = 4
#: Pairs of waves, cosine and sine, in a forcing.
_PAIRS = 50


def make_navier_stokes(
    n_samples: int = 100,
    *,
    size: int = 64,
    viscosity: float = 0.025,
    time: float = 10.0,
    steps: int = 20,
    initial: Any = None,
    noise: float = 0.0,
    random_state: RandomState = None,
    return_X_y: bool = False,
) -> Loaded:
    r"""Draw forcings of a flow on the torus, and solve for the vorticity at a later time.

    .. math:: \partial_t \omega + u \cdot \nabla \omega = \nu \Delta \omega + f, \quad \omega = \nabla \times u,
              \quad \nabla \cdot u = 0 \quad \text{on } [0, 2 \pi]^2

    The forcing has 50 pairs of waves, those of the smallest wave numbers k, with a and b standard normal:

    .. math:: f(x) = \sum_k \frac{a_k \cos(k \cdot x) + b_k \sin(k \cdot x)}{\sqrt{2} \pi (9 + |k|^2)^2}

    The initial vorticity is one draw of the same law, the same for all samples. Space is spectral with a third of the
    waves removed against aliasing; time is of fourth order (Runge-Kutta, viscosity integrated exactly): with 20 steps
    to time 10 the relative error is about 1e-7.

    Parameters
    ----------
    n_samples : int
        Number n of forcings. A flow of 64 x 64 points takes about 12 ms.
    size : int, even, at least 24
        Points of the grid in each direction.
    viscosity, time : float > 0
    steps : int
        Steps in time.
    initial : (size, size) array, optional
        The vorticity at the beginning; drawn if absent. Give that of one draw to go on with more samples of its law.
    noise, random_state, return_X_y : as in `make_burgers`

    Returns
    -------
    Bunch
        `data` (n, size^2) forcings, `target` (n, size^2) vorticities, both row after row of their fields; `grid` the
        `ProductGrid` of the points; `initial` (size, size); `feature_names`, `target_names`, `DESCR`.

    References
    ----------
    de Hoop, Huang, Qian and Stuart (2022), The cost-accuracy trade-off in operator learning with neural networks,
    Journal of Machine Learning 1(3), 299-341.

    Examples
    --------
    >>> from ovk.datasets import make_navier_stokes
    >>> flow = make_navier_stokes(2, size=24, steps=20, random_state=0)
    >>> flow.data.shape, flow.target.shape, flow.grid.shape
    ((2, 576), (2, 576), (24, 24))
    """
    n, level, rng = checked_draw(n_samples, noise, random_state)
    N, nu, T, count = checked_motion(size, 24, viscosity, time, steps)
    waves = forcing_waves(N)
    start = rng.standard_normal(2 * _PAIRS) @ waves if initial is None else _checked_field(initial, N)
    data = rng.standard_normal((n, 2 * _PAIRS)) @ waves
    target = np.empty_like(data)
    for first in track(range(0, n, _TOGETHER), "solving flows"):
        some = slice(first, first + _TOGETHER)
        forcing = data[some].reshape(-1, N, N)
        begin = np.broadcast_to(start.reshape(N, N), forcing.shape)
        target[some] = vorticity(begin, forcing, nu, T, count).reshape(len(forcing), -1)
    side = Grid(2.0 * np.pi * np.arange(N) / N, period=2.0 * np.pi)
    return function_pairs(
        f"{n} forcings of a flow on the torus and its vorticity at time {T:g}, after de Hoop et al. (2022)",
        data, target, ("forcing", "vorticity"), ProductGrid([side, side]), level, rng, return_X_y,
        initial=start.reshape(N, N),
    )  # fmt: skip


def forcing_waves(size: int) -> Array:
    """The waves of a forcing with their standard deviations, one a row: (100, size^2)."""
    side = np.arange(-10, 11)
    k = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    half = k[(k[:, 0] > 0) | ((k[:, 0] == 0) & (k[:, 1] > 0))]  # k and -k are the same pair of waves
    k = half[np.argsort((half**2).sum(axis=1), kind="stable")][:_PAIRS]
    x = 2.0 * np.pi * np.arange(size) / size
    angle = (k[:, 0, None, None] * x[:, None] + k[:, 1, None, None] * x).reshape(_PAIRS, -1)
    deviation = 1.0 / (np.sqrt(2.0) * np.pi * (9.0 + (k**2).sum(axis=1)) ** 2)
    return np.vstack([deviation[:, None] * np.cos(angle), deviation[:, None] * np.sin(angle)])


def vorticity(initial: Array, forcing: Array, viscosity: float, time: float, steps: int) -> Array:
    """The vorticity at `time` of flows (b, N, N) on the torus.

    With w the transform of the vorticity, w' = -nu |k|^2 w - u . grad w + f (see `in_steps`). u = (d_y, -d_x) psi with
    -Laplace psi = w, and as u has no divergence u . grad w = d_x d_y (v^2 - u^2) + (d_x^2 - d_y^2) (u v).
    """
    N = initial.shape[-1]
    k1, k2 = np.fft.fftfreq(N, 1.0 / N)[:, None], np.arange(N // 2 + 1.0)[None, :]
    squared = k1**2 + k2**2
    kept = (np.abs(k1) < N / 3.0) & (k2 < N / 3.0)
    inverse = np.where(squared > 0, 1.0 / np.maximum(squared, 1.0), 0.0)
    to_u, to_v = 1j * k2 * inverse, -1j * k1 * inverse
    h = time / steps
    of_squares, of_product = (np.where(kept, h * factor, 0.0) for factor in (k1 * k2, k1**2 - k2**2))
    f = h * rfft2(forcing) * kept

    def moved(w: Any) -> Any:
        u, v = irfft2(to_u * w, s=(N, N)), irfft2(to_v * w, s=(N, N))
        return of_squares * rfft2(v * v - u * u) + of_product * rfft2(u * v) + f

    w = in_steps(rfft2(initial) * kept, moved, np.exp(-0.5 * h * viscosity * squared), steps)
    return np.asarray(irfft2(w, s=(N, N)))


def _checked_field(initial: Any, size: int) -> Array:
    field = np.asarray(initial, dtype=np.float64)
    if field.shape != (size, size) or not np.isfinite(field).all():
        raise ValueError(f"initial must be ({size}, {size}) finite numbers, got shape {field.shape}")
    return field.ravel()
