"""What the batch regressors share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from ovk._params import Parameters
from ovk._validation import Array, Indices
from ovk.batch.landmark_sums import LandmarkRidge
from ovk.batch.problem import Problem, ridge_problem
from ovk.batch.targets import Targets, check_targets, check_tasks
from ovk.expansion import Expansion, chunks
from ovk.kernels import Gaussian, Precomputed
from ovk.metrics import r2_observed
from ovk.ovkernels import OperatorKernel, Separable, as_operator_kernel
from ovk.solvers import Cholesky, Eigen, as_solver


class OVKRegressor(MultiOutputMixin, RegressorMixin, Parameters):
    """An expansion in training points, and all that follows from it: prediction, covariance, Jacobian, score."""

    kernel: Any
    fit_intercept: bool
    kernel_: OperatorKernel
    landmarks_: LandmarkRidge | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = takes_gram(self.kernel)
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

    def _default_kernel(self) -> OperatorKernel:
        return as_operator_kernel(Gaussian() if self.kernel is None else self.kernel)

    def _resolved(self, X: Any, d: int) -> OperatorKernel:
        kernel: OperatorKernel = self._own_copy(self._default_kernel(), d)
        return kernel.resolve(X, d)

    def _own_copy(self, part: Any, d: int) -> Any:
        """A copy of a kernel or operator: what is later done to the parameter must not change the fitted function."""
        return clone(part)

    def _check_inputs(self, X: Any, *, reset: bool, stream: bool = False) -> Any:
        # float32 is kept where rows are taken in chunks: copying the whole of a large file would defeat the purpose.
        dtype = [np.float64, np.float32] if stream else np.float64
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=dtype)

    def _check(self, X: Any, y: Any, sample_weight: Any, task: Any, *, stream: bool = False) -> tuple[Any, Targets]:
        """Checked inputs and outputs, without the rows that teach nothing."""
        X = self._check_inputs(X, reset=True, stream=stream)
        targets = check_targets(y, X.shape[0], sample_weight, task, X, self._output_dim())
        # A kernel matrix given as X must stay square.
        return (X, targets) if takes_gram(self.kernel) else informative(X, targets)

    def _output_dim(self) -> int | None:
        """Number of outputs, where the kernel says it."""
        return self._default_kernel().output_dim

    def _solve(self, kernel: OperatorKernel, alpha: float | Array, X: Any, targets: Targets, solver: Any) -> None:
        """Fit with a resolved kernel and keep the result."""
        problem = ridge_problem(kernel, X, targets, alpha)
        (C, info), b = problem.solve(as_solver(solver, problem.gram), intercept=self.fit_intercept)
        observed = None if targets.complete or targets.task is not None else ~np.isnan(targets.Y)
        self._store(kernel, alpha, X, C, b, targets, observed)
        self.solver_info_ = info

    def _store(
        self, kernel: OperatorKernel, alpha: Any, X: Any, C: Any, b: Array | None, targets: Targets, observed: Any
    ) -> None:
        self.__dict__.pop("_memo", None)
        self.kernel_ = kernel
        self.alpha_ = alpha
        self.X_fit_ = X
        self.dual_coef_ = C[:, 0] if targets.single else C
        self.intercept_ = b
        self.n_outputs_ = targets.d
        self.single_output_ = targets.single
        self.observed_ = observed
        self.task_ = targets.task
        self.sample_weight_ = targets.weight
        self.landmarks_ = None

    @property
    def expansion_(self) -> Expansion:
        """The fitted function f(x) = sum_i K(x, x_i) c_i + intercept, with its Jacobian and its norm."""
        check_is_fitted(self)
        C = self.dual_coef_
        return Expansion(self.kernel_, self.X_fit_, C[:, None] if C.ndim == 1 else C, self.intercept_)

    def jacobian(self, X: Any) -> Array:
        """Derivative of the prediction in the inputs at each row of X, in closed form: (n, d, p)."""
        expansion = self.expansion_
        return expansion.jacobian(self._check_inputs(X, reset=False))

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, *, task: Any = None) -> Any:
        """Predict the outputs.

        Parameters
        ----------
        X : (n, p)
        return_std : also return the posterior standard deviation, in the shape of the prediction
        return_cov : also return the posterior covariance between outputs, (n, d, d)

            Both are those of the Gaussian process with covariance K and noise variance alpha whose posterior mean is
            this prediction: the uncertainty of f(x), without the noise of a new observation.
        task : (n,) integers, optional
            Long form: predict output task_i alone at row i, (n,); the n x d other values are never held.

        Returns
        -------
        (n, d), or (n,) if y was one-dimensional or with `task`; with `return_std` or `return_cov`, a tuple with
        that behind it
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be True: the first is the diagonal of the second")
        expansion = self.expansion_
        if (return_std or return_cov) and takes_gram(self.kernel_):
            raise ValueError(
                "Precomputed() does not know k(x, x) of new objects, so there is no return_std and no return_cov: use "
                "Precomputed(matrix) with indices"
            )
        X = self._check_inputs(X, reset=False)
        if task is not None:
            if return_cov:
                raise ValueError("return_cov is about all outputs of a row, task asks for one: use return_std")
            outputs = check_tasks(task, X.shape[0], self.n_outputs_)
            one = expansion.at(X, outputs)
            return (one, np.sqrt(self._variances(X, outputs))) if return_std else one
        values = expansion(X)
        mean = values[:, 0] if self.single_output_ else values
        if not (return_std or return_cov):
            return mean
        n, d = values.shape
        width = self.X_fit_.shape[0] * d**2
        covariance = np.concatenate([self._covariance(X[rows]) for rows in chunks(n, width)])
        if return_cov:
            return mean, covariance
        std = np.sqrt(np.maximum(np.einsum("nqq->nq", covariance), 0.0))
        return mean, std[:, 0] if self.single_output_ else std

    def _covariance(self, X: Any) -> Array:
        if self.landmarks_ is not None:
            return self.landmarks_.covariance(X, self.alpha_, intercept=self.intercept_ is not None)
        problem, solver, state = self._posterior()
        prior = self.kernel_.diagonal_blocks(X)
        return prior - problem.reduction(solver, state, X, intercept=self.intercept_ is not None)

    def _variances(self, X: Any, outputs: Indices) -> Array:
        """Posterior variance of one output of each row, (n,)."""
        n, d, m = X.shape[0], self.n_outputs_, self.X_fit_.shape[0]
        if self.task_ is None:
            diagonals = [np.einsum("nqq->nq", self._covariance(X[rows])) for rows in chunks(n, m * d**2)]
            chosen: Array = np.concatenate(diagonals)[np.arange(n), outputs]
            return np.maximum(chosen, 0.0)
        problem, solver, state = self._posterior()
        result = np.empty(n)
        for rows in chunks(n, 2 * m):
            new, q = X[rows], outputs[rows]
            # One row at a time: the diagonal blocks of all outputs would be (n, d, d).
            prior = [self.kernel_.pairs(new[i : i + 1], q[i : i + 1])[0, 0] for i in range(len(q))]
            result[rows] = prior - problem.reduction_at(solver, state, new, q, intercept=self.intercept_ is not None)
        return np.maximum(result, 0.0)

    def _posterior(self) -> tuple[Problem, Any, Any]:
        """The factored system of the training points, made when it is first asked for and not saved."""
        memo = self.__dict__.setdefault("_memo", {})
        if "posterior" not in memo:
            n, d = self.X_fit_.shape[0], self.n_outputs_
            if self.task_ is not None:
                Y = np.zeros((n, 1))
            else:
                Y = np.zeros((n, d)) if self.observed_ is None else np.where(self.observed_, 0.0, np.nan)
            targets = Targets(Y, d, False, self.task_, self.sample_weight_)
            problem = ridge_problem(self.kernel_, self.X_fit_, targets, self.alpha_)
            solver = as_solver("auto", problem.gram)
            if isinstance(solver, Eigen):
                solver = Cholesky()
            memo["posterior"] = problem, solver, solver.factor(problem.gram)
        result: tuple[Problem, Any, Any] = memo["posterior"]
        return result

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Coefficient of determination R^2 over the observed outputs, averaged over outputs.

        In long form (`task` given) it is that of all observations together: a task may have a single one.
        """
        if task is not None:
            predicted = self.predict(X, task=task)[:, None]
            targets = check_targets(y, len(predicted), sample_weight, task, X, self.n_outputs_, part=True)
            return r2_observed(targets.Y, predicted, targets.weight)
        prediction = np.asarray(self.predict(X)).reshape(X.shape[0] if hasattr(X, "shape") else len(X), -1)
        targets = check_targets(y, len(prediction), sample_weight, None, X, part=True)
        if targets.d != prediction.shape[1]:
            raise ValueError(f"y has {targets.d} outputs but the model was fitted with {prediction.shape[1]}")
        return r2_observed(targets.Y, prediction, targets.weight)


def takes_gram(kernel: Any) -> bool:
    """Whether inputs are rows of a kernel matrix."""
    if isinstance(kernel, (list, tuple)):
        return any(map(takes_gram, kernel))
    scalar = kernel.kernel if isinstance(kernel, Separable) else kernel
    return scalar == "precomputed" if isinstance(scalar, str) else _is_bare_precomputed(scalar)


def _is_bare_precomputed(kernel: Any) -> bool:
    return isinstance(kernel, Precomputed) and kernel.matrix is None


def informative(X: Any, targets: Targets) -> tuple[Any, Targets]:
    """Without the rows that teach nothing, of weight zero or with no observed output; what is left may be complete."""
    keep = ~np.isnan(targets.Y).all(axis=1)
    if targets.weight is not None:
        keep &= targets.weight > 0
    return (X, targets) if keep.all() else (X[keep], targets.rows(keep))
