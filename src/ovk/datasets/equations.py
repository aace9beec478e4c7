"""Solutions of differential equations, for operator learning: Navier-Stokes flows and Burgers' equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.fft import irfft, irfft2, rfft, rfft2

from ovk.base import Array, Loaded, RandomState, check_int, positive, track
from ovk.curves import Grid, ProductGrid
from ovk.datasets.generators import as_generator, bundle

_FLOW_BATCH, _CURVE_BATCH = 4, 64  # number of flows and of curves in a batch, small enough for the processor's cache
_PAIRS = 50  # number of pairs of waves, cosine and sine, in a forcing


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
    r"""Draw forcings of a two-dimensional flow, and solve for the vorticity at a later time.

    .. math:: \partial_t \omega + u \cdot \nabla \omega = \nu \Delta \omega + f, \quad \omega = \nabla \times u,
              \quad \nabla \cdot u = 0 \quad \text{on } [0, 2 \pi]^2

    The forcing has 50 pairs of waves, those of the smallest wave numbers k, with a and b standard normal:

    .. math:: f(x) = \sum_k \frac{a_k \cos(k \cdot x) + b_k \sin(k \cdot x)}{\sqrt{2} \pi (9 + |k|^2)^2}

    The initial vorticity is one draw from the same distribution, the same for all samples. In space the method is
    spectral, dealiased by removing a third of the waves; the time steps are Runge-Kutta of fourth order with exact
    integration of the viscosity. With 20 steps to time 10 the relative error is about 1e-7.

    Parameters
    ----------
    n_samples : int
        Number n of forcings. A flow of 64 x 64 points takes about 12 ms.
    size : int, even, at least 24
        Number of grid points in each direction.
    viscosity, time : float > 0
        Viscosity and final time.
    steps : int
        Number of time steps.
    initial : (size, size) array, optional
        The initial vorticity; default a random draw. Pass that of an earlier call to draw more samples.
    noise, random_state, return_X_y
        As in `make_burgers`.

    Returns
    -------
    Bunch
        `data` (n, size^2) forcings and `target` (n, size^2) vorticities, flattened; `grid` the `ProductGrid` of the
        points; `initial` (size, size); `feature_names`, `target_names`, `DESCR`.

    See Also
    --------
    make_burgers, ovk.FunctionalRidge

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
    rng = as_generator(random_state)
    N, nu, T, count = _checked(size, 24, viscosity, time, steps)
    waves = forcing_waves(N)
    drawn = initial is None
    start = (rng.standard_normal(2 * _PAIRS) @ waves).reshape(N, N) if drawn else np.asarray(initial, dtype=np.float64)
    if start.shape != (N, N) or not np.isfinite(start).all():
        raise ValueError(f"initial must be a finite array ({N}, {N}), got shape {start.shape}")

    def solve(forcing: Array) -> Array:
        begin = np.broadcast_to(start, (len(forcing), N, N))
        return vorticity(begin, forcing.reshape(begin.shape), nu, T, count).reshape(forcing.shape)

    side = Grid(2.0 * np.pi * np.arange(N) / N, period=2.0 * np.pi)
    return _function_pairs(
        f"{n_samples} forcings of a flow on the torus and its vorticity at time {T:g}, after de Hoop et al. (2022)",
        n_samples, waves, solve, _FLOW_BATCH, ("forcing", "vorticity"), ProductGrid([side, side]), noise, rng,
        return_X_y, initial=start,
    )  # fmt: skip


def forcing_waves(size: int) -> Array:
    """(100, size^2) the waves of a forcing, times their standard deviations."""
    side = np.arange(-10, 11)
    k = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    half = k[(k[:, 0] > 0) | ((k[:, 0] == 0) & (k[:, 1] > 0))]  # k and -k give the same waves
    k = half[np.argsort((half**2).sum(axis=1), kind="stable")][:_PAIRS]
    x = 2.0 * np.pi * np.arange(size) / size
    angle = (k[:, 0, None, None] * x[:, None] + k[:, 1, None, None] * x).reshape(_PAIRS, -1)
    deviation = 1.0 / (np.sqrt(2.0) * np.pi * (9.0 + (k**2).sum(axis=1)) ** 2)
    return np.vstack([deviation[:, None] * np.cos(angle), deviation[:, None] * np.sin(angle)])


def vorticity(initial: Array, forcing: Array, viscosity: float, time: float, steps: int) -> Array:
    """The vorticity at `time` of flows (b, N, N) on the torus.

    With w the transform of the vorticity, w' = -nu |k|^2 w - u . grad w + f (see `_integrate`). u = (d_y, -d_x) psi,
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

    def nonlinear(w: Any) -> Any:
        u, v = irfft2(to_u * w, s=(N, N)), irfft2(to_v * w, s=(N, N))
        return of_squares * rfft2(v * v - u * u) + of_product * rfft2(u * v) + f

    w = _integrate(rfft2(initial) * kept, nonlinear, np.exp(-0.5 * h * viscosity * squared), steps)
    return np.asarray(irfft2(w, s=(N, N)))


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
    r"""Draw periodic curves, and solve Burgers' equation for them at a later time.

    .. math:: \partial_t u + u \, \partial_x u = \nu \, \partial_x^2 u \quad \text{on } [0, 1], \text{ periodic}

    The initial curves are Gaussian with covariance :math:`625 (-\Delta + 25)^{-2}`. The discretisation is that of
    `make_navier_stokes`. Papers on this equation use other distributions: compare methods on the same data.

    Parameters
    ----------
    n_samples : int
        Number n of curves.
    size : int, even, at least 16
        Number of grid points. A steep wave is about `viscosity` wide, and should cover a few points.
    viscosity, time : float > 0
        Viscosity and final time.
    steps : int
        Number of time steps.
    noise : float >= 0
        Standard deviation of the noise on the outputs, relative to their root mean square.
    random_state : int, Generator, RandomState or None
        Seed or generator.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (n, size) initial curves, `target` (n, size) curves at `time`; `grid` the periodic `Grid`;
        `feature_names`, `target_names`, `DESCR`.

    See Also
    --------
    make_navier_stokes, ovk.FunctionalRidge

    Examples
    --------
    >>> from ovk.datasets import make_burgers
    >>> waves = make_burgers(3, size=64, random_state=0)
    >>> waves.data.mean(axis=1).round(1), waves.target.mean(axis=1).round(1)  # the mean is conserved
    (array([0.1, 0.8, 0.6]), array([0.1, 0.8, 0.6]))
    """
    rng = as_generator(random_state)
    d, nu, T, count = _checked(size, 16, viscosity, time, steps)
    grid = Grid(np.arange(d) / d, period=1.0)
    # Waves times their standard deviations, and a constant of variance 1.
    k = 2.0 * np.pi * np.arange(1, d // 3 + 1)[:, None]
    angle, deviation = k * grid.checked(), np.sqrt(2.0) / (k**2 + 25.0)
    waves = np.vstack([np.ones((1, d)), 25.0 * (deviation * np.cos(angle)), 25.0 * (deviation * np.sin(angle))])
    return _function_pairs(
        f"{n_samples} solutions of Burgers' equation with viscosity {nu:g} at time {T:g}",
        n_samples, waves, lambda data: burgers(data, nu, T, count), _CURVE_BATCH, ("u0", "u"), grid, noise, rng,
        return_X_y,
    )  # fmt: skip


def burgers(initial: Array, viscosity: float, time: float, steps: int) -> Array:
    """The curves (n, d) at `time`: with w the transform of u, w' = -nu k^2 w - i k F(u^2) / 2 (see `_integrate`)."""
    d = initial.shape[-1]
    k = 2.0 * np.pi * np.arange(d // 2 + 1)
    h = time / steps
    multiplier = np.where(np.arange(d // 2 + 1) <= d // 3, -0.5j * h * k, 0.0)

    def nonlinear(w: Any) -> Any:
        return multiplier * rfft(irfft(w, n=d) ** 2)

    return np.asarray(irfft(_integrate(rfft(initial), nonlinear, np.exp(-0.5 * h * viscosity * k**2), steps), n=d))


def _checked(size: int, least: int, viscosity: float, time: float, steps: int) -> tuple[int, float, float, int]:
    points = check_int(size, "size", least=least)
    if points % 2:
        raise ValueError(f"size must be even, got {points}")
    return points, positive(viscosity, "viscosity"), positive(time, "time"), check_int(steps, "steps")


def _integrate(w: Any, nonlinear: Callable[[Any], Any], damping: Array, steps: int) -> Any:
    """w after `steps` steps of w' = -L w + N(w), by the Runge-Kutta method of fourth order, L integrated exactly.

    With `nonlinear` = h N and `damping` q = exp(-h L / 2) a step is

        a = h N(w),  b = h N(q (w + a / 2)),  c = h N(q w + b / 2),  e = h N(q^2 w + q c),
        w <- q^2 w + (q^2 a + 2 q (b + c) + e) / 6.
    """
    q = damping
    # Steps that are too long diverge; the error is raised below.
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            a = nonlinear(w)
            b = nonlinear(q * (w + 0.5 * a))
            c = nonlinear(q * w + 0.5 * b)
            e = nonlinear(q * (q * w + c))
            w = q * q * w + (q * q * a + 2.0 * q * (b + c) + e) / 6.0
    if not np.isfinite(w).all():
        raise ValueError(f"the solution diverged with steps={steps}: use more steps or a shorter time")
    return w


def _function_pairs(
    description: str,
    n_samples: int,
    waves: Array,
    solve: Callable[[Array], Array],
    batch: int,
    names: tuple[str, str],
    grid: Grid,
    noise: float,
    rng: np.random.Generator,
    return_X_y: bool,
    **fields: Any,
) -> Loaded:
    """Random sums of waves (k, d), and their solutions in batches, with noise."""
    n, level = check_int(n_samples, "n_samples"), positive(noise, "noise", zero=True)
    data = rng.standard_normal((n, len(waves))) @ waves
    starts = track(range(0, n, batch), f"solving for {names[1]}")
    target = np.concatenate([solve(data[i : i + batch]) for i in starts])
    if level > 0:
        target = target + level * np.sqrt(np.mean(target**2)) * rng.standard_normal(target.shape)
    if len(grid.shape) == 1:
        places = [f"at {x:g}" for x in grid.checked()]
    else:
        places = [",".join(str(i) for i in place) for place in np.ndindex(*grid.shape)]
    features, targets = ([f"{name} {place}" for place in places] for name in names)
    named = {"feature_names": features, "target_names": targets, "DESCR": description}
    return bundle(return_X_y, data=data, target=target, grid=grid, **fields, **named)
