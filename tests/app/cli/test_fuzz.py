"""Random files give one-sentence errors, documented exit codes, and never a damaged model."""

import gzip
import io
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from household import series
from ovk.app.cli import main
from ovk.persistence import load

CODES = {0, 2, 3, 4}
ASK = ["--targets", "y"]


def table(n=40, header="x,y"):
    return header + "\n" + "".join(f"{i % 7},{(3 * i) % 7}\n" for i in range(n))


FILES = {
    "ragged rows": b"x,y\n" + b"1,2\n3\n4,5,6\n,\n" * 20,
    "latin letters": table(header="temp\xe9rature,y").encode("latin-1"),
    "utf-16": table().encode("utf-16"),
    "utf-16 without mark": table().encode("utf-16-le"),
    "mark of utf-8": table().encode("utf-8-sig"),
    "broken utf-8 within": table().encode() + b"\xff\xfe,1\n" * 5 + b"1,2\n" * 20,
    "huge field": table().encode() + b"9" * 300_000 + b",1\n" + b"1,2\n" * 20,
    "huge line": table().encode() + b"," * 200_000 + b"\n" + b"1,2\n" * 20,
    "open quote": table().encode() + b'"open,1\n' + b"1,2\n" * 50,
    "spellings of nothing": b"x,y\n" + b"nan,NA\nN/A,?\nnull,None\n<NA>,NaN\n1,2\n2,3\n3,1\n" * 10,
    "infinities": b"x,y\n" + b"inf,1\n1,-inf\n1e999,2\n1,2\n2,3\n3,1\n" * 10,
    "absurd sizes": b"x,y\n" + b"1,2\n2,3\n3,1\n1e300,1\n1,1e300\n-1e300,-1e300\n" * 10,
    "empty": b"",
    "blank lines": b"\n\n\n",
    "only a header": b"x,y\n",
    "one row": b"x,y\n1,2\n",
    "no header": b"1,2\n3,4\n",
    "all outputs missing": b"x,y\n" + b"1,?\n" * 50,
    "all inputs missing": b"x,y\n" + b"?,1\n?,2\n" * 30,
    "constant": b"x,y\n" + b"1,1\n" * 50,
    "output is a word": b"x,y\n" + b"1,red\n2,blue\n" * 30,
    "output becomes a word": table(60).encode() + b"1,red\n" * 60,
    "zero bytes": b"x,y\n1,\0\n" * 30,
    "binary": bytes(range(256)) * 20,
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
    "a spreadsheet": b"PK\x03\x04" + bytes(range(256)) * 4,
    "only commas": b",,,,\n" * 50,
    "column twice": b"x,x,y\n" + b"1,2,3\n2,3,4\n" * 30,
    "target twice": b"x,y,y\n" + b"1,2,3\n2,3,4\n" * 30,
    "old line ends": table().replace("\n", "\r").encode(),
    "windows line ends": table().replace("\n", "\r\n").encode(),
    "json in csv": b'{"x": 1, "y": 2}\n' * 30,
    "dates that stop": b"d,y\n" + b"2020-01-01,1\n2020-01-02,2\n" * 20 + b"never,3\n" * 20,
    "semicolons and commas": b"x;y\n" + b"1,5;2,5\n2,5;3,25\n" * 30,
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_csv_files_of_many_kinds(ovk, tmp_path, content):
    path, model = tmp_path / "t.csv", tmp_path / "m.ovk"
    path.write_bytes(content)
    code, _, _ = ovk("stream", path, *ASK, "--save", model, "--warm-up", "10", "--block", "16", "--checkpoint", "16")
    assert code in CODES
    if code == 0:
        session = load(model)
        assert np.isfinite(session.evaluator.model.predict(np.zeros((1, len(session.evaluator.features))))).all()
    elif model.exists():
        load(model)
    assert ovk("fit", path, "--targets", "y", "--save", tmp_path / "f.ovk")[0] in CODES


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1,2]\n" * 30, b'{"x": 1}\n' * 30, b'{"y": {"z": []}}\n' * 30], ids=repr
)
def test_json_lines_of_many_kinds(ovk, tmp_path, content):
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    assert ovk("stream", path, *ASK)[0] == 3


def test_json_cells_that_are_not_numbers(ovk, tmp_path):
    path = tmp_path / "t.jsonl"
    good = "".join(f'{{"x": {i % 5}, "d": "2020-01-0{1 + i % 9}", "y": {i % 3}}}\n' for i in range(60))
    path.write_text(good + '{"x": [1], "d": {"a": 1}, "y": 2}\n{"x": 1e999, "d": 7, "y": 2}\n' + good, encoding="utf-8")
    code, _, err = ovk("stream", path, *ASK, "--warm-up", "20")
    assert code == 0
    assert "2 of 122 rows (1.6%) had unreadable cells" in err


def test_paths_that_are_not_files(ovk, tmp_path):
    code, _, err = ovk("stream", tmp_path, *ASK)
    assert code == 3
    assert "is a directory" in err
    code, _, err = ovk("stream", tmp_path / "none.csv", *ASK)
    assert code == 3
    assert "no such file" in err
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(table(500).encode())[:-300])
    assert ovk("stream", tmp_path / "t.csv.gz", *ASK)[0] == 3


def test_missing_columns(ovk, tmp_path):
    path = series(tmp_path / "t.csv", 100)
    code, _, err = ovk("stream", path, "--targets", "volt")
    assert code == 3
    assert "there is no column 'volt' in t.csv" in err
    code, _, err = ovk("stream", path, "--targets", "a", "--features", "a,x")
    assert code == 2
    assert "column 'a' is a target and a feature" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--targets"),
        (["--targets", "a", "--lags", "x"], "--lags must be positive integers"),
        (["--targets", "a", "--lags", "0"], "--lags must be positive integers"),
        (["--targets", "a", "--model", "magic"], "--model must be one of"),
        (["--targets", "a", "--save", "no/such/directory/m.ovk"], "does not exist"),
    ],
)
def test_wrong_calls(ovk, tmp_path, arguments, message):
    code, _, err = ovk("stream", series(tmp_path / "t.csv", 100), *arguments)
    assert code == 2
    assert message in err


@pytest.mark.long
def test_ten_thousand_columns(ovk, tmp_path):
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(10_000)]
    rows = rng.standard_normal((30, 10_000)).round(2)
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    path, model = tmp_path / "t.csv", tmp_path / "m.ovk"
    path.write_text("\n".join(lines), encoding="utf-8")
    code, out, _ = ovk("stream", path, "--targets", "c7", "--save", model, "--warm-up", "10")
    assert code == 0
    assert "30 rows read" in out
    assert len(load(model).preparation.feature_names_) == 9999


@pytest.mark.long
@given(st.binary(max_size=400))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_on_standard_input(content):
    before = sys.stdin
    for form in ("csv", "jsonl"):
        sys.stdin = io.TextIOWrapper(io.BytesIO(b"x,y\n" + content if form == "csv" else content))
        try:
            with pytest.raises(SystemExit) as end:
                main(["stream", "-", *ASK, "--format", form])
        finally:
            sys.stdin = before
        assert (end.value.code or 0) in CODES


def test_damaged_models_are_rejected(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 300), tmp_path / "m.ovk"
    assert ovk("stream", path, "--targets", "a", "--save", model, "--warm-up", "50", "--model", "olok")[0] == 0
    whole = model.read_bytes()
    for damaged in (whole[:-20], whole[: len(whole) // 2], b"", whole[:200] + b"x" + whole[201:]):
        model.write_bytes(damaged)
        for call in (["stream", path, "--resume", model], ["predict", model, path], ["inspect", model]):
            assert ovk(*call)[0] == 4 or (call[0] == "inspect" and damaged == whole)
        assert model.read_bytes() == damaged
