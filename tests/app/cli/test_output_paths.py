"""Output files never overwrite inputs, and `$` in names is not a formula in plots."""

import json

import numpy as np
import pytest


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(80)
    path = tmp_path / "t.csv"
    rows = zip(x, x + 0.1 * rng.standard_normal(80), strict=True)
    path.write_text("x,$q_$\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in rows))
    return path


@pytest.mark.parametrize("command", ["fit", "stream"])
def test_a_report_does_not_replace_the_model(ovk, table, command):
    model = table.with_name("same.ovk")
    code, _, err = ovk(command, table, "--targets", "$q_$", "--save", model, "--report", model)
    assert code == 2
    assert "is the model file" in err
    assert not model.exists()


@pytest.mark.parametrize("command", ["fit", "stream"])
def test_dollars_in_names_are_not_formulas(ovk, table, command):
    report = table.with_name("report.html")
    options = ["--warm-up", 20] if command == "stream" else []
    code, _, err = ovk(
        command, table, "--targets", "$q_$", "--save", table.with_name("m.ovk"), "--report", report, *options
    )
    assert code == 0, err
    assert "$q_$" in report.read_text(encoding="utf-8")


def test_a_file_that_ends_in_the_warm_up_is_continued(ovk, table):
    model = table.with_name("m.ovk")
    assert ovk("stream", table, "--targets", "$q_$", "--save", model)[0] == 0
    assert ovk("stream", table, "--resume", model)[0] == 0
    with table.open("a") as file:
        file.write("0.5,0.6\n0.1,0.1\n")
    code, out, err = ovk("stream", table, "--resume", model, "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 82


def test_a_new_run_replaces_an_earlier_model_only_on_request(ovk, table):
    model = table.with_name("m.ovk")
    run = ("stream", table, "--targets", "$q_$", "--save", model, "--warm-up", 20)
    model.touch()  # as tempfile and mktemp do
    assert ovk(*run)[0] == 0
    before = model.read_bytes()
    code, _, err = ovk(*run)
    assert code == 2
    assert "--resume" in err
    assert "--overwrite" in err
    assert model.read_bytes() == before
    assert ovk(*run, "--overwrite")[0] == 0
    assert ovk(*run, "--resume", model)[0] == 0


def test_input_files_are_not_replaced(ovk, table):
    before = table.read_bytes()
    code, _, err = ovk("fit", table, "--targets", "$q_$", "--save", table)
    assert code == 2
    assert "is not an ovk model; choose another name" in err
    model = table.with_name("m.ovk")
    assert ovk("fit", table, "--targets", "$q_$", "--save", model)[0] == 0
    learned = model.read_bytes()
    for place, why in ((model, "the model file"), (table, "the input file")):
        code, _, err = ovk("predict", model, table, "--out", place)
        assert code == 2
        assert f"--out: {place} is {why}" in err
    link = table.with_name("link.csv")
    link.hardlink_to(table)
    assert ovk("predict", model, table, "--out", link)[0] == 2
    assert ovk("forecast", model, "--inputs", table, "--out", table)[0] == 2
    assert ovk("merge", model, model.with_name("n.ovk"), "--save", table)[0] == 2
    beside = model.parent / ".." / model.parent.name / model.name
    assert "is the model file" in ovk("merge", model, model.with_name("n.ovk"), "--save", beside)[2]
    assert table.read_bytes() == before
    assert model.read_bytes() == learned
    # A model or an empty file is replaced.
    model.write_bytes(b"")
    for _ in range(2):
        assert ovk("fit", table, "--targets", "$q_$", "--save", model)[0] == 0


@pytest.mark.parametrize("command", ["fit", "stream"])
def test_output_paths_are_checked_before_learning(ovk, table, command):
    ask = (command, table, "--targets", "$q_$")
    code, out, err = ovk(*ask, "--save", table.with_name("none") / "m.ovk")
    assert (code, out) == (2, "")
    assert "does not exist" in err
    model = table.with_name("m.ovk")
    code, out, err = ovk(*ask, "--save", model, "--report", table.with_name("r.pdf"))
    assert (code, out) == (2, "")
    assert "must end in .html" in err
    assert not model.exists()


def test_plot_names_valid_suffixes(ovk, table):
    model = table.with_name("m.ovk")
    assert ovk("fit", table, "--targets", "$q_$", "--save", model)[0] == 0
    code, _, err = ovk("plot", model, "--out", table.with_name("m.xyz"))
    assert code == 2
    assert "or .html for a report" in err
