"""Finger movements: the layout of the competition's files."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.io import savemat

from ovk.datasets import prepare_bci
from reproduce.data import load_bci


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A subject in the layout of the competition: 6 electrodes, 5 fingers, a test part with labels of its own."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("bci")
    content = {
        "train_data": rng.standard_normal((6000, 6)).astype(np.float32),
        "train_dg": np.cumsum(rng.standard_normal((6000, 5)), axis=0),
        "test_data": rng.standard_normal((4000, 6)).astype(np.float32),
    }
    savemat(folder / "sub1_comp.mat", content)
    test_dg = np.cumsum(rng.standard_normal((4000, 5)), axis=0)
    savemat(folder / "sub1_testlabels.mat", {"test_dg": test_dg})
    return folder, content, test_dg


def test_a_subject_is_read_and_prepared(files):
    folder, content, test_dg = files
    found = load_bci(folder / "sub1_comp.mat", finger=2, labels=folder / "sub1_testlabels.mat", channels=[1, 4])
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
        (lambda folder: load_bci(folder / "sub9_comp.mat"), FileNotFoundError, "offered at bbci.de"),
        (lambda folder: load_bci(folder / "sub1_testlabels.mat"), ValueError, "holds no train_data"),
        (
            lambda folder: load_bci(folder / "sub1_comp.mat", finger=5),
            ValueError,
            "number from 0 to 4",
        ),
        (lambda folder: load_bci(folder / "sub1_comp.mat", channels=[9]), ValueError, "electrodes from 0 to 5"),
        (lambda folder: load_bci(folder / "sub1_comp.mat", segment=4000), ValueError, "less than a segment of 4000"),
    ],
)
def test_bad_calls(files, call, error, message):
    with pytest.raises(error, match=message):
        call(files[0])
