"""The tables of curves: at a small size, and what must come out."""

import numpy as np
import pytest

import reproduce
from ovk.curves import Grid
from ovk.kernels import Gaussian
from ovk.objectives import rsse
from ovk.operators import Integral
from reproduce import functional_rivals, movkl, weather
from reproduce.data import load_canadian_weather, make_bci

pytestmark = pytest.mark.long


def test_the_movkl_tables_have_all_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(movkl, "MOVKL_ALPHAS", np.array([0.1, 1.0]))
    monkeypatch.setattr(movkl, "make_bci", lambda n, random_state: make_bci(n, segment=12, random_state=random_state))
    result = reproduce.run("movkl", data_home=tmp_path, splits=2, n=14)
    assert len(result.rows) == 3 * 8
    assert sum(row.published is not None for row in result.rows) == 15
    assert result["LCR %, state: MovKL, l_2"] > 50
    assert any("moves the finger through an integral operator" in remark for remark in result.remarks)
    assert {"signals", "curves", "weights", "weights-equal"} <= set(result.figures)


def test_the_order_of_the_paper_is_said_to_appear_or_not():
    errors = {"MovKL, l_2": np.array([1.0, 1.2]), "MovKL, l_1": np.array([1.1, 1.3])}
    assert movkl.smallest("state", errors) == "Smallest RSSE for the state: MovKL, l_2, as in the paper."
    assert "does not appear here, where it is 0.2 behind" in movkl.smallest(
        "state", errors | {"KRR": np.array([0.8, 1.0])}
    )


def test_the_operator_of_the_generator_is_said_to_be_picked_or_not():
    shares = {("amplitude", "MovKL, l_1, equal traces"): [np.array([0.1, 0.0, 0.9])]}
    shares["amplitude", "MovKL, l_2, equal traces"] = [np.array([0.5, 0.1, 0.4])]
    text = movkl.picked(shares)
    assert "90% of the weights of MovKL, l_1, equal traces, the largest share" in text
    assert "40% of the weights of MovKL, l_2, equal traces, not the largest share" in text


def test_kernels_of_unit_variance():
    X = np.random.default_rng(0).uniform(-1, 1, (12, 2))
    scaled = weather.unit_variance([Gaussian(length) * Integral() for length in (0.1, 1.0, 30.0)], X)
    for kernel in scaled:
        K = kernel.scalar(X)
        assert np.trace(K) / len(X) - K.mean() == pytest.approx(1.0)
        assert isinstance(kernel.operator, Integral)
    twice = weather.unit_variance(scaled, X)
    assert [kernel.scalar.factor for kernel in twice] == pytest.approx([1.0] * 3)


def test_weather_coupled_outputs_beat_the_mean_curve(need, monkeypatch):
    year = need(load_canadian_weather)
    monkeypatch.setattr(weather, "WIDTHS", np.array([2.0, 4.0]))
    monkeypatch.setattr(weather, "ALPHAS", np.array([1e-4, 1e-3]))
    grid = Grid((year.grid[::5] - 0.5) / 365.0, period=1.0)
    X, Y = year.data[:, ::5], year.target[:, ::5]
    found = weather.left_out(weather.functional_ridge, X, Y, grid)
    mean = weather.left_out(weather.METHODS["mean curve"], X, Y, grid)
    error = {name: float(grid.inner(Y - F, Y - F).sum()) for name, F in (("ours", found), ("mean", mean))}
    assert error["ours"] < 0.5 * error["mean"]


@pytest.mark.parametrize("method", ["KernelRidge, one output a grid point", "MovKL, l_1", "MovKL, l_2"])
def test_other_methods_run(method):
    rng = np.random.default_rng(0)
    grid = Grid((np.arange(12) + 0.5) / 12, period=1.0)
    level = rng.standard_normal((14, 1))
    X = level + np.cos(2 * np.pi * grid.checked()) + 0.1 * rng.standard_normal((14, 12))
    Y = 2 * level + np.sin(2 * np.pi * grid.checked())
    assert ((weather.METHODS[method](X[:-1], Y[:-1], X[-1:], grid) - Y[-1]) ** 2).mean() < 0.5


def test_the_best_candidate_is_chosen_without_looking_and_a_failing_one_is_none():
    rng = np.random.default_rng(1)
    grid = Grid.regular(8)
    X = rng.standard_normal((20, 8))
    Y = 2.0 * X

    def failing(X, Y, new, grid):
        raise np.linalg.LinAlgError("singular")

    def blown_up(X, Y, new, grid):
        return np.full((len(new), Y.shape[1]), np.nan)

    def times(factor):
        return lambda X, Y, new, grid: factor * new

    chosen = functional_rivals.best([failing, times(1.0), blown_up, times(1.9), times(3.0)])
    np.testing.assert_allclose(chosen(X[1:], Y[1:], X[:1], grid), 1.9 * X[:1])


def test_scikit_fda_stands_beside(monkeypatch):
    monkeypatch.setattr(functional_rivals, "FOLDS", 3)
    ways = functional_rivals.scikit_fda()
    if not ways:
        pytest.skip("scikit-fda cannot be imported")
    rng = np.random.default_rng(0)
    grid = Grid((np.arange(24) + 0.5) / 24, period=1.0)
    level = rng.standard_normal((30, 1))
    X = level * np.cos(2 * np.pi * grid.checked()) + 0.05 * rng.standard_normal((30, 24))
    Y = 2 * level + np.sin(2 * np.pi * grid.checked())
    mean = rsse(Y[20:], np.tile(Y[:20].mean(axis=0), (10, 1)), grid)
    for name, way in ways.items():
        assert rsse(Y[20:], way(X[:20], Y[:20], X[20:], grid), grid) < 0.5 * mean, name


def test_the_weather_table_says_who_is_missing(need, monkeypatch):
    need(load_canadian_weather)
    monkeypatch.setattr(weather, "scikit_fda", dict)
    result = reproduce.run("weather", methods=["mean curve"], curves=4)
    assert [row.name for row in result.rows] == ["weather: mean curve", "gait: mean curve"]
    assert any("scikit-fda cannot be imported" in remark for remark in result.remarks)
    monkeypatch.setattr(weather, "scikit_fda", lambda: {"scikit-fda, a": weather.METHODS["mean curve"]})
    result = reproduce.run("weather", methods=["scikit-fda, a"], curves=4)
    assert result["gait: scikit-fda, the best"] == result["gait: scikit-fda, a"]


def test_the_latency_is_found():
    result = reproduce.run("latency", n=100, repeats=1)
    assert abs(result["lag: tuned"] - 0.3) < 0.03
    assert abs(result["onset: tuned"] - 0.2) < 0.05
    assert result["lag, error: MovKL, l_1"] < 0.5 * result["lag, error: no lag"]
