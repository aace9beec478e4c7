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
    Indices,
    Mask,
    NamedOutputs,
    Parameters,
    ProgressBar,
    Targets,
    check_alpha,
    check_finite_predictions,
    check_groups,
    check_inputs,
    check_int,
    check_observed_outputs,
    check_targets,
    check_tasks,
    drop_unobserved_rows,
    positive,
    progress_shown,
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
from ovk.batch.ridge.landmarks import LandmarkRidge, choose_landmarks, landmark_ridge, rows_to_choose_from
from ovk.batch.ridge.ridge_system import (
    LeaveOutPredictor,
    PairSystem,
    RidgeSolution,
    RidgeSystem,
    TrainingData,
    ridge_system,
    same_inputs,
    solve_ridge,
    takes_gram,
)
from ovk.batch.ridge.table_inputs import InputScaling
from ovk.intervals import Regions, concatenate, fold_numbers, jackknife, jackknife_plus
from ovk.kernels import Gaussian
from ovk.objectives import r2_observed
from ovk.ovkernels import Expansion, OperatorKernel, as_operator_kernel, row_slices
from ovk.solvers import Eigen, as_solver

#: What a standard deviation may be about, and how intervals are made.
OF, METHODS = ("observation", "function", "posterior"), ("jackknife", "jackknife+", "cv+")

# How estimators with an operator-valued kernel are described to scikit-learn, read rows and are scored.


def kernel_tags(tags: Any, kernel: Any) -> Any:
    """scikit-learn's tags of an estimator with this kernel."""
    tags.input_tags.sparse = True
    tags.input_tags.pairwise = takes_gram(kernel)
    tags.target_tags.single_output = True
    tags.target_tags.multi_output = True
    return tags


def informative_rows(kernel: Any, X: Any, targets: Targets) -> tuple[Any, Targets]:
    """Inputs and outputs without the rows that teach nothing; a kernel matrix given as X must stay square."""
    return (X, targets) if takes_gram(kernel) else drop_unobserved_rows(X, targets)


def default_kernel(kernel: Any) -> OperatorKernel:
    """The operator-valued kernel that a user means."""
    return as_operator_kernel(Gaussian() if kernel is None else kernel)


def score_observed(model: Any, X: Any, y: Any, sample_weight: Any, task: Any) -> float:
    """R^2 over the observed outputs, averaged over outputs; in long form that of all observations together."""
    if task is not None:
        predicted = model.predict(X, task=task)[:, None]
        targets = check_targets(y, len(predicted), sample_weight, task, X, model.n_outputs_, part=True)
        return r2_observed(targets.Y, predicted, targets.weight)
    model._check_names(y)
    prediction = np.asarray(model.predict(X)).reshape(X.shape[0] if hasattr(X, "shape") else len(X), -1)
    targets = check_targets(y, len(prediction), sample_weight, None, X, part=True)
    if targets.d != prediction.shape[1]:
        raise ValueError(f"y has {targets.d} outputs but the model was fitted with {prediction.shape[1]}")
    return r2_observed(targets.Y, prediction, targets.weight)


def is_stream(X: Any) -> bool:
    """Whether X is an iterator of chunks and no table."""
    return isinstance(X, Iterable) and not (
        hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, (list, tuple, str))
    )


class OVKRegressor(NamedOutputs, MultiOutputMixin, RegressorMixin, Parameters, saved=False):
    """A regressor that solves ridge regression for an expansion in training points, or in landmarks.

    `learned_rows_` (rows given to fit,) tells which of them were learned, None if all were. Other attributes are those
    of `OVKRidge`; `observed_` (n, d), `task_` and `sample_weight_` are those of the training data,
    None where there was nothing of the kind. `inputs_` scales inputs, and `X_fit_` and `expansion_` are in its units;
    None where kernels see inputs as they are.
    """

    _state_classes = {"landmarks_": LandmarkRidge, "inputs_": InputScaling}
    _default_factories = {"kernel": Gaussian}
    #: What a message says about nan in inputs.
    _cure_of_gaps = FILL

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

    def __sklearn_tags__(self) -> Any:
        return kernel_tags(super().__sklearn_tags__(), self.kernel)

    # Reading inputs, outputs and kernel.

    def _check_inputs(self, X: Any, *, reset: bool, stream: bool = False) -> Any:
        # float32 is kept where rows are taken in chunks: copying the whole of a large file would defeat the purpose.
        dtype = [np.float64, np.float32] if stream else np.float64
        return check_inputs(self, X, reset=reset, cure=self._cure_of_gaps, accept_sparse="csr", dtype=dtype)

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, task: Any, *, stream: bool = False
    ) -> tuple[Any, Targets]:
        """Checked inputs and outputs."""
        X = self._check_inputs(X, reset=True, stream=stream)
        targets = check_targets(y, X.shape[0], sample_weight, task, X, self._output_dim())
        self._learn_names(y, targets.d)
        return X, targets

    def _check(self, X: Any, y: Any, sample_weight: Any, task: Any, *, stream: bool = False) -> tuple[Any, Targets]:
        """Checked inputs and outputs, without the rows that teach nothing."""
        return self._informative(*self._check_rows(X, y, sample_weight, task, stream=stream))

    def _informative(self, X: Any, targets: Targets) -> tuple[Any, Targets]:
        found = informative_rows(self.kernel, X, targets)
        self.learned_rows_ = targets.informative_rows() if found[0].shape[0] < X.shape[0] else None
        return found

    def _checked_chunks(self, stream: Iterable[Any]) -> Iterator[tuple[Any, Targets]]:
        """Chunks of rows, each checked, and checked against the first."""
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
                    "chunks in long form do not show how many tasks there are: give the operator its output_dim, as in "
                    "Gaussian() * MixedEffect(0.5, output_dim=500)"
                )
            targets = check_targets(chunk[1], X.shape[0], weight, task, X, outputs, part=True)
            if first is None:
                self._learn_names(chunk[1], targets.d)
            elif targets.d != first.d:
                raise ValueError(f"chunk {number} has {targets.d} outputs but the first one had {first.d}")
            else:
                self._check_names(chunk[1])
            first = first or targets
            yield X, targets

    def _default_kernel(self) -> OperatorKernel:
        return default_kernel(self.kernel)

    def _output_dim(self) -> int | None:
        """Number of outputs, where the kernel says it."""
        return self._default_kernel().output_dim

    def _own_copy(self, part: Any, d: int) -> Any:
        """A copy of a kernel or operator: what is later done to the parameter must not change the fitted function."""
        return clone(part)

    def _resolved(self, X: Any, d: int) -> OperatorKernel:
        kernel: OperatorKernel = self._own_copy(self._default_kernel(), d)
        return kernel.resolve(X, d)

    # Solving, and keeping the expansion.

    @property
    def _free_intercept(self) -> bool:
        """Whether a constant for each output is learned that is not penalised."""
        return self.fit_intercept

    def _solve(
        self, kernel: OperatorKernel, alpha: float | Array, X: Any, targets: Targets, solver: Any, points: Any = None
    ) -> None:
        """Fit with a resolved kernel in all rows, or in the landmarks `points`, and keep the expansion."""
        if points is not None:
            self._fit_landmarks(kernel, alpha, points, targets, self._slices(X, targets))
            return
        how: dict[str, Any] = {"intercept": self._free_intercept, "loss": self.loss}
        how["single"] = self._is_single(solver)
        self._store(kernel, alpha, solve_ridge(kernel, alpha, X, targets, solver=solver, **how))

    def _is_single(self, solver: Any = "auto") -> bool:
        """Whether the kernel's matrix is to be held in single precision; refuses what does not go with it."""
        if self.loss not in ("squared", "huber"):
            raise ValueError(f"loss must be 'squared' or 'huber', got {self.loss!r}")
        try:
            name = str(np.dtype(self.dtype).name)
        except TypeError:
            name = repr(self.dtype)
        if name not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float64' or 'float32', got {self.dtype!r}")
        others = {"loss": self.loss != "squared", "solver": isinstance(solver, str) and solver != "auto"}
        others["alpha_graph"] = self.alpha_graph > 0
        for other in [other for other, given in others.items() if given and name == "float32"]:
            raise ValueError(f"dtype='float32' is solved in a way of its own: leave out {other}, or dtype")
        return name == "float32"

    def _store(self, kernel: OperatorKernel, alpha: Any, found: RidgeSolution) -> None:
        targets = found.targets
        self.__dict__.pop("_memo", None)
        self.inputs_ = None
        self.kernel_ = kernel
        self.alpha_ = alpha
        self.X_fit_ = found.X
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
        penalty: tuple[Any, Any] | None = None,
    ) -> None:
        """Learn sums over rows, and solve for them.

        `shape` tells the form of the outputs, `penalty` has the inputs and the matrix P of a manifold penalty.
        """
        sums = landmark_ridge(kernel, points, shape.d)
        observed = np.zeros(shape.d, dtype=bool)
        with ProgressBar("learning") as bar:
            for X, targets in parts:
                sums.add(X, targets)
                observed |= targets.observed_outputs()
                bar.update(X.shape[0])
        if penalty is not None:
            sums.add_penalty(*penalty)
        self._finish_landmarks(kernel, alpha, sums, observed, shape)

    def _finish_landmarks(
        self, kernel: OperatorKernel, alpha: float | Array, sums: LandmarkRidge, observed: Mask, shape: Targets
    ) -> None:
        if self.loss != "squared":
            raise ValueError(f"loss={self.loss!r} needs all rows at once: give landmarks=None")
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

    # Prediction.

    @property
    def expansion_(self) -> Expansion:
        """The fitted function f(x) = sum_i K(x, x_i) c_i + intercept, with its Jacobian and its norm."""
        check_is_fitted(self)
        C = self.dual_coef_
        return Expansion(self.kernel_, self.X_fit_, C[:, None] if C.ndim == 1 else C, self.intercept_)

    def jacobian(self, X: Any) -> Array:
        """Derivative of the prediction in the inputs at each row of X, in closed form: (n, d, p)."""
        expansion = self.expansion_
        J = expansion.jacobian(self._new_inputs(X))
        return J if self.inputs_ is None else self.inputs_.slopes(J)

    def _new_inputs(self, X: Any) -> Any:
        """New inputs, checked, in the units of `X_fit_`."""
        X = self._check_inputs(X, reset=False)
        return X if self.inputs_ is None else self.inputs_(X)

    @overload
    def predict(self, X: Any, *, task: Any = None, of: str = ...) -> Array: ...
    @overload
    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, task: Any = None, of: str = ...
    ) -> Any: ...
    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        task: Any = None,
        of: str = "observation",
    ) -> Any:
        """Predict the outputs.

        Parameters
        ----------
        X : (n, p)
        return_std : also return the standard deviation, in the shape of the prediction
        return_cov : also return the covariance between outputs, (n, d, d)
        task : (n,) integers, optional
            Long form: predict output task_i alone at row i, (n,); the n x d other values are never held.
        of : "observation", "function" or "posterior"
            What the standard deviation or covariance is about: a new observation at x, the default, or the function
            f(x) without the noise of an observation, both scaled so that left-out residuals have variance 1 in these
            units; or f(x) of the Gaussian process with covariance K and noise variance alpha, taken at its word.
            With landmarks it is the last whatever is asked for: their rows are not kept.

        Returns
        -------
        (n, d), or (n,) if y was one-dimensional or with `task`; with `return_std` or `return_cov`, a tuple with
        that behind it. Where y was a data frame, predictions and standard deviations are frames of the same kind
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be True: the first is the diagonal of the second")
        if of not in OF:
            raise ValueError(f"of must be {', '.join(map(repr, OF))}, got {of!r}")
        expansion = self.expansion_
        if return_std or return_cov:
            self._check_prior()
        asked, X = X, self._new_inputs(X)
        if task is not None:
            if return_cov:
                raise ValueError("return_cov is about all outputs of a row, task asks for one: use return_std")
            outputs = check_tasks(task, X.shape[0], self.n_outputs_)
            one = expansion.at(X, outputs)
            if not return_std:
                return one
            scale, noise = self._scale_and_noise(of)
            return one, np.sqrt(scale[outputs] * (self._variances(X, outputs) + noise[outputs]))
        values = expansion(X)
        check_finite_predictions(self, values)
        mean = values[:, 0] if self.single_output_ else values
        if not (return_std or return_cov):
            return self._named(mean, asked)
        if return_std and of != "posterior" and self.landmarks_ is None:
            # The left-out functions are at hand, and know variances without the covariances between outputs.
            std = self._left_out_deviation(X, observation=of == "observation")
            return self._named((mean, std[:, 0] if self.single_output_ else std), asked)
        n, d = values.shape
        width = self.X_fit_.shape[0] * d**2
        covariance = np.concatenate([self._covariance(X[rows]) for rows in row_slices(n, width)])
        scale, noise = self._scale_and_noise(of)
        covariance = (covariance + np.diag(noise)) * np.sqrt(np.multiply.outer(scale, scale))
        if return_cov:
            return self._named(mean, asked), covariance
        std = np.sqrt(np.maximum(np.einsum("nqq->nq", covariance), 0.0))
        return self._named((mean, std[:, 0] if self.single_output_ else std), asked)

    def _check_prior(self) -> None:
        """Refuse kernels that do not know k(x, x) of new points."""
        if takes_gram(self.kernel_):
            raise ValueError(
                "Precomputed() does not know k(x, x) of new objects, so there is no return_std, no return_cov and no "
                "interval: use Precomputed(matrix) with indices"
            )

    def _scale_and_noise(self, of: str) -> tuple[Array, Array]:
        """(d,) what variances are multiplied by, and what is added to them before."""
        none = np.zeros(self.n_outputs_)
        if of == "posterior" or self.landmarks_ is not None:
            return none + 1.0, none
        left_out = self._leave_out(None, None).left_out
        return left_out.scale, left_out.noise if of == "observation" else none

    def _training_data(self) -> TrainingData:
        """What was learned from, for leaving rows out; refuses where it was not kept."""
        if self.landmarks_ is not None:
            raise ValueError(
                "intervals need the training rows, which a model with landmarks does not keep: fit without landmarks"
            )
        data = self.observed_, self.task_, self.sample_weight_
        return self._remembered("rows", lambda: TrainingData.recover(self.expansion_, self.alpha_, *data))

    def _covariance(self, X: Any) -> Array:
        known = self.intercept_ is not None
        if self.landmarks_ is not None:
            # The prior's where the landmarks do not reach.
            return self.landmarks_.within(X, self.alpha_, intercept=known) + self.landmarks_.beyond(X)
        return self.kernel_.diagonal_blocks(X) - self._posterior().reduction(X, intercept=known)

    def _variances(self, X: Any, outputs: Indices) -> Array:
        """Posterior variance of one output of each row, (n,)."""
        n, d, m = X.shape[0], self.n_outputs_, self.X_fit_.shape[0]
        if self.task_ is None:
            diagonals = [np.einsum("nqq->nq", self._covariance(X[rows])) for rows in row_slices(n, m * d**2)]
            chosen: Array = np.concatenate(diagonals)[np.arange(n), outputs]
            return np.maximum(chosen, 0.0)
        system, result = self._posterior(), np.empty(n)
        assert isinstance(system, PairSystem)
        for rows in row_slices(n, 2 * m):
            new, q = X[rows], outputs[rows]
            # One row at a time: the diagonal blocks of all outputs would be (n, d, d).
            prior = [self.kernel_.pairs(new[i : i + 1], q[i : i + 1])[0, 0] for i in range(len(q))]
            result[rows] = prior - system.reduction_at(new, q, intercept=self.intercept_ is not None)
        return np.maximum(result, 0.0)

    def _posterior(self) -> RidgeSystem:
        """The system of the training points."""

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

        return self._remembered("posterior", made)

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
        """Intervals that hold new observations with a given probability, from the rows that were left out.

        Training rows with the same inputs are left out together: a copy left in would give the answer away. How far
        their outputs are apart says how far a new observation may be off at least.

        Parameters
        ----------
        X : (n, p)
        level : float in (0, 1)
            Coverage asked for.
        method : "jackknife", "jackknife+" or "cv+"
            Left-out residuals in units of their own standard deviations, wide where there were few data, with a
            coverage close to `level` as a rule; or intervals around the left-out functions, with a coverage of at
            least 1 - 2 (1 - level) whatever the distribution, as long as kernel and alpha were not chosen by the same
            rows: each row (or group) left out, or `folds` of them.
        region : "each", "box" or "ellipsoid"
            An interval for each output with that coverage, or one region that holds all outputs of a row at once;
            around a curve or a field, a box is a band. Only with "jackknife".
        groups : (training rows,), optional
            Where rows come in groups (patients, days, places) and new rows are of new groups: whole groups are left
            out. One entry for each row that was given to `fit`; those that were not learned, of weight 0 or without
            any observed output, may be left out of them.
        folds : int
            Of "cv+".

        Returns
        -------
        `ovk.intervals.Regions` with `predictions`, `lower` and `upper`, (n, d), frames where y was one; `contains(Y)`
        tells what they hold
        """
        check_is_fitted(self)
        if method not in METHODS:
            raise ValueError(f"method must be {', '.join(map(repr, METHODS))}, got {method!r}")
        if method != "jackknife" and region != "each":
            raise ValueError(f"region={region!r} needs method='jackknife': {method!r} has an interval for each output")
        self._check_prior()
        asked, X = X, self._new_inputs(X)
        rows = self._leave_out(groups, folds if method == "cv+" else None)
        blocks = self._blocks(groups)
        # Rows of a group, and repetitions, say little more than one row: they share one vote.
        shared = None if blocks is None or len(np.unique(blocks)) == len(blocks) else blocks
        parts = []
        for part in track(list(row_slices(X.shape[0], rows.width)), "intervals"):
            cross, prior = rows.kernels(X[part])
            if method == "jackknife":
                parts.append(jackknife(rows.left_out, cross, prior, level, region=region, groups=shared))
            else:
                parts.append(jackknife_plus(rows.left_out, cross, prior, level, groups=shared))
        return self._regions_of_outputs(concatenate(parts), asked)

    def _regions_of_outputs(self, regions: Regions, X: Any) -> Regions:
        """The regions around the outputs as the user knows them, for new inputs as they were given."""
        return regions.named(lambda ends: self._named(ends, X))

    def left_out_residuals(self, groups: Any = None) -> Array:
        """(training rows, d) outputs less what is predicted for them without their row, nan where one is missing.

        Rows with the same inputs, or of the same of the `groups` (training rows,), are left out together.
        """
        check_is_fitted(self)
        return self._leave_out(groups, None).left_out.residuals.copy()

    def _training_outputs(self) -> Array:
        """(training rows, d) what was learned from, nan where an output was not observed; (rows, 1) in long form."""
        return self._training_data().targets.Y

    def _left_out_deviation(self, X: Any, *, observation: bool) -> Array:
        """(n, d) standard deviations of new observations, or of the function, at checked inputs."""
        rows = self._leave_out(None, None)
        parts = [
            rows.left_out.deviation(*rows.kernels(X[part]), observation=observation)
            for part in track(list(row_slices(X.shape[0], rows.width)), "standard deviations")
        ]
        return np.concatenate(parts) * np.sqrt(rows.left_out.scale)

    def _leave_out(self, groups: Any, folds: int | None) -> LeaveOutPredictor:
        """Kept for the next call: the memory of one factorisation."""
        key = None if groups is None else np.asarray(groups).tobytes(), folds
        memo = self.__dict__.setdefault("_memo", {})
        if memo.get("left out", (None,))[0] != key:
            together = self._blocks(groups)
            fitted = self._training_data()
            if folds is not None:
                n = fitted.X.shape[0]
                together = fold_numbers(n, folds, np.random.default_rng(0), together)
            memo["left out"] = key, fitted.left_out(together, alike=self._outputs_alike())
        found: LeaveOutPredictor = memo["left out"][1]
        return found

    def _outputs_alike(self) -> bool:
        """Whether outputs are values of one curve."""
        return False

    def _blocks(self, groups: Any) -> Indices | None:
        """(n,) numbers of rows that are left out together: groups, or rows with the same inputs."""
        fitted = self._training_data()
        if groups is None:
            return None if takes_gram(fitted.kernel) else same_inputs(fitted.X)
        labels, learned = np.asarray(groups), self.learned_rows_
        if learned is not None and labels.shape == learned.shape:
            labels = labels[learned]
        return check_groups(labels, fitted.X.shape[0])

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Coefficient of determination R^2 over the observed outputs, averaged over outputs.

        In long form (`task` given) it is that of all observations together: a task may have a single one.
        """
        return score_observed(self, X, y, sample_weight, task)


@dataclass(eq=False, repr=False)
class OVKRidge(OVKRegressor):
    """Ridge regression in the space of an operator-valued kernel (vector-valued regularised least squares).

    Minimises  sum_i w_i |y_i - f(x_i)|^2 + alpha |f|^2  over the functions f of the kernel's space. Outputs that the
    kernel couples inform each other; an output that is missing (nan) at some rows is learned from where it was seen and
    from the others. With `alpha_graph`, inputs without outputs help: alpha_graph sum_lm g_lm |f(x_l) - f(x_m)|^2 over
    the links g of a graph of all inputs is minimised too (the manifold penalty).

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for outputs treated apart; default ``Gaussian() * Identity()``
        For instance ``Gaussian(2.0) * MixedEffect(0.5)``, or a sum of such products.
    alpha : float >= 0, or one > 0 for each output
        Weight of the penalty; the noise variance of the equivalent Gaussian process.
    solver : "auto", "cholesky", "eigen", "cg", "gauss-seidel" or a solver of `ovk.solvers`
    fit_intercept : bool
        Learn a constant for each output that is not penalised. Without it predictions fall to 0 away from the data.
    loss : "squared" or "huber"
        Huber's loss counts rows that are far off linearly: the fit is the weighted one in which they weigh less, and
        `sample_weight_` holds these weights. Not with `landmarks`, nor with `alpha_graph`.
    landmarks : int, (m, p) array, "rpcholesky" or `RPCholesky`, optional
        Use Nystrom features of that many training points (or of these points): O(n m^2) time and memory that does not
        grow with n. `fit` then also takes memory-mapped arrays, and an iterator of chunks (X, Y), (X, Y, sample_weight)
        or, in long form, (X, y, sample_weight or None, task) in the place of X. Landmarks are drawn uniformly from the
        rows, or with "rpcholesky" from where the kernel is not yet explained; from an iterator, out of its first rows.
    alpha_graph : float >= 0
        Weight of the manifold penalty; 0 for none. With it, rows of `y` without any output (nan) and the inputs given
        as `unlabelled` are learned from too. Standard deviations then need `landmarks`; intervals there are none.
    n_neighbors : int
        Of the graph of inputs that is made where `fit` gets none: each input is linked to that many most like it.
    chunk_size : int
        Rows taken in at a time with `landmarks`.
    dtype : "float64" or "float32"
        Precision in which inputs and the kernel's matrix are held. With "float32" fitting takes a quarter of the
        memory, 4 n^2 bytes; solutions are refined to double precision. For kernels k * T, all outputs seen, alpha > 0.
    verbose : bool, optional
        Show progress, or never; by default it is shown on a terminal by fits that take longer than a second.
    random_state : int, Generator or None
        Draws the landmarks.

    Attributes
    ----------
    dual_coef_ : (n, d) coefficients c_i of f(x) = sum_i K(x, x_i) c_i; (n,) if y was one-dimensional; sparse in long
        form
    X_fit_ : (n, p) the points x_i
    intercept_ : (d,) or None
    kernel_ : the kernel with everything learned from the inputs filled in
    graph_ : (n, n) sparse weights between the inputs, labelled ones first, with `alpha_graph`, else None
    solver_info_ : how the system was solved: route, iterations, condition estimate, jitter
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
    (0.47, 0.99)

    One label on each of two moons, and the inputs of the others:

    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(100, noise=0.05, random_state=0)
    >>> few = [y.tolist().index(0), y.tolist().index(1)]
    >>> def share_right(**graph):
    ...     model = OVKRidge(Gaussian(0.2), 0.01, **graph).fit(X[few], y[few], unlabelled=X)
    ...     return float(np.mean((model.predict(X) > 0.5) == y))
    >>> share_right(), share_right(alpha_graph=1.0)
    (0.77, 1.0)
    """

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
        """Learn from inputs and outputs.

        Parameters
        ----------
        X : (n, p); or, with `landmarks`, an iterator of chunks (X, Y), (X, Y, sample_weight) or (X, y, sample_weight,
            task)
        y : (n, d) or (n,), nan where an output was not observed
        sample_weight : (n,), optional
        task : (n,) integers, optional
            Long form: row i is one observation, of output task_i, with value y_i. The number of outputs is that of
            the kernel's operator, or the largest task plus one.
        unlabelled : (u, p), optional
            Inputs without outputs, for the manifold penalty (`alpha_graph` > 0).
        graph : (n + u, n + u) array, sparse matrix or networkx graph, optional
            Weights >= 0 between inputs, those of X first, or their Laplacian; similarities of near neighbours by
            default.
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
        """Learn what another model with the same landmarks has learned, exactly as from its rows.

        Both must have been fitted with the same kernel and the same points as `landmarks`. Sums over rows add up, so
        that parts of the data can be learned anywhere, saved, loaded and merged (`ovk.features.merge_all` does it in a
        fixed order). The parameters of this model hold; the other is left as it is.
        """
        if self.landmarks_ is None or other.landmarks_ is None:
            raise ValueError("models can be merged only if both were fitted with landmarks: give landmarks=points")
        if self.graph_ is not None or other.graph_ is not None:
            raise ValueError("alpha_graph needs all inputs at once: leave it out to merge models")
        sums = self.landmarks_.merged(other.landmarks_)
        with self._fitting(sums.features.L):
            C, self.intercept_, self.solver_info_ = sums.solve(self.alpha_, intercept=self.fit_intercept)
            self.__dict__.pop("_memo", None)
            self.dual_coef_ = C[:, 0] if self.single_output_ else C
            self.landmarks_ = sums
        return self

    def _fit_manifold(self, X: Any, y: Any, sample_weight: Any, task: Any, unlabelled: Any, graph: Any) -> None:
        check_manifold(self.kernel, self.loss, streamed=y is None and is_stream(X))
        self._is_single()
        X, targets = self._check_rows(X, y, sample_weight, task)
        targets = targets.wide()
        alpha = check_alpha(self.alpha, targets.d)
        if unlabelled is not None:
            X = with_unlabelled(X, self._check_inputs(unlabelled, reset=False))
            targets = targets.followed_by_gaps(X.shape[0])
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
                "with alpha_graph > 0 there are no intervals, and standard deviations only with landmarks: give for "
                "instance landmarks=500"
            )

    def _landmarks(self, X: Any, d: int, random_state: Any) -> Any:
        """The landmarks, or None where there are none."""
        if self.landmarks is None:
            return None
        return choose_landmarks(self.landmarks, X, random_state, lambda rows: self._resolved(rows, d))

    def _fit_stream(self, stream: Iterable[Any]) -> None:
        if self.landmarks is None:
            raise ValueError("fit takes an iterator of chunks only with landmarks: give landmarks=m, or arrays X and Y")
        parts = self._checked_chunks(stream)
        head, X = rows_to_choose_from(self.landmarks, parts)
        shape = head[0][1]
        points = self._landmarks(X, shape.d, self.random_state)
        alpha = check_alpha(self.alpha, shape.d)
        kernel = self._resolved(points, shape.d)
        self._fit_landmarks(kernel, alpha, points, shape, chain(head, parts))
