"""How well a kernel and noise levels suit observed outputs, and the derivatives in all their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._types import Array, Indices
from ovk.batch.ridge.same_inputs import order_of_rows, same_inputs
from ovk.batch.tuning.hyperparameters import named_terms
from ovk.ovkernels import OperatorKernel
from ovk.solvers.criteria import (
    Criterion,
    dense_evidence,
    dense_leave_one_out,
    separable_evidence,
    separable_leave_one_out,
    split_among_terms,
)
from ovk.targets import Targets

#: Observed values above which a criterion that needs their whole matrix is refused (a matrix of 288 MB).
DENSE_LIMIT = 6000
#: The same for the comparison of what was tuned with the start.
LEAVING_OUT_LIMIT = 4000


class TuningCriterion:
    """How well a kernel and noise levels suit the observed pairs: evidence or leave-one-out, with derivatives.

    Weights of rows are scaled in, A = R K R + noise; a weight says how often the row stands there.

    Parameters
    ----------
    X, targets : checked inputs and outputs
    criterion : "evidence" or "loo"
    leave_out : "row" or "entry", what "loo" leaves out
    groups : (n,) rows of the same number are left out together; by default those with the same inputs
    centred : outputs are taken less their means, in the place of an intercept that is not known
    constants : a constant for each output is learned with the rest; not with `centred`
    repeats, within : observations of each output beyond one for each row, and their scatter (d,) about their means,
        where complete rows with the same inputs were taken together; they have their part in the evidence of the noise

    Attributes
    ----------
    name : "evidence" or "loo"
    pairs : what was observed
    y : (N,) observed values, scaled by the roots of their weights
    variance : (d,) of the outputs; where an output does not vary, that of the others
    """

    def __init__(
        self,
        X: Any,
        targets: Targets,
        criterion: str,
        leave_out: str = "row",
        *,
        groups: Indices | None = None,
        centred: bool = False,
        constants: bool = False,
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
        return complete or len(self.pairs) <= LEAVING_OUT_LIMIT

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
            value, omega = dense_leave_one_out(A, self.y, self._together, self._E)
        by_noise = self.pairs.sum_by_output(np.diagonal(omega))
        return value, omega if self._scale is None else omega * self._scale, by_noise

    def _check_size(self) -> None:
        if len(self.y) > DENSE_LIMIT:
            raise ValueError(
                f"tuning needs the matrix of all observed values here, at most {DENSE_LIMIT} of them, got "
                f"{len(self.y)}: tune on some of the rows (complete outputs with one term k * T have no such limit)"
            )
