"""What a progressive evaluation found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ovk._validation import Array
from ovk.evaluation.conformal import IntervalResult
from ovk.evaluation.curves import LearnerErrors

#: Outputs shown in a table; of more, only the first and the last ones.
SHOWN = 12


@dataclass(frozen=True)
class ProgressiveResult:
    """Errors of predictions that were all made before their own outputs were seen, in the units of the outputs.

    Attributes
    ----------
    model : `LearnerErrors` of the model: its name, `mse_curve` and `mae_curve` (checkpoints, d), `mse` and `mae` (d,),
        `seconds`
    baselines : the same for each baseline, over the same rows
    rows : (checkpoints,) rows read when the curves were noted; the last one is all of them
    counts : (checkpoints, d) predictions of each output tested by then
    predictions : (n, d), or (n,) if y was one-dimensional; nan in the warm-up and in skipped rows; None if not kept
    inputs, targets : (n, p) and, in the shape of the predictions, all rows read; None if not kept
    features, outputs : names
    n_rows : rows read
    warm_up : how many of these came first and were learned but not tested
    n_skipped : rows not learned: invalid ones, and for estimators that refuse them those with a missing output
    support_rows, support_sizes : number of support points after so many rows, at the end of each chunk in which a
        checkpoint fell; None for models without `support_`
    intervals : `IntervalResult` with coverage and widths, None if no intervals were asked for

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.evaluation import progressive
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> result = progressive(OLOK(alpha=0.0), X, np.sin(5 * X), baselines=["mean"])
    >>> result.predictions.shape, result.mse.shape, int(result.rows[-1])
    ((300, 1), (1,), 300)
    >>> bool(result.mse < result.baselines[0].mse)
    True
    """

    model: LearnerErrors
    baselines: tuple[LearnerErrors, ...]
    rows: npt.NDArray[np.int64]
    counts: Array
    predictions: Array | None
    inputs: Array | None
    targets: Array | None
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    n_rows: int
    warm_up: int
    n_skipped: int
    support_rows: npt.NDArray[np.int64] | None
    support_sizes: npt.NDArray[np.int64] | None
    intervals: IntervalResult | None = None

    @property
    def mse(self) -> Array:
        """(d,) mean squared error of the model."""
        return self.model.mse

    @property
    def mae(self) -> Array:
        """(d,) mean absolute error of the model."""
        return self.model.mae

    @property
    def seconds(self) -> float:
        """Time that the model took to predict and learn; reading, scaling and baselines not counted."""
        return self.model.seconds

    @property
    def rows_per_second(self) -> float:
        """Rows that the model predicted and learned in a second."""
        return self.n_rows / self.seconds if self.seconds > 0 else float("nan")

    def summary(self) -> str:
        """The errors of model and baselines as a table to print."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        tested = self.n_rows - self.warm_up
        yield f"{tested:,} rows predicted, then learned, in {self.seconds:.2f} s ({self.rows_per_second:,.0f} a second)"
        if self.warm_up:
            yield f"{self.warm_up:,} rows before them learned as a warm-up"
        if self.n_skipped:
            yield f"{self.n_skipped:,} rows not learned"
        if self.support_sizes is not None and len(self.support_sizes):
            yield f"{int(self.support_sizes[-1]):,} support points"
        learners = (self.model, *self.baselines)
        for title, errors in (
            ("mean squared error", [learner.mse for learner in learners]),
            ("mean absolute error", [learner.mae for learner in learners]),
        ):
            yield ""
            yield from _table(title, [learner.name for learner in learners], self.outputs, np.array(errors))
        if self.intervals is not None:
            yield ""
            yield from self._interval_lines(self.intervals)

    def _interval_lines(self, found: IntervalResult) -> Iterator[str]:
        joint = "" if found.region == "each" else f" ({found.region} of all outputs: {found.coverage[0]:.1%} covered)"
        yield f"{found.target:.0%} intervals by {found.name}{joint}"
        if found.n_unbounded:
            yield f"{found.n_unbounded:,} rows without bounds"
        columns = {"mean width": found.width} if joint else {"coverage": found.coverage, "mean width": found.width}
        yield from _table("intervals", list(columns), self.outputs, np.array(list(columns.values())))


def _table(title: str, names: list[str], outputs: tuple[str, ...], errors: Array) -> Iterator[str]:
    """A line for each output and one for their mean, a column for each learner."""
    first = max(len(name) for name in (*outputs, "mean absolute error"))
    widths = [max(len(name), 9) for name in names]

    def line(head: str, cells: list[str]) -> str:
        return "  ".join([head.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))])

    yield line(title, names)
    yield line("-" * first, ["-" * width for width in widths])
    d = len(outputs)
    for q, output in enumerate(outputs):
        if d <= SHOWN or q < SHOWN - 2 or q == d - 1:
            yield line(output, [_number(value) for value in errors[:, q]])
        elif q == SHOWN - 2:
            yield f"... {d - SHOWN + 1} more outputs"
    if d > 1:
        seen = ~np.isnan(errors).all(axis=0)
        yield line("all outputs", [_number(row[seen].mean()) if seen.any() else "-" for row in errors])


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4g}"
