"""Components of OKVAR: smoothing, low-pass filter, integrals, ranks."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import reference
from ovk import OKVAR
from ovk.batch import rank_average
from ovk.batch.okvar.alternate import ClosedFormCoefficients, Decomposable, Entrywise
from ovk.batch.okvar.dynamics import runge_kutta
from ovk.batch.okvar.networks import choose, pooled_p_values
from ovk.batch.okvar.regression import integrals, steady, waves, windows
from ovk.batch.okvar.series import TimeSeries, low_passed, smoothed
from ovk.kernels import Gaussian
from reproduce.data import make_gene_network


def test_smoothing_keeps_lines_and_fills_gaps():
    times = np.array([0.0, 1.0, 2.5, 3.0, 5.0, 6.0])
    line = np.column_stack([2 * times - 1, 0.5 - times])
    holes = line.copy()
    holes[2, 0] = holes[0, 1] = np.nan
    np.testing.assert_allclose(smoothed(TimeSeries(holes, times), 1.5).values, line, atol=1e-9)
    assert smoothed(TimeSeries(holes, times), 0.0).values is holes


def test_smoothing_reduces_noise():
    rng = np.random.default_rng(0)
    times = np.linspace(0, 10, 200)
    truth = np.sin(times)[:, None]
    noisy = TimeSeries(truth + 0.3 * rng.standard_normal(truth.shape), times)
    assert np.abs(smoothed(noisy, 0.3).values - truth).mean() < 0.4 * np.abs(noisy.values - truth).mean()


def test_smoothing_does_not_fill_wide_gaps():
    series = TimeSeries(np.array([[1.0], [np.nan], [2.0]]), np.array([0.0, 500.0, 1000.0]))
    np.testing.assert_array_equal(np.isnan(smoothed(series, 1.0).values[:, 0]), [False, True, False])


def test_the_low_pass_solves_its_equation():
    times = np.array([0.0, 1.0, 1.5, 4.0, 7.0])
    x = np.random.default_rng(0).uniform(size=(5, 1))
    found = low_passed(TimeSeries(x, times), 2.0).values

    def slope(t, p):
        return (np.interp(t, times, x[:, 0]) - p) / 2.0

    exact = solve_ivp(slope, (0, 7), x[0], t_eval=times, rtol=1e-10, atol=1e-12, max_step=0.1)
    np.testing.assert_allclose(found[:, 0], exact.y[0], atol=1e-7)


def test_integrals_are_those_of_the_trapezoidal_rule():
    times = np.array([0.0, 1.0, 1.5, 4.0])
    x = np.random.default_rng(0).uniform(size=4)
    expected = [np.trapezoid(x[: k + 1], times[: k + 1]) for k in range(4)]
    series = [TimeSeries(x[:, None], times)]
    regression = integrals(series, series, constant=False, decay=False)
    np.testing.assert_allclose(regression.apply(x), expected)


def test_runge_kutta_follows_the_exponential():
    np.testing.assert_allclose(runge_kutta(lambda x: x, np.array(1.0), 1.0, 10), np.e, rtol=1e-6)


def test_waves_have_a_cosine_and_a_sine_of_each_period():
    np.testing.assert_allclose(waves(np.array([0.0, 6.0]), np.array([24.0])), [[1, 0], [0, 1]], atol=1e-15)


def test_windows_hold_the_newest_first():
    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(windows(x, 2), [[0, 1, np.nan, np.nan], [2, 3, 0, 1], [4, 5, 2, 3]])


def test_predictions_with_memory_do_not_depend_on_the_unit_of_time():
    made = make_gene_network(3, 2, 8, random_state=0)
    timed = OKVAR("linear", 10.0, target="integral", memory=1.5).fit(made.series, times=made.times)
    plain = OKVAR("linear", 10.0, target="integral", memory=1.5).fit(made.series)
    np.testing.assert_allclose(timed.predict(made.series), plain.predict(made.series))
    np.testing.assert_allclose(timed.predict(made.series), timed.predict(made.series, times=made.times))
    np.testing.assert_allclose(timed.score(made.series), plain.score(made.series))
    np.testing.assert_allclose(timed.forecast(3, made.series[0]), plain.forecast(3, made.series[0]))


def test_rank_averages_do_not_depend_on_scales():
    rng = np.random.default_rng(0)
    scores = [rng.uniform(size=(4, 4)) for _ in range(3)]
    np.testing.assert_allclose(rank_average(scores), rank_average([scores[0], 7 * scores[1], scores[2] ** 3]))
    assert (np.diagonal(rank_average(scores)) == 0).all()


def test_false_discovery_rate_is_benjamini_and_hochberg():
    p = np.array([[1.0, 0.001, 0.02], [0.03, 1.0, 0.5], [0.9, 0.04, 1.0]])
    scores = 1 - p
    # Sorted: 0.001 0.02 0.03 0.04 0.5 0.9 against 0.1 k / 6: the fourth is the last that passes.
    np.testing.assert_array_equal(choose(scores, None, None, p, 0.1), (p <= 0.04) & ~np.eye(3, dtype=bool))
    assert not choose(scores, None, None, p, 1e-6).any()


def test_p_values_are_shares_of_null_scores():
    null = np.zeros((1, 2, 2))
    null[0, 0, 1], null[0, 1, 0] = 0.3, 0.6
    np.testing.assert_allclose(pooled_p_values(np.array([[0.0, 0.5], [0.3, 0.0]]), null)[[0, 1], [1, 0]], [2 / 3, 1.0])


@pytest.mark.parametrize("make", ["decomposable", "entrywise"])
def test_degrees_of_freedom_are_the_trace_of_the_smoother(make):
    made = make_gene_network(3, 2, 8, random_state=0)
    model = OKVAR(Gaussian(2.0), 0.5, target="integral")
    regression = model.regression(made.series)
    G = reference.scalar_gram(Gaussian(2.0), regression.Z)
    rng = np.random.default_rng(0)
    B = np.cov(rng.standard_normal((3, 9)))
    coupling = Decomposable(G) if make == "decomposable" else Entrywise(G[:, None, :, None] * np.ones((1, 3, 1, 3)))
    found = ClosedFormCoefficients(coupling, regression).degrees_of_freedom(B, 0.5)
    W = regression.W.toarray()
    K = np.kron(W @ G @ W.T, B)
    np.testing.assert_allclose(found, np.trace(K @ np.linalg.inv(K + 0.5 * np.eye(len(K)))), rtol=1e-8)


def test_the_low_pass_restarts_after_a_gap():
    times, x = np.arange(6.0), np.array([1.0, 3.0, np.nan, 2.0, 5.0, 4.0])
    found = low_passed(TimeSeries(x[:, None], times), 2.0).values[:, 0]
    after = low_passed(TimeSeries(x[3:, None], times[3:]), 2.0).values[:, 0]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    np.testing.assert_allclose(found[3:], after)


@pytest.mark.parametrize("lag", [1, 2, 3, 4])
def test_steps_are_steady_if_those_of_the_lag_are(lag):
    times = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0])
    usual = np.diff(times) == 1.0
    expected = [usual[max(k - lag + 1, 0) : k + 1].all() for k in range(len(usual))]
    np.testing.assert_array_equal(steady(TimeSeries(times[:, None], times), 1.0, lag), expected)
