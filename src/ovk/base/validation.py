"""Checks of parameters, inputs and outputs.

`check_targets` reads complete outputs Y (n, d), Y with nan where an output was not observed, and long form: y (n,) with
the index of each row's output in `task`. If Y is a data frame, so are the predictions (`NamedOutputs`).

NumPy silently drops the mask of a masked array on conversion. Masked outputs become nan; masked inputs are rejected.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from numbers import Real
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _check_sample_weight, validate_data

from ovk.base.backend import DeviceMatrix, is_dispatched, is_foreign, is_on_device, namespace, to_device_of, to_host
from ovk.base.columns import read_numbers
from ovk.base.messages import short
from ovk.base.state import State
from ovk.base.types import Array, Indices, Labels, Mask

V = TypeVar("V")

# Numeric parameters.


def positive(value: Any, name: str, *, zero: bool = False) -> float:
    """`value` as a float; raises ValueError unless it is positive (with `zero`, non-negative) and finite."""
    number = _as_float(value)
    if not (0.0 < number < np.inf or (zero and number == 0.0)):
        raise ValueError(f"{name} must be {'non-negative' if zero else 'positive'} and finite, got {value!r}")
    return number


def check_choice(value: Any, name: str, allowed: Collection[Any]) -> None:
    """Raise ValueError unless `value` is one of the allowed strings, booleans or None."""
    if not isinstance(value, str | bool | None) or value not in allowed:
        *first, last = map(repr, allowed)
        raise ValueError(f"{name} must be {', '.join(first)} or {last}, got {value!r}")


def in_interval(value: Any, name: str, low: float, high: float) -> float:
    """`value` as a float; raises ValueError unless it lies in [low, high]."""
    number = _as_float(value)
    if not low <= number <= high:
        raise ValueError(f"{name} must be a number in [{low:g}, {high:g}], got {value!r}")
    return number


def _as_float(value: Any) -> float:
    return np.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)


def check_level(value: Any, name: str = "level") -> float:
    if not 0.0 < _as_float(value) < 1.0:
        raise ValueError(f"{name} must be a number in (0, 1), such as 0.9, got {value!r}")
    return float(value)


def dense_inputs(X: Any, what: str) -> Array:
    """`X` as a float array; the error for a sparse matrix names `what`."""
    if sparse.issparse(X):
        raise ValueError(f"{what} does not support sparse inputs: pass X.toarray(), or use a Gaussian or Linear kernel")
    return np.asarray(X, dtype=np.float64)


def check_int(value: Any, name: str, *, least: int = 1) -> int:
    """`value` as an int; raises ValueError unless it is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    return int(value)


# Divergence: an update that overflows is rejected before the learner changes.

MAX_SAFE_INPUT = 1e50  # kernels of larger inputs may overflow


class DivergenceError(ValueError):
    """An update was rejected because the learner would have diverged.

    Its predictions were no longer finite, or its norm grew without bound. The learner is unchanged and can continue
    with other rows. The message states the step, the cause and what to do.

    See Also
    --------
    OLOK, KAWV, PKAWV, AutoStream

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, DivergenceError
    >>> from ovk.kernels import Linear
    >>> X = 10 * np.random.default_rng(0).standard_normal((300, 2))
    >>> try:
    ...     OLOK(Linear(), schedule=1.0).fit(X, X)
    ... except DivergenceError as error:
    ...     print(str(error)[:24])
    OLOK diverged at step 7:
    """


def check_no_overflow(learner: object, kernel: Any, X: Array) -> None:
    """Reject inputs for which K(x, x) is not finite."""
    if len(X) and np.abs(X).max() > MAX_SAFE_INPUT and kernel.norm_bound() is None:
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(kernel.diagonal_blocks(X)).all(axis=(1, 2))
        if not finite.all():
            row = X[int(finite.argmin())]
            raise DivergenceError(
                f"{type(learner).__name__} cannot learn inputs as large as {np.abs(row).max():.3g}: K(x, x) is not "
                "finite there. Scale X, for example with StandardScaler. The model is unchanged"
            )


def check_finite_rows(learner: object, step: int, Z: Array, X: Array, Y: Array) -> None:
    """Reject rows X, Y after `step` steps if their predictions Z (n, d) are not finite."""
    finite = np.isfinite(Z).all(axis=1)
    if not finite.all():
        row = int(finite.argmin())
        raise DivergenceError(
            f"{type(learner).__name__} cannot continue after step {step}: its prediction {row} rows later is not "
            f"finite. The largest input is {np.abs(X).max():.3g} and the largest output "
            f"{np.nanmax(np.abs(Y), initial=0.0):.3g}: scale both to about 1, and check that the kernel is finite and "
            "positive semi-definite. The model is unchanged"
        )


def check_finite_predictions(model: object, values: Array) -> None:
    """Reject predictions (n, ...) that are not finite."""
    if not np.isfinite(values).all():
        row = int(np.isfinite(values).all(axis=tuple(range(1, values.ndim))).argmin())
        raise DivergenceError(
            f"{type(model).__name__} has no finite prediction for row {row} of X: the kernel is not finite there. "
            "Remove the row, or scale inputs before fitting, for example with StandardScaler"
        )


CHECKED_ATTRIBUTES = ("dual_coef_", "intercept_", "weights_")  # fitted attributes that every prediction depends on


def check_finite_model(model: object) -> None:
    for name in CHECKED_ATTRIBUTES:
        found = vars(model).get(name)
        if isinstance(found, np.ndarray) and found.dtype.kind == "f" and not np.isfinite(found).all():
            raise DivergenceError(
                f"{type(model).__name__} found values of {name} that are not finite: the squares of inputs or outputs "
                "overflow or underflow, or the kernel is not finite. Scale both to about 1. The model is unchanged"
            )


# Errors that name the cell of a table that is not a number.

#: What to do about a bad cell in a mostly numeric column.
CLEAN_COLUMN = (
    "write missing values as nan, and strip percent signs and thousands separators; ovk.app.tables.read_table does "
    "this for files"
)


@contextmanager
def naming_bad_cells(values: Any, name: str) -> Iterator[None]:
    """Name the cell at which converting a table to numbers fails inside the block."""
    check_frame(values, name)
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        found = _first_bad_cell(values)
        if found is None:
            raise
        column, row, cell, advice = found
        where = "it" if column is None else f"column {column!r}"
        reason = str(error) if len(str(error)) <= 80 else f"{str(error)[:60]}..."
        message = f"{name} must contain numbers, but {where} contains {short(cell)} in row {row}: {advice} ({reason})"
        # scikit-learn's estimator checks distinguish the two types of error.
        raise (TypeError if isinstance(error, TypeError) else ValueError)(message) from error


def check_frame(values: Any, name: str) -> None:
    """Reject lazy frames and frames with duplicate column names."""
    if isinstance(values, np.ndarray):
        return
    if hasattr(values, "collect") and not hasattr(values, "__len__"):
        raise TypeError(f"{name} is a {type(values).__name__}, which is lazy: pass {name}.collect()")
    names = getattr(values, "columns", None)
    if names is not None and len(set(names)) < len(names):
        twice = next(one for one in names if list(names).count(one) > 1)
        raise ValueError(f"{name} has two columns named {twice!r}: rename one of them, or pass {name}.to_numpy()")


def _first_bad_cell(values: Any) -> tuple[Any, int, Any, str] | None:
    """Column, row and content of the first cell that is not a number, and what to do about it; or None."""
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
            if (advice := _advice(cell)) is not None:
                numbers = read_numbers(list(map(str, every)), grouped=True).values
                mostly = isinstance(cell, str) and 2 * np.isfinite(numbers).sum() > len(every)
                return name, row, cell, CLEAN_COLUMN if mostly else advice
    return None


def _advice(cell: Any) -> str | None:
    if isinstance(cell, (np.datetime64, np.timedelta64)) or hasattr(cell, "isoformat"):
        return "convert dates to numbers, for example days since the first date, or remove them"
    try:
        float(cell)
    except OverflowError:
        return "it exceeds the range of 64-bit floats: rescale the column"
    except TypeError:
        if isinstance(cell, (np.ndarray, list, tuple)):
            return "rows must have the same length; ovk.curves.common_grid puts curves with different times on one grid"
        return "remove or fill such rows; write missing numbers as nan"
    except ValueError:
        return "encode the column as numbers, for example with scikit-learn's OneHotEncoder, or remove it"
    return None


# Inputs.

#: What to do about nan in inputs.
FILL = "fill missing inputs, for example with scikit-learn's SimpleImputer, or remove their rows"


def check_inputs(model: Any, X: Any, *, advice: str = FILL, **options: Any) -> Any:
    """Check inputs with scikit-learn's `validate_data` and its `options`; `advice` states how to remove nan."""
    if _is_checked(model, X, **options):
        return X
    if is_foreign(X):
        supported = getattr(model, "_runs_on_devices", False)
        if supported and is_on_device(X):
            # They stay on their device, in single or double precision.
            xp = namespace(X)
            with _advising(X, advice):
                return DeviceMatrix(validate_data(model, X, **options | {"dtype": [xp.float64, xp.float32]}))
        X = to_host(X) if supported else host_inputs(model, X)
    check_not_masked(X, "X", "missing inputs are not supported")
    with naming_bad_cells(X, "X"), _advising(X, advice):
        return validate_data(model, X, **options)


@contextmanager
def _advising(X: Any, advice: str) -> Iterator[None]:
    """State where X has nan and what to do about it; scikit-learn recommends its own estimators that support nan."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Input X contains NaN"):
            raise
        where = ""
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f":
            row, column = np.argwhere(np.isnan(X))[0]
            where = f", first in row {row}, column {column}"
        raise ValueError(f"Input X contains NaN{where}: {advice}") from error


def host_inputs(model: Any, X: Any) -> Any:
    """Inputs as NumPy's if they are an array of another library; an error if they should stay on their device."""
    if is_dispatched(X):
        raise TypeError(
            f"{type(model).__name__} does not run on a device, got X as {type(X).__module__}.{type(X).__name__}: pass "
            "NumPy arrays, or set array_api_dispatch=False, which copies arrays to NumPy"
        )
    return to_host(X)


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
    """Whether `validate_data` would return X unchanged. For a single row it takes as long as a prediction."""
    if reset or others or type(X) is not np.ndarray or X.ndim != 2 or X.dtype != np.float64 or dtype is not np.float64:
        return False
    known = vars(model)
    if "feature_names_in_" in known or known.get("n_features_in_") != X.shape[1] or len(X) < ensure_min_samples:
        return False
    return not ensure_all_finite or bool(np.isfinite(X).all())


def check_not_masked(A: Any, name: str, why: str) -> None:
    if isinstance(A, np.ma.MaskedArray) and np.ma.is_masked(A):
        places = np.argwhere(np.ma.getmaskarray(A))
        where = ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column"), places[0], strict=False))
        raise ValueError(
            f"{name} is a masked array with {len(places)} masked values, the first at {where}, and {why}: fill them "
            f"with {name}.filled(...), or remove their rows"
        )


def masked_as_nan(A: Any, name: str) -> Any:
    """A masked array as floats with nan where it is masked, arrays of other libraries as NumPy's; others unchanged."""
    if not isinstance(A, np.ma.MaskedArray):
        return to_host(A)
    if A.dtype.kind not in "biuf":
        check_not_masked(A, name, "only numbers can be missing")
    return np.ma.filled(A.astype(np.float64), np.nan) if np.ma.is_masked(A) else A.data


# Outputs.


@dataclass(frozen=True)
class ObservedPairs:
    """The N observed pairs of a point and an output."""

    points: Indices  # (N,), ascending
    outputs: Indices  # (N,)
    values: Array  # (N,) observed values
    weights: Array  # (N,) sample weights of the pairs; ones by default
    groups: Indices  # (N,) pairs of the same group are left out together
    shape: tuple[int, int]  # (n, d) number of points, number of outputs

    def __len__(self) -> int:
        return len(self.points)

    @property
    def roots(self) -> Array:
        """(N,) square roots of the weights; weighted least squares multiplies both sides by them."""
        return np.sqrt(self.weights)

    def scaled_values(self) -> Array:
        return self.roots * self.values

    def columns(self) -> Array:
        """(N, d) indicators of each pair's output times the root of its weight: the columns of the intercepts."""
        unobserved = np.flatnonzero(self.sum_by_output() == 0)
        if len(unobserved):
            raise ValueError(
                f"fit_intercept=True requires an observation of every output, but output {unobserved[0]} has none"
            )
        return np.eye(self.shape[1])[self.outputs] * self.roots[:, None]

    def held_out_together(self, *, entry: bool) -> Indices:
        """(N,) labels of pairs that are left out together: those of a group, with `entry` of a group and an output."""
        return self.groups * self.shape[1] + self.outputs if entry else self.groups

    def sum_by_output(self, numbers: Array | None = None) -> Array:
        """(d,) sums over the pairs of each output; without `numbers`, how many pairs there are."""
        return np.asarray(np.bincount(self.outputs, weights=numbers, minlength=self.shape[1]).astype(np.float64))

    def spread(self, numbers: Array, empty: float = 0.0) -> Array:
        """(n, d) matrix with a number for each pair, `empty` where nothing was observed."""
        full = np.full(self.shape, empty)
        full[self.points, self.outputs] = numbers
        return full


@dataclass(frozen=True)
class Targets:
    Y: Array  # (n, d) with nan where nothing was observed, or (n, 1) in long form
    d: int  # number of outputs
    single: bool  # y is one-dimensional, and so are predictions
    task: Indices | None  # (n,) output of each row in long form, else None
    weight: Array | None  # (n,) sample weights, or None

    @property
    def complete(self) -> bool:
        return self.task is None and not np.isnan(self.Y).any()

    def observed_mask(self) -> Mask | None:
        """(n, d) where an output was observed; None if all were, and in long form."""
        return None if self.task is not None or self.complete else ~np.isnan(self.Y)

    def pairs(self, groups: Indices | None = None) -> ObservedPairs:
        """The observed pairs; rows of one group in `groups`, (n,), are left out together, by default one by one."""
        n = len(self.Y)
        if self.task is not None:
            points, outputs, values = np.arange(n), self.task, self.Y[:, 0]
        else:
            points, outputs = np.nonzero(~np.isnan(self.Y))
            values = self.Y[points, outputs]
        weights = np.ones(len(points)) if self.weight is None else self.weight[points]
        groups = points if groups is None else groups[points]
        return ObservedPairs(points, outputs, values, weights, groups, (n, self.d))

    def wide(self) -> Targets:
        """Long form as an (n, d) matrix with one observed output per row."""
        if self.task is None:
            return self
        Y = np.full((len(self.Y), self.d), np.nan)
        Y[np.arange(len(Y)), self.task] = self.Y[:, 0]
        return Targets(Y, self.d, False, None, self.weight)

    def observed_outputs(self) -> Mask:
        """(d,) whether an output was observed in a row of positive weight."""
        used = np.ones(len(self.Y), dtype=bool) if self.weight is None else self.weight > 0
        if self.task is not None:
            return np.isin(np.arange(self.d), self.task[used])
        return np.asarray((~np.isnan(self.Y[used])).any(axis=0))

    def informative_rows(self) -> Mask:
        """(n,) whether a row has an observed output and a positive weight."""
        keep = np.asarray(~np.isnan(self.Y).all(axis=1))
        return keep if self.weight is None else keep & (self.weight > 0)

    def with_unlabelled_rows(self, n: int) -> Targets:
        """These rows followed by unlabelled ones, n in total; not for long form."""
        more = n - len(self.Y)
        weight = None if self.weight is None else np.pad(self.weight, (0, more), constant_values=1.0)
        Y = np.pad(self.Y, ((0, more), (0, 0)), constant_values=np.nan)
        return Targets(Y, self.d, self.single, None, weight)

    def rows(self, keep: Any) -> Targets:
        task = None if self.task is None else self.task[keep]
        return Targets(self.Y[keep], self.d, self.single, task, None if self.weight is None else self.weight[keep])


def check_targets(
    Y: Any, n: int, sample_weight: Any, task: Any, X: Any, outputs: int | None = None, *, part: bool = False
) -> Targets:
    """Check outputs of inputs `X` of n rows; `outputs` is the number of tasks if known, `part` allows empty outputs."""
    if Y is None:
        raise ValueError("requires y to be passed, but the target y is None: pass the outputs Y, (n, d) or (n,)")
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
    # scikit-learn only counts the rows of X.
    rows = np.empty((n, 1)) if isinstance(X, DeviceMatrix) else X
    if array.shape[0] != n:
        check_consistent_length(rows, array)
    single = array.ndim == 1
    array = array[:, None] if single else array
    if array.shape[1] == 0:
        raise ValueError(f"Y must have at least one output, got shape {array.shape}")
    weight = None if sample_weight is None else _weights(to_host(sample_weight), rows, part=part)
    if task is not None:
        if array.shape[1] != 1:
            raise ValueError(f"in long form (task given) y must have one value per row, got shape {array.shape}")
        numbers = check_tasks(task, n, outputs)
        if np.isnan(array).any():
            row = int(np.flatnonzero(np.isnan(array[:, 0]))[0])
            raise ValueError(f"in long form y must not contain nan (row {row}): remove the row")
        d = int(numbers.max()) + 1 if outputs is None else outputs
        return Targets(array, d, False, numbers, weight)
    targets = Targets(array, array.shape[1], single, None, weight)
    if not part:
        where = f"in all {n} rows" + ("" if weight is None else " of positive weight")
        check_observed_outputs(targets.observed_outputs(), where)
    return targets


def check_observed_outputs(observed: Mask, where: str) -> None:
    if not observed.all():
        raise ValueError(
            f"Y must have at least one observed value for each output, but output {int(observed.argmin())} is nan "
            f"{where}: remove the column (for curves, with its grid point)"
        )


def _weights(sample_weight: Any, X: Any, *, part: bool) -> Array:
    if not np.asarray(sample_weight).any():
        if not part:
            raise ValueError("sample_weight must have a positive entry, got only zeros")
        # scikit-learn rejects weights that are all zero.
        return 0.0 * _weights(np.ones(np.shape(sample_weight)), X, part=part)
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def drop_unobserved_rows(X: Any, targets: Targets) -> tuple[Any, Targets]:
    """Drop rows of weight zero and rows without an observed output."""
    keep = targets.informative_rows()
    return (X, targets) if keep.all() else (X[keep], targets.rows(keep))


def check_tasks(task: Any, n: int, outputs: int | None = None) -> Indices:
    """The index of each observation's output, (n,)."""
    numbers = np.asarray(to_host(task))
    if numbers.shape != (n,):
        raise ValueError(f"task must have one entry for each of the {n} rows, got shape {numbers.shape}")
    if numbers.dtype.kind not in "iu":
        exact = numbers.astype(np.float64) if numbers.dtype.kind == "f" else None
        if exact is None or not (np.isfinite(exact).all() and np.array_equal(exact, np.floor(exact))):
            raise ValueError(f"task must contain output indices 0..d-1, got dtype {numbers.dtype}")
    if n == 0:
        raise ValueError("task must have at least one entry, got none")
    if numbers.min() < 0:
        raise ValueError(f"task must contain output indices 0..d-1, got {numbers.min()}")
    if outputs is not None and int(numbers.max()) >= outputs:
        raise ValueError(f"task must contain output indices below {outputs}, got {int(numbers.max())}")
    return numbers.astype(np.intp)


def check_groups(groups: Any, n: int) -> Indices:
    """(n,) indices of the groups of n rows, from any labels."""
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"groups must have one entry for each of the {n} rows, got shape {labels.shape}")
    distinct, numbers = np.unique(labels, return_inverse=True)
    if len(distinct) < 2:
        raise ValueError(f"groups must have at least 2 distinct labels, got {len(distinct)}")
    return numbers.astype(np.intp)


def members_of_groups(numbers: Indices) -> list[Indices]:
    """The positions of each group, in ascending order of the group index."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def check_alpha(alpha: Any, d: int) -> float | Array:
    """The ridge weight: a number >= 0, or one > 0 per output."""
    value = np.asarray(alpha)
    if value.dtype.kind not in "iuf" or value.ndim > 1 or value.size == 0:
        raise ValueError(f"alpha must be a number >= 0, or an array with one > 0 per output, got {alpha!r}")
    value = value.astype(np.float64)
    if not np.isfinite(value).all() or (value < 0).any():
        raise ValueError(f"alpha must be non-negative and finite, got {alpha!r}")
    if value.ndim == 0:
        return float(value)
    if len(value) != d:
        raise ValueError(f"alpha must have {d} entries, one for each output, got {len(value)}")
    if len(np.unique(value)) == 1:
        return float(value[0])
    if (value == 0).any():
        raise ValueError(f"alpha must be positive for each output if it differs between outputs, got {alpha!r}")
    return value


def ridge_and_scales(alpha: float | Array) -> tuple[float, Array | None]:
    """The ridge, and S = diag(alpha^-1/2), (d,), if alpha has an entry per output: then solve for Y S with S T S."""
    return (alpha, None) if isinstance(alpha, float) else (1.0, 1.0 / np.sqrt(alpha))


def check_alphas(alphas: Any, name: str = "alphas") -> Array:
    values = np.asarray(alphas)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a sequence of positive numbers, got {alphas!r}")
    return np.array([positive(float(alpha), f"each of {name}") for alpha in values])


# Class labels and missing values.


def is_missing(value: Any) -> bool:
    """Whether a label or a cell is None, nan or a frame's NA."""
    # nan is not equal to itself; comparing pandas' NA gives NA, which has no truth value.
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def missing_labels(labels: Labels) -> Mask:
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind != "O":
        return np.zeros(labels.shape, dtype=bool)
    return np.array([is_missing(one) for one in labels.ravel()], dtype=bool).reshape(labels.shape)


def check_no_missing_labels(labels: Labels) -> None:
    missing = np.flatnonzero(missing_labels(labels))
    if len(missing):
        raise ValueError(
            f"Input y contains NaN or None: {len(missing)} labels are missing, the first in row {missing[0]}; remove "
            "rows without a label"
        )


def share_of_right_labels(found: Any, y: Any, sample_weight: Any = None) -> float:
    """Weighted accuracy of predicted labels over the known labels in y."""
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
    """The library and the column names of the data frame that was passed as Y."""

    library: str  # "pandas" or "polars"
    names: list[Any]  # strings, numbers, or tuples of these for the column levels of pandas

    def __post_init__(self) -> None:
        plain = isinstance(self.names, list) and self.names == list(map(_plain_name, self.names))
        if self.library not in LIBRARIES or not plain:
            raise ValueError(f"an output frame must have a library ({' or '.join(LIBRARIES)}) and names, got {self!r}")

    @classmethod
    def from_targets(cls, y: Any) -> OutputFrame | None:
        library = library_of(y)
        return None if library is None else cls(library, list(map(_plain_name, y.columns)))

    def texts(self) -> list[str]:
        return ["/".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in self.names]

    def named(self, values: Any, X: Any) -> Any:
        """Values (n, d) as a frame, with the index of X if both are pandas; an array if the library is missing."""
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
    """Mixin that names predictions after the columns of Y."""

    #: Set if Y is a data frame.
    output_frame_: OutputFrame | None = None
    _state_classes: ClassVar[Any] = {"output_frame_": OutputFrame}

    n_outputs_: int

    @property
    def output_names_(self) -> list[str]:
        """Names of the outputs: the columns of Y if it was a data frame, else "y0", "y1", ..."""
        frame = self.output_frame_
        return [f"y{q}" for q in range(self.n_outputs_)] if frame is None else frame.texts()

    def _learn_names(self, y: Any, d: int) -> None:
        """Store the names of d outputs; a single column in long form has none."""
        self.__dict__.pop("output_frame_", None)
        frame = OutputFrame.from_targets(y)
        if frame is not None and len(frame.names) == d:
            self.output_frame_ = frame

    def _check_names(self, y: Any) -> None:
        known = self.output_frame_
        if known is None or type(y) is np.ndarray:
            return
        frame = OutputFrame.from_targets(y)
        if frame is not None and frame.texts() != known.texts():
            found, fitted = (", ".join(one.texts()) for one in (frame, known))
            advice = "pass the same columns in the same order"
            raise ValueError(f"y has the columns {found} but the model was fitted with {fitted}: {advice}")

    def _named(self, values: V, X: Any) -> V:
        """Predictions at X as a frame, if Y was one, or on the device of X; only arrays (n, d) become frames."""
        if is_dispatched(X):
            return to_device_of(X, values)  # type: ignore[no-any-return]
        frame = self.output_frame_
        if frame is None:
            return values
        if isinstance(values, tuple):
            return tuple(self._named(part, X) for part in values)  # type: ignore[return-value]
        whole = isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == len(frame.names)
        return frame.named(values, X) if whole else values


def library_of(frame: Any) -> str | None:
    """The library of a data frame, or None for other objects; imports nothing."""
    if isinstance(frame, np.ndarray):
        return None
    for library in LIBRARIES:
        module = sys.modules.get(library)
        if module is not None and isinstance(frame, getattr(module, "DataFrame", ())):
            return library
    return None


def unnamed(values: Any) -> Any:
    """Frames, and arrays of other libraries, as NumPy arrays with nan for missing values, also inside tuples."""
    if isinstance(values, tuple):
        return tuple(map(unnamed, values))
    library = library_of(values)
    if library == "pandas":
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    return to_host(values) if library is None else values.to_numpy()


def _plain_name(name: Any) -> Any:
    """A column name as a string, a number or a tuple of these, which `ovk.save` can write."""
    if isinstance(name, tuple):
        return tuple(map(_plain_name, name))
    plain = name.item() if isinstance(name, np.generic) else name
    return plain if type(plain) in (str, int, float) else str(plain)
