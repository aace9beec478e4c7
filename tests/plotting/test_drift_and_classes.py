"""Displays of drift and of classes, and reports with them."""

import numpy as np
import pytest

from ovk import OLOK, progressive
from ovk.app.report import report
from ovk.kernels import Gaussian
from ovk.online import PKAWVClassifier
from ovk.plotting import ConfusionDisplay, DriftDisplay, ProgressiveErrorDisplay


@pytest.fixture(scope="module")
def classes():
    X = np.random.default_rng(0).standard_normal((1500, 2))
    y = np.where((X[:, 0] > 0) == (np.arange(1500) < 900), "<b>yes", "no")
    return progressive(PKAWVClassifier(Gaussian(1.0)), X, y)


def test_windows_and_weights_change_after_drift(stream_of_numbers):
    drift = stream_of_numbers.drift
    assert drift.expert_rows[0] == drift.rows[0] == 64
    np.testing.assert_allclose(drift.weights.sum(axis=1), 1.0)
    assert drift.windows.shape == (len(drift.expert_rows), 1)
    assert drift.windows[-1, 0] < drift.windows[8, 0], drift.windows
    display = DriftDisplay.from_result(stream_of_numbers)
    assert len(display.axes_) == 3
    assert len(display.axes_[0].lines) == 1 + len(drift.alarms)


def test_alarms_are_marked(classes):
    assert len(classes.drift.alarms) == 1
    assert 900 < classes.drift.alarms[0] < 1000
    assert len(ProgressiveErrorDisplay.from_result(classes).ax_.lines) == 4
    assert len(DriftDisplay.from_result(classes).axes_) == 1
    assert ConfusionDisplay.from_result(classes).confusion.sum() == 1499  # all rows but the first


@pytest.mark.long
def test_reports(stream_of_numbers, classes, tmp_path):
    page = report(stream_of_numbers, tmp_path / "n.html").read_text(encoding="utf-8")
    assert 'id="drift"' in page
    page = report(classes, tmp_path / "c.html", notes=["A note."]).read_text(encoding="utf-8")
    for part in ('id="drift"', 'id="classes"', "&lt;b&gt;yes", "kappa", "no change", "A note."):
        assert part in page
    assert "<b>yes" not in page


def test_a_short_stream_has_no_drift_display():
    X = np.arange(10.0)[:, None]
    with pytest.raises(ValueError, match="too few rows"):
        DriftDisplay.from_result(progressive(OLOK(Gaussian(1.0)), X, X[:, 0], progress=False))
