"""Intervals of models with landmarks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ovk
from ovk import OVKRidge, OVKRidgeCV
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect


def rows(n, rng, d=2):
    X = rng.uniform(-1, 1, (n, 2))
    return X, np.sin(3 * X[:, :1]) * X[:, 1:] + 0.2 * rng.standard_normal((n, d))


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("omega", [0.0, 0.6], ids=["separate", "coupled"])
def test_loo_residuals_by_refitting(omega, weighted):
    X, Y = rows(60, np.random.default_rng(0))
    weight = np.linspace(0.5, 2.0, 60) if weighted else None
    how = {"omegas": [omega], "landmarks": X[:15]}
    model = OVKRidgeCV(Gaussian(1.0), [0.1], **how).fit(X, Y, weight)
    for i in (0, 20, 59):
        others = np.arange(60) != i
        kernel = Gaussian(1.0) * MixedEffect(omega)
        ridge = OVKRidge(kernel, 0.1, landmarks=X[:15]).fit(
            X[others], Y[others], None if weight is None else weight[others]
        )
        assert_allclose(model.landmark_loo_[0, i], Y[i] - ridge.predict(X[[i]])[0], rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
def test_with_all_rows_as_landmarks_intervals_are_those_of_the_exact_model(weighted):
    rng = np.random.default_rng(1)
    X, Y = rows(45, rng)
    new = rows(20, rng)[0]
    weight = np.linspace(0.2, 5.0, 45) if weighted else None
    exact = OVKRidge(Gaussian(1.0), 0.1).fit(X, Y, weight)
    model = OVKRidgeCV(Gaussian(1.0), [0.1], landmarks=X).fit(X, Y, weight)
    for region in ("each", "box", "ellipsoid"):
        found, expected = (one.predict_interval(new, region=region) for one in (model, exact))
        assert_allclose(found.lower, expected.lower, rtol=1e-4)
        assert_allclose(found.upper, expected.upper, rtol=1e-4)


@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
def test_coverage_and_saving(gaps, tmp_path):
    rng = np.random.default_rng(2)
    (X, Y), (new, truth) = rows(800, rng), rows(1000, rng)
    if gaps:
        Y[rng.random(Y.shape) < 0.2] = np.nan
    model = OVKRidgeCV(Gaussian(0.7), landmarks=60).fit(X, Y)
    regions = model.predict_interval(new)
    assert abs(regions.contains(truth).mean() - 0.9) < 0.03
    assert abs(model.predict_interval(new, region="ellipsoid").contains(truth).mean() - 0.9) < 0.04
    ovk.save(model, tmp_path / "model.ovk")
    assert_allclose(ovk.load(tmp_path / "model.ovk").predict_interval(new).upper, regions.upper)


@pytest.mark.parametrize("how", [{"groups": np.arange(100)}, {"method": "jackknife+"}, {"method": "cv+"}])
def test_what_needs_all_rows_is_refused(how):
    X, Y = rows(100, np.random.default_rng(3))
    model = OVKRidgeCV(Gaussian(1.0), [0.1], landmarks=20).fit(X, Y)
    with pytest.raises(ValueError, match=r"training rows.*fit without landmarks"):
        model.predict_interval(X[:3], **how)
    exact = model.set_params(landmarks=None).fit(X, Y)
    assert exact.landmark_loo_ is None


def test_landmarks_among_the_rows_do_not_widen_intervals():
    rng = np.random.default_rng(4)
    X, new = rng.standard_normal((500, 8)), rng.standard_normal((500, 8))
    y, truth = (np.sin(Z[:, 0]) + 0.1 * rng.standard_normal(500) for Z in (X, new))
    model = OVKRidgeCV(Gaussian(1.5), [1e-5], landmarks=150).fit(X, y)
    assert model.landmark_loo_.shape == (2, 350, 1)
    assert abs(model.predict_interval(new).contains(truth).mean() - 0.9) < 0.05
