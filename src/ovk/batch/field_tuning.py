"""Weights and widths of a sum of kernels, and the noise, chosen by evidence or by leave-one-out with exact gradients.

The criteria of A = K + alpha I on the observed entries, K = sum_k w_k K_k, and their derivatives are those of
`solvers.criteria`, so every hyper-parameter costs one product of matrices entry by entry. Weights of rows are scaled
in, A = R K R + alpha I; a weight says how often the row stands there, and that many observations have their part in
the evidence of alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ovk._progress import ProgressBar
from ovk._validation import Array, Indices
from ovk.batch.repeated import merged, same_inputs
from ovk.batch.targets import Targets
from ovk.ovkernels import OperatorKernel, Scaled, Sum
from ovk.solvers import SingularSystem
from ovk.solvers.criteria import dense_evidence, dense_leave_one_out

#: How far a width may go from where it started, a weight and the noise from the mean square of the outputs.
WIDTHS, WEIGHTS, NOISE = (1e-2, 1e2), (1e-6, 1e4), (1e-7, 1e1)
#: Widths of the second, third, ... start in units of the first.
STARTS = (1.0, 0.3, 3.0, 0.1)


class Observations(NamedTuple):
    """What the criteria see: inputs, the entries observed, and how they are weighted.

    Attributes
    ----------
    X : (n, p)
    entries : (N,) numbers i d + q of the observed entries
    y : (N,) their values
    scale : (N,) square roots of their weights
    E : (N, k) columns of the constants, or None
    groups : (N,) numbers; entries of one number are left out together
    repeats, within : observations beyond one for each row, and their scatter about their means
    """

    X: Any
    entries: Indices
    y: Array
    scale: Array
    E: Array | None
    groups: Indices
    repeats: float
    within: float


@dataclass(frozen=True)
class Tuned:
    """What was chosen: kernel, noise, and the value of the criterion per entry at every start."""

    kernel: OperatorKernel
    alpha: float
    values: list[float]


def weighted_terms(kernel: OperatorKernel) -> list[tuple[float, OperatorKernel]]:
    """A kernel as weights times kernels."""
    if isinstance(kernel, Sum):
        return [term for side in (kernel.left, kernel.right) for term in weighted_terms(side)]
    if isinstance(kernel, Scaled):
        return [(kernel.factor * weight, term) for weight, term in weighted_terms(kernel.kernel)]
    return [(1.0, kernel)]


def weighted_sum(weights: Sequence[float], terms: Sequence[OperatorKernel]) -> OperatorKernel:
    """The kernel sum_k w_k K_k."""
    total: OperatorKernel | None = None
    for weight, term in zip(weights, terms, strict=True):
        scaled = Scaled(float(weight), term)
        total = scaled if total is None else Sum(total, scaled)
    assert total is not None
    return total


class _Objective:
    """A criterion as a function of the logarithms of weights, widths and (when it is not given) the noise."""

    def __init__(self, kernel: OperatorKernel, data: Observations, alpha: float | None, criterion: str) -> None:
        weighted = weighted_terms(kernel)
        self.data, self.alpha, self.criterion = data, alpha, criterion
        self.terms = [term for _, term in weighted]
        self.start_weights = np.array([weight for weight, _ in weighted])
        # One width of a term with one length scale; terms with other parameters keep them.
        self.widths = [(k, name) for k, term in enumerate(self.terms) for name in _width_names(term)]

    def unpack(self, theta: Array) -> tuple[Array, list[OperatorKernel], float]:
        """Weights, terms and noise."""
        values = np.exp(theta)
        m = len(self.terms)
        terms = list(self.terms)
        for (k, name), width in zip(self.widths, values[m:], strict=False):
            terms[k] = terms[k].replace(**{name: float(width)})
        return values[:m], terms, float(values[-1]) if self.alpha is None else self.alpha

    def __call__(self, theta: Array) -> tuple[float, Array]:
        weights, terms, alpha = self.unpack(theta)
        data = self.data
        grams = [self._seen(term.gram(data.X)) for term in terms]
        A = sum(weight * gram for weight, gram in zip(weights, grams, strict=True))
        A[np.diag_indices_from(A)] += alpha
        y, E = data.scale * data.y, None if data.E is None else data.E * data.scale[:, None]
        try:
            if self.criterion == "evidence":
                value, M = dense_evidence(A, y, E)
                value, M = value / len(y), M / len(y)
            else:
                value, M = dense_leave_one_out(A, y, data.groups, E)
        except SingularSystem:
            return 1e10, np.zeros_like(theta)
        slopes = [weight * float(np.vdot(M, gram)) for weight, gram in zip(weights, grams, strict=True)]
        del grams, A
        changes: dict[int, dict[str, Any]] = {k: terms[k].gradient(data.X) for k, _ in self.widths}
        for k, name in self.widths:
            width = terms[k].get_params()[name]
            slopes.append(weights[k] * width * float(np.vdot(M, self._seen(changes[k][name]))))
        if self.alpha is None:
            slopes.append(alpha * float(np.trace(M)))
            if self.criterion == "evidence":
                value += 0.5 * (data.repeats * np.log(2.0 * np.pi * alpha) + data.within / alpha) / len(y)
                slopes[-1] += 0.5 * (data.repeats - data.within / alpha) / len(y)
        return value, np.array(slopes)

    def _seen(self, gram: Any) -> Array:
        """R K R on the observed entries."""
        K: Array = gram.dense()
        entries, scale = self.data.entries, self.data.scale
        if len(entries) < len(K):
            K = K[np.ix_(entries, entries)]
        return K * scale[:, None] * scale


def _width_names(term: OperatorKernel) -> list[str]:
    """Parameters of the term that are a length scale for all inputs."""
    params = term.get_params()
    return [name for name in params if name.endswith("length_scale") and isinstance(params[name], (int, float))]


def tune(
    kernel: OperatorKernel,
    data: Observations,
    *,
    alpha: float | None,
    criterion: str,
    restarts: int,
    max_iter: int = 60,
) -> Tuned:
    """Minimise the criterion from several starts; the kernel must be resolved."""
    objective = _Objective(kernel, data, alpha, criterion)
    power = float((data.y - data.y.mean()) @ (data.y - data.y.mean())) / max(len(data.y), 1) or 1.0
    shares = np.maximum(objective.start_weights, 1e-3 * objective.start_weights.max())
    widths = np.array([float(objective.terms[k].get_params()[name]) for k, name in objective.widths])
    limits = [(power * WEIGHTS[0], power * WEIGHTS[1])] * len(shares)
    limits += [(width * WIDTHS[0], width * WIDTHS[1]) for width in widths]
    noise = [] if alpha is not None else [0.1 * power]
    limits += [(power * NOISE[0], power * NOISE[1])] * len(noise)
    bounds = np.log(np.array(limits))
    found = []
    with ProgressBar("choosing weights and widths", total=restarts) as bar:
        for start in STARTS[:restarts]:
            theta = np.log(np.concatenate([power * shares / shares.sum(), start * widths, noise]))
            best = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": max_iter})
            found.append((float(best.fun), best.x))
            bar.update()
    _, theta = min(found, key=lambda pair: pair[0])
    weights, terms, noise_found = objective.unpack(theta)
    return Tuned(weighted_sum(list(weights), terms), noise_found, [pair[0] for pair in found])


def observations(X: Any, targets: Targets, groups: Indices | None, *, intercept: bool) -> Observations:
    """The entries that were observed; complete rows with the same inputs and group as one row of their total weight."""
    d = targets.d
    repeats = within = 0.0
    if targets.complete:
        same = same_inputs(X)
        if groups is None or len(np.unique(same)) == len(np.unique(np.column_stack([same, groups]), axis=0)):
            count = float(len(targets.Y) if targets.weight is None else targets.weight.sum())
            if groups is not None:
                _, first = np.unique(same, return_index=True)
                groups = groups[first]
            X, targets, scatter = merged(X, targets, same)
            repeats, within = d * (count - len(targets.Y)), float(np.sum(scatter))
    n = X.shape[0]
    points, outputs = (np.arange(n), targets.task) if targets.task is not None else np.nonzero(~np.isnan(targets.Y))
    y = targets.Y[:, 0] if targets.task is not None else targets.Y[points, outputs]
    weight = np.ones(n) if targets.weight is None else targets.weight
    E = np.eye(d)[outputs] if intercept else None
    if E is not None:
        E = E[:, E.any(axis=0)]
    left_out = same_inputs(X) if groups is None else groups
    return Observations(X, points * d + outputs, y, np.sqrt(weight[points]), E, left_out[points], repeats, within)
