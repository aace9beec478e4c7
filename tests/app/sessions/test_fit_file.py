"""Tests of `fit_file`."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import ovk
from ovk.app.cli.app import app
from ovk.app.sessions import TableModel
from ovk.app.sessions.summary import bad_row_kinds, bad_rows_note, describe_kernel
from ovk.kernels import Gaussian, Linear, Mapped
from ovk.operators import Dense, Identity


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "soil.csv"
    rows = [f"{'AB'[i % 2]},{i % 7}%,{i % 7 if i % 3 else ''},{i % 7 + i % 2}" for i in range(120)]
    path.write_text("\n".join(["rock,wet,zinc,lead", *rows]))
    return path


def test_fit_file_agrees_with_the_command(table, tmp_path):
    model = ovk.fit_file(table, ["zinc", "lead"])
    options = ["--targets", "zinc,lead", "--json", "--save", str(tmp_path / "soil.ovk")]
    written = CliRunner().invoke(app, ["fit", str(table), *options])
    assert written.exit_code == 0, written.output
    np.testing.assert_allclose(model.scores[0].mse, json.loads(written.stdout)["loo_mse"], rtol=1e-9)
    assert isinstance(model, TableModel)
    found = model.predict_file(table)
    np.testing.assert_allclose(found["lead"], found["lead outcome"], atol=0.3)


def test_one_target_and_settings(table):
    model = ovk.fit_file(table, "lead", features=["wet"], kernel="linear")
    assert model.settings.targets == ["lead"]
    assert model.preparation.feature_names_ == ["wet"]
    with pytest.raises(TypeError, match="kernels"):
        ovk.fit_file(table, "lead", kernels="linear")


def test_summary_lists_held_out_rows_and_selected_settings(table):
    text = str(ovk.fit_file(table, ["zinc", "lead"]).summary())
    assert "120 rows were read" in text
    assert "errors on held-out rows: every fifth row" in text
    assert re.search(r"^ +RMSE +RMSE of the mean +R2 +in 90% interval$", text, re.MULTILINE)
    assert re.search(r"^zinc( +[\d.e-]+){3} +(\d+%|-)$", text, re.MULTILINE)
    assert re.search(r"^chosen: .*, alpha ", text, re.MULTILINE)


def test_classes(table):
    model = ovk.fit_file(table, "rock", classify=True)
    assert model.settings.classify
    assert re.search(r"^ +model +majority$", text := str(model.summary()), re.MULTILINE)
    assert re.search(r"^accuracy +[\d.]+ +0\.5", text, re.MULTILINE)


def test_unreadable_cells_are_reported(table):
    table.write_text(table.read_text() + "\nA,broken,3,4\n")
    with pytest.warns(UserWarning, match="'broken' in column 'wet'"):
        ovk.fit_file(table, ["zinc", "lead"])


def test_unknown_settings(table):
    with pytest.raises(TypeError, match="fit_file has no setting 'foo'; it has coupling, features, groups"):
        ovk.fit_file(table, "lead", foo=1)


def test_columns_that_may_have_the_wrong_type(tmp_path):
    path = tmp_path / "doses.csv"
    path.write_text("dose,x,y\n" + "".join(f"{i % 30} mg,{i % 7},{i % 7}\n" for i in range(120)))
    with pytest.warns(UserWarning, match="Column 'dose' is read as words, but most"):
        ovk.fit_file(path, "y")
    written = CliRunner().invoke(app, ["fit", str(path), "--targets", "y", "--save", str(tmp_path / "m.ovk")])
    assert "warning: Column 'dose' is read as words" in written.output


def test_rows_without_a_target_are_counted(table):
    model = ovk.fit_file(table, "zinc")
    assert (model.n_rows, model.n_known) == (120, 80)


def test_a_metric_is_learned_where_few_inputs_matter(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.7, 1.7, (400, 12))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(400)
    path = tmp_path / "few.csv"
    names = [f"x{j}" for j in range(12)]
    np.savetxt(path, np.column_stack([X, y]), "%.6g", ",", header=",".join([*names, "y"]), comments="")
    model = ovk.fit_file(path, "y")
    assert "in a learned metric" in model.chosen() or "in learned metrics" in model.chosen()
    assert model.scores[0].mse[0] < 0.25 * model.scores[1].mse[0]
    # The reported errors and intervals hold on unseen rows.
    new = rng.uniform(-1.7, 1.7, (500, 12))
    outcome = np.sin(2 * new[:, 0]) + 0.5 * new[:, 1] ** 2 + 0.1 * rng.standard_normal(500)
    np.savetxt(path, np.column_stack([new, outcome]), "%.6g", ",", header=",".join([*names, "y"]), comments="")
    found = model.predict_file(path)
    assert 0.6 < np.mean((found["y"] - outcome) ** 2) / model.scores[0].mse[0] < 1.6
    assert 0.84 < np.mean((found["y lower"] <= outcome) & (outcome <= found["y upper"])) < 0.96


def test_no_metric_of_many_inputs(tmp_path, monkeypatch):
    monkeypatch.setattr("ovk.app.sessions.table_model.MAX_METRIC_INPUTS", 5)
    X = np.random.default_rng(0).standard_normal((120, 6))
    path = tmp_path / "many.csv"
    np.savetxt(path, np.column_stack([X, np.sin(2 * X[:, 0])]), "%.6g", ",", header="a,b,c,d,e,f,y", comments="")
    assert "metric" not in ovk.fit_file(path, "y").chosen()
    monkeypatch.setattr("ovk.app.sessions.table_model.MAX_METRIC_INPUTS", 6)
    assert "metric" in ovk.fit_file(path, "y").chosen()


@pytest.mark.parametrize(
    ("kernel", "outputs", "words"),
    [
        (
            Gaussian(2.0) * Dense([[1.0, 0.8], [0.8, 1.0]]),
            2,
            "Gaussian kernel, outputs coupled (strongest: a and b, 0.80)",
        ),
        (
            (Gaussian(2.0) + 0.5 * Gaussian(1.0) + Linear()) * Identity(2),
            2,
            "sum of 3 kernels (Gaussian, Linear), outputs not coupled",
        ),
        (Mapped(Gaussian(2.0), [[1.0]]) * Identity(1), 1, "Gaussian kernel in a learned metric"),
    ],
)
def test_descriptions_of_kernels(kernel, outputs, words):
    assert describe_kernel(kernel, ["a", "b"][:outputs]) == words


def test_bad_rows_are_grouped_by_fault():
    error = "'ERR' in column 'x' cannot be read (treated as missing)"
    assert bad_row_kinds(250, [*((row, error) for row in range(7, 57)), (90, "1 fields instead of 2")]) == [
        f"{error}: 50 rows (7, 8, 9, ...)",
        "1 fields instead of 2: row 90",
        "199 more rows",
    ]
    assert bad_rows_note(1, [(3, error)]) == f"1 row had unreadable cells ({error}: row 3)."
