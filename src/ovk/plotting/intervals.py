"""Coverage and width of intervals, along a stream or over the rows of a test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ovk.base import Array, check_int
from ovk.evaluation import IntervalResult, ProgressiveResult
from ovk.intervals import Regions
from ovk.plotting.display import LINES, Display, own_names, shortened, time_axis

#: Most outputs with lines of their own; of more, the mean is shown with the range of all.
MAX_LINES = 5
#: Rows between the checkpoints that are used when nothing else was kept.
MIN_ROWS = 50


class IntervalDisplay(Display):
    """How often intervals held the output, and how wide they were, over a moving window of rows.

    Widths of several outputs are divided by the median width of each, since their units may differ; the legend gives
    the medians. The intervals themselves are drawn by `RecentDisplay.from_result`.

    Parameters
    ----------
    rows : (points,) rows read
    coverage : (points, k) share of covered outputs around there
    width : (points, d) mean width around there
    target : the coverage that was asked for
    names : of the outputs, d of them
    title : what stands above the legend
    times : (points,) when the rows were, dates or numbers; None shows numbers of rows

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.plotting import IntervalDisplay
    >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> result = progressive(OLOK(), X, X @ [1.0, 2.0], intervals=0.9)
    >>> display = IntervalDisplay.from_result(result, window=100, plot=False)
    >>> display.coverage.shape, display.target
    ((901, 1), 0.9)
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
        """The intervals of a progressive evaluation, along the times of the rows if `progressive` was given them.

        Parameters
        ----------
        result : what ``progressive(..., intervals=...)`` returned
        window : rows to average over; default a fiftieth of all, at least 100. Without kept predictions the averages
            are over the rows between checkpoints instead
        axes : two matplotlib axes, for coverage and width of all outputs, optional
        """
        found = result.intervals
        if found is None:
            raise ValueError("the result has no intervals: run progressive with intervals=, such as intervals=0.9")
        if len(found.rows) == 0:
            raise ValueError("the result holds no intervals, since its stream had no rows: there is nothing to draw")
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
        """The intervals of a batch regressor at new rows X whose outputs Y are known, in the order of the rows.

        Parameters
        ----------
        estimator : fitted, with `predict_interval`
        X, Y : (n, p) inputs and (n, d) or (n,) outputs that were not learned from
        level, method, region, groups : as in `OVKRidge.predict_interval`
        window : rows to average over; default a fiftieth of all, at least 100
        names : of the outputs, by default those that the estimator learned
        axes : as in `from_result`
        """
        found = estimator.predict_interval(X, level, method=method, region=region, groups=groups)
        rows, coverage, width = _moving(replace(found, covered=found.contains(Y)), window)
        labels = own_names(estimator, names) or [f"output {q}" for q in range(width.shape[1])]
        return cls(rows, coverage, width, level, labels, _title(level, method, region))._drawn(axes, plot)

    def plot(self, ax: Any = None) -> Self:
        """Draw on new axes: the coverage of each output in a panel of its own, and the widths; or on two axes given."""
        own = ax is None
        k = self.coverage.shape[1]
        apart = own and 1 < k <= MAX_LINES
        axes = self._panels(ax, k + 1 if apart else 2, 1, (0.0, 0.4), (7.0, 1.7 if apart else 2.3), sharex=True)
        *tops, bottom = axes
        asked = {"color": "0.35", "linewidth": 1.2, "linestyle": (0, (1, 1))}
        known = [column[np.isfinite(column)] for column in self.width.T]
        medians = np.array([np.median(column) if len(column) else np.nan for column in known])
        relative = len(medians) > 1
        written = [f"{size:,.0f}" if size >= 1000 else f"{size:.3g}" for size in medians]
        names = [f"{name} (median width {size})" for name, size in zip(self.names, written, strict=True)]
        low = float(np.nanmin(self.coverage, initial=self.target))
        for q, top in enumerate(tops):
            top.axhline(self.target, **asked, label=f"asked for: {self.target:g}")
            self._lines(top, self.coverage, names, only=q if apart else None)
            top.set_ylim(max(0.0, min(low, 2 * self.target - 1) - 0.02), 1.02)
            top.set_ylabel(f"coverage of\n{shortened(self.names[q], 18)}" if apart else "coverage")
        self._lines(bottom, self.width / np.where(medians > 0, medians, 1.0) if relative else self.width, names)
        # Widths that hardly change would otherwise lie on the upper edge.
        bottom.set_ylim(0.0, 1.05 * bottom.dataLim.y1 if bottom.dataLim.y1 > 0 else None)
        bottom.set_ylabel("width over\nits median" if relative else "width")
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
        """(points,) what is on the horizontal axis."""
        return self.rows if self.times is None else self.times

    def _lines(self, panel: Any, curves: Array, names: Sequence[str], only: int | None = None) -> None:
        k = curves.shape[1]
        if k > MAX_LINES:
            # The first rows have no widths at all.
            known = np.isfinite(curves).any(axis=1)
            rows, curves = self._along[known], curves[known]
            low, high = np.nanmin(curves, axis=1), np.nanmax(curves, axis=1)
            panel.fill_between(rows, low, high, color="0.8", linewidth=0, label=f"range of {k} outputs")
            panel.plot(rows, np.nanmean(curves, axis=1), **LINES[0], label="mean")
            return
        joint = k == 1 and len(names) > 1
        for q in range(k) if only is None else [only]:
            label = "all outputs at once" if joint else names[q]
            style = {**LINES[q], "linewidth": 1.5 if k == 1 or only is not None else 1.0}
            panel.plot(self._along, curves[:, q], **{**style, **({"color": "0.3"} if joint else {})}, label=label)


def _title(level: float, method: str, region: str) -> str:
    return f"{level:.0%} intervals ({method}{'' if region == 'each' else f', {region} of all outputs'})"


def _moving(regions: Regions, window: int | None) -> tuple[Array, Array, Array]:
    """Rows read, coverage and width over a moving window of them."""
    n = len(regions)
    size = min(n, max(100, n // 50)) if window is None else check_int(window, "window")
    if size > n:
        raise ValueError(f"window must be at most the number of rows, {n:,}, got {size:,}")
    width = np.asarray(regions.width)
    width = np.where(np.isfinite(width), width, np.nan)
    return np.arange(size, n + 1, dtype=np.float64), _moving_mean(regions.covered, size), _moving_mean(width, size)


def _moving_mean(values: Array, size: int) -> Array:
    """(n - size + 1, k) means over `size` rows, nan left out."""
    seen = np.isfinite(values)
    sums, counts = (np.cumsum(A, axis=0, dtype=np.float64) for A in (np.where(seen, values, 0.0), seen))

    def windows(A: Array) -> Array:
        return np.concatenate([A[size - 1 : size], A[size:] - A[:-size]])

    total, count = windows(sums), windows(counts)
    result: Array = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return result


def _between_checkpoints(found: IntervalResult) -> tuple[Array, Array, Array]:
    chosen, last = [], 0
    for i, row in enumerate(found.rows):
        # Fewer rows than these say little about a share.
        if row - last >= MIN_ROWS or i == len(found.rows) - 1:
            chosen.append(i)
            last = int(row)

    def share(sums: Array, counts: Array) -> Array:
        more, of = (np.diff(A[chosen], axis=0, prepend=0.0) for A in (sums, counts))
        result: Array = np.divide(more, of, out=np.full(more.shape, np.nan), where=of > 0)
        return result

    rows = found.rows[chosen].astype(np.float64)
    return rows, share(found.covered, found.tested), share(found.widths, found.bounded)
