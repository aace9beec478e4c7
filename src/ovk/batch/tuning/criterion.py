"""How well a kernel and noise levels suit observed outputs, and the derivatives in all their parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.base import Array, Indices, Targets
from ovk.batch.ridge.ridge_system import order_of_rows, same_inputs
from ovk.ovkernels import OperatorKernel, Term
from ovk.solvers import (
    Criterion,
    dense_evidence,
    pairwise_leave_one_out,
    separable_evidence,
    separable_leave_one_out,
    split_among_terms,
)

# The continuous parameters of an operator-valued kernel as one vector.
#
# What is positive is tuned as its logarithm; what lies in an interval, and the factor W of a low-rank operator, as it
# is. A positive parameter that is zero stays zero: there is no way to leave it on a logarithmic scale. A matrix B that
# was given is not tuned.

#: Parameters in [0, 1]; the end is left out where an operator becomes singular.
INTERVALS = {"omega", "within", "between"}
#: Parameters of any sign, and parameters that are not tuned.
ANY_SIGN, NOT_TUNED = {"W"}, {"B"}
#: How far a positive parameter may go down and up from where it starts, as factors: weights of terms, which may vanish,
#: widths, and others.
REACH = {"weights": (1e-6, 1e4), "length_scale": (1e-2, 1e2), "": (1e-4, 1e4)}


@dataclass(frozen=True)
class Parameter:
    name: str  # nested
    shape: tuple[int, ...]
    logarithm: bool  # its logarithm is tuned

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


def named_terms(kernel: OperatorKernel) -> list[Term] | None:
    """The separable terms of a kernel whose parameters belong to one term each; None for other kernels."""
    terms = kernel.terms()
    return None if terms is None or any(term.kernel_name is None for term in terms) else terms


def parameters(kernel: OperatorKernel, X: Any) -> list[Parameter]:
    """The parameters that can be tuned."""
    found: list[Parameter] = []
    values = kernel.get_params()
    for name in gradient_names(kernel, X):
        value = np.asarray(values[name], dtype=np.float64)
        last = name.split("__")[-1]
        if last in NOT_TUNED or (last not in ANY_SIGN | INTERVALS and not (value > 0).all()):
            continue
        found.append(Parameter(name, value.shape, last not in ANY_SIGN | INTERVALS))
    return found


def gradient_names(kernel: OperatorKernel, X: Any) -> list[str]:
    """Nested names of everything that the kernel can be differentiated in, arrays as a whole."""
    few = X[:2]
    terms = named_terms(kernel)
    if terms is None:
        return list(dict.fromkeys(re.sub(r"\[[\d,]+\]$", "", name) for name in kernel.gradient(few)))
    names = []
    for term in terms:
        names += [f"{term.kernel_name}__{name}" for name in term.kernel.gradient(few)]
        names += [f"{term.operator_name}__{name}" for name in (term.operator.gradient() if term.operator_name else ())]
    return names


def read(kernel: OperatorKernel, tuned: list[Parameter]) -> Array:
    """Values of the parameters as one vector."""
    params = kernel.get_params()
    values = [np.asarray(params[one.name], dtype=np.float64).ravel() for one in tuned]
    parts = [np.log(value) if one.logarithm else value for one, value in zip(tuned, values, strict=True)]
    return np.concatenate([*parts, np.empty(0)])


def write(kernel: OperatorKernel, tuned: list[Parameter], vector: Array) -> OperatorKernel:
    """A copy of the kernel with these values."""
    changed: dict[str, Any] = {}
    for one, part in zip(tuned, _parts(tuned, vector), strict=True):
        value = (np.exp(part) if one.logarithm else part).reshape(one.shape)
        changed[one.name] = value if one.shape else float(value)
    return kernel.replace(**changed)


def chain(tuned: list[Parameter], vector: Array, slopes: dict[str, Array]) -> Array:
    """Derivative in the vector from derivatives in the parameters' own values."""
    parts = []
    for one, part in zip(tuned, _parts(tuned, vector), strict=True):
        slope = np.asarray(slopes[one.name]).ravel()
        parts.append(slope * np.exp(part) if one.logarithm else slope)
    return np.concatenate([*parts, np.empty(0)])


def _parts(tuned: list[Parameter], vector: Array) -> list[Array]:
    """The vector cut into the numbers of each parameter."""
    return np.split(vector, np.cumsum([p.size for p in tuned])[:-1]) if tuned else []


def bounds(kernel: OperatorKernel, tuned: list[Parameter], vector: Array) -> list[tuple[float, float]]:
    """Lower and upper bound of each number of the vector."""
    limits: list[tuple[float, float]] = []
    params = kernel.get_params()
    for one, part in zip(tuned, _parts(tuned, vector), strict=True):
        owner, _, last = one.name.rpartition("__")
        for value in part:
            if one.logarithm:
                down, up = np.log(REACH.get(last, REACH[""]))
                limits.append((float(value) + down, float(value) + up))
            elif last in ("within", "between"):
                # Each on its side of the middle, so that what is shared between clusters stays below what is within.
                middle = 0.5 * sum(float(params[f"{owner}__{side}"]) for side in ("within", "between"))
                limits.append((middle, 1.0 - 1e-6) if last == "within" else (0.0, middle))
            else:
                limits.append((0.0, 1.0 - 1e-6) if last in INTERVALS else (-np.inf, np.inf))
    return limits


#: Observed values above which a criterion that needs their whole matrix is refused (a matrix of 288 MB).
DENSE_LIMIT = 6000
#: The same for the comparison of what was tuned with the start.
LEAVE_OUT_LIMIT = 4000


class TuningCriterion:
    """How well a kernel and noise levels suit the observed pairs: evidence or leave-one-out, with derivatives.

    Weights of rows are scaled in, A = R K R + noise; a weight says how often the row stands there. Where complete rows
    with the same inputs were merged, `repeats` observations of each output beyond one for each row, with the scatter
    `within` (d,) about their means, have their part in the evidence of the noise.
    """

    def __init__(
        self,
        X: Any,
        targets: Targets,
        criterion: str,  # "evidence" or "loo"
        leave_out: str = "row",  # or "entry", for "loo"
        *,
        groups: Indices | None = None,  # rows of the same number are left out together; by default the same inputs
        centred: bool = False,  # take outputs less their means, in the place of an intercept that is not known
        constants: bool = False,  # learn a constant for each output with the rest; not with `centred`
        repeats: float = 0.0,
        within: Array | float = 0.0,
    ) -> None:
        groups = same_inputs(X) if groups is None else groups
        # A search follows rounding: in an order of their own, rows give the same result however they came.
        order = order_of_rows(X, targets.Y)
        X, targets, groups = X[order], targets.rows(order), groups[order]
        self.X, self.pairs = X, targets.pairs(groups)
        self.n, self.d = self.pairs.shape
        self.name, self._evidence = criterion, criterion == "evidence"
        self._repeats, self._within = repeats, np.broadcast_to(within, (self.d,))
        count = self.pairs.sum_by_output()
        values, roots = self.pairs.values, self.pairs.roots
        self._centred = values - (self.pairs.sum_by_output(values) / np.maximum(count, 1.0))[self.pairs.outputs]
        self.y = roots * (self._centred if centred else values)
        self._E = (np.eye(self.d)[self.pairs.outputs] * roots[:, None])[:, count > 0] if constants else None
        variance = self.pairs.sum_by_output(self._centred**2) / np.maximum(count, 1.0)
        # Where an output does not vary, the variance of the others.
        typical = float(variance[variance > 0].mean()) if (variance > 0).any() else 1.0
        self.variance = np.where(variance > 0, variance, typical)
        self._scale = None if targets.weight is None else np.outer(roots, roots)
        # The closed form for a single product: rows that are left out together, and weights, have another.
        alone = self._evidence or (leave_out == "row" and len(np.unique(groups)) == self.n)
        structured = targets.complete and alone and targets.weight is None and not constants
        self._Y = self.y.reshape(self.n, self.d) if structured else None
        self._together = self.pairs.left_out_together(entry=leave_out == "entry")

    def can_leave_out(self, kernel: OperatorKernel) -> bool:
        """Whether rows can be left out in closed form at a bearable price."""
        complete = len(self.pairs) == self.n * self.d and kernel.as_separable() is not None
        return complete or len(self.pairs) <= LEAVE_OUT_LIMIT

    def covariance(self) -> Array:
        """(d, d) of the outputs, from the rows where both were observed; where there are none, zero."""
        observed, values = self.pairs.spread(np.ones(len(self.pairs))), self.pairs.spread(self._centred)
        common = observed.T @ observed
        result: Array = np.where(common >= 3, (values.T @ values) / np.maximum(common, 1.0), 0.0)
        result[np.diag_indices(self.d)] = self.variance
        return result

    def evaluate(self, kernel: OperatorKernel, noise: Array) -> tuple[float, dict[str, Array], Array]:
        """The criterion, its derivatives in the kernel's parameters by name, and those in the noise, (d,)."""
        terms = named_terms(kernel)
        if terms is None:
            value, slopes, by_noise = self._unstructured(kernel, noise)
        else:
            matrices = [(term.kernel(self.X), term.operator.dense()) for term in terms]
            found = self._separable(matrices, noise)
            value, slopes, by_noise = found.value, {}, found.noise
            for term, by_gram, by_operator in zip(terms, found.grams, found.operators, strict=True):
                for name, slope in term.kernel.gradient_product(by_gram, self.X).items():
                    slopes[f"{term.kernel_name}__{name}"] = slope
                for name, change in (term.operator.gradient() if term.operator_name else {}).items():
                    slopes[f"{term.operator_name}__{name}"] = np.tensordot(change, by_operator, axes=2)
        if self._evidence and self._repeats:
            value += 0.5 * float((self._repeats * np.log(2.0 * np.pi * noise) + self._within / noise).sum())
            by_noise = by_noise + 0.5 * (self._repeats - self._within / noise) / noise
        return value, slopes, by_noise

    def _separable(self, matrices: list[tuple[Array, Array]], noise: Array) -> Criterion:
        """From scalar grams and operators of the terms."""
        if self._Y is not None and len(matrices) == 1:
            criterion = separable_evidence if self._evidence else separable_leave_one_out
            return criterion(*matrices[0], self._Y, noise)
        points, outputs = self.pairs.points, self.pairs.outputs
        self._check_size()
        A = np.zeros((len(self.y), len(self.y)))
        for G, T in matrices:
            A += G[np.ix_(points, points)] * T[np.ix_(outputs, outputs)]
        value, omega, by_noise = self._dense(A, noise)
        grams, operators = split_among_terms(omega, matrices, points, outputs, self.n, self.d)
        return Criterion(value, grams, operators, by_noise)

    def _unstructured(self, kernel: OperatorKernel, noise: Array) -> tuple[float, dict[str, Array], Array]:
        self._check_size()
        at = self.pairs.points, self.pairs.outputs, self.pairs.points, self.pairs.outputs
        gram, whole = kernel.gram(self.X), len(self.y) == self.n * self.d
        value, omega, by_noise = self._dense(gram.dense() if whole else gram.entries(*at), noise)
        if not whole:
            # Entries that were not observed have no weight.
            observed = self.pairs.points * self.d + self.pairs.outputs
            omega, some = np.zeros((self.n * self.d, self.n * self.d)), omega
            omega[np.ix_(observed, observed)] = some
        entries: dict[str, dict[tuple[int, ...], float]] = {}
        for name, slope in kernel.gradient_product(omega, self.X)[1].items():
            # An index may also stand inside the name; only one at its end belongs to the parameter.
            base, _, index = name.rpartition("[") if name.endswith("]") else (name, "", "")
            place = tuple(map(int, index.rstrip("]").split(","))) if index else ()
            entries.setdefault(base, {})[place] = slope
        slopes = {base: np.array([each[place] for place in sorted(each)]) for base, each in entries.items()}
        return value, slopes, by_noise

    def _dense(self, K: Array, noise: Array) -> tuple[float, Array, Array]:
        """The criterion with the gram K of the pairs, and its derivatives in K, (N, N), and in the noise, (d,)."""
        A = np.array(K) if self._scale is None else K * self._scale
        A[np.diag_indices_from(A)] += noise[self.pairs.outputs]
        if self._evidence:
            value, omega = dense_evidence(A, self.y, self._E)
        else:
            value, omega = pairwise_leave_one_out(A, self.y, self._together, self._E)
        by_noise = self.pairs.sum_by_output(np.diagonal(omega))
        return value, omega if self._scale is None else omega * self._scale, by_noise

    def _check_size(self) -> None:
        if len(self.y) > DENSE_LIMIT:
            raise ValueError(
                f"tuning needs the matrix of all observed values here, at most {DENSE_LIMIT} of them, got "
                f"{len(self.y)}: tune on some of the rows (complete outputs with one term k * T have no such limit)"
            )
