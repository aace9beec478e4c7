"""Multi-target regression: the benefit of coupling with complete and with mostly missing outputs.

With complete outputs the benefit is small, because a new point has no outputs to learn from; the first test is that
choosing or learning the operator does no harm. With most outputs missing, outputs borrow strength from each other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls
from scipy.stats import rankdata
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold

from ovk.batch import OutputKernelRidge, OVKRidge, OVKRidgeCV, tune
from ovk.kernels import Gaussian, Laplacian, Matern, median_distance
from ovk.operators import Identity
from ovk.ovkernels import Separable
from reproduce.data import load_mtr
from reproduce.multitask_gp import installed, multitask_gp
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, Indices, ticker

SETS = ("andro", "edm", "enb", "jura", "slump", "wq", "sf1", "atp1d")
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of the Gaussian kernel, times the median distance
ROUGH_WIDTHS = (0.5, 1.0, 2.0, 4.0)  # of the Laplacian kernel
OMEGAS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
ALPHAS = tuple(np.logspace(-4, 2, 13).tolist())
#: Fewer candidates: with missing outputs, each costs an eigendecomposition of the observed values.
FEW_WIDTHS, FEW_OMEGAS = (0.5, 1.0, 2.0, 4.0), (0.0, 0.5, 0.9)
#: Maximum rows for tuning, inputs with separate widths, and values for the Gaussian process.
TUNED_ROWS, OWN_WIDTHS, SMALL, MOST_OBSERVED = 400, 60, 400, 1500

#: Strength of the shrinkage of stacking weights towards equal ones, in observations.
PULL = 3.0

APART, COUPLED, LEARNED, TUNED = "per-output KernelRidge", "operator by leave-one-out", "learned operator", "tuned"
WIDTHS_TUNED = "tuned, a width for each input"
STACKED, TREES, GP = "stack of ours", "ExtraTrees", "GPyTorch multitask GP"


class Fold(NamedTuple):
    """Standardised training inputs and outputs (nan where not observed) and test inputs."""

    X: Array
    Y: Array
    new: Array
    seed: int


def kernels(X: Array, *, few: bool = False) -> list[Gaussian | Laplacian]:
    """The candidate kernels of all contenders."""
    middle, rough = median_distance(X), median_distance(X, "cityblock")
    if few:
        return [Gaussian(width * middle) for width in FEW_WIDTHS]
    return [Gaussian(width * middle) for width in WIDTHS] + [Laplacian(width * rough) for width in ROUGH_WIDTHS]


def ridge(kernel: Gaussian | Laplacian, alpha: float, X: Array, y: Array, new: Array) -> Array:
    """scikit-learn's KernelRidge with one of our kernels."""
    scale = float(kernel.length_scale)
    rough = isinstance(kernel, Laplacian)
    model = KernelRidge(
        kernel="laplacian" if rough else "rbf", gamma=1.0 / scale if rough else 0.5 / scale**2, alpha=alpha
    )
    return np.asarray(model.fit(X, y).predict(new), dtype=np.float64)


def left_out(kernel: Separable, alpha: float | Array, X: Array, Y: Array) -> Array:
    """Predictions of each row from the others, (n, d), in closed form; nan where an output was not observed.

    Rows with the same inputs are held out together, unless there are too many values.
    """
    groups = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    root = np.sqrt(np.broadcast_to(alpha, Y.shape[1]))
    if np.isnan(Y).any() or (groups.max() + 1 < len(X) and Y.size <= MOST_OBSERVED):
        return _left_out_pairs(kernel, root, X, Y, groups)
    # In the eigenvectors of gram and operator, entries decouple.
    t, V = np.linalg.eigh(kernel.operator.dense() / np.outer(root, root))
    g, Q = np.linalg.eigh(kernel.scalar(X))
    inverse = 1.0 / (1.0 + np.outer(np.maximum(g, 0.0), np.maximum(t, 0.0)))
    residuals = (Q @ (inverse * (Q.T @ (Y / root) @ V))) / (Q**2 @ inverse)
    result: Array = Y - residuals @ V.T * root
    return result


def _left_out_pairs(kernel: Separable, root: Array, X: Array, Y: Array, groups: Indices) -> Array:
    """The residuals of a group that is left out are S^-1 (A^-1 y), S its block of A^-1, A = K + I."""
    points, outputs = np.nonzero(~np.isnan(Y))
    scale = root[outputs]
    inverse = np.linalg.inv(kernel.pairs(X[points], outputs) / np.outer(scale, scale) + np.eye(len(points)))
    weights = inverse @ (Y[points, outputs] / scale)
    predictions = np.full(Y.shape, np.nan)
    for group in np.unique(groups[points]):
        rows = np.flatnonzero(groups[points] == group)
        residuals = np.linalg.solve(inverse[np.ix_(rows, rows)], weights[rows]) * scale[rows]
        predictions[points[rows], outputs[rows]] = Y[points[rows], outputs[rows]] - residuals
    return predictions


def complete(fold: Fold, peers: bool) -> dict[str, Array]:
    """Predictions of every contender when all outputs are seen."""
    X, Y, new, _ = fold
    d = Y.shape[1]
    candidates = kernels(X)
    coupled = OVKRidgeCV(candidates, ALPHAS, omegas=OMEGAS, fit_intercept=False).fit(X, Y)
    surface = coupled.output_errors_[:, 0]  # omega = 0: independent outputs
    best = [divmod(int(surface[..., q].argmin()), surface.shape[1]) for q in range(d)]
    found = {
        APART: np.column_stack([ridge(candidates[k], ALPHAS[a], X, Y[:, q], new) for q, (k, a) in enumerate(best)]),
        COUPLED: coupled.predict(new),
    }
    shared = candidates[int(surface.mean(axis=-1).min(axis=1).argmin())]
    learned = OutputKernelRidge(shared, fit_intercept=False).fit(X, Y)
    tuned = _tuned(fold)
    found[LEARNED], found[TUNED] = learned.predict(new), tuned.predict(new)
    ours = [(model.kernel_, model.alpha_) for model in (coupled, learned, tuned)]
    guesses = [left_out(kernel, alpha, X, Y) for kernel, alpha in ours]
    apart = [
        left_out(Separable(candidates[k], Identity(1)), ALPHAS[a], X, Y[:, q : q + 1]) for q, (k, a) in enumerate(best)
    ]
    guesses.append(np.hstack(apart))
    found[STACKED] = _stacked(guesses, Y, [found[name] for name in (COUPLED, LEARNED, TUNED, APART)])
    if peers:
        found[TREES] = ExtraTreesRegressor(200, random_state=fold.seed).fit(X, Y).predict(new).reshape(len(new), d)
        if Y.size <= SMALL and installed():
            found[GP] = _gp(fold)
    return found


def _stacked(guesses: list[Array], Y: Array, predictions: list[Array]) -> Array:
    """Stacking: for each output, weights >= 0 that fit the outputs best by leave-one-out predictions."""
    columns = []
    for q in range(Y.shape[1]):
        seen = ~np.isnan(Y[:, q])
        k = len(guesses)
        # Shrinkage towards equal weights, for outputs with few observations.
        pull = np.sqrt(PULL) * np.eye(k)
        design = np.vstack([np.column_stack([guess[seen, q] for guess in guesses]), pull])
        weights, _ = nnls(design, np.concatenate([Y[seen, q], pull.sum(axis=0) / k]))
        columns.append(np.column_stack([prediction[:, q] for prediction in predictions]) @ weights)
    return np.column_stack(columns)


def _tuned(fold: Fold) -> OVKRidge:
    """Widths, operator and noise by the evidence of some of the rows, then ridge regression on all of them."""
    X, Y, _, seed = fold
    rows = np.random.default_rng(seed).permutation(len(X))[:TUNED_ROWS]
    found = _by_evidence(X[rows], Y[rows], own=X.shape[1] <= OWN_WIDTHS)
    return OVKRidge(found.kernel_, found.alpha_, fit_intercept=False).fit(X, Y)


def _by_evidence(X: Array, Y: Array, *, own: bool) -> OVKRidge:
    """A Matern kernel with one width, or with one for each input."""
    middle = 2.0 * median_distance(X)
    start = OVKRidge(Matern(1.5, np.full(X.shape[1], middle) if own else middle), fit_intercept=False)
    return tune(start, X, Y, rank=min(2, Y.shape[1]), restarts=1, max_iter=60)


def _gp(fold: Fold) -> Array:
    X, Y, new, _ = fold
    d = Y.shape[1]
    points, outputs = np.nonzero(~np.isnan(Y))
    every, each = np.repeat(np.arange(len(new)), d), np.tile(np.arange(d), len(new))
    ard = X.shape[1] <= OWN_WIDTHS
    values = multitask_gp(
        X[points], outputs, Y[points, outputs], new[every], each, d=d, rank=min(2, d), nu=1.5, ard=ard
    )
    return values.reshape(len(new), d)


def partial(fold: Fold, peers: bool) -> dict[str, Array]:
    """The same when outputs are missing; every contender chooses from fewer candidates."""
    X, Y, new, seed = fold
    d = Y.shape[1]
    candidates = kernels(X, few=True)
    apart, trees, guess = np.empty((len(new), d)), np.empty((len(new), d)), np.full(Y.shape, np.nan)
    for q in range(d):
        rows = ~np.isnan(Y[:, q])
        own = OVKRidgeCV(candidates, ALPHAS, fit_intercept=False).fit(X[rows], Y[rows, q])
        apart[:, q] = ridge(own.kernel_.kernel, own.alpha_, X[rows], Y[rows, q], new)
        guess[rows, q] = left_out(own.kernel_, own.alpha_, X[rows], Y[rows, q : q + 1])[:, 0]
        if peers:
            trees[:, q] = ExtraTreesRegressor(200, random_state=seed).fit(X[rows], Y[rows, q]).predict(new)
    coupled = OVKRidgeCV(candidates, ALPHAS, omegas=FEW_OMEGAS, fit_intercept=False).fit(X, Y)
    models = {COUPLED: coupled, TUNED: _by_evidence(X, Y, own=False)}
    if X.shape[1] <= OWN_WIDTHS:
        models[WIDTHS_TUNED] = _by_evidence(X, Y, own=True)
    found = {APART: apart} | {name: model.predict(new) for name, model in models.items()}
    guesses = [left_out(model.kernel_, model.alpha_, X, Y) for model in models.values()]
    found[STACKED] = _stacked([*guesses, guess], Y, [found[name] for name in (*models, APART)])
    if peers:
        found[TREES] = trees
        if (~np.isnan(Y)).sum() <= SMALL and installed():
            found[GP] = _gp(fold)
    return found


def hide(Y: Array, share: float, rng: np.random.Generator) -> Array:
    """Y with about that share of observed values, at least five of each output."""
    keep = rng.random(Y.shape) < share
    for q in range(Y.shape[1]):
        keep[rng.permutation(len(Y))[:5], q] = True
    return np.where(keep, Y, np.nan)


def relative_errors(
    X: Array, Y: Array, folds: int, seed: int, share: float, peers: bool, tick: Callable[[], None]
) -> dict[str, float]:
    """Average relative root mean squared error of every contender, squared errors added over the folds."""
    totals: dict[str, Array] = {}
    mean = np.zeros(Y.shape[1])
    rng = np.random.default_rng(seed)
    for train, test in KFold(folds, shuffle=True, random_state=seed).split(X):
        seen = Y[train] if share >= 1 else hide(Y[train], share, rng)
        used = X[train].std(axis=0) > 0
        centre, spread = X[train][:, used].mean(axis=0), X[train][:, used].std(axis=0)
        middle, sd = np.nanmean(seen, axis=0), np.nanstd(seen, axis=0)
        sd[sd == 0] = 1.0
        inputs, new = ((X[rows][:, used] - centre) / spread for rows in (train, test))
        run = complete if share >= 1 else partial
        with warnings.catch_warnings():
            # Tuning stops after a given number of steps, as in the Gaussian process.
            warnings.simplefilter("ignore", ConvergenceWarning)
            predictions = run(Fold(inputs, (seen - middle) / sd, new, seed), peers)
        for name, prediction in predictions.items():
            total = totals.setdefault(name, np.zeros(Y.shape[1]))
            total += ((Y[test] - prediction * sd - middle) ** 2).sum(axis=0)
        # Relative to the mean of all training outputs, so that missing outputs do not change the baseline.
        mean += ((Y[test] - Y[train].mean(axis=0)) ** 2).sum(axis=0)
        tick()
    return {name: float(np.sqrt(total / mean).mean()) for name, total in totals.items()}


@reproduction("mtr", "benchmark sets of Spyromitros-Xioufis et al. 2016")
def mtr(
    data_home: str | Path | None = None,
    sets: Sequence[str] = SETS,
    seeds: Sequence[int] = (0,),
    folds: int = 10,
    observed: Sequence[float] = (1.0, 0.3, 0.1),
    peers: bool = True,
) -> Result:
    """Average relative root mean squared error of eight data sets, with all, 30% and 10% of the outputs observed."""
    rows: list[Row] = []
    tick = ticker("mtr", len(sets) * len(observed) * len(seeds) * folds)
    for share in observed:
        label = "" if share >= 1 else f", {share:.0%} observed"
        table: list[dict[str, float]] = []
        for name in sets:
            bunch = load_mtr(name, data_home=data_home)
            if share < 1 and share * bunch.target.size > MOST_OBSERVED:
                continue
            runs = [relative_errors(bunch.data, bunch.target, folds, seed, share, peers, tick) for seed in seeds]
            table.append({key: float(np.mean([run[key] for run in runs])) for key in runs[0]})
            shape = f"{len(bunch.data)} rows, {bunch.target.shape[1]} outputs"
            rows += [Row(f"{name}, {key}{label}", value, setting=shape) for key, value in table[-1].items()]
        rows += _summary(table, label)
    return Result(
        title="Multi-target regression: operators chosen, learned and tuned",
        measure="average relative root mean squared error (1 is the mean of the training outputs), small is good",
        data=f"mtr: {', '.join(sets)}",
        rows=rows,
        remarks=[
            f"{folds}-fold cross-validation, seeds {list(seeds)}; squared errors are added over the folds before they "
            "are divided; inputs and outputs standardised on the training folds.",
            "Per-output KernelRidge: scikit-learn's, a kernel and an alpha of its own for each output, by closed-form "
            "leave-one-out over the same kernels and alphas as the coupled model, which has one kernel, alpha and "
            "omega for all. Learned: OutputKernelRidge with that kernel. Tuned: ovk.tune by evidence on at most "
            f"{TUNED_ROWS} rows, a width for each of up to {OWN_WIDTHS} inputs. Stack: those and outputs apart, "
            "combined by their left-out predictions.",
            f"GPyTorch (Matern, rank 2, a width for each input, Adam) where a fold has at most {SMALL} values; it does "
            "not count in the ranks.",
            f"With missing outputs everybody chooses from {len(FEW_WIDTHS)} Gaussian kernels, tuning is done with one "
            "width and with one for each input, trees are grown for each output, and sets with more than "
            f"{MOST_OBSERVED} observed values are left out.",
        ],
    )


def _summary(table: list[dict[str, float]], label: str) -> list[Row]:
    """Average ranks of the contenders that ran everywhere, and the effect of coupling."""
    if not table:
        return []
    everywhere = [key for key in table[0] if key != GP and all(key in errors for errors in table)]
    ranks = np.mean([rankdata([errors[key] for key in everywhere]) for errors in table], axis=0)
    rows = [
        Row(f"average rank, {key}{label}", float(rank), setting=f"of {len(everywhere)}, {len(table)} sets")
        for key, rank in zip(everywhere, ranks, strict=True)
    ]
    changes = [100 * (errors[COUPLED] / errors[APART] - 1) for errors in table]
    return [*rows, Row(f"mean change by coupling in percent{label}", float(np.mean(changes)))]
