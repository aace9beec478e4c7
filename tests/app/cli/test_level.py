"""`ovk stream --level` sets the level of predictions, summary, report and forecasts, and is saved with the model."""

import csv
import json
import re

import numpy as np
import pytest

from household import series
from ovk import load
from ovk.app.sessions import Settings
from ovk.evaluation import RecentErrors

ASK = ["--targets", "a,b", "--features", "", "--lags", "1,2", "--model", "olok", "--warm-up", "200", "--block", "100"]


def parts(directory):
    return "".join(path.read_text() for path in sorted(directory.glob("part-*")))


@pytest.mark.parametrize("level", [0.8, pytest.param(0.85, marks=pytest.mark.long)])
def test_one_level_for_predictions_summary_report_and_forecasts(ovk, tmp_path, level):
    path, model, page = series(tmp_path / "t.csv"), tmp_path / "m.ovk", tmp_path / "r.html"
    code, out, _ = ovk(
        *("stream", path, *ASK, "--level", level, "--save", model, "--report", page),
        *("--predictions", tmp_path / "parts"),
    )
    assert code == 0
    assert f"in {level:.0%} interval" in out
    assert "median width" in out
    assert "mean absolute error" in out
    assert "in 90% interval" not in out
    session = load(model)
    assert session.settings.level == session.recent.level == level
    rows = [row for row in csv.DictReader(parts(tmp_path / "parts").splitlines()) if row["a outcome"]][20:]
    held = np.mean([float(row["a lower"]) <= float(row["a outcome"]) <= float(row["a upper"]) for row in rows])
    assert abs(held - level) < 0.06
    shown = session.recent.shown
    assert abs(shown.coverage[0] - held) < 0.03
    widths = [float(row["a upper"]) - float(row["a lower"]) for row in rows]
    assert abs(shown.width[0] / np.median(widths) - 1) < 0.1
    text = page.read_text(encoding="utf-8")
    assert f"in {level:.0%} interval</th>" in text
    assert f"{level:.0%} intervals" in text
    assert "90% interval" not in text
    asked = ("forecast", model, "--steps", 5)
    assert ovk(*asked)[1] == ovk(*asked, "--level", level)[1] != ovk(*asked, "--level", 0.9)[1]
    assert ovk("predict", model, path)[1] == ovk("predict", model, path, "--level", level)[1]


def test_a_resumed_model_keeps_its_level(ovk, tmp_path):
    path = series(tmp_path / "t.csv", 900)
    lines = path.read_text().splitlines(keepends=True)
    first = tmp_path / "half.csv"
    first.write_text("".join(lines[:501]))
    ask = [*ASK, "--level", "0.8", "--checkpoint", "100"]
    ovk("stream", path, *ask, "--save", tmp_path / "whole.ovk", "--predictions", tmp_path / "whole")
    halves = tmp_path / "half.ovk"
    ovk("stream", first, *ask, "--save", halves, "--predictions", tmp_path / "halves")
    first.write_text("".join(lines))
    code, out, _ = ovk("stream", first, "--resume", halves, "--predictions", tmp_path / "halves")
    assert code == 0
    assert "in 80% interval" in out
    assert parts(tmp_path / "halves") == parts(tmp_path / "whole")
    assert load(halves).recent.state().keys() == load(tmp_path / "whole.ovk").recent.state().keys()
    np.testing.assert_array_equal(load(halves).recent.half, load(tmp_path / "whole.ovk").recent.half)
    code, _, err = ovk("stream", first, "--resume", halves, "--level", "0.95")
    assert code == 2
    assert re.search(r"learned with different settings \(--level 0.8\).*omit\s+--level", err)


def test_json_contains_the_level(ovk, tmp_path):
    _, out, _ = ovk("stream", series(tmp_path / "t.csv", 600), *ASK, "--level", "0.975", "--json")
    found = json.loads(out)
    assert found["interval_level"] == 0.975
    assert len(found["interval_coverage"]) == len(found["interval_width"]) == 2


def test_invalid_levels(ovk, tmp_path):
    code, _, err = ovk("stream", series(tmp_path / "t.csv", 300), *ASK, "--level", "90")
    assert code == 2
    assert "--level must be a number in (0, 1), such as 0.9, got 90" in err
    with pytest.raises(ValueError, match="level must be a number in"):
        Settings(["y"], level=1.5).check()


def test_a_level_that_is_not_a_default():
    rng = np.random.default_rng(0)
    F, Y = np.zeros((3000, 2)), rng.standard_normal((3000, 2))
    recent, usual = RecentErrors.empty(2, level=0.7), RecentErrors.empty(2)
    half = recent.update(F, Y)
    usual.update(F, Y)
    np.testing.assert_array_equal(recent.levels, [0.5, 0.7, 0.8, 0.9, 0.95])
    np.testing.assert_array_equal(recent.coverage[[0, 2, 3, 4]], usual.coverage)
    np.testing.assert_allclose(recent.shown.coverage, 0.7, atol=0.03)
    np.testing.assert_allclose(half[-1], 1.04, atol=0.1)
    assert recent.shown.percent == "70%"
    np.testing.assert_allclose(recent.shown.width, 2 * np.median(half[-2000:], axis=0))
    recent.merge(recent)
    assert recent.level == 0.7
    assert np.isnan(RecentErrors.empty(2).shown.width).all()


@pytest.mark.long
def test_unknown_bounds_are_explained(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 400), tmp_path / "m.ovk"
    code, out, err = ovk("fit", path, "--targets", "a,b", "--features", "", "--lags", 1, "--save", model)
    assert code == 0, err
    code, out, err = ovk("predict", model, path, "--level", 0.999)
    assert code == 0, err
    assert out.splitlines()[1].count(",,") > 0
    assert "99.9% intervals require at least 999 errors" in err
    assert ovk("predict", model, path)[2] == ""
