"""Darcy flow: from permeability to pressure."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.fft import dctn
from scipy.sparse.linalg import splu

from ovk.curves import ProductGrid
from reproduce.data._shared import as_generator, function_pairs
from reproduce.support import Array, Loaded, RandomState, check_int, positive, track


def make_darcy(
    n_samples: int = 200,
    *,
    size: int = 33,
    low: float = 3.0,
    high: float = 12.0,
    smooth: bool = False,
    noise: float = 0.0,
    random_state: RandomState = None,
    return_X_y: bool = False,
) -> Loaded:
    r"""Draw permeabilities of a square block, and solve for the pressure of a fluid in it.

    .. math:: -\nabla \cdot (a \nabla u) = 1 \text{ on } [0, 1]^2, \quad u = 0 \text{ on the boundary}

    With v a Gaussian field of covariance :math:`(-\Delta + 9)^{-2}` (of zero slope at the boundary), the permeability
    is a = `high` where v >= 0 and `low` elsewhere; or :math:`a = \exp(v / \mathrm{std}(v))` if `smooth`. Finite
    differences of second order, with the harmonic mean of a between neighbouring points. Published results for this
    equation use other distributions: compare methods only on the same draw.

    Parameters
    ----------
    n_samples : int
    size : int, at least 5
        Points of the grid in each direction, including the boundary.
    low, high : float > 0
        Permeabilities of the two materials.
    smooth : bool
        Whether the permeability is smooth instead of two materials.
    noise, random_state, return_X_y : as in `ovk.datasets.make_burgers`

    Returns
    -------
    Bunch
        `data` (n, size^2) permeabilities, `target` (n, size^2) pressures, row after row of the fields; `grid` the
        `ProductGrid` of the points; `feature_names`, `target_names`, `DESCR`.

    Examples
    --------
    >>> from reproduce.data import make_darcy
    >>> block = make_darcy(3, size=17, random_state=0)
    >>> block.data.shape, bool((block.target >= 0).all())
    ((3, 289), True)
    """
    n, level = check_int(n_samples, "n_samples"), positive(noise, "noise", zero=True)
    rng = as_generator(random_state)
    N, bounds = check_int(size, "size", least=5), (positive(low, "low"), positive(high, "high"))
    k = np.pi * np.arange(N)
    deviation = 1.0 / (k[:, None] ** 2 + k**2 + 9.0)
    deviation[0, 0] = 0.0  # neither material is favoured
    v = np.stack([_cosines(deviation * rng.standard_normal((N, N))) for _ in range(n)])
    # The mean over the block of the variance of v.
    a = np.exp(v / np.linalg.norm(deviation)) if smooth else np.where(v >= 0, bounds[1], bounds[0])
    u = np.stack([pressure(one) for one in track(list(a), "solving for pressures")])
    return function_pairs(
        f"{n} permeabilities of a square block and the pressures in it",
        a.reshape(n, -1), u.reshape(n, -1), ("a", "u"), ProductGrid.regular((N, N)), level, rng, return_X_y,
    )  # fmt: skip


def _cosines(coefficients: Array) -> Array:
    """sum_kl c_kl b_k(x) b_l(y), b_0 = 1 and b_k(x) = sqrt(2) cos(pi k x), on a regular grid with both ends."""
    # The transform counts all waves but the first and last twice.
    weight = np.full(len(coefficients), np.sqrt(0.5))
    weight[0], weight[-1] = 1.0, np.sqrt(2.0)
    return np.asarray(dctn(coefficients * np.outer(weight, weight), type=1))


def pressure(permeability: Array) -> Array:
    """u, (N, N), with -div(a grad u) = 1 inside and u = 0 on the boundary.

    With h the spacing and a_e the harmonic mean of a at the ends of an edge, sum_e a_e (u - u_e) = h^2.
    """
    a, N = permeability, len(permeability)
    h = 1.0 / (N - 1)
    down = 2.0 / (1.0 / a[:-1] + 1.0 / a[1:])  # (N - 1, N), edges between rows
    right = 2.0 / (1.0 / a[:, :-1] + 1.0 / a[:, 1:])
    m = N - 2
    centre = down[:-1, 1:-1] + down[1:, 1:-1] + right[1:-1, :-1] + right[1:-1, 1:]
    below = down[1:-1, 1:-1].ravel()
    beside = np.zeros((m, m))
    beside[:, :-1] = right[1:-1, 1:-1]
    beside = beside.ravel()[:-1]
    matrix = sparse.diags_array(
        [centre.ravel(), -beside, -beside, -below, -below], offsets=[0, 1, -1, m, -m], format="csc"
    )
    u = np.zeros((N, N))
    u[1:-1, 1:-1] = splu(matrix).solve(np.full(m * m, h * h)).reshape(m, m)
    return u
