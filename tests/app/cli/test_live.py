"""Standard input may be compressed, and rows that arrive one by one are predicted immediately."""

import bz2
import csv
import gzip
import io
import lzma
import os
import select
import subprocess
import sys

import pytest

from household import series
from ovk.app.tables import open_records
from ovk.app.tables.text_files import fraction_read
from processes import PATIENCE


def zstandard(raw):
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.compress(raw, codec="zstd", asbytes=True)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress, zstandard])
@pytest.mark.parametrize("piped", [True, False])
def test_compression_is_detected_from_the_first_bytes(tmp_path, monkeypatch, compress, piped):
    raw = compress(("x,y\n" + "".join(f"{i},{i}\n" for i in range(20_000))).encode())
    path = tmp_path / "table.csv"
    path.write_bytes(raw)
    if piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    with open_records("-" if piped else path) as records:
        assert sum(len(batch.rows) for batch in records.batches(4096)) == 20_000


@pytest.mark.parametrize("name", ["BZh", "BZh9", "BZhttp"])
def test_a_table_of_text_may_begin_like_bzip2(tmp_path, name):
    path = tmp_path / "table.csv"
    path.write_text(f"{name},y\n1,2\n3,4\n")
    with open_records(path) as records:
        assert records.names == (name, "y")
        assert sum(len(batch.rows) for batch in records.batches(10)) == 2


def test_an_empty_bzip2_file_is_an_empty_file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(bz2.compress(b""))
    with pytest.raises(ValueError, match="empty"), open_records(path) as records:
        list(records.batches(10))


def test_truncated_input_is_reported(tmp_path):
    path = tmp_path / "t.csv.zst"
    path.write_bytes(zstandard(os.urandom(100_000).hex().encode())[:5000])
    with pytest.raises(ValueError, match=r"t\.csv\.zst"), open_records(path) as records:
        list(records.batches(100))


def test_share_of_a_file_that_was_read(tmp_path):
    text = "x,y\n" + "".join(f"{i},{i}\n" for i in range(50_000))
    for name, raw in (("t.csv", text.encode()), ("t.csv.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(raw)
        with open_records(tmp_path / name) as records:
            parts = [records.fraction_read() for _ in records.batches(5000)]
        assert parts == sorted(parts)
        assert 0 < parts[0] < 0.6
        assert parts[-1] == 1.0
    (tmp_path / "t.csv.xz").write_bytes(lzma.compress(text.encode()))
    with open_records(tmp_path / "t.csv.xz") as records:
        assert fraction_read(records.file) is None


class Conversation:
    """A running command with pipes for its input and output lines."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "ovk", *map(str, arguments)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, **pipes, bufsize=0)

    def say(self, text):
        self.process.stdin.write(text.encode())

    def hear(self):
        """The next line; fails after a timeout."""
        line = b""
        while not line.endswith(b"\n"):
            assert select.select([self.process.stdout], [], [], PATIENCE)[0], "no answer"
            letter = os.read(self.process.stdout.fileno(), 1)
            assert letter, self.process.stderr.read().decode()
            line += letter
        return line.decode().strip()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="the system does not tell whether a pipe has more")
def test_each_row_is_predicted_as_it_arrives(ovk, tmp_path):
    path, model = series(tmp_path / "t.csv", 200, missing=0.0), tmp_path / "m.ovk"
    assert ovk("stream", path, "--targets", "a,b", "--time", "Date,Time", "--lags", 1, "--save", model)[0] == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    expected = list(csv.reader(io.StringIO(ovk("predict", model, path)[1])))
    with Conversation("predict", model, "-") as live:
        live.say(lines[0] + "\n")
        for k in (1, 2, 3):
            live.say(lines[k] + "\n")
            if k == 1:
                assert live.hear().split(",") == expected[0]
            row = live.hear().split(",")
            assert row[:2] == expected[k][:2]
            assert [float(cell) for cell in row[2:]] == pytest.approx([float(cell) for cell in expected[k][2:]])
    with Conversation(
        "stream", "-", "--targets", "a,b", "--features", "x", "--warm-up", 50, "--predictions", "-"
    ) as live:
        live.say("\n".join(lines[:52]) + "\n")
        assert live.hear().startswith("row,a,a lower")
        assert live.hear().startswith("51,")
        for k in (52, 53):
            live.say(lines[k] + "\n")
            assert live.hear().startswith(f"{k},")
        live.process.stdin.close()
        assert b"53 rows read" in live.process.stderr.read()
        assert live.process.wait(PATIENCE) == 0


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="the system does not tell whether a pipe has more")
def test_the_first_json_line_is_predicted_before_the_second(ovk, tmp_path):
    path, model = tmp_path / "t.jsonl", tmp_path / "m.ovk"
    path.write_text("".join(f'{{"x": {i % 7}, "y": {i % 7}}}\n' for i in range(60)), encoding="utf-8")
    assert ovk("fit", path, "--targets", "y", "--save", model)[0] == 0
    with Conversation("predict", model, "-", "--json") as live:
        for k in (1, 2):
            live.say('{"x": 3}\n')
            assert live.hear().startswith(f'{{"row": {k}, "y":')
