"""Advection and Darcy's flow: each solution obeys a law of its equation, and converges with the step."""

from __future__ import annotations

import numpy as np
import pytest
from reproduce.data.darcy import _cosines, pressure

from reproduce.data import make_advection, make_darcy


def test_advection_moves_fields_and_keeps_them():
    waves = make_advection(50, size=201, random_state=0)
    assert set(np.unique(waves.data)) == {-1.0, 1.0}
    # Both ends are the same point of the circle.
    np.testing.assert_array_equal(waves.target[:, 1:], np.roll(waves.data[:, 1:], 100, axis=1))
    there = make_advection(3, size=201, speed=-2.0, time=0.25, random_state=1, return_X_y=True)
    np.testing.assert_array_equal(there[1][:, 1:], np.roll(there[0][:, 1:], -100, axis=1))


def test_half_a_turn_of_the_published_points_ends_halfway_between_two():
    """Where neighbours agree so does the output between them; where they do not nothing tells: 11.3% by regression."""
    waves = make_advection(5200, random_state=0)
    left, right = np.roll(waves.data[:, :-1], 99, axis=1), np.roll(waves.data[:, :-1], 100, axis=1)
    between, agree = waves.target[:, :-1], left == right
    assert np.mean(between[agree] == left[agree]) > 0.999
    assert np.mean(between[~agree] == left[~agree]) == pytest.approx(0.5, abs=0.03)
    X, Y, new, truth = waves.data[:5000], waves.target[:5000], waves.data[5000:], waves.target[5000:]
    predicted = new @ np.linalg.lstsq(X, Y, rcond=None)[0]
    assert np.linalg.norm(predicted - truth, axis=1).mean() / np.sqrt(200) == pytest.approx(0.114, abs=0.006)


def test_darcy_solves_its_equation():
    # A constant permeability halves the pressure of half of it, and the solution is symmetric.
    one, two = pressure(np.ones((17, 17))), pressure(np.full((17, 17), 2.0))
    np.testing.assert_allclose(one, 2 * two, atol=1e-14)
    np.testing.assert_allclose(one, one.T, atol=1e-14)
    # The pressure in the middle of a block of permeability 1 is 0.0736713.
    errors = [abs(pressure(np.ones((N, N)))[N // 2, N // 2] - 0.07367135) for N in (9, 17)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.2)


def test_darcy_keeps_what_flows():
    """What comes in, 1 in each cell inside, leaves through the boundary."""
    block = make_darcy(2, size=21, random_state=0)
    assert set(np.unique(block.data)) == {3.0, 12.0}
    for a, u in zip(block.data.reshape(2, 21, 21), block.target.reshape(2, 21, 21), strict=True):
        between = [2 / (1 / a[0] + 1 / a[1]), 2 / (1 / a[-1] + 1 / a[-2]),
                   2 / (1 / a[:, 0] + 1 / a[:, 1]), 2 / (1 / a[:, -1] + 1 / a[:, -2])]  # fmt: skip
        out = sum(e @ flow for e, flow in zip(between, [u[1], u[-2], u[:, 1], u[:, -2]], strict=True))
        assert out == pytest.approx(19 * 19 / 20**2)
    smooth = make_darcy(2, size=21, smooth=True, random_state=0)
    assert (smooth.data > 0).all()
    assert len(np.unique(smooth.data)) == 2 * 21 * 21


def test_waves_of_a_block_are_orthonormal_cosines():
    x = np.linspace(0, 1, 6)
    for k, m in [(0, 0), (2, 0), (1, 3), (5, 5)]:
        c = np.zeros((6, 6))
        c[k, m] = 1.0
        b = [np.sqrt(2.0 if j else 1.0) * np.cos(np.pi * j * x) for j in (k, m)]
        np.testing.assert_allclose(_cosines(c), np.outer(*b), atol=1e-12)


@pytest.mark.parametrize(
    ("make", "wrong", "match"),
    [
        (make_advection, {"speed": np.inf}, "speed and time"),
        (make_darcy, {"low": 0.0}, "low"),
        (make_darcy, {"noise": -1.0}, "noise"),
    ],
)
def test_what_makes_no_sense_is_refused(make, wrong, match):
    with pytest.raises(ValueError, match=match):
        make(2, **wrong)


@pytest.mark.parametrize("make", [make_advection, make_darcy])
def test_noise_is_relative_to_the_outputs_and_leaves_the_inputs_alone(make):
    plain, noisy = (make(40, size=20, noise=noise, random_state=0) for noise in (0.0, 0.1))
    np.testing.assert_array_equal(plain.data, noisy.data)
    size = np.sqrt(np.mean(plain.target**2))
    assert np.std(noisy.target - plain.target) == pytest.approx(0.1 * size, rel=0.1)
    assert len(plain.feature_names) == plain.data.shape[1]
    assert len(plain.target_names) == plain.target.shape[1]
