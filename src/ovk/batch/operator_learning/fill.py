"""Functions that were observed in part: what is missing, from how all of them differ."""

from __future__ import annotations

import warnings

import numpy as np

from ovk._types import Array, Mask

#: Numbers of factors that are tried, in turn, while they help.
RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: Share of the values that is held out to find the number of factors, and rounds of the alternation.
HELD_OUT, ROUNDS = 0.1, 30
#: Numbers of factors in a row that may fail to help.
PATIENCE = 3
#: Share of observed values below which a warning is given.
MOSTLY = 0.5


def fill_gaps(Y: Array, seed: int = 0) -> Array:
    """Functions (n, d) with every nan replaced: y_ij = mean_j + u_i' v_j with a few factors, fitted to what was seen.

    The number of factors is the one that predicts held-out values best.
    """
    seen = ~np.isnan(Y)
    if seen.mean() < MOSTLY:
        warnings.warn(
            f"{1.0 - seen.mean():.0%} of the output values are missing, and filling them can be slow and inaccurate: "
            "put the functions on fewer points, as ovk.curves.common_grid does, or use FunctionalRidgeCV, which fills "
            "nothing",
            UserWarning,
            stacklevel=3,
        )
    mean = np.nanmean(Y, axis=0)
    centred = np.where(seen, Y - mean, 0.0)
    part = seen & (np.random.default_rng(seed).uniform(size=Y.shape) > HELD_OUT)
    out = seen & ~part
    best, rank, worse = float(np.sum(centred[out] ** 2)), 0, 0
    for q in [q for q in RANKS if q <= min(Y.shape) // 2]:
        error = float(np.sum((_factors(np.where(part, centred, 0.0), part, q)[out] - centred[out]) ** 2))
        if error < best:
            best, rank, worse = error, q, 0
        else:
            worse += 1
            # Factors may come in pairs, as sine and cosine do: one more alone need not help.
            if worse == PATIENCE:
                break
    common = mean + (_factors(centred, seen, rank) if rank else 0.0)
    return np.where(seen, Y, common)


def _factors(Y: Array, seen: Mask, q: int) -> Array:
    """U V', (n, d), that minimises sum_seen (y_ij - u_i' v_j)^2 + sigma^2 (|U|^2 + |V|^2), rows and columns in turn.

    Both sides have the same singular values, so the penalty is that of the nuclear norm; sigma^2 is the mean square of
    what is left.
    """
    # Where little was seen the table is smaller than it is by the share that was.
    P, s, Q = np.linalg.svd(Y / max(float(seen.mean()), 1e-3), full_matrices=False)
    U, V = P[:, :q] * np.sqrt(s[:q]), Q[:q].T * np.sqrt(s[:q])
    size = float(np.sum(Y**2)) / max(int(seen.sum()), 1)
    weights = seen.astype(np.float64)
    for _ in range(ROUNDS):
        noise = max(float(np.sum((Y - U @ V.T)[seen] ** 2)) / max(int(seen.sum()), 1), 1e-10 * size)
        U = _ridges(Y, weights, V, noise)
        V = _ridges(Y.T, weights.T, U, noise)
        # Balanced: U and V share the singular values.
        (A, R), (B, S) = np.linalg.qr(U), np.linalg.qr(V)
        left, values, right = np.linalg.svd(R @ S.T)
        U, V = A @ left * np.sqrt(values), B @ right.T * np.sqrt(values)
    return np.asarray(U @ V.T)


def _ridges(Y: Array, weights: Array, V: Array, noise: float) -> Array:
    """For each row i of Y the coefficients (sum_j w_ij v_j v_j' + sigma^2 I)^-1 sum_j w_ij y_ij v_j."""
    q = V.shape[1]
    grams = (weights @ (V[:, :, None] * V[:, None, :]).reshape(len(V), -1)).reshape(-1, q, q)
    grams += max(noise, 1e-300) * np.eye(q)
    return np.asarray(np.linalg.solve(grams, (Y @ V)[:, :, None])[:, :, 0])
