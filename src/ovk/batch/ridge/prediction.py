"""Prediction by an expansion in training points: the function, its derivative, score, uncertainty and intervals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from scipy import sparse
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    Array,
    Indices,
    Mask,
    NamedOutputs,
    Parameters,
    Targets,
    check_finite_predictions,
    check_groups,
    check_targets,
    check_tasks,
    track,
)
from ovk.batch.ridge.landmarks import LandmarkRidge
from ovk.batch.ridge.ridge_system import CompleteSystem, PairSystem, RidgeSystem, ridge_problem, takes_gram
from ovk.batch.ridge.table_inputs import InputScaling
from ovk.intervals import Regions, concatenate, fold_numbers, jackknife, jackknife_plus
from ovk.objectives import r2_observed
from ovk.operators import Identity
from ovk.ovkernels import Expansion, OperatorKernel, Separable, row_slices
from ovk.solvers import (
    DENSE_LIMIT,
    Cholesky,
    Eigen,
    LeaveOneOut,
    PairwiseLeaveOneOut,
    ScalarPairsLeaveOneOut,
    SeparableLeaveOneOut,
    as_solver,
    eigenpairs,
)

# Which rows have the same inputs: a copy left in would give away the one that is left out.


def same_inputs(X: Any) -> Indices:
    """For each row the number of its group of rows with the same inputs, groups in order of appearance."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in row_keys(X)], dtype=np.intp)


def order_of_rows(X: Any, Y: Array) -> Indices:
    """Numbers of the rows in an order that depends on what they hold alone, inputs and outputs, not on how they came.

    >>> X, Y = np.array([[2.0], [1.0], [2.0]]), np.array([[0.0], [1.0], [3.0]])
    >>> order, other = order_of_rows(X, Y), order_of_rows(X[::-1], Y[::-1])
    >>> np.array_equal(X[order], X[::-1][other]) and np.array_equal(Y[order], Y[::-1][other])
    True
    """
    keys = list(zip(row_keys(X), row_keys(Y), strict=True))
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def row_keys(X: Any) -> list[Any]:
    """Something for each row that is equal where inputs are, and can be sorted."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        X.sum_duplicates()
        bounds = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return [(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in bounds]
    # + 0.0 makes -0.0 the zero that it is.
    return [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]


# The left-out functions of a fitted expansion, from which its intervals and standard deviations come.
#
# Nothing but the fitted function is needed: where alpha C_i = w_i (y_i - f(x_i)), the outputs are
#
#     y_i = f(x_i) + alpha C_i / w_i,
#
# and the left-out functions follow from them in closed form (`ovk.solvers.leave_one_out`): for a kernel k T and
# complete
# outputs from the eigenvectors of k's gram, for everything else from one dense system of the observed pairs.

#: Repetitions of inputs from which the spread of outputs at the same inputs is estimated.
FEWEST_REPEATED = 10


class LeaveOutPredictor(NamedTuple):
    """The left-out functions of a fitted expansion, asked for by new inputs instead of kernel values.

    Attributes
    ----------
    left_out : the regression with its blocks of rows left out
    width : numbers that a new row takes
    kernels : what `left_out` takes for new points, `cross` and `prior`, from their inputs
    """

    left_out: LeaveOneOut
    width: int
    kernels: Callable[[Any], tuple[Array, Array]]


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
        separable = self.kernel.as_separable()
        if self.targets.complete and separable is not None:
            rows = self._by_rows(separable, together)
        else:
            rows = self._by_pairs(together)
        rows.left_out.alike = alike
        if self.targets.task is None and not takes_gram(self.kernel):
            spread = repeated_spread(same_inputs(self.X), self.targets.Y, self.targets.weight)
            if spread is not None:
                rows.left_out.raise_noise(spread, self.targets.weight)
        return rows

    def _by_rows(self, kernel: Separable, together: Indices | None) -> LeaveOutPredictor:
        """Complete outputs and a kernel k T."""
        X, targets, k = self.X, self.targets, kernel.scalar
        ((G, _),) = CompleteSystem(Separable(k, Identity(targets.d)), X, targets, 1.0).gram.terms() or []
        how: dict[str, Any] = {"intercept": self.intercept, "together": together}
        T = kernel.operator.dense()
        left_out = SeparableLeaveOneOut(eigenpairs(G), targets.Y, T, self.alpha, targets.weight, **how)
        return LeaveOutPredictor(left_out, X.shape[0] * (targets.d + 2), lambda new: (k(new, X), k.diag(new)))

    def _by_pairs(self, together: Indices | None) -> LeaveOutPredictor:
        """Any kernel and any gaps, as one dense problem of the observed pairs."""
        kernel, X, d, pairs = self.kernel, self.X, self.targets.d, self.targets.pairs()
        if len(pairs) > DENSE_LIMIT:
            raise ValueError(
                f"leaving rows out takes a dense matrix of all {len(pairs)} observed values, more than "
                f"{DENSE_LIMIT}: fit fewer rows, or ask for predict(of='posterior') without intervals"
            )
        how: dict[str, Any] = {"intercept": self.intercept, "together": together}
        n, separable = X.shape[0], kernel.as_separable()
        # Its matrices, one of (n, n) for each output, must take no more memory than that of the pairs.
        if separable is not None and self.targets.task is None and d * n**2 <= len(pairs) ** 2:
            k = separable.scalar
            left_out: LeaveOneOut = ScalarPairsLeaveOneOut(k(X), separable.operator.dense(), pairs, self.alpha, **how)
            return LeaveOutPredictor(left_out, n * (d + 2), lambda new: (k(new, X), k.diag(new)))
        K = PairSystem(kernel, X, replace(self.targets, weight=None), 1.0).gram.dense()

        def kernels(new: Any) -> tuple[Array, Array]:
            m = new.shape[0]
            repeated, outputs = new[np.repeat(np.arange(m), d)], np.tile(np.arange(d), m)
            cross = kernel.pairs(repeated, outputs, X[pairs.points], pairs.outputs).reshape(m, d, -1)
            return cross, np.einsum("nqq->nq", kernel.diagonal_blocks(new))

        left_out = PairwiseLeaveOneOut(K, pairs, self.alpha, **how)
        return LeaveOutPredictor(left_out, len(pairs) * d, kernels)


def repeated_spread(same: Indices, Y: Array, weight: Array | None) -> Array | None:
    """(d,) variances of outputs at the same inputs, of rows of weight 1; None where too few are repeated.

    sum_i w_i (y_i - mean of its group)^2 / sum over groups of (rows - 1); 0 for an output that is repeated too rarely.

    Parameters
    ----------
    same : (n,) rows with the same inputs have the same number
    Y : (n, d) outputs, nan where one was not observed
    """
    count = int(same.max()) + 1
    if len(same) - count < FEWEST_REPEATED:
        return None
    seen = ~np.isnan(Y)
    w = seen * (1.0 if weight is None else weight[:, None])
    member = sparse.csr_array((np.ones(len(same)), (same, np.arange(len(same)))), shape=(count, len(same)))
    mean = (member @ (w * np.where(seen, Y, 0.0))) / np.maximum(member @ w, 1e-300)
    squares = (w * np.where(seen, Y - mean[same], 0.0) ** 2).sum(axis=0)
    freedom = seen.sum(axis=0) - (member @ seen.astype(np.float64) > 0).sum(axis=0)
    return np.where(freedom >= FEWEST_REPEATED, squares / np.maximum(freedom, 1), 0.0)


#: What a standard deviation may be about.
OF = ("observation", "function", "posterior")
#: How intervals are made.
METHODS = ("jackknife", "jackknife+", "cv+")


class ObservedScore(NamedOutputs, MultiOutputMixin, RegressorMixin):
    """Mixin: R^2 over what was observed, in both forms of outputs."""

    @abstractmethod
    def predict(self, X: Any, *, task: Any = None) -> Any:
        """Predict the outputs; (n,) for the output of each row when `task` (n,) is given."""

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Coefficient of determination R^2 over the observed outputs, averaged over outputs.

        In long form (`task` given) it is that of all observations together: a task may have a single one.
        """
        if task is not None:
            predicted = self.predict(X, task=task)[:, None]
            targets = check_targets(y, len(predicted), sample_weight, task, X, self.n_outputs_, part=True)
            return r2_observed(targets.Y, predicted, targets.weight)
        self._check_names(y)
        prediction = np.asarray(self.predict(X)).reshape(X.shape[0] if hasattr(X, "shape") else len(X), -1)
        targets = check_targets(y, len(prediction), sample_weight, None, X, part=True)
        if targets.d != prediction.shape[1]:
            raise ValueError(f"y has {targets.d} outputs but the model was fitted with {prediction.shape[1]}")
        return r2_observed(targets.Y, prediction, targets.weight)


class ExpansionPrediction(ObservedScore, Parameters, saved=False):
    """An expansion in training points, and all that follows from it: prediction, covariance, intervals, Jacobian.

    `learned_rows_` (rows given to fit,) tells which of them were learned, None if all were. Other attributes are those
    of `OVKRidge`; `observed_` (n, d), `task_` and `sample_weight_` are those of the training data,
    None where there was nothing of the kind. `inputs_` scales inputs, and `X_fit_` and `expansion_` are in its units;
    None where kernels see inputs as they are.
    """

    _state_classes = {"landmarks_": LandmarkRidge, "inputs_": InputScaling}

    kernel_: OperatorKernel
    alpha_: Any
    X_fit_: Any
    dual_coef_: Any
    intercept_: Array | None
    n_outputs_: int
    single_output_: bool
    observed_: Mask | None
    task_: Indices | None
    sample_weight_: Array | None
    landmarks_: LandmarkRidge | None
    inputs_: InputScaling | None
    learned_rows_: Mask | None = None

    @abstractmethod
    def _check_inputs(self, X: Any, *, reset: bool, stream: bool = False) -> Any:
        """Inputs as the estimator takes them."""

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
    def predict(
        self,
        X: Any,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        *,
        task: Any = None,
        of: str = ...,
    ) -> Array: ...
    @overload
    def predict(
        self, X: Any, return_std: Literal[True], return_cov: Literal[False] = False, *, task: Any = None, of: str = ...
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self, X: Any, return_std: Literal[False] = False, *, return_cov: Literal[True], task: Any = None, of: str = ...
    ) -> tuple[Array, Array]: ...
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
        left_out = self._rows_left_out(None, None).left_out
        return left_out.scale, left_out.noise if of == "observation" else none

    def _fitted_rows(self) -> TrainingData:
        """What was learned from, for leaving rows out; refuses where it was not kept."""
        if self.landmarks_ is not None:
            raise ValueError(
                "intervals need the training rows, which a model with landmarks does not keep: fit without landmarks"
            )
        data = self.observed_, self.task_, self.sample_weight_
        return self._remembered("rows", lambda: TrainingData.recover(self.expansion_, self.alpha_, *data))

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
            diagonals = [np.einsum("nqq->nq", self._covariance(X[rows])) for rows in row_slices(n, m * d**2)]
            chosen: Array = np.concatenate(diagonals)[np.arange(n), outputs]
            return np.maximum(chosen, 0.0)
        problem, solver, state = self._posterior()
        result = np.empty(n)
        for rows in row_slices(n, 2 * m):
            new, q = X[rows], outputs[rows]
            # One row at a time: the diagonal blocks of all outputs would be (n, d, d).
            prior = [self.kernel_.pairs(new[i : i + 1], q[i : i + 1])[0, 0] for i in range(len(q))]
            result[rows] = prior - problem.reduction_at(solver, state, new, q, intercept=self.intercept_ is not None)
        return np.maximum(result, 0.0)

    def _posterior(self) -> tuple[RidgeSystem, Any, Any]:
        """The factored system of the training points."""

        def factored() -> tuple[RidgeSystem, Any, Any]:
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
            return problem, solver, solver.factor(problem.gram)

        return self._remembered("posterior", factored)

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
        rows = self._rows_left_out(groups, folds if method == "cv+" else None)
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
        return self._rows_left_out(groups, None).left_out.residuals.copy()

    def _training_outputs(self) -> Array:
        """(training rows, d) what was learned from, nan where an output was not observed; (rows, 1) in long form."""
        return self._fitted_rows().targets.Y

    def _left_out_deviation(self, X: Any, *, observation: bool) -> Array:
        """(n, d) standard deviations of new observations, or of the function, at checked inputs."""
        rows = self._rows_left_out(None, None)
        parts = [
            rows.left_out.deviation(*rows.kernels(X[part]), observation=observation)
            for part in track(list(row_slices(X.shape[0], rows.width)), "standard deviations")
        ]
        return np.concatenate(parts) * np.sqrt(rows.left_out.scale)

    def _rows_left_out(self, groups: Any, folds: int | None) -> LeaveOutPredictor:
        """Kept for the next call: the memory of one factorisation."""
        key = None if groups is None else np.asarray(groups).tobytes(), folds
        memo = self.__dict__.setdefault("_memo", {})
        if memo.get("left out", (None,))[0] != key:
            together = self._blocks(groups)
            fitted = self._fitted_rows()
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
        fitted = self._fitted_rows()
        if groups is not None:
            return check_groups(self._of_learned_rows(groups), fitted.X.shape[0])
        return None if takes_gram(fitted.kernel) else same_inputs(fitted.X)

    def _of_learned_rows(self, groups: Any) -> Any:
        """Labels of the rows that were learned, out of those of all rows that were given."""
        labels, learned = np.asarray(groups), self.learned_rows_
        return labels if learned is None or labels.shape != learned.shape else labels[learned]
