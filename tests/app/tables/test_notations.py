"""Number formats of several countries, and numbers that are read as words."""

import numpy as np
import pytest

from ovk.app.tables import Batch, Preparation, read_table
from ovk.app.tables.preparation import column_warning, count_units
from ovk.base import Category, Number, guess_column, read_numbers


@pytest.mark.parametrize(
    ("cells", "decimal", "values"),
    [
        (["4,21e-05", "7,958E-05", "0,0001", "1e-04"], ",", [4.21e-05, 7.958e-05, 1e-4, 1e-4]),
        (["4,21e+05", "-7,9e5"], ",", [4.21e5, -7.9e5]),
        (["4,2 %", "12,5%", ",5"], ",", [4.2, 12.5, 0.5]),
        (["\u22124,2", "1,5"], ",", [-4.2, 1.5]),
        # Few cells need the comma.
        (["0"] * 19 + ["0,5"], ",", [0.0] * 19 + [0.5]),
        (["0"] * 8 + ["0,5", "0,25"], ",", [0.0] * 8 + [0.5, 0.25]),
        (["1.234,5e3", "1.000,25"], ",", [1.2345e6, 1000.25]),
        (["1 234", "12\u00a0345,5", "7"], ",", [1234, 12345.5, 7]),
        (["1'234.5", "12"], ".", [1234.5, 12]),
        (["1,234.5e-2", "12"], ".", [12.345, 12]),
        (["1.5e-05", "2"], ".", [1.5e-05, 2]),
    ],
)
def test_a_number_is_read_in_its_notation(cells, decimal, values):
    column = guess_column("a", cells, 9)
    assert isinstance(column, Number)
    assert column.decimal == decimal or not any(mark in "".join(cells) for mark in ",.")
    np.testing.assert_allclose(column.encode([cells]).values[:, 0], values)


def test_exponents_behind_a_decimal_comma_reach_every_reader(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;y\n" + "".join(f"{i},25e-05;{i},5\n" for i in range(30)))
    X, Y, features, _ = read_table(path, ["y"])
    assert features == ("a",)
    np.testing.assert_allclose(X[:, 0], (np.arange(30) + 0.25) * 1e-5)
    np.testing.assert_allclose(Y[:, 0], np.arange(30) + 0.5)


def test_points_of_a_table_with_commas_stand_between_thousands():
    cells = [["1.234", "12.345", "987"], ["1,5", "2,5", "3"], ["1", "2", "3"]]
    preparation = Preparation(["y"]).bind(["big", "y", "whole"]).fit(Batch(cells, [1, 2, 3], []))
    rows = preparation.prepare(Batch([["2.000"], ["1"], ["4,5"]], [1], [])).chunk
    np.testing.assert_array_equal(rows.X, [[2000.0, 4.5]])
    # Without commas elsewhere the same cells are decimals.
    alone = Preparation(["y"]).bind(["big", "y"]).fit(Batch([cells[0], ["1", "2", "3"]], [1, 2, 3], []))
    assert alone.columns_ == [Number("big")]


def test_points_that_are_decimals_stay_so_beside_commas():
    cells = [["1.25", "12.345", "987"], ["1,5", "2,5", "3"]]
    preparation = Preparation(["y"]).bind(["mixed", "y"]).fit(Batch(cells, [1, 2, 3], []))
    assert preparation.columns_ == [Number("mixed")]


@pytest.mark.parametrize("cell", ["{} kg", "<{},5", "\u20ac {}.50", "EUR {}.50", "({},000)", "{} mg/l", "{},5*10^-3"])
def test_cells_that_look_like_numbers_are_doubted(cell):
    cells = [cell.format(i % 25) for i in range(200)]
    said = column_warning("dose", guess_column("dose", cells, 50), cells)
    assert said.startswith("Column 'dose' is read as words")
    assert repr(cells[0]) in said
    assert "ignore=['dose']" in said
    # Its words never repeat, so it is not used.
    cells = [cell.format(i) for i in range(200)]
    assert "look like numbers" in column_warning("dose", guess_column("dose", cells, 50), cells)


def test_a_different_number_in_every_row_may_identify_it():
    cells = [str(1001 + i) for i in range(30)]
    said = column_warning("sample_id", guess_column("sample_id", cells, 50), cells)
    assert "a different whole number in every row" in said
    assert "ignore=['sample_id']" in said
    assert column_warning("depth", guess_column("depth", cells, 50), cells) is None
    cells[3] = cells[4]
    assert column_warning("sample_id", guess_column("sample_id", cells, 50), cells) is None


def test_many_different_words_are_doubted():
    cells = [f"V{i // 2:05d}x" if i % 3 else "none given" for i in range(300)]
    column = guess_column("visit", cells, 50)
    said = column_warning("visit", column, cells)
    assert "distinct words in 300 rows, such as" in said
    assert "'visit'" in said


@pytest.mark.parametrize(
    "cells",
    [
        ["red", "blue"] * 100,
        [f"city {i % 40}" for i in range(200)],
        [str(i / 7) for i in range(50)],
        ["5 kg", "9 kg"] * 20,
    ],
)
def test_ordinary_columns_are_not(cells):
    assert column_warning("a", guess_column("a", cells, 50), cells) is None


@pytest.mark.parametrize(
    ("name", "count"),
    [("patient", 9), ("PatientID", 9), ("subject#", 9), ("device_id", 9), ("age", 0), ("month", 0), ("width", 0)],
)
def test_a_name_tells_that_things_are_numbered(name, count):
    cells = [str(i % 9 + 1) for i in range(90)]
    assert count_units(name, Number(name), cells) == count
    assert count_units(name, Category(name, ["1", "2"]), cells) == count


def test_numbers_that_never_repeat_number_no_groups():
    assert count_units("id", Number("id"), list(map(str, range(90)))) == 0
    assert count_units("patient", Number("patient"), [str(i / 2) for i in range(9)] * 10) == 0


def test_frequent_words_have_indicators_and_the_others_are_counted():
    cells = [f"city {i % 42}" for i in range(42 * 12)] + ["hamlet", "hamlet", "farm"]
    column = guess_column("place", cells, 50)
    assert len(column.levels) == 42
    assert column.pooled == 2
    assert column.describe().endswith("; 2 rarer words without one")
    # Beyond the twenty most frequent words, rare words have no indicator.
    column = guess_column("place", [f"city {i % 42}" for i in range(42 * 4)], 50)
    assert (len(column.levels), column.pooled) == (20, 22)


def test_no_column_is_ignored_and_used():
    with pytest.raises(ValueError, match="column 'a' is both ignored and used"):
        Preparation(["y"], ["a"], ignore=["a"]).bind(["a", "y"])
    with pytest.raises(ValueError, match="there is no column 'b'"):
        Preparation(["y"], ignore=["b"]).bind(["a", "y"])


def test_ignored_columns_are_no_inputs():
    batch = Batch([["1", "2", "3"], ["7", "8", "9"], ["4", "5", "6"]], [1, 2, 3], [])
    preparation = Preparation(["y"], ignore=["visit"]).bind(["a", "visit", "y"]).fit(batch)
    assert preparation.feature_names_ == ["a"]
    assert preparation.describe()["visit"] == "not used: ignored as requested"
    # The column may be absent later.
    preparation.bind(["a"], predict=True)


def test_read_numbers_knows_exponents_with_groups():
    assert read_numbers(["1.234,5e-2"], ",", grouped=True).values[0, 0] == 12.345
