"""Progressive evaluation equals a plain loop over rows, for every source, scaling and chunk size."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.linear_model import SGDRegressor
from sklearn.multioutput import MultiOutputRegressor

from memory import peak_memory
from ovk import OLOK, OVKRidge, progressive
from ovk.evaluation import LastValue, RefittedRidge
from ovk.evaluation.task import checkpoints
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect

N = 90


def data(seed=0, n=N, missing=0.15):
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 2.0, (n, 2))
    Y = np.column_stack([50 + 10 * np.sin(X[:, 0]), 0.1 * X[:, 1] - 1])
    Y[rng.uniform(size=Y.shape) < missing] = np.nan
    return X, Y


def olok(**kwargs):
    return OLOK(Gaussian(1.0) * MixedEffect(0.4), alpha=0.01, schedule=0.5, **kwargs)


def moments(A):
    """Mean and deviation of the observed values of each column; 0 and 1 without values."""
    mean, sd = np.zeros(A.shape[1]), np.ones(A.shape[1])
    for j, column in enumerate(A.T):
        seen = column[np.isfinite(column)]
        if len(seen):
            mean[j] = seen.mean()
        if len(set(seen)) > 1:
            sd[j] = seen.std()
    return mean, sd


def naive(model, X, Y, scale, warm_up):
    """Test, then train, one row at a time; predictions in original units."""
    F = np.full(Y.shape, np.nan)
    for t in range(len(X)):
        past = slice(0, max(t, warm_up)) if scale == "running" else slice(0, warm_up)
        (mx, sx), (my, sy) = moments(X[past]), moments(Y[past])
        if scale is None:
            mx, sx, my, sy = 0.0, 1.0, 0.0, 1.0
        f = my + sy * model.predict_then_learn((X[t : t + 1] - mx) / sx, (Y[t : t + 1] - my) / sy)[0]
        if t >= warm_up:
            F[t] = f
    return F


SCALES = [(None, 0), (None, 7), ("warm-up", 20), ("running", 0), ("running", 20)]


@pytest.mark.parametrize(("scale", "warm_up"), SCALES)
@settings(max_examples=6, deadline=None)
@given(cuts=st.lists(st.integers(0, N), max_size=5), seed=st.integers(0, 3))
def test_progressive_equals_a_plain_loop_for_any_chunks(scale, warm_up, cuts, seed):
    X, Y = data(seed)
    expected = naive(olok(), X, Y, scale, warm_up)
    parts = zip(np.split(X, sorted(cuts)), np.split(Y, sorted(cuts)), strict=True)
    baselines = ["last", "mean", RefittedRidge(max_rows=30)]
    result = progressive(olok(), parts, scale=scale, untested=warm_up, baselines=baselines, keep="all")
    np.testing.assert_allclose(result.predictions, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(result.inputs, X)
    np.testing.assert_array_equal(result.targets, Y)
    # The curves are means over the predictions so far.
    E = expected - Y
    E[:warm_up] = np.nan
    for k, t in enumerate(result.rows):
        seen = ~np.isnan(E[:t])
        np.testing.assert_array_equal(result.counts[k], seen.sum(axis=0))
        for q in range(2):
            if seen[:, q].any():
                e = E[:t, q][seen[:, q]]
                assert result.model.mse_curve[k, q] == pytest.approx((e**2).mean(), rel=1e-8)
                assert result.model.mae_curve[k, q] == pytest.approx(np.abs(e).mean(), rel=1e-8)
            else:
                assert np.isnan(result.model.mse_curve[k, q])
    whole = progressive(olok(), X, Y, scale=scale, untested=warm_up, baselines=baselines)
    np.testing.assert_array_equal(result.rows, whole.rows)
    for one, other in zip(result.baselines, whole.baselines, strict=True):
        np.testing.assert_allclose(one.mse_curve, other.mse_curve, rtol=1e-9)
        np.testing.assert_allclose(one.mae_curve, other.mae_curve, rtol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(("scale", "warm_up"), SCALES)
def test_predictions_do_not_depend_on_later_rows(scale, warm_up, missing):
    X, Y = data(missing=missing)
    # With missing outputs OLOK iterates to rounding, relative to the largest step around.
    huge, rtol = (100.0, 1e-12) if missing else (1e6, 0.0)
    baselines = ["last", "mean", "ridge"]

    def run(X, Y):
        return progressive(olok(), X, Y, scale=scale, untested=warm_up, baselines=baselines, chunk_size=32)

    before = run(X, Y)
    for t in (30, 31, 63, 64, 65):
        Z = Y.copy()
        Z[t] = [huge, -huge]
        after = run(X, Z)
        np.testing.assert_allclose(after.predictions[: t + 1], before.predictions[: t + 1], rtol=rtol)
        assert not np.array_equal(after.predictions[t + 1 :], before.predictions[t + 1 :])
        W = X.copy()
        W[t] = [1e3, -1e3]
        after = run(W, Y)
        # Kernels centre the inputs of a block, so another input changes the rounding.
        np.testing.assert_allclose(after.predictions[:t], before.predictions[:t], rtol=1e-11)
        # Baselines: their errors on the rows before.
        early = before.rows <= t
        for one, other in zip(after.baselines, before.baselines, strict=True):
            np.testing.assert_array_equal(one.mse_curve[early], other.mse_curve[early])


def test_all_sources_agree(tmp_path):
    X, Y = data()
    table = pd.DataFrame(np.hstack([X, Y]), columns=["a", "b", "y", "z"])
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    table.to_json(tmp_path / "t.jsonl", orient="records", lines=True, double_precision=15)
    expected = progressive(olok(), X, Y, scale="running", untested=20)
    named = {"targets": ["y", "z"]}
    for source, chosen in (
        (table, named),
        (pl.from_pandas(table), named),
        (tmp_path / "t.csv", named),
        (tmp_path / "t.parquet", named),
        (tmp_path / "t.jsonl", named),
        (str(tmp_path / "t.csv"), named),
        (np.hstack([X, Y]), {"targets": [2, 3]}),
        (iter([(X[:40], Y[:40]), (X[40:], Y[40:])]), {}),
    ):
        options = {"scale": "running", "untested": 20, "chunk_size": 16, **chosen}
        result = progressive(model=olok(), X=source, **options)
        np.testing.assert_allclose(result.predictions, expected.predictions, rtol=1e-8)
        np.testing.assert_allclose(result.mse, expected.mse, rtol=1e-8)
        assert result.outputs == (("y", "z") if chosen is named else result.outputs)


# Other estimators -----------------------------------------------------------------------------------------------------


def sgd():
    return SGDRegressor(random_state=0, eta0=0.001)


def test_an_estimator_with_partial_fit_gets_one_row_at_a_time():
    X, Y = data(missing=0.0)
    y = Y[:, 0]
    model, expected = sgd(), np.zeros(N)
    for t in range(N):
        if t > 0:
            expected[t] = model.predict(X[t : t + 1])[0]
        model.partial_fit(X[t : t + 1], y[t : t + 1])
    result = progressive(sgd(), X, y, chunk_size=17, untested=0)
    np.testing.assert_array_equal(result.predictions, expected)
    assert result.mse[0] == pytest.approx(((expected - y) ** 2).mean())
    assert result.support_sizes is None
    assert result.model.name == "SGDRegressor"


def test_several_outputs_of_an_estimator_with_partial_fit():
    X, Y = data()
    model, expected = MultiOutputRegressor(sgd()), np.zeros((N, 2))
    fitted = False
    for t in range(N):
        if fitted:
            expected[t] = model.predict(X[t : t + 1])[0]
        if not np.isnan(Y[t]).any():
            model.partial_fit(X[t : t + 1], Y[t : t + 1])
            fitted = True
    result = progressive(MultiOutputRegressor(sgd()), X, Y, chunk_size=25, untested=0)
    np.testing.assert_array_equal(result.predictions, expected)
    assert result.n_skipped == np.isnan(Y).any(axis=1).sum() > 0


def test_a_fitted_model_continues():
    X, Y = data()
    model = olok()
    first, second = progressive(model, X[:50], Y[:50]), progressive(model, X[50:], Y[50:])
    together = progressive(olok(), X, Y)
    np.testing.assert_allclose(
        np.vstack([first.predictions, second.predictions]), together.predictions, rtol=1e-9, atol=1e-12
    )


def test_the_first_row_is_tested_only_with_a_fitted_model():
    X, Y = data(missing=0.0)
    new, all_rows = progressive(olok(), X, Y), progressive(olok(), X, Y, untested=0)
    assert (new.untested, all_rows.untested) == (1, 0)
    assert np.isnan(new.predictions[0]).all()
    np.testing.assert_allclose(new.predictions[1:], all_rows.predictions[1:], rtol=1e-9)
    np.testing.assert_allclose(new.mse, np.mean((all_rows.predictions - Y)[1:] ** 2, axis=0))
    for one, other in zip(new.baselines, all_rows.baselines, strict=True):
        # The last value and the mean predict 0 for the first row.
        np.testing.assert_allclose((N - 1) * one.mse + Y[0] ** 2, N * other.mse)
    assert "1 row before them learned, not tested" in new.summary()
    for model, y in ((olok(), Y), (sgd(), Y[:, 0])):
        assert progressive(model.partial_fit(X, y), X, y).untested == 0


# The result -----------------------------------------------------------------------------------------------------------


def test_shapes_names_and_curves():
    X, Y = data()
    frame = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(Y, columns=["y", "z"])
    result = progressive(olok(truncation=10), *frame, chunk_size=8, untested=0)
    assert result.predictions.shape == (N, 2)
    assert (result.features, result.outputs) == (("a", "b"), ("y", "z"))
    assert result.rows.tolist() == [*checkpoints(0, N).tolist(), N][: len(result.rows)]
    assert result.rows[-1] == N
    assert result.n_rows == N
    assert result.seconds > 0
    assert result.rows_per_second == pytest.approx(N / result.seconds)
    assert result.support_rows[-1] == N
    assert result.support_sizes.max() <= 10
    assert [baseline.name for baseline in result.baselines] == ["last value", "running mean"]
    text = result.summary()
    assert "OLOK" in text
    assert f"{result.mse[1]:.4g}" in text
    # For several outputs, the ratios to the best baseline are those of the conclusion.
    best, ratio = result.against_best_baseline()
    mse = np.array([one.mse for one in (result.model, *result.baselines)])
    chosen = next(one for one in result.baselines if one.name == best)
    ratios = np.exp(np.log(mse / chosen.mse).mean(axis=1))
    assert ratio == pytest.approx(ratios[0])
    assert min(ratios[1:]) == pytest.approx(1.0)
    (line, _) = [line for line in text.splitlines() if line.startswith(f"relative to {best}")]
    assert line.split()[-3:] == [f"{value:.4g}" for value in ratios]
    assert "10 support points" in text


def test_one_dimensional_y_stays_so():
    X, Y = data(missing=0.0)
    flat, column = progressive(olok_scalar(), X, Y[:, 0]), progressive(olok_scalar(), X, Y[:, [0]])
    assert flat.predictions.shape == (N,)
    np.testing.assert_array_equal(flat.predictions, column.predictions[:, 0])
    np.testing.assert_array_equal(flat.mse, column.mse)
    assert "relative to" not in flat.summary()


def olok_scalar():
    return OLOK(Gaussian(1.0), alpha=0.01, schedule=0.5)


def test_one_row_and_no_row():
    X, Y = data(missing=0.0)
    one = progressive(olok(), X[:1], Y[:1], untested=0, baselines=["last", "mean", "ridge"])
    np.testing.assert_array_equal(one.mse, Y[0] ** 2)
    none = progressive(olok(), X[:0], Y[:0], keep="all")
    assert none.predictions.shape == none.targets.shape == (0, 2)
    assert none.inputs.shape == (0, 2)
    assert none.n_rows == 0
    assert np.isnan(none.mse).all()
    assert none.summary()
    with pytest.raises(ValueError, match="the iterable of chunks must contain at least one chunk"):
        progressive(olok(), iter([]))


def test_an_output_without_values_has_no_error():
    X, Y = data()
    Y[:, 1] = np.nan
    result = progressive(olok(), X, Y, untested=0, baselines=["last", "mean", "ridge"])
    assert np.isfinite(result.mse[0])
    assert np.isnan(result.mse[1])
    assert np.isfinite(result.predictions).all()
    assert sum(line.endswith(" -") for line in result.summary().splitlines()) == 2


def test_invalid_rows_are_skipped_for_all_learners_and_counted():
    X, Y = data(missing=0.0)
    X[10, 0], X[50], Y[60, 1] = np.nan, np.inf, np.inf
    result = progressive(olok(on_invalid="skip"), X, Y, scale="running", untested=20, baselines=["last", "ridge"])
    assert result.n_skipped == 3
    assert np.isnan(result.predictions[[50, 60]]).all()
    assert np.isfinite(np.delete(result.predictions[20:], [30, 40], axis=0)).all()
    np.testing.assert_array_equal(result.counts[-1], N - 20 - 2)
    assert np.isfinite(result.mse).all()
    assert all(np.isfinite(baseline.mse).all() for baseline in result.baselines)
    assert "3 rows not learned" in result.summary()


def test_errors_name_the_rows_of_the_stream():
    X, Y = data(missing=0.0)
    X[50, 0] = np.nan
    with pytest.raises(ValueError, match="row 18 contains NaN") as caught:
        progressive(olok(), X, Y, chunk_size=32)
    assert caught.value.__notes__ == ["The error occurred in rows 32 to 63 of the stream, counted from 0."]


class Poisoned(BaseEstimator):
    def predict_then_learn(self, X, y):
        F = np.zeros(y.shape)
        F[-1] = np.nan
        return F


def test_nan_predictions_count_as_errors():
    X, Y = data(missing=0.0)
    with pytest.warns(RuntimeWarning, match="Poisoned predicted nan or infinity for 1 rows, first for row 89"):
        assert np.isnan(progressive(Poisoned(), X, Y).mse).all()


def test_huge_outputs_do_not_fail():
    X, Y = data(missing=0.0)
    result = progressive(olok(), X, 1e300 * Y, scale="running", untested=20, baselines=["last", "mean"])
    assert np.isfinite(result.predictions[20:]).all()
    assert np.isinf(result.mse).all()


def test_keep_selects_the_stored_rows():
    X, Y = data()
    kept = progressive(olok(), X, Y)
    assert kept.predictions is not None
    assert kept.inputs is kept.targets is None
    none = progressive(olok(), X, Y, keep="none")
    assert none.predictions is none.inputs is none.targets is None
    np.testing.assert_array_equal(none.mse, kept.mse)


class Zero(BaseEstimator):
    def predict_then_learn(self, X, y):
        return np.zeros(y.shape)


@pytest.mark.long
def test_memory_does_not_grow_with_the_stream():
    def stream(n):
        for _ in range(n):
            yield np.ones((256, 4)), np.ones((256, 2))

    def run(n):
        baselines = ["last", "mean", RefittedRidge(max_rows=100)]
        progressive(Zero(), stream(n), scale="running", keep="none", baselines=baselines)

    # With ten times the rows only the curves grow, with the logarithm.
    limit = 2 * peak_memory(lambda: run(10), tries=2)
    assert peak_memory(lambda: run(100), limit) < limit


def test_order_of_the_errors_on_a_stationary_stream():
    X, Y = data(n=400, missing=0.0)
    result = progressive(olok(), X, Y, scale="warm-up", baselines=["last", "mean", "ridge"])
    last, mean, ridge = (baseline.mse for baseline in result.baselines)
    assert (ridge < mean).all()
    assert (result.mse < mean).all()
    assert (mean < last).all()


# Arguments ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": "minmax"}, "scale must be None, 'warm-up' or 'running'"),
        ({"keep": "some"}, "keep must be 'predictions', 'all' or 'none', got 'some'"),
        ({"baselines": ["median"]}, "baselines must be"),
        ({"untested": -1}, "untested must be an integer >= 0"),
        ({"scale": "warm-up", "untested": 1}, "untested must be an integer >= 2"),
        ({"untested": N}, f"ended after {N} rows without a test: lower untested"),
        ({"chunk_size": 0}, "chunk_size must be an integer >= 1"),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        progressive(olok(), *data(), **arguments)


def test_models_that_cannot_learn_from_a_stream():
    with pytest.raises(TypeError, match=r"model must have predict_then_learn .* got OVKRidge"):
        progressive(OVKRidge(), *data())


def test_predictions_of_the_wrong_shape_are_named():
    class Wrong:
        def predict_then_learn(self, X, y):
            return np.zeros(3)

    with pytest.raises(ValueError, match=r"Wrong must return predictions in the shape \(90, 2\) of y, got \(3,\)"):
        progressive(Wrong(), *data(), untested=0)


def test_one_baseline_and_none():
    assert [b.name for b in progressive(olok(), *data(), baselines="mean").baselines] == ["running mean"]
    assert progressive(olok(), *data(), baselines=[]).baselines == ()
    assert progressive(olok(), *data(), baselines=[LastValue()]).baselines[0].name == "last value"


@pytest.mark.parametrize("progress", [True, False])
def test_the_progress_bar_is_shown_on_request(progress, monkeypatch, capsys):
    monkeypatch.setenv("OVK_PROGRESS", "1")
    monkeypatch.setattr("ovk.base.execution.ProgressBar.DELAY", 0.0)
    monkeypatch.setattr("ovk.base.execution.ProgressBar.INTERVAL", 0.0)
    progressive(olok(), *data(), chunk_size=30, progress=progress)
    assert ("learning" in capsys.readouterr().err) is progress


def test_checkpoints_grow_geometrically():
    assert checkpoints(10, 40).tolist() == [11, 12, 13, 14, 15, 16, 18, 20, 21, 23, 25, 27, 30, 32, 35, 39]
