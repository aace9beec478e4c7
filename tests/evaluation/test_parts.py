"""Errors and intervals on a part of a stream, dates of its rows, and the text about its outputs."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ovk import OLOK, AutoStream, progressive
from ovk.app.report import report
from ovk.app.report.writer import drift_section
from ovk.evaluation import ACI, ProgressiveResult, RefittedRidge
from ovk.evaluation.task import RunningSum
from ovk.plotting import IntervalDisplay, RecentDisplay

DAYS = np.datetime64("2024-01-01") + np.arange(400) * np.timedelta64(1, "h")


def stream(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.column_stack([X[:, 0], 100 * X[:, 1] ** 2]) + 0.1 * rng.standard_normal((n, 2))


def evaluated(**options):
    X, Y = stream()
    Y[50:60, 0] = np.nan
    X[70, 0], X[80, 1] = (np.inf, np.nan) if not options.get("delay") else (0.0, 0.0)
    model = OLOK(on_invalid="skip")
    return progressive(model, X, Y, intervals=0.8, keep="all", progress=False, **options), X, Y


@pytest.mark.parametrize("delay", [0, 4])
def test_the_part_of_all_rows_is_the_result(delay):
    result, *_ = evaluated(delay=delay)
    part = result.part(slice(None))
    for one, two in zip((part.model, *part.baselines), (result.model, *result.baselines), strict=True):
        assert one.name == two.name
        assert_allclose(one.mse, two.mse, rtol=1e-12)
        assert_allclose(one.mae, two.mae, rtol=1e-12)
    assert (part.n_rows, part.untested, part.n_skipped) == (result.n_rows, result.untested, result.n_skipped)
    assert_array_equal(part.counts[-1], result.counts[-1])
    for name in ("coverage", "width", "n_unbounded"):
        assert_allclose(getattr(part.intervals, name), getattr(result.intervals, name), rtol=1e-12)


@pytest.mark.parametrize("region", ["each", "ellipsoid"])
def test_errors_of_a_part_are_those_of_its_rows(region):
    X, Y = stream()
    result = progressive(OLOK(), X, Y, intervals=ACI(0.8, region), keep="all", baselines=["last", RefittedRidge()])
    part = result.part(slice(200, 300))
    rows = slice(200, 300)
    assert_allclose(part.mse, np.mean((result.predictions[rows] - Y[rows]) ** 2, axis=0))
    assert_allclose(part.baselines[0].mae, np.mean(np.abs(Y[199:299] - Y[rows]), axis=0))
    regions = result.intervals.regions
    assert_allclose(part.intervals.coverage, regions.covered[rows].mean(axis=0))
    assert_allclose(part.intervals.width, regions.width[rows].mean(axis=0))
    # A part of a part.
    assert part.part(30).start == 270
    assert_array_equal(part.part(30).targets, Y[270:300])
    assert "rows 200 to 299 of a stream: 100 rows predicted" in part.summary()
    assert RecentDisplay.from_result(part, rows=slice(10, 20), plot=False).positions[0] == 210
    assert IntervalDisplay.from_result(part, window=50, plot=False).rows[0] == 250


def test_one_output_and_no_intervals():
    X, Y = stream()
    result = progressive(OLOK(), X, Y[:, 0], keep="all", baselines=[])
    part = result.part(100)
    assert_allclose(part.mse, np.mean((result.predictions[300:] - Y[300:, 0]) ** 2))
    assert part.predictions.shape == (100,)
    assert part.intervals is None


def test_invalid_parts():
    X, Y = stream()
    with pytest.raises(ValueError, match="run progressive with keep='all'"):
        progressive(OLOK(), X, Y).part(10)
    result, *_ = evaluated()
    for rows, message in [
        (0, "rows must be an integer >= 1, got 0"),
        (slice(500, 600), "rows must contain some of the 400 rows"),
        (slice(0, 10, 2), "rows must be a slice without a step"),
        (slice(0.5, 10), "the ends of rows must be an integer"),
        (slice("2024-01-01", None), "the dates of the rows are unknown: run progressive with time="),
    ]:
        with pytest.raises(ValueError, match=message):
            result.part(rows)


def test_parts_by_date():
    result, _, Y = evaluated(time=DAYS)
    part = result.part(slice("2024-01-03", "2024-01-04T23"))
    assert_array_equal(part.times, DAYS[48:96])
    assert_array_equal(part.targets, Y[48:96])
    assert result.part(slice(DAYS[-1] - np.timedelta64(1, "D"), None)).n_rows == 25


def test_dates_are_drawn():
    result, *_ = evaluated(time=DAYS)
    recent = RecentDisplay.from_result(result, rows=slice("2024-01-03", "2024-01-04"))
    assert_array_equal(recent.times, DAYS[48:73])
    assert recent.ax_.get_xlabel() == ""
    display = IntervalDisplay.from_result(result)
    assert len(display.axes_) == 3
    assert_array_equal(display.times, DAYS[99:])
    assert display.axes_[-1].get_xlabel() == ""
    assert [len(panel.lines) for panel in display.axes_] == [2, 2, 2]
    assert display.axes_[0].get_ylabel() == "coverage of\ny0"
    numbers, *_ = evaluated(time=np.arange(400) * 0.5, delay=1.0)
    recent = RecentDisplay.from_result(numbers, rows=10)
    assert_array_equal(recent.times, np.arange(390, 400) * 0.5)
    assert recent.ax_.get_xlabel() == "time"
    import matplotlib.pyplot as plt

    plt.close("all")


def test_displays_reject_invalid_numbers_of_rows():
    result, *_ = evaluated()
    with pytest.raises(ValueError, match="rows must be an integer >= 1, got 0"):
        RecentDisplay.from_result(result, rows=0, plot=False)
    with pytest.raises(ValueError, match="window must be at most the number of rows, 400, got 5,000"):
        IntervalDisplay.from_result(result, window=5000, plot=False)


def test_a_band_ends_at_the_bounds():
    X, Y = stream()
    result = progressive(OLOK(), X, np.abs(Y[:, 1]), intervals=ACI(0.8, bounds=(0, None)), keep="all")
    display = RecentDisplay.from_result(result, plot=False)
    assert_allclose(display.middle - display.half, result.intervals.regions.lower[-150:, 0], atol=1e-9)
    assert (display.middle - display.half).min() >= -1e-9


def test_times_must_match_the_rows_of_chunks():
    X, Y = stream()
    with pytest.raises(ValueError, match="time must have an entry for each of the 400 rows, got 399"):
        progressive(OLOK(), iter([(X, Y)]), time=DAYS[:399])


def with_errors(result: ProgressiveResult, mse, mae):
    """The result with other errors: model first, then its first baseline."""
    learners = []
    for one, squares, absolute in zip(result.learners, mse, mae, strict=True):
        sums = np.concatenate([np.ones(len(squares)), squares, absolute])
        learners.append(type(one)(one.name, RunningSum(sums, sums[None])))
    return replace(result, model=learners[0], baselines=tuple(learners[1:]))


def test_the_conclusion_names_outputs_for_which_the_baseline_is_better():
    X, Y = stream()
    result = progressive(OLOK(), X, Y, baselines=["last"])
    alike = with_errors(result, [[1.0, 1.0], [2.0, 2.0]], [[1.0, 1.0], [2.0, 2.0]])
    assert alike.conclusion() == "The model's mean squared error is 50% below that of 'last value', the best baseline."
    for error in (1e-9, 0.0):
        small = with_errors(result, [[error, error], [2.0, 2.0]], [[1.0, 1.0], [2.0, 2.0]])
        assert small.conclusion().startswith("The model's mean squared error is less than 1% of that of 'last value'")
    for error, size in ((3.0, "50% higher"), (80.0, "40 times as high")):
        large = with_errors(result, [[error, error], [2.0, 2.0]], [[1.0, 1.0], [2.0, 2.0]])
        assert large.conclusion().endswith(f"is better: the model's mean squared error is {size}.")
    mixed = with_errors(result, [[1.0, 1.0], [2.0, 2.0]], [[1.0, 3.0], [2.0, 2.0]])
    assert mixed.conclusion().endswith("the best baseline; 'last value' is better for y1 by mean absolute error.")
    mixed = with_errors(result, [[3.0, 0.1], [2.0, 2.0]], [[3.0, 3.0], [2.0, 2.0]])
    assert mixed.conclusion().endswith("; 'last value' is better for y0 and for y1 by mean absolute error.")
    for errors in ([1.002, 1.002], [0.998, 0.998]):
        same = with_errors(result, [errors, [1.0, 1.0]], [[0.5, 0.5], [1.0, 1.0]]).conclusion()
        assert same.startswith("The model is as good as 'last value', the best baseline: their mean squared errors are")
        assert "0%" not in same
    one = progressive(OLOK(), X, Y[:, 0], baselines=["last"])
    one = with_errors(one, [[1.0], [2.0]], [[3.0], [2.0]])
    assert one.conclusion().endswith("the best baseline; by mean absolute error 'last value' is better.")


@pytest.mark.long
def test_a_shrinking_window_is_reported():
    rng = np.random.default_rng(0)
    X, e = rng.uniform(-2, 2, (3600, 3)), 0.3 * rng.standard_normal(3600)
    f, g = np.sin(2 * X[:, 0]) + X[:, 1], np.cos(2 * X[:, 0]) - X[:, 1]
    calm = progressive(AutoStream(), X[:2500], (f + e)[:2500], progress=False)
    assert calm.drift.shrunk() == []
    assert "shrank" not in drift_section(calm)
    result = progressive(AutoStream(), X, np.where(np.arange(3600) < 2500, f, g) + e, progress=False)
    (found,) = result.drift.shrunk()
    assert 2500 < found.row < 3000
    assert found.before > 5 * found.after
    text = f"from {found.before:,.0f} to {found.after:,.0f} rows by row {found.row:,}: forgetting experts"
    assert f"The effective window shrank {text}" in drift_section(result)
    # With several outputs, the ones that changed are named.
    windows = result.drift.windows
    drift = replace(result.drift, alarms=(), windows=np.hstack([np.full_like(windows, 9.0), windows]))
    quiet = replace(result, drift=drift, outputs=("calm", "a < b"))
    assert f"No drift alarm was raised. The effective window of a &lt; b shrank {text}" in drift_section(quiet)
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.long
def test_a_report_shows_the_requested_level(tmp_path):
    result, *_ = evaluated()
    text = report(result, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "in 80% interval</th>" in text


@pytest.mark.long
def test_a_report_shows_dates(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("ovk.plotting.display.date_axis", drawn.append)
    report(evaluated(time=DAYS)[0], tmp_path / "r.html")
    assert len(drawn) == 2
