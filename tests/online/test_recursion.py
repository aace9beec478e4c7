"""Linear recursions: all steps at once equal one at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ovk.online.first_order.blocks import recursion


def one_by_one(start, factors, additions):
    x = [start]
    for factor, more in zip(factors, additions, strict=True):
        x.append(factor * x[-1] + more)
    return np.array(x)


@given(
    st.floats(-10, 10),
    st.lists(st.tuples(st.floats(0.01, 1.5), st.floats(-10, 10)), max_size=60),
)
def test_as_one_at_a_time(start, steps):
    factors, additions = np.array([s[0] for s in steps]), np.array([s[1] for s in steps])
    # Rounding errors are relative to the largest sum, not to the result.
    size = one_by_one(abs(start), factors, np.abs(additions))
    expected = one_by_one(start, factors, additions)
    assert (np.abs(recursion(start, factors, additions) - expected) <= 1e-12 * size + 1e-300).all()


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_products_that_leave_the_range_of_numbers(factor):
    factors, additions = np.full(300, factor), np.ones(300)
    with np.errstate(over="ignore"):
        assert_allclose(recursion(1.0, factors, additions), one_by_one(1.0, factors, additions), rtol=1e-12)


def test_huge_additions():
    factors, additions = np.full(5, 0.5), np.array([0.0, 1e308, 1e308, 0.0, 0.0])
    assert_allclose(recursion(1.0, factors, additions), one_by_one(1.0, factors, additions), rtol=1e-12)


def test_no_steps():
    assert_array_equal(recursion(2.0, np.empty(0), np.empty(0)), [2.0])
