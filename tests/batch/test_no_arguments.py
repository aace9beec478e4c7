"""`OVKRidgeCV()` on raw tables: accuracy, fitted attributes and invariances."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_score

import ovk
from ovk import OVKRidge, OVKRidgeCV
from ovk.base import calendar_features
from ovk.batch.ridge.table_inputs import InputScaling
from ovk.batch.tuning.automatic import ALPHAS
from ovk.kernels import Gaussian
from ovk.operators import Dense


@pytest.fixture(scope="module")
def table():
    """Inputs of very different scales, and two outputs; the second is linear."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3)) * [1.0, 1000.0, 1e-3] + [0.0, 5000.0, 7.0]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    Y = np.column_stack([np.sin(2 * Z[:, 0]) + Z[:, 1], 50 * Z[:, 2] + 300]) + 0.05 * rng.standard_normal((80, 2))
    return X, Y


@pytest.fixture(scope="module")
def fitted(table):
    return OVKRidgeCV().fit(*table)


def test_it_is_better_than_a_ridge_of_the_inputs(table):
    X, Y = table
    ours = cross_val_score(OVKRidgeCV(), X, Y, cv=3).mean()
    assert ours > 0.85
    assert ours > cross_val_score(RidgeCV(), X, Y, cv=3).mean() + 0.1


def test_it_equals_ridge_regression_with_the_learned_operator(table, fitted):
    X, Y = table
    Z = fitted.inputs_(X)
    assert_allclose(Z.mean(axis=0), 0.0, atol=1e-10)
    assert_allclose(Z.std(axis=0), 1.0)
    ridge = OVKRidge(fitted.kernel_, fitted.alpha_).fit(Z, Y)
    assert_allclose(fitted.predict(X[:9] + 0.001), ridge.predict(fitted.inputs_(X[:9] + 0.001)), rtol=1e-10)
    # In standard units the operator is the identity, and the alphas are those of the choice.
    deviation = Y.std(axis=0)
    assert_allclose(fitted.kernel_.operator.dense(), np.diag(deviation**2))
    assert_allclose(fitted.alpha_, fitted.choice_.alphas * deviation**2)
    assert_allclose(fitted.best_error_, fitted.errors_.min())
    assert fitted.output_errors_.shape == (len(fitted.choice_.names), 1, len(ALPHAS), 2)


def test_jacobian_by_differences():
    X = np.random.default_rng(4).uniform(-1, 1, (50, 2)) * [1.0, 100.0]
    Y = np.column_stack([np.sin(3 * X[:, 0]) + 0.01 * X[:, 1], np.cos(0.02 * X[:, 1])])
    # Without noise alpha is so small that rounding dominates differences.
    model = OVKRidgeCV().fit(X, Y + 0.01 * np.random.default_rng(5).standard_normal(Y.shape))
    for j, step in enumerate(np.diag([1e-5, 1e-3])):
        slope = (model.predict(X[:5] + step) - model.predict(X[:5] - step)) / (2 * step[j])
        assert_allclose(model.jacobian(X[:5])[:, :, j], slope, rtol=1e-5, atol=1e-7)


def test_save_and_load(table, fitted, tmp_path):
    X, _ = table
    ovk.save(fitted, tmp_path / "model.ovk")
    again = ovk.load(tmp_path / "model.ovk")
    for found, expected in zip(again.predict(X, return_std=True), fitted.predict(X, return_std=True), strict=True):
        assert np.array_equal(found, expected)
    assert again.choice_.names == fitted.choice_.names
    assert np.array_equal(again.choice_.errors, fitted.choice_.errors)


def test_a_constant_input_does_not_count(table):
    X, Y = table
    wide = np.column_stack([X, np.full(len(X), 3.0)])
    model = OVKRidgeCV().fit(wide, Y)
    new = wide[:5].copy()
    new[:, 3] = 1e6
    assert_allclose(model.predict(new), OVKRidgeCV().fit(X, Y).predict(X[:5]), rtol=1e-6)


def test_unscaled_inputs_on_request(table):
    X, Y = table
    model = OVKRidgeCV(standardize=False).fit(X, Y)
    assert model.inputs_ is None
    assert np.array_equal(model.X_fit_, X)


def test_sparse_inputs_are_taken_as_they_are():
    rng = np.random.default_rng(1)
    X = sparse.csr_array(np.where(rng.uniform(size=(60, 20)) < 0.2, rng.standard_normal((60, 20)), 0.0))
    y = np.asarray(X.sum(axis=1)).ravel()
    model = OVKRidgeCV().fit(X, y)
    assert model.inputs_ is None
    assert model.score(X, y) > 0.9


def test_a_repeated_row_is_a_row_of_weight_two(table):
    X, Y = table
    # Almost without noise, alpha is so small that rounding exceeds the tolerance.
    X, Y = X[:40], Y[:40] + 0.3 * Y.std(axis=0) * np.random.default_rng(2).standard_normal((40, 2))
    twice = np.r_[np.arange(40), [3, 7, 7]]
    weight = np.ones(40)
    weight[[3, 7]] = 2.0, 3.0
    one, other = OVKRidgeCV().fit(X[twice], Y[twice]), OVKRidgeCV().fit(X, Y, weight)
    assert one.choice_.names[0] == other.choice_.names[0]
    assert_allclose(one.predict(X), other.predict(X), rtol=1e-6)


def test_related_outputs_with_gaps_are_coupled():
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (200, 2))
    truth = np.sin(2 * X[:, :1]) * X[:, 1:] * [1.0, 10.0, -5.0, 2.0]
    Y = truth + 0.05 * truth.std(axis=0) * rng.standard_normal(truth.shape)
    seen = np.where(rng.random(Y.shape) < 0.7, np.nan, Y)
    model = OVKRidgeCV().fit(X, seen)
    assert model.choice_.operator[0, 1] > 0.3
    assert model.choice_.operator[0, 2] < -0.3
    apart = OVKRidgeCV(model.choice_.kernel, alpha_per_target=True).fit(model.inputs_(X), seen)
    assert model.score(X, truth) > apart.score(model.inputs_(X), truth)


def test_with_operators_to_choose_from_only_the_kernel_is_found(table):
    X, Y = table
    model = OVKRidgeCV(omegas=[0.0, 0.5], alphas=[0.01, 0.1]).fit(X, Y)
    assert model.errors_.shape == (1, 2, 2)
    assert model.omega_ == 0.0
    assert_allclose(model.kernel_.scalar(model.X_fit_), model.choice_.kernel(model.X_fit_))


def test_groups_and_time_are_about_the_kernel(table):
    X, Y = table
    groups = [f"patient {i // 8}" for i in range(len(X))]
    assert OVKRidgeCV().fit(X, Y, groups=groups).best_error_ > 0
    assert OVKRidgeCV(time_order=True).fit(X, Y).best_error_ > 0
    with pytest.raises(ValueError, match="groups and time_order require kernel=None"):
        OVKRidgeCV(Gaussian()).fit(X, Y, groups=groups)
    with pytest.raises(ValueError, match="groups must have one entry for each of the 80 rows"):
        OVKRidgeCV().fit(X, Y, groups=groups[1:])
    with pytest.raises(ValueError, match="at least 2 distinct labels"):
        OVKRidgeCV().fit(X, Y, groups=np.zeros(len(X)))


def test_the_choice_without_an_intercept(table):
    X, Y = table
    model = OVKRidgeCV(fit_intercept=False).fit(X, Y)
    assert model.intercept_ is None
    assert model.score(X, Y) > 0.9


@settings(max_examples=8, deadline=None)
@given(
    factor=st.floats(1e-3, 1e3),
    shift=st.floats(-100.0, 100.0),
    scales=st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3),
)
def test_scales_of_outputs_and_inputs(table, fitted, factor, shift, scales):
    X, Y = table
    mean, std = fitted.predict(X[:7], return_std=True)
    other = OVKRidgeCV().fit(X * scales, factor * Y + shift)
    found, spread = other.predict(X[:7] * scales, return_std=True)
    assert_allclose(found, factor * mean + shift, rtol=1e-5, atol=1e-6 * factor * np.abs(Y).max() + 1e-8 * abs(shift))
    assert_allclose(spread, factor * std, rtol=1e-3)


@settings(max_examples=4, deadline=None)
@given(order=st.permutations(range(3)))
def test_the_order_of_outputs(order):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 2))
    Y = np.column_stack([X[:, 0], np.sin(3 * X[:, 1]), rng.standard_normal(40)])
    mean, std = OVKRidgeCV().fit(X, Y).predict(X, return_std=True)
    found, spread = OVKRidgeCV().fit(X, Y[:, order]).predict(X, return_std=True)
    assert_allclose(found, mean[:, order], atol=1e-5)
    assert_allclose(spread, std[:, order], atol=1e-5)


def test_one_output_is_the_column_of_a_table(table):
    X, Y = table
    flat, column = OVKRidgeCV().fit(X, Y[:, 0]), OVKRidgeCV().fit(X, Y[:, :1])
    assert flat.predict(X).shape == (80,)
    assert_allclose(flat.predict(X), column.predict(X)[:, 0])
    assert isinstance(flat.kernel_.operator, Dense)


# ----------------------------------------------------------------------------------------------------- inputs of tables


def rocks(kind):
    """A data frame with words, gaps and integers, and its outputs."""
    rng = np.random.default_rng(6)
    rock = rng.choice(["clay", "lime", "sand"], 90)
    depth = rng.integers(0, 20, 90).astype(float)
    y = np.array([{"clay": 0.0, "lime": 3.0, "sand": -3.0}[r] for r in rock]) + 0.1 * depth
    seen = np.where(rng.random(90) < 0.2, np.nan, depth)
    columns = {"rock": rock.tolist(), "depth": [None if np.isnan(v) else int(v) for v in seen]}
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(columns), y
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"rock": pd.Categorical(columns["rock"]), "depth": pd.array(columns["depth"], dtype="Int64")})
    return frame, y


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_with_words_and_gaps(kind, tmp_path):
    frame, y = rocks(kind)
    model = OVKRidgeCV().fit(frame, y)
    assert model.score(frame, y) > 0.9
    assert model.n_features_in_ == 2
    assert list(model.feature_names_in_) == ["rock", "depth"]
    # Three kinds of rock, the depth, and whether it is missing.
    assert model.X_fit_.shape == (90, 5)
    ovk.save(model, tmp_path / "rocks.ovk")
    assert np.array_equal(ovk.load(tmp_path / "rocks.ovk").predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="missing value at row"):
        OVKRidgeCV(missing_inputs="error").fit(frame, y)
    with pytest.raises(ValueError, match="missing_inputs must be 'impute' or 'error'"):
        OVKRidgeCV(missing_inputs="drop").fit(frame, y)


def test_an_unseen_category_is_encoded_as_zeros():
    pd = pytest.importorskip("pandas")
    frame, y = rocks("pandas")
    model = OVKRidgeCV().fit(frame, y)
    new = pd.DataFrame({"rock": ["granite"], "depth": [10.0]})
    kinds = [model.predict(pd.DataFrame({"rock": [rock], "depth": [10.0]}))[0] for rock in ("clay", "lime", "sand")]
    assert min(kinds) < model.predict(new)[0] < max(kinds)
    with pytest.raises(ValueError, match="column 'wait' of X has dtype timedelta64"):
        OVKRidgeCV().fit(frame.assign(wait=pd.Timedelta("1h")), y)
    with pytest.raises(ValueError, match="column 'depth' of X must have numbers"):
        model.predict(pd.DataFrame({"rock": ["clay"], "depth": ["deep"]}))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_dates_in_frames_are_encoded_as_on_the_command_line(library, tmp_path):
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip(library)
    when = pd.Series(pd.date_range("2024-01-01", periods=60, freq="7h"))
    y = np.sin(2 * np.pi * when.dt.hour.to_numpy() / 24)
    frame = pd.DataFrame({"when": when, "noise": np.random.default_rng(0).standard_normal(60)})
    as_given = pl.from_pandas if library == "polars" else lambda same: same
    model = OVKRidgeCV().fit(as_given(frame[:40]), y[:40])
    expected = InputScaling.learn(calendar_features(when[:40].astype("datetime64[s]").astype(np.int64).to_numpy()))
    scaled = expected(calendar_features(when.astype("datetime64[s]").astype(np.int64).to_numpy()))
    assert_allclose(model.X_fit_[:, 1:], scaled[:40], atol=1e-10)
    assert model.score(as_given(frame[40:]), y[40:]) > 0.99
    # The local time counts.
    zoned = frame.assign(when=when.dt.tz_localize("Europe/Berlin"))
    assert_allclose(model.predict(as_given(zoned)), model.predict(as_given(frame)))
    gap = frame.assign(when=when.where(when.index > 0))
    assert np.isfinite(model.predict(as_given(gap))).all()
    with pytest.raises(ValueError, match="column 'when' of X must have the same type as in training"):
        model.predict(as_given(frame.assign(when=1.0)))
    ovk.save(model, tmp_path / "dates.ovk")
    assert_allclose(ovk.load(tmp_path / "dates.ovk").predict(as_given(frame)), model.predict(as_given(frame)))


def log_normal(n):
    L = np.random.default_rng(0).standard_normal((n, 3))
    return (
        L,
        np.exp(1.5 * L),
        np.sin(L[:, 0]) + 0.5 * L[:, 1] * L[:, 2] + 0.2 * np.random.default_rng(1).standard_normal(n),
    )


def test_skewed_inputs_are_replaced_by_normal_scores(monkeypatch):
    L, X, y = log_normal(360)
    model = OVKRidgeCV(metric=False).fit(X[:160], y[:160])
    assert model.inputs_.skewed.tolist() == [0, 1, 2]
    assert_allclose(model.inputs_(X[:160]).std(axis=0), 1.0, atol=0.02)
    plain = OVKRidgeCV(metric=False).fit(L[:160], y[:160])
    assert plain.inputs_.skewed.size == 0
    with monkeypatch.context() as changed:
        changed.setattr("ovk.batch.tuning.ridge_cv.MIN_FORM_ROWS", 1000)
        without = OVKRidgeCV(metric=False).fit(X[:160], y[:160])
    assert 1.0 - model.score(X[160:], y[160:]) < 0.5 * (1.0 - without.score(X[160:], y[160:]))
    inside = np.exp(np.random.default_rng(2).uniform(-1, 1, (5, 3)))
    for j, step in enumerate(1e-5 * np.eye(3)):
        slope = (model.predict(inside + step) - model.predict(inside - step)) / 2e-5
        assert_allclose(model.jacobian(inside)[:, 0, j], slope, atol=1e-3)
    with monkeypatch.context() as changed:
        # Some of the rows compare.
        changed.setattr("ovk.batch.tuning.automatic.MAX_WIDTH_ROWS", 100)
        assert OVKRidgeCV(metric=False).fit(X[:160], y[:160]).inputs_.skewed.size == 3
    # Where normal scores do not lower the error, inputs stay as they are.
    assert OVKRidgeCV(metric=False).fit(X[:160], X[:160, 0]).inputs_.skewed.size == 0


def test_rows_far_outside_the_training_range_are_reported():
    L, _, y = log_normal(60)
    model = OVKRidgeCV(metric=False).fit(L, y)
    new = L[:5].copy()
    new[3, 1] = 500.0
    with pytest.warns(
        UserWarning, match="1 row is far outside .* first row 3, column 1 with 500 .training range -"
    ) as told:
        model.predict(new)
    assert len(told) == 1
    pd = pytest.importorskip("pandas")
    names = ["a", "b", "c"]
    model.fit(pd.DataFrame(L, columns=names), y)
    with pytest.warns(UserWarning, match="first row 3, column 'b' with 500"):
        model.predict(pd.DataFrame(new, columns=names))


def test_missing_inputs_are_means_with_an_indicator():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((100, 2))
    missing = rng.random(100) < 0.3
    # Values are not missing at random: the indicator is informative.
    y = X[:, 0] + 2.0 * missing
    seen = np.where(np.column_stack([missing, np.zeros(100, bool)]), np.nan, X)
    model = OVKRidgeCV().fit(seen, y)
    assert_allclose(model.X_fit_[:, 2], missing)
    assert_allclose(model.X_fit_[missing, 0], 0.0)
    assert model.score(seen, y) > 0.75
    # A gap in a column without gaps in training is the mean.
    assert np.isfinite(model.predict([[0.0, np.nan]])).all()
    with pytest.raises(ValueError, match="NaN"):
        OVKRidgeCV(missing_inputs="error").fit(seen, y)
    with pytest.raises(ValueError, match="NaN"):
        OVKRidgeCV(Gaussian()).fit(seen, y)


# --------------------------------------------------------------------------------------------------------- other forms


def test_long_and_wide_form_agree():
    rng = np.random.default_rng(8)
    X = rng.uniform(-2, 2, (60, 1))
    Y = np.hstack([np.sin(2 * X), np.sin(2 * X) + 1.0]) + 0.05 * rng.standard_normal((60, 2))
    at, task = np.nonzero(rng.random(Y.shape) < 0.6)
    model = OVKRidgeCV().fit(X[at], Y[at, task], task=task)
    assert model.score(X, Y) > 0.95
    assert model.predict(X[:3], task=[0, 1, 0]).shape == (3,)


def test_tasks_that_never_share_a_row_are_coupled_by_a_common_part():
    rng = np.random.default_rng(9)
    X = rng.uniform(-3, 3, (120, 1))
    task = np.arange(120) % 12
    y = np.sin(2 * X[:, 0]) + 0.1 * task + 0.05 * rng.standard_normal(120)
    model = OVKRidgeCV().fit(X, y, task=task)
    operator = model.choice_.operator
    assert operator[0, 1] >= 0.5
    assert_allclose(operator - np.diag(np.diagonal(operator)), operator[0, 1] * (1 - np.eye(12)))
    new = np.linspace(-2, 2, 40)[:, None]
    assert np.mean((model.predict(new) - np.sin(2 * new) - 0.1 * np.arange(12)) ** 2) < 0.05


def test_many_rows_use_landmarks_with_a_warning(monkeypatch, table):
    monkeypatch.setattr("ovk.batch.tuning.ridge_cv.MAX_EXACT_ROWS", 60)
    monkeypatch.setattr("ovk.batch.tuning.ridge_cv.MAX_SINGLE_ROWS", 70)
    monkeypatch.setattr("ovk.batch.tuning.ridge_cv.DEFAULT_LANDMARKS", 40)
    X, Y = table
    with pytest.warns(UserWarning, match="80 rows are fitted with 40 landmarks"):
        model = OVKRidgeCV().fit(X, Y)
    assert model.landmarks_ is not None
    assert model.X_fit_.shape == (40, 3)
    assert model.score(X, Y) > 0.9
    with pytest.warns(UserWarning, match="40 landmarks"):
        assert OVKRidgeCV(Gaussian(2.0)).fit(X / X.std(axis=0), Y).landmarks_ is not None
    exact = OVKRidgeCV(landmarks=None).fit(X, Y)
    assert exact.landmarks_ is None
    assert OVKRidgeCV(landmarks=30).fit(X, Y).X_fit_.shape == (30, 3)


# ------------------------------------------------------------------------------------------------ unusual tables


def odd_table(kind, rng):
    """60 training rows and 60 test rows."""
    X = rng.standard_normal((120, 3))
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    Y = np.column_stack([f + 0.1 * rng.standard_normal(120), f])
    if kind == "heavy tails of the noise":
        Y[:, 0] += 0.3 * rng.standard_cauchy(120)
    elif kind == "heavy tails of the inputs":
        X = np.exp(2 * X)
    elif kind == "an output that never varies":
        Y[:, 0] = 3.1
    elif kind == "nothing but categories":
        X = np.round(X).clip(-1, 1)
        Y[:, 1] = X[:, 0] * X[:, 1]
    elif kind == "huge":
        X, Y = 1e12 * X, 1e15 * Y
    elif kind == "tiny, far from zero":
        X, Y = 1e6 + 1e-3 * X, 1.0 + 1e-9 * Y
    elif kind == "a wild input":
        X[0, 0] = 1e6
    elif kind == "more inputs than rows":
        X = np.column_stack([X, rng.standard_normal((120, 100))])
    return X, Y


@pytest.mark.parametrize(
    "kind",
    [
        "heavy tails of the noise",
        "heavy tails of the inputs",
        "an output that never varies",
        "nothing but categories",
        "huge",
        "tiny, far from zero",
        "a wild input",
        "more inputs than rows",
    ],
)
def test_unusual_tables_are_learned_without_a_warning(kind):
    X, Y = odd_table(kind, np.random.default_rng(20))
    new, truth = X[60:], Y[60:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = OVKRidgeCV().fit(X[:60], Y[:60])
        F, std = model.predict(new, return_std=True)
        inside = model.predict_interval(new).contains(truth)
    assert np.isfinite(F).all()
    assert np.isfinite(std).all()
    error = np.median(np.abs(F - truth), axis=0)
    assert (error <= 1.1 * np.median(np.abs(truth - Y[:60].mean(axis=0)), axis=0) + 1e-9 * np.abs(truth).max()).all()
    assert inside.mean() > 0.75


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_handful_of_rows(n):
    X = np.random.default_rng(21).standard_normal((n, 3))
    model = OVKRidgeCV().fit(X, X[:, 0])
    assert np.isfinite(model.predict(X)).all()
    assert np.isinf(model.predict_interval(X).upper).all()


def test_outputs_without_noise_get_a_small_alpha():
    X = np.random.default_rng(0).uniform(-1, 1, (120, 2))
    y = np.exp(X[:, 0]) * X[:, 1]
    model = OVKRidgeCV().fit(X[:80], y[:80])
    assert model.choice_.alphas[0] < 1e-7
    assert np.sqrt(np.mean((model.predict(X[80:]) - y[80:]) ** 2)) < 1e-4


@pytest.mark.parametrize(
    "alphas", [[10.0, 20.0, 30.0, 50.0, 100.0], [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]], ids=["smallest", "largest"]
)
def test_a_choice_at_the_edge_of_its_grid_is_reported(table, alphas, request):
    X, Y = table
    noise = np.random.default_rng(1).standard_normal(Y.shape)
    word = request.node.callspec.id
    with pytest.warns(UserWarning, match=f"edge of its grid.*the {word} candidate.*extend alphas"):
        OVKRidgeCV(Gaussian(1.0), alphas).fit(X / X.std(axis=0), Y if word == "smallest" else noise)
    OVKRidgeCV(Gaussian(1.0), alphas[:2]).fit(X / X.std(axis=0), Y)  # too few for a grid


def test_a_width_at_the_edge_of_its_grid_is_reported():
    X = np.random.default_rng(0).uniform(0, 1, (300, 1))
    y = np.sin(60 * X[:, 0])
    with pytest.warns(UserWarning, match="length scale .*, the smallest candidate.*a kernel with other length scales"):
        OVKRidgeCV().fit(X, y)
