"""Tests of `ovk stream`: options, output, and files after a kill."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from household import series
from ovk import load
from ovk.app.sessions import Session
from ovk.persistence import inspect

ASK = ["--targets", "a,b", "--lags", "1,2,3", "--time", "Date,Time", "--model", "olok", "--warm-up", "200"]


def test_a_stream_is_learned_and_summarised(ovk, tmp_path):
    path = series(tmp_path / "t.csv")
    model, parts = tmp_path / "m.ovk", tmp_path / "parts"
    code, out, _ = ovk(
        "stream", path, *ASK, "--save", model, "--predictions", parts, "--checkpoint", 500, "--block", 100
    )
    assert code == 0
    assert "1,500 rows read" in out
    assert "last value" in out
    assert "in 90% interval" in out
    session = load(model)
    assert isinstance(session, Session)
    assert session.offset == 1500
    assert {"word=red", "word=blue", "word=green", "x", "a lag 3"} < set(session.preparation.feature_names_)
    assert sorted(p.name for p in parts.glob("part-*")) == [
        f"part-{k:06d}.csv" for k in range(session.prediction_files)
    ]
    assert sorted(p.name for p in parts.iterdir() if not p.name.startswith("part-")) == ["manifest.json"]
    rows = [row for p in sorted(parts.glob("part-*")) for row in csv.DictReader(p.read_text().splitlines())]
    assert [int(row["row"]) for row in rows] == list(range(201, 1501))
    assert all(float(row["a lower"]) <= float(row["a"]) <= float(row["a upper"]) for row in rows[-100:])


@pytest.mark.parametrize(("cell", "code"), [("?", 3), ("1.5", 0)])
def test_a_table_without_any_target_fails(ovk, tmp_path, cell, code):
    path, model = tmp_path / "t.csv", tmp_path / "m.ovk"
    path.write_text("x,y\n" + "".join(f"{i},?\n" for i in range(59)) + f"60,{cell}\n")
    found, _, err = ovk("stream", path, "--targets", "y", "--save", model)
    assert found == code
    assert ("no row of" in err and "has a value of the targets 'y'" in err) == (code == 3)
    assert load(model).offset == 60  # so that a file that grows can be resumed


def test_names_of_targets_are_data_not_markup(ovk, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y [kg],[/red]\n" + "".join(f"{i % 7},{i % 7},{i % 5}\n" for i in range(60)), encoding="utf-8")
    code, out, _ = ovk("stream", path, "--targets", "y [kg],[/red]", "--warm-up", "20")
    assert code == 0
    assert "y [kg]" in out
    assert "[/red]" in out


def test_summary_as_json(ovk, tmp_path):
    code, out, _ = ovk("stream", series(tmp_path / "t.csv", 600), *ASK, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["rows"] == 600
    assert found["outputs"] == ["a", "b"]
    assert set(found["mse"]) == {"OLOK", "last value", "running mean"}
    assert found["peak_memory_mb"] > 0


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "stdin", "csv.gz"])
def test_every_file_format_gives_the_same_result(ovk, tmp_path, monkeypatch, kind):
    path = series(tmp_path / "t.csv", 500)
    reference = json.loads(ovk("stream", path, *ASK, "--json")[1])
    rows = list(csv.DictReader(path.read_text().splitlines()))
    if kind == "jsonl":
        other = tmp_path / "t.jsonl"
        other.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif kind == "parquet":
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        other = tmp_path / "t.parquet"
        parquet.write_table(arrow.Table.from_pylist(rows), other, row_group_size=77)
    elif kind == "csv.gz":
        import gzip

        other = tmp_path / "t.csv.gz"
        other.write_bytes(gzip.compress(path.read_bytes()))
    else:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        other = "-"
    assert json.loads(ovk("stream", other, *ASK, "--json")[1])["mse"] == reference["mse"]


def test_faulty_rows_are_counted(ovk, tmp_path):
    path = series(tmp_path / "t.csv", 600)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[300] = "too,short"
    lines[400] = lines[400].replace(",", ",oops", 1).rsplit(",", 1)[0] + ",bad"
    path.write_text("\n".join(lines), encoding="utf-8")
    code, out, _ = ovk("stream", path, *ASK)
    assert code == 0
    assert "2 of 600 rows (0.3%) had unreadable cells" in out
    assert "2 fields instead of 6: row 300" in out


def test_a_growing_file(ovk, tmp_path):
    path = series(tmp_path / "t.csv", 900)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:701]), encoding="utf-8")
    model = tmp_path / "m.ovk"
    assert ovk("stream", path, *ASK, "--save", model)[0] == 0
    path.write_text("".join(lines), encoding="utf-8")
    code, out, _ = ovk("stream", path, "--resume", model)
    assert code == 0
    assert "900 rows read, 200 of them in this run; learning took" in out
    assert load(model).evaluator.n_rows == 900
    code, out, _ = ovk("stream", path, "--resume", model)
    assert code == 0
    assert "no new rows in this run" in out


def test_resuming_with_other_files_or_settings(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 500), tmp_path / "m.ovk"
    assert ovk("stream", path, *ASK, "--save", model)[0] == 0
    before = model.read_bytes()
    code, _, err = ovk("stream", path, "--targets", "a", "--resume", model)
    assert code == 2
    assert "different settings" in err
    assert "--targets a,b" in err
    # The message lists only options that were given.
    assert "omit --targets, or" in " ".join(err.split())
    code, _, err = ovk("stream", series(tmp_path / "other.csv", 600, seed=1), "--resume", model)
    assert code == 3
    assert "not the file" in err
    code, _, err = ovk("stream", series(tmp_path / "short.csv", 100), "--resume", model)
    assert code == 3
    assert "has 100 rows, but 500" in err
    code, _, err = ovk("stream", path, "--resume", tmp_path / "none.ovk")
    assert code == 2
    assert "--targets" in err
    assert model.read_bytes() == before


def test_predictions_of_other_models_are_not_changed(ovk, tmp_path):
    path, parts = series(tmp_path / "t.csv", 500), tmp_path / "parts"
    assert ovk("stream", path, *ASK, "--predictions", parts)[0] == 0
    before = written(parts)
    code, _, err = ovk("stream", path, *ASK, "--predictions", parts)
    assert code == 2
    assert written(parts) == before
    assert "already contains predictions" in err


def test_a_file_that_is_not_a_model_is_not_replaced(ovk, tmp_path):
    path, precious = series(tmp_path / "t.csv", 500), tmp_path / "thesis.doc"
    precious.write_text("years of work", encoding="utf-8")
    code, _, err = ovk("stream", path, *ASK, "--save", precious)
    assert code == 2
    assert "not an ovk model" in err
    assert precious.read_text(encoding="utf-8") == "years of work"


def test_a_pipe_is_resumed_by_piping_it_again(ovk, tmp_path, monkeypatch):
    text = series(tmp_path / "t.csv", 700).read_bytes()
    lines = text.splitlines(keepends=True)
    for name, stops in (("whole.ovk", [701]), ("m.ovk", [401, 701])):
        for stop in stops:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"".join(lines[:stop]))))
            model = tmp_path / name
            assert ovk("stream", "-", *ASK, "--resume", model, "--block", 100)[0] == 0
    assert (tmp_path / "m.ovk").read_bytes() == (tmp_path / "whole.ovk").read_bytes()


def written(parts):
    """Contents of the prediction files in a directory, by name."""
    return {p.name: p.read_bytes() for p in parts.glob("part-*")}


def command(path, model, parts, *more):
    where = [*ASK, "--save", model, "--resume", model, "--predictions", parts, "--block", "50", "--checkpoint", "200"]
    return [sys.executable, "-m", "ovk", "stream", *map(str, [path, *where, *more])]


@pytest.mark.long
def test_killed_at_random_moments_and_resumed(ovk, tmp_path):
    """SIGKILL at any time; model and predictions are bit-identical to those of an uninterrupted run."""
    path = series(tmp_path / "t.csv", 4000)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    code, *_ = ovk(*command(path, tmp_path / "whole.ovk", tmp_path / "whole")[3:])
    assert code == 0
    model, parts = tmp_path / "m.ovk", tmp_path / "parts"
    rng = np.random.default_rng(0)
    kills = 0
    while True:
        process = subprocess.Popen(command(path, model, parts), env=environment, stdout=subprocess.DEVNULL)
        limit = None if kills >= 2 else float(rng.uniform(0.0, 0.4))
        # Importing takes a second or more: wait for the first output before the kill.
        before = model.stat().st_mtime_ns if model.exists() else None
        while process.poll() is None and (model.stat().st_mtime_ns if model.exists() else None) == before:
            time.sleep(0.005)
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            inspect(model)  # never damaged
            continue
        assert process.returncode == 0
        break
    assert model.read_bytes() == (tmp_path / "whole.ovk").read_bytes()
    assert written(parts) == written(tmp_path / "whole")


@pytest.mark.parametrize("option", [("--kernel", "matern"), ("--coupling", 0.5)])
def test_autostream_accepts_no_kernel(ovk, tmp_path, option):
    path = series(tmp_path / "t.csv", 100)
    code, _, err = ovk("stream", path, "--targets", "a", "--model", "autostream", *option)
    assert code == 2
    assert f"{option[0]} and --model autostream cannot be combined" in err


def test_names_with_colons_are_not_emoji(ovk, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a:b:c\n1\n2\n")
    code, _, err = ovk("stream", path, "--targets", "b")
    assert code == 3
    assert "its only column is 'a:b:c'; separate cells by commas" in err


def test_a_table_model_is_not_a_session(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 100), tmp_path / "m.ovk"
    assert ovk("fit", path, "--targets", "a", "--save", model)[0] == 0
    code, _, err = ovk("stream", path, "--resume", model)
    assert code == 4
    assert "contains a TableModel" in err
