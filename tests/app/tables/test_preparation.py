"""Inputs and outputs from cells."""

import re
from datetime import date, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovk import load, save
from ovk.app.tables import Batch, Lags, Preparation, find_columns
from ovk.base import Category, Instant, Number, calendar_features, guess_column, read_numbers
from ovk.base.columns import TimestampParser
from ovk.base.dates import CALENDAR_NAMES


def batch(*columns):
    return Batch([list(column) for column in columns], list(range(1, len(columns[0]) + 1)), [])


def test_spellings_of_nothing_and_of_numbers():
    cells = ["1", " 2.5 ", "1e3", "-0", "", "NA", "n/a", "<NA>", "NaN", "null", "None", "?", None, True, 7]
    values, bad = read_numbers(cells)
    np.testing.assert_array_equal(values[:4, 0], [1, 2.5, 1000, 0])
    assert np.isnan(values[4:13, 0]).all()
    np.testing.assert_array_equal(values[13:, 0], [1, 7])
    assert not bad.any()


@pytest.mark.parametrize("cell", ["x", "1,5", "inf", "-Infinity", "1e999", [1], {"a": 1}, 10**400, "0x10"])
def test_cells_that_are_no_number(cell):
    values, bad = read_numbers(["1", cell])
    assert bad.tolist() == [False, True]
    assert np.isnan(values[1, 0])


@given(st.lists(st.one_of(st.none(), st.text(max_size=6), st.floats(), st.integers(), st.booleans()), max_size=30))
def test_any_cells_are_read_or_named(cells):
    values, bad = read_numbers(cells)
    assert values.shape == (len(cells), 1)
    assert not np.isinf(values).any()
    assert np.isnan(values[bad]).all()
    if any(cell is not None for cell in cells):
        guess_column("name", cells, 5)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2", "?", "3"], Number("a")),
        (["1,5", "2,25", "3"], Number("a", ",")),
        (["2006-12-16 17:24:00", "2006-12-17T01:00:00Z"], Instant(["a"])),
        (["16/12/2006", "1/2/2007"], Instant(["a"])),
        (["12/16/2006", "1/2/2007"], Instant(["a"], day_first=False)),
        ([date(2020, 1, 1), datetime(2020, 1, 2, 3, 4)], Instant(["a"])),
        (["red", "blue", "red", "blue", "green", "red"], Category("a", ["red", "blue"], 1)),
        (["", "NA", None], Number("a")),
        ([True, False, True], Number("a")),
    ],
)
def test_what_a_column_holds(cells, kind):
    assert repr(guess_column("a", cells, 2)) == repr(kind)


def test_words_that_never_repeat_are_no_input():
    assert guess_column("id", ["a1", "b2", "c3"], 5) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", 86400.0),
        ("1970-01-02 00:01", 86460.0),
        ("1970-01-02T00:01:30.5", 86490.5),
        ("02/01/1970 12:00:00 am", 86400.0),
        ("2.1.70 1:00 PM", 86400 + 13 * 3600.0),
        ("19700102", 86400.0),
        (86400, 86400.0),
        (1_700_000_000_000, 1_700_000_000.0),
    ],
)
def test_instants(text, seconds):
    values, bad = TimestampParser(day_first=True).read([[text]])
    assert values[0, 0] == seconds
    assert not bad[0]


@pytest.mark.parametrize(
    "text", ["31/02/2006", "tomorrow", "25:00", "12:60:00", "2006-13-01", [1], "1/2/3/4", float("inf")]
)
def test_what_is_no_instant(text):
    clock = TimestampParser(day_first=True)
    for _ in range(2):
        assert clock.read([[text]]).bad[0]


def test_the_calendar_repeats():
    day = 86400.0
    A = calendar_features(np.array([0.0, day, 7 * day]))
    assert A.shape == (3, len(CALENDAR_NAMES))
    np.testing.assert_allclose(A[0, :6], A[1, :6], atol=1e-12)
    np.testing.assert_allclose(A[0, 6:10], A[2, 6:10], atol=1e-12)
    assert not calendar_features(np.array([np.nan])).any()


@given(st.integers(0, 5), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_lags_do_not_care_where_chunks_end(seed, sizes):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((sum(sizes), 2))
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    whole, parts = Lags((1, 3, 7)).inputs_then_update(Y), Lags((1, 3, 7))
    pieces = [parts.inputs_then_update(part) for part in np.split(Y, np.cumsum(sizes)[:-1])]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    for t in range(len(Y)):
        for k, lag in enumerate((1, 3, 7)):
            for q in range(2):
                past = Y[: max(t - lag + 1, 0), q]
                known = past[~np.isnan(past)]
                expected = known[-1] if len(known) else np.nan
                np.testing.assert_equal(whole[t, 2 * k + q], expected)


@pytest.mark.parametrize("lags", [(0,), (1, 1), (-1,), (1.5,)])
def test_lags_that_make_no_sense(lags):
    with pytest.raises(ValueError, match="lags must be"):
        Lags(lags).inputs_then_update(np.zeros((3, 1)))


def test_cells_that_cannot_be_read_are_missing():
    first = batch(["1", "2", "3", "4"], ["10", "20", "30", "40"])
    preparation = Preparation(["y"], lags=[1]).bind(["x", "y"], "t.csv").fit(first)
    rows = preparation.prepare(batch(["1", "oops", "3", ""], ["10", "20", "bad", "40"]))
    assert rows.rows == [1, 2, 3, 4]
    assert rows.bad == [
        (2, "'oops' in column 'x' cannot be read (treated as missing)"),
        (3, "'bad' in column 'y' cannot be read (treated as missing)"),
    ]
    np.testing.assert_array_equal(rows.chunk.X, [[1, np.nan], [np.nan, 10], [3, 20], [np.nan, 20]])
    np.testing.assert_array_equal(rows.chunk.Y, [[10], [20], [np.nan], [40]])


def test_lags_count_rows_that_cannot_be_read():
    preparation = Preparation(["y"], lags=[1, 2]).bind(["x", "y"]).fit(batch(["1", "2"], ["1", "2"]))
    torn = Batch([["1", "2", "4"], ["10", "20", "40"]], [1, 2, 4], [(3, "1 field instead of 2")])
    X = preparation.prepare(torn).chunk.X
    # Row 3 has no outputs, so row 4 has the last known value at lag 1 and that of row 2 at lag 2.
    np.testing.assert_array_equal(X[:, 1:], [[np.nan, np.nan], [10, np.nan], [20, 20]])


@pytest.mark.parametrize(
    ("cells", "column", "values"),
    [
        (["1,234.50", "7", "1,000,000"], Number("x", ".", True), [1234.5, 7.0, 1e6]),
        (["1.234,50", "7,5", "1.000"], Number("x", ",", True), [1234.5, 7.5, 1000.0]),
        (["12%", "7.5 %", "?"], Number("x"), [12.0, 7.5, np.nan]),
        (["1,234", "2,5", "3,75"], Number("x", ","), [1.234, 2.5, 3.75]),
    ],
)
def test_numbers_as_people_write_them(cells, column, values):
    assert guess_column("x", cells, 5) == column
    read = column.encode([cells])
    np.testing.assert_array_equal(read.values.ravel(), values)
    assert not read.bad.any()


def test_columns_of_another_file_may_stand_in_another_order(tmp_path):
    first = batch(["1", "2"], ["a", "a"], ["5", "6"])
    preparation = Preparation(["y"]).bind(["x", "w", "y"]).fit(first)
    save(preparation, tmp_path / "p.ovk")
    again = load(tmp_path / "p.ovk").bind(["w", "new", "x"], predict=True)
    rows = again.prepare(batch(["a", "b"], ["?", "?"], ["7", "8"]))
    np.testing.assert_array_equal(rows.chunk.X, [[7, 1], [8, 0]])
    assert np.isnan(rows.chunk.Y).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"targets": ["z"]}, "there is no column 'z' in t.csv: its columns are"),
        ({"targets": ["temprature"]}, "did you mean 'temperature'"),
        ({"targets": ["y"], "features": ["y", "x"]}, "column 'y' is a target and a feature"),
        ({"targets": ["y"], "time": ["y"]}, "column 'y' is a target and a feature"),
        ({"targets": ["y", "y"]}, "'y' is named twice"),
        ({"targets": []}, "targets must name at least one column"),
        ({"targets": ["word"]}, "'word' of t.csv is a target and must contain numbers, got 'a' in row 1"),
        ({"targets": ["y"], "time": ["word"]}, "row 1 of t.csv has 'a' in 'word', which is not a time"),
        ({"targets": ["y"], "features": []}, "has no inputs"),
        ({"targets": ["twice"]}, "occurs 2 times"),
    ],
)
def test_refusals_name_the_column_and_the_cure(arguments, message):
    names = ["x", "y", "word", "temperature", "twice", "twice"]
    rows = batch(["1", "2"], ["3", "4"], ["a", "a"], ["1", "2"], ["1", "2"], ["1", "2"])
    with pytest.raises(ValueError, match=message):
        Preparation(**arguments).bind(names, "t.csv").fit(rows)


def test_unnamed_and_doubled_columns_are_left_out():
    rows = batch(["0", "1"], ["1", "2"], ["1", "2"], ["3", "4"], ["q", "r"], ["5", "6"])
    preparation = Preparation(["y"]).bind(["", "a", "a", "y", "id", "b"]).fit(rows)
    assert preparation.feature_names_ == ["b"]
    assert set(preparation.unused_) == {"", "a", "id"}


@pytest.mark.parametrize(
    ("dates", "said"),
    [
        (["2024-04-03", "2024-04-04"], False),
        (["3/4/2024", "4/4/2024"], True),
        (["3/4/2024", "16/4/2024"], False),
        (["3/4/2024", "4/16/2024"], False),
    ],
)
def test_what_is_assumed_of_dates_is_told_where_it_matters(dates, said):
    column = guess_column("when", dates, 5)
    assert ("3 April" in column.describe()) == said
    assert "day of week" in column.describe()


@pytest.mark.parametrize(
    ("wanted", "names", "message"),
    [
        (["HNR", "RPDE"], ["NHR", "rpde"], "did you mean 'NHR' for 'HNR' and 'rpde' for 'RPDE'?"),
        (["NHR", "HNR"], ["NHR", "hz"], "there is no column 'HNR' in t.csv: its columns are 'NHR', 'hz'"),
        (["b"], ["a:b"], "its only column is 'a:b'; separate cells by commas, semicolons, tabs or |"),
    ],
)
def test_columns_that_are_not_there_are_named_with_close_names(wanted, names, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        find_columns(wanted, names, "t.csv")
