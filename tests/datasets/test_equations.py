"""Generators of operator-learning problems: solutions satisfy laws of the equation and converge with the step."""

from __future__ import annotations

import numpy as np
import pytest

from ovk.datasets import make_burgers, make_navier_stokes
from ovk.datasets.equations import burgers, forcing_waves, vorticity


def order(solve, steps):
    """Slope of the error against the step, from the finest solution."""
    exact = solve(8 * steps)
    errors = [np.abs(solve(count) - exact).max() for count in (steps, 2 * steps)]
    return np.log2(errors[0] / errors[1])


def test_a_vortex_of_one_wave_decays_exactly():
    x = 2 * np.pi * np.arange(24) / 24
    w = np.sin(x)[:, None] * np.sin(x)[None, :]
    found = vorticity(w[None], np.zeros((1, 24, 24)), 0.05, 2.0, 100)[0]
    np.testing.assert_allclose(found, w * np.exp(-2 * 0.05 * 2.0), atol=1e-5)


def test_flows_keep_energy_and_enstrophy_without_viscosity_and_converge_with_the_step():
    rng = np.random.default_rng(0)
    start = 100 * (rng.standard_normal(100) @ forcing_waves(32)).reshape(1, 32, 32)
    still = np.zeros_like(start)

    def invariants(w):
        k = np.fft.fftfreq(32, 1 / 32)
        squared = k[:, None] ** 2 + k**2
        power = np.abs(np.fft.fft2(w)) ** 2
        return np.array([power.sum(), (power / np.where(squared > 0, squared, 1.0)).sum()])

    later = vorticity(start, still, 1e-12, 1.0, 400)
    assert np.abs(later - start).max() > 0.1 * np.abs(start).max()
    np.testing.assert_allclose(invariants(later), invariants(start), rtol=1e-3)
    assert abs(later.mean()) < 1e-12
    assert order(lambda steps: vorticity(start, start, 0.05, 1.0, steps), 20) == pytest.approx(4.0, abs=0.2)


def test_navier_stokes_with_the_initial_vorticity_of_an_earlier_call():
    flow = make_navier_stokes(3, size=24, steps=10, random_state=0)
    more = make_navier_stokes(2, size=24, steps=10, initial=flow.initial, random_state=1)
    np.testing.assert_array_equal(more.initial, flow.initial)
    assert not np.array_equal(more.data, flow.data[:2])
    again = make_navier_stokes(3, size=24, steps=10, random_state=0, return_X_y=True)
    np.testing.assert_array_equal(again[1], flow.target)
    noisy = make_navier_stokes(3, size=24, steps=10, noise=0.05, random_state=0)
    rms = np.sqrt(np.mean(flow.target**2))
    assert np.std(noisy.target - flow.target) == pytest.approx(0.05 * rms, rel=0.05)


def test_burgers_keeps_its_mean_loses_energy_and_converges_with_the_step():
    waves = make_burgers(8, size=64, viscosity=0.02, random_state=0)
    np.testing.assert_allclose(waves.data.mean(axis=1), waves.target.mean(axis=1), atol=1e-12)
    assert (np.sum(waves.target**2, axis=1) < np.sum(waves.data**2, axis=1)).all()
    smooth = np.sin(2 * np.pi * np.arange(64) / 64)[None]
    assert order(lambda steps: burgers(smooth, 0.05, 0.5, steps), 20) == pytest.approx(4.0, abs=0.3)


def test_burgers_agrees_with_the_formula_of_cole_and_hopf():
    """u = -2 nu phi_x / phi with phi a solution of the heat equation."""
    d, nu, t = 64, 0.05, 0.3
    x = np.arange(d) / d

    def exact(t):
        a = 0.6 * np.exp(-nu * (2 * np.pi) ** 2 * t)
        return (2 * nu * 2 * np.pi * a * np.sin(2 * np.pi * x) / (1 + a * np.cos(2 * np.pi * x)))[None]

    np.testing.assert_allclose(burgers(exact(0.0), nu, t, 50), exact(t), atol=1e-6)


@pytest.mark.parametrize(
    ("make", "wrong", "match"),
    [
        (make_navier_stokes, {"size": 25}, "size must be even"),
        (make_navier_stokes, {"size": 24, "initial": np.zeros((3, 3))}, "initial must be"),
        (make_burgers, {"size": 33}, "size must be even"),
        (make_burgers, {"size": 64, "time": 50.0, "viscosity": 1e-5, "steps": 2}, "use more steps"),
    ],
)
def test_invalid_arguments(make, wrong, match):
    with pytest.raises(ValueError, match=match):
        make(2, **wrong)
