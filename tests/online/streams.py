"""Small streams and the learners that the tests run on them."""

from contextlib import contextmanager

import numpy as np
import pytest

from instances import PATH, B
from ovk.kernels import Gaussian, Linear, Matern
from ovk.objectives import (
    Constant,
    DistanceOverGradients,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Inverse,
    InverseSqrt,
    Logistic,
    Pinball,
    SimplexHinge,
    Squared,
    simplex_code,
)
from ovk.online.first_order import olok as base
from ovk.online.second_order import block_ridge, coupled_ridge, kawv
from ovk.operators import Dense, GraphLaplacian, Identity, MixedEffect
from ovk.ovkernels import CurlFree, Diagonal, Hadamard, Transformable

D = 3

KERNELS = {
    "separable": Gaussian(1.0) * MixedEffect(0.5, D),
    "commuting sum": Gaussian(1.0) * MixedEffect(0.4, D) + 0.1 * Linear() * Identity(D),
    "sum": Gaussian(1.0) * Dense(B) + Matern(1.5, 2.0) * GraphLaplacian(PATH, 0.5),
    "diagonal": Diagonal([Gaussian(1.0), Matern(1.5, 1.0), Gaussian(0.5)]),
    "transformable": Transformable(Gaussian(1.1)),
    "curl-free": CurlFree(Gaussian(1.4), D),
    "hadamard": Hadamard(Gaussian(1.3) * Dense(B), Matern(2.5, 2.0) * MixedEffect(0.4, D)),
}

LOSSES = {
    "squared": Squared(),
    "huber": Huber(0.3),
    "epsilon": EpsilonInsensitive(0.1),
    "epsilon 0": EpsilonInsensitive(0.0),
    "joint epsilon": EpsilonInsensitive(0.1, joint=True),
    "pinball": Pinball([0.1, 0.5, 0.9]),
    "logistic": Logistic(),
    "hinge": Hinge(),
    "simplex": SimplexHinge(),
}

SCHEDULES = {
    "inverse sqrt": InverseSqrt(0.5),
    "inverse sqrt, late": InverseSqrt(0.8, start=4),
    "constant": Constant(0.1),
    "inverse": Inverse(0.5),
    "auto": DistanceOverGradients(),
}


def stream(n, loss=None, seed=0, missing=0.0):
    """Inputs (n, 3) and outputs (n, 3) suitable for the loss, some of them missing."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2 - 1])
    Y += 0.1 * rng.standard_normal(Y.shape)
    if isinstance(loss, (Hinge, Logistic)):
        Y = np.where(Y > 0, 1.0, -1.0)
    if isinstance(loss, SimplexHinge):
        Y = simplex_code(D + 1)[np.abs(Y).argmax(axis=1) + (Y[:, 0] > 0.5)]
    return X, np.where(rng.random(Y.shape) < missing, np.nan, Y)


def in_chunks(model, X, Y, cuts):
    """Progressive predictions when the rows arrive in pieces."""
    parts = np.split(np.arange(len(X)), sorted(cuts))
    return np.concatenate([model.predict_then_learn(X[part], Y[part]) for part in parts if len(part)])


#: Sizes of blocks for tests: of one row, of a few, and of so many that streams of 150 rows still have several.
BLOCKS = (1, 7, 32)


@contextmanager
def blocks_of(size):
    """Set the block size of all online learners; None for their own."""
    with pytest.MonkeyPatch.context() as patch:
        if size is not None:
            for name in ("MAX_BLOCK_ROWS", "MIN_BLOCK_ROWS"):
                patch.setattr(base, name, size)
            for name in ("MIN_BLOCK_POINTS", "MAX_BLOCK_POINTS"):
                patch.setattr(block_ridge, name, size)
            patch.setattr(coupled_ridge, "MAX_BLOCK_POINTS", size)
            patch.setattr(kawv, "PANEL_ROWS", size)
        yield
