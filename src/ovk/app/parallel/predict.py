"""Predictions in parts, and how good they are."""

from __future__ import annotations

import io
import os
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ovk.app.parallel.engines import Pass, as_engine
from ovk.app.parallel.parts import CHUNK, Part, as_parts
from ovk.base import Array
from ovk.evaluation import RunningMoments
from ovk.persistence import replacing

#: How predictions can be written.
FORMS = ("csv", "npy", "parquet")


def predict(
    model: Any,
    parts: Any,
    out: str | os.PathLike[str],
    client: Any = None,
    *,
    targets: Any = None,
    features: Any = None,
    names: Any = None,
    form: str = "csv",
    n_jobs: int | None = None,
    chunk_size: int = CHUNK,
) -> list[Path]:
    """Predict parts of the data, each into a file of its own.

    A file appears whole or not at all, so that a part that is predicted twice, because a worker died, does no harm.

    Parameters
    ----------
    model : fitted estimator with vectors as outputs
    parts, client, features, n_jobs, chunk_size : as in `fit`; parts may give tuples (X,)
    out : folder for the files part-000000.csv, part-000001.csv, ...; the workers must reach it
    targets : columns of files that are outputs, and no inputs
    names : names of the outputs for the first line; default y0, y1, ... or `targets`
    form : "csv", "parquet" or "npy" (an array)

    Returns
    -------
    The paths of the files, in the order of the parts

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.app.parallel import predict
    >>> model = OVKRidge().fit([[0.0], [1.0]], [[1.0], [2.0]])
    >>> def rows():
    ...     return (np.array([[0.0], [1.0], [2.0]]),)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path] = predict(model, [rows], folder, form="npy")
    ...     print(path.name, np.load(path).shape)
    part-000000.npy (3, 1)
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    engine = as_engine(client, n_jobs)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    given = [targets] if isinstance(targets, str) else targets
    listed = as_parts(parts, targets, features, chunk_size)
    paths = [(folder / f"part-{i:06d}.{form}").absolute() for i in range(len(listed))]
    work = partial(predict_part, names=list(names or given or []), form=form)
    if not all(isinstance(part, Part) for part in listed):
        raise TypeError("futures cannot be predicted in parts: give functions or files")
    numbered = [_Numbered(part, str(path)) for part, path in zip(listed, paths, strict=True)]
    list(engine.map(work, numbered, engine.share(model), label="predicting"))
    return paths


class _Numbered(Part):
    """A part and the file that its predictions go to."""

    def __init__(self, part: Part, path: str) -> None:
        self.part, self.path, self.label = part, path, part.label

    def chunks(self) -> Any:
        return self.part.chunks()


def predict_part(part: _Numbered, model: Any, *, names: list[str], form: str) -> int:
    """Write the predictions of a part; returns their number."""
    found = [np.asarray(model.predict(chunk[0])) for chunk in part.chunks()]
    F = np.concatenate(found) if found else np.empty((0, len(names)))
    table = F.reshape(len(F), -1)
    header = names or [f"y{q}" for q in range(table.shape[1])]
    with replacing(part.path) as file:
        if form == "npy":
            np.save(file, F)
        elif form == "parquet":
            import pyarrow
            from pyarrow import parquet

            parquet.write_table(pyarrow.table({name: table[:, q] for q, name in enumerate(header)}), file)
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            np.savetxt(text, table, delimiter=",", fmt="%.9g", header=",".join(header), comments="")
            text.flush()
            text.detach()
    return len(F)


class Fits(NamedTuple):
    """(d,) sums of squared errors over observed outputs, and the moments of these outputs."""

    squares: Array
    moments: RunningMoments

    @staticmethod
    def merged(one: Fits, two: Fits) -> Fits:
        """Of the rows of both."""
        moments = RunningMoments(one.moments.width)
        moments.merge(one.moments)
        moments.merge(two.moments)
        return Fits(one.squares + two.squares, moments)


def score(
    model: Any,
    parts: Any,
    client: Any = None,
    *,
    targets: Any = None,
    features: Any = None,
    n_jobs: int | None = None,
    chunk_size: int = CHUNK,
) -> float:
    """Coefficient of determination R^2 over the observed outputs of all parts, averaged over outputs.

    Parameters
    ----------
    model : fitted estimator with vectors as outputs
    parts, client, targets, features, n_jobs, chunk_size : as in `fit`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.app.parallel import score
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = OVKRidge(alpha=0.001).fit(X, np.sin(X))
    >>> halves = [lambda: (X[::2], np.sin(X[::2])), lambda: (X[1::2], np.sin(X[1::2]))]
    >>> bool(score(model, halves) > 0.999)
    True
    """
    engine = as_engine(client, n_jobs)
    listed = as_parts(parts, targets, features, chunk_size)
    total = Pass(score_part, Fits.merged, "scoring").run(engine, listed, engine.share(model))
    spread = total.moments.squares
    if not (total.moments.count > 0).any():
        raise ValueError("no output was observed in any part: there is nothing to compare predictions with")
    known = total.moments.count > 0
    # An output that never varies is explained by any prediction that is right, and by no other.
    constant = np.where(total.squares == 0, 1.0, 0.0)
    each = np.where(spread > 0, 1.0 - total.squares / np.where(spread > 0, spread, 1.0), constant)
    return float(each[known].mean())


def score_part(part: Part, model: Any) -> Fits:
    """The errors of a part."""
    found: Fits | None = None
    for chunk in part.chunks():
        F = np.asarray(model.predict(chunk[0]))
        F = F.reshape(len(F), -1)
        Y = np.asarray(chunk[1], dtype=np.float64).reshape(F.shape)
        moments = RunningMoments(F.shape[1])
        moments.add(Y)
        here = Fits(np.nansum((Y - F) ** 2, axis=0), moments)
        found = here if found is None else Fits.merged(found, here)
    if found is None:
        raise ValueError("it holds no rows")
    return found
