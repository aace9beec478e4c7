"""A small run of operator learning: every row there, nonlinear kernels better than linear ones."""

import numpy as np
import pytest

import reproduce
from ovk.curves import Grid, ProductGrid

pytestmark = pytest.mark.long

pytest.importorskip("matplotlib")


def test_operators_in_small(tmp_path, monkeypatch):
    from matplotlib import pyplot as plt

    monkeypatch.setattr("reproduce.operators.TIMES_OURS", 0.2)
    options = {"sizes": (30, 80), "shifts": (30, 80), "test": 10, "size": 24, "steps": 5, "others": 40}
    result = reproduce.run("operators", directory=tmp_path, **options)
    assert result["Navier-Stokes, n = 80: OperatorRidge"] < result["Navier-Stokes, n = 30: OperatorRidge"]
    assert result["Navier-Stokes: slope of log error against log n"] < 0
    assert result["Navier-Stokes, n = 30, noise of 5%: OperatorRidge"] > result["Navier-Stokes, n = 30: OperatorRidge"]
    assert result["Darcy, smooth, n = 40: OperatorRidge"] < result["Darcy, smooth, n = 40: linear"]
    assert result["Burgers, n = 40, noise of 5%: OperatorRidge"] > result["Burgers, n = 40: OperatorRidge"]
    assert result["advection, n = 80: OperatorRidge"] < result["advection, n = 30: OperatorRidge"]
    assert set(result.figures) == {"errors", "fields"}
    # Flows that were solved and what was learned from them are read again.
    assert "navier-stokes-0.npz" in {path.name for path in tmp_path.iterdir()}
    monkeypatch.setattr("reproduce.operators.learned", None)
    again = reproduce.run("operators", directory=tmp_path, **options)
    assert again.rows == result.rows
    plt.close("all")


@pytest.mark.parametrize("name", ["FNO", "DeepONet"])
@pytest.mark.parametrize("shape", [(16,), (12, 10)])
def test_neural_operators_learn_a_smoothing(name, shape):
    pytest.importorskip("torch", reason="this peer comes with the group peers")
    from reproduce.neural_operators import RIVALS

    grid = ProductGrid.regular(shape) if len(shape) > 1 else Grid.regular(*shape)
    rng = np.random.default_rng(0)
    along = grid.checked().reshape(len(grid), -1).sum(axis=1)
    patterns = np.stack([np.ones(len(grid)), along, along**2])
    X = rng.standard_normal((80, 3)) @ patterns
    found = RIVALS[name](X[:70], 0.5 * X[:70], X[70:], grid, 2.0)
    assert found.shape == (10, len(grid))
    assert np.linalg.norm(found - 0.5 * X[70:]) < 0.5 * np.linalg.norm(0.5 * X[70:])
