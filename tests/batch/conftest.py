"""Small data that the tests of the batch estimators share."""

from types import SimpleNamespace

import numpy as np
import pytest

from batch.reference import with_holes


@pytest.fixture
def data():
    """25 points in the plane, 3 outputs, complete and with holes, weights, 7 new points."""
    rng = np.random.default_rng(0)
    X, X_new = rng.uniform(-1, 1, (25, 2)), rng.uniform(-1, 1, (7, 2))
    signal = np.column_stack([np.sin(3 * X[:, 0]), X[:, 1] ** 2, X.sum(axis=1)])
    Y = signal + 0.1 * rng.standard_normal((25, 3)) + [0.0, 1.0, -2.0]
    return SimpleNamespace(X=X, Y=Y, holes=with_holes(Y), weight=rng.uniform(0.2, 3.0, 25), X_new=X_new)
