"""What the benchmark of defaults says of its rivals and of its own precision."""

import numpy as np
import pytest
from benchmarks.defaults import standard_error
from benchmarks.defaults_picture import draw
from benchmarks.rivals.regressors import MULTITASK, PROCESS, REGRESSORS, feasible, multitask_process


def test_the_standard_error_of_a_ratio_is_its_deviation_over_repetitions():
    rng = np.random.default_rng(0)

    def splits():
        size = rng.uniform(0.5, 1.5, 20)
        return 0.9 * size + 0.05 * rng.standard_normal(20), size + 0.05 * rng.standard_normal(20)

    pairs = [splits() for _ in range(400)]
    found = np.mean([standard_error(list(a), list(b)) for a, b in pairs])
    assert found == pytest.approx(np.std([a.mean() / b.mean() for a, b in pairs]), rel=0.15)
    assert np.isnan(standard_error([1.0], [1.0]))


def test_gaussian_processes_run_where_they_take_seconds():
    X = np.zeros((401, 2))
    assert not feasible(PROCESS, X, X[:, :1])
    assert feasible(PROCESS, X[:400], X[:400])
    assert not feasible(MULTITASK, X[:300], X[:300])
    assert all(feasible(name, X, X) for name in REGRESSORS if name not in (PROCESS, MULTITASK))


def test_multitask_of_gpytorch():
    pytest.importorskip("gpytorch", reason="this peer comes with the group peers")
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (40, 1))
    Y = np.hstack([np.sin(2 * X), 5 + 3 * np.cos(X)])
    found = multitask_process(X[:30], Y[:30], None).predict(X[30:])
    assert np.mean((found - Y[30:]) ** 2) < 0.1 * Y.var(axis=0).mean()


def test_the_picture_has_a_mark_for_each_regressor_that_ran(tmp_path):
    pytest.importorskip("matplotlib")
    errors = {"one": {"ours": 0.5, "base": 0.6, "rare": 0.7}, "two": {"ours": 0.8, "base": 0.7}}
    draw(errors, {"two"}, tmp_path / "picture.png", "base")
    assert (tmp_path / "picture.png").stat().st_size > 5000
