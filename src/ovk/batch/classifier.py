"""Classification by ridge regression of coded labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin, MultiOutputMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from ovk.base import (
    Array,
    Indices,
    Labels,
    NamedOutputs,
    Parameters,
    State,
    check_frame,
    check_inputs,
    masked_as_nan,
    missing_labels,
    share_of_right_labels,
)
from ovk.batch.ridge.ridge import OVKRegressor, OVKRidge, kernel_tags
from ovk.batch.ridge.ridge_system import takes_gram
from ovk.batch.ridge.table_inputs import is_frame
from ovk.batch.tuning.ridge_cv import OVKRidgeCV
from ovk.objectives import MultinomialCalibration

# A column of two classes is one output with the targets -1 and 1; a column of K classes has K outputs, 1 for the class
# and -1 for the others. A missing label (nan, None, NA of a data frame) is a missing target.


@dataclass
class LabelColumns(State):
    """Encodes columns of labels as targets of a regression."""

    classes: list[Labels]  # of each column, sorted
    single: bool  # labels and predictions are (n,)

    @classmethod
    def learn(cls, y: Any) -> tuple[LabelColumns, Indices]:
        """The classes, and the class numbers (n, columns) of the labels, -1 if missing."""
        table, single = _as_columns(y)
        found, numbers = [], []
        for q, column in enumerate(table):
            seen = ~missing_labels(column)
            labels = _compact(column[seen])
            if labels.dtype.kind == "f" and not np.isfinite(labels).all():
                raise ValueError("Input y contains infinity or a value too large for dtype('float64').")
            if labels.dtype.kind == "f" and len(labels) and "continuous" in type_of_target(labels):
                raise ValueError(f"Unknown label type: column {q} of y has real numbers instead of classes")
            classes, own = np.unique(labels, return_inverse=True)
            if len(classes) < 2:
                got = "1 class" if len(classes) else "no class"
                raise ValueError(f"each column of y must have at least 2 classes, got {got} in column {q}")
            number = np.full(len(column), -1, dtype=np.intp)
            number[seen] = own
            found.append(classes)
            numbers.append(number)
        return cls(found, single), np.column_stack(numbers)

    def codes(self, numbers: Indices) -> Array:
        """Targets (n, d) of class numbers."""
        blocks = []
        for number, classes in zip(numbers.T, self.classes, strict=True):
            code = np.array([[-1.0], [1.0]]) if len(classes) == 2 else 2.0 * np.eye(len(classes)) - 1.0
            # The number -1 takes the last row.
            blocks.append(np.vstack([code, np.full_like(code[:1], np.nan)])[number])
        return np.hstack(blocks)

    def scores(self, F: Array) -> list[Array]:
        """A score for each class of each column, (n, K), from predicted targets (n, d)."""
        widths = [1 if len(classes) == 2 else len(classes) for classes in self.classes]
        parts = np.split(F, np.cumsum(widths)[:-1], axis=1)
        return [np.hstack([-part, part]) if part.shape[1] == 1 else part for part in parts]

    def labels(self, winners: list[Indices]) -> Labels:
        """(n,) or (n, columns) labels of class numbers."""
        columns = [classes[winner] for classes, winner in zip(self.classes, winners, strict=True)]
        if self.single:
            return columns[0]
        if len({column.dtype.kind for column in columns}) > 1:
            columns = [column.astype(object) for column in columns]
        return np.column_stack(columns)


def _as_columns(y: Any) -> tuple[list[Labels], bool]:
    """Columns of labels as arrays, and whether y is one-dimensional."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: pass a label for each row")
    if hasattr(y, "columns") and hasattr(y, "shape") and len(y.shape) == 2:
        # Columns of a data frame may have different types.
        return [_from_series(y[name]) for name in y.columns], False
    if hasattr(y, "to_list") and not hasattr(y, "columns"):
        return [_from_series(y)], True
    table = np.asarray(masked_as_nan(y, "y"))
    if table.ndim not in (1, 2) or (table.ndim == 2 and table.shape[1] == 0):
        raise ValueError(f"y must have shape (n,) or (n, columns), got {table.shape}")
    if table.ndim == 1 or table.shape[1] == 1:
        return [column_or_1d(table, warn=True)], True
    return list(table.T), False


def _from_series(series: Any) -> Labels:
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    return values


def _compact(column: Labels) -> Labels:
    """An object array with the type of its elements, so that classes of numbers are numbers."""
    if column.dtype.kind != "O":
        return column
    kinds = {type(one) for one in column.tolist()}
    if any(issubclass(kind, str) for kind in kinds) and len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"labels of a column must have one type, got {names}: convert them to strings")
    return np.array(column.tolist())


class RidgeClassifierBase(NamedOutputs, ClassifierMixin, MultiOutputMixin, Parameters, saved=False):
    _state_classes = {"labels_": LabelColumns}
    _stored = {"label_numbers_": "n k int"}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        if state and (self.label_numbers_.max(axis=0) >= [len(one) for one in self.labels_.classes]).any():
            raise ValueError(f"{type(self).__name__}.label_numbers_ must be below the numbers of classes")

    #: Slopes (2,) and offsets (K,) of the columns, if the rows are not kept.
    calibrations_: list[tuple[Array, Array]] | None
    kernel: Any
    class_weight: Any
    #: The regressor of the targets; it has all parameters but `class_weight`.
    _regressor: ClassVar[type[Any]]
    labels_: LabelColumns
    model_: OVKRegressor

    def __sklearn_tags__(self) -> Any:
        return kernel_tags(super().__sklearn_tags__(), self.kernel)

    @property
    def classes_(self) -> Any:
        """The sorted classes of y; for several columns with different classes, a list of them."""
        check_is_fitted(self)
        first, *others = self.labels_.classes
        return first if all(np.array_equal(first, other) for other in others) else self.labels_.classes

    @property
    def n_outputs_(self) -> int:  # type: ignore[override]
        """Number of columns of labels."""
        check_is_fitted(self)
        return len(self.labels_.classes)

    def _check_inputs(self, X: Any, *, reset: bool) -> Any:
        return check_inputs(self, X, reset=reset, accept_sparse="csr", dtype=np.float64)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : (n, p) array
            Inputs.
        y : (n,) or (n, columns) array or data frame
            Labels: numbers, strings or booleans, nan or None where one is missing.
        sample_weight : (n,) array, optional
            Weights of the rows.

        Returns
        -------
        self
            The fitted classifier.
        """
        return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> Self:
        """Fit the regressor of the targets; `options` are further arguments of its `fit`."""
        with self._fitting(X, y):
            X = self._check_inputs(X, reset=True)
            labels, numbers = LabelColumns.learn(y)
            if len(numbers) != X.shape[0]:
                check_consistent_length(X, numbers)
            weight = self._weights(numbers, labels, sample_weight)
            shared = {name: value for name, value in self.get_params(deep=False).items() if name != "class_weight"}
            # The residuals of class codes may have heavy tails without being outliers.
            shared["loss"] = "squared"
            model = self._regressor(**shared).fit(X, labels.codes(numbers), weight, **options)
            self.labels_, self.model_ = labels, model
            self.calibrations_ = None
            self._learn_names(y, len(labels.classes))
            # The regressor drops rows of weight 0 or without any label.
            informative = (numbers >= 0).any(axis=1) & (True if weight is None else weight > 0)
            self.label_numbers_ = numbers if takes_gram(self.kernel) else numbers[informative]
            weight = None if weight is None else weight[informative]
            if model.landmarks_ is not None:
                # A model with landmarks keeps sums instead of rows, so leave-one-out scores are computed now.
                inputs = model._new_inputs(X)[informative]
                residuals = labels.codes(self.label_numbers_) - model.expansion_(inputs)
                sums, known = model.landmarks_, model.intercept_ is not None
                residuals = sums.left_out(inputs, residuals, weight, model.alpha_, intercept=known)
                self._calibrate(residuals, slice(None), weight)
            elif model.landmark_loo_ is not None and model.interval_rows_ is not None:
                self._calibrate(model.landmark_loo_[0], model.interval_rows_, weight)
        return self

    def _weights(self, numbers: Indices, labels: LabelColumns, sample_weight: Any) -> Array | None:
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, numbers, dtype=np.float64)
        if self.class_weight is None:
            return weight
        given = self.class_weight
        if given != "balanced" and not isinstance(given, (dict, list)):
            raise ValueError(
                f"class_weight must be None, 'balanced', a dictionary from labels to weights, or a list of "
                f"dictionaries for several columns of labels, got {given!r}"
            )
        total = np.ones(len(numbers))
        for q, classes in enumerate(labels.classes):
            seen = numbers[:, q] >= 0
            own = given[q] if isinstance(given, list) else given
            total[seen] *= compute_sample_weight(own, classes[numbers[seen, q]])
        return total if weight is None else weight * total

    def _log_probabilities(self, X: Any) -> list[Array]:
        """Logarithms of the calibrated probabilities of each column, (n, K)."""
        check_is_fitted(self)
        X = self._check_inputs(X, reset=False)
        scores = self.labels_.scores(np.asarray(self.model_.predict(X)).reshape(X.shape[0], -1))
        return [one.log_probabilities(score) for one, score in zip(self._calibrations(), scores, strict=True)]

    def decision_function(self, X: Any) -> Any:
        """Log odds (n,) of the second of two classes, else log probabilities (n, K); see `predict_proba`.

        For several columns of labels a list of them, or (n, columns) if all have two classes.
        """
        logs = [each[:, 1] - each[:, 0] if each.shape[1] == 2 else each for each in self._log_probabilities(X)]
        if self.labels_.single:
            return logs[0]
        return np.column_stack(logs) if all(each.ndim == 1 for each in logs) else logs

    def predict(self, X: Any) -> Labels:
        """The most probable labels, (n,) or (n, columns)."""
        winners = [each.argmax(axis=1) for each in self._log_probabilities(X)]
        return self._named(self.labels_.labels(winners), X)

    def predict_proba(self, X: Any) -> Any:
        """Class probabilities (n, K), calibrated on leave-one-out scores (see `ovk.objectives.calibration`).

        For several columns of labels a list of them, or, if all have two classes, (n, columns) probabilities of the
        second class. With class weights the probabilities refer to the weighted population.
        """
        found = [np.exp(each) for each in self._log_probabilities(X)]
        if self.labels_.single:
            return found[0]
        return np.column_stack([P[:, 1] for P in found]) if all(P.shape[1] == 2 for P in found) else found

    def _calibrations(self) -> list[MultinomialCalibration]:
        """The calibration of each column, computed on first use."""
        if self.calibrations_ is not None:
            return [MultinomialCalibration(*one) for one in self.calibrations_]

        def calibrated() -> list[MultinomialCalibration]:
            X = self.model_.X_fit_
            # If all rows have the same inputs, they are left out one by one.
            alike = not takes_gram(self.kernel) and not sparse.issparse(X) and bool((X[:1] == X).all())
            residuals = self.model_.loo_residuals(np.arange(len(self.label_numbers_)) if alike else None)
            return self._calibrated(residuals, slice(None), self.model_.sample_weight_)

        return self.model_._cached("calibrations", calibrated)

    def _calibrated(
        self, residuals: Array, rows: slice | Indices, weight: Array | None
    ) -> list[MultinomialCalibration]:
        """The calibration of each column from leave-one-out residuals (rows, d) of some rows."""
        numbers, result = self.label_numbers_[rows], []
        for q, score in enumerate(self.labels_.scores(self.labels_.codes(numbers) - residuals)):
            seen = numbers[:, q] >= 0
            known = None if weight is None else weight[rows][seen]
            result.append(MultinomialCalibration.fit(score[seen], numbers[seen, q], known))
        return result

    def _calibrate(self, residuals: Array, rows: slice | Indices, weight: Array | None) -> None:
        """Calibrate now, and keep the result, where leave-one-out residuals are not available later."""
        self.calibrations_ = [(one.slopes, one.offsets) for one in self._calibrated(residuals, rows, weight)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over all known labels."""
        return share_of_right_labels(self.predict(X), y, sample_weight)


@dataclass(eq=False, repr=False)
class OVKClassifier(RidgeClassifierBase):
    """Kernel ridge classification, with probabilities calibrated on leave-one-out scores.

    Two classes are one output with the targets -1 and 1; more classes are one output each, 1 for the class and -1 for
    the others, which the kernel may couple. Several columns of labels are learned jointly, and labels may be missing.

    Parameters
    ----------
    kernel : operator-valued or scalar kernel; default ``Gaussian() * Identity()``
        As in `OVKRidge`.
    alpha : float > 0
        Weight of the penalty.
    class_weight : None, "balanced", dictionary, or a list of one for each column of labels
        Weights of classes; "balanced" gives all classes the same total. With several columns, the weight of a row is
        the product of the weights of its labels.
    solver, fit_intercept, landmarks, dtype, verbose, random_state : optional
        As in `OVKRidge`.

    Attributes
    ----------
    classes_ : the sorted classes; for several columns with different classes, a list of them
    model_ : the fitted `OVKRidge` of the targets
    label_numbers_ : (n, columns) class indices of the training labels, -1 if missing

    See Also
    --------
    OVKClassifierCV, OVKRidge, MovKLClassifier, MultiTaskSVC

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKClassifier
    >>> from ovk.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = OVKClassifier(Gaussian(1.0), alpha=0.1).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:])
    0.99
    >>> model.predict_proba([[1.0, 1.0]]).round(1)
    array([[0., 1.]])
    """

    _regressor = OVKRidge

    kernel: Any = None
    alpha: float = 1.0
    _: KW_ONLY
    class_weight: Any = None
    solver: Any = "auto"
    fit_intercept: bool = True
    landmarks: Any = None
    dtype: Any = "float64"
    verbose: bool | None = None
    random_state: Any = None


@dataclass(eq=False, repr=False)
class OVKClassifierCV(RidgeClassifierBase):
    """`OVKClassifier` with kernel, alpha and operator selected by exact leave-one-out, as in `OVKRidgeCV`.

    Parameters
    ----------
    kernel, alphas, omegas, operators : optional
        As in `OVKRidgeCV`; if no kernel is given, all settings are selected automatically.
    class_weight : None, "balanced", dictionary or list
        As in `OVKClassifier`.
    metric : bool or "auto"
        As in `OVKRidgeCV`.
    fit_intercept, dtype, n_jobs, verbose, random_state : optional
        As in `OVKRidgeCV`.

    Attributes
    ----------
    classes_, label_numbers_ : as in `OVKClassifier`
    model_ : the fitted `OVKRidgeCV` of the targets

    See Also
    --------
    OVKClassifier, OVKRidgeCV

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 2))
    >>> y = (X**2).sum(axis=1) < 0.5
    >>> model = OVKClassifierCV().fit(X[:120], y[:120])
    >>> round(model.score(X[120:], y[120:]), 2), model.classes_
    (0.94, array([False,  True]))
    """

    _regressor = OVKRidgeCV

    kernel: Any = None
    alphas: Any = None
    _: KW_ONLY
    omegas: Any = None
    operators: Any = None
    class_weight: Any = None
    metric: bool | str = "auto"
    fit_intercept: bool = True
    dtype: Any = "float64"
    n_jobs: int | None = None
    verbose: bool | None = None
    random_state: Any = 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.kernel is None
        return tags

    def _check_inputs(self, X: Any, *, reset: bool) -> Any:
        """Without a kernel, the regressor reads data frames with words and gaps."""
        if self.kernel is not None:
            return super()._check_inputs(X, reset=reset)
        check_frame(X, "X")
        if is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        finite = True if sparse.issparse(X) else "allow-nan"
        return check_inputs(self, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite=finite)

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Select the settings and fit the classifier.

        Parameters
        ----------
        X : (n, p) array or data frame
            Inputs. Without a kernel, nan is allowed, and words in columns of a data frame become indicator columns.
        y, sample_weight : as in `OVKClassifier.fit`
        groups : (n,) labels, optional
            Without a kernel: leave out whole groups (patients, sites), because new rows belong to new groups; the
            probabilities are calibrated in the same way.

        Returns
        -------
        self
            The fitted classifier.
        """
        self._fit(X, y, sample_weight, groups=groups)
        if groups is not None and self.calibrations_ is None:
            self._calibrate(self.model_.loo_residuals(groups), slice(None), self.model_.sample_weight_)
        return self
