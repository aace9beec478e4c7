"""A saved evaluator continues bit for bit."""

import numpy as np
import pytest
from sklearn.linear_model import SGDRegressor

from ovk import OLOK, load, progressive, save
from ovk.app.tables import chunks
from ovk.evaluation import Evaluator, LastValue, RefittedRidge, RunningMean
from ovk.evaluation.scaling_and_drift import MAX_DEVIATIONS, Scaling, Standardised
from ovk.evaluation.task import ScoreTable, printable
from ovk.persistence import register


def stream(n=900, d=2):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (n, 2))
    Y = np.sin(X @ rng.standard_normal((2, d))) + 0.1 * rng.standard_normal((n, d))
    Y[rng.uniform(size=Y.shape) < 0.2] = np.nan
    return X, Y


def run(tmp_path, stops=()):
    evaluator = None
    for number, chunk in enumerate(chunks(*stream(), chunk_size=100)):
        if evaluator is None:
            beside = [LastValue(), RunningMean(), RefittedRidge(max_rows=150)]
            evaluator = Evaluator.start(OLOK(truncation=200), beside, Standardised(running=True, robust=True), chunk)
        evaluator.predict_then_learn(chunk, tested=number > 0)
        if number in stops:
            path = tmp_path / f"evaluator{number}.ovk"
            evaluator.result() if number > 0 else None
            save(evaluator, path)
            evaluator = load(path)
    return evaluator


@pytest.mark.parametrize("stops", [(0,), (3,), (0, 1, 4, 7)])
def test_a_saved_and_loaded_evaluator_continues(tmp_path, stops):
    whole, parts = run(tmp_path), run(tmp_path, stops)
    a, b = whole.result(), parts.result()
    np.testing.assert_array_equal(a.rows, b.rows)
    np.testing.assert_array_equal(a.support_sizes, b.support_sizes)
    for one, other in zip((a.model, *a.baselines), (b.model, *b.baselines), strict=True):
        np.testing.assert_array_equal(one.mse_curve, other.mse_curve)
        np.testing.assert_array_equal(one.mae_curve, other.mae_curve)
    save(whole, tmp_path / "whole.ovk")
    save(parts, tmp_path / "parts.ovk")
    assert (tmp_path / "whole.ovk").read_bytes() == (tmp_path / "parts.ovk").read_bytes()


@register
class Linear(SGDRegressor):
    """A model of another library, which learns one row at a time."""


def test_a_model_of_another_library_continues_after_loading(tmp_path):
    found = []
    for stops in ((), (1,)):
        evaluator = None
        X, Y = stream(d=1)
        for number, chunk in enumerate(chunks(X, Y[:, 0], chunk_size=300)):
            evaluator = evaluator or Evaluator.start(Linear(random_state=0), None, Scaling(), chunk)
            evaluator.predict_then_learn(chunk, tested=number > 0)
            if number in stops:
                save(evaluator, tmp_path / "linear.ovk")
                evaluator = load(tmp_path / "linear.ovk")
        found.append(evaluator.result())
    whole, parts = found
    np.testing.assert_array_equal(whole.model.mse_curve, parts.model.mse_curve)
    assert whole.n_skipped == parts.n_skipped > 0


@pytest.mark.parametrize("options", [{"keep": "all"}, {"waiting": 3}])
def test_evaluators_that_cannot_be_saved(tmp_path, options):
    chunk = next(iter(chunks(*stream())))
    with pytest.raises(ValueError, match="cannot save an evaluator"):
        save(Evaluator.start(OLOK(), None, Scaling(), chunk, **options), tmp_path / "evaluator.ovk")


def test_the_evaluator_equals_progressive(tmp_path):
    X, Y = stream()
    found = progressive(OLOK(truncation=200), X, Y, scale="running", untested=100, chunk_size=100)
    np.testing.assert_array_equal(run(tmp_path).result().model.mse_curve, found.model.mse_curve)


def test_robust_scaling_fills_and_clips():
    scaling = Standardised(running=False, robust=True)
    rng = np.random.default_rng(0)
    scaling.scale_warm_up(rng.standard_normal((50, 2)), rng.standard_normal((50, 1)))
    X = np.array([[np.nan, 1e300], [-1e300, 0.0]])
    scaled = scaling.scale(X, np.array([[1e300], [np.nan]]))
    assert scaled.X[0, 0] == 0.0
    assert scaled.X[0, 1] == MAX_DEVIATIONS
    assert scaled.X[1, 0] == -MAX_DEVIATIONS
    np.testing.assert_array_equal(scaled.Y[:, 0], [MAX_DEVIATIONS, np.nan])
    np.testing.assert_array_equal(scaling.scale_inputs(X).X, scaled.X)


def test_scaling_before_the_first_row():
    with pytest.raises(ValueError, match="no rows have been scaled yet"):
        Standardised(running=True).scale_inputs(np.zeros((1, 2)))


def test_a_table_shows_the_first_rows_and_the_number_of_the_others():
    values = np.array([[0.25, 1.0], [3.0, np.nan], [0.5, 2.0]])
    lines = ScoreTable("errors", ("y\x1b[2J", "z", "u"), ("model", "mean"), values).lines(2)
    assert lines == [
        "errors",
        "       model   mean",
        "-------------------",
        "y[2J    0.25      1",
        "z          3      -",
        "... 1 more",
    ]
    assert printable("y [kg]\x1b[2J") == "y [kg][2J"
