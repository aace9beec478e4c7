"""How well a kernel and noise levels suit observed outputs, and the derivatives in all their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._validation import Array, Indices
from ovk.batch.hyperparameters import separable_terms
from ovk.batch.repeated import same_inputs
from ovk.batch.targets import Targets
from ovk.ovkernels import OperatorKernel
from ovk.solvers.criteria import (
    Criterion,
    dense_evidence,
    dense_leave_one_out,
    separable_evidence,
    separable_leave_one_out,
    split_among_terms,
)

#: Observed values above which a criterion that needs their whole matrix is refused (a matrix of 288 MB).
DENSE_LIMIT = 6000


class Problem:
    """The observed values and a criterion."""

    def __init__(self, X: Any, targets: Targets, criterion: str, leave_out: str, *, centred: bool) -> None:
        self.X, self.d, self.n = X, targets.d, X.shape[0]
        self._evidence = criterion == "evidence"
        if targets.task is not None:
            self.points: Indices = np.arange(self.n)
            self.outputs: Indices = targets.task
            y = targets.Y[:, 0]
        else:
            self.points, self.outputs = np.nonzero(~np.isnan(targets.Y))
            y = targets.Y[self.points, self.outputs]
        self.count = np.bincount(self.outputs, minlength=self.d)
        self.mean = np.bincount(self.outputs, weights=y, minlength=self.d) / np.maximum(self.count, 1)
        # An intercept is not known, so its place is taken by the mean.
        self.y = y - self.mean[self.outputs] if centred else y
        squares = np.bincount(self.outputs, weights=(y - self.mean[self.outputs]) ** 2, minlength=self.d)
        variance = squares / np.maximum(self.count, 1)
        typical = float(variance[variance > 0].mean()) if (variance > 0).any() else 1.0
        self.variance = np.where(variance > 0, variance, typical)
        self.Y = self.y.reshape(self.n, self.d) if targets.complete else None
        groups = same_inputs(X)
        # Rows with the same inputs are left out together, and then the closed form is another.
        self._structured = self._evidence or (leave_out == "row" and len(np.unique(groups)) == self.n)
        self._together = groups[self.points] if leave_out == "row" else groups[self.points] * self.d + self.outputs

    def covariance(self) -> Array:
        """(d, d) of the outputs, from the rows where both were seen; where there are none, zero."""
        seen = np.zeros((self.n, self.d))
        values = np.zeros((self.n, self.d))
        seen[self.points, self.outputs] = 1.0
        values[self.points, self.outputs] = (
            self.y
            - np.bincount(self.outputs, weights=self.y, minlength=self.d)[self.outputs]
            / np.maximum(self.count, 1)[self.outputs]
        )
        common = seen.T @ seen
        result: Array = np.where(common >= 3, (values.T @ values) / np.maximum(common, 1.0), 0.0)
        result[np.diag_indices(self.d)] = self.variance
        return result

    def evaluate(self, kernel: OperatorKernel, noise: Array) -> tuple[float, dict[str, Array], Array]:
        """The criterion, its derivatives in the kernel's parameters by name, and those in the noise, (d,)."""
        terms = separable_terms(kernel)
        if terms is None:
            return self._unstructured(kernel, noise)
        matrices = [(term.scalar(self.X), term.operator.dense()) for _, term in terms]
        if self._structured and self.Y is not None and len(terms) == 1:
            criterion = separable_evidence if self._evidence else separable_leave_one_out
            found = criterion(*matrices[0], self.Y, noise)
        else:
            self._check_size()
            A = np.zeros((len(self.y), len(self.y)))
            for G, T in matrices:
                A += G[np.ix_(self.points, self.points)] * T[np.ix_(self.outputs, self.outputs)]
            value, omega = self._dense(A, noise)
            split = split_among_terms(omega, matrices, self.points, self.outputs, self.n, self.d)
            found = Criterion(value, *split)
        slopes: dict[str, Array] = {}
        for (prefix, term), by_gram, by_operator in zip(terms, found.grams, found.operators, strict=True):
            for name, slope in term.scalar.gradient_product(by_gram, self.X).items():
                slopes[f"{prefix}kernel__{name}"] = slope
            for name, change in term.operator.gradient().items():
                slopes[f"{prefix}operator__{name}"] = np.tensordot(change, by_operator, axes=2)
        return found.value, slopes, found.noise

    def _unstructured(self, kernel: OperatorKernel, noise: Array) -> tuple[float, dict[str, Array], Array]:
        self._check_size()
        pairs = self.points, self.outputs, self.points, self.outputs
        value, omega = self._dense(kernel.gram(self.X).entries(*pairs), noise)
        entries: dict[str, dict[tuple[int, ...], float]] = {}
        for name, change in kernel.gradient(self.X).items():
            # An index may also stand inside the name; only one at its end belongs to the parameter.
            base, _, index = name.rpartition("[") if name.endswith("]") else (name, "", "")
            place = tuple(map(int, index.rstrip("]").split(","))) if index else ()
            entries.setdefault(base, {})[place] = float(np.vdot(omega, change.entries(*pairs)))
        slopes = {base: np.array([each[place] for place in sorted(each)]) for base, each in entries.items()}
        by_noise = np.zeros(self.d)
        np.add.at(by_noise, self.outputs, np.diagonal(omega))
        return value, slopes, by_noise

    def _dense(self, K: Array, noise: Array) -> tuple[float, Array]:
        K = np.array(K)
        K[np.diag_indices_from(K)] += noise[self.outputs]
        if self._evidence:
            return dense_evidence(K, self.y)
        return dense_leave_one_out(K, self.y, self._together)

    def _check_size(self) -> None:
        if len(self.y) > DENSE_LIMIT:
            raise ValueError(
                f"tuning needs the matrix of all observed values here, at most {DENSE_LIMIT} of them, got "
                f"{len(self.y)}: tune on some of the rows (complete outputs with one term k * T have no such limit)"
            )
