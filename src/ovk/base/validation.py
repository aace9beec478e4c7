"""What a user may pass as numbers, inputs and outputs, what it means, and what is refused.

Outputs come in three forms: complete outputs Y (n, d); Y with nan where an output was not observed; and long form, one
observation a row, y (n,) with the output's number in `task`. They leave as `Targets`. Where Y is a data frame,
predictions are a frame of its kind with its columns (`NamedOutputs`).

NumPy's masked arrays lose their mask without a word where they become ordinary arrays, and what was marked as missing
would be learned as if it had been measured. So masks are read here: in outputs they are gaps, in inputs they are
refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from numbers import Real
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _check_sample_weight, validate_data

from ovk.base.columns import read_numbers
from ovk.base.messages import short
from ovk.base.state import State
from ovk.base.types import Array, Indices, Labels, Mask

V = TypeVar("V")

# Parameters that are numbers.


def positive(value: Any, name: str, *, zero: bool = False) -> float:
    """`value` as a float, if it is a finite number above (or at) zero."""
    allowed = "a finite number >= 0" if zero else "a finite number > 0"
    number = np.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    if not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return number


def in_interval(value: Any, name: str, low: float, high: float) -> float:
    """`value` as a float, if it lies in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise ValueError(f"{name} must be a number in [{low:g}, {high:g}], got {value!r}")
    return float(value)


def check_level(value: Any, name: str = "level") -> float:
    """The coverage of an interval as a float, if it lies in (0, 1)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must be a number in (0, 1), such as 0.9, got {value!r}")
    return float(value)


def dense_inputs(X: Any, what: str) -> Array:
    """`X` as a float array; a scipy sparse matrix is refused in the name of `what`."""
    if sparse.issparse(X):
        raise ValueError(f"{what} does not take sparse inputs: pass X.toarray(), or use a Gaussian or Linear kernel")
    return np.asarray(X, dtype=np.float64)


def check_int(value: Any, name: str, *, least: int = 1) -> int:
    """`value` as an int, if it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)


# Learning calls that would leave the range of numbers are refused before the learner changes.

#: Inputs beyond this can have values of a kernel that are not finite.
MAX_SAFE_INPUT = 1e50


class Diverged(ValueError):
    """A learner was about to run away: predictions that are not finite, or a function that grows without limit.

    Nothing of the call was learned, and the learner can go on with other rows. The message has the step, the cause and
    what to do.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, Diverged
    >>> from ovk.kernels import Linear
    >>> X = 10 * np.random.default_rng(0).standard_normal((300, 2))
    >>> try:
    ...     OLOK(Linear(), schedule=1.0).fit(X, X)
    ... except Diverged as error:
    ...     print(str(error)[:24])
    OLOK diverged at step 7:
    """


def refuse_overflow(learner: object, kernel: Any, X: Array) -> None:
    """Refuse inputs for which K(x, x) is not a finite number."""
    if len(X) and np.abs(X).max() > MAX_SAFE_INPUT and kernel.norm_bound() is None:
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(kernel.diagonal_blocks(X)).all(axis=(1, 2))
        if not finite.all():
            row = X[int(finite.argmin())]
            raise Diverged(
                f"{type(learner).__name__} cannot learn inputs as large as {np.abs(row).max():.3g}: the kernel's value "
                "K(x, x) is not finite there. Scale X, for instance with StandardScaler; nothing was learned"
            )


def refuse_not_finite(learner: object, step: int, Z: Array, X: Array, Y: Array) -> None:
    """Refuse predictions Z (n, d) of the rows after so many steps, if they are not finite."""
    finite = np.isfinite(Z).all(axis=1)
    if not finite.all():
        row = int(finite.argmin())
        raise Diverged(
            f"{type(learner).__name__} cannot go on behind step {step}: its prediction {row} rows later is not finite. "
            f"Inputs go up to {np.abs(X).max():.3g} and outputs up to {np.nanmax(np.abs(Y), initial=0.0):.3g}: bring "
            "both to a scale of about 1, and check that the kernel is finite and positive semi-definite; nothing was "
            "learned"
        )


def check_finite_predictions(model: object, values: Array) -> None:
    """Refuse predictions (n, ...) that are not finite: they would pass for answers."""
    if not np.isfinite(values).all():
        row = int(np.isfinite(values).all(axis=tuple(range(1, values.ndim))).argmin())
        raise Diverged(
            f"{type(model).__name__} has no finite prediction for row {row} of X: the kernel's values are not finite "
            "there. Leave the row out, or scale inputs before fitting, for instance with StandardScaler"
        )


#: What fitting learns under these names enters every prediction.
LEARNED = ("dual_coef_", "intercept_", "weights_")


def check_finite_model(model: object) -> None:
    """Refuse what was learned if it is not finite."""
    for name in LEARNED:
        found = vars(model).get(name)
        if isinstance(found, np.ndarray) and found.dtype.kind == "f" and not np.isfinite(found).all():
            raise Diverged(
                f"{type(model).__name__} learned numbers that are not finite ({name}): inputs or outputs are too large "
                "or too small for their squares, or the kernel is not finite. Bring both to a scale of about 1; "
                "nothing was learned"
            )


# Errors that name the cell of a table that is not a number.

#: What to do about a cell that is no number among many that are.
DIRTY = (
    "write nan for values that were not observed, and strip percent signs and thousands separators; "
    "ovk.app.tables.read_table does that for a file"
)


@contextmanager
def naming_bad_cells(values: Any, name: str) -> Iterator[None]:
    """Where turning a table into numbers fails, say which cell it was."""
    refuse_odd_frames(values, name)
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        found = _first_bad_cell(values)
        if found is None:
            raise
        column, row, cell, cure = found
        where = "it" if column is None else f"column {column!r}"
        reason = str(error) if len(str(error)) <= 80 else f"{str(error)[:60]}..."
        message = f"{name} must hold numbers, but {where} holds {short(cell)} in row {row}: {cure} ({reason})"
        # scikit-learn's own checks tell the two kinds of error apart.
        raise (TypeError if isinstance(error, TypeError) else ValueError)(message) from error


def refuse_odd_frames(values: Any, name: str) -> None:
    """Refuse frames that have no cells yet, or two columns of one name, which nothing behind could tell apart."""
    if isinstance(values, np.ndarray):
        return
    if hasattr(values, "collect") and not hasattr(values, "__len__"):
        raise TypeError(f"{name} is a {type(values).__name__}, which has no rows yet: pass {name}.collect()")
    names = getattr(values, "columns", None)
    if names is not None and len(set(names)) < len(names):
        twice = next(one for one in names if list(names).count(one) > 1)
        raise ValueError(
            f"{name} has two columns named {twice!r}: rename one of them, or pass the numbers alone ({name}.to_numpy())"
        )


def _first_bad_cell(values: Any) -> tuple[Any, int, Any, str] | None:
    """Column, row, content and cure of the first cell that is no number; None where none is found."""
    columns = getattr(values, "columns", None)
    if columns is not None:
        named = [(name, values[name]) for name in dict.fromkeys(columns)]
    else:
        # A series of objects has no columns either.
        plain = isinstance(values, (list, tuple)) or hasattr(values, "to_numpy")
        array = np.asarray(values, dtype=object) if plain else values
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "OUSMm" or array.ndim not in (1, 2):
            return None
        named = [(j if array.ndim == 2 else None, column) for j, column in enumerate(np.atleast_2d(array.T))]
    for name, column in named:
        if getattr(column, "ndim", 1) != 1:
            continue
        cells = np.asarray(column)
        if cells.dtype.kind in "biuf":
            continue
        every = cells.tolist() if cells.dtype.kind not in "Mm" else list(cells)
        for row, cell in enumerate(every):
            cure = _cure(cell)
            if cure is not None:
                numbers = read_numbers(list(map(str, every)), grouped=True).values
                mostly = isinstance(cell, str) and 2 * np.isfinite(numbers).sum() > len(every)
                return name, row, cell, DIRTY if mostly else cure
    return None


def _cure(cell: Any) -> str | None:
    if isinstance(cell, (np.datetime64, np.timedelta64)) or hasattr(cell, "isoformat"):
        return "turn dates into numbers, such as days since the first one, or leave them out"
    try:
        float(cell)
    except OverflowError:
        return "it is too large for a number of 64 bits: rescale the column"
    except TypeError:
        return "leave such rows out, or fill them; a missing number is nan"
    except ValueError:
        return "encode the column as numbers, as with scikit-learn's OneHotEncoder, or leave it out"
    return None


# Inputs.

#: What to do about nan in inputs.
FILL = "fill missing inputs, as with scikit-learn's SimpleImputer, or leave their rows out"


def check_inputs(model: Any, X: Any, *, cure: str = FILL, **options: Any) -> Any:
    """The inputs of an estimator, checked by scikit-learn's `validate_data` with its `options`; masks are refused.

    `cure` tells what to do about nan.
    """
    if _is_checked(model, X, **options):
        return X
    refuse_masked(X, "X", "missing inputs are not understood")
    with naming_bad_cells(X, "X"):
        try:
            return validate_data(model, X, **options)
        except ValueError as error:
            if not str(error).startswith("Input X contains NaN"):
                raise
            where = ""
            if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f":
                row, column = np.argwhere(np.isnan(X))[0]
                where = f", first in row {row}, column {column}"
            # scikit-learn's own text goes on to recommend estimators that take nan.
            raise ValueError(f"Input X contains NaN{where}: {cure}") from error


def _is_checked(
    model: Any,
    X: Any,
    *,
    reset: bool = True,
    dtype: Any = None,
    ensure_all_finite: bool = True,
    ensure_min_samples: int = 1,
    **others: Any,
) -> bool:
    """Whether `validate_data` would return X as it is. For a single row it takes as long as a prediction."""
    if reset or others or type(X) is not np.ndarray or X.ndim != 2 or X.dtype != np.float64 or dtype is not np.float64:
        return False
    known = vars(model)
    if "feature_names_in_" in known or known.get("n_features_in_") != X.shape[1] or len(X) < ensure_min_samples:
        return False
    return not ensure_all_finite or bool(np.isfinite(X).all())


def refuse_masked(A: Any, name: str, why: str) -> None:
    """Raise an error that names the first masked value, if there is one."""
    if isinstance(A, np.ma.MaskedArray) and np.ma.is_masked(A):
        places = np.argwhere(np.ma.getmaskarray(A))
        where = ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column"), places[0], strict=False))
        raise ValueError(
            f"{name} is a masked array with {len(places)} masked values, the first at {where}, and {why}: fill them, "
            f"as with {name}.filled(...), or leave their rows out"
        )


def masked_as_nan(A: Any, name: str) -> Any:
    """A masked array as an array of floats with nan where it is masked; everything else as it is."""
    if not isinstance(A, np.ma.MaskedArray):
        return A
    if A.dtype.kind not in "biuf":
        refuse_masked(A, name, "only numbers can have gaps")
    return np.ma.filled(A.astype(np.float64), np.nan) if np.ma.is_masked(A) else A.data


# Outputs.


@dataclass(frozen=True)
class ObservedPairs:
    """The N pairs of a point and an output that were observed."""

    points: Indices  # (N,), ascending
    outputs: Indices  # (N,)
    values: Array  # (N,) what was observed
    weights: Array  # (N,) sample weights of the pairs; ones when none were given
    groups: Indices  # (N,) pairs of the same number are left out together
    shape: tuple[int, int]  # (n, d) number of points, number of outputs

    def __len__(self) -> int:
        return len(self.points)

    @property
    def roots(self) -> Array:
        """(N,) square roots of the weights, by which least squares scales both sides."""
        return np.sqrt(self.weights)

    def scaled_values(self) -> Array:
        """(N,) the values times the roots of their weights."""
        return self.roots * self.values

    def columns(self) -> Array:
        """(N, d) one where the pair is of the output, times the root of its weight: a constant for each output."""
        unobserved = np.flatnonzero(self.sum_by_output() == 0)
        if len(unobserved):
            raise ValueError(
                f"fit_intercept=True needs an observation of every output, but output {unobserved[0]} has none"
            )
        return np.eye(self.shape[1])[self.outputs] * self.roots[:, None]

    def left_out_together(self, *, entry: bool) -> Indices:
        """(N,) pairs of the same number are left out together: all of a group, or by `entry` those of one output."""
        return self.groups * self.shape[1] + self.outputs if entry else self.groups

    def sum_by_output(self, numbers: Array | None = None) -> Array:
        """(d,) sums of one number for each pair; without them, how many pairs each output has."""
        return np.asarray(np.bincount(self.outputs, weights=numbers, minlength=self.shape[1]).astype(np.float64))

    def spread(self, numbers: Array) -> Array:
        """(n, d) one number for each pair at its place, zero where nothing was observed."""
        full = np.zeros(self.shape)
        full[self.points, self.outputs] = numbers
        return full


@dataclass(frozen=True)
class Targets:
    """Checked outputs."""

    Y: Array  # (n, d) with nan where nothing was observed, or (n, 1) in long form
    d: int  # number of outputs
    single: bool  # y was one-dimensional, and so will predictions be
    task: Indices | None  # (n,) output of each row in long form, else None
    weight: Array | None  # (n,) sample weights, or None

    @property
    def complete(self) -> bool:
        """Every output of every row was observed."""
        return self.task is None and not np.isnan(self.Y).any()

    def observed_mask(self) -> Mask | None:
        """(n, d) where an output was observed; None when all were, and in long form, where each row is one pair."""
        return None if self.task is not None or self.complete else ~np.isnan(self.Y)

    def pairs(self, groups: Indices | None = None) -> ObservedPairs:
        """The observed pairs; `groups`, (n,), are numbers of rows that are left out together, by default each alone."""
        n = len(self.Y)
        if self.task is not None:
            points, outputs, values = np.arange(n), self.task, self.Y[:, 0]
        else:
            points, outputs = np.nonzero(~np.isnan(self.Y))
            values = self.Y[points, outputs]
        weights = np.ones(len(points)) if self.weight is None else self.weight[points]
        return ObservedPairs(
            points, outputs, values, weights, points if groups is None else groups[points], (n, self.d)
        )

    def wide(self) -> Targets:
        """Long form as (n, d) outputs, of which each row has one; (n, d) numbers are held."""
        if self.task is None:
            return self
        Y = np.full((len(self.Y), self.d), np.nan)
        Y[np.arange(len(Y)), self.task] = self.Y[:, 0]
        return Targets(Y, self.d, False, None, self.weight)

    def observed_outputs(self) -> Mask:
        """(d,) whether the output was observed at least once, in a row of positive weight."""
        used = np.ones(len(self.Y), dtype=bool) if self.weight is None else self.weight > 0
        if self.task is not None:
            return np.isin(np.arange(self.d), self.task[used])
        return np.asarray((~np.isnan(self.Y[used])).any(axis=0))

    def informative_rows(self) -> Mask:
        """(n,) whether a row teaches anything: it has an observed output and a weight above zero."""
        keep = np.asarray(~np.isnan(self.Y).all(axis=1))
        return keep if self.weight is None else keep & (self.weight > 0)

    def followed_by_gaps(self, n: int) -> Targets:
        """These rows, then rows without any output, n in all; not for long form."""
        more = n - len(self.Y)
        weight = None if self.weight is None else np.pad(self.weight, (0, more), constant_values=1.0)
        Y = np.pad(self.Y, ((0, more), (0, 0)), constant_values=np.nan)
        return Targets(Y, self.d, self.single, None, weight)

    def rows(self, keep: Any) -> Targets:
        """The targets of some of the rows, given as indices, a mask or a slice."""
        task = None if self.task is None else self.task[keep]
        return Targets(self.Y[keep], self.d, self.single, task, None if self.weight is None else self.weight[keep])


def check_targets(
    Y: Any,
    n: int,
    sample_weight: Any,
    task: Any,
    X: Any,
    outputs: int | None = None,
    *,
    part: bool = False,
) -> Targets:
    """Check outputs against the inputs `X` of n rows.

    `outputs` is the number of tasks when it is known beforehand. A `part` of the data need not hold every output.
    """
    if Y is None:
        raise ValueError("requires y to be passed, but the target y is None: give the outputs Y, (n, d) or (n,)")
    with naming_bad_cells(Y, "y"):
        array = check_array(
            masked_as_nan(Y, "y"),
            ensure_2d=False,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            input_name="y",
            ensure_min_samples=0,
            ensure_min_features=0,
        )
    if array.ndim not in (1, 2):
        raise ValueError(f"Y must have one or two dimensions, got shape {array.shape}")
    if array.shape[0] != n:
        check_consistent_length(X, array)
    single = array.ndim == 1
    array = array[:, None] if single else array
    if array.shape[1] == 0:
        raise ValueError(f"Y must have at least one output, got shape {array.shape}")
    weight = None if sample_weight is None else _weights(sample_weight, X, part=part)
    if task is not None:
        if array.shape[1] != 1:
            raise ValueError(f"in long form (task given) y must have one value a row, got shape {array.shape}")
        numbers = check_tasks(task, n, outputs)
        if np.isnan(array).any():
            row = int(np.flatnonzero(np.isnan(array[:, 0]))[0])
            raise ValueError(f"in long form y must not hold nan (row {row}): leave the row out instead")
        d = int(numbers.max()) + 1 if outputs is None else outputs
        return Targets(array, d, False, numbers, weight)
    targets = Targets(array, array.shape[1], single, None, weight)
    if not part:
        check_observed_outputs(
            targets.observed_outputs(), f"in all {n} rows" + ("" if weight is None else " of positive weight")
        )
    return targets


def check_observed_outputs(observed: Mask, where: str) -> None:
    """Refuse an output that was never observed."""
    if not observed.all():
        raise ValueError(
            f"Y must have at least one observed value for each output, but output {int(observed.argmin())} is nan "
            f"{where}: leave the column out (and, of curves, its point of the grid)"
        )


def _weights(sample_weight: Any, X: Any, *, part: bool) -> Array:
    if not np.asarray(sample_weight).any():
        if not part:
            raise ValueError("sample_weight must have an entry above zero, got only zeros")
        # scikit-learn refuses weights that are all zero.
        return 0.0 * _weights(np.ones(np.shape(sample_weight)), X, part=part)
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def drop_unobserved_rows(X: Any, targets: Targets) -> tuple[Any, Targets]:
    """Without the rows that teach nothing, of weight zero or with no observed output; what is left may be complete."""
    keep = targets.informative_rows()
    return (X, targets) if keep.all() else (X[keep], targets.rows(keep))


def check_tasks(task: Any, n: int, outputs: int | None = None) -> Indices:
    """The output of each of n observations, as numbers below `outputs`."""
    numbers = np.asarray(task)
    if numbers.shape != (n,):
        raise ValueError(f"task must have one entry for each of the {n} rows, got shape {numbers.shape}")
    if numbers.dtype.kind not in "iu":
        exact = numbers.astype(np.float64) if numbers.dtype.kind == "f" else None
        if exact is None or not (np.isfinite(exact).all() and np.array_equal(exact, np.floor(exact))):
            raise ValueError(f"task must hold the numbers 0..d-1 of the outputs, got dtype {numbers.dtype}")
    if n == 0:
        raise ValueError("task is empty: there is nothing to learn from")
    if numbers.min() < 0:
        raise ValueError(f"task must hold the numbers 0..d-1 of the outputs, got {numbers.min()}")
    if outputs is not None and int(numbers.max()) >= outputs:
        raise ValueError(f"task must hold numbers below {outputs}, the number of outputs, got {int(numbers.max())}")
    return numbers.astype(np.intp)


def check_groups(groups: Any, n: int) -> Indices:
    """(n,) numbers of the groups of n rows, from any labels; there must be two groups at least."""
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"groups must have one entry for each of the {n} rows, got shape {labels.shape}")
    distinct, numbers = np.unique(labels, return_inverse=True)
    if len(distinct) < 2:
        raise ValueError(f"groups must hold at least 2 groups, so that one can be left out, got {len(distinct)}")
    return numbers.astype(np.intp)


def members_of_groups(numbers: Indices) -> list[Indices]:
    """The places of each number, groups in ascending order of their numbers."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def check_alpha(alpha: Any, d: int) -> float | Array:
    """The ridge weight: a number >= 0, or one > 0 for each of the d outputs."""
    value = np.asarray(alpha)
    if value.dtype.kind not in "iuf" or value.ndim > 1 or value.size == 0:
        raise ValueError(f"alpha must be a number >= 0, or one > 0 for each output, got {alpha!r}")
    value = value.astype(np.float64)
    if not np.isfinite(value).all() or (value < 0).any():
        raise ValueError(f"alpha must be finite and >= 0, got {alpha!r}")
    if value.ndim == 0:
        return float(value)
    if len(value) != d:
        raise ValueError(f"alpha has {len(value)} entries but there are {d} outputs")
    if len(np.unique(value)) == 1:
        return float(value[0])
    if (value == 0).any():
        raise ValueError(f"alpha must be > 0 for each output when it differs between them, got {alpha!r}")
    return value


def ridge_and_scales(alpha: float | Array) -> tuple[float, Array | None]:
    """What is added to the diagonal and, for a ridge weight of its own for each output, S = diag(alpha^-1/2), (d,).

    An output's part of the criterion is divided by its weight: the outputs are Y S, the operator S T S, the ridge 1.
    """
    return (alpha, None) if isinstance(alpha, float) else (1.0, 1.0 / np.sqrt(alpha))


def check_alphas(alphas: Any, name: str = "alphas") -> Array:
    """Ridge weights to choose from: numbers > 0."""
    values = np.asarray(alphas)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a sequence of numbers > 0, got {alphas!r}")
    return np.array([positive(float(alpha), f"each of {name}") for alpha in values])


# Labels of classes, and missing values.


def is_missing(value: Any) -> bool:
    """Whether a label or a cell stands for nothing: None, nan, a frame's NA."""
    # nan is the one value that is not itself; pandas' NA is neither, and has no truth.
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def missing_labels(labels: Labels) -> Mask:
    """Which of an array of labels are missing, in its shape."""
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind != "O":
        return np.zeros(labels.shape, dtype=bool)
    return np.array([is_missing(one) for one in labels.ravel()], dtype=bool).reshape(labels.shape)


def refuse_missing_labels(labels: Labels) -> None:
    """Raise an error that names the first missing label, if there is one."""
    missing = np.flatnonzero(missing_labels(labels))
    if len(missing):
        raise ValueError(
            f"Input y contains NaN or None: {len(missing)} labels are missing, the first in row {missing[0]}; give a "
            "label for each row, or leave such rows out"
        )


def share_of_right_labels(found: Any, y: Any, sample_weight: Any = None) -> float:
    """Share of predicted labels that are right, over all that are known in y; rows count by their weights."""
    predicted, labels = np.asarray(found, dtype=object), np.asarray(y, dtype=object)
    if labels.size != predicted.size:
        raise ValueError(f"y must have the shape of the prediction, {predicted.shape}, got {labels.shape}")
    labels = labels.reshape(predicted.shape)
    seen = ~missing_labels(labels)
    weight = np.ones(len(predicted)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    weights = np.broadcast_to(weight.reshape(-1, *[1] * (predicted.ndim - 1)), predicted.shape)[seen]
    return float(np.average(predicted[seen] == labels[seen], weights=weights)) if weights.sum() > 0 else float("nan")


# Names of outputs.

LIBRARIES = ("pandas", "polars")


@dataclass
class OutputFrame(State):
    """The kind of frame that Y was, and its columns.

    `library` is "pandas" or "polars"; `names` are text, numbers, or tuples of these where pandas has several levels.
    """

    library: str
    names: list[Any]

    def __post_init__(self) -> None:
        if (
            self.library not in LIBRARIES
            or not isinstance(self.names, list)
            or self.names != list(map(_plain_name, self.names))
        ):
            raise ValueError(f"a frame is of {' or '.join(LIBRARIES)} with names of columns, got {self!r}")

    @classmethod
    def from_targets(cls, y: Any) -> OutputFrame | None:
        """The frame that y is, or None where it is none."""
        library = library_of(y)
        return None if library is None else cls(library, list(map(_plain_name, y.columns)))

    def texts(self) -> list[str]:
        """The names as text."""
        return ["/".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in self.names]

    def named(self, values: Any, X: Any) -> Any:
        """Values (n, d) as a frame, with the index of X where both are of pandas; the array without the library."""
        try:
            library = import_module(self.library)
        except ImportError:
            return values
        mixed = values.dtype == object
        if self.library == "polars":
            columns = {name: values[:, q].tolist() if mixed else values[:, q] for q, name in enumerate(self.names)}
            return library.DataFrame(columns)
        frame = library.DataFrame(values, columns=self.names, index=X.index if library_of(X) == "pandas" else None)
        return frame.infer_objects() if mixed else frame


class NamedOutputs:
    """Mixin of estimators of several outputs: they learn the names of Y's columns and name their predictions."""

    #: Set by learning from a frame.
    output_frame_: OutputFrame | None = None
    _state_classes: ClassVar[Any] = {"output_frame_": OutputFrame}

    n_outputs_: int

    @property
    def output_names_(self) -> list[str]:
        """Names of the outputs: the columns of Y where it was a data frame, else "y0", "y1", ..."""
        frame = self.output_frame_
        return [f"y{q}" for q in range(self.n_outputs_)] if frame is None else frame.texts()

    def _learn_names(self, y: Any, d: int) -> None:
        """Take the names of d outputs from what is learned first; a single column in long form has none."""
        self.__dict__.pop("output_frame_", None)
        frame = OutputFrame.from_targets(y)
        if frame is not None and len(frame.names) == d:
            self.output_frame_ = frame

    def _check_names(self, y: Any) -> None:
        """Refuse a frame whose columns are not those that were learned."""
        known = self.output_frame_
        if known is None or type(y) is np.ndarray:
            return
        frame = OutputFrame.from_targets(y)
        if frame is not None and frame.texts() != known.texts():
            raise ValueError(
                f"y has the columns {', '.join(frame.texts())} but the model learned {', '.join(known.texts())}: give "
                "the same columns in the same order"
            )

    def _named(self, values: V, X: Any) -> V:
        """Predictions at the rows X as a user gets them: values of all outputs are named, all else is left as it is."""
        frame = self.output_frame_
        if frame is None:
            return values
        if isinstance(values, tuple):
            return tuple(self._named(part, X) for part in values)  # type: ignore[return-value]
        whole = isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == len(frame.names)
        return frame.named(values, X) if whole else values


def library_of(frame: Any) -> str | None:
    """Whose data frame it is, or None where it is none; nothing is imported to find out."""
    if isinstance(frame, np.ndarray):
        return None
    for library in LIBRARIES:
        module = sys.modules.get(library)
        if module is not None and isinstance(frame, getattr(module, "DataFrame", ())):
            return library
    return None


def unnamed(values: Any) -> Any:
    """Arrays of numbers in place of frames, nan where a value is missing; in a tuple as well."""
    if isinstance(values, tuple):
        return tuple(map(unnamed, values))
    library = library_of(values)
    if library == "pandas":
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    return values if library is None else values.to_numpy()


def _plain_name(name: Any) -> Any:
    """A name that a file can hold: text, a number, or a tuple of these."""
    if isinstance(name, tuple):
        return tuple(map(_plain_name, name))
    plain = name.item() if isinstance(name, np.generic) else name
    return plain if type(plain) in (str, int, float) else str(plain)
