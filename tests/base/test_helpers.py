"""Small helpers that every package uses."""

import numpy as np
import pytest

from ovk.base import (
    Number,
    closest_names,
    in_comma_table,
    is_missing,
    is_missing_cell,
    members_of_groups,
    quoted,
    share_of_right_labels,
    short,
)
from ovk.base.dates import day_comes_first, unix_seconds


def test_messages_shorten_names_and_values():
    assert quoted(["a", "b"]) == "'a', 'b'"
    assert quoted(map(str, range(20))) == "'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', ..., '19'"
    assert short("x" * 100, 10) == "'xxxxxxxxx..."
    assert short(10**9999) == "an integer of about 9,999 digits"
    assert closest_names(["HNR", "rpde", "z"], ["NHR", "RPDE", "jitter"]) == {"HNR": "NHR", "rpde": "RPDE"}


def test_missing_cells_and_labels():
    assert all(map(is_missing_cell, (None, "", " NA ", "?", "null", float("nan"))))
    assert not any(map(is_missing_cell, ("0", 0)))
    assert not any(map(is_missing, (0, "")))
    pandas = pytest.importorskip("pandas")
    assert all(map(is_missing, (None, float("nan"), pandas.NA, pandas.NaT)))


def test_labels_that_are_not_known_do_not_count():
    assert share_of_right_labels(np.array(["a", "b", "a"]), ["a", None, "b"], [3.0, 1.0, 1.0]) == 0.75


def test_members_of_groups():
    assert [members.tolist() for members in members_of_groups(np.array([3, 0, 3]))] == [[1], [0, 2]]


def test_points_in_a_table_of_decimal_commas():
    assert in_comma_table(Number("a"), ["1.234", "56"]) == Number("a", ",", True)
    assert in_comma_table(Number("b"), ["1.5", "2.125"]) == Number("b")


def test_dates_by_their_cells():
    assert day_comes_first(["1/2/2006", "3/14/2006"]) == (False, False)
    assert day_comes_first(["1/2/2006"]) == (True, True)
    assert [unix_seconds(1.7e9 * unit) for unit in (1, 1e3, 1e6, 1e9)] == [1.7e9] * 4
