"""Coupling pays where outputs are missing, and does no harm where they are not."""

import numpy as np
import pytest

from ovk import reproduce
from ovk.datasets import load_jura, load_mtr, load_parkinsons
from ovk.reproduce import jura


@pytest.mark.parametrize("logarithms", [False, True])
def test_jura_coupling_beats_cadmium_alone_by_15_percent(need, monkeypatch, logarithms):
    bunch = need(load_jura)
    # Fewer lengths than the reproduction itself, to be quick; they include those that it chooses.
    monkeypatch.setattr(jura, "LENGTHS", (0.05, 0.1, 1.6) if not logarithms else (0.05, 0.1, 0.4))
    monkeypatch.setattr(jura, "SHARES", (0.25, 0.75))
    monkeypatch.setattr(jura, "SHRINKAGE", (0.0,))
    truth = bunch.target_validation[:, list(bunch.target_names).index("Cd")]

    def error(coupled):
        prediction, _ = jura.predict_cadmium(bunch, logarithms=logarithms, coupled=coupled)
        return float(np.abs(prediction - truth).mean())

    assert error(coupled=True) <= 0.85 * error(coupled=False)


def test_mtr_operator_by_leave_one_out_does_not_lose_more_than_one_percent(need):
    need(load_mtr, "andro")
    result = reproduce.run("mtr")
    assert len(result.rows) == 2 * 8 + 1
    assert result["mean change by coupling in percent"] <= 1.0


def test_parkinsons_reports_shuffled_and_grouped(need):
    need(load_parkinsons)
    result = reproduce.run("parkinsons", repeats=1, n_train=800)
    # People that were not seen are another question than recordings that were not seen.
    assert result["shuffled, outputs apart"] < 0.7
    assert result["grouped by person, outputs apart"] > 0.8
