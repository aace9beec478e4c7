"""Inputs and outputs of every dtype and layout give the predictions of 64-bit numbers, or a clear error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

import ovk
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect

K = Gaussian(1.5) * MixedEffect(0.5)
MODELS = {
    "OVKRidge": lambda: ovk.OVKRidge(K, 0.1),
    "OLOK": lambda: ovk.OLOK(K, alpha=0.1),
    "KAWV": lambda: ovk.KAWV(K, alpha=0.1),
    "MovKL": lambda: ovk.MovKL([K], alpha=0.1),
    "PKAWV": lambda: ovk.PKAWV(K, alpha=0.1, random_state=0),
}
NUMBERS = ["int8", "uint16", "int32", "int64", "float16", "float32", "float64", "bool", "object", "longdouble"]


def _layouts(A: Any, rng: np.random.Generator) -> Any:
    kind = rng.integers(12)
    wide = np.zeros((2 * len(A), 2 * A.shape[1]), dtype=A.dtype)
    wide[::2, ::2] = A
    if kind == 0:
        return np.asfortranarray(A)
    if kind == 1:
        return wide[::2, ::2]
    if kind == 2:
        return A[::-1][::-1]
    if kind == 3:
        fixed = A.copy()
        fixed.flags.writeable = False
        return fixed
    if kind == 4:
        return A.tolist()
    if kind == 5:
        return pd.DataFrame(A)
    if kind == 6 and A.dtype.kind in "iuf" and A.dtype != np.longdouble:
        return pd.DataFrame(A.astype(np.float64)).convert_dtypes()
    if kind == 7 and A.dtype.kind in "iuf" and A.dtype.itemsize <= 8 and A.dtype != np.float16:
        return pl.DataFrame(A, schema=[f"c{j}" for j in range(A.shape[1])])
    if kind == 8:
        return np.ma.masked_array(A)
    if kind == 9 and A.dtype.kind in "iuf" and A.dtype.itemsize in (4, 8):
        return sparse.csr_array(A)
    if kind == 10:
        return A.astype(A.dtype.newbyteorder()) if A.dtype.kind in "iuf" else A
    return A


def tries(rng: np.random.Generator) -> Iterator[str | None]:
    while True:
        name = list(MODELS)[rng.integers(len(MODELS))]
        X = rng.integers(0, 2 if rng.random() < 0.3 else 9, (25, 3)).astype(float)
        Y = rng.integers(0, 5, (25, 2)).astype(float)
        kinds = [NUMBERS[k] for k in rng.integers(0, len(NUMBERS), 2)]
        if kinds[0] == "bool":
            X = (X > 1).astype(float)
        if kinds[1] == "bool":
            Y = (Y > 1).astype(float)
        expected = MODELS[name]().fit(X, Y).predict(X)
        given = [_layouts(A.astype(kind), rng) for A, kind in zip((X, Y), kinds, strict=True)]
        shown = f"{name} with {kinds[0]} in a {type(given[0]).__name__} and {kinds[1]} in a {type(given[1]).__name__}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = np.asarray(MODELS[name]().fit(*given).predict(given[0]))
        except (TypeError, ValueError) as error:
            yield None if len(str(error)) > 20 else f"{shown} raised {type(error).__name__}: {error}"
        except Exception as error:
            yield f"{shown} raised {type(error).__name__}: {error}"
        else:
            fine = found.shape == expected.shape and np.allclose(found, expected, atol=1e-6)
            yield None if fine else f"{shown} predicts other values"
