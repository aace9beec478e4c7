"""Classification of streams and tables: sessions, files of predictions, new classes and missing labels."""

import csv
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ovk import load
from ovk.app.sessions import Session, Settings, fit_table, learn
from ovk.app.tables import open_records
from ovk.evaluation import Chunk, Evaluator
from ovk.evaluation.scaling_and_drift import Scaling
from ovk.online import AutoStreamClassifier

KEPT = {"warm_up": 100, "block": 50, "every": 100, "classify": True}


def table(path, n=400, *, late=250, missing=7, labels=("low", "mid", "high")):
    """Two inputs and three classes, the third from row `late` on; every seventh label is missing."""
    X = np.random.default_rng(0).standard_normal((n, 2))
    s = X[:, 0] + X[:, 1]
    codes = np.where(s > 1.0, np.where(np.arange(n) < late, 1, 2), (s > 0).astype(int))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "y"])
        for i, (x, code) in enumerate(zip(X, codes, strict=True)):
            writer.writerow([f"{x[0]:.4f}", f"{x[1]:.4f}", "?" if i % missing == 3 else labels[code]])
    return path


def run(path, **options):
    with open_records(path) as records:
        return learn(records, Settings(["y"], **KEPT), **options)


def lines(directory):
    return [row for part in sorted(directory.glob("part-*")) for row in csv.DictReader(part.read_text().splitlines())]


def test_a_stream_of_classes_is_learned_and_resumed(stream_of_classes, tmp_path):
    (tmp_path / "whole.ovk").write_bytes(stream_of_classes[0])
    whole, rows = load(tmp_path / "whole.ovk"), stream_of_classes[1]
    table(tmp_path / "t.csv")
    assert isinstance(whole, Session)
    result = whole.result()
    assert result.classes.tolist() == ["low", "mid", "high"]
    assert result.n_missing == sum(i % 7 == 3 for i in range(400))
    assert result.untested == 100
    assert result.model.accuracy > max(one.accuracy for one in result.baselines) + 0.2
    text = (tmp_path / "t.csv").read_text().splitlines(keepends=True)
    (tmp_path / "t.csv").write_text("".join(text[:201]))
    run(tmp_path / "t.csv", save_to=tmp_path / "part.ovk", predictions=tmp_path / "part")
    (tmp_path / "t.csv").write_text("".join(text))
    with open_records(tmp_path / "t.csv") as records:
        again = learn(records, None, resume=tmp_path / "part.ovk", predictions=tmp_path / "part")
    assert_allclose(again.result().model.confusion, result.model.confusion)
    assert_allclose(again.result().model.log_loss, result.model.log_loss, rtol=1e-9)
    assert lines(tmp_path / "part") == rows
    assert [int(row["row"]) for row in rows] == list(range(101, 401))
    assert {row["y"] for row in rows} <= {"low", "mid", "high"}
    assert "y=high" not in rows[0]
    shares = np.array([[float(row["y=low"]), float(row["y=mid"])] for row in rows])
    assert (shares.sum(axis=1) <= 1 + 1e-5).all()
    assert rows[2]["y outcome"] == ("" if (102) % 7 == 3 else rows[2]["y outcome"])


def test_a_saved_session_predicts_the_same(tmp_path):
    session = run(table(tmp_path / "t.csv"), save_to=tmp_path / "m.ovk")
    loaded = load(tmp_path / "m.ovk")
    with open_records(tmp_path / "t.csv") as records:
        batch = next(records.batches(20))
        found = [one.predictor().bind(records.names, "t").predict(batch) for one in (session, loaded)]
    assert_allclose(found[0].F, found[1].F)
    assert_allclose(found[0].F.sum(axis=1), 1.0)
    assert found[0].labels == ["low", "mid", "high"]
    assert_array_equal(loaded.result().drift.losses, session.result().drift.losses)


@pytest.mark.parametrize("model", ["pkawv", "olok"])
def test_models_with_fixed_classes_reject_new_ones(tmp_path, model):
    path = table(tmp_path / "t.csv", late=1000)
    with open_records(path) as records:
        session = learn(records, Settings(["y"], **KEPT, model=model))
    assert session.result().model.accuracy > 0.75
    assert np.isfinite(session.result().model.log_loss)
    with (
        open_records(table(tmp_path / "t.csv")) as records,
        pytest.raises(ValueError, match=r"class 'high' is not in the warm-up rows, .* use the model auto"),
    ):
        learn(records, Settings(["y"], **KEPT, model=model))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (lambda i: f"{i / 7:.3f}", "look like a quantity"),
        (lambda i: str(i), "look like a quantity"),
        (lambda i: f"word{i}", "look like names, not classes"),
        (lambda i: "?", "has no label in the first rows"),
    ],
)
def test_values_that_are_not_classes_are_rejected(tmp_path, cell, message):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i % 5},{cell(i)}\n" for i in range(300)))
    with pytest.raises(ValueError, match=message):
        run(path)
    with open_records(path) as records, pytest.raises(ValueError, match="one target"):
        learn(records, Settings(["x", "y"], **KEPT))


def test_labels_that_are_whole_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i % 5},{i % 5 // 2}{'.0' if i % 3 else ''}\n" for i in range(300)))
    assert run(path).result().classes.tolist() == ["0", "1", "2"]


def test_a_table_of_classes(tmp_path):
    with open_records(table(tmp_path / "t.csv", 300, late=0)) as records:
        fitted = fit_table(records, Settings(["y"], kernel="gaussian", classify=True))
    model, majority = fitted.scores
    assert model.accuracy > majority.accuracy + 0.2
    assert model.log_loss < majority.log_loss
    assert model.confusion.sum() == len([i for i in range(300) if i % 7 != 3]) // 5
    with open_records(tmp_path / "t.csv") as records:
        found = fitted.predictor().bind(records.names, "t").predict(next(records.batches(10)))
    assert_allclose(found.F.sum(axis=1), 1.0)


def test_majority_and_no_change_do_not_depend_on_chunks():
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((300, 1)), rng.integers(-1, 3, 300)
    results = []
    for size in (7, 300):
        evaluator = None
        for start in range(0, 300, size):
            part = slice(start, start + size)
            chunk = Chunk(X[part], np.where(codes[part] < 0, np.nan, codes[part]), ("x",), ("y",))
            evaluator = evaluator or Evaluator.start(AutoStreamClassifier(), None, Scaling(), chunk)
            evaluator.predict_then_learn(chunk, classes=["a", "b", "c"], tested=True)
        results.append(evaluator.result())
    for one, other in zip(results[0].baselines, results[1].baselines, strict=True):
        assert_array_equal(one.confusion, other.confusion)
        assert one.log_loss == pytest.approx(other.log_loss)
        assert one.auc == pytest.approx(other.auc)
    assert_allclose(results[0].model.curve, results[1].model.curve)


def test_predictions_of_classes_with_times(tmp_path):
    """For a session and a table: no warning about intervals, and Parquet columns of times and labels."""
    path = tmp_path / "t.csv"
    days = np.datetime64("2024-01-01") + np.arange(200)
    rows = [f"{day},{i % 7},{'big' if i % 7 > 3 else 'small'}" for i, day in enumerate(days)]
    path.write_text("day,x,y\n" + "\n".join(rows))
    settings = Settings(["y"], time=["day"], classify=True, warm_up=50, kernel="gaussian")
    with open_records(path) as records:
        table = fit_table(records, settings)
    for model in (table, learn(path, settings)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = model.predict_file(path, keep="x")
        assert list(found) == ["x", "row", "time", "y", "probability", "y=big", "y=small", "y outcome"]
        assert found["time"].dtype.kind == "M"
        with open_records(path) as records:
            predictions = model.predictor().bind(records.names, "t").predict(next(records.batches(5)))
        arrow = pytest.importorskip("pyarrow")
        written = model.prediction_columns().table(predictions)
        assert arrow.types.is_timestamp(written.schema.field("time").type)
        assert written["y outcome"].to_pylist() == ["small"] * 4 + ["big"]
        with pytest.raises(ValueError, match="does not support classes"):
            model.forecast(3)
