"""A file learned by one call, as `ovk fit` learns it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import ovk
from ovk.cli.app import app
from ovk.sessions import Fitted, FittedClasses


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "soil.csv"
    rows = [f"{'AB'[i % 2]},{i % 7}%,{i % 7 if i % 3 else ''},{i % 7 + i % 2}" for i in range(120)]
    path.write_text("\n".join(["rock,wet,zinc,lead", *rows]))
    return path


def test_learns_what_the_command_learns(table, tmp_path):
    model = ovk.fit_file(table, ["zinc", "lead"])
    options = ["--targets", "zinc,lead", "--json", "--save", str(tmp_path / "soil.ovk")]
    written = CliRunner().invoke(app, ["fit", str(table), *options])
    assert written.exit_code == 0, written.output
    np.testing.assert_allclose(model.errors[0], json.loads(written.stdout)["left_out_mse"], rtol=1e-9)
    assert isinstance(model, Fitted)
    found = model.predict_file(table)
    np.testing.assert_allclose(found["lead"], found["lead outcome"], atol=0.3)


def test_one_target_and_settings(table):
    model = ovk.fit_file(table, "lead", features=["wet"], kernel="linear")
    assert model.settings.targets == ["lead"]
    assert model.preparation.feature_names_ == ["wet"]
    with pytest.raises(TypeError, match="kernels"):
        ovk.fit_file(table, "lead", kernels="linear")


def test_says_what_was_left_out_and_what_was_chosen(table):
    text = ovk.fit_file(table, ["zinc", "lead"]).summary()
    assert text.startswith("120 rows; errors on every fifth row")
    assert "zinc: R2 " in text
    assert "alpha" in text.splitlines()[-1]


def test_classes(table):
    model = ovk.fit_file(table, "rock", classify=True)
    assert isinstance(model, FittedClasses)
    assert "majority: accuracy 0.5" in model.summary()


def test_cells_that_cannot_be_read_are_named(table):
    table.write_text(table.read_text() + "\nA,broken,3,4\n")
    with pytest.warns(UserWarning, match="'broken' in column 'wet'"):
        ovk.fit_file(table, ["zinc", "lead"])
