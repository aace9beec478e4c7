"""What the support vector machines of several tasks share: the dual, its solution, and the function it gives."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR
from sklearn.utils.validation import check_is_fitted

from ovk._params import check_int, positive
from ovk._types import Array, Indices
from ovk.batch.ridge.kernel_estimator import KernelEstimator
from ovk.batch.ridge.problem import PairProblem, takes_gram
from ovk.expansion import Expansion
from ovk.ovkernels import OperatorKernel
from ovk.solvers.dual_coordinate import BoxDual, DualInfo, dual_coordinate
from ovk.solvers.task_bias import dual_with_biases
from ovk.targets import Targets, check_tasks

BIASES = ("none", "shared", "task")
#: Groups of pairs between their bounds up to which spans are computed.
SPANS = 3000
#: A coefficient this near to its bound, as a part of its range, is at the bound.
AT_BOUND = 1e-6


class SupportVectorMachine(KernelEstimator, saved=False):
    """Box-constrained dual on the observed pairs of a point and a task; parameters are described in `MultiTaskSVC`."""

    kernel_: OperatorKernel

    def __init__(
        self, kernel: Any = None, C: float = 1.0, *, bias: str = "none", tol: float = 1e-6, max_iter: int = 20_000
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.bias = bias
        self.tol = tol
        self.max_iter = max_iter

    def _learn(self, X: Any, targets: Targets, epsilon: float | None) -> tuple[BoxDual, Array, Array]:
        """Solve the dual, for the hinge loss when `epsilon` is None, else for the epsilon-insensitive one, and keep f.

        Returns the dual, its solution and the values of f at the pairs, with biases.
        """
        C, tol = positive(self.C, "C"), positive(self.tol, "tol")
        if self.bias not in BIASES:
            raise ValueError(f"bias must be one of {', '.join(map(repr, BIASES))}, got {self.bias!r}")
        kernel = self._resolved(X, targets.d)
        observed = targets.pairs()
        task, y, box = observed.outputs, observed.values, C * observed.weights
        lower, upper = (np.minimum(0.0, box * y), np.maximum(0.0, box * y)) if epsilon is None else (-box, box)
        # The gram as ridge regression without weights has it: here they went into the box.
        gram = PairProblem(kernel, X, replace(targets, weight=None), 1.0).gram
        dual = BoxDual(gram, y, lower, upper, epsilon or 0.0)
        limit = check_int(self.max_iter, "max_iter")
        if self.bias == "task":
            b, biases, info = dual_with_biases(dual, task, tol=tol, max_iter=limit)
            biases = np.concatenate([biases, np.zeros(targets.d - len(biases))])
        elif self.bias == "shared":
            b, biases, info = _shared_bias(dual, box, hinge=epsilon is None, tol=tol, d=targets.d)
        else:
            b, info = dual_coordinate(dual, tol=tol, max_iter=limit)
            biases = None
        if not info.converged:
            warnings.warn(
                f"the duality gap is {info.gap:.3g}, {info.gap / max(info.primal, 1e-300):.1e} of the objective and "
                f"above tol={tol:g}, after {info.iterations} block steps: raise max_iter or tol, lower C, or scale "
                "the inputs",
                ConvergenceWarning,
                stacklevel=4,
            )
        support = np.unique(observed.points[b != 0])
        if takes_gram(kernel) or len(support) == 0:
            # Columns of a kernel matrix keep their places; a function that is zero still needs a point to stand on.
            support = np.arange(X.shape[0]) if takes_gram(kernel) else np.zeros(1, dtype=np.intp)
        full = sparse.csr_array((b, (observed.points, observed.outputs)), shape=observed.shape)[support]
        self.kernel_ = kernel
        self.support_ = support
        self.support_vectors_ = X[support]
        self.dual_coef_ = full if targets.task is not None else full.toarray()
        self.bias_ = biases
        self.dual_gap_, self.objective_, self.n_iter_ = info.gap, info.primal, info.iterations
        self.n_outputs_ = targets.d
        self.single_output_ = targets.single
        values = gram.matmat(b[:, None])[:, 0]
        return dual, b, values if biases is None else values + biases[task]

    @property
    def expansion_(self) -> Expansion:
        """The fitted functions of all tasks, f(x) = sum_i K(x, x_i) c_i + bias."""
        check_is_fitted(self)
        return Expansion(self.kernel_, self.support_vectors_, self.dual_coef_, self.bias_)

    def _values(self, X: Any, task: Any) -> Array:
        """(n, d), or (n,) for the task of each row."""
        expansion = self.expansion_
        values = expansion(self._check_inputs(X, reset=False))
        if task is None:
            return values
        return np.asarray(values[np.arange(len(values)), check_tasks(task, len(values), values.shape[1])])


def _shared_bias(dual: BoxDual, box: Array, *, hinge: bool, tol: float, d: int) -> tuple[Array, Array, DualInfo]:
    """libsvm on the kernel of the pairs."""
    K = dual.matrix(np.arange(len(dual.q)))
    if hinge:
        if len(np.unique(dual.q)) < 2:
            raise ValueError("a shared bias needs observations of both classes, got only one class: use bias='none'")
        machine = SVC(C=1.0, kernel="precomputed", tol=tol, cache_size=500)
    else:
        machine = SVR(C=1.0, kernel="precomputed", tol=tol, epsilon=dual.epsilon, cache_size=500)
    machine.fit(K, dual.q, sample_weight=box)
    b = np.zeros(len(dual.q))
    b[machine.support_] = machine.dual_coef_[0]
    bias = float(machine.intercept_[0])
    values = K @ b
    info = dual.info(b, dual.q - values - bias, values, int(np.sum(machine.n_iter_)), np.inf)
    return b, np.full(d, bias), info


def left_out_values(dual: BoxDual, b: Array, values: Array, groups: Indices | None = None) -> Array:
    """(N,) values of f at each pair when its group is left out, by the span rule: f_-g = f_g - b_g S_g^2.

    Pairs of a group, whose numbers `groups` (N,) gives, have the same inputs and the same task, and are left out
    together; by default each pair is alone. A group has one row of K, and b_g is the sum of its coefficients. Only that
    sum is determined, so that a pair of weight 2 and the pair given twice come to the same.

    The hinge losses of a group have kinks at f = 1 and f = -1, between which b_g is one of lower_g, lower_g + upper_g
    and upper_g (sums of the bounds). At the others, F, f stays at its kink. S_g^2 is 1 / (K_FF^-1)_gg for g in F, and
    K_gg - K_gF K_FF^-1 K_Fg elsewhere: exact as long as leaving g out moves no other group to or from a kink. A group
    with b_g = 0 changes nothing. Biases are kept as they are.
    """
    _, first, of_pair = np.unique(
        np.arange(len(b)) if groups is None else groups, return_index=True, return_inverse=True
    )
    total, lower, upper = (np.bincount(of_pair, weights=part) for part in (b, dual.lower, dual.upper))
    distance = np.min([np.abs(total - at) for at in (lower, lower + upper, upper)], axis=0)
    at_kink = distance > AT_BOUND * (upper - lower)
    free, rest = np.flatnonzero(at_kink), np.flatnonzero(~at_kink & (total != 0))
    spans = dual.gram.diagonal_blocks().reshape(-1)[first]
    # Above, the spans are bounded by K_gg: values that are too cautious.
    if 0 < len(free) <= SPANS:
        K = dual.matrix(first[free])
        K[np.diag_indices_from(K)] += 1e-10 * float(np.diagonal(K).mean())
        factor = cho_factor(K, lower=True)
        spans[free] = 1.0 / np.diagonal(cho_solve(factor, np.eye(len(free))))
        cross = dual.matrix(first[free], first[rest])
        spans[rest] -= np.einsum("ij,ij->j", cross, cho_solve(factor, cross))
    return values - (total * np.maximum(spans, 0.0))[of_pair]
