"""Comparison of kernels for vector fields: weights, length scales and noise of each, and the best of them.

Kernels are compared on a few rows, half of them drawn at random and the others their nearest neighbours, because
roughness and noise appear only between nearby rows. Within a family, each search starts at the result for the smoother
profile. The best two are then compared on all rows, and the search continues with the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree

from ovk.base import Array, Indices, SingularSystemError, Targets
from ovk.batch.ridge.ridge_system import merge_same_inputs, same_inputs
from ovk.batch.tuning.tune import Search, TuningCriterion, TuningInfo
from ovk.features import OperatorNystromMap
from ovk.kernels import Gaussian, Matern, ScalarKernel, Scaled, Stationary
from ovk.operators import Identity
from ovk.ovkernels import CurlFree, DivFree, OperatorKernel, Separable, WeightedSum
from ovk.solvers import cholesky_factor

#: From the smoothest to the roughest.
PROFILES = (Gaussian("median"), Matern(2.5, "median"), Matern(1.5, "median"), Matern(0.5, "median"))
KINDS = ("helmholtz", "curl-free", "div-free", "independent")
#: Length scales of the starting points, as multiples of the given ones, and steps of each search.
START_SCALES, MAX_SEARCH_STEPS = (1.0, 0.3, 3.0, 0.1), 60
#: Rows on which kernels are compared, and steps on all rows after that.
COMPARISON_ROWS, FINAL_STEPS = 160, 6
#: A search ends when a step gains less than this per observed number.
SEARCH_TOL = 2e-5
#: Required advantage of independent components, in nats or relative to the leave-one-out error: only the split kernels
#: give the parts of the field, so they are preferred otherwise.
MIN_ADVANTAGE = {"evidence": 2.0, "loo": 0.01}


class ChosenKernel(NamedTuple):
    kernel: OperatorKernel
    noise: float
    values: Array  # the criterion for each observed number at the end of each search
    compared: dict[str, float]  # that of every kernel, on the rows of the comparison


def profiles(profile: Any) -> list[Stationary]:
    if isinstance(profile, str) and profile == "auto":
        return list(PROFILES)
    given = list(profile) if isinstance(profile, (list, tuple)) else [profile]
    if not given or not all(isinstance(one, Stationary) for one in given):
        raise ValueError(f"profile must be 'auto', a stationary kernel or a list of such kernels, got {profile!r}")
    return given


def field_kernels(kind: str | None, profile: Any, p: int, d: int) -> dict[str, OperatorKernel]:
    """Kernels by name: of one kind, or with and without the split into curl-free and divergence-free parts.

    Profiles whose fields have no second derivative, Matern with nu <= 1, are only for independent components.
    """
    splits = p == d and p >= 2
    kinds = ["helmholtz", "independent"] if kind is None and splits else ["independent" if kind is None else kind]
    makers: dict[str, Callable[[Stationary], OperatorKernel]] = {
        "helmholtz": lambda scalar: CurlFree(scalar) + DivFree(scalar),
        "curl-free": CurlFree,
        "div-free": DivFree,
        "independent": lambda scalar: Separable(scalar, Identity()),
    }
    found = {
        f"{one}, {scalar!r}": makers[one](scalar)
        for one in kinds
        for scalar in profiles(profile)
        if one == "independent" or not (isinstance(scalar, Matern) and scalar.nu <= 1)
    }
    if not found:
        raise ValueError(f"profile must be smooth with kernel={kind!r}, for example Matern(1.5), got {profile!r}")
    return found


def choose_kernel(
    kernels: Mapping[str, OperatorKernel],
    X: Any,
    targets: Targets,
    groups: Indices | None,
    alpha: float | None,
    criterion: str,
    *,
    intercept: bool,
    restarts: int,
    rng: Any,
) -> ChosenKernel:
    """The best of several resolved kernels, tuned, and the noise variance unless `alpha` is given.

    The search is on outputs of mean square 1, so that the result follows the unit of the outputs.
    """
    unit = float(np.sqrt(np.nanmean(targets.Y**2))) or 1.0
    targets = replace(targets, Y=targets.Y / unit)
    alpha = None if alpha is None else alpha / unit**2

    def made(kernel: OperatorKernel, rows: Any) -> Search:
        own = None if groups is None else groups[rows]
        return field_search(kernel, X[rows], targets.rows(rows), own, alpha, criterion, intercept=intercept)

    few = near_rows(X, COMPARISON_ROWS, rng)
    found: dict[str, tuple[Search, Array, TuningInfo]] = {}
    singular: SingularSystemError | None = None
    for name, kernel in kernels.items():
        search = made(kernel, few)
        before = [end for other, end, _ in found.values() if other.tuned == search.tuned]
        starts = before[-1:] or search.starts_of_widths(START_SCALES[:restarts])
        try:
            found[name] = (search, *search.run(starts, MAX_SEARCH_STEPS, scale=_units(search), tol=SEARCH_TOL))
        except SingularSystemError as error:
            # The system of a rough kernel is singular to rounding where rows nearly coincide.
            singular = error
    if singular is not None and not found:
        raise singular
    compared = {
        name: float(_given_unit(search, info.restarts, unit).min()) for name, (search, _, info) in found.items()
    }
    best = sorted(found, key=lambda name: _penalised(found[name][2].value, name, criterion))
    if X.shape[0] == len(few):
        search, end, info = found[best[0]]
    else:
        again = []
        for name in best[:2]:
            search = made(kernels[name], slice(None))
            start = search.inside(found[name][1])
            value = search.objective(start)[0] if len(found) > 1 else 0.0
            again.append((_penalised(value, name, criterion), search, start))
        _, search, start = min(again, key=lambda one: one[0])
        end, info = search.run([start], FINAL_STEPS, scale=_units(search), tol=SEARCH_TOL)
    kernel, noise = search.at(end)
    kernel, variance = _multiplied(kernel, unit**2), float(noise[0]) * unit**2
    return ChosenKernel(kernel, variance, _given_unit(search, info.restarts, unit), compared)


def _given_unit(search: Search, values: list[float], unit: float) -> Array:
    """Convert criterion values per observed number from outputs y / unit to outputs y."""
    criterion, each = search.criterion, np.array(values) / _units(search)
    if criterion.name == "evidence":
        return np.asarray(each + np.log(unit) * criterion.degrees_of_freedom / _units(search))
    return np.asarray(each * unit**2)


def _multiplied(kernel: OperatorKernel, factor: float) -> OperatorKernel:
    separable = kernel.as_separable()
    if separable is not None:
        scalar: ScalarKernel = separable.kernel
        if isinstance(scalar, Scaled):
            factor, scalar = factor * scalar.factor, scalar.kernel
        return Separable(factor * scalar, separable.operator)
    weights, terms = zip(*kernel.summands(), strict=True)
    return WeightedSum(list(terms), [factor * weight for weight in weights])


def _units(search: Search) -> float:
    return len(search.criterion.pairs) if search.criterion.name == "evidence" else 1.0


def _penalised(value: float, name: str, criterion: str) -> float:
    if name.startswith("independent"):
        value = value + MIN_ADVANTAGE["evidence"] if criterion == "evidence" else value * (1.0 + MIN_ADVANTAGE["loo"])
    # Of kernels that are equal up to rounding, the first and smoothest one is chosen.
    return float(f"{value:.8e}")


def near_rows(X: Any, count: int, rng: Any) -> Indices:
    """Indices of at most `count` rows, half drawn at random and the others their nearest neighbours."""
    n = X.shape[0]
    if n <= count:
        return np.arange(n)
    order = rng.permutation(n)
    first = order[: count // 2]
    neighbours = np.empty(0, dtype=np.intp) if sparse.issparse(X) else cKDTree(X).query(X[first], k=2)[1].ravel()
    rows = np.array(list(dict.fromkeys([*first.tolist(), *neighbours.tolist(), *order.tolist()]))[:count])
    return np.sort(rows)


def field_search(
    kernel: OperatorKernel,
    X: Any,
    targets: Targets,
    groups: Indices | None,
    alpha: float | None,
    criterion: str,
    *,
    intercept: bool,
) -> Search:
    """The search for weights and length scales of a sum of kernels and, unless `alpha` is given, the noise.

    Complete rows with the same inputs and the same group are merged into one row with their total weight.
    """
    repeats, within = 0.0, np.zeros(targets.d)
    if targets.complete:
        same = same_inputs(X)
        first = np.unique(same, return_index=True)[1]
        if groups is None or len(first) == len(np.unique(np.column_stack([same, groups]), axis=0)):
            repeats = float(len(targets.Y) if targets.weight is None else targets.weight.sum())
            X, targets, within = merge_same_inputs(X, targets, same)
            groups = None if groups is None else groups[first]
            repeats -= len(targets.Y)
    suits = TuningCriterion(X, targets, criterion, groups=groups, constants=intercept, repeats=repeats, within=within)
    # With only two distinct inputs, the prediction of the held-out one is the intercept, whatever the kernel.
    different = len(np.unique(same_inputs(X)))
    if criterion == "loo" and intercept and (different < 3 or len(np.unique(suits.pairs.groups)) < 2):
        raise ValueError(
            "criterion='loo' with fit_intercept=True requires at least 2 groups and 3 distinct inputs, got "
            f"{different} distinct inputs: use criterion='evidence'"
        )
    power, square = float(suits.pairs.values.var()), float((suits.pairs.values**2).mean())
    if power <= 1e-28 * square:
        # Equal numbers: their variance is zero or rounding.
        power = square or 1.0
    if kernel.as_separable() is not None:
        start = _multiplied(kernel, power)
    else:
        weights = np.array([weight for weight, _ in kernel.summands()])
        # The search is over logarithms, so a weight of zero would stay zero.
        shares = np.maximum(weights, 1e-3 * weights.max())
        start = WeightedSum([term for _, term in kernel.summands()], (power * shares / shares.sum()).tolist())
    return Search(suits, start, 0.1 * power if alpha is None else alpha, shared=True, fixed=alpha is not None)


# Vector field consensus: which observations follow a field, and which are outliers (Ma et al. 2013).
#
# An observation is an inlier with probability g, v ~ N(f(x), s^2 I), or an outlier, uniform over a volume a:
#
#     p_i = g exp(-|v_i - f(x_i)|^2 / 2 s^2) / (g exp(-|v_i - f(x_i)|^2 / 2 s^2) + (1 - g) (2 pi s^2)^(d/2) / a)
#     f = ridge regression with weights p and alpha = s^2,   s^2 = sum p |v - f|^2 / (d sum p),   g = sum p / n
#
# in turn (expectation, maximisation). The noise starts at the variance of all observations, so that nearly all of them
# count at first, and decreases as the field is learned.

#: Rounds end when no probability changes by more than this, or after the maximum number.
PROBABILITY_TOL, MAX_ROUNDS = 1e-4, 200


class OutlierEstimate(NamedTuple):
    probability: Array  # (n,) of being an inlier
    variance: float  # of the noise
    share: float  # of inliers
    rounds: int


def estimate_outliers(
    smooth: Callable[[Array, float], Array],
    V: Array,
    weight: Array | None = None,
    *,
    start: OutlierEstimate | None = None,
) -> OutlierEstimate:
    n, d = V.shape
    w = np.ones(n) if weight is None else weight
    extent = np.ptp(V, axis=0)
    # A constant component has no extent: outliers get that of the others.
    extent = np.where(extent > 0, extent, max(float(extent.max()), 1e-300))
    volume = float(np.sum(np.log(extent)))
    centre = w @ V / w.sum()
    spread = float((w @ (V - centre) ** 2).sum()) / (d * w.sum())
    least = 1e-10 * spread
    if not np.ptp(V, axis=0).any():
        return OutlierEstimate(np.ones(n), 0.0, 1.0, 0)
    p, variance, share = (np.ones(n), spread, 0.9) if start is None else start[:3]
    for rounds in range(1, MAX_ROUNDS + 1):
        squares = ((V - smooth(w * p, variance)) ** 2).sum(axis=1)
        if rounds > 1 or start is not None:
            variance = max(float((w * p) @ squares) / (d * float((w * p).sum())), least)
        inlier = np.log(share) - 0.5 * squares / variance - 0.5 * d * np.log(2 * np.pi * variance)
        outlier = np.log1p(-share) - volume
        new = 1.0 / (1.0 + np.exp(np.clip(outlier - inlier, -700, 700)))
        # Bounds that keep both classes from vanishing.
        share = float(np.clip(w @ new / w.sum(), 0.01, 0.999))
        before, p = p, np.maximum(new, 1e-12)
        if np.abs(new - before).max() <= PROBABILITY_TOL:
            break
    return OutlierEstimate(p, variance, share, rounds)


def smoother(
    kernel: OperatorKernel, X: Any, V: Array, landmarks: Any, *, intercept: bool
) -> Callable[[Array, float], Array]:
    """Fitted values at the data as a function of weights and noise; the gram is computed once."""
    n, d = V.shape
    flat = V.reshape(-1)
    constants = np.tile(np.eye(d), (n, 1)) if intercept else np.zeros((n * d, 0))
    if landmarks is None:
        K = kernel.gram(X).dense()

        def smooth(p: Array, variance: float) -> Array:
            # (R K R + s^2) c = R (v - E b), f = K R c + E b
            root = np.repeat(np.sqrt(p), d)
            factor = cholesky_factor(lambda: K * root[:, None] * root, variance)
            RE = constants * root[:, None]
            solved = factor.solve(np.column_stack([root * flat, RE]))
            b = np.linalg.solve(RE.T @ solved[:, 1:], RE.T @ solved[:, 0])
            c = solved[:, 0] - solved[:, 1:] @ b
            return np.asarray(K @ (root * c) + constants @ b).reshape(n, d)

        return smooth
    Phi = np.column_stack([OperatorNystromMap.from_points(kernel, landmarks).transform(X), constants])
    ridge = np.concatenate([np.ones(Phi.shape[1] - constants.shape[1]), np.zeros(constants.shape[1])])

    def smooth_sparse(p: Array, variance: float) -> Array:
        weighted = Phi * np.repeat(p, d)[:, None]
        factor = cholesky_factor(lambda: weighted.T @ Phi + np.diag(variance * ridge), 0.0)
        return np.asarray(Phi @ factor.solve(weighted.T @ flat)).reshape(n, d)

    return smooth_sparse
