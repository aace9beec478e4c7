"""Served classification sessions."""

import numpy as np

from ovk import load
from ovk.app.serve.protocol import RequestRows
from ovk.app.serve.served_model import as_served


def test_a_session_of_classes_predicts_and_learns(stream_of_classes, tmp_path):
    (tmp_path / "m.ovk").write_bytes(stream_of_classes[0])
    one = as_served(load(tmp_path / "m.ovk"), "m")
    rows = RequestRows.named(["a", "b"], [np.array([2.0, -2.0]), np.array([2.0, -2.0])])
    found = one.predict(rows, frozenset({"probability"}), 0.9)
    assert one.output_specs()["probability"].columns == ["low", "mid", "high"]
    assert found["label"][1] == "low"
    np.testing.assert_allclose(found["probability"].sum(axis=1), 1.0)
    before = one.model.evaluator.n_rows
    other, outcome = one.learned(rows, RequestRows.named(["y"], [["new", None]]))
    assert other.model.preparation.classes() == ["low", "mid", "high", "new"]
    assert one.model.preparation.classes() == ["low", "mid", "high"]
    assert (one.model.evaluator.n_rows, other.model.evaluator.n_rows) == (before, before + 2)
    assert outcome.Y[0, 0] == 3.0
    assert np.isnan(outcome.Y[1, 0])
