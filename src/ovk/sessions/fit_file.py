"""One call that learns a file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, overload

from ovk.sessions.batch import Fitted, fit_table
from ovk.sessions.class_table import FittedClasses, fit_classes
from ovk.sessions.faults import bad_rows_note
from ovk.sessions.remarks import doubts, hints
from ovk.sessions.settings import Settings
from ovk.streams import open_records

#: Settings that are about streams alone.
OF_STREAMS = ("model", "warm_up", "block", "every")


@overload
def fit_file(
    path: str | Path,
    targets: str | Sequence[str],
    *,
    classify: Literal[False] = False,
    form: str | None = None,
    **settings: Any,
) -> Fitted: ...
@overload
def fit_file(
    path: str | Path, targets: str | Sequence[str], *, classify: Literal[True], form: str | None = None, **settings: Any
) -> FittedClasses: ...
def fit_file(
    path: str | Path,
    targets: str | Sequence[str],
    *,
    classify: bool = False,
    form: str | None = None,
    **settings: Any,
) -> Fitted | FittedClasses:
    """Learn a file, as `ovk fit` does.

    Words, dates, percent signs and gaps are understood; kernel, penalties and coupling are chosen by the data. The
    model remembers how each column is read: `predict_file` takes other files with the same columns,
    `ovk.plotting.report` writes a page about it, `ovk.save` a file.

    Parameters
    ----------
    path : CSV, JSON lines or Parquet
    targets : the output column or columns; cells without a value were not observed
    classify : whether the target holds classes
    form : "csv", "jsonl" or "parquet"; by default told by the ending of the name or the first character
    settings : other parameters of `Settings`, such as ``features=["a", "b"]``, ``ignore=["visit"]``, ``lags=[1, 2]`` or
        ``groups="patient"``, which leaves whole patients out: choice, errors and intervals are then for new ones

    Returns
    -------
    `Fitted`, for classes `FittedClasses`

    Warns
    -----
    UserWarning
        With the cells that could not be read, and with columns that may not be what they are read as.

    Examples
    --------
    >>> import os, tempfile
    >>> import ovk
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "soil.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("rock,wet,zinc\\n" + "".join(f"{'AB'[i % 2]},{i % 7}%,{i % 7}\\n" for i in range(100)))
    ...     model = ovk.fit_file(path, "zinc")
    ...     found = model.predict_file(path)
    >>> list(found)
    ['row', 'zinc', 'zinc low', 'zinc high', 'zinc outcome']
    >>> bool(abs(found["zinc"] - found["zinc outcome"]).max() < 0.1)
    True
    """
    chosen = Settings(_listed(targets), classify=classify, **_known(settings))
    with open_records(path, form) as records:
        fitted = fit_classes(records, chosen) if classify else fit_table(records, chosen)
    if fitted.n_bad:
        warnings.warn(f"{records.label}: {bad_rows_note(fitted.n_bad, fitted.faults)}", UserWarning, stacklevel=2)
    columns = fitted.columns() if isinstance(fitted, Fitted) else ()
    for remark in (*doubts(fitted.preparation, columns), *hints(fitted.preparation, table=True)):
        warnings.warn(f"{records.label}: {remark}", UserWarning, stacklevel=2)
    return fitted


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that there are, one name as a list of one."""
    names = [name for name in Settings._get_param_names() if name not in ("targets", "classify", *OF_STREAMS)]
    for name in settings:
        if name not in (*names, *OF_STREAMS):
            raise TypeError(f"fit_file has no setting {name!r}: there are {', '.join(names)}")
    lists = {name: _listed(settings[name]) for name in ("features", "time", "ignore") if settings.get(name) is not None}
    return {**settings, **lists}
