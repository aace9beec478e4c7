"""Predictions and outcomes, their errors, and the coverage and width of their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ovk.base import Array, as_dates, check_int, unnamed
from ovk.evaluation import DEFAULT_LEVEL, IntervalResult, ProgressiveResult, RecentErrors, ratio, row_slice
from ovk.intervals import Regions
from ovk.plotting.display import BLUE, SKY, STYLES, Display, draw_band, shortened, time_axis


class RecentDisplay(Display):
    """Recent rows of one output: outcomes as dots, predictions as a line, intervals as a band.

    Parameters
    ----------
    outcomes, predictions : (m,) arrays
        Values of the output.
    half : (m,) array
        Half widths of the intervals.
    name : str
        Name of the output.
    level : float
        Level of the intervals.
    times : (m,) array of dates or numbers, optional
        Times of the rows; default `positions`.
    positions : (m,) array, optional
        Indices of the rows; default rows before the end.
    middle : (m,) array, optional
        Centres of the intervals, if they differ from the predictions, as with bounds.

    See Also
    --------
    IntervalDisplay, CalibrationDisplay, ovk.evaluation.RecentErrors

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

    #: Default number of rows drawn.
    DEFAULT_ROWS = 150

    outcomes: Array
    predictions: Array
    half: Array
    name: str
    level: float = DEFAULT_LEVEL
    times: Any = None
    positions: Any = None
    middle: Array | None = None

    @classmethod
    def from_result(
        cls,
        result: ProgressiveResult,
        output: int | str = 0,
        *,
        rows: int | slice = DEFAULT_ROWS,
        Y: Any = None,
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """One output of some rows of a progressive evaluation, against their times if `progressive` had them.

        Parameters
        ----------
        result : ProgressiveResult
            The result of ``progressive(..., intervals=0.9, keep="all")``.
        output : int or str
            Index or name of the output.
        rows : int or slice
            The number of last rows; or a slice of rows, such as ``slice(3000, 3500)``, whose ends may be dates if
            `progressive` was called with `time`: ``slice("2007-01-01", "2007-01-07")``.
        Y : (n, d) or (n,) array, optional
            The outputs of the stream, if `result` did not keep them.
        ax, plot
            Axes to draw on, and whether to draw.
        """
        found = result.intervals
        if found is None or found.regions is None:
            raise ValueError("the result has no stored intervals: run progressive with intervals=0.9 and keep='all'")
        if Y is None and result.targets is None:
            raise ValueError("the result has no stored outputs: run progressive with keep='all', or pass them as Y")
        q = cls._index(result.outputs, output)
        outcomes = np.asarray(result.targets if Y is None else unnamed(Y), dtype=np.float64)
        outcomes = outcomes.reshape(found.regions.predictions.shape)
        where = row_slice(rows, len(outcomes), result.times)
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
        rows: int = DEFAULT_ROWS,
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """One output of the last `rows` rows, with their intervals."""
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


#: Maximum number of points that are drawn as a vector graphic.
MAX_VECTOR_POINTS = 5000


class ObservedDisplay(Display):
    """Outcomes (m,) against predictions (m,), with the interval of half width `half`, which may be infinite."""

    outcomes: Array
    predictions: Array
    half: float
    name: str
    level: float = DEFAULT_LEVEL

    @classmethod
    def from_recent(
        cls, recent: RecentErrors, output: int, *, name: str | None = None, ax: Any = None, plot: bool = True
    ) -> Self:
        """One output of all stored rows, with the interval of new rows."""
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
        # A page with a vector graphic of a million points cannot be opened.
        ax.plot(f, y, ".", color=BLUE, markersize=4, label="row", rasterized=len(y) > MAX_VECTOR_POINTS)
        ax.set_title(shortened(self.name, 44), fontsize=10)
        ax.locator_params(axis="x", nbins=5)
        ax.set(xlabel="prediction", ylabel="outcome")
        ax.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False)
        return self


#: Markers of the outputs; further outputs are not drawn.
MARKERS = "osD^vP*X"


class CalibrationDisplay(Display):
    """Coverage of intervals against their level; calibrated intervals lie on the diagonal.

    Parameters
    ----------
    levels : (k,) array
        Levels of the intervals.
    coverage : (k, d) array
        Share of outcomes inside the intervals of each output.
    names : sequence of str
        Names of the outputs.
    tested : (k, d) array, optional
        Number of outcomes, for error bars of two standard errors.

    See Also
    --------
    ResidualDisplay, RecentDisplay, ovk.evaluation.RecentErrors

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RecentErrors
    >>> from ovk.plotting import CalibrationDisplay
    >>> recent = RecentErrors.empty(1)
    >>> _ = recent.update(np.zeros((2000, 1)), np.random.default_rng(0).standard_normal((2000, 1)))
    >>> display = CalibrationDisplay.from_recent(recent, plot=False)
    >>> display.levels, display.coverage[:, 0].round(1)
    (array([0.5 , 0.8 , 0.9 , 0.95]), array([0.5, 0.8, 0.9, 0.9]))
    """

    levels: Array
    coverage: Array
    names: Sequence[str]
    tested: Array | None = None

    @classmethod
    def from_recent(
        cls, recent: RecentErrors, *, names: Sequence[str] | None = None, ax: Any = None, plot: bool = True
    ) -> Self:
        """The coverage of the intervals of a stream."""
        d = recent.Y.shape[1]
        return cls(recent.levels, recent.coverage, names or [f"y{q}" for q in range(d)], recent.tested)._drawn(ax, plot)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (4.6, 3.8))
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=0)
        lowest = np.nanmin(self.coverage, initial=0.42)
        for q, (name, style, marker) in enumerate(zip(self.names, STYLES, MARKERS, strict=False)):
            style = {**style, "linewidth": 1.2, "marker": marker, "markersize": 6}
            ax.plot(self.levels, self.coverage[:, q], **style, label=shortened(name))
            if self.tested is not None:
                error = 2 * np.sqrt(self.levels * (1 - self.levels) / np.maximum(self.tested[:, q], 1))
                # Separate the error bars of several outputs.
                shifted = self.levels + 0.006 * (q - (min(len(self.names), len(MARKERS)) - 1) / 2)
                ax.errorbar(shifted, self.coverage[:, q], error, fmt="none", ecolor=style["color"], elinewidth=1)
                lowest = np.fmin(lowest, np.nanmin(self.coverage[:, q] - error, initial=lowest))
        ax.set(xlim=(0.4, 1.0), ylim=(max(float(lowest) - 0.02, -0.02), 1.01), title="Coverage of the intervals")
        ax.set(xlabel="level of the interval", ylabel="share of outcomes inside")
        ax.legend(fontsize=8, loc="lower right")
        return self


class ResidualDisplay(Display):
    """Box plots of recent errors, in standard deviations of the outcomes.

    Parameters
    ----------
    residuals : list of arrays (m,)
        Errors of each output, without missing values.
    names : sequence of str
        Names of the outputs.

    See Also
    --------
    CalibrationDisplay, RecentDisplay, ovk.evaluation.RecentErrors

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
        """The stored errors of a stream."""
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
        ax.set(xlabel="error / standard deviation\nof the outcome", title="Errors of the predictions")
        return self


#: Maximum number of outputs drawn as separate lines; more are drawn as their mean and range.
MAX_LINES = 5
#: Minimum number of rows between checkpoints for a mean.
MIN_ROWS_PER_MEAN = 50


class IntervalDisplay(Display):
    """Coverage and width of intervals over a moving window of rows.

    Widths of several outputs are divided by their medians, which the legend gives. `RecentDisplay.from_result` draws
    the intervals.

    Parameters
    ----------
    rows : (points,) array
        Number of rows.
    coverage : (points, k) array
        Share of covered outputs in the window; k = d, or 1 for joint regions.
    width : (points, d) array
        Mean width in the window.
    target : float
        The required coverage.
    names : sequence of str
        Names of the d outputs.
    title : str
        Title of the legend.
    times : (points,) array of dates or numbers, optional
        Times of the rows; default their numbers.

    See Also
    --------
    RecentDisplay, ovk.progressive, ovk.evaluation.IntervalResult

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.plotting import IntervalDisplay
    >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> result = progressive(OLOK(), X, X @ [1.0, 2.0], intervals=0.9)
    >>> display = IntervalDisplay.from_result(result, window=100, plot=False)
    >>> display.rows[-3:], display.coverage[-3:, 0].round(1)
    (array([ 998.,  999., 1000.]), array([0.9, 0.9, 0.9]))
    """

    rows: Array
    coverage: Array
    width: Array
    target: float
    names: Sequence[str]
    title: str = ""
    times: Any = None

    @classmethod
    def from_result(
        cls, result: ProgressiveResult, *, window: int | None = None, axes: Any = None, plot: bool = True
    ) -> Self:
        """The intervals of a progressive evaluation, against the times of the rows if `progressive` had them.

        Parameters
        ----------
        result : ProgressiveResult
            The result of ``progressive(..., intervals=...)``.
        window : int, optional
            Number of rows to average over; default a fiftieth of all, at least 100. If predictions were not kept, the
            averages are over the rows between checkpoints.
        axes : sequence of two matplotlib axes, optional
            Axes for the coverage and width of all outputs.
        plot : bool
            Whether to draw.
        """
        found = result.intervals
        if found is None:
            raise ValueError("the result has no intervals: run progressive with intervals=0.9, for example")
        if len(found.rows) == 0:
            raise ValueError("the result has no rows to draw")
        if found.regions is None:
            rows, coverage, width = _between_checkpoints(found)
        else:
            rows, coverage, width = _moving(found.regions, window)
        title = _title(found.target, found.name, found.region)
        times = None if result.times is None else result.times[rows.astype(np.int64) - 1]
        return cls(rows + result.start, coverage, width, found.target, result.outputs, title, times)._drawn(axes, plot)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        Y: Any,
        level: float = 0.9,
        *,
        method: str = "jackknife",
        region: str = "each",
        groups: Any = None,
        window: int | None = None,
        names: Sequence[str] | None = None,
        axes: Any = None,
        plot: bool = True,
    ) -> Self:
        """The intervals of a batch regressor on test rows, in their order.

        Parameters
        ----------
        estimator : estimator with `predict_interval`
            The fitted regressor.
        X, Y : (n, p) and (n, d) or (n,) arrays
            Inputs and outputs of the test rows.
        level, method, region, groups
            As in `OVKRidge.predict_interval`.
        window : int, optional
            Number of rows to average over; default a fiftieth of all, at least 100.
        names : sequence of str, optional
            Names of the outputs; default those of the estimator.
        axes, plot
            As in `from_result`.
        """
        found = estimator.predict_interval(X, level, method=method, region=region, groups=groups)
        rows, coverage, width = _moving(replace(found, covered=found.contains(Y)), window)
        labels = cls._names_of(estimator, names) or [f"output {q}" for q in range(width.shape[1])]
        return cls(rows, coverage, width, level, labels, _title(level, method, region))._drawn(axes, plot)

    def plot(self, ax: Any = None) -> Self:
        """Draw a panel for the coverage of each output and one for the widths on a new figure, or on two given axes."""
        own = ax is None
        k = self.coverage.shape[1]
        separate = own and 1 < k <= MAX_LINES
        axes = self._panels(ax, k + 1 if separate else 2, 1, (0.0, 0.4), (7.0, 1.7 if separate else 2.3), sharex=True)
        *tops, bottom = axes
        target = {"color": "0.35", "linewidth": 1.2, "linestyle": (0, (1, 1))}
        known = [column[np.isfinite(column)] for column in self.width.T]
        medians = np.array([np.median(column) if len(column) else np.nan for column in known])
        relative = len(medians) > 1
        written = [f"{size:,.0f}" if size >= 1000 else f"{size:.3g}" for size in medians]
        names = [f"{name} (median width {size})" for name, size in zip(self.names, written, strict=True)]
        low = float(np.nanmin(self.coverage, initial=self.target))
        for q, top in enumerate(tops):
            top.axhline(self.target, **target, label=f"target: {self.target:g}")
            self._lines(top, self.coverage, names, only=q if separate else None)
            top.set_ylim(max(0.0, min(low, 2 * self.target - 1) - 0.02), 1.02)
            top.set_ylabel(f"coverage of\n{shortened(self.names[q], 18)}" if separate else "coverage")
        self._lines(bottom, self.width / np.where(medians > 0, medians, 1.0) if relative else self.width, names)
        # Keep nearly constant widths off the upper edge.
        bottom.set_ylim(0.0, 1.05 * bottom.dataLim.y1 if bottom.dataLim.y1 > 0 else None)
        bottom.set_ylabel("width /\nmedian width" if relative else "width")
        for panel in axes:
            if self.times is None or self.times.dtype.kind != "M":
                panel.xaxis.set_major_formatter("{x:,.0f}")
            time_axis(panel, self.times, "rows")
            panel.grid(True, color="0.9", linewidth=0.6)
        for top in tops:
            top.set_xlabel("")
        style = {"title": self.title, "title_fontsize": 9, "handlelength": 3.0}
        self._legend(above=own, **style, **({"ncols": 3} if own else {}))
        return self

    @property
    def _along(self) -> Any:
        """(points,) values on the horizontal axis."""
        return self.rows if self.times is None else self.times

    def _lines(self, panel: Any, curves: Array, names: Sequence[str], only: int | None = None) -> None:
        k = curves.shape[1]
        if k > MAX_LINES:
            # The first rows have no finite widths.
            known = np.isfinite(curves).any(axis=1)
            rows, curves = self._along[known], curves[known]
            low, high = np.nanmin(curves, axis=1), np.nanmax(curves, axis=1)
            panel.fill_between(rows, low, high, color="0.8", linewidth=0, label=f"range of {k} outputs")
            panel.plot(rows, np.nanmean(curves, axis=1), **STYLES[0], label="mean")
            return
        joint = k == 1 and len(names) > 1
        for q in range(k) if only is None else [only]:
            label = "all outputs" if joint else names[q]
            style = {**STYLES[q], "linewidth": 1.5 if k == 1 or only is not None else 1.0}
            panel.plot(self._along, curves[:, q], **{**style, **({"color": "0.3"} if joint else {})}, label=label)


def _title(level: float, method: str, region: str) -> str:
    return f"{level:.0%} intervals ({method}{'' if region == 'each' else f', {region} of all outputs'})"


def _moving(regions: Regions, window: int | None) -> tuple[Array, Array, Array]:
    """Number of rows, coverage and width over a moving window."""
    n = len(regions)
    size = min(n, max(100, n // 50)) if window is None else check_int(window, "window")
    if size > n:
        raise ValueError(f"window must be at most the number of rows, {n:,}, got {size:,}")
    width = np.asarray(regions.width)
    width = np.where(np.isfinite(width), width, np.nan)
    return np.arange(size, n + 1, dtype=np.float64), _moving_mean(regions.covered, size), _moving_mean(width, size)


def _moving_mean(values: Array, size: int) -> Array:
    """(n - size + 1, k) means over `size` rows, ignoring nan."""

    def sums(A: Array) -> Array:
        total = np.cumsum(np.vstack([np.zeros((1, A.shape[1])), A]), axis=0)
        return np.asarray(total[size:] - total[:-size])

    seen = np.isfinite(values)
    return ratio(sums(np.where(seen, values, 0.0)), sums(seen))


def _between_checkpoints(found: IntervalResult) -> tuple[Array, Array, Array]:
    chosen, last = [], 0
    for i, row in enumerate(found.rows):
        # Shares of fewer rows are unreliable.
        if row - last >= MIN_ROWS_PER_MEAN or i == len(found.rows) - 1:
            chosen.append(i)
            last = int(row)

    def share(sums: Array, counts: Array) -> Array:
        return ratio(*(np.diff(A[chosen], axis=0, prepend=0.0) for A in (sums, counts)))

    rows = found.rows[chosen].astype(np.float64)
    return rows, share(found.covered, found.tested), share(found.widths, found.bounded)
