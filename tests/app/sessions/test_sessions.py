"""Tests of sessions: no look-ahead, warm-up of short files, models by name, table models."""

import csv

import numpy as np
import pytest

from household import series
from ovk.app.sessions import MODELS, Session, Settings, fit_table, learn, make_model
from ovk.app.tables import open_records


def run(path, **settings):
    with open_records(path) as records:
        run = Session.start(records, Settings(["a", "b"], **settings))
        found = [run.learn_block(batch) for batch in iter(run.read, None)]
    return run.session, np.concatenate([predictions.F for predictions in found])


@pytest.mark.parametrize("model", [*MODELS, "auto"])
def test_nothing_looks_ahead(tmp_path, model):
    """Changing a row changes no prediction before it, nor its own if only its outputs change."""
    path = series(tmp_path / "t.csv", 500, missing=0.0)
    settings = {"lags": [1, 2], "time": ["Date", "Time"], "model": model, "warm_up": 100, "block": 64}
    _, before = run(path, **settings)
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = lines[301].split(",")
    lines[301] = ",".join([*cells[:4], "77", "-99"])
    path.write_text("\n".join(lines), encoding="utf-8")
    _, after = run(path, **settings)
    row = 301 - 1 - 100
    np.testing.assert_allclose(after[: row + 1], before[: row + 1], rtol=0, atol=1e-10)
    assert np.abs(after[row + 1 :] - before[row + 1 :]).max() > 0.01


def test_a_file_that_ends_with_its_warm_up_is_resumed_after_it(tmp_path):
    path, model = series(tmp_path / "t.csv", 128), tmp_path / "m.ovk"
    settings = Settings(["a", "b"], features=["x"], warm_up=128, block=64)
    with open_records(path) as records:
        assert learn(records, settings, save_to=model).offset == 128
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(path.read_text(encoding="utf-8").splitlines(keepends=True)[1:6])
    with open_records(path) as records:
        session = learn(records, None, resume=model)
    assert (session.offset, session.evaluator.n_rows) == (133, 133)


@pytest.mark.parametrize("model", MODELS)
def test_blocks_change_results_by_rounding_only(tmp_path, model):
    path = series(tmp_path / "t.csv", 400)
    results = [
        run(path, lags=[1], model=model, warm_up=100, block=block, features=["x", "word"])[1] for block in (30, 400)
    ]
    np.testing.assert_allclose(*results, atol=1e-8)


def test_a_short_file_keeps_most_rows_for_the_test(tmp_path):
    session, _ = run(series(tmp_path / "t.csv", 60), lags=[1], warm_up=1000)
    assert session.evaluator.warm_up == 15
    assert session.evaluator.n_rows == 60


def test_too_few_rows(tmp_path):
    path = series(tmp_path / "t.csv", 5)
    with pytest.raises(ValueError, match="has 5 rows to learn from"):
        run(path)
    with open_records(path) as records, pytest.raises(ValueError, match="has 5 rows"):
        fit_table(records, Settings(["a"]))


@pytest.mark.long
def test_forecasts_from_lags_beat_the_last_value(tmp_path):
    rng = np.random.default_rng(0)
    y = np.zeros((3000, 2))
    for t in range(2, 3000):
        y[t] = 1.5 * y[t - 1] - 0.8 * y[t - 2] + 0.1 * rng.standard_normal(2)
    cells = np.where(rng.uniform(size=y.shape) < 0.02, "?", y.round(6).astype(str))
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n".join(map(",".join, cells)), encoding="utf-8")
    session, _ = run(path, lags=[1, 2, 3], warm_up=300)
    found = session.result()
    assert (found.mse < found.baselines[0].mse).all()
    assert (found.mse < found.baselines[1].mse).all()
    assert (np.abs(session.recent.coverage[2] - 0.9) < 0.04).all()


def test_invalid_settings(tmp_path):
    for bad, message in (
        ({"warm_up": 1}, "warm_up"),
        ({"block": 0}, "block"),
        ({"model": "magic"}, "model must be"),
        ({"kernel": "magic"}, "kernel must be"),
        ({"coupling": 1.0}, "coupling must be below 1"),
    ):
        with pytest.raises(ValueError, match=message):
            run(series(tmp_path / "t.csv", 50), lags=[1], **bad)
    with open_records(tmp_path / "t.csv") as records, pytest.raises(ValueError, match="requires settings"):
        learn(records, None)


def test_a_table_model_estimates_its_errors_and_intervals(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 200)
    path = tmp_path / "t.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "a", "b"])
        writer.writerows(np.column_stack([x, np.sin(2 * x) + 0.1 * rng.standard_normal(200), np.cos(2 * x)]))
    with open_records(path) as records:
        fitted = fit_table(records, Settings(["a", "b"]))
    assert (fitted.scores[0].mse < 0.1 * fitted.scores[1].mse).all()
    assert 0.1 < fitted.recent.widths(0.9)[0] < 0.3


def test_models_by_name():
    assert make_model("auto", n_features=3).lag
    assert not make_model("auto", n_features=3, lags=True).lag
    for told in ({"coupling": 0.5}, {"kernel": "linear"}):
        assert type(make_model("auto", n_features=3, **told)).__name__ == "PKAWV"
        assert type(make_model("auto", n_features=3, classify=True, **told)).__name__ == "PKAWVClassifier"
    assert type(make_model("auto", n_features=3000)).__name__ == "OLOK"
    assert make_model("pkawv", "linear").features.n == 0


@pytest.mark.parametrize("how", ["stream", "table"])
def test_predicting_changes_nothing(tmp_path, how):
    path = series(tmp_path / "t.csv", 300)
    with open_records(path) as records:
        settings = Settings(["a", "b"], lags=[1, 2], warm_up=100)
        learned = learn(records, settings) if how == "stream" else fit_table(records, settings)
    with open_records(path) as records:
        learned.preparation.bind(records.names, records.label)
        batch = next(records.batches(50))
    before = learned.state()
    first, again = learned.predictor().predict(batch), learned.predictor().predict(batch)
    np.testing.assert_array_equal(first.F, again.F)
    np.testing.assert_equal(learned.preparation.lags_.past_, before["preparation"].lags_.past_)
    # Lags continue: those of the second batch are the outputs of the first.
    predictor = learned.predictor()
    np.testing.assert_array_equal(predictor.predict(batch).F, first.F)
    assert np.abs(predictor.predict(batch).F[:2] - first.F[:2]).max() > 1e-6


def test_a_column_that_changes_to_text_is_an_error(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{i % 7},{'oops' if i >= 300 else (3 * i) % 7}" for i in range(600)]
    path.write_text("x,y\n" + "\n".join(rows), encoding="utf-8")

    def run(**settings):
        with open_records(path) as records:
            return learn(records, Settings(["y"], warm_up=100, block=50, **settings))

    with pytest.raises(ValueError, match=r"'oops' in column 'y'.*more than the limit of 20%"):
        run()
    assert run(max_bad=0.6).n_bad == 300
