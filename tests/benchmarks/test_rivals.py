"""The rivals do what their papers say: equal to naive versions, and to the properties that they are built on."""

import importlib.util

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

if importlib.util.find_spec("benchmarks") is None:
    pytest.skip("benchmarks are not part of this installation", allow_module_level=True)

from benchmarks.rivals import FOGD, NOGD, ConKONS, ProsNKONS

import reference
from ovk.features import NystromMap
from ovk.kernels import Gaussian

KERNEL = Gaussian(0.7)


def two_moons(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.where(X[:, 1] > 0.5 * np.sin(3 * X[:, 0]), 1.0, -1.0)
    return X, np.where(rng.random(n) < 0.05, -y, y)


def makers():
    return {
        "fogd": lambda: FOGD(KERNEL, 100, step=0.5),
        "nogd": lambda: NOGD(KERNEL, 40, 40, step=0.5),
        "pros": lambda: ProsNKONS(KERNEL, 40, mu=0.5, alpha=0.1),
        "con": lambda: ConKONS(KERNEL, 40, mu=0.5, alpha=0.1),
    }


@pytest.mark.parametrize("name", makers())
def test_they_learn(name):
    X, y = two_moons(1500)
    F = makers()[name]().predict_then_learn(X, y)
    assert np.mean(np.sign(F[-500:]) != y[-500:]) < 0.15


@pytest.mark.parametrize("name", makers())
def test_rows_equal_chunks(name):
    X, y = two_moons(400)
    one, two = makers()[name](), makers()[name]()
    whole = one.predict_then_learn(X, y)
    parts = [two.predict_then_learn(X[a:b], y[a:b]) for a, b in [(0, 1), (1, 100), (100, 256), (256, 400)]]
    assert_allclose(np.concatenate(parts), whole, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", makers())
def test_a_prediction_never_sees_its_own_label(name):
    X, y = two_moons(120)
    other = y.copy()
    other[100:] *= -1
    a, b = (makers()[name]().predict_then_learn(X, labels) for labels in (y, other))
    assert_array_equal(a[:101], b[:101])


def test_fogd_by_definition():
    X, y = two_moons(80)
    model = FOGD(KERNEL, 20, step=0.3, seed=4)
    F = model.predict_then_learn(X, y)
    W = model.map.frequencies
    w = np.zeros(20)
    for x, label, f in zip(X, y, F, strict=True):
        phi = np.array([*[np.cos(v @ x) for v in W], *[np.sin(v @ x) for v in W]]) / np.sqrt(10)
        assert_allclose(f, w @ phi, atol=1e-12)
        if label * (w @ phi) < 1:
            w = w + 0.3 * label * phi


def test_nogd_is_kernel_descent_until_the_budget_and_goes_on_from_there():
    X, y = two_moons(200)
    model = NOGD(KERNEL, 30, 30, step=0.3)
    F = model.predict_then_learn(X, y)
    kept, a = [], []
    for i in range(len(X)):
        f = sum(c * reference.scalar(KERNEL, X[j], X[i]) for j, c in zip(kept, a, strict=True))
        assert_allclose(F[i], f, atol=1e-10)
        if y[i] * f < 1:
            kept.append(i)
            a.append(0.3 * y[i])
        if len(kept) == 30:
            break
    # The row after: the function itself, seen through the features of its own support.
    f = sum(c * reference.scalar(KERNEL, X[j], X[i + 1]) for j, c in zip(kept, a, strict=True))
    assert_allclose(F[i + 1], f, atol=1e-4)


def newton(X, y, kept, restart, alpha, C=1.0):
    """The online Newton step from its definition, a dense solve at every step."""
    F, points, w, A = [], [], np.zeros(0), np.zeros((0, 0))
    for i in range(len(X)):
        if i in kept:
            points.append(X[i])
            m = len(points)
            if restart:
                w, A = np.zeros(m), alpha * np.eye(m)
            else:
                w = np.append(w, 0.0)
                A = np.block([[A, np.zeros((m - 1, 1))], [np.zeros((1, m - 1)), alpha * np.eye(1)]])
        if not points:
            F.append(0.0)
            continue
        phi = NystromMap.from_points(KERNEL, np.array(points)).transform(X[i : i + 1])[0]
        raw = w @ phi
        moved = np.linalg.solve(A, phi)
        w = w - np.sign(raw) * max(abs(raw) - C, 0) / (phi @ moved) * moved
        f = w @ phi
        F.append(f)
        g = 2 * (f - y[i]) * phi
        A = A + np.outer(g, g) / (16 * C**2)
        w = w - np.linalg.solve(A, g)
    return np.array(F)


@pytest.mark.parametrize("Method", [ProsNKONS, ConKONS])
@pytest.mark.parametrize("alpha", [0.02, 1.0])
def test_newton_steps_and_dictionary_by_definition(Method, alpha):
    X, y = two_moons(150)
    model = Method(KERNEL, 150, mu=0.5, beta=1.0, eps=0.5, alpha=alpha, seed=3)
    F = model.predict_then_learn(X, y)
    uniforms = np.concatenate([np.random.default_rng(3).random(150)])
    # Blocks draw their uniforms in turn: the same numbers as all at once.
    kept = reference.kors(reference.scalar_gram(KERNEL, X), 0.5, 1.0, 0.5, uniforms)
    assert model.kept == len(kept) == model.m < 100
    assert_array_equal(model.points[: model.kept], X[kept])
    assert_allclose(F, newton(X, y, kept, Method.restart, alpha), rtol=1e-6, atol=1e-8)
    assert (np.abs(F) <= 1 + 1e-9).all()


def test_the_budget_holds_and_duplicates_add_no_feature():
    X, y = two_moons(300)
    model = ConKONS(KERNEL, 10, mu=0.01, beta=5.0)
    model.predict_then_learn(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert model.m <= model.kept == 10


def test_not_beginning_anew_helps():
    X, y = two_moons(1000)
    errors = [np.mean(np.sign(makers()[name]().predict_then_learn(X, y)) != y) for name in ("con", "pros")]
    assert errors[0] < errors[1]


# ------------------------------------------------------------------------------------------------- pipelines


@pytest.mark.long
@pytest.mark.parametrize("name", ["bayesian", "river", "fourier", "nystroem"])
def test_pipelines_learn_and_never_see_their_own_label(name):
    if name in ("bayesian", "river"):
        pytest.importorskip("river", reason="this peer comes with the extra river")
    from benchmarks.rivals import pipelines

    make = {
        "bayesian": pipelines.river_bayesian,
        "river": lambda: pipelines.river_features(0.5, 50, 0.3),
        "fourier": lambda: pipelines.sklearn_fourier(1.0, 50, 1e-3),
        "nystroem": lambda: pipelines.sklearn_nystroem(1.0, 20, 1e-3),
    }[name]
    X, y = two_moons(400)
    other = y.copy()
    other[300:] *= -1
    a, b = (make().predict_then_learn(X, labels) for labels in (y, other))
    assert_allclose(a[:301], b[:301], atol=1e-12)
    assert np.mean(np.sign(a[200:]) != y[200:]) < 0.35


def test_a_learner_set_on_its_way_never_looks_ahead():
    from benchmarks.codrna import OURS, contenders
    from benchmarks.warm_up import without_looking_ahead

    X, y = two_moons(400)
    other = y.copy()
    other[300:] *= -1
    make, grid = contenders(20)[OURS]
    small = {"shape": ("smooth", "both"), "width": (1.0,), "alpha": (0.03, 0.3)}
    assert grid.keys() == small.keys()
    a, b = (without_looking_ahead(make, small, X, labels, (50, 200)) for labels in (y, other))
    assert len(a) == 400
    assert_array_equal(a[:300], b[:300])
    assert a[200:].mean() < 0.2
