"""Every source of rows gives the same rows, in bounded memory, and its errors describe the fault."""

import builtins
import csv
import datetime
import gzip
import json
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from memory import peak_memory
from ovk.app.tables import chunks
from ovk.evaluation import Chunk

NAMES = ["a", "b", "c", "y", "z"]


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(57, 5)).round(6)
    A[3, 4] = A[10, 3] = A[20, 0] = np.nan
    return A


def collect(stream):
    parts = list(stream)
    return (
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.Y for part in parts]),
        parts[0].features,
        parts[0].targets,
    )


def cells(table):
    """Rows of Python numbers, None where missing."""
    return [[None if np.isnan(v) else v for v in row] for row in table.tolist()]


def write_csv(path, table, separator=",", missing=""):
    lines = [separator.join(missing if v is None else repr(v) for v in row) for row in cells(table)]
    text = separator.join(NAMES) + "\n" + "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def write_jsonl(path, table):
    rows = [dict(zip(NAMES, row, strict=True)) for row in cells(table)]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return path


def write_parquet(path, table, **kwargs):
    parquet.write_table(arrow(table), path, **kwargs)
    return path


def arrow(table):
    return pa.table({name: [row[j] for row in cells(table)] for j, name in enumerate(NAMES)})


SOURCES = {
    "array": lambda table, _: table,
    "float32 array": lambda table, _: table.astype(np.float32).astype(np.float64),
    "object array": lambda table, _: np.array(cells(table), dtype=object),
    "pandas": lambda table, _: pd.DataFrame(table, columns=NAMES),
    "pandas nullable": lambda table, _: pd.DataFrame(table, columns=NAMES).convert_dtypes(),
    "pandas objects": lambda table, _: pd.DataFrame(table, columns=NAMES).astype(object),
    "polars": lambda table, _: pl.DataFrame(cells(table), schema=NAMES, orient="row"),
    "pyarrow": lambda table, _: arrow(table),
    "csv": lambda table, path: write_csv(path / "t.csv", table),
    "csv with NA": lambda table, path: write_csv(path / "t.csv", table, missing=" NA"),
    "csv with semicolons": lambda table, path: write_csv(path / "t.csv", table, ";", "?"),
    "txt": lambda table, path: write_csv(path / "t.txt", table, "|"),
    "tsv": lambda table, path: write_csv(path / "t.tsv", table, "\t", "null"),
    "csv.gz": lambda table, path: write_csv(path / "t.csv.gz", table, missing="nan"),
    "csv as text": lambda table, path: str(write_csv(path / "t.csv", table)),
    "jsonl": lambda table, path: write_jsonl(path / "t.jsonl", table),
    "parquet": lambda table, path: write_parquet(path / "t.parquet", table, row_group_size=10),
    "iterator of arrays": lambda table, _: iter([table[:20], table[20:21], table[21:]]),
    "list of frames": lambda table, _: [pd.DataFrame(part, columns=NAMES) for part in (table[:30], table[30:])],
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("size", [1, 8, 1000])
def test_all_sources_give_the_same_rows(kind, size, table, tmp_path):
    source = SOURCES[kind](table, tmp_path)
    named = "array" not in kind
    stream = chunks(source, targets=["y", "z"] if named else [3, 4], chunk_size=size)
    X, Y, features, targets = collect(stream)
    tolerance = {"rtol": 1e-6} if kind == "float32 array" else {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(X, table[:, :3], **tolerance)
    np.testing.assert_allclose(Y, table[:, 3:], **tolerance)
    assert X.dtype == Y.dtype == np.float64
    assert (features, targets) == ((("a", "b", "c"), ("y", "z")) if named else (("x0", "x1", "x2"), ("x3", "x4")))
    if kind not in ("iterator of arrays",):
        assert all(len(part.X) <= size for part in stream)


@pytest.mark.parametrize("kind", ["array", "pandas", "polars", "parquet"])
def test_the_number_of_rows_is_known_where_it_is_free(kind, table, tmp_path):
    assert chunks(SOURCES[kind](table, tmp_path), targets=[-1]).n_rows == 57


@pytest.mark.parametrize("kind", ["csv", "jsonl", "iterator of arrays"])
def test_and_not_where_it_would_cost_a_reading(kind, table, tmp_path):
    assert chunks(SOURCES[kind](table, tmp_path), targets=[-1]).n_rows is None


@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, 57), max_size=5), size=st.integers(1, 60))
def test_chunks_of_any_sizes_hold_the_same_rows(cuts, size):
    A = np.arange(57.0 * 3).reshape(57, 3)
    edges = [0, *sorted(cuts), 57]
    parts = [(A[i:j, :2], A[i:j, 2]) for i, j in pairwise(edges)]
    X, y, _, _ = collect(chunks(parts, chunk_size=size))
    np.testing.assert_array_equal(X, A[:, :2])
    np.testing.assert_array_equal(y, A[:, 2])


@pytest.mark.parametrize(
    "make",
    [
        lambda A: (A[:, :3], A[:, 3:]),
        lambda A: (A[:, :3].tolist(), A[:, 3:].tolist()),
        lambda A: (pd.DataFrame(A[:, :3]), pd.DataFrame(A[:, 3:])),
        lambda A: (pl.DataFrame(A[:, :3]), A[:, 3:]),
    ],
)
def test_inputs_and_outputs_apart(make, table):
    X, Y, features, targets = collect(chunks(*make(table), chunk_size=10))
    np.testing.assert_array_equal(X, table[:, :3])
    np.testing.assert_array_equal(Y, table[:, 3:])
    assert (len(features), len(targets)) == (3, 2)


def test_one_output_given_as_such_stays_one_dimensional(table, tmp_path):
    X, frame = table[:, :3], pd.DataFrame(table, columns=NAMES)
    path = write_csv(tmp_path / "t.csv", table)
    for stream in (
        chunks(X, table[:, 4]),
        chunks(X, table[:, 4].tolist()),
        chunks(X, frame["z"]),
        chunks(X, pl.Series("z", table[:, 4])),
        chunks(frame, targets="z", features=["a", "b", "c"]),
        chunks(path, targets="z"),
        chunks(table, targets=-1),
    ):
        _, y, _, targets = collect(stream)
        np.testing.assert_array_equal(y, table[:, 4])
        assert len(targets) == 1
    assert collect(chunks(X, frame["z"]))[3] == ("z",)
    assert collect(chunks(path, targets=["z"]))[1].shape == (57, 1)


def test_features_choose_and_order_the_inputs(table, tmp_path):
    path = write_csv(tmp_path / "t.csv", table)
    for source in (path, write_parquet(tmp_path / "t.parquet", table), pd.DataFrame(table, columns=NAMES)):
        X, _, features, _ = collect(chunks(source, targets="y", features=["c", 0]))
        np.testing.assert_array_equal(X, table[:, [2, 0]])
        assert features == ("c", "a")
    np.testing.assert_array_equal(collect(chunks(table[:, :3], table[:, 3], features=1))[0], table[:, [1]])


def test_columns_that_nobody_asked_for_need_not_be_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfa,city,y\n1,"Paris, Fr",3\n\n4,Orl\xe9ans,6\n')
    X, y, features, _ = collect(chunks(path, targets="y", features=["a"]))
    assert X.ravel().tolist() == [1.0, 4.0]
    assert y.tolist() == [3.0, 6.0]
    assert features == ("a",)


def test_json_lines_may_lack_keys_and_hold_numbers_as_text(tmp_path):
    path = tmp_path / "t.ndjson"
    path.write_text('{"a": 1, "y": true}\n\n{"y": "2.5", "new": 3}\n{"a": null, "y": "NA"}\n', encoding="utf-8")
    X, y, _, _ = collect(chunks(path, targets="y"))
    np.testing.assert_array_equal(X[:, 0], [1.0, np.nan, np.nan])
    np.testing.assert_array_equal(y, [1.0, 2.5, np.nan])


def test_boolean_and_whole_columns_are_numbers(tmp_path):
    frame = pd.DataFrame({"a": [True, False], "b": [1, 2], "y": np.array([3, 4], dtype=np.uint8)})
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (frame, pl.from_pandas(frame), tmp_path / "t.parquet", frame.to_numpy(dtype=object)):
        X, _, _, _ = collect(chunks(source, targets=[2]))
        assert X.tolist() == [[1.0, 1.0], [0.0, 2.0]]


@pytest.mark.parametrize("kind", ["array", "pandas", "polars", "pyarrow", "csv", "parquet"])
def test_one_row_and_no_row(kind, table, tmp_path):
    one = collect(chunks(SOURCES[kind](table[:1], tmp_path), targets=[3, 4]))
    np.testing.assert_array_equal(one[0], table[:1, :3])
    source = arrow(table).slice(0, 0) if kind in ("pyarrow", "parquet") else SOURCES[kind](table[:0], tmp_path)
    if kind == "parquet":
        parquet.write_table(source, tmp_path / "e.parquet")
        source = tmp_path / "e.parquet"
    (chunk,) = chunks(source, targets=[3, 4])
    assert isinstance(chunk, Chunk)
    assert (chunk.X.shape, chunk.Y.shape) == ((0, 3), (0, 2))
    assert len(chunk.features) == 3


def test_an_iterator_without_chunks_gives_none():
    assert list(chunks(iter([]))) == []


# Errors ---------------------------------------------------------------------------------------------------------------


def refusal(call, kind=ValueError):
    with pytest.raises(kind) as caught:
        list(call())
    return str(caught.value)


DATE = datetime.date(2020, 1, 1)


@pytest.mark.parametrize(
    ("source", "place", "found"),
    [
        (lambda _: pd.DataFrame({"a": ["1", None, "north"], "y": 1.0}), "row 2", "'north'"),
        (lambda _: pl.DataFrame({"a": [DATE], "y": [1.0]}), "row 0", "datetime.date"),
        (lambda _: pa.table({"a": ["1", "2", "x"], "y": [1, 2, 3]}), "row 2", "'x'"),
        (lambda p: _text(p / "t.csv", "a,y\n1,2\n\nNA,3\nnorth,4\n"), "line 5", "'north'"),
        (lambda p: _text(p / "t.jsonl", '{"a": 1, "y": 2}\n{"a": [3], "y": 2}\n'), "line 2", "[3]"),
    ],
)
def test_what_is_no_number_is_named_with_its_column_and_place(source, place, found, tmp_path):
    message = refusal(lambda: chunks(source(tmp_path), targets="y", chunk_size=2))
    assert "column 'a' of" in message
    assert place in message
    assert found in message
    assert "features=" in message


def test_the_same_in_parquet_and_in_arrays(tmp_path):
    parquet.write_table(pa.table({"a": ["1", "2", "x"], "y": [1, 2, 3]}), tmp_path / "t.parquet")
    message = refusal(lambda: chunks(tmp_path / "t.parquet", targets="y", chunk_size=2))
    assert "column 'a' of t.parquet has 'x' in row 2" in message
    message = refusal(lambda: chunks(np.array([["1", "2"], ["3", "b"]]), [1.0, 2.0]))
    assert "column 'x1' of X has 'b' in row 1" in message


def _text(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", "t.csv is empty"),
        ("t.csv", "1,2\n3,4\n", "must contain the column names, got only numbers"),
        ("t.csv", "a,y\n1,2\n1,2,3\n", "line 3 of t.csv cannot be read (3 fields instead of 2)"),
        ("t.csv", 'a,y\n1,"2\n' + "1,2\n" * 50_000, "cannot be read"),
        ("t.jsonl", "", "t.jsonl is empty"),
        (
            "t.jsonl",
            '{"a": 1, "y": 2}\n[1, 2]\n',
            "line 2 of t.jsonl cannot be read ('[1, 2]' is not a JSON object",
        ),
        ("t.jsonl", '{"a": 1, "y": 2}\n{"a": 1, "a": 3, "y": 2}\n', "or has a key twice"),
        ("t.jsonl", '{"a": 1, "y": 2}\n{"a": 1\n', "line 2 of t.jsonl cannot be read ("),
        ("t.csv", 'a,y\n"1\n",2\n\n"x\n",4\n', "has 'x\\n' in line 5"),
        ("t.jsonl", '\n\n{"a": 1, "y": 2}\n{"a": "x"}\n', "has 'x' in line 4"),
        ("t.xlsx", "PK\0", "t.xlsx is not a text file"),
        ("t.parquet.gz", "", "Parquet cannot be read from a pipe"),
    ],
)
def test_broken_files_are_refused_with_the_place(name, text, message, tmp_path):
    csv.field_size_limit(131_072)  # the default, which other libraries may have raised for the whole process
    assert message in refusal(lambda: chunks(_text(tmp_path / name, text), targets="y"))


def test_standard_input_cannot_be_read_twice():
    assert "standard input" in refusal(lambda: chunks("-", targets="y"))


def test_a_file_that_is_not_there(tmp_path):
    assert "nowhere.csv" in refusal(lambda: chunks(tmp_path / "nowhere.csv", targets="y"), FileNotFoundError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Y and targets are both None"),
        ({"targets": "q"}, "targets must contain names or indices of the 5 columns of X, 'x0', 'x1'"),
        ({"targets": 5}, "got 5"),
        ({"targets": 0.5}, "float"),
        ({"targets": [0, 0]}, "must not contain a column twice"),
        ({"targets": 0, "features": [0, 1]}, "features and targets must not share columns, got 'x0' in both"),
        ({"targets": range(5)}, "at least one feature and one target"),
        ({"targets": []}, "at least one feature and one target"),
        ({"Y": np.ones(57), "targets": 0}, "must be None when Y is given"),
        ({"Y": np.ones(56)}, "X and Y must have the same number of rows, got 57 and 56"),
        ({"Y": np.ones((57, 2, 2))}, "Y must have one or two dimensions"),
        ({"Y": np.ones((57, 0))}, "at least one column each"),
        ({"targets": 0, "chunk_size": 0}, "chunk_size must be an integer >= 1"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message, table):
    kind = TypeError if message == "float" else ValueError
    assert message in refusal(lambda: chunks(table, **arguments), kind)


@pytest.mark.parametrize(
    ("source", "message", "kind"),
    [
        (np.ones(3), "X must have two dimensions", ValueError),
        (3, "source must be an array", TypeError),
        ([[1.0, 2.0]], "chunk 0 of the iterable must be a pair (X, Y)", ValueError),
        ([(np.ones((2, 2)), np.ones(2)), (np.ones((2, 3)), np.ones(2))], "(2, 3) and (2,) in chunk 1", ValueError),
        ([(np.ones((2, 2)), np.ones(2)), (np.ones((2, 2)), np.ones((2, 1)))], "and (2, 1) in chunk 1", ValueError),
        (pl.Series([1.0]), "X must be an array or a data frame", TypeError),
        (pa.RecordBatch.from_pydict({"a": [1]}), "X must be an array or a data frame", TypeError),
    ],
)
def test_sources_that_make_no_sense(source, message, kind):
    targets = 0 if isinstance(source, np.ndarray) else None
    assert message in refusal(lambda: chunks(source, targets=targets), kind)


@pytest.mark.parametrize(
    ("package", "extra", "source"),
    [("narwhals", "frames", "pandas"), ("pyarrow", "files", "parquet")],
)
def test_what_to_install_is_said(package, extra, source, table, tmp_path, monkeypatch):
    source = SOURCES[source](table, tmp_path)
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.split(".")[0] == package:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    message = refusal(lambda: chunks(source, targets="y"), ImportError)
    assert f"the extra '{extra}' of ovk: pip install {package}" in message


# Memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_text_files_are_read_in_the_memory_of_a_chunk(kind, tmp_path):
    rows, width = 40_000, 5
    A = np.random.default_rng(0).normal(size=(2000, width))
    path = (write_csv if kind == "csv" else write_jsonl)(tmp_path / f"t.{kind}", np.tile(A, (rows // 2000, 1)))
    assert path.stat().st_size > 3e6

    def read():
        assert sum(len(chunk.X) for chunk in chunks(path, targets=["z"], chunk_size=256)) == rows

    # A chunk is 10 kB as numbers; as text cells, each an object, about fifteen times that.
    limit = path.stat().st_size / 4
    assert peak_memory(read, limit) < limit


def test_parquet_is_read_in_the_memory_of_a_row_group(tmp_path):
    A = np.random.default_rng(0).normal(size=(200_000, 5))
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({name: A[:, j] for j, name in enumerate(NAMES)}), path, row_group_size=4000)
    before = pa.total_allocated_bytes()
    used = [pa.total_allocated_bytes() for _ in chunks(path, targets=["z"], chunk_size=1000)]
    assert max(used) - before < A.nbytes / 10
