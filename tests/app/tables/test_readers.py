"""pyarrow and the standard library read the same from every CSV."""

import gzip
import sys

import numpy as np
import pytest

from ovk.app.sessions import Settings, learn
from ovk.app.tables import Preparation, open_records, read_table
from ovk.app.tables.records import concatenate
from ovk.base import TextCells, read_numbers

READERS = ["csv", "arrow"]


def choose(monkeypatch, reader):
    """Read all blocks with one reader, if they are plain."""
    monkeypatch.setattr("ovk.app.tables.arrow_text.ROWS_BEFORE_ARROW", 0)
    monkeypatch.setattr("ovk.app.tables.arrow_text.MIN_LINES", 1)
    monkeypatch.setattr("ovk.app.tables.records.arrow_installed", lambda: reader == "arrow")


def everything(path, size, **options):
    """Names, cells, numbers, faults and digests, or the error."""
    found = []
    try:
        with open_records(path, "csv", **options) as records:
            found.append(records.names)
            for batch in records.batches(size):
                cells = [list(column) for column in batch.columns]
                found.append((cells, batch.rows, batch.bad, records.digest(), records.offset))
    except ValueError as error:
        found.append(str(error))
    return found


BODY = "1,2\n3,4\n-5.5,6e3\n7,8\n"

#: Texts below the header "a,b".
ODD = {
    "plain": BODY,
    "no end": BODY + "9,10",
    "windows": BODY.replace("\n", "\r\n"),
    "mixed ends": "1,2\r\n3,4\n5,6\r\n7,8",
    "old mac": BODY.replace("\n", "\r"),
    "a return within a line": "1,2\n3,4\r5,6\n7,8\n",
    "returns before the end": "1,2\r\r\n3,4\n",
    "empty lines": "\n1,2\n\n\n3,4\n\r\n5,6\n\n",
    "only empty lines": "\n\n\n",
    "nothing": "",
    "spaces": " 1 ,\t2\n  \n ,\n",
    "too few": "1\n1,2\n3\n4,5\n",
    "too many": "1,2,3\n1,2\n4,5,6,7\n",
    "all ragged": "1\n2\n3,4,5\n",
    "ragged after empty lines": "\n1,2\n\n3\n\n4,5,6\n7,8\n",
    "trailing commas": "1,2,\n3,4\n,\n,,\n",
    "quoted": '"1","2"\n3,"4"\n"5",6\n',
    "quoted at the end": '1,"2"\r\n3,"4"',
    "quoted separators": '"1,5","2"\n"3,,4",5\n',
    "quoted ends": '"1\n2",3\n4,"5\r\n6"\n7,8\n',
    "quoted empty": '"",""\n"",1\n',
    "doubled quotes": '"say ""1""",2\n"""",3\n4,5\n',
    "quotes within a cell": '1"2,3\n4,5"\n6,7""\n',
    "text after a quote": '"1"2,3\n"4" ,5\n',
    "space before a quote": ' "1",2\n3, "4"\n',
    "quotes across cells": 'x","y\n1,2\n',
    "never closed": '1,2\n"3,4\n5,6\n7,8\n',
    "closed in the next block": '1,2\n3,4\n5,"6\n7\n8\n9",10\n11,12\n13,"1\n4"\n',
    "apostrophes": "'1,2'\n'3','4'\n",
    "backslashes": '1\\,2\n3,\\"4\n5,"6\\"\n',
    "zero bytes": "1,2\n3\0,4\n5,6\n",
    "a mark in the middle": "1,2\n3,4\n\ufeff5,6\n7,8\n",
    "line separators": "1\u2028,2\n3\x85,\x0b4\n\x0c5,6\x1c\n",
    "not ASCII": "Zürich,½\n東京,\U0001f600\n",
    "missing": "NA,n/a\n?,nan\nnull,NONE\n<NA>,\nnan(1),-nan\n",
    "infinite": "inf,-Infinity\n1e400,-1e400\n1e-400,9e999\n",
    "notations": "12%,+5\n1_000,\u22127\n 8 ,\u0663\n.5,5.\n-.5,1E+05\n0x10,1e\n.,-\n1,234\n",
    "comments": "#1,2\n3,4\n",
    "bars": "1|2\n3;4\n",
    "huge cell": f"1,2\n{'9' * 200_000},3\n4,5\n",
    "wide line": f"1,2\n{'1,' * 80_000}3\n4,5\n",
    "digits": f"{'9' * 400},{'1' * 60}\n0.{'3' * 50},{'0' * 50}1\n",
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("strict", [False, True])
def test_odd_texts(tmp_path, monkeypatch, kind, strict):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.csv"
    path.write_bytes(("a,b\n" + ODD[kind]).encode())
    for size in (1, 2, 3, 100):
        found = []
        for reader in READERS:
            choose(monkeypatch, reader)
            found.append([everything(path, size, strict=strict), everything(path, size, strict=strict, columns=[1])])
        assert found[0] == found[1]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "undecodable"])
def test_encodings(tmp_path, monkeypatch, encoding):
    pytest.importorskip("pyarrow")
    text = "a,b\n" + "Zürich,1\nGenève,2\n" * 5
    # Beyond the bytes from which the encoding is detected.
    late = b"a,b\n" + b"1,2\n" * 20_000 + b"\xff\xfe,3\n4,5\n"
    (tmp_path / "t.csv").write_bytes(late if encoding == "undecodable" else text.encode(encoding))
    found = []
    for reader in READERS:
        choose(monkeypatch, reader)
        found.append(everything(tmp_path / "t.csv", 4096))
    assert found[0] == found[1]


@pytest.mark.parametrize(("separator", "pack"), [(",", bytes), (";", bytes), ("\t", gzip.compress), ("|", bytes)])
def test_random_texts(tmp_path, monkeypatch, separator, pack):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    parts = ["1", "2.5", "-3e2", "", "x", " ", '"', '""', "\n", "\r\n", "\r", separator, "é", "'", '"4"', '"5,6;7"']
    weights = np.array([9, 9, 9, 2, 2, 1, 0.2, 0.2, 6, 1, 0.1, 30, 1, 1, 2, 1])
    for _ in range(60):
        words = rng.choice(parts, size=rng.integers(1, 120), p=weights / weights.sum())
        rows = "".join(f"{a}{separator}{b}\n" for a, b in rng.standard_normal((3, 2)).tolist())
        path = tmp_path / "t.txt"
        path.write_bytes(pack(f"a{separator}b\n{rows}{''.join(words)}".encode()))
        found = []
        for reader in READERS:
            choose(monkeypatch, reader)
            found.append([everything(path, size, strict=strict) for size in (2, 5, 50) for strict in (False, True)])
        assert found[0] == found[1]


def test_a_long_file_names_the_package_that_reads_it_faster(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("a,b\n" + BODY, encoding="utf-8")
    monkeypatch.setattr("ovk.app.tables.records.MIN_ROWS_FOR_TIP", 4)
    for reader, tip in (("csv", "pip install pyarrow"), ("arrow", "")):
        choose(monkeypatch, reader)
        with open_records(tmp_path / "t.csv") as records:
            assert records.tip() == ""
            next(records.batches(9))
            assert tip in records.tip()
            assert bool(records.tip()) == bool(tip)


def test_parts_of_an_endless_line(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("ovk.app.tables.records.MAX_LINE", 1000)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n" + "x" * 5500 + "\n3,4\n", encoding="utf-8")
    found = []
    for reader in READERS:
        choose(monkeypatch, reader)
        found.append([everything(tmp_path / "t.csv", size) for size in (1, 2, 100)])
    assert found[0] == found[1]


def bits(values):
    return values.view(np.uint64).tolist()


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("grouped", [False, True])
def test_numbers_are_the_same_bit_for_bit(decimal, grouped):
    arrow = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 1 << 64, 2000, dtype=np.uint64).view(np.float64)
    cells = [repr(x) for x in patterns.tolist()] + [
        f"{x:.{k}f}" for k, x in enumerate(rng.standard_normal(45).tolist())
    ]
    cells += ["".join(rng.choice(list("0123456789"), 30)) for _ in range(100)]
    # Halfway between two numbers, where rounding is hardest.
    cells += [str((1 << 53) + 1), "9007199254740993.0000000000000000000001", "2.2250738585072011e-308", "5e-324", "-0"]
    plain = [cell.replace(".", decimal) for cell in cells]
    odd = ["1.234", "1,234.5", "1.234,5", "12%", "+5", "1_0", " 7 ", "", "?", "x", "inf", "nan(1)", "1e400", "\u22125"]
    for found in (plain, [*plain, *odd], odd, ["", *plain], []):
        expected = read_numbers(found, decimal, grouped=grouped)
        got = read_numbers(TextCells(arrow.array(found, arrow.string())), decimal, grouped=grouped)
        np.testing.assert_array_equal(got.bad, expected.bad)
        assert bits(got.values[:, 0][~np.isnan(got.values[:, 0])]) == bits(
            expected.values[:, 0][~np.isnan(expected.values[:, 0])]
        )
        np.testing.assert_array_equal(np.isnan(got.values), np.isnan(expected.values))


def table(path, n=400):
    """Numbers, words and dates, some of them missing or faulty, and rows that are too short."""
    rng = np.random.default_rng(0)
    lines = ["date,rock,x,share,price,y"]
    for i, (x, noise) in enumerate(rng.standard_normal((n, 2)).tolist()):
        cells = [f"2024-01-{1 + i // 24 % 28:02d} {i % 24:02d}:30", "chalk" if i % 3 else '"clay, wet"', repr(x)]
        cells += [f"{i % 90}%", f'"{i % 50},{i % 7}"', repr(2 * x + 0.1 * noise)]
        if i % 29 == 7:
            cells[int(rng.integers(6))] = str(rng.choice(["", "NA", "oops"]))
        lines.append(",".join(cells[: 5 if i % 97 == 13 else 6]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_inputs_and_outputs_are_the_same(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    path = table(tmp_path / "t.csv")
    found, kinds = [], []
    for reader in READERS:
        choose(monkeypatch, reader)
        with open_records(path) as records:
            batches = list(records.batches(64))
            preparation = Preparation(["y"], lags=(1,)).bind(records.names).fit(concatenate(batches[:2], 6))
            rows = [preparation.prepare(batch) for batch in batches]
        kinds.append(type(batches[0].columns[0]))
        X, Y, features, _ = read_table(path, ["y"])
        arrays = [X, Y, *(one.chunk.X for one in rows), *(one.chunk.Y for one in rows), *(one.instants for one in rows)]
        found.append(([one.tobytes() for one in arrays], features, [(one.rows, one.bad) for one in rows]))
    assert kinds == [tuple, TextCells]
    assert found[0] == found[1]
    assert any("oops" in fault for _, bad in found[0][2] for _, fault in bad)


def test_one_reader_resumes_what_the_other_began(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    whole = table(tmp_path / "whole.csv")
    lines = whole.read_text(encoding="utf-8").splitlines(keepends=True)
    settings = Settings(targets=["y"], model="pkawv", block=50, warm_up=100)
    found = {}
    for first in READERS:
        for second in READERS:
            directory = tmp_path / f"{first} {second}"
            directory.mkdir()
            path, model = directory / "t.csv", directory / "m.ovk"
            path.write_text("".join(lines[:251]), encoding="utf-8")
            choose(monkeypatch, first)
            with open_records(path) as records:
                learn(records, settings, save_to=model)
            path.write_text("".join(lines), encoding="utf-8")
            choose(monkeypatch, second)
            with open_records(path) as records:
                session = learn(records, None, save_to=model, resume=model)
            found[first, second] = model.read_bytes()
    assert session.offset == 400
    assert session.n_bad >= 5
    assert len(set(found.values())) == 1


def test_pyarrow_reads_the_first_rows_too_if_it_is_imported(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    path = table(tmp_path / "t.csv")
    for imported, expected in ((True, TextCells), (False, tuple)):
        if not imported:
            monkeypatch.delitem(sys.modules, "pyarrow")
        with open_records(path) as records:
            assert type(next(records.batches(64)).columns[0]) is expected
