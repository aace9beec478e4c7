"""Choice of kernel, decay and ridge for groups of output coordinates by leave-one-out.

Whitened input coordinates z_j with standard deviations s_j are scaled to s_j^p z_j: p is the decay. Large p emphasises
the leading components, p = 0 weights all alike. A candidate is a kernel with a decay; at every ridge its leave-one-out
residuals are C / H in closed form (`ovk.solvers.leave_one_out`). Many candidates are compared on few functions, the
best of them and their neighbours on more.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from ovk.base import Array, Mask, track
from ovk.batch.operator_learning.exact import symmetric_gram
from ovk.kernels import Gaussian, Linear, Matern, Polynomial, RationalQuadratic, ScalarKernel
from ovk.operators import Identity
from ovk.solvers import SeparablePath, eigenpairs, factored_leave_one_out

#: Default decays.
DECAYS = (0.0, 0.5, 1.0, 1.5, 2.0)
#: Default ridges, for kernels with values about 1.
ALPHAS = tuple(10.0 ** np.arange(-11, 1))
#: Number of functions in each round, and of candidates that are kept for the next.
SEARCH_ROUNDS = ((500, 16), (2000, 6))
#: Largest number of ridges for which a factorisation for each is cheaper than eigenvectors for all.
MAX_FACTORED_RIDGES = 3


@dataclass(frozen=True)
class KernelCandidate:
    kernel: ScalarKernel  # of scaled coordinates
    decay: float


@dataclass(frozen=True)
class ScoredCandidate:
    candidate: KernelCandidate
    alpha: float
    errors: Array  # (r,) mean squares of the leave-one-out residuals of each output coordinate
    amplitudes: Array  # (r,) variances of the process for which the residuals match their variances
    variances: Array  # (m,) 1 / (A^-1)_ii: variances of the leave-one-out values, for amplitude 1
    residuals: Array  # (m, r)


def stretch(scales: Array, decay: float) -> Array:
    """Factors s^p, (J,), normalised so that scaled coordinates have mean square norm 1."""
    relative = scales / scales.max() if scales.max() > 0 else np.ones_like(scales)
    stretched = relative**decay
    return np.asarray(stretched / np.linalg.norm(stretched))


def default_kernels() -> list[ScalarKernel]:
    """Kernels for points with norms about 1, each alone and with a linear one added."""
    kernels: list[ScalarKernel] = [Gaussian(w) for w in (0.7, 1.5, 3.0, 6.0, 12.0)]
    kernels += [Matern(2.5, w) for w in (1.5, 6.0)]
    kernels += [RationalQuadratic(1.0, w) for w in (1.5, 6.0)]
    kernels += [Polynomial(2), Polynomial(3, 0.3)]
    return [Linear(), *kernels, *(Linear() + kernel for kernel in kernels)]


def leave_one_out(
    candidate: KernelCandidate, Z: Array, scales: Array, T: Array, alphas: Sequence[float]
) -> list[ScoredCandidate]:
    """Leave-one-out residuals at every ridge, with an intercept."""
    points = Z * stretch(scales, candidate.decay)
    kernel = candidate.kernel.resolve(points)
    resolved, ones = KernelCandidate(kernel, candidate.decay), np.ones(len(T))
    if len(alphas) <= MAX_FACTORED_RIDGES:
        gram = partial(symmetric_gram, kernel, points)
        parts = [factored_leave_one_out(gram, alpha, T, ones) for alpha in alphas]
    else:
        path = SeparablePath(eigenpairs(kernel(points)), T, ones)
        solutions = path.solutions(Identity(T.shape[1]).eigh(), np.array(alphas))
        parts = [(one.C / one.P[0][:, 0, 0], one.P[0][:, 0, 0, 0]) for one in solutions]
    found = []
    for alpha, (residuals, h) in zip(alphas, parts, strict=True):
        squares = residuals**2
        found.append(ScoredCandidate(resolved, alpha, squares.mean(axis=0), h @ squares / len(T), 1.0 / h, residuals))
    return found


def search(
    Z: Array, scales: Array, T: Array, tried: list[KernelCandidate], alphas: Sequence[float], groups: int, refine: bool
) -> tuple[list[tuple[int, int]], list[ScoredCandidate]]:
    """Groups of output coordinates (start, stop) of about equal leave-one-out error, and the best candidate for each.

    With `refine`, decays and length scales near the best are tried as well. Z, (m, J), are whitened input coordinates
    of functions in random order, `scales`, (J,), their deviations, and T, (m, r), outputs by descending variance.
    """
    if len(tried) == 1 and len(alphas) == 1 and not refine:
        (only,) = leave_one_out(tried[0], Z, scales, T, alphas)
        bounds = _groups(only.errors, groups)
        return bounds, [only] * len(bounds)

    def scored(size: int, ridges: Sequence[float]) -> list[list[ScoredCandidate]]:
        """Scores of all candidates on the first functions, without the residuals, to save memory."""
        some, nothing = slice(0, size), np.empty(0)
        return [
            [replace(one, variances=nothing, residuals=nothing) for one in found]
            for candidate in track(tried, f"leave-one-out on {min(size, len(Z))} functions")
            for found in [leave_one_out(candidate, Z[some], scales, T[some], ridges)]
        ]

    for size, kept in SEARCH_ROUNDS:
        everything = scored(size, alphas)
        bounds, chosen = _best(everything, groups)
        tried = _promising(everything, bounds, kept)
        if size >= len(Z):
            break
    if refine:
        known = [one.candidate for one in chosen]
        several = [*known, *(near for candidate in known for near in _neighbours(candidate))]
        tried = list({(repr(one.kernel), one.decay): one for one in several}.values())
    if refine or size < len(Z):
        bounds, chosen = _best(scored(len(Z), sorted({one.alpha for one in chosen})), groups)
    whole: dict[tuple[str, float, float], ScoredCandidate] = {}
    keys = [(repr(one.candidate.kernel), one.candidate.decay, one.alpha) for one in chosen]
    for key, one in zip(keys, chosen, strict=True):
        if key not in whole:
            (whole[key],) = leave_one_out(one.candidate, Z, scales, T, [one.alpha])
    return bounds, [whole[key] for key in keys]


def _best(everything: list[list[ScoredCandidate]], groups: int) -> tuple[list[tuple[int, int]], list[ScoredCandidate]]:
    """Groups of about equal error under the best candidate, and the best candidate of each."""
    flat = [one for several in everything for one in several]
    bounds = _groups(min(flat, key=lambda one: float(one.errors.sum())).errors, groups)
    return bounds, [min(flat, key=lambda one, a=a, b=b: float(one.errors[a:b].sum())) for a, b in bounds]  # type: ignore[misc]


def _neighbours(candidate: KernelCandidate) -> list[KernelCandidate]:
    """Candidates with a slightly smaller and larger decay, and with slightly smaller and larger length scales."""
    near = [KernelCandidate(candidate.kernel, max(candidate.decay + step, 0.0)) for step in (-0.25, 0.25)]
    params = candidate.kernel.get_params()
    lengths = {name: value for name, value in params.items() if name.endswith("length_scale")}
    for factor in (0.7, 1.4) if lengths else ():
        changed = {name: float(f"{factor * value:.3g}") for name, value in lengths.items()}  # numbers that can be read
        near.append(KernelCandidate(candidate.kernel.replace(**changed), candidate.decay))
    return near


def _groups(errors: Array, count: int) -> list[tuple[int, int]]:
    """Coordinates in order, split into at most `count` groups of about equal error."""
    total = np.cumsum(errors)
    if not total[-1] > 0:
        return [(0, len(errors))]
    cuts = np.searchsorted(total, total[-1] * np.arange(1, count) / count) + 1
    return list(pairwise([0, *sorted({int(cut) for cut in cuts if cut < len(errors)}), len(errors)]))


def _promising(
    everything: list[list[ScoredCandidate]], bounds: list[tuple[int, int]], count: int
) -> list[KernelCandidate]:
    """`count` candidates that rank first for some group, taken from the groups in turn."""
    best = [[min(float(one.errors[a:b].sum()) for one in several) for several in everything] for a, b in bounds]
    in_turn = np.argsort(best, axis=1, kind="stable").T.ravel().tolist()
    return [everything[i][0].candidate for i in list(dict.fromkeys(in_turn))[:count]]


# Partially observed functions: missing values from a factor model.

#: Numbers of factors, tried in turn while the error decreases.
RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: Share of values held out to choose the number of factors, and rounds of alternating least squares.
HELD_OUT_SHARE, FILL_ROUNDS = 0.1, 30
#: Consecutive numbers of factors without improvement after which the search stops.
MAX_FAILED_RANKS = 3
#: Share of observed values below which a warning is given.
MIN_SHARE_OBSERVED = 0.5


def fill_gaps(Y: Array) -> Array:
    """Functions (n, d) with every nan replaced by mean_j + u_i' v_j, with factors fitted to the observed values.

    The number of factors is the one that predicts held-out values best.
    """
    seen = ~np.isnan(Y)
    if seen.mean() < MIN_SHARE_OBSERVED:
        warnings.warn(
            f"{1.0 - seen.mean():.0%} of the output values are missing; filling them can be slow and inaccurate: use "
            "fewer grid points (ovk.curves.common_grid) or FunctionalRidgeCV, which does not fill gaps",
            stacklevel=3,
        )
    mean = np.nanmean(Y, axis=0)
    centred = np.where(seen, Y - mean, 0.0)
    part = seen & (np.random.default_rng(0).uniform(size=Y.shape) > HELD_OUT_SHARE)
    out = seen & ~part
    best, rank, worse = float(np.sum(centred[out] ** 2)), 0, 0
    for q in [q for q in RANKS if q <= min(Y.shape) // 2]:
        error = float(np.sum((_factors(np.where(part, centred, 0.0), part, q)[out] - centred[out]) ** 2))
        # Factors may come in pairs, such as sine and cosine: a single one need not reduce the error.
        best, rank, worse = (error, q, 0) if error < best else (best, rank, worse + 1)
        if worse == MAX_FAILED_RANKS:
            break
    return np.where(seen, Y, mean + (_factors(centred, seen, rank) if rank else 0.0))


def _factors(Y: Array, seen: Mask, q: int) -> Array:
    """U V', (n, d), that minimises sum_seen (y_ij - u_i' v_j)^2 + sigma^2 (|U|^2 + |V|^2), rows and columns in turn.

    U and V are kept balanced, so the penalty is the nuclear norm; sigma^2 is the mean squared residual.
    """
    # Zeros for missing values shrink the table by the observed share.
    P, s, Q = np.linalg.svd(Y / max(float(seen.mean()), 1e-3), full_matrices=False)
    U, V = P[:, :q] * np.sqrt(s[:q]), Q[:q].T * np.sqrt(s[:q])
    size = float(np.sum(Y**2)) / max(int(seen.sum()), 1)
    weights = seen.astype(np.float64)
    for _ in range(FILL_ROUNDS):
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
