"""Regression problems with many outputs: linear tasks in a common subspace, and a stream that drifts."""

from __future__ import annotations

import numpy as np

from ovk.base import Array, Loaded, RandomState, check_int, in_interval, positive
from ovk.datasets._shared import as_generator, bundle

#: Standard deviations of the five weights in the publication: the roots of 1, 0.64, 0.49, 0.36 and 0.25.
_PUBLISHED = (1.0, 0.8, 0.7, 0.6, 0.5)


def make_multitask(
    n_samples: int = 10000,
    n_features: int = 50,
    n_outputs: int = 20,
    *,
    rank: int = 5,
    noise: float = 0.1,
    random_state: RandomState = None,
    return_X_y: bool = False,
) -> Loaded:
    r"""Draw the low-rank multi-task problem of Argyriou, Evgeniou and Pontil (2008).

    .. math:: y_{it} = \langle w_t, x_i \rangle + \epsilon_{it}, \quad x_i \sim U[0, 1]^p, \quad
              \epsilon_{it} \sim N(0, \text{noise}^2)

    The first `rank` weights of every task are drawn from
    :math:`N(0, \mathrm{Diag}(1, 0.64, 0.49, 0.36, 0.25))`, the others are zero: only the first `rank` features matter,
    and all tasks see the same inputs.
    For a `rank` other than 5 the standard deviations 1, 0.8, 0.7, 0.6, 0.5 are interpolated.

    Parameters
    ----------
    n_samples, n_features, n_outputs : int
        Sizes n, p and d.
    rank : int
        Dimension of the subspace that holds all weights, at most `n_features`.
    noise : float >= 0
        Standard deviation of the Gaussian noise on every output.
    random_state : int, Generator, RandomState or None
        Seed or generator of weights, inputs and noise.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (n, p), `target` (n, d), `coef` (p, d) with ``target = data @ coef + noise``, `feature_names`,
        `target_names`, `DESCR`.

    References
    ----------
    Argyriou, Evgeniou and Pontil (2008), Convex multi-task feature learning, Machine Learning 73(3), 243-272.

    Examples
    --------
    >>> from ovk.datasets import make_multitask
    >>> import numpy as np
    >>> tasks = make_multitask(100, 30, 20, random_state=0)
    >>> tasks.data.shape, tasks.target.shape, int(np.linalg.matrix_rank(tasks.coef))
    ((100, 30), (100, 20), 5)
    """
    n, p, d = check_int(n_samples, "n_samples"), check_int(n_features, "n_features"), check_int(n_outputs, "n_outputs")
    r, sigma = check_int(rank, "rank"), positive(noise, "noise", zero=True)
    if r > p:
        raise ValueError(f"rank must be at most n_features, got rank={r} and n_features={p}")
    rng = as_generator(random_state)
    coef = np.zeros((p, d))
    coef[:r] = _scales(r)[:, None] * rng.standard_normal((r, d))
    data = rng.uniform(size=(n, p))
    target = data @ coef + sigma * rng.standard_normal((n, d))
    return bundle(
        f"{d} linear tasks of rank {r} on {p} features, after Argyriou, Evgeniou and Pontil (2008)",
        data,
        target,
        [f"x{j}" for j in range(p)],
        [f"task{t}" for t in range(d)],
        return_X_y,
        coef=coef,
    )


def _scales(rank: int) -> Array:
    """Standard deviations of the weights; the published ones for rank 5."""
    return np.interp(np.linspace(0, len(_PUBLISHED) - 1, rank), np.arange(len(_PUBLISHED)), _PUBLISHED)


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
    r"""Draw a stream whose outputs share a function that moves as time goes by.

    .. math:: y_{tq} = g(x_t + s_t) + \text{own} \; h_q(x_t) + \epsilon_{tq}, \quad x_t \sim U[-2, 2]^2

    g and every h_q are sums of twelve random waves with variance 1. The shift :math:`s_t` grows from 0 to `drift`,
    along the diagonal, over the second third of the stream: what was learned of g in the first third is then at the
    wrong place.

    Parameters
    ----------
    n_samples, n_outputs : int
        Sizes n and d.
    missing : float in [0, 1)
        Part of the labels that were not observed, at random.
    drift : float >= 0
        How far g moves.
    own : float >= 0
        How much of an output is its own.
    noise : float >= 0
        Standard deviation of the noise.
    random_state : int, Generator, RandomState or None
        Seed or generator of waves, inputs, noise and gaps.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (n, 2), `target` (n, d) with nan where missing, `truth` (n, d) without noise or gaps, `feature_names`,
        `target_names`, `DESCR`.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.datasets import make_stream
    >>> stream = make_stream(500, 4, random_state=0)
    >>> stream.target.shape, bool(0.85 < np.isnan(stream.target).mean() < 0.95)
    ((500, 4), True)
    """
    n, d = check_int(n_samples, "n_samples"), check_int(n_outputs, "n_outputs")
    part = in_interval(missing, "missing", 0.0, 1.0)
    far, mine = positive(drift, "drift", zero=True), positive(own, "own", zero=True)
    sigma = positive(noise, "noise", zero=True)
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
        f"a stream of {n} rows with {d} coupled outputs, {part:.0%} of the labels missing, drifting by {far:g}",
        X,
        target,
        ["x0", "x1"],
        [f"output {q}" for q in range(d)],
        return_X_y,
        truth=truth,
    )
