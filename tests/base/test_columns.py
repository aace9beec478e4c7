"""Cells and columns of tables."""

import numpy as np
import pytest

from ovk.base import Label, Number, as_instants, few_whole_numbers, guess_labels, require_numbers


def test_numbers_are_read_in_many_spellings():
    values, bad = Number("x").encode([["1.5", "?", " \u22125 % ", None, "x"]])
    assert np.array_equal(values.ravel(), [1.5, np.nan, -5.0, np.nan, np.nan], equal_nan=True)
    assert bad.tolist() == [False, False, False, False, True]


def test_whole_labels_are_read_as_numbers_and_words_are_stripped():
    codes = Label("y", ["1", "2"], 2, whole=True).encode([["1.0", 2.0, "none"]]).values.ravel()
    assert np.array_equal(codes, [0.0, 1.0, np.nan], equal_nan=True)
    label = Label("y", ["yes", "2"], 2)
    codes = label.encode([[" yes ", 2.0, "none", "None", "NA", ""]]).values.ravel()
    assert np.array_equal(codes, [0.0, 1.0, 2.0, np.nan, np.nan, np.nan], equal_nan=True)


def test_labels_are_guessed_from_words_or_from_few_whole_numbers():
    assert guess_labels("y", ["b", "a", "b", "a"], "t.csv") == Label("y", ["a", "b"], 2)
    assert few_whole_numbers(["1", "0", "?", "1"]) == ["0", "1"]
    assert few_whole_numbers(["0.5", "1"]) == []


def test_a_cell_that_is_no_number_is_named():
    with pytest.raises(ValueError, match=r"column 'x' of t\.csv has 'abc' in line 2, which is not a number"):
        require_numbers(["1.5", "?", "abc"], "x", "t.csv", "line {}".format)


def test_dates_of_numpy_are_seconds():
    assert as_instants(np.array(["1970-01-02"], dtype="datetime64[D]")).tolist() == [86400.0]
    assert as_instants(np.arange(3)) is None
