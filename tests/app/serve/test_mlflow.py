"""MLflow models without pickle."""

import os
import warnings

import numpy as np
import pandas as pd
import pytest

import ovk
from ovk.app.serve.mlflow import save_model
from serving_rows import rows, table


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


def loaded(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow.pyfunc

        return mlflow.pyfunc.load_model(str(path))


def saved(file, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save_model(file, path)


def test_mlflow_loads_a_session(models, tmp_path):
    saved(models / "table.ovk", tmp_path / "model")
    assert not [name for _, _, names in os.walk(tmp_path / "model") for name in names if "pkl" in name]
    lines = table(4, seed=20)
    frame = pd.DataFrame(lines, columns=["word", "x", "a", "b"])[["word", "x"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = loaded(tmp_path / "model").predict(frame)
    assert list(found.columns) == ["a", "b"]
    session = ovk.load(models / "table.ovk")
    from ovk.app.tables import Batch

    session.preparation.bind(["word", "x"], predict=True)
    twin = session.predictor().predict(Batch([list(frame["word"]), list(frame["x"])], [1, 2, 3, 4], []))
    np.testing.assert_array_equal(found.to_numpy(), twin.F)


def test_mlflow_loads_a_learner(models, tmp_path):
    saved(models / "point.ovk", tmp_path / "model")
    X, _ = rows(3, seed=21)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = loaded(tmp_path / "model").predict(X)
    np.testing.assert_array_equal(found.to_numpy(), ovk.load(models / "point.ovk").predict(X))


def test_what_is_no_model_is_not_stored(tmp_path):
    (tmp_path / "no.ovk").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"no\.ovk"):
        save_model(tmp_path / "no.ovk", tmp_path / "model")


def test_mlflow_loads_a_session_of_classes(stream_of_classes, tmp_path):
    (tmp_path / "m.ovk").write_bytes(stream_of_classes[0])
    saved(tmp_path / "m.ovk", tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = loaded(tmp_path / "model").predict(pd.DataFrame({"a": [2.0, -2.0], "b": [2.0, -2.0]}))
    assert list(found.columns) == ["label"]
    assert found["label"][1] == "low"
