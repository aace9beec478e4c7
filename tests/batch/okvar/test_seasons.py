"""Known cycles in an autoregression: unpenalised waves, continued by forecasts."""

import numpy as np
import pytest

import ovk
from ovk import OKVAR
from ovk.batch import best_okvar
from ovk.kernels import Gaussian


@pytest.fixture(scope="module")
def hours():
    """Ten days of two variables: the first follows the day, the second follows the first."""
    rng = np.random.default_rng(0)
    x = np.zeros((240, 2))
    for t in range(239):
        following = np.array([0.3 * x[t, 0] + 2 * np.sin(2 * np.pi * (t + 1) / 24), 0.5 * np.tanh(x[t, 0])])
        x[t + 1] = following + 0.1 * rng.standard_normal(2)
    return x


def test_the_fit_is_ridge_regression_with_unpenalised_waves(hours):
    x, alpha = hours[:60], 0.5
    model = OKVAR(Gaussian(1.0), alpha, periods=[24], standardize=False).fit(x)
    Z, Y, t = x[:-1], x[1:], np.arange(1, 60)
    gram = np.exp(-((Z[:, None] - Z[None]) ** 2).sum(axis=2) / 2)
    E = np.column_stack([np.cos(2 * np.pi * t / 24), np.sin(2 * np.pi * t / 24), np.ones(59)])
    system = np.block([[gram + alpha * np.eye(59), E], [E.T, np.zeros((3, 3))]])
    C, theta = np.split(np.linalg.solve(system, np.concatenate([Y, np.zeros((3, 2))])), [59])
    np.testing.assert_allclose(model.season_, theta[:2], atol=1e-8)
    np.testing.assert_allclose(model.intercept_, theta[2], atol=1e-8)
    np.testing.assert_allclose(model.predict(x)[:-1], gram @ C + E @ theta, atol=1e-8)


@pytest.mark.parametrize("target", ["next", "increment"])
def test_forecasts_of_a_day_follow_the_season(hours, target):
    past, future = hours[:200], hours[200:224]
    with_season = OKVAR(alpha=1.0, target=target, periods=[24]).fit(past)
    without = OKVAR(alpha=1.0, target=target).fit(past)
    errors = [np.sqrt(np.mean((model.forecast(24) - future) ** 2)) for model in (with_season, without)]
    assert errors[0] < 0.5 * errors[1]
    np.testing.assert_allclose(with_season.forecast(1)[0], with_season.predict(past)[-1])
    middle, low, high = with_season.forecast(24, interval=0.9)
    assert 0.75 < np.mean((low <= future) & (future <= high)) <= 1.0
    assert (low < middle).all()


def test_a_continued_series_uses_its_times(hours):
    model = OKVAR(alpha=1.0, periods=[24]).fit(hours)
    part = hours[100:150]
    at_its_time = model.forecast(24, part, times=np.arange(100, 150))
    assert np.abs(at_its_time - hours[150:174]).mean() < 0.5 * np.abs(model.forecast(24, part) - hours[150:174]).mean()


def test_dates_count_in_seconds(hours):
    dates = np.datetime64("2024-03-01T00") + np.arange(240)
    by_date = OKVAR(alpha=1.0, periods=[24 * 3600.0]).fit(hours, times=dates)
    by_row = OKVAR(alpha=1.0, periods=[24]).fit(hours)
    np.testing.assert_allclose(by_date.forecast(30), by_row.forecast(30), atol=1e-6)


def test_seasons_are_saved_and_loaded(hours, tmp_path):
    model = OKVAR(alpha=1.0, periods=[24, 168]).fit(hours)
    ovk.save(model, tmp_path / "m.ovk")
    np.testing.assert_array_equal(ovk.load(tmp_path / "m.ovk").forecast(5), model.forecast(5))
    assert not hasattr(model.set_params(periods=None).fit(hours), "season_")


def test_unresolvable_periods_raise(hours):
    for bad in ([1.0], [np.nan], [[24.0]], [-24.0]):
        with pytest.raises(ValueError, match="periods must be at least two steps"):
            OKVAR(periods=bad).fit(hours)
    with pytest.raises(ValueError, match="periods are not supported"):
        OKVAR(target="integral", periods=[24]).fit(hours)


def test_forms_are_chosen_by_forecasts_that_follow_the_season(hours):
    parts = [hours[:120], hours[120:240]]
    models = [OKVAR(alpha=1.0), OKVAR(alpha=1.0, periods=[24])]
    best, values = best_okvar(models, parts, criterion="forecast")
    assert best.periods == [24]
    gaps = []
    for left, other in (parts, parts[::-1]):
        fitted = OKVAR(alpha=1.0, periods=[24]).fit(other)
        gaps += [(fitted.forecast(4, left[:end])[-1] - left[end + 3]) / fitted.scale_ for end in range(1, 117)]
    np.testing.assert_allclose(values[1], np.log(np.square(gaps).mean(axis=0)).mean(), rtol=1e-8)
