"""The last rows of a stream: predictions and outcomes, their errors, and the coverage of the intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ovk.base import Array, as_dates, check_int, unnamed
from ovk.evaluation import LEVEL, ProgressiveResult, RecentErrors, stretch
from ovk.plotting.display import BLUE, LINES, SKY, Display, draw_band, shortened, time_axis

#: Rows that are drawn.
ROWS = 150


class RecentDisplay(Display):
    """Outcomes of the last rows, or of any others, as dots, predictions as a line, their intervals as a band.

    Parameters
    ----------
    outcomes, predictions : (m,)
    half : (m,) half widths of the intervals, each made before its outcome was seen
    name : of the output
    level : coverage of the intervals
    times : (m,) when the rows were, dates or numbers; None shows `positions`
    positions : (m,) numbers of the rows; by default rows before the end
    middle : (m,) middles of the intervals, where these are not the predictions, as with bounds; default None

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RecentErrors
    >>> from ovk.plotting import RecentDisplay
    >>> recent = RecentErrors.empty(1)
    >>> _ = recent.update(np.zeros((300, 1)), np.ones((300, 1)))
    >>> display = RecentDisplay.from_recent(recent, 0, plot=False)
    >>> len(display.outcomes), float(display.half[-1])
    (150, 1.0)
    """

    outcomes: Array
    predictions: Array
    half: Array
    name: str
    level: float = LEVEL
    times: Any = None
    positions: Any = None
    middle: Array | None = None

    @classmethod
    def from_result(
        cls,
        result: ProgressiveResult,
        output: int | str = 0,
        *,
        rows: int | slice = ROWS,
        Y: Any = None,
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """One output of some rows of a stream, with the intervals around its predictions.

        If `progressive` was given the times of the rows (`time`), these are on the axis.

        Parameters
        ----------
        result : what ``progressive(..., intervals=0.9, keep="all")`` returned
        output : its number or its name
        rows : how many of the last rows; or a slice of the rows, such as ``slice(3000, 3500)``, whose ends may be dates
            if `progressive` was given `time`: ``slice("2007-01-01", "2007-01-07")``
        Y : (n, d) or (n,) the outputs of the stream, where `result` did not keep them
        """
        found = result.intervals
        if found is None or found.regions is None:
            raise ValueError("the result holds no intervals: run progressive with intervals=0.9 and keep='all'")
        if Y is None and result.targets is None:
            raise ValueError("the result did not keep the outputs: run progressive with keep='all', or pass them as Y")
        q = result.outputs.index(output) if isinstance(output, str) and output in result.outputs else output
        if not isinstance(q, int) or not -len(result.outputs) <= q < len(result.outputs):
            raise ValueError(f"output must be a name or a number of {', '.join(result.outputs)}, got {output!r}")
        outcomes = np.asarray(result.targets if Y is None else unnamed(Y), dtype=np.float64)
        outcomes = outcomes.reshape(found.regions.predictions.shape)
        where = stretch(rows, len(outcomes), result.times)
        regions = found.regions
        y, f, low, high = (A[where, q] for A in (outcomes, regions.predictions, regions.lower, regions.upper))
        with np.errstate(invalid="ignore"):
            half, middle = (high - low) / 2.0, (high + low) / 2.0
        times = None if result.times is None else result.times[where]
        positions = result.start + np.arange(len(outcomes))[where] if isinstance(rows, slice) else None
        return cls(y, f, half, result.outputs[q], found.target, times, positions, middle)._drawn(ax, plot)

    @classmethod
    def from_recent(
        cls,
        recent: RecentErrors,
        output: int,
        *,
        name: str | None = None,
        rows: int = ROWS,
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """One output of the last `rows` rows, with the intervals that are kept with them."""
        rows = check_int(rows, "rows")
        Y, F, half = (A[-rows:, output] for A in (recent.Y, recent.F, recent.half))
        times = None if recent.instants is None else as_dates(recent.instants[-rows:])
        times = None if times is None or np.isnat(times).any() else times
        return cls(Y, F, half, name or f"y{output}", recent.level, times)._drawn(ax, plot)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (4.6, 3.0))
        numbers = np.arange(-len(self.outcomes), 0) + 1 if self.positions is None else self.positions
        t: Any = numbers if self.times is None else self.times
        time_axis(ax, self.times, "rows before the end" if self.positions is None else "row")
        half = np.where(np.isfinite(self.half), self.half, np.nan)
        middle = self.predictions if self.middle is None else self.middle
        draw_band(ax, t, np.where(np.isfinite(half), middle, np.nan), half, f"{100 * self.level:g}% interval")
        ax.plot(t, self.predictions, color=BLUE, linewidth=1.5, label="prediction")
        ax.plot(t, self.outcomes, "k.", markersize=3.5, label="outcome")
        ax.set_title(shortened(self.name, 44), fontsize=10)
        ax.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.22), frameon=False)
        return self


class ObservedDisplay(Display):
    """Outcomes of rows that were not learned against their predictions: on the diagonal both agree.

    Parameters
    ----------
    outcomes, predictions : (m,)
    half : half width of the interval around a prediction, infinite where it is not known
    name : of the output
    level : coverage of the interval

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RecentErrors
    >>> from ovk.plotting import ObservedDisplay
    >>> recent = RecentErrors.empty(1)
    >>> _ = recent.update(np.zeros((300, 1)), np.ones((300, 1)))
    >>> display = ObservedDisplay.from_recent(recent, 0, plot=False)
    >>> len(display.outcomes), display.half
    (300, 1.0)
    """

    outcomes: Array
    predictions: Array
    half: float
    name: str
    level: float = LEVEL

    @classmethod
    def from_recent(
        cls, recent: RecentErrors, output: int, *, name: str | None = None, ax: Any = None, plot: bool = True
    ) -> Self:
        """One output of all rows that are remembered, with the interval that new rows get."""
        half = float(recent.widths(recent.level)[output])
        return cls(recent.Y[:, output], recent.F[:, output], half, name or f"y{output}", recent.level)._drawn(ax, plot)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (4.6, 3.4))
        known = np.isfinite(self.outcomes) & np.isfinite(self.predictions)
        y, f = self.outcomes[known], self.predictions[known]
        if len(y):
            ends = np.array([min(y.min(), f.min()), max(y.max(), f.max())])
            if np.isfinite(self.half):
                draw_band(ax, ends, ends, np.full(2, self.half), f"{self.level:.0%} interval")
            ax.plot(ends, ends, color="0.5", linewidth=1, zorder=0)
        ax.plot(f, y, ".", color=BLUE, markersize=4, label="row")
        ax.set_title(shortened(self.name, 44), fontsize=10)
        ax.locator_params(axis="x", nbins=5)
        ax.set_xlabel("prediction")
        ax.set_ylabel("outcome")
        ax.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False)
        return self


#: Most outputs whose coverage is drawn, one with each marker.
MARKERS = "osD^vP*X"


class CalibrationDisplay(Display):
    """Share of outcomes inside intervals of a level, against the level: on the diagonal both agree.

    Parameters
    ----------
    levels : (k,) levels of the intervals
    coverage : (k, d) share of outcomes inside them
    names : names of the outputs
    tested : (k, d) how many outcomes that is the share of, for bars of two standard errors; None leaves them out

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RecentErrors
    >>> from ovk.plotting import CalibrationDisplay
    >>> recent = RecentErrors.empty(2)
    >>> for _ in range(3):
    ...     _ = recent.update(np.zeros((50, 2)), np.random.default_rng(0).standard_normal((50, 2)))
    >>> CalibrationDisplay.from_recent(recent, plot=False).coverage.shape
    (4, 2)
    """

    levels: Array
    coverage: Array
    names: Sequence[str]
    tested: Array | None = None

    @classmethod
    def from_recent(
        cls, recent: RecentErrors, *, names: Sequence[str] | None = None, ax: Any = None, plot: bool = True
    ) -> Self:
        """The intervals of a stream, tested as it went."""
        d = recent.Y.shape[1]
        return cls(recent.levels, recent.coverage, names or [f"y{q}" for q in range(d)], recent.tested)._drawn(ax, plot)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (4.6, 3.8))
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=0)
        lowest = np.nanmin(self.coverage, initial=0.42)
        for q, (name, style, marker) in enumerate(zip(self.names, LINES, MARKERS, strict=False)):
            style = {**style, "linewidth": 1.2, "marker": marker, "markersize": 6}
            ax.plot(self.levels, self.coverage[:, q], **style, label=shortened(name))
            if self.tested is not None:
                error = 2 * np.sqrt(self.levels * (1 - self.levels) / np.maximum(self.tested[:, q], 1))
                # Bars of several outputs stand side by side.
                beside = self.levels + 0.006 * (q - (min(len(self.names), len(MARKERS)) - 1) / 2)
                ax.errorbar(beside, self.coverage[:, q], error, fmt="none", ecolor=style["color"], elinewidth=1)
                lowest = np.fmin(lowest, np.nanmin(self.coverage[:, q] - error, initial=lowest))
        ax.set_xlim(0.4, 1.0)
        ax.set_ylim(max(float(lowest) - 0.02, -0.02), 1.01)
        ax.set_xlabel("level of the interval")
        ax.set_ylabel("share of outcomes inside")
        ax.set_title("Coverage of the intervals")
        ax.legend(fontsize=8, loc="lower right")
        return self


class ResidualDisplay(Display):
    """Errors of the last predictions in standard deviations of the outcome: median, quartiles and tails.

    Parameters
    ----------
    residuals : a (m,) array for each output, without gaps
    names : names of the outputs

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RecentErrors
    >>> from ovk.plotting import ResidualDisplay
    >>> recent = RecentErrors.empty(1)
    >>> _ = recent.update(np.zeros((3, 1)), np.array([[1.0], [np.nan], [-1.0]]))
    >>> ResidualDisplay.from_recent(recent, plot=False).residuals
    [array([ 1., -1.])]
    """

    residuals: list[Array]
    names: Sequence[str]

    @classmethod
    def from_recent(
        cls, recent: RecentErrors, *, names: Sequence[str] | None = None, ax: Any = None, plot: bool = True
    ) -> Self:
        """The errors that a stream remembers."""
        residuals = []
        for y, f in zip(recent.Y.T, recent.F.T, strict=True):
            known = np.isfinite(y) & np.isfinite(f)
            spread = float(y[known].std()) if known.any() else 1.0
            residuals.append((y - f)[known] / (spread if spread > 0 else 1.0))
        return cls(residuals, names or [f"y{q}" for q in range(len(residuals))])._drawn(ax, plot)

    def plot(self, ax: Any = None) -> Self:
        d = min(len(self.names), 30)
        ax = self._axes(ax, (4.6, 1.6 + 0.38 * d))
        line = {"color": "black", "linewidth": 1.0}
        ax.boxplot(
            [r if len(r) else np.array([np.nan]) for r in self.residuals[:d][::-1]],
            orientation="horizontal", widths=0.6, whis=(1, 99), patch_artist=True, medianprops={**line, "linewidth": 2},
            boxprops={"facecolor": SKY, **line}, whiskerprops=line, capprops=line,
            flierprops={"marker": ".", "markersize": 2, "markeredgecolor": "0.4"},
        )  # fmt: skip
        ax.set_yticks(range(1, d + 1), [shortened(name, 22) for name in self.names[:d]][::-1], fontsize=8)
        ax.axvline(0, color="0.5", linewidth=1, zorder=0)
        ax.set_xlabel("error / standard deviation\nof the outcome")
        ax.set_title("Errors of the predictions")
        return self
