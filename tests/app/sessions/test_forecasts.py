"""Forecasts several rows ahead: recursion, coverage of the intervals, dates, and future inputs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ovk.app.sessions import Settings, fit_file, fit_table, learn
from ovk.app.sessions.forecasts import (
    DAMPING,
    SMOOTHING,
    HorizonErrors,
    conformal_widths,
    damped_trend,
    forecast_weights,
    forecast_widths,
    horizon_errors,
    recursive_forecast,
    season_of,
    simple_forecasts,
)
from ovk.app.tables import open_records
from ovk.base import as_dates, following_instants
from ovk.persistence import load, save
from reference import forecast_row_by_row


def autoregression(n, seed):
    """y_t = 1.2 y_{t-1} - 0.4 y_{t-2} + noise."""
    rng = np.random.default_rng(seed)
    y = np.zeros(n)
    for t in range(2, n):
        y[t] = 1.2 * y[t - 1] - 0.4 * y[t - 2] + rng.standard_normal()
    return y


def table(path, y, start="2024-01-01", extra=None):
    days = np.datetime64(start) + np.arange(len(y))
    cells = [f"{day},{value:.5f}" for day, value in zip(days, y, strict=True)]
    head = "day,y"
    if extra is not None:
        head, cells = "day,y,x", [f"{cell},{x:.5f}" for cell, x in zip(cells, extra, strict=True)]
    path.write_text("\n".join([head, *cells]) + "\n", encoding="utf-8")
    return path


def learned(path, **chosen):
    with open_records(path) as records:
        return learn(records, Settings(["y"], **{"time": ["day"], "lags": [1, 2], "warm_up": 100, **chosen}))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 7), st.sampled_from([(1,), (1, 2), (3,), (2, 5)]))
def test_the_recursion_agrees_with_single_rows(seed, d, steps, lags):
    rng = np.random.default_rng(seed)
    k, u, longest = 3, 2, max(lags)
    W = rng.standard_normal((u + d * len(lags), d)) * 0.3
    past = rng.standard_normal((k, longest, d))
    X = np.concatenate([rng.standard_normal((k, steps, u)), np.full((k, steps, d * len(lags)), np.nan)], axis=2)
    given = X.copy()
    found = recursive_forecast(lambda x: np.tanh(x @ W), lags, past, X)
    np.testing.assert_array_equal(X, given)
    for one in range(k):
        slow = forecast_row_by_row(lambda x: np.tanh(x @ W), lags, past[one], X[one, :, :u])
        np.testing.assert_allclose(found[one], slow, rtol=1e-12, atol=1e-14)


def test_errors_are_those_of_forecasts_from_every_origin():
    rng = np.random.default_rng(0)
    Y, past, steps = rng.standard_normal((10, 1)), rng.standard_normal((2, 1)), 4
    Y[3] = np.nan
    errors, last, *_ = horizon_errors(lambda x: x @ [[0.5], [0.3]], [1, 2], past, np.empty((10, 2)), Y, steps, 100)
    known = [*past, *Y]
    for t, row in enumerate(known):
        known[t] = known[t - 1] if np.isnan(row).any() else row
    for origin in range(10):
        slow = forecast_row_by_row(
            lambda x: x @ [[0.5], [0.3]], [1, 2], known[: 2 + origin], np.empty((min(steps, 10 - origin), 0))
        )
        np.testing.assert_allclose(errors[origin, : len(slow)], Y[origin : origin + steps] - slow, rtol=1e-12)
        assert np.isnan(errors[origin, len(slow) :]).all()
        np.testing.assert_allclose(last[origin, : len(slow)], Y[origin : origin + steps] - known[1 + origin])


def test_the_newest_errors_are_kept(monkeypatch):
    """Those of the tests so far, each by the model that had learned the rows before the test."""
    monkeypatch.setattr("ovk.app.sessions.forecasts.MAX_FORECASTS_KEPT", 10)
    rng = np.random.default_rng(0)
    past, Y, horizon = rng.standard_normal((3, 1)), rng.standard_normal((16, 1)), 2
    kept, expected = HorizonErrors.start(horizon, [1], past, 0.0, 0, 1), np.empty((4, 0, horizon, 1))

    def predictor(model):
        return lambda x: model + 0.5 * x

    for start in range(0, 16, 4):
        before = np.vstack([past, Y[:start]])
        new = horizon_errors(predictor(float(start)), [1], before, np.empty((4, 1)), Y[start : start + 4], horizon, 100)
        expected = np.concatenate([expected, new], axis=1)
        assert kept.room == 4
        # The rows arrive in two parts, and are learned after each.
        for rows in (slice(start, start + 1), slice(start + 1, start + 4)):
            kept.add(np.empty((rows.stop - rows.start, 1)), Y[rows], float(rows.stop), predictor)
        np.testing.assert_allclose(kept.errors[:2], expected[:2, -10:])
        assert (kept.learned, kept.model, len(kept.Y)) == (start + 4, start + 4, 0)
        np.testing.assert_array_equal(kept.past, np.vstack([past, Y[: start + 4]]))


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_quantiles_of_few_and_many_errors(level):
    errors = np.random.default_rng(0).standard_normal((50, 3, 2))
    errors[5:, 2] = np.nan
    found = conformal_widths(errors, level)
    for h, q in np.ndindex(3, 2):
        sizes = sorted(abs(e) for e in errors[:, h, q] if np.isfinite(e))
        k = int(np.ceil((len(sizes) + 1) * level - 1e-9))
        assert found[h, q] == (sizes[k - 1] if k <= len(sizes) else np.inf)


@pytest.mark.parametrize("level", [0.8, 0.9])
def test_intervals_of_few_overlapping_errors_are_wider(level):
    """By the ratio of the central intervals of Student's t, with a degree of freedom per disjoint error, and normal."""
    errors = np.random.default_rng(1).standard_normal((24, 3, 2))
    errors[12:, :, 1] = np.nan
    ratio = forecast_widths(errors, level) / conformal_widths(errors, level)
    for h, q in np.ndindex(3, 2):
        expected = stats.t.interval(level, (24, 12)[q] / (h + 1))[1] / stats.norm.interval(level)[1]
        np.testing.assert_allclose(ratio[h, q], expected)


@pytest.mark.long
def test_coverage_of_forecast_intervals(tmp_path):
    """On 16 series, the coverage is 90% over all steps, and the widths match the process."""
    inside, widths = [], []
    for seed in range(16):
        y = autoregression(412, seed)
        found = learned(table(tmp_path / "t.csv", y[:400]), time=(), features=["day"], horizon=12).forecast(12)
        inside.append(np.abs(found.F[:, 0] - y[400:]) <= found.widths[:, 0])
        widths.append(found.widths[:, 0])
    # 16 series with about 4 independent errors each: 0.9 with a deviation of 0.04.
    assert 0.8 <= np.mean(inside) <= 0.99
    # Standard deviations of the ideal forecast errors: sums of squares of the impulse response.
    response = np.zeros(12)
    response[:2] = 1.0, 1.2
    for h in range(2, 12):
        response[h] = 1.2 * response[h - 1] - 0.4 * response[h - 2]
    ratio = np.mean(widths, axis=0) / (1.645 * np.sqrt(np.cumsum(response**2)))
    assert (ratio > 0.85).all()
    assert (ratio < 1.5).all()


def test_forecasts_do_not_depend_on_blocks_and_files(tmp_path):
    path = table(tmp_path / "t.csv", autoregression(700, 1))
    whole = learned(path, block=4096)
    parts = learned(path, block=37)
    save(parts, tmp_path / "m.ovk")
    again = load(tmp_path / "m.ovk")
    for found in (parts, again):
        for one, other in zip(found.forecast(5, 0.8)[1:], whole.forecast(5, 0.8)[1:], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.long
def test_a_resumed_session_gives_the_same_forecasts(tmp_path):
    y = autoregression(900, 2)
    path = table(tmp_path / "t.csv", y[:500])
    with open_records(path) as records:
        learn(records, Settings(["y"], time=["day"], lags=[1, 2], warm_up=100), save_to=tmp_path / "m.ovk")
    table(path, y)
    with open_records(path) as records:
        resumed = learn(records, None, resume=tmp_path / "m.ovk")
    once = learned(path)
    assert resumed.horizons.learned == once.horizons.learned
    np.testing.assert_allclose(resumed.forecast(24).widths, once.forecast(24).widths, rtol=1e-6)


def test_forecasts_are_not_tested_on_learned_rows(tmp_path):
    """The outputs of a row change no earlier forecast: the copy of the model is older than the rows of the test."""
    session = learned(table(tmp_path / "t.csv", autoregression(1000, 3)), horizon=6)
    kept = session.horizons
    assert kept.learned + len(kept.Y) == 1000
    assert kept.model.n_seen_ == kept.learned if hasattr(kept.model, "n_seen_") else True
    assert not np.allclose(kept.model.predict(np.zeros((1, 16))), session.evaluator.model.predict(np.zeros((1, 16))))


@pytest.mark.long
def test_long_streams_test_some_rows_only(tmp_path):
    session = learned(table(tmp_path / "t.csv", autoregression(8000, 4), "1990-01-01"), horizon=2)
    assert session.horizons.errors.shape == (4, 500, 2, 1)
    assert session.horizons.pause > 0
    assert len(session.horizons.Y) == 0
    assert session.horizons.learned == 8000


@pytest.mark.parametrize(
    ("instants", "expected"),
    [
        (["2024-01-31", "2024-02-29", "2024-03-31"], ["2024-04-30", "2024-05-31"]),
        (["2023-01-15", "2023-02-15", "2023-03-15"], ["2023-04-15", "2023-05-15"]),
        (["2021-10-01", "2022-01-01", "2022-04-01"], ["2022-07-01", "2022-10-01"]),
        (["2020-02-29", "2021-02-28", "2022-02-28"], ["2023-02-28", "2024-02-29"]),
        (["2024-03-04", "2024-03-11", "NaT", "2024-03-25", "2024-04-01"], ["2024-04-08", "2024-04-15"]),
        (["2024-03-01T22", "2024-03-01T23", "2024-03-02T00"], ["2024-03-02T01", "2024-03-02T02"]),
    ],
)
def test_next_dates(instants, expected):
    dates = np.array(instants, dtype="datetime64[s]")
    seconds = np.where(np.isnat(dates), np.nan, dates.astype(np.int64).astype(float))
    np.testing.assert_array_equal(as_dates(following_instants(seconds, 2)), np.array(expected, dtype="datetime64[s]"))


def test_dates_without_a_next_one():
    with pytest.raises(ValueError, match="fewer than two of the last rows"):
        following_instants(np.array([1.0, np.nan]), 3)
    with pytest.raises(ValueError, match="do not increase"):
        following_instants(np.array([3.0, 3.0, 3.0]), 3)


def test_unix_times_and_their_units(tmp_path):
    for unit in (1, 1000, 1_000_000, 1_000_000_000):
        path = tmp_path / "t.csv"
        start = 1_700_000_000
        rows = [f"{(start + 3600 * i) * unit},{np.sin(i / 4):.4f}" for i in range(120)]
        path.write_text("\n".join(["day,y", *rows]), encoding="utf-8")
        found = learned(path, horizon=3).forecast(2)
        assert str(found.dates[0]) == str(np.datetime64(start + 3600 * 120, "s"))


def test_forecasts_from_dates_alone(tmp_path):
    """Without lags, all steps have the interval of the first."""
    y = np.tile([0.0, 1.0, 2.0, 3.0, 4.0, 9.0, 9.0], 60)
    session = learned(table(tmp_path / "t.csv", y), lags=())
    found = session.forecast(7)
    np.testing.assert_allclose(found.F[:, 0], y[:7], atol=1.5)
    np.testing.assert_array_equal(found.widths, np.tile(session.recent.widths(0.9), (7, 1)))


@pytest.mark.parametrize("start", [learned, None])
def test_future_inputs(tmp_path, start):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(420)
    y = 3 * x + np.sin(np.arange(420))
    path = table(tmp_path / "t.csv", y[:400], extra=x[:400])
    if start is None:
        with open_records(path) as records:
            model = fit_table(records, Settings(["y"], time=["day"], lags=[1, 2], horizon=20))
    else:
        model = start(path)
    with pytest.raises(ValueError, match=r"inputs 'x' of the next rows are unknown: pass a table .*--inputs"):
        model.forecast(20)
    rest = tmp_path / "future.csv"
    rest.write_text("\n".join(["x", *map(str, x[400:])]), encoding="utf-8")
    with open_records(rest) as records:
        found = model.forecast(20, future=records)
    assert np.mean((found.F[:, 0] - y[400:]) ** 2) < 0.2 * y.var()
    assert np.mean((found.lower[:, 0] <= y[400:]) & (y[400:] <= found.upper[:, 0])) > 0.6
    assert str(found.dates[0]).startswith(str(np.datetime64("2024-01-01") + 400))
    with open_records(rest) as records, pytest.raises(ValueError, match="has 20 readable rows"):
        model.forecast(21, future=records)


def test_a_model_without_lags_and_dates(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(100)), encoding="utf-8")
    session = learn(path, Settings(["y"], features=["x"]))
    with pytest.raises(ValueError, match="of the next rows are unknown"):
        session.forecast(3)
    with pytest.raises(ValueError, match="steps must"):
        session.forecast(0)
    with pytest.raises(ValueError, match="level must"):
        session.forecast(1, level=1.5)


@pytest.mark.parametrize(("season", "m"), [(1, 12), (4, 15), (4, 6)])
def test_damped_trends_agree_with_the_recursion_of_one_series(season, m):
    past = np.random.default_rng(0).standard_normal((2, m, 3)).cumsum(axis=1)
    found = damped_trend(past, 6, season)
    for k, q in np.ndindex(2, 3):
        y, fits = past[k, :, q].tolist(), []
        for u, v, w in SMOOTHING.T:
            middle = np.mean(y[:season])
            b = (np.mean(y[season : 2 * season]) - middle) / season if m >= 2 * season else 0.0
            waves = [y[i] - middle - (i - (season - 1) / 2) * b if season > 1 else 0.0 for i in range(season)]
            level, cost = middle + b * (season - 1) / 2, 0.0
            for t in range(season, m):
                error = y[t] - (level + DAMPING * b + waves[t % season])
                level, b, cost = level + DAMPING * b + u * error, DAMPING * b + v * error, cost + abs(error)
                waves[t % season] += w * (1 - u) * error if season > 1 else 0.0
            growth = np.cumsum(DAMPING ** np.arange(1, 7))
            fits.append((cost, [level + growth[h] * b + waves[(m + h) % season] for h in range(6)]))
        np.testing.assert_allclose(found[k, :, q], min(fits, key=lambda fit: fit[0])[1])


def test_simple_forecasts_repeat_the_last_value_and_season():
    past = np.arange(12.0)[None, :, None]
    last, seasonal, trend = simple_forecasts(past, 5, 3)
    np.testing.assert_array_equal(last[0, :, 0], [11] * 5)
    np.testing.assert_array_equal(seasonal[0, :, 0], [9, 10, 11, 9, 10])
    assert (np.diff(trend[0, :, 0]) > 0).all()


def test_weights_follow_past_errors():
    errors = np.stack([np.full((20, 4, 2), scale) for scale in (1.0, 2.0, 1.0, np.nan)])
    errors[0, ..., 1] = 8.0
    weights = forecast_weights(errors)
    np.testing.assert_allclose(weights.sum(axis=0), 1)
    np.testing.assert_allclose(weights[:, 0], np.array([1, 2**-8, 1, 0]) / (2 + 2**-8))
    np.testing.assert_allclose(weights[:, 1], np.array([8.0**-8, 2**-8, 1, 0]) / (1 + 2**-8 + 8.0**-8))
    np.testing.assert_array_equal(forecast_weights(np.full((4, 0, 3, 2), np.nan))[:, 0], [1, 0, 0, 0])


def test_the_season_is_the_lag_that_repeats():
    rng = np.random.default_rng(0)
    wave = np.sin(2 * np.pi * np.arange(120) / 12) + 0.1 * rng.standard_normal(120)
    assert season_of(wave[:, None], [1, 2, 3, 12]) == 12
    assert season_of(wave[:, None], [1]) == 1


def test_seasonal_series_with_a_trend(tmp_path):
    rng, t = np.random.default_rng(0), np.arange(180)
    y = 0.5 * t + 8 * np.sin(2 * np.pi * t / 12) + 0.5 * rng.standard_normal(180)
    path = tmp_path / "t.csv"
    path.write_text("y\n" + "\n".join(map(str, y[:168])))
    model = fit_file(path, "y", lags=[1, 2, 12], horizon=12)
    found = model.forecast(12)
    # The value a season earlier is 6 lower.
    assert np.abs(found.F[:, 0] - y[168:]).mean() < 1.5
    again = model.predict_file(path)
    assert np.nanmean(np.abs(again["y"] - again["y outcome"])[24:]) < 1.5
