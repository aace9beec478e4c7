"""Scales of columns ignore outliers but not rare values."""

import numpy as np
from numpy.testing import assert_allclose

from ovk.online.shared.rows import MAX_OUTLIER_SHARE, Scale


def quiet(n=5000):
    return 0.01 * np.random.default_rng(0).standard_normal((n, 1))


def test_outliers_are_ignored():
    y = quiet()
    y[[7, 900]] = [[1e9], [-1e300]]
    for few in (MAX_OUTLIER_SHARE, 1.0):
        assert_allclose(Scale.from_rows(y, few).scale, 0.01, rtol=0.05)


def test_bursts_are_not_outliers():
    y = quiet()
    y[2000:2100] += 30.0
    assert_allclose(Scale.from_rows(y, MAX_OUTLIER_SHARE).scale, y.std(), rtol=1e-9)
    assert_allclose(Scale.from_rows(y).scale, 0.01, rtol=0.05)
