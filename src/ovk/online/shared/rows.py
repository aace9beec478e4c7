"""Checked rows of a stream, their scales, and buffers that store them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import check_array, check_consistent_length

from ovk.base import Array, Indices, Mask, State, Times, check_inputs, check_targets, masked_as_nan, naming_bad_cells


class Rows(NamedTuple):
    """Checked rows: inputs (n, p), outputs (n, d), nan where one was not observed, and a mask (n,) of valid rows.

    Positive `weights` (n,) multiply the losses, None for 1. `last` (n, d) are the last labels known when each row was
    predicted, None for those of the previous row.
    """

    X: Array
    Y: Array
    valid: Mask
    single: bool
    weights: Array | None = None
    last: Array | None = None

    def take(self, some: Indices) -> Rows:
        weights, last = (None if part is None else part[some] for part in (self.weights, self.last))
        return self._replace(X=self.X[some], Y=self.Y[some], valid=self.valid[some], weights=weights, last=last)

    def with_weights(self, sample_weight: Any) -> Rows:
        """The rows with the user's weights, (n,); a row of weight 0 has no labels."""
        weight = checked_weights(sample_weight, self.X)
        counts = weight > 0.0
        Y = np.where(counts[:, None], self.Y, np.nan)
        return self._replace(Y=Y, weights=np.where(counts, weight, 1.0) if len(weight) else None)


def checked_weights(sample_weight: Any, X: Array) -> Array:
    weight = check_targets(np.zeros(len(X)), len(X), sample_weight, None, X, part=True).weight
    assert weight is not None
    return weight


def checked_rows(
    model: Any, X: Any, y: Any, *, outputs: int | None, on_invalid: str, whole: bool = False, unsupervised: bool = False
) -> Rows:
    """Checked rows for a model that has learned `outputs` outputs, None for a new model.

    `on_invalid`: "raise" rejects rows with nan or inf in X or inf in y, "skip" marks them, and "missing" keeps them,
    with nan in place of inf in y. `whole`: there are no other data, so every output must have a label.
    """
    first, skip = outputs is None, on_invalid == "skip"
    X = check_inputs(model, X, reset=first, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=int(first))
    valid = np.isfinite(X).all(axis=1) | (on_invalid == "missing")
    if unsupervised:
        y = np.zeros(len(X))
    if y is not None:
        y = masked_as_nan(y, "y")
        if not isinstance(y, np.ndarray) or y.dtype != np.float64:
            with naming_bad_cells(y, "y"):
                options = {"ensure_2d": False, "ensure_all_finite": False, "ensure_min_samples": 0}
                y = check_array(y, dtype=np.float64, input_name="y", **options)
        check_consistent_length(X, y)
        if on_invalid == "missing":
            y = np.where(np.isinf(y), np.nan, y)
        finite = ~np.isinf(y).any(axis=tuple(range(1, y.ndim)))
        if skip:
            valid &= finite
            y = np.where(valid.reshape(-1, *[1] * (y.ndim - 1)), y, np.nan)
        elif not finite.all():
            raise ValueError(_invalid_row_message("y", finite, "infinity"))
    if not skip and not valid.all():
        raise ValueError(_invalid_row_message("X", valid, "NaN or infinity"))
    if whole and not valid.any():
        raise ValueError("every row contains NaN or infinity: there is nothing to learn from")
    targets = check_targets(y, X.shape[0], None, None, X, part=not whole)
    if not first and targets.d != outputs:
        raise ValueError(f"y has {targets.d} outputs but the model has learned {outputs}")
    return Rows(X, targets.Y, valid, targets.single)


def _invalid_row_message(name: str, fine: Mask, what: str) -> str:
    row = int(fine.argmin())
    return f"{name} must contain finite numbers, but row {row} contains {what}: remove it, or use on_invalid='skip'"


#: Inputs and residuals are clipped to this many standard deviations.
MAX_DEVIATIONS = 6.0
#: A burst of errors has labels beyond this many standard deviations, and at most this many rows.
BURST_DEVIATIONS, MAX_BURST_ROWS = 1e3, 40
#: A column with a larger share of distant labels has no outliers.
MAX_OUTLIER_SHARE = 0.002


@dataclass
class Scale(State):
    """Centre and scale of columns, (p,) each."""

    _stored = {"centre": "p", "scale": "p"}

    centre: Array
    scale: Array

    @classmethod
    def identity(cls, columns: int) -> Self:
        return cls(np.zeros(columns), np.ones(columns))

    @classmethod
    def from_rows(cls, X: Array, outliers: float = 1.0) -> Self:
        """Mean and standard deviation of the columns, without nan and without outliers.

        Outliers are values far outside the quartiles, unless their share exceeds `outliers` and there are several.
        """
        if not len(X):
            return cls.identity(X.shape[1])
        X = np.where(np.isfinite(X), X, np.nan)
        with np.errstate(all="ignore"):
            low, middle, high = np.nan_to_num(_quantiles(X))
        # If the quartiles are equal there are no outliers.
        reach = np.where(high > low, 20.0 * (high - low), np.inf)
        far = np.abs(X - middle) > reach
        # Many distant values are rare events rather than outliers: rain, or a machine that is mostly off.
        far &= far.sum(axis=0) <= max(1, outliers * len(X))
        kept = np.where(far, np.nan, X)
        known = np.isfinite(kept)
        count = np.maximum(known.sum(axis=0), 1)
        centre = np.where(known, kept, 0.0).sum(axis=0) / count
        deviations = np.where(known, kept - centre, 0.0)
        largest = np.maximum(np.abs(deviations).max(axis=0), np.finfo(float).tiny)
        scale = largest * np.sqrt(np.sum((deviations / largest) ** 2, axis=0) / count)
        # A constant column is divided by its absolute value.
        tiny = 1e-10 * np.maximum(np.abs(centre), np.finfo(float).tiny)
        return cls(centre, np.where(scale > tiny, scale, np.where(centre == 0.0, 1.0, np.abs(centre))))

    def unknown(self) -> Mask:
        """(p,) mask of the columns that are 0 or nan throughout."""
        return np.asarray((self.centre == 0.0) & (self.scale == 1.0))

    def inputs(self, X: Array) -> Array:
        """Standardised rows, clipped to `MAX_DEVIATIONS`, with 0 for missing values."""
        Z: Array = (X - self.centre) / self.scale
        np.minimum(np.maximum(Z, -MAX_DEVIATIONS, out=Z), MAX_DEVIATIONS, out=Z)
        Z[np.isnan(Z)] = 0.0
        return Z

    def outputs(self, Y: Array) -> Array:
        return (Y - self.centre) / self.scale

    def predictions(self, Z: Array) -> Array:
        return self.centre + self.scale * Z


def clip_outliers(Y: Array) -> Array:
    """(n, d) labels clipped to three interquartile ranges beyond the quartiles; nan stays nan."""
    low, _, high = _quantiles(Y)
    reach = np.where(high > low, 3.0 * (high - low), np.inf)
    return np.clip(Y, low - reach, high + reach)


def clip_burst(Y: Array, units: Scale) -> tuple[Array, Mask]:
    """(n, d) labels without a burst of errors, and a (d,) mask of the outputs that had one.

    In a burst, all labels beyond `BURST_DEVIATIONS` in units from before are within `MAX_BURST_ROWS` rows. A change in
    the last rows may persist, and does not count as a burst.
    """
    far = np.abs(units.outputs(Y)) > BURST_DEVIATIONS
    first, last = far.argmax(axis=0), len(Y) - 1 - far[::-1].argmax(axis=0)
    short = (last - first < MAX_BURST_ROWS) & (last < len(Y) - MAX_BURST_ROWS)
    burst: Mask = far.any(axis=0) & short & (len(Y) >= 5 * MAX_BURST_ROWS)
    numbers = np.arange(len(Y))[:, None]
    # The mixture clips labels to a range that grows from row to row, so the first rows of a burst are not as far.
    within = (first - MAX_BURST_ROWS <= numbers) & (numbers <= last + MAX_BURST_ROWS)
    return np.where(burst & within, clip_outliers(Y), Y), burst


def _quantiles(X: Array) -> Array:
    if np.isfinite(X).all():
        return np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    columns = [x[np.isfinite(x)] for x in X.T]
    return np.stack([np.quantile(x, [0.25, 0.5, 0.75]) if len(x) else np.zeros(3) for x in columns], axis=1)


MIN_BUFFER_ROWS = 256


@dataclass
class RowBuffer(State):
    """Arrays with the same number of rows, which are appended at the end and dropped at the front in O(1) per row.

    The arrays are views of larger ones with spare rows at the end. When these run out, the rows move into new arrays.
    Existing rows never change, so copies share them, and one of several copies may append rows that the others do not
    see.
    """

    _stored = {"arrays": ("n * nan", ...)}

    arrays: tuple[Array, ...]
    _space: list[Any] = field(init=False, repr=False, compare=False)
    _first: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Without a copy, so that buffers that share arrays in a file share them after loading, and in the next file.
        self._space, self._first = list(self.arrays), 0

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickles of the views would not be views.
        return type(self), (tuple(array.copy() for array in self.arrays),)

    def __len__(self) -> int:
        return len(self.arrays[0])

    @property
    def X(self) -> Array:
        """(n, p) inputs, which come first."""
        return self.arrays[0]

    def append(self, *rows: Any) -> None:
        n, more = len(self), len(rows[0])
        self._make_room(more)
        end = self._first + n
        for array, new in zip(self._space, rows, strict=True):
            array[end : end + more] = new
        self._view(n + more)

    def replace(self, quantity: int, values: Any) -> None:
        """Replace one of the arrays; copies keep the old one."""
        space, n = list(self._space), len(self)
        fresh = np.empty_like(space[quantity])
        fresh[self._first : self._first + n] = values
        space[quantity] = fresh
        self._space = space
        self._view(n)

    def drop(self, count: int) -> None:
        self._first += count
        self._view(len(self) - count)

    def add_columns(self, count: int) -> None:
        """Append columns of zeros to the inputs."""
        self.arrays = (np.pad(self.X, ((0, 0), (0, count))), *self.arrays[1:])
        self.__post_init__()

    def _make_room(self, more: int) -> None:
        n, space = len(self), len(self._space[0])
        if self._first + n + more > space:
            # Move the rows to the front of new arrays.
            size = space if 4 * (n + more) <= 3 * space else max(MIN_BUFFER_ROWS, 2 * (n + more))
            fresh = [np.empty((size, *array.shape[1:]), dtype=array.dtype) for array in self.arrays]
            for new, old in zip(fresh, self.arrays, strict=True):
                new[:n] = old
            self._space, self._first = fresh, 0
            self._view(n)

    def _view(self, n: int) -> None:
        rows = slice(self._first, self._first + n)
        self.arrays = tuple([array[rows] for array in self._space])


class LearnedRows(RowBuffer):
    """Inputs, labels and other columns of learned rows, (n, .) each, and their weights if any row had one."""

    @classmethod
    def empty(cls, *columns: int) -> Self:
        return cls(tuple(np.empty((0, count)) for count in columns))

    @property
    def Y(self) -> Array:
        return self.arrays[1]

    @property
    def weights(self) -> Array | None:
        """(n,), None for 1."""
        return self.arrays[-1] if self.arrays[-1].ndim == 1 else None

    def with_weights(self) -> tuple[Any, ...]:
        return self.arrays if self.weights is not None else (*self.arrays, None)

    def append_weighted(self, weights: Array | None, *rows: Any) -> None:
        if weights is not None and self.weights is None:
            self.arrays = (*self.arrays, np.ones(len(self)))
            self.__post_init__()
        self.append(*rows, *(() if self.weights is None else (1.0 if weights is None else weights,)))


class SupportPoints(RowBuffer):
    """Support points (m, p) of a first-order learner, coefficients A (m, k, d) and the step of each point, (m,).

    There are k = 2 sets of coefficients with averaging, the second being the running sum, else k = 1.
    """

    _stored = {"arrays": ("m p", "m k d", "m int")}

    @classmethod
    def empty(cls, p: int, d: int, sets: int) -> Self:
        return cls((np.empty((0, p)), np.empty((0, sets, d)), np.empty(0, dtype=np.int64)))

    def __repr__(self) -> str:
        points, _, d = self.A.shape
        return f"SupportPoints({points} points, {self.X.shape[1]} inputs, {d} outputs)"

    @property
    def A(self) -> Array:
        return self.arrays[1]

    @property
    def time(self) -> Times:
        return self.arrays[2]  # type: ignore[return-value]

    def after_step(self, decay: float, leaving: int, X: Array, a: Array, t: int) -> Self:
        """The points after a step on one row, (1, p), with coefficient a (d,), which is not added if it is 0.

        The coefficients decay, and the oldest `leaving` points are dropped.
        """
        other, n = self._replace(), len(self)
        joins = any(a.tolist())
        other._make_room(1)
        first, (inputs, old, times) = other._first, other._space
        fresh = old
        if decay != 1.0:
            fresh = np.empty_like(old)
            np.multiply(old[first : first + n], decay, out=fresh[first : first + n])
            other._space = [inputs, fresh, times]
        if joins:
            inputs[first + n], fresh[first + n, 0], times[first + n] = X[0], a, t
        other._first = first + leaving
        other._view(n + joins - leaving)
        return other
