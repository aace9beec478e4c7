"""Data frames are learned and predicted as files are."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ovk

RNG = np.random.default_rng(0)
N = 100
TABLE = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "rock": RNG.choice(["x", "y"], N),
        "when": pd.date_range("2024-01-01", periods=N, freq="h"),
    },
    index=np.arange(N)[::-1],
)
TABLE["u"] = TABLE.a + (TABLE.rock == "x")
TABLE["v"] = np.where(RNG.uniform(size=N) < 0.3, np.nan, TABLE.a**2)
TABLE.iloc[3, 1], TABLE.iloc[5, 2] = None, pd.NaT
KINDS = {"pandas": TABLE, "polars": pl.from_pandas(TABLE)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_gives_the_model_of_its_file(kind, tmp_path):
    path = tmp_path / "t.csv"
    TABLE.to_csv(path, index=False)
    frame = KINDS[kind]
    model, of_file = ovk.fit_file(frame, ["u", "v"]), ovk.fit_file(path, ["u", "v"])
    assert model.preparation.describe() == of_file.preparation.describe()
    inputs = TABLE.drop(columns=["u", "v"]) if kind == "pandas" else frame.drop("u", "v")
    found, expected = model.predict_file(inputs), of_file.predict_file(path)
    predicted = model.predict(inputs)
    assert list(predicted.columns) == ["u", "v"]
    for name in ("u", "v"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)
        np.testing.assert_array_equal(predicted[name].to_numpy(), found[name])
    if kind == "pandas":
        assert (predicted.index == TABLE.index).all()


def test_classes_of_a_frame(tmp_path):
    frame = TABLE[["a", "rock"]].assign(sign=np.where(TABLE.a > 0, "plus", "minus"))
    model = ovk.fit_file(frame, "sign", classify=True)
    assert (model.predict(frame).sign == frame.sign).mean() > 0.9
    ovk.save(model, tmp_path / "m.ovk")
    again = ovk.load(tmp_path / "m.ovk").predict(frame)
    assert (again.sign == model.predict(frame).sign).all()


def test_a_cell_that_cannot_be_read_is_missing():
    model = ovk.fit_file(TABLE[["a", "u"]], "u")
    new = pd.DataFrame({"a": [0.1, "?!", *[0.2] * 8]}, index=list("abcdefghij"))
    with pytest.warns(UserWarning, match="data frame: 1 row"):
        found = model.predict(new)
    assert found.index.tolist() == list("abcdefghij")
    assert found.u.notna().all()


def test_what_is_no_frame_is_rejected():
    model = ovk.fit_file(TABLE[["a", "u"]], "u")
    with pytest.raises(TypeError, match="predict_file takes a path"):
        model.predict(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="unique column names"):
        ovk.fit_file(pd.DataFrame(np.zeros((9, 2)), columns=["a", "a"]), "a")
