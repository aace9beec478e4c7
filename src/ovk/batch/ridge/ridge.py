"""Vector-valued kernel ridge regression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from typing import Any, Self, overload

import numpy as np
from scipy import sparse
from sklearn.base import MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    FILL,
    Array,
    DeviceMatrix,
    Indices,
    Mask,
    NamedOutputs,
    Parameters,
    ProgressBar,
    Targets,
    check_alpha,
    check_choice,
    check_finite_predictions,
    check_groups,
    check_inputs,
    check_int,
    check_observed_outputs,
    check_targets,
    check_tasks,
    drop_unobserved_rows,
    is_on_device,
    positive,
    progress_shown,
    threads_for,
    to_device_of,
    to_host,
    track,
)
from ovk.batch.ridge.graph_penalty import (
    check_manifold,
    graph_of_inputs,
    penalised_ridge,
    penalty_matrix,
    weighted_inputs,
    with_unlabelled,
)
from ovk.batch.ridge.landmarks import (
    LandmarkLeaveOneOut,
    LandmarkRidge,
    choose_landmarks,
    landmark_ridge,
    rows_to_choose_from,
)
from ovk.batch.ridge.ridge_system import (
    LeaveOneOutPredictor,
    PairSystem,
    RidgeSolution,
    RidgeSystem,
    TrainingData,
    check_on_device,
    ridge_system,
    runs_on_devices,
    same_inputs,
    solve_ridge,
    takes_gram,
)
from ovk.batch.ridge.table_inputs import InputScaling
from ovk.intervals import NoiseScale, Regions, concatenate, fold_indices, jackknife, jackknife_plus
from ovk.kernels import Gaussian, ScalarKernel
from ovk.objectives import r2_observed
from ovk.ovkernels import Expansion, OperatorKernel, as_operator_kernel, row_slices
from ovk.solvers import Eigen, as_solver

#: Values of `of` in `predict`, and of `method` in `predict_interval`.
DEVIATION_KINDS, INTERVAL_METHODS = ("observation", "function", "posterior"), ("jackknife", "jackknife+", "cv+")


def kernel_tags(tags: Any, kernel: Any) -> Any:
    tags.input_tags.sparse = True
    tags.input_tags.pairwise = takes_gram(kernel)
    tags.target_tags.single_output = True
    tags.target_tags.multi_output = True
    return tags


def informative_rows(kernel: Any, X: Any, targets: Targets) -> tuple[Any, Targets]:
    """Drop rows with no observed output or zero weight; a kernel matrix given as X must stay square."""
    return (X, targets) if takes_gram(kernel) else drop_unobserved_rows(X, targets)


def default_kernel(kernel: Any) -> OperatorKernel:
    return as_operator_kernel(Gaussian() if kernel is None else kernel)


def score_observed(model: Any, X: Any, y: Any, sample_weight: Any, task: Any) -> float:
    """R^2 of the observed outputs, averaged over outputs; in long form R^2 of all observations."""
    if task is not None:
        predicted = model.predict(X, task=task)[:, None]
        targets = check_targets(y, len(predicted), sample_weight, task, X, model.n_outputs_, part=True)
        return r2_observed(targets.Y, predicted, targets.weight)
    model._check_names(y)
    prediction = np.asarray(to_host(model.predict(X))).reshape(X.shape[0] if hasattr(X, "shape") else len(X), -1)
    targets = check_targets(y, len(prediction), sample_weight, None, X, part=True)
    if targets.d != prediction.shape[1]:
        raise ValueError(f"y must have the {prediction.shape[1]} outputs of the fitted model, got {targets.d}")
    return r2_observed(targets.Y, prediction, targets.weight)


def _check_shapes(k: ScalarKernel, X: Any) -> None:
    """Reject a kernel whose values have the wrong shape, such as a user-defined one."""
    n = X.shape[0]
    # The solver reports values that overflow.
    with np.errstate(all="ignore"):
        found = ("k(X)", k(X), (n, n)), ("k(X, Z)", k(X, X[:2]), (n, min(n, 2))), ("k.diag(X)", k.diag(X), (n,))
    for call, values, expected in found:
        if np.shape(values) != expected:
            raise ValueError(
                f"{type(k).__name__}: {call} must have shape {expected} for {n} rows X and {min(n, 2)} rows Z, got "
                f"{np.shape(values)}: correct the kernel's method"
            )


def is_stream(X: Any) -> bool:
    """Whether X is an iterator of chunks instead of a table."""
    return isinstance(X, Iterable) and not (
        hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, (list, tuple, str))
    )


class OVKRegressor(NamedOutputs, MultiOutputMixin, RegressorMixin, Parameters, saved=False):
    """Base class of regressors that solve ridge regression for an expansion in training points or landmarks.

    Attributes are those of `OVKRidge`. `learned_rows_` marks the rows of `fit` that were used, None if all were;
    `observed_` (n, d), `task_` and `sample_weight_` belong to the training data, None if not given. `inputs_` scales
    the inputs, None for raw inputs; `X_fit_` and `expansion_` are in its units.
    """

    _state_classes = {"landmarks_": LandmarkRidge, "interval_landmarks_": LandmarkRidge, "inputs_": InputScaling}
    _stored = {
        "X_fit_": "n * any | other",
        "dual_coef_": "n * | other",
        "intercept_": "n_outputs_ | None",
        "task_": "t int | None",
        "sample_weight_": "w | None",
        "observed_": "o d any | None",
        "kernel_": OperatorKernel,
        "alpha_": float | np.ndarray,
        "errors_ output_errors_ best_error_": "* inf",
        "landmark_loo_": "* nan | None",
        "interval_rows_": "i int | None",
    }
    _default_factories = {"kernel": Gaussian}
    #: Advice in the error message for nan in inputs.
    _nan_advice = FILL
    _losses: tuple[str, ...] = ("squared", "huber")
    #: Whether inputs may stay on a device.
    _runs_on_devices = False

    kernel: Any
    fit_intercept: bool
    loss: str = "squared"
    alpha_graph: float = 0.0
    chunk_size = 4096
    dtype: Any = "float64"
    verbose: bool | None = None

    landmarks_: LandmarkRidge | None
    inputs_: InputScaling | None
    learned_rows_: Mask | None = None
    #: (2, rows, d) leave-one-out residuals of some rows, and their variances, if a fit to many rows kept them.
    landmark_loo_: Array | None = None
    #: (rows,) their numbers among the learned rows.
    interval_rows_: Indices | None = None
    #: Landmarks that give the variances if the fit itself used all rows.
    interval_landmarks_: LandmarkRidge | None = None

    def __sklearn_tags__(self) -> Any:
        return kernel_tags(super().__sklearn_tags__(), self.kernel)

    def _check_inputs(self, X: Any, *, reset: bool, stream: bool = False) -> Any:
        # Chunks keep float32: a copy of a whole memory-mapped file would defeat the purpose of chunks.
        dtype = [np.float64, np.float32] if stream else np.float64
        return check_inputs(self, X, reset=reset, advice=self._nan_advice, accept_sparse="csr", dtype=dtype)

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, task: Any, *, stream: bool = False
    ) -> tuple[Any, Targets]:
        X = self._check_inputs(X, reset=True, stream=stream)
        targets = check_targets(y, X.shape[0], sample_weight, task, X, self._output_dim())
        self._learn_names(y, targets.d)
        return X, targets

    def _check(self, X: Any, y: Any, sample_weight: Any, task: Any, *, stream: bool = False) -> tuple[Any, Targets]:
        return self._informative(*self._check_rows(X, y, sample_weight, task, stream=stream))

    def _informative(self, X: Any, targets: Targets) -> tuple[Any, Targets]:
        found = informative_rows(self.kernel, X, targets)
        self.learned_rows_ = targets.informative_rows() if found[0].shape[0] < X.shape[0] else None
        return found

    def _checked_chunks(self, stream: Iterable[Any]) -> Iterator[tuple[Any, Targets]]:
        """Check each chunk, and that it agrees with the first."""
        first: Targets | None = None
        for number, chunk in enumerate(stream):
            if not isinstance(chunk, tuple) or len(chunk) not in (2, 3, 4):
                raise ValueError(
                    f"chunk {number} must be a tuple (X, Y), (X, Y, sample_weight) or (X, y, sample_weight, task), got "
                    f"{type(chunk).__name__}"
                )
            X = self._check_inputs(chunk[0], reset=first is None, stream=True)
            weight, task = (*chunk[2:], None, None)[:2]
            outputs = self._output_dim()
            if task is not None and outputs is None:
                raise ValueError(
                    "chunks in long form do not determine the number of tasks: set output_dim of the operator, for "
                    "example Gaussian() * MixedEffect(0.5, output_dim=500)"
                )
            targets = check_targets(chunk[1], X.shape[0], weight, task, X, outputs, part=True)
            if first is None:
                self._learn_names(chunk[1], targets.d)
            elif targets.d != first.d:
                raise ValueError(f"chunk {number} must have {first.d} outputs, as the first chunk, got {targets.d}")
            else:
                self._check_names(chunk[1])
            first = first or targets
            yield X, targets

    def _default_kernel(self) -> OperatorKernel:
        return default_kernel(self.kernel)

    def _output_dim(self) -> int | None:
        """Number of outputs if the kernel determines it."""
        return self._default_kernel().output_dim

    def _own_copy(self, part: Any, d: int) -> Any:
        """A copy of a kernel or operator, so that later changes of the parameter do not change the fitted function."""
        return clone(part)

    def _resolved(self, X: Any, d: int, given: OperatorKernel | None = None) -> OperatorKernel:
        kernel: OperatorKernel = self._own_copy(self._default_kernel() if given is None else given, d)
        if isinstance(X, DeviceMatrix):
            check_on_device(kernel)
        found = kernel.resolve(X, d)
        if not (takes_gram(found) or isinstance(X, DeviceMatrix)):
            for term in found.terms() or []:
                _check_shapes(term.kernel, X[:3])
        return found

    @property
    def _loss(self) -> str:
        return self.loss

    @property
    def _free_intercept(self) -> bool:
        """Whether each output has an unpenalised constant."""
        return self.fit_intercept

    def _solve(
        self, kernel: OperatorKernel, alpha: float | Array, X: Any, targets: Targets, solver: Any, points: Any = None
    ) -> None:
        """Fit a resolved kernel on all rows, or on the landmarks `points`, and store the expansion."""
        if points is not None:
            self._fit_landmarks(kernel, alpha, points, targets, self._slices(X, targets))
            return
        options: dict[str, Any] = {"intercept": self._free_intercept, "loss": self._loss}
        options["single"] = self._single_precision(solver)
        self._store(kernel, alpha, solve_ridge(kernel, alpha, X, targets, solver=solver, **options))

    def _single_precision(self, solver: Any = "auto") -> bool:
        """Whether the kernel matrix is held in single precision; rejects options that are incompatible with it."""
        check_choice(self.loss, "loss", self._losses)
        try:
            name = str(np.dtype(self.dtype).name)
        except TypeError:
            name = self.dtype
        check_choice(name, "dtype", ("float64", "float32"))
        others = {"loss": self._loss != "squared", "solver": isinstance(solver, str) and solver != "auto"}
        others["alpha_graph"] = self.alpha_graph > 0
        for other in [other for other, given in others.items() if given and name == "float32"]:
            raise ValueError(f"dtype='float32' does not support {other}: omit one of them")
        return name == "float32"

    def _store(self, kernel: OperatorKernel, alpha: Any, found: RidgeSolution) -> None:
        targets = found.targets
        self.__dict__.pop("_memo", None)
        self.inputs_ = None
        self.kernel_ = kernel
        self.alpha_ = alpha
        self.X_fit_ = to_host(found.X)
        self.dual_coef_ = found.C[:, 0] if targets.single else found.C
        self.intercept_ = found.intercept
        self.n_outputs_ = targets.d
        self.single_output_ = targets.single
        self.observed_ = targets.observed_mask()
        self.task_ = targets.task
        self.sample_weight_ = targets.weight
        self.landmarks_ = None
        self.solver_info_ = found.info

    def _fit_landmarks(
        self,
        kernel: OperatorKernel,
        alpha: float | Array,
        points: Any,
        shape: Targets,
        parts: Iterable[tuple[Any, Targets]],
        penalty: tuple[Any, Any] | None = None,  # inputs and matrix P of a manifold penalty
    ) -> None:
        """Add up the rows of all parts and solve; `shape` has the form of the outputs."""
        sums = landmark_ridge(kernel, points, shape.d)
        observed = np.zeros(shape.d, dtype=bool)
        with ProgressBar("learning") as bar:
            for X, targets in parts:
                if isinstance(X, DeviceMatrix):
                    check_on_device(kernel)
                    X = X.double()
                sums.add(X, targets)
                observed |= targets.observed_outputs()
                bar.update(X.shape[0])
        if penalty is not None:
            sums.add_penalty(*penalty)
        self._finish_landmarks(kernel, alpha, sums, observed, shape)

    def _finish_landmarks(
        self, kernel: OperatorKernel, alpha: float | Array, sums: LandmarkRidge, observed: Mask, shape: Targets
    ) -> None:
        if self._loss != "squared":
            raise ValueError(f"loss={self._loss!r} does not support landmarks: set landmarks=None")
        if shape.task is None or self.fit_intercept:
            check_observed_outputs(observed, "in all rows")
        C, b, info = sums.solve(alpha, intercept=self.fit_intercept)
        without_rows = replace(shape, Y=np.empty((0, 1)), task=None, weight=None)
        self._store(kernel, alpha, RidgeSolution(sums.features.points, without_rows, C, b, info))
        self.landmarks_ = sums

    def _slices(self, X: Any, targets: Targets) -> Iterator[tuple[Any, Targets]]:
        step = check_int(self.chunk_size, "chunk_size")
        for start in range(0, X.shape[0], step):
            rows = slice(start, start + step)
            yield X[rows], targets.rows(rows)

    @property
    def expansion_(self) -> Expansion:
        """The fitted function f(x) = sum_i K(x, x_i) c_i + intercept, with its Jacobian and norm."""
        check_is_fitted(self)
        C = self.dual_coef_
        return Expansion(self.kernel_, self.X_fit_, C[:, None] if C.ndim == 1 else C, self.intercept_)

    def jacobian(self, X: Any) -> Array:
        """Exact derivative of the prediction with respect to the inputs at each row of X, (n, d, p)."""
        J = self.expansion_.jacobian(self._new_inputs(X))
        if self.inputs_ is not None:
            J = self.inputs_.slopes(J, self._check_inputs(X, reset=False))
        return self._named(J, X)

    def _new_inputs(self, X_given: Any, *, on_device: bool = False) -> Any:
        """Checked new inputs in the units of `X_fit_`, on the host, or with `on_device` where they are."""
        X = self._check_inputs(X_given, reset=False)
        there = is_on_device(X_given) and self._predicts_on_devices()
        if there:
            # The leave-one-out functions of variances and intervals are computed there.
            self.__dict__.setdefault("_memo", {})["device"] = DeviceMatrix(X_given)[:0].double()
        on_device = on_device and there
        if isinstance(X, DeviceMatrix):
            return X if on_device else X.host()
        if self.inputs_ is not None:
            self.inputs_.warn_of_far_rows(X, self._number_names())
            X = self.inputs_(X)
        return DeviceMatrix(to_device_of(X_given, X)) if on_device else X

    def _number_names(self) -> list[str]:
        """Names of the inputs that are numbers, which come first."""
        return [str(j) for j in range(self.n_features_in_)]

    def _predicts_on_devices(self) -> bool:
        """Whether the fitted function can be evaluated there; otherwise predictions are computed on the host."""
        stored = self.X_fit_, self.dual_coef_
        return runs_on_devices(self.kernel_) and not any(map(sparse.issparse, stored))

    @overload
    def predict(self, X: Any, *, task: Any = None, of: str = ...) -> Array: ...
    @overload
    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, task: Any = None, of: str = ...
    ) -> Any: ...
    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, task: Any = None, of: str = "observation"
    ) -> Any:
        """Predict the outputs.

        Parameters
        ----------
        X : (n, p) array
            Inputs.
        return_std : bool
            Also return the standard deviation, in the shape of the prediction.
        return_cov : bool
            Also return the covariance between outputs, (n, d, d).
        task : (n,) integers, optional
            Long form: predict only output task_i at row i, (n,), without computing the other outputs.
        of : "observation", "function" or "posterior"
            Quantity whose standard deviation or covariance is returned: a new observation at x (default); the function
            f(x) without observation noise; both are scaled so that standardised leave-one-out residuals have variance
            1; or f(x) under the Gaussian process with covariance K and noise variance alpha, unscaled. Models with
            landmarks always use "posterior", because they do not keep their rows.

        Returns
        -------
        array or tuple
            (n, d), or (n,) if y was one-dimensional or with `task`. With `return_std` or `return_cov`, a tuple of
            prediction and deviation. If y was a data frame, predictions and standard deviations are frames too.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot be combined: the first is the diagonal of the second")
        check_choice(of, "of", DEVIATION_KINDS)
        expansion = self.expansion_
        if return_std or return_cov:
            self._check_prior()
        # On a device only the mean is computed there; variances, and long form, on the host.
        X_given, X = X, self._new_inputs(X, on_device=not (return_std or return_cov or task is not None))
        if task is not None:
            if return_cov:
                raise ValueError("return_cov requires all outputs of a row and task selects one: use return_std")
            outputs = check_tasks(task, X.shape[0], self.n_outputs_)
            one = expansion.at(X, outputs)
            if not return_std:
                return self._named(one, X_given)
            scale, noise = self._scale_and_noise(of)
            return self._named((one, np.sqrt(scale[outputs] * (self._variances(X, outputs) + noise[outputs]))), X_given)
        values = expansion(X)
        check_finite_predictions(self, values)
        mean = values[:, 0] if self.single_output_ else values
        if not (return_std or return_cov):
            return self._named(mean, X_given)
        if return_std and of != "posterior" and self.landmarks_ is None:
            # The leave-one-out predictor computes variances without the covariances between outputs.
            std = self._left_out_deviation(X, observation=of == "observation")
            return self._named((mean, std[:, 0] if self.single_output_ else std), X_given)
        n, d = values.shape
        covariance = np.concatenate([self._covariance(X[rows]) for rows in row_slices(n, self.X_fit_.shape[0] * d**2)])
        scale, noise = self._scale_and_noise(of)
        covariance = (covariance + np.diag(noise)) * np.sqrt(np.multiply.outer(scale, scale))
        if return_cov:
            return self._named((mean, covariance), X_given)
        std = np.sqrt(np.maximum(np.einsum("nqq->nq", covariance), 0.0))
        return self._named((mean, std[:, 0] if self.single_output_ else std), X_given)

    def _check_prior(self) -> None:
        """Reject kernels without k(x, x) of new points."""
        if takes_gram(self.kernel_):
            raise ValueError(
                "return_std, return_cov and intervals require k(x, x) of new objects, which Precomputed() does not "
                "provide: use Precomputed(matrix) with indices"
            )

    def _scale_and_noise(self, of: str) -> tuple[Array, Array]:
        """(d,) the factor of the variances, and the noise added to them before."""
        none = np.zeros(self.n_outputs_)
        if of == "posterior" or self.landmarks_ is not None:
            return none + 1.0, none
        left_out = self._leave_out(None, None).left_out
        return left_out.scale, left_out.noise if of == "observation" else none

    def _training_data(self) -> TrainingData:
        if self.landmark_loo_ is not None or self.landmarks_ is not None:
            raise ValueError(
                "leave-one-out residuals are not available: a model with landmarks, or fitted to more than 5,000 rows, "
                "does not store all training rows: fit without landmarks (landmarks=None); OVKRidgeCV still supports "
                "intervals without groups, with method='jackknife'"
            )
        data = self.observed_, self.task_, self.sample_weight_
        return self._cached("rows", lambda: TrainingData.recover(self.expansion_, self.alpha_, *data))

    def _covariance(self, X: Any) -> Array:
        known = self.intercept_ is not None
        if self.landmarks_ is not None:
            covariance = self.landmarks_.posterior_covariance(X, self.alpha_, intercept=known)
            return covariance + self.landmarks_.residual_covariance(X)
        return self.kernel_.diagonal_blocks(X) - self._training_system().reduction(X, intercept=known)

    def _variances(self, X: Any, outputs: Indices) -> Array:
        """Posterior variance of one output of each row, (n,)."""
        n, d, m = X.shape[0], self.n_outputs_, self.X_fit_.shape[0]
        if self.task_ is None:
            diagonals = [np.einsum("nqq->nq", self._covariance(X[rows])) for rows in row_slices(n, m * d**2)]
            chosen: Array = np.concatenate(diagonals)[np.arange(n), outputs]
            return np.maximum(chosen, 0.0)
        system, result = self._training_system(), np.empty(n)
        assert isinstance(system, PairSystem)
        for rows in row_slices(n, 2 * m):
            new, q = X[rows], outputs[rows]
            # One row at a time: the diagonal blocks of all outputs would take (n, d, d) numbers.
            prior = [self.kernel_.pairs(new[i : i + 1], q[i : i + 1])[0, 0] for i in range(len(q))]
            result[rows] = prior - system.reduction_at(new, q, intercept=self.intercept_ is not None)[:, 0, 0]
        return np.maximum(result, 0.0)

    def _training_system(self) -> RidgeSystem:
        def made() -> RidgeSystem:
            n, d = self.X_fit_.shape[0], self.n_outputs_
            if self.task_ is not None:
                Y = np.zeros((n, 1))
            else:
                Y = np.zeros((n, d)) if self.observed_ is None else np.where(self.observed_, 0.0, np.nan)
            targets = Targets(Y, d, False, self.task_, self.sample_weight_)
            system = ridge_system(self.kernel_, self.X_fit_, targets, self.alpha_)
            if isinstance(as_solver("auto", system.gram), Eigen):
                system.solver = "cholesky"
            return system

        return self._cached("posterior", made)

    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        method: str = "jackknife",
        region: str = "each",
        groups: Any = None,
        folds: int = 10,
    ) -> Regions:
        """Prediction intervals for new observations, from leave-one-out residuals.

        Training rows with the same inputs are left out together, because a copy would reveal the answer. The spread of
        their outputs is a lower bound for the noise of a new observation.

        Parameters
        ----------
        X : (n, p) array
            Inputs.
        level : float in (0, 1)
            Nominal coverage.
        method : "jackknife", "jackknife+" or "cv+"
            "jackknife": leave-one-out residuals in units of their standard deviations; wider where data are sparse,
            with coverage usually close to `level`. `OVKRidgeCV` also learns where the noise is large. "jackknife+" and
            "cv+": intervals around the leave-one-out functions (or leave-one-fold-out functions), with coverage of at
            least 1 - 2 (1 - level) for any distribution, provided that kernel and alpha were not chosen on the same
            rows.
        region : "each", "box" or "ellipsoid"
            An interval with that coverage for each output, or one region for all outputs of a row; for a curve or a
            field, a box is a band. "box" and "ellipsoid" require "jackknife".
        groups : (training rows,) labels, optional
            If rows come in groups (patients, days, places) and new rows belong to new groups: leave out whole groups.
            One label for each row given to `fit`; rows that `fit` dropped (weight 0, no observed output) may be
            omitted.
        folds : int
            Number of folds of "cv+".

        Returns
        -------
        ovk.intervals.Regions
            Has `predictions`, `lower` and `upper`, (n, d), data frames if y was one, and `contains(Y)`.
        """
        check_is_fitted(self)
        check_choice(method, "method", INTERVAL_METHODS)
        if method != "jackknife" and region != "each":
            raise ValueError(f"region={region!r} requires method='jackknife', got method={method!r}")
        self._check_prior()
        X_given, X = X, self._new_inputs(X)
        rows = self._leave_out(groups, folds if method == "cv+" else None)
        blocks = None if self.landmark_loo_ is not None else self._blocks(groups)
        # The errors of a group, or of repeated inputs, are dependent: together they get the weight of one row.
        shared = None if blocks is None or len(np.unique(blocks)) == len(blocks) else blocks
        noise = self._noise_scale(groups) if method == "jackknife" else None
        parts = []
        for part in track(list(row_slices(X.shape[0], rows.width)), "intervals"):
            cross, prior = rows.kernels(X[part])
            if method == "jackknife":
                parts.append(jackknife(rows.left_out, cross, prior, level, region=region, groups=shared, noise=noise))
            else:
                parts.append(jackknife_plus(rows.left_out, cross, prior, level, groups=shared))
        return self._regions_of_outputs(concatenate(parts), X_given)

    def _regions_of_outputs(self, regions: Regions, X: Any) -> Regions:
        """Regions in the user's units, with the index and column names of the inputs X as given."""
        return regions.named(lambda ends: self._named(ends, X))

    def loo_residuals(self, groups: Any = None) -> Array:
        """Leave-one-out residuals (training rows, d): outputs minus predictions without their row, nan if missing.

        Rows with the same inputs, or with the same label in `groups` (training rows,), are left out together.
        """
        check_is_fitted(self)
        self._training_data()
        return self._leave_out(groups, None).left_out.residuals.copy()

    def _left_out_deviation(self, X: Any, *, observation: bool) -> Array:
        """(n, d) standard deviations of new observations or of the function."""
        rows = self._leave_out(None, None)
        parts = [
            rows.left_out.deviation(*rows.kernels(X[part]), observation=observation)
            for part in track(list(row_slices(X.shape[0], rows.width)), "standard deviations")
        ]
        return np.concatenate(parts) * np.sqrt(rows.left_out.scale)

    def _leave_out(self, groups: Any, folds: int | None) -> LeaveOneOutPredictor:
        """The leave-one-out predictor, kept for the next call; it takes the memory of one factorisation."""
        sums = self.landmarks_ if self.interval_landmarks_ is None else self.interval_landmarks_
        if sums is not None and self.landmark_loo_ is not None and groups is None and folds is None:
            known = self.intercept_ is not None
            found = LandmarkLeaveOneOut(sums, self.expansion_, self.alpha_, self.landmark_loo_, intercept=known)
            return LeaveOneOutPredictor(found, sums.m * self.n_outputs_**2, lambda new: (new, new))
        key = None if groups is None else np.asarray(groups).tobytes(), folds
        memo = self.__dict__.setdefault("_memo", {})
        if memo.get("left out", (None,))[0] != key:
            together = self._blocks(groups)
            fitted = replace(self._training_data(), device=memo.get("device"))
            if folds is not None:
                together = fold_indices(fitted.X.shape[0], folds, np.random.default_rng(0), together)
            # The matrix of pairs has at most this many rows.
            with threads_for(fitted.targets.Y.size):
                memo["left out"] = key, fitted.left_out(together, alike=self._outputs_alike())
        kept: LeaveOneOutPredictor = memo["left out"][1]
        return kept

    def _noise_scale(self, groups: Any) -> NoiseScale | None:
        """A learned scale of the noise in intervals; None for a constant one."""
        return None

    def _outputs_alike(self) -> bool:
        """Whether the outputs are values of one curve."""
        return False

    def _blocks(self, groups: Any) -> Indices | None:
        """(n,) block numbers of rows left out together: groups, or rows with the same inputs."""
        fitted = self._training_data()
        if groups is None:
            return None if takes_gram(fitted.kernel) else same_inputs(fitted.X)
        labels, learned = np.asarray(groups), self.learned_rows_
        if learned is not None and labels.shape == learned.shape:
            labels = labels[learned]
        return check_groups(labels, fitted.X.shape[0])

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Coefficient of determination R^2 of the observed outputs, averaged over outputs.

        In long form (`task` given) it is R^2 of all observations, because a task may have only one.
        """
        return score_observed(self, X, y, sample_weight, task)


@dataclass(eq=False, repr=False)
class OVKRidge(OVKRegressor):
    """Ridge regression for several related outputs with an operator-valued kernel.

    Minimises  sum_i w_i |y_i - f(x_i)|^2 + alpha |f|^2  over the functions f of the kernel's space. Coupled outputs
    share information: an output that is missing (nan) in some rows is learned from its other rows and from the other
    outputs. With `alpha_graph`, inputs without outputs are used too: alpha_graph sum_lm g_lm |f(x_l) - f(x_m)|^2 over
    the links g of a graph of all inputs is added (the manifold penalty).

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for independent outputs; default ``Gaussian() * Identity()``
        For example ``Gaussian(2.0) * MixedEffect(0.5)``, or a sum of such products.
    alpha : float >= 0, or one > 0 for each output
        Weight of the penalty; the noise variance of the equivalent Gaussian process.
    solver : "auto", "cholesky", "eigen", "cg", "gauss-seidel", "tiles" or a solver of `ovk.solvers`
        How the linear system is solved. "tiles" does not store the kernel matrix: conjugate gradient evaluates it in
        tiles, with a preconditioner of n x 1,000 numbers. It requires a kernel k * T, complete outputs and alpha > 0.
    fit_intercept : bool
        Learn an unpenalised constant for each output. Without it, predictions fall to 0 away from the data.
    loss : "squared" or "huber"
        Huber's loss grows linearly for rows with large residuals: it is solved by reweighting, and `sample_weight_`
        holds the final weights. Not available with `landmarks` or `alpha_graph`.
    landmarks : int, (m, p) array, "rpcholesky" or `RPCholesky`, optional
        Use Nystrom features of that many training points (or of these points): O(n m^2) time, and memory that does not
        grow with n. `fit` then also accepts memory-mapped arrays, and an iterator of chunks (X, Y),
        (X, Y, sample_weight) or, in long form, (X, y, sample_weight or None, task) instead of X. Landmarks are drawn
        uniformly from the rows, or with "rpcholesky" by randomly pivoted Cholesky; for an iterator, from its first
        rows.
    alpha_graph : float >= 0
        Weight of the manifold penalty; 0 for none. With it, rows of `y` without any output (nan) and the inputs
        `unlabelled` are used too. Standard deviations then require `landmarks`, and intervals are not available.
    n_neighbors : int
        Number of neighbours of each input in the default graph of inputs.
    chunk_size : int
        Rows processed at a time with `landmarks`.
    dtype : "float64" or "float32"
        Precision of inputs and kernel matrix. With "float32" fitting takes a quarter of the memory, 4 n^2 bytes, and
        the solution is refined to double precision. Requires a kernel k * T, complete outputs and alpha > 0.
    verbose : bool, optional
        Show progress always or never; by default on a terminal, for fits that take longer than a second.
    random_state : int, Generator or None
        Seed of the landmarks.

    Attributes
    ----------
    dual_coef_ : (n, d) coefficients c_i of f(x) = sum_i K(x, x_i) c_i; (n,) if y was one-dimensional; sparse in long
        form
    X_fit_ : (n, p) the points x_i
    intercept_ : (d,) or None
    kernel_ : the kernel with all parameters resolved
    graph_ : (n, n) sparse weights between the inputs, labelled ones first, with `alpha_graph`, else None
    solver_info_ : how the system was solved: route, iterations, condition estimate, jitter
    n_features_in_, feature_names_in_ : as in scikit-learn

    See Also
    --------
    OVKRidgeCV, OVKClassifier, OutputKernelRidge, tune

    Examples
    --------
    Two outputs of the same shape; the second is observed at 4 of 60 points and learned through the first.

    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> x = np.linspace(0, 6, 60)[:, None]
    >>> Y = np.column_stack([np.sin(2 * x[:, 0]), np.sin(2 * x[:, 0]) + 0.1])
    >>> seen = Y.copy()
    >>> seen[np.arange(60) % 15 != 0, 1] = np.nan
    >>> independent = OVKRidge(Gaussian(1.0) * MixedEffect(0.0), alpha=0.01).fit(x, seen)
    >>> coupled = OVKRidge(Gaussian(1.0) * MixedEffect(0.9), alpha=0.01).fit(x, seen)
    >>> round(independent.score(x, Y), 2), round(coupled.score(x, Y), 2)
    (0.47, 0.99)

    One labelled point on each of two moons, and unlabelled inputs:

    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(100, noise=0.05, random_state=0)
    >>> few = [y.tolist().index(0), y.tolist().index(1)]
    >>> def accuracy(**graph):
    ...     model = OVKRidge(Gaussian(0.2), 0.01, **graph).fit(X[few], y[few], unlabelled=X)
    ...     return float(np.mean((model.predict(X) > 0.5) == y))
    >>> accuracy(), accuracy(alpha_graph=1.0)
    (0.77, 1.0)
    """

    _runs_on_devices = True

    kernel: Any = None
    alpha: Any = 1.0
    _: KW_ONLY
    solver: Any = "auto"
    fit_intercept: bool = True
    loss: str = "squared"
    landmarks: Any = None
    alpha_graph: float = 0.0
    n_neighbors: int = 10
    chunk_size: int = 4096
    dtype: Any = "float64"
    verbose: bool | None = None
    random_state: Any = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        task: Any = None,
        unlabelled: Any = None,
        graph: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : (n, p) array
            Inputs; with `landmarks` also an iterator of chunks (X, Y), (X, Y, sample_weight) or
            (X, y, sample_weight, task).
        y : (n, d) or (n,) array
            Outputs, nan where one is missing.
        sample_weight : (n,) array, optional
            Weights of the rows.
        task : (n,) integers, optional
            Long form: row i is one observation of output task_i, with value y_i. The number of outputs is that of
            the kernel's operator, or the largest task plus one.
        unlabelled : (u, p) array, optional
            Inputs without outputs, for the manifold penalty (`alpha_graph` > 0).
        graph : (n + u, n + u) array, sparse matrix or networkx graph, optional
            Weights >= 0 between inputs, those of X first, or their Laplacian; by default similarities of nearest
            neighbours.

        Returns
        -------
        self
            The fitted model.
        """
        with self._fitting(X, y), progress_shown(self.verbose):
            self.learned_rows_ = None
            if positive(self.alpha_graph, "alpha_graph", zero=True) > 0:
                self._fit_manifold(X, y, sample_weight, task, unlabelled, graph)
            elif y is None and is_stream(X):
                self._fit_stream(X)
            else:
                X, targets = self._check(X, y, sample_weight, task, stream=self.landmarks is not None)
                alpha = check_alpha(self.alpha, targets.d)
                points = self._landmarks(X, targets.d, self.random_state)
                kernel = self._resolved(X if points is None else points, targets.d)
                self._solve(kernel, alpha, X, targets, self.solver, points)
        return self

    def merge(self, other: OVKRidge) -> Self:
        """Add the training rows of another model with the same landmarks; the result equals a fit on all rows.

        Both models must have the same kernel and the same points as `landmarks`. Parts of the data can be learned
        anywhere, saved, loaded and merged (`ovk.features.merge_all` merges in a fixed order). This model keeps its
        parameters; the other does not change.
        """
        if self.landmarks_ is None or other.landmarks_ is None:
            raise ValueError("merge requires two models fitted with landmarks: set landmarks=points")
        if self.graph_ is not None or other.graph_ is not None:
            raise ValueError("merge does not support alpha_graph, which requires all inputs at once")
        sums = self.landmarks_.merged(other.landmarks_)
        with self._fitting(sums.features.L):
            C, self.intercept_, self.solver_info_ = sums.solve(self.alpha_, intercept=self.fit_intercept)
            self.__dict__.pop("_memo", None)
            self.dual_coef_ = C[:, 0] if self.single_output_ else C
            self.landmarks_ = sums
        return self

    def _fit_manifold(self, X: Any, y: Any, sample_weight: Any, task: Any, unlabelled: Any, graph: Any) -> None:
        check_manifold(self.kernel, self.loss, streamed=y is None and is_stream(X))
        if is_on_device(X):
            raise ValueError("a fit on a device does not support alpha_graph: set alpha_graph=0, or pass NumPy arrays")
        self._single_precision()
        X, targets = self._check_rows(X, y, sample_weight, task)
        targets = targets.wide()
        alpha = check_alpha(self.alpha, targets.d)
        if unlabelled is not None:
            X = with_unlabelled(X, self._check_inputs(unlabelled, reset=False))
            targets = targets.with_unlabelled_rows(X.shape[0])
        X, targets, graph = weighted_inputs(X, targets, graph)
        points = self._landmarks(X, targets.d, self.random_state)
        kernel = self._resolved(X if points is None else points, targets.d)
        separable = kernel.as_separable()
        weights = graph_of_inputs(graph, None if separable is None else separable.scalar, X, self.n_neighbors)
        P = penalty_matrix(weights, float(self.alpha_graph))
        if points is None:
            found = penalised_ridge(kernel, X, targets, alpha, P, intercept=self.fit_intercept)
            self._store(kernel, alpha, RidgeSolution(X, targets, *found))
        else:
            self._fit_landmarks(kernel, alpha, points, targets, self._slices(X, targets), (X, P))
        self.graph_: sparse.csr_array | None = weights

    def _store(self, kernel: OperatorKernel, alpha: Any, found: RidgeSolution) -> None:
        super()._store(kernel, alpha, found)
        self.graph_ = None

    def _check_prior(self) -> None:
        super()._check_prior()
        if self.graph_ is not None and self.landmarks_ is None:
            raise ValueError(
                "alpha_graph > 0 supports no intervals, and standard deviations only with landmarks: set for example "
                "landmarks=500"
            )

    def _landmarks(self, X: Any, d: int, random_state: Any) -> Any:
        if self.landmarks is None:
            return None
        return choose_landmarks(self.landmarks, X, random_state, lambda rows: self._resolved(rows, d))

    def _fit_stream(self, stream: Iterable[Any]) -> None:
        if self.landmarks is None:
            raise ValueError("fit accepts an iterator of chunks only with landmarks: set landmarks, or pass arrays")
        parts = self._checked_chunks(stream)
        head, X = rows_to_choose_from(self.landmarks, parts)
        shape = head[0][1]
        points = self._landmarks(X, shape.d, self.random_state)
        alpha = check_alpha(self.alpha, shape.d)
        self._fit_landmarks(self._resolved(points, shape.d), alpha, points, shape, chain(head, parts))
