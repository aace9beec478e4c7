"""Tests of `ovk forecast`, and of predictions in several file formats."""

import csv
import io
import json

import numpy as np
import pytest

from household import series


@pytest.fixture(scope="module")
def daily(tmp_path_factory):
    """A file with a daily series and a weekly cycle."""
    directory = tmp_path_factory.mktemp("daily")
    rng = np.random.default_rng(0)
    days = np.datetime64("2023-01-01") + np.arange(300)
    y = 10 + 3 * np.sin(2 * np.pi * np.arange(300) / 7) + rng.standard_normal(300)
    path = directory / "t.csv"
    lines = [f"{day},{a:.3f},{a**2:.3f}" for day, a in zip(days, y, strict=True)]
    path.write_text("\n".join(["day,=a,b", *lines]), encoding="utf-8")
    return path


def test_forecast_in_every_format(ovk, daily, tmp_path):
    model = tmp_path / "m.ovk"
    common = ("--targets", "=a,b", "--time", "day", "--lags", "1,7", "--save", model)
    assert ovk("stream", daily, *common, "--horizon", 10)[0] == 0
    code, out, err = ovk("forecast", model, "--steps", 12)
    assert code == 0
    assert "only 10 of 12 steps have intervals: learn with --horizon 12" in err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0]) == ["step", "time", "'=a", "'=a lower", "'=a upper", "b", "b lower", "b upper"]
    assert (rows[0]["step"], rows[0]["time"]) == ("1", "2023-10-28T00:00:00")
    assert float(rows[0]["b lower"]) < float(rows[0]["b"]) < float(rows[0]["b upper"])
    assert rows[11]["b lower"] == ""
    code, out, _ = ovk("forecast", model, "--steps", 3, "--level", 0.5, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert lines[0]["time"] == "2023-10-28T00:00:00"
    assert lines[0]["b"]["prediction"] == pytest.approx(float(rows[0]["b"]))
    assert lines[0]["b"]["upper"] < float(rows[0]["b upper"])
    table, picture = tmp_path / "f.parquet", tmp_path / "f.svg"
    assert ovk("forecast", model, "--steps", 12, "--out", table, "--plot", picture)[0] == 0
    parquet = pytest.importorskip("pyarrow.parquet")
    found = parquet.read_table(table)
    assert found.column_names[:3] == ["step", "time", "=a"]
    assert found["b lower"].null_count == 2
    assert "<svg" in picture.read_text(encoding="utf-8")
    assert "<!-- 90% interval -->" in picture.read_text(encoding="utf-8")


def test_a_table_model_forecasts(ovk, daily, tmp_path):
    model = tmp_path / "m.ovk"
    assert ovk("fit", daily, "--targets", "b", "--features", "day", "--lags", "1,7", "--save", model)[0] == 0
    code, out, err = ovk("forecast", model, "--steps", 7)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 8


def test_invalid_forecasts(ovk, daily, tmp_path):
    path, model = series(tmp_path / "t.csv", 200), tmp_path / "m.ovk"
    assert ovk("stream", path, "--targets", "a", "--features", "x", "--lags", 1, "--save", model)[0] == 0
    code, _, err = ovk("forecast", model)
    assert code == 3
    assert "inputs 'x' of the next rows are unknown" in err
    assert "--inputs" in err
    code, _, err = ovk("forecast", path)
    assert (code, "is not a model" in err) == (4, True)
    assert ovk("forecast", model, "--steps", 0)[0] == 2
    assert ovk("forecast", model, "--plot", tmp_path / "f.docx")[0] == 2
    assert ovk("forecast", model, "--out", tmp_path / "nowhere" / "f.csv")[0] == 2
    assert ovk("forecast", model, "--level", 2)[0] == 2
    inputs = tmp_path / "future.csv"
    inputs.write_text("x\n1\n2\n", encoding="utf-8")
    assert ovk("forecast", model, "--inputs", inputs, "--steps", 2)[0] == 0


def test_predictions_carry_times_and_outcomes(ovk, daily, tmp_path):
    model, parts = tmp_path / "m.ovk", tmp_path / "parts"
    common = ("--targets", "b", "--features", "day", "--lags", "1,7")
    assert ovk("stream", daily, *common, "--save", model, "--predictions", parts)[0] == 0
    first = next(csv.DictReader(io.StringIO((parts / "part-000000.csv").read_text(encoding="utf-8"))))
    source = list(csv.DictReader(io.StringIO(daily.read_text(encoding="utf-8"))))
    row = source[int(first["row"]) - 1]
    assert (first["time"], float(first["b outcome"])) == (f"{row['day']}T00:00:00", float(row["b"]))
    code, out, _ = ovk("predict", model, daily)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (rows[5]["time"], float(rows[5]["b outcome"])) == ("2023-01-06T00:00:00", float(source[5]["b"]))
    code, out, _ = ovk("predict", model, daily, "--json")
    assert code == 0
    assert json.loads(out.splitlines()[5])["b"]["outcome"] == float(source[5]["b"])
    table = tmp_path / "p.parquet"
    assert ovk("predict", model, daily, "--out", table)[0] == 0
    parquet = pytest.importorskip("pyarrow.parquet")
    np.testing.assert_allclose(parquet.read_table(table)["b"].to_numpy(), [float(row["b"]) for row in rows], rtol=1e-6)
