"""What a user writes, with types. It runs as a test, and `make lint` checks it with `mypy --strict`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import ovk
from ovk.datasets import make_stream
from ovk.kernels import Gaussian, Matern
from ovk.operators import MixedEffect
from ovk.ovkernels import OperatorKernel

Array = NDArray[np.float64]


def measured(rows: int, outputs: int, seed: int) -> tuple[Array, Array]:
    """Inputs, and outputs with gaps."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, (rows, 1))
    Y = np.sin(X) + np.linspace(0, 1, outputs)
    Y[rng.uniform(size=Y.shape) < 0.5] = np.nan
    return X, Y


def batch() -> float:
    """Fit, predict with uncertainty, save and load."""
    X, Y = measured(40, 3, seed=0)
    kernel: OperatorKernel = Gaussian(1.0) * MixedEffect(0.5) + 0.1 * (Matern(2.0) * MixedEffect(0.0))
    model = ovk.OVKRidge(kernel, alpha=0.1).fit(X, Y)
    assert_type(model, ovk.OVKRidge)
    assert_type(model.predict(X), Array)
    mean, std = model.predict(X, return_std=True)
    with tempfile.TemporaryDirectory() as directory:
        ovk.save(model, Path(directory) / "model.ovk")
        again = ovk.load(Path(directory) / "model.ovk")
    assert np.array_equal(again.predict(X), mean)
    return float(std.mean())


def stream() -> Array:
    """Every row is predicted before it is learned."""
    X, Y = make_stream(60, 2, random_state=0, return_X_y=True)
    result = ovk.progressive(ovk.PKAWV(Gaussian(1.0) * MixedEffect(0.5), alpha=1.0), X, Y)
    return result.mse


if __name__ == "__main__":
    print(f"{batch():.3f}", stream().round(3))
