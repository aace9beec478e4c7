"""Tables with groups of rows: entire groups are held out, and excluded columns."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import ovk
from ovk.app.cli.app import app
from ovk.app.sessions import GroupErrors, Settings, fit_files, learn
from ovk.app.tables import split_files


def visits(path, patients, seed, first=0):
    """Ten visits of each patient; the score depends on the patient and a little on x."""
    rng = np.random.default_rng(seed)
    own, marks = rng.standard_normal(patients), rng.standard_normal((patients, 3))
    lines = ["visit,patient,x,a,b,c,score"]
    for i in rng.permutation(np.repeat(np.arange(patients), 10)).tolist():
        x = rng.standard_normal()
        score = own[i] + 0.5 * x + 0.1 * rng.standard_normal()
        cells = [f"v{len(lines)}", first + i, x, *(marks[i] + 0.01 * rng.standard_normal(3)), score]
        lines.append(",".join(cell if isinstance(cell, str) else f"{cell:.5g}" for cell in cells))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return visits(tmp_path_factory.mktemp("groups") / "known.csv", 40, seed=0)


@pytest.fixture(scope="module")
def grouped(known):
    return ovk.fit_file(known, "score", groups="patient", ignore="visit")


def held(model, path):
    found = model.predict_file(path)
    inside = (found["score lower"] <= found["score outcome"]) & (found["score outcome"] <= found["score upper"])
    return inside.mean(), np.mean((found["score"] - found["score outcome"]) ** 2)


@pytest.mark.long
def test_errors_and_intervals_are_those_of_new_groups(known, grouped, tmp_path):
    new = visits(tmp_path / "new.csv", 60, seed=1, first=100)
    coverage, mse = held(grouped, new)
    assert 0.8 < coverage < 0.99
    assert 0.6 < mse / grouped.scores[0].mse[0] < 1.6
    assert 0.8 < grouped.recent.coverage[2, 0] < 0.98
    # If single rows are held out, other rows of the same patient reveal its score.
    with pytest.warns(UserWarning, match="'patient' has 40 values"):
        rows = ovk.fit_file(known, "score")
    coverage, mse = held(rows, new)
    assert coverage < 0.7
    assert mse > 3 * rows.scores[0].mse[0]


def test_groups_are_not_an_input_and_errors_apply_to_unseen_groups(grouped, tmp_path):
    assert grouped.preparation.feature_names_ == ["x", "a", "b", "c"]
    assert grouped.tested == "the 40 groups of 'patient', a fifth of them at a time"
    assert "errors and intervals apply to unseen groups of 'patient'" in str(grouped.summary())
    path = tmp_path / "m.ovk"
    ovk.save(grouped, path)
    again = ovk.load(path)
    assert isinstance(again.recent, GroupErrors)
    assert again.settings.groups == "patient"
    np.testing.assert_array_equal(again.recent.widths(0.8), grouped.recent.widths(0.8))


@pytest.mark.long
def test_the_command_does_the_same(known, grouped, tmp_path):
    options = ["--targets", "score", "--groups", "patient", "--ignore", "visit", "--save", str(tmp_path / "m.ovk")]
    written = CliRunner().invoke(app, ["fit", str(known), *options, "--json"])
    assert written.exit_code == 0, written.output
    found = json.loads(written.stdout)
    np.testing.assert_allclose(found["loo_mse"], grouped.scores[0].mse, rtol=1e-9)
    assert found["columns"]["patient"] == "not used: identifies the groups"
    assert found["groups"] == "patient"
    assert found["warnings"] == []


def test_groups_have_equal_weights():
    # Three groups of one row and one of a hundred rows, all of its errors small.
    groups = np.array([*range(11), *([11] * 100)])
    F, Y = np.zeros((111, 1)), np.concatenate([np.arange(1.0, 12.0), np.full(100, 0.1)])[:, None]
    errors = GroupErrors.of(F, Y, groups)
    assert errors.widths(0.5) == [6.0]
    assert errors.widths(0.9) == [11.0]
    assert errors.tested[:, 0].tolist() == [12, 12, 12, 0]
    assert np.isinf(errors.widths(0.95)).all()
    # With the widths of the other groups, all errors but the largest are covered.
    assert errors.inside[2, 0] == 11.0


def test_many_groups_are_tested_in_parts():
    rng = np.random.default_rng(0)
    errors = GroupErrors.of(np.zeros((3000, 1)), rng.standard_normal((3000, 1)), np.arange(3000) // 2)
    assert errors.tested[2, 0] == 1500
    assert abs(errors.coverage[2, 0] - 0.9) < 0.03


@pytest.mark.parametrize("other", [{"lags": [1]}, {"time": ["visit"]}, {"kernel": "linear"}, {"coupling": 0.5}])
def test_settings_that_exclude_groups(known, other):
    with pytest.raises(ValueError, match=f"groups and {next(iter(other))} cannot be combined"):
        ovk.fit_file(known, "score", groups="patient", **other)


def test_groups_require_one_table(known, tmp_path):
    with pytest.raises(ValueError, match="groups and classify"):
        ovk.fit_file(known, "score", classify=True, groups="patient")
    with pytest.raises(ValueError, match="learned as a whole: use ovk fit"):
        learn(known, Settings(["score"], groups="patient"))
    with pytest.raises(ValueError, match="omit --landmarks"):
        fit_files(split_files(known), Settings(["score"], groups="patient"))
    few = tmp_path / "few.csv"
    few.write_text("site,x,y\n" + "".join(f"{'ab'[i % 2]},{i % 7},{i % 7}\n" for i in range(60)))
    with pytest.raises(ValueError, match="has 2 groups; at least 5 are required"):
        ovk.fit_file(few, "y", groups="site")
    with pytest.raises(ValueError, match="there is no column 'sitee'"):
        ovk.fit_file(few, "y", groups="sitee")


def test_a_resumed_stream_ignores_the_same_columns(known, tmp_path):
    model = str(tmp_path / "m.ovk")
    first = ["stream", str(known), "--targets", "score", "--ignore", "visit,patient", "--warm-up", "100"]
    written = CliRunner().invoke(app, [*first, "--save", model, "--json"])
    assert written.exit_code == 0, written.output
    assert json.loads(written.stdout)["inputs"] == 4
    other = CliRunner().invoke(app, ["stream", str(known), "--resume", model, "--ignore", "visit"])
    assert "--ignore visit,patient" in str(other.exception)
    assert CliRunner().invoke(app, ["stream", str(known), "--resume", model]).exit_code == 0


def test_a_stream_warns_about_identifiers(known):
    written = CliRunner().invoke(app, ["stream", str(known), "--targets", "score", "--warm-up", "200"])
    assert re.search(r"warning: Column 'patient' has \d+ values", written.stderr)
    assert "--groups" not in written.stderr
    # There is no warning about columns that the user lists.
    asked = ["stream", str(known), "--targets", "score", "--features", "patient,x", "--warm-up", "200"]
    assert "hint" not in CliRunner().invoke(app, asked).output
