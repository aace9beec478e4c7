"""A stream of rows with related outputs, missing labels and drift."""

from __future__ import annotations

import numpy as np

from ovk.base import Array, Loaded, RandomState, check_int, in_interval, positive
from ovk.datasets._shared import as_generator, bundle


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
