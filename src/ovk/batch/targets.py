"""What a user may pass as outputs, and what it means.

Three forms come in: complete outputs Y (n, d); Y with nan where an output was not observed; and long form, one
observation a row, y (n,) with the output's number in `task`. They leave as `Targets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _check_sample_weight

from ovk._validation import Array, Indices


@dataclass(frozen=True)
class Targets:
    """Checked outputs.

    Attributes
    ----------
    Y : (n, d) with nan where nothing was observed, or (n, 1) in long form
    d : number of outputs
    single : y was one-dimensional, and so will predictions be
    task : (n,) output of each row in long form, else None
    weight : (n,) sample weights, or None
    """

    Y: Array
    d: int
    single: bool
    task: Indices | None
    weight: Array | None

    @property
    def complete(self) -> bool:
        """Every output of every row was observed."""
        return self.task is None and not np.isnan(self.Y).any()

    def seen(self) -> npt.NDArray[np.bool_]:
        """(d,) whether the output was observed at least once, in a row of positive weight."""
        used = np.ones(len(self.Y), dtype=bool) if self.weight is None else self.weight > 0
        if self.task is not None:
            return np.isin(np.arange(self.d), self.task[used])
        return np.asarray((~np.isnan(self.Y[used])).any(axis=0))

    def rows(self, keep: Any) -> Targets:
        """Some of the rows."""
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
    array = check_array(
        Y,
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
        check_seen(targets.seen(), f"in all {n} rows" + ("" if weight is None else " of positive weight"))
    return targets


def check_seen(seen: npt.NDArray[np.bool_], where: str) -> None:
    """Refuse an output that was never observed."""
    if not seen.all():
        raise ValueError(
            f"Y must have at least one observed value for each output, but output {int(seen.argmin())} is nan "
            f"{where}: leave the column out"
        )


def _weights(sample_weight: Any, X: Any, *, part: bool) -> Array:
    if not np.asarray(sample_weight).any():
        if not part:
            raise ValueError("sample_weight must have an entry above zero, got only zeros")
        # scikit-learn refuses weights that are all zero.
        return 0.0 * _weights(np.ones(np.shape(sample_weight)), X, part=part)
    weight: Array = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return weight


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
