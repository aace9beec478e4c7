"""Tests of `predict_file`."""

import csv
import io

import numpy as np
import pytest
from typer.testing import CliRunner

import ovk
from ovk.app.cli.app import app
from ovk.app.sessions import Settings, fit_table, learn
from ovk.app.sessions.predictions import PredictionColumns, Predictions
from ovk.app.tables import Batch, open_records


def _write(path, rows, header="line,load,when,y"):
    path.write_text(header + "\n" + "".join(f"{row}\n" for row in rows))
    return path


def _row(i):
    line = "AB"[i % 2]
    return f"Line {line},{i % 7}%,2024-01-{1 + i % 28:02d},{i % 7 + (line == 'A')}"


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    path = _write(tmp_path_factory.mktemp("plant") / "plant.csv", map(_row, range(120)))
    with open_records(path) as records:
        return fit_table(records, Settings(["y"]))


@pytest.fixture
def new(tmp_path):
    """Other rows, without the output, and with the columns in another order."""
    rows = [f"2024-02-{1 + i},{i % 7}%,Line A" for i in range(9)]
    return _write(tmp_path / "new.csv", rows, "when,load,line")


def test_predicts_what_the_command_writes(learned, new, tmp_path):
    ovk.save(learned, tmp_path / "plant.ovk")
    found = ovk.load(tmp_path / "plant.ovk").predict_file(new)
    written = CliRunner().invoke(app, ["predict", str(tmp_path / "plant.ovk"), str(new)])
    assert written.exit_code == 0, written.output
    rows = list(csv.DictReader(io.StringIO(written.stdout)))
    assert list(found) == ["row", "time", "y", "y lower", "y upper"] == list(rows[0])
    assert found["row"].tolist() == [int(row["row"]) for row in rows]
    assert str(found["time"][0]) == rows[0]["time"]
    for name in ("y", "y lower", "y upper"):
        np.testing.assert_allclose(found[name], [float(row[name]) for row in rows], rtol=1e-5)
    np.testing.assert_allclose(found["y"], np.arange(9) % 7 + 1, atol=0.3)


def test_sessions_and_classes_predict_files_too(tmp_path):
    path = _write(tmp_path / "t.csv", [f"{i % 7},{i % 7}" for i in range(300)], "x,y")
    session = learn(path, Settings(["y"], warm_up=100))
    found = session.predict_file(path, 0.5)
    assert list(found) == ["row", "y", "y lower", "y upper", "y outcome"]
    np.testing.assert_array_equal(found["y outcome"], np.arange(300) % 7)

    path = _write(tmp_path / "c.csv", [f"{i % 7},{'big' if i % 7 > 3 else 'small'}" for i in range(200)], "x,y")
    with open_records(path) as records:
        classes = fit_table(records, Settings(["y"], classify=True))
    found = classes.predict_file(path)
    assert list(found) == ["row", "y", "probability", "y=big", "y=small", "y outcome"]
    assert (found["y"] == found["y outcome"]).all()
    np.testing.assert_allclose(found["y=big"] + found["y=small"], 1.0)


def test_a_file_without_rows_is_rejected(learned, tmp_path):
    with pytest.raises(ValueError, match=r"new\.csv has no rows"):
        learned.predict_file(_write(tmp_path / "new.csv", [], "when,load,line"))


def test_a_batch_with_other_columns_is_rejected(learned, tmp_path):
    batch = Batch([["Line A"], ["3%"]], [1], [])
    with pytest.raises(ValueError, match=r"has 2 columns, but 4 columns .* are bound: .* predict_file"):
        learned.predictor().predict(batch)
    ovk.save(learned, tmp_path / "plant.ovk")
    with pytest.raises(ValueError, match=r"no columns are bound: .* predict_file"):
        ovk.load(tmp_path / "plant.ovk").predictor().predict(batch)


def test_unknown_words_are_reported(learned, tmp_path):
    rows = ["2024-02-01,3%,Line Z", "2024-02-02,4%,Line A", "2024-02-03,4%,"]
    path = _write(tmp_path / "new.csv", rows, "when,load,line")
    with pytest.warns(UserWarning, match="never learned \\('Line Z'\\) in 1 row"):
        learned.predict_file(path)
    ovk.save(learned, tmp_path / "plant.ovk")
    run = CliRunner().invoke(app, ["predict", str(tmp_path / "plant.ovk"), str(path)])
    assert run.exit_code == 0
    assert "Column 'line' contains categories that were never learned ('Line Z') in 1 row" in run.stderr


def test_unreadable_cells_are_reported_up_to_a_limit(learned, tmp_path):
    path = _write(tmp_path / "new.csv", [f"2024-02-0{1 + i % 9},high,Line A" for i in range(20)], "when,load,line")
    with pytest.raises(ValueError, match=r"20 of the first 20 rows of new\.csv .*'high' in column 'load'"):
        learned.predict_file(path)
    with pytest.warns(UserWarning, match="20 rows had unreadable cells .*'high' in column 'load'"):
        learned.predict_file(path, max_bad=1.0)
    ovk.save(learned, tmp_path / "plant.ovk")
    out = tmp_path / "out.csv"
    arguments = ["predict", str(tmp_path / "plant.ovk"), str(path), "--out", str(out)]
    run = CliRunner().invoke(app, arguments)
    assert run.exit_code != 0
    assert "column 'load'" in str(run.exception)
    assert not out.exists()
    run = CliRunner().invoke(app, [*arguments, "--max-bad", "1"])
    assert run.exit_code == 0
    assert "'high' in column 'load'" in run.stderr
    assert out.exists()


def test_tables_compare_kernels_by_default(learned):
    assert Settings(["y"]).kernel == "auto"
    # A stream does not compare kernels: "auto" is Gaussian.
    assert Settings(["y"]).differences(Settings(["y"], kernel="gaussian")) == []
    assert Settings(["y"]).differences(Settings(["y"], kernel="linear")) == ["kernel"]


def test_a_model_of_a_table_is_printed_in_one_line(learned):
    assert repr(learned) == f"TableModel(targets=['y'], n_inputs={len(learned.preparation.feature_names_)})"


def test_kept_columns_of_predict_file(learned, tmp_path):
    rows = [f"2024-02-0{1 + i % 9},{i % 7},Line A,p{i}" for i in range(20)]
    path = _write(tmp_path / "new.csv", rows, "when,load,line,part")
    found = learned.predict_file(path, keep=["part", "load"])
    assert list(found)[:3] == ["part", "load", "row"]
    assert found["part"].tolist() == [f"p{i}" for i in range(20)]
    assert found["load"].tolist() == [str(i % 7) for i in range(20)]
    assert list(learned.predict_file(path, keep="part"))[:2] == ["part", "row"]
    with pytest.raises(ValueError, match="did you mean 'part'"):
        learned.predict_file(path, keep=["parts"])
    named = _write(tmp_path / "row.csv", [f"{row},{i}" for i, row in enumerate(rows)], "when,load,line,part,row")
    with pytest.raises(ValueError, match="keep 'row' clashes with a column"):
        learned.predict_file(named, keep=["row"])


def test_a_file_in_another_notation_is_rejected_before_writing(learned, tmp_path):
    ovk.save(learned, tmp_path / "plant.ovk")
    rows = [f'2024-02-0{1 + i % 9};"{i % 7},5";Line A' for i in range(20)]
    path = _write(tmp_path / "comma.csv", rows, "when;load;line")
    run = CliRunner().invoke(app, ["predict", str(tmp_path / "plant.ovk"), str(path)])
    assert run.exit_code != 0
    assert "20 of the first 20 rows" in str(run.exception)
    assert run.stdout == ""


def test_missing_columns_are_listed_and_used_names_are_not_suggested(learned, tmp_path):
    path = _write(tmp_path / "renamed.csv", ["2024-02-01,1,Line A"], "when,LOAD,lines")
    with pytest.raises(ValueError, match=r"no columns 'line', 'load' in .*'lines' for 'line' and 'LOAD' for 'load'\?"):
        learned.predict_file(path)
    # "line" is an input already, so it is not suggested.
    path = _write(tmp_path / "lost.csv", ["2024-02-01,Line A"], "when,line")
    with pytest.raises(ValueError, match=r"no column 'load' in lost\.csv: its columns are 'when', 'line'"):
        learned.predict_file(path)


def test_names_of_classes_do_not_send_escape_sequences():
    columns = PredictionColumns(["y\x07"], labels=["\x1b]0;title\x07a", "b\x9b31m"], keep={"id\x1b[2J": 0})
    assert columns.header == "id[2J,row,y,probability,y=]0;titlea,y=b31m\n"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_spreadsheets_run_neither_labels_nor_names_as_formulas(start):
    """All starts of a formula in the list of OWASP; a number is not one."""
    word = f"{start}SUM(A1)"
    columns = PredictionColumns([word], labels=[word, "-1"], keep={word: 0})
    found = Predictions([1], np.array([[0.75, 0.25]]), None, None, None, [word, "-1"])
    text = "".join([columns.header, *columns.lines(found, Batch([[word]], [1], []))])
    names, cells = csv.reader(io.StringIO(text, newline=""))
    assert cells == [f"'{word}", "1", f"'{word}", "0.75", "0.75", "0.25"]
    # Control characters are removed from names.
    assert [name.startswith("'") for name in names] == [True, False, True, False, True, True]
    other = Predictions([1], np.array([[0.25, 0.75]]), None, None, None, [word, "-1"])
    assert next(iter(columns.lines(other, Batch([["-1"]], [1], [])))) == "-1,1,-1,0.75,0.25,0.75\n"
