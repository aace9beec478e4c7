"""Shared checks name the argument, what was found and what is allowed."""

import numpy as np
import pytest

from ovk.base import check_int, in_interval, positive


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2), np.int64(3), 1e300])
def test_positive(value):
    found = positive(value, "x")
    assert type(found) is float
    assert found == value


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "1", None, True, [1.0], np.ones(1), 1j])
def test_not_positive(value):
    with pytest.raises(ValueError, match="x must be positive and finite, got"):
        positive(value, "x")


def test_zero_where_it_is_allowed():
    assert positive(0, "x", zero=True) == 0.0
    for value in (-1e-300, np.nan, np.inf, False):
        with pytest.raises(ValueError, match="x must be non-negative and finite, got"):
            positive(value, "x", zero=True)


def test_in_interval():
    assert in_interval(0, "x", 0, 1) == 0.0
    assert in_interval(np.float64(1), "x", 0, 1) == 1.0
    for value in (-0.1, 1.1, np.nan, "a", None, True):
        with pytest.raises(ValueError, match=r"x must be a number in \[0, 1\], got"):
            in_interval(value, "x", 0, 1)


def test_whole():
    assert check_int(np.int32(3), "x") == 3
    assert check_int(0, "x", least=0) == 0
    for value in (0, -1, 1.0, "1", None, True, np.ones(1)):
        with pytest.raises(ValueError, match="x must be an integer >= 1, got"):
            check_int(value, "x")
