"""The figures of the projected forecaster, on small parts of their data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reproduce.online_rivals import SketchedNewton
from reproduce.regret_rates import CASES, best_in_ball
from scipy.optimize import minimize

import reproduce
from ovk.kernels import Gaussian, Matern
from ovk.online.theory import suggest_from_capacity
from reproduce.data import DatasetNotFound, available

pytestmark = pytest.mark.long


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_lines_of_the_theory_are_what_is_suggested(case):
    n = 10**12
    for x in np.linspace(0.05, 0.95, 19):
        found = suggest_from_capacity(n, case.gamma, m=round(n**x), known_beforehand=case.known_beforehand)
        assert_allclose(np.log(found.regret) / np.log(n), case.rate(np.array(x)), atol=1e-3)


def test_the_best_function_in_the_ball():
    rng = np.random.default_rng(0)
    K, y = Matern(1.5, 0.3)(rng.uniform(size=(12, 1))), 3 * rng.standard_normal(12)
    L = np.linalg.cholesky(K + 1e-12 * np.eye(12))
    found = minimize(
        lambda w: np.sum((y - L @ w) ** 2),
        0.1 * np.ones(12),
        constraints={"type": "ineq", "fun": lambda w: 1 - w @ w},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert_allclose(best_in_ball(K, y), found.fun, rtol=1e-5)


def test_rates():
    result = reproduce.run("regret_rates", ns=(60, 240), repeats=1)
    small, large = (result[f"gamma = 0.25, m = n^{x}"] for x in (0.2, 0.6))
    assert large < small
    assert_allclose(result["effective dimension, gamma = 0.5"], 0.5, atol=0.15)
    assert set(result.figures) == {"rates", "effective-dimension"}


@pytest.mark.skipif(not available()["french_load"], reason="needs the data set french_load: set OVK_DATA")
def test_french_load():
    result = reproduce.run("french_load", days=650)
    assert result["regions, MW: PKAWV"] < 0.7 * result["regions, MW: last week's load"]
    for region in ("each", "box", "ellipsoid"):
        for method in ("ACI", "ConformalPID", "StronglyAdaptive"):
            assert abs(result[f"coverage, {region}: {method}"] - 0.9) < 0.1


def test_the_sketched_newton_method_is_that_of_its_definition():
    """Steps with a dense A: S'S before a full sketch is exact, and after it by its own singular values."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    model = SketchedNewton(Gaussian(1.0), 12, 5, 0.3)
    predictions = model.predict_then_learn(X[:40], y[:40])
    predictions = np.append(predictions, model.predict_then_learn(X[40:], y[40:]))
    w, S = np.zeros(12), np.zeros((0, 12))
    for i, phi in enumerate(model.map.transform(X)):
        assert_allclose(predictions[i], w @ phi, atol=1e-9)
        if len(S) == 10:
            _, s, V = np.linalg.svd(S, full_matrices=False)
            S = (np.sqrt(s**2 - s[4] ** 2 * (np.arange(10) < 5) - s**2 * (np.arange(10) >= 5))[:, None] * V)[:5]
        S = np.vstack([S, phi])
        w = w - np.linalg.solve(0.3 * np.eye(12) + S.T @ S, phi) * (w @ phi - y[i])


@pytest.mark.skipif(not available()["codrna"], reason="needs the data set codrna: set OVK_DATA")
def test_codrna():
    result = reproduce.run("codrna", n=2500, budget=60)
    kors, linear = result["PKAWV, KORS, 60 points"], result["linear"]
    assert kors < linear < 0.5
    for rival in ("Fourier gradient descent, 60 features", "Nystrom gradient descent, 60 points"):
        assert kors < result[rival] < 0.6
    assert "59,535 of the talk's 270,000" in result.data
    assert set(result.figures) == {"loss-and-time"}


def test_susy_from_a_file_of_its_form(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 18))
    label = (X[:, 0] * X[:, 1] > 0).astype(float)
    (tmp_path / "susy").mkdir()
    with pytest.raises(DatasetNotFound, match="SUSY of the UCI Machine Learning Repository"):
        reproduce.run("susy", tmp_path)
    np.savetxt(tmp_path / "susy" / "SUSY.csv", np.column_stack([label, X]), delimiter=",")
    result = reproduce.run("susy", tmp_path, n=2500, budget=40)
    assert "the first 2,500 rows" in result.data
    assert result["PKAWV, Taylor of degree 2"] < 0.9 * result["linear"]
    np.savetxt(tmp_path / "susy" / "SUSY.csv.gz", np.column_stack([label, X])[:100], delimiter=",")
    assert "the first 100 rows" in reproduce.run("susy", tmp_path, budget=40).data
