"""Learning calls that would leave the range of numbers, or run away, are refused before the learner changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np

from ovk.base.types import Array

#: Inputs beyond this can have values of a kernel that are not finite.
LARGE = 1e50


class _Kernel(Protocol):
    def norm_bound(self) -> float | None: ...

    def diagonal_blocks(self, X: Array) -> Array: ...


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


def refuse_overflow(learner: object, kernel: _Kernel, X: Array) -> None:
    """Refuse inputs for which K(x, x) is not a finite number."""
    if len(X) and np.abs(X).max() > LARGE and kernel.norm_bound() is None:
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


# Linear systems that cannot be solved are told by an error of our own, with what to do.


class SingularSystem(ValueError):
    """A system that cannot be solved as it stands."""


def named(error: np.linalg.LinAlgError, learner: object) -> SingularSystem:
    """What to raise in the place of a failure inside LAPACK while something learns."""
    return SingularSystem(
        f"{type(learner).__name__} met a linear system that cannot be solved ({error}): raise alpha, remove rows or "
        "columns that repeat others, scale inputs and outputs, or check that the kernel's values are finite and "
        "positive semi-definite. Nothing was learned"
    )


# Errors that name the cell of a table that is not a number.

#: What to do about a cell that is no number among many that are.
DIRTY = (
    "write nan for values that were not observed, and strip percent signs and thousands separators; "
    "ovk.app.tables.read_table does that for a file"
)


@contextmanager
def naming_bad_cells(values: Any, name: str) -> Iterator[None]:
    """Where turning a table into numbers fails, say which cell it was.

    >>> import pandas as pd
    >>> from ovk import OVKRidge
    >>> OVKRidge().fit(pd.DataFrame({"size": [1.0, 2.0], "colour": ["red", "blue"]}), [1.0, 2.0])
    Traceback (most recent call last):
    ...
    ValueError: X must hold numbers, but column 'colour' holds 'red' in row 0: encode the column as numbers, as with
    scikit-learn's OneHotEncoder, or leave it out (could not convert string to float: 'red')
    """
    refuse_odd_frames(values, name)
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        found = _first_bad_cell(values)
        if found is None:
            raise
        column, row, cell, cure = found
        where = "it" if column is None else f"column {column!r}"
        why = f"{cure} ({_short_text(str(error))})"
        message = f"{name} must hold numbers, but {where} holds {_short(cell)} in row {row}: {why}"
        # scikit-learn's own checks tell the two kinds of error apart.
        raise (TypeError if isinstance(error, TypeError) else ValueError)(message) from error


def refuse_odd_frames(values: Any, name: str) -> None:
    """Frames that have no cells yet, or two columns of one name, which nothing behind could tell apart.

    >>> import pandas as pd
    >>> from ovk import OVKRidge
    >>> OVKRidge().fit(pd.DataFrame([[1.0, 2.0], [3.0, 5.0]], columns=["a", "a"]), [1.0, 2.0])
    Traceback (most recent call last):
    ...
    ValueError: X has two columns named 'a': rename one of them, or pass the numbers alone (X.to_numpy())
    """
    if isinstance(values, np.ndarray):
        return
    if hasattr(values, "collect") and not hasattr(values, "__len__"):
        raise TypeError(f"{name} is a {type(values).__name__}, which has no rows yet: pass {name}.collect()")
    names = getattr(values, "columns", None)
    if names is not None and len(set(names)) < len(names):
        listed = list(names)
        twice = next(one for one in listed if listed.count(one) > 1)
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
                return name, row, cell, DIRTY if isinstance(cell, str) and _mostly_numbers(every) else cure
    return None


def _cure(cell: Any) -> str | None:
    """What to do about a cell that is no number; None if it is one."""
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


def _mostly_numbers(cells: list[Any]) -> bool:
    """Whether more than half of the cells are numbers, written with percent signs or thousands separators perhaps.

    >>> _mostly_numbers(["71.6%", "1,200", "n/a"]), _mostly_numbers(["1", "red", "blue"])
    (True, False)
    """
    count = 0
    for cell in cells:
        try:
            float(str(cell).strip().removesuffix("%").replace(",", ""))
            count += 1
        except ValueError:
            continue
    return 2 * count > len(cells)


def _short(cell: Any) -> str:
    try:
        text = repr(cell)
    except ValueError:  # an integer of too many digits to be printed
        text = f"an integer of about {int(cell.bit_length() * 0.30103):,} digits"
    return _short_text(text)


def _short_text(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:60]}..."


# Names that are misspelt.


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name most like a misspelt one, whatever the case; None if none is close.

    >>> closest("wall", ["roof", "Walls"]), closest("wall", ["height"])
    ('Walls', None)
    """
    known = {one.casefold(): one for one in names}
    found = get_close_matches(name.casefold(), known, 1)
    return known[found[0]] if found else None
