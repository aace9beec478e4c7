"""Files with odd rows, encodings and compressions."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import sys

import pytest

from ovk.app.sessions import Settings, learn
from ovk.app.tables import is_address, open_records
from ovk.app.tables.brokers import RowReader
from ovk.app.tables.text_files import PipedText


def read(path, size=100, **options):
    with open_records(path, **options) as records:
        batches = list(records.batches(size))
    rows = [row for batch in batches for row in zip(*batch.columns, strict=True)]
    numbers = [number for batch in batches for number in batch.rows]
    return records.names, rows, numbers, [fault for batch in batches for fault in batch.bad]


TEXT = "name,x\nZürich,1\nGenève,2\n"
ROWS = [("Zürich", "1"), ("Genève", "2")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_encodings(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes(TEXT.encode(encoding))
    assert read(tmp_path / "t.csv")[:2] == (("name", "x"), ROWS)


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
def test_compressions(tmp_path, ending, pack):
    path = tmp_path / f"t.csv{ending}"
    path.write_bytes(pack(TEXT.encode()))
    assert read(path)[1] == ROWS
    path.write_bytes(pack(b"name,x\n" + b"abcdefgh,1234\n" * 20000)[:-40])
    with pytest.raises(ValueError, match="damaged, truncated, or not in the expected format"):
        read(path)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_first_bytes_tell_the_compression_whatever_the_name(tmp_path, pack):
    (tmp_path / "packed.csv").write_bytes(pack(TEXT.encode()))
    assert read(tmp_path / "packed.csv")[1] == ROWS
    (tmp_path / "plain.csv.gz").write_text(TEXT, encoding="utf-8")
    assert read(tmp_path / "plain.csv.gz")[1] == ROWS


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators(tmp_path, separator):
    (tmp_path / "t.txt").write_text(TEXT.replace(",", separator), encoding="utf-8")
    assert read(tmp_path / "t.txt")[1] == ROWS


def test_faulty_rows_are_named_and_the_others_read(tmp_path):
    huge = "9" * 200_000
    lines = ["a,b", "1,2", "3", "4,5,6", "", f"{huge},1", '"7\n8",9', "10,11"]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    for size in (1, 2, 3, 100):
        # Other packages change this global limit.
        others = csv.field_size_limit(1 << 30)
        try:
            _, rows, numbers, bad = read(tmp_path / "t.csv", size)
        finally:
            assert csv.field_size_limit(others) == 1 << 30
        assert rows == [("1", "2"), ("7\n8", "9"), ("10", "11")]
        assert numbers == [1, 6, 7]
        assert [row for row, _ in bad] == [2, 3, 5]
        assert bad[0][1] == "1 field instead of 2"
        assert "field" in bad[2][1]


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("ovk.app.tables.records.MAX_LINE", 1000)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n" + "x" * 5500 + "\n3,4\n", encoding="utf-8")
    _, rows, _, bad = read(tmp_path / "t.csv")
    assert rows == [("1", "2"), ("3", "4")]
    assert len(bad) == 6


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_batch_of_long_lines_is_short(tmp_path, monkeypatch, kind):
    """Regression: 4,096 parts of an endless line were kept together."""
    monkeypatch.setattr("ovk.app.tables.records.MAX_LINE", 1000)
    monkeypatch.setattr("ovk.app.tables.records.MAX_BATCH", 10_000)
    path = tmp_path / f"t.{kind}"
    path.write_text(("a,b\n" if kind == "csv" else '{"a": 1}\n') + "1,2\n" * 20 + "x" * 100_000 + "\n3,4\n")
    with open_records(path) as records:
        sizes = [len(batch.rows) + len(batch.bad) for batch in records.batches(100)]
    assert sum(sizes) > 100
    assert max(sizes) <= 36


def test_json_lines(tmp_path):
    lines = ['{"a": 1, "b": "x"}', "", '{"b": "y", "c": 3}', "[1]", "{", "[" * 100_000, '{"a": 2.5, "b": null}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    names, rows, numbers, bad = read(tmp_path / "t.jsonl", 2)
    assert names == ("a", "b")
    assert rows == [(1, "x"), (None, "y"), (2.5, None)]
    assert numbers == [1, 3, 7]
    assert [row for row, _ in bad] == [4, 5, 6]


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = arrow.table({"a": [1.0, 2.0, None, 4.0, 5.0], "b": list("vwxyz")})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    for size in (1, 2, 3, 100):
        _, rows, numbers, bad = read(tmp_path / "t.parquet", size)
        assert rows == [(1.0, "v"), (2.0, "w"), (None, "x"), (4.0, "y"), (5.0, "z")]
        assert numbers == [1, 2, 3, 4, 5]
        assert not bad
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match="not a Parquet file"):
        open_records(tmp_path / "t.parquet")


@pytest.mark.parametrize("kind", ["int64", "float64", "string"])
def test_the_digest_of_a_parquet_file_tells_a_missing_cell_from_zero(tmp_path, kind):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    digests = set()
    for cells in ([1, 0, 2], [1, None, 2], [None, 1, 2]):
        column = arrow.array(cells, arrow.int64()).cast(kind)
        parquet.write_table(arrow.table({"a": column}), tmp_path / "t.parquet")
        with open_records(tmp_path / "t.parquet") as records:
            next(records.batches(10))
            digests.add(records.digest())
    assert len(digests) == 3


@pytest.mark.parametrize("text", [TEXT, '{"name": "Zürich", "x": "1"}\n{"name": "Genève", "x": "2"}\n'])
def test_standard_input_tells_its_format_by_the_first_letter(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert read("-")[1] == ROWS


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("count", [0, 1, 5, 9, 10])
def test_going_on_behind_rows_that_were_read(tmp_path, kind, count):
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(arrow.table({"a": list(range(10))}), path, row_group_size=3)
    elif kind == "csv":
        path.write_text("a\n" + "\n".join(map(str, range(10))), encoding="utf-8")
    else:
        path.write_text("\n".join(json.dumps({"a": i}) for i in range(10)), encoding="utf-8")
    with open_records(path) as records:
        records.skip(count, 4)
        rest = [int(cell) for batch in records.batches(4) for cell in batch.columns[0]]
    assert rest == list(range(count, 10))


def test_a_file_that_is_too_short_to_go_on(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n2\n", encoding="utf-8")
    with open_records(tmp_path / "t.csv") as records, pytest.raises(ValueError, match="has 2 rows, but 5"):
        records.skip(5, 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"1,2\n3,4\n", "column names"),
        (b"a,\0b\n1,2\n", "not a text file"),
        (b"\n\n", "is empty"),
    ],
)
def test_what_is_no_table(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        open_records(tmp_path / "t.csv")
    (tmp_path / "t.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=r"must be a JSON object|not a text file"):
        open_records(tmp_path / "t.jsonl")


def test_directories_pipes_and_wrong_formats(tmp_path):
    for name in ("directory.csv", "directory.parquet"):
        (tmp_path / name).mkdir()
        with pytest.raises(IsADirectoryError, match="is a directory"):
            open_records(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        open_records(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="'csv', 'jsonl' or 'parquet'"):
        open_records(tmp_path / "t.csv", "xml")
    with pytest.raises(ValueError, match="from a pipe or a compressed file"):
        open_records("-", "parquet")


def test_lines_of_a_pipe_are_counted_as_they_come():
    end, beginning = os.pipe()
    os.write(beginning, b"a,b\n1,2\n3,")
    with PipedText(io.BufferedReader(io.FileIO(end)), "utf-8") as text:
        assert (text.ready(100), text.readline(), text.readline()) == (2, "a,b\n", "1,2\n")
        os.close(beginning)
        assert (text.readline(), text.readline()) == ("3,", "")


def test_addresses_of_brokers_are_not_paths():
    assert is_address("nats://127.0.0.1/STREAM")
    assert not is_address("data/t.csv")


@pytest.mark.parametrize("ending", ["", '9,"x",a\n', '9,9,"a"\n', "9" * 200_000 + "\n"])
@pytest.mark.parametrize("row", ['1,"2,a\n', '1,2,"a\n', '"1,2,a\n'])
@pytest.mark.parametrize("ignore", [[], ["note"]])
def test_rows_that_an_unclosed_quote_swallows_count_as_bad(tmp_path, row, ending, ignore):
    path = tmp_path / "t.csv"
    lines = [f"{i},{2 * i},{'ab'[i % 2]}\n" for i in range(400)]
    path.write_text("".join(["x,y,note\n", *lines, row, *lines[:200], ending]))
    with open_records(path) as records, pytest.raises(ValueError, match=r"(?s)20\d of the first 60\d .* limit of 20%"):
        learn(records, Settings(["y"], model="pkawv", warm_up=20, ignore=ignore))


def test_an_unclosed_quote_is_found_where_it_begins(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('x,y\n1,"a\nb"\n2,"c\n3,d\n')
    with open_records(path) as records:
        batch = next(records.batches(9))
    assert [list(column) for column in batch.columns] == [["1"], ["a\nb"]]
    assert batch.bad == [(2, "a quote is not closed in 2 lines")] * 2
    with open_records(path, strict=True) as records, pytest.raises(ValueError, match=r"line 4 of .* not closed"):
        next(records.batches(9))
    path.write_text('x,"y\n1,2\n3,4\n')
    with pytest.raises(ValueError, match=r"first line .* must contain the column names, and cannot be read"):
        open_records(path)


def test_rows_that_an_unclosed_quote_of_a_message_swallows_are_faulty():
    reader = RowReader("csv", ["a", "b"])
    fault = "a quote is not closed in 3 lines"
    assert reader.rows(b'1,2\n3,"4\n5,6\n7,8\n') == [["1", "2"], fault, fault, fault]
    assert reader.rows(b'1,"2\n3"\n4,5\n') == [["1", "2\n3"], ["4", "5"]]


def test_names_may_contain_line_ends(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('"speed\nin km/h",y\n1,2\n3\n')
    with open_records(path) as records:
        assert records.names == ("speed\nin km/h", "y")
        assert [list(column) for column in next(records.batches(9)).columns] == [["1"], ["2"]]
    with open_records(path, strict=True) as records, pytest.raises(ValueError, match=r"line 4 of t\.csv"):
        next(records.batches(9))
