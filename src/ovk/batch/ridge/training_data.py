"""The training data of a fitted expansion, and its functions without some of the rows.

Nothing but the fitted function is needed: where alpha C_i = w_i (y_i - f(x_i)), the outputs are

    y_i = f(x_i) + alpha C_i / w_i,

and the functions without some of the rows follow from them in closed form (`ovk.solvers.leave_one_out`): for a kernel
k T and complete outputs from the eigenvectors of k's gram, for everything else from one dense system of the observed
pairs. Intervals and standard deviations come from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ovk.base import Array, Indices, Targets
from ovk.batch.ridge.ridge_system import PairSystem, same_inputs, takes_gram
from ovk.kernels import ScalarKernel
from ovk.ovkernels import Expansion, OperatorKernel
from ovk.solvers import (
    DENSE_LIMIT,
    LeaveOneOut,
    PairwiseLeaveOneOut,
    ScalarPairsLeaveOneOut,
    SeparableLeaveOneOut,
    eigenpairs,
)

#: Repetitions of inputs from which the spread of outputs at the same inputs is estimated.
MIN_REPEATED = 10


class LeaveOutPredictor(NamedTuple):
    """A regression with blocks of its rows left out, asked by new inputs instead of kernel values."""

    left_out: LeaveOneOut
    width: int  # numbers that a new row takes
    kernels: Callable[[Any], tuple[Array, Array]]  # `cross` and `prior` of new points, from their inputs


@dataclass(frozen=True)
class TrainingData:
    """What was learned from: resolved kernel, inputs, alpha, whether there is an intercept, outputs."""

    kernel: OperatorKernel
    X: Any
    alpha: float | Array
    intercept: bool
    targets: Targets

    @classmethod
    def recover(
        cls, expansion: Expansion, alpha: float | Array, observed: Any, task: Any, weight: Array | None
    ) -> TrainingData:
        """From a fitted expansion; `observed`, `task` and `weight` are those of the training data."""
        if np.any(np.asarray(alpha) <= 0):
            raise ValueError("leaving rows out needs alpha > 0: a function without penalty fits every row it has")
        X, d = expansion.support, expansion.kernel.output_dim
        C, single = expansion.C, task is not None
        assert d is not None
        if single:
            every = np.arange(X.shape[0])
            values, c = expansion.at(X, task), np.asarray(C[every, task]).reshape(-1)
            scale = alpha if isinstance(alpha, float) else alpha[task]
            Y = (values + scale * c / (1.0 if weight is None else weight))[:, None]
        else:
            Y = expansion(X) + alpha * C / (1.0 if weight is None else weight[:, None])
            if observed is not None:
                Y = np.where(observed, Y, np.nan)
        return cls(expansion.kernel, X, alpha, expansion.offset is not None, Targets(Y, d, False, task, weight))

    def left_out(self, together: Indices | None, *, alike: bool = False) -> LeaveOutPredictor:
        """Rows with the same number in `together` left out at a time; each alone where it is None.

        Outputs that are `alike` are values of one curve.
        """
        rows = self._without_rows({"intercept": self.intercept, "together": together})
        rows.left_out.alike = alike
        if self.targets.task is None and not takes_gram(self.kernel):
            spread = repeated_spread(same_inputs(self.X), self.targets.Y, self.targets.weight)
            if spread is not None:
                rows.left_out.raise_noise(spread, self.targets.weight)
        return rows

    def _without_rows(self, how: dict[str, Any]) -> LeaveOutPredictor:
        kernel, X, targets, separable = self.kernel, self.X, self.targets, self.kernel.as_separable()
        n, d = X.shape[0], targets.d
        if targets.complete and separable is not None:
            G = separable.scalar(X)
            if targets.weight is not None:
                G = G * np.sqrt(np.outer(targets.weight, targets.weight))
            T = separable.operator.dense()
            rows = SeparableLeaveOneOut(eigenpairs(G), targets.Y, T, self.alpha, targets.weight, **how)
            return _of_scalar_kernel(rows, separable.scalar, X, d)
        pairs = targets.pairs()
        if len(pairs) > DENSE_LIMIT:
            raise ValueError(
                f"leaving rows out takes a dense matrix of all {len(pairs)} observed values, more than "
                f"{DENSE_LIMIT}: fit fewer rows, or ask for predict(of='posterior') without intervals"
            )
        # Its matrices, one of (n, n) for each output, must take no more memory than that of the pairs.
        if separable is not None and targets.task is None and d * n**2 <= len(pairs) ** 2:
            T = separable.operator.dense()
            scalar = ScalarPairsLeaveOneOut(separable.scalar(X), T, pairs, self.alpha, **how)
            return _of_scalar_kernel(scalar, separable.scalar, X, d)
        K = PairSystem(kernel, X, replace(targets, weight=None), 1.0).gram.dense()

        def kernels(new: Any) -> tuple[Array, Array]:
            m = new.shape[0]
            repeated, outputs = new[np.repeat(np.arange(m), d)], np.tile(np.arange(d), m)
            cross = kernel.pairs(repeated, outputs, X[pairs.points], pairs.outputs).reshape(m, d, -1)
            return cross, np.einsum("nqq->nq", kernel.diagonal_blocks(new))

        return LeaveOutPredictor(PairwiseLeaveOneOut(K, pairs, self.alpha, **how), len(pairs) * d, kernels)


def _of_scalar_kernel(left_out: LeaveOneOut, k: ScalarKernel, X: Any, d: int) -> LeaveOutPredictor:
    return LeaveOutPredictor(left_out, X.shape[0] * (d + 2), lambda new: (k(new, X), k.diag(new)))


def repeated_spread(same: Indices, Y: Array, weight: Array | None) -> Array | None:
    """(d,) variances of outputs Y at the same inputs, of rows of weight 1; None where too few are repeated.

    sum_i w_i (y_i - mean of its group)^2 / sum over groups of (rows - 1); 0 for an output that is repeated too rarely.
    Rows with the same inputs have the same number in `same` (n,).
    """
    count = int(same.max()) + 1
    if len(same) - count < MIN_REPEATED:
        return None
    seen = ~np.isnan(Y)
    w = seen * (1.0 if weight is None else weight[:, None])
    member = sparse.csr_array((np.ones(len(same)), (same, np.arange(len(same)))), shape=(count, len(same)))
    mean = (member @ (w * np.where(seen, Y, 0.0))) / np.maximum(member @ w, 1e-300)
    squares = (w * np.where(seen, Y - mean[same], 0.0) ** 2).sum(axis=0)
    freedom = seen.sum(axis=0) - (member @ seen.astype(np.float64) > 0).sum(axis=0)
    return np.where(freedom >= MIN_REPEATED, squares / np.maximum(freedom, 1), 0.0)
