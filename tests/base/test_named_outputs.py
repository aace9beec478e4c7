"""If Y is a data frame, predictions are a frame of the same library with the same column names."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ovk
from ovk.base import OutputFrame
from ovk.evaluation import WithIntervals
from ovk.kernels import Gaussian
from ovk.operators import Integral, MixedEffect
from ovk.plotting import IntervalDisplay, OutputGraphDisplay, OutputStructureDisplay, PredictionDisplay

RNG = np.random.default_rng(0)
N = 40
X = RNG.uniform(-1, 1, (N, 2))
Y = np.column_stack([np.sin(3 * X[:, 0]), X[:, 1] ** 2]) + 0.1 * RNG.standard_normal((N, 2))
NAMES = ["zinc", "lead"]
INDEX = pd.Index(np.arange(N) + 100)
K = Gaussian(0.7) * MixedEffect(0.5)
BATCH = {
    "ridge": lambda: ovk.OVKRidge(K, alpha=0.1),
    "landmarks": lambda: ovk.OVKRidge(K, alpha=0.1, landmarks=X[:8]),
    "ridge-cv": lambda: ovk.OVKRidgeCV(K, alphas=[0.1, 1.0]),
    "output-kernel": lambda: ovk.OutputKernelRidge(Gaussian(0.7)),
    "curves": lambda: ovk.FunctionalRidge(Gaussian(0.7) * Integral(), alpha=0.1),
    "field": lambda: ovk.VectorField(K, alpha=0.1, criterion=None),
    "movkl": lambda: ovk.MovKL([K, Gaussian(2.0) * MixedEffect(0.5)]),
    "svr": lambda: ovk.MultiTaskSVR(K),
    "operator": lambda: ovk.OperatorRidge(Gaussian(1.0), alpha=0.1, decay=1.0),
}
ONLINE = {
    "olok": lambda: ovk.OLOK(K),
    "kawv": lambda: ovk.KAWV(K),
    "pkawv": lambda: ovk.PKAWV(K, random_state=0),
    "auto": ovk.AutoStream,
    "online-movkl": lambda: ovk.OnlineMovKL([K, Gaussian(2.0) * MixedEffect(0.5)]),
}
ALL = {**BATCH, **ONLINE}


def frames(library, X=X, Y=Y):
    if library == "polars":
        return pl.DataFrame(X, schema=["a", "b"]), pl.DataFrame(Y, schema=NAMES)
    index = INDEX[: len(X)]
    return pd.DataFrame(X, columns=["a", "b"], index=index), pd.DataFrame(Y, columns=NAMES, index=index)


def same(found, expected, library):
    """A frame of that library with these numbers and the names of the outputs."""
    assert type(found) is {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    assert list(found.columns) == NAMES
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("name", ALL)
def test_predictions_are_frames_of_the_kind_that_came_in(name, library, tmp_path):
    inputs, outputs = frames(library)
    plain, named = ALL[name]().fit(X, Y), ALL[name]().fit(inputs, outputs)
    expected, found = plain.predict(X), named.predict(inputs)
    assert type(expected) is np.ndarray
    assert plain.output_names_ == ["y0", "y1"]
    assert named.output_names_ == NAMES
    same(found, expected, library)
    if library == "pandas":
        assert found.index.equals(INDEX)
    ovk.save(named, tmp_path / "model.ovk")
    loaded = ovk.load(tmp_path / "model.ovk")
    assert loaded.output_names_ == NAMES
    same(loaded.predict(inputs), expected, library)
    assert clone(named).output_frame_ is None
    assert type(named.fit(X, Y).predict(X)) is np.ndarray  # names are those of the last fit


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("name", ONLINE)
def test_learners_of_streams_take_frames_as_they_come(name, library):
    plain, named = ALL[name](), ALL[name]()
    for rows in (slice(0, 15), slice(15, 16), slice(16, N)):
        expected = plain.predict_then_learn(X[rows], Y[rows])
        same(named.predict_then_learn(*frames(library, X[rows], Y[rows])), expected, library)
    with pytest.raises(ValueError, match="y has the columns lead, zinc but the model was fitted with zinc, lead"):
        named.partial_fit(frames(library)[0], frames(library)[1][["lead", "zinc"]])
    same(named.predict(frames(library)[0]), plain.predict(X), library)  # as it was
    named.partial_fit(frames(library)[0], Y)  # an array has no names to be wrong


@pytest.mark.parametrize("name", ["ridge", "curves", "ridge-cv", "movkl", "operator", "kawv", "pkawv"])
def test_standard_deviations_have_names(name):
    inputs, outputs = frames("pandas")
    expected = ALL[name]().fit(X, Y).predict(X, return_std=True)
    found = ALL[name]().fit(inputs, outputs).predict(inputs, return_std=True)
    for one, other in zip(found, expected, strict=True):
        same(one, other, "pandas")
        assert one.index.equals(INDEX)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("name", ["ridge", "curves", "field"])
def test_intervals_have_names(name, library):
    inputs, outputs = frames(library)
    expected = BATCH[name]().fit(X, Y).predict_interval(X)
    found = BATCH[name]().fit(inputs, outputs).predict_interval(inputs)
    for part in ("predictions", "lower", "upper", "width"):
        same(getattr(found, part), getattr(expected, part), library)
    np.testing.assert_array_equal(found.contains(outputs), expected.contains(Y))


def test_regions_of_streams_have_names():
    inputs, outputs = frames("pandas")
    expected, found = WithIntervals(ovk.OLOK(K), 0.8), WithIntervals(ovk.OLOK(K), 0.8)
    same(found.predict_then_learn(inputs, outputs), expected.predict_then_learn(X, Y), "pandas")
    same(found.predict_regions(inputs).lower, expected.predict_regions(X).lower, "pandas")


def test_covariances_long_form_and_other_grids_stay_arrays():
    inputs, outputs = frames("pandas")
    model = ovk.OVKRidge(K, alpha=0.1).fit(inputs, outputs)
    mean, covariance = model.predict(inputs, return_cov=True)
    assert type(mean) is pd.DataFrame
    assert covariance.shape == (N, 2, 2)
    assert type(model.predict(inputs, task=np.zeros(N, int))) is np.ndarray
    curves = BATCH["curves"]().fit(inputs, outputs)
    assert type(curves.predict(inputs, grid=np.array([0.2, 0.7]))) is np.ndarray
    long = ovk.OVKRidge(K, alpha=0.1).fit(inputs, outputs[["zinc"]], task=np.arange(N) % 2)
    assert long.output_names_ == ["y0", "y1"]


def test_a_series_and_a_column_are_what_they_were():
    inputs, outputs = frames("pandas")
    assert type(ovk.OVKRidge(Gaussian(0.7)).fit(inputs, outputs["zinc"]).predict(inputs)) is np.ndarray
    column = ovk.OVKRidge(Gaussian(0.7)).fit(inputs, outputs[["zinc"]]).predict(inputs)
    assert list(column.columns) == ["zinc"]


@pytest.mark.parametrize(
    "columns",
    [[0, 1], [0.5, 1.5], [("metals", "zinc"), ("metals", "lead")], pd.to_datetime(["2024-01-01", "2025-01-01"])],
)
def test_names_of_any_type(columns, tmp_path):
    model = ovk.OVKRidge(K).fit(X, pd.DataFrame(Y, columns=columns))
    ovk.save(model, tmp_path / "model.ovk")
    loaded = ovk.load(tmp_path / "model.ovk")
    assert loaded.output_frame_ == model.output_frame_
    kept = columns if isinstance(columns, list) else ["2024-01-01 00:00:00", "2025-01-01 00:00:00"]
    assert list(loaded.predict(X).columns) == kept
    assert all(type(name) is str for name in loaded.output_names_)


def nullable(library):
    """Columns of each nullable type, and the same as arrays: inputs without gaps, outputs with one."""
    whole, flags = np.arange(N) % 7, X[:, 1] > 0
    A, B = (
        np.column_stack([whole, X[:, 0], flags]).astype(float),
        np.column_stack([whole, Y[:, 0], flags]).astype(float),
    )
    B[3] = np.nan
    B[5, 2] = np.nan
    if library == "polars":

        def column(values, kind):
            return pl.Series([None if np.isnan(v) else v for v in values.tolist()], dtype=kind, strict=False)

        kinds = (pl.Int64, pl.Float64, pl.Boolean)
        return *(pl.DataFrame({n: column(M[:, j], kinds[j]) for j, n in enumerate("abc")}) for M in (A, B)), A, B
    kinds = (
        ("Int64", "Float64", "boolean")
        if library == "pandas"
        else ("int64[pyarrow]", "double[pyarrow]", "bool[pyarrow]")
    )

    def typed(values, kind):
        cells = pd.array([pd.NA if np.isnan(v) else v for v in values], dtype="Float64")
        return cells.astype("boolean").astype(kind) if "bool" in kind else pd.Series(cells).astype(kind)

    return *(pd.DataFrame({n: typed(M[:, j], kinds[j]) for j, n in enumerate("abc")}) for M in (A, B)), A, B


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "polars"])
@pytest.mark.parametrize("name", ["ridge", "default", "olok", "auto", "svr"])
def test_nullable_columns_are_numbers_with_gaps(name, library):
    inputs, outputs, A, B = nullable(library)
    make = ovk.OVKRidgeCV if name == "default" else ALL[name]
    found = make().fit(inputs, outputs).predict(inputs)
    np.testing.assert_allclose(np.asarray(found), make().fit(A, B).predict(A), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "polars"])
def test_missing_inputs_of_nullable_columns(library):
    _, gaps, _, holes = nullable(library)
    found = ovk.OVKRidgeCV().fit(gaps, Y).predict(gaps)
    np.testing.assert_allclose(found, ovk.OVKRidgeCV().fit(holes, Y).predict(holes), rtol=1e-9)
    for model in (ovk.OVKRidge(K), ovk.OLOK(K)):
        with pytest.raises(ValueError, match="NaN"):
            model.fit(gaps, Y)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_labels_have_names(library):
    table = {"rock": np.where(X[:, 0] > 0, "lime", "clay"), "wet": X[:, 1] > 0}
    y = (
        pd.DataFrame(table, index=INDEX)
        if library == "pandas"
        else pl.DataFrame({k: v.tolist() for k, v in table.items()})
    )
    model = ovk.OVKClassifier(Gaussian(0.7)).fit(X, y)
    found = model.predict(frames(library)[0].to_numpy())
    assert model.output_names_ == list(found.columns) == ["rock", "wet"]
    assert set(found["rock"].to_list()) == {"lime", "clay"}
    assert {type(one) for one in found["wet"].to_list()} == {bool}
    tasks = ovk.MultiTaskSVC(Gaussian(0.7)).fit(X, frames(library, X, (Y > 0.3).astype(float))[1])
    assert list(tasks.predict(X).columns) == NAMES
    assert tasks.score(X, Y > 0.3) > 0.8


def test_series_that_follow_themselves_have_names():
    table = pd.DataFrame(Y, columns=NAMES, index=INDEX)
    model = ovk.OKVAR(Gaussian(1.0), alpha=0.1).fit(table)
    assert model.output_names_ == NAMES
    assert model.predict(table).index.equals(INDEX)
    assert [list(part.columns) for part in model.forecast(3, interval=0.9)] == [NAMES] * 3
    assert type(ovk.OKVAR(Gaussian(1.0), alpha=0.1).fit(Y).forecast(2)) is np.ndarray


def test_chunks_of_frames_have_names():
    parts = [frames("pandas", X[:20], Y[:20]), frames("pandas", X[20:], Y[20:])]
    model = ovk.OVKRidge(K, alpha=0.1, landmarks=X[:8]).fit(iter(parts))
    assert model.output_names_ == NAMES
    parts[1] = parts[1][0], parts[1][1][["lead", "zinc"]]
    with pytest.raises(ValueError, match="y has the columns lead, zinc"):
        ovk.OVKRidge(K, alpha=0.1, landmarks=X[:8]).fit(iter(parts))


def test_the_tools_of_scikit_learn_take_frames():
    inputs, outputs = frames("pandas")
    model = ovk.OVKRidge(K, alpha=0.1)
    np.testing.assert_allclose(cross_val_predict(model, inputs, outputs), cross_val_predict(model, X, Y))
    search = GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=3).fit(inputs, outputs)
    assert list(search.predict(inputs).columns) == NAMES
    assert search.best_score_ == pytest.approx(GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=3).fit(X, Y).best_score_)
    scaled = make_pipeline(StandardScaler(), model).fit(inputs, outputs)
    assert scaled.predict(inputs).index.equals(pd.RangeIndex(N))  # the scaler returns an array
    assert scaled.set_output(transform="pandas").fit(inputs, outputs).predict(inputs).index.equals(INDEX)
    assert model.fit(inputs, outputs).score(inputs, outputs) == pytest.approx(clone(model).fit(X, Y).score(X, Y))
    with pytest.raises(ValueError, match="y has the columns lead, zinc"):
        model.score(inputs, outputs[["lead", "zinc"]])


def test_displays_show_the_names():
    inputs, outputs = frames("pandas")
    model = ovk.OVKRidge(K, alpha=0.1).fit(inputs, outputs)
    assert IntervalDisplay.from_estimator(model, inputs, outputs, plot=False).names == NAMES
    assert OutputStructureDisplay.from_estimator(model, plot=False).names == NAMES
    assert OutputGraphDisplay.from_estimator(model, plot=False).names == NAMES
    assert OutputGraphDisplay.from_estimator(model, names=["a", "b"], plot=False).names == ["a", "b"]
    assert PredictionDisplay.from_estimator(ovk.OVKRidge(K).fit(X[:, :1], outputs), plot=False).names == NAMES


def test_a_failed_fit_keeps_names_and_an_earlier_one_forgets_them():
    inputs, outputs = frames("pandas")
    for make in (ALL["ridge"], ALL["olok"]):
        model = make().fit(inputs, outputs)
        with pytest.raises(ValueError, match="infinity"):
            model.fit(X, np.full_like(Y, np.inf))
        assert model.output_names_ == NAMES


def test_without_the_library_predictions_are_arrays(monkeypatch):
    model = ovk.OVKRidge(K).fit(X, frames("polars")[1])
    monkeypatch.setitem(sys.modules, "polars", None)
    assert type(model.predict(X)) is np.ndarray


@pytest.mark.parametrize("bad", [("os", ["a"]), ("pandas", "a"), ("pandas", [["a"]]), ("pandas", [None])])
def test_a_file_cannot_ask_for_another_library_or_other_names(bad):
    with pytest.raises(ValueError, match=r"library \(pandas or polars\)|names must be list"):
        OutputFrame.from_state({"library": bad[0], "names": bad[1]})


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(4)))
def test_names_follow_the_columns(order):
    """Permuting the columns of Y permutes those of the prediction, names and all."""
    names = ["zinc", "lead", "iron", "tin"]
    Z = np.column_stack([Y, Y[:, ::-1] ** 2])
    whole = ovk.OVKRidge(Gaussian(0.7)).fit(X, pd.DataFrame(Z, columns=names)).predict(X)
    permuted = pd.DataFrame(Z, columns=names)[[names[q] for q in order]]
    found = ovk.OVKRidge(Gaussian(0.7)).fit(X, permuted).predict(X)
    np.testing.assert_allclose(found[names], whole[names], rtol=1e-9, atol=1e-12)
