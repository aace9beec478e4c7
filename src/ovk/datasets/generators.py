"""Random data: a stream with drift, and vector fields with known curl-free and divergence-free parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from ovk.base import Array, Loaded, RandomState, check_int, in_interval, positive


def bundle(return_X_y: bool, **fields: Any) -> Loaded:
    """The Bunch of a data set, or its data and target."""
    return (fields["data"], fields["target"]) if return_X_y else Bunch(**fields)


def as_generator(random_state: RandomState) -> np.random.Generator:
    """The given Generator, or one seeded by the integer, by draws of the RandomState or at random."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_int(random_state, "random_state", least=0))


def make_stream(
    n_samples: int = 4000,
    n_outputs: int = 6,
    *,
    missing: float = 0.9,
    drift: float = 1.0,
    own: float = 0.2,
    noise: float = 0.1,
    random_state: RandomState = None,
    return_X_y: bool = False,
) -> Loaded:
    r"""Draw a stream with drift whose outputs share a function.

    .. math:: y_{tq} = g(x_t + s_t) + \text{own} \; h_q(x_t) + \epsilon_{tq}, \quad x_t \sim U[-2, 2]^2

    g and every h_q are sums of twelve random waves with variance 1. The shift :math:`s_t` grows from 0 to `drift`,
    along the diagonal, over the second third of the stream.

    Parameters
    ----------
    n_samples, n_outputs : int
        Numbers n of rows and d of outputs.
    missing : float in [0, 1)
        Share of missing labels, chosen at random.
    drift : float >= 0
        Distance by which g is shifted.
    own : float >= 0
        Amplitude of the functions h_q of the individual outputs.
    noise : float >= 0
        Standard deviation of the noise.
    random_state : int, Generator, RandomState or None
        Seed or generator.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (n, 2), `target` (n, d) with nan where missing, `truth` (n, d) without noise and complete,
        `feature_names`, `target_names`, `DESCR`.

    See Also
    --------
    ovk.progressive, load_us_economy

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.datasets import make_stream
    >>> stream = make_stream(500, 4, random_state=0)
    >>> stream.target.shape, np.isnan(stream.target).mean().round(1)
    ((500, 4), np.float64(0.9))
    """
    n, d = check_int(n_samples, "n_samples"), check_int(n_outputs, "n_outputs")
    part = in_interval(missing, "missing", 0.0, 1.0)
    far, mine, sigma = (positive(*one, zero=True) for one in ((drift, "drift"), (own, "own"), (noise, "noise")))
    rng = as_generator(random_state)
    waves = 12
    frequencies = rng.normal(0, 1.2, (d + 1, waves, 2))
    phases = rng.uniform(0, 2 * np.pi, (d + 1, waves))
    amplitudes = rng.standard_normal((d + 1, waves))
    amplitudes /= np.sqrt((amplitudes**2).sum(axis=1, keepdims=True) / 2)
    X = rng.uniform(-2, 2, (n, 2))
    shift = far * np.clip(3 * np.arange(n) / n - 1, 0.0, 1.0)[:, None] / np.sqrt(2)

    def wave(q: int, at: Array) -> Array:
        return np.asarray(np.cos(at @ frequencies[q].T + phases[q]) @ amplitudes[q])

    shared = wave(d, X + shift)
    truth = np.column_stack([shared + mine * wave(q, X) for q in range(d)])
    target = truth + sigma * rng.standard_normal((n, d))
    target[rng.uniform(size=(n, d)) < part] = np.nan
    return bundle(
        return_X_y,
        data=X,
        target=target,
        truth=truth,
        feature_names=["x0", "x1"],
        target_names=[f"output {q}" for q in range(d)],
        DESCR=f"a stream of {n} rows with {d} coupled outputs, {part:.0%} of the labels missing, drifting by {far:g}",
    )


_GRID_POINTS = 15  # points on each side of the grid on which the parts are normalised


@dataclass(frozen=True, eq=False)
class BumpField:
    """A field of Gaussian bumps g_k(x) = exp(-|x - c_k|^2 / 2 l^2) in 2 or 3 dimensions.

        F = grad sum_k a_k g_k + sum_k R(grad g_k, b_k)

    The first sum is a gradient and has no curl. In 2-D, R(v, b) = b (v_2, -v_1) rotates a gradient by a right angle; in
    3-D, R(v, b) = v x b gives the curl of sum_k b_k g_k. Neither has divergence.
    """

    centres: Array  # c, (bumps, dims)
    potential: Array  # a, (bumps,)
    stream: Array  # b, (bumps, 1) in 2-D, (bumps, 3) in 3-D
    length_scale: float  # l

    def __call__(self, X: npt.ArrayLike) -> Array:
        """The field at the rows of X, (n, dims)."""
        return self.curl_free(X) + self.div_free(X)

    def curl_free(self, X: npt.ArrayLike) -> Array:
        """The curl-free part at the rows of X, (n, dims)."""
        return np.asarray(np.einsum("nkd,k->nd", self._gradients(X), self.potential))

    def div_free(self, X: npt.ArrayLike) -> Array:
        """The divergence-free part at the rows of X, (n, dims)."""
        gradients = self._gradients(X)
        if self.centres.shape[1] == 3:
            return np.asarray(np.cross(gradients, self.stream).sum(axis=1))
        rotated = np.stack([gradients[..., 1], -gradients[..., 0]], axis=-1)
        return np.asarray(np.einsum("nkd,k->nd", rotated, self.stream[:, 0]))

    def _gradients(self, X: npt.ArrayLike) -> Array:
        """Gradients of all bumps at the rows of X, (n, bumps, dims)."""
        points = np.asarray(X, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.centres.shape[1]:
            raise ValueError(f"X must have shape (n, {self.centres.shape[1]}), got {points.shape}")
        offsets = points[:, None, :] - self.centres
        bumps = np.exp(-0.5 * np.sum(offsets**2, axis=-1) / self.length_scale**2)
        return np.asarray(-offsets * bumps[..., None] / self.length_scale**2)


def make_vector_field(
    n_samples: int = 200,
    *,
    kind: Literal["curl_free", "div_free", "mixed"] = "mixed",
    n_dims: int = 2,
    mixture: float = 0.5,
    n_bumps: int = 10,
    length_scale: float = 0.4,
    box: tuple[float, float] = (-1.0, 1.0),
    noise: float = 0.0,
    outliers: float = 0.0,
    random_state: RandomState = None,
    return_X_y: bool = False,
) -> Loaded:
    """Draw a random smooth vector field, and noisy values of it at random points of a box.

    Each part is scaled to mean square speed 1 on a grid over the box; the field is `mixture` times the curl-free part
    plus 1 - `mixture` times the divergence-free part. The field depends on `random_state`, but not on `n_samples`,
    `noise` or `outliers`.

    Parameters
    ----------
    n_samples : int
        Number of points n, uniform in the box.
    kind : {"curl_free", "div_free", "mixed"}
        The first two mean `mixture` 1 and 0.
    n_dims : {2, 3}
        Dimension of the space.
    mixture : float in [0, 1]
        Share of the curl-free part when `kind` is "mixed".
    n_bumps : int
        Number of Gaussian bumps in each potential.
    length_scale : float
        Width of the bumps, at least 1/30 of the width of the box.
    box : (low, high)
        Bounds of every coordinate.
    noise : float
        Standard deviation of the noise.
    outliers : float in [0, 1]
        Share of the vectors that are replaced by outliers, uniform over twice the range of the components.
    random_state : int, Generator, RandomState or None
        Seed or generator.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (n, n_dims), `target` (n, n_dims) with noise, `curl_free` and `div_free` (n, n_dims) the parts without
        noise, `inlier` (n,) False at outliers, `field` the true field as a function of points (m, n_dims),
        `feature_names`, `target_names`, `DESCR`.

    See Also
    --------
    ovk.VectorField, ovk.plotting.VectorFieldDisplay

    Examples
    --------
    >>> from ovk.datasets import make_vector_field
    >>> sample = make_vector_field(50, kind="div_free", random_state=0)
    >>> sample.target.shape, sample.field([[0.0, 0.0]]).round(1)
    ((50, 2), array([[0.8, 1.1]]))
    """
    n, sigma = check_int(n_samples, "n_samples"), positive(noise, "noise", zero=True)
    shares = {"curl_free": 1.0, "div_free": 0.0, "mixed": in_interval(mixture, "mixture", 0, 1)}
    if kind not in shares:
        raise ValueError(f"kind must be one of {', '.join(map(repr, shares))}, got {kind!r}")
    share = shares[kind]
    if n_dims not in (2, 3):
        raise ValueError(f"n_dims must be 2 or 3, got {n_dims!r}")
    low, high = box
    if not (np.isfinite(box).all() and low < high):
        raise ValueError(f"box must be two finite numbers (low, high) with low < high, got {box!r}")
    width = positive(length_scale, "length_scale")
    least = (high - low) / (2 * _GRID_POINTS)
    if width < least:
        raise ValueError(f"length_scale must be at least {least:g}, 1/30 of the box, got {length_scale!r}")
    rng = as_generator(random_state)
    bumps = check_int(n_bumps, "n_bumps")
    centres = rng.uniform(low, high, size=(bumps, n_dims))
    potential = rng.standard_normal(bumps)
    stream = rng.standard_normal((bumps, 1 if n_dims == 2 else 3))
    raw = BumpField(centres, potential, stream, width)
    # A regular grid, so that the scale does not depend on the sample.
    grid = np.stack(np.meshgrid(*[np.linspace(low, high, _GRID_POINTS)] * n_dims), axis=-1).reshape(-1, n_dims)
    speed, turning = (np.sqrt(np.mean(np.sum(part(grid) ** 2, axis=1))) for part in (raw.curl_free, raw.div_free))
    field = BumpField(centres, potential * share / speed, stream * (1 - share) / turning, width)
    data = rng.uniform(low, high, size=(n, n_dims))
    target = field(data) + sigma * rng.standard_normal((n, n_dims))
    wrong = in_interval(outliers, "outliers", 0, 1)
    inlier = np.ones(n, dtype=bool)
    if wrong > 0:
        inlier[rng.permutation(n)[: round(wrong * n)]] = False
        reach = 2.0 * np.abs(target).max(axis=0)
        target = np.where(inlier[:, None], target, rng.uniform(-reach, reach, size=(n, n_dims)))
    axes = "xyz"[:n_dims]
    return bundle(
        return_X_y,
        data=data,
        target=target,
        curl_free=field.curl_free(data),
        div_free=field.div_free(data),
        inlier=inlier,
        field=field,
        feature_names=list(axes),
        target_names=[f"velocity_{axis}" for axis in axes],
        DESCR=f"Random {n_dims}-D vector field, {share:g} curl-free and {1 - share:g} divergence-free",
    )
