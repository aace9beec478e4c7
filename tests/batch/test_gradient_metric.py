"""GradientMetric: agreement with finite differences, invariances and accuracy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ovk
import reference
from ovk import GradientMetric, OVKRidge
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect


def rows(n=150, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    Y = np.column_stack([np.sin(X[:, 0] + X[:, 1]), np.cos(X[:, 0])]) + 0.1 * rng.standard_normal((n, 2))
    return X, Y


@pytest.mark.parametrize("landmarks", [None, 40])
def test_equals_finite_differences(landmarks):
    X, Y = rows()
    kernel = Gaussian(1.5) * MixedEffect(0.5)
    found = GradientMetric(kernel, 0.2, steps=2, power=0.6, landmarks=landmarks, random_state=0).fit(X, Y)

    def fitted(U):
        return OVKRidge(kernel, 0.2, landmarks=landmarks, random_state=0).fit(U, Y).predict

    A, R = reference.gradient_metric(fitted, X, steps=2, power=0.6)
    assert_allclose(found.outer_product_, A, atol=1e-7)
    assert_allclose(found.components_, R, atol=1e-6)
    assert_allclose(found.transform(X), X @ R, atol=1e-5)


def test_turning_the_inputs_turns_the_metric():
    X, Y = rows()
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    a, b = GradientMetric().fit(X, Y), GradientMetric().fit(X @ Q, Y)
    assert_allclose(b.outer_product_, Q.T @ a.outer_product_ @ Q, atol=1e-8)
    assert_allclose(b.components_, Q.T @ a.components_ @ Q, atol=1e-6)


def test_inputs_that_do_not_matter_cost_less():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((600, 8))
    y = np.sin(X[:, 0] - X[:, 1])
    half = slice(0, 300), slice(300, None)
    metric = GradientMetric(steps=3).fit(X[half[0]], y[half[0]])
    U = metric.transform(X)
    plain, mapped = (
        OVKRidge(Gaussian(), 0.1).fit(Z[half[0]], y[half[0]]).score(Z[half[1]], y[half[1]]) for Z in (X, U)
    )
    assert 1 - mapped < 0.5 * (1 - plain)


def test_no_gradient_leaves_the_inputs_alone():
    X, _ = rows()
    assert_allclose(GradientMetric().fit(X, np.zeros(len(X))).components_, np.eye(4))
    assert_allclose(GradientMetric(power=0.0).fit(*rows()).components_, np.eye(4), atol=1e-12)


def test_missing_outputs_and_saving(tmp_path):
    X, Y = rows()
    Y[::3, 1] = np.nan
    metric = GradientMetric(Gaussian(1.5) * MixedEffect(0.5)).fit(X, Y)
    ovk.save(metric, tmp_path / "m.ovk")
    assert_allclose(ovk.load(tmp_path / "m.ovk").transform(X), metric.transform(X), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"steps": 0}, "steps"), ({"power": 2.0}, "power"), ({"alpha": 0.0}, "alpha")],
)
def test_bad_parameters_are_named(options, message):
    metric = GradientMetric().fit(*rows())
    before = metric.components_
    with pytest.raises(ValueError, match=message):
        metric.set_params(**options).fit(*rows())
    assert metric.components_ is before
