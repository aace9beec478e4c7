"""Finger movements: the layout of the competition's files, the preparation step by step, and the generator."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reproduce.data.bci import amplitude_modulation, band_pass, load_bci, make_bci, prepare_bci
from scipy.io import savemat


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A subject in the layout of the competition: 6 electrodes, 5 fingers, a test part with labels of its own."""
    rng = np.random.default_rng(0)
    directory = tmp_path_factory.mktemp("bci")
    content = {
        "train_data": rng.standard_normal((6000, 6)).astype(np.float32),
        "train_dg": np.cumsum(rng.standard_normal((6000, 5)), axis=0),
        "test_data": rng.standard_normal((4000, 6)).astype(np.float32),
    }
    savemat(directory / "sub1_comp.mat", content)
    test_dg = np.cumsum(rng.standard_normal((4000, 5)), axis=0)
    savemat(directory / "sub1_testlabels.mat", {"test_dg": test_dg})
    return directory, content, test_dg


def test_a_subject_is_read_and_prepared(files):
    directory, content, test_dg = files
    found = load_bci(directory / "sub1_comp.mat", finger=2, labels=directory / "sub1_testlabels.mat", channels=[1, 4])
    expected = prepare_bci(content["train_data"], content["train_dg"][:, 2], channels=[1, 4])
    assert found.data.shape == (7, 400)
    assert_allclose(found.data, expected.data)
    assert_allclose(found.target, expected.target)
    test = prepare_bci(content["test_data"], test_dg[:, 2], channels=[1, 4])
    assert_allclose(found.data_test, test.data)
    assert np.array_equal(found.labels_test, test.labels)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda directory: load_bci(directory / "sub9_comp.mat"), FileNotFoundError, "offered at bbci.de"),
        (lambda directory: load_bci(directory / "sub1_testlabels.mat"), ValueError, "holds no train_data"),
        (
            lambda directory: load_bci(directory / "sub1_comp.mat", finger=5),
            ValueError,
            "number from 0 to 4",
        ),
        (lambda directory: load_bci(directory / "sub1_comp.mat", channels=[9]), ValueError, "electrodes from 0 to 5"),
        (
            lambda directory: load_bci(directory / "sub1_comp.mat", segment=4000),
            ValueError,
            "less than a segment of 4000",
        ),
    ],
)
def test_bad_files(files, call, error, message):
    with pytest.raises(error, match=message):
        call(files[0])


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
        (lambda *recording: make_bci(0), "n_segments must be an integer >= 1"),
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
