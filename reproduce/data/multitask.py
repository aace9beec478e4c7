"""Linear tasks whose weights lie in a common subspace."""

from __future__ import annotations

import numpy as np

from reproduce.data._shared import as_generator, bundle
from reproduce.support import Array, Loaded, RandomState, check_int, positive

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
    and all tasks have the same inputs.
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
    >>> from reproduce.data import make_multitask
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
