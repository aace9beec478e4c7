"""Losses: gradients, convexity, bounds and errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ovk.objectives import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Novelty,
    NuHinge,
    NuInsensitive,
    Pinball,
    SimplexHinge,
    Squared,
    as_loss,
    simplex_code,
)
from reference import derivative

D = 3

LOSSES = {
    "squared": Squared(),
    "huber": Huber(0.7),
    "epsilon": EpsilonInsensitive(0.3),
    "epsilon 0": EpsilonInsensitive(0.0),
    "joint": EpsilonInsensitive(0.5, joint=True),
    "joint 0": EpsilonInsensitive(0.0, joint=True),
    "pinball": Pinball([0.1, 0.5, 0.8]),
    "pinball one": Pinball(0.3),
    "logistic": Logistic(),
    "hinge": Hinge(),
    "novelty": Novelty(0.2),
    "nu-hinge": NuHinge(0.2, 0.7),
    "nu-insensitive": NuInsensitive(0.2, 0.3),
    "simplex": SimplexHinge(),
}
SUPERVISED = [name for name in LOSSES if name != "novelty"]

each_loss = pytest.mark.parametrize("name", LOSSES)
seeds = st.integers(0, 10_000)


def points(loss, n, rng):
    """Targets that suit the loss, and predictions around them."""
    F = 1.5 * rng.standard_normal((n, D))
    if isinstance(loss, (Hinge, Logistic, NuHinge)):
        return rng.choice([-1.0, 1.0], (n, D)), F
    if isinstance(loss, SimplexHinge):
        return simplex_code(D + 1)[rng.integers(0, D + 1, n)], F
    return rng.standard_normal((n, D)), F


@each_loss
def test_gradient_is_the_derivative(name):
    loss, rng = LOSSES[name], np.random.default_rng(0)
    Y, F = points(loss, 40, rng)
    # No kink within reach of the differences.
    h = 1e-4
    smooth = loss.smoothness is not None or loss.variation(Y, F, np.full(40, 10 * h))
    away = np.ones(40, dtype=bool) if loss.smoothness is not None else smooth < 0.01
    assert away.sum() > 30
    G = loss.gradient(Y, F)
    assert G.shape == (40, D)
    for q, direction in enumerate(np.eye(D)):
        slope = derivative(lambda t, e=direction: loss.value(Y, F + t * e), 0.0, h)
        assert_allclose(G[away, q], slope[away], rtol=1e-5, atol=1e-6)


@each_loss
def test_a_single_row_is_one_of_many(name):
    loss = LOSSES[name]
    Y, F = points(loss, 40, np.random.default_rng(0))
    for y, f, value, gradient in zip(Y, F, loss.value(Y, F), loss.gradient(Y, F), strict=True):
        own, slope = loss.of_row(y, f)
        assert_allclose(own, value, rtol=1e-12, atol=1e-14)
        assert_allclose(slope, gradient, rtol=1e-12)


@each_loss
@settings(max_examples=20, deadline=None, derandomize=True)
@given(seeds)
def test_convex_with_a_subgradient(name, seed):
    loss, rng = LOSSES[name], np.random.default_rng(seed)
    Y, F = points(loss, 30, rng)
    G = F + rng.standard_normal((30, 1)) * rng.standard_normal((30, D))
    part = rng.random((30, 1))
    between = loss.value(Y, part * F + (1 - part) * G)
    assert (between <= part[:, 0] * loss.value(Y, F) + (1 - part[:, 0]) * loss.value(Y, G) + 1e-12).all()
    tangent = loss.value(Y, F) + (loss.gradient(Y, F) * (G - F)).sum(axis=1)
    assert (loss.value(Y, G) >= tangent - 1e-12).all()


@each_loss
@settings(max_examples=20, deadline=None, derandomize=True)
@given(seeds, st.sampled_from([1e-3, 0.1, 0.5, 2.0, 10.0]), st.sampled_from([0.0, 0.3]))
def test_variation_bounds_the_change_of_the_gradient(name, seed, reach, missing):
    loss, rng = LOSSES[name], np.random.default_rng(seed)
    Y, F = points(loss, 60, rng)
    if name != "novelty":
        Y[rng.random(Y.shape) < missing] = np.nan
    # Some predictions stand on a kink, or next to one.
    F[:10] = np.nan_to_num(Y[:10]) + rng.choice([0.0, 0.3, -0.3], (10, D))
    radius = reach * rng.random(60)
    direction = rng.standard_normal((60, D))
    if seed % 2:
        direction = direction * (np.arange(D) == seed % D) + 1e-9
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    G = F + (radius * rng.choice([1.0, rng.random()], 60))[:, None] * direction
    change = np.linalg.norm(loss.gradient(Y, G) - loss.gradient(Y, F), axis=1)
    bound = loss.variation(Y, F, radius * (1 + 1e-9))
    assert bound.shape == (60,)
    assert (change <= bound * (1 + 1e-9) + 1e-12).all()
    if loss.smoothness is not None:
        assert (change <= loss.smoothness * radius * (1 + 1e-9) + 1e-12).all()
    steepest = loss.lipschitz(D)
    if steepest is not None:
        assert (np.linalg.norm(loss.gradient(Y, F), axis=1) <= steepest + 1e-12).all()
        assert (np.abs(loss.value(Y, G) - loss.value(Y, F)) <= steepest * radius + 1e-9).all()


def test_worst_changes_are_reached():
    # From one side of the tube to the other, and two corners that come and go at once.
    tube = EpsilonInsensitive(0.1)
    assert tube.variation(np.zeros((1, 1)), np.array([[0.15]]), np.array([0.3]))[0] == 2
    assert tube.variation(np.zeros((1, 1)), np.array([[0.15]]), np.array([0.1]))[0] == 1
    assert tube.variation(np.zeros((1, 1)), np.array([[0.05]]), np.array([9.0]))[0] == 1
    code = simplex_code(3)
    loss, Y, step = SimplexHinge(), code[:1], code[1] - code[2]
    found = loss.variation(Y, Y + 1e-3 * step, np.array([0.01]))[0]
    change = loss.gradient(Y, Y + 1e-3 * step) - loss.gradient(Y, Y - 1e-3 * step)
    assert_allclose(np.linalg.norm(change), found)
    assert_allclose(found, 3**0.5)


@pytest.mark.parametrize("name", [name for name in SUPERVISED if name != "simplex"])
def test_missing_outputs_have_no_part(name):
    loss, rng = LOSSES[name], np.random.default_rng(0)
    Y, F = points(loss, 20, rng)
    holes = rng.random(Y.shape) < 0.4
    missing, other = np.where(holes, np.nan, Y), np.where(holes, 99.0, F)
    G = loss.gradient(missing, F)
    assert (G[holes] == 0).all()
    assert_array_equal(G, loss.gradient(missing, other))
    assert_array_equal(loss.value(missing, F), loss.value(missing, other))
    if name not in ("joint", "joint 0"):
        assert_array_equal(G[~holes], loss.gradient(Y, F)[~holes])
    nothing = np.full_like(Y, np.nan)
    assert (loss.value(nothing, F) == 0).all()
    assert (loss.gradient(nothing, F) == 0).all()
    assert (loss.variation(nothing, F, np.zeros(20)) == 0).all() or loss.joint


def test_simplex_hinge_ignores_rows_with_holes():
    code = simplex_code(4)
    Y = code[[0, 1]]
    Y[0, 1] = np.nan
    loss, F = SimplexHinge(), np.ones((2, 3))
    loss.check(Y)
    assert loss.value(Y, F)[0] == 0 < loss.value(Y, F)[1]
    assert (loss.gradient(Y, F)[0] == 0).all()
    assert loss.variation(Y, F, np.full(2, 9.0))[0] == 0


@pytest.mark.parametrize("classes", [2, 3, 4, 9])
def test_simplex_code(classes):
    code = simplex_code(classes)
    expected = np.full((classes, classes), -1 / (classes - 1))
    np.fill_diagonal(expected, 1.0)
    assert code.shape == (classes, classes - 1)
    assert_allclose(code @ code.T, expected, rtol=0, atol=1e-14)
    assert_allclose(code.sum(axis=0), 0.0, rtol=0, atol=1e-14)
    # No loss at the right corner, some at every other.
    values = np.array([SimplexHinge().value(code[[k] * classes], code) for k in range(classes)])
    assert_allclose(np.diagonal(values), 0.0, rtol=0, atol=1e-14)
    assert (values[~np.eye(classes, dtype=bool)] > 0.1).all()
    assert SimplexHinge().lipschitz(classes - 1) >= np.linalg.norm(code[1:].sum(axis=0)) - 1e-14


def test_simplex_hinge_separates():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 400)
    X = np.eye(4)[labels] + 0.2 * rng.standard_normal((400, 4))
    code, W = simplex_code(4), np.zeros((4, 3))
    for t in range(200):
        W -= 0.5 / (1 + t) ** 0.5 * X.T @ SimplexHinge().gradient(code[labels], X @ W) / 400
    assert ((X @ W @ code.T).argmax(axis=1) == labels).mean() > 0.98


def test_values_by_hand():
    Y, F = np.array([[0.0, 0.0]]), np.array([[3.0, -0.5]])
    assert_allclose(Squared().value(Y, F), [4.625])
    assert_allclose(Huber(1.0).value(Y, F), [2.5 + 0.125])
    assert_allclose(EpsilonInsensitive(1.0).value(Y, F), [2.0])
    assert_allclose(EpsilonInsensitive(1.0, joint=True).value(Y, F), [np.hypot(3, 0.5) - 1])
    assert_allclose(Pinball(0.9).value(Y, F), [0.1 * 3 + 0.9 * 0.5])
    assert_allclose(Hinge().value(np.array([[1.0, -1.0]]), F), [0.5])
    assert_allclose(Logistic().value(np.array([[1.0, -1.0]]), F), [np.log1p(np.exp(-3)) + np.log1p(np.exp(-0.5))])
    assert_allclose(Novelty(0.1).value(np.array([[1.0]]), np.array([[0.4]])), [0.6 - 0.1])
    assert_allclose(Novelty(0.1).threshold_slope(1.0, 0.4), 0.9)
    assert_allclose(Novelty(0.1).threshold_slope(1.0, 1.4), -0.1)


@pytest.mark.parametrize("name", [name for name in SUPERVISED if name != "squared"])
def test_no_overflow(name):
    loss = LOSSES[name]
    Y, F = points(loss, 4, np.random.default_rng(0))
    with np.errstate(all="raise", under="ignore"):
        for far in (1e300 * F, -1e300 * F):
            assert np.isfinite(loss.value(Y, far)).all()
            assert np.isfinite(loss.gradient(Y, far)).all()


def test_checks():
    Y = np.array([[1.0, np.nan], [-1.0, 2.0]])
    for loss in (Hinge(), Logistic()):
        name = type(loss).__name__
        with pytest.raises(ValueError, match=f"labels of {name} must be -1 or 1, got 2 in row 1, output 1"):
            loss.check(Y)
        loss.check(Y[:1])
    with pytest.raises(ValueError, match="targets of SimplexHinge must be rows of simplex_code"):
        SimplexHinge().check(np.ones((1, 2)))
    for loss, message in [
        (Huber(-1.0), "delta must be positive and finite, got -1.0"),
        (EpsilonInsensitive(-1.0), "epsilon must be non-negative and finite, got -1.0"),
        (Pinball([0.5, 0.5, 0.5]), "one for each of the 2 outputs"),
        (Pinball(0.0), r"quantiles must be a number in \(0, 1\)"),
        (NuHinge(2.0), r"nu must be a number in \[0, 1\], got 2.0"),
        (NuInsensitive(0.1, -1.0), "epsilon must be non-negative and finite, got -1"),
        (Novelty(2.0), r"nu must be a number in \[0, 1\], got 2.0"),
    ]:
        with pytest.raises(ValueError, match=message):
            loss.check(Y)
    with pytest.raises(ValueError, match="classes must be at least 2, got 1"):
        simplex_code(1)


def test_names():
    for name in (
        "squared",
        "huber",
        "epsilon-insensitive",
        "pinball",
        "logistic",
        "hinge",
        "novelty",
        "nu-hinge",
        "nu-insensitive",
    ):
        assert isinstance(as_loss(name), Loss)
    loss = Huber(3.0)
    assert as_loss(loss) is loss
    for wrong in ("l1", 3, None, Huber):
        with pytest.raises(ValueError, match=r"loss must be one of .*'huber'"):
            as_loss(wrong)


class Quartic(Loss):
    """f^4: neither smooth nor Lipschitz."""

    def value(self, Y, F):
        return ((F - Y) ** 4).sum(axis=1)

    def gradient(self, Y, F):
        return 4 * (F - Y) ** 3


def test_a_loss_that_says_nothing_has_no_bound():
    assert_array_equal(Quartic().variation(np.zeros((4, 2)), np.ones((4, 2)), np.ones(4)), np.full(4, np.inf))


@pytest.mark.parametrize("f", [0.2, 0.9, -1.7])
@pytest.mark.parametrize("loss", [Novelty(0.2), NuHinge(0.2), NuInsensitive(0.2)], ids=lambda loss: type(loss).__name__)
def test_the_slope_in_the_threshold_is_that_of_the_value(loss, f):
    y = np.array([1.0])

    def value(theta):
        Y, at_theta = loss.at(y[None], np.array([theta]))
        return float(at_theta.value(Y, np.array([[f]]))[0])

    slope = (value(0.5 + 1e-6) - value(0.5 - 1e-6)) / 2e-6
    assert_allclose(loss.threshold_slope(0.5, np.array([f]), y), slope, rtol=1e-8)
