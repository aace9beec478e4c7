"""Shared by loaders and generators: the returned Bunch, and random generators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from reproduce.support import Array, Loaded, RandomState


def bundle(
    description: str,
    data: Any,
    target: npt.NDArray[Any],
    feature_names: Sequence[str],
    target_names: Sequence[str],
    return_X_y: bool,
    **fields: Any,
) -> Loaded:
    """The Bunch of a data set, `description` being its `DESCR`, or only its data and target."""
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        feature_names=list(feature_names),
        target_names=list(target_names),
        DESCR=description,
        **fields,
    )


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A Generator: the one given, or one seeded by the integer, by the RandomState or at random.

    >>> int(as_generator(0).integers(10)) == int(as_generator(0).integers(10))
    True
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)


def function_pairs(
    description: str,
    data: Array,
    target: Array,
    names: tuple[str, str],
    grid: Any,
    noise: float,
    rng: np.random.Generator,
    return_X_y: bool,
) -> Loaded:
    """The Bunch of input and output functions (n, d) on one grid; noise on the outputs is relative to their size.

    Column names consist of the name of the function and its points, or of indices along the axes of a field.
    """
    if noise:
        target = target + noise * np.sqrt(np.mean(target**2)) * rng.standard_normal(target.shape)
    if len(grid.shape) == 1:
        places = [f"at {x:g}" for x in grid.checked()]
    else:
        places = [",".join(str(i) for i in place) for place in np.ndindex(*grid.shape)]
    features, targets = ([f"{name} {place}" for place in places] for name in names)
    return bundle(description, data, target, features, targets, return_X_y, grid=grid)
