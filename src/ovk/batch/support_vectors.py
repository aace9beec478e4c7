"""What the support vector machines of several tasks share: the dual, its solution, and the function it gives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR
from sklearn.utils.validation import check_is_fitted, validate_data

from ovk._params import Parameters
from ovk._validation import Array, Indices, positive, whole
from ovk.batch.problem import PairProblem
from ovk.batch.regressor import takes_gram
from ovk.batch.targets import Targets
from ovk.expansion import Expansion
from ovk.kernels import Gaussian
from ovk.ovkernels import OperatorKernel, as_operator_kernel
from ovk.solvers.dual_coordinate import BoxDual, DualInfo, dual_coordinate
from ovk.solvers.task_bias import dual_with_biases

BIASES = ("none", "shared", "task")


class SupportVectorMachine(Parameters):
    """Box-constrained dual on the observed pairs of a point and a task."""

    kernel: Any
    C: float
    bias: str
    tol: float
    max_iter: int
    kernel_: OperatorKernel

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = takes_gram(self.kernel)
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

    def _default_kernel(self) -> OperatorKernel:
        return as_operator_kernel(Gaussian() if self.kernel is None else self.kernel)

    def _check_inputs(self, X: Any, *, reset: bool) -> Any:
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=np.float64)

    def _learn(self, X: Any, targets: Targets, epsilon: float | None) -> None:
        """Solve the dual: for the hinge loss when `epsilon` is None, else for the epsilon-insensitive loss."""
        C, tol = positive(self.C, "C"), positive(self.tol, "tol")
        if self.bias not in BIASES:
            raise ValueError(f"bias must be one of {', '.join(map(repr, BIASES))}, got {self.bias!r}")
        kernel: OperatorKernel = clone(self._default_kernel()).resolve(X, targets.d)
        # The pairs as ridge regression sees them; weights go into the box here.
        pairs = PairProblem(kernel, X, Targets(targets.Y, targets.d, targets.single, targets.task, None), 1.0)
        points, task, y = pairs.points, pairs.outputs, pairs.Y[:, 0]
        box = np.full(len(y), C) if targets.weight is None else C * targets.weight[points]
        lower, upper = (np.minimum(0.0, box * y), np.maximum(0.0, box * y)) if epsilon is None else (-box, box)
        dual = BoxDual(pairs.gram, y, lower, upper, epsilon or 0.0)
        limit = whole(self.max_iter, "max_iter")
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
        self._store(kernel, X, targets, points, task, b, biases, info)

    def _store(
        self,
        kernel: OperatorKernel,
        X: Any,
        targets: Targets,
        points: Indices,
        task: Indices,
        b: Array,
        biases: Array | None,
        info: DualInfo,
    ) -> None:
        n = X.shape[0]
        support = np.unique(points[b != 0])
        if takes_gram(kernel) or len(support) == 0:
            # Columns of a kernel matrix keep their places; a function that is zero still needs a point to stand on.
            support = np.arange(n) if takes_gram(kernel) else np.zeros(1, dtype=np.intp)
        full = sparse.csr_array((b, (points, task)), shape=(n, targets.d))[support]
        self.kernel_ = kernel
        self.support_ = support
        self.support_vectors_ = X[support]
        self.dual_coef_ = full if targets.task is not None else full.toarray()
        self.bias_ = biases
        self.dual_gap_, self.objective_, self.n_iter_ = info.gap, info.primal, info.iterations
        self.n_outputs_ = targets.d
        self.single_output_ = targets.single

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
        numbers = np.asarray(task)
        if numbers.shape != (len(values),) or numbers.dtype.kind not in "iu":
            raise ValueError(f"task must be a whole number for each of the {len(values)} rows, got {task!r}")
        if numbers.min() < 0 or numbers.max() >= values.shape[1]:
            raise ValueError(f"task must lie between 0 and {values.shape[1] - 1}, got {numbers.min()}..{numbers.max()}")
        chosen: Array = values[np.arange(len(values)), numbers]
        return chosen


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
