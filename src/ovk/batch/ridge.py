"""Vector-valued kernel ridge regression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import MultiOutputMixin, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ovk._params import Parameters
from ovk._progress import ProgressBar
from ovk._validation import Array, whole
from ovk.batch.landmarks import LandmarkRidge, landmark_ridge
from ovk.batch.problem import Problem, ridge_problem
from ovk.batch.targets import Targets, check_alpha, check_seen, check_targets
from ovk.expansion import Expansion, chunks
from ovk.kernels import Gaussian, Precomputed
from ovk.metrics import r2_observed
from ovk.ovkernels import OperatorKernel, Separable, as_operator_kernel
from ovk.solvers import Cholesky, Eigen, as_solver


class OVKRegressor(MultiOutputMixin, RegressorMixin, Parameters):
    """What the batch regressors share: an expansion in training points, and all that follows from it."""

    kernel: Any
    fit_intercept: bool
    kernel_: OperatorKernel
    landmarks_: LandmarkRidge | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = _takes_gram(self.kernel)
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

    def _default_kernel(self) -> OperatorKernel:
        return as_operator_kernel(Gaussian() if self.kernel is None else self.kernel)

    def _resolved(self, X: Any, d: int) -> OperatorKernel:
        # A copy: what is later done to the parameter must not change the fitted function.
        kernel: OperatorKernel = clone(self._default_kernel())
        return kernel.resolve(X, d)

    def _check_inputs(self, X: Any, *, reset: bool, stream: bool = False) -> Any:
        # float32 is kept where rows are taken in chunks: copying the whole of a large file would defeat the purpose.
        dtype = [np.float64, np.float32] if stream else np.float64
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=dtype)

    def _check(self, X: Any, y: Any, sample_weight: Any, task: Any, *, stream: bool = False) -> tuple[Any, Targets]:
        """Checked inputs and outputs, without the rows that teach nothing."""
        X = self._check_inputs(X, reset=True, stream=stream)
        targets = check_targets(y, X.shape[0], sample_weight, task, X, self._output_dim())
        # A kernel matrix given as X must stay square.
        return (X, targets) if _takes_gram(self.kernel) else _informative(X, targets)

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

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict the outputs.

        Parameters
        ----------
        X : (n, p)
        return_std : also return the posterior standard deviation, in the shape of the prediction
        return_cov : also return the posterior covariance between outputs, (n, d, d)

            Both are those of the Gaussian process with covariance K and noise variance alpha whose posterior mean is
            this prediction: the uncertainty of f(x), without the noise of a new observation.

        Returns
        -------
        (n, d), or (n,) if y was one-dimensional; with `return_std` or `return_cov`, a tuple with that behind it
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be True: the first is the diagonal of the second")
        expansion = self.expansion_
        if (return_std or return_cov) and _takes_gram(self.kernel_):
            raise ValueError(
                "Precomputed() does not know k(x, x) of new objects, so there is no return_std and no return_cov: use "
                "Precomputed(matrix) with indices"
            )
        X = self._check_inputs(X, reset=False)
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

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R^2 over the observed outputs, averaged over outputs."""
        prediction = np.asarray(self.predict(X)).reshape(X.shape[0] if hasattr(X, "shape") else len(X), -1)
        targets = check_targets(y, len(prediction), sample_weight, None, X, part=True)
        if targets.d != prediction.shape[1]:
            raise ValueError(f"y has {targets.d} outputs but the model was fitted with {prediction.shape[1]}")
        return r2_observed(targets.Y, prediction, targets.weight)


def _takes_gram(kernel: Any) -> bool:
    """Whether inputs are rows of a kernel matrix."""
    if isinstance(kernel, (list, tuple)):
        return any(map(_takes_gram, kernel))
    scalar = kernel.kernel if isinstance(kernel, Separable) else kernel
    return scalar == "precomputed" if isinstance(scalar, str) else _is_bare_precomputed(scalar)


def _is_bare_precomputed(kernel: Any) -> bool:
    return isinstance(kernel, Precomputed) and kernel.matrix is None


class OVKRidge(OVKRegressor):
    """Ridge regression in the space of an operator-valued kernel (vector-valued regularised least squares).

    Minimises  sum_i w_i |y_i - f(x_i)|^2 + alpha |f|^2  over the functions f of the kernel's space. Outputs that the
    kernel couples inform each other; an output that is missing (nan) at some rows is learned from where it was seen and
    from the others.

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for outputs treated apart; default ``Gaussian() * Identity()``
        For instance ``Gaussian(2.0) * MixedEffect(0.5)``, or a sum of such products.
    alpha : float >= 0, or one > 0 for each output
        Weight of the penalty; the noise variance of the equivalent Gaussian process.
    solver : "auto", "cholesky", "eigen", "cg", "gauss-seidel" or a solver of `ovk.solvers`
    fit_intercept : bool
        Learn a constant for each output that is not penalised.
    landmarks : int or (m, p) array, optional
        Use Nystrom features of that many training points (or of these points): O(n m^2) time and memory that does not
        grow with n. `fit` then also takes memory-mapped arrays, and an iterator of chunks (X, Y) or
        (X, Y, sample_weight) in the place of X. Landmarks are drawn uniformly from the rows; from an iterator, out of
        its first rows.
    chunk_size : int
        Rows taken in at a time with `landmarks`.
    random_state : int, Generator or None
        Draws the landmarks.

    Attributes
    ----------
    dual_coef_ : (n, d) coefficients c_i of f(x) = sum_i K(x, x_i) c_i; (n,) if y was one-dimensional; sparse in long
        form
    X_fit_ : (n, p) the points x_i
    intercept_ : (d,) or None
    kernel_ : the kernel with everything learned from the inputs filled in
    solver_info_ : `SolverInfo` with route, iterations, condition estimate and jitter
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    Two outputs with a common shape; the second is observed at 4 of 60 points, and learned through the first.

    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> x = np.linspace(0, 6, 60)[:, None]
    >>> Y = np.column_stack([np.sin(2 * x[:, 0]), np.sin(2 * x[:, 0]) + 0.1])
    >>> seen = Y.copy()
    >>> seen[np.arange(60) % 15 != 0, 1] = np.nan
    >>> apart = OVKRidge(Gaussian(1.0) * MixedEffect(0.0), alpha=0.01).fit(x, seen)
    >>> coupled = OVKRidge(Gaussian(1.0) * MixedEffect(0.9), alpha=0.01).fit(x, seen)
    >>> round(apart.score(x, Y), 2), round(coupled.score(x, Y), 2)
    (0.5, 1.0)
    """

    def __init__(
        self,
        kernel: Any = None,
        alpha: float | Array = 1.0,
        *,
        solver: Any = "auto",
        fit_intercept: bool = False,
        landmarks: Any = None,
        chunk_size: int = 4096,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.landmarks = landmarks
        self.chunk_size = chunk_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Learn from inputs and outputs.

        Parameters
        ----------
        X : (n, p); or, with `landmarks`, an iterator of chunks (X, Y) or (X, Y, sample_weight)
        y : (n, d) or (n,), nan where an output was not observed
        sample_weight : (n,), optional
        task : (n,) integers, optional
            Long form: row i is one observation, of output task_i, with value y_i. The number of outputs is that of
            the kernel's operator, or the largest task plus one.
        """
        with self._all_or_nothing():
            if y is None and _is_stream(X):
                self._fit_stream(X)
            else:
                self._fit_arrays(X, y, sample_weight, task)
        return self

    def _fit_arrays(self, X: Any, y: Any, sample_weight: Any, task: Any) -> None:
        X, targets = self._check(X, y, sample_weight, task, stream=self.landmarks is not None)
        alpha = check_alpha(self.alpha, targets.d)
        if self.landmarks is None:
            self._solve(self._resolved(X, targets.d), alpha, X, targets, self.solver)
        else:
            points = self._choose_landmarks(X)
            kernel = self._resolved(points, targets.d)
            self._fit_landmarks(kernel, alpha, points, targets, self._slices(X, targets))

    def _choose_landmarks(self, X: Any) -> Any:
        if not isinstance(self.landmarks, (int, np.integer)) or isinstance(self.landmarks, bool):
            try:
                points = np.asarray(self.landmarks, dtype=np.float64)
            except (TypeError, ValueError):
                points = np.asarray(self.landmarks, dtype=object)
            if points.dtype == object or points.ndim != 2 or points.shape[1] != X.shape[1] or len(points) == 0:
                raise ValueError(
                    f"landmarks must be a whole number or points with {X.shape[1]} features, got "
                    + (f"shape {points.shape}" if points.ndim else repr(self.landmarks))
                )
            if not np.isfinite(points).all():
                raise ValueError("landmarks must hold finite numbers, got nan or inf")
            return points
        m = whole(self.landmarks, "landmarks")
        rng = self._generator()
        rows = np.sort(rng.choice(X.shape[0], size=min(m, X.shape[0]), replace=False))
        chosen = X[rows]
        return chosen if sparse.issparse(chosen) else np.array(chosen, dtype=np.float64)

    def _generator(self) -> Any:
        if isinstance(self.random_state, np.random.Generator):
            return self.random_state
        return check_random_state(self.random_state)

    def _slices(self, X: Any, targets: Targets) -> Iterator[tuple[Any, Targets]]:
        step = whole(self.chunk_size, "chunk_size")
        for start in range(0, X.shape[0], step):
            rows = slice(start, start + step)
            yield X[rows], targets.rows(rows)

    def _fit_landmarks(
        self,
        kernel: OperatorKernel,
        alpha: float | Array,
        points: Any,
        shape: Targets,
        parts: Iterable[tuple[Any, Targets]],
    ) -> None:
        sums = landmark_ridge(kernel, points, shape.d)
        seen = np.zeros(shape.d, dtype=bool)
        with ProgressBar("learning") as bar:
            for X, targets in parts:
                if targets.task is None:
                    sums.add(X, targets.Y, targets.weight)
                else:
                    sums.add_pairs(X, targets.task, targets.Y[:, 0], targets.weight)
                seen |= targets.seen()
                bar.update(X.shape[0])
        if shape.task is None or self.fit_intercept:
            check_seen(seen, "in all rows")
        C, b, info = sums.solve(alpha, intercept=self.fit_intercept)
        empty = Targets(shape.Y, shape.d, shape.single, None, None)
        self._store(kernel, alpha, sums.features.points, C, b, empty, None)
        self.landmarks_ = sums
        self.solver_info_ = info

    def _fit_stream(self, stream: Iterable[Any]) -> None:
        if self.landmarks is None:
            raise ValueError("fit takes an iterator of chunks only with landmarks: give landmarks=m, or arrays X and Y")
        parts = self._checked_chunks(stream)
        # Enough rows to draw the landmarks from, held back and then taken in like all others.
        wanted = 10 * self.landmarks if isinstance(self.landmarks, (int, np.integer)) else 1
        head: list[tuple[Any, Targets]] = []
        for part in parts:
            head.append(part)
            if sum(X.shape[0] for X, _ in head) >= wanted:
                break
        if not head:
            raise ValueError("the iterator of chunks is empty: there is nothing to learn from")
        first = [X for X, _ in head]
        X = sparse.vstack(first, format="csr") if sparse.issparse(first[0]) else np.concatenate(first)
        points = self._choose_landmarks(X)
        shape = head[0][1]
        alpha = check_alpha(self.alpha, shape.d)
        kernel = self._resolved(points, shape.d)
        self._fit_landmarks(kernel, alpha, points, shape, chain(head, parts))

    def _checked_chunks(self, stream: Iterable[Any]) -> Iterator[tuple[Any, Targets]]:
        first: Targets | None = None
        for number, chunk in enumerate(stream):
            if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
                raise ValueError(
                    f"chunk {number} must be a tuple (X, Y) or (X, Y, sample_weight), got {type(chunk).__name__}"
                )
            X = self._check_inputs(chunk[0], reset=first is None, stream=True)
            weight = chunk[2] if len(chunk) == 3 else None
            targets = check_targets(chunk[1], X.shape[0], weight, None, X, part=True)
            if first is not None and targets.d != first.d:
                raise ValueError(f"chunk {number} has {targets.d} outputs but the first one had {first.d}")
            first = first or targets
            yield X, targets


def _is_stream(X: Any) -> bool:
    return isinstance(X, Iterable) and not (
        hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, (list, tuple, str))
    )


def _informative(X: Any, targets: Targets) -> tuple[Any, Targets]:
    """Without the rows that teach nothing, of weight zero or with no observed output; what is left may be complete."""
    keep = ~np.isnan(targets.Y).all(axis=1)
    if targets.weight is not None:
        keep &= targets.weight > 0
    return (X, targets) if keep.all() else (X[keep], targets.rows(keep))
