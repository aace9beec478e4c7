"""Finger movements: the preparation step by step, and the generator."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ovk.datasets import amplitude_modulation, band_pass, make_bci, prepare_bci


@pytest.fixture(scope="module")
def recording():
    """Signals of 6 electrodes and the flexion of a finger."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((6000, 6)), np.cumsum(rng.standard_normal(6000))


def test_preparation_step_by_step(recording):
    signals, flexion = recording
    found = prepare_bci(signals, flexion, channels=[3], band=(50.0, 90.0), bin_width=5, segment=100, threshold=0.2)
    filtered = band_pass(band_pass(signals[:, [3]], 0.15, 200.0), 50.0, 90.0)[:, 0]
    power = np.array([np.log(sum(filtered[i : i + 5] ** 2) + 1e-12) for i in range(0, 6000, 5)])
    power = (power - power.mean()) / power.std()
    assert_allclose(found.data[4], power[400:500], atol=1e-10)
    mean = np.array([flexion[i : i + 5].mean() for i in range(0, 6000, 5)])
    mean = (mean - mean.mean()) / mean.std()
    assert_allclose(found.target[4], mean[400:500])
    assert np.array_equal(found.labels, (found.target > 0.2).astype(int))
    assert len(found.grid) == 100


def test_filters_and_bins():
    t = np.arange(40_000) / 1000
    drift, hum = np.cos(2 * np.pi * 0.01 * t), np.sin(2 * np.pi * 300 * t)
    wanted = np.sin(2 * np.pi * 20 * t)
    kept = band_pass((drift + hum + wanted)[:, None], 0.15, 200.0)[:, 0]
    assert np.abs(kept - wanted)[18_000:-18_000].max() < 0.1
    assert amplitude_modulation(np.ones((7, 2)), 3).tolist() == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda *recording: prepare_bci(*recording, channels=[9]), "electrodes from 0 to 5"),
        (lambda *recording: prepare_bci(*recording, segment=4000), "less than a segment of 4000"),
        (lambda *recording: prepare_bci(np.ones((9, 2)), np.ones(8)), r"got \(9, 2\) and \(8,\)"),
        (lambda *recording: band_pass(np.ones((50, 1)), 60, 600), "rate / 2 = 500, got 60 to 600"),
        (lambda *recording: make_bci(0), "n_segments must be a whole number >= 1"),
        (lambda *recording: make_bci(2, noise=-1), "noise must be"),
    ],
)
def test_bad_calls(recording, call, message):
    with pytest.raises(ValueError, match=message):
        call(*recording)


def test_the_generator_has_the_lag_that_it_says():
    curves = make_bci(60, lag=0.1, random_state=1)
    features = curves.data.reshape(60, 5, 200).mean(axis=1).ravel()
    movement = curves.target.ravel()
    by_lag = [np.corrcoef(features[: len(movement) - s], movement[s:])[0, 1] for s in range(60)]
    # The signal comes first; the bins are of 4 ms.
    assert abs(int(np.argmax(by_lag)) * 0.004 - 0.1) < 0.04
    assert 0.2 < max(by_lag) < 0.9
    assert 0.1 < curves.labels.mean() < 0.6


def test_the_generator_repeats_itself():
    a, b = make_bci(5, random_state=3), make_bci(5, random_state=3)
    assert np.array_equal(a.data, b.data)
    assert not np.array_equal(a.data, make_bci(5, random_state=4).data)
