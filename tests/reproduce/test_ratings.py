"""Collaborative filtering at a small size."""

import numpy as np
import pytest
from reproduce.ratings import factorise

import reproduce

pytestmark = pytest.mark.long


def test_a_matrix_of_low_rank_is_completed():
    rng = np.random.default_rng(0)
    truth = 2.0 + rng.standard_normal((40, 1)) @ rng.standard_normal((1, 30))
    known = np.where(rng.uniform(size=truth.shape) < 0.5, truth, np.nan)
    assert np.abs(factorise(known, 1, 1e-3) - truth).max() < 0.1


def test_the_table_has_all_rows():
    result = reproduce.run("ratings", repeats=1, items=40, users=9, rated=8)
    assert len(result.rows) == 8
    assert all(0 < row.ours < 3 for row in result.rows)
