"""What loaders and generators share: the Bunch that they return, random generators, checks of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from reproduce.support import Loaded, RandomState


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
    """A Generator: the one given, or one seeded by the integer, by draws of the RandomState or by nothing.

    >>> int(as_generator(0).integers(10)) == int(as_generator(0).integers(10))
    True
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(random_state)


def check_int(value: Any, name: str, *, least: int = 1) -> int:
    """`value` as an int, if it is a whole number of at least `least`.

    >>> check_int(3, "size")
    3
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)


def positive(value: Any, name: str, *, zero: bool = False) -> float:
    """`value` as a float, if it is a finite number above (or at) zero.

    >>> positive(1, "noise")
    1.0
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)) or value < 0:
        raise ValueError(f"{name} must be a finite number {'>=' if zero else '>'} 0, got {value!r}")
    if value == 0 and not zero:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
    return float(value)
