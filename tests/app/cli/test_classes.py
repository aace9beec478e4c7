"""Tests of classification on the command line."""

import csv
import io
import json

import pytest

from app.sessions.test_class_sessions import table


def test_a_stream_of_classes(ovk, tmp_path):
    path, model = table(tmp_path / "t.csv"), tmp_path / "m.ovk"
    ask = ["--targets", "y", "--classify", "--warm-up", 100, "--save", model, "--report", tmp_path / "r.html"]
    code, out, _ = ovk("stream", path, *ask)
    assert code == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'id="drift"' in page
    assert "balanced accuracy" in page
    for word in ("accuracy", "kappa", "log loss", "AUC", "no change", "majority", "recall", "1 of them added later"):
        assert word in out
    code, out, _ = ovk("stream", path, "--resume", model, "--json")
    found = json.loads(out)
    assert found["classes"] == ["low", "mid", "high"]
    assert found["accuracy"]["AutoStreamClassifier"] > found["accuracy"]["majority"]
    assert set(found["log_loss"]) == set(found["kappa"]) == set(found["auc"]) == set(found["accuracy"])
    assert len(found["confusion"]) == 3
    assert found["alarms"] == []
    code, out, _ = ovk("predict", model, path)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 400
    assert rows[0]["y"] in {"low", "mid", "high"}
    code, out, _ = ovk("predict", model, path, "--json")
    assert set(json.loads(out.splitlines()[0])["y"]["probability"]) == {"low", "mid", "high"}
    assert ovk("plot", model, "--out", tmp_path / "m.png")[0] == 0
    assert (tmp_path / "m.png").stat().st_size > 10_000
    code, _, err = ovk("stream", path, "--targets", "y", "--resume", model)
    assert code == 2
    assert "--classify" in err


def test_a_table_of_classes(ovk, tmp_path):
    path, model = table(tmp_path / "t.csv", 200, late=0), tmp_path / "m.ovk"
    code, out, _ = ovk("fit", path, "--targets", "y", "--classify", "--kernel", "gaussian", "--save", model)
    assert code == 0
    assert "majority" in out
    code, out, _ = ovk("predict", model, path)
    assert code == 0
    assert out.startswith("row,y,probability,")
    assert ovk("forecast", model, "--steps", 3)[0] != 0


def test_targets_of_unclear_type(ovk, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y,z\n" + "".join(f"{i % 5},{i % 2},{'ab'[i % 2]}\n" for i in range(200)))
    code, _, err = ovk("stream", path, "--targets", "y", "--features", "x", "--warm-up", 50)
    assert code == 0
    assert "contains only 0, 1. If these are classes, pass --classify." in err
    code, _, err = ovk("stream", path, "--targets", "z", "--warm-up", 50)
    assert code != 0
    assert "--classify" in err
    code, _, err = ovk("fit", path, "--targets", "z", "--classify", "--landmarks", 10, "--save", tmp_path / "m.ovk")
    assert code == 2
    assert "ovk stream --classify" in err


@pytest.mark.parametrize("option", [["--lags", "1"]])
def test_lags_of_labels_are_rejected(ovk, tmp_path, option):
    code, _, err = ovk("stream", table(tmp_path / "t.csv"), "--targets", "y", "--classify", *option)
    assert code != 0
    assert "uses the last label" in err


@pytest.mark.parametrize("command", ["fit", "stream"])
def test_none_is_a_class(ovk, tmp_path, command):
    path, model = tmp_path / "t.csv", tmp_path / "m.ovk"
    kinds = ("none", "radio", "None")
    path.write_text("a,kind\n" + "".join(f"{i % 3}.{i},{kinds[i % 3]}\n" for i in range(150)))
    code, out, err = ovk(command, path, "--targets", "kind", "--classify", "--save", model)
    assert code == 0, err
    assert "2 classes ('none', 'radio')" in out
