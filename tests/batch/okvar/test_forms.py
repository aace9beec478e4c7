"""Equivalent forms of series, errors for bad input, and edge cases."""

import joblib
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning

import ovk
from ovk import OKVAR
from ovk.batch import best_okvar, consensus, rank_average
from ovk.kernels import Gaussian
from ovk.objectives import L1, L1L2
from ovk.operators import Identity
from ovk.ovkernels import Transformable
from reproduce.data import make_gene_network


@pytest.fixture(scope="module")
def made():
    return make_gene_network(3, 3, 8, random_state=0)


def frame(made):
    parts = [
        pd.DataFrame(one, columns=made.feature_names).assign(time=made.times, series=name)
        for name, one in zip("cab", made.series, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("target", ["next", "increment", "integral"])
def test_lists_tables_and_frames_are_equivalent(made, target):
    model = OKVAR(target=target)
    wanted = OKVAR(target=target).fit(made.series, times=made.times).drift(made.data)
    table, labels = np.concatenate(made.series), np.repeat(["c", "a", "b"], 8)
    long = frame(made)
    for fitted in (
        model.fit(made.series, times=[made.times] * 3),
        model.fit(table, series=labels, times=np.tile(made.times, 3)),
        model.fit(long, series="series", times="time"),
        model.fit(pl.from_pandas(long), series="series", times="time"),
    ):
        np.testing.assert_allclose(fitted.drift(made.data), wanted)
    assert model.fit(long, series="series", times="time").network().names == tuple(made.feature_names)


def test_rows_of_a_table_may_be_in_any_order(made):
    long = frame(made)
    order = np.argsort(np.tile(np.arange(8), 3), kind="stable")
    fitted = OKVAR().fit(long.iloc[order], series="series", times="time")
    np.testing.assert_allclose(fitted.drift(made.data), OKVAR().fit(made.series, times=made.times).drift(made.data))


def test_dates_are_times(made):
    dates = np.datetime64("2020-01-01") + np.arange(8) * np.timedelta64(1, "D")
    fitted = OKVAR().fit(made.series, times=dates)
    assert fitted.step_ == 86400.0
    np.testing.assert_allclose(fitted.drift(made.data), OKVAR().fit(made.series).drift(made.data))


def test_series_of_different_lengths_and_too_short_ones(made):
    series = [made.series[0], made.series[1][:5], made.series[2][:1]]
    assert len(OKVAR().fit(series).X_fit_) == 7 + 4
    assert len(OKVAR(lag=3).fit(series).X_fit_) == 5 + 2


@pytest.mark.parametrize("lag", [8, 20])
def test_series_shorter_than_the_lag(made, lag):
    with pytest.raises(ValueError, match=f"X must contain {lag + 1} consecutive complete points with lag={lag}"):
        OKVAR(lag=lag).fit(made.series)


def test_a_missing_time_point_breaks_the_series_there(made):
    keep = np.arange(8) != 3
    series = [one[keep] for one in made.series]
    fitted = OKVAR().fit(series, times=made.times[keep])
    assert len(fitted.X_fit_) == 3 * 5
    assert len(OKVAR(target="increment").fit(series, times=made.times[keep]).X_fit_) == 3 * 6
    holes = [np.where(keep[:, None], one, np.nan) for one in made.series]
    np.testing.assert_allclose(OKVAR().fit(holes).X_fit_.shape, fitted.X_fit_.shape)
    assert len(OKVAR(smoothing=1.0).fit(holes).X_fit_) == 3 * 7
    assert len(OKVAR(target="integral").fit(holes).X_fit_) == 3 * 7


def test_unequal_steps_need_a_target_that_uses_times(made):
    times = np.array([0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0])
    with pytest.raises(ValueError, match=r"3 of 21 steps are the usual one.*'increment'"):
        OKVAR().fit(made.series, times=times)
    for target in ("increment", "integral"):
        assert np.isfinite(OKVAR(target=target).fit(made.series, times=times).drift(made.data)).all()


def test_constant_variables_and_a_single_one(made):
    series = [np.column_stack([one, np.full(8, 0.3)]) for one in made.series]
    for target in ("next", "increment", "integral"):
        fitted = OKVAR(target=target).fit(series)
        scores = fitted.edge_scores(balance=0.5)
        assert np.isfinite(scores).all()
        np.testing.assert_allclose(fitted.drift(series[0])[:, 3], 0.3 if target == "next" else 0.0, atol=1e-9)
        alone = OKVAR(target=target).fit([one[:, :1] for one in made.series])
        assert alone.network().edges == []
        assert np.isfinite(alone.forecast(4, made.series[0][:, :1])).all()


def test_a_hundred_variables():
    x = np.random.default_rng(0).standard_normal((40, 100))
    model = OKVAR(Gaussian(14.0) * Identity(), learn_operator=True, operator_weight=0.1, max_rounds=2, tol=0.1)
    with pytest.warns(ConvergenceWarning, match="increase max_rounds"):
        fitted = model.fit(x)
    assert not fitted.converged_
    assert fitted.edge_scores().shape == (100, 100)


@pytest.mark.parametrize("penalty", [L1(1e6), L1L2(1e6)])
@pytest.mark.parametrize("learn", [False, True])
def test_a_penalty_that_sets_all_coefficients_to_zero_warns(made, penalty, learn):
    with pytest.warns(UserWarning, match="sets all coefficients, and so h, to zero"):
        fitted = OKVAR(penalty=penalty, learn_operator=learn).fit(made.series)
    assert np.isfinite(fitted.predict(made.data)).all()
    assert not fitted.edge_scores().any()


def test_a_penalty_that_sets_the_operator_to_zero_warns(made):
    with pytest.warns(UserWarning, match="operator_weight=1e\\+06 sets the operator, and so h, to zero"):
        fitted = OKVAR(learn_operator=True, operator_weight=1e6).fit(made.series)
    assert np.isfinite(fitted.predict(made.data)).all()
    assert not fitted.edge_scores(balance=1.0).any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1.0}, "alpha must be non-negative and finite"),
        ({"alpha": 0}, "alpha must be positive without a penalty"),
        ({"lag": 0}, "lag must be an integer >= 1"),
        ({"target": "past"}, "target must be 'next', 'increment' or 'integral'"),
        ({"target": "integral", "lag": 2}, "lag must be 1"),
        ({"penalty": "l1"}, "penalty must be None or a penalty of ovk.objectives"),
        ({"memory": -1.0}, "memory must be"),
        ({"smoothing": np.nan}, "smoothing must be"),
        ({"learn_operator": True, "operator_weight": 0.0}, "operator_weight must be positive and finite"),
        ({"learn_operator": True, "kernel": Transformable(Gaussian(1.0))}, "with learn_operator=True, got"),
        (
            {"learn_operator": True, "kernel": Gaussian(1.0) * Identity() & Gaussian(2.0) * Identity()},
            "with learn_operator=True, got",
        ),
    ],
)
def test_bad_parameters_raise_and_do_not_change_the_model(made, parameters, message):
    model = OKVAR().fit(made.series)
    before = model.predict(made.data)
    model.set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(made.series)
    model.set_params(**OKVAR().get_params())
    np.testing.assert_array_equal(model.predict(made.data), before)


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        ([np.ones((4, 2)), np.ones((4, 3))], {}, "same variables"),
        (None, {}, "X must be a series .* got NoneType"),
        (np.float64(3.0), {}, "X must be a series .* got float64"),
        ({"a": [1.0, 2.0]}, {}, "X must be a series .* got dict"),
        (np.ones((4, 2)), {"times": [0.0, 1.0, 1.0, 2.0]}, "times must increase within a series"),
        (np.ones((4, 2)), {"times": [0.0, np.inf, 1.0, 2.0]}, "times must be finite"),
        (np.ones((4, 2)), {"series": [1, 2]}, "a label for each of the 4 rows"),
        (np.ones((4, 2)), {"series": "name"}, "X must be a data frame"),
        (pd.DataFrame({"a": [1.0, 2.0]}), {"series": "name"}, "there is no column 'name' in X"),
        (np.column_stack([np.arange(4.0), np.full(4, np.nan)]), {}, "'x1' is never observed"),
        (np.full((4, 2), np.inf), {}, "infinity"),
        ([np.ones((4, 2))], {"times": np.arange(3.0)}, "times must be one array for all series"),
    ],
)
def test_bad_series_raise(X, options, message):
    with pytest.raises(ValueError, match=message):
        OKVAR().fit(X, **options)


def test_forecasts_iterate_one_step_predictions(made):
    x = made.series[0]
    model = OKVAR(Gaussian(2.0), 0.1, lag=2).fit(x)
    path = model.forecast(3)
    np.testing.assert_allclose(path[0], model.predict(x)[-1])
    np.testing.assert_allclose(path[1], model.predict(np.vstack([x, path[:1]]))[-1])
    np.testing.assert_allclose(path[2], model.predict(np.vstack([x, path[:2]]))[-1])
    assert np.isnan(model.predict(x)[0]).all()


@pytest.mark.parametrize("target", ["next", "increment", "integral"])
def test_forecasts_with_memory_agree_with_predictions(made, target):
    model = OKVAR("linear", 10.0, target=target, memory=1.5).fit(made.series)
    path = model.forecast(1, made.series[1])
    np.testing.assert_allclose(path[0], model.predict(made.series[1])[-1])


def _linear(rng, n):
    x = np.zeros((n, 2))
    for t in range(n - 1):
        x[t + 1] = np.array([[0.6, 0.2], [0.0, 0.5]]) @ x[t] + rng.standard_normal(2)
    return x


def _nonlinear(rng, n):
    x = np.zeros((n, 2))
    for t in range(n - 1):
        x[t + 1] = [0.5 * x[t, 0] + np.tanh(2 * x[t, 1]), 0.8 * np.sin(2 * x[t, 0])] + 0.3 * rng.standard_normal(2)
    return x


def _coverage(make, n, seeds, steps=5):
    inside = []
    for seed in range(seeds):
        x = make(np.random.default_rng(seed), n + steps)
        # A small alpha: residuals of the fit are much smaller than errors on new rows.
        middle, low, high = OKVAR(alpha=0.01).fit(x[:n]).forecast(steps, interval=0.9)
        np.testing.assert_allclose(middle - low, high - middle)
        inside.append((low <= x[n:]) & (x[n:] <= high))
    return np.mean(inside)


def test_intervals_of_an_overfitted_model_cover():
    assert _coverage(_linear, 60, seeds=6) >= 0.85


@pytest.mark.long
@pytest.mark.parametrize("make", [_linear, _nonlinear])
def test_intervals_have_their_nominal_coverage(make):
    assert 0.86 <= _coverage(make, 120, seeds=40) <= 0.97


def test_intervals_of_several_series(made):
    model = OKVAR("linear", 1.0).fit(made.series)
    middle, low, high = model.forecast(2, made.series[0], interval=0.8)
    assert np.isfinite(low).all()
    assert (low < middle).all()
    assert (high > middle).all()


def test_intervals_need_two_blocks():
    x = _linear(np.random.default_rng(0), 20)
    with pytest.raises(ValueError, match="requires 26 points of a series, got at most 20: forecast fewer steps"):
        OKVAR().fit(x).forecast(12, interval=0.9)


def test_errors_ahead_are_those_of_forecasts():
    x = _linear(np.random.default_rng(0), 40)
    model = OKVAR(lag=2).fit(x)
    errors = model.scale_ * model.dynamics_.forecast_errors(model.series_[0], 3)
    assert errors.shape == (38, 3, 2)
    np.testing.assert_allclose(errors[10], x[12:15] - model.forecast(3, x[:12]))
    np.testing.assert_allclose(errors[-1, 0], x[39] - model.forecast(1, x[:39])[0])
    assert np.isnan(errors[-1, 1:]).all()


def test_forecast_errors(made):
    model = OKVAR().fit(made.series)
    with pytest.raises(ValueError, match="fitted to 3: pass one series as X"):
        model.forecast(2)
    with pytest.raises(ValueError, match="end in 1 consecutive complete states"):
        model.forecast(2, np.full((2, 3), np.nan))
    with pytest.raises(ValueError, match="interval must be"):
        model.forecast(2, made.series[0], interval=1.0)


def test_networks_by_threshold_number_and_name(made):
    model = OKVAR().fit(frame(made), series="series", times="time")
    scores = model.edge_scores()
    assert (np.diagonal(scores) == 0).all()
    assert model.network(top_k=2).chosen.sum() == 2
    level = float(np.sort(scores, axis=None)[-3])
    assert model.network(threshold=level).chosen.sum() == 2
    graph = model.network(top_k=2).to_networkx()
    assert isinstance(graph, nx.DiGraph)
    assert list(graph) == made.feature_names
    source, end, score = model.network(top_k=1).edges[0]
    assert graph.edges[source, end]["score"] == score
    with pytest.raises(ValueError, match="threshold, top_k and fdr cannot be combined"):
        model.network(threshold=0.1, top_k=2)


def test_aggregates(made):
    model = OKVAR().fit(made.series)
    J = model.dynamics_.standard_jacobian()
    off = ~np.eye(3, dtype=bool)
    for name, expected in {
        "mean": np.abs(J.mean(axis=0)),
        "median": np.abs(np.median(J, axis=0)),
        "mean_abs": np.abs(J).mean(axis=0),
        "max_abs": np.abs(J).max(axis=0),
    }.items():
        np.testing.assert_allclose(model.edge_scores(aggregate=name)[off], expected.T[off])
    own = model.edge_scores(aggregate=lambda J: J.std(axis=0))
    np.testing.assert_allclose(own[off], J.std(axis=0).T[off])
    with pytest.raises(ValueError, match="aggregate must be a function or one of"):
        model.edge_scores(aggregate="sum")


def test_consensus_and_stability_for_every_option(made):
    models = [OKVAR("linear", alpha) for alpha in (0.1, 10.0)]
    for over in ("settings", "series", "subsamples"):
        network = consensus(models, made.series, over=over, n_subsamples=3, top_k=2, random_state=0)
        assert network.chosen.sum() == 2
        assert network.scores.max() <= 1.0
    assert consensus(models[0], frame(made), series="series", times="time").names == tuple(made.feature_names)
    stable = {"over": "subsamples", "average": "shares", "n_subsamples": 4, "random_state": 1}
    again = [consensus(models[0], made.series, **stable).scores for _ in range(2)]
    np.testing.assert_array_equal(*again)
    with pytest.raises(ValueError, match="average must be 'ranks' or 'shares', got 'votes'"):
        consensus(models, made.series, average="votes")
    with pytest.raises(ValueError, match="over must be"):
        consensus(models, made.series, over="time")
    with pytest.raises(ValueError, match="models must be a non-empty sequence of OKVAR"):
        consensus([Gaussian()], made.series)


def test_consensus_over_targets_averages_the_three_targets(made):
    found = consensus(OKVAR(alpha=0.5), made.series, over="targets", balance=1.0).scores
    forms = [OKVAR(alpha=0.5, target=target) for target in ("next", "increment", "integral")]
    scores = [form.fit(made.series).edge_scores(balance=1.0) for form in forms]
    np.testing.assert_allclose(found, rank_average(scores))
    # The target "integral" supports only a lag of 1.
    two = [OKVAR(lag=2, target=target).fit(made.series).edge_scores() for target in ("next", "increment")]
    np.testing.assert_allclose(consensus(OKVAR(lag=2), made.series, over="targets").scores, rank_average(two))


def test_consensus_with_two_processes_is_the_same(made):
    models = [OKVAR("linear", alpha) for alpha in (0.1, 10.0)]
    one = consensus(models, made.series).scores
    with joblib.parallel_config(backend="threading"):
        np.testing.assert_array_equal(one, consensus(models, made.series, n_jobs=2).scores)


def test_selection_criteria(made):
    models = [OKVAR("linear", alpha) for alpha in (1.0, 1e8)]
    best, values = best_okvar(models, made.series)
    assert best.bic_ == values.min()
    best, values = best_okvar(models, made.series, criterion="series")
    # The definition: fit without a series, predict each of its states from the previous one.
    errors = []
    for k, left in enumerate(made.series):
        fitted = OKVAR("linear", 1.0).fit([one for j, one in enumerate(made.series) if j != k])
        errors.append(np.mean(((fitted.predict(left)[:-1] - left[1:]) / fitted.scale_) ** 2))
    np.testing.assert_allclose(values[0], np.mean(errors))
    assert best.alpha == models[int(values.argmin())].alpha
    with pytest.raises(ValueError, match="at least 2 series"):
        best_okvar(models, made.series[0], criterion="series")


def test_selection_by_forecasts_of_left_out_series(made):
    models = [OKVAR("linear", alpha) for alpha in (1.0, 1e8)]
    best, values = best_okvar(models, made.series, criterion="forecast")
    assert best.alpha == models[int(values.argmin())].alpha
    # The definition: fit without a series, forecast four steps from each of its states.
    gaps = []
    for k, left in enumerate(made.series):
        fitted = OKVAR("linear", 1.0).fit([one for j, one in enumerate(made.series) if j != k])
        for end in range(1, 5):
            gaps.append((fitted.forecast(4, left[:end])[-1] - left[end + 3]) / fitted.scale_)
    np.testing.assert_allclose(values[0], np.log(np.square(gaps).mean(axis=0)).mean())
    with pytest.raises(ValueError, match="2 series, one with 5 points"):
        best_okvar(models, [one[:4] for one in made.series], criterion="forecast")


@pytest.mark.parametrize("target", ["next", "integral"])
def test_saved_models_predict_the_same(made, target, tmp_path):
    model = OKVAR(Gaussian(2.0) * Identity(), 0.1, L1(0.01), True, target=target, memory=1.0, tol=0.1)
    model.fit(made.series)
    ovk.save(model, tmp_path / "model.ovk")
    loaded = ovk.load(tmp_path / "model.ovk")
    np.testing.assert_array_equal(loaded.predict(made.series[0]), model.predict(made.series[0]))
    np.testing.assert_array_equal(loaded.edge_scores(), model.edge_scores())
